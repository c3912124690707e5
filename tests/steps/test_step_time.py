"""Step time: overlapping events flattened, against the oracle; the longest marker of a group."""

from __future__ import annotations

import random

import numpy as np
import pytest
from gate import few
from slow_step_time import Typed, times

from fastprof._native.step_kernels import EVENT_TYPES, step_time
from fastprof.derive.steps.step_database import (
    CATEGORIES,
    NO_TYPE,
    TYPES,
    Markers,
    TimeByType,
    TypedEvents,
    select_longest_markers,
    sum_by_category,
    sum_time_by_type,
)
from fastprof.derive.steps.step_database import EventType as Kind


def flattened(lines: list[list[tuple[int, Typed]]], steps: list[tuple[int, int]]) -> TimeByType:
    """Of lines of (group, (type, begin, end)), and each group's step."""
    rows = [row for line in lines for row in line]
    events = TypedEvents(
        np.array([group for group, _ in rows], np.int32),
        np.array([type_ for _, (type_, _, _) in rows], np.uint8),
        np.array([begin for _, (_, begin, _) in rows], np.int64),
        np.array([end - begin for _, (_, begin, end) in rows], np.int64),
    )
    begin, end = np.array(steps, np.int64).reshape(-1, 2).T
    return sum_time_by_type(events, np.cumsum([0, *map(len, lines)]), begin, end - begin)


def time_of_types(values: np.ndarray) -> dict[int, int]:
    return {type_: int(time) for type_, time in enumerate(values.tolist()) if time}


def test_the_types_are_those_of_the_kernel() -> None:
    assert len(TYPES) == EVENT_TYPES
    assert Kind.UNKNOWN_TIME == 0 and TYPES[Kind.DEVICE_COMPUTE_16] == "device_compute_16" and NO_TYPE >= EVENT_TYPES


def test_time_counts_once_for_the_highest_type() -> None:
    thread = [
        (0, (Kind.HOST_COMPUTE, 0, 100)),
        (0, (Kind.HOST_WAIT_INPUT, 20, 50)),
        (0, (Kind.HOST_COMPUTE, 30, 40)),
    ]
    other = [(0, (Kind.HOST_COMPUTE, 90, 120))]
    found = flattened([thread, other], [(0, 150)])
    assert time_of_types(found.within_ps[0]) == {
        Kind.HOST_COMPUTE: 90,
        Kind.HOST_WAIT_INPUT: 30,
        Kind.UNKNOWN_TIME: 30,
    }
    assert time_of_types(found.total_ps[0]) == {Kind.HOST_COMPUTE: 90, Kind.HOST_WAIT_INPUT: 30}


def test_only_what_lies_in_the_step_counts_for_it() -> None:
    found = flattened([[(0, (Kind.HOST_COMPUTE, 0, 100)), (0, (Kind.HOST_WAIT_INPUT, 200, 300))]], [(50, 150)])
    assert time_of_types(found.within_ps[0]) == {Kind.HOST_COMPUTE: 50, Kind.UNKNOWN_TIME: 50}
    assert found.seen[0, Kind.HOST_WAIT_INPUT] and found.total_ps[0, Kind.HOST_WAIT_INPUT] == 100


def test_a_type_that_is_covered_throughout_does_not_occur() -> None:
    found = flattened([[(0, (Kind.HOST_WAIT_INPUT, 0, 10)), (0, (Kind.HOST_COMPUTE, 2, 8))]], [(0, 10)])
    assert not found.seen[0, Kind.HOST_COMPUTE]


def test_where_one_event_ends_and_the_next_begins_the_lower_type_occurs_for_no_time() -> None:
    waits = [(0, (Kind.HOST_WAIT_INPUT, 0, 5)), (0, (Kind.HOST_WAIT_INPUT, 5, 10))]
    found = flattened([waits, [(0, (Kind.HOST_COMPUTE, 2, 8))]], [(0, 10)])
    assert found.seen[0, Kind.HOST_COMPUTE] and found.within_ps[0, Kind.HOST_COMPUTE] == 0


