"""How much memory is in use: the peak of each allocator, and ranges of its events found by time."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fastprof.derive.memory.memory_events import FRAGMENTATION, MemoryEvents
from fastprof.schema.array_types import Int64s


def peaks(events: MemoryEvents) -> Int64s:
    """[allocators] the first event after which most is in use, as far as known."""
    return first_of_most(events.ranked_in_use, events.bounds)


def highest_fragmentation(events: MemoryEvents, shown: npt.NDArray[np.bool_] | None = None) -> Int64s:
    """[allocators] the first event after which memory is most fragmented; -1: the allocator does not tell. ``shown``:
    those that count, None: all."""
    if not len(events):
        return np.zeros(0, np.int64)
    told = events.has(FRAGMENTATION) if shown is None else events.has(FRAGMENTATION) & shown
    found = first_of_most(np.where(told, events.fragmentation, -np.inf), events.bounds)
    return np.where(told[found], found, -1)


def first_of_most(values: npt.NDArray[np.generic], bounds: Int64s) -> Int64s:
    """[allocators] the first place of the largest of each one's values."""
    if len(bounds) < 2:
        return np.zeros(0, np.int64)
    largest = np.maximum.reduceat(values, bounds[:-1])
    hits = np.flatnonzero(values == np.repeat(largest, np.diff(bounds)))
    return hits[np.searchsorted(hits, bounds[:-1])].astype(np.int64)


def count_before(events: MemoryEvents, time_ps: Int64s, *, at: bool, which: slice = slice(None)) -> Int64s:
    """[allocators, times] where the events before each time end, with ``at`` also those of that very time: from the
    first event of the allocator up to there, which is no part of it. ``which``: of some allocators."""
    low = np.repeat(events.bounds[:-1][which, None], len(time_ps), axis=1)
    high = np.repeat(events.bounds[1:][which, None], len(time_ps), axis=1)
    if not low.size:
        return low
    for _ in range(int((high - low).max()).bit_length()):
        middle = (low + high) // 2
        start = events.start_ps[np.minimum(middle, len(events) - 1)]
        before = (start <= time_ps if at else start < time_ps) & (middle < high)
        low = np.where(before, middle + 1, low)
        high = np.where(before, high, middle)
    return low


def snapshots_at(events: MemoryEvents, time_ps: int) -> Int64s:
    """[allocators] the last event at or before a time, -1: there is none."""
    ends = count_before(events, np.array([time_ps], np.int64), at=True)[:, 0]
    return np.where(ends > events.bounds[:-1], ends - 1, -1)
