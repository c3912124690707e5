"""Stretches of time, against counting moment by moment."""

from __future__ import annotations

import random

import numpy as np
import pytest
from gate import few

from fastprof.schema.columns import (
    DisjointSpans,
    create_empty_spans,
    find_innermost_spans,
    measure_covered_time,
    merge_spans,
    subtract_spans,
)

Span = tuple[int, int]


def arrays(spans: list[Span]) -> tuple[np.ndarray, np.ndarray]:
    return np.array([a for a, _ in spans], np.int64), np.array([b for _, b in spans], np.int64)


def moments(spans: list[Span]) -> set[int]:
    return {moment for start, duration in spans for moment in range(start, start + duration)}


def moments_of(stretches: DisjointSpans) -> set[int]:
    begins, ends = (part.tolist() for part in stretches)
    assert all(a < b for a, b in zip(begins, ends, strict=True))
    assert all(end < begin for end, begin in zip(ends, begins[1:], strict=False))
    return {moment for begin, end in zip(begins, ends, strict=True) for moment in range(begin, end)}


@pytest.mark.parametrize("seed", few(range(20), 8))
def test_random_spans(seed: int) -> None:
    chance = random.Random(seed)
    kept, taken, asked = ([(chance.randint(0, 60), chance.randint(0, 9)) for _ in range(12)] for _ in range(3))
    one, other = merge_spans(*arrays(kept)), merge_spans(*arrays(taken))
    assert moments_of(one) == moments(kept)
    assert moments_of(subtract_spans(one, other)) == moments(kept) - moments(taken)
    assert measure_covered_time(one, *arrays(asked)).tolist() == [
        len(moments(kept) & moments([span])) for span in asked
    ]


def test_the_innermost_event_counts() -> None:
    """Work from 0 to 100, waiting from 10 to 50 in it, work from 20 to 30 in that; waiting from 200 on."""
    start, duration = arrays([(0, 100), (10, 40), (20, 10), (200, 20), (205, 5)])
    depth, works = np.array([0, 1, 2, 0, 1]), np.array([True, False, True, False, True])
    begins, ends = find_innermost_spans(start, duration, depth, works)
    assert list(zip(begins.tolist(), ends.tolist(), strict=True)) == [(0, 10), (20, 30), (50, 100), (205, 210)]


def test_nothing_fills_nothing() -> None:
    assert measure_covered_time(create_empty_spans(), *arrays([(0, 5)])).tolist() == [0]
    assert moments_of(subtract_spans(create_empty_spans(), merge_spans(*arrays([(0, 5)])))) == set()
    assert moments_of(find_innermost_spans(*arrays([]), np.zeros(0, np.int64), np.zeros(0, np.bool_))) == set()


def test_a_span_beyond_64_bits_ends_at_their_limit() -> None:
    begin, end = merge_spans(np.array([2**62, 0]), np.array([2**63 - 1, 5]))
    assert (begin.tolist(), end.tolist()) == ([0, 2**62], [5, 2**63 - 1])
