"""Steps of a host with TPUs: each core by itself, with its time by op category, in steps and between them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Final, NamedTuple

import numpy as np

from fastprof._native import records
from fastprof._native.communication_kernels import innermost_stretches
from fastprof.decode.nesting import nest_line, number_lines
from fastprof.decode.workers import Workers
from fastprof.derive.devices.device_events import OpEvents, is_op_metadata, list_op_events
from fastprof.derive.steps.device_steps import PlaneSteps, read_core_details
from fastprof.derive.steps.event_graph import STRETCH
from fastprof.derive.steps.grouping import Groups
from fastprof.derive.steps.host_causes import overlap_spans
from fastprof.derive.steps.step_database import (
    IDLE,
    OFF_DUTY,
    SPARSE_CORE_IDS,
    Collectives,
    Cores,
    EventType,
    Markers,
    StepDatabase,
    TypedEvents,
    check_database_size,
    make_blank_database,
    make_empty_database,
    select_longest_markers,
)
from fastprof.derive.steps.step_events import HostStepEvents
from fastprof.derive.steps.step_figures import compute_tpu_steps
from fastprof.schema.columns import (
    Bools,
    DisjointSpans,
    Int32s,
    Int64s,
    Records,
    UInt8s,
    add_durations,
    create_empty_spans,
    find_innermost_spans,
    find_rows_within,
    measure_covered_time,
    merge_spans,
    number_values,
    sort_rows,
    take_rows,
)
from fastprof.schema.value_classes import dataclass
from fastprof.tables.host_events import HostEvents, Plane, join_stat

_MOST_ID: Final = 2**31 - 1
"""The largest id of a core: XProf's are of 32 bits."""


def make_tpu_steps(
    host: str,
    hostname: str,
    seen: TpuStepEvents,
    groups: Groups,
    on_host: Callable[[], HostStepEvents | None],
    *,
    together: bool = True,
) -> tuple[StepDatabase, int]:
    """Return the steps of the TPUs of a host, and how many markers are of none. ``on_host``: the steps of its threads.
    ``together``: TensorCores share the span of a step; False: a step lasts as long as the work of each."""
    cores, ids = _number_cores(seen.cores)
    step, unfit = _find_common_steps(seen.cores, groups.count)
    if not len(step):
        return make_empty_database("TPU", [host], _describe_cores(hostname, cores, ids)), unfit
    begin, duration = _find_step_spans(seen.cores, step, groups.count)
    slot = np.full(groups.count + 1, -1, np.int64)
    slot[step] = np.arange(len(step))
    categories = list(dict.fromkeys([IDLE, *seen.categories]))
    check_database_size(len(step), len(cores), len(categories), "TPU")
    column = np.array([*(categories.index(name) for name in seen.categories), -1], np.int64)  # the last for -1
    nothing = np.full_like(slot, -1)
    slots = [slot if core.sparse or core.steps(groups.count).any() else nothing for core in cores]
    feeds = [categories.index(name) for name in FEEDS if name in categories]
    times = [
        _sum_core_times(
            core, column, feeds, own_slot, *_select_core_span(core, step, begin, duration, together=together)
        )
        for core, own_slot in zip(cores, slots, strict=True)
    ]
    every = _CoreTimes(*(np.stack(values, axis=1) for values in zip(*times, strict=True)))
    labels, numbered = groups.step_names(step)
    begin, duration = (np.where(every.present, column_ps, 0) for column_ps in (every.begin_ps, every.duration_ps))
    database = replace(
        make_blank_database(
            "TPU", host, _describe_cores(hostname, cores, ids), step.astype(np.int64), labels, categories
        ),
        numbered=numbered,
        present=every.present,
        begin_ps=begin,
        duration_ps=duration,
        extent_begin_ps=begin,
        extent_ps=duration,
        category_ps=every.category_ps,
        sparse_busy_ps=every.busy_ps,
        lost=np.zeros_like(every.present),
        collectives=_join_collectives(cores, ids, slot),
    )
    threads = None if seen.has_infeed else on_host()
    if threads is not None:
        database = replace(database, infeed_ps=_attribute_idle_to_host(database, threads, slot))
    return database, unfit


def _get_core_id(core: CoreStepEvents) -> int:
    return core.plane.xplane_id + (SPARSE_CORE_IDS if core.sparse else 0)


