"""Live memory at a moment: by op and size, with what was there before the capture, adding up to the memory in use."""

from __future__ import annotations

import random
from collections import Counter
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from allocator_calls import Call, alloc, free, in_order, made_up, read
from slow_allocations import alive

from fastprof.derive.memory.allocation_history import get_moved_bytes
from fastprof.derive.memory.heap_state import (
    HELD_BEFORE_FREED_LATER,
    HELD_THROUGHOUT,
    NOT_SEEN,
    REASONS,
    RECORDED,
    SOURCES,
    STACK,
    LiveSets,
    find_live_sets,
)
from fastprof.derive.memory.memory_events import MemoryEvents, find_highest_fragmentation, find_peaks, find_snapshots_at


def at(calls: list[Call], moment: int) -> tuple[LiveSets, list[tuple[Any, ...]]]:
    """Live memory after an event of the only allocator: op, size, how many, in all, source."""
    events = read(calls)
    sets = find_live_sets(events, np.array([moment], np.int64))
    return sets, shown(events, sets)


def shown(events: MemoryEvents, found: LiveSets) -> list[tuple[Any, ...]]:
    rows = found.rows
    ops = [None if site < 0 else events.sites.names.op_name[site] for site in rows.site.tolist()]
    columns = (rows.allocation_bytes, rows.count, rows.total_bytes)
    sources = [SOURCES[source] for source in rows.source.tolist()]
    return list(zip(ops, *(column.tolist() for column in columns), sources, strict=True))


def test_allocations_that_are_not_freed_yet_are_alive_merged_by_what_they_are() -> None:
    calls = [
        alloc(0, 8, 10, op="conv", heap=10),
        alloc(1, 16, 10, op="conv", heap=20),
        alloc(2, 24, 30, op="relu", heap=50),
        free(3, 24, heap=20),
    ]
    assert at(calls, 2)[1] == [("relu", 30, 1, 30, SOURCES[RECORDED]), ("conv", 10, 2, 20, SOURCES[RECORDED])]
    assert at(calls, 3)[1] == [("conv", 10, 2, 20, SOURCES[RECORDED])]


def test_what_is_freed_later_without_an_allocation_was_there_before() -> None:
    calls = [alloc(0, 8, 10, op="conv", heap=110), free(1, 16, 40, op="who frees", heap=70)]
    assert at(calls, 0)[1] == [
        (None, -1, 0, 60, SOURCES[HELD_THROUGHOUT]),
        (None, 40, 1, 40, SOURCES[HELD_BEFORE_FREED_LATER]),
        ("conv", 10, 1, 10, SOURCES[RECORDED]),
    ]
    assert at(calls, 1)[1] == [(None, -1, 0, 60, SOURCES[HELD_THROUGHOUT]), ("conv", 10, 1, 10, SOURCES[RECORDED])]


def test_the_stack_is_a_row_of_its_own_and_all_rows_add_up() -> None:
    calls = [alloc(0, 8, 10, heap=50, stack=7)]
    found, rows = at(calls, 0)
    assert rows == [
        (None, -1, 0, 40, SOURCES[HELD_THROUGHOUT]),
        (None, 10, 1, 10, SOURCES[RECORDED]),
        (None, -1, 0, 7, SOURCES[STACK]),
    ]
    assert found.in_use_bytes.tolist() == [57] and REASONS[found.reason[0]] is None


LACKS_FREES = "live allocations exceed the memory in use: the capture lacks frees"


@pytest.mark.parametrize(
    ("calls", "reason"),
    [
        ([alloc(0, 8, 10)], "the allocator does not record bytes_allocated"),
        ([alloc(0, 8, 10, heap=5)], LACKS_FREES),
        ([alloc(0, 8, 10, heap=-(2**63))], LACKS_FREES),
        ([alloc(0, 8, None, heap=5)], "the size of some allocations is not recorded"),
    ],
)
def test_where_rows_do_not_add_up_the_reason_is_reported(calls: list[Call], reason: str) -> None:
    assert REASONS[at(calls, 0)[0].reason[0]] == reason


def test_an_allocation_whose_free_is_missing_is_alive_for_as_long_as_the_heap_says_so() -> None:
    calls = [
        alloc(0, 8, 10, heap=10),
        alloc(1, 16, 20, heap=30),
        alloc(2, 24, 20, heap=40),  # 10 less than it would be: here a free is missing
        alloc(3, 8, 10, heap=50),
    ]
    assert at(calls, 1)[1] == [(None, 20, 1, 20, SOURCES[RECORDED]), (None, 10, 1, 10, SOURCES[RECORDED])]
    assert at(calls, 2)[1] == [(None, 20, 2, 40, SOURCES[RECORDED])]


def test_memory_whose_allocation_is_missing_is_alive_from_where_the_heap_says_so() -> None:
    calls = [free(0, 8, 10, heap=0), alloc(1, 16, 5, heap=15), free(2, 8, 10, heap=5)]
    assert at(calls, 0)[1] == []
    assert at(calls, 1)[1] == [(None, 10, 1, 10, SOURCES[NOT_SEEN]), (None, 5, 1, 5, SOURCES[RECORDED])]


def test_before_the_first_event_nothing_is_reported() -> None:
    calls = [alloc(5, 8, 10, heap=10), free(9, 8, 10, heap=20, allocator="b")]
    events = read(calls)
    moment = find_snapshots_at(events, 5)
    assert moment.tolist() == [0, -1]
    sets = find_live_sets(events, moment)
    assert sets.rows.allocator.tolist() == [0] and sets.in_use_bytes.tolist() == [10, 0]
    assert find_snapshots_at(events, 4).tolist() == [-1, -1] and find_snapshots_at(events, 2**62).tolist() == [0, 1]


def test_peaks_are_the_first_of_the_largest() -> None:
    calls = [alloc(0, 8, 5, heap=5, stack=5, fragmentation=0.5), alloc(1, 16, 5, heap=10), free(2, 8, heap=9, stack=1)]
    events = read([*calls, alloc(0, 8, 1, heap=-3, allocator="b")])
    assert find_peaks(events).tolist() == [0, 3]
    assert find_highest_fragmentation(events).tolist() == [0, -1]
    assert (
        find_peaks(read([])).tolist() == [] and find_live_sets(read([]), np.zeros(0, np.int64)).rows.site.tolist() == []
    )


def test_any_events_are_alive_as_one_by_one() -> None:
    exact = 0
    for seed in range(60):
        chance = random.Random(seed)
        calls = in_order(made_up(chance))
        events = read(calls)
        sizes = get_moved_bytes(events).tolist()
        moments = [chance.randrange(a, b) for a, b in pairwise(events.bounds.tolist())]
        sets = find_live_sets(events, np.array(moments, np.int64))
        rows = sets.rows
        for number, moment in enumerate(moments):
            wanted = alive(calls, sizes, events.allocators[number], moment)
            mine = (rows.allocator == number) & (rows.source != HELD_THROUGHOUT) & (rows.source != STACK)
            counted: Counter[Any] = Counter()
            for i in np.flatnonzero(mine).tolist():
                op = None if rows.site[i] < 0 else events.sites.names.op_name[rows.site[i]]
                key = (int(rows.source[i]), op, int(rows.allocation_bytes[i]), int(rows.requested_bytes[i]))
                counted[key] += int(rows.count[i])
            assert counted == wanted, (seed, number)
            if REASONS[sets.reason[number]] is None:
                exact += 1
                assert rows.total_bytes[rows.allocator == number].sum() == events.in_use_bytes[moment]
    assert exact > 60
