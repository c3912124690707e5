"""Relational operations on columns, which are NumPy arrays: types and bundles of columns, sorts and lookups, groups,
ranges and runs of rows, sums that stop at 64 bits, and spans of time.

    number_values       b a b c      ->  distinct a b c,  number 1 0 1 2
    find_group_bounds   0 0 1 3 3    ->  0 2 3 3 5        (4 groups; group 2 has no rows)
    find_last_started   start 0 10 20, time 5 20 -1  ->  0 2 -1
    find_equal          keys 2 4 6, wanted 4 5       ->  there: yes no, place 1 1
    expand_ranges       first 5 9, count 2 3         ->  owner 0 0 1 1 1, row 5 6 9 10 11
    find_runs           a a b b b a  ->  0 2 5

Rows without a group have the number -1. The kernels beneath are in csrc/kernels.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields
from typing import Any, Self, TypeVar

import numpy as np
import numpy.typing as npt

from fastprof._native import records
from fastprof._native.grouping import key_numbers
from fastprof._native.kernels import group_sums, spans_union
from fastprof.errors import CaptureError
from fastprof.schema.value_classes import dataclass

Bools = npt.NDArray[np.bool_]
Float64s = npt.NDArray[np.float64]
Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]
Objects = npt.NDArray[np.object_]
Records = npt.NDArray[np.void]
"""Structs in the layout of the native code."""
UInt16s = npt.NDArray[np.uint16]
UInt32s = npt.NDArray[np.uint32]
UInt64s = npt.NDArray[np.uint64]
UInt8s = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.integer[Any]]
"""Integers of any width."""
Flags = UInt8s | Bools
"""A byte each: the native code takes both."""


@dataclass(frozen=True, slots=True)
class ArrayRows:
    """The base of dataclasses whose fields are arrays, or rows themselves, with an element a row. The metadata ``none``
    of a field is its value without rows, if that is not an empty array of int64."""

    def __len__(self) -> int:
        return len(getattr(self, fields(self)[0].name))

    def __getitem__(self, rows: Any) -> Self:
        """Select rows by a mask or by their numbers."""
        return type(self)(*(getattr(self, column.name)[rows] for column in fields(self)))

    @classmethod
    def none(cls) -> Self:
        return cls(*(column.metadata.get("none", np.zeros(0, np.int64)) for column in fields(cls)))

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """Concatenate the rows of all parts."""
        if len(parts) == 1:
            return parts[0]
        columns = ([getattr(part, column.name) for part in parts] for column in fields(cls))
        return cls(*map(_concatenate, columns)) if parts else cls.none()


def _concatenate(columns: Sequence[Any]) -> Any:
    first = columns[0]
    return type(first).joined(columns) if isinstance(first, ArrayRows) else np.concatenate(columns)


S = TypeVar("S", bound=np.generic)


# ---- sorts and lookups


def sort_rows(*keys: npt.NDArray[Any]) -> Int64s:
    """Return the order of rows by the first key, then by the next; equal rows keep their order."""
    return np.lexsort(keys[::-1])


def find_last_started(starts: npt.NDArray[Any] | Sequence[int], times: npt.NDArray[Any]) -> Int64s:
    """Return the place of the last of the ``starts``, which ascend, at or before each time, or -1."""
    return np.searchsorted(starts, times, side="right") - 1


def find_place(starts: Numbers, value: int) -> int:
    """Return the position of the last start at or before a value, or -1, by binary search. ``starts``: ascending, and
    best contiguous, because numpy copies other arrays for each search."""
    limits = np.iinfo(starts.dtype)
    if value < limits.min:
        return -1
    # a value of another type would make numpy convert all starts
    return int(np.searchsorted(starts, starts.dtype.type(min(value, limits.max)), side="right")) - 1


def find_equal(keys: Numbers, wanted: Numbers) -> tuple[Bools, Int64s]:
    """Return whether each wanted value is among the ``keys``, which ascend, and its first place there.

    The place of a value that is not there is within the keys, if there are any.
    """
    if not len(keys):
        return np.zeros(len(wanted), np.bool_), np.zeros(len(wanted), np.int64)
    # of the keys' own type, or numpy would convert all of them; what wraps is not equal
    place = np.minimum(np.searchsorted(keys, wanted.astype(keys.dtype, copy=False)), len(keys) - 1)
    return keys[place] == wanted, place


def find_present(keys: Numbers, wanted: Numbers) -> tuple[Bools, Int64s]:
    """Return whether each wanted value is among the ``keys``, which ascend, and the first place of those that are.

    Looks at the wanted values only: there may be far more keys."""
    there, place = find_equal(keys, wanted)
    return there, place[there]


def join_values(keys: Numbers, values: npt.NDArray[S], wanted: Numbers, otherwise: float = -1) -> npt.NDArray[S]:
    """Return the value of each wanted key, or ``otherwise`` if it is not among the ``keys``, which ascend."""
    there, place = find_present(keys, wanted)
    joined = np.full(len(wanted), otherwise, values.dtype)
    joined[there] = values[place]
    return joined


def find_rows_within(rows: npt.NDArray[Any], first: int, last: int) -> slice:
    """Return the slice of the ``rows``, which ascend, that are at least ``first`` and below ``last``."""
    # bounds of another type than the rows would make numpy convert all rows
    limits = np.iinfo(rows.dtype)
    bounds = np.array([min(max(bound, limits.min), limits.max) for bound in (first, last)], rows.dtype)
    return slice(*np.searchsorted(rows, bounds).tolist())


def take_rows(values: npt.NDArray[S], rows: npt.NDArray[Any]) -> npt.NDArray[S]:
    """Return the values of distinct rows, as a view if the rows are consecutive."""
    # numpy takes several times as long for indices of 32 bits
    if len(rows) and int(rows[-1]) - int(rows[0]) == len(rows) - 1:
        return values[rows[0] : rows[-1] + 1]
    return values[rows.astype(np.intp, copy=False)]


def mark_largest(values: npt.NDArray[Any], count: int) -> Bools:
    """Return whether each value is among the ``count`` largest; of equal values the first ones are."""
    chosen = np.zeros(len(values), np.bool_)
    chosen[np.argsort(-values, kind="stable")[:count]] = True
    return chosen


# ---- groups


def number_values(values: npt.NDArray[S]) -> tuple[npt.NDArray[S], Int64s]:
    """Return the distinct values in ascending order, and the place of each value among them."""
    low, high = (int(values.min()), int(values.max())) if len(values) and values.dtype.kind == "i" else (0, -1)
    if 0 <= high - low < 2 * len(values):  # dense values are not sorted, which takes ten times as long
        offset = values.astype(np.int64) - low
        occurs = _have_values(offset, high - low + 1)
        return (np.flatnonzero(occurs) + low).astype(values.dtype), (np.cumsum(occurs) - 1)[offset]
    distinct, number = np.unique(values, return_inverse=True)
    return distinct, number.reshape(-1)


def number_distinct(values: Numbers) -> tuple[Numbers, Int32s]:
    """Return the distinct values by first occurrence, and the place of each value among them."""
    first, number = number_distinct_rows([values])
    return values[first], number


def number_distinct_rows(columns: Sequence[Numbers]) -> tuple[Int64s, Int32s]:
    """Return the first row of each distinct key, and the number of each row's key, by first occurrence."""
    keys = [column.astype(np.int64, copy=False) for column in columns]
    while len(keys) > 4:  # which can be numbered at once
        keys = [number_keys(keys[:4])[0].astype(np.int64), *keys[4:]]
    number, count = number_keys(keys)
    return find_first_rows(number, count), number


