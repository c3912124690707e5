"""Steps as TPU cores show them: markers, the self time of ops by step and category, collectives."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np

from fastprof._native import records
from fastprof._native.kernels import nesting_lines
from fastprof.decode.workers import Workers
from fastprof.derive.devices.device_events import OpEvents, op_events
from fastprof.derive.steps.grouping import Groups
from fastprof.derive.steps.step_time import Markers, joined
from fastprof.derive.steps.stretches import Stretches, innermost, nothing, union
from fastprof.derive.steps.time_types import OFF_DUTY
from fastprof.schema.array_types import Bools, Int32s, Int64s
from fastprof.tables.host_events import HostEvents, Plane

STATS: Final = ("device_offset_ps", "device_duration_ps", "all_reduce_unique_id", "all_reduce_id")
METADATA_STATS: Final = ("program_id", "symbol_id", "hlo_category", "bytes_accessed")

INFEEDS: Final = ("infeed", "sparsecorev0 infeed")
FEEDS: Final = ("infeed", "outfeed")
"""Categories of OFF_DUTY that SparseCores record; their other waiting is idle time."""


@dataclass(frozen=True, slots=True)
class CoreCollectives:
    """Collectives of one core: group, ids, span on the device's clock, bytes."""

    group: Int32s
    unique_id: Int64s
    all_reduce_id: Int64s
    begin_ps: Int64s
    end_ps: Int64s
    bytes: Int64s


@dataclass(frozen=True, slots=True)
class CoreStepEvents:
    """One core. Of its op events those with a group; ``category`` numbers the host's categories, -1: not an op, the
    event only encloses others."""

    plane: Plane
    markers: Markers
    group: Int32s
    category: Int32s
    self_ps: Int64s
    busy: Stretches
    """When a SparseCore worked, the innermost of its ops being one that does not wait; with or without a group."""
    collectives: CoreCollectives

    @property
    def sparse(self) -> bool:
        return self.plane.kind == "SPARSECORE"

    def steps(self, count: int) -> Bools:
        """Which groups are steps of this core: they have a marker, and on a TensorCore ops, where it has any ops."""
        marked = among(self.markers.group, count)
        return marked & among(self.group, count) if len(self.group) and not self.sparse else marked


@dataclass(frozen=True, slots=True)
class TpuStepEvents:
    cores: list[CoreStepEvents]
    categories: list[str]
    has_infeed: bool  # any op of a TensorCore waits for input


def tpu_step_events(events: HostEvents, groups: Groups, workers: Workers) -> TpuStepEvents:
    """Of all TPU cores of a host, in the order of planes."""
    planes = [plane for plane in events.planes if plane.kind in ("TPU", "SPARSECORE")]
    if not any(len(groups.device_steps[plane.number]) for plane in planes if plane.number in groups.device_steps):
        return TpuStepEvents([_without_steps(plane) for plane in planes], [], False)
    ops = workers.run(None, [partial(op_events, events, plane) for plane in planes])
    category, categories = _categories(events, ops)
    is_op = _ops(events)
    cores = [
        _core(events, groups, plane, found, category, is_op, categories)
        for plane, found in zip(planes, ops, strict=True)
    ]
    feeds = is_op & np.array([name in INFEEDS for name in categories] + [False], np.bool_)[category]
    has_infeed = any(
        bool(feeds[found.meta].any()) for plane, found in zip(planes, ops, strict=True) if plane.kind == "TPU"
    )
    return TpuStepEvents(cores, categories, has_infeed)


def among(groups: Int32s, count: int) -> Bools:
    """Which of the groups 0 to count - 1 are among these."""
    found = np.zeros(count, np.bool_)
    found[groups] = True
    return found


def _categories(events: HostEvents, ops: list[OpEvents]) -> tuple[Int32s, list[str]]:
    """The number of the category of each row of metadata that has ops, and what the numbers stand for; the empty
    text where none is recorded. One more row at the end, -1, is for events without metadata."""
    met = np.zeros(len(events.names), np.bool_)
    for found in ops:
        met[found.meta] = True
    met[-1] = False
    stat = events.meta_stat("hlo_category").of_kinds((records.STR, records.REF))
    number = np.full(len(events.names), -1, np.int64)
    number[stat.rows] = stat.value
    distinct, place = np.unique(number[met], return_inverse=True)
    known = distinct[distinct >= 0]
    texts = ([""] if len(known) < len(distinct) else []) + events.all_texts(known)
    category = np.full(len(events.names), -1, np.int32)
    category[met] = place
    return category, texts


