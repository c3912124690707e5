"""Allocations over time: matching frees by address, lifetimes and growth of each op's memory, and memory in use in each
step and in intervals of time."""

from __future__ import annotations

import heapq
from typing import Final

import numpy as np
import numpy.typing as npt

from fastprof._native import memory_kernels
from fastprof._native.memory_kernels import ALLOCATION_LOST as ALLOCATION_LOST
from fastprof._native.memory_kernels import FREED as FREED
from fastprof._native.memory_kernels import HELD_AT_END as HELD_AT_END
from fastprof._native.memory_kernels import HELD_BEFORE as HELD_BEFORE
from fastprof._native.memory_kernels import REPLACED as REPLACED
from fastprof._native.memory_kernels import UNKNOWN as UNKNOWN
from fastprof._native.memory_kernels import range_peaks
from fastprof.derive.memory.memory_events import (
    ADDRESS,
    ALLOCATION,
    HEAP,
    MemoryEvents,
    count_before,
)
from fastprof.errors import CaptureError, MemoryLimitError
from fastprof.schema.columns import (
    Bools,
    Int32s,
    Int64s,
    Records,
    find_last_started,
    find_runs,
    number_values,
    reduce_runs,
    sort_rows,
    sum_exactly,
    summarize_by,
)
from fastprof.schema.value_classes import dataclass
from fastprof.tables.host_events import compute_once

FATES = ("address unknown", "freed", "held at the end", "free not recorded", "held before", "allocation not recorded")
"""Names of fates, by number."""


@dataclass(frozen=True, slots=True, eq=False)
class Matches:
    """Matches of allocations and frees. ``partner``: the free of an allocation, the allocation of a free, or -1.
    ``fate``: UNKNOWN: the address is not recorded; FREED: both sides are recorded; HELD_AT_END: an allocation that
    nothing frees; REPLACED: an allocation at whose address there is another before any free; HELD_BEFORE: a free that
    is the first at its address; ALLOCATION_LOST: a free of what is free already."""

    partner: Int32s
    fate: npt.NDArray[np.uint8]


def match_frees(
    is_allocation: npt.NDArray[np.bool_],
    address: Int64s,
    bounds: Int64s,
    known: npt.NDArray[np.bool_] | None = None,
    keep_first: bool = False,
) -> Matches:
    """Match events of several allocators, in the order of time. ``bounds``: where the events of each allocator begin,
    and the end; ``known``: whether the address is recorded. ``keep_first``: of two allocations of an address, one after
    the other, the second is passed over and is the one that is REPLACED, as in XProf; else it ends the first."""
    partner = np.empty(len(address), np.int32)
    fate = np.empty(len(address), np.uint8)
    known_bits = None if known is None or known.all() else np.ascontiguousarray(known)
    memory_kernels.match_allocations(
        np.ascontiguousarray(is_allocation),
        np.ascontiguousarray(address),
        known_bits,
        bounds,
        keep_first,
        partner,
        fate,
    )
    return Matches(partner, fate)


@compute_once
def get_matches(events: MemoryEvents) -> Matches:
    """Match all events."""
    return match_frees(events.is_allocation, events.address, events.bounds, events.has(ADDRESS))


def find_allocating_sites(events: MemoryEvents) -> Int32s:
    """Return the site that the memory of each event is for: for a free, the site of its allocation, or -1 if that is
    missing. The site of a free itself is what frees."""
    partner = get_matches(events).partner
    site: Int32s = np.where(events.is_allocation, events.site, np.where(partner >= 0, events.site[partner], -1))
    return site.astype(np.int32)


@compute_once
def get_moved_bytes(events: MemoryEvents) -> Int64s:
    """Return how many bytes each event takes or gives back, or -1: its allocation_bytes, or those of a free's
    allocation. Otherwise the fall of the heap since the event before counts, if all other events of the allocator agree
    with the heap."""
    recorded = events.has(ALLOCATION)
    moved: Int64s = np.where(recorded, events.allocation_bytes, -1)
    if recorded.all():
        return moved
    partner = get_matches(events).partner
    of_partner = ~recorded & (partner >= 0)
    moved[of_partner] = moved[partner[of_partner]]
    change, known = measure_heap_change(events)
    for number in range(len(events.allocators)):
        within = events.of_allocator(number)
        mine, recorded, changes = moved[within], known[within], change[within]
        by_event = np.where(events.is_allocation[within], mine, -mine)
        if not (recorded & (mine >= 0) & (changes != by_event)).any():
            fell = recorded & (mine < 0) & ~events.is_allocation[within] & (changes < 0)
            mine[fell] = -changes[fell]
    return moved


