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
        self.file = Spill()
        self._size = 0

    def stored(self, kept: Kept) -> Kept:
        """What a worker returned, with its bytes here."""
        packed, alone = (None if one is None else self._stored(one) for one in (kept.packed, kept.alone))
        each = tuple({name: self._stored(one) for name, one in of_host.items()} for of_host in kept.each)
        return replace(kept, packed=packed, alone=alone, each=each)

    def _stored(self, one: Packed) -> Packed:
        """What is set aside is in the file whatever its size."""
        payload = self.put(one.payload) if isinstance(one.payload, bytes) else one.payload
        beside = self.file.write(one.beside) if isinstance(one.beside, bytes) and one.beside else one.beside
        return replace(one, payload=payload, beside=beside)

    def put(self, data: bytes) -> Piece:
        """Where it is. UnreadableError: the disk has no room for it."""
        if self._size + len(data) > _IN_MEMORY:
            return self.file.write(data)
        self._size += len(data)
        piece = Piece(-self._size, len(data))  # below the file
        self._held[piece] = data
        return piece

    def read(self, piece: bytes | Piece) -> bytes:
        """What is in a place, or itself."""
        if isinstance(piece, bytes):
            return piece
        return self._held[piece] if piece.offset < 0 else self.file.read(piece)

    def take(self, piece: bytes | Piece) -> bytes:
        if isinstance(piece, bytes):
            return piece
        return self._held.pop(piece) if piece.offset < 0 else self.file.read(piece)
