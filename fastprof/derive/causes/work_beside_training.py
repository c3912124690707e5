"""What devices do while the program evaluates, logs or saves: all of that time, compute included.

Of devices that run behind their host, compute counts from the first work that it launches to the last.

    driver   |-train-|-------evaluate-------|-train-|
    device       |==train==|..|==evaluate==|..|==train==|
    counts                 |-------------------|
"""

from __future__ import annotations

from typing import Final

import numpy as np

from fastprof.derive.causes.cause_names import GAP_CAUSES
from fastprof.derive.ops.device_time import COMPUTE, DeviceTime
from fastprof.derive.ops.launches import launches
from fastprof.derive.steps.host_causes import DRIVER, Code, HostCauses
from fastprof.schema.array_types import Bools, Int64s, Records
from fastprof.schema.time_sums import ends_of
from fastprof.schema.value_classes import dataclass
from fastprof.tables.host_events import HostEvents

_CAUSES: Final = {
    Code.CHECKPOINT: "checkpoint", Code.CHECKPOINT_WORDS: "checkpoint",
    Code.EVALUATION: "evaluation", Code.LOGGING: "logging",
}  # fmt: skip
_NUMBERS: Final = np.zeros(256, np.int32)
_NUMBERS[list(_CAUSES)] = [GAP_CAUSES.index(cause) for cause in _CAUSES.values()]
_LAUNCHES: Final = (Code.LAUNCH, Code.FIRST_CALL, Code.HOST_COMPUTE)


@dataclass(frozen=True, slots=True)
class OtherWork:
    """Spans in which the threads that drive devices do such work, in order, none within or across another. ``row``: of
    the outermost event; ``cause``: place in GAP_CAUSES; ``first_ps``: when the first work is launched in each."""

    begin_ps: Int64s
    end_ps: Int64s
    row: Int64s
    cause: Int64s
    first_ps: Int64s

    def of_device(self, events: HostEvents, device: DeviceTime, ahead: Int64s | None) -> tuple[Int64s, Int64s]:
        """Return from when to when the device computes for each span: nothing if the span launches nothing."""
        if device.ran.plane.kind != "GPU" or ahead is not None:
            return np.minimum(self.first_ps, self.end_ps), self.end_ps
        own = device.ran.events
        known = launches(events, own.rows.astype(np.int64)).row
        start = np.where(known >= 0, events.start_ps[known], np.iinfo(np.int64).min)
        place = np.searchsorted(self.begin_ps, start, side="right") - 1
        inside = (place >= 0) & (start < self.end_ps[place])
        begin, end = self.end_ps.copy(), self.end_ps.copy()
        begin[place[inside]] = np.iinfo(np.int64).max
        end[place[inside]] = np.iinfo(np.int64).min
        np.minimum.at(begin, place[inside], own.start_ps[inside])
        np.maximum.at(end, place[inside], own.end_ps[inside])
        return begin, end

    def apply(self, events: HostEvents, device: DeviceTime, ahead: Int64s | None, pieces: Records) -> Records:
        """Return the pieces (GAP) of a device, cut at the spans, with the causes of these. ``ahead``: by how much the
        host's clock is ahead of the device's, None: it is the same."""
        if not len(self.row) or not len(pieces):
            return pieces
        shift = 0 if ahead is None else int(np.median(ahead))
        pieces = self._given(pieces, self.begin_ps - shift, self.end_ps - shift, pieces["kind"] != COMPUTE)
        begin, end = self.of_device(events, device, ahead)
        return self._given(pieces, begin - shift, end - shift, pieces["kind"] == COMPUTE)

    def _given(self, pieces: Records, begin: Int64s, end: Int64s, chosen: Bools) -> Records:
        """Pieces that are chosen, cut at spans in order, with what is said of these."""
        begin = np.maximum(begin, np.append(begin[:1], np.maximum.accumulate(end)[:-1]))
        end = np.maximum(begin, end)
        bounds = np.unique(np.concatenate([begin, end]))
        at = np.searchsorted(pieces["begin"], bounds, side="right") - 1
        cuts = (at >= 0) & (bounds > pieces["begin"][at]) & (bounds < pieces["end"][at]) & chosen[at]
        of = np.concatenate([np.arange(len(pieces)), at[cuts]])
        starts = np.concatenate([pieces["begin"], bounds[cuts]])
        order = np.lexsort((starts, of))
        found: Records = pieces[of[order]]
        starts = starts[order]
        found["begin"] = starts
        again = of[order][1:] == of[order][:-1]
        found["end"][:-1][again] = starts[1:][again]
        span = np.searchsorted(begin, starts, side="right") - 1
        inside = chosen[of[order]] & (span >= 0) & (starts < end[span])
        found["cause"][inside] = self.cause[span[inside]]
        found["row"][inside] = self.row[span[inside]]
        return found


def other_work(events: HostEvents, causes: HostCauses) -> OtherWork:
    """Return when the threads that drive devices do other work than training."""
    rows, first = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for line, role in zip(causes.lines, causes.role, strict=True):
        if role != DRIVER:
            continue
        here = causes.code[line.first : line.last]
        own = line.first + np.flatnonzero(
            np.isin(here, list(_CAUSES)) & (events.duration_ps[line.first : line.last] > 0)
        )
        launched = line.first + np.flatnonzero(np.isin(here, _LAUNCHES))
        starts = np.append(events.start_ps[launched], np.iinfo(np.int64).max)
        rows.append(own)
        first.append(starts[np.searchsorted(launched, own, side="right")])
    row, first_ps = np.concatenate(rows), np.concatenate(first)
    begin = events.start_ps[row]
    end = ends_of(begin, events.duration_ps[row])
    order = np.lexsort((-end, begin))
    row, first_ps, begin, end = row[order], first_ps[order], begin[order], end[order]
    outer, reached = np.zeros(len(row), np.bool_), np.iinfo(np.int64).min
    for place, (since, until) in enumerate(zip(begin.tolist(), end.tolist(), strict=True)):
        if since >= reached:
            outer[place], reached = True, until
    row = row[outer]
    cause = _NUMBERS[causes.code[row]].astype(np.int64)
    return OtherWork(begin[outer], end[outer], row, cause, first_ps[outer])