def measure_heap_change(events: MemoryEvents) -> tuple[Int64s, npt.NDArray[np.bool_]]:
    """Return the change of the heap since the event before, and whether both events record it."""
    heap, recorded = events.heap_bytes, events.has(HEAP)
    change = np.zeros(len(events), np.int64)
    known = np.zeros(len(events), np.bool_)
    change[1:] = heap[1:] - heap[:-1]
    known[1:] = recorded[1:] & recorded[:-1]
    known[events.bounds[:-1]] = False
    return change, known


@compute_once
def find_breaks(events: MemoryEvents) -> npt.NDArray[np.bool_]:
    """Return where the heap differs from the heap before plus the event: events in between are missing, or were written
    in another order than they happened."""
    change, known = measure_heap_change(events)
    moved = get_moved_bytes(events)
    expected = np.where(events.is_allocation, moved, -moved)
    differs: npt.NDArray[np.bool_] = known & (moved >= 0) & (change != expected)
    return differs


_SIZES = "the sizes of allocations"


@compute_once
def measure_lifetimes(events: MemoryEvents) -> Int64s:
    """Return the time from each allocation to its free, or -1 without one, and for frees. CaptureError: it exceeds 64
    bits."""
    partner = get_matches(events).partner
    freed = events.is_allocation & (partner >= 0)
    since = events.start_ps[partner] - events.start_ps
    if (freed & (since < 0)).any():  # a free is never before its allocation
        raise CaptureError("the times of an allocation and its free are too far apart for 64 bits")
    return np.where(freed, since, -1)


