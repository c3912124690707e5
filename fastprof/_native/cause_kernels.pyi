"""Types of the compiled module."""

from fastprof.schema.array_types import Flags, Int32s, Int64s, Records

SIZES: dict[str, int]

def foremost(begin: Int64s, end: Int64s, rank: Int32s, first: int, last: int) -> bytes: ...
def reasons(start: Int64s, duration: Int64s, codes: Flags, powers: Flags, lines: Records) -> bytes: ...
