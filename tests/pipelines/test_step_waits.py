"""How much of steps calls cover, against a count of picoseconds."""

from __future__ import annotations

import random

import numpy as np
import pytest
from gate import few

from fastprof.derive.pipelines import pipeline_tables
from fastprof.derive.pipelines.pipeline_tables import StepSpans, is_outside_steps, measure_waits
from fastprof.derive.pipelines.recorded_pipelines import Calls
from fastprof.errors import CaptureError


def calls_of(rows: list[tuple[int, int, int, int]]) -> Calls:
    """(pipeline, start, duration, group) each."""
    columns = [np.array(column, np.int64) for column in zip(*rows, strict=True)] or [np.zeros(0, np.int64)] * 4
    pipeline, start, duration, group = columns
    return Calls(pipeline.astype(np.int32), start, duration, group.astype(np.int32), np.arange(len(rows) + 1))


def steps_of(*steps: tuple[int, int, int]) -> StepSpans:
    """(group, begin, duration) each."""
    group, begin, duration = np.array(steps, np.int64).reshape(-1, 3).T
    return StepSpans(group, group, begin, duration, [f"train {number}" for number in group.tolist()])


def shown(calls: Calls, steps: StepSpans) -> list[tuple[int, ...]]:
    found = pipeline_tables.measure_step_waits(calls, steps)
    columns = (steps.group[found.step], found.pipeline, found.count, found.wait_ps, found.ahead_ps)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def test_calls_of_a_step_are_cut_to_it_and_count_once() -> None:
    steps = steps_of((3, 100, 50), (5, 200, 50))
    calls = calls_of([
        (0, 90, 20, 3), (0, 105, 10, 3),  # together from 90 to 115
        (0, 145, 90, 3),  # its end runs on in the next step, to which it does not belong
        (1, 10, 5, 5),  # of the step, before it
    ])  # fmt: skip
    assert shown(calls, steps) == [(3, 0, 3, 20, 0), (5, 1, 1, 0, 0)]
    assert measure_waits(calls, steps).tolist() == [20, 0]


def test_calls_of_no_group_run_ahead_in_every_step_that_they_overlap() -> None:
    steps = steps_of((0, 0, 10), (1, 10, 10), (2, 50, 10))
    calls = calls_of([(0, 5, 10, -1), (0, 12, 4, -1), (1, 2, 3, 0), (1, 30, 5, -1), (1, 31, 2, 9)])
    assert shown(calls, steps) == [(0, 0, 0, 0, 5), (0, 1, 1, 3, 0), (1, 0, 0, 0, 6)]
    assert is_outside_steps(calls, steps).sum() == 2


@pytest.mark.parametrize("seed", few(range(30), 8))
def test_random_calls_as_counted_by_picosecond(seed: int) -> None:
    rng = random.Random(seed)
    begin = sorted(rng.sample(range(100), 6))
    steps = steps_of(*[(2 * i, at, rng.randrange(12)) for i, at in enumerate(begin)])
    calls = calls_of(sorted(
        (rng.randrange(3), rng.randrange(-5, 110), rng.randrange(15), rng.randrange(-1, 12)) for _ in range(25)
    ))  # fmt: skip
    rows = list(
        zip(*(c.tolist() for c in (calls.pipeline, calls.start_ps, calls.duration_ps, calls.group_id)), strict=True)
    )
    expected = []
    for group, at, length in zip(*(c.tolist() for c in (steps.group, steps.begin_ps, steps.duration_ps)), strict=True):
        for pipeline in range(3):
            own = [(s, d) for p, s, d, g in rows if p == pipeline and g == group]
            ahead = [(s, d) for p, s, d, g in rows if p == pipeline and g < 0]
            wait, run = (
                sum(any(s <= t < s + d for s, d in some) for t in range(at, at + length)) for some in (own, ahead)
            )
            if own or run:
                expected.append((group, pipeline, len(own), wait, run))
    assert shown(calls, steps) == expected


def test_without_steps_or_calls_there_is_nothing() -> None:
    some, none = calls_of([(0, 0, 5, 3)]), calls_of([])
    assert shown(some, steps_of()) == shown(none, steps_of((0, 0, 5))) == []
    assert is_outside_steps(none, steps_of((0, 0, 5))).tolist() == []


def test_too_many_pairs_are_not_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline_tables, "MOST_PAIRS", 127)
    calls = calls_of([(0, 0, 5, 1), (0, 3, 3, -1), (1, 3, 3, -1)])
    steps = steps_of((1, 0, 5), (2, 5, 5))
    assert shown(calls, steps) == [(1, 0, 1, 5, -1)]
    assert not pipeline_tables.measure_step_waits(calls, steps).ahead_known


def test_steps_beyond_64_bits_are_reported() -> None:
    calls = calls_of([(0, 0, 5, group) for group in (1, 2, 3)])
    with pytest.raises(CaptureError, match="durations of steps do not add up"):
        shown(calls, steps_of(*((group, 0, 2**62) for group in (1, 2, 3))))
