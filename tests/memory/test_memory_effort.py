"""Time grows with the number of events, whatever they are: one address, many allocators, one moment, nested steps."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import pytest
from gate import few

from fastprof.derive.memory import memory_events as columns
from fastprof.derive.memory.allocation_history import (
    OpGrowth,
    OpLifetimes,
    find_breaks,
    find_steps,
    get_matches,
    measure_windows,
)
from fastprof.derive.memory.heap_state import FreeChunks, find_live_sets
from fastprof.derive.memory.memory_events import (
    MemoryEvents,
    Sites,
    find_highest_fragmentation,
    find_peaks,
    find_snapshots_at,
)

COUNT = 100_000
SECONDS = 6
"""Far above what it takes, far below what the square of the number would."""
ALL = columns.ADDRESS | columns.ALLOCATION | columns.HEAP | columns.FREE | columns.FRAGMENTATION

Int64s = np.ndarray


@contextmanager
def soon() -> Iterator[None]:
    begin = time.process_time()
    yield
    assert time.process_time() - begin < SECONDS


def events(address: Int64s, is_allocation: Int64s, allocators: int = 1, sites: int = 1) -> MemoryEvents:
    """``COUNT`` events, a picosecond apart, of 64 bytes each."""
    each = np.arange(COUNT)
    size = np.full(COUNT, 64)
    nothing, none = np.zeros(COUNT, np.int64), np.full(COUNT, -1, np.int32)
    heap = np.cumsum(np.where(is_allocation, 64, -64))
    return MemoryEvents(
        host="vm",
        allocators=[str(number) for number in range(allocators)],
        bounds=np.linspace(0, COUNT, allocators + 1).astype(np.int64),
        lines=["main"],
        line_base_ps=np.zeros(1, np.int64),
        row=each.astype(np.int32),
        line=np.zeros(COUNT, np.int32),
        start_ps=each,
        is_allocation=is_allocation.astype(np.bool_),
        address=address.astype(np.int64),
        requested_bytes=size,
        allocation_bytes=size,
        stack_bytes=nothing,
        heap_bytes=heap,
        free_bytes=2**40 - heap,
        lifetime_peak_bytes=nothing,
        fragmentation=np.full(COUNT, 0.25),
        group=none,
        recorded=np.full(COUNT, ALL, np.uint16),
        unsigned=None,
        site=(each % sites).astype(np.int32),
        sites=Sites([f"op {n}" for n in range(sites)], *([None] * sites for _ in range(3))),  # type: ignore[arg-type]
    )


EACH = np.arange(COUNT)
CROWDS: dict[str, Callable[[], MemoryEvents]] = {
    "one address, taken and given back": lambda: events(np.zeros(COUNT), EACH % 2 == 0),
    "one address, only taken": lambda: events(np.zeros(COUNT), EACH >= 0),
    "one address, only given back": lambda: events(np.zeros(COUNT), EACH < 0),
    "as many allocators as events": lambda: events(np.zeros(COUNT), EACH % 2 == 0, COUNT),
    "as many ops as events": lambda: events(EACH * 64, EACH % 3 > 0, 1, COUNT),
    "all taken, then given back in turn": lambda: events(EACH % (COUNT // 2) * 64, EACH < COUNT // 2),
    "each overlaps the last": lambda: events(EACH * 7, EACH % 2 == 0),
    "regular addresses": lambda: events(EACH % (COUNT // 2) << 40, EACH < COUNT // 2),
}


@pytest.mark.parametrize("crowd", few(list(CROWDS), 2))
def test_crowds_take_little_time(crowd: str) -> None:
    some = CROWDS[crowd]()
    with soon():
        get_matches(some), find_breaks(some), find_peaks(some), find_highest_fragmentation(some)
        find_live_sets(some, find_snapshots_at(some, COUNT // 2))
        FreeChunks(some)
        OpLifetimes(some, 5)
        measure_windows(some, np.arange(0, COUNT, COUNT // 50), np.arange(0, COUNT, COUNT // 50) + 9, 5)
        OpGrowth(some, np.arange(0, COUNT, 1000))


def test_steps_within_steps_take_little_time() -> None:
    some = events(np.zeros(COUNT), EACH % 2 == 0)
    depth = np.arange(10_000)
    with soon():
        steps = find_steps(depth, COUNT - depth, some.start_ps)
        wide = measure_windows(some, depth, COUNT - depth, 5)
    assert steps[[0, 5_000, 9_999, COUNT - 1, COUNT - 2]].tolist() == [0, 5_000, 9_999, 0, 1]
    assert wide.peak[0, [0, 1, 2]].tolist() == [0, 0, 2]


def test_as_many_steps_as_events_take_little_time() -> None:
    some = events(np.zeros(COUNT), EACH % 2 == 0)
    with soon():
        measure_windows(some, EACH, EACH + 1, 5), OpGrowth(some, EACH), find_steps(EACH, EACH + 2, EACH)
