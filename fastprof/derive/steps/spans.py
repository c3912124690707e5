"""Spans of time on lines: unions of spans, what they cover, which event encloses which, and tasks of thread pools.

A thread pool marks with events of no duration when a thread takes up a task and when it has done it. The region between
two marks is not an event: it only keeps what the thread does for the task from being nested in an event that began
before and ends in between. An event of another thread scheduled the task:

    python            |-- PjitFunction --|
                             ^ ThreadpoolListener::Record, which produces task 7
    tf_Compute/3                  ^ StartRegion, which consumes task 7   |-- fusion.1 --|   ^ StopRegion
"""

from __future__ import annotations

from typing import Final

import numpy as np

from fastprof._native.grouping import parents
from fastprof.schema.columns import Bools, Int32s, Int64s, UInt8s, find_last_started, sort_rows
from fastprof.tables.host_events import HostEvents, Plane, compute_once, join_stat

STRETCH: Final = np.dtype([("begin", "i8"), ("end", "i8"), ("row", "i8")])
PIECE: Final = np.dtype([("begin", "i8"), ("end", "i8"), ("label", "i8")])
"""Structs of csrc/kernels/stretches.h and foremost.h; a test compares their sizes with C's."""


REGION_START, REGION_STOP = "ThreadpoolListener::StartRegion", "ThreadpoolListener::StopRegion"


def find_pool_regions(events: HostEvents) -> Int64s:
    """Return [k, 3] the row that each region comes before on its line, its start and its duration; sorted by row, then
    longer first. There is one for each stop that a start precedes on its line."""
    begun, begins, duration = find_region_marks(events)
    some = duration > 0
    begun, begins, duration = begun[some], begins[some], duration[some]
    start = events.start_ps[begun]
    before = _place_regions(events, begun, begins, duration)
    regions = np.stack([before, start, duration], axis=1)
    if (before[1:] > before[:-1]).all():
        return regions
    return np.ascontiguousarray(regions[sort_rows(before, -duration)])


@compute_once
def find_region_marks(events: HostEvents) -> tuple[Int64s, Int64s, Int64s]:
    """Return the row of the start, the first row of the line, and the duration of each region, empty ones included."""
    marks = _find_marks(events)
    if marks is None:
        none = np.zeros(0, np.int64)
        return none, none, none
    starts, stops = marks
    lines = [line for line in events.lines if line.last > line.first]
    firsts = np.array([line.first for line in lines], np.int64)
    begins = firsts[find_last_started(firsts, stops)]
    last = np.searchsorted(starts, stops) - 1
    known = (last >= 0) & (starts[last] >= begins)
    known[known] = events.start_ps[starts[last[known]]] != 0  # a start at 0 is none to TSL
    begun = starts[last[known]]
    return begun, begins[known], events.start_ps[stops[known]] - events.start_ps[begun]


def _find_marks(events: HostEvents) -> tuple[Int64s, Int64s] | None:
    """Return rows of starts that record their task, and of stops, in planes that have both, or None if no plane has."""
    code = np.array([(name == REGION_START) + 2 * (name == REGION_STOP) for name in events.names], np.uint8)
    start, stop = (np.flatnonzero(code == mark) for mark in (1, 2))
    if not len(start) or not len(stop):
        return None
    both = np.intersect1d(events.meta_plane[start], events.meta_plane[stop])
    for metas in (start, stop):
        code[metas[~np.isin(events.meta_plane[metas], both)]] = 0
    has_task = events.ints("_c")[0]
    starts = has_task[code[events.meta[has_task]] == 1].astype(np.int64)
    stops = np.flatnonzero((code == 2)[events.meta])
    return (starts, stops) if len(starts) and len(stops) else None


def _place_regions(events: HostEvents, begun: Int64s, begins: Int64s, duration: Int64s) -> Int64s:
    """Return the row that each region comes before: that of its mark, or the first that starts as it does and is
    shorter. ``begins``: the first row of its line."""
    above = np.maximum(begun - 1, 0)
    tied = (begun > begins) & (events.start_ps[above] == events.start_ps[begun])
    tied &= events.duration_ps[above] < duration
    place = begun.copy()
    low, high, start, length = begins[tied], begun[tied], events.start_ps[begun[tied]], duration[tied]
    while (low < high).any():
        middle = (low + high) // 2
        after = (events.start_ps[middle] == start) & (events.duration_ps[middle] < length)
        high, low = np.where(after, middle, high), np.where(after | (low == high), low, middle + 1)
    place[tied] = low
    return place


