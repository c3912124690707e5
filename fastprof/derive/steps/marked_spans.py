"""Spans in which the threads of a host mark its steps."""

from __future__ import annotations

from typing import Final

import numpy as np

from fastprof.derive.steps.grouping import Groups
from fastprof.schema.array_types import Int64s
from fastprof.schema.time_sums import ends_of
from fastprof.tables.host_events import HostEvents

NEVER: Final[int] = np.iinfo(np.int64).max
"""A time that no event has."""


def markers(events: HostEvents, groups: Groups, steps: Int64s) -> tuple[Int64s, Int64s]:
    """Return begin and end of the marker of each step on the host's threads, of several the longest; NEVER and -NEVER
    if there is none. ``steps``: groups, ascending."""
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