@pytest.mark.parametrize("seed", few(range(40), 12))
def test_random_events_are_as_the_oracle_has_them(seed: int) -> None:
    chance = random.Random(seed)
    types = chance.sample(
        [
            Kind.HOST_COMPUTE,
            Kind.HOST_TO_HOST,
            Kind.HOST_WAIT_INPUT,
            Kind.DEVICE_COMPUTE_32,
            NO_TYPE,
        ],
        3,
    )
    shortest = chance.choice([0, 0, 1, -3])
    scale = chance.choice([1, 10**6, 10**14])  # 10**14: groups that last longer than keys have room for
    lines: list[list[tuple[int, Typed]]] = []
    for _ in range(chance.randint(1, 5)):
        spans = [(chance.randint(0, 40), chance.randint(shortest, 12)) for _ in range(chance.randint(0, 25))]
        spans.sort(key=lambda span: (span[0], -span[1]))
        lines.append([
            (chance.randint(-1, 3), (chance.choice(types), scale * begin, scale * (begin + length)))
            for begin, length in spans
        ])  # fmt: skip
    steps = [(scale * begin, scale * (begin + chance.randint(0, 40))) for begin in (0, 5, 20, 45)]
    found = flattened(lines, steps)
    for group, step in enumerate(steps):
        events = [one for line in lines for of, one in line if of == group and one[0] != NO_TYPE]
        wanted = times(events, step)
        assert time_of_types(found.within_ps[group]) == wanted.within
        assert time_of_types(found.total_ps[group]) == wanted.total
        assert set(np.flatnonzero(found.seen[group]).tolist()) - {0} == wanted.seen


def test_arrays_that_do_not_fit_each_other_are_refused() -> None:
    one, total, seen = np.zeros(1, np.int64), np.zeros((2, 18), np.int64), np.zeros((2, 18), np.uint8)
    group, type_ = np.zeros(1, np.int32), np.zeros(1, np.uint8)
    with pytest.raises(ValueError, match="columns differ in length: 2 items where there are 1"):
        step_time(group, type_, one, np.zeros(2, np.int64), None, None, total, None, seen)
    with pytest.raises(ValueError, match="36 items where there are 18"):
        step_time(group, type_, one, one, None, None, total[:1], None, seen)
    with pytest.raises(ValueError, match="6 items where there are 4"):
        step_time(group, type_, one, one, None, np.zeros((3, 2), np.int64), total, total.copy(), seen)
    with pytest.raises(TypeError):
        step_time(group, type_, one, one, None, np.zeros((2, 2), np.int64), total, None, seen)


def test_the_longest_marker_counts_and_of_equals_the_first() -> None:
    first = Markers(np.array([3, 1, 3], np.int32), np.array([0, 50, 9]), np.array([10, 0, 11]))
    second = Markers(np.array([3, 2, 2, 1], np.int32), np.array([70, 7, 5, 1]), np.array([11, 4, 4, -2]))
    found = select_longest_markers(Markers.joined([first, second]))
    assert found.group.tolist() == [2, 3]  # group 1 has no marker that lasts
    assert (found.start_ps.tolist(), found.duration_ps.tolist()) == ([7, 9], [4, 11])
    assert len(select_longest_markers(Markers.joined([]))) == 0


def test_categories_add_up_types_and_leave_out_copies_on_the_host() -> None:
    by_type = np.arange(18, dtype=np.int64) * 10
    by_category = dict(zip((one.name for one in CATEGORIES), sum_by_category(by_type).tolist(), strict=True))
    assert by_category == {
        "device_compute": 290,
        "device_to_device": 280,
        "device_collectives": 100,
        "host_compute": 10,
        "kernel_launch": 90,
        "input": 80 + 110 + 170,
        "output": 130,
        "compilation": 60,
        "all_others": 0,
    }
    assert [one.number for one in CATEGORIES] == list(range(1, 10))
    assert sum(by_type) - sum(by_category.values()) == 20 + 30 + 40 + 50 + by_type[Kind.HOST_TO_HOST]
