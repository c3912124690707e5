"""Step time by the definition, slowly: an independent oracle for the kernel and for steps of host threads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

Span = tuple[int, int]
Typed = tuple[int, int, int]
"""Type, begin and end of an event."""


def pieces(events: Sequence[Typed]) -> list[tuple[int, int, int]]:
    """The stretches between consecutive boundaries: the highest type that is open, begin and end."""
    boundaries = [(begin, 1, -type_) for type_, begin, _ in events] + [(end, 0, -type_) for type_, _, end in events]
    boundaries.sort()
    open_: dict[int, int] = {}
    current, listed = 0, []
    for (time, is_start, minus_type), (next_time, _, _) in pairwise(boundaries):
        type_ = -minus_type
        open_[type_] = open_.get(type_, 0) + (1 if is_start else -1)
        if is_start:
            current = max(current, type_)
        elif type_ == current and open_[type_] == 0:
            current = max((lower for lower, count in open_.items() if count > 0 and lower < type_), default=0)
        listed.append((current, time, next_time))
    return listed


@dataclass
class Times:
    within: dict[int, int]
    total: dict[int, int]
    seen: set[int]


def times(events: Sequence[Typed], step: Span) -> Times:
    """Time by type within the step and in all; what the step has beyond its events is unknown, type 0."""
    within: dict[int, int] = {}
    total: dict[int, int] = {}
    seen = set()
    for type_, begin, end in pieces(events):
        seen.add(type_)
        total[type_] = total.get(type_, 0) + max(0, end - begin)
        within[type_] = within.get(type_, 0) + max(0, min(end, step[1]) - max(begin, step[0]))
    missing = step[1] - step[0] - sum(within.values())
    within[0] = within.get(0, 0) + max(0, missing)
    return Times(
        {type_: time for type_, time in within.items() if time},
        {type_: time for type_, time in total.items() if time},
        seen - {0},
    )
