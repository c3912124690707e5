"""Views as tables: a row of the view each, with its own figures and its sums, complete and unrounded."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fastprof.derive.tfprof.forest import Ints
from fastprof.derive.tfprof.recorded import FIGURES, Recorded, numbers, plain, texts
from fastprof.derive.tfprof.views import Shown
from fastprof.schema.column_kinds import Bytes, Count, Flag, Kind, String
from fastprof.schema.tables import Column, TableSchema

_Microseconds: Final = Kind(pa.int64(), "us")
_Names: Final = Kind(pa.list_(pa.string()))
_MEANINGS: Final = {
    "micros": (_Microseconds, "time on accelerators and on the host"),
    "accelerator_micros": (_Microseconds, "time on accelerators"),
    "cpu_micros": (_Microseconds, "time on the host, which runs nodes, or launches them"),
    "bytes": (Bytes, "memory that runs requested"),
    "peak_bytes": (Bytes, "most memory that runs held at once"),
    "residual_bytes": (Bytes, "memory that runs did not give back"),
    "output_bytes": (Bytes, "memory of outputs"),
    "params": (Count, "parameters: elements of variables"),
    "float_ops": (Count, "floating-point operations"),
    "run_count": (Count, "runs"),
    "definition_count": (Count, "nodes of the graph"),
}


@dataclass(frozen=True)
class _Rows:
    """What the columns of a view are made of."""

    shown: Shown
    recorded: Recorded

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
        return np.repeat(np.arange(len(members)), lengths), np.concatenate([*members, self.shown.row[:0]])

    def distinct(self, values: pa.Array, owner: Ints) -> pa.Array:
        """The different texts of each row, in the order of their bytes."""
        encoded = values.dictionary_encode()
        order = np.asarray(pc.rank(encoded.dictionary, tiebreaker="first")).astype(np.int64) - 1
        words = encoded.dictionary.take(pc.sort_indices(encoded.dictionary))
        pairs = (
            np.unique(np.stack([owner, order[numbers(encoded.indices)]]), axis=1)
            if len(values)
            else np.zeros((2, 0), np.int64)
        )
        offsets = np.searchsorted(pairs[0], np.arange(len(self.shown.row) + 1)).astype(np.int32)
        return pa.ListArray.from_arrays(pa.array(offsets), words.take(pa.array(pairs[1])))

    def devices(self) -> pa.Array:
        places, nodes = self.pairs
        devices = self.recorded.devices.take(pa.array(nodes))
        known = np.asarray(pc.not_equal(devices, ""), np.bool_) if len(nodes) else np.zeros(0, np.bool_)
        return self.distinct(devices.filter(pa.array(known)), places[known])

    def types(self) -> pa.Array:
        places, nodes = self.pairs
        lists = plain(self.recorded.nodes["types"]).take(pa.array(nodes))
        return self.distinct(texts(pc.list_flatten(lists)), places[numbers(pc.list_parent_indices(lists))])

    def of_node(self, values: pa.Array) -> pa.Array:
        node = self.shown.node
        assert node is not None
        return values.take(pa.array(node, mask=node < 0))


def _own(name: str) -> Column:
    kind, meaning = _MEANINGS[name]
    place = FIGURES.index(name)
    return kind(name, f"{meaning}, without the rows below", lambda rows: rows.shown.figures[place])


def _sum(name: str) -> Column:
    kind, meaning = _MEANINGS[name]
    place = FIGURES.index(name)
    return kind(f"total_{name}", f"{meaning}, with the rows below", lambda rows: rows.shown.totals[place])


_PLACE: Final = (
    Count("row", "number of the row, in the order of the view; 0: the root", lambda rows: range(len(rows.shown.row))),
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
_FIGURE_COLUMNS: Final = tuple(column for name in FIGURES[:9] for column in (_own(name), _sum(name)))

NODES: Final = TableSchema("tfprof_view", "a node, or a scope of names, of a view", (
    *_PLACE,
    *_FIGURE_COLUMNS,
    _own("run_count"),
    _sum("run_count"),
    _sum("definition_count"),
    *_MEMBERS,
    Kind(pa.list_(pa.int64()))("shape", "shape by its attribute, -1: unknown size; null: not recorded",
                               lambda rows: rows.of_node(plain(rows.recorded.nodes["shape"]))),
    Kind(pa.list_(pa.struct([("slot", pa.int32()), ("shape", pa.list_(pa.int64()))])))(
        "input_shapes", "shapes of the outputs that it takes, by number of the input, empty: unknown; null: a scope",
        lambda rows: rows.of_node(rows.recorded.input_shapes)),
), derived=True)  # fmt: skip

LINES: Final = TableSchema("tfprof_view", "an op, or a line of code, of a view", (
    *_PLACE,
    *_FIGURE_COLUMNS,
    _own("run_count"),
    _own("definition_count"),
    *_MEMBERS,
), derived=True)  # fmt: skip


def view_table(shown: Shown, recorded: Recorded) -> pa.Table:
    """The rows of a view. Sums of the op view are of a row and all after it."""
    return (LINES if shown.node is None else NODES).of(_Rows(shown, recorded))


@dataclass(frozen=True)
class _Members:
    row: Ints
    node: Ints
    recorded: Recorded
    figures: Ints

    def own(self, name: str) -> Ints:
        values: Ints = self.figures[FIGURES.index(name), self.node]
        return values


def _member(name: str) -> Column:
    kind, meaning = _MEANINGS[name]
    return kind(name, meaning, lambda members: members.own(name))


MEMBERS: Final = TableSchema("tfprof_view_nodes", "an accounted node of a row of a view", (
    Count("row", "row of the view", lambda members: members.row),
    String("name", "name of the node", lambda members: members.recorded.names.take(pa.array(members.node))),
    *(_member(name) for name in FIGURES[:10]),
), derived=True)  # fmt: skip


def member_table(shown: Shown, recorded: Recorded, step: int) -> pa.Table:
    """The nodes that are accounted in each row."""
    places, nodes = _Rows(shown, recorded).pairs
    return MEMBERS.of(_Members(places, nodes, recorded, recorded.figures(step)))
