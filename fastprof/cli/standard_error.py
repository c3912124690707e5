"""Standard error for a server: a message that nobody reads is left out and counted, and writing never waits."""

from __future__ import annotations

import contextlib
import io
import os
import select
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import TextIO

_PIECE = getattr(select, "PIPE_BUF", 512)
"""Bytes that a ready pipe takes without waiting."""
_MOST_BYTES, _BYTES_A_S = 64 << 10, 256.0
"""What can be written at once, and for how long it has to be silent then."""


class NeverWaits(io.TextIOBase):
    """Writes to the descriptor of ``stream``. Messages are left out while it is not ready, or when there were too many;
    the next one says how many."""

    def __init__(self, stream: TextIO, now: Callable[[], float] = time.monotonic) -> None:
        self._descriptor = stream.fileno()
        self._terminal = stream.isatty()
        self._encoding = stream.encoding or "utf-8"
        self._lock = threading.Lock()
        self._now, self._at = now, now()
        self._room: float = _MOST_BYTES
        self._left_out = 0
        self._is_cut = False

    def write(self, text: str) -> int:
        with self._lock:
            note = f"fastprof: {self._left_out:,} messages were left out here\n" if self._left_out else ""
            data = ("\n" * self._is_cut + note + text).encode(self._encoding, "backslashreplace")
            now = self._now()
            self._room = min(self._room + (now - self._at) * _BYTES_A_S, _MOST_BYTES)
            self._at = now
            if len(data) > self._room or not self._is_written(data):
                self._left_out += 1
            else:
                self._room -= len(data)
                self._left_out, self._is_cut = 0, False
        return len(text)

    def _is_written(self, data: bytes) -> bool:
        for at in range(0, len(data), _PIECE):
            if not self._is_ready():
                return False
            os.write(self._descriptor, data[at : at + _PIECE])
            self._is_cut = True
        return True

    def _is_ready(self) -> bool:
        if sys.platform == "win32":  # pipes cannot be asked there
            return True
        poll = select.poll()
        poll.register(self._descriptor, select.POLLOUT)
        return bool(poll.poll(0))

    def writable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return self._terminal

    def fileno(self) -> int:
        return self._descriptor


@contextlib.contextmanager
def never_waiting() -> Iterator[TextIO | None]:
    """Within it all that writes to ``sys.stderr`` never waits. None: standard error has no descriptor, and stays."""
    before = sys.stderr
    try:
        instead = NeverWaits(before)
    except (AttributeError, OSError, ValueError):
        yield None
        return
    sys.stderr = instead
    try:
        yield instead  # type: ignore[misc]
    finally:
        sys.stderr = before
