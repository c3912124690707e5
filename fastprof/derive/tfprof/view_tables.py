"""Views as tables: a row of the view each, with its own figures and its sums, complete and unrounded."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fastprof.derive.tfprof.forest import Ints
from fastprof.derive.tfprof.recorded import BEYOND, FIGURES, RecordedGraph, get_numbers, get_plain, get_texts
from fastprof.derive.tfprof.views import VisibleTree
from fastprof.schema.columns import find_group_bounds, number_owners
from fastprof.schema.tables import Bytes, Column, Count, Flag, Kind, Number, Picoseconds, String, TableSchema

_Microseconds: Final = Kind(pa.int64(), "us")
EXACT_TIMES: Final = ("time_ps", "accelerator_ps", "cpu_ps")
_TIMES: Final = len(EXACT_TIMES)
_Names: Final = Kind(pa.list_(pa.string()))
_CAPTURE: Final = "null: not recorded, in a capture"
_PER_MICRO: Final = 10**6
_MOST_MICROS: Final = (2**63 - 1) // _PER_MICRO
_MEANINGS: Final = {
    "micros": (_Microseconds, "time on accelerators and on the host"),
    "accelerator_micros": (_Microseconds, "time on accelerators"),
    "cpu_micros": (_Microseconds, "time on the host, which runs nodes, or launches them"),
    "bytes": (Bytes, f"memory that runs requested; {_CAPTURE}"),
    "peak_bytes": (Bytes, f"most memory that runs held at once; {_CAPTURE}"),
    "residual_bytes": (Bytes, f"memory that runs did not give back; {_CAPTURE}"),
    "output_bytes": (Bytes, f"memory of outputs; {_CAPTURE}"),
    "params": (Count, f"parameters: elements of variables; {_CAPTURE}"),
    "float_ops": (Count, "floating-point operations; null: unknown, in a capture"),
    "run_count": (Count, "runs"),
    "definition_count": (Count, "nodes of the graph"),
}


@dataclass(frozen=True)
class _Rows:
    """Source of the columns of a view."""

    shown: VisibleTree
    recorded: RecordedGraph

    @cached_property
    def parent(self) -> pa.Array:
        parent = self.shown.forest.parent
        return pa.array(parent, mask=parent < 0)

    @cached_property
    def pairs(self) -> tuple[Ints, Ints]:
        """Each accounted node of each row: the row's place, and the node."""
        if self.shown.node is not None:
            places = np.flatnonzero(self.shown.node >= 0)
            return places, self.shown.node[places]
        members = [self.shown.members(place) for place in range(len(self.shown.row))]
        lengths = [len(nodes) for nodes in members]
        return number_owners(lengths), np.concatenate([*members, self.shown.row[:0]])

    def distinct(self, values: pa.Array, owner: Ints) -> pa.Array:
        """Return the different strings of each row, in the order of their bytes."""
        encoded = values.dictionary_encode()
        order = np.asarray(pc.rank(encoded.dictionary, tiebreaker="first")).astype(np.int64) - 1
        words = encoded.dictionary.take(pc.sort_indices(encoded.dictionary))
        texts_of = max(1, len(words))
        row, text = np.divmod(np.unique(owner * texts_of + order[get_numbers(encoded.indices)]), texts_of)
        offsets = find_group_bounds(row, len(self.shown.row)).astype(np.int32)
        return pa.ListArray.from_arrays(pa.array(offsets), words.take(pa.array(text)))

    def devices(self) -> pa.Array:
        places, nodes = self.pairs
        owner, devices = self.recorded.devices_of(nodes)
        return self.distinct(devices, places[owner])

    def types(self) -> pa.Array:
        places, nodes = self.pairs
        lists = get_plain(self.recorded.nodes["types"]).take(pa.array(nodes))
        return self.distinct(get_texts(pc.list_flatten(lists)), places[get_numbers(pc.list_parent_indices(lists))])

    def of_node(self, values: pa.Array) -> pa.Array:
        node = self.shown.node
        assert node is not None
        return values.take(pa.array(node, mask=node < 0))

    def figure(self, name: str, total: bool) -> Ints | pa.Array:
        """Return a row of FIGURES; null if a capture does not have it."""
        values = (self.shown.totals if total else self.shown.figures)[FIGURES.index(name)]
        if not self.recorded.is_capture:
            return values
        if name in self.recorded.unknown:
            return pa.nulls(len(values), pa.int64())
        return self._if_known(values, name, total) if name == "float_ops" else values

    def picoseconds(self, place: int, total: bool) -> Ints | pa.Array:
        if self.shown.beyond is not None:
            return self._beyond(place, total)
        return _convert_to_ps((self.shown.totals if total else self.shown.figures)[place])

    def accessed_bytes(self, total: bool) -> pa.Array:
        if self.shown.beyond is None:
            return pa.nulls(len(self.shown.row), pa.int64())
        return self._if_known(self._beyond(_TIMES + BEYOND.index("accessed_bytes"), total), "accessed_bytes", total)

    def intensity(self, total: bool) -> pa.Array:
        moved = self.accessed_bytes(total)
        return (
            _divide(self.figure("float_ops", total), moved)
            if moved.null_count < len(moved)
            else (pa.nulls(len(moved), pa.float64()))
        )

    def of_capture(self, name: str) -> pa.Array:
        """Return a string of each node; null for a scope, and in profiles of tfprof."""
        values = getattr(self.recorded, name, None)
        return pa.nulls(len(self.shown.row), pa.string()) if values is None else self.of_node(values)

    def _if_known(self, values: Ints, name: str, total: bool) -> pa.Array:
        return pa.array(values, mask=self._beyond(_TIMES + BEYOND.index(f"{name}_known"), total) == 0)

    def _beyond(self, place: int, total: bool) -> Ints:
        assert self.shown.beyond is not None
        figures = self.shown.beyond.totals if total else self.shown.beyond.own
        values: Ints = figures[place, self.shown.row]
        return values


