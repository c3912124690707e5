"""Steps of a host with TPUs: each core by itself, with its time by category of op."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

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
    no_collectives,
)
from fastprof.derive.steps.grouping import Groups
from fastprof.derive.steps.host_step_events import HostStepEvents
from fastprof.derive.steps.step_time import joined, longest
from fastprof.derive.steps.stretches import filled
from fastprof.derive.steps.time_types import HOST_TO_DEVICE, HOST_WAIT_INPUT
from fastprof.derive.steps.tpu_step_events import FEEDS, CoreStepEvents, TpuStepEvents, among
from fastprof.derive.steps.tpu_step_values import tpu_step_values
from fastprof.schema.array_types import Bools, Int32s, Int64s

_MOST_ID: Final = 2**31 - 1
"""The largest id of a core: XProf's are of 32 bits."""


def of_tpus(
    host: str,
    hostname: str,
    found: TpuStepEvents,
    groups: Groups,
    on_host: Callable[[], HostStepEvents | None],
) -> tuple[StepDatabase, int]:
    """The steps of the TPUs of a host, and how many markers are of none. ``on_host``: the steps of its threads."""
    cores, ids = _numbered(found.cores)
    step, unfit = _common_steps(found.cores, groups.count)
    if not len(step):
        return empty_database("TPU", [host], _cores(hostname, cores, ids)), unfit
    begin, duration = _span(found.cores, step, groups.count)
    slot = np.full(groups.count + 1, -1, np.int64)
    slot[step] = np.arange(len(step))
    categories = list(dict.fromkeys([IDLE, *found.categories]))
    check_size(len(step), len(cores), len(categories))
    column = np.array([*(categories.index(name) for name in found.categories), -1], np.int64)  # the last for -1
    nothing = np.full_like(slot, -1)
    slots = [slot if core.sparse or core.steps(groups.count).any() else nothing for core in cores]
    feeds = [categories.index(name) for name in FEEDS if name in categories]
    times = [
        _core_times(core, column, feeds, one, *_own_span(core, step, begin, duration))
        for core, one in zip(cores, slots, strict=True)
    ]
    present = np.stack([time.present for time in times], axis=1)
    labels, numbered = groups.step_names(step)
    database = replace(
        blank_database("TPU", host, _cores(hostname, cores, ids), step.astype(np.int64), labels, categories),
        numbered=numbered,
        present=present,
        begin_ps=np.where(present, np.stack([time.begin_ps for time in times], axis=1), 0),
        duration_ps=np.where(present, np.stack([time.duration_ps for time in times], axis=1), 0),
        category_ps=np.stack([time.category_ps for time in times], axis=1),
        sparse_busy_ps=np.stack([time.busy_ps for time in times], axis=1),
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
    spans = longest(joined([core.markers.where(is_step[core.markers.group]) for core in cores]))
    begin, duration = np.zeros(len(step), np.int64), np.zeros(len(step), np.int64)
    at = np.searchsorted(step, spans.group)
    begin[at], duration[at] = spans.start_ps, spans.duration_ps
    return begin, duration


def _own_span(core: CoreStepEvents, step: Int32s, begin: Int64s, duration: Int64s) -> tuple[Int64s, Int64s]:
    """TensorCores share the span of a step; a SparseCore that marks its steps has its own."""
    if not core.sparse or not len(core.markers):
        return begin, duration
    own = longest(core.markers)
    at = np.minimum(np.searchsorted(own.group, step), max(len(own) - 1, 0))
    marked = own.group[at] == step if len(own) else np.zeros(len(step), np.bool_)
    return np.where(marked, own.start_ps[at], 0), np.where(marked, own.duration_ps[at], 0)


@dataclass(frozen=True, slots=True)
class _CoreTimes:
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
    np.add.at(category_ps, (step[counts], column[core.category[counts]]), core.self_ps[counts])
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
        recorded = core.collectives
        step = slot[recorded.group]
        keep = step >= 0
        ids = np.full(int(keep.sum()), core_id, np.int64)
        columns = (recorded.unique_id, recorded.all_reduce_id, recorded.begin_ps, recorded.end_ps, recorded.bytes)
        parts.append((step[keep], ids, *(values[keep] for values in columns)))
    return Collectives(*(np.concatenate(values) for values in zip(*parts, strict=True))) if parts else no_collectives()


def _waiting_for_host(database: StepDatabase, threads: HostStepEvents, slot: Int64s) -> Int64s:
    """Idle time of each core in each step that the host's input explains. Where no op of the device waits for input,
    the share of idle time that the host spent on input counts as such: all of it, if that is as much."""
    events = threads.events
    step = slot[events.group]
    counts = (step >= 0) & ((events.type == HOST_WAIT_INPUT) | (events.type == HOST_TO_DEVICE))
    input_ps = np.zeros(len(database), np.int64)
    np.add.at(input_ps, step[counts], events.duration_ps[counts])
    idle_ms = tpu_step_values(database).tc_idle_ms
    ratio = np.divide(input_ps / 1e9, idle_ms, out=np.zeros(len(database)), where=idle_ms > 0)
    idle = database.category(IDLE)
    moved: Int64s = np.trunc(idle * np.clip(ratio, 0.0, 1.0)[:, None]).astype(np.int64)
    moved[:, database.cores.sparse] = 0
    return moved
