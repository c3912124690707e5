"""Types of the compiled module."""

from typing import final

from fastprof.schema.columns import Int64s, Records

def crc32c(data: bytes | memoryview) -> int: ...
def riegeli_hash(data: bytes | memoryview) -> int: ...

@final
class RiegeliHash:
    """The hash of bytes that come in pieces. Not to be shared by threads."""

    def add(self, data: bytes | memoryview) -> None: ...
    def value(self) -> int:
        """Of the bytes by now."""

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
