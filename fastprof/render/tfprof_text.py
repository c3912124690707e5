"""The reports of tfprof's views, byte for byte as tfprof writes them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fastprof.derive.tfprof.forest import Ints
from fastprof.derive.tfprof.name_scopes import text_buffers
from fastprof.derive.tfprof.options import Options
from fastprof.derive.tfprof.recorded import FIGURES, Recorded, numbers, plain, texts
from fastprof.derive.tfprof.views import Shown
from fastprof.render.tfprof_amounts import amount, memory, time
from fastprof.render.tfprof_members import devices_of, summed, types_of
from fastprof.render.tfprof_op_text import op_lines
from fastprof.render.tfprof_words import head

_PIECE_BYTES = 1 << 24  # of text at a time: lines of deep rows are long
_FORMS: Final[dict[str, tuple[Callable[[int], str], str]]] = {
    "params": (amount, " params"),
    "float_ops": (amount, " flops"),
    **dict.fromkeys(("bytes", "peak_bytes", "residual_bytes", "output_bytes"), (memory, "")),
    **dict.fromkeys(("micros", "accelerator_micros", "cpu_micros"), (time, "")),
}
_BYTES: Final = ("bytes", "peak_bytes", "residual_bytes", "output_bytes")


def report(shown: Shown, view: str, recorded: Recorded, options: Options) -> Iterator[str]:
    """The text, in pieces, as the output to a file has it."""
    yield head(view, options.select)
    if view == "op":
        yield from op_lines(shown, recorded, options)
        return
    sizes = 2 * shown.forest.depth + numbers(pc.binary_length(shown.names)) + 40 * len(options.select)
    piece = np.cumsum(sizes) // _PIECE_BYTES
    bounds = np.r_[np.flatnonzero(np.r_[True, piece[1:] != piece[:-1]]), len(piece)]
    for begin, end in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        lines_of = _Lines(shown, slice(begin, end), recorded, options)
        yield text_buffers(lines_of.text())[1].tobytes().decode("utf-8", "replace")


class _Lines:
    """Some lines of a tree."""

    def __init__(self, shown: Shown, rows: slice, recorded: Recorded, options: Options) -> None:
        self._shown, self._rows, self._recorded = shown, rows, recorded
        self._select = options.select
        self._accounted = pa.array(shown.accounted[rows])
        self._size = len(shown.row[rows])

    def text(self) -> pa.Array:
        """Each line with its end."""
        depth = self._shown.forest.depth[self._rows]
        indents = _by_value(depth, lambda steps: "  " * steps)
        parts = list(self._of_nodes() if self._shown.node is not None else self._of_code())
        if not parts:
            return pc.binary_join_element_wise(indents, self._shown.names[self._rows], " ()\n", "")
        info = pc.utf8_slice_codeunits(pc.binary_join_element_wise(*parts, ""), 2)
        return pc.binary_join_element_wise(indents, self._shown.names[self._rows], " (", info, ")\n", "")

    def _of_nodes(self) -> Iterator[pa.Array]:
        node = self._shown.node
        assert node is not None
        node, nodes = node[self._rows], self._recorded
        if "params" in self._select:
            shapes = _joined_lists(nodes.nodes["shape"], node, "x")
            yield _unless_empty(shapes)
            yield _also(self._pairs("params"))
        for name in ("float_ops", *_BYTES):
            if name in self._select:
                yield _also(self._pairs(name))
        for name in summed(self._select):
            yield _also(self._pairs(name))
        if "device" in self._select:
            yield _unless_empty(_of_node(nodes.devices, node, ""))
        if "op_types" in self._select:
            yield _also(_types(nodes, node, self._shown.parent_type))
        if "occurrence" in self._select:
            runs = self._pairs("run_count", amount)
            yield _also(pc.binary_join_element_wise(runs, self._pairs("definition_count", amount), "|"))
        if "input_shapes" in self._select:
            yield _also(_of_node(_input_shapes(nodes, node), np.arange(len(node)), ""))

    def _of_code(self) -> Iterator[pa.Array]:
        for name in _BYTES:
            if name in self._select:
                yield _also(self._pairs(name))
        for name in (*summed(self._select), "params", "float_ops"):
            if name in (*summed(self._select), *self._select):
                yield _also(self._pairs(name))
        if "device" in self._select or "op_types" in self._select:
            devices, types = _of_groups(self._shown, self._rows, self._recorded)
            if "device" in self._select:
                yield devices
            if "op_types" in self._select:
                yield _also(types)
        for name in ("occurrence", "input_shapes"):
            if name in self._select:
                yield _also(pa.array([f"{name} N/A in code view"] * self._size))

    def _pairs(self, name: str, form: Callable[[int], str] | None = None) -> pa.Array:
        """``self/total unit``; ``--`` for self where it is not accounted."""
        spell, unit = (form, "") if form is not None else _FORMS[name]
        assert spell is not None
        place = FIGURES.index(name)
        own = _by_value(self._shown.figures[place, self._rows], spell)
        total = _by_value(self._shown.totals[place, self._rows], lambda value: spell(value) + unit)
        return pc.binary_join_element_wise(pc.if_else(self._accounted, own, "--"), total, "/")


def _by_value(values: Ints, spell: Callable[[int], str]) -> pa.Array:
    """The texts of numbers, each different one spelt once."""
    encoded = pa.array(values).dictionary_encode()
    spelt = pa.array([spell(value) for value in encoded.dictionary.to_pylist()], pa.string())
    return spelt.take(encoded.indices)


def _also(parts: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise(", ", parts, "")


def _unless_empty(parts: pa.Array) -> pa.Array:
    return pc.if_else(pc.equal(parts, ""), "", _also(parts))


def _of_node(values: pa.Array, node: Ints, other: str) -> pa.Array:
    """The value of each node; ``other`` for -1."""
    return pc.fill_null(values.take(pa.array(node, mask=node < 0)), other)


def _joined_lists(column: pa.ChunkedArray, node: Ints, between: str) -> pa.Array:
    """Lists of numbers as text, such as ``3x3``; empty for null and for -1."""
    lists = plain(column).take(pa.array(node, mask=node < 0))
    words = pa.ListArray.from_arrays(*_whole_lists(lists, lambda values: values.cast(pa.string())))
    return pc.binary_join(words, between)


def _whole_lists(lists: pa.Array, change: Callable[[pa.Array], pa.Array]) -> tuple[pa.Array, pa.Array]:
    """Offsets and changed values of lists, null as empty."""
    lengths = numbers(pc.fill_null(pc.list_value_length(lists), 0))
    return pa.array(np.r_[0, np.cumsum(lengths)].astype(np.int32)), change(pc.list_flatten(lists))


def _types(nodes: Recorded, node: Ints, other: str) -> pa.Array:
    """The types of each node, without the empty one, in the order of their bytes."""
    lists = plain(nodes.nodes["types"]).take(pa.array(node, mask=node < 0))
    spelt = pc.binary_join(pa.ListArray.from_arrays(*_whole_lists(lists, texts)), "|")
    if pc.any(pc.starts_with(spelt, "|")).as_py():
        spelt = pc.replace_substring_regex(spelt, r"\A\|", "")
    return pc.if_else(pa.array(node < 0), other, spelt)


def _input_shapes(nodes: Recorded, node: Ints) -> pa.Array:
    """``0:32x64|1:unknown`` of each node."""
    different, which = np.unique(node, return_inverse=True)
    lists = nodes.input_shapes.take(pa.array(different, mask=different < 0))
    each = pc.list_flatten(lists)
    shapes = _joined_lists(pa.chunked_array([each.field("shape")]), np.arange(len(each)), "x")
    spelt = pc.binary_join_element_wise(
        each.field("slot").cast(pa.string()), pc.if_else(pc.equal(shapes, ""), "unknown", shapes), ":"
    )
    offsets, _ = _whole_lists(lists, lambda values: values)
    return pc.binary_join(pa.ListArray.from_arrays(offsets, spelt), "|").take(pa.array(which))


def _of_groups(shown: Shown, rows: slice, recorded: Recorded) -> tuple[pa.Array, pa.Array]:
    """The devices, with a comma before if there are nodes, and the types of all nodes of each row."""
    devices, types = [], []
    for place in range(*rows.indices(len(shown.row))):
        nodes = shown.members(place)
        devices.append(f", {'|'.join(devices_of(recorded, nodes))}" if len(nodes) else "")
        types.append("|".join(types_of(recorded, nodes)))
    return pa.array(devices, pa.string()), pa.array(types, pa.string())
