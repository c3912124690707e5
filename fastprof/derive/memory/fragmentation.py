"""Free chunks: how much free memory lies in chunks too small for the largest request that follows, and would a request
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

from typing import Final

import numpy as np

from fastprof._native.memory_kernels import bound_free_memory, following_peaks, known_chunks
from fastprof.decode.workers import Workers, grouped
from fastprof.derive.memory.matching import HELD_BEFORE, matches, moved_bytes
from fastprof.derive.memory.memory_events import ADDRESS, FREE, HEAP, REQUESTED, MemoryEvents
from fastprof.schema.array_types import Bools, Float64s, Int32s, Int64s, UInt8s

_TASK_EVENTS = 1 << 15
ANSWERS: Final = ("no", "yes", "not known", "if the device has it")
NO, YES, OPEN, FROM_DEVICE = range(4)


class Fragmentation:
    """Columns by event, about the moment right after it; bytes are -1 if unknown.

    ``largest_free_low``, ``largest_free_high``: bounds of the largest free chunk. ``next_largest``: the allocation
    after the event that requests most, -1: none; ``next_largest_bytes``: its request. ``too_small_least``,
    ``too_small_most``: bounds of the free memory in smaller chunks than that. ``taken_low``, ``taken_high``: bounds of
    what the allocator has taken from the device, in use and free. ``known_free_bytes``, ``known_free_chunks``: free
    memory that is known by its addresses. ``grows``: by allocator: it takes more from time to time."""

    def __init__(self, events: MemoryEvents, workers: Workers | None = None) -> None:
        """Computed allocator by allocator, side by side."""
        self.next_largest, self.next_largest_bytes = _largest_requests(events)
        known, chunks, most, least, low, high, taken, taken_most = (np.empty(len(events), np.int64) for _ in range(8))
        self.known_free_bytes, self.known_free_chunks = known, chunks
        self.too_small_least, self.too_small_most = least, most
        self.largest_free_low, self.largest_free_high = low, high
        self.taken_low, self.taken_high = taken, taken_most
        self.grows = np.zeros(len(events.allocators), np.bool_)
        is_allocation, moved = events.is_allocation.view(np.uint8), moved_bytes(events)
        size = np.where(events.has(ADDRESS), moved, -1)
        before = (matches(events).fate == HELD_BEFORE).view(np.uint8)

        def of_allocators(first: int, last: int) -> None:
            which = (self.next_largest_bytes, events.bounds, first, last)
            sums = (
                known,
                chunks,
                most,
                least,
            )  # bytes that fit and that do not, as far as known; then their bounds
            recorded = (events.fragmentation, events.free_bytes, events.heap_bytes, events.stack_bytes, events.recorded)
            known_chunks(is_allocation, before, events.address, size, *which, *sums)
            bounds = (low, high, least, most, taken, taken_most)
            bound_free_memory(is_allocation, *recorded, FREE, HEAP, moved, *which, *sums, *bounds, self.grows)

        shares = grouped(np.diff(events.bounds).tolist(), _TASK_EVENTS)
        tasks = [lambda share=share: of_allocators(*share) for share in shares]
        (workers or Workers(1)).run(None, tasks)


def _largest_requests(events: MemoryEvents) -> tuple[Int32s, Int64s]:
    """The allocation after each event that requests most, the first of equal ones, and how much: its requested_bytes,
    else its allocation_bytes."""
    recorded = events.has(REQUESTED)
    requested = (
        events.requested_bytes
        if recorded.all()
        else np.where(recorded, events.requested_bytes, events.allocation_bytes)
    )
    requested = requested * events.is_allocation
    following = np.empty(len(events), np.int32)
    following_peaks(requested, events.bounds, following)
    request: Int64s = np.where(following >= 0, requested[following], 0) if len(events) else requested
    return following, request


# ---- requests


class Fits:
    """Stretches of events after which the answer is the same, by allocator in order of time. ``answer``: by event,
    place in ANSWERS. ``first``: the first event of the stretch, at ``start_ps``; ``snapshot_count``: its events;
    ``end_ps``: time of the event after it, of the last stretch of its last event. Bytes: over the stretch, -1:
    unknown."""

    def __init__(
        self,
        events: MemoryEvents,
        chunk: Fragmentation,
        size: int,
        left: tuple[Bools, Int64s],
        shown: Bools | None = None,
    ) -> None:
        """``left``: by event, whether it is known what the allocator may still use, and that; ``shown``: the events
        that count, None: all."""
        self.size, self.answer = size, _answers(events, chunk, size, left)
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
        self.least_free_bytes = _over(np.minimum, free_bytes, first)[chosen]
        self.most_free_bytes = _over(np.maximum, free_bytes, first)[chosen]
        self.largest_free_least_bytes = _over(np.minimum, chunk.largest_free_low, first)[chosen]
        self.largest_free_most_bytes = _over(np.maximum, chunk.largest_free_high, first)[chosen]


def _answers(events: MemoryEvents, chunk: Fragmentation, size: int, left: tuple[Bools, Int64s]) -> UInt8s:
    low, high = chunk.largest_free_low, chunk.largest_free_high
    grows = np.repeat(chunk.grows, np.diff(events.bounds))
    is_known, left_bytes = left
    fits_not = is_known & ((left_bytes < size) | (~grows & (high >= 0) & (high < size)))
    otherwise = np.where(not_taken_bytes(events, chunk) >= size, FROM_DEVICE, OPEN)
    return np.where(fits_not, NO, np.where(low >= size, YES, otherwise)).astype(np.uint8)


def not_taken_bytes(events: MemoryEvents, chunk: Fragmentation) -> Float64s:
    """By event, what the allocator's limit leaves to take from the device, at the least; -1: unknown."""
    limit = events.in_use_bytes.astype(np.float64) + events.free_bytes
    known = np.repeat(chunk.grows, np.diff(events.bounds)) & events.has(FREE) & (chunk.taken_high >= 0)
    return np.where(known, limit - chunk.taken_high, -1.0)


def _over(ufunc: np.ufunc, values: Int64s, first: Int64s) -> Int64s:
    return np.asarray(ufunc.reduceat(values, first)) if len(first) else values[:0]
