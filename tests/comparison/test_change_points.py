"""Change points: where a figure over runs has another mean, and where it has not."""

from __future__ import annotations

import time
from itertools import chain

import numpy as np
import pytest
from gate import few
from slow_change_points import find_slowly

from fastprof.derive.comparison.change_statistics import compute_probability, find_change_points


def make_series(*levels: tuple[int, float], noise: float = 0.01, seed: int = 0) -> list[float]:
    """Make this many values around each level."""
    random = np.random.default_rng(seed)
    exact = list(chain.from_iterable([level] * count for count, level in levels))
    return [float(value * (1 + noise * random.standard_normal())) for value in exact]


@pytest.mark.parametrize(
    ("values", "found"),
    [
        (make_series((30, 10), (20, 11)), [30]),
        (make_series((30, 11), (20, 10)), [30]),
        (make_series((40, 10), (30, 10.8), (50, 9.9)), [40, 70]),
        (make_series((130, 10), (60, 10.5), (110, 12)), [130, 190]),
        (make_series((5, 10), (3, 12)), [5]),
        (make_series((5, 10), (5, 10.8), noise=0), [5]),
        (make_series((25, 0), (25, 4)), [25]),
        (make_series((60, 4), (25, 0), (60, 5)), [60, 85]),
        (make_series((60, 10)), []),
        (make_series((300, 10)), []),
        (make_series((60, 10), noise=0), []),
        (make_series((40, 10), (40, 10.15), noise=0.001), []),
        ([10.0, 12.0], []),
        ([10.0], []),
        ([], []),
    ],
)
def test_changes_are_found_where_they_are(values: list[float], found: list[int]) -> None:
    """Apache Otava 0.8.0 finds the same, with 0.02 as its least magnitude."""
    assert [point.index for point in find_change_points(values)] == found


@pytest.mark.parametrize("at", [0, 1, 20, 24, 25, 49, 50, 74, 98, 99])
def test_a_single_slow_run_does_not_count(at: int) -> None:
    values = make_series((100, 10))
    values[at] = 30.0
    assert find_change_points(values) == []


def test_a_slow_run_hides_no_change() -> None:
    values = make_series((40, 10), (41, 11))
    values[-1] = 40.0
    assert [point.index for point in find_change_points(values)] == [40]


def test_a_change_has_the_means_of_its_sides() -> None:
    (point,) = find_change_points([10.0, 10.1, 9.9, 10.0, 12.0, 12.1, 11.9, 12.0])
    assert (point.index, point.before, point.after) == (4, pytest.approx(10), pytest.approx(12))
    assert point.share == pytest.approx(0.2) and point.probability < 1e-6
    (rise,) = find_change_points([0.0] * 10 + [5.0] * 10)
    assert rise.share is None and rise.index == 10


def test_noise_is_rarely_called_a_change_and_changes_are_found() -> None:
    unchanged = [find_change_points(make_series((50, 10), seed=seed)) for seed in range(300)]
    assert sum(map(bool, unchanged)) <= 3
    slower = [find_change_points(make_series((20, 10), (3, 10.5), seed=seed)) for seed in range(100)]
    assert sum(any(19 <= point.index <= 21 for point in points) for points in slower) >= 95


def test_smaller_changes_are_found_if_wanted() -> None:
    values = make_series((40, 10), (40, 10.15), noise=0.001)
    assert [point.index for point in find_change_points(values, min_change=0.01)] == [40]


@pytest.mark.parametrize("seed", few(range(12), 5))
def test_the_slow_oracle_agrees(seed: int) -> None:
    random = np.random.default_rng(seed)
    counts, levels = random.integers(2, 25, 4), 10 * random.choice([0.9, 1, 1.04, 1.3], 4)
    noise = float(random.choice([0.002, 0.01, 0.03]))
    values = make_series(*zip(counts.tolist(), levels.tolist(), strict=True), noise=noise, seed=seed)
    assert [point.index for point in find_change_points(values)] == find_slowly(values)


def test_probabilities_are_those_of_students_t() -> None:
    """The first is that of scipy.stats.ttest_ind."""
    assert compute_probability(np.array([1.0, 2, 3, 4]), np.array([3.0, 4, 5, 7])) == pytest.approx(
        0.08026132621897215, rel=1e-9
    )
    assert compute_probability(np.array([1.0]), np.array([2.0])) == 1
    assert compute_probability(np.array([1.0, 1]), np.array([2.0])) == 0


def test_the_time_is_linear() -> None:
    values = make_series(*[(37, 10 + number % 3) for number in range(200)])
    began = time.process_time()
    assert len(find_change_points(values)) > 190
    assert time.process_time() - began < 10
