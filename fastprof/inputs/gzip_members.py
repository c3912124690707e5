"""Members of gzip that follow each other, as one stream."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Final

_FORMAT: Final = 16 + zlib.MAX_WBITS
_MAGIC: Final = b"\x1f\x8b"
_PIECE: Final = 64 << 10


class DamagedMemberError(Exception):
    """``before``: what the last bytes before the damage inflate to."""

    def __init__(self, text: str, before: bytes) -> None:
        super().__init__(text)
        self.before = before


class Members:
    """``trailing``: bytes behind the last member that begin no other, as writers to tapes pad with zeros;
    ``are_zeros``: all of them are."""

    def __init__(self, read: Callable[[int], bytes], size: int) -> None:
        """``read``: at most that many packed bytes, none at their end."""
        self.trailing = 0
        self.are_zeros = True
        self._read = read
        self._size = size
        self._left = b""
        """Packed bytes that no member has taken."""

    def chunks(self) -> Iterator[bytes]:
        """What they inflate to, in chunks of ``size`` bytes; the last may have fewer. DamagedMemberError."""
        parts, count, damage = list[bytes](), 0, None
        pieces = self._pieces(lambda: self._size - count)
        while True:
            try:
                part = next(pieces, b"")
            except DamagedMemberError as error:
                part, damage = error.before, error
            parts.append(part)
            count += len(part)
            if count >= self._size or damage or not part:
                if count:
                    yield b"".join(parts)
                if damage:
                    raise damage
                if not part:
                    return
                parts, count = [], 0

    def _pieces(self, most: Callable[[], int]) -> Iterator[bytes]:
        yield from self._member(most)
        while self._peek(len(_MAGIC)):
            if self._left[: len(_MAGIC)] != _MAGIC[: len(self._left)]:
                self._skip_rest()
                return
            yield from self._member(most)

    def _member(self, most: Callable[[], int]) -> Iterator[bytes]:
        stream = zlib.decompressobj(_FORMAT)
        while not stream.eof:
            is_end, before = not self._peek(1), stream.copy()
            try:
                piece = stream.decompress(self._left, most())
            except zlib.error as error:
                raise DamagedMemberError(str(error), self._to_the_damage(before)) from None
            self._left = stream.unused_data if stream.eof else stream.unconsumed_tail
            if piece:
                yield piece
            elif is_end and not stream.eof:
                raise DamagedMemberError("Truncated compressed stream", b"")

    def _to_the_damage(self, stream: zlib._Decompress) -> bytes:
        """A call that fails gives nothing, so the piece with the damage is inflated again, byte by byte."""
        found = bytearray()
        with suppress(zlib.error):
            for at in range(len(self._left)):
                found += stream.decompress(self._left[at : at + 1])
        return bytes(found)

    def _peek(self, size: int) -> bytes:
        while len(self._left) < size and (more := self._read(_PIECE)):
            self._left += more
        return self._left

    def _skip_rest(self) -> None:
        while self._peek(1):
            self.trailing += len(self._left)
            self.are_zeros &= not self._left.strip(b"\0")
            self._left = b""
