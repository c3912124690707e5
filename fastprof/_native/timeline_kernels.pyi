"""Types of the compiled module."""

from typing import final

from fastprof.schema.columns import Flags, Int32s, Int64s

DERIVED_LEVELS: int

@final
class DerivedLine:
    """A line derived from events."""

    def __new__(
        cls,
        start: Int64s,
        duration: Int64s,
        group: Int32s,
        names: Int32s,
        name_lists: tuple[Int64s, Int64s],
        scopes: Int32s | None,
        scope_lists: tuple[Int64s, Int64s] | None,
        closed: Flags | None,
        over_gaps: bool,
        close: bool,
    ) -> DerivedLine: ...
    def count(self) -> int: ...
    def fill(
        self, start: Int64s, duration: Int64s, name: Int64s, group: Int32s, closes: Flags, deepest: Int64s
    ) -> None: ...

def offloads(
    begin: Int64s,
    end: Int64s,
    key: Int32s,
    starts: Flags,
    keys: int,
    start_at: Int64s,
    end_at: Int64s,
    row: Int32s,
) -> int: ...
def time_order(start: Int64s, duration: Int64s, order: Int64s) -> None: ...
