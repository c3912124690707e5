"""Progress on standard error: one line, rewritten, on a terminal; separate lines with --progress plain."""

from __future__ import annotations

import os
import stat
import sys
import time
from typing import TextIO

MODES = ("auto", "plain", "none")

_PERIOD_S = {"line": 0.1, "plain": 2.0}


class Progress:
    """Called as ``progress(stage, done, total)``; a ``total`` of 0 means unknown.

    The first tenth of a second shows nothing, because short work needs no progress. ``hidden``: stages that are not
    shown because they are parts of a stage that is.
    """

    def __init__(self, stream: TextIO | None, mode: str = "auto") -> None:
        self.stream = stream
        self._style = _style(stream, mode)
        self._next = time.monotonic() + _PERIOD_S["line"]
        self._shown = 0
        self._stage = ""
        self.hidden: set[str] = set()

    @property
    def wanted(self) -> bool:
        return self._style != "none"

    def __call__(self, stage: str, done: int, total: int) -> None:
        if self._style == "none" or stage in self.hidden:
            return
        now = time.monotonic()
        fresh_stage = self._style == "plain" and stage != self._stage
        if now < self._next and not fresh_stage:
            return
        self._stage = stage
        self._next = now + _PERIOD_S[self._style]
        text = f"{stage}: {min(done / total, 1.0):4.0%}" if total > 0 else f"{stage}: {done:,}"
        if self._style == "plain":
            self._write(f"fastprof: {text}\n")
        else:
            self._write(f"\r{text}".ljust(self._shown + 1))
            self._shown = len(text)

    def clear(self) -> None:
        """Erase the progress line, so that the next text starts on an empty line."""
        if self._shown:
            self._write("\r" + " " * self._shown + "\r")
            self._shown = 0

    def _write(self, text: str) -> None:
        assert self.stream is not None
        try:
            self.stream.write(text)
            self.stream.flush()
        except (OSError, ValueError):
            self._style = "none"  # standard error is closed


def _style(stream: TextIO | None, mode: str) -> str:
    if stream is None or mode == "none":
        return "none"
    if mode == "plain":
        return "plain"
    if not stream.isatty() or os.environ.get("TERM") == "dumb" or _piped(sys.stdout):
        return "none"
    return "line"


def _piped(stream: TextIO | None) -> bool:
    """Whether the data go to a program, which may be a pager on the same terminal."""
    try:
        return stream is not None and stat.S_ISFIFO(os.fstat(stream.fileno()).st_mode)
    except (OSError, ValueError):
        return False
