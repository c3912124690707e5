"""Types of the compiled module."""

from typing import final

from fastprof.schema.columns import Flags, Int32s, Int64s, Records, UInt16s, UInt32s

COARSEST: int
UNSORTED: int
BAD_NAME: int

def lanes(start: Int64s, duration: Int64s, lane: UInt16s) -> int: ...

@final
class Group:
    def __new__(cls, at: int, names: int, start: Int64s, duration: Int64s, name: UInt32s, event: UInt32s) -> Group: ...
    def add(self, track: int, start: Int64s, duration: Int64s, name: Int32s, row: int) -> int: ...
    def lanes(self) -> bytes: ...
    def levels(self) -> bytes: ...
    def slices(self) -> memoryview: ...

@final
class Lod:
    def __new__(
        cls,
        start: Int64s,
        duration: Int64s,
        name: UInt32s,
        event: UInt32s,
        lanes: Records,
        levels: Records,
        slices: Records,
        names: int,
    ) -> Lod: ...
    def sums(self, lanes: UInt32s, start: int, last: int) -> bytes: ...
    def run_sums(self, at: int, count: int) -> bytes: ...
    def hits(self, lanes: UInt32s, wanted: Flags, out: Int64s) -> None: ...
    def next_hit(
        self, lanes: UInt32s, wanted: Flags, start: int, track: int, lane: int, forward: bool
    ) -> int | None: ...
    def hits_before(self, lanes: UInt32s, wanted: Flags, start: int, track: int, lane: int) -> int: ...
    def lane_of(self, at: int) -> int: ...
    def parent(self, at: int) -> int | None: ...
    def children(self, at: int, children: UInt32s, effort: int) -> int: ...

@final
class Tile:
    def add(
        self,
        lod: Lod,
        lanes: UInt32s,
        tracks: UInt32s,
        level: int,
        start: int,
        last: int,
        origin: int,
        shift: float,
        at: int,
        name: int,
    ) -> None: ...
    def packed(self, level: int, index: int) -> bytes: ...
