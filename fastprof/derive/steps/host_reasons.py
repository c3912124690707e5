"""What the host does for a step while nothing computes: it loads input, or it compiles.

Names say so, of annotations, frames of Python and events of frameworks, see host_causes. Such time is input or
compilation as far as no op runs, and no device is busy.

    driver   |-train----------------------------------|
               |-load_batch-|   |-compile-|
    ops             |op|                   |==ops==|
    step     |.|in|.op.|in|....|-compile--||==ops==|..|
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from fastprof.derive.steps.host_causes import CAUSE_OF, DRIVER, Code, HostCauses
from fastprof.derive.steps.step_time import EventType, Markers, TypedEvents, longest
from fastprof.schema.array_types import Int64s, Records
from fastprof.schema.time_sums import ends_of
from fastprof.schema.value_classes import dataclass
from fastprof.tables.host_events import HostEvents

INPUT, COMPILATION, WORK = EventType.HOST_PREPROCESS, EventType.HOST_POSTPROCESS, EventType.HOST_RUNTIME
"""Types that stand for input, compilation and ops while time is divided: ops count before the others, and all of these
before other events of the host. Events of no other kind have them."""
NOT_TRAINING, WORK_OF_IT = EventType.HOST_BATCH_FORMATION, EventType.DEVICE_WAIT_DEVICE
"""Types that stand for evaluation, logging and saving: before input and compilation; and, from the first work that is
launched for it, before all that devices do."""

_TYPES: Final = np.zeros(256, np.uint8)
for _code, _cause in CAUSE_OF.items():
    if _cause in ("input", "compilation"):
        _TYPES[_code] = INPUT if _cause == "input" else COMPILATION


@dataclass(frozen=True, slots=True)
class HostReasons:
    """``said``: when the host loads input or compiles, and when it does work that is not training, in two lines of
    events in order, of no group; ``first``: the events at which lines begin, and the end of the last."""

    said: TypedEvents
    lines: Int64s

    def within(self, spans: Markers) -> tuple[TypedEvents, Int64s]:
        """Return them as events of the groups whose spans they meet, and their lines."""
        met, place = meetings(self.said, spans)
        return met, np.searchsorted(place, self.lines).astype(np.int64)


def host_reasons(causes: HostCauses, found: Records, other: OtherWork) -> HostReasons:
    """Return what a host does that is known as input, compilation, or work that is not training. ``found``: what it
    does at any time, PIECE."""
    found = found[found["label"] >= 0]
    type_ = _TYPES[causes.code[found["label"]]]
    some = type_ > 0
    first = np.minimum(other.first_ps, other.end_ps)
    began, ended = found["begin"][some], found["end"][some]
    kinds = (NOT_TRAINING, WORK_OF_IT)
    type_ = np.concatenate([type_[some], *(np.full(len(first), one, np.uint8) for one in kinds)])
    begin = np.concatenate([began, other.begin_ps, first])
    end = np.concatenate([ended, other.end_ps, other.end_ps])
    lasts = end > begin
    upto = np.cumsum([0, len(began), len(first), len(first)])
    lines = np.append(0, np.cumsum(lasts))[upto]
    none = np.full(int(lasts.sum()), -1, np.int32)
    return HostReasons(TypedEvents(none, type_[lasts], begin[lasts], (end - begin)[lasts]), lines)


@dataclass(frozen=True, slots=True)
class OtherWork:
    """Spans in which threads that drive devices evaluate, log or save, in order and disjoint.
    ``row``: of the outermost event; ``first_ps``: when the first work is launched in each."""

    row: Int64s
    begin_ps: Int64s
    end_ps: Int64s
    first_ps: Int64s


OTHER_WORK: Final = {
    Code.CHECKPOINT: "checkpoint",
    Code.CHECKPOINT_WORDS: "checkpoint",
    Code.EVALUATION: "evaluation",
    Code.LOGGING: "logging",
}
"""Codes of work that is not training, and their causes."""
_LAUNCHES: Final = (Code.LAUNCH, Code.FIRST_CALL, Code.HOST_COMPUTE)


def other_work(events: HostEvents, causes: HostCauses) -> OtherWork:
    """Return when the threads that drive devices do work that is not training."""
    rows, first = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for line, role in zip(causes.lines, causes.role, strict=True):
        if role != DRIVER:
            continue
        here = causes.code[line.first : line.last]
        own = line.first + np.flatnonzero(
            np.isin(here, list(OTHER_WORK)) & (events.duration_ps[line.first : line.last] > 0)
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
    return OtherWork(row[outer], begin[outer], end[outer], first_ps[outer])


def counted(type_ps: Int64s) -> Int64s:
    """Return [..., 18] times by type; the types of this module count as the types that they stand for."""
    times = type_ps.copy()
    for stands, for_type in (
        (INPUT, EventType.HOST_WAIT_INPUT),
        (COMPILATION, EventType.HOST_COMPILE),
        (WORK, EventType.HOST_COMPUTE),
        (WORK_OF_IT, NOT_TRAINING),
    ):
        times[..., for_type] += times[..., stands]
        times[..., stands] = 0
    return times


def in_order(markers: Markers) -> Markers:
    """Return the longest marker of each group, in order of time."""
    spans = longest(markers)
    return spans[np.argsort(spans.start_ps, kind="stable")]


def spread(moved: TypedEvents, spans: Markers) -> TypedEvents:
    """Repeat each event once per overlapping span, with the group of the span."""
    return meetings(moved, spans)[0]


def meetings(moved: TypedEvents, spans: Markers) -> tuple[TypedEvents, Int64s]:
    """Repeat each event once per overlapping span; return the events, and the place of each in ``moved``."""
    spans = in_order(spans)
    ends = np.maximum.accumulate(ends_of(spans.start_ps, spans.duration_ps))
    low = np.searchsorted(ends, moved.start_ps, side="right")
    high = np.searchsorted(spans.start_ps, ends_of(moved.start_ps, moved.duration_ps), side="left")
    times = np.maximum(high - low, 0)
    copies = np.repeat(np.arange(len(moved)), times)
    span = np.arange(len(copies)) - np.repeat(np.cumsum(times) - times, times) + np.repeat(low, times)
    return replace(moved[copies], group=spans.group[span].astype(np.int32)), copies
