"""The nodes of a GraphDef, as columns of texts.

    for nodes in read_nodes(data):        # data: a GraphDef, or any number of its fields
        nodes.name[7], nodes.inputs[7], nodes.attrs[7]["data_format"]
        shape(nodes.attrs[7].get("shape"))

Texts of values of attributes:

    type     float, int32; of a reference float_ref         shape    [2,-1]; [?] of unknown rank; -1: an unknown size
    text     NHWC, bytes that are not UTF-8 as \\xNN         list     [1, 2], of texts ["a", "b"]
    integer  3       number  0.5       flag  true            tensor   tensor float[2,3] 24 bytes
    function name, or name(attribute=value, ...)            a placeholder of a function's body: $name
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from fastprof.decode.attr_value import ValueTexts
from fastprof.inputs.message_columns import Buffer, MessageColumns, Owned, Spans, all_of, texts
from fastprof.schema.value_classes import dataclass

BATCH: Final = 1 << 13
"""Nodes that are read at once."""
_DOING: Final = "reading a GraphDef"
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
        """Those of these rows."""
        lists = (self.name, self.op, self.device, self.inputs, self.control_inputs, self.attrs)
        return Nodes(self.function, *([column[row] for row in rows] for column in lists))  # type: ignore[arg-type]


def read_nodes(data: Buffer) -> Iterator[Nodes]:
    """The nodes of a GraphDef, then those of the functions of its library, a few thousand at a time.

    ``data``: any number of the GraphDef's fields. CaptureError: it does not decode; the offset is one in ``data``.
    """
    graph, known = MessageColumns(data, all_of(data), _DOING), ValueTexts()
    yield from _batches(data, "", graph.each(_GRAPH_NODE).at, known)
    libraries = MessageColumns(data, graph.each(_GRAPH_LIBRARY).at, _DOING)
    functions = MessageColumns(data, libraries.each(_LIBRARY_FUNCTION).at, _DOING)
    signatures = MessageColumns(data, functions.spans(_FUNCTION_SIGNATURE), _DOING)
    names = texts(data, signatures.spans(_SIGNATURE_NAME))
    nodes = functions.each(_FUNCTION_NODE)
    ends = np.searchsorted(nodes.owner, np.arange(functions.count + 1)).tolist()
    for name, first, last in zip(names, ends, ends[1:], strict=False):
        yield from _batches(data, name, Spans(nodes.at.offset[first:last], nodes.at.length[first:last]), known)


def shape(text: str | None) -> list[int] | None:
    """The sizes of a shape, -1: unknown. None: unknown rank, or no shape."""
    if text is None or not text.startswith("[") or text == "[?]":
        return None
    return [int(size) for size in text[1:-1].split(",") if size]


def shapes(text: str | None) -> list[list[int] | None]:
    """Those of an attribute that is a list of shapes, as ``_output_shapes`` is."""
    return [shape(one) for one in listed_shapes(text)]


def listed_shapes(text: str | None) -> list[str]:
    """The texts of a list of shapes."""
    inner = text[1:-1] if text and text.startswith("[") else ""
    return inner.split(", ") if inner else []


def _batches(data: Buffer, function: str, at: Spans, known: ValueTexts) -> Iterator[Nodes]:
    for first in range(0, len(at.offset), BATCH):
        rows = slice(first, first + BATCH)
        yield _nodes(data, function, Spans(at.offset[rows], at.length[rows]), known)


def _nodes(data: Buffer, function: str, at: Spans, known: ValueTexts) -> Nodes:
    nodes = MessageColumns(data, at, _DOING)
    name, op, device = (texts(data, nodes.spans(number)) for number in (_NODE_NAME, _NODE_OP, _NODE_DEVICE))
    inputs: list[list[str]] = [[] for _ in name]
    controls: list[list[str]] = [[] for _ in name]
    every = nodes.each(_NODE_INPUT)
    for owner, one in zip(every.owner.tolist(), texts(data, every.at), strict=True):
        if one.startswith("^"):
            controls[owner].append(one[1:])
        else:
            inputs[owner].append(one)
    return Nodes(function, name, op, device, inputs, controls, _attrs(data, len(name), nodes.each(_NODE_ATTR), known))


def _attrs(data: Buffer, count: int, entries: Owned, known: ValueTexts) -> list[dict[str, str]]:
    found: list[dict[str, str]] = [{} for _ in range(count)]
    columns = MessageColumns(data, entries.at, _DOING)
    keys, values = texts(data, columns.spans(_KEY)), columns.spans(_VALUE)
    view = memoryview(data)
    places = zip(values.offset.tolist(), values.length.tolist(), strict=True)
    for owner, key, (offset, length) in zip(entries.owner.tolist(), keys, places, strict=True):
        found[owner][key] = known.of(view[offset : offset + max(length, 0)], offset)
    return found
