"""Types of the compiled module. Buffers are anything with the buffer protocol."""

from collections.abc import Sequence
from typing import Any, TypeAlias, TypedDict

Buffer: TypeAlias = Any

UNKNOWN: int
FREED: int
HELD_AT_END: int
REPLACED: int
HELD_BEFORE: int
ALLOCATION_LOST: int

def stat_beside(
    row: Buffer,
    kind: Buffer,
    value: Buffer,
    rows: Buffer,
    place: Buffer,
    kinds: Sequence[int],
    values: Buffer,
    recorded: Buffer,
    odd: Buffer,
    bit: int,
    doubles: bool,
) -> bool: ...
def match_allocations(
    is_allocation: Buffer,
    address: Buffer,
    known: Buffer | None,
    bounds: Buffer,
    keep_first: bool,
    partner: Buffer,
    fate: Buffer,
) -> None: ...
def known_chunks(
    is_allocation: Buffer,
    held_before: Buffer,
    address: Buffer,
    size: Buffer,
    request: Buffer,
    bounds: Buffer,
    first: int,
    last: int,
    known: Buffer,
    chunks: Buffer,
    fitting: Buffer,
    too_small: Buffer,
) -> None: ...
def bound_free_memory(
    is_allocation: Buffer,
    fragmentation: Buffer,
    free_bytes: Buffer,
    heap: Buffer,
    stack: Buffer,
    recorded: Buffer,
    free_bit: int,
    heap_bit: int,
    moved: Buffer,
    request: Buffer,
    bounds: Buffer,
    first: int,
    last: int,
    known: Buffer,
    chunks: Buffer,
    fitting: Buffer,
    too_small: Buffer,
    largest_low: Buffer,
    largest_high: Buffer,
    too_small_least: Buffer,
    too_small_most: Buffer,
    taken_low: Buffer,
    taken_high: Buffer,
    grows: Buffer,
) -> None: ...
def range_peaks(values: Buffer, first: Buffer, last: Buffer, peak: Buffer) -> None: ...
def following_peaks(values: Buffer, bounds: Buffer, peak: Buffer) -> None: ...

class HeapPeak(TypedDict):
    bytes: int
    unpadded: int
    event: int
    alive: int
    passed_over: int

def heap_trace(
    kind: Buffer,
    buffer: Buffer,
    canonical: Buffer,
    size: Buffer,
    unpadded: Buffer,
    heap: Buffer,
    unpadded_heap: Buffer,
    start: Buffer,
    end: Buffer,
    held: Buffer,
    freed: Buffer,
    root: Buffer,
    alive: Buffer,
    shown: Buffer,
) -> HeapPeak: ...
