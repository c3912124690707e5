"""The exceptions of this package. Each is also the matching builtin exception.

FastprofError                      base class of all errors of this package
├── CaptureError    (ValueError)          a capture is damaged or not a capture: .path, .offset
├── NotFoundError   (FileNotFoundError)   no such path, or a directory without captures
├── UnreadableError (OSError)             the path exists but cannot be read
├── OutputError     (OSError)             the output already exists or cannot be written
├── UsageError      (ValueError)          an invalid argument
├── ChangedError    (RuntimeError)        the file changed while it was being read
├── MemoryLimitError (MemoryError)        out of memory
└── EngineError     (RuntimeError)        an executor lost a host, or cannot be used
"""

from __future__ import annotations


class FastprofError(Exception):
    """Base class of all errors of this package.

    ``path``: the file, or None. ``offset``: the byte offset in the decompressed file, or None. The text of the error
    contains both, on one line: a file may have any name, so characters that a terminal would obey are escaped.
    """

    def __init__(self, message: str, *, path: str | None = None, offset: int | None = None) -> None:
        self.message = message
        self.path = path
        self.offset = offset
        super().__init__(message)

    def __str__(self) -> str:
        where = "" if self.path is None else f"{self.path}: "
        at = "" if self.offset is None else f" (at byte {self.offset:,})"
        return _one_line(f"{where}{self.message}{at}")

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (type(self), self.message, self.path, self.offset))


def _one_line(text: str) -> str:
    """As ``wording.screen.printable``, which is not below this module."""
    return text if text.isprintable() else "".join(one if one.isprintable() else ascii(one)[1:-1] for one in text)


def _rebuild(kind: type[FastprofError], message: str, path: str | None, offset: int | None) -> FastprofError:
    return kind(message, path=path, offset=offset)


class CaptureError(FastprofError, ValueError):
    """A capture is truncated, corrupt, empty or of another format.

    ``salvageable``: whether ``on_error="salvage"`` may keep a part of it. ``excerpt``: a quotation from a
    file of another format, for users who may read the file. The error text appears in pages and reports and quotes
    nothing, because the file may be a link to a private file.
    """

    def __init__(
        self,
        message: str,
        *,
        path: str | None = None,
        offset: int | None = None,
        salvageable: bool = True,
        excerpt: str | None = None,
    ) -> None:
        super().__init__(message, path=path, offset=offset)
        self.salvageable = salvageable
        self.excerpt = None if excerpt is None else _one_line(excerpt)

    def __reduce__(self) -> tuple[object, ...]:
        return (*super().__reduce__(), {"salvageable": self.salvageable, "excerpt": self.excerpt})


class NotFoundError(FastprofError, FileNotFoundError):
    """No such path, run or host, or a directory that holds no captures."""


class UnreadableError(FastprofError, OSError):
    """A path exists, but the system cannot read it."""


class OutputError(FastprofError, OSError):
    """An output already exists, or cannot be written."""


class UsageError(FastprofError, ValueError):
    """An argument is invalid; the message says which values are valid."""


class ChangedError(FastprofError, RuntimeError):
    """A file was replaced or truncated while it was being read."""


class MemoryLimitError(FastprofError, MemoryError):
    """An allocation failed."""


class EngineError(FastprofError, RuntimeError):
    """An executor lost the worker of a host, or broke; or its workers cannot see the files."""
