"""Memory over time: in each step, and in few stretches of time with the least and the most in use in each."""

from __future__ import annotations

import heapq
from typing import Final

import numpy as np
import numpy.typing as npt

from fastprof._native.memory_kernels import range_peaks
from fastprof.derive.memory.matching import moved_bytes
from fastprof.derive.memory.memory_events import MemoryEvents, count_before
from fastprof.derive.memory.op_memory import check_sum, lifetime_ps
from fastprof.errors import MemoryLimitError
from fastprof.schema.array_types import Bools, Int32s, Int64s
from fastprof.schema.value_classes import dataclass

MOST_CELLS = 1 << 23
"""Windows times allocators: each is looked at."""
_CELLS = 1 << 17
"""Cells that are looked at together."""
STRETCHES: Final = 1_000
"""Each snapshot of an allocator with no more of them is a stretch; else its time is divided into this many."""

# ---- steps


@dataclass(frozen=True, slots=True, eq=False)
class Windows:
    """Arrays of one shape, [allocators, windows] or some of these. ``first_snapshot``, ``last_snapshot``: the last
    event before a window begins, and before it ends, -1: none. ``peak``: the event with the most in use after it,
    within the window or as it begins, -1: none. The others are about events within the window: from its begin, before
    its end; memory of unknown size counts 0."""

    first_snapshot: Int64s
    last_snapshot: Int64s
    peak: Int64s
    allocation_count: Int64s
    free_count: Int64s
    allocated_bytes: Int64s
    freed_bytes: Int64s
    short_lived_bytes: Int64s


@dataclass(frozen=True, slots=True, eq=False)
class StepRows:
    """``rows``: the windows within which an allocator has events, by ``allocator`` and ``window``. By allocator:
    ``highest``: the event of the highest peak of all windows, also of those without events, the first of equal ones;
    ``highest_window``: its window; ``last_peak``: the peak of the last window; -1: none."""

    allocator: Int32s
    window: Int64s
    rows: Windows
    highest: Int64s
    highest_window: Int64s
    last_peak: Int64s