TASK_RECORD: Final = "ThreadpoolListener::Record"
_MOST_TURNS: Final = 16
"""A task that was scheduled by a task, and so on, is followed so far."""


def find_schedulers(events: HostEvents, rows: Int32s, above: Int32s, wanted: Bools) -> Int32s:
    """Complete ``above``: where it is -1, by the event that scheduled the task of the row, if it is ``wanted``, else
    the one that scheduled that, and so on, or -1 if there is none."""
    if not (above < 0).any():
        return above
    schedulers, marks = above.copy(), _Tasks(events)
    places = np.flatnonzero(above < 0)
    here = rows[places].astype(np.int64)
    for _ in range(_MOST_TURNS):
        here = marks.scheduler(here)
        known = here >= 0
        places, here = places[known], here[known]
        done = wanted[here]
        schedulers[places[done]] = here[done]
        places, here = places[~done], here[~done]
        if not len(places):
            break
    return schedulers


class _Tasks:
    """The regions in which threads of pools run tasks, and the events that scheduled them."""

    def __init__(self, events: HostEvents) -> None:
        self._events = events
        begun, first, duration = find_region_marks(events)
        last_stop = np.append(begun[1:] != begun[:-1], True) if len(begun) else np.zeros(0, np.bool_)
        self._begun, self._first = begun[last_stop], first[last_stop]
        self._end = events.start_ps[self._begun] + duration[last_stop]
        _, self._task = join_stat(self._begun, *events.ints("_c"))
        rows, tasks = events.ints("_p")
        is_record = np.array([name == TASK_RECORD for name in events.names], np.bool_)
        chosen = is_record[events.meta[rows]]
        order = np.argsort(tasks[chosen], kind="stable")
        self._made, self._by = tasks[chosen][order], rows[chosen][order].astype(np.int64)

    def scheduler(self, rows: Int64s) -> Int64s:
        """Return the event that scheduled the task of each row, or -1 if the row is part of none."""
        events = self._events
        scheduler = np.full(len(rows), -1, np.int64)
        if not len(self._begun) or not len(self._made):
            return scheduler
        region = find_last_started(self._begun, rows)
        lines = np.array([line.first for line in events.lines if line.last > line.first], np.int64)
        line_of = lines[find_last_started(lines, rows)]
        ends = events.start_ps[rows] + np.maximum(events.duration_ps[rows], 0)
        inside = (region >= 0) & (self._first[region] == line_of) & (ends <= self._end[region])
        task = self._task[region[inside]]
        place = np.minimum(np.searchsorted(self._made, task), len(self._made) - 1)
        scheduler[inside] = np.where(self._made[place] == task, self._by[place], -1)
        return scheduler


@compute_once
def find_enclosing(events: HostEvents) -> Int32s:
    """Return the innermost enclosing event of each event, or -1. Asynchronous events neither enclose nor are enclosed,
    nor do those of TPUs. What lies in a region of a thread pool lies in nothing that began before. Reads ``_a`` and
    ``_c``."""
    apart: UInt8s | None = None
    rows, values = events.ints("_a")
    if len(rows):
        apart = np.zeros(len(events), np.uint8)
        apart[rows[values != 0]] = 1
    for plane in list_tpu_planes(events):
        apart = np.zeros(len(events), np.uint8) if apart is None else apart
        apart[plane.first : plane.last] = 1
    parent = np.full(len(events), -1, np.int32)
    bounds = np.array([(line.first, line.last) for line in events.lines], np.int64).reshape(-1, 2)
    parents(events.start_ps, events.duration_ps, apart, find_pool_regions(events), bounds, parent, events.slack_ps)
    parent.flags.writeable = False
    return parent


def list_tpu_planes(events: HostEvents) -> list[Plane]:
    return [plane for plane in events.planes if plane.name.startswith("/device:TPU:")]
