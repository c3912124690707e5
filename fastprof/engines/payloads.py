"""What workers packed, until it is looked at: the first of it in memory, the rest in a temporary file."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from fastprof.engines.host_task import Kept, Packed
from fastprof.inputs.spill import Piece, Spill

_IN_MEMORY: Final = 32 << 20


class Payloads:
    """Of one round of tasks. What is in memory is forgotten when it is taken."""

    def __init__(self) -> None:
        self._held: dict[Piece, bytes] = {}
        self._spill = Spill()
        self._size = 0

    def stored(self, kept: Kept) -> Kept:
        """What a worker returned, with its bytes here."""
        alone = None if kept.alone is None else self._stored(kept.alone)
        each = tuple({name: self._stored(one) for name, one in of_host.items()} for of_host in kept.each)
        payload = self.put(kept.payload) if isinstance(kept.payload, bytes) else kept.payload
        return replace(kept, payload=payload, alone=alone, each=each)

    def _stored(self, one: Packed) -> Packed:
        return replace(one, payload=self.put(one.payload)) if isinstance(one.payload, bytes) else one

    def put(self, data: bytes) -> Piece:
        """Where it is. UnreadableError: the disk has no room for it."""
        if self._size + len(data) > _IN_MEMORY:
            return self._spill.write(data)
        self._size += len(data)
        piece = Piece(-self._size, len(data))  # below the file
        self._held[piece] = data
        return piece

    def read(self, piece: Piece) -> bytes:
        return self._held[piece] if piece.offset < 0 else self._spill.read(piece)

    def take(self, piece: Piece) -> bytes:
        return self._held.pop(piece) if piece.offset < 0 else self._spill.read(piece)
