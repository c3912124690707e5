"""Nodes of a GraphDef that stand as ``text_format`` writes them, which takes a tenth of the time of reading tokens.

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

from typing import Final

from fastprof.inputs.formats.text_proto import Fields, as_bytes
from fastprof.inputs.message_bytes import BadMessageError
from fastprof.schema.message_fields import put
from fastprof.wording.patterns import pattern_of

_NODE, _NAME, _OP, _INPUT, _DEVICE = 1, 1, 2, 3, 4
_BEGINS: Final = pattern_of(
    rb'\s*node \{\n  name: "([^"\\\n]*)"\n  op: "([^"\\\n]*)"\n'
    rb'((?:  input: "[^"\\\n]*"\n)*+)(?:  device: "([^"\\\n]*)"\n)?'
)
_INPUTS: Final = pattern_of(rb'"([^"\n]*)"')
_ATTR, _ATTR_ENDS = b"  attr {\n", b"\n  }\n"
_SPACES: Final = b" \t\r\n\f\v"
_LONGEST: Final = 4 << 10
"""Bytes of an attr that is kept."""
_MOST: Final = 8 << 20
"""Bytes of them together."""


class UsualNodes:
    """``fields``: those of a node."""

    def __init__(self, fields: Fields) -> None:
        self._fields = fields
        self._known: dict[bytes, bytes] = {}
        self._size = 0

    def read(self, text: bytes, at: int) -> tuple[bytes, int] | None:
        """The node that begins there as a field of a GraphDef, and where it ends; None: it is none of these."""
        match = _BEGINS.match(text, at)
        if match is None:
            return None
        name, op, inputs, device = match.groups()
        parts = [put(_NAME, name), put(_OP, op)]
        parts += [put(_INPUT, one) for one in _INPUTS.findall(inputs)]
        if device is not None:
            parts.append(put(_DEVICE, device))
        at = match.end()
        while text.startswith(_ATTR, at):
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
            attr = b"".join(as_bytes(block, self._fields))
        except BadMessageError:
            return b""
        if len(block) <= _LONGEST:
            self._size += len(block) + len(attr)
            if self._size > _MOST:
                self._known, self._size = {}, 0
            self._known[block] = attr
        return attr