def _convert_to_ps(micros: Ints) -> pa.Array:
    """Convert microseconds to picoseconds; null beyond 64 bits."""
    fits = np.abs(micros) <= _MOST_MICROS
    return pa.array(np.where(fits, micros, 0) * _PER_MICRO, mask=~fits)


def _divide(amount: Ints | pa.Array, by: pa.Array) -> pa.Array:
    """Null if either is unknown, or ``by`` is 0."""
    return pc.divide(
        pc.cast(pa.array(amount), pa.float64()),
        pc.replace_with_mask(
            pc.cast(by, pa.float64()), pc.fill_null(pc.equal(by, 0), False), pa.scalar(None, pa.float64())
        ),
    )


def _add_scope(meaning: str, rows: str) -> str:
    what, semicolon, why = meaning.partition("; ")
    return f"{what}, {rows}{semicolon}{why}"


def _make_both(kind: Kind, name: str, meaning: str, of: Callable[[Any, bool], Any]) -> tuple[Column, Column]:
    """Return a column of rows themselves, and one with the rows below."""
    return (
        kind(name, _add_scope(meaning, "without the rows below"), lambda rows: of(rows, False)),
        kind(f"total_{name}", _add_scope(meaning, "with the rows below"), lambda rows: of(rows, True)),
    )


def _make_figure(name: str) -> tuple[Column, Column]:
    kind, meaning = _MEANINGS[name]
    return _make_both(kind, name, meaning, lambda rows, total: rows.figure(name, total))


def _make_times(name: str, place: int) -> tuple[Column, Column]:
    meaning = f"{_MEANINGS[FIGURES[place]][1]}; null: more than 64 bits count"
    return _make_both(Picoseconds, name, meaning, lambda rows, total: rows.picoseconds(place, total))


_EXACT: Final = (
    *(column for place, name in enumerate(EXACT_TIMES) for column in _make_times(name, place)),
    *_make_both(Bytes, "accessed_bytes", "bytes that runs read and wrote; null: unknown, as in profiles of tfprof",
           lambda rows, total: rows.accessed_bytes(total)),
    *_make_both(Number, "flops_per_byte", "float_ops / accessed_bytes; null: either is unknown, or there are no bytes",
           lambda rows, total: rows.intensity(total)),
)  # fmt: skip


_PLACE: Final = (
    Count("row", "row number, in the order of the view; 0: the root", lambda rows: range(len(rows.shown.row))),
    Count("parent", "row that this one is below; null: the root", lambda rows: rows.parent),
    Count("depth", "rows above", lambda rows: rows.shown.forest.depth),
    String("name", "name of the row; ops and lines of code are only unique below their parent",
           lambda rows: rows.shown.names),
    Flag("is_accounted", "whether the row itself is accounted, not only rows below it",
         lambda rows: rows.shown.accounted),
)  # fmt: skip
_MEMBERS: Final = (
    _Names("devices", "devices of the accounted nodes", lambda rows: rows.devices()),
    _Names("types", "types of the accounted nodes", lambda rows: rows.types()),
)
_FIGURE_COLUMNS: Final = tuple(column for name in FIGURES[:9] for column in _make_figure(name))

