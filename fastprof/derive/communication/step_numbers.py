"""The steps of the session that a host's groups are: their keys, or the numbers that tables show."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fastprof.schema.array_types import Int64s


class StepNumbers:
    """``group``, ``step``: of each step; a group below 0 is none."""

    def __init__(self, group: Int64s, step: Int64s) -> None:
        self._group, self._step = group, step

    def shown(self, numbers: Callable[[Int64s], Int64s]) -> StepNumbers:
        """The numbers of these steps, which ``numbers`` has."""
        return StepNumbers(self._group, numbers(self._step))

    def of(self, groups: Int64s) -> Int64s:
        """The steps of groups; -1: none."""
        order = np.argsort(self._group, kind="stable")
        ordered = self._group[order]
        at = np.searchsorted(ordered, groups, side="right") - 1
        known = (at >= 0) & (groups >= 0)
        known[known] = ordered[at[known]] == groups[known]
        step = np.full(len(groups), -1, np.int64)
        step[known] = self._step[order[at[known]]]
        return step
