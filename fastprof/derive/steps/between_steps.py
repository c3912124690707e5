"""Time between the steps of a host: from the end of one extent to the begin of the next, by the same categories.

It is part of the period of the step before the pause.
"""

from __future__ import annotations

from dataclasses import replace
from operator import attrgetter
from types import SimpleNamespace
from typing import Final

import numpy as np

from fastprof.derive.steps.database import StepDatabase
from fastprof.derive.steps.periods import HostTimes
from fastprof.derive.steps.step_columns import IN_CATEGORIES, show_devices
from fastprof.derive.steps.step_figures import OTHER, core_breakdown, fitted, of_types
from fastprof.derive.steps.step_time import OWN_CATEGORIES, Markers
from fastprof.derive.steps.stretches import union
from fastprof.errors import CaptureError
from fastprof.schema.array_types import Bools, Int64s
from fastprof.schema.column_kinds import Count, Picoseconds, Share, Text
from fastprof.schema.tables import TableSchema
from fastprof.schema.time_sums import ends_of
from fastprof.schema.value_classes import dataclass
from fastprof.tables.host_events import HostEvents

BETWEEN_STEPS: Final = TableSchema(
    "between_steps",
    "a core of a host, in the time between its steps",
    (
        Text("host", "host, as the capture's file is named", lambda rows: [rows.host] * len(rows.core_id)),
        Count("core_id", "id of the core on its host; on a host without TPUs 1, for all of its devices"),
        Count("gap_count", "number of gaps between steps, in which no core of the host is in a step"),
        Picoseconds("time_ps", "time in these gaps"),
        Picoseconds("longest_ps", "longest gap"),
        Picoseconds("longest_start_ps", "start of the longest gap, from the start of the host's capture"),
        Text("longest_before", "name of the step that begins after the longest gap", attrgetter("longest_before")),
        Share("share", "time_ps / time from the begin of the host's first step to the end of its last"),
        *IN_CATEGORIES,
    ),
    derived=True,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class BetweenSteps:
    """``begin_ps``, ``duration_ps``: pauses between steps of a host, in order; ``longest_before``: the name of the step
    that begins after the longest. ``span_ps``: from the begin of the first step to the end of the last.
    ``core_id``: [c] ids of cores on the host; ``times_ps``: [c, k] time in the pauses by category; ``has_devices``: [c]
    whether work of a device is recorded in steps or pauses."""

    begin_ps: Int64s
    duration_ps: Int64s
    longest_before: str
    span_ps: int
    core_id: Int64s
    times_ps: Int64s
    has_devices: Bools

    @property
    def time_ps(self) -> int:
        return int(self.duration_ps.sum())

    def rows(self, host: str) -> SimpleNamespace:
        """Return a row for each core; none if no pause lies between steps."""
        n = len(self.core_id) if len(self.begin_ps) else 0
        longest = int(self.duration_ps.argmax()) if n else 0
        values = {
            "gap_count": len(self.begin_ps),
            "time_ps": self.time_ps,
            "longest_ps": int(self.duration_ps[longest]) if n else 0,
            "longest_start_ps": int(self.begin_ps[longest]) if n else 0,
            "share": self.time_ps / max(self.span_ps, 1),
        }
        columns = {name: np.full(n, value) for name, value in values.items()}
        before = [self.longest_before] * n
        of_cores = {name: getattr(self, name)[:n] for name in ("core_id", "times_ps", "has_devices")}
        return SimpleNamespace(host=host, longest_before=before, **of_cores, **columns)


def between_steps(
    database: StepDatabase, extents: StepDatabase, chosen: Bools, events: HostEvents, times: HostTimes | None
) -> BetweenSteps:
    """Return the time between the steps of a host; on several cores a pause is where none is in a step.

    ``database``: steps with the times of their periods; ``extents``: those of their extents; ``chosen``: the steps
    whose periods hold the pauses that count. ``times``: None on TPUs.
    """
    there = database.present
    span = _span(extents.begin_ps[there & chosen[:, np.newaxis]], extents.duration_ps[there & chosen[:, np.newaxis]])
    begins, ends = union(extents.begin_ps[there], extents.duration_ps[there])
    core_id = database.cores.local_id[there.any(axis=0)]
    start, pause = ends[:-1], begins[1:] - ends[:-1]
    first = np.where(there, extents.begin_ps, np.iinfo(np.int64).max).min(axis=1, initial=np.iinfo(np.int64).max)
    order = np.argsort(first, kind="stable")
    place = np.clip(np.searchsorted(first[order], start + pause), 1, max(len(order) - 1, 1))
    counts = (pause > 0) & chosen[order[place - 1]] if len(start) else pause > 0
    start, pause, before = start[counts], pause[counts], order[place[counts]]
    label = database.label[int(before[int(pause.argmax())])] if len(pause) else ""
    database, extents, there = database.chosen(chosen), extents.chosen(chosen), there[chosen]
    spent = np.zeros((len(core_id), len(OWN_CATEGORIES)), np.int64)
    if len(start) and times is None:
        of_cores = _in_total(database) - _in_total(extents)
        some = np.isin(database.cores.local_id, core_id)
        spent = fitted(np.maximum(of_cores[some], 0), np.full(len(core_id), pause.sum()))
    elif len(start) and times is not None:
        spans = Markers(np.arange(len(start), dtype=np.int32), start, pause)
        type_ps, _ = times.divide(events, spans)
        spent = of_types(type_ps).sum(axis=0, keepdims=True)
    if len(start):
        spent[:, OTHER] += int(pause.sum()) - spent.sum(axis=1)
    in_steps = core_breakdown(database).sum(axis=0)[np.isin(database.cores.local_id, core_id)]
    return BetweenSteps(start, pause, label, span, core_id, spent, show_devices(in_steps) | show_devices(spent))


def _in_total(database: StepDatabase) -> Int64s:
    """Return [c, k] the time of all steps on TPU cores by category."""
    names = ("duration_ps", "category_ps", "infeed_ps", "sparse_busy_ps")
    total: Int64s = core_breakdown(
        replace(database, **{name: getattr(database, name).sum(axis=0, keepdims=True) for name in names})
    )[0]
    return total


def _span(begin: Int64s, duration: Int64s) -> int:
    """From the first begin of steps to their last end. CaptureError: 64 bits cannot count it."""
    if not len(begin):
        return 0
    span = int(ends_of(begin, np.maximum(duration, 0)).max()) - int(begin.min())
    if span >= 2**63:
        raise CaptureError("the steps span more than 64 bits of picoseconds can count")
    return span
