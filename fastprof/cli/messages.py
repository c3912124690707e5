"""Messages for people, all on standard error: notes, warnings, errors, and progress, which is one line, rewritten, on a
terminal; separate lines with --progress plain."""

from __future__ import annotations

import os
import stat
import sys
import time
from collections.abc import Sequence
from typing import TextIO

from fastprof.wording.screen import escape_lines, escape_text

MODES = ("auto", "plain", "none")

_PERIOD_S = {"line": 0.1, "plain": 2.0}


class ProgressLine:
    """Called as ``progress(stage, done, total)``; a ``total`` of 0 means unknown.

    The first tenth of a second shows nothing, because short work needs no progress. ``hidden``: stages that are not
    shown because they are parts of a stage that is.
    """

    def __init__(self, stream: TextIO | None, mode: str = "auto") -> None:
        self.stream = stream
        self._style = _choose_style(stream, mode)
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


def _choose_style(stream: TextIO | None, mode: str) -> str:
    if stream is None or mode == "none":
        return "none"
    if mode == "plain":
        return "plain"
    if not stream.isatty() or os.environ.get("TERM") == "dumb" or _is_piped(sys.stdout):
        return "none"
    return "line"


def _is_piped(stream: TextIO | None) -> bool:
    """Whether the data go to a program, which may be a pager on the same terminal."""
    try:
        return stream is not None and stat.S_ISFIFO(os.fstat(stream.fileno()).st_mode)
    except (OSError, ValueError):
        return False


class Messages:
    """Writes messages. ``-q`` hides notes, ``-v`` shows more; errors are always shown.

    Messages are escaped because they quote names and paths; each is one line. Writing a message never raises.
    """

    def __init__(self) -> None:
        self.quiet = False
        self.verbose = False
        self.session: Sequence[str] = ()  # its paths, if a fault in one is an error: advice depends on them
        self.log_directory: str | None = None  # where a run may have been chosen: advice names another
        self.progress = ProgressLine(None)
        self._stream: TextIO | None = None

    def configure(self, *, quiet: bool, verbose: bool, progress: str) -> None:
        self.quiet, self.verbose = quiet, verbose
        self.progress = ProgressLine(sys.stderr, "none" if quiet else progress)

    def write_to(self, stream: TextIO) -> None:
        """From now on, instead of to standard error."""
        self._stream = self.progress.stream = stream

    def note(self, text: str) -> None:
        if not self.quiet:
            self._line(text)

    def detail(self, text: str) -> None:
        if self.verbose:
            self._line(text)

    def error(self, text: str) -> None:
        self._line(text)

    def traceback(self, error: BaseException) -> None:
        import traceback

        if self.verbose:
            self._write(escape_lines("".join(traceback.format_exception(error))))

    def _line(self, text: str) -> None:
        self._write(f"fastprof: {escape_text(text)}\n")

    def _write(self, text: str) -> None:
        self.progress.clear()
        try:
            stream = self._stream or sys.stderr
            if stream is not None:
                stream.write(text)
                stream.flush()
        except (OSError, ValueError):
            pass  # there is nowhere else to report it
