"""Event files of TensorFlow (``events.out.tfevents.…``): the RunMetadata that summary writers put into them.

A record is a length, its checksum, the data and their checksum. Each RunMetadata is one run; of several with one tag
the last counts.

    | length 8 | crc 4 | an Event                                                | crc 4 |
                         wall_time, step, tagged_run_metadata {tag, run_metadata}
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from fastprof.errors import CaptureError
from fastprof.inputs.formats.contract import Remark
from fastprof.inputs.formats.run_metadata import read_into, remarks_on
from fastprof.inputs.formats.step_planes import StepPlanes
from fastprof.inputs.formats.step_stats import Device
from fastprof.inputs.message_bytes import BadMessageError, Field, fields, message, signed, text

NAME: Final = "event_file"
_LENGTH, _CHECKSUM = 8, 4
_VERSION: Final = b"brain.Event:"
_STEP, _TAGGED = 2, 8


def begins(head: bytes) -> bool:
    """Whether the first record is an Event with the version of the file."""
    length = int.from_bytes(head[:_LENGTH], "little")
    begin = _LENGTH + _CHECKSUM
    return len(head) > begin and length < 1 << 16 and _VERSION in head[begin : begin + length]


def scribe(path: str, salvage: bool) -> Scribe:
    return Scribe(path, salvage)


class Scribe:
    """Reads records as they come, and keeps those with RunMetadata."""

    def __init__(self, path: str, salvage: bool) -> None:
        self.remarks: list[Remark] = []
        self._path = path
        self._salvage = salvage
        self._bytes = bytearray()
        self._base = 0
        self._ended = False
        self._wanted = _LENGTH + _CHECKSUM
        self._runs: dict[str, tuple[int, list[Device]]] = {}

    def push(self, chunk: bytes) -> bytes | None:
        if not self._ended:
            self._bytes += chunk
            if len(self._bytes) >= self._wanted:
                self._read()
        return None

    def finish(self) -> Iterator[bytes]:
        if self._bytes and not self._ended:
            self._end("the file ends in a record", self._base)
        if not self._runs and not self._salvage:
            text_ = "this event file has no RunMetadata: summaries alone are no profile"
            raise CaptureError(f"reading an event file: {text_}", path=self._path, offset=0)
        planes = StepPlanes()
        for number, devices in sorted(self._runs.values(), key=lambda run: run[0]):
            planes.add(devices, number)
        yield from planes.xspace("TensorFlow 1 event file")
        self.remarks.extend(remarks_on(planes))

    def close(self) -> None:
        self._bytes.clear()
        self._runs.clear()

    # ---- records

    def _read(self) -> None:
        """All records that have come. One with a wrong checksum ends the file, as it does for TensorFlow."""
        at, data, self._wanted = 0, bytes(self._bytes), _LENGTH + _CHECKSUM
        while len(data) - at >= _LENGTH + _CHECKSUM:
            length = int.from_bytes(data[at : at + _LENGTH], "little")
            begin = at + _LENGTH + _CHECKSUM
            if not _is_sound(data[at : at + _LENGTH], data[at + _LENGTH : begin]):
                self._end("the length of a record does not fit its checksum", self._base + at)
                break
            after = begin + length + _CHECKSUM
            if after > len(data):
                self._wanted = after - at
                break
            record = data[begin : begin + length]
            if not _is_sound(record, data[begin + length : after]):
                self._end("a record does not fit its checksum", self._base + at)
                break
            self._take(record, self._base + begin)
            at = after
        del self._bytes[:at]
        self._base += at

    def _end(self, what: str, at: int) -> None:
        self._ended = True
        self._bytes.clear()
        self.remarks.append(Remark("data_loss", "truncated", f"the rest of the file is not read: {what}", 1, at))

    def _take(self, record: bytes, begin: int) -> None:
        try:
            step, tagged = 0, None
            for one in fields(memoryview(record), begin):
                if one.number == _STEP:
                    step = signed(one.value)
                elif one.number == _TAGGED:
                    tagged = one
            if tagged is not None:
                self._add(tagged, step)
        except BadMessageError as fault:
            if not self._salvage:
                what = f"reading RunMetadata in an event file: {fault.text}"
                raise CaptureError(what, path=self._path, offset=fault.at) from None
            self.remarks.append(Remark("data_loss", "bad_record", f"a record is left out: {fault.text}", 1, fault.at))

    def _add(self, tagged: Field, step: int) -> None:
        tag, found = "", list[Device]()
        for one in fields(message(tagged.value), tagged.at):
            if one.number == 1:
                tag = text(one.value)
            elif one.number == 2:
                read_into(found, message(one.value), one.at)
        self._runs[tag] = (_number_of(tag, step), found)


def _number_of(tag: str, step: int) -> int:
    """The number at the end of the tag, else the step of the event."""
    digits = tag[len(tag.rstrip("0123456789")) :][-18:]
    return int(digits) if digits.isascii() and digits else step


def _is_sound(data: bytes, checksum: bytes) -> bool:
    """Checksums are masked: those of data that hold checksums would be weak."""
    from fastprof._native.riegeli import crc32c

    found = crc32c(data)
    masked = ((found >> 15 | found << 17) + 0xA282EAD8) & 0xFFFFFFFF
    return masked == int.from_bytes(checksum, "little")
