"""Types of the compiled module."""

from fastprof.schema.array_types import Int64s, Records

def crc32c(data: bytes | memoryview) -> int: ...
def riegeli_hash(data: bytes | memoryview) -> int: ...
def transposed(
    nodes: Records,
    first: int,
    is_first_implicit: bool,
    values: bytes,
    bounds: Int64s,
    transitions: bytes | memoryview,
    size: int,
    begins: Int64s,
) -> bytes: ...
