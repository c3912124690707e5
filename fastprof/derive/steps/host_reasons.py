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

from fastprof.derive.steps.host_causes import CAUSE_OF, HostCauses
from fastprof.derive.steps.step_time import EventType, Markers, TypedEvents, longest
from fastprof.schema.array_types import Int64s, Records, UInt8s
from fastprof.schema.time_sums import ends_of
from fastprof.schema.value_classes import dataclass

INPUT, COMPILATION, WORK = EventType.HOST_PREPROCESS, EventType.HOST_POSTPROCESS, EventType.HOST_RUNTIME
"""Types that stand for input, compilation and ops while time is divided: ops count before the others, and all of these
before other events of the host. Events of no other kind have them."""

_TYPES: Final = np.zeros(256, np.uint8)
for _code, _cause in CAUSE_OF.items():
    if _cause in ("input", "compilation"):
        _TYPES[_code] = INPUT if _cause == "input" else COMPILATION


@dataclass(frozen=True, slots=True)
class HostReasons:
    """``code``: what each event says, see Code; ``said``: when the host loads input or compiles, in order, of no
    group."""

    code: UInt8s
    said: TypedEvents

    def within(self, spans: Markers) -> TypedEvents:
        """The same, as events of the groups whose spans they meet."""
        return spread(self.said, spans)


def host_reasons(causes: HostCauses, found: Records) -> HostReasons:
    """What a host does that is known as loading of input or compilation. ``found``: what it does at any time, PIECE."""
    found = found[found["label"] >= 0]
    type_ = _TYPES[causes.code[found["label"]]]
    some = type_ > 0
    begin, end, type_ = found["begin"][some], found["end"][some], type_[some]
    none = np.full(len(begin), -1, np.int32)
    return HostReasons(causes.code, TypedEvents(none, type_, begin, end - begin))


def counted(type_ps: Int64s) -> Int64s:
    """[..., 18] times by type, with the types of this module as what they stand for."""
    times = type_ps.copy()
    for stands, for_type in (
        (INPUT, EventType.HOST_WAIT_INPUT),
        (COMPILATION, EventType.HOST_COMPILE),
        (WORK, EventType.HOST_COMPUTE),
    ):
        times[..., for_type] += times[..., stands]
        times[..., stands] = 0
    return times


def in_order(markers: Markers) -> Markers:
    """The longest marker of each group, in order of time."""
    spans = longest(markers)
    return spans[np.argsort(spans.start_ps, kind="stable")]


def spread(moved: TypedEvents, spans: Markers) -> TypedEvents:
    """The events, once for each span that they meet."""
    return meetings(moved, spans)[0]


def meetings(moved: TypedEvents, spans: Markers) -> tuple[TypedEvents, Int64s]:
    """The same, and the place of each in ``moved``."""
    spans = in_order(spans)
    ends = np.maximum.accumulate(ends_of(spans.start_ps, spans.duration_ps))
    low = np.searchsorted(ends, moved.start_ps, side="right")
    high = np.searchsorted(spans.start_ps, ends_of(moved.start_ps, moved.duration_ps), side="left")
    times = np.maximum(high - low, 0)
    copies = np.repeat(np.arange(len(moved)), times)
    span = np.arange(len(copies)) - np.repeat(np.cumsum(times) - times, times) + np.repeat(low, times)
    return replace(moved[copies], group=spans.group[span].astype(np.int32)), copies
