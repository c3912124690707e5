"""Heap state at one time: live allocations, their purpose, and memory in use that no allocation explains. Also
in groups of ops of like names: the layers of a model, the replicas of a step.

Memory in use is stack and heap. Of the heap, known is what was allocated before the moment and is freed after it or not
at all; and what is freed after it without an allocation, so that it was there before the first event. The rest was
allocated before the first event and is still there after the last.

Free chunks: how much free memory lies in chunks too small for the largest request that follows, and would a request
of some size have fitted?

Allocators record how much is free and its fragmentation, f = (free - largest free chunk) / free, so that the
largest chunk is (1 - f) * free. TensorFlow's BFC allocator computes f over the memory that it has taken from the
device, less what is in use; `bytes_available` is its limit less what is in use. Both are equal if it takes all that it
may at once, as it does by default. If it takes more from time to time, (1 - f) * free is more than the largest chunk,
which shows later: an allocation seems to make it larger, or is itself larger than the largest chunk was. Each event of
such an allocator bounds what is taken, and so the largest chunk: a free takes nothing and makes no chunk smaller, an
allocation takes more only if it fits nowhere, and chunks are whole units of memory.

Chunks that were freed since the capture began are known by their addresses. Each is part of a free chunk of the
allocator, and all of it if memory in use lies at both ends.

A request fits if the largest free chunk holds it, and not if that is smaller, or all free memory is. Between the bounds
of the largest chunk nothing is known. An allocator that takes more from the device as it needs it does so if its limit
leaves enough, if the device has it; what exceeds its limit does not fit; in between it may even give back what is
wholly free, to take more in one piece.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from fastprof._native.memory_kernels import (
    ALLOCATION_LOST,
    FREED,
    HELD_AT_END,
    HELD_BEFORE,
    REPLACED,
    bound_free_memory,
    following_peaks,
    known_chunks,
)
from fastprof.decode.workers import Workers, group_sizes
from fastprof.derive.memory.allocation_history import find_breaks, get_matches, get_moved_bytes
from fastprof.derive.memory.memory_events import ADDRESS, FREE, HEAP, REQUESTED, MemoryEvents, Sites
from fastprof.schema.columns import (
    ArrayRows,
    Bools,
    Float64s,
    Int32s,
    Int64s,
    UInt8s,
    find_first_rows,
    number_keys,
    reduce_runs,
    sort_rows,
    sum_by,
)
from fastprof.schema.value_classes import dataclass

SOURCES: Final = ("recorded", "held before", "held throughout", "stack", "not recorded")
RECORDED, HELD_BEFORE_FREED_LATER, HELD_THROUGHOUT, STACK, NOT_SEEN = range(5)
REASONS: Final = (
    None,
    "the allocator does not record bytes_allocated",
    "live allocations exceed the memory in use: the capture lacks frees",
    "the size of some allocations is not recorded",
)
_EXACT, _NO_HEAP, _TOO_MUCH, _UNSIZED = range(4)
_SIZES: Final = "the sizes of allocations"


@dataclass(frozen=True, slots=True, eq=False)
class LiveRows(ArrayRows):
    """Live memory, a row for equal allocations, ordered by allocator, largest total first. ``site``,
    ``allocation_bytes``, ``requested_bytes``, ``total_bytes``: -1 if unknown. ``count``: 0 if unknown. ``source``:
    place in SOURCES."""

    allocator: Int32s
    site: Int32s
    allocation_bytes: Int64s
    requested_bytes: Int64s
    count: Int64s
    total_bytes: Int64s
    source: UInt8s

    @property
    def wasted_bytes(self) -> Int64s:
        """Return what each row takes beyond the requested size, or -1 if a size is unknown, or more was requested."""
        known = (self.count > 0) & (self.requested_bytes >= 0) & (self.total_bytes >= 0)
        known &= self.requested_bytes <= self.allocation_bytes
        wasted = self.total_bytes - np.where(known, self.requested_bytes, 0) * self.count
        return np.where(known, wasted, -1).astype(np.int64)


class LiveGroups:
    """Live rows grouped by op, region, data type and source; ordered by allocator, largest total first. ``site``: any
    of the group's. ``op_count``: number of ops; ``count``: number of allocations, or 0 if they are not distinguished;
    ``total_bytes``, ``requested_bytes``, ``wasted_bytes``: -1 if unknown."""

    def __init__(self, rows: LiveRows, sites: Sites) -> None:
        op = np.append(sites.op_number, np.int32(-1))[rows.site]
        name = _number_texts(sites.like_names)[op]
        region, data_type = (
            _number_texts(texts)[rows.site] for texts in (sites.names.region_type, sites.names.data_type)
        )
        known = rows.allocator.astype(np.int64) * len(SOURCES) + rows.source
        number, groups = number_keys([known, region, name, data_type])
        first, wasted = find_first_rows(number, groups), rows.wasted_bytes
        total = sum_by(number, np.maximum(rows.total_bytes, 0), groups, _SIZES)
        beyond = sum_by(number, np.maximum(wasted, 0), groups, _SIZES)
        unsized, unknown = (
            np.bincount(number[sizes < 0], minlength=groups) > 0 for sizes in (rows.total_bytes, wasted)
        )
        pairs = np.unique(number[op >= 0].astype(np.int64) << 32 | op[op >= 0])
        order = sort_rows(rows.allocator[first], -total, first)
        self.allocator, self.site, self.source = (
            column[first[order]] for column in (rows.allocator, rows.site, rows.source)
        )
        self.op_count = np.bincount(pairs >> 32, minlength=groups)[order]
        self.count = sum_by(number, rows.count, groups)[order]
        self.total_bytes = np.where(unsized, -1, total)[order]
        self.requested_bytes = np.where(unsized | unknown, -1, total - beyond)[order]
        self.wasted_bytes = np.where(unsized | unknown, -1, beyond)[order]


@dataclass(frozen=True, slots=True, eq=False)
class LiveSets:
    """Live memory of allocators. By allocator: ``in_use_bytes``: as the allocator records it, 0 without an event;
    ``reason``: place in REASONS, why the totals of its rows are not in_use_bytes, or 0 if they are."""

    rows: LiveRows
    in_use_bytes: Int64s
    reason: UInt8s


def find_live_sets(events: MemoryEvents, after: Int64s) -> LiveSets:
    """Find what is alive right after an event of each allocator; -1 if it has none."""
    allocator = events.allocator
    some = after >= 0
    live, source = _find_alive(events, allocator, after)
    size = get_moved_bytes(events)
    live &= events.is_allocation | (size >= 0)  # a free of no known size is part of the rest
    rows = np.flatnonzero(live)
    count = len(events.allocators)
    known = sum_by(allocator[rows], np.maximum(size[rows], 0), count, _SIZES)
    unsized = np.bincount(allocator[rows[size[rows] < 0]], minlength=count) > 0
    heap, stack = events.heap_bytes[after] * some, events.stack_bytes[after] * some
    rest = np.where(heap < 0, -1, heap - known)
    reason = np.where((rest < 0) | (stack < 0), _TOO_MUCH, np.where(unsized, _UNSIZED, _EXACT))
    reason = np.where(some & ~events.has(HEAP)[after], _NO_HEAP, reason) * some
    rests = _make_rest_rows(rest * (reason != _NO_HEAP), HELD_THROUGHOUT), _make_rest_rows(stack, STACK)
    return LiveSets(
        rows=_join_rows(_merge_alike(events, allocator, rows, size, source), *rests),
        in_use_bytes=events.in_use_bytes[after] * some,
        reason=reason.astype(np.uint8),
    )


def _find_alive(events: MemoryEvents, allocator: Int32s, after: Int64s) -> tuple[Bools, UInt8s]:
    """Return which events stand for live memory (an allocation, or a free without one), and the source of each."""
    matched = get_matches(events)
    time, place = after[allocator], np.arange(len(events))
    begun = (place <= time) & events.is_allocation
    to_come = (place > time) & (time >= 0) & ~events.is_allocation
    live = begun & (matched.fate == HELD_AT_END)
    live |= begun & (matched.fate == FREED) & (matched.partner > time)
    live |= to_come & (matched.fate == HELD_BEFORE)
    source = np.where(events.is_allocation, RECORDED, HELD_BEFORE_FREED_LATER).astype(np.uint8)
    broken = np.flatnonzero(find_breaks(events))
    replaced = np.flatnonzero(begun & (matched.fate == REPLACED))
    if len(replaced):  # alive for as long as the heap follows from event to event: until then no free is missing
        end = _find_next_allocation(events, allocator)[replaced]
        first_break = np.append(broken, len(events))[np.searchsorted(broken, replaced + 1)]
        live[replaced] = np.minimum(end, first_break) > time[replaced]
    lost = np.flatnonzero(to_come & (matched.fate == ALLOCATION_LOST))
    if len(lost):
        last_break = np.insert(broken, 0, -1)[np.searchsorted(broken, lost, side="right")]
        live[lost] = (last_break >= events.bounds[allocator[lost]]) & (last_break <= time[lost])
        source[lost] = NOT_SEEN
    return live, source


def _find_next_allocation(events: MemoryEvents, allocator: Int32s) -> Int64s:
    """Return the next allocation of the same address by the same allocator, or the number of events."""
    rows = np.flatnonzero(events.is_allocation)
    rows = rows[sort_rows(allocator[rows], events.address[rows], rows)]
    following = np.full(len(events), len(events), np.int64)
    same = (events.address[rows[1:]] == events.address[rows[:-1]]) & (allocator[rows[1:]] == allocator[rows[:-1]])
    following[rows[:-1][same]] = rows[1:][same]
    return following


def _merge_alike(events: MemoryEvents, allocator: Int32s, rows: Int64s, size: Int64s, source: UInt8s) -> LiveRows:
    """Merge events that differ only in address and time. For frees, the allocating site is unknown."""
    allocated = events.is_allocation[rows]
    site = np.where(allocated, events.site[rows], -1).astype(np.int64)
    requested = np.where(events.has(REQUESTED)[rows], events.requested_bytes[rows], -1)
    kind = (allocator[rows].astype(np.int64) * len(SOURCES) + source[rows]) * (len(events.sites) + 1) + site + 1
    number, count = number_keys([kind, size[rows], requested])
    first = find_first_rows(number, count)
    like = rows[first]
    occurrences = np.bincount(number, minlength=count)
    return LiveRows(
        allocator=allocator[like],
        site=site[first].astype(np.int32),
        allocation_bytes=size[like],
        requested_bytes=requested[first],
        count=occurrences,
        total_bytes=np.where(size[like] >= 0, size[like] * occurrences, -1),
        source=source[like],
    )


def _make_rest_rows(total: Int64s, source: int) -> LiveRows:
    """Make a row for each allocator that has a total."""
    rows = np.flatnonzero(total > 0)
    unknown = np.full(len(rows), -1, np.int64)
    return LiveRows(
        allocator=rows.astype(np.int32),
        site=unknown.astype(np.int32),
        allocation_bytes=unknown,
        requested_bytes=unknown,
        count=np.zeros(len(rows), np.int64),
        total_bytes=total[rows],
        source=np.full(len(rows), source, np.uint8),
    )


def _join_rows(*parts: LiveRows) -> LiveRows:
    rows = LiveRows.joined(parts)
    sizes = (rows.allocation_bytes, rows.requested_bytes)
    return rows[sort_rows(rows.allocator, -rows.total_bytes, rows.source, rows.site, *sizes)]


def _number_texts(texts: Sequence[str | None]) -> Int64s:
    """Number texts: equal ones have equal numbers, None has -1. One more at the end is for place -1."""
    place: dict[str, int] = {}
    return np.array([-1 if text is None else place.setdefault(text, len(place)) for text in (*texts, None)], np.int64)


def measure_wasted(rows: LiveRows, count: int) -> tuple[Int64s, Bools]:
    """Sum what the rows of each allocator take beyond the requested size; return also whether any row records it."""
    wasted = rows.wasted_bytes
    known = rows.allocator[wasted >= 0]
    return sum_by(known, wasted[wasted >= 0], count, _SIZES), np.bincount(known, minlength=count) > 0


_TASK_EVENTS = 1 << 15
ANSWERS: Final = ("no", "yes", "not known", "if the device has it")
NO, YES, OPEN, FROM_DEVICE = range(4)


class FreeChunks:
    """Free chunks right after each event; bytes are -1 if unknown.

    ``largest_free_low``, ``largest_free_high``: bounds of the largest free chunk. ``next_largest``: the allocation
    after the event that requests most, or -1; ``next_largest_bytes``: its request. ``too_small_least``,
    ``too_small_most``: bounds of the free memory in smaller chunks than that. ``taken_low``, ``taken_high``: bounds of
    what the allocator has taken from the device, in use and free. ``known_free_bytes``, ``known_free_chunks``: free
    memory that is known by its addresses. ``grows``: by allocator, whether it takes more from time to time."""

    def __init__(self, events: MemoryEvents, workers: Workers | None = None) -> None:
        """Compute the chunks allocator by allocator, side by side."""
        self.next_largest, self.next_largest_bytes = _find_largest_requests(events)
        known, chunks, most, least, low, high, taken, taken_most = (np.empty(len(events), np.int64) for _ in range(8))
        self.known_free_bytes, self.known_free_chunks = known, chunks
        self.too_small_least, self.too_small_most = least, most
        self.largest_free_low, self.largest_free_high = low, high
        self.taken_low, self.taken_high = taken, taken_most
        self.grows = np.zeros(len(events.allocators), np.bool_)
        is_allocation, moved = events.is_allocation.view(np.uint8), get_moved_bytes(events)
        size = np.where(events.has(ADDRESS), moved, -1)
        before = (get_matches(events).fate == HELD_BEFORE).view(np.uint8)

        def of_allocators(first: int, last: int) -> None:
            which = (self.next_largest_bytes, events.bounds, first, last)
            sums = (known, chunks, most, least)  # the last two: bytes that fit and that do not; then their bounds
            recorded = (events.fragmentation, events.free_bytes, events.heap_bytes, events.stack_bytes, events.recorded)
            known_chunks(is_allocation, before, events.address, size, *which, *sums)
            bounds = (low, high, least, most, taken, taken_most)
            bound_free_memory(is_allocation, *recorded, FREE, HEAP, moved, *which, *sums, *bounds, self.grows)

        shares = group_sizes(np.diff(events.bounds).tolist(), _TASK_EVENTS)
        tasks = [lambda share=share: of_allocators(*share) for share in shares]
        (workers or Workers(1)).run(None, tasks)


def _find_largest_requests(events: MemoryEvents) -> tuple[Int32s, Int64s]:
    """Return the allocation after each event that requests most, the first of equal ones, and its requested_bytes, or
    its allocation_bytes if these are not recorded."""
    recorded = events.has(REQUESTED)
    requested = np.where(recorded, events.requested_bytes, events.allocation_bytes) * events.is_allocation
    following = np.empty(len(events), np.int32)
    following_peaks(requested, events.bounds, following)
    request: Int64s = np.where(following >= 0, requested[following], 0) if len(events) else requested
    return following, request


# ---- requests


class RequestFits:
    """Intervals of events after which the answer is the same, by allocator in order of time. ``answer``: by event,
    place in ANSWERS. ``first``: the first event of the interval, at ``start_ps``; ``snapshot_count``: number of its
    events; ``end_ps``: time of the event after it, or of its last event if it is the last interval. Bytes are over the
    interval, -1 if unknown."""

    def __init__(
        self,
        events: MemoryEvents,
        chunk: FreeChunks,
        size: int,
        left: tuple[Bools, Int64s],
        shown: Bools | None = None,
    ) -> None:
        """Find the answers. ``left``: by event, whether it is known what the allocator may still use, and that;
        ``shown``: the events that count, or None for all."""
        self.size, self.answer = size, _find_answers(events, chunk, size, left)
        begins = np.ones(len(events), np.bool_)
        begins[1:] = self.answer[1:] != self.answer[:-1]
        if shown is not None:
            begins[1:] |= shown[1:] != shown[:-1]
        begins[events.bounds[:-1]] = True
        first = np.flatnonzero(begins)
        last = np.append(first[1:], len(events)) - 1
        allocator, free_bytes = events.allocator[first], np.where(events.has(FREE), events.free_bytes, -1)
        following = np.minimum(last + 1, events.bounds[allocator + 1] - 1)
        chosen = slice(None) if shown is None else shown[first]
        self.allocator, self.first, self.start_ps = allocator[chosen], first[chosen], events.start_ps[first][chosen]
        self.snapshot_count, self.end_ps = (last - first + 1)[chosen], events.start_ps[following][chosen]
        self.least_free_bytes = reduce_runs(np.minimum, free_bytes, first)[chosen]
        self.most_free_bytes = reduce_runs(np.maximum, free_bytes, first)[chosen]
        self.largest_free_least_bytes = reduce_runs(np.minimum, chunk.largest_free_low, first)[chosen]
        self.largest_free_most_bytes = reduce_runs(np.maximum, chunk.largest_free_high, first)[chosen]


def _find_answers(events: MemoryEvents, chunk: FreeChunks, size: int, left: tuple[Bools, Int64s]) -> UInt8s:
    low, high = chunk.largest_free_low, chunk.largest_free_high
    grows = np.repeat(chunk.grows, np.diff(events.bounds))
    is_known, left_bytes = left
    fits_not = is_known & ((left_bytes < size) | (~grows & (high >= 0) & (high < size)))
    otherwise = np.where(measure_not_taken(events, chunk) >= size, FROM_DEVICE, OPEN)
    return np.where(fits_not, NO, np.where(low >= size, YES, otherwise)).astype(np.uint8)


def measure_not_taken(events: MemoryEvents, chunk: FreeChunks) -> Float64s:
    """Return, by event, the least that the allocator's limit leaves to take from the device, or -1 if unknown."""
    limit = events.in_use_bytes.astype(np.float64) + events.free_bytes
    known = np.repeat(chunk.grows, np.diff(events.bounds)) & events.has(FREE) & (chunk.taken_high >= 0)
    return np.where(known, limit - chunk.taken_high, -1.0)
