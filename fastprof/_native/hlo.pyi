"""Types of the compiled module. Structs are those of fastprof/hlo/columns.py."""

from typing import Any, TypeAlias, TypedDict

Buffer: TypeAlias = Any

SIZES: dict[str, int]
"""Bytes of each struct, by the name of its type in columns.py."""

class HloColumns(TypedDict):
    id: int
    name: int
    entry: int
    is_scheduled: bool
    module: tuple[int, int]
    computations: bytes
    instructions: bytes
    shapes: bytes
    tiles: bytes
    frames: bytes
    operands: bytes
    calls: bytes
    scheduled: bytes
    dimensions: bytes
    minor_to_major: bytes
    tile_dimensions: bytes
    texts: tuple[bytes, bytes]

def read_hlo(data: Buffer) -> HloColumns: ...
