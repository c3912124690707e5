"""Types of the compiled module. Buffers are anything with the buffer protocol."""

from typing import Any, TypeAlias

Buffer: TypeAlias = Any

SIZES: dict[str, int]

def host_ops_sum(
    start: Buffer,
    duration: Buffer,
    meta: Buffer,
    op_of_meta: Buffer,
    eager: Buffer | None,
    instead: Buffer,
    beside: Buffer,
    enqueues: Buffer,
    stacked: bool,
    lines: Buffer,
    sums: Buffer,
) -> None: ...

SELF_DONE: int
SELF_CROSSED: int

def self_times(start: Buffer, duration: Buffer, lines: Buffer, self_time: Buffer, stacked: Buffer | None) -> int: ...
def innermost_time(start: Buffer, duration: Buffer, marks: Buffer, bits: int, lines: Buffer) -> int: ...
def extent(start: Buffer, duration: Buffer) -> tuple[int, int] | None: ...
