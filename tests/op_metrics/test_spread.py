"""Standard deviations by row and quartiles, of values as large as 64 bits hold, against exact numbers of Python."""

from __future__ import annotations

import random
import statistics
from fractions import Fraction
from math import floor, isqrt

import numpy as np
import pytest

from fastprof.derive.ops.op_table import compute_quartiles, measure_deviations
from fastprof.schema.columns import summarize_by


def slow_deviation(values: list[int]) -> int | None:
    """Rounded down; None: there are fewer than two values."""
    n, total = len(values), sum(values)
    if n < 2:
        return None
    return isqrt(sum((n * one - total) ** 2 for one in values) // (n * n * (n - 1)))


@pytest.mark.parametrize("bits", [3, 20, 33, 45, 52])
def test_deviations_are_exact(bits: int) -> None:
    chosen = random.Random(bits)
    rows = [chosen.randrange(5) for _ in range(200)] + [6]
    values = [chosen.getrandbits(bits) * chosen.choice([1, 1, -1]) for _ in rows]
    row, value = np.array(rows), np.array(values, np.int64)
    expected = [slow_deviation([one for at, one in zip(rows, values, strict=True) if at == k]) for k in range(7)]
    assert measure_deviations(row, value, summarize_by(row, value, 7)) == expected
    assert expected[5:] == [None, None]


def test_the_largest_values() -> None:
    row, value = np.array([0, 0, 1]), np.array([2**63 - 1, 0, -(2**63)], np.int64)
    assert measure_deviations(row, value, summarize_by(row, value, 2)) == [isqrt((2**63 - 1) ** 2 // 2), None]


@pytest.mark.parametrize("count", [2, 3, 4, 5, 9, 50])
def test_quartiles_are_exact(count: int) -> None:
    chosen = random.Random(count)
    values = sorted(chosen.choice([chosen.getrandbits(63), chosen.randrange(-9, 9)]) for _ in range(count))
    expected = [floor(one) for one in statistics.quantiles(map(Fraction, values), n=4, method="inclusive")]
    assert compute_quartiles(np.array(values, np.int64)) == expected


def test_quartiles_of_one_value() -> None:
    assert compute_quartiles(np.array([7], np.int64)) == [7, 7, 7]
