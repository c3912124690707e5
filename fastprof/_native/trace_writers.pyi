"""Types of the compiled module."""

from typing import final

from _typeshed import ReadableBuffer

from fastprof.schema.columns import Flags, Float64s, Int32s, Int64s, Records

SIZES: dict[str, int]

@final
class Texts:
    def __new__(cls, offsets: Int64s, data: ReadableBuffer) -> Texts: ...
    def __len__(self) -> int: ...

@final
class Stats:
    def __new__(cls, name: Int32s, kind: Flags, int_value: Int64s, double_value: Float64s, text: Int32s) -> Stats: ...
    def __len__(self) -> int: ...

@final
class Kinds:
    def __new__(
        cls, name: Int32s, long_name: Int32s, names: Texts, name_base: int, shared: Stats, first: Int64s
    ) -> Kinds: ...

@final
class Batch:
    def __new__(
        cls,
        event_id: Int64s,
        start_ps: Int64s,
        duration_ps: Int64s,
        track: Int32s,
        meta: Int32s,
        kinds: Kinds,
        stat_event: Int64s,
        stats: Stats,
        added_event: Int64s,
        added: Stats,
        texts: Texts,
        lasting_texts: int,
        renamed: tuple[Int64s, Int32s],
        flows: tuple[Int64s, Int64s, Flags, Int32s],
    ) -> Batch: ...
    def __len__(self) -> int: ...

@final
class JsonWriter:
    def host(
        self, processes: Records, tracks: Records, titles: Texts, spare_tid: int, spare_end: int, shift_ps: int
    ) -> bytes: ...
    def events(self, batch: Batch) -> bytes: ...
    def counter(self, track: int, times: Int64s, values: Float64s, is_double: bool, is_bytes: bool) -> bytes: ...
    def end(self) -> bytes: ...

@final
class PerfettoWriter:
    def begin(self, start_unix_ns: int) -> bytes: ...
    def host(
        self, processes: Records, tracks: Records, titles: Texts, spare_tid: int, spare_end: int, shift_ps: int
    ) -> bytes: ...
    def events(self, batch: Batch) -> bytes: ...
    def counter(self, track: int, times: Int64s, values: Float64s, is_double: bool, is_bytes: bool) -> bytes: ...
    def end(self) -> bytes: ...
