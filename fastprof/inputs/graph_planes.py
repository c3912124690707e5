"""Graphs of TensorFlow as planes of an XSpace, in which each graph stays as it was written.

A graph is cut between its fields, which are its nodes, into pieces of about a megabyte. Each is the stat ``graph_def``
of an event metadata, so that one piece is read at a time; all pieces of a graph one after the other are the graph.

    plane "TensorFlow graphs"
      event metadata 1  "graph"       graph 0   graph_def  node node node ...
      event metadata 2  "graph"       graph 0   graph_def  node node library
      event metadata 3  "partition"   graph 1   graph_def  node ...
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from fastprof.inputs.message_bytes import BadMessageError
from fastprof.inputs.message_columns import Buffer
from fastprof.schema.message_fields import BYTES, FIXED32, FIXED64, VARINT, put

PLANE: Final = "TensorFlow graphs"
STATS: Final = ("graph", "graph_def", "offset")
"""Of a piece: the number of its graph, its bytes, and where they lie in the file."""
_NUMBER, _BYTES, _OFFSET = 1, 2, 3
_PLANE_ID: Final = 0x6772_6170
_PIECE: Final = 1 << 20
_NAMES: Final = b"".join(
    put(5, put(1, number) + put(2, put(1, number) + put(2, name))) for number, name in enumerate(STATS, 1)
)


class GraphPlanes:
    """Writes graphs one after the other. ``count``: graphs that were begun."""

    def __init__(self) -> None:
        self.count = 0
        self._kind = ""
        self._pieces = 0
        self._fields = FieldCutter(0)

    def begin(self, kind: str, at: int) -> None:
        """The next graph; ``at``: where it begins in the file."""
        self._kind = kind
        self._fields = FieldCutter(at)
        self.count += 1

    def push(self, data: Buffer) -> bytes:
        """More of it. BadMessageError: a field is damaged."""
        return b"".join(self._piece(piece, at) for piece, at in self._fields.push(data))

    def end(self) -> bytes:
        """The rest of it; a graph without nodes is one, too."""
        rest, at = self._fields.rest()
        return self._piece(rest, at)

    def check_end(self) -> None:
        """BadMessageError: it ends within a field."""
        self._fields.check_end()

    def graph(self, kind: str, data: Buffer, at: int) -> bytes:
        """All of a graph. BadMessageError: it is damaged."""
        self.begin(kind, at)
        view = memoryview(data)
        pieces = [self.push(view[first : first + _PIECE]) for first in range(0, len(view), _PIECE)]
        self.check_end()
        return b"".join((*pieces, self.end()))

    def _piece(self, data: bytes, at: int) -> bytes:
        self._pieces += 1
        stats = (
            put(5, put(1, _NUMBER) + put(4, self.count - 1))
            + put(5, put(1, _BYTES) + put(6, data))
            + put(5, put(1, _OFFSET) + put(4, at))
        )
        metadata = put(1, self._pieces) + put(2, self._kind) + stats
        entry = put(4, put(1, self._pieces) + put(2, metadata))
        return put(1, put(1, _PLANE_ID) + put(2, PLANE) + entry + _NAMES)


class FieldCutter:
    """Cuts a message that comes in chunks between its fields. It holds one piece, or one field if that is longer."""

    def __init__(self, base: int) -> None:
        self._held = bytearray()
        self._base = base
        self._whole = 0
        """Bytes that are complete fields."""
        self._wanted = 0
        """Bytes by which the next field is complete."""

    def push(self, data: Buffer) -> Iterator[tuple[bytes, int]]:
        """Pieces, and where they begin in the file."""
        self._held += data
        if len(self._held) >= self._wanted:
            self._whole, self._wanted = _complete(self._held, self._whole, self._base)
        if self._whole >= _PIECE:
            yield self._taken()

    def rest(self) -> tuple[bytes, int]:
        """The fields that are complete."""
        return self._taken()

    def check_end(self) -> None:
        if self._whole < len(self._held):
            raise BadMessageError("the message ends within a field", self._base + self._whole)

    def _taken(self) -> tuple[bytes, int]:
        piece, at = bytes(memoryview(self._held)[: self._whole]), self._base
        del self._held[: self._whole]
        self._base += self._whole
        self._wanted -= self._whole
        self._whole = 0
        return piece, at


def _complete(data: bytearray, at: int, base: int) -> tuple[int, int]:
    """From a field on: where the last one that is complete ends, and how many bytes the next needs at least."""
    size = len(data)
    while at < size:
        tag, after = _varint(data, at, base)
        kind = tag & 7
        if kind == BYTES and after:
            length, after = _varint(data, after, base)
            after += length if after else 0
        elif kind == VARINT and after:
            after = _varint(data, after, base)[1]
        elif after and kind in (FIXED32, FIXED64):
            after += 4 if kind == FIXED32 else 8
        elif after:
            raise BadMessageError(f"a field of wire type {kind}", base + at)
        if not after:
            return at, size + 1
        if after > size:
            return at, after
        at = after
    return at, size + 1


def _varint(data: bytearray, at: int, base: int) -> tuple[int, int]:
    """The number and where it ends; 0: not in the data."""
    if at < len(data) and data[at] < 0x80:
        return data[at], at + 1
    value = 0
    for place, byte in enumerate(data[at : at + 10]):
        value |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return value, at + place + 1
    if len(data) - at >= 10:
        raise BadMessageError("an integer has no end", base + at)
    return 0, 0