def step_rows(events: MemoryEvents, start_ps: Int64s, end_ps: Int64s, short_lived_ps: int) -> StepRows:
    """Of all allocators: few at a time, as there may be many, each with events in few windows. ``start_ps``:
    ascending; ``short_lived_ps``: allocations that are freed within it count as short-lived. Raises MemoryLimitError:
    there are too many steps and allocators."""
    count, few = len(events.allocators), max(_CELLS // max(len(start_ps), 1), 1)
    if count * len(start_ps) > MOST_CELLS:
        raise MemoryLimitError(
            f"{len(start_ps):,} steps of {count:,} allocators of memory are more than can be reported: choose some of "
            "the steps (--steps A:B, select(steps=(a, b)))"
        )
    parts = []
    for first in range(0, max(count, 1), few):
        dense = windows(events, start_ps, end_ps, short_lived_ps, slice(first, min(first + few, count)))
        allocator, window = np.nonzero(dense.allocation_count + dense.free_count)
        rows = (getattr(dense, name)[allocator, window] for name in Windows.__slots__)
        parts.append((allocator + first, window, *rows, *_highest(events, dense.peak)))
    allocator, window, *columns, highest, highest_window, last = map(np.concatenate, zip(*parts, strict=True))
    return StepRows(allocator.astype(np.int32), window, Windows(*columns), highest, highest_window, last)


def _highest(events: MemoryEvents, peak: Int64s) -> tuple[Int64s, Int64s, Int64s]:
    """[allocators] the highest peak of all windows, its window, and the peak of the last window."""
    if not peak.size:
        none = np.full(len(peak), -1, np.int64)
        return none, none, none
    in_use = events.ranked_in_use
    least = np.iinfo(np.int64).min
    window = np.where(peak >= 0, np.append(in_use, least)[peak], least).argmax(axis=1)
    known = (peak >= 0).any(axis=1)
    window = np.where(known & (peak[np.arange(len(peak)), window] < 0), (peak >= 0).argmax(axis=1), window)
    return peak[np.arange(len(peak)), window], np.where(known, window, -1), peak[:, -1]


def windows(
    events: MemoryEvents, start_ps: Int64s, end_ps: Int64s, short_lived_ps: int, which: slice = slice(None)
) -> Windows:
    """Of some of the allocators, which follow one another. ``short_lived_ps``: as in step_rows."""
    begin = count_before(events, start_ps, at=False, which=which)
    end = np.maximum(count_before(events, end_ps, at=False, which=which), begin)
    base = events.bounds[:-1][which, None]
    if not begin.size:
        return Windows(*(np.zeros(begin.shape, np.int64) for _ in Windows.__slots__))
    first, last = int(base[0, 0]), int(events.bounds[1:][which][-1])
    size, is_allocation = np.maximum(moved_bytes(events)[first:last], 0), events.is_allocation[first:last]
    lifetime = lifetime_ps(events)[first:last]
    short = (lifetime >= 0) & (lifetime <= short_lived_ps)
    check_sum(size)
    peak = np.empty(begin.shape, np.int64)
    range_peaks(events.ranked_in_use[first:last], np.maximum(begin - 1, base) - first, end - first, peak)

    def within(values: npt.NDArray[np.generic]) -> Int64s:
        upto = np.zeros(len(values) + 1, np.int64)
        np.cumsum(values, out=upto[1:])
        return np.asarray(upto[end - first] - upto[begin - first])

    return Windows(
        first_snapshot=np.where(begin > base, begin - 1, -1),
        last_snapshot=np.where(end > base, end - 1, -1),
        peak=np.where(peak >= 0, peak + first, -1),
        allocation_count=within(is_allocation),
        free_count=within(~is_allocation),
        allocated_bytes=within(size * is_allocation),
        freed_bytes=within(size * ~is_allocation),
        short_lived_bytes=within(size * short),
    )


def step_of(start_ps: Int64s, end_ps: Int64s, time_ps: Int64s) -> Int32s:
    """The window that holds each time, from its begin to before its end; of several the one that began last; -1: none.
    Windows are in order of their begin."""
    if not len(start_ps):
        return np.full(len(time_ps), -1, np.int32)
    if (end_ps[:-1] <= start_ps[1:]).all():
        place = np.searchsorted(start_ps, time_ps, side="right") - 1
        return np.where((place >= 0) & (time_ps < end_ps[place]), place, -1).astype(np.int32)
    times, window = _changes(start_ps, end_ps)
    return window[np.searchsorted(times, time_ps, side="right")]


def _changes(start_ps: Int64s, end_ps: Int64s) -> tuple[Int64s, Int32s]:
    """Times at which another window begins to count, and the window that counts before the first and after each."""
    times = np.unique(np.concatenate([start_ps, end_ps]))
    ends, begun = end_ps.tolist(), np.searchsorted(start_ps, times, side="right").tolist()
    open_windows: list[int] = []  # the last to begin first; those that have ended are dropped when they come up
    counting, following = [-1], 0
    for time, upto in zip(times.tolist(), begun, strict=True):
        for window in range(following, upto):
            heapq.heappush(open_windows, -window)
        following = upto
        while open_windows and ends[-open_windows[0]] <= time:
            heapq.heappop(open_windows)
        counting.append(-open_windows[0] if open_windows else -1)
    return times, np.array(counting, np.int32)


# ---- stretches


class Stretches:
    """[m] by allocator, then by time; stretches without snapshots are left out. ``first`` and ``end``: numbers of
    reported snapshots; ``rows``: the event of each of these; ``most``: the event after which most is in use, the first
    of equals; ``least_bytes``: least in use, if ``is_known`` of any event."""

    def __init__(self, events: MemoryEvents, shown: Bools | None = None) -> None:
        """``shown``: the snapshots to report, None: all."""
        self.rows = np.arange(len(events)) if shown is None else np.flatnonzero(shown)
        allocator, ranked = events.allocator[self.rows], events.ranked_in_use[self.rows]
        self.first = first = np.flatnonzero(_begins(allocator, events.start_ps[self.rows]))
        self.allocator, self.end = allocator[first], np.append(first, len(self.rows))[1:]
        high = np.maximum.reduceat(ranked, first) if len(first) else ranked
        hits = np.flatnonzero(ranked == np.repeat(high, self.end - first))
        self.most = self.rows[hits[np.searchsorted(hits, first)]]
        unknown = np.iinfo(np.int64).min
        bounded = np.where(ranked == unknown, np.iinfo(np.int64).max, ranked)
        self.least_bytes = np.minimum.reduceat(bounded, first) if len(first) else ranked
        self.is_known = high != unknown


def _begins(allocator: Int32s, start_ps: Int64s) -> Bools:
    """[n] whether a snapshot is the first of a stretch."""
    fresh = np.append(True, allocator[1:] != allocator[:-1])[: len(allocator)]
    at = np.flatnonzero(fresh)
    count = np.diff(np.append(at, len(allocator)))
    begin, last = start_ps[at].view(np.uint64), start_ps[at + count - 1].view(np.uint64)
    width = (last - begin) // np.uint64(STRETCHES) + np.uint64(1)  # unsigned: spans of more than 63 bits are right
    place = (start_ps.view(np.uint64) - np.repeat(begin, count)) // np.repeat(width, count)
    few: Bools = np.repeat(count <= STRETCHES, count)
    return np.asarray(fresh | few | np.append(True, place[1:] != place[:-1])[: len(place)])