def _number_cores(cores: list[CoreStepEvents]) -> tuple[list[CoreStepEvents], Int64s]:
    """Return the cores by their ids, and these. Where ids of planes are larger than any profiler writes, so that sums
    with them would overflow, they are numbered from 0 on instead."""
    cores = sorted(cores, key=_get_core_id)
    ids = [_get_core_id(core) for core in cores]
    if any(not 0 <= core_id <= _MOST_ID for core_id in ids):
        cores.sort(key=lambda core: core.sparse)
        ids = [number + (SPARSE_CORE_IDS if core.sparse else 0) for number, core in enumerate(cores)]
    return cores, np.array(ids, np.int64)


def _describe_cores(hostname: str, cores: list[CoreStepEvents], ids: Int64s) -> Cores:
    details = [read_core_details(core.plane.stats) for core in cores]
    return Cores(
        ids,
        ids,
        np.zeros(len(cores), np.int32),
        [hostname] * len(cores),
        [hostname if detail is None else f"{hostname}:{detail.device_ordinal}" for detail in details],
        np.array([core.sparse for core in cores], np.bool_),
        np.array([core_details is not None for core_details in details], np.bool_),
        [core.plane.name for core in cores],
        np.ones(len(cores), np.bool_),
    )


def _find_common_steps(cores: list[CoreStepEvents], count: int) -> tuple[Int32s, int]:
    """Return the groups that are steps of every core that has any, and in which a TensorCore ran ops; and how many
    markers are of others."""
    marked, worked = np.zeros(count, np.bool_), np.zeros(count, np.bool_)
    common: Bools | None = None
    for core in cores:
        marked |= is_among_groups(core.markers.group, count)
        if not core.sparse:
            worked |= is_among_groups(core.group, count)
        steps = core.steps(count)
        if steps.any():
            common = steps if common is None else common & steps
    both = np.zeros(count, np.bool_) if common is None else common & worked
    return np.flatnonzero(both).astype(np.int32), int(marked.sum() - both.sum())


def _find_step_spans(cores: list[CoreStepEvents], step: Int32s, count: int) -> tuple[Int64s, Int64s]:
    """Return begin and duration of each step: the longest marker on any core; 0 where none lasts."""
    is_step = is_among_groups(step, count)
    spans = select_longest_markers(Markers.joined([core.markers[is_step[core.markers.group]] for core in cores]))
    begin, duration = np.zeros(len(step), np.int64), np.zeros(len(step), np.int64)
    at = np.searchsorted(step, spans.group)
    begin[at], duration[at] = spans.start_ps, spans.duration_ps
    return begin, duration


def _select_core_span(
    core: CoreStepEvents, step: Int32s, begin: Int64s, duration: Int64s, *, together: bool
) -> tuple[Int64s, Int64s]:
    """Return the span of each step on a core. TensorCores that work ``together`` share it; a SparseCore that marks its
    steps has its own."""
    if (together and not core.sparse) or not len(core.markers):
        return begin, duration
    own = select_longest_markers(core.markers)
    return join_stat(step, own.group, own.start_ps)[1], join_stat(step, own.group, own.duration_ps)[1]


class _CoreTimes(NamedTuple):
    """Times of a core by step: whether it took part, when, its self time by category with idle time first, and how long
    a SparseCore was busy."""

    present: Bools
    begin_ps: Int64s
    duration_ps: Int64s
    category_ps: Int64s
    busy_ps: Int64s


def _sum_core_times(
    core: CoreStepEvents, column: Int64s, feeds: list[int], slot: Int64s, begin: Int64s, duration: Int64s
) -> _CoreTimes:
    """Sum the times of a core by step. ``column``: place of each of the host's categories among those of the database;
    ``feeds``: places of infeed and outfeed."""
    n = len(begin)
    category_ps = np.zeros((n, int(column.max()) + 1 if len(column) > 1 else 1), np.int64)
    busy = measure_covered_time(core.busy, begin, duration) if core.sparse else np.zeros(n, np.int64)
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


def _join_collectives(cores: list[CoreStepEvents], core_ids: Int64s, slot: Int64s) -> Collectives:
    parts = []
    for core, core_id in zip(cores, core_ids.tolist(), strict=True):
        rows = core.collectives[slot[core.collectives.step] >= 0]
        parts.append(replace(rows, step=slot[rows.step], core_id=np.full(len(rows), core_id)))
    return Collectives.joined(parts)