def number_sorted_rows(columns: Sequence[Numbers]) -> tuple[Int64s, Int64s]:
    """Return the first row of each distinct key, by ascending keys, and the place of each row's key in that order. This
    is ``numpy.unique`` of several columns, which sorts all rows as bytes."""
    first, number = number_distinct_rows(columns)
    order = sort_rows(*(column[first] for column in columns))
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    return first[order], place[number]


def number_keys(columns: Sequence[Int64s]) -> tuple[Int32s, int]:
    """Return the number of each key, by first occurrence, and the number of keys. A key has at most four columns."""
    numbers = np.zeros(len(columns[0]), np.int32)
    count = key_numbers([np.ascontiguousarray(column) for column in columns], numbers)
    return numbers, count


def find_first_rows(number: npt.NDArray[np.integer], count: int) -> npt.NDArray[np.int64]:
    """Return the first row of each number below ``count``; every number occurs."""
    first = np.empty(count, np.int64)
    first[number[::-1]] = np.arange(len(number) - 1, -1, -1)
    return first


def find_group_bounds(number: Numbers, count: int) -> Int64s:
    """Return where each of ``count`` groups begins in ``number``, which ascends, and then where the last one ends."""
    return np.searchsorted(number, np.arange(count + 1))


# ---- ranges and runs of rows


def count_bounds(counts: npt.ArrayLike) -> Int64s:
    """Return where each group of these sizes begins if groups follow each other, and then where the last one ends."""
    return np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])


def join_parts(parts: Iterable[npt.NDArray[Any]], kind: type[np.generic] = np.int64) -> npt.NDArray[Any]:
    """Concatenate any number of arrays. ``kind``: type of the result if all parts fit into it."""
    return np.concatenate([np.zeros(0, kind), *parts])


