"""Types of the compiled module. Buffers are anything with the buffer protocol."""

from typing import Any, TypeAlias

Buffer: TypeAlias = Any

DERIVED_LEVELS: int

class DerivedLine:
    """A line derived from events."""

    def __init__(
        self,
        start: Buffer,
        duration: Buffer,
        group: Buffer,
        names: Buffer,
        name_lists: tuple[Buffer, Buffer],
        scopes: Buffer | None,
        scope_lists: tuple[Buffer, Buffer] | None,
        closed: Buffer | None,
        over_gaps: bool,
        close: bool,
    ) -> None: ...
    def count(self) -> int: ...
    def fill(
        self, start: Buffer, duration: Buffer, name: Buffer, group: Buffer, closes: Buffer, deepest: Buffer
    ) -> None: ...

def offloads(
    begin: Buffer,
    end: Buffer,
    key: Buffer,
    starts: Buffer,
    keys: int,
    start_at: Buffer,
    end_at: Buffer,
    row: Buffer,
) -> int: ...
