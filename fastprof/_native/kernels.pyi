"""Types of the compiled module. Buffers are anything with the buffer protocol."""

from typing import Any, TypeAlias

Buffer: TypeAlias = Any

class LineNesting:
    """The nesting of one line whose events come in stretches."""

    def push(
        self,
        start: Buffer,
        duration: Buffer,
        placement: Buffer | None,
        event_id: int,
        last: bool,
        depth: Buffer,
        parent_id: Buffer,
        self_time: Buffer,
    ) -> None: ...
    def late(self) -> bytes: ...

def nesting_lines(
    start: Buffer,
    duration: Buffer,
    placement: Buffer | None,
    lines: Buffer,
    depth: Buffer,
    parent_id: Buffer,
    self_time: Buffer,
) -> None: ...
def group_sums(groups: Buffer, value: Buffer, sums: Buffer) -> None: ...
def bitmap_of_codes(codes: Buffer, wanted: int) -> tuple[bytearray, int]: ...
def rank_order(length: Buffer, order: Buffer) -> None: ...
