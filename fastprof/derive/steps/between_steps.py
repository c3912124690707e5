"""Time between the steps of a host: from the end of one to the begin of the next, by the same categories."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np

from fastprof.decode.workers import Workers
from fastprof.derive.steps.database import StepDatabase
from fastprof.derive.steps.device_steps import DeviceSteps
from fastprof.derive.steps.grouping import known_names
from fastprof.derive.steps.host_reasons import HostReasons
from fastprof.derive.steps.of_host import steps_of_host
from fastprof.derive.steps.step_figures import OTHER, core_breakdown, fitted
from fastprof.derive.steps.step_source import StepSource
from fastprof.derive.steps.step_time import OWN_CATEGORIES, Markers
from fastprof.derive.steps.stretches import union
from fastprof.derive.steps.tpu_stretches import times_within
from fastprof.errors import CaptureError
from fastprof.schema.array_types import Int32s, Int64s
from fastprof.schema.time_sums import ends_of
from fastprof.schema.value_classes import dataclass
from fastprof.tables.host_events import HostEvents


@dataclass(frozen=True, slots=True)
class BetweenSteps:
    """``begin_ps``, ``duration_ps``: the gaps between steps of a host, in order. ``span_ps``: from the begin of the
    first step to the end of the last. ``core_id``: [c] ids of cores on the host; ``times_ps``: [c, 10] time in the gaps
    by category."""

    begin_ps: Int64s
    duration_ps: Int64s
    span_ps: int
    core_id: Int64s
    times_ps: Int64s

    @property
    def time_ps(self) -> int:
        return int(self.duration_ps.sum())

    def rows(self, host: str) -> SimpleNamespace:
        """A row for each core; none if no gap lies between steps."""
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
        return SimpleNamespace(host=host, core_id=self.core_id[:n], times_ps=self.times_ps[:n], **columns)


def between_steps(
    source: StepSource, database: StepDatabase, hardware: str, workers: Workers, reasons: HostReasons | None
) -> BetweenSteps:
    """Of the steps of a host that are made from ``source``. On several cores a gap is where none is in a step."""
    there = database.present
    span = _span(database.begin_ps[there], database.duration_ps[there])
    begins, ends = union(database.begin_ps[there], database.duration_ps[there])
    core_id = database.cores.local_id[there.any(axis=0)]
    begin, duration = ends[:-1], begins[1:] - ends[:-1]
    begin, duration = begin[duration > 0], duration[duration > 0]
    times = np.zeros((len(core_id), len(OWN_CATEGORIES)), np.int64)
    if len(begin) and database.is_tpu:
        devices = [database.cores.device[core] for core in np.flatnonzero(there.any(axis=0)).tolist()]
        times = times_within(source.groups.events, devices, (begin, begin + duration), workers)
        times = fitted(times, np.full(len(times), duration.sum()))
        times[:, OTHER] += int(duration.sum()) - times.sum(axis=1)
    elif len(begin):
        gaps = steps_of_host(_of_gaps(source, begin, duration), hardware, workers, reasons).database
        spent = fitted(core_breakdown(gaps), gaps.duration_ps)
        spent[~gaps.present] = 0
        place = {one: at for at, one in enumerate(gaps.cores.local_id.tolist())}
        known = [place.get(one, -1) for one in core_id.tolist()]
        for at, column in enumerate(known):
            times[at] = spent[:, column].sum(axis=0) if column >= 0 else 0
        times[:, OTHER] += int(duration.sum()) - times.sum(axis=1)
    return BetweenSteps(begin, duration, span, core_id, times)


def _span(begin: Int64s, duration: Int64s) -> int:
    """From the first begin of steps to their last end. CaptureError: 64 bits cannot count it."""
    if not len(begin):
        return 0
    span = int(ends_of(begin, np.maximum(duration, 0)).max()) - int(begin.min())
    if span >= 2**63:
        raise CaptureError("the steps span more than 64 bits of picoseconds can count")
    return span


def _of_gaps(source: StepSource, begin: Int64s, duration: Int64s) -> StepSource:
    """The gaps as if each were a step: events belong to the one that they begin in."""
    groups = source.groups
    events, count = groups.events, len(begin)
    number, none = np.arange(count, dtype=np.int32), np.zeros(0, np.int32)
    spans = Markers(number, begin, duration)
    planes = [plane.number for plane in events.planes if plane.kind == "GPU"]
    made = replace(
        groups,
        group_id=_beginning_in(events, begin, ends_of(begin, duration)),
        count=count,
        root_rows=np.full(count, -1, np.int32),
        step_rows=none,
        step_groups=none,
        relations=np.zeros((0, 2), np.int32),
        device_steps={plane: DeviceSteps(number, begin, duration, begin, duration) for plane in planes},
        vetoed=False,
        _naming=known_names({}),
    )
    return replace(source, groups=made, spans=None if planes else spans)


def _beginning_in(events: HostEvents, begin: Int64s, end: Int64s) -> Int32s:
    """By row the span that the event begins in, -1: none. Lines are in order of time, so each span is a range of rows
    on each of them: only what lies within is written."""
    found = np.full(len(events), -1, np.int32)
    for line in events.lines:
        start = events.start_ps[line.first : line.last]
        if len(start):
            low, high = np.searchsorted(start, begin) + line.first, np.searchsorted(start, end) + line.first
            for span in np.flatnonzero(high > low).tolist():
                found[low[span] : high[span]] = span
    return found
