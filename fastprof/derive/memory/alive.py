"""What is alive at a moment: allocations, what they are for, and what of the memory in use is not known by them. Also
in groups of ops of like names: the layers of a model, the replicas of a step.

Memory in use is stack and heap. Of the heap, known is what was allocated before the moment and is freed after it or not
at all; and what is freed after it without an allocation, so that it was there before the first event. The rest was
allocated before the first event and is still there after the last.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from fastprof.derive.memory.matching import (
    ALLOCATION_LOST,
    FREED,
    HELD_AT_END,
    HELD_BEFORE,
    REPLACED,
    breaks,
    matches,
    moved_bytes,
)
from fastprof.derive.memory.memory_events import HEAP, REQUESTED, MemoryEvents
from fastprof.derive.memory.sites import Sites
from fastprof.derive.ops.tables import sums_by
from fastprof.derive.steps.links import first_of, numbered
from fastprof.schema.array_types import Bools, Int32s, Int64s, UInt8s
from fastprof.schema.value_classes import dataclass

SOURCES: Final = ("recorded", "held before", "held throughout", "stack", "not recorded")
RECORDED, HELD_BEFORE_FREED_LATER, HELD_THROUGHOUT, STACK, NOT_SEEN = range(5)
REASONS: Final = (
    None,
    "the allocator does not record bytes_allocated",
    "what is known to be alive is more than the memory in use: the capture lacks frees",
    "the size of some allocations is not recorded",
)
_EXACT, _NO_HEAP, _TOO_MUCH, _UNSIZED = range(4)
_SIZES: Final = "the sizes of allocations"


@dataclass(frozen=True, slots=True, eq=False)
class LiveRows:
    """What is alive and alike, ordered by allocator, largest total first. ``site``: -1: not known.
    ``allocation_bytes``, ``requested_bytes``, ``total_bytes``: -1: not known. ``count``: 0: not known. ``source``:
    place in SOURCES."""

    allocator: Int32s
    site: Int32s
    allocation_bytes: Int64s
    requested_bytes: Int64s
    count: Int64s
    total_bytes: Int64s
    source: UInt8s

    @property
    def wasted_bytes(self) -> Int64s:
        """What each row takes beyond the requested size; -1: one of the two is unknown, or more was requested."""
        known = (self.count > 0) & (self.requested_bytes >= 0) & (self.total_bytes >= 0)
        known &= self.requested_bytes <= self.allocation_bytes
        wasted = self.total_bytes - np.where(known, self.requested_bytes, 0) * self.count
        return np.where(known, wasted, -1).astype(np.int64)


class LiveGroups:
    """Live rows grouped by op, region, data type and how they are known; ordered by allocator, largest total first.
    ``site``: one of the group's. ``op_count``: ops of the group, ``count``: its allocations, 0: not distinguished.
    ``total_bytes``, ``requested_bytes``, ``wasted_bytes``: -1: unknown."""

    def __init__(self, rows: LiveRows, sites: Sites) -> None:
        op = np.append(sites.op_number, np.int32(-1))[rows.site]
        name = _numbers(sites.like_names)[op]
        region, data_type = (_numbers(texts)[rows.site] for texts in (sites.names.region_type, sites.names.data_type))
        known = rows.allocator.astype(np.int64) * len(SOURCES) + rows.source
        number, groups = numbered([known, region, name, data_type])
        first, wasted = first_of(number, groups), rows.wasted_bytes
        total = sums_by(number, np.maximum(rows.total_bytes, 0), groups, _SIZES)
        beyond = sums_by(number, np.maximum(wasted, 0), groups, _SIZES)
        unsized, unknown = (
            np.bincount(number[sizes < 0], minlength=groups) > 0 for sizes in (rows.total_bytes, wasted)
        )
        pairs = np.unique(number[op >= 0].astype(np.int64) << 32 | op[op >= 0])
        order = np.lexsort((first, -total, rows.allocator[first]))
        self.allocator, self.site, self.source = (one[first[order]] for one in (rows.allocator, rows.site, rows.source))
        self.op_count = np.bincount(pairs >> 32, minlength=groups)[order]
        self.count = sums_by(number, rows.count, groups)[order]
        self.total_bytes = np.where(unsized, -1, total)[order]
        self.requested_bytes = np.where(unsized | unknown, -1, total - beyond)[order]
        self.wasted_bytes = np.where(unsized | unknown, -1, beyond)[order]


@dataclass(frozen=True, slots=True, eq=False)
class LiveSets:
    """Arrays by allocator: ``in_use_bytes``: as the allocator records it, 0 without an event. ``reason``: place in
    REASONS: why the totals of its rows are not in_use_bytes; 0: they are."""

    rows: LiveRows
    in_use_bytes: Int64s
    reason: UInt8s


def live_sets(events: MemoryEvents, after: Int64s) -> LiveSets:
    """What is alive right after one event of each allocator; -1: of none."""
    allocator = events.allocator
    some = after >= 0
    live, source = _alive(events, allocator, after)
    size = moved_bytes(events)
    live &= events.is_allocation | (size >= 0)  # a free of no known size is part of the rest
    rows = np.flatnonzero(live)
    count = len(events.allocators)
    known = sums_by(allocator[rows], np.maximum(size[rows], 0), count, _SIZES)
    unsized = np.bincount(allocator[rows[size[rows] < 0]], minlength=count) > 0
    heap, stack = events.heap_bytes[after] * some, events.stack_bytes[after] * some
    rest = np.where(heap < 0, -1, heap - known)
    reason = np.where((rest < 0) | (stack < 0), _TOO_MUCH, np.where(unsized, _UNSIZED, _EXACT))
    reason = np.where(some & ~events.has(HEAP)[after], _NO_HEAP, reason) * some
    rests = _rest_rows(rest * (reason != _NO_HEAP), HELD_THROUGHOUT), _rest_rows(stack, STACK)
    return LiveSets(
        rows=_sorted(_merged(events, allocator, rows, size, source), *rests),
        in_use_bytes=events.in_use_bytes[after] * some,
        reason=reason.astype(np.uint8),
    )


def _alive(events: MemoryEvents, allocator: Int32s, after: Int64s) -> tuple[Bools, UInt8s]:
    """Which events stand for memory that is alive, an allocation or a free without one, and how each is known."""
    matched = matches(events)
    moment, place = after[allocator], np.arange(len(events))
    begun = (place <= moment) & events.is_allocation
    to_come = (place > moment) & (moment >= 0) & ~events.is_allocation
    live = begun & (matched.fate == HELD_AT_END)
    live |= begun & (matched.fate == FREED) & (matched.partner > moment)
    live |= to_come & (matched.fate == HELD_BEFORE)
    source = np.where(events.is_allocation, RECORDED, HELD_BEFORE_FREED_LATER).astype(np.uint8)
    broken = np.flatnonzero(breaks(events))
    replaced = np.flatnonzero(begun & (matched.fate == REPLACED))
    if len(replaced):  # alive for as long as the heap follows from event to event: until then no free is missing
        end = _next_allocation(events, allocator)[replaced]
        upto = np.minimum(end, _first_from(broken, replaced + 1, len(events)))
        live[replaced] = upto > moment[replaced]
    lost = np.flatnonzero(to_come & (matched.fate == ALLOCATION_LOST))
    if len(lost):
        begin = _last_upto(broken, lost)
        live[lost] = (begin >= events.bounds[allocator[lost]]) & (begin <= moment[lost])
        source[lost] = NOT_SEEN
    return live, source


def _next_allocation(events: MemoryEvents, allocator: Int32s) -> Int64s:
    """The next allocation of the same address by the same allocator; after the last one the number of events."""
    rows = np.flatnonzero(events.is_allocation)
    rows = rows[np.lexsort((rows, events.address[rows], allocator[rows]))]
    following = np.full(len(events), len(events), np.int64)
    same = (events.address[rows[1:]] == events.address[rows[:-1]]) & (allocator[rows[1:]] == allocator[rows[:-1]])
    following[rows[:-1][same]] = rows[1:][same]
    return following


def _first_from(marked: Int64s, places: Int64s, none: int) -> Int64s:
    return np.append(marked, none)[np.searchsorted(marked, places)]


def _last_upto(marked: Int64s, places: Int64s) -> Int64s:
    return np.insert(marked, 0, -1)[np.searchsorted(marked, places, side="right")]


def _merged(events: MemoryEvents, allocator: Int32s, rows: Int64s, size: Int64s, source: UInt8s) -> LiveRows:
    """One row for what is alike in all but address and time. Of frees, who allocated is not known."""
    allocated = events.is_allocation[rows]
    site = np.where(allocated, events.site[rows], -1).astype(np.int64)
    requested = np.where(events.has(REQUESTED)[rows], events.requested_bytes[rows], -1)
    kind = (allocator[rows].astype(np.int64) * len(SOURCES) + source[rows]) * (len(events.sites) + 1) + site + 1
    number, count = numbered([kind, size[rows], requested])
    first = first_of(number, count)
    like = rows[first]
    occurrences = np.bincount(number, minlength=count)
    return LiveRows(
        allocator=allocator[like],
        site=site[first].astype(np.int32),
        allocation_bytes=size[like],
        requested_bytes=requested[first],
        count=occurrences,
        total_bytes=np.where(size[like] >= 0, size[like] * occurrences, -1),
        source=source[like],
    )


def _rest_rows(total: Int64s, source: int) -> LiveRows:
    """A row for each allocator that has a total."""
    rows = np.flatnonzero(total > 0)
    unknown = np.full(len(rows), -1, np.int64)
    return LiveRows(
        allocator=rows.astype(np.int32),
        site=unknown.astype(np.int32),
        allocation_bytes=unknown,
        requested_bytes=unknown,
        count=np.zeros(len(rows), np.int64),
        total_bytes=total[rows],
        source=np.full(len(rows), source, np.uint8),
    )


def _sorted(*parts: LiveRows) -> LiveRows:
    columns = {name: np.concatenate([getattr(part, name) for part in parts]) for name in LiveRows.__slots__}
    keys = ("requested_bytes", "allocation_bytes", "site", "source")
    order = np.lexsort((*(columns[name] for name in keys), -columns["total_bytes"], columns["allocator"]))
    return LiveRows(**{name: column[order] for name, column in columns.items()})


def _numbers(texts: Sequence[str | None]) -> Int64s:
    """Equal texts have equal numbers, None has -1; one more at the end, for place -1."""
    place: dict[str, int] = {}
    return np.array([-1 if text is None else place.setdefault(text, len(place)) for text in (*texts, None)], np.int64)


def wasted_by_allocator(rows: LiveRows, count: int) -> tuple[Int64s, Bools]:
    """What its rows take beyond the requested size, and whether any of them records it."""
    wasted = rows.wasted_bytes
    known = rows.allocator[wasted >= 0]
    return sums_by(known, wasted[wasted >= 0], count, _SIZES), np.bincount(known, minlength=count) > 0
