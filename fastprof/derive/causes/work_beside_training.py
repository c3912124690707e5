"""Device time while the program evaluates, logs or saves: all of it, compute included.

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
from fastprof.derive.steps.host_causes import HostCauses
from fastprof.derive.steps.host_reasons import OTHER_WORK, OtherWork, other_work
from fastprof.schema.array_types import Bools, Int64s, Records
from fastprof.schema.value_classes import dataclass
from fastprof.tables.host_events import HostEvents

_NUMBERS: Final = np.zeros(256, np.int32)
_NUMBERS[list(OTHER_WORK)] = [GAP_CAUSES.index(cause) for cause in OTHER_WORK.values()]


@dataclass(frozen=True, slots=True)
class WorkBesideTraining:
    """Spans of work other than training. ``work``: on threads; ``cause``: place in GAP_CAUSES of each span."""

    work: OtherWork
    cause: Int64s

    def of_device(self, events: HostEvents, device: DeviceTime, ahead: Int64s | None) -> tuple[Int64s, Int64s]:
        """Return from when to when the device computes for each span: nothing if the span launches nothing."""
        if device.ran.plane.kind != "GPU" or ahead is not None:
            return np.minimum(self.work.first_ps, self.work.end_ps), self.work.end_ps
        own = device.ran.events
        known = launches(events, own.rows.astype(np.int64)).row
        start = np.where(known >= 0, events.start_ps[known], np.iinfo(np.int64).min)
        place = np.searchsorted(self.work.begin_ps, start, side="right") - 1
        inside = (place >= 0) & (start < self.work.end_ps[place])
        begin, end = self.work.end_ps.copy(), self.work.end_ps.copy()
        begin[place[inside]] = np.iinfo(np.int64).max
        end[place[inside]] = np.iinfo(np.int64).min
        np.minimum.at(begin, place[inside], own.start_ps[inside])
        np.maximum.at(end, place[inside], own.end_ps[inside])
        return begin, end

    def apply(self, events: HostEvents, device: DeviceTime, ahead: Int64s | None, pieces: Records) -> Records:
        """Return the pieces (GAP) of a device, cut at the spans, with the causes of these. ``ahead``: by how much the
        host's clock is ahead of the device's, None: it is the same."""
        if not len(self.work.row) or not len(pieces):
            return pieces
        shift = 0 if ahead is None else int(np.median(ahead))
        pieces = self._given(pieces, self.work.begin_ps - shift, self.work.end_ps - shift, pieces["kind"] != COMPUTE)
        begin, end = self.of_device(events, device, ahead)
        return self._given(pieces, begin - shift, end - shift, pieces["kind"] == COMPUTE)

    def _given(self, pieces: Records, begin: Int64s, end: Int64s, chosen: Bools) -> Records:
        """Return the pieces; the chosen ones are cut at the spans, and get their causes and events."""
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
        found["row"][inside] = self.work.row[span[inside]]
        return found


def work_beside_training(events: HostEvents, causes: HostCauses) -> WorkBesideTraining:
    """Return when the threads that drive devices do other work than training, and its causes."""
    work = other_work(events, causes)
    return WorkBesideTraining(work, _NUMBERS[causes.code[work.row]].astype(np.int64))
