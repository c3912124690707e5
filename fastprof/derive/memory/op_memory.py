"""Memory by op: how long allocations live, where churn is freed soon, and which ops hold more from step to step."""

from __future__ import annotations

import numpy as np

from fastprof.derive.memory.matching import FREED, HELD_AT_END, HELD_BEFORE, matches, moved_bytes
from fastprof.derive.memory.memory_events import MemoryEvents
from fastprof.derive.ops.tables import exact_sum, summed_by
from fastprof.errors import CaptureError
from fastprof.schema.array_types import Bools, Int32s, Int64s, Records
from fastprof.tables.once import once

_SIZES = "the sizes of allocations"


@once
def lifetime_ps(events: MemoryEvents) -> Int64s:
    """From each allocation to its free; -1: it has none, and for frees. CaptureError: it exceeds 64 bits."""
    partner = matches(events).partner
    freed = events.is_allocation & (partner >= 0)
    since = events.start_ps[partner] - events.start_ps
    if (freed & (since < 0)).any():  # a free is never before its allocation
        raise CaptureError("the times of an allocation and its free are too far apart for 64 bits")
    return np.where(freed, since, -1)


class OpLifetimes:
    """A row for each op of each allocator. ``op``: place in sites.op_names; times are -1 if nothing was freed.
    ``lifetime_p50_ps``: the shorter of two in the middle."""

    def __init__(self, events: MemoryEvents, short_lived_ps: int, shown: Bools | None = None) -> None:
        """``short_lived_ps``: allocations that are freed within it, or just then, count as short-lived. ``shown``: the
        events that count, None: all."""
        rows = np.flatnonzero(events.is_allocation if shown is None else events.is_allocation & shown)
        ops = len(events.sites.op_names)
        key = events.allocator[rows].astype(np.int64) * ops + events.sites.op_number[events.site[rows]]
        distinct, row = _distinct(key, len(events.allocators) * ops)
        self.allocator, self.op = (distinct // max(ops, 1)).astype(np.int32), (distinct % max(ops, 1)).astype(np.int32)
        size, lifetime = events.allocation_bytes[rows], lifetime_ps(events)[rows]

        def sums(values: Int64s, which: Bools | slice = slice(None)) -> Records:
            return summed_by(row[which], values[which], len(distinct), _SIZES)

        sizes, at_end = sums(size), sums(size, matches(events).fate[rows] == HELD_AT_END)
        short = sums(size, (lifetime >= 0) & (lifetime <= short_lived_ps))
        self.count, self.allocated_bytes, self.largest_bytes = sizes["count"], sizes["total"], sizes["maximum"]
        self.requested_bytes = sums(events.requested_bytes[rows])["total"]
        self.held_at_end_count, self.held_at_end_bytes = at_end["count"], at_end["total"]
        self.short_lived_count, self.short_lived_bytes = short["count"], short["total"]
        times = _spread(row, lifetime, len(distinct))
        self.lifetime_min_ps, self.lifetime_p50_ps, self.lifetime_max_ps = times


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
    freed_count = np.bincount(row, minlength=count)
    last = np.cumsum(freed_count)
    places = last - freed_count, last - freed_count + (freed_count - 1) // 2, last - 1
    some = freed_count > 0
    times = [np.full(count, -1, np.int64) for _ in places]
    for time, place in zip(times, places, strict=True):
        time[some] = lifetime[order[place[some]]]
    return times[0], times[1], times[2]


def check_sum(sizes: Int64s) -> None:
    """CaptureError: sizes do not add up in 64 bits."""
    if float(sizes.sum(dtype=np.float64)) >= 2.0**62:
        exact_sum(sizes, _SIZES)


class Growth:
    """A row for each op of each allocator that holds memory at the end of some step. ``op``: place in sites.op_names,
    -1: unknown. ``steps_grown``: ends at which it holds more than at the end before; ``step_count``: all ends.
    ``grows_steadily``: it never holds less, and holds more at more than half of the ends after the first."""

    def __init__(self, events: MemoryEvents, end_ps: Int64s) -> None:
        """``end_ps``: the ends of steps, ascending. Memory is held at an end if it is allocated before it and not freed
        before it. Memory from before the first event is known if it is freed later; its op is unknown."""
        ends, ops = len(end_ps), len(events.sites.op_names) + 1
        key, step, change = _changes(events, end_ps)
        order = np.lexsort((step, key))
        key, step, change = key[order], step[order], change[order]
        places = _firsts(key, step)
        key, step, change = key[places], step[places], _sums(change, places)
        begins = _firsts(key)
        key = key[begins]
        self.allocator, self.op = (key // ops).astype(np.int32), (key % ops - 1).astype(np.int32)
        self.first_end_bytes = _sums(np.where(step == 0, change, 0), begins)
        self.last_end_bytes = _sums(change, begins)
        self.growth_bytes = self.last_end_bytes - self.first_end_bytes
        self.growth_per_step_bytes = self.growth_bytes / max(ends - 1, 1)
        self.step_count = np.full(len(begins), ends, np.int64)
        self.steps_grown = rises = _sums(((step > 0) & (change > 0)).astype(np.int64), begins)
        falls = _sums(((step > 0) & (change < 0)).astype(np.int64), begins)
        self.grows_steadily = (falls == 0) & (2 * rises > ends - 1) & (rises > 0)


def _firsts(*columns: Int64s) -> Int64s:
    """The first row of each run of equal rows."""
    differs = np.ones(len(columns[0]), np.bool_)
    differs[1:] = np.logical_or.reduce([column[1:] != column[:-1] for column in columns])
    return np.flatnonzero(differs)


def _sums(values: Int64s, first: Int64s) -> Int64s:
    """The sum of each run of values."""
    return np.add.reduceat(values, first) if len(first) else values[:0]


def _changes(events: MemoryEvents, end_ps: Int64s) -> tuple[Int64s, Int64s, Int64s]:
    """For each piece of memory that is held at an end: its allocator and op as one number, the first end at which it is
    held and its size; and again with the first end at which it is no longer held, and its size as a loss."""
    matched, size = matches(events), moved_bytes(events)
    held = events.is_allocation & ((matched.fate == FREED) | (matched.fate == HELD_AT_END))
    rows = np.flatnonzero((held | (matched.fate == HELD_BEFORE)) & (size > 0))
    of_end = np.searchsorted(end_ps, events.start_ps, side="right")
    allocated, freed = events.is_allocation[rows], matched.fate[rows] == FREED
    begin = np.where(allocated, of_end[rows], 0)
    until = np.where(allocated, np.where(freed, of_end[matched.partner[rows]], len(end_ps)), of_end[rows])
    is_held = begin < until
    rows, begin, until = rows[is_held], begin[is_held], until[is_held]
    ops = len(events.sites.op_names) + 1
    op = np.where(events.is_allocation[rows], events.sites.op_number[events.site[rows]], -1)
    key = events.allocator[rows].astype(np.int64) * ops + op + 1
    ended = until < len(end_ps)
    size = size[rows]
    check_sum(size)
    return (
        np.concatenate([key, key[ended]]),
        np.concatenate([begin, until[ended]]),
        np.concatenate([size, -size[ended]]),
    )
