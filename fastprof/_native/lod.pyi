"""Types of the compiled module. Buffers are anything with the buffer protocol."""

from typing import Any, TypeAlias

Buffer: TypeAlias = Any

COARSEST: int
UNSORTED: int
BAD_NAME: int

def lanes(start: Buffer, duration: Buffer, lane: Buffer) -> int: ...

class Group:
    def __init__(self, at: int, names: int, start: Buffer, duration: Buffer, name: Buffer, event: Buffer) -> None: ...
    def add(self, track: int, start: Buffer, duration: Buffer, name: Buffer, row: int) -> int: ...
    def lanes(self) -> bytes: ...
    def levels(self) -> bytes: ...
    def slices(self) -> bytes: ...

class Lod:
    def __init__(
        self,
        start: Buffer,
        duration: Buffer,
        name: Buffer,
        event: Buffer,
        lanes: Buffer,
        levels: Buffer,
        slices: Buffer,
        names: int,
    ) -> None: ...
    def sums(self, lanes: Buffer, start: int, last: int) -> bytes: ...
    def run_sums(self, at: int, count: int) -> bytes: ...
    def hits(self, lanes: Buffer, wanted: Buffer, out: Buffer) -> None: ...
    def next_hit(
        self, lanes: Buffer, wanted: Buffer, start: int, track: int, lane: int, forward: bool
    ) -> int | None: ...
    def hits_before(self, lanes: Buffer, wanted: Buffer, start: int, track: int, lane: int) -> int: ...
    def lane_of(self, at: int) -> int: ...
    def parent(self, at: int) -> int | None: ...
    def children(self, at: int, children: Buffer, effort: int) -> int: ...

class Tile:
    def add(
        self,
        lod: Lod,
        lanes: Buffer,
        tracks: Buffer,
        level: int,
        start: int,
        last: int,
        origin: int,
        shift: float,
        at: int,
        name: int,
    ) -> None: ...
    def packed(self, level: int, index: int) -> bytes: ...
