"""Memory from step to step: peaks, what was taken and given back, and which ops hold more from one end to the next."""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fastprof._native.memory_kernels import range_peaks
from fastprof.derive.memory.lifetimes import lifetime_ps
from fastprof.derive.memory.matching import FREED, HELD_AT_END, HELD_BEFORE, matches, moved_bytes
from fastprof.derive.memory.memory_events import MemoryEvents, count_before
from fastprof.derive.ops.tables import exact_sum
from fastprof.errors import MemoryLimitError
from fastprof.schema.array_types import Int32s, Int64s

MOST_CELLS = 1 << 23
"""Windows times allocators: each is looked at."""
_CELLS = 1 << 17
"""So many at a time."""


@dataclass(frozen=True, slots=True, eq=False)
class Windows:
    """Arrays alike, [allocators, windows] or a row for each of some. ``first_snapshot``, ``last_snapshot``: the last
    event before a window begins, and before it ends, -1: none. ``peak``: the event with the most in use after it,
    within the window or as it begins, -1: none. ``allocated_bytes`` and the rest are about events within the window:
    from its begin, before its end; memory of unknown size counts for nothing."""

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
    ``highest``: the event of the highest peak of all windows, also of those without events, the first of equal ones,
    and ``highest_window``, where that is; ``last_peak``: the peak of the last window; -1: none."""

    allocator: Int32s
    window: Int64s
    rows: Windows
    highest: Int64s
    highest_window: Int64s
    last_peak: Int64s


def step_rows(events: MemoryEvents, start_ps: Int64s, end_ps: Int64s, short_lived_ps: int) -> StepRows:
    """Of all allocators: few at a time, as there may be many, each with events in few windows. ``start_ps``:
    ascending; ``short_lived_ps``: allocations that are freed within it count as short-lived."""
    _check(events, start_ps)
    count, few = len(events.allocators), max(_CELLS // max(len(start_ps), 1), 1)
    found = []
    for first in range(0, max(count, 1), few):
        dense = windows(events, start_ps, end_ps, short_lived_ps, slice(first, min(first + few, count)))
        allocator, window = np.nonzero(dense.allocation_count + dense.free_count)
        rows = {name: getattr(dense, name)[allocator, window] for name in Windows.__slots__}
        found.append((rows | {"allocator": allocator + first, "window": window}, *_highest(events, dense.peak)))
    rows = {name: np.concatenate([part[0][name] for part in found]) for name in found[0][0]}
    highest, highest_window, last = (np.concatenate([part[i] for part in found]) for i in (1, 2, 3))
    allocator, window = rows.pop("allocator").astype(np.int32), rows.pop("window")
    return StepRows(allocator, window, Windows(**rows), highest, highest_window, last)


def _highest(events: MemoryEvents, peak: Int64s) -> tuple[Int64s, Int64s, Int64s]:
    """[allocators] of the peaks of windows the highest, its window, and that of the last one."""
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
    """Of some of the allocators, which follow one another. ``short_lived_ps``: as of step_rows."""
    begin = count_before(events, start_ps, at=False, which=which)
    end = np.maximum(count_before(events, end_ps, at=False, which=which), begin)
    base = events.bounds[:-1][which, None]
    if not begin.size:
        return Windows(*(np.zeros(begin.shape, np.int64) for _ in Windows.__slots__))
    first, last = int(base[0, 0]), int(events.bounds[1:][which][-1])
    size, is_allocation = np.maximum(moved_bytes(events)[first:last], 0), events.is_allocation[first:last]
    lifetime = lifetime_ps(events)[first:last]
    short = (lifetime >= 0) & (lifetime <= short_lived_ps)
    _check_sum(size)

    def within(values: npt.NDArray[np.generic]) -> Int64s:
        upto = np.zeros(len(values) + 1, np.int64)
        np.cumsum(values, out=upto[1:])
        found: Int64s = upto[end - first] - upto[begin - first]
        return found

    return Windows(
        first_snapshot=np.where(begin > base, begin - 1, -1),
        last_snapshot=np.where(end > base, end - 1, -1),
        peak=_peaks(events.ranked_in_use[first:last], np.maximum(begin - 1, base) - first, end - first, first),
        allocation_count=within(is_allocation),
        free_count=within(~is_allocation),
        allocated_bytes=within(size * is_allocation),
        freed_bytes=within(size * ~is_allocation),
        short_lived_bytes=within(size * short),
    )


def _check(events: MemoryEvents, start_ps: Int64s) -> None:
    if len(events.allocators) * len(start_ps) > MOST_CELLS:
        raise MemoryLimitError(
            f"{len(start_ps):,} steps of {len(events.allocators):,} allocators of memory are more than can be "
            "reported: choose some of the steps (--steps A:B, select(steps=(a, b)))"
        )


def _peaks(in_use: Int64s, first: Int64s, last: Int64s, offset: int) -> Int64s:
    """[allocators, windows] places of peaks in ranges of the values, whose first is at ``offset``; -1: none."""
    peak = np.empty(first.shape, np.int64)
    range_peaks(np.ascontiguousarray(in_use), np.ascontiguousarray(first), np.ascontiguousarray(last), peak)
    return np.where(peak >= 0, peak + offset, -1)


def _check_sum(sizes: Int64s) -> None:
    if float(sizes.sum(dtype=np.float64)) >= 2.0**62:
        exact_sum(sizes, "the sizes of allocations")


def step_of(start_ps: Int64s, end_ps: Int64s, time_ps: Int64s) -> Int32s:
    """The window that each time is in, from its begin to before its end; of several the one that began last; -1: none.
    Windows are in order of their begin."""
    if not len(start_ps):
        return np.full(len(time_ps), -1, np.int32)
    if (end_ps[:-1] <= start_ps[1:]).all():
        place = np.searchsorted(start_ps, time_ps, side="right") - 1
        return np.where((place >= 0) & (time_ps < end_ps[place]), place, -1).astype(np.int32)
    times, window = _stretches(start_ps, end_ps)
    return window[np.searchsorted(times, time_ps, side="right")]


def _stretches(start_ps: Int64s, end_ps: Int64s) -> tuple[Int64s, Int32s]:
    """Times at which another window begins to count, and which counts before the first, and after each."""
    times = np.unique(np.concatenate([start_ps, end_ps]))
    ends, begun = end_ps.tolist(), np.searchsorted(start_ps, times, side="right").tolist()
    open_windows: list[int] = []  # the last to begin first; those that have ended are dropped when they come up
    found, following = [-1], 0
    for time, upto in zip(times.tolist(), begun, strict=True):
        for window in range(following, upto):
            heapq.heappush(open_windows, -window)
        following = upto
        while open_windows and ends[-open_windows[0]] <= time:
            heapq.heappop(open_windows)
        found.append(-open_windows[0] if open_windows else -1)
    return times, np.array(found, np.int32)


@dataclass(frozen=True, slots=True, eq=False)
class Growth:
    """A row for each op of each allocator that holds memory at the end of some step. ``op``: place in sites.op_names,
    -1: not known. ``steps_grown``: ends at which it holds more than at the end before; ``step_count``: ends.
    ``grows_steadily``: it never holds less, and more at most ends after the first."""

    allocator: Int32s
    op: Int32s
    growth_bytes: Int64s
    growth_per_step_bytes: npt.NDArray[np.float64]
    steps_grown: Int64s
    step_count: Int64s
    first_end_bytes: Int64s
    last_end_bytes: Int64s
    grows_steadily: npt.NDArray[np.bool_]


def growth(events: MemoryEvents, end_ps: Int64s) -> Growth:
    """``end_ps``: the ends of steps, ascending. Memory is held at an end if it is allocated before it and not freed
    before it; of what was there before the first event, what is freed later is known, of no known op."""
    ends = len(end_ps)
    key, step, change = _changes(events, end_ps)
    order = np.lexsort((step, key))
    key, step, change = key[order], step[order], change[order]
    is_new = np.ones(len(key), np.bool_)
    is_new[1:] = (key[1:] != key[:-1]) | (step[1:] != step[:-1])
    places = np.flatnonzero(is_new)
    key, step = key[places], step[places]
    change = np.add.reduceat(change, places) if len(places) else change
    begins = np.flatnonzero(np.concatenate([np.ones(min(len(key), 1), np.bool_), key[1:] != key[:-1]]))
    first, last, rises, falls = (
        np.add.reduceat(values, begins) if len(begins) else np.zeros(0, np.int64)
        for values in (
            np.where(step == 0, change, 0),
            change,
            ((step > 0) & (change > 0)).astype(np.int64),
            ((step > 0) & (change < 0)).astype(np.int64),
        )
    )
    ops = len(events.sites.op_names) + 1
    return Growth(
        allocator=(key[begins] // ops).astype(np.int32),
        op=(key[begins] % ops - 1).astype(np.int32),
        growth_bytes=last - first,
        growth_per_step_bytes=(last - first) / max(ends - 1, 1),
        steps_grown=rises,
        step_count=np.full(len(begins), ends, np.int64),
        first_end_bytes=first,
        last_end_bytes=last,
        grows_steadily=(falls == 0) & (2 * rises > ends - 1) & (rises > 0),
    )


def _changes(events: MemoryEvents, end_ps: Int64s) -> tuple[Int64s, Int64s, Int64s]:
    """Of each piece of memory that is held at an end: its allocator and op as one number, the first end that it is held
    at and its size; and the first at which it is not held any more, with its size as a loss."""
    matched, size = matches(events), moved_bytes(events)
    held = events.is_allocation & ((matched.fate == FREED) | (matched.fate == HELD_AT_END))
    rows = np.flatnonzero((held | (matched.fate == HELD_BEFORE)) & (size > 0))
    of_end = np.searchsorted(end_ps, events.start_ps, side="right")
    allocated, freed = events.is_allocation[rows], matched.fate[rows] == FREED
    begin = np.where(allocated, of_end[rows], 0)
    until = np.where(allocated, np.where(freed, of_end[matched.partner[rows]], len(end_ps)), of_end[rows])
    kept = begin < until
    rows, begin, until = rows[kept], begin[kept], until[kept]
    ops = len(events.sites.op_names) + 1
    op = np.where(events.is_allocation[rows], events.sites.op_number[events.site[rows]], -1)
    key = events.allocator[rows].astype(np.int64) * ops + op + 1
    ended = until < len(end_ps)
    size = size[rows]
    _check_sum(size)
    return (
        np.concatenate([key, key[ended]]),
        np.concatenate([begin, until[ended]]),
        np.concatenate([size, -size[ended]]),
    )
