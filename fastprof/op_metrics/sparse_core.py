"""Ops of SparseCores that run on behalf of an op of a TensorCore.

The op's events and the SparseCore's module events carry the same key: stats offload_core_id and tc_offload_start_id.
What runs within such a module belongs to the op.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fastprof.host_events import HostEvents, Plane
from fastprof.op_metrics.combine import merged
from fastprof.op_metrics.tables import SPARSE_CORE, Int64s, Ops, OpTable, least_by, sums_by
from fastprof.op_metrics.tpu import OpEvents, device_spans, op_events, op_table

MODULE_LINE = "Sparse Core Modules"
_Key = tuple[int, int]


@dataclass(frozen=True, slots=True)
class _Offloaded:
    """SparseCore events within modules that have a key: the row of each one's op, and the number of its key."""

    table: OpTable
    op: Int64s
    key: Int64s
    duration_ps: Int64s
    self_ps: Int64s


def with_sparse_cores(events: HostEvents, planes: Sequence[Plane], ops: Sequence[Ops]) -> list[Ops]:
    """The ops of TensorCores, with those that SparseCores ran on their behalf as children."""
    numbers: dict[_Key, int] = {}
    found = [_offloaded(events, plane, numbers) for plane in events.planes_of("SPARSECORE")]
    found = [one for one in found if len(one.op)]
    if not found:
        return list(ops)
    return [_with_children(events, plane, one, found, numbers) for plane, one in zip(planes, ops, strict=True)]


def _keys(events: HostEvents, first: int, last: int) -> tuple[Int64s, list[_Key]]:
    """The rows of a range that have both stats of a key, and their keys."""
    core_rows, cores = events.ints("offload_core_id")
    start_rows, starts = events.ints("tc_offload_start_id")
    rows, i, j = np.intersect1d(core_rows, start_rows, assume_unique=True, return_indices=True)
    inside = (rows >= first) & (rows < last)
    keys = list(zip(cores[i][inside].tolist(), starts[j][inside].tolist(), strict=True))
    return rows[inside].astype(np.int64), keys


def _offloaded(events: HostEvents, plane: Plane, numbers: dict[_Key, int]) -> _Offloaded:
    """What a SparseCore ran within modules that have a key; new keys are numbered on."""
    found = op_events(events, plane)
    table, op = op_table(events, found, SPARSE_CORE)
    key = np.full(len(found), -1, np.int64)
    for line in plane.lines:
        rows, keys = _keys(events, line.first, line.last)
        if line.name == MODULE_LINE and len(rows):
            begin, duration = device_spans(events, line.first, line.last)
            at = rows - line.first
            number = np.array([numbers.setdefault(one, len(numbers)) for one in keys], np.int64)
            inside = _module_of(found, begin[at], begin[at] + duration[at])
            key = np.where(inside >= 0, number[inside], key)
    used = (key >= 0) & (op >= 0)
    return _Offloaded(table, op[used].astype(np.int64), key[used], found.duration_ps[used], found.self_ps[used])


def _module_of(found: OpEvents, begin: Int64s, end: Int64s) -> Int64s:
    """The module that each event lies within, the last that begins no later than it; -1: none."""
    order = np.argsort(begin, kind="stable")
    place = np.searchsorted(begin[order], found.start_ps, side="right") - 1
    module = order[np.maximum(place, 0)]
    return np.where((place >= 0) & (found.start_ps + found.duration_ps <= end[module]), module, -1)


def _with_children(
    events: HostEvents,
    plane: Plane,
    ops: Ops,
    offloaded: Sequence[_Offloaded],
    numbers: dict[_Key, int],
) -> Ops:
    """The ops of one TensorCore; of each op the children of all its occurrences together."""
    found = op_events(events, plane)
    _, op = op_table(events, found, 0)
    rows, keys = _keys(events, plane.first, plane.last)
    op_of_row = dict(zip(found.rows.tolist(), op.tolist(), strict=True))
    parent_of_key = np.full(len(numbers), -1, np.int64)
    for row, key in zip(rows.tolist(), keys, strict=True):
        if key in numbers and op_of_row.get(row, -1) >= 0:
            parent_of_key[numbers[key]] = op_of_row[row]
    tables, parents = [], []
    for one in offloaded:
        table, parent = _children(one, parent_of_key[one.key])
        tables.append(table)
        parents.append(parent)
    parent = np.concatenate(parents)
    if not len(parent):
        return ops
    return replace(ops, children=_stacked(tables), parent=parent.astype(np.int32))


def _children(one: _Offloaded, parent: Int64s) -> tuple[OpTable, Int64s]:
    """The ops of a SparseCore by what they ran on behalf of: a row for each (parent, op), and its parent."""
    known = parent >= 0
    pairs, place = np.unique(np.stack([parent[known], one.op[known]]), axis=1, return_inverse=True)
    place, count = place.reshape(-1), pairs.shape[1]
    rows = pairs[1]
    every = one.table
    occurrences = np.bincount(place, minlength=count).astype(np.int64)
    share = occurrences / np.maximum(every.occurrences[rows], 1)
    texts = ("name", *every.text_columns())
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
    )
    return table, pairs[0]


def _stacked(tables: Sequence[OpTable]) -> OpTable:
    """The tables, one below the other."""
    keys = [key for table in tables for key in zip(table.program_id.tolist(), table.name, strict=True)]
    return merged(tables, np.arange(len(keys)), keys)
