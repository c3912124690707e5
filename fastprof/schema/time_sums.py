"""Sums of times that stop at the limits of 64 bits, as csrc/time_sums.h has them: captures may hold any time."""

from __future__ import annotations

import numpy as np

from fastprof.schema.array_types import Int64s

_LAST = 2**63 - 1
_FEW = 1000


def ends_of(start: Int64s, duration: Int64s) -> Int64s:
    """Where events end that have these starts and durations."""
    if np.size(start) > _FEW and np.min(start) >= 0 and np.min(duration) >= 0:
        ends: Int64s = start + duration
        if ends.min() >= 0:  # no sum is beyond the limit
            return ends
    most, least = _LAST - np.maximum(start, 0), -_LAST - 1 - np.minimum(start, 0)
    return np.asarray(start + np.clip(duration, least, most))
