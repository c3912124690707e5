"""Spread of times: mean, deviation, extremes and percentiles."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

PERCENTILES: Final = (50, 90, 99)


def rank(percent: float, count: int) -> int:
    """The index, among ``count`` ascending values, of the least one that ``percent`` of 100 do not exceed (nearest
    rank). ``percent`` has at most one decimal."""
    return max(-(-round(10 * percent) * count // 1000) - 1, 0)


def spread(times_ps: npt.NDArray[np.int64]) -> dict[str, int | float | None] | None:
    """count, mean_ps, stdev_ps (of the sample; None: of one), min_ps, p50_ps, p90_ps, p99_ps, max_ps; None: no times.

    Percentile p is the least time that p of 100 do not exceed.
    """
    count = len(times_ps)
    if not count:
        return None
    ordered = np.sort(times_ps)
    summary: dict[str, int | float | None] = {
        "count": count,
        "mean_ps": sum(ordered.tolist()) / count,
        "stdev_ps": float(np.std(ordered.astype(np.float64), ddof=1)) if count > 1 else None,
        "min_ps": int(ordered[0]),
    }
    for percent in PERCENTILES:
        summary[f"p{percent}_ps"] = int(ordered[rank(percent, count)])
    return summary | {"max_ps": int(ordered[-1])}
