"""Concurrent work: other threads and devices while a device waits for its host; evaluation, logging and checkpoints.

While a device waits for input or Python of its host, other threads launch, copy or compile, or another device works.
Without the input the device would wait for that, so less is saved than the input takes.

    driver      |-------input-------|-launch-|
    worker             |-compile-|
    device   ==|                             |=kernel=|
    concurrent         |---------|

While the program evaluates, logs or saves, all device time counts as that, compute included. Of devices that run behind
their host, compute counts from the first work that it launches to the last.

    driver   |-train-|-------evaluate-------|-train-|
    device       |==train==|..|==evaluate==|..|==train==|
    counts                 |-------------------|
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from fastprof.derive.causes.cause_names import GAP_CAUSES
from fastprof.derive.ops.device_time import COMPUTE, DeviceTime
from fastprof.derive.ops.launches import find_launches
from fastprof.derive.steps.host_causes import (
    CAUSE_OF,
    INPUT_THREADS,
    OTHER,
    OTHER_WORK,
    RANKS,
    Code,
    HostCauses,
    OtherWork,
    find_other_work,
)
from fastprof.schema.columns import (
    Bools,
    DisjointSpans,
    Int64s,
    Records,
    create_empty_spans,
    find_last_started,
    measure_covered_time,
    merge_spans,
    sort_rows,
)
from fastprof.schema.value_classes import dataclass
from fastprof.tables.host_events import HostEvents

HIDES: Final = ("input", "python")
"""Causes that count although something else goes on."""
_WAIT_NUMBERS: Final = [GAP_CAUSES.index(cause) for cause in HIDES]
_CODES: Final = [code for code, cause in CAUSE_OF.items() if cause in HIDES]
_WITHOUT: Final = RANKS.copy()
_WITHOUT[:, [*_CODES, Code.LOCK, Code.WAITS, Code.PROFILER]] = 255
_WITHOUT[OTHER] = 255
"""RANKS if neither input nor Python nor waits count, nor threads that neither drive devices nor launch for them."""


@dataclass(frozen=True, slots=True)
class ConcurrentWork:
    """``host``: when threads do something else; ``devices``: when any device works."""

    host: DisjointSpans
    devices: DisjointSpans

    @classmethod
    def of(cls, events: HostEvents, causes: HostCauses, host: Records, busy: Int64s) -> ConcurrentWork:
        """Select concurrent work. ``host``: what the host does, as PIECE; ``busy``: [k, 2], when any of several devices
        works."""
        host = host[host["label"] >= 0]
        hides = host[np.isin(causes.code[host["label"]], _CODES)]
        if not len(hides):
            return cls(create_empty_spans(), create_empty_spans())
        open_ps = np.stack(merge_spans(hides["begin"], hides["end"] - hides["begin"]), axis=1)
        feeds = [line.name.startswith(INPUT_THREADS) for line in causes.lines]
        roles = tuple(OTHER if feed else role for feed, role in zip(feeds, causes.role, strict=True))
        others = replace(causes, role=roles).foremost(events, _WITHOUT, open_ps)
        others = others[others["label"] >= 0]
        return cls(
            merge_spans(others["begin"], others["end"] - others["begin"]), (busy[:, 0].copy(), busy[:, 1].copy())
        )

    def beside(self, pieces: Records, start_ps: Int64s, ahead_ps: Int64s | None) -> Int64s:
        """Return how much of each piece of a device (GAP) something else fills, or 0 for other causes. ``ahead_ps``: by
        how much the host clock is ahead of the device clock from each of ``start_ps``, or None if they are one
        clock."""
        filled = np.zeros(len(pieces), np.int64)
        rows = np.flatnonzero(np.isin(pieces["cause"], _WAIT_NUMBERS) & (pieces["row"] >= 0))
        begin, length = pieces["begin"][rows], pieces["end"][rows] - pieces["begin"][rows]
        if ahead_ps is not None:
            shift = ahead_ps[find_last_started(start_ps, begin)]
            filled[rows] = measure_covered_time(self.host, begin + shift, length)
        elif len(rows):
            (begins, until), (other, last) = self.host, self.devices
            starts, ends = np.concatenate([begins, other]), np.concatenate([until, last])
            filled[rows] = measure_covered_time(merge_spans(starts, ends - starts), begin, length)
        return filled


_WORK_NUMBERS: Final = np.zeros(256, np.int32)
_WORK_NUMBERS[list(OTHER_WORK)] = [GAP_CAUSES.index(cause) for cause in OTHER_WORK.values()]


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
        known = find_launches(events, own.rows.astype(np.int64)).row
        start = np.where(known >= 0, events.start_ps[known], np.iinfo(np.int64).min)
        place = find_last_started(self.work.begin_ps, start)
        inside = (place >= 0) & (start < self.work.end_ps[place])
        begin, end = self.work.end_ps.copy(), self.work.end_ps.copy()
        begin[place[inside]] = np.iinfo(np.int64).max
        end[place[inside]] = np.iinfo(np.int64).min
        np.minimum.at(begin, place[inside], own.start_ps[inside])
        np.maximum.at(end, place[inside], own.end_ps[inside])
        return begin, end

    def apply(self, events: HostEvents, device: DeviceTime, ahead: Int64s | None, pieces: Records) -> Records:
        """Return the pieces (GAP) of a device, cut at the spans, with the causes of these. ``ahead``: by how much the
        host clock is ahead of the device clock, or None if they are one clock."""
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
        at = find_last_started(pieces["begin"], bounds)
        cuts = (at >= 0) & (bounds > pieces["begin"][at]) & (bounds < pieces["end"][at]) & chosen[at]
        of = np.concatenate([np.arange(len(pieces)), at[cuts]])
        starts = np.concatenate([pieces["begin"], bounds[cuts]])
        order = sort_rows(of, starts)
        cut: Records = pieces[of[order]]
        starts = starts[order]
        cut["begin"] = starts
        again = of[order][1:] == of[order][:-1]
        cut["end"][:-1][again] = starts[1:][again]
        span = find_last_started(begin, starts)
        inside = chosen[of[order]] & (span >= 0) & (starts < end[span])
        cut["cause"][inside] = self.cause[span[inside]]
        cut["row"][inside] = self.work.row[span[inside]]
        return cut


def find_work_beside_training(events: HostEvents, causes: HostCauses) -> WorkBesideTraining:
    """Return when the threads that drive devices do other work than training, and its causes."""
    work = find_other_work(events, causes)
    return WorkBesideTraining(work, _WORK_NUMBERS[causes.code[work.row]].astype(np.int64))
