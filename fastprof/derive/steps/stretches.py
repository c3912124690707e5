"""Stretches of time, disjoint and in order: what they fill of spans, and when the innermost event is of a kind."""

from __future__ import annotations

from typing import Final

import numpy as np

from fastprof._native.kernels import spans_union
from fastprof.schema.array_types import Bools, Int64s

Stretches = tuple[Int64s, Int64s]
"""Begin and end of each."""

STRETCH: Final = np.dtype([("begin", "i8"), ("end", "i8"), ("row", "i8")])
PIECE: Final = np.dtype([("begin", "i8"), ("end", "i8"), ("label", "i8")])
"""The structs of csrc/kernels/stretches.h and foremost.h; a test compares their sizes with C's."""


def nothing() -> Stretches:
    return np.zeros(0, np.int64), np.zeros(0, np.int64)


def union(start: Int64s, duration: Int64s) -> Stretches:
    """When any of some spans lasts, in order."""
    found = np.frombuffer(spans_union(np.ascontiguousarray(start), np.ascontiguousarray(duration)), np.int64)
    begin, end = np.ascontiguousarray(found.reshape(-1, 2).T)
    return begin, end


def without(kept: Stretches, taken: Stretches) -> Stretches:
    """The first ones as far as the others do not reach."""
    if not len(kept[0]) or not len(taken[0]):
        return kept
    time = np.concatenate([*kept, *taken])
    sizes = [len(part) for part in (*kept, *taken)]
    is_kept, is_taken = np.repeat([1, -1, 0, 0], sizes), np.repeat([0, 0, 1, -1], sizes)
    order = np.argsort(time, kind="stable")
    time = time[order]
    stays = (np.cumsum(is_kept[order]) > 0) & (np.cumsum(is_taken[order]) == 0)
    return union(time[:-1][stays[:-1]], (time[1:] - time[:-1])[stays[:-1]])


def innermost(start: Int64s, duration: Int64s, depth: Int64s, chosen: Bools) -> Stretches:
    """When the innermost of nested events is one of the ``chosen``. ``depth``: how many others each lies in."""
    found = union(start[chosen & (depth == 0)], duration[chosen & (depth == 0)])
    for level in range(1, int(depth.max(initial=0)) + 1):
        here = depth == level
        deeper = union(start[here & chosen], duration[here & chosen])
        outer = without(found, union(start[here], duration[here]))
        begin, end = (np.concatenate(pair) for pair in zip(outer, deeper, strict=True))
        found = union(begin, end - begin)
    return found


def hold_any(start: Int64s, end: Int64s, times: Int64s) -> Bools:
    """Return which spans hold any of the times, which ascend."""
    holds: Bools = np.searchsorted(times, end) > np.searchsorted(times, start)
    return holds


def filled(stretches: Stretches, begin: Int64s, duration: Int64s) -> Int64s:
    """How much of each span the stretches fill."""
    starts, ends = stretches
    if not len(starts):
        return np.zeros_like(begin)
    before = np.concatenate([[0], np.cumsum(ends - starts)])

    def upto(time: Int64s) -> Int64s:
        at = np.searchsorted(starts, time, side="right")
        inside = np.minimum(time, ends[np.maximum(at - 1, 0)]) - starts[np.maximum(at - 1, 0)]
        amount: Int64s = np.where(at > 0, before[np.maximum(at - 1, 0)] + inside, 0)
        return amount

    return upto(begin + duration) - upto(begin)