NODES: Final = TableSchema("tfprof_view", "a node, or a scope of names, of a view", (
    *_PLACE,
    *_FIGURE_COLUMNS,
    *_make_figure("run_count"),
    _make_figure("definition_count")[1],
    *_MEMBERS,
    Kind(pa.list_(pa.int64()))("shape", "shape by its attribute, with -1 for unknown sizes; null: not recorded",
                               lambda rows: rows.of_node(get_plain(rows.recorded.nodes["shape"]))),
    Kind(pa.list_(pa.struct([("slot", pa.int32()), ("shape", pa.list_(pa.int64()))])))(
        "input_shapes", "shapes of the outputs that it takes, by number of the input, empty: unknown; null: a scope",
        lambda rows: rows.of_node(rows.recorded.input_shapes)),
    *_EXACT,
    String("bound_by", "resource that the op used closest to its peak: Compute, HBM, or a TPU memory and a direction; "
           "null: a scope, its work or the peaks of the device are unknown, or a profile of tfprof",
           lambda rows: rows.of_capture("bound_by")),
    String("source", "file:line of the code of the op; null: a scope, not recorded, or a profile of tfprof, whose "
           "view code has it", lambda rows: rows.of_capture("sources")),
), derived=True)  # fmt: skip

LINES: Final = TableSchema("tfprof_view", "an op, or a line of code, of a view", (
    *_PLACE,
    *_FIGURE_COLUMNS,
    _make_figure("run_count")[0],
    _make_figure("definition_count")[0],
    *_MEMBERS,
    *_EXACT,
), derived=True)  # fmt: skip


def make_view_table(shown: VisibleTree, recorded: RecordedGraph, columns: Sequence[str] | None = None) -> pa.Table:
    """Return the rows of a view. Sums of the op view are of a row and all after it. ``columns``: only these;
    KeyError."""
    schema = get_view_schema(shown)
    if columns is not None:
        schema = dataclasses.replace(schema, columns=tuple(schema[name] for name in columns))
    return schema.of(_Rows(shown, recorded))


def get_view_schema(shown: VisibleTree) -> TableSchema:
    return LINES if shown.node is None else NODES


@dataclass(frozen=True)
class _Members:
    row: Ints
    node: Ints
    recorded: RecordedGraph
    figures: Ints

    def own(self, name: str) -> Ints | pa.Array:
        values: Ints = self.figures[FIGURES.index(name), self.node]
        if not self.recorded.is_capture:
            return values
        if name in self.recorded.unknown:
            return pa.nulls(len(values), pa.int64())
        return self.beyond("float_ops") if name == "float_ops" else values

    def picoseconds(self, place: int) -> Ints | pa.Array:
        if self.recorded.is_capture:
            return self.recorded.ticks(-1)[place, self.node]
        return _convert_to_ps(self.figures[place, self.node])

    def beyond(self, name: str) -> pa.Array:
        """Return a figure that may be unknown."""
        if not self.recorded.is_capture:
            return pa.nulls(len(self.node), pa.int64())
        ticks, rows = self.recorded.ticks(-1)[:, self.node], self.recorded.rows
        return pa.array(ticks[rows.index(name)], mask=ticks[rows.index(f"{name}_known")] == 0)

    def of_capture(self, name: str) -> pa.Array:
        values = getattr(self.recorded, name, None)
        return pa.nulls(len(self.node), pa.string()) if values is None else values.take(pa.array(self.node))


def _make_member(name: str) -> Column:
    kind, meaning = _MEANINGS[name]
    return kind(name, meaning, lambda members: members.own(name))


def _make_member_ps(name: str, place: int) -> Column:
    meaning = f"{_MEANINGS[FIGURES[place]][1]}; null: more than 64 bits count"
    return Picoseconds(name, meaning, lambda members: members.picoseconds(place))


MEMBERS: Final = TableSchema("tfprof_view_nodes", "an accounted node of a row of a view", (
    Count("row", "row of the view", lambda members: members.row),
    String("name", "node name", lambda members: members.recorded.names.take(pa.array(members.node))),
    *(_make_member(name) for name in FIGURES[:10]),
    *(_make_member_ps(name, place) for place, name in enumerate(EXACT_TIMES)),
    Bytes("accessed_bytes", "bytes that runs read and wrote; null: unknown, as in profiles of tfprof",
          lambda members: members.beyond("accessed_bytes")),
    String("bound_by", "as in the view; null: as there", lambda members: members.of_capture("bound_by")),
    String("source", "as in the view; null: as there", lambda members: members.of_capture("sources")),
), derived=True)  # fmt: skip


def make_member_table(shown: VisibleTree, recorded: RecordedGraph, step: int) -> pa.Table:
    """Return the nodes that are accounted in each row."""
    places, nodes = _Rows(shown, recorded).pairs
    return MEMBERS.of(_Members(places, nodes, recorded, recorded.figures(step)))