def _attribute_idle_to_host(database: StepDatabase, threads: HostStepEvents, slot: Int64s) -> Int64s:
    """Return idle time of each core in each step that the host's input explains. Where no op of the device waits for
    input, the share of idle time that the host spent on input counts as such: all of it, if that is as much."""
    events = threads.events
    step = slot[events.group]
    counts = (step >= 0) & ((events.type == EventType.HOST_WAIT_INPUT) | (events.type == EventType.HOST_TO_DEVICE))
    input_ps = np.zeros(len(database), np.int64)
    np.add.at(input_ps, step[counts], events.duration_ps[counts])
    idle_ms = compute_tpu_steps(database).tc_idle_ms
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
    """Step events of one core: op events with a group. ``category`` numbers the host's categories, or is -1 if the
    event is no op and only encloses others."""

    plane: Plane
    markers: Markers
    group: Int32s
    category: Int32s
    self_ps: Int64s
    busy: DisjointSpans
    """Spans in which a SparseCore worked, the innermost of its ops being one that does not wait; with or without a
    group."""
    collectives: Collectives
    """Collectives by group in place of the step, without the id of the core."""

    @property
    def sparse(self) -> bool:
        return self.plane.kind == "SPARSECORE"

    def steps(self, count: int) -> Bools:
        """Return which groups are steps of this core: they have a marker, and on a TensorCore ops, where it has any
        ops."""
        marked = is_among_groups(self.markers.group, count)
        return marked & is_among_groups(self.group, count) if len(self.group) and not self.sparse else marked


@dataclass(frozen=True, slots=True)
class TpuStepEvents:
    cores: list[CoreStepEvents]
    categories: list[str]
    has_infeed: bool  # any op of a TensorCore waits for input


def collect_tpu_step_events(events: HostEvents, groups: Groups, workers: Workers) -> TpuStepEvents:
    """Collect the step events of all TPU cores of a host, in the order of planes."""
    planes = [plane for plane in events.planes if plane.kind in ("TPU", "SPARSECORE")]
    if not any(len(groups.device_steps[plane.number]) for plane in planes if plane.number in groups.device_steps):
        rows = np.zeros(0, np.int32)
        nothing = (Markers.none(), rows, rows, np.zeros(0, np.int64), create_empty_spans(), Collectives.none())
        return TpuStepEvents([CoreStepEvents(plane, *nothing) for plane in planes], [], False)
    ops = workers.run(None, [partial(list_op_events, events, plane) for plane in planes])
    category, categories = number_op_categories(events, ops)
    is_op = is_op_metadata(events)
    cores = [
        _collect_core_events(events, groups, plane, own_ops, category, is_op, categories)
        for plane, own_ops in zip(planes, ops, strict=True)
    ]
    feeds = is_op & np.array([name in INFEEDS for name in categories] + [False], np.bool_)[category]
    has_infeed = any(
        bool(feeds[own_ops.meta].any()) for plane, own_ops in zip(planes, ops, strict=True) if plane.kind == "TPU"
    )
    return TpuStepEvents(cores, categories, has_infeed)


def is_among_groups(groups: Int32s, count: int) -> Bools:
    """Return which of the groups 0 to count - 1 are among these."""
    is_among = np.zeros(count, np.bool_)
    is_among[groups.astype(np.intp)] = True  # numpy takes several times as long for numbers of 32 bits
    return is_among


def number_op_categories(events: HostEvents, ops: list[OpEvents]) -> tuple[Int32s, list[str]]:
    """Return the number of the category of each row of metadata that has ops, and the categories; the empty string
    where none is recorded. One more row at the end, -1, is for events without metadata."""
    met = np.zeros(len(events.names), np.bool_)
    for own_ops in ops:
        met[own_ops.meta] = True
    met[-1] = False
    stat = events.meta_stat("hlo_category").of_kinds((records.STR, records.REF))
    number = np.full(len(events.names), -1, np.int64)
    number[stat.rows] = stat.value
    distinct, place = number_values(number[met])
    known = distinct[distinct >= 0]
    texts = ([""] if len(known) < len(distinct) else []) + events.all_texts(known)
    category = np.full(len(events.names), -1, np.int32)
    category[met] = place
    return category, texts


def _collect_core_events(
    events: HostEvents,
    groups: Groups,
    plane: Plane,
    ops: OpEvents,
    category: Int32s,
    is_op: Bools,
    categories: list[str],
) -> CoreStepEvents:
    group = take_rows(groups.group_id, ops.rows)
    grouped = group >= 0
    keep = slice(None) if grouped.all() else grouped
    steps = groups.device_steps.get(plane.number, PlaneSteps.none())
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
        _find_busy_spans(ops, works) if plane.kind == "SPARSECORE" else create_empty_spans(),
        _read_collectives(events, ops, group),
    )


