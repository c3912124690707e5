"""Statistics of changes: is one of two runs slower, by how much, and what change would have been seen? From which run
on is the mean of a figure another one?

Steps of a run depend on each other, and runs of one program differ by more than their steps show. A rank test over
steps therefore reports a change in 12 to 78 % of unchanged pairs. The rules here:

- one pair of runs: moving-block bootstrap over steps. The mean step is slower or faster if the near end of the 99 %
  interval of the change is beyond a floor of 3 %.
- a history of at least MIN_HISTORY runs: the new mean is outside of the 99 % prediction interval of theirs (Student's
  t), and more than 2 % from their mean. The interval is at least as wide as the steps of the new run make it: few runs
  may happen to have no slow step.

All is computed on logarithms of means, so that "slower by 10 %" and "faster by 10 %" are the same distance.

A figure over many runs has change points, from which on its mean is another one: E-divisive with means in windows, as
in Hunter (Fleming et al., 2023, doi.org/10.1145/3578244.3583719) and Apache Otava:

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

from fastprof.schema.columns import Bools, Float64s, Int64s, locate_percentile
from fastprof.schema.value_classes import dataclass
from fastprof.wording.quantities import count_noun

SLOWER, FASTER, UNCHANGED = "slower", "faster", "unchanged"
PAIR_FLOOR: Final = 0.03
HISTORY_FLOOR: Final = 0.02
MIN_STEPS: Final = 2
"""Least steps of a run whose mean can be judged."""
MIN_HISTORY: Final = 5
"""Least runs of a history; fewer are compared as one pair, with the newest of them."""
MAX_WARM_UP: Final = 3
_MIN_RECURRENCES: Final = 3
_LEAST: Final = 1e-3
"""Least resampled mean, as a share of the mean."""
_RESAMPLES: Final = 2_000
_PERCENTILE_RESAMPLES: Final = 400
_SEED: Final = 20_261_130
_SHOWN, _JUDGED = 0.95, 0.99
_POWER_Z: Final = 0.8416
"""Quantile of the normal distribution at 80 %."""


@dataclass(frozen=True, slots=True)
class StepChange:
    """Change of the mean step as a share of the base mean. ``low``, ``high``: its 95 % interval; ``smallest``: change
    that would be reported in 80 % of cases; ``verdict``: SLOWER, FASTER or UNCHANGED; ``is_beyond_floor``: whether the
    near end of the 99 % interval is beyond the floor; ``rule``: how it was judged; ``earlier_runs``: runs in the
    base, 0 for one."""

    share: float
    low: float
    high: float
    smallest: float
    verdict: str
    is_beyond_floor: bool
    rule: str
    earlier_runs: int = 0


def compare_steps(base: Int64s, new: Int64s, percent: int | None = None) -> StepChange | None:
    """Compare the mean step of two runs, or a percentile. None: one has fewer than MIN_STEPS steps, or one is 0."""
    if min(len(base), len(new)) < MIN_STEPS:
        return None
    known = [float(summarize_times(steps, percent)) for steps in (base, new)]
    if min(known) <= 0:
        return None
    change = math.log(known[1] / known[0])
    if percent is None:
        spread = _resample_log_means(new, _SEED + 1) - _resample_log_means(base, _SEED)
    else:
        spread = _resample_log_percentiles(new, percent, _SEED + 1) - _resample_log_percentiles(base, percent, _SEED)
    freedom = count_blocks(len(base)) + count_blocks(len(new)) - 2
    error = float(spread.std())
    rule = f"block bootstrap over {len(base):,} and {len(new):,} steps, floor {100 * PAIR_FLOOR:g} %"
    near = abs(change) - find_t_quantile(_JUDGED, freedom) * error
    return _make_change(change, error, freedom, PAIR_FLOOR, near > math.log1p(PAIR_FLOOR), rule)


def summarize_times(steps: Int64s, percent: int | None) -> float:
    """Return the mean of step times, or a percentile: the least time that this many of 100 do not exceed."""
    ordered = np.sort(steps)
    return float(steps.mean()) if percent is None else float(ordered[locate_percentile(percent, len(steps))])


def measure_error(steps: Int64s, percent: int | None = None) -> float:
    """Return the standard error of the logarithm of the mean step, or of a percentile; 0 for fewer than MIN_STEPS."""
    if len(steps) < MIN_STEPS or steps.min() <= 0:
        return 0.0
    logs = _resample_log_means(steps, _SEED) if percent is None else _resample_log_percentiles(steps, percent, _SEED)
    return float(logs.std())


def compare_with_history(history: Sequence[float], new: float, own_error: float = 0.0) -> StepChange | None:
    """Compare a figure of a run with those of earlier runs; None if these are fewer than MIN_HISTORY, or one is not
    positive. ``own_error``: relative error of the new figure; runs are taken to differ by at least that."""
    if len(history) < MIN_HISTORY or min(*history, new) <= 0:
        return None
    known = np.log(np.array(history))
    spread = float(known.std(ddof=1))
    error = math.hypot(max(spread, own_error), spread / math.sqrt(len(known)))
    rule = f"prediction interval of {len(known):,} runs, floor {100 * HISTORY_FLOOR:g} %"
    change = math.log(new) - float(known.mean())
    near = abs(change) - find_t_quantile(_JUDGED, len(known) - 1) * error
    judged = _make_change(change, error, len(known) - 1, HISTORY_FLOOR, near > 0, rule)
    return replace(judged, earlier_runs=len(known))


def _make_change(change: float, error: float, freedom: int, floor: float, is_sure: bool, rule: str) -> StepChange:
    margin = find_t_quantile(_SHOWN, freedom) * error
    is_seen = is_sure and abs(change) > math.log1p(floor)
    verdict = (SLOWER if change > 0 else FASTER) if is_seen else UNCHANGED
    smallest = math.expm1(math.log1p(floor) + (find_t_quantile(_JUDGED, freedom) + _POWER_Z) * error)
    return StepChange(
        math.expm1(change), math.expm1(change - margin), math.expm1(change + margin), smallest, verdict, is_seen, rule
    )


def count_blocks(steps: int) -> int:
    """Return the number of independent blocks of a run with this number of steps."""
    return max(2, steps // _get_block_length(steps))


def _get_block_length(steps: int) -> int:
    """Return 2 n^(1/3): long enough for the dependence of steps, short enough for three blocks or more."""
    return max(1, min(steps // 3, round(2 * math.cbrt(steps))))


def _resample_log_means(steps: Int64s, seed: int) -> Float64s:
    """Return log means of resampled runs: runs of whole blocks, drawn with replacement; a fixed seed makes answers
    repeatable."""
    size = _get_block_length(len(steps))
    mean = steps.mean()
    sums = np.concatenate([[0.0], np.cumsum(_level_periodic_steps(steps) - mean)])
    of_block = sums[size:] - sums[:-size]
    drawn = np.random.default_rng(seed).integers(0, len(of_block), (_RESAMPLES, max(1, len(steps) // size)))
    resampled: Float64s = mean + of_block[drawn].mean(axis=1) / size
    logs: Float64s = np.log(np.maximum(resampled, mean * _LEAST))
    return logs


def _resample_log_percentiles(steps: Int64s, percent: int, seed: int) -> Float64s:
    """Return log percentiles of resampled runs, as ``_resample_log_means`` does."""
    size = _get_block_length(len(steps))
    blocks = np.lib.stride_tricks.sliding_window_view(steps, size)
    drawn = np.random.default_rng(seed).integers(0, len(blocks), (_PERCENTILE_RESAMPLES, max(1, len(steps) // size)))
    runs = np.sort(blocks[drawn].reshape(_PERCENTILE_RESAMPLES, -1), axis=1)
    logs: Float64s = np.log(np.maximum(runs[:, locate_percentile(percent, runs.shape[1])], 1))
    return logs


def _level_periodic_steps(steps: Int64s) -> Float64s:
    """Return steps without the mean excess of slow steps that recur at one distance, such as a save every tenth step:
    how often they occur is not by chance. The mean stays."""
    times = steps.astype(np.float64)
    slow = np.flatnonzero(find_slow_steps(steps))
    distances = np.diff(slow)
    if len(slow) < _MIN_RECURRENCES or (distances != distances[0]).any():
        return times
    if slow[0] >= distances[0] or len(steps) - slow[-1] > distances[0]:
        return times
    is_slow = np.isin(np.arange(len(steps)), slow)
    excess = times[is_slow].mean() - times[~is_slow].mean()
    times[is_slow] -= excess
    times += excess * len(slow) / len(steps)
    return times


def find_slow_steps(steps: Int64s) -> Bools:
    """Return which steps are longer than the median by more than 5 median deviations and a tenth."""
    if not len(steps):
        return np.zeros(0, np.bool_)
    median = np.median(steps)
    deviation = np.median(np.abs(steps - median))
    slow: Bools = steps > median + np.maximum(5 * deviation, median / 10)
    return slow


def find_warm_up(steps: Int64s) -> int:
    """Return how many of the first steps are warm-up: at most MAX_WARM_UP, each over twice the median of the steps
    after it."""
    count = 0
    while count < min(MAX_WARM_UP, len(steps) - MIN_STEPS - 1) and steps[count] > 2 * np.median(steps[count + 1 :]):
        count += 1
    return count


def find_t_quantile(share: float, freedom: int) -> float:
    """Return t with this share of Student's distribution between -t and t, for whole degrees of freedom."""
    low, high = 0.0, 1e4
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (low, middle) if _get_t_share(middle, max(1, freedom)) > share else (middle, high)
    return high


def find_t_probability(t: float, freedom: int) -> float:
    """Return the share of Student's distribution beyond t and -t, for whole degrees of freedom: p, two-sided."""
    return max(0.0, 1 - _get_t_share(t, freedom))


def _get_t_share(t: float, freedom: int) -> float:
    """Return the share between -t and t (Abramowitz and Stegun, 26.7.3 and 26.7.4)."""
    angle = math.atan(t / math.sqrt(freedom))
    cosine, sine = math.cos(angle), math.sin(angle)
    is_odd = freedom % 2
    term, total = (cosine, cosine) if is_odd else (1.0, 1.0)
    if freedom == 1:
        return 2 * angle / math.pi
    for k in range(2 + is_odd, freedom - 1, 2):
        term *= cosine * cosine * (k - 1) / k
        total += term
    return 2 / math.pi * (angle + sine * total) if is_odd else sine * total


# ---- change points of a figure over runs


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
