"""The nodes of a GraphDef as columns of text, and the values of their attributes as text."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from math import prod
from typing import Final

import numpy as np

from fastprof.errors import CaptureError
from fastprof.inputs.message import Message, Value
from fastprof.inputs.message_columns import Buffer, ByteSpans, MessageColumns, Owned, decode_texts, make_whole_span
from fastprof.schema.message_fields import get_tensor_type_bytes, get_tensor_type_name
from fastprof.schema.value_classes import dataclass

_DOING: Final = "reading a GraphDef"
_DEEPEST: Final = 64
"""Functions are values of attributes, and have attributes."""
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
        """Return the text of an AttrValue. CaptureError: it does not decode; its offset is ``at``, where the value
        lies."""
        try:
            if len(value) > self._LONGEST:
                return _format_attr(value, 0)
            raw = bytes(value)
            text = self._known.get(raw)
            if text is None:
                if len(self._known) >= self._MOST:
                    self._known.clear()
                text = self._known[raw] = _format_attr(value, 0)
            return text
        except CaptureError as fault:
            raise CaptureError(fault.message, offset=at) from None


class _GraphMessage(Message):
    DOING = _DOING
    __slots__ = ()


def _read_message(data: Value) -> Message:
    return _GraphMessage(data if isinstance(data, memoryview) else memoryview(b""))


def _format_attr(value: Value, depth: int) -> str:
    message = _read_message(value)
    if not message.numbers():
        return ""
    number = message.numbers()[-1]  # one of them is set; of several the last counts
    values = message.values(number)
    last = values[-1] if values else 0
    if number == _LIST:
        return f"[{', '.join(_format_elements(_read_message(last), depth))}]"
    if number == _FUNCTION:
        return _format_function(last, depth)
    if number == _PLACEHOLDER:
        return f"${_format_bytes(last)}"
    return _PLAIN[number](last) if number in _PLAIN else ""


def _format_elements(message: Message, depth: int) -> Iterator[str]:
    for number in message.numbers():
        for value in message.values(number):
            if number == _FUNCTION_IN_LIST:
                yield _format_function(value, depth)
            elif number in _PACKED and isinstance(value, memoryview):
                yield from map(_PLAIN[number], _unpack_numbers(value, _PACKED[number]))
            elif number == 2:
                yield json.dumps(_format_bytes(value), ensure_ascii=False)
            elif number in _PLAIN:
                yield _PLAIN[number](value)


def _format_function(value: Value, depth: int) -> str:
    if depth >= _DEEPEST:
        raise CaptureError(f"functions lie deeper than {_DEEPEST}, {_DOING}")
    message = _read_message(value)
    attrs = []
    for entry in map(_read_message, message.values(2)):
        attrs.append(f"{_format_bytes(entry.data(1))}={_format_attr(entry.data(2), depth + 1)}")
    name = _format_bytes(message.data(1))
    return f"{name}({', '.join(attrs)})" if attrs else name


def _format_bytes(value: Value) -> str:
    return "" if isinstance(value, int) else bytes(value).decode("utf-8", "backslashreplace")


def _make_signed(value: Value) -> int:
    if not isinstance(value, int):
        return 0
    return value - (1 << 64) if value >> 63 else value


def _format_float(value: Value) -> str:
    return str(np.float32(struct.unpack("<f", struct.pack("<I", _make_signed(value) & 0xFFFF_FFFF))[0]))


def _read_sizes(value: Value) -> list[int] | None:
    """None: of unknown rank."""
    shape = _read_message(value)
    return None if shape.flag(3) else [size.integer(1) for size in map(_read_message, shape.values(2))]


def _format_shape(value: Value) -> str:
    sizes = _read_sizes(value)
    return "[?]" if sizes is None else f"[{','.join(map(str, sizes))}]"


def _format_tensor(value: Value) -> str:
    """Format a tensor with the bytes of its elements; of texts, of those that are recorded."""
    tensor = _read_message(value)
    kind, at = tensor.integer(1), tensor.data(2)
    sizes, width, size = _read_sizes(at), get_tensor_type_bytes(kind), ""
    if width and sizes is not None and all(dimension >= 0 for dimension in sizes):
        size = f" {prod(sizes) * width} bytes"
    elif kind == _STRING:
        size = f" {sum(map(len, tensor.parts(_STRING_VALUES)))} bytes"
    return f"tensor {get_tensor_type_name(kind)}{_format_shape(at)}{size}"


_PLAIN: Final[Mapping[int, Callable[[Value], str]]] = {
    2: _format_bytes,
    3: lambda value: str(_make_signed(value)),
    4: _format_float,
    5: lambda value: "true" if _make_signed(value) else "false",
    6: lambda value: get_tensor_type_name(_make_signed(value)),
    _SHAPE: _format_shape,
    8: _format_tensor,
}
"""The format of each field of an AttrValue, and of a list of them."""
_PACKED: Final = {3: 0, 4: 4, 5: 0, 6: 0}
"""Fields of a list that may be packed, with the bytes of an element; 0: varints."""


def _unpack_numbers(data: memoryview, width: int) -> Iterator[int]:
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


BATCH: Final = 1 << 13
"""Nodes that are read at once."""
_GRAPH_NODE, _GRAPH_LIBRARY = 1, 2
_LIBRARY_FUNCTION, _FUNCTION_SIGNATURE, _FUNCTION_NODE, _SIGNATURE_NAME = 1, 1, 3, 1
_NODE_NAME, _NODE_OP, _NODE_INPUT, _NODE_DEVICE, _NODE_ATTR = 1, 2, 3, 4, 5
_KEY, _VALUE = 1, 2


@dataclass(frozen=True, slots=True)
class Nodes:
    """Some nodes of a graph, in order. ``function``: the function of the graph's library that they are in, "" if none.

    ``inputs``: ``n``, or ``n:k`` of output k; ``control_inputs``: nodes that run before; ``attrs``: texts by name.
    """

    function: str
    name: list[str]
    op: list[str]
    device: list[str]
    inputs: list[list[str]]
    control_inputs: list[list[str]]
    attrs: list[dict[str, str]]

    def __len__(self) -> int:
        return len(self.name)

    def taken(self, rows: Sequence[int]) -> Nodes:
        """Return the nodes of these rows."""
        lists = (self.name, self.op, self.device, self.inputs, self.control_inputs, self.attrs)
        return Nodes(self.function, *([column[row] for row in rows] for column in lists))  # type: ignore[arg-type]


_NodeColumns = tuple[list[str], list[str], list[str], list[list[str]], list[list[str]], list[dict[str, str]]]


def read_nodes(data: Buffer) -> Iterator[Nodes]:
    """Yield the nodes of a GraphDef, then those of the functions of its library, a few thousand at a time.

    ``data``: any number of the GraphDef's fields. CaptureError: it does not decode; the offset is one in ``data``.
    """
    graph, known = MessageColumns(data, make_whole_span(data), _DOING), ValueTexts()
    for nodes in _read_batches(data, graph.each(_GRAPH_NODE).at, known):
        yield Nodes("", *nodes)
    libraries = MessageColumns(data, graph.each(_GRAPH_LIBRARY).at, _DOING)
    functions = MessageColumns(data, libraries.each(_LIBRARY_FUNCTION).at, _DOING)
    signatures = MessageColumns(data, functions.spans(_FUNCTION_SIGNATURE), _DOING)
    names = decode_texts(data, signatures.spans(_SIGNATURE_NAME))
    inner, first = functions.each(_FUNCTION_NODE), 0
    for nodes in _read_batches(data, inner.at, known):
        owner = inner.owner[first : first + len(nodes[0])]
        ends = [0, *(np.flatnonzero(np.diff(owner)) + 1).tolist(), len(owner)]
        for begin, end in pairwise(ends):
            yield Nodes(names[int(owner[begin])], *(column[begin:end] for column in nodes))  # type: ignore[arg-type]
        first += len(owner)


def parse_shape(text: str | None) -> list[int] | None:
    """Return the sizes of a shape, -1: unknown. None: unknown rank, or no shape."""
    if text is None or not text.startswith("[") or text == "[?]":
        return None
    return [int(size) for size in text[1:-1].split(",") if size]


def parse_shapes(text: str | None) -> list[list[int] | None]:
    """Parse an attribute that is a list of shapes, as ``_output_shapes`` is."""
    return [parse_shape(shape) for shape in split_shapes(text)]


def split_shapes(text: str | None) -> list[str]:
    """Return the texts of a list of shapes."""
    inner = text[1:-1] if text and text.startswith("[") else ""
    return inner.split(", ") if inner else []


def _read_batches(data: Buffer, at: ByteSpans, known: ValueTexts) -> Iterator[_NodeColumns]:
    """Yield the columns of ``Nodes`` but the function, of several functions at once."""
    for first in range(0, len(at.offset), BATCH):
        rows = slice(first, first + BATCH)
        yield _read_node_columns(data, ByteSpans(at.offset[rows], at.length[rows]), known)


def _read_node_columns(data: Buffer, at: ByteSpans, known: ValueTexts) -> _NodeColumns:
    nodes = MessageColumns(data, at, _DOING)
    name, op, device = (decode_texts(data, nodes.spans(number)) for number in (_NODE_NAME, _NODE_OP, _NODE_DEVICE))
    inputs: list[list[str]] = [[] for _ in name]
    controls: list[list[str]] = [[] for _ in name]
    every = nodes.each(_NODE_INPUT)
    for owner, text in zip(every.owner.tolist(), decode_texts(data, every.at), strict=True):
        if text.startswith("^"):
            controls[owner].append(text[1:])
        else:
            inputs[owner].append(text)
    return name, op, device, inputs, controls, _read_attrs(data, len(name), nodes.each(_NODE_ATTR), known)


def _read_attrs(data: Buffer, count: int, entries: Owned, known: ValueTexts) -> list[dict[str, str]]:
    attributes: list[dict[str, str]] = [{} for _ in range(count)]
    columns = MessageColumns(data, entries.at, _DOING)
    keys, values = decode_texts(data, columns.spans(_KEY)), columns.spans(_VALUE)
    view = memoryview(data)
    places = zip(values.offset.tolist(), values.length.tolist(), strict=True)
    for owner, key, (offset, length) in zip(entries.owner.tolist(), keys, places, strict=True):
        attributes[owner][key] = known.of(view[offset : offset + max(length, 0)], offset)
    return attributes
