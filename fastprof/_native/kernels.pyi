"""Types of the compiled module."""

from typing import final

from fastprof.schema.columns import Flags, Int32s, Int64s, Records, UInt8s

@final
class LineNesting:
    """The nesting of one line whose events come in stretches."""

    def __new__(cls, slack: int = 0) -> LineNesting: ...
    def push(
        self,
        start: Int64s,
        duration: Int64s,
        placement: Flags | None,
        event_id: int,
        last: bool,
        depth: Int32s,
        parent_id: Int64s,
        self_time: Int64s,
    ) -> None: ...
    def late(self) -> bytes: ...

def nesting_lines(
    start: Int64s,
    duration: Int64s,
    placement: Flags | None,
    lines: Records,
    depth: Int32s,
    parent_id: Int64s,
    self_time: Int64s,
    slack: int = 0,
) -> None: ...
def group_sums(groups: Int32s, value: Int64s, sums: Records) -> None: ...
def bitmap_of_codes(codes: Flags, wanted: int) -> tuple[UInt8s, int]: ...
def rank_order(length: Int64s, order: Int32s) -> None: ...
def input_walk(
    begins: Int64s, producer: Int64s, roots: Int64s, following: Int64s, path: Int64s, order: Int64s, depth: Int64s
) -> int: ...
def spans_union(start: Int64s, duration: Int64s) -> memoryview: ...
