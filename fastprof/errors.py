"""What can go wrong, as exceptions that are also the fitting builtin.

FastprofError                      every error of this package
├── CaptureError    (ValueError)          the bytes are not what they should be: .path, .offset
├── NotFoundError   (FileNotFoundError)   no such path, or a directory without captures
├── UnreadableError (OSError)             the path exists and cannot be read
├── OutputError     (OSError)             the output exists or cannot be written
├── UsageError      (ValueError)          an argument that makes no sense
├── ChangedError    (RuntimeError)        the file changed while it was being read
└── MemoryLimitError (MemoryError)        memory ran out
"""

from __future__ import annotations


class FastprofError(Exception):
    """Every error of this package.

    ``path`` is the file (None where the fault has none), ``offset`` the byte offset in it, counted
    in the decompressed bytes, or None. The message already names both.
    """

    def __init__(self, message: str, *, path: str | None = None, offset: int | None = None) -> None:
        self.message = message
        self.path = path
        self.offset = offset
        super().__init__(message)

    def __str__(self) -> str:
        where = "" if self.path is None else f"{self.path}: "
        at = "" if self.offset is None else f" (at byte {self.offset:,})"
        return f"{where}{self.message}{at}"

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (type(self), self.message, self.path, self.offset))


def _rebuild(kind: type[FastprofError], message: str, path: str | None, offset: int | None) -> FastprofError:
    return kind(message, path=path, offset=offset)


class CaptureError(FastprofError, ValueError):
    """A capture is truncated, corrupt, empty or of another format."""


class NotFoundError(FastprofError, FileNotFoundError):
    """No such path, run or host, or a directory that holds no captures."""


class UnreadableError(FastprofError, OSError):
    """A path exists and the system refuses to read it."""


class OutputError(FastprofError, OSError):
    """An output exists already, or cannot be written."""


class UsageError(FastprofError, ValueError):
    """An argument makes no sense; the message says what would."""


class ChangedError(FastprofError, RuntimeError):
    """A file was replaced or truncated while it was being read."""


class MemoryLimitError(FastprofError, MemoryError):
    """An allocation failed."""
