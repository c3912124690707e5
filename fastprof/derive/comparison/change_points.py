"""Change points of a figure over runs: from which run on is its mean another one?

E-divisive with means in windows, as in Hunter (Fleming et al., 2023, doi.org/10.1145/3578244.3583719) and Apache Otava:

1. Windows of 50 values, the next one half a window later or at the last split. A window is split where the E-statistic
   is largest, as long as Student's t-test finds the sides different at p ≤ 0.01: weak change points.
2. Of the weak change points of all windows, the least significant one is removed until each has p < 0.001, then the
   smallest one until each is at least 2 %. Each removal joins two segments, and its neighbours are tested again.

Unlike there, a single slow run does not count as a change: values far from both neighbours are left out, and a segment
of one value counts as not significant. Nothing is random. The time is linear in the number of values.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Final

import numpy as np

from fastprof.derive.comparison.step_statistics import MIN_HISTORY, find_t_probability
from fastprof.schema.columns import Bools, Float64s
from fastprof.schema.value_classes import dataclass
from fastprof.wording.quantities import count_noun

WINDOW: Final = 50
MAX_PROBABILITY: Final = 0.001
"""Largest p of a change point."""
MIN_CHANGE: Final = 0.02
"""Least change, as a share of the smaller mean."""
_LENIENCE: Final = 10
"""Largest p of a weak change point, as a multiple of that of a change point."""
_MIN_SEGMENT: Final = 2
"""Least values between change points."""
_SPIKE: Final = 6
"""Least distance of a spike from its neighbours, in standard deviations."""
_MEDIAN_DISTANCE: Final = 0.9539
"""Median distance of two normal values, in standard deviations."""
_NEARBY: Final = 5
"""Distances on each side that the standard deviation is estimated from."""


@dataclass(frozen=True, slots=True)
class ChangePoint:
    """Change of the mean. ``index``: of the first value after it; ``before``, ``after``: mean from the change point
    before and until the next one; ``probability``: p of the t-test."""

    index: int
    before: float
    after: float
    probability: float

    @property
    def share(self) -> float | None:
        """Change as a share of the mean before it, or None if that is 0."""
        return self.after / self.before - 1 if self.before else None

    @property
    def magnitude(self) -> float:
        """Change as a share of the smaller mean: doubled and halved are the same."""
        return abs(self.after - self.before) / least if (least := min(abs(self.before), abs(self.after))) else math.inf


def find_change_points(values: Sequence[float], min_change: float = MIN_CHANGE) -> list[ChangePoint]:
    """Return the change points of finite values, in order."""
    series = np.array(values, np.float64)
    known = np.flatnonzero(~_find_spikes(series))
    return [replace(point, index=int(known[point.index])) for point in _find_in(series[known], min_change)]


@dataclass(frozen=True, slots=True)
class History:
    """A figure of earlier runs since its last change point. ``values``: the newest first; ``changed``: first run after
    the change point, "" if there is none; ``change``: the change point."""

    values: tuple[float, ...]
    changed: str = ""
    change: ChangePoint | None = None

    @property
    def reason(self) -> str:
        """Return why a run cannot be judged by this history, or ""."""
        if self.change is None or len(self.values) >= MIN_HISTORY:
            return ""
        since = count_noun(len(self.values), "run", "runs")
        return f"earlier runs changed at run {self.changed}: only {since} since then, {MIN_HISTORY} are needed"


def take_history(series: Sequence[tuple[str, float]]) -> History:
    """Return the runs since the last change point of a figure. ``series``: runs and values, the newest first."""
    ordered = list(reversed(series))
    points = find_change_points([value for _, value in ordered])
    first = points[-1].index if points else 0
    values = tuple(value for _, value in reversed(ordered[first:]))
    return History(values, ordered[first][0], points[-1]) if points else History(values)


def _find_spikes(series: Float64s) -> Bools:
    """Return which values are farther from both neighbours, on the same side, than these from each other. The first and
    the last value have one neighbour."""
    if len(series) <= _MIN_SEGMENT:
        return np.zeros(len(series), np.bool_)
    rises = np.diff(series)
    nearby = np.lib.stride_tricks.sliding_window_view(np.pad(np.abs(rises), _NEARBY, "symmetric"), 2 * _NEARBY + 1)
    spread = np.median(nearby, axis=1) / _MEDIAN_DISTANCE
    before, after = np.append(-rises[0], rises), np.append(-rises, rises[-1])
    least = np.maximum(_SPIKE * np.append(spread[0], spread), np.pad(np.abs(series[2:] - series[:-2]), 1))
    spikes: Bools = (np.minimum(np.abs(before), np.abs(after)) > least) & (before * after > 0)
    return spikes


def _find_in(series: Float64s, min_change: float) -> list[ChangePoint]:
    splits = _find_weak_splits(series)
    points = [_measure_split(series, splits, at) for at in range(len(splits))]
    while points:
        weakest = max(range(len(points)), key=lambda at: points[at].probability)
        if points[weakest].probability < MAX_PROBABILITY:
            weakest = min(range(len(points)), key=lambda at: points[at].magnitude)
            if points[weakest].magnitude >= min_change:
                break
        del points[weakest], splits[weakest]
        for at in range(max(weakest - 1, 0), min(weakest + 1, len(splits))):
            points[at] = _measure_split(series, splits, at)
    return points


def _measure_split(series: Float64s, splits: Sequence[int], at: int) -> ChangePoint:
    """Return a split with means and p of the segments beside it."""
    first, split, last = [0, *splits, len(series)][at : at + 3]
    before, after = series[first:split], series[split:last]
    is_short = min(len(before), len(after)) < _MIN_SEGMENT
    probability = 1.0 if is_short else compute_probability(before, after)
    return ChangePoint(split, float(before.mean()), float(after.mean()), probability)


def _find_weak_splits(series: Float64s) -> list[int]:
    splits: set[int] = set()
    start = 0
    while start < len(series):
        of_window = _split_window(series[start : start + WINDOW])
        splits.update(start + split for split in of_window)
        start += max([WINDOW // 2, *of_window])
    return sorted(splits)


def _split_window(window: Float64s) -> list[int]:
    """Return the splits of a window: always the one with the largest E-statistic, until its sides do not differ."""
    bounds = [0, len(window)]
    while True:
        segments = [(first, last) for first, last in pairwise(bounds) if last - first > 1]
        splits = [(*_find_split(window[first:last]), first, last) for first, last in segments]
        if not splits:
            return bounds[1:-1]
        _, split, first, last = max(splits, key=lambda split: split[0])
        split += first
        if compute_probability(window[first:split], window[split:last]) > _LENIENCE * MAX_PROBABILITY:
            return bounds[1:-1]
        bounds = sorted([*bounds, split])


def _find_split(segment: Float64s) -> tuple[float, int]:
    """Return the largest E-statistic of a segment, and its split.

    With x of n values before the split and y of m values after it, up to any end within the segment:
    nm / (n + m) · (2 mean |x - y| - mean |x - x'| - mean |y - y'|).
    """
    count = len(segment)
    sums = np.zeros((count + 1, count + 1))
    sums[1:, 1:] = np.abs(segment[:, None] - segment).cumsum(axis=0).cumsum(axis=1)
    within = sums.diagonal()
    split, end = np.arange(1, count)[:, None], np.arange(2, count + 1)
    n, m = split, np.maximum(end - split, 1)
    between = sums[1:-1, 2:] - within[split]
    of_x, of_y = within[split] / 2, (within[end] - 2 * sums[1:-1, 2:] + within[split]) / 2
    statistic = 2 / (n + m) * (between - m * of_x / np.maximum(n - 1, 1) - n * of_y / np.maximum(m - 1, 1))
    statistic[end <= split] = -np.inf
    best = int(statistic.argmax())
    return float(statistic.flat[best]), best // (count - 1) + 1


def compute_probability(before: Float64s, after: Float64s) -> float:
    """Return p of Student's t-test of two samples, two-sided: 1 if they have no more than two values in all."""
    freedom = len(before) + len(after) - 2
    difference = abs(float(after.mean() - before.mean()))
    if freedom < 1 or not difference:
        return 1.0
    variance = float(((before - before.mean()) ** 2).sum() + ((after - after.mean()) ** 2).sum()) / freedom
    error = math.sqrt(variance * (1 / len(before) + 1 / len(after)))
    return find_t_probability(difference / error if error else math.inf, freedom)
