"""Types of the compiled module."""

from typing import final

from _typeshed import ReadableBuffer

from fastprof.schema.columns import Flags, Float64s, Int32s, Int64s, UInt32s, UInt64s

_Pair = tuple[Int64s, ReadableBuffer]

@final
class Texts:
    """Held for the writers."""

    def __new__(cls, pair: _Pair) -> Texts: ...

@final
class Drawn:
    def __new__(
        cls, start: UInt64s, duration: UInt64s, name: Int32s, names: _Pair, tracks: Int64s, pid: UInt32s, tid: UInt32s
    ) -> Drawn: ...

@final
class Marks:
    def __new__(cls, visible: Flags, group: Int32s, serial: UInt32s, flow: UInt64s) -> Marks: ...

@final
class NamedValues:
    def __new__(
        cls, first: Int64s, key: Int32s, kind: Flags, value: Int64s, real: Float64s | None, text: Int32s, texts: _Pair
    ) -> NamedValues: ...

@final
class Writer:
    def __new__(cls, most_text: int = ...) -> Writer: ...
    @property
    def cut(self) -> int: ...
    def drawn(
        self, events: Drawn, marks: Marks, place: tuple[int, int], most: int
    ) -> tuple[bytes, tuple[int, int]]: ...
    def flights(self, events: Drawn, marks: Marks, track: int) -> bytes: ...
    def complete(
        self,
        events: Drawn,
        kept: Flags,
        keys: _Pair,
        meta: Int32s,
        of_meta: NamedValues,
        own: NamedValues,
        found: NamedValues,
        place: tuple[int, int],
        most: int,
    ) -> tuple[bytes, tuple[int, int]]: ...
    def points(self, start: UInt64s, values: NamedValues, count: int) -> bytes: ...
    def text(self, text: bytes) -> bytes: ...

def gnu_hash(text: bytes) -> int: ...
