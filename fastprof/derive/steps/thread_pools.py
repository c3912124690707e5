"""Regions of thread pools: between the mark where a thread takes up a task and the one where it is done.

The marks are events of no duration. The region between them is not an event: it only keeps what the thread does for the
task from lying in an event that began before and ends in between.
"""

from __future__ import annotations

import numpy as np

from fastprof.schema.array_types import Int64s
from fastprof.tables.host_events import HostEvents
from fastprof.tables.once import once

START, STOP = "ThreadpoolListener::StartRegion", "ThreadpoolListener::StopRegion"


def regions(events: HostEvents) -> Int64s:
    """[k, 3]: the row that each region comes before on its line, its start and its duration; sorted by row, then
    longer first. There is one for each stop that a start precedes on its line."""
    begun, begins, duration = region_marks(events)
    some = duration > 0
    begun, begins, duration = begun[some], begins[some], duration[some]
    start = events.start_ps[begun]
    before = _places(events, begun, begins, duration)
    found = np.stack([before, start, duration], axis=1)
    if (before[1:] > before[:-1]).all():
        return found
    return np.ascontiguousarray(found[np.lexsort((-duration, before))])


@once
def region_marks(events: HostEvents) -> tuple[Int64s, Int64s, Int64s]:
    """Of each region, those of no length too, the row of its start, the first row of its line, and its duration."""
    marks = _marks(events)
    if marks is None:
        none = np.zeros(0, np.int64)
        return none, none, none
    starts, stops = marks
    lines = [line for line in events.lines if line.last > line.first]
    firsts = np.array([line.first for line in lines], np.int64)
    begins = firsts[np.searchsorted(firsts, stops, side="right") - 1]
    last = np.searchsorted(starts, stops) - 1
    known = (last >= 0) & (starts[last] >= begins)
    known[known] = events.start_ps[starts[last[known]]] != 0  # a start at 0 is none to TSL
    begun = starts[last[known]]
    return begun, begins[known], events.start_ps[stops[known]] - events.start_ps[begun]


def _marks(events: HostEvents) -> tuple[Int64s, Int64s] | None:
    """Rows of starts that record their task, and of stops, in planes that have both; None: none have."""
    code = np.array([(name == START) + 2 * (name == STOP) for name in events.names], np.uint8)
    start, stop = (np.flatnonzero(code == one) for one in (1, 2))
    if not len(start) or not len(stop):
        return None
    both = np.intersect1d(events.meta_plane[start], events.meta_plane[stop])
    for metas in (start, stop):
        code[metas[~np.isin(events.meta_plane[metas], both)]] = 0
    has_task = events.ints("_c")[0]
    starts = has_task[code[events.meta[has_task]] == 1].astype(np.int64)
    stops = np.flatnonzero((code == 2)[events.meta])
    return (starts, stops) if len(starts) and len(stops) else None


def _places(events: HostEvents, begun: Int64s, begins: Int64s, duration: Int64s) -> Int64s:
    """The row that each region comes before: that of its mark, or the first that starts as it does and is shorter.
    ``begins``: the first row of its line."""
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
