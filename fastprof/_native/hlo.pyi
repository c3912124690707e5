"""Types of the compiled module."""

from typing import TypedDict

from _typeshed import ReadableBuffer

SIZES: dict[str, int]
"""Bytes of each struct, by the name of its type in columns.py."""

class _HloColumns(TypedDict):
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

def read_hlo(data: ReadableBuffer) -> _HloColumns: ...

BUFFER_SIZES: dict[str, int]
"""The same of program_memory.py."""

class _BufferColumns(TypedDict):
    is_there: bool
    buffers: bytes
    allocations: bytes
    assigned: bytes
    traces: bytes
    events: bytes
    indices: bytes
    texts: tuple[bytes, bytes]

def read_hlo_buffers(data: ReadableBuffer) -> _BufferColumns: ...
