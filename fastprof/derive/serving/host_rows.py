"""The rows of a host's threads, by the type of event, and the links between groups, by either end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import Any

import numpy as np
import numpy.typing as npt

from fastprof.derive.steps.event_types import CODES
from fastprof.derive.steps.grouping import Groups
from fastprof.schema.array_rows import ArrayRows
from fastprof.schema.array_types import Int64s
from fastprof.schema.value_classes import dataclass
from fastprof.tables.host_events import HOST_THREADS, HostEvents

AnyInts = npt.NDArray[Any]
NONE = int(np.iinfo(np.int64).min)
"""No time, no number."""


class HostRows:
    """The events of the threads of a host. Rows are those of ``events``."""

    def __init__(self, events: HostEvents, groups: Groups) -> None:
        plane = events.plane_named(HOST_THREADS)
        self.events = events
        self.first, self.last = (plane.first, plane.last) if plane is not None else (0, 0)
        self.group = groups.group_id
        self._types = groups.types[self.first : self.last]
        self._present = CODES.keys() & set(events.names)
        self._rows: dict[str, Int64s] = {}

    def all(self, *names: str) -> Int64s:
        """Rows of these types, type by type."""
        for name in names:
            if name not in self._rows:
                here = np.flatnonzero(self._types == CODES[name]) if name in self._present else np.zeros(0, np.int64)
                self._rows[name] = here + self.first
        return np.concatenate([np.zeros(0, np.int64), *(self._rows[name] for name in names)])

    def grouped(self, *names: str) -> Int64s:
        """Those of them that are in a group."""
        rows = self.all(*names)
        return rows[self.group[rows] >= 0]

    def start(self, rows: Int64s) -> Int64s:
        return self.events.start_ps[rows]

    def end(self, rows: Int64s) -> Int64s:
        """Not before the start, and not later than 64 bits go."""
        start, duration = self.events.start_ps[rows], np.maximum(self.events.duration_ps[rows], 0)
        latest = np.iinfo(np.int64).max
        end: Int64s = start + np.minimum(duration, latest - np.maximum(start, 0))
        return end


@dataclass(frozen=True, slots=True)
class Links(ArrayRows):
    """Pairs of numbers, a row a number: those that go with number i are ``others[bounds[i]:bounds[i + 1]]``."""

    bounds: Int64s = field(metadata={"none": np.zeros(1, np.int64)})
    others: Int64s

    @classmethod
    def of(cls, numbers: AnyInts, others: AnyInts, count: int) -> Links:
        """Of numbers below ``count``; others ascend, and a pair that comes twice is one."""
        order = np.lexsort((others, numbers))
        numbers, others = numbers[order].astype(np.int64), others[order].astype(np.int64)
        if len(numbers):
            fresh = np.append(True, (numbers[1:] != numbers[:-1]) | (others[1:] != others[:-1]))
            numbers, others = numbers[fresh], others[fresh]
        return cls(_bounds(np.bincount(numbers, minlength=count)), others)

    @classmethod
    def joined(cls, parts: Sequence[Links]) -> Links:
        counts = [np.diff(part.bounds) for part in parts]
        return cls(_bounds(np.concatenate(counts)), np.concatenate([part.others for part in parts]))

    def __len__(self) -> int:
        return len(self.bounds) - 1

    def __getitem__(self, numbers: Any) -> Links:
        count = np.diff(self.bounds)[numbers]
        return Links(_bounds(count), self.of_each(np.arange(len(self))[numbers])[1])

    def of_each(self, numbers: Int64s) -> tuple[Int64s, Int64s]:
        """What goes with each of the numbers: the place in ``numbers``, and the other."""
        count = self.bounds[numbers + 1] - self.bounds[numbers]
        place = np.repeat(np.arange(len(numbers)), count)
        within = np.arange(len(place)) - np.repeat(np.cumsum(count) - count, count)
        return place, self.others[self.bounds[numbers][place] + within]

    def first(self, numbers: Int64s) -> Int64s:
        """The least that goes with each of the numbers; -1: none does."""
        begin = self.bounds[numbers]
        has = self.bounds[numbers + 1] > begin
        padded = np.append(self.others, -1)
        return np.where(has, padded[np.where(has, begin, len(self.others))], -1)


def _bounds(counts: Int64s) -> Int64s:
    return np.concatenate([[0], np.cumsum(counts)])


def least(values: Int64s, at: AnyInts, count: int) -> Int64s:
    """The least of the values at each place; NONE where there is none. Values that are NONE do not count."""
    found = np.full(count, np.iinfo(np.int64).max, np.int64)
    known = values != NONE
    np.minimum.at(found, at[known], values[known])
    found[found == np.iinfo(np.int64).max] = NONE
    return found


def greatest(values: Int64s, at: AnyInts, count: int) -> Int64s:
    """The greatest of the values at each place; NONE where there is none."""
    found = np.full(count, NONE, np.int64)
    np.maximum.at(found, at, values)
    return found
