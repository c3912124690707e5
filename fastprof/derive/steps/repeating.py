"""What repeats in a capture that has neither markers nor executions: annotations, else a pattern of launches."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

import numpy as np

from fastprof._native import records
from fastprof.derive.devices.kineto_categories import ANNOTATIONS, is_kineto, is_of, is_op
from fastprof.derive.steps.device_steps import is_derived
from fastprof.derive.steps.executions import Executions
from fastprof.derive.steps.pool_work import is_annotation, outermost
from fastprof.schema.array_types import Bools, Int64s
from fastprof.schema.time_sums import ends_of
from fastprof.tables.host_events import HOST_THREADS, HostEvents, Plane, beside
from fastprof.wording.patterns import pattern_of

LEAST: Final = 3
"""What is repeated occurs at least this often."""
_LEAST_SHARE: Final = (1, 2)
_ALIKE: Final = (19, 20)
"""Annotations whose time is at least this part of the most: the one that occurs most often of them counts."""
_NEARLY: Final = 0.9
"""Least part of the work of a thread that lies in an annotation, and of its occurrences that hold work."""
_PERIODIC: Final = (9, 10)
"""Least part of launches that are what was launched a period before."""
_NUMBER: Final = pattern_of(r"\d+")
_RAREST: Final = 8
_PROFILER: Final = pattern_of(r"profiler\.py:\d+ (start_trace|stop_trace|trace|__exit__|__enter__)|ProfilerSession")
LAUNCH: Final = pattern_of(
    r"PjitFunction\(|Executable::Execute|EagerExecute: |EagerLocalExecute: |FunctionRun|SessionRun|RunGraph|"
    r"(?<![\w./>-])(?=[_/>-]*[A-Za-z0-9.])[\w./>-]*:[A-Z_]\w*$"
)
"""What starts work, by name: calls of compiled functions, eager ops, runs of graphs, and ops of TensorFlow. Their names
are tried where they begin, not at each letter: a name may be long."""


class Repeated(NamedTuple):
    """An annotation that repeats: its rows in order of time, and its name."""

    rows: Int64s
    name: str


def annotation(events: HostEvents) -> Repeated | None:
    """Return the annotation that occurs at least three times on one thread and covers most time of the host's threads:
    half of it or more, or nearly all work that threads do or launch. Of those that cover about as much, the one that
    occurs most often."""
    plane = events.plane_named(HOST_THREADS)
    if plane is None or plane.first == plane.last:
        return None
    meta, start = events.meta[plane.first : plane.last], events.start_ps[plane.first : plane.last]
    end = ends_of(start, events.duration_ps[plane.first : plane.last])
    of_program = ~_named(events, _PROFILER)[meta]
    if not of_program.any():
        return None
    lasts = int(end[of_program].max()) - int(start[of_program].min())
    fits = np.array([is_annotation(name) for name in events.names], np.bool_)[meta]
    hlo = events.stat("hlo_op").rows
    hlo = hlo[(hlo >= plane.first) & (hlo < plane.last)]
    fits[hlo - plane.first] = False
    rows = np.flatnonzero(fits & (end > start))
    firsts = np.array([line.first for line in plane.lines], np.int64) - plane.first
    line = np.searchsorted(firsts, rows, side="right") - 1
    keys, number, counts = np.unique(
        np.stack([line, meta[rows]], axis=1), axis=0, return_inverse=True, return_counts=True
    )
    number = number.reshape(-1)
    time = np.zeros(len(keys), np.int64)
    np.add.at(time, number, end[rows] - start[rows])
    wide = (time * _LEAST_SHARE[1] >= lasts * _LEAST_SHARE[0]) | _hold_work(events, plane, rows, number, len(keys))
    wide &= (counts >= LEAST) & (time <= lasts)
    if not wide.any():
        return None
    near = wide & (time * _ALIKE[1] >= int(time[wide].max()) * _ALIKE[0])
    best = int(np.where(near, counts, 0).argmax())
    return Repeated(rows[number == best].astype(np.int64) + plane.first, events.names[int(keys[best, 1])])


def called(events: HostEvents, name: str) -> Repeated | None:
    """Return the events of this name, whatever their numbers, on the thread with most of them; None without any."""
    plane = events.plane_named(HOST_THREADS)
    if plane is None:
        return None
    named = np.array([_NUMBER.sub("", one).strip() == name or one == name for one in events.names], np.bool_)
    rows = plane.first + np.flatnonzero(named[events.meta[plane.first : plane.last]])
    if not len(rows):
        return None
    line = np.searchsorted([line.first for line in plane.lines], rows, side="right") - 1
    rows = rows[line == int(np.bincount(line).argmax())]
    return Repeated(outermost(events, plane, rows), name)


def _hold_work(events: HostEvents, plane: Plane, rows: Int64s, number: Int64s, count: int) -> Bools:
    """Return for each of ``count`` annotations whether nearly all launches and ops of their thread lie in them.
    ``rows``, ``number``: occurrences within the plane, and which annotation each is."""
    works = is_op(events) if is_kineto(events) else _named(events, LAUNCH)
    own = np.flatnonzero(works[events.meta[plane.first : plane.last]])
    start = events.start_ps[plane.first : plane.last]
    holds = np.zeros(count, np.bool_)
    bounds = np.array([line.first for line in plane.lines] + [plane.last]) - plane.first
    of_line, own_start = np.searchsorted(own, bounds), start[own]
    times = np.bincount(number, minlength=count)
    places = np.split(np.argsort(number, kind="stable"), np.cumsum(times)[:-1])
    for one in np.flatnonzero(times >= LEAST).tolist():
        here = rows[places[one]]
        line = int(np.searchsorted(bounds, here[0], side="right")) - 1
        work = own_start[of_line[line] : of_line[line + 1]]
        begin, end = start[here], ends_of(start[here], events.duration_ps[plane.first + here])
        until = np.minimum(end, np.append(begin[1:], np.iinfo(np.int64).max))
        within = np.maximum(np.searchsorted(work, until) - np.searchsorted(work, begin), 0)
        holds[one] = len(work) > 0 and within.sum() >= _NEARLY * len(work)
        holds[one] &= np.count_nonzero(within) >= _NEARLY * len(here)
    return holds


def as_executions(events: HostEvents, repeated: Repeated) -> list[Executions]:
    """The occurrences of an annotation on a host without devices, with the events of all threads that begin in each."""
    plane = events.plane_named(HOST_THREADS)
    assert plane is not None
    begin = events.start_ps[repeated.rows]
    return [_in_time(events, plane, begin, ends_of(begin, events.duration_ps[repeated.rows]), repeated.name)]


def launches(events: HostEvents) -> list[Executions]:
    """The repetitions of the longest pattern of launches: kernels of each GPU, else what threads of the host start.
    Empty: nothing repeats."""
    gpus = events.planes_of("GPU")
    found = [one for plane in gpus if (one := _of_gpu(events, plane)) is not None]
    plane = events.plane_named(HOST_THREADS)
    if gpus or plane is None:
        return found
    wanted = is_op(events) if is_kineto(events) else _named(events, LAUNCH)
    rows = np.flatnonzero(wanted[events.meta[plane.first : plane.last]]) + plane.first
    rows = outermost(events, plane, rows)
    period = _periods(events, rows[np.argsort(events.start_ps[rows], kind="stable")])
    if period is None:
        return []
    rows, of = period
    if _are_layers(events, events.start_ps[rows[_firsts(of)]]):
        return []
    first, last = np.flatnonzero(np.append(True, of[1:] != of[:-1])), np.flatnonzero(np.append(of[1:] != of[:-1], True))
    end = np.maximum.accumulate(ends_of(events.start_ps[rows], events.duration_ps[rows]))
    begin = np.maximum(events.start_ps[rows[first]], np.append(np.iinfo(np.int64).min, end[last[:-1]]))
    name = f"{events.names[int(events.meta[rows[0]])]} …"
    return [_in_time(events, plane, begin, end[last], name)]


def _of_gpu(events: HostEvents, plane: Plane) -> Executions | None:
    """Kernels and copies of a GPU, in order of time."""
    lines = [np.arange(line.first, line.last) for line in plane.lines if not is_derived(line)]
    rows = np.concatenate(lines or [np.zeros(0, np.int64)])
    period = _periods(events, rows[np.argsort(events.start_ps[rows], kind="stable")])
    if period is None:
        return None
    rows, of = period
    calls, ids = _launches_of(events, rows)
    first, last = _firsts(of), np.append(_firsts(of)[1:], len(of)) - 1
    of_one_call = (ids[first[1:]] > 0) & (ids[first[1:]] == ids[last[:-1]])
    if 2 * np.count_nonzero(of_one_call) > len(of_one_call) or _are_layers(events, calls[first]):
        return None
    n = int(of[-1]) + 1
    end = np.full(n, np.iinfo(np.int64).min)
    np.maximum.at(end, of, ends_of(events.start_ps[rows], events.duration_ps[rows]))
    first = np.flatnonzero(np.append(True, of[1:] != of[:-1]))
    name = f"{events.names[int(events.meta[rows[0]])]} …"
    return Executions(plane, rows, of, events.start_ps[rows[first]], end, np.zeros(n, np.int64), [name])


def _firsts(of: Int64s) -> Int64s:
    """Return the places at which periods begin."""
    return np.flatnonzero(np.append(True, of[1:] != of[:-1]))


def _launches_of(events: HostEvents, rows: Int64s) -> tuple[Int64s, Int64s]:
    """Return when the work of a device was launched, or begins if that is unknown, and the id that it shares with its
    launch, 0 if it has none. All kernels of a graph share the launch of the graph."""
    stat = events.stat("correlation_id").of_kinds((records.INT64, records.UINT64))
    ids, start = np.zeros(len(rows), np.int64), events.start_ps[rows].copy()
    known, value = beside(rows, stat.rows, stat.value)
    ids[known] = value[known]
    threads = events.plane_named(HOST_THREADS)
    if threads is not None:
        calls = (stat.rows >= threads.first) & (stat.rows < threads.last)
        order = np.argsort(stat.value[calls], kind="stable")
        call_ids, call_rows = stat.value[calls][order], stat.rows[calls][order]
        at = np.minimum(np.searchsorted(call_ids, ids), max(len(call_ids) - 1, 0))
        found = (ids > 0) & (call_ids[at] == ids) if len(call_ids) else np.zeros(len(ids), np.bool_)
        start[found] = events.start_ps[call_rows[at[found]]]
    return start, ids


def _are_layers(events: HostEvents, begins: Int64s) -> bool:
    """Return whether most periods follow another one within one annotation: then they are parts of a step. ``begins``:
    when the first launch of each is."""
    plane = events.plane_named(HOST_THREADS)
    if plane is None:
        return False
    named = np.array([is_annotation(name) for name in events.names], np.bool_)
    if is_kineto(events):
        named &= is_of(events, ANNOTATIONS)
    rows = plane.first + np.flatnonzero(named[events.meta[plane.first : plane.last]])
    start, end = events.start_ps[rows], ends_of(events.start_ps[rows], events.duration_ps[rows])
    order = np.argsort(start, kind="stable")
    reached = np.append(np.iinfo(np.int64).min, np.maximum.accumulate(end[order]))
    together = reached[np.searchsorted(start[order], begins[:-1], side="right")] > begins[1:]
    return 2 * int(np.count_nonzero(together)) > len(together)


def _in_time(events: HostEvents, plane: Plane, begin: Int64s, end: Int64s, name: str) -> Executions:
    """Spans of time in order, with the rows of a plane that begin in each."""
    rows = np.arange(plane.first, plane.last)
    at = np.searchsorted(begin, events.start_ps[rows], side="right") - 1
    inside = (at >= 0) & (events.start_ps[rows] < end[at])
    return Executions(plane, rows[inside], at[inside], begin, end, np.zeros(len(begin), np.int64), [name])


def _periods(events: HostEvents, rows: Int64s) -> tuple[Int64s, Int64s] | None:
    """The launches of whole periods, and the number of the period of each. The period is the usual distance of the
    rarest name that repeats; it begins after the longest pauses. None: launches are not periodic."""
    names = np.unique(events.meta[rows], return_inverse=True)[1].reshape(-1)
    n = len(names)
    period = _period(names)
    if period is None:
        return None
    start, end = events.start_ps[rows], ends_of(events.start_ps[rows], events.duration_ps[rows])
    pause = np.maximum(start[1:] - np.maximum.accumulate(end)[:-1], 0)
    by_phase = np.zeros(period, np.float64)
    np.add.at(by_phase, np.arange(1, n) % period, pause)
    alike = _same(names, period)
    low, high = int(np.flatnonzero(alike)[0]), int(np.flatnonzero(alike)[-1]) + period
    phase = int(by_phase.argmax())
    low += (phase - low) % period
    count = (high + 1 - low) // period
    if count < LEAST:
        return None
    return rows[low : low + count * period], np.repeat(np.arange(count), period)


def _period(names: Int64s) -> int | None:
    """The distance at which at least nine of ten launches repeat, over half of the launches or more."""
    counts = np.bincount(names)
    rarest = np.argsort(np.where(counts >= LEAST, counts, np.iinfo(np.int64).max), kind="stable")[:_RAREST]
    for name in rarest.tolist():
        if counts[name] < LEAST:
            break
        places = np.flatnonzero(names == name)
        gaps, often = np.unique(places[1:] - places[:-1], return_counts=True)
        period = int(gaps[often.argmax()])
        between = slice(max(int(places[0]) - period, 0), int(places[-1]) + period)
        part = names[between]
        same = _same(part, period)
        covers = 2 * len(part) >= len(names)
        if covers and len(same) and int(same.sum()) * _PERIODIC[1] >= len(same) * _PERIODIC[0]:
            return period
    return None


def _same(names: Int64s, period: int) -> Bools:
    """Of each launch but those of the last period, whether the same is launched a period later."""
    same: Bools = names[period:] == names[:-period]
    return same


def _named(events: HostEvents, pattern: re.Pattern[str]) -> Bools:
    """By name, whether it matches."""
    return np.array([pattern.search(name) is not None for name in events.names], np.bool_)
