"""Types of the compiled module; structs are those of records.py."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol, final, overload

import numpy.typing as npt
from _typeshed import ReadableBuffer

from fastprof.schema.columns import Flags, Int32s, Int64s, Records, UInt8s, UInt64s

_Faults = list[tuple[str, str, str, int, int]]
"""Code, sentence, what was being read, count, first offset."""

SIZES: dict[str, int]
"""Bytes of each struct, by the name of its type in records.py."""

TOO_MANY: tuple[str, str]
"""Code and sentence of messages that take too much memory for the size of their capture."""

@final
class Memory:
    """Where the core allocates from; counts blocks, and fails on demand, for tests."""

    @property
    def live(self) -> int: ...
    def fail_after(self, allocations: int) -> None: ...

@final
class Pool:
    """Distinct texts, numbered in the order in which they were first met."""

    def __new__(cls, memory: Memory) -> Pool: ...
    def __len__(self) -> int: ...
    def add(self, text: bytes) -> int: ...
    def find(self, text: bytes) -> int: ...
    def add_all(self, offsets: Int64s, data: ReadableBuffer) -> bytearray: ...
    def arrow_buffers(self) -> tuple[bytes, bytes]: ...

class _File(Protocol):
    """What a file is read through. ``begin`` returns a descriptor; ``end`` raises ChangedError if the file changed.
    ``fetch``, unless None, gets bytes of the file before they are read."""

    @property
    def fetch(self) -> Callable[[int, int], None] | None: ...
    def begin(self) -> int: ...
    def end(self) -> None: ...

@final
class Window:
    """A buffer for stretches of files. One call has it at a time; a Memory keeps those that none has."""

@final
class Bytes:
    """The bytes of a capture: in memory, or ``size`` bytes in a file, in parts that stand anywhere in it."""

    size: int
    @overload
    def __new__(cls, data: ReadableBuffer) -> Bytes: ...
    @overload
    def __new__(cls, data: _File, size: int, parts: Records | None = None) -> Bytes: ...

@final
class Scanner:
    """Finds where the planes, lines, name tables and stats of an XSpace lie, in pushed bytes."""

    path: str
    def __new__(cls, memory: Memory, path: str, salvage: bool = False, most_held: int = 0) -> Scanner: ...
    def push(self, chunk: ReadableBuffer) -> None: ...
    def read(self, data: Bytes) -> None: ...
    def finish(self) -> None: ...
    def parts(self) -> bytes: ...
    def spans(self, kind: int) -> bytes: ...
    def faults(self) -> _Faults: ...

@final
class Filter:
    """Which events a fill keeps: by a byte per event metadata, and by time."""

    def __new__(cls, keep_meta: Flags | None, keep_unnamed: bool, time_ps: tuple[int, int] | None) -> Filter: ...

@final
class Picks:
    """Columns of picked stats, which grow while sinks write into them, one after the other."""

    stat_count: int
    memory: Memory
    def __new__(cls, memory: Memory, stat_count: int) -> Picks: ...
    def counts(self) -> list[int]: ...
    def clear(self) -> None: ...
    def copy(
        self,
        stat: int,
        at: int,
        rows: Int32s,
        kinds: Flags,
        values: Int64s,
        own_numbers: Int32s | None = None,
        text_base: int = 0,
    ) -> None: ...

@final
class Sink:
    """The columns that one fill writes into, and what it adds: texts, places of bytes, faults."""

    unnamed: int
    picks: Picks | None
    def __new__(
        cls,
        memory: Memory,
        columns: dict[str, npt.NDArray[Any]],
        tables: dict[str, npt.NDArray[Any]],
        filter: Filter | None = None,
        wide: Sequence[tuple[UInt8s, Int64s, UInt8s | None, Int64s | None]] = (),
        text_base: int = 0,
        want_stats: bool = False,
        picks: Picks | None = None,
    ) -> Sink: ...
    def texts(self) -> tuple[bytes, bytes]: ...
    def bytes_at(self) -> bytes: ...
    def faults(self) -> _Faults: ...

@final
class XSpace:
    """A capture: the bytes and its name tables. Holds on to the bytes."""

    path: str
    def __new__(cls, scanner: Scanner, data: Bytes | ReadableBuffer, salvage: bool = False) -> XSpace: ...
    def hold(self, count: int, item_size: int) -> int:
        """Count the memory of items, as many as may be held of the capture; return how many these are."""

    def copies(self, offsets: UInt64s, lengths: UInt64s) -> list[bytes]:
        """Copies of the bytes at these places."""
    def event_metas(self) -> memoryview: ...
    def stat_metas(self) -> bytes: ...
    def meta_stats(self) -> memoryview: ...
    def children(self) -> memoryview: ...
    def faults(self) -> _Faults: ...
    def forked(self) -> XSpace:
        """The same capture, with stat metadata of its own: what is declared there is unknown here."""
    def declare_stats(self, part: int, ids: Int64s) -> None: ...
    def intern(self, offsets: UInt64s, lengths: UInt64s, what: bytes, pool: Pool) -> tuple[bytearray, _Faults]: ...
    def index(
        self,
        pieces: Records,
        first: int,
        last: int,
        depth: int,
        segment_size: int,
        start: int | None = None,
        budget: int = ...,
    ) -> tuple[bytes, bytes, bytes, _Faults, int]: ...
    def fill(self, pieces: Records, segments: Records, sink: Sink) -> None: ...
    def count_kept(self, pieces: Records, segments: Records, filter: Filter, stats: bool) -> None: ...
    def event_keys(self, pieces: Records, segment: Records, keys: Records, filter: Filter | None = None) -> None: ...
    def order_keys(self, keys: Records) -> None: ...
    def fill_keys(
        self,
        pieces: Records,
        keys: Records,
        event_ids: Int64s,
        row: int,
        stat_row: int,
        stat_row_end: int,
        sink: Sink,
    ) -> None: ...
    def unknown_in_spans(self, spans: Records, parts: Int64s) -> bytes: ...
    def fill_spans(self, spans: Records, parts: Int64s, stat_ids: Int64s, sink: Sink) -> None: ...
