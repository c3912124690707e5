"""Types of the compiled module."""

from fastprof.schema.columns import Flags, Int32s, Int64s

EVENT_TYPES: int

def step_time(
    group: Int32s,
    type: Flags,
    start: Int64s,
    duration: Int64s,
    lines: Int64s | None,
    clip: Int64s | None,
    total: Int64s,
    clipped: Int64s | None,
    seen: Flags,
) -> None: ...
def placed(
    begin: Int64s,
    end: Int64s,
    upto: Int64s,
    value: Int32s,
    start: Int64s,
    duration: Int64s,
    overlapping: bool,
    found: Int32s,
) -> None: ...