def number_owners(counts: Numbers | Sequence[int]) -> Int64s:
    """Return the number of the group of each row, for groups of these sizes that follow each other."""
    return np.repeat(np.arange(len(counts)), np.asarray(counts, np.int64))  # an empty list would be of floats


def expand_ranges(first: npt.NDArray[Any], counts: npt.NDArray[Any]) -> tuple[Int64s, Int64s]:
    """Return the rows of ranges, one range after the other, as the number of the range and the row."""
    owner = number_owners(counts)
    before = np.cumsum(counts, dtype=np.int64) - counts
    return owner, np.arange(len(owner)) + (first - before)[owner]


def find_runs(*columns: npt.NDArray[Any]) -> Int64s:
    """Return the first row of each run of rows that are equal in all columns."""
    differs = np.ones(len(columns[0]), np.bool_)
    differs[1:] = np.logical_or.reduce([column[1:] != column[:-1] for column in columns])
    return np.flatnonzero(differs)


def reduce_runs(ufunc: np.ufunc, values: npt.NDArray[S], first: Numbers) -> npt.NDArray[S]:
    """Return ``ufunc`` over each run of values; ``first`` is where runs begin, none of them empty."""
    return np.asarray(ufunc.reduceat(values, first, dtype=values.dtype)) if len(first) else values[:0]


# ---- sums and extremes


DURATIONS = "the durations of ops"
"""Default subject of overflow messages."""
PERCENTILES = (50, 90, 99)
"""Percentiles of durations in tables of steps, ops and kernels."""


def sum_exactly(values: npt.NDArray[Any] | Sequence[int], what: str = DURATIONS) -> int:
    """Return the sum of integers. CaptureError: it does not fit 64 bits, so the times are damaged."""
    total = sum(values.tolist() if isinstance(values, np.ndarray) else values)
    if not -(2**63) <= total < 2**63:
        raise CaptureError(f"{what} do not add up in 64 bits")
    return int(total)


def sum_unbounded(values: Numbers) -> int:
    """Return the sum of integers of at most 64 bits, which may exceed 64 bits."""
    wide = values.astype(np.int64, copy=False)
    return (int((wide >> 32).sum()) << 32) + int((wide & 0xFFFFFFFF).sum())


def summarize_by(row: npt.NDArray[Any], values: npt.NDArray[Any], count: int, what: str = DURATIONS) -> Records:
    """Return count, sum, minimum and maximum of the integers of each of ``count`` rows, as records.GROUP_SUM.

    Values of negative rows are left out. CaptureError: a sum does not fit 64 bits."""
    sums = np.zeros(count, records.GROUP_SUM)
    try:
        group_sums(np.ascontiguousarray(row, np.int32), np.ascontiguousarray(values, np.int64), sums)
    except OverflowError as error:
        raise CaptureError(f"{what} do not add up in 64 bits") from error
    return sums


def sum_by(row: npt.NDArray[Any], values: npt.NDArray[Any], count: int, what: str = DURATIONS) -> Int64s:
    """Return the sum of the integers of each of ``count`` rows. CaptureError: a sum does not fit 64 bits."""
    return summarize_by(row, values, count, what)["total"].copy()


def find_least_by(row: Numbers, values: Int64s, count: int, otherwise: int = 0) -> Int64s:
    """Return the smallest value of each of ``count`` rows, or ``otherwise`` for a row without values."""
    least = np.full(count, _LAST)
    np.minimum.at(least, row, values)
    return np.where(_have_values(row, count), least, otherwise)


def find_most_by(row: Numbers, values: Int64s, count: int, otherwise: int = 0) -> Int64s:
    """Return the largest value of each of ``count`` rows, or ``otherwise`` for a row without values."""
    most = np.full(count, -_LAST - 1)
    np.maximum.at(most, row, values)
    return np.where(_have_values(row, count), most, otherwise)


