"""Tasks of thread pools: which event of another thread scheduled what a thread runs.

python            |-- PjitFunction --|
                         ^ ThreadpoolListener::Record, which produces task 7
tf_Compute/3                  ^ StartRegion, which consumes task 7   |-- fusion.1 --|   ^ StopRegion
"""

from __future__ import annotations

from typing import Final

import numpy as np

from fastprof.derive.steps.thread_pools import region_marks
from fastprof.schema.array_types import Bools, Int32s, Int64s
from fastprof.tables.host_events import HostEvents, beside

RECORD: Final = "ThreadpoolListener::Record"
_MOST_TURNS: Final = 16
"""A task that was scheduled by a task, and so on, is followed so far."""


def scheduled_by(events: HostEvents, rows: Int32s, above: Int32s, wanted: Bools) -> Int32s:
    """``above``, completed: of rows for which it is -1, the event that scheduled the task that the row is part of, if
    it is ``wanted``, else the one that scheduled that, and so on; -1: there is none."""
    if not (above < 0).any():
        return above
    found, marks = above.copy(), _Tasks(events)
    places = np.flatnonzero(above < 0)
    here = rows[places].astype(np.int64)
    for _ in range(_MOST_TURNS):
        here = marks.scheduler(here)
        known = here >= 0
        places, here = places[known], here[known]
        done = wanted[here]
        found[places[done]] = here[done]
        places, here = places[~done], here[~done]
        if not len(places):
            break
    return found


class _Tasks:
    """The regions in which threads of pools run tasks, and the events that scheduled them."""

    def __init__(self, events: HostEvents) -> None:
        self._events = events
        begun, first, duration = region_marks(events)
        last_stop = np.append(begun[1:] != begun[:-1], True) if len(begun) else np.zeros(0, np.bool_)
        self._begun, self._first = begun[last_stop], first[last_stop]
        self._end = events.start_ps[self._begun] + duration[last_stop]
        _, self._task = beside(self._begun, *events.ints("_c"))
        rows, tasks = events.ints("_p")
        is_record = np.array([name == RECORD for name in events.names], np.bool_)
        chosen = is_record[events.meta[rows]]
        order = np.argsort(tasks[chosen], kind="stable")
        self._made, self._by = tasks[chosen][order], rows[chosen][order].astype(np.int64)

    def scheduler(self, rows: Int64s) -> Int64s:
        """The event that scheduled the task that each row is part of; -1: it is part of none."""
        events = self._events
        scheduler = np.full(len(rows), -1, np.int64)
        if not len(self._begun) or not len(self._made):
            return scheduler
        region = np.searchsorted(self._begun, rows, side="right") - 1
        lines = np.array([line.first for line in events.lines if line.last > line.first], np.int64)
        line_of = lines[np.searchsorted(lines, rows, side="right") - 1]
        ends = events.start_ps[rows] + np.maximum(events.duration_ps[rows], 0)
        inside = (region >= 0) & (self._first[region] == line_of) & (ends <= self._end[region])
        task = self._task[region[inside]]
        place = np.minimum(np.searchsorted(self._made, task), len(self._made) - 1)
        scheduler[inside] = np.where(self._made[place] == task, self._by[place], -1)
        return scheduler