def _find_busy_spans(ops: OpEvents, works: Bools) -> DisjointSpans:
    """Return spans in which the innermost op is one that works."""
    if works.all():
        return merge_spans(ops.start_ps, ops.duration_ps)
    order = sort_rows(ops.start_ps, -ops.duration_ps)
    start, duration = ops.start_ps[order], ops.duration_ps[order]
    return find_innermost_spans(start, duration, nest_line(start, duration)[0], works[order])


def _read_collectives(events: HostEvents, ops: OpEvents, group: Int32s) -> Collectives:
    rows, unique_id = events.ints("all_reduce_unique_id")
    if len(ops):  # those of other cores are many
        own = find_rows_within(rows, int(ops.rows[0]), int(ops.rows[-1]) + 1)
        rows, unique_id = rows[own], unique_id[own]
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
        join_stat(ops.meta[at], moved.rows, moved.value)[1],
    )


def sum_times_in_spans(
    events: HostEvents, database: StepDatabase, spans: Sequence[Markers], workers: Workers
) -> Int64s:
    """Return [n, c, k] the time of the ops of each core in spans of its own time, by category of the database. The
    group of a span is the row of its step. An op counts where it is the innermost of its line. ``spans``: by core."""
    times = np.zeros_like(database.category_ps)
    planes = {plane.name: plane for plane in events.planes if plane.kind in ("TPU", "SPARSECORE")}
    some = [core for core, own in enumerate(spans) if len(own) and database.cores.device[core] in planes]
    cores = [planes[str(database.cores.device[core])] for core in some]
    ops = workers.run(None, [partial(list_op_events, events, plane) for plane in cores])
    category, names = number_op_categories(events, ops)
    is_op = is_op_metadata(events)
    known = {name: place for place, name in enumerate(database.categories)}
    column = np.array([*(known.get(name, -1) for name in names), -1], np.int64)
    waits = np.array([name in OFF_DUTY and name not in FEEDS for name in names] + [False], np.bool_)
    counted = is_op & (category >= 0) & (column[category] >= 0)
    for core, plane, own_ops in zip(some, cores, ops, strict=True):
        own = spans[core]
        begin, end = own.start_ps, add_durations(own.start_ps, own.duration_ps)
        next_begin = np.append(begin, np.iinfo(np.int64).max)  # spans are disjoint and in order
        near = np.flatnonzero(
            next_begin[np.searchsorted(end, own_ops.start_ps, side="right")] < own_ops.start_ps + own_ops.duration_ps
        )
        of = category[own_ops.meta[near]]
        counts = counted[own_ops.meta[near]]
        if plane.kind == "SPARSECORE":
            counts &= ~waits[of]
        if not counts.any():
            continue
        pieces = _find_innermost_ops(own_ops, near, counts)
        none, type_ = np.full(len(pieces), -1, np.int32), np.zeros(len(pieces), np.uint8)
        spanned = replace(own, group=np.arange(len(own), dtype=np.int32))
        met, place = overlap_spans(TypedEvents(none, type_, pieces["begin"], pieces["end"] - pieces["begin"]), spanned)
        until = np.minimum(add_durations(met.start_ps, met.duration_ps), end[met.group])
        inside = np.maximum(until - np.maximum(met.start_ps, begin[met.group]), 0)
        np.add.at(times[:, core], (own.group[met.group], column[of[pieces["row"][place]]]), inside)
    return times


def _find_innermost_ops(ops: OpEvents, near: Int64s, counts: Bools) -> Records:
    """Return as STRETCH when an op that ``counts`` is the innermost of the ops ``near`` on its line; ``row``: its place
    among these."""
    line = np.searchsorted(ops.lines["last"], near, side="right")
    start, duration = ops.start_ps[near], ops.duration_ps[near]
    order = sort_rows(line, start, -duration)
    marks: UInt8s = np.where(counts[order], 2, 0).astype(np.uint8)
    sizes = np.bincount(line, minlength=len(ops.lines)).astype(np.int64)
    lines = number_lines(sizes, np.cumsum(sizes) - sizes)
    _, spans = innermost_stretches(start[order], duration[order], marks, lines)
    pieces = np.frombuffer(spans, STRETCH).copy()
    pieces["row"] = order[pieces["row"]]
    return pieces
