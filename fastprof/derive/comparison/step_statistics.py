"""Statistics of step times of two runs: is one slower, by how much, and what change would have been seen?

Steps of a run depend on each other, and runs of one program differ by more than their steps show. A rank test over
steps therefore reports a change in 12 to 78 % of unchanged pairs. The rules here:

- one pair of runs: moving-block bootstrap over steps. The mean step is slower or faster if the near end of the 99 %
  interval of the change is beyond a floor of 3 %.
- a history of at least MIN_HISTORY runs: the new mean is outside of the 99 % prediction interval of theirs (Student's
  t), and more than 2 % from their mean. The interval is at least as wide as the steps of the new run make it: few runs
  may happen to have no slow step.

All is computed on logarithms of means, so that "slower by 10 %" and "faster by 10 %" are the same distance.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from fastprof.schema.columns import Bools, Float64s, Int64s, locate_percentile
from fastprof.schema.value_classes import dataclass

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
