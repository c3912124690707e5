"""RunMetadata of TensorFlow 1: the statistics of one run of a graph, as a protobuf."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from fastprof.errors import CaptureError
from fastprof.inputs.formats.contract import FormatRemark, KeepingScribe
from fastprof.inputs.message import BadMessageError, Field, get_message, read_fields, read_sound_fields

if TYPE_CHECKING:
    from fastprof.inputs.formats.step_planes import GraphPlanes, StepPlanes
    from fastprof.inputs.formats.step_stats import DeviceStats, HeldStats

NAME: Final = "run_metadata"
_STEP_STATS, _PARTITIONS, _FUNCTIONS = 1, 3, 4
_OF_FUNCTION: Final = {1: "function partition", 2: "before optimization", 3: "after optimization"}


def begins(head: bytes) -> bool:
    """Return whether the bytes begin with statistics of a device: messages in messages, then its name. The first
    message in an XSpace begins with an integer or with the name of a plane."""
    at = 0
    for _ in range(3):
        if head[at : at + 1] != b"\n":
            return False
        at += 1
        while at < len(head) and head[at] & 0x80:
            at += 1
        at += 1
    return head[at : at + 1] == b"/"


def scribe(path: str, salvage: bool) -> RunScribe:
    return RunScribe(path, salvage)


class RunScribe(KeepingScribe):
    """The document that it keeps is about as large as what is made of it."""

    def finish(self) -> Iterator[bytes]:
        from fastprof.inputs.formats.step_planes import GraphPlanes, StepPlanes  # late, as most captures are none
        from fastprof.inputs.formats.step_stats import HeldStats

        planes, graphs = StepPlanes(), GraphPlanes()
        try:
            run = RecordedRun(self.message(), 0, self._salvage, HeldStats())
            planes.add(run.devices, 0)
            yield from run.graphs(graphs)
            yield from planes.xspace("TensorFlow 1 RunMetadata")
        except (BadMessageError, CaptureError) as fault:
            raise place_fault(fault, self._path) from None
        self.remarks.extend((*run.remarks, *make_remarks(planes, graphs)))

    def message(self) -> bytes | bytearray:
        """Return the bytes of the RunMetadata."""
        return self.document


class RecordedRun:
    """A RunMetadata, which begins at ``base`` in the file. BadMessageError: it is damaged; CaptureError: nodes are,
    with their offset in the file. To salvage, what is damaged is left out; ``remarks`` say so.
    ``held``: memory budget of the file."""

    def __init__(self, data: bytes | bytearray, base: int, salvage: bool, held: HeldStats) -> None:
        self.remarks: list[FormatRemark] = []
        self.devices: list[DeviceStats] = []
        self._graphs: list[tuple[str, Field]] = []
        self._data, self._base, self._salvage, self._held = data, base, salvage, held
        self._check()
        try:
            self._read()
        except CaptureError as fault:
            raise CaptureError(fault.message, offset=base + (fault.offset or 0)) from None
        except BadMessageError as fault:
            raise BadMessageError(fault.text, base + fault.at) from None

    def _read(self) -> None:
        from fastprof.inputs.formats.step_stats import read_devices

        data, salvage = self._data, self._salvage
        for field in read_sound_fields(memoryview(data), 0, salvage):
            if field.number == _STEP_STATS:
                self.devices += read_devices(field, data, self._base, salvage, self._held)
            elif field.number == _PARTITIONS:
                self._graphs.append(("partition", field))
            elif field.number == _FUNCTIONS:
                parts = read_sound_fields(get_message(field.value), field.at, salvage)
                self._graphs += [(_OF_FUNCTION[part.number], part) for part in parts if part.number in _OF_FUNCTION]

    def _check(self) -> None:
        """Note a fault of the message itself."""
        try:
            for _ in read_fields(memoryview(self._data)):
                continue
        except BadMessageError as fault:
            if not self._salvage:
                raise BadMessageError(fault.text, self._base + fault.at) from None
            text = f"the rest is not read: {fault.text}"
            self.remarks.append(FormatRemark("data_loss", "truncated", text, 1, self._base + fault.at))

    def graphs(self, planes: GraphPlanes) -> Iterator[bytes]:
        """Yield the graphs that it recorded, as planes of an XSpace."""
        for kind, graph in self._graphs:
            yield from planes.graph(kind, get_message(graph.value), self._base + graph.at, self._salvage)


def place_fault(fault: BadMessageError | CaptureError, path: str) -> CaptureError:
    """Return the fault as an error about the file."""
    if isinstance(fault, CaptureError):
        return CaptureError(fault.message, path=path, offset=fault.offset)
    from fastprof.inputs.formats.step_stats import DOING

    return CaptureError(f"{fault.text}, {DOING}", path=path, offset=fault.at)


def make_remarks(planes: StepPlanes, graphs: GraphPlanes) -> Iterator[FormatRemark]:
    if planes.untimed:
        yield FormatRemark("notice", "bad_time", "nodes without a time of their own are left out", planes.untimed, None)
    if planes.lost:
        yield FormatRemark("data_loss", "bad_node", "nodes that do not decode are left out", planes.lost, None)
    if graphs.faults:
        first = graphs.faults[0]
        text = f"the rest of a graph is not read: {first.text}"
        yield FormatRemark("data_loss", "truncated", text, len(graphs.faults), first.at)
