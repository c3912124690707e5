"""How long allocations live, by op: churn is what is freed soon after it was allocated."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fastprof.derive.memory.matching import HELD_AT_END, matches
from fastprof.derive.memory.memory_events import MemoryEvents
from fastprof.derive.ops.tables import sums_by
from fastprof.errors import CaptureError
from fastprof.schema.array_types import Int32s, Int64s
from fastprof.tables.once import once


@dataclass(frozen=True, slots=True, eq=False)
class OpLifetimes:
    """A row for each op of each allocator. ``op``: place in sites.op_names; times are -1 where nothing was freed.
    ``lifetime_p50_ps``: of two in the middle the shorter."""

    allocator: Int32s
    op: Int32s
    count: Int64s
    allocated_bytes: Int64s
    requested_bytes: Int64s
    largest_bytes: Int64s
    held_at_end_count: Int64s
    held_at_end_bytes: Int64s
    short_lived_count: Int64s
    short_lived_bytes: Int64s
    lifetime_min_ps: Int64s
    lifetime_p50_ps: Int64s
    lifetime_max_ps: Int64s


@once
def lifetime_ps(events: MemoryEvents) -> Int64s:
    """From each allocation to its free; -1: it has none, and for frees. CaptureError: it exceeds 64 bits."""
    partner = matches(events).partner
    freed = events.is_allocation & (partner >= 0)
    since = events.start_ps[partner] - events.start_ps
    if (freed & (since < 0)).any():  # a free is never before its allocation
        raise CaptureError("the times of an allocation and its free are too far apart for 64 bits")
    return np.where(freed, since, -1)


def by_op(events: MemoryEvents, short_lived_ps: int, shown: npt.NDArray[np.bool_] | None = None) -> OpLifetimes:
    """``short_lived_ps``: allocations that are freed within it, or just then, count as short-lived. ``shown``: those
    that count, None: all."""
    rows = np.flatnonzero(events.is_allocation if shown is None else events.is_allocation & shown)
    ops = len(events.sites.op_names)
    key = events.allocator[rows].astype(np.int64) * ops + events.sites.op_number[events.site[rows]]
    distinct, row = _distinct(key, len(events.allocators) * ops)
    count = len(distinct)
    size, lifetime = events.allocation_bytes[rows], lifetime_ps(events)[rows]
    held = matches(events).fate[rows] == HELD_AT_END
    short = (lifetime >= 0) & (lifetime <= short_lived_ps)
    least, middle, most = _spread(row, lifetime, count)

    def total(values: Int64s, where: npt.NDArray[np.bool_] | slice = slice(None)) -> Int64s:
        return sums_by(row[where], values[where], count, "the sizes of allocations")

    largest = np.full(count, -1, np.int64)
    np.maximum.at(largest, row, size)
    return OpLifetimes(
        allocator=(distinct // max(ops, 1)).astype(np.int32),
        op=(distinct % max(ops, 1)).astype(np.int32),
        count=np.bincount(row, minlength=count),
        allocated_bytes=total(size),
        requested_bytes=total(events.requested_bytes[rows]),
        largest_bytes=largest,
        held_at_end_count=np.bincount(row[held], minlength=count),
        held_at_end_bytes=total(size, held),
        short_lived_count=np.bincount(row[short], minlength=count),
        short_lived_bytes=total(size, short),
        lifetime_min_ps=least,
        lifetime_p50_ps=middle,
        lifetime_max_ps=most,
    )


def _distinct(key: Int64s, limit: int) -> tuple[Int64s, Int32s]:
    """The distinct keys, ascending, and the place of each among them."""
    if limit > 4 * len(key) + 1024:
        distinct, row = np.unique(key, return_inverse=True)
        return distinct, row.astype(np.int32)
    there = np.zeros(limit, np.bool_)
    there[key] = True
    return np.flatnonzero(there), (np.cumsum(there, dtype=np.int32) - 1)[key].astype(np.int32)


def _spread(row: Int32s, lifetime: Int64s, count: int) -> tuple[Int64s, Int64s, Int64s]:
    """The shortest, middle and longest lifetime of each row; -1: there is none."""
    freed = lifetime >= 0
    row, lifetime = row[freed], lifetime[freed]
    order = np.argsort(lifetime)
    narrow = row.astype(np.uint16) if count <= 1 << 16 else row
    order = order[np.argsort(narrow[order], kind="stable")]
    found = np.bincount(row, minlength=count)
    last = np.cumsum(found)
    places = last - found, last - found + (found - 1) // 2, last - 1
    some = found > 0
    times = [np.full(count, -1, np.int64) for _ in places]
    for time, place in zip(times, places, strict=True):
        time[some] = lifetime[order[place[some]]]
    return times[0], times[1], times[2]
