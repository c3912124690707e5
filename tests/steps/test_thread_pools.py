"""Regions of thread pools: no events themselves, they cut tasks off from what does not include the whole region."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from gate import typical_captures
from host_groups import groups_of, members, read
from trace_builder import Event, event, line, plane, xspace

from fastprof.derive.steps.event_graph import REGION_START, REGION_STOP, find_pool_regions

Region = tuple[int, int, int]
"""The row that it comes before, its start, and its duration."""


def host(*threads: Sequence[Event]) -> bytes:
    return xspace(plane("/host:CPU", [line(f"thread {i}", events) for i, events in enumerate(threads)]))


def start(at: int, task: int | None = 1) -> Event:
    return event(REGION_START, at, 0, {} if task is None else {"_c": task, "_ct": 15})


def stop(at: int) -> Event:
    return event(REGION_STOP, at)


def found(data: bytes | Path) -> list[Region]:
    table = find_pool_regions(read(data))
    assert table.dtype == np.int64 and table.flags.c_contiguous
    return [(before, begin, duration) for before, begin, duration in table.tolist()]


def test_a_region_lies_between_a_start_and_its_stop() -> None:
    assert found(host([event("a", 5, 1), start(10), event("b", 12, 3), stop(20), event("c", 30)])) == [(1, 10, 10)]


def test_a_region_goes_from_the_last_start_to_each_stop() -> None:
    """A stop without a start is none, and a start goes on until the next."""
    assert found(host([stop(5), start(10), start(20), stop(30), stop(40), start(50)])) == [(2, 20, 20), (2, 20, 10)]


def test_marks_of_other_lines_have_nothing_to_do_with_each_other() -> None:
    assert found(host([start(10)], [stop(20)], [stop(5), start(30), stop(40)])) == [(3, 30, 10)]


def test_a_start_says_its_task() -> None:
    assert found(host([start(10), start(12, None), stop(20)])) == [(0, 10, 10)]
    assert found(host([start(12, None), stop(20)])) == []


def test_a_start_at_0_and_a_region_of_no_length_are_none() -> None:
    assert found(host([start(0), stop(20)])) == []
    assert found(host([start(10), stop(10)])) == []


def test_a_plane_that_knows_only_one_of_the_marks_has_no_regions() -> None:
    first = plane("/host:CPU", [line("t", [start(10), event("x", 12)])])
    other = plane("/host:CUPTI", [line("t", [stop(20)])])
    assert found(xspace(first, other)) == []


def test_a_region_comes_before_what_begins_with_it_and_is_shorter() -> None:
    events = [event("as long", 10, 10), event("shorter", 10, 9), event("of no length", 10), start(10), stop(20)]
    assert found(host([event("longer", 10, 11), *events])) == [(2, 10, 10)]


def test_a_region_within_an_event_changes_nothing() -> None:
    data = host([event("step", 5, 100, {"_r": 1}), start(10), event("task", 12, 3), stop(20), event("rest", 50, 5)])
    assert members(groups_of(data)) == {"step 0": ["step", REGION_START, "task", REGION_STOP, "rest"]}


def test_a_region_that_sticks_out_of_an_event_cuts_off_what_comes_after() -> None:
    data = host([event("step", 5, 10, {"_r": 1}), event("before", 6, 1), start(10), event("task", 12, 3), stop(20)])
    assert members(groups_of(data)) == {"step 0": ["step", "before"], "-": [REGION_START, "task", REGION_STOP]}


def test_regions_are_not_linked_to_who_scheduled_them_but_their_marks_are() -> None:
    record = event("Record", 2, 1, {"_pt": 15, "_p": 1})
    data = host([event("step", 0, 10, {"_r": 1}), record], [start(20), event("task", 25, 1), stop(30)])
    assert members(groups_of(data)) == {"step 0": ["step", "Record", REGION_START], "-": ["task", REGION_STOP]}


def test_regions_by_lot_are_those_of_going_through_each_line() -> None:
    draw = random.Random(1)
    for _ in range(300):
        threads = []
        for _ in range(draw.randint(1, 3)):
            marks = [draw.choice((start(at), start(at, None), stop(at), event("e", at, draw.randrange(9))))
                     for at in sorted(draw.randrange(12) for _ in range(draw.randrange(12)))]  # fmt: skip
            threads.append(marks)
        assert found(host(*threads)) == slowly(threads)


def slowly(threads: list[list[Event]]) -> list[Region]:
    waits: list[Region] = []
    both = {REGION_START, REGION_STOP} <= {one.name for marks in threads for one in marks}
    first = 0
    for marks in threads if both else []:
        marks = sorted(marks, key=lambda one: (one.offset_ps or 0, -one.duration_ps))
        begun = 0
        for one in marks:
            at = one.offset_ps or 0
            if one.name == REGION_START and one.stats:
                begun = at
            elif one.name == REGION_STOP and 0 < begun < at:
                shorter = [(other.offset_ps or 0, -other.duration_ps) > (begun, begun - at) for other in marks]
                waits.append((first + shorter.index(True), begun, at - begun))
        first += len(marks)
    return sorted(waits, key=lambda region: (region[0], -region[2]))


@typical_captures
def test_real_captures(capture: Path) -> None:
    events = read(capture)
    stops = sum(events.names[meta] == REGION_STOP for meta in events.meta.tolist())
    rows = [(one.first, one.last) for one in events.lines]
    waits = found(capture)
    assert len(waits) <= stops and (len(waits) > 100 or stops < 100)
    for before, begin, duration in waits:
        first, last = next(span for span in rows if span[0] <= before < span[1])
        assert begin > 0 and duration > 0 and first <= before < last and events.start_ps[before] >= begin
        assert before == first or events.start_ps[before - 1] <= begin
