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

from fastprof.inputs.message_bytes import CUT, BadMessageError, complete
from fastprof.inputs.message_columns import Buffer
from fastprof.schema.message_fields import put

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
    """Writes graphs one after the other. ``count``: graphs that were begun; ``faults``: what was salvaged from."""

    def __init__(self) -> None:
        self.count = 0
        self.faults: list[BadMessageError] = []
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

    def graph(self, kind: str, data: Buffer, at: int, salvage: bool) -> Iterator[bytes]:
        """All of a graph. BadMessageError: it is damaged; to salvage, what comes before the damage is there."""
        self.begin(kind, at)
        view = memoryview(data)
        try:
            for first in range(0, len(view), _PIECE):
                yield self.push(view[first : first + _PIECE])
            self.check_end()
        except BadMessageError as fault:
            if not salvage:
                raise
            self.faults.append(fault)
        yield self.end()

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
            self._whole, self._wanted = complete(self._held, self._whole, self._base)
        if self._whole >= _PIECE:
            yield self._taken()

    def rest(self) -> tuple[bytes, int]:
        """The fields that are complete."""
        return self._taken()

    def check_end(self) -> None:
        if self._whole < len(self._held):
            raise BadMessageError(CUT, self._base + self._whole)

    def _taken(self) -> tuple[bytes, int]:
        piece, at = bytes(memoryview(self._held)[: self._whole]), self._base
        del self._held[: self._whole]
        self._base += self._whole
        self._wanted -= self._whole
        self._whole = 0
        return piece, at
