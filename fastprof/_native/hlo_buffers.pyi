"""Types of the compiled module. Structs are those of fastprof/hlo/buffers.py."""

from typing import Any, TypeAlias, TypedDict

Buffer: TypeAlias = Any

SIZES: dict[str, int]
"""Bytes of each struct, by the name of its type in buffers.py."""

class BufferColumns(TypedDict):
    is_there: bool
    buffers: bytes
    allocations: bytes
    assigned: bytes
    traces: bytes
    events: bytes
    indices: bytes
    texts: tuple[bytes, bytes]

def read_hlo_buffers(data: Buffer) -> BufferColumns: ...
