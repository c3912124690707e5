"""Own time of events that nest, and time in which any line was busy, against a count of each picosecond."""

from __future__ import annotations

import random

import numpy as np
import pytest
from trace_builder import Event, event, line, plane, xspace

import fastprof
from fastprof.derive.ops.line_times import measure_line_times
from fastprof.errors import CaptureError
from fastprof.tables.host_events import HostEvents
from fastprof.tables.host_reader import read_host


def read(*lines: list[Event]) -> HostEvents:
    made = plane("/device:GPU:0", [line(f"Stream #{i}", events, id=i + 1) for i, events in enumerate(lines)])
    return read_host(fastprof.load(xspace(made)).table_set, 0, (), (), ())


def test_busy_time_is_the_union_of_all_lines() -> None:
    dice = random.Random(3)
    for _ in range(50):
        lines = [
            [event("k", dice.randint(0, 60), dice.randint(0, 30)) for _ in range(dice.randint(0, 12))]
            for _ in range(dice.randint(1, 4))
        ]
        events = read(*lines)
        times = measure_line_times(events, events.planes[0].lines)
        every = [one for of_line in lines for one in of_line]
        assert times.busy_ps == len({t for e in every for t in range(e.offset_ps, e.offset_ps + e.duration_ps)})
        assert len(times.rows) == len(every) and times.self_ps.min(initial=0) >= 0
        ends = [e.offset_ps + e.duration_ps for e in every]
        assert times.span_ps == (max(ends) - min(e.offset_ps for e in every) if every else 0)


def test_own_times_of_a_line_whose_events_nest_add_up_to_its_busy_time() -> None:
    events = read([event("a", 0, 50), event("b", 5, 20), event("c", 10, 5), event("d", 30, 10), event("e", 60, 5)])
    times = measure_line_times(events, events.planes[0].lines)
    assert times.self_ps.tolist() == [20, 15, 5, 10, 5] and times.busy_ps == 55


def test_chosen_rows_count_alone() -> None:
    events = read([event("a", 0, 50), event("b", 5, 20)], [event("c", 10, 5)])
    times = measure_line_times(events, events.planes[0].lines, np.array([1, 2], np.int32))
    assert times.rows.tolist() == [1, 2] and times.self_ps.tolist() == [20, 5] and times.busy_ps == 20


def test_times_that_span_more_than_64_bits_are_refused() -> None:
    events = read([event("a", 0, 2**62), event("b", 2**62, 2**62), event("c", 2**62 + 2**61, 2**62)])
    with pytest.raises(CaptureError, match="64 bits"):
        measure_line_times(events, events.planes[0].lines)
