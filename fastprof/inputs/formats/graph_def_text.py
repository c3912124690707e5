"""GraphDef in the text form of protobufs, ``graph.pbtxt``. Nodes that stand as ``text_format`` writes them take a tenth
of the time of reading tokens.

    node {
      name: "a"            one regular expression: no text has an escape
      op: "MatMul"
      input: "b"
      attr {               read as tokens the first time; most are equal to one that came before
        key: "T"
        ...
      }
    }

An attr ends at the first line that closes it: if that is not its end, its tokens do not fit, and the node is not
read here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from fastprof.errors import CaptureError
from fastprof.inputs.formats.contract import FormatRemark, KeepingScribe
from fastprof.inputs.message import (
    DOUBLE,
    FLOAT,
    INT,
    TEXT,
    BadMessageError,
    TextFields,
    TextKind,
    encode_text_proto,
    number_fields,
)
from fastprof.schema.message_fields import put
from fastprof.wording.patterns import compile_late

_NODE, _NAME, _OP, _INPUT, _DEVICE = 1, 1, 2, 3, 4
_NODE_BEGINS: Final = compile_late(
    rb'\s*node \{\n  name: "([^"\\\n]*)"\n  op: "([^"\\\n]*)"\n'
    rb'((?:  input: "[^"\\\n]*"\n)*+)(?:  device: "([^"\\\n]*)"\n)?'
)
_INPUTS: Final = compile_late(rb'"([^"\n]*)"')
_USUAL_ATTR, _ATTR_ENDS = b"  attr {\n", b"\n  }\n"
_SPACES: Final = b" \t\r\n\f\v"
_LONGEST: Final = 4 << 10
"""Bytes of an attr that is kept."""
_MOST: Final = 8 << 20
"""Bytes of them together."""


class FastNodeText:
    """``fields``: those of a node."""

    def __init__(self, fields: TextFields) -> None:
        self._fields = fields
        self._known: dict[bytes, bytes] = {}
        self._size = 0

    def read(self, text: bytes, at: int) -> tuple[bytes, int] | None:
        """Return the node that begins there as a field of a GraphDef, and where it ends; None: it is none of these."""
        match = _NODE_BEGINS.match(text, at)
        if match is None:
            return None
        name, op, inputs, device = match.groups()
        parts = [put(_NAME, name), put(_OP, op)]
        parts += [put(_INPUT, name) for name in _INPUTS.findall(inputs)]
        if device is not None:
            parts.append(put(_DEVICE, device))
        at = match.end()
        while text.startswith(_USUAL_ATTR, at):
            end = text.find(_ATTR_ENDS, at) + len(_ATTR_ENDS)
            block = text[at:end]
            attr = self._known.get(block) or self._attr(block)
            if not attr:
                return None
            parts.append(attr)
            at = end
        if text[at : at + 1] != b"}" or text[at + 1 : at + 2] not in _SPACES:
            return None
        return put(_NODE, b"".join(parts)), at + 1

    def _attr(self, block: bytes) -> bytes:
        """Empty: the text is damaged."""
        try:
            attr = b"".join(encode_text_proto(block, self._fields))
        except BadMessageError:
            return b""
        if len(block) <= _LONGEST:
            self._size += len(block) + len(attr)
            if self._size > _MOST:
                self._known, self._size = {}, 0
            self._known[block] = attr
        return attr


NAME: Final = "graph_def_text"
_SHAPE: Final[TextFields] = {"dim": (2, {"size": (1, INT), "name": (2, TEXT)}), "unknown_rank": (3, INT)}
_TENSOR: Final[TextFields] = {
    "dtype": (1, INT), "tensor_shape": (2, _SHAPE), "version_number": (3, INT), "tensor_content": (4, TEXT),
    "float_val": (5, FLOAT), "double_val": (6, DOUBLE), "int_val": (7, INT), "string_val": (8, TEXT),
    "scomplex_val": (9, FLOAT), "int64_val": (10, INT), "bool_val": (11, INT), "dcomplex_val": (12, DOUBLE),
    "half_val": (13, INT), "uint32_val": (16, INT), "uint64_val": (17, INT),
}  # fmt: skip
_VALUE: Final[dict[str, tuple[int, TextKind]]] = {
    "s": (2, TEXT), "i": (3, INT), "f": (4, FLOAT), "b": (5, INT), "type": (6, INT), "shape": (7, _SHAPE),
    "tensor": (8, _TENSOR),
}  # fmt: skip
_ATTR: Final[TextFields] = {"key": (1, TEXT), "value": (2, _VALUE)}
_FUNCTION: Final[TextFields] = {"name": (1, TEXT), "attr": (2, _ATTR)}
_VALUE.update({"list": (1, dict(_VALUE) | {"func": (9, _FUNCTION)}), "placeholder": (9, TEXT), "func": (10, _FUNCTION)})
NODE: Final[TextFields] = {
    "name": (1, TEXT), "op": (2, TEXT), "input": (3, TEXT), "device": (4, TEXT), "attr": (5, _ATTR),
}  # fmt: skip
_LIBRARY: Final[TextFields] = {"function": (1, {"signature": (1, {"name": (1, TEXT)}), "node_def": (3, NODE)})}
GRAPH: Final[TextFields] = {
    "node": (1, NODE), "library": (2, _LIBRARY), "version": (3, INT),
    "versions": (4, number_fields(1, "producer", "min_consumer")),
}  # fmt: skip

_BEGINS: Final = compile_late(rb"(?:\s|#[^\n]*\n)*(?:node|library|versions)\s*:?\s*[{<]|(?:\s|#[^\n]*\n)*version\s*:")


def begins(head: bytes) -> bool:
    return _BEGINS.match(head) is not None


def scribe(path: str, salvage: bool) -> GraphTextScribe:
    return GraphTextScribe(path, salvage)


class GraphTextScribe(KeepingScribe):
    """Transcribes a graph; all nodes are read at the end."""

    def finish(self) -> Iterator[bytes]:
        from fastprof.inputs.formats.step_planes import GraphPlanes, make_environment  # late, as most captures are none

        graphs = GraphPlanes()
        graphs.begin("graph", 0)
        try:
            for node in encode_text_proto(bytes(self.document), GRAPH, FastNodeText(NODE).read):
                if made := graphs.push(node):
                    yield made
        except BadMessageError as fault:
            if not self._salvage:
                raise CaptureError(f"{fault.text}, reading a GraphDef", path=self._path, offset=fault.at) from None
            self.remarks.append(
                FormatRemark("data_loss", "truncated", f"the rest is not read: {fault.text}", 1, fault.at)
            )
        yield graphs.end()
        yield make_environment("TensorFlow 1 GraphDef", 0)
