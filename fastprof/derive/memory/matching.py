"""Which free ends which allocation: by address, in the order of time."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fastprof._native import memory_kernels
from fastprof._native.memory_kernels import ALLOCATION_LOST as ALLOCATION_LOST
from fastprof._native.memory_kernels import FREED as FREED
from fastprof._native.memory_kernels import HELD_AT_END as HELD_AT_END
from fastprof._native.memory_kernels import HELD_BEFORE as HELD_BEFORE
from fastprof._native.memory_kernels import REPLACED as REPLACED
from fastprof._native.memory_kernels import UNKNOWN as UNKNOWN
from fastprof.derive.memory.memory_events import (
    ADDRESS,
    ALLOCATION,
    HEAP,
    MemoryEvents,
)
from fastprof.schema.array_types import Int32s, Int64s
from fastprof.schema.value_classes import dataclass
from fastprof.tables.once import once

FATES = ("address unknown", "freed", "held at the end", "free not recorded", "held before", "allocation not recorded")
"""By the number of a fate."""


@dataclass(frozen=True, slots=True, eq=False)
class Matches:
    """``partner``: the free of an allocation, the allocation of a free, -1: none. ``fate``: UNKNOWN: the address is not
    recorded; FREED: both sides are; HELD_AT_END: an allocation that nothing frees; REPLACED: an allocation at whose
    address there is another before any free; HELD_BEFORE: a free that is the first at its address; ALLOCATION_LOST: a
    free of what is free already."""

    partner: Int32s
    fate: npt.NDArray[np.uint8]


def match(
    is_allocation: npt.NDArray[np.bool_],
    address: Int64s,
    bounds: Int64s,
    known: npt.NDArray[np.bool_] | None = None,
    keep_first: bool = False,
) -> Matches:
    """Matches events of several allocators, each's from one of ``bounds`` to the next, in the order of time. ``known``:
    where the address is recorded. ``keep_first``: of two allocations of an address, one after the other, the second is
    passed over and is the one that is REPLACED, as XProf does it; else it ends the first."""
    partner = np.empty(len(address), np.int32)
    fate = np.empty(len(address), np.uint8)
    known_bits = None if known is None or known.all() else np.ascontiguousarray(known)
    memory_kernels.match_allocations(
        np.ascontiguousarray(is_allocation),
        np.ascontiguousarray(address),
        known_bits,
        bounds,
        keep_first,
        partner,
        fate,
    )
    return Matches(partner, fate)


@once
def matches(events: MemoryEvents) -> Matches:
    """Those of all events."""
    return match(events.is_allocation, events.address, events.bounds, events.has(ADDRESS))


def allocating_site(events: MemoryEvents) -> Int32s:
    """What the memory of each event is for: of a free, the site of its allocation, -1 where that is not there. A free
    itself says who frees."""
    partner = matches(events).partner
    site: Int32s = np.where(events.is_allocation, events.site, np.where(partner >= 0, events.site[partner], -1))
    return site.astype(np.int32)


@once
def moved_bytes(events: MemoryEvents) -> Int64s:
    """How much memory each event takes or gives back: its allocation_bytes, of a free else those of its allocation,
    else how much less the heap holds than at the event before, where all other events of the allocator agree with the
    heap; -1: not known."""
    recorded = events.has(ALLOCATION)
    moved: Int64s = np.where(recorded, events.allocation_bytes, -1)
    if recorded.all():
        return moved
    partner = matches(events).partner
    of_partner = ~recorded & (partner >= 0)
    moved[of_partner] = moved[partner[of_partner]]
    change, known = heap_change(events)
    for number in range(len(events.allocators)):
        within = events.of_allocator(number)
        mine, recorded, changes = moved[within], known[within], change[within]
        by_event = np.where(events.is_allocation[within], mine, -mine)
        if not (recorded & (mine >= 0) & (changes != by_event)).any():
            fell = recorded & (mine < 0) & ~events.is_allocation[within] & (changes < 0)
            mine[fell] = -changes[fell]
    return moved


def heap_change(events: MemoryEvents) -> tuple[Int64s, npt.NDArray[np.bool_]]:
    """How much more the heap holds after each event than after the one before, and whether both record it."""
    heap, recorded = events.heap_bytes, events.has(HEAP)
    change = np.zeros(len(events), np.int64)
    known = np.zeros(len(events), np.bool_)
    change[1:] = heap[1:] - heap[:-1]
    known[1:] = recorded[1:] & recorded[:-1]
    known[events.bounds[:-1]] = False
    return change, known


@once
def breaks(events: MemoryEvents) -> npt.NDArray[np.bool_]:
    """Where the heap is not what the event makes of the heap before: events in between are missing, or were written in
    another order than they happened."""
    change, known = heap_change(events)
    moved = moved_bytes(events)
    expected = np.where(events.is_allocation, moved, -moved)
    found: npt.NDArray[np.bool_] = known & (moved >= 0) & (change != expected)
    return found
