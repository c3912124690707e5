"""Types of the compiled module."""

from fastprof.schema.columns import Flags, Int64s, Records

SIZES: dict[str, int]
MOST_KINDS: int
SUM_KINDS: int

def innermost_stretches(
    start: Int64s, duration: Int64s, marks: Flags, lines: Records
) -> tuple[memoryview, memoryview]: ...
def overlaps(work: Records, transfers: Records, by_end: Int64s, times: Int64s, sums: Int64s, kinds: int) -> None: ...
