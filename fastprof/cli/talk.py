"""Messages for people, all on standard error: notes, warnings, errors, progress."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TextIO

from fastprof.cli.progress import Progress
from fastprof.wording.screen import printable, printable_lines


class Talk:
    """Writes messages. ``-q`` hides notes, ``-v`` shows more; errors are always shown.

    Messages are escaped because they quote names and paths; each is one line. Writing a message never raises.
    """

    def __init__(self) -> None:
        self.quiet = False
        self.verbose = False
        self.session: Sequence[str] = ()  # its paths, if a fault in one is an error: advice depends on them
        self.log_directory: str | None = None  # where a run may have been chosen: advice names another
        self.progress = Progress(None)
        self._stream: TextIO | None = None

    def configure(self, *, quiet: bool, verbose: bool, progress: str) -> None:
        self.quiet, self.verbose = quiet, verbose
        self.progress = Progress(sys.stderr, "none" if quiet else progress)

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
            self._write(printable_lines("".join(traceback.format_exception(error))))

    def _line(self, text: str) -> None:
        self._write(f"fastprof: {printable(text)}\n")

    def _write(self, text: str) -> None:
        self.progress.clear()
        try:
            stream = self._stream or sys.stderr
            if stream is not None:
                stream.write(text)
                stream.flush()
        except (OSError, ValueError):
            pass  # there is nowhere else to report it
