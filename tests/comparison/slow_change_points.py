"""Change points by loops over definitions, as an oracle: slow, and without the code or the sums of fastprof."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations, pairwise

WINDOW, LENIENT, STRICT, LEAST_SEGMENT = 50, 0.01, 0.001, 2


def find_slowly(values: Sequence[float], least: float = 0.02) -> list[int]:
    """The indices of change points."""
    weak: set[int] = set()
    start = 0
    while start < len(values):
        found = split(values[start : start + WINDOW])
        weak |= {start + index for index in found}
        start = max([start + WINDOW // 2, *(start + index for index in found)])
    splits = sorted(weak)
    while splits:
        bounds = [0, *splits, len(values)]
        sides = {
            at: (values[first:at], values[at:last]) for first, at, last in zip(bounds, splits, bounds[2:], strict=False)
        }
        short = {at for at, pair in sides.items() if min(map(len, pair)) < LEAST_SEGMENT}
        doubt = {at: 1.0 if at in short else difference(*pair) for at, pair in sides.items()}
        size = {at: abs(mean(y) - mean(x)) / min(mean(x), mean(y)) for at, (x, y) in sides.items()}
        worst = max(splits, key=lambda at: doubt[at])
        if doubt[worst] < STRICT:
            worst = min(splits, key=lambda at: size[at])
            if size[worst] >= least:
                break
        splits.remove(worst)
    return splits


def split(window: Sequence[float]) -> list[int]:
    bounds = [0, len(window)]
    while True:
        pieces = [(a, b) for a, b in pairwise(bounds) if b - a > 1]
        ways = [(statistic(window[a:s], window[s:e]), s, a, b) for a, b in pieces for s in range(a + 1, b)
                for e in range(s + 1, b + 1)]  # fmt: skip
        if not ways:
            return bounds[1:-1]
        _, at, a, b = max(ways, key=lambda way: way[0])
        if difference(window[a:at], window[at:b]) > LENIENT:
            return bounds[1:-1]
        bounds = sorted([*bounds, at])


def statistic(x: Sequence[float], y: Sequence[float]) -> float:
    n, m = len(x), len(y)
    between = mean([abs(a - b) for a in x for b in y])
    return n * m / (n + m) * (2 * between - spread(x) - spread(y))


def spread(x: Sequence[float]) -> float:
    """The mean distance of two different values."""
    return mean([abs(a - b) for a, b in combinations(x, 2)]) if len(x) > 1 else 0.0


def difference(x: Sequence[float], y: Sequence[float]) -> float:
    """p of Student's t-test: the density is integrated, by Simpson's rule over the angle of t."""
    freedom = len(x) + len(y) - 2
    if freedom < 1 or mean(x) == mean(y):
        return 1.0
    squares = sum((a - mean(x)) ** 2 for a in x) + sum((b - mean(y)) ** 2 for b in y)
    error = math.sqrt(squares / freedom * (1 / len(x) + 1 / len(y)))
    angle = math.atan(abs(mean(y) - mean(x)) / error / math.sqrt(freedom)) if error else math.pi / 2
    return 1 - integral(angle, freedom) / integral(math.pi / 2, freedom)


def integral(angle: float, freedom: int, parts: int = 200) -> float:
    weights = [1, *([4, 2] * (parts // 2))][:parts] + [1]
    terms = (weight * math.cos(angle * i / parts) ** (freedom - 1) for i, weight in enumerate(weights))
    return angle / parts / 3 * sum(terms)


def mean(x: Sequence[float]) -> float:
    return sum(x) / len(x)
