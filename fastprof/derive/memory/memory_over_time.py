"""Memory over time in few rows: stretches of time of each allocator, with the least and the most in use in each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from fastprof.derive.memory.memory_events import MemoryEvents
from fastprof.schema.array_types import Bools, Int64s

STRETCHES: Final = 1_000
"""Of an allocator with no more snapshots than that each is a stretch; else its time is divided into this many."""


@dataclass(frozen=True, slots=True, eq=False)
class Stretches:
    """[m] by allocator, then by time; stretches without snapshots are left out. ``first`` and ``end``: numbers of the
    snapshots told; ``rows``: the event of each of these; ``most``: the event after which most is in use, the first of
    equals; ``least_bytes``: least in use, where ``is_known`` of any event."""

    allocator: npt.NDArray[np.int32]
    first: Int64s
    end: Int64s
    most: Int64s
    least_bytes: Int64s
    is_known: Bools
    rows: Int64s


def stretches(events: MemoryEvents, shown: Bools | None = None) -> Stretches:
    """``shown``: the snapshots to report, None: all."""
    rows = np.arange(len(events)) if shown is None else np.flatnonzero(shown)
    if not len(rows):
        none = np.zeros(0, np.int64)
        return Stretches(none.astype(np.int32), none, none, none, none, none.astype(np.bool_), rows)
    allocator, ranked = events.allocator[rows], events.ranked_in_use[rows]
    first = np.flatnonzero(_begins(allocator, events.start_ps[rows]))
    end = np.append(first[1:], len(rows))
    high = np.maximum.reduceat(ranked, first)
    hits = np.flatnonzero(ranked == np.repeat(high, end - first))
    unknown = np.iinfo(np.int64).min
    least = np.minimum.reduceat(np.where(ranked == unknown, np.iinfo(np.int64).max, ranked), first)
    return Stretches(
        allocator=allocator[first],
        first=first,
        end=end,
        most=rows[hits[np.searchsorted(hits, first)]],
        least_bytes=least,
        is_known=high != unknown,
        rows=rows,
    )


def _begins(allocator: npt.NDArray[np.int32], start_ps: Int64s) -> Bools:
    """[n] whether a snapshot is the first of a stretch."""
    fresh = np.append(True, allocator[1:] != allocator[:-1])
    at = np.flatnonzero(fresh)
    count = np.diff(np.append(at, len(allocator)))
    begin, last = start_ps[at].view(np.uint64), start_ps[at + count - 1].view(np.uint64)
    width = (last - begin) // np.uint64(STRETCHES) + np.uint64(1)  # unsigned: spans of more than 63 bits are right
    place = (start_ps.view(np.uint64) - np.repeat(begin, count)) // np.repeat(width, count)
    few: Bools = np.repeat(count <= STRETCHES, count)
    begins: Bools = fresh | few | np.append(True, place[1:] != place[:-1])
    return begins
