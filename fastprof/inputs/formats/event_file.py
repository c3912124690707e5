"""Event files of TensorFlow (``events.out.tfevents.…``): the RunMetadata and graphs that summary writers put into them.

A record is a length, its checksum, the data and their checksum. Each RunMetadata is one run; of several with one tag
the last counts.

    | length 8 | crc 4 | an Event                                                | crc 4 |
                         wall_time, step, tagged_run_metadata {tag, run_metadata}
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from fastprof.errors import CaptureError
from fastprof.inputs.formats.contract import FormatRemark, PlainScribe
from fastprof.inputs.formats.run_metadata import RecordedRun, make_remarks, place_fault
from fastprof.inputs.message import BadMessageError, Field, decode_signed, decode_text, get_message, read_fields

NAME: Final = "event_file"
_LENGTH, _CHECKSUM = 8, 4
_VERSION: Final = b"brain.Event:"
_STEP, _GRAPH, _TAGGED, _META_GRAPH = 2, 4, 8, 9
_OF_META_GRAPH: Final = 2


def begins(head: bytes) -> bool:
    """Return whether the first record is an Event with the version of the file."""
    length = int.from_bytes(head[:_LENGTH], "little")
    begin = _LENGTH + _CHECKSUM
    return len(head) > begin and length < 1 << 16 and _VERSION in head[begin : begin + length]


def scribe(path: str, salvage: bool) -> EventFileScribe:
    return EventFileScribe(path, salvage)


class EventFileScribe(PlainScribe):
    """Reads records as they come, and keeps those with RunMetadata."""

    def __init__(self, path: str, salvage: bool) -> None:
        from fastprof.inputs.formats.step_planes import GraphPlanes  # late, as most captures are none

        self.remarks: list[FormatRemark] = []
        self._path = path
        self._salvage = salvage
        self._bytes = bytearray()
        self._base = 0
        self._ended = False
        self._wanted = _LENGTH + _CHECKSUM
        self._runs: dict[str, _Tagged] = {}
        self._graphs = GraphPlanes()
        self._ready: list[bytes] = []

    def push(self, chunk: bytes) -> bytes | None:
        if self._ended:
            return None
        self._bytes += chunk
        if len(self._bytes) >= self._wanted:
            self._read()
        ready = b"".join(self._ready)
        self._ready.clear()
        return ready

    def finish(self) -> Iterator[bytes]:
        if self._bytes and not self._ended:
            self._end("the file ends in a record", self._base)
        if not self._runs and not self._graphs.count and not self._salvage:
            text_ = "this event file has neither RunMetadata nor a graph: summaries alone are no profile"
            raise CaptureError(f"reading an event file: {text_}", path=self._path, offset=0)
        from fastprof.inputs.formats.step_planes import StepPlanes
        from fastprof.inputs.formats.step_stats import HeldStats

        planes, runs, held = StepPlanes(), list[RecordedRun](), HeldStats()
        try:
            for event in sorted(self._runs.values(), key=lambda event: event.number):
                runs.append(RecordedRun(event.data, event.at, self._salvage, held))
                planes.add(runs[-1].devices, event.number)
            for run in runs:
                yield from run.graphs(self._graphs)
            yield from planes.xspace("TensorFlow 1 event file")
        except (BadMessageError, CaptureError) as fault:
            raise place_fault(fault, self._path) from None
        self.remarks.extend((*(remark for run in runs for remark in run.remarks), *make_remarks(planes, self._graphs)))

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
        self.remarks.append(FormatRemark("data_loss", "truncated", f"the rest of the file is not read: {what}", 1, at))

    def _take(self, record: bytes, begin: int) -> None:
        try:
            step, tagged = 0, None
            for field in read_fields(memoryview(record), begin):
                if field.number == _STEP:
                    step = decode_signed(field.value)
                elif field.number == _TAGGED:
                    tagged = field
                elif field.number == _GRAPH:
                    self._ready += self._graphs.graph("graph", get_message(field.value), field.at, self._salvage)
                elif field.number == _META_GRAPH:
                    for part in read_fields(get_message(field.value), field.at):
                        if part.number == _OF_META_GRAPH:
                            graph = get_message(part.value)
                            self._ready += self._graphs.graph("meta graph", graph, part.at, self._salvage)
            if tagged is not None:
                self._add(tagged, step)
        except BadMessageError as fault:
            if not self._salvage:
                what = f"{fault.text}, reading an event file"
                raise CaptureError(what, path=self._path, offset=fault.at) from None
            self.remarks.append(
                FormatRemark("data_loss", "bad_record", f"a record is left out: {fault.text}", 1, fault.at)
            )

    def _add(self, tagged: Field, step: int) -> None:
        tag, run, at = "", b"", tagged.at
        for field in read_fields(get_message(tagged.value), tagged.at):
            if field.number == 1:
                tag = decode_text(field.value)
            elif field.number == 2:
                run, at = bytes(get_message(field.value)), field.at
        digits = tag[len(tag.rstrip("0123456789")) :][-18:]
        self._runs[tag] = _Tagged(int(digits) if digits.isascii() and digits else step, run, at)


class _Tagged(NamedTuple):
    """A RunMetadata, which begins there in the file, and the number of its step."""

    number: int
    data: bytes
    at: int


def _is_sound(data: bytes, checksum: bytes) -> bool:
    """Checksums are masked: those of data that hold checksums would be weak."""
    from fastprof._native.riegeli import crc32c

    sum_ = crc32c(data)
    masked = ((sum_ >> 15 | sum_ << 17) + 0xA282EAD8) & 0xFFFFFFFF
    return masked == int.from_bytes(checksum, "little")
