"""Types of the compiled module."""

from fastprof.schema.columns import Flags, Int32s, Int64s, Records, UInt8s

SIZES: dict[str, int]

def foremost(given_spans: Records, first: int, last: int) -> memoryview: ...
def foremost_reasons(
    events: tuple[Int64s, Int64s, UInt8s],
    powers: Flags,
    threads: Records,
    ranks: UInt8s,
    open_times: Int64s,
    first: int,
    last: int,
) -> memoryview: ...
def event_writers(
    events: tuple[UInt8s, Int32s, Int32s],
    threads: Records,
    of_kind: Flags,
    ours_theirs: tuple[int, int],
    writer: UInt8s,
    met: Flags,
    writers: int,
) -> None: ...
def of_writer_and_name(
    writer: UInt8s, name: Int32s, threads: Records, table: UInt8s, writers: int, out: UInt8s
) -> None: ...
def gap_pieces(
    device: tuple[Int64s, Int32s, Int64s | None, Int64s | None, Int64s | None, Int64s | None, Int64s | None],
    transfers: tuple[UInt8s, Int32s],
    host: tuple[Records, UInt8s, Int32s, int],
    busy: Int64s,
    steps: tuple[Int64s, Int64s],
    last: int,
    times: tuple[int, int],
    causes: tuple[int, int, int, int, int, int, int, int],
) -> memoryview: ...
def gap_sums(gaps: Records, name_of_row: Int32s, names: int) -> memoryview: ...
def longest_path(begin: Int32s, end: Int32s, weight: Int64s, reach: Int64s, via: Int32s) -> int: ...