def locate_percentile(percent: float, count: int | Int64s) -> Any:
    """Return the index, among ``count`` ascending values, of the least one that ``percent`` of 100 do not exceed
    (nearest rank); an array for an array of counts. ``percent`` has at most one decimal."""
    return np.maximum(-(-round(10 * percent) * count // 1000) - 1, 0)


def find_percentiles(
    row: Numbers, values: Int64s, count: int, percentiles: Sequence[int], times: Int64s | None = None
) -> dict[int, Int64s]:
    """Return percentiles (nearest rank) of the values of each of ``count`` rows, by percentile; 0 for a row without
    values. ``times``: how often each value counts, at least once; None: once."""
    order = sort_rows(row, values)
    last = np.arange(1, len(order) + 1) if times is None else np.cumsum(times[order])
    bounds = np.append(0, last)[find_group_bounds(row[order], count)]
    sizes = np.diff(bounds)
    ranks = {}
    for percentile in dict.fromkeys(percentiles):
        place = np.searchsorted(last, bounds[:-1] + locate_percentile(percentile, sizes) + 1)
        chosen = values[order[np.minimum(place, len(order) - 1)]] if len(order) else np.zeros(count, np.int64)
        ranks[percentile] = np.where(sizes > 0, chosen, 0)
    return ranks


def _have_values(row: Numbers, count: int) -> Bools:
    there = np.zeros(count, np.bool_)
    there[row] = True
    return there


def add_exactly(left: Int64s, right: Int64s, what: str) -> Int64s:
    """Add two columns. CaptureError: a sum does not fit 64 bits."""
    total = left + right
    if (((left ^ total) & (right ^ total)) < 0).any():
        raise CaptureError(f"{what} do not add up in 64 bits")
    return total


_LAST = 2**63 - 1
_FEW = 1000


def add_durations(start: Int64s, duration: Int64s) -> Int64s:
    """Return the ends of events; an end beyond 64 bits is the last number of 64 bits."""
    if np.size(start) > _FEW and np.min(start) >= 0 and np.min(duration) >= 0:
        ends: Int64s = start + duration
        if ends.min() >= 0:  # no sum is beyond the limit
            return ends
    most, least = _LAST - np.maximum(start, 0), -_LAST - 1 - np.minimum(start, 0)
    return np.asarray(start + np.clip(duration, least, most))


# ---- spans of time


DisjointSpans = tuple[Int64s, Int64s]
"""Begin and end of each span, in ascending order."""


def create_empty_spans() -> DisjointSpans:
    return np.zeros(0, np.int64), np.zeros(0, np.int64)


def merge_spans(start: Int64s, duration: Int64s) -> DisjointSpans:
    """Return the union of spans, as disjoint spans in ascending order."""
    merged = np.frombuffer(spans_union(np.ascontiguousarray(start), np.ascontiguousarray(duration)), np.int64)
    begin, end = np.ascontiguousarray(merged.reshape(-1, 2).T)
    return begin, end


def subtract_spans(kept: DisjointSpans, taken: DisjointSpans) -> DisjointSpans:
    """Return ``kept`` minus ``taken``."""
    if not len(kept[0]) or not len(taken[0]):
        return kept
    time = np.concatenate([*kept, *taken])
    sizes = [len(part) for part in (*kept, *taken)]
    is_kept, is_taken = np.repeat([1, -1, 0, 0], sizes), np.repeat([0, 0, 1, -1], sizes)
    order = np.argsort(time, kind="stable")
    time = time[order]
    stays = (np.cumsum(is_kept[order]) > 0) & (np.cumsum(is_taken[order]) == 0)
    return merge_spans(time[:-1][stays[:-1]], (time[1:] - time[:-1])[stays[:-1]])


def find_innermost_spans(start: Int64s, duration: Int64s, depth: Int64s, chosen: Bools) -> DisjointSpans:
    """Return the spans in which the innermost nested event is ``chosen``. ``depth``: how many others enclose each."""
    merged = merge_spans(start[chosen & (depth == 0)], duration[chosen & (depth == 0)])
    for level in range(1, int(depth.max(initial=0)) + 1):
        here = depth == level
        deeper = merge_spans(start[here & chosen], duration[here & chosen])
        outer = subtract_spans(merged, merge_spans(start[here], duration[here]))
        begin, end = (np.concatenate(pair) for pair in zip(outer, deeper, strict=True))
        merged = merge_spans(begin, end - begin)
    return merged


def contain_any_time(start: Int64s, end: Int64s, times: Int64s) -> Bools:
    """Return whether each span holds any of the times, which ascend."""
    holds: Bools = np.searchsorted(times, end) > np.searchsorted(times, start)
    return holds


def measure_covered_time(covers: DisjointSpans, begin: Int64s, duration: Int64s) -> Int64s:
    """Return how much of each span from ``begin`` the disjoint ``covers`` cover."""
    starts, ends = covers
    if not len(starts):
        return np.zeros_like(begin)
    before = count_bounds(ends - starts)

    def cover_until(time: Int64s) -> Int64s:
        last = find_last_started(starts, time)
        at = np.maximum(last, 0)
        return np.where(last >= 0, before[at] + np.minimum(time, ends[at]) - starts[at], 0)

    return cover_until(begin + duration) - cover_until(begin)


def invert_order(order: Int64s) -> Int64s:
    """Return the place of each number below its length in an order of all of them."""
    rows = np.empty(len(order), np.int64)
    rows[order] = np.arange(len(order))
    return rows
