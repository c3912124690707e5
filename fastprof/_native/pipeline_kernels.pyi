"""Types of the compiled module. Buffers are anything with the buffer protocol."""

from typing import Any, TypeAlias

Buffer: TypeAlias = Any

SELF_PARTS: int

def marked_rows(parent: Buffer, marks: Buffer, kept: Buffer, above: Buffer, around: Buffer, number: Buffer) -> None: ...
def nearest_marked(parent: Buffer, marks: Buffer, bits: int, nearest: Buffer) -> None: ...
def preorder(parent: Buffer, roots: Buffer, order: Buffer, depth: Buffer) -> int: ...
def pipeline_calls(
    events: tuple[Buffer, Buffer, Buffer, Buffer],
    own_part: Buffer,
    activities: Buffer,
    calls: tuple[Buffer, Buffer, Buffer],
) -> tuple[bytes, bytes, bytes]: ...
def pipeline_paths(
    events: tuple[Buffer, Buffer, Buffer, Buffer],
    iterator_count: int,
    links: tuple[Buffer, Buffer, Buffer, Buffer],
    roots: Buffer,
    most_visits: int,
) -> bytes | None: ...
