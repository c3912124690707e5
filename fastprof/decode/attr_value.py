"""Values of attributes of nodes as texts; ``graph_def`` lists the forms."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator, Mapping
from math import prod
from typing import Final

import numpy as np

from fastprof._native.messages import read_message
from fastprof.errors import CaptureError
from fastprof.schema.tensor_types import name_of, width_of

_DOING: Final = "reading a GraphDef"
_DEEPEST: Final = 64
"""Functions are values of attributes, and have attributes."""
Value = int | memoryview
Fields = Mapping[int, list[Value]]
_SHAPE, _FUNCTION, _LIST, _PLACEHOLDER = 7, 10, 1, 9
_FUNCTION_IN_LIST: Final = 9
_STRING, _STRING_VALUES = 7, 8


class ValueTexts:
    """Texts of values, those that are met often read once."""

    _LONGEST: Final = 256
    _MOST: Final = 1 << 16

    def __init__(self) -> None:
        self._known: dict[bytes, str] = {}

    def of(self, value: memoryview, at: int) -> str:
        """Of an AttrValue. CaptureError: it does not decode; its offset is ``at``, where the value lies."""
        try:
            if len(value) > self._LONGEST:
                return _text(value, 0)
            raw = bytes(value)
            text = self._known.get(raw)
            if text is None:
                if len(self._known) >= self._MOST:
                    self._known.clear()
                text = self._known[raw] = _text(value, 0)
            return text
        except CaptureError as fault:
            raise CaptureError(fault.message, offset=at) from None


def _fields(data: Value) -> Fields:
    return read_message(data, _DOING) if isinstance(data, memoryview) and len(data) else {}


def _text(value: Value, depth: int) -> str:
    fields = _fields(value)
    if not fields:
        return ""
    number = list(fields)[-1]  # one of them is set; of several the last counts
    one = fields[number][-1]
    if number == _LIST:
        return f"[{', '.join(_elements(_fields(one), depth))}]"
    if number == _FUNCTION:
        return _function(one, depth)
    if number == _PLACEHOLDER:
        return f"${_bytes(one)}"
    return _PLAIN[number](one) if number in _PLAIN else ""


def _elements(fields: Fields, depth: int) -> Iterator[str]:
    for number, values in fields.items():
        for value in values:
            if number == _FUNCTION_IN_LIST:
                yield _function(value, depth)
            elif number in _PACKED and isinstance(value, memoryview):
                yield from map(_PLAIN[number], _unpacked(value, _PACKED[number]))
            elif number == 2:
                yield json.dumps(_bytes(value), ensure_ascii=False)
            elif number in _PLAIN:
                yield _PLAIN[number](value)


def _function(value: Value, depth: int) -> str:
    if depth >= _DEEPEST:
        raise CaptureError(f"functions lie deeper than {_DEEPEST}, {_DOING}")
    fields = _fields(value)
    attrs = []
    for entry in fields.get(2, []):
        parts = _fields(entry)
        attrs.append(f"{_bytes(parts.get(1, [0])[-1])}={_text(parts.get(2, [0])[-1], depth + 1)}")
    name = _bytes(fields.get(1, [0])[-1])
    return f"{name}({', '.join(attrs)})" if attrs else name


def _bytes(value: Value) -> str:
    return "" if isinstance(value, int) else bytes(value).decode("utf-8", "backslashreplace")


def _signed(value: Value) -> int:
    if not isinstance(value, int):
        return 0
    return value - (1 << 64) if value >> 63 else value


def _float(value: Value) -> str:
    return str(np.float32(struct.unpack("<f", struct.pack("<I", _signed(value) & 0xFFFF_FFFF))[0]))


def _sizes(value: Value) -> list[int] | None:
    """None: of unknown rank."""
    fields = _fields(value)
    if _signed(fields.get(3, [0])[-1]):
        return None
    return [_signed(_fields(one).get(1, [0])[-1]) for one in fields.get(2, [])]


def _shape(value: Value) -> str:
    sizes = _sizes(value)
    return "[?]" if sizes is None else f"[{','.join(map(str, sizes))}]"


def _tensor(value: Value) -> str:
    """With the bytes of its elements; of texts, those that are recorded."""
    fields = _fields(value)
    kind = _signed(fields.get(1, [0])[-1])
    at: Value = fields.get(2, [0])[-1]
    sizes, width, size = _sizes(at), width_of(kind), ""
    if width and sizes is not None and all(one >= 0 for one in sizes):
        size = f" {prod(sizes) * width} bytes"
    elif kind == _STRING:
        size = f" {sum(len(one) for one in fields.get(_STRING_VALUES, []) if isinstance(one, memoryview))} bytes"
    return f"tensor {name_of(kind)}{_shape(at)}{size}"


_PLAIN: Final[Mapping[int, Callable[[Value], str]]] = {
    2: _bytes,
    3: lambda value: str(_signed(value)),
    4: _float,
    5: lambda value: "true" if _signed(value) else "false",
    6: lambda value: name_of(_signed(value)),
    _SHAPE: _shape,
    8: _tensor,
}
"""By field: of an AttrValue, and of a list of them."""
_PACKED: Final = {3: 0, 4: 4, 5: 0, 6: 0}
"""Fields of a list that may be packed, with the bytes of an element; 0: varints."""


def _unpacked(data: memoryview, width: int) -> Iterator[int]:
    raw = bytes(data)
    if width:
        yield from (int.from_bytes(raw[at : at + width], "little") for at in range(0, len(raw), width))
        return
    value = shift = 0
    for byte in raw:
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            yield value & (1 << 64) - 1
            value = shift = 0
    if shift:
        raise CaptureError(f"a number has no end, {_DOING}")