def _ops(events: HostEvents) -> Bools:
    """Rows of metadata that identify an op."""
    program, symbol = np.zeros(len(events.names), np.bool_), np.zeros(len(events.names), np.bool_)
    program[events.meta_stat("program_id").rows] = True
    stat = events.meta_stat("symbol_id")
    symbol[stat.rows[stat.value != 0]] = True
    both: Bools = program & symbol
    return both


def _core(
    events: HostEvents,
    groups: Groups,
    plane: Plane,
    ops: OpEvents,
    category: Int32s,
    is_op: Bools,
    categories: list[str],
) -> CoreStepEvents:
    group = groups.group_id[ops.rows]
    keep = group >= 0
    markers = joined([])
    if plane.number in groups.device_steps:
        steps = groups.device_steps[plane.number]
        markers = Markers(steps.group_id, steps.device_start_ps, steps.device_duration_ps)
    waits, feeds = (np.array([name in wanted for name in categories] + [False]) for wanted in (OFF_DUTY, FEEDS))
    works = ~waits[category[ops.meta]]
    counts = is_op & ~(waits & ~feeds)[category] if plane.kind == "SPARSECORE" else is_op
    return CoreStepEvents(
        plane,
        markers,
        group[keep],
        np.where(counts, category, -1).astype(np.int32)[ops.meta[keep]],
        ops.self_ps[keep],
        _busy(ops, works) if plane.kind == "SPARSECORE" else nothing(),
        _collectives(events, ops, group),
    )


def _without_steps(plane: Plane) -> CoreStepEvents:
    """A core of a host without markers, of which nothing else is known."""
    rows, times = np.zeros(0, np.int32), np.zeros(0, np.int64)
    none = CoreCollectives(rows, times, times, times, times, times)
    return CoreStepEvents(plane, joined([]), rows, rows, times, nothing(), none)


def _busy(ops: OpEvents, works: Bools) -> Stretches:
    """When the innermost op is one that works."""
    if works.all():
        return union(ops.start_ps, ops.duration_ps)
    order = np.lexsort((-ops.duration_ps, ops.start_ps))
    start, duration = ops.start_ps[order], ops.duration_ps[order]
    whole = np.zeros(1, records.LINE_ROWS)
    whole["last"] = len(ops)
    depth, parent, self_time = np.zeros(len(ops), np.int32), np.zeros(len(ops), np.int64), np.zeros(len(ops), np.int64)
    nesting_lines(start, duration, None, whole, depth, parent, self_time)
    return innermost(start, duration, depth.astype(np.int64), works[order])


def _collectives(events: HostEvents, ops: OpEvents, group: Int32s) -> CoreCollectives:
    rows, unique_id = events.ints("all_reduce_unique_id")
    at = np.searchsorted(ops.rows, rows)
    beside = np.flatnonzero(at < len(ops))
    beside = beside[ops.rows[at[beside]] == rows[beside]]
    beside = beside[group[at[beside]] >= 0]
    at = at[beside]
    return CoreCollectives(
        group[at],
        unique_id[beside],
        _beside(*events.ints("all_reduce_id"), ops.rows[at]),
        ops.start_ps[at],
        ops.start_ps[at] + ops.duration_ps[at],
        _bytes(events, ops.meta[at]),
    )


def _beside(rows: Int32s, values: Int64s, wanted: Int64s) -> Int64s:
    """The values of some rows, 0 where there is none."""
    if not len(rows):
        return np.zeros(len(wanted), np.int64)
    place = np.minimum(np.searchsorted(rows, wanted), len(rows) - 1)
    return np.where(rows[place] == wanted, values[place], 0)


def _bytes(events: HostEvents, meta: Int32s) -> Int64s:
    stat = events.meta_stat("bytes_accessed").of_kinds((records.INT64, records.UINT64))
    by_meta = np.zeros(len(events.names), np.int64)
    by_meta[stat.rows] = stat.value
    return by_meta[meta]
