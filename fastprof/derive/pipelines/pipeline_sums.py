"""What the calls of pipelines add up to: by pipeline, by iterator, and which iterator each waits for most."""

from __future__ import annotations

import re
from copy import copy
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from fastprof.derive.ops.tables import sums_by
from fastprof.derive.pipelines.iterator_tree import rows_of
from fastprof.derive.steps.time_spread import PERCENTILES
from fastprof.schema.array_types import Int64s
from fastprof.wording.patterns import pattern_of

if TYPE_CHECKING:
    from fastprof.derive.pipelines.reading import Calls, InputPipelines, Reading

_INPUT = pattern_of(r"\[\d+\]", re.ASCII)
_WHAT = "the times of the calls of a pipeline"


class CallSums:
    """By pipeline. ``between_ps``: from its first call to the end of its last, time in which none of them ran."""

    def __init__(self, pipelines: InputPipelines, calls: Calls, slow_ps: int) -> None:
        """``slow_ps``: calls that take longer are slow."""
        first, self.count = pipelines.first[:-1], np.diff(pipelines.first)
        size, last = len(first), np.maximum(pipelines.first[1:] - 1, 0)
        self.slow = np.bincount(calls.pipeline[calls.duration_ps > slow_ps], minlength=size)
        self.total_ps = sums_by(calls.pipeline, calls.duration_ps, size, _WHAT)
        self.between_ps = between(calls, size)
        self.least_ps = calls.duration_ps[last]
        self.most_ps = calls.duration_ps[first]
        self.percentiles_ps = {
            percent: calls.duration_ps[last - np.maximum((10 * percent * self.count + 999) // 1000 - 1, 0)]
            for percent in PERCENTILES
        }
        """By nearest rank, as everywhere (time_spread.rank); calls are slowest first, so it counts from the end."""


class IteratorSums:
    """By row of the tree: over all calls of its pipeline. ``calls``: in how many of them it ran; ``tree_row``: of each
    record."""

    def __init__(self, reading: Reading) -> None:
        records, size = reading.records, len(reading.tree.iterator)
        row = rows_of(reading.tree, reading.calls.pipeline[records.call], records.iterator)
        self.total_ps = sums_by(row, records.total_ps, size, _WHAT)
        self.self_ps = sums_by(row, records.self_ps, size, _WHAT)
        self.critical_ps = sums_by(row, records.critical_ps, size, _WHAT)
        self.count = sums_by(row, records.count, size)
        self.calls = np.bincount(row[row >= 0], minlength=size)
        self.blocking = np.bincount(row[records.is_blocking & (row >= 0)], minlength=size) > 0
        self.tree_row = row


class Bottlenecks:
    """``of_call``: by call, the record of the largest critical time. ``of_pipeline``: by pipeline, the row of the tree
    of the largest over all calls, where iterators that are alike count together: the largest of them. -1: there is no
    critical time. Of equal ones the one nearest to the program. ``critical_ps``: by pipeline, of that one and those
    like it; ``calls``: how many of its calls have one of them for bottleneck."""

    def __init__(self, reading: Reading, sums: IteratorSums) -> None:
        calls, records, tree, count = reading.calls, reading.records, reading.tree, len(reading.pipelines)
        self.of_call = largest(records.call, records.critical_ps, len(calls.pipeline))
        like = alike(reading)
        together = sums_by(like, sums.critical_ps, len(like), _WHAT)
        most = largest(tree.pipeline, together, count)
        of_it = (like == most[tree.pipeline]) & (most[tree.pipeline] >= 0)
        self.of_pipeline = largest(tree.pipeline, np.where(of_it, sums.critical_ps, 0), count)
        row = np.append(sums.tree_row, -1)[self.of_call]
        same = (row >= 0) & (np.append(like, -2)[row] == most[calls.pipeline])
        self.critical_ps = np.append(together, 0)[most]
        self.calls = np.bincount(calls.pipeline[same], minlength=count)

    def without_calls(self) -> Bottlenecks:
        found = copy(self)
        found.of_call = self.of_call[:0].copy()
        return found


def between(calls: Calls, size: int) -> Int64s:
    """For each of ``size`` pipelines, the time from its first call to its last in which none of them ran."""
    order = np.lexsort((calls.start_ps, calls.pipeline))
    pipeline, start = calls.pipeline[order], calls.start_ps[order]
    end = start + calls.duration_ps[order]
    if len(order) < 2:
        return np.zeros(size, np.int64)
    ends, place = np.unique(end, return_inverse=True)
    reached = np.maximum.accumulate(pipeline.astype(np.int64) * len(ends) + place)
    gap = start[1:] - ends[reached[:-1] % len(ends)]
    gap[pipeline[1:] != pipeline[:-1]] = 0
    return sums_by(pipeline[1:], np.maximum(gap, 0), size, _WHAT)


def alike(reading: Reading) -> Int64s:
    """By row of the tree, the first row of its pipeline that differs from it only in which of several inputs it is
    (``Interleave[1]::TFRecord``, ``Interleave[2]::TFRecord``): what a program sets up in one place."""
    tree = reading.tree
    numbers: dict[str, int] = {}
    longs = reading.iterators.long_name
    of_name = {long: numbers.setdefault(_INPUT.sub("", long), len(numbers)) for long in dict.fromkeys(longs)}
    name = [of_name[long] for long in longs]
    key = tree.pipeline.astype(np.int64) * max(len(numbers), 1) + np.array(name, np.int64)[tree.iterator]
    _, first, of_key = np.unique(key, return_index=True, return_inverse=True)
    return np.asarray(first[of_key])


def largest(group: npt.NDArray[np.int32], values: Int64s, groups: int) -> Int64s:
    """The row of the largest value above 0 of each group, the first of equal ones; -1: none. ``group`` ascends."""
    most = np.zeros(groups, np.int64)
    np.maximum.at(most, group, values)
    rows = np.flatnonzero((values == most[group]) & (values > 0))
    row = np.full(groups, -1, np.int64)
    row[group[rows[::-1]]] = rows[::-1]
    return row
