"""Values that are seldom looked at, in a temporary file instead of memory."""

from __future__ import annotations

import mmap
import os
import tempfile
import threading
import weakref
from typing import NamedTuple

from fastprof.errors import UnreadableError
from fastprof.inputs import unpacking


class Piece(NamedTuple):
    """Where bytes are in the file."""

    offset: int
    length: int


class Spill:
    """A temporary file without a name, so that nobody else can shorten it and its maps stay what they are. It is made
    at the first write, and gone when neither it nor a map of it is in use. Threads may share it."""

    def __init__(self) -> None:
        self._number = -1
        self._size = 0
        self._lock = threading.Lock()

    @property
    def size(self) -> int:
        """Bytes written."""
        return self._size

    def write(self, data: bytes | memoryview) -> Piece:
        """Raises UnreadableError if the disk has no room for it."""
        view = memoryview(data).cast("B")
        with self._lock:
            try:
                if self._number < 0:
                    self._open()
                piece = Piece(self._size, len(view))
                written = 0
                while written < len(view):
                    written += os.pwrite(self._number, view[written:], piece.offset + written)
            except OSError as error:
                text = f"writing to a temporary file failed: {error.strerror or error} (TMPDIR sets its directory)"
                raise UnreadableError(text) from error
            self._size += len(view)
            unpacking.check_space(piece.offset, self._size, None)
            return piece

    def read(self, piece: Piece) -> bytes:
        found = os.pread(self._number, piece.length, piece.offset) if piece.length else b""
        while len(found) < piece.length:  # a read may give less than is there, as above 2 GiB
            more = os.pread(self._number, piece.length - len(found), piece.offset + len(found))
            if not more:
                raise UnreadableError("a temporary file became shorter while it was in use")
            found += more
        return found

    def mapped(self, piece: Piece) -> memoryview:
        """The bytes, in memory only while they are looked at."""
        if not piece.length:
            return memoryview(b"")
        before = piece.offset % mmap.ALLOCATIONGRANULARITY
        begin = piece.offset - before
        whole = mmap.mmap(self._number, before + piece.length, access=mmap.ACCESS_READ, offset=begin)
        return memoryview(whole)[before:]

    def _open(self) -> None:
        with tempfile.TemporaryFile(prefix="fastprof-") as file:
            self._number = os.dup(file.fileno())
        weakref.finalize(self, os.close, self._number)
