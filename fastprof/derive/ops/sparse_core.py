"""Ops of SparseCores that run on behalf of an op of a TensorCore.

The op's events and the SparseCore's module events carry the same key: stats offload_core_id and tc_offload_start_id.
What runs within such a module belongs to the op.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from fastprof.derive.devices.device_events import OpEvents, device_spans, op_events
from fastprof.derive.ops.combine import merged
from fastprof.derive.ops.tables import TEXT_COLUMNS, MemoryAccess, Ops, OpTable, least_by, sums_by
from fastprof.derive.ops.tpu import plane_table
from fastprof.schema.array_types import Float64s, Int32s, Int64s
from fastprof.tables.host_events import HostEvents, Plane

MODULE_LINE = "Sparse Core Modules"
_Key = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Offloaded:
    """SparseCore events within modules that have a key: the row of each one's op, and the number of its key.
    ``module_ps``: by number of a key the time of its modules."""

    table: OpTable
    op: Int64s
    key: Int64s
    duration_ps: Int64s
    self_ps: Int64s
    module_ps: dict[int, int]


@dataclass(frozen=True, slots=True)
class Rules:
    """``module_of``: the module that each event lies within, by begins and ends of modules; -1: none. ``self_ps``: of
    each event. ``counted``: which occurrences of ops of a TensorCore have children, by the op of each event, -1: none.
    ``extra``: more children, and the parent of each, by the parent of each key."""

    module_of: Callable[[OpEvents, Int64s, Int64s], Int64s]
    self_ps: Callable[[OpEvents], Int64s]
    counted: Callable[[Int32s], Int32s]
    extra: Callable[[Offloaded, Int64s], tuple[OpTable, Int64s]] | None = None


def with_sparse_cores(
    events: HostEvents, planes: Sequence[Plane], ops: Sequence[Ops], rules: Rules | None = None
) -> list[Ops]:
    """The ops of TensorCores, with those that SparseCores ran on their behalf as children."""
    rules = rules or RULES
    numbers: dict[_Key, int] = {}
    offloaded = [_offloaded(events, plane, numbers, rules) for plane in events.planes_of("SPARSECORE")]
    offloaded = [one for one in offloaded if len(one.op)]
    if not offloaded:
        return list(ops)
    return [
        _with_children(events, plane, one, offloaded, numbers, rules) for plane, one in zip(planes, ops, strict=True)
    ]


def _keys(events: HostEvents, first: int, last: int) -> tuple[Int64s, list[_Key]]:
    """The rows of a range that have both stats of a key, and their keys."""
    core_rows, cores = events.ints("offload_core_id")
    start_rows, starts = events.ints("tc_offload_start_id")
    rows, i, j = np.intersect1d(core_rows, start_rows, assume_unique=True, return_indices=True)
    inside = (rows >= first) & (rows < last)
    keys = list(zip(cores[i][inside].tolist(), starts[j][inside].tolist(), strict=True))
    return rows[inside].astype(np.int64), keys


def _offloaded(events: HostEvents, plane: Plane, numbers: dict[_Key, int], rules: Rules) -> Offloaded:
    """What a SparseCore ran within modules that have a key; new keys are numbered on."""
    found = op_events(events, plane)
    table, op = plane_table(events, plane)
    key = np.full(len(found), -1, np.int64)
    module_ps: dict[int, int] = {}
    for line in plane.lines:
        rows, keys = _keys(events, line.first, line.last)
        if line.name == MODULE_LINE and len(rows):
            begin, duration = device_spans(events, line.first, line.last)
            at = rows - line.first
            number = np.array([numbers.setdefault(one, len(numbers)) for one in keys], np.int64)
            inside = rules.module_of(found, begin[at], begin[at] + duration[at])
            key = np.where(inside >= 0, number[inside], key)
            for one, time in zip(number.tolist(), duration[at].tolist(), strict=True):
                module_ps[one] = module_ps.get(one, 0) + time
    used = (key >= 0) & (op >= 0)
    own = rules.self_ps(found)[used]
    return Offloaded(table, op[used].astype(np.int64), key[used], found.duration_ps[used], own, module_ps)


def _last_begun(found: OpEvents, begin: Int64s, end: Int64s) -> Int64s:
    """The module that each event lies within, the last that begins no later than it; -1: none."""
    order = np.argsort(begin, kind="stable")
    return lies_within(found, begin, end, order, np.searchsorted(begin[order], found.start_ps, side="right") - 1)


def lies_within(found: OpEvents, begin: Int64s, end: Int64s, order: Int64s, place: Int64s) -> Int64s:
    """The module at each event's place in an order of modules, -1: none; so too where the event is not all in it."""
    module = order[np.maximum(place, 0)]
    inside = (begin[module] <= found.start_ps) & (found.start_ps + found.duration_ps <= end[module])
    return np.where((place >= 0) & inside, module, -1)


RULES: Final = Rules(_last_begun, lambda found: found.self_ps, lambda op: op)


def _with_children(
    events: HostEvents,
    plane: Plane,
    ops: Ops,
    offloaded: Sequence[Offloaded],
    numbers: dict[_Key, int],
    rules: Rules,
) -> Ops:
    """The ops of one TensorCore; of each op the children of all its occurrences together."""
    rows, keys = _keys(events, plane.first, plane.last)
    parent_of_key = np.full(len(numbers), -1, np.int64)
    for op, key in zip(_ops_at(events, plane, rows, rules).tolist(), keys, strict=True):
        if key in numbers and op >= 0:
            parent_of_key[numbers[key]] = op
    tables, parents = [], []
    for one in offloaded:
        added = [_children(one, parent_of_key[one.key])]
        if rules.extra:
            added.append(rules.extra(one, parent_of_key))
        tables += [table for table, _ in added]
        parents += [parent for _, parent in added]
    parent = np.concatenate(parents)
    if not len(parent):
        return ops
    return replace(ops, children=_stacked(tables), parent=parent.astype(np.int32))


def _ops_at(events: HostEvents, plane: Plane, rows: Int64s, rules: Rules) -> Int64s:
    """The op of each of these rows of a core; -1: it has none."""
    found = op_events(events, plane)
    if not len(found):
        return np.full(len(rows), -1)
    op = rules.counted(plane_table(events, plane)[1])
    order = np.argsort(found.rows, kind="stable")
    at = np.minimum(np.searchsorted(found.rows[order], rows), len(order) - 1)
    return np.where(found.rows[order][at] == rows, op[order][at], -1).astype(np.int64)


def _children(one: Offloaded, parent: Int64s) -> tuple[OpTable, Int64s]:
    """The ops of a SparseCore by what they ran on behalf of: a row for each (parent, op), and its parent."""
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
    """Shares of what these rows of a table moved, which may be there several times."""
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
