"""Types of the compiled module."""

from collections.abc import Sequence
from typing import final

from fastprof.schema.columns import Flags, Int32s, Int64s, Records

def key_numbers(columns: Sequence[Int64s], numbers: Int32s) -> int: ...
def parents(
    start: Int64s,
    duration: Int64s,
    apart: Flags | None,
    regions: Int64s,
    lines: Int64s,
    parent: Int32s,
    slack: int = 0,
) -> None: ...

@final
class EventGraph:
    """Events, what encloses them, and links between them."""

    def __new__(cls, parent: Int32s, producers: Records, consumers: Records, link_count: int) -> EventGraph: ...
    def nearest_above(self, marks: Flags, bits: int, rows: Int32s, nearest: Int32s) -> None: ...
    def nearest_above_all(self, marks: Flags, bits: int, nearest: Int32s) -> None: ...
    def group(
        self, roots: Int32s, level: Int32s | None, first_group: int, group: Int32s
    ) -> tuple[memoryview, memoryview]: ...
