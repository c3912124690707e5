"""Statistics of step times: quantiles, verdicts that do not cry wolf, periodic slow steps, warm-up."""

from __future__ import annotations

import numpy as np
import pytest
from simulate_verdicts import KINDS, Kind, share_of_alarms

from fastprof.derive.comparison.change_statistics import (
    compare_steps,
    compare_with_history,
    find_slow_steps,
    find_t_quantile,
    find_warm_up,
)


@pytest.mark.parametrize(
    ("freedom", "quantile"),
    [(1, 63.657), (2, 9.925), (3, 5.841), (4, 4.604), (5, 4.032), (9, 3.250), (12, 3.055), (60, 2.660), (1000, 2.581)],
)
def test_quantiles_are_those_of_the_table(freedom: int, quantile: float) -> None:
    assert find_t_quantile(0.99, freedom) == pytest.approx(quantile, abs=0.001)


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_unchanged_runs_are_rarely_called_changed(kind: Kind) -> None:
    assert share_of_alarms(kind, 1, 200) <= (0.04 if kind.between_runs else 0.02)


def test_unchanged_runs_are_rarely_called_changed_with_a_history() -> None:
    assert share_of_alarms(Kind(50, 0.02, 0.5, 0.01, 0.02), 1, 200, history=10) <= 0.02


def test_changes_are_found() -> None:
    assert share_of_alarms(Kind(50, 0.005, 0.3, 0, 0), 1.05, 100) >= 0.95
    assert share_of_alarms(Kind(50, 0.005, 0.3, 0.005, 0), 1.05, 100, history=10) >= 0.95


def test_equal_steps_have_no_spread() -> None:
    steps = np.full(10, 10**9)
    change = compare_steps(steps, steps * 104 // 100)
    assert change is not None and change.verdict == "slower"
    assert change.low == change.high == pytest.approx(0.04)
    unchanged = compare_steps(steps, steps * 102 // 100)
    assert unchanged is not None and unchanged.verdict == "unchanged"  # beyond the floor of 3 % only


def test_slow_steps_at_one_distance_are_no_chance() -> None:
    usual = np.round(np.random.default_rng(3).normal(1e9, 5e6, 40)).astype(np.int64)
    saving, irregular = usual.copy(), usual.copy()
    saving[9::10] += 3 * 10**9
    irregular[[3, 5, 6, 30]] += 3 * 10**9
    verdicts = [compare_steps(usual, steps) for steps in (saving, irregular)]
    assert [change and change.verdict for change in verdicts] == ["slower", "unchanged"]
    assert np.flatnonzero(find_slow_steps(saving)).tolist() == [9, 19, 29, 39]


def test_percentiles_have_intervals() -> None:
    random = np.random.default_rng(5)
    base, new = (np.round(random.normal(mean, 5e6, 50)).astype(np.int64) for mean in (1e9, 1.1e9))
    for percent in (50, 90, 99):
        change = compare_steps(base, new, percent)
        assert change is not None and change.low < 0.1 < change.high and change.verdict == "slower"


def test_few_steps_or_runs_cannot_be_compared() -> None:
    one, many = np.array([10**9]), np.full(5, 10**9)
    assert compare_steps(one, many) is None and compare_steps(many, one) is None
    assert compare_steps(many * 0, many) is None
    assert compare_with_history([1.0] * 4, 1.0) is None


@pytest.mark.parametrize(
    ("steps", "count"), [([9, 1, 1, 1, 1], 1), ([9, 5, 1, 1, 1, 1], 2), ([1, 1, 9, 1], 0), ([9, 1], 0), ([], 0)]
)
def test_first_steps_are_warm_up_if_they_take_twice_as_long(steps: list[int], count: int) -> None:
    assert find_warm_up(np.array(steps, np.int64)) == count
