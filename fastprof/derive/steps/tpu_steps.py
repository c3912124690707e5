"""Steps of a host with TPUs: each core by itself, with its time by category of op."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Final, NamedTuple

import numpy as np

from fastprof._native import records
from fastprof.decode.nesting import nested
from fastprof.decode.workers import Workers
from fastprof.derive.devices.device_events import OpEvents, op_events
from fastprof.derive.steps.core_details import core_details
from fastprof.derive.steps.database import (
    IDLE,
    SPARSE_CORE_IDS,
    Collectives,
    Cores,
    StepDatabase,
    blank_database,
    check_size,
    empty_database,
)
from fastprof.derive.steps.device_steps import DeviceSteps
from fastprof.derive.steps.grouping import Groups
from fastprof.derive.steps.host_step_events import HostStepEvents
from fastprof.derive.steps.step_figures import tpu_step_values
from fastprof.derive.steps.step_time import OFF_DUTY, EventType, Markers, longest
from fastprof.derive.steps.stretches import Stretches, filled, innermost, nothing, union
from fastprof.schema.array_types import Bools, Int32s, Int64s
from fastprof.schema.ascending_rows import values_at
from fastprof.schema.value_classes import dataclass
from fastprof.tables.host_events import HostEvents, Plane, beside

_MOST_ID: Final = 2**31 - 1
"""The largest id of a core: XProf's are of 32 bits."""


def of_tpus(
    host: str,
    hostname: str,
    found: TpuStepEvents,
    groups: Groups,
    on_host: Callable[[], HostStepEvents | None],
    *,
    together: bool = True,
) -> tuple[StepDatabase, int]:
    """The steps of the TPUs of a host, and how many markers are of none. ``on_host``: the steps of its threads.
    ``together``: TensorCores share the span of a step; False: a step lasts as long as the work of each."""
    cores, ids = _numbered(found.cores)
    step, unfit = _common_steps(found.cores, groups.count)
    if not len(step):
        return empty_database("TPU", [host], _cores(hostname, cores, ids)), unfit
    begin, duration = _span(found.cores, step, groups.count)
    slot = np.full(groups.count + 1, -1, np.int64)
    slot[step] = np.arange(len(step))
    categories = list(dict.fromkeys([IDLE, *found.categories]))
    check_size(len(step), len(cores), len(categories), "TPU")
    column = np.array([*(categories.index(name) for name in found.categories), -1], np.int64)  # the last for -1
    nothing = np.full_like(slot, -1)
    slots = [slot if core.sparse or core.steps(groups.count).any() else nothing for core in cores]
    feeds = [categories.index(name) for name in FEEDS if name in categories]
    times = [
        _core_times(core, column, feeds, one, *_own_span(core, step, begin, duration, together=together))
        for core, one in zip(cores, slots, strict=True)
    ]
    every = _CoreTimes(*(np.stack(values, axis=1) for values in zip(*times, strict=True)))
    labels, numbered = groups.step_names(step)
    begin, duration = (np.where(every.present, one, 0) for one in (every.begin_ps, every.duration_ps))
    database = replace(
        blank_database("TPU", host, _cores(hostname, cores, ids), step.astype(np.int64), labels, categories),
        numbered=numbered,
        present=every.present,
        begin_ps=begin,
        duration_ps=duration,
        extent_begin_ps=begin,
        extent_ps=duration,
        category_ps=every.category_ps,
        sparse_busy_ps=every.busy_ps,
        collectives=_collectives(cores, ids, slot),
    )
    threads = None if found.has_infeed else on_host()
    if threads is not None:
        database = replace(database, infeed_ps=_waiting_for_host(database, threads, slot))
    return database, unfit


def _core_id(core: CoreStepEvents) -> int:
    return core.plane.xplane_id + (SPARSE_CORE_IDS if core.sparse else 0)


def _numbered(cores: list[CoreStepEvents]) -> tuple[list[CoreStepEvents], Int64s]:
    """The cores by their ids, and these. Where ids of planes are larger than any profiler writes, so that sums with
    them would overflow, they are numbered from 0 on instead."""
    cores = sorted(cores, key=_core_id)
    ids = [_core_id(core) for core in cores]
    if any(not 0 <= one <= _MOST_ID for one in ids):
        cores.sort(key=lambda core: core.sparse)
        ids = [number + (SPARSE_CORE_IDS if core.sparse else 0) for number, core in enumerate(cores)]
    return cores, np.array(ids, np.int64)


