"""Which step each moment of a device belongs to.

A step lasts on a device from the begin of its marker on the host, or of its first event on the device if that is
earlier, to the end of both. Hosts launch work ahead, so that these overlap: the next step then begins when the device
is done with the one before, and at the latest with its own first event.

    markers         |--1--|--2--|--3--|
    device             |---1----| |----2----|  |--3--|
    steps           |-----1-----|-----2-----|----3---|
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from fastprof.derive.steps.grouping import Groups
from fastprof.schema.array_types import Int32s, Int64s
from fastprof.schema.time_sums import ends_of
from fastprof.schema.value_classes import dataclass

if TYPE_CHECKING:
    from fastprof.tables.host_events import HostEvents

NEVER: Final[int] = np.iinfo(np.int64).max
"""A time that no event has."""


@dataclass(frozen=True, slots=True)
class Intervals:
    """Disjoint, in order of time. ``group``: of each, the group of events that is the step."""

    group: Int64s
    begin_ps: Int64s
    end_ps: Int64s

    def group_at(self, time: Int64s) -> Int64s:
        """The step at each time, -1: none."""
        if not len(self.group):
            return np.full(len(time), -1, np.int64)
        place = np.searchsorted(self.begin_ps, time, side="right") - 1
        inside = (place >= 0) & (time < self.end_ps[place])
        return np.where(inside, self.group[place], -1)


def markers(events: HostEvents, groups: Groups, steps: Int64s) -> tuple[Int64s, Int64s]:
    """Begin and end of the marker of each step on the host's threads, of several the longest; (NEVER, -NEVER) where
    there is none."""
    begin, end = np.full(len(steps), NEVER), np.full(len(steps), -NEVER)
    rows = np.concatenate([groups.step_rows, groups.root_rows[groups.root_rows >= 0]])
    of = np.concatenate([groups.step_groups.astype(np.int64), np.flatnonzero(groups.root_rows >= 0)])
    place = np.minimum(np.searchsorted(steps, of), max(len(steps) - 1, 0))
    known = steps[place] == of if len(steps) else np.zeros(len(of), np.bool_)
    for plane in events.planes:
        if plane.kind != "CPU":
            known &= (rows < plane.first) | (rows >= plane.last)
    place, rows = place[known], rows[known]
    order = np.argsort(np.maximum(events.duration_ps[rows], 0), kind="stable")
    place, rows = place[order], rows[order]
    begin[place], end[place] = (
        events.start_ps[rows],
        ends_of(events.start_ps[rows], np.maximum(events.duration_ps[rows], 0)),
    )
    return begin, end


def intervals(
    steps: Int64s, group_of: Int32s, begin_ps: Int64s, end_ps: Int64s, marked: tuple[Int64s, Int64s]
) -> Intervals:
    """The steps of a device. ``steps``: groups, ascending; ``group_of``, ``begin_ps``, ``end_ps``: of the device's
    events; ``marked``: see markers."""
    first, last = np.full(len(steps), NEVER), np.full(len(steps), -NEVER)
    if len(steps) and len(group_of):
        place = np.minimum(np.searchsorted(steps, group_of), len(steps) - 1)
        mine = steps[place] == group_of
        np.minimum.at(first, place[mine], begin_ps[mine])
        np.maximum.at(last, place[mine], end_ps[mine])
    begin, end = np.minimum(first, marked[0]), np.maximum(last, marked[1])
    known = np.flatnonzero(begin < end)
    order = known[np.lexsort((begin[known], np.minimum(first, end)[known]))]
    begin, end, first, last = begin[order], end[order], np.minimum(first, end)[order], last[order]
    done = np.maximum.accumulate(np.append(-NEVER, last[:-1])) if len(last) else last
    begin = np.minimum(np.maximum(begin, done), np.maximum(first, begin))
    begin = np.maximum.accumulate(begin) if len(begin) else begin
    end = np.minimum(np.maximum(end, begin), np.append(begin[1:], NEVER)) if len(end) else end
    return Intervals(steps[order], begin, end)
