"""GraphDef in the text form of protobufs, ``graph.pbtxt``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from fastprof.errors import CaptureError
from fastprof.inputs.formats.contract import KeepingScribe, Remark
from fastprof.inputs.formats.step_planes import environment
from fastprof.inputs.formats.text_proto import DOUBLE, FLOAT, INT, TEXT, Fields, Kind, as_bytes, numbered
from fastprof.inputs.formats.usual_nodes import UsualNodes
from fastprof.inputs.graph_planes import GraphPlanes
from fastprof.inputs.message_bytes import BadMessageError
from fastprof.wording.patterns import pattern_of

NAME: Final = "graph_def_text"
_SHAPE: Final[Fields] = {"dim": (2, {"size": (1, INT), "name": (2, TEXT)}), "unknown_rank": (3, INT)}
_TENSOR: Final[Fields] = {
    "dtype": (1, INT), "tensor_shape": (2, _SHAPE), "version_number": (3, INT), "tensor_content": (4, TEXT),
    "float_val": (5, FLOAT), "double_val": (6, DOUBLE), "int_val": (7, INT), "string_val": (8, TEXT),
    "scomplex_val": (9, FLOAT), "int64_val": (10, INT), "bool_val": (11, INT), "dcomplex_val": (12, DOUBLE),
    "half_val": (13, INT), "uint32_val": (16, INT), "uint64_val": (17, INT),
}  # fmt: skip
_VALUE: Final[dict[str, tuple[int, Kind]]] = {
    "s": (2, TEXT), "i": (3, INT), "f": (4, FLOAT), "b": (5, INT), "type": (6, INT), "shape": (7, _SHAPE),
    "tensor": (8, _TENSOR),
}  # fmt: skip
_ATTR: Final[Fields] = {"key": (1, TEXT), "value": (2, _VALUE)}
_FUNCTION: Final[Fields] = {"name": (1, TEXT), "attr": (2, _ATTR)}
_VALUE.update({"list": (1, dict(_VALUE) | {"func": (9, _FUNCTION)}), "placeholder": (9, TEXT), "func": (10, _FUNCTION)})
NODE: Final[Fields] = {
    "name": (1, TEXT), "op": (2, TEXT), "input": (3, TEXT), "device": (4, TEXT), "attr": (5, _ATTR),
}  # fmt: skip
_LIBRARY: Final[Fields] = {"function": (1, {"signature": (1, {"name": (1, TEXT)}), "node_def": (3, NODE)})}
GRAPH: Final[Fields] = {
    "node": (1, NODE), "library": (2, _LIBRARY), "version": (3, INT),
    "versions": (4, numbered(1, "producer", "min_consumer")),
}  # fmt: skip

_BEGINS: Final = pattern_of(rb"(?:\s|#[^\n]*\n)*(?:node|library|versions)\s*:?\s*[{<]|(?:\s|#[^\n]*\n)*version\s*:")


def begins(head: bytes) -> bool:
    return _BEGINS.match(head) is not None


def scribe(path: str, salvage: bool) -> Scribe:
    return Scribe(path, salvage)


class Scribe(KeepingScribe):
    """Of the text, all nodes are read at the end."""

    def finish(self) -> Iterator[bytes]:
        graphs = GraphPlanes()
        graphs.begin("graph", 0)
        try:
            for node in as_bytes(bytes(self.document), GRAPH, UsualNodes(NODE).read):
                if made := graphs.push(node):
                    yield made
        except BadMessageError as fault:
            if not self._salvage:
                raise CaptureError(f"{fault.text}, reading a GraphDef", path=self._path, offset=fault.at) from None
            self.remarks.append(Remark("data_loss", "truncated", f"the rest is not read: {fault.text}", 1, fault.at))
        yield graphs.end()
        yield environment("TensorFlow 1 GraphDef", 0)
