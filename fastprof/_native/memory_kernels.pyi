"""Types of the compiled module."""

from collections.abc import Sequence
from typing import TypedDict

from fastprof.schema.columns import Flags, Float64s, Int32s, Int64s, UInt16s

UNKNOWN: int
FREED: int
HELD_AT_END: int
REPLACED: int
HELD_BEFORE: int
ALLOCATION_LOST: int

def stat_beside(
    row: Int32s,
    kind: Flags,
    value: Int64s,
    rows: Int32s,
    place: Int32s,
    kinds: Sequence[int],
    values: Int64s,
    recorded: UInt16s,
    odd: UInt16s,
    bit: int,
    doubles: bool,
) -> bool: ...
def match_allocations(
    is_allocation: Flags,
    address: Int64s,
    known: Flags | None,
    bounds: Int64s,
    keep_first: bool,
    partner: Int32s,
    fate: Flags,
) -> None: ...
def known_chunks(
    is_allocation: Flags,
    held_before: Flags,
    address: Int64s,
    size: Int64s,
    request: Int64s,
    bounds: Int64s,
    first: int,
    last: int,
    known: Int64s,
    chunks: Int64s,
    fitting: Int64s,
    too_small: Int64s,
) -> None: ...
def bound_free_memory(
    is_allocation: Flags,
    fragmentation: Float64s,
    free_bytes: Int64s,
    heap: Int64s,
    stack: Int64s,
    recorded: UInt16s,
    free_bit: int,
    heap_bit: int,
    moved: Int64s,
    request: Int64s,
    bounds: Int64s,
    first: int,
    last: int,
    known: Int64s,
    chunks: Int64s,
    fitting: Int64s,
    too_small: Int64s,
    largest_low: Int64s,
    largest_high: Int64s,
    too_small_least: Int64s,
    too_small_most: Int64s,
    taken_low: Int64s,
    taken_high: Int64s,
    grows: Flags,
) -> None: ...
def range_peaks(values: Int64s, first: Int64s, last: Int64s, peak: Int64s) -> None: ...
def following_peaks(values: Int64s, bounds: Int64s, peak: Int32s) -> None: ...

class _HeapPeak(TypedDict):
    bytes: int
    unpadded: int
    event: int
    alive: int
    passed_over: int

def heap_trace(
    kind: Int32s,
    buffer: Int32s,
    canonical: Int32s,
    size: Int64s,
    unpadded: Int64s,
    heap: Int64s,
    unpadded_heap: Int64s,
    start: Int32s,
    end: Int32s,
    held: Int32s,
    freed: Int32s,
    root: Int32s,
    alive: Int32s,
    shown: Int32s,
) -> _HeapPeak: ...
