"""GraphDef of TensorFlow: a graph without a run of it, as a protobuf."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from fastprof.errors import CaptureError
from fastprof.inputs.formats.contract import FormatRemark, PlainScribe
from fastprof.inputs.message import BadMessageError, decode_text, get_message, read_sound_fields
from fastprof.wording.patterns import compile_late

NAME: Final = "graph_def"
_NODE, _LIBRARY, _VERSION, _VERSIONS = 1, 2, 3, 4
_NAME, _OP, _INPUT, _DEVICE, _ATTR = 1, 2, 3, 4, 5
_OF_NODE: Final = range(1, 8)
_OP_NAME: Final = compile_late(r"[A-Za-z_>][\w.>/-]*")


def begins(head: bytes) -> bool:
    """Return whether the first node has the name of an op. An HloProto begins so too, but with messages for inputs."""
    for field in read_sound_fields(memoryview(head), 0, salvage=True):
        if field.number == _NODE:
            return _is_node(get_message(field.value))
        if field.number not in (_LIBRARY, _VERSION, _VERSIONS):
            return False
    return False


def _is_node(node: memoryview) -> bool:
    """Return whether all fields, as far as they are there, are those of a node. In place of its name an XPlane has its
    id."""
    name = op = ""
    for field in read_sound_fields(node, 0, salvage=True):
        if field.number not in _OF_NODE or isinstance(field.value, int):
            return False
        if field.number in (_NAME, _INPUT, _DEVICE) and any(byte < 32 for byte in bytes(field.value[:256])):
            return False
        name = decode_text(field.value) if field.number == _NAME else name
        op = decode_text(field.value) if field.number == _OP else op
    return name != "" and _OP_NAME.fullmatch(op) is not None


def scribe(path: str, salvage: bool) -> GraphScribe:
    return GraphScribe(path, salvage)


class GraphScribe(PlainScribe):
    """Hands nodes on as they come."""

    def __init__(self, path: str, salvage: bool) -> None:
        from fastprof.inputs.formats.step_planes import GraphPlanes  # late, as most captures are none

        self.remarks: list[FormatRemark] = []
        self._path = path
        self._salvage = salvage
        self._graphs = GraphPlanes()
        self._graphs.begin("graph", 0)
        self._ended = False

    def push(self, chunk: bytes) -> bytes | None:
        if self._ended:
            return None
        try:
            return self._graphs.push(chunk)
        except BadMessageError as fault:
            self._end(fault)
            return None

    def finish(self) -> Iterator[bytes]:
        from fastprof.inputs.formats.step_planes import make_environment

        if not self._ended:
            try:
                self._graphs.check_end()
            except BadMessageError as fault:
                self._end(fault)
        yield self._graphs.end()
        yield make_environment("TensorFlow 1 GraphDef", 0)

    def close(self) -> None:
        pass

    def _end(self, fault: BadMessageError) -> None:
        if not self._salvage:
            raise CaptureError(f"reading a GraphDef: {fault.text}", path=self._path, offset=fault.at) from None
        self._ended = True
        self.remarks.append(FormatRemark("data_loss", "truncated", f"the rest is not read: {fault.text}", 1, fault.at))
