"""Disjoint intervals of a device's time, each of one step."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fastprof.derive.steps.marked_spans import NEVER
from fastprof.schema.array_types import Int64s
from fastprof.schema.value_classes import dataclass

if TYPE_CHECKING:
    from fastprof.derive.steps.periods import Periods


@dataclass(frozen=True, slots=True)
class Intervals:
    """Disjoint, in order of time. ``group``: of each, the group of events that is the step."""

    group: Int64s
    begin_ps: Int64s
    end_ps: Int64s


def intervals(periods: Periods, device: str) -> Intervals:
    """Return the steps of a device, in order of time: periods, disjoint."""
    begin, end = periods.of_device(device)
    lasts = end > begin
    order = np.flatnonzero(lasts)[np.argsort(begin[lasts], kind="stable")]
    begin, end = begin[order], end[order]
    return Intervals(periods.step[order].astype(np.int64), begin, np.minimum(end, np.append(begin[1:], NEVER)))