def _cores(hostname: str, cores: list[CoreStepEvents], ids: Int64s) -> Cores:
    details = [core_details(core.plane.stats) for core in cores]
    return Cores(
        ids,
        ids,
        np.zeros(len(cores), np.int32),
        [hostname] * len(cores),
        [hostname if one is None else f"{hostname}:{one.device_ordinal}" for one in details],
        np.array([core.sparse for core in cores], np.bool_),
        np.array([one is not None for one in details], np.bool_),
        [core.plane.name for core in cores],
    )


def _common_steps(cores: list[CoreStepEvents], count: int) -> tuple[Int32s, int]:
    """The groups that are steps of every core that has any, and in which a TensorCore ran ops; and how many markers are
    of others."""
    marked, worked = np.zeros(count, np.bool_), np.zeros(count, np.bool_)
    common: Bools | None = None
    for core in cores:
        marked |= among(core.markers.group, count)
        if not core.sparse:
            worked |= among(core.group, count)
        steps = core.steps(count)
        if steps.any():
            common = steps if common is None else common & steps
    both = np.zeros(count, np.bool_) if common is None else common & worked
    return np.flatnonzero(both).astype(np.int32), int(marked.sum() - both.sum())


def _span(cores: list[CoreStepEvents], step: Int32s, count: int) -> tuple[Int64s, Int64s]:
    """Begin and duration of each step: the longest marker on any core; 0 where none lasts."""
    is_step = among(step, count)
    spans = longest(Markers.joined([core.markers[is_step[core.markers.group]] for core in cores]))
    begin, duration = np.zeros(len(step), np.int64), np.zeros(len(step), np.int64)
    at = np.searchsorted(step, spans.group)
    begin[at], duration[at] = spans.start_ps, spans.duration_ps
    return begin, duration


def _own_span(
    core: CoreStepEvents, step: Int32s, begin: Int64s, duration: Int64s, *, together: bool
) -> tuple[Int64s, Int64s]:
    """TensorCores that work ``together`` share the span of a step; a SparseCore that marks its steps has its own."""
    if (together and not core.sparse) or not len(core.markers):
        return begin, duration
    own = longest(core.markers)
    return beside(step, own.group, own.start_ps)[1], beside(step, own.group, own.duration_ps)[1]


class _CoreTimes(NamedTuple):
    """By step: whether the core took part, when, its self time by category with idle time first, and how long a
    SparseCore was busy."""

    present: Bools
    begin_ps: Int64s
    duration_ps: Int64s
    category_ps: Int64s
    busy_ps: Int64s


def _core_times(
    core: CoreStepEvents, column: Int64s, feeds: list[int], slot: Int64s, begin: Int64s, duration: Int64s
) -> _CoreTimes:
    """``column``: the place of each of the host's categories among those of the database; ``feeds``: that of infeed and
    outfeed."""
    n = len(begin)
    category_ps = np.zeros((n, int(column.max()) + 1 if len(column) > 1 else 1), np.int64)
    busy = filled(core.busy, begin, duration) if core.sparse else np.zeros(n, np.int64)
    if core.sparse and not len(core.markers):
        runs = len(core.busy[0]) > 0
        return _CoreTimes((duration > 0) & runs, begin, duration, category_ps, busy)
    step = slot[core.group]
    present = np.full(n, core.sparse)
    present[step[step >= 0]] = True
    counts = (step >= 0) & (core.category >= 0)
    place = step[counts] * category_ps.shape[1] + column[core.category[counts]]
    np.add.at(category_ps.reshape(-1), place, core.self_ps[counts])
    present &= duration > 0
    ran = category_ps.sum(axis=1)
    if core.sparse:  # its ops may go on beyond the step
        ran = busy + category_ps[:, feeds].sum(axis=1)
    category_ps[:, 0] += np.maximum(duration - ran, 0)
    category_ps[~present] = 0
    return _CoreTimes(present, begin, duration, category_ps, busy)


def _collectives(cores: list[CoreStepEvents], core_ids: Int64s, slot: Int64s) -> Collectives:
    parts = []
    for core, core_id in zip(cores, core_ids.tolist(), strict=True):
        rows = core.collectives[slot[core.collectives.step] >= 0]
        parts.append(replace(rows, step=slot[rows.step], core_id=np.full(len(rows), core_id)))
    return Collectives.joined(parts)


