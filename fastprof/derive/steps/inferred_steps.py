"""Steps that no marker makes, or whose markers only hold the dispatch.

They are inferred from executions of compiled programs, from annotations or launches that repeat, or from calls of the
data loader. On CPUs, work on pool threads belongs to the step that launched it, or in whose time it runs.

    loader       |-next-|          |-next-|          |-next-|           |next|  the end of the data: no step
    work                |=====|           |=====|           |=====|
    extents      |------------|    |------------|    |------------|
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np

from fastprof._native import records
from fastprof.derive.devices.op_names import ANNOTATIONS, LOADERS, has_category, is_kineto, is_op
from fastprof.derive.steps import grouping
from fastprof.derive.steps.device_steps import PlaneSteps, ProgramExecutions
from fastprof.derive.steps.event_origin import NameKind, classify_name
from fastprof.derive.steps.grouping import Groups, make_naming
from fastprof.derive.steps.host_calls import compiles_code
from fastprof.derive.steps.host_causes import sort_longest_markers
from fastprof.derive.steps.step_database import Markers
from fastprof.schema.columns import (
    Bools,
    Int32s,
    Int64s,
    add_durations,
    find_last_started,
    measure_covered_time,
    merge_spans,
    number_values,
    sort_rows,
)
from fastprof.tables.host_events import HOST_THREADS, HostEvents, Plane, find_lines, join_stat
from fastprof.wording.patterns import MOST_SEARCHED, compile_late

_WAITS: Final = ("ThunkExecutor::Execute (wait", "SlinkyThreadPool::Await", "Wait for ", "ThreadpoolListener::")
_ANNOTATION: Final = compile_late(r"[\w .\-/#\[\]]+", re.ASCII)
"""Names of annotations: no frame, no function of the framework (``::``, ``(``), no op with its type (``:``)."""
_RUNTIME: Final = ("ParseArguments", "Handle inputs", "Handle input event", "AllocateOutputBuffers", "EagerExecute",
                   "SessionRun", "FunctionRun", "RunGraph", "end: ", *_WAITS)  # fmt: skip
_LAUNCHES: Final = (compile_late(r"Executable::Execute"), compile_late(r"PjitFunction\("))
"""What starts a run, the first of these that a capture has."""


def is_annotation(name: str) -> bool:
    """Return whether a user may have named an event so, and no framework does."""
    fits = _ANNOTATION.fullmatch(name) is not None and not name.startswith(_RUNTIME)
    return fits and classify_name(name) in (NameKind.UNKNOWN, NameKind.ANNOTATION)


def holds_most_time(runs: ProgramExecutions, markers: Markers) -> bool:
    """Return whether at least half of the time of the runs is within the markers."""
    held = measure_covered_time(
        merge_spans(markers.start_ps, markers.duration_ps), runs.begin_ps, runs.end_ps - runs.begin_ps
    )
    return 2 * int(held.sum()) >= int((runs.end_ps - runs.begin_ps).sum())


def find_launching_steps(events: HostEvents, runs: ProgramExecutions, markers: Markers) -> Int64s | None:
    """Return the group of the marker in which each run was launched, or -1 if it is in none. None if it is not known
    which launch each run is of. Runs are numbered in the order in which they are launched."""
    order = np.arange(len(runs.begin_ps)) if runs.run is None else np.argsort(runs.run, kind="stable")
    begin = runs.begin_ps[order]
    launched = _find_launch_times(events, runs.plane)
    for skipped in dict.fromkeys((max(len(begin) - len(launched), 0), 0)):
        here = begin[skipped : skipped + len(launched)]
        if len(here) and (here >= launched[: len(here)]).all():
            group = np.full(len(begin), -1, np.int64)
            group[order[skipped : skipped + len(here)]] = _find_holding_span(markers, launched[: len(here)])
            return group
    return None


def extend_markers(markers: Markers, runs: ProgramExecutions, group: Int64s) -> Markers:
    """Return the spans of steps whose markers only hold the dispatch: from the marker, or the end of the work of the
    step before if that is later, to the end of the step's own work."""
    spans = sort_longest_markers(markers)
    end = add_durations(spans.start_ps, spans.duration_ps)
    place = np.full(max(int(spans.group.max(initial=-1)), int(group.max(initial=-1))) + 1, -1, np.int64)
    place[spans.group] = np.arange(len(spans))
    mine = group >= 0
    np.maximum.at(end, place[group[mine]], runs.end_ps[mine])
    done = np.maximum.accumulate(end)
    begin = spans.start_ps.copy()
    begin[1:] = np.maximum(begin[1:], done[:-1])
    lasts = end > begin
    return Markers(spans.group[lasts], begin[lasts], (end - begin)[lasts])


def add_pool_runs(
    events: HostEvents, groups: Groups, runs: ProgramExecutions, of_run: Int64s | None, spans: Markers
) -> Groups:
    """Return the groups, with what pools run in them: ops of runs by ``of_run``, all else by the span in which it
    begins."""
    group_id = groups.group_id.copy()
    plane = runs.plane
    marks = np.concatenate([groups.step_rows, groups.root_rows[groups.root_rows >= 0]])
    marks = marks[(marks >= plane.first) & (marks < plane.last)]
    places = np.setdiff1d(find_lines(plane.lines, runs.rows), find_lines(plane.lines, marks))
    lines = (plane.lines[place] for place in places.tolist())  # of pools: they run ops and set no marker
    pool = np.concatenate([np.zeros(0, np.int64), *(np.arange(line.first, line.last) for line in lines)])
    spans = sort_longest_markers(spans)
    group_id[pool] = _find_holding_span(spans, events.start_ps[pool])
    if of_run is not None:
        group_id[runs.rows] = of_run[runs.of]
    else:
        group_id[runs.rows] = _find_holding_span(spans, events.start_ps[runs.rows])
    return replace(groups, group_id=group_id)


def _find_holding_span(spans: Markers, time: Int64s) -> Int64s:
    """Return the group of the span that holds each time, or -1."""
    spans = sort_longest_markers(spans)
    if not len(spans):
        return np.full(len(time), -1, np.int64)
    at = find_last_started(spans.start_ps, time)
    inside = (at >= 0) & (time < add_durations(spans.start_ps, spans.duration_ps)[at])
    return np.where(inside, spans.group[at], -1).astype(np.int64)


def _find_launch_times(events: HostEvents, plane: Plane) -> Int64s:
    """Return when the runs of a host are launched, in order: the outermost events of that name on their lines."""
    for pattern in _LAUNCHES:
        wanted = np.array([pattern.search(name) is not None for name in events.names], np.bool_)
        rows = np.flatnonzero(wanted[events.meta[plane.first : plane.last]]) + plane.first
        if len(rows):
            return np.sort(events.start_ps[find_outermost(events, plane, rows)])
    return np.zeros(0, np.int64)


def find_outermost(events: HostEvents, plane: Plane, rows: Int64s) -> Int64s:
    """Return the rows that lie in no other of them on their line."""
    line = find_lines(plane.lines, rows)
    end = add_durations(events.start_ps[rows], events.duration_ps[rows])
    keep = np.ones(len(rows), np.bool_)
    bounds = [0, *(np.flatnonzero(line[1:] != line[:-1]) + 1).tolist(), len(rows)]
    for low, high in pairwise(bounds):
        keep[low + 1 : high] = events.start_ps[rows[low + 1 : high]] >= np.maximum.accumulate(end[low:high])[:-1]
    return rows[keep]


LEAST_REPEATS: Final = 3
"""What is repeated occurs at least this often."""
_LEAST_SHARE: Final = (1, 2)
_ALIKE: Final = (19, 20)
"""Annotations whose time is at least this part of the most: the one that occurs most often of them counts."""
_NEARLY: Final = 0.9
"""Least part of the work of a thread that lies in an annotation, and of its occurrences that hold work."""
_PERIODIC: Final = (9, 10)
"""Least part of launches that are what was launched a period before."""
_NUMBER: Final = compile_late(r"\d+")
_RAREST: Final = 8
_PROFILER: Final = compile_late(r"profiler\.py:\d+ (start_trace|stop_trace|trace|__exit__|__enter__)|ProfilerSession")
LAUNCH_PATTERN: Final = compile_late(
    r"PjitFunction\(|Executable::Execute|EagerExecute: |EagerLocalExecute: |FunctionRun|SessionRun|RunGraph|"
    r"(?<![\w./>-])(?=[_/>-]*[A-Za-z0-9.])[\w./>-]*:[A-Z_]\w*$"
)
"""What starts work, by name: calls of compiled functions, eager ops, runs of graphs, and ops of TensorFlow. Their names
are tried where they begin, not at each letter: a name may be long."""


class RepeatedAnnotation(NamedTuple):
    """An annotation that repeats: its rows in order of time, and its name."""

    rows: Int64s
    name: str


def find_repeated_annotation(events: HostEvents) -> RepeatedAnnotation | None:
    """Return the annotation that occurs at least three times on one thread and covers most time of the host's threads:
    half of it or more, or nearly all work that threads do or launch. Of those that cover about as much, the one that
    occurs most often."""
    plane = events.plane_named(HOST_THREADS)
    if plane is None or plane.first == plane.last:
        return None
    meta, start = events.meta[plane.first : plane.last], events.start_ps[plane.first : plane.last]
    end = add_durations(start, events.duration_ps[plane.first : plane.last])
    of_program = ~_match_names(events, _PROFILER)[meta]
    if not of_program.any():
        return None
    lasts = int(end[of_program].max()) - int(start[of_program].min())
    fits = np.array([is_annotation(name) for name in events.names], np.bool_)[meta]
    hlo = events.stat("hlo_op").rows
    hlo = hlo[(hlo >= plane.first) & (hlo < plane.last)]
    fits[hlo - plane.first] = False
    compiling = compiles_code(events)[meta]
    if compiling.any():  # events of torch.compile repeat, too
        spans = merge_spans(start[compiling], (end - start)[compiling])
        fits &= measure_covered_time(spans, start, np.ones_like(start)) == 0
    rows = np.flatnonzero(fits & (end > start))
    line = find_lines(plane.lines, rows + plane.first)
    keys, number, counts = np.unique(
        np.stack([line, meta[rows]], axis=1), axis=0, return_inverse=True, return_counts=True
    )
    number = number.reshape(-1)
    time = np.zeros(len(keys), np.int64)
    np.add.at(time, number, end[rows] - start[rows])
    wide = (time * _LEAST_SHARE[1] >= lasts * _LEAST_SHARE[0]) | _contain_work(events, plane, rows, number, len(keys))
    wide &= (counts >= LEAST_REPEATS) & (time <= lasts)
    if not wide.any():
        return None
    near = wide & (time * _ALIKE[1] >= int(time[wide].max()) * _ALIKE[0])
    best = int(np.where(near, counts, 0).argmax())
    return RepeatedAnnotation(rows[number == best].astype(np.int64) + plane.first, events.names[int(keys[best, 1])])


def find_calls_named(events: HostEvents, name: str) -> RepeatedAnnotation | None:
    """Return the events of this name, whatever their numbers, on the thread with most of them; None without any."""
    plane = events.plane_named(HOST_THREADS)
    if plane is None:
        return None
    named = np.array([_NUMBER.sub("", label).strip() == name or label == name for label in events.names], np.bool_)
    rows = plane.first + np.flatnonzero(named[events.meta[plane.first : plane.last]])
    if not len(rows):
        return None
    line = find_lines(plane.lines, rows)
    rows = rows[line == int(np.bincount(line).argmax())]
    return RepeatedAnnotation(find_outermost(events, plane, rows), name)


def _contain_work(events: HostEvents, plane: Plane, rows: Int64s, number: Int64s, count: int) -> Bools:
    """Return for each of ``count`` annotations whether nearly all launches and ops of their thread lie in them.
    ``rows``, ``number``: occurrences within the plane, and which annotation each is."""
    works = is_op(events) if is_kineto(events) else _match_names(events, LAUNCH_PATTERN)
    own = np.flatnonzero(works[events.meta[plane.first : plane.last]])
    start = events.start_ps[plane.first : plane.last]
    holds = np.zeros(count, np.bool_)
    bounds = np.array([line.first for line in plane.lines] + [plane.last]) - plane.first
    of_line, own_start = np.searchsorted(own, bounds), start[own]
    times = np.bincount(number, minlength=count)
    places = np.split(np.argsort(number, kind="stable"), np.cumsum(times)[:-1])
    for annotation in np.flatnonzero(times >= LEAST_REPEATS).tolist():
        here = rows[places[annotation]]
        line = int(np.searchsorted(bounds, here[0], side="right")) - 1
        work = own_start[of_line[line] : of_line[line + 1]]
        begin, end = start[here], add_durations(start[here], events.duration_ps[plane.first + here])
        until = np.minimum(end, np.append(begin[1:], np.iinfo(np.int64).max))
        within = np.maximum(np.searchsorted(work, until) - np.searchsorted(work, begin), 0)
        holds[annotation] = len(work) > 0 and within.sum() >= _NEARLY * len(work)
        holds[annotation] &= np.count_nonzero(within) >= _NEARLY * len(here)
    return holds


def convert_to_executions(events: HostEvents, repeated: RepeatedAnnotation) -> list[ProgramExecutions]:
    """Return the occurrences of an annotation on a host without devices, with the events of all threads that begin in
    each."""
    plane = events.plane_named(HOST_THREADS)
    assert plane is not None
    begin = events.start_ps[repeated.rows]
    return [
        _make_span_executions(
            events, plane, begin, add_durations(begin, events.duration_ps[repeated.rows]), repeated.name
        )
    ]


def find_launch_pattern(events: HostEvents) -> list[ProgramExecutions]:
    """Return the repetitions of the longest pattern of launches: kernels of each GPU, else what threads of the host
    start. Empty: nothing repeats."""
    gpus = events.planes_of("GPU")
    patterns = [pattern for plane in gpus if (pattern := _find_gpu_pattern(events, plane)) is not None]
    plane = events.plane_named(HOST_THREADS)
    if gpus or plane is None:
        return patterns
    wanted = is_op(events) if is_kineto(events) else _match_names(events, LAUNCH_PATTERN)
    rows = np.flatnonzero(wanted[events.meta[plane.first : plane.last]]) + plane.first
    rows = find_outermost(events, plane, rows)
    period = _find_periods(events, rows[np.argsort(events.start_ps[rows], kind="stable")])
    if period is None:
        return []
    rows, of = period
    if _are_layers(events, events.start_ps[rows[_find_period_begins(of)]]):
        return []
    first, last = np.flatnonzero(np.append(True, of[1:] != of[:-1])), np.flatnonzero(np.append(of[1:] != of[:-1], True))
    end = np.maximum.accumulate(add_durations(events.start_ps[rows], events.duration_ps[rows]))
    begin = np.maximum(events.start_ps[rows[first]], np.append(np.iinfo(np.int64).min, end[last[:-1]]))
    name = f"{events.names[int(events.meta[rows[0]])]} …"
    return [_make_span_executions(events, plane, begin, end[last], name)]


def _find_gpu_pattern(events: HostEvents, plane: Plane) -> ProgramExecutions | None:
    """Return the launch pattern of the kernels and copies of a GPU, in order of time."""
    lines = [np.arange(line.first, line.last) for line in plane.lines if not line.is_derived]
    rows = np.concatenate(lines or [np.zeros(0, np.int64)])
    period = _find_periods(events, rows[np.argsort(events.start_ps[rows], kind="stable")])
    if period is None:
        return None
    rows, of = period
    calls, ids = _match_launches(events, rows)
    first, last = _find_period_begins(of), np.append(_find_period_begins(of)[1:], len(of)) - 1
    of_one_call = (ids[first[1:]] > 0) & (ids[first[1:]] == ids[last[:-1]])
    if 2 * np.count_nonzero(of_one_call) > len(of_one_call) or _are_layers(events, calls[first]):
        return None
    n = int(of[-1]) + 1
    end = np.full(n, np.iinfo(np.int64).min)
    np.maximum.at(end, of, add_durations(events.start_ps[rows], events.duration_ps[rows]))
    first = np.flatnonzero(np.append(True, of[1:] != of[:-1]))
    name = f"{events.names[int(events.meta[rows[0]])]} …"
    return ProgramExecutions(plane, rows, of, events.start_ps[rows[first]], end, np.zeros(n, np.int64), [name])


def _find_period_begins(of: Int64s) -> Int64s:
    """Return the places at which periods begin."""
    return np.flatnonzero(np.append(True, of[1:] != of[:-1]))


def _match_launches(events: HostEvents, rows: Int64s) -> tuple[Int64s, Int64s]:
    """Return when the work of a device was launched, or begins if that is unknown, and the id that it shares with its
    launch, 0 if it has none. All kernels of a graph share the launch of the graph."""
    stat = events.stat("correlation_id").of_kinds((records.INT64, records.UINT64))
    ids, start = np.zeros(len(rows), np.int64), events.start_ps[rows].copy()
    known, value = join_stat(rows, stat.rows, stat.value)
    ids[known] = value[known]
    threads = events.plane_named(HOST_THREADS)
    if threads is not None:
        calls = (stat.rows >= threads.first) & (stat.rows < threads.last)
        order = np.argsort(stat.value[calls], kind="stable")
        call_ids, call_rows = stat.value[calls][order], stat.rows[calls][order]
        at = np.minimum(np.searchsorted(call_ids, ids), max(len(call_ids) - 1, 0))
        is_launched = (ids > 0) & (call_ids[at] == ids) if len(call_ids) else np.zeros(len(ids), np.bool_)
        start[is_launched] = events.start_ps[call_rows[at[is_launched]]]
    return start, ids


def _are_layers(events: HostEvents, begins: Int64s) -> bool:
    """Return whether most periods follow another one within one annotation: then they are parts of a step. ``begins``:
    when the first launch of each is."""
    plane = events.plane_named(HOST_THREADS)
    if plane is None:
        return False
    named = np.array([is_annotation(name) for name in events.names], np.bool_)
    if is_kineto(events):
        named &= has_category(events, ANNOTATIONS)
    rows = plane.first + np.flatnonzero(named[events.meta[plane.first : plane.last]])
    start, end = events.start_ps[rows], add_durations(events.start_ps[rows], events.duration_ps[rows])
    order = np.argsort(start, kind="stable")
    reached = np.append(np.iinfo(np.int64).min, np.maximum.accumulate(end[order]))
    together = reached[np.searchsorted(start[order], begins[:-1], side="right")] > begins[1:]
    return 2 * int(np.count_nonzero(together)) > len(together)


def _make_span_executions(events: HostEvents, plane: Plane, begin: Int64s, end: Int64s, name: str) -> ProgramExecutions:
    """Make executions of spans in order, with the rows of a plane that begin in each."""
    rows = np.arange(plane.first, plane.last)
    at = find_last_started(begin, events.start_ps[rows])
    inside = (at >= 0) & (events.start_ps[rows] < end[at])
    return ProgramExecutions(plane, rows[inside], at[inside], begin, end, np.zeros(len(begin), np.int64), [name])


def _find_periods(events: HostEvents, rows: Int64s) -> tuple[Int64s, Int64s] | None:
    """Return the launches of whole periods, and the number of the period of each, or None if launches are not periodic.
    The period is the usual distance of the rarest name that repeats; it begins after the longest pauses."""
    names = np.unique(events.meta[rows], return_inverse=True)[1].reshape(-1)
    n = len(names)
    period = _find_period_length(names)
    if period is None:
        return None
    start, end = events.start_ps[rows], add_durations(events.start_ps[rows], events.duration_ps[rows])
    pause = np.maximum(start[1:] - np.maximum.accumulate(end)[:-1], 0)
    by_phase = np.zeros(period, np.float64)
    np.add.at(by_phase, np.arange(1, n) % period, pause)
    alike = _is_repeated(names, period)
    low, high = int(np.flatnonzero(alike)[0]), int(np.flatnonzero(alike)[-1]) + period
    phase = int(by_phase.argmax())
    low += (phase - low) % period
    count = (high + 1 - low) // period
    if count < LEAST_REPEATS:
        return None
    return rows[low : low + count * period], np.repeat(np.arange(count), period)


def _find_period_length(names: Int64s) -> int | None:
    """Return the distance at which at least nine of ten launches repeat, over half of the launches or more."""
    counts = np.bincount(names)
    rarest = np.argsort(np.where(counts >= LEAST_REPEATS, counts, np.iinfo(np.int64).max), kind="stable")[:_RAREST]
    for name in rarest.tolist():
        if counts[name] < LEAST_REPEATS:
            break
        places = np.flatnonzero(names == name)
        gaps, often = np.unique(places[1:] - places[:-1], return_counts=True)
        period = int(gaps[often.argmax()])
        between = slice(max(int(places[0]) - period, 0), int(places[-1]) + period)
        part = names[between]
        same = _is_repeated(part, period)
        covers = 2 * len(part) >= len(names)
        if covers and len(same) and int(same.sum()) * _PERIODIC[1] >= len(same) * _PERIODIC[0]:
            return period
    return None


def _is_repeated(names: Int64s, period: int) -> Bools:
    """Return whether each launch but those of the last period is repeated a period later."""
    same: Bools = names[period:] == names[:-period]
    return same


def _match_names(events: HostEvents, pattern: re.Pattern[str]) -> Bools:
    """Return whether each event name matches."""
    return np.array([pattern.search(name[:MOST_SEARCHED]) is not None for name in events.names], np.bool_)


def group_by_execution(groups: Groups, of_planes: Sequence[ProgramExecutions]) -> Groups:
    """Return groups that are executions, in place of those that markers make."""
    of_each, modules = _number_executions(of_planes)
    group_id = np.full(len(groups.events), -1, np.int32)
    steps = {}
    for of_plane, group in zip(of_planes, of_each, strict=True):
        group_id[of_plane.rows] = group[of_plane.of]
        order = np.argsort(of_plane.begin_ps, kind="stable")
        begin, end = of_plane.on_device
        steps[of_plane.plane.number] = PlaneSteps(
            group[order],
            of_plane.begin_ps[order],
            (of_plane.end_ps - of_plane.begin_ps)[order],
            begin[order],
            (end - begin)[order],
        )
    none = np.zeros(0, np.int32)
    return replace(
        groups,
        group_id=group_id,
        count=len(modules),
        root_rows=np.full(len(modules), -1, np.int32),
        step_rows=none,
        step_groups=none,
        relations=np.zeros((0, 2), np.int32),
        device_steps=steps,
        vetoed=False,
        _naming=make_naming(dict(enumerate(modules))),
    )


def _number_executions(of_planes: Sequence[ProgramExecutions]) -> tuple[list[Int32s], list[str]]:
    """Return the step of each execution on each plane, and the module of each step. Steps are numbered by when they
    begin on the first plane, those that begin at once by module, then by place."""
    modules = sorted({name for runs in of_planes for name in runs.modules})
    number_of = {name: number for number, name in enumerate(modules)}
    most = max((len(runs.module) for runs in of_planes), default=0)
    keys = [np.zeros(0, np.int64)]
    for of_plane in of_planes:
        module = np.array([number_of[name] for name in of_plane.modules], np.int64)[of_plane.module]
        order = sort_rows(module, of_plane.begin_ps)
        place = np.empty(len(module), np.int64)  # among the executions of the module on this plane
        place[order] = np.arange(len(module)) - np.searchsorted(module[order], module[order])
        keys.append(module * most + place)
    distinct, at = number_values(np.concatenate(keys))
    begin = np.full(len(distinct), np.iinfo(np.int64).max)
    np.minimum.at(begin, at, np.concatenate([keys[0], *(runs.begin_ps for runs in of_planes)]))
    order = sort_rows(begin, distinct)
    number = np.empty(len(order), np.int32)
    number[order] = np.arange(len(order), dtype=np.int32)
    bounds = np.cumsum([len(runs.module) for runs in of_planes])[:-1]
    names = [modules[key // most] for key in distinct[order].tolist()]
    return np.split(number[at], bounds) if len(of_planes) else [], names


_CALL: Final = compile_late(r"^(?:IteratorGetNextOp|MultiDeviceIteratorGetNext\w*)::DoCompute$")
_MOSTLY: Final = 0.9
"""Least part of the calls that work follows on their thread before the next call."""


class LoaderSteps(NamedTuple):
    """``groups``: the events of each step; ``spans``: from each call to the end of the work that its thread starts;
    ``name``: of the calls."""

    groups: Groups
    spans: Markers
    name: str


def find_loader_steps(groups: Groups) -> LoaderSteps | None:
    """Return steps that begin with calls of the data loader on the thread with most of them, or None if there are fewer
    than three, or if work does not follow them."""
    events = groups.events
    plane = events.plane_named(HOST_THREADS)
    if plane is None:
        return None
    calls = _find_host_rows(
        events, np.array([name.startswith(LOADERS) or bool(_CALL.match(name)) for name in events.names])
    )
    if len(calls) < LEAST_REPEATS:
        return None
    thread = plane.lines[int(np.bincount(find_lines(plane.lines, calls)).argmax())]
    calls = calls[(calls >= thread.first) & (calls < thread.last)]
    calls = find_outermost(events, plane, calls)
    works = np.array([LAUNCH_PATTERN.search(name) is not None for name in events.names])
    works = is_op(events) if is_kineto(events) else works
    work = _find_host_rows(events, works)
    work = work[(work >= thread.first) & (work < thread.last)]
    start, work_start = events.start_ps[calls], events.start_ps[work]
    loaded = add_durations(start, np.maximum(events.duration_ps[calls], 0))
    until = np.append(start[1:], np.iinfo(np.int64).max)
    low, high = np.searchsorted(work_start, loaded), np.searchsorted(work_start, until)
    follows: Bools = high > low
    count = len(calls) - int(len(calls) > 0 and not follows[-1])
    if count < LEAST_REPEATS or follows[:count].mean() < _MOSTLY:
        return None
    calls, start, until = calls[:count], start[:count], until[:count]
    done = np.append(np.iinfo(np.int64).min, add_durations(work_start, np.maximum(events.duration_ps[work], 0)))
    done = np.maximum.accumulate(done)[high[:count]]
    spans = Markers(
        np.arange(count, dtype=np.int32), start, np.minimum(np.maximum(done, loaded[:count]), until) - start
    )
    name = events.names[int(events.meta[calls[0]])]
    return LoaderSteps(_group_by_calls(groups, calls.astype(np.int32), until, name), spans, name)


def _find_host_rows(events: HostEvents, named: Bools) -> Int64s:
    """Return the rows of host threads whose names are among those."""
    plane = events.plane_named(HOST_THREADS)
    assert plane is not None
    return plane.first + np.flatnonzero(named[events.meta[plane.first : plane.last]])


def _group_by_calls(groups: Groups, calls: np.ndarray, until: Int64s, name: str) -> Groups:
    """Return groups of what host threads begin from each call to the next, and of what GPUs run for it."""
    events, none = groups.events, np.zeros(0, np.int32)
    group_id = grouping.group_by_marks(events, calls, until)
    return replace(
        groups,
        group_id=group_id,
        count=len(calls),
        root_rows=np.full(len(calls), -1, np.int32),
        step_rows=none,
        step_groups=none,
        relations=np.zeros((0, 2), np.int32),
        device_steps=grouping.collect_profiler_steps(events, group_id),
        vetoed=False,
        _naming=make_naming(dict.fromkeys(range(len(calls)), name)),
    )