class OpLifetimes:
    """Lifetimes of the allocations of each op of each allocator. ``op``: place in sites.op_names; times are -1 if
    nothing was freed. ``lifetime_p50_ps``: the shorter of two in the middle."""

    def __init__(self, events: MemoryEvents, short_lived_ps: int, shown: Bools | None = None) -> None:
        """Measure lifetimes. ``short_lived_ps``: allocations that are freed within it count as short-lived; ``shown``:
        the events that count, or None for all."""
        rows = np.flatnonzero(events.is_allocation if shown is None else events.is_allocation & shown)
        ops = len(events.sites.op_names)
        key = events.allocator[rows].astype(np.int64) * ops + events.sites.op_number[events.site[rows]]
        distinct, row = _find_distinct(key, len(events.allocators) * ops)
        self.allocator, self.op = (distinct // max(ops, 1)).astype(np.int32), (distinct % max(ops, 1)).astype(np.int32)
        size, lifetime = events.allocation_bytes[rows], measure_lifetimes(events)[rows]

        def sums(values: Int64s, which: Bools | slice = slice(None)) -> Records:
            return summarize_by(row[which], values[which], len(distinct), _SIZES)

        sizes, at_end = sums(size), sums(size, get_matches(events).fate[rows] == HELD_AT_END)
        short = sums(size, (lifetime >= 0) & (lifetime <= short_lived_ps))
        self.count, self.allocated_bytes, self.largest_bytes = sizes["count"], sizes["total"], sizes["maximum"]
        self.requested_bytes = sums(events.requested_bytes[rows])["total"]
        self.held_at_end_count, self.held_at_end_bytes = at_end["count"], at_end["total"]
        self.short_lived_count, self.short_lived_bytes = short["count"], short["total"]
        times = _measure_spread(row, lifetime, len(distinct))
        self.lifetime_min_ps, self.lifetime_p50_ps, self.lifetime_max_ps = times


def _find_distinct(key: Int64s, limit: int) -> tuple[Int64s, Int32s]:
    """Return the distinct keys, ascending, and the place of each among them."""
    if limit > 4 * len(key) + 1024:
        distinct, row = number_values(key)
        return distinct, row.astype(np.int32)
    there = np.zeros(limit, np.bool_)
    there[key] = True
    return np.flatnonzero(there), (np.cumsum(there, dtype=np.int32) - 1)[key].astype(np.int32)


def _measure_spread(row: Int32s, lifetime: Int64s, count: int) -> tuple[Int64s, Int64s, Int64s]:
    """Return the shortest, middle and longest lifetime of each row, or -1 without any."""
    freed = lifetime >= 0
    row, lifetime = row[freed], lifetime[freed]
    order = np.argsort(lifetime)
    narrow = row.astype(np.uint16) if count <= 1 << 16 else row
    order = order[np.argsort(narrow[order], kind="stable")]
    freed_count = np.bincount(row, minlength=count)
    last = np.cumsum(freed_count)
    places = last - freed_count, last - freed_count + (freed_count - 1) // 2, last - 1
    some = freed_count > 0
    times = [np.full(count, -1, np.int64) for _ in places]
    for time, place in zip(times, places, strict=True):
        time[some] = lifetime[order[place[some]]]
    return times[0], times[1], times[2]


def check_sum(sizes: Int64s) -> None:
    """Check that sizes add up in 64 bits. CaptureError: they do not."""
    if float(sizes.sum(dtype=np.float64)) >= 2.0**62:
        sum_exactly(sizes, _SIZES)


class OpGrowth:
    """Growth of each op of each allocator that holds memory at the end of some step. ``op``: place in sites.op_names,
    or -1 if unknown. ``steps_grown``: ends at which it holds more than at the end before; ``step_count``: all ends.
    ``grows_steadily``: it never holds less, and holds more at more than half of the ends after the first."""

    def __init__(self, events: MemoryEvents, end_ps: Int64s) -> None:
        """Measure growth. ``end_ps``: the ends of steps, ascending. Memory is held at an end if it is allocated before
        it and not freed before it. Memory from before the first event is known if it is freed later; its op is
        unknown."""
        ends, ops = len(end_ps), len(events.sites.op_names) + 1
        key, step, change = _list_held_changes(events, end_ps)
        order = sort_rows(key, step)
        key, step, change = key[order], step[order], change[order]
        places = find_runs(key, step)
        key, step, change = key[places], step[places], reduce_runs(np.add, change, places)
        begins = find_runs(key)
        key = key[begins]
        self.allocator, self.op = (key // ops).astype(np.int32), (key % ops - 1).astype(np.int32)
        self.first_end_bytes = reduce_runs(np.add, np.where(step == 0, change, 0), begins)
        self.last_end_bytes = reduce_runs(np.add, change, begins)
        self.growth_bytes = self.last_end_bytes - self.first_end_bytes
        self.growth_per_step_bytes = self.growth_bytes / max(ends - 1, 1)
        self.step_count = np.full(len(begins), ends, np.int64)
        self.steps_grown = rises = reduce_runs(np.add, ((step > 0) & (change > 0)).astype(np.int64), begins)
        falls = reduce_runs(np.add, ((step > 0) & (change < 0)).astype(np.int64), begins)
        self.grows_steadily = (falls == 0) & (2 * rises > ends - 1) & (rises > 0)


def _list_held_changes(events: MemoryEvents, end_ps: Int64s) -> tuple[Int64s, Int64s, Int64s]:
    """List changes of held memory. Each piece that is held at an end has a row with its allocator and op as one number,
    the first end at which it is held, and its size; and one with the first end at which it is no longer held, and its
    size as a loss."""
    matched, size = get_matches(events), get_moved_bytes(events)
    held = events.is_allocation & ((matched.fate == FREED) | (matched.fate == HELD_AT_END))
    rows = np.flatnonzero((held | (matched.fate == HELD_BEFORE)) & (size > 0))
    of_end = np.searchsorted(end_ps, events.start_ps, side="right")
    allocated, freed = events.is_allocation[rows], matched.fate[rows] == FREED
    begin = np.where(allocated, of_end[rows], 0)
    until = np.where(allocated, np.where(freed, of_end[matched.partner[rows]], len(end_ps)), of_end[rows])
    is_held = begin < until
    rows, begin, until = rows[is_held], begin[is_held], until[is_held]
    ops = len(events.sites.op_names) + 1
    op = np.where(events.is_allocation[rows], events.sites.op_number[events.site[rows]], -1)
    key = events.allocator[rows].astype(np.int64) * ops + op + 1
    ended = until < len(end_ps)
    size = size[rows]
    check_sum(size)
    return (
        np.concatenate([key, key[ended]]),
        np.concatenate([begin, until[ended]]),
        np.concatenate([size, -size[ended]]),
    )


MOST_CELLS = 1 << 23
"""Bound of windows times allocators: each is looked at."""
_CELLS = 1 << 17
"""Number of cells that are looked at together."""
MOST_INTERVALS: Final = 1_000
"""Number of intervals into which an allocator's time is divided if it has more snapshots; else each snapshot has its
own."""

# ---- steps


@dataclass(frozen=True, slots=True, eq=False)
class MemoryWindows:
    """Memory in windows of time, as arrays of one shape, [allocators, windows] or some of these. ``first_snapshot``,
    ``last_snapshot``: the last event before a window begins, and before it ends; ``peak``: the event with the most in
    use after it, within the window or as it begins; -1 if there is none. The others are about events within the window,
    from its begin to before its end; memory of unknown size counts 0."""

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
    """Windows with events. ``rows``: the windows within which an allocator has events, by ``allocator`` and ``window``.
    By allocator: ``highest``: the event of the highest peak of all windows, also of those without events, the first of
    equal ones; ``highest_window``: its window; ``last_peak``: the peak of the last window; -1 if there is none."""

    allocator: Int32s
    window: Int64s
    rows: MemoryWindows
    highest: Int64s
    highest_window: Int64s
    last_peak: Int64s


def list_step_rows(events: MemoryEvents, start_ps: Int64s, end_ps: Int64s, short_lived_ps: int) -> StepRows:
    """List the windows of all allocators, few allocators at a time, as there may be many, each with events in few
    windows. ``start_ps``: ascending; ``short_lived_ps``: allocations that are freed within it count as short-lived.
    Raise MemoryLimitError if there are too many steps and allocators."""
    count, few = len(events.allocators), max(_CELLS // max(len(start_ps), 1), 1)
    if count * len(start_ps) > MOST_CELLS:
        raise MemoryLimitError(
            f"{len(start_ps):,} steps of {count:,} allocators of memory are more than can be reported: choose some of "
            "the steps (--steps A:B, select(steps=(a, b)))"
        )
    parts = []
    for first in range(0, max(count, 1), few):
        dense = measure_windows(events, start_ps, end_ps, short_lived_ps, slice(first, min(first + few, count)))
        allocator, window = np.nonzero(dense.allocation_count + dense.free_count)
        rows = (getattr(dense, name)[allocator, window] for name in MemoryWindows.__slots__)
        parts.append((allocator + first, window, *rows, *_find_highest(events, dense.peak)))
    allocator, window, *columns, highest, highest_window, last = map(np.concatenate, zip(*parts, strict=True))
    return StepRows(allocator.astype(np.int32), window, MemoryWindows(*columns), highest, highest_window, last)


def _find_highest(events: MemoryEvents, peak: Int64s) -> tuple[Int64s, Int64s, Int64s]:
    """Return for each allocator the highest peak of all windows, its window, and the peak of the last window."""
    if not peak.size:
        none = np.full(len(peak), -1, np.int64)
        return none, none, none
    in_use = events.ranked_in_use
    least = np.iinfo(np.int64).min
    window = np.where(peak >= 0, np.append(in_use, least)[peak], least).argmax(axis=1)
    known = (peak >= 0).any(axis=1)
    window = np.where(known & (peak[np.arange(len(peak)), window] < 0), (peak >= 0).argmax(axis=1), window)
    return peak[np.arange(len(peak)), window], np.where(known, window, -1), peak[:, -1]


def measure_windows(
    events: MemoryEvents, start_ps: Int64s, end_ps: Int64s, short_lived_ps: int, which: slice = slice(None)
) -> MemoryWindows:
    """Measure windows of some allocators, which follow one another. ``short_lived_ps``: as in list_step_rows."""
    begin = count_before(events, start_ps, at=False, which=which)
    end = np.maximum(count_before(events, end_ps, at=False, which=which), begin)
    base = events.bounds[:-1][which, None]
    if not begin.size:
        return MemoryWindows(*(np.zeros(begin.shape, np.int64) for _ in MemoryWindows.__slots__))
    first, last = int(base[0, 0]), int(events.bounds[1:][which][-1])
    size, is_allocation = np.maximum(get_moved_bytes(events)[first:last], 0), events.is_allocation[first:last]
    lifetime = measure_lifetimes(events)[first:last]
    short = (lifetime >= 0) & (lifetime <= short_lived_ps)
    check_sum(size)
    peak = np.empty(begin.shape, np.int64)
    range_peaks(events.ranked_in_use[first:last], np.maximum(begin - 1, base) - first, end - first, peak)

    def within(values: npt.NDArray[np.generic]) -> Int64s:
        upto = np.zeros(len(values) + 1, np.int64)
        np.cumsum(values, out=upto[1:])
        return np.asarray(upto[end - first] - upto[begin - first])

    return MemoryWindows(
        first_snapshot=np.where(begin > base, begin - 1, -1),
        last_snapshot=np.where(end > base, end - 1, -1),
        peak=np.where(peak >= 0, peak + first, -1),
        allocation_count=within(is_allocation),
        free_count=within(~is_allocation),
        allocated_bytes=within(size * is_allocation),
        freed_bytes=within(size * ~is_allocation),
        short_lived_bytes=within(size * short),
    )


def find_steps(start_ps: Int64s, end_ps: Int64s, time_ps: Int64s) -> Int32s:
    """Return the window that holds each time, from its begin to before its end: the one that began last, or -1. Windows
    are in order of their begin."""
    if not len(start_ps):
        return np.full(len(time_ps), -1, np.int32)
    if (end_ps[:-1] <= start_ps[1:]).all():
        place = find_last_started(start_ps, time_ps)
        return np.where((place >= 0) & (time_ps < end_ps[place]), place, -1).astype(np.int32)
    times, window = _list_window_changes(start_ps, end_ps)
    return window[np.searchsorted(times, time_ps, side="right")]


def _list_window_changes(start_ps: Int64s, end_ps: Int64s) -> tuple[Int64s, Int32s]:
    """Return the times at which another window begins to count, and the window that counts before the first and after
    each."""
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


# ---- intervals


class TimeIntervals:
    """Intervals by allocator, then by time; those without snapshots are left out. ``first`` and ``end``: numbers of
    reported snapshots; ``rows``: the event of each of these; ``most``: the event after which most is in use, the first
    of equals; ``least_bytes``: least in use, if ``is_known`` of any event."""

    def __init__(self, events: MemoryEvents, shown: Bools | None = None) -> None:
        """Divide the time of allocators. ``shown``: the snapshots to report, or None for all."""
        self.rows = np.arange(len(events)) if shown is None else np.flatnonzero(shown)
        allocator, ranked = events.allocator[self.rows], events.ranked_in_use[self.rows]
        self.first = first = np.flatnonzero(_find_begins(allocator, events.start_ps[self.rows]))
        self.allocator, self.end = allocator[first], np.append(first, len(self.rows))[1:]
        high = reduce_runs(np.maximum, ranked, first)
        hits = np.flatnonzero(ranked == np.repeat(high, self.end - first))
        self.most = self.rows[hits[np.searchsorted(hits, first)]]
        unknown = np.iinfo(np.int64).min
        bounded = np.where(ranked == unknown, np.iinfo(np.int64).max, ranked)
        self.least_bytes = np.minimum.reduceat(bounded, first) if len(first) else ranked
        self.is_known = high != unknown


def _find_begins(allocator: Int32s, start_ps: Int64s) -> Bools:
    """Return whether each snapshot is the first of an interval."""
    fresh = np.append(True, allocator[1:] != allocator[:-1])[: len(allocator)]
    at = np.flatnonzero(fresh)
    count = np.diff(np.append(at, len(allocator)))
    begin, last = start_ps[at].view(np.uint64), start_ps[at + count - 1].view(np.uint64)
    width = (last - begin) // np.uint64(MOST_INTERVALS) + np.uint64(1)  # unsigned: spans of more than 63 bits are right
    place = (start_ps.view(np.uint64) - np.repeat(begin, count)) // np.repeat(width, count)
    few: Bools = np.repeat(count <= MOST_INTERVALS, count)
    return np.asarray(fresh | few | np.append(True, place[1:] != place[:-1])[: len(place)])