def _waiting_for_host(database: StepDatabase, threads: HostStepEvents, slot: Int64s) -> Int64s:
    """Idle time of each core in each step that the host's input explains. Where no op of the device waits for input,
    the share of idle time that the host spent on input counts as such: all of it, if that is as much."""
    events = threads.events
    step = slot[events.group]
    counts = (step >= 0) & ((events.type == EventType.HOST_WAIT_INPUT) | (events.type == EventType.HOST_TO_DEVICE))
    input_ps = np.zeros(len(database), np.int64)
    np.add.at(input_ps, step[counts], events.duration_ps[counts])
    idle_ms = tpu_step_values(database).tc_idle_ms
    ratio = np.divide(input_ps / 1e9, idle_ms, out=np.zeros(len(database)), where=idle_ms > 0)
    idle = database.category(IDLE)
    moved: Int64s = np.trunc(idle * np.clip(ratio, 0.0, 1.0)[:, None]).astype(np.int64)
    moved[:, database.cores.sparse] = 0
    return moved


STATS: Final = ("device_offset_ps", "device_duration_ps", "all_reduce_unique_id")
METADATA_STATS: Final = ("program_id", "symbol_id", "hlo_category", "bytes_accessed")

INFEEDS: Final = ("infeed", "sparsecorev0 infeed")
FEEDS: Final = ("infeed", "outfeed")
"""Categories of OFF_DUTY that SparseCores record; their other waiting is idle time."""


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
    collectives: Collectives
    """By group in place of the step, without the id of the core."""

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
    category, categories = op_categories(events, ops)
    is_op = ops_of(events)
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
    found[groups.astype(np.intp)] = True  # numpy takes several times as long for numbers of 32 bits
    return found


def op_categories(events: HostEvents, ops: list[OpEvents]) -> tuple[Int32s, list[str]]:
    """The number of the category of each row of metadata that has ops, and the categories; the empty
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


def ops_of(events: HostEvents) -> Bools:
    """Rows of metadata that identify an op."""
    symbol = events.meta_stat("symbol_id")
    identified = np.intersect1d(events.meta_stat("program_id").rows, symbol.rows[symbol.value != 0])
    return among(identified, len(events.names))


def _core(
    events: HostEvents,
    groups: Groups,
    plane: Plane,
    ops: OpEvents,
    category: Int32s,
    is_op: Bools,
    categories: list[str],
) -> CoreStepEvents:
    group = values_at(groups.group_id, ops.rows)
    grouped = group >= 0
    keep = slice(None) if grouped.all() else grouped
    steps = groups.device_steps.get(plane.number, DeviceSteps.none())
    waits, feeds = (np.array([name in wanted for name in categories] + [False]) for wanted in (OFF_DUTY, FEEDS))
    works = ~waits[category[ops.meta]]
    mine, counts = category[ops.meta[keep]], is_op[ops.meta[keep]]
    if plane.kind == "SPARSECORE":
        counts &= ~(waits & ~feeds)[mine]
    return CoreStepEvents(
        plane,
        steps.markers,
        group[keep],
        np.where(counts, mine, -1).astype(np.int32),
        ops.self_ps[keep],
        _busy(ops, works) if plane.kind == "SPARSECORE" else nothing(),
        _recorded_collectives(events, ops, group),
    )


def _without_steps(plane: Plane) -> CoreStepEvents:
    """A core of a host without markers: nothing else is known."""
    rows = np.zeros(0, np.int32)
    return CoreStepEvents(plane, Markers.none(), rows, rows, np.zeros(0, np.int64), nothing(), Collectives.none())


def _busy(ops: OpEvents, works: Bools) -> Stretches:
    """When the innermost op is one that works."""
    if works.all():
        return union(ops.start_ps, ops.duration_ps)
    order = np.lexsort((-ops.duration_ps, ops.start_ps))
    start, duration = ops.start_ps[order], ops.duration_ps[order]
    return innermost(start, duration, nested(start, duration)[0], works[order])


def _recorded_collectives(events: HostEvents, ops: OpEvents, group: Int32s) -> Collectives:
    rows, unique_id = events.ints("all_reduce_unique_id")
    if len(ops):  # those of other cores are many
        first, last = np.searchsorted(rows, (ops.rows[0], ops.rows[-1] + 1))
        rows, unique_id = rows[first:last], unique_id[first:last]
    at = np.searchsorted(ops.rows, rows)
    here = np.flatnonzero(at < len(ops))
    here = here[ops.rows[at[here]] == rows[here]]
    here = here[group[at[here]] >= 0]
    at, unique_id = at[here], unique_id[here]
    moved = events.meta_stat("bytes_accessed").of_kinds((records.INT64, records.UINT64))
    return Collectives(
        group[at].astype(np.int64),
        np.zeros(len(at), np.int64),
        unique_id,
        ops.start_ps[at],
        ops.start_ps[at] + ops.duration_ps[at],
        beside(ops.meta[at], moved.rows, moved.value)[1],
    )
