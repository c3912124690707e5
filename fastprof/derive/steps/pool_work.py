"""The steps of CPU programs: what threads of pools run for a step, besides what grouping connects with its marker.

Ops of a compiled program record their run, and a run belongs to the step that launched it. Other events of threads that
run such ops belong to the steps in whose time they are. Frames of Python, annotations of users and waiting for these
threads are no computation, where the capture records which ops ran.
"""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise
from typing import Final

import numpy as np

from fastprof.derive.steps.executions import Executions
from fastprof.derive.steps.grouping import Groups
from fastprof.derive.steps.host_reasons import in_order
from fastprof.derive.steps.step_time import Markers
from fastprof.derive.steps.stretches import filled, union
from fastprof.derive.steps.traceme_names import NameKind, kind_of_name
from fastprof.schema.array_types import Int64s
from fastprof.schema.time_sums import ends_of
from fastprof.tables.host_events import HostEvents, Plane
from fastprof.wording.patterns import pattern_of

_WAITS: Final = ("ThunkExecutor::Execute (wait", "SlinkyThreadPool::Await", "Wait for ", "ThreadpoolListener::")
_ANNOTATION: Final = pattern_of(r"[\w .\-/#\[\]]+", re.ASCII)
"""Names of annotations: no frame, no function of the framework (``::``, ``(``), no op with its type (``:``)."""
_RUNTIME: Final = ("ParseArguments", "Handle inputs", "Handle input event", "AllocateOutputBuffers", "EagerExecute",
                   "SessionRun", "FunctionRun", "RunGraph", "end: ", *_WAITS)  # fmt: skip
_LAUNCHES: Final = (pattern_of(r"Executable::Execute"), pattern_of(r"PjitFunction\("))
"""What starts a run, the first of these that a capture has."""


def is_annotation(name: str) -> bool:
    """Whether a user may have named an event so, and no framework does."""
    fits = _ANNOTATION.fullmatch(name) is not None and not name.startswith(_RUNTIME)
    return fits and kind_of_name(name) in (NameKind.UNKNOWN, NameKind.ANNOTATION)


def held_by(runs: Executions, markers: Markers) -> bool:
    """Whether at least half of the time of the runs is within the markers."""
    held = filled(union(markers.start_ps, markers.duration_ps), runs.begin_ps, runs.end_ps - runs.begin_ps)
    return 2 * int(held.sum()) >= int((runs.end_ps - runs.begin_ps).sum())


def launching_steps(events: HostEvents, runs: Executions, markers: Markers) -> Int64s | None:
    """The group of the marker in which each run was launched, -1: in none; None: it is not known which launch each run
    is of. Runs are numbered in the order in which they are launched."""
    order = np.arange(len(runs.begin_ps)) if runs.run is None else np.argsort(runs.run, kind="stable")
    begin = runs.begin_ps[order]
    launched = _launches(events, runs.plane)
    for skipped in dict.fromkeys((max(len(begin) - len(launched), 0), 0)):
        here = begin[skipped : skipped + len(launched)]
        if len(here) and (here >= launched[: len(here)]).all():
            group = np.full(len(begin), -1, np.int64)
            group[order[skipped : skipped + len(here)]] = _holding(markers, launched[: len(here)])
            return group
    return None


def extended(markers: Markers, runs: Executions, group: Int64s) -> Markers:
    """The spans of steps whose markers only hold the dispatch: from the marker, or the end of the work of the step
    before if that is later, to the end of the step's own work."""
    spans = in_order(markers)
    end = ends_of(spans.start_ps, spans.duration_ps)
    place = np.full(max(int(spans.group.max(initial=-1)), int(group.max(initial=-1))) + 1, -1, np.int64)
    place[spans.group] = np.arange(len(spans))
    mine = group >= 0
    np.maximum.at(end, place[group[mine]], runs.end_ps[mine])
    done = np.maximum.accumulate(end)
    begin = spans.start_ps.copy()
    begin[1:] = np.maximum(begin[1:], done[:-1])
    lasts = end > begin
    return Markers(spans.group[lasts], begin[lasts], (end - begin)[lasts])


def with_runs(events: HostEvents, groups: Groups, runs: Executions, of_run: Int64s | None, spans: Markers) -> Groups:
    """The groups, with what pools run in them: ops of runs by ``of_run``, all else by the span in which it begins."""
    group_id = groups.group_id.copy()
    pool = _pool_rows(runs, groups)
    spans = in_order(spans)
    group_id[pool] = _holding(spans, events.start_ps[pool])
    if of_run is not None:
        group_id[runs.rows] = of_run[runs.of]
    else:
        group_id[runs.rows] = _holding(spans, events.start_ps[runs.rows])
    return replace(groups, group_id=group_id)


def _holding(spans: Markers, time: Int64s) -> Int64s:
    """The group of the span that holds each moment, -1: none does."""
    spans = in_order(spans)
    if not len(spans):
        return np.full(len(time), -1, np.int64)
    at = np.searchsorted(spans.start_ps, time, side="right") - 1
    inside = (at >= 0) & (time < ends_of(spans.start_ps, spans.duration_ps)[at])
    return np.where(inside, spans.group[at], -1).astype(np.int64)


def _pool_rows(runs: Executions, groups: Groups) -> Int64s:
    """All rows of the lines that run ops and set no marker."""
    plane = runs.plane
    firsts = np.array([line.first for line in plane.lines], np.int64)
    lasts = np.array([line.last for line in plane.lines], np.int64)
    marks = np.concatenate([groups.step_rows, groups.root_rows[groups.root_rows >= 0]])
    marks = marks[(marks >= plane.first) & (marks < plane.last)]
    ran, marked = (np.zeros(len(firsts), np.bool_) for _ in range(2))
    ran[np.searchsorted(firsts, runs.rows, side="right") - 1] = True
    marked[np.searchsorted(firsts, marks, side="right") - 1] = True
    some = ran & ~marked
    pairs = zip(firsts[some].tolist(), lasts[some].tolist(), strict=True)
    return np.concatenate([np.arange(first, last) for first, last in pairs] or [np.zeros(0, np.int64)])


def _launches(events: HostEvents, plane: Plane) -> Int64s:
    """When the runs of a host are launched, in order: the outermost events of that name on their lines."""
    for pattern in _LAUNCHES:
        wanted = np.array([pattern.search(name) is not None for name in events.names], np.bool_)
        rows = np.flatnonzero(wanted[events.meta[plane.first : plane.last]]) + plane.first
        if len(rows):
            return np.sort(events.start_ps[outermost(events, plane, rows)])
    return np.zeros(0, np.int64)


def outermost(events: HostEvents, plane: Plane, rows: Int64s) -> Int64s:
    """Those of some rows that lie in no other of them on their line."""
    firsts = np.array([line.first for line in plane.lines], np.int64)
    line = np.searchsorted(firsts, rows, side="right") - 1
    end = ends_of(events.start_ps[rows], events.duration_ps[rows])
    keep = np.ones(len(rows), np.bool_)
    bounds = [0, *(np.flatnonzero(line[1:] != line[:-1]) + 1).tolist(), len(rows)]
    for low, high in pairwise(bounds):
        keep[low + 1 : high] = events.start_ps[rows[low + 1 : high]] >= np.maximum.accumulate(end[low:high])[:-1]
    return rows[keep]
