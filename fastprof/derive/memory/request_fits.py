"""Whether a request of some size would have fitted: what a failed allocation leaves open, as it writes no event.

It fits where the largest free chunk holds it, and not where that is smaller, or all free memory is. Between the bounds
of the largest chunk nothing is known. An allocator that takes more from the device as it needs it does so where its
limit leaves as much, if the device has it; what exceeds its limit does not fit; in between it may even give back what
is wholly free, to take more in one piece.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from fastprof.derive.memory.fragmentation import Fragmentation
from fastprof.derive.memory.memory_events import FREE, MemoryEvents
from fastprof.schema.array_types import Bools, Int32s, Int64s

ANSWERS: Final = ("no", "yes", "not known", "if the device has it")
NO, YES, OPEN, FROM_DEVICE = range(4)


@dataclass(frozen=True, slots=True, eq=False)
class Fits:
    """Stretches of events after which the answer is the same, by allocator in order of time. ``answer``: by event,
    place in ANSWERS. ``first``: event that begins the stretch, at ``start_ps``; ``snapshot_count``: how many it has;
    ``end_ps``: the time of the next event, of the last one its own. Bytes: over the stretch, -1: not known."""

    size: int
    answer: npt.NDArray[np.uint8]
    allocator: Int32s
    first: Int64s
    start_ps: Int64s
    snapshot_count: Int64s
    end_ps: Int64s
    least_free_bytes: Int64s
    most_free_bytes: Int64s
    largest_free_least_bytes: Int64s
    largest_free_most_bytes: Int64s


def request_fits(events: MemoryEvents, chunk: Fragmentation, size: int, shown: Bools | None = None) -> Fits:
    """``shown``: the events that count; None: all."""
    answer = _answers(events, chunk, size)
    begins = np.ones(len(events), np.bool_)
    begins[1:] = answer[1:] != answer[:-1]
    if shown is not None:
        begins[1:] |= shown[1:] != shown[:-1]
    begins[events.bounds[:-1]] = True
    first = np.flatnonzero(begins)
    last = np.append(first[1:], len(events)) - 1
    allocator = events.allocator[first]
    following = np.minimum(last + 1, events.bounds[allocator + 1] - 1)
    free_known = events.has(FREE)
    kept = slice(None) if shown is None else shown[first]
    columns = {
        "allocator": allocator,
        "first": first,
        "start_ps": events.start_ps[first],
        "snapshot_count": last - first + 1,
        "end_ps": events.start_ps[following],
        "least_free_bytes": _over(np.minimum, np.where(free_known, events.free_bytes, -1), first),
        "most_free_bytes": _over(np.maximum, np.where(free_known, events.free_bytes, -1), first),
        "largest_free_least_bytes": _over(np.minimum, chunk.largest_free_low, first),
        "largest_free_most_bytes": _over(np.maximum, chunk.largest_free_high, first),
    }
    return Fits(size=size, answer=answer, **{name: column[kept] for name, column in columns.items()})


def _answers(events: MemoryEvents, chunk: Fragmentation, size: int) -> npt.NDArray[np.uint8]:
    low, high = chunk.largest_free_low, chunk.largest_free_high
    grows = np.repeat(chunk.grows, np.diff(events.bounds))
    fits_not = events.has(FREE) & ((events.free_bytes < size) | (~grows & (high >= 0) & (high < size)))
    otherwise = np.where(not_taken_bytes(events, chunk) >= size, FROM_DEVICE, OPEN)
    return np.where(fits_not, NO, np.where(low >= size, YES, otherwise)).astype(np.uint8)


def not_taken_bytes(events: MemoryEvents, chunk: Fragmentation) -> npt.NDArray[np.float64]:
    """By event, what the allocator's limit leaves to take from the device, at the least; -1: not known."""
    limit = events.in_use_bytes.astype(np.float64) + events.free_bytes
    known = np.repeat(chunk.grows, np.diff(events.bounds)) & events.has(FREE) & (chunk.taken_high >= 0)
    return np.where(known, limit - chunk.taken_high, -1.0)


def _over(ufunc: np.ufunc, values: Int64s, first: Int64s) -> Int64s:
    found: Int64s = ufunc.reduceat(values, first) if len(first) else values[:0]
    return found
