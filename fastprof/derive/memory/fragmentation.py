"""Fragmentation explained: how much free memory lies in chunks too small for the largest request that follows.

Allocators record how much is free and its fragmentation, f = (free - largest free chunk) / free, so that the
largest chunk is (1 - f) * free. TensorFlow's BFC allocator reckons f over the memory that it has taken from the
device, less what is in use; `bytes_available` is its limit less what is in use. Both are the same where it has taken
all that it may at once, as it does by default. Where it takes more from time to time, (1 - f) * free is
more than the largest chunk, which shows in time: an allocation seems to make it larger, or is itself larger than the
largest chunk was. Of such an allocator each event bounds what is taken, and so the largest chunk: a free takes nothing
and makes no chunk smaller, an allocation takes more only if it fits nowhere, and chunks are whole units of memory.

Besides, the chunks that were freed since the capture began are known by their addresses. Each is part of a free chunk
of the allocator, and all of it where memory in use lies at both ends.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fastprof._native.memory_kernels import bound_free_memory, following_peaks, known_chunks
from fastprof.decode.workers import Workers, grouped
from fastprof.derive.memory.matching import HELD_BEFORE, matches, moved_bytes
from fastprof.derive.memory.memory_events import (
    ADDRESS,
    FREE,
    HEAP,
    REQUESTED,
    MemoryEvents,
)
from fastprof.schema.array_types import Bools, Int32s, Int64s

_TASK_EVENTS = 1 << 15


@dataclass(frozen=True, slots=True, eq=False)
class Fragmentation:
    """Columns by event, about the moment right after it; bytes are -1 where they are not known.

    ``largest_free_low``, ``largest_free_high``: the largest free chunk lies between. ``next_largest``: the allocation
    that asks for most after the event, -1: none; ``next_largest_bytes``: what it asks for. ``too_small_least``,
    ``too_small_most``: bytes of free memory in chunks smaller than that lie between. ``taken_low``, ``taken_high``:
    what the allocator has taken from the device, in use and free, lies between. ``known_free_bytes``,
    ``known_free_chunks``: free memory that is known by its addresses. ``grows``: by allocator: it has not taken all
    from the beginning."""

    largest_free_low: Int64s
    largest_free_high: Int64s
    next_largest: Int32s
    next_largest_bytes: Int64s
    too_small_least: Int64s
    too_small_most: Int64s
    taken_low: Int64s
    taken_high: Int64s
    known_free_bytes: Int64s
    known_free_chunks: Int64s
    grows: Bools


def fragmentation(events: MemoryEvents, workers: Workers | None = None) -> Fragmentation:
    """Computed allocator by allocator, side by side."""
    following, request = _largest_requests(events)
    known, chunks, most, least, low, high, taken, taken_most = (np.empty(len(events), np.int64) for _ in range(8))
    grows = np.zeros(len(events.allocators), np.bool_)
    is_allocation, moved = events.is_allocation.view(np.uint8), moved_bytes(events)
    size = np.where(events.has(ADDRESS), moved, -1)
    before = (matches(events).fate == HELD_BEFORE).view(np.uint8)

    def of_allocators(first: int, last: int) -> None:
        which = (request, events.bounds, first, last)
        sums = (known, chunks, most, least)  # bytes that fit and that do not, as far as known, and then their bounds
        recorded = (events.fragmentation, events.free_bytes, events.heap_bytes, events.stack_bytes, events.recorded)
        known_chunks(is_allocation, before, events.address, size, *which, *sums)
        bounds = (low, high, least, most, taken, taken_most)
        bound_free_memory(is_allocation, *recorded, FREE, HEAP, moved, *which, *sums, *bounds, grows)

    shares = grouped(np.diff(events.bounds).tolist(), _TASK_EVENTS)
    tasks = [lambda share=share: of_allocators(*share) for share in shares]
    (workers or Workers(1)).run(None, tasks)
    return Fragmentation(
        largest_free_low=low,
        largest_free_high=high,
        next_largest=following,
        next_largest_bytes=request,
        too_small_least=least,
        too_small_most=most,
        taken_low=taken,
        taken_high=taken_most,
        known_free_bytes=known,
        known_free_chunks=chunks,
        grows=grows,
    )


def _largest_requests(events: MemoryEvents) -> tuple[Int32s, Int64s]:
    """The allocation after each event that asks for most, the first of equal ones, and for how much: its requested
    bytes, else its allocation_bytes."""
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
