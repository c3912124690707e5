"""Types of the compiled module."""

from fastprof.schema.columns import Flags, Int32s, Int64s, Records

SIZES: dict[str, int]

def host_ops_sum(
    start: Int64s,
    duration: Int64s,
    meta: Int32s,
    op_of_meta: Int32s,
    eager: Flags | None,
    instead: Records,
    beside: Records,
    enqueues: Flags,
    stacked: bool,
    lines: Records,
    sums: Records,
) -> None: ...

SELF_DONE: int
SELF_CROSSED: int

def self_times(start: Int64s, duration: Int64s, lines: Records, self_time: Int64s, stacked: Int64s | None) -> int: ...
def innermost_time(start: Int64s, duration: Int64s, marks: Flags, bits: int, lines: Records) -> int: ...
def extent(start: Int64s, duration: Int64s) -> tuple[int, int] | None: ...
