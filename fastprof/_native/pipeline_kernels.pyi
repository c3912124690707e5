"""Types of the compiled module."""

from fastprof.schema.columns import Flags, Int32s, Int64s, Records, UInt32s

SELF_PARTS: int

def marked_rows(parent: Int32s, marks: Flags, kept: Int32s, above: Int32s, around: Int32s, number: Int32s) -> None: ...
def nearest_marked(parent: Int32s, marks: Flags, bits: int, nearest: Int32s) -> None: ...
def preorder(parent: Int32s, roots: Int32s, order: Int32s, depth: Int32s) -> int: ...
def pipeline_calls(
    events: tuple[Int64s, Int64s, Int32s, Int32s],
    own_part: Flags,
    activities: Records,
    calls: tuple[Int32s, Int32s, Flags],
) -> tuple[bytes, bytes, bytes]: ...
def pipeline_paths(
    events: tuple[Int64s, Int64s, Int32s, Int32s],
    iterator_count: int,
    links: tuple[UInt32s, UInt32s, Int32s, Int32s],
    roots: Int32s,
    most_visits: int,
    most_records: int,
) -> tuple[bytes, int, int] | None: ...
