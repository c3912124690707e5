"""The time of steps: which span a group's markers give it, and what its events spent that span on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fastprof._native.step_kernels import step_time
from fastprof.derive.steps.time_types import TYPES, UNKNOWN_TIME
from fastprof.schema.array_types import Bools, Int32s, Int64s

Types = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Markers:
    """Events that say when a step was: the group, start and duration of each, in the order in which they count."""

    group: Int32s
    start_ps: Int64s
    duration_ps: Int64s

    def __len__(self) -> int:
        return len(self.group)

    def where(self, keep: Bools) -> Markers:
        return Markers(self.group[keep], self.start_ps[keep], self.duration_ps[keep])


def joined(parts: list[Markers]) -> Markers:
    if len(parts) == 1:
        return parts[0]
    if not parts:
        return Markers(np.zeros(0, np.int32), np.zeros(0, np.int64), np.zeros(0, np.int64))
    return Markers(
        np.concatenate([part.group for part in parts]),
        np.concatenate([part.start_ps for part in parts]),
        np.concatenate([part.duration_ps for part in parts]),
    )


def longest(markers: Markers) -> Markers:
    """The longest marker of each group that has one longer than nothing, by group; of equals the first."""
    some = np.flatnonzero(markers.duration_ps > 0)
    order = some[np.lexsort((-markers.duration_ps[some], markers.group[some]))]
    group = markers.group[order]
    first = np.ones(len(order), np.bool_)
    first[1:] = group[1:] != group[:-1]
    order = order[first]
    return Markers(markers.group[order], markers.start_ps[order], markers.duration_ps[order])


@dataclass(frozen=True, slots=True)
class TypedEvents:
    """Events that take part in step time; ``lines``: the rows at which lines begin, and the end of the last."""

    group: Int32s
    type: Types
    start_ps: Int64s
    duration_ps: Int64s
    lines: Int64s | None


@dataclass(frozen=True, slots=True)
class TimeByType:
    """By group, then event type: the time within the step, with what is unknown of it, and the time in all."""

    within_ps: Int64s  # [n, 18]
    seen: Bools  # [n, 18]: the type occurs, if only for no time
    total_ps: Int64s  # [n, 18]


def time_by_type(events: TypedEvents, begin_ps: Int64s, duration_ps: Int64s) -> TimeByType:
    """What steps were spent on: groups 0 to n - 1, which lasted ``duration_ps`` from ``begin_ps`` on.

    Overlapping events count for the highest type. What no event of a type fills is UNKNOWN_TIME.
    """
    n = len(begin_ps)
    total, within = np.zeros((n, len(TYPES)), np.int64), np.zeros((n, len(TYPES)), np.int64)
    seen = np.zeros((n, len(TYPES)), np.uint8)
    clip = np.stack([begin_ps, begin_ps + duration_ps], axis=1)
    step_time(
        np.ascontiguousarray(events.group),
        np.ascontiguousarray(events.type),
        np.ascontiguousarray(events.start_ps),
        np.ascontiguousarray(events.duration_ps),
        None if events.lines is None else np.ascontiguousarray(events.lines),
        clip,
        total,
        within,
        seen,
    )
    missing = duration_ps - within.sum(axis=1)
    within[:, UNKNOWN_TIME] += np.maximum(missing, 0)
    occurs = seen.astype(np.bool_)
    occurs[:, UNKNOWN_TIME] = within[:, UNKNOWN_TIME] > 0
    return TimeByType(within, occurs, total)
