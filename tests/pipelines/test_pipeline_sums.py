"""What calls add up to, against a plain count."""

from __future__ import annotations

import random

import numpy as np
import pytest
from gate import few

from fastprof.derive.pipelines.recorded_pipelines import Calls, InputPipelines
from fastprof.derive.pipelines.stages import CallSums, find_largest_rows, measure_between_calls
from fastprof.errors import CaptureError
from fastprof.schema.columns import locate_percentile

Rows = list[tuple[int, int, int]]


def drawn(rows: Rows) -> tuple[InputPipelines, Calls]:
    """(pipeline, start, duration) each, in any order."""
    rows = sorted(rows, key=lambda row: (row[0], -row[2]))
    pipeline, start, duration = np.array(rows, np.int64).reshape(-1, 3).T
    count = int(pipeline.max(initial=-1)) + 1
    first = np.searchsorted(pipeline, np.arange(count + 1))
    none = np.full(len(rows), -1, np.int32)
    calls = Calls(pipeline.astype(np.int32), start, duration, none, np.arange(len(rows) + 1))
    numbers = np.arange(count, dtype=np.int32)
    return InputPipelines([f"Host:{n}" for n in range(count)], np.zeros(count, np.bool_), numbers, first), calls


@pytest.mark.parametrize("seed", few(range(40), 12))
def test_figures_of_pipelines(seed: int) -> None:
    rng = random.Random(seed)
    shape = [(p, rng.randrange(1, 9)) for p in range(rng.randrange(1, 4))]
    rows = [(p, rng.randrange(-20, 60), rng.randrange(0, 20)) for p, count in shape for _ in range(count)]
    pipelines, calls = drawn(rows)
    sums = CallSums(pipelines, calls, 10)
    for p, count in shape:
        own = [(start, length) for pipeline, start, length in rows if pipeline == p]
        times = sorted(length for _, length in own)
        covered = {t for start, length in own for t in range(start, start + length)}
        first, last = min(start for start, _ in own), max(start + length for start, length in own)
        assert sums.count[p] == count
        assert (sums.least_ps[p], sums.most_ps[p], sums.total_ps[p]) == (times[0], times[-1], sum(times))
        assert sums.slow[p] == sum(length > 10 for length in times)
        assert {q: int(sums.percentiles_ps[q][p]) for q in (50, 90, 99)} == {
            q: times[locate_percentile(q, count)] for q in (50, 90, 99)
        }
        assert sums.between_ps[p] == sum(t not in covered for t in range(first, last))


def test_no_calls_have_no_figures() -> None:
    pipelines, calls = drawn([])
    sums = CallSums(pipelines, calls, 10)
    assert len(sums.count) == len(sums.between_ps) == len(sums.most_ps) == 0
    assert measure_between_calls(drawn([(0, 5, 9)])[1], 1).tolist() == [0]


def test_calls_beyond_64_bits_are_reported() -> None:
    with pytest.raises(CaptureError, match="times of pipeline calls do not add up"):
        CallSums(*drawn([(0, 0, 2**62), (0, 1, 2**62)]), 0)


def test_the_largest_of_a_group_is_the_first_of_equal_ones_and_above_nothing() -> None:
    group, values = np.array([0, 0, 0, 1, 1, 3], np.int32), np.array([4, 9, 9, 0, 0, 1], np.int64)
    assert find_largest_rows(group, values, 5).tolist() == [1, -1, -1, 5, -1]
