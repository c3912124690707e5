"""Annotations of users: how long each lasts, and what the devices of its host do meanwhile.

thread     |----- train 3 ---------------------|
             |-load-|      |-- evaluate --|
device     ====       =========   =====     ====
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from fastprof.decode.nesting import line_rows, nest
from fastprof.derive.causes.device_kinds import KINDS, DeviceKinds, device_kinds
from fastprof.derive.causes.gpu_annotations import GpuAnnotation
from fastprof.derive.devices.framework import framework_of_host
from fastprof.derive.ops.device_time import CPU, Spans
from fastprof.derive.ops.tables import deviations_by, exact_product, span_ps, summed_by, sums_by
from fastprof.derive.steps import event_origin
from fastprof.derive.steps.event_origin import Origin, event_origins
from fastprof.derive.steps.stretches import Stretches, filled
from fastprof.schema.array_types import Int32s, Int64s
from fastprof.schema.time_sums import ends_of
from fastprof.schema.value_classes import dataclass

if TYPE_CHECKING:
    from fastprof.derive.host import Host

STATS: Final = event_origin.STATS
NO_STEP: Final = -1
UNKNOWN: Final = -1
_TIMES: Final = "the durations of annotations"


@dataclass(frozen=True, slots=True, eq=False)
class AnnotationTimes:
    """A row an annotation, or an annotation in a step. ``total_ps``: the time during which it lasts, summed over
    threads; ``self_ps``: less annotations in it; ``elapsed_ps``: during which it lasts on any thread, ``run_ps``: in
    the run. ``stdev_ps``: of its durations, UNKNOWN: there is one. ``device_ps``: [rows, kinds], of ``elapsed_ps`` the
    time of each kind, summed over devices."""

    name: Int64s
    group: Int64s
    count: Int64s
    total_ps: Int64s
    self_ps: Int64s
    sum_ps: Int64s
    min_ps: Int64s
    max_ps: Int64s
    stdev_ps: Int64s
    first_ps: Int64s
    elapsed_ps: Int64s
    run_ps: Int64s
    device_ps: Int64s
    threads: Int64s


@dataclass(frozen=True, slots=True, eq=False)
class HostAnnotations:
    """Of a host. ``names``: of annotations; ``threads``: of the first thread of each. ``whole``: by name; ``by_step``:
    by name and group of a step, NO_STEP: none. ``on_gpus``: what its GPUs run of them, if that is recorded.
    ``on_threads``: whether threads stand for all its ``devices``. ``window_ps``: of its run. ``framework``: see
    derive.devices.framework."""

    host: str
    names: list[str]
    threads: list[str]
    whole: AnnotationTimes
    by_step: AnnotationTimes
    on_gpus: list[GpuAnnotation]
    devices: int
    on_threads: bool
    window_ps: int
    framework: str


@dataclass(frozen=True, slots=True, eq=False)
class _Seen:
    """The annotations of a host: n events in the order of their rows."""

    rows: Int32s
    thread: Int64s
    name: Int64s
    group: Int64s
    start_ps: Int64s
    duration_ps: Int64s
    self_ps: Int64s


def host_annotations(
    host: Host,
    group_id: Int32s,
    steps: Int64s,
    ran: Sequence[Spans],
    run: tuple[int, int],
    on_gpus: list[GpuAnnotation],
) -> HostAnnotations:
    """``group_id``: of each event; ``steps``: those that are steps; ``ran``: what devices did, in all steps; ``run``:
    begin and end of the run, see run_window; ``on_gpus``: what GPUs ran of annotations. CaptureError: 64 bits cannot
    count its times."""
    events = host.raw
    seen, names, first_thread = _seen(host, group_id, steps)
    devices = device_kinds(host.entire.raw, ran) if len(seen.rows) else []
    return HostAnnotations(
        events.host,
        names,
        first_thread,
        _summed(seen, np.full(len(seen.rows), NO_STEP, np.int64), devices, run),
        _summed(seen, seen.group, devices, run),
        on_gpus,
        len(devices),
        all(one.name == CPU for one in devices),
        span_ps(events.host, "of the run", *run),
        framework_of_host(events),
    )


def _seen(host: Host, group_id: Int32s, steps: Int64s) -> tuple[_Seen, list[str], list[str]]:
    events = host.raw
    origins = event_origins(events)
    rows = np.flatnonzero(origins.of(Origin.USER)).astype(np.int32)
    starts = np.array([line.first for line in origins.lines if line.last > line.first] or [0], np.int64)
    titles = [line.name for line in origins.lines if line.last > line.first]
    thread = np.searchsorted(starts, rows, side="right") - 1
    start, duration = events.start_ps[rows], np.maximum(events.duration_ps[rows], 0)
    beside = np.zeros(len(events), np.uint8)
    at, values = events.ints("_a")
    beside[at[values != 0]] = 1
    counts = np.bincount(thread, minlength=len(starts)).astype(np.int64)
    of_lines = line_rows(counts, np.cumsum(counts) - counts)
    beside = np.ascontiguousarray(beside[rows])
    _, _, self_ps = nest(start, duration, beside, of_lines, host.workers, events.slack_ps)
    numbers: dict[str, int] = {}
    metas, place = np.unique(events.meta[rows], return_inverse=True)
    number_of = np.array([numbers.setdefault(events.names[one], len(numbers)) for one in metas.tolist()], np.int64)
    name = number_of[place.reshape(-1)] if len(rows) else np.zeros(0, np.int64)
    first = np.full(len(numbers), len(rows), np.int64)
    np.minimum.at(first, name, np.arange(len(rows)))
    group = group_id[rows].astype(np.int64)
    group = np.where(np.isin(group, steps), group, NO_STEP)
    seen = _Seen(rows, thread, name, group, start, duration, self_ps)
    return seen, list(numbers), [titles[thread[one]] for one in first.tolist()]


def _summed(seen: _Seen, group: Int64s, devices: list[DeviceKinds], run: tuple[int, int]) -> AnnotationTimes:
    order = np.lexsort((group, seen.name))
    fresh = np.ones(len(order), np.bool_)
    fresh[1:] = (np.diff(seen.name[order]) != 0) | (np.diff(group[order]) != 0)
    row = np.empty(len(order), np.int64)
    row[order] = np.cumsum(fresh) - 1
    heads = order[fresh]
    count = len(heads)

    def summed(values: Int64s, of: Int64s = row) -> Int64s:
        return sums_by(of, values, count, _TIMES)

    ends = ends_of(seen.start_ps, seen.duration_ps)
    threads = int(seen.thread.max(initial=0)) + 1
    owner, (begins, until) = unions(row * threads + seen.thread, seen.start_ps, ends)
    total = summed(until - begins, owner // threads)
    pairs = np.unique(row * threads + seen.thread)
    owner, (begins, until) = unions(row, seen.start_ps, ends)
    elapsed = summed(until - begins, owner)
    in_run = summed(np.clip(until, *run) - np.clip(begins, *run), owner)
    exact_product(elapsed, len(devices), _TIMES)
    device = np.zeros((count, len(KINDS)), np.int64)
    for one in devices:
        for kind, stretches in enumerate(one.stretches):
            device[:, kind] += summed(filled(stretches, begins, until - begins), owner)
    durations = summed_by(row, seen.duration_ps, count, _TIMES)
    deviations = deviations_by(row, seen.duration_ps, durations)
    first = np.full(count, np.iinfo(np.int64).max)
    np.minimum.at(first, row, seen.start_ps)
    return AnnotationTimes(
        seen.name[heads],
        group[heads],
        durations["count"],
        total,
        summed(seen.self_ps),
        durations["total"],
        durations["minimum"],
        durations["maximum"],
        np.array([UNKNOWN if one is None else one for one in deviations], np.int64),
        first,
        elapsed,
        in_run,
        device,
        np.bincount(pairs // threads, minlength=count).astype(np.int64),
    )


def unions(key: Int64s, start: Int64s, end: Int64s) -> tuple[Int64s, Stretches]:
    """When any span of a key lasts, for each key: its stretches, and the key of each."""
    order = np.lexsort((start, key))
    key, start, end = key[order], start[order], end[order]
    n = len(order)
    by_end = np.argsort(end, kind="stable")
    rank = np.empty(n, np.int64)
    rank[by_end] = np.arange(n)
    number = np.cumsum(np.append(0, np.diff(key) != 0)) if n else np.zeros(0, np.int64)
    reach = end[by_end][np.maximum.accumulate(number * n + rank) % n] if n else end
    fresh = np.ones(n, np.bool_)
    fresh[1:] = (np.diff(key) != 0) | (start[1:] > reach[:-1])
    first = np.flatnonzero(fresh)
    last = np.append(first[1:], n) - 1 if n else first
    return key[first], (start[first], reach[last])
