"""RunMetadata of TensorFlow 1: the statistics of one run of a graph, as a protobuf."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from fastprof.errors import CaptureError
from fastprof.inputs.formats.contract import Remark
from fastprof.inputs.formats.step_planes import StepPlanes
from fastprof.inputs.formats.step_stats import Device, devices
from fastprof.inputs.message_bytes import BadMessageError, fields

NAME: Final = "run_metadata"
_STEP_STATS: Final = 1


def begins(head: bytes) -> bool:
    """Whether the bytes begin with statistics of a device: messages in messages, then its name. The first message in an
    XSpace begins with an integer or with the name of a plane."""
    at = 0
    for _ in range(3):
        if head[at : at + 1] != b"\n":
            return False
        at += 1
        while at < len(head) and head[at] & 0x80:
            at += 1
        at += 1
    return head[at : at + 1] == b"/"


def scribe(path: str, salvage: bool) -> Scribe:
    return Scribe(path, salvage)


class Scribe:
    """Keeps the document until all of it has come: it is about as large as what is made of it."""

    def __init__(self, path: str, salvage: bool) -> None:
        self.remarks: list[Remark] = []
        self._path = path
        self._salvage = salvage
        self.document = bytearray()

    def push(self, chunk: bytes) -> bytes | None:
        self.document += chunk
        return None

    def finish(self) -> Iterator[bytes]:
        planes = StepPlanes()
        found: list[Device] = []
        try:
            for part in self.message():
                read_into(found, memoryview(part), 0)
        except BadMessageError as fault:
            if not self._salvage:
                raise CaptureError(f"reading RunMetadata: {fault.text}", path=self._path, offset=fault.at) from None
            self.remarks.append(Remark("data_loss", "truncated", f"the rest is not read: {fault.text}", 1, fault.at))
        planes.add(found, 0)
        yield from planes.xspace("TensorFlow 1 RunMetadata")
        self.remarks.extend(remarks_on(planes))

    def message(self) -> Iterator[bytes]:
        """The fields of the message, in one or more parts."""
        yield bytes(self.document)

    def close(self) -> None:
        self.document.clear()


def read_into(found: list[Device], data: memoryview, begin: int) -> None:
    """Adds the devices of a RunMetadata, which begins there in the file. BadMessageError: it is damaged; what comes
    before the fault is there."""
    for one in fields(data, begin):
        if one.number == _STEP_STATS:
            found.extend(devices(one))


def remarks_on(planes: StepPlanes) -> Iterator[Remark]:
    if planes.skipped:
        yield Remark("notice", "bad_time", "nodes without a time of their own are left out", planes.skipped, None)
