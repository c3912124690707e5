"""Types of the compiled module. Buffers are anything with the buffer protocol."""

from typing import Any, TypeAlias

Buffer: TypeAlias = Any

EVENT_TYPES: int

def step_time(
    group: Buffer,
    type: Buffer,
    start: Buffer,
    duration: Buffer,
    lines: Buffer | None,
    clip: Buffer | None,
    total: Buffer,
    clipped: Buffer | None,
    seen: Buffer,
) -> None: ...
def placed(
    begin: Buffer,
    end: Buffer,
    upto: Buffer,
    value: Buffer,
    start: Buffer,
    duration: Buffer,
    overlapping: bool,
    found: Buffer,
) -> None: ...
