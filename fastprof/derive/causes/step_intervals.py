"""Which step each moment of a device belongs to, and where steps are marked on the threads of its host."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from fastprof.derive.steps.grouping import Groups
from fastprof.schema.array_types import Int64s
from fastprof.schema.time_sums import ends_of
from fastprof.schema.value_classes import dataclass

if TYPE_CHECKING:
    from fastprof.derive.steps.periods import Periods
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


def intervals(periods: Periods, device: str) -> Intervals:
    """Return the steps of a device, in order of time: periods, disjoint."""
    begin, end = periods.of_device(device)
    lasts = end > begin
    order = np.flatnonzero(lasts)[np.argsort(begin[lasts], kind="stable")]
    begin, end = begin[order], end[order]
    return Intervals(periods.step[order].astype(np.int64), begin, np.minimum(end, np.append(begin[1:], NEVER)))
