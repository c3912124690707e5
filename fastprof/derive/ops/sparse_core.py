"""Ops of SparseCores that run on behalf of an op of a TensorCore.

The op's events and the SparseCore's module events carry the same key: stats offload_core_id and tc_offload_start_id.
What runs within such a module belongs to the op.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fastprof.derive.devices.device_events import OpEvents, device_spans, op_events
from fastprof.derive.ops.combine import merged
from fastprof.derive.ops.stat_values import stat_beside
from fastprof.derive.ops.tables import TEXT_COLUMNS, MemoryAccess, Ops, OpTable, least_by, sums_by
from fastprof.derive.ops.tpu import plane_table
from fastprof.schema.array_types import Float64s, Int32s, Int64s
from fastprof.schema.value_classes import dataclass
from fastprof.tables.host_events import HostEvents, Plane

MODULE_LINE = "Sparse Core Modules"
_Key = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Offloaded:
    """Events of a SparseCore within modules that have a key: the row of each one's op, and the number of its key.
    ``module_ps``: the time of the modules of each key, by its number."""

    table: OpTable
    op: Int64s
    key: Int64s
    duration_ps: Int64s
    self_ps: Int64s
    module_ps: dict[int, int]


class SparseCores:
    """What the SparseCores of a host ran on behalf of ops of its TensorCores."""

    def __init__(self, events: HostEvents) -> None:
        self._events = events
        self._numbers: dict[_Key, int] = {}
        parts = [self._offloaded(plane) for plane in events.planes_of("SPARSECORE")]
        self._parts = [part for part in parts if len(part.op)]

    def children_of(self, planes: Sequence[Plane], ops: Sequence[Ops]) -> list[Ops]:
        """The ops of TensorCores, with those that SparseCores ran on their behalf as children."""
        if not self._parts:
            return list(ops)
        return [self._with_children(plane, one) for plane, one in zip(planes, ops, strict=True)]

    # ---- rules, which XProf's count differs in

    def module_of(self, found: OpEvents, begin: Int64s, end: Int64s) -> Int64s:
        """The module that each event lies within, the last that begins no later than it; -1: none. ``begin``, ``end``:
        those of modules."""
        order = np.argsort(begin, kind="stable")
        return lies_within(found, begin, end, order, np.searchsorted(begin[order], found.start_ps, side="right") - 1)

    def self_ps(self, found: OpEvents) -> Int64s:
        """Of each event."""
        return found.self_ps

    def counted(self, op: Int32s) -> Int32s:
        """The occurrences of ops of a TensorCore that have children: the op of each event; -1: none."""
        return op

    def more_children(self, _part: Offloaded, _parent_of_key: Int64s) -> list[tuple[OpTable, Int64s]]:
        """Children that are not ops, and the parent of each."""
        return []

    # ----

    def _keys(self, first: int, last: int) -> tuple[Int64s, list[_Key]]:
        """The rows of a range that have both stats of a key, and their keys."""
        core_rows, cores = self._events.ints("offload_core_id")
        start_rows, starts = self._events.ints("tc_offload_start_id")
        rows, i, j = np.intersect1d(core_rows, start_rows, assume_unique=True, return_indices=True)
        inside = (rows >= first) & (rows < last)
        keys = list(zip(cores[i][inside].tolist(), starts[j][inside].tolist(), strict=True))
        return rows[inside].astype(np.int64), keys

    def _offloaded(self, plane: Plane) -> Offloaded:
        """What a SparseCore ran within modules that have a key; new keys are numbered on."""
        found = op_events(self._events, plane)
        table, op = plane_table(self._events, plane)
        key = np.full(len(found), -1, np.int64)
        module_ps: Counter[int] = Counter()
        for line in plane.lines:
            rows, keys = self._keys(line.first, line.last)
            if line.name == MODULE_LINE and len(rows):
                begin, duration = device_spans(self._events, line.first, line.last)
                begin, duration = begin[rows - line.first], duration[rows - line.first]
                numbers = [self._numbers.setdefault(one, len(self._numbers)) for one in keys]
                inside = self.module_of(found, begin, begin + duration)
                key = np.where(inside >= 0, np.array(numbers, np.int64)[inside], key)
                for number, time in zip(numbers, duration.tolist(), strict=True):
                    module_ps[number] += time
        used = (key >= 0) & (op >= 0)
        own = self.self_ps(found)[used]
        return Offloaded(table, op[used].astype(np.int64), key[used], found.duration_ps[used], own, module_ps)

    def _with_children(self, plane: Plane, ops: Ops) -> Ops:
        """The ops of one TensorCore; of each op the children of all its occurrences together."""
        rows, keys = self._keys(plane.first, plane.last)
        parent_of_key = np.full(len(self._numbers), -1, np.int64)
        for op, key in zip(self._ops_at(plane, rows).tolist(), keys, strict=True):
            if key in self._numbers and op >= 0:
                parent_of_key[self._numbers[key]] = op
        added = [
            children
            for part in self._parts
            for children in (_children(part, parent_of_key[part.key]), *self.more_children(part, parent_of_key))
        ]
        parent = np.concatenate([parents for _, parents in added])
        if not len(parent):
            return ops
        return replace(ops, children=_stacked([table for table, _ in added]), parent=parent.astype(np.int32))

    def _ops_at(self, plane: Plane, rows: Int64s) -> Int64s:
        """The op of each of these rows of a core; -1: it has none."""
        found = op_events(self._events, plane)
        order = np.argsort(found.rows, kind="stable")
        op = self.counted(plane_table(self._events, plane)[1])
        return stat_beside(found.rows[order], op[order], rows).astype(np.int64)


def lies_within(found: OpEvents, begin: Int64s, end: Int64s, order: Int64s, place: Int64s) -> Int64s:
    """The module at each event's place in an order of modules; -1: none, or the event is not all in it."""
    module = order[np.maximum(place, 0)]
    inside = (begin[module] <= found.start_ps) & (found.start_ps + found.duration_ps <= end[module])
    return np.where((place >= 0) & inside, module, -1)


