"""Memory from step to step: peaks, what comes and goes, and which ops hold more from one end to the next."""

from __future__ import annotations

import random
from itertools import pairwise

import numpy as np
import pytest
from allocator_calls import Call, alloc, free, in_order, made_up, read
from slow_allocations import held_at

from fastprof.derive.memory import allocation_history
from fastprof.derive.memory.allocation_history import (
    MemoryWindows,
    OpGrowth,
    OpLifetimes,
    find_steps,
    get_moved_bytes,
    list_step_rows,
    measure_lifetimes,
    measure_windows,
)
from fastprof.errors import CaptureError, MemoryLimitError


def times(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


STEPS = [
    alloc(5, 8, 10, heap=10),
    alloc(10, 16, 20, heap=30),
    free(14, 16, heap=10),
    alloc(20, 24, 5, heap=15),
    free(30, 24, heap=10),
]


def test_a_window_is_from_its_begin_to_before_its_end() -> None:
    found = measure_windows(read(STEPS), times(0, 10, 20, 31), times(10, 20, 30, 40), 4)
    assert found.first_snapshot.tolist() == [[-1, 0, 2, 4]]
    assert found.last_snapshot.tolist() == [[0, 2, 3, 4]]
    assert found.peak.tolist() == [[0, 1, 3, 4]]
    assert found.allocation_count.tolist() == [[1, 1, 1, 0]]
    assert found.free_count.tolist() == [[0, 1, 0, 0]]
    assert found.allocated_bytes.tolist() == [[10, 20, 5, 0]]
    assert found.freed_bytes.tolist() == [[0, 20, 0, 0]]
    assert found.short_lived_bytes.tolist() == [[0, 20, 0, 0]]


def test_what_stands_at_the_begin_may_be_the_peak() -> None:
    found = measure_windows(read([alloc(0, 8, 10, heap=10), free(5, 8, heap=0)]), times(3, 6), times(9, 9), 0)
    assert found.peak.tolist() == [[0, 1]]
    assert measure_windows(read([alloc(7, 8, 10)]), times(3), times(5), 0).peak.tolist() == [[-1]]


def test_what_has_no_known_size_counts_for_no_bytes() -> None:
    found = measure_windows(read([alloc(0, 8, None), free(1, 16), free(2, 24, 5)]), times(0), times(9), 9)
    assert (found.allocated_bytes.tolist(), found.freed_bytes.tolist()) == ([[0]], [[5]])
    assert (found.allocation_count.tolist(), found.free_count.tolist()) == ([[1]], [[2]])


def test_windows_may_overlap() -> None:
    found = measure_windows(read(STEPS), times(0, 9, 12), times(40, 20, 13), 0)
    assert found.peak.tolist() == [[1, 1, 1]]
    assert found.allocated_bytes.tolist() == [[35, 20, 0]]


def test_too_many_windows_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(allocation_history, "MOST_CELLS", 3)
    with pytest.raises(MemoryLimitError, match="4 steps of 1 allocators of memory are more than can be reported"):
        list_step_rows(read(STEPS), times(0, 1, 2, 3), times(1, 2, 3, 4), 0)


def test_windows_without_events_have_no_rows_however_many_are_looked_at_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls = [alloc(5, 8, 10, heap=10), alloc(25, 16, 7, heap=17), alloc(26, 8, 9, heap=9, allocator="b")]
    events = read([*calls, free(35, 8, heap=0, allocator="b"), alloc(-5, 8, 3, allocator="c")])
    spans = times(0, 10, 20, 30), times(10, 20, 30, 40), 0
    dense = measure_windows(events, *spans)
    for cells in (1, 5, 8, 1 << 17):
        monkeypatch.setattr(allocation_history, "_CELLS", cells)
        found = list_step_rows(events, *spans)
        assert found.allocator.tolist() == [0, 0, 1, 1] and found.window.tolist() == [0, 2, 2, 3]
        for name in MemoryWindows.__slots__:
            of_rows = getattr(dense, name)[found.allocator, found.window].tolist()
            assert getattr(found.rows, name).tolist() == of_rows
        assert (found.highest.tolist(), found.highest_window.tolist()) == ([1, 2, 4], [2, 2, 0])
        assert found.last_peak.tolist() == [1, 2, 4]


def test_without_windows_there_are_no_rows() -> None:
    found = list_step_rows(read(STEPS), times(), times(), 0)
    assert (len(found.allocator), found.highest.tolist(), found.last_peak.tolist()) == (0, [-1], [-1])
    assert len(list_step_rows(read([]), times(0), times(9), 0).highest) == 0


def test_sizes_that_do_not_add_up_are_an_error() -> None:
    events = read([alloc(0, 8, 2**62), alloc(1, 16, 2**62)])
    with pytest.raises(CaptureError, match="the sizes of allocations do not add up in 64 bits"):
        measure_windows(events, times(0), times(9), 0)
    with pytest.raises(CaptureError, match="do not add up in 64 bits"):
        OpLifetimes(events, 0)
    for last in (2**56 - 1, 2**56):  # as doubles, they add up to 2**63 both
        events = read([alloc(i, None, 2**56) for i in range(127)] + [alloc(127, None, last)])
        if last < 2**56:
            assert measure_windows(events, times(0), times(999), 0).allocated_bytes.tolist() == [[2**63 - 1]]
        else:
            with pytest.raises(CaptureError, match="do not add up in 64 bits"):
                measure_windows(events, times(0), times(999), 0)


def test_times_too_far_apart_are_an_error() -> None:
    for begin, end in ((-(2**62), 2**62), (-(2**63), 2**63 - 1)):
        with pytest.raises(CaptureError, match="an allocation and its free are too far apart for 64 bits"):
            measure_lifetimes(read([alloc(begin, 8, 1), free(end, 8)]))
    assert measure_lifetimes(read([alloc(1 - 2**62, 8, 1), free(2**62, 8)])).tolist() == [2**63 - 1, -1]


def test_a_time_is_in_the_last_window_to_begin_that_holds_it() -> None:
    found = find_steps(times(0, 10, 20), times(5, 20, 30), times(-1, 0, 4, 5, 9, 10, 19, 20, 29, 30))
    assert found.tolist() == [-1, 0, 0, -1, -1, 1, 1, 2, 2, -1]
    assert find_steps(times(0, 2, 4, 4), times(100, 10, 6, 4), times(1, 3, 5, 6, 10, 99)).tolist() == [0, 1, 2, 1, 0, 0]
    assert find_steps(times(), times(), times(1)).tolist() == [-1]


def test_times_by_chance_are_in_windows_as_by_looking_at_each() -> None:
    for seed in range(50):
        chance = random.Random(seed)
        spans = sorted((chance.randrange(30), chance.randrange(12)) for _ in range(chance.randrange(1, 9)))
        start, end = times(*(a for a, _ in spans)), times(*(a + b for a, b in spans))
        found = find_steps(start, end, np.arange(-2, 50))
        for time, window in zip(range(-2, 50), found.tolist(), strict=True):
            holds = [i for i, (a, b) in enumerate(spans) if a <= time < a + b]
            assert window == (holds[-1] if holds else -1)


def test_an_op_that_keeps_more_from_step_to_step_grows_steadily() -> None:
    calls: list[Call] = []
    for step in range(6):
        calls += [alloc(10 * step, 100 + step, 4, op="leak"), alloc(10 * step + 1, 8, 9, op="fine")]
        calls += [free(10 * step + 8, 8)]
    events = read(calls)
    found = OpGrowth(events, times(*range(10, 70, 10)))
    assert [events.sites.op_names[op] for op in found.op.tolist()] == ["leak"]
    assert (found.first_end_bytes[0], found.last_end_bytes[0], found.growth_bytes[0]) == (4, 24, 20)
    assert (found.steps_grown[0], found.step_count[0], found.growth_per_step_bytes[0]) == (5, 6, 4.0)
    assert found.grows_steadily.tolist() == [True]


def test_one_fall_or_few_rises_are_no_steady_growth() -> None:
    calls = [alloc(t, 8 * t + 8, 4, op="fell") for t in (0, 10, 20, 30)]
    calls += [free(41, 8)]
    assert OpGrowth(read(calls), times(9, 19, 29, 39, 49)).grows_steadily.tolist() == [False]
    calls = [alloc(t, 8 * t + 8, 4, op="rare") for t in (0, 10, 20)]
    assert OpGrowth(read(calls), times(9, 19, 29, 39, 49)).grows_steadily.tolist() == [False]
    assert OpGrowth(read(calls), times(9, 19, 29, 39)).grows_steadily.tolist() == [True]


def test_growth_is_what_is_held_at_one_end_and_the_next() -> None:
    for seed in range(60):
        chance = random.Random(seed)
        calls = in_order(made_up(chance))
        events = read(calls)
        ends = sorted(chance.sample(range(120), 5))
        held = [held_at(calls, get_moved_bytes(events).tolist(), end) for end in ends]
        wanted = {}
        for key in {key for one in held for key in one}:
            sums = [one.get(key, 0) for one in held]
            deltas = [b - a for a, b in pairwise(sums)]
            wanted[key] = (sums[0], sums[-1], sum(d > 0 for d in deltas), min(deltas) >= 0)
        found = OpGrowth(events, times(*ends))
        for i, op in enumerate(found.op.tolist()):
            name = "held before" if op < 0 else events.sites.op_names[op]
            key = (events.allocators[found.allocator[i]], name)
            rises = int(found.steps_grown[i])
            recorded = (int(found.first_end_bytes[i]), int(found.last_end_bytes[i]), rises)
            if key in wanted:
                first, last, ups, never_falls = wanted.pop(key)
                assert recorded == (first, last, ups), (seed, key)
                assert found.grows_steadily[i] == (never_falls and 2 * ups > 4), (seed, key)
        assert not any(any(pair[:2]) for pair in wanted.values()), (seed, wanted)


def test_lifetimes_are_by_op_and_short_ones_are_counted() -> None:
    calls = [alloc(0, 8, 4, op="a", requested=3), free(10, 8), alloc(20, 8, 6, op="a", requested=6), free(21, 8)]
    calls += [alloc(30, 8, 8, op="a"), free(35, 8), alloc(40, 8, 7, op="a"), alloc(50, 16, 1, op="(null)")]
    events = read(calls)
    found = OpLifetimes(events, 5)
    assert [events.sites.op_names[op] for op in found.op.tolist()] == ["a", None]
    assert measure_lifetimes(events).tolist() == [10, -1, 1, -1, 5, -1, -1, -1]
    columns = {name: getattr(found, name).tolist() for name in vars(found)}
    assert columns | {"op": 0} == {
        "allocator": [0, 0], "op": 0, "count": [4, 1], "allocated_bytes": [25, 1], "requested_bytes": [9, 0],
        "largest_bytes": [8, 1], "held_at_end_count": [1, 1], "held_at_end_bytes": [7, 1],
        "short_lived_count": [2, 0], "short_lived_bytes": [14, 0],
        "lifetime_min_ps": [1, -1], "lifetime_p50_ps": [5, -1], "lifetime_max_ps": [10, -1],
    }  # fmt: skip


def test_the_middle_of_two_lifetimes_is_the_shorter() -> None:
    calls = [alloc(0, 8, 4), free(10, 8), alloc(20, 8, 4), free(24, 8)]
    assert OpLifetimes(read(calls), 0).lifetime_p50_ps.tolist() == [4]


def test_there_may_be_nothing() -> None:
    events = read([])
    assert len(OpLifetimes(events, 0).op) == len(OpGrowth(events, times(1, 2)).op) == 0
    assert measure_windows(events, times(0), times(1), 0).peak.shape == (0, 1)
    assert len(OpGrowth(read(STEPS), times()).op) == 0