def _children(one: Offloaded, parent: Int64s) -> tuple[OpTable, Int64s]:
    """The ops of a SparseCore by the op that they ran for: a row for each (parent, op), and its parent."""
    known = parent >= 0
    pairs, place = np.unique(np.stack([parent[known], one.op[known]]), axis=1, return_inverse=True)
    place, count = place.reshape(-1), pairs.shape[1]
    rows = pairs[1]
    every = one.table
    occurrences = np.bincount(place, minlength=count).astype(np.int64)
    share = occurrences / np.maximum(every.occurrences[rows], 1)
    texts = ("name", *TEXT_COLUMNS)
    columns: dict[str, Any] = {name: [getattr(every, name)[row] for row in rows.tolist()] for name in texts}
    table = OpTable.of(
        **columns,
        program_id=every.program_id[rows],
        source_line=every.source_line[rows],
        occurrences=occurrences,
        time_ps=sums_by(place, one.duration_ps[known], count),
        self_ps=sums_by(place, one.self_ps[known], count),
        min_ps=least_by(place, one.duration_ps[known], count),
        flops=every.flops[rows] * share,
        model_flops=every.model_flops[rows] * share,
        bytes_accessed=every.bytes_accessed[rows] * share,
        cores=every.cores[rows],
        core_type=every.core_type[rows],
        flops_source=every.flops_source[rows],
        bytes_source=every.bytes_source[rows],
        memory=_shared(every.memory, rows, share),
    )
    return table, pairs[0]


def _shared(memory: MemoryAccess, rows: Int64s, share: Float64s) -> MemoryAccess:
    """Shares of what these rows of a table moved; a row may occur several times."""
    order = np.argsort(memory.row, kind="stable")
    owner = memory.row[order]
    first, last = (np.searchsorted(owner, rows.astype(owner.dtype), side=side) for side in ("left", "right"))
    counts = last - first
    row = np.repeat(np.arange(len(rows)), counts)
    within = np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts)
    at = order[np.repeat(first, counts) + within]
    moved = memory.bytes[at] * share[row]
    return MemoryAccess(row.astype(np.int32), memory.operation[at], memory.space[at], moved)


def _stacked(tables: Sequence[OpTable]) -> OpTable:
    """The tables, one below the other."""
    keys = [key for table in tables for key in zip(table.program_id.tolist(), table.name, strict=True)]
    return merged(tables, np.arange(len(keys)), keys)
