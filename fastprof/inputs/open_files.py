"""Files that are read at any offset, for as long as a session is open, and that must stay what they were.

A file is read with ``pread``, never mapped: the system ends a process that reads a map behind the end of a file that
has become shorter. Between ``begin`` and ``end`` anyone may read from the descriptor; ``end`` raises ChangedError
unless the file is as it was when it was opened, and only then may what was read be used. Hosts may be thousands, so
files are opened again when they are needed, and only those read last stay open.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol

from fastprof.errors import ChangedError, UnreadableError

if TYPE_CHECKING:
    from fastprof.schema.array_types import Records

_CHANGED = "the file changed since it was loaded; load it again"
_COARSE_CLOCK = 5
"""CLOCK_REALTIME_COARSE of Linux: the time that files are stamped with, which goes on in ticks of some milliseconds."""
_MOST_TICKS = 20

Watched = tuple[tuple[int, int], tuple[int, int, int], str | bytes]
"""Of a file: device and number; size and times of the last change of its content and of its status; name."""


class ReadFile(Protocol):
    """What a source reads from. ``parts``: where its bytes stand in the file, as ``records.WINDOW_PART``. None: the
    file is the source."""

    size: int
    parts: Records | None

    def places(self, offset: int, length: int) -> Iterator[tuple[int, int]]:
        """Where these bytes stand in the file: place and length of each piece."""

    def begin(self) -> int:
        """A descriptor to read from until ``end``."""

    def end(self) -> None:
        """Raises ChangedError if what was read since ``begin`` may not be what the file was."""

    def check(self) -> None:
        """Raises ChangedError if the file is not what it was."""


class NotAFileError(OSError):
    """A directory, a pipe or a device is in the place of a file."""


class _Descriptor:
    """A descriptor of a file, -1 when it is closed, and how many read from it now."""

    __slots__ = ("number", "users")

    def __init__(self, number: int) -> None:
        self.number = number
        self.users = 0


_lock = threading.RLock()  # of all descriptors; held for moments
_idle: OrderedDict[_Descriptor, None] = OrderedDict()
"""Open, and read by nobody; those used last come last."""


class WatchedFile:
    """A plain file, as it is when this is made. Threads may share it. ``number``: its descriptor, which is closed
    sooner or later."""

    parts: Records | None = None

    def __init__(self, name: str | bytes, path: str, number: int) -> None:
        self.name = name
        self.path = path
        try:
            self._was = _settled(number)
        except BaseException:
            os.close(number)
            raise
        self.size = self._was.st_size
        self._opening = threading.Lock()
        self._held = _Descriptor(number)
        _rest(self._held)

    @property
    def watched(self) -> Watched:
        return _identity(self._was), _state(self._was), self.name

    def __del__(self) -> None:
        held: _Descriptor | None = getattr(self, "_held", None)
        if held is not None and _lock is not None:  # as Python ends, modules lose what they hold, and files are closed
            with _lock:
                _idle.pop(held, None)
                _close(held)

    def places(self, offset: int, length: int) -> Iterator[tuple[int, int]]:
        yield offset, length

    def begin(self) -> int:
        with self._opening:
            with _lock:
                held = self._held
                if held.number >= 0:
                    _idle.pop(held, None)
                    held.users += 1
                    return held.number
            self._held = _Descriptor(self._opened_again())
            self._held.users = 1
            return self._held.number

    def end(self) -> None:
        held = self._held
        try:
            changed = self._differs(os.fstat(held.number))
        finally:
            with _lock:
                held.users -= 1
                if not held.users:
                    _rest(held)
        if changed:
            raise ChangedError(_CHANGED, path=self.path)

    def check(self) -> None:
        """A file that was deleted, or whose name now leads to another of the same size and time, is what it was as long
        as it is held open."""
        now, was = file_now(self.name), self.watched
        if now == was:
            return
        if now is not None and (now[0] == was[0] or now[1][:2] != was[1][:2]):
            raise ChangedError(_CHANGED, path=self.path)
        self.begin()
        self.end()

    def _opened_again(self) -> int:
        try:
            number = opened(self.name)
        except NotAFileError as error:
            raise ChangedError(_CHANGED, path=self.path) from error
        except FileNotFoundError as error:
            raise ChangedError("the file was deleted since it was loaded", path=self.path) from error
        except OSError as error:
            raise UnreadableError(reason(error), path=self.path) from error
        now = os.fstat(number)
        if _identity(now) != _identity(self._was) or _is_other(self._was, now):
            os.close(number)
            raise ChangedError(_CHANGED, path=self.path)
        return number

    def _differs(self, now: os.stat_result) -> bool:
        """Whether the open file is another than it was. A new name changes the time of change, too."""
        was = self._was
        if not _is_other(was, now):
            return False
        if (now.st_size, now.st_mtime_ns) != (was.st_size, was.st_mtime_ns):
            return True
        named = file_now(self.name)
        return named is not None and named[0] == _identity(now)


class SpooledFile:
    """A temporary file without a name, which only this process can change. ``number``: its descriptor, which stays
    open."""

    parts: Records | None = None

    def __init__(self, number: int, size: int) -> None:
        self._number = number
        self.size = size

    def places(self, offset: int, length: int) -> Iterator[tuple[int, int]]:
        yield offset, length

    def __del__(self) -> None:
        os.close(self._number)

    def begin(self) -> int:
        return self._number

    def end(self) -> None:
        pass

    def check(self) -> None:
        pass


class PartsOfFile:
    """Parts of a file as one, one behind the other. ``parts``: their places and lengths there, as uint64 pairs."""

    def __init__(self, file: ReadFile, parts: bytes) -> None:
        import numpy as np

        from fastprof._native.records import WINDOW_PART

        places, lengths = np.frombuffer(parts, np.uint64).reshape(-1, 2).T
        self._file = file
        self.size = int(lengths.sum())
        self.parts: Records | None = np.zeros(len(places), WINDOW_PART)
        self.parts["begin"], self.parts["place"] = np.cumsum(lengths) - lengths, places
        self.begin, self.end, self.check = file.begin, file.end, file.check

    def places(self, offset: int, length: int) -> Iterator[tuple[int, int]]:
        assert self.parts is not None
        begins, places = self.parts["begin"], self.parts["place"]
        end, number = offset + length, int(begins.searchsorted(offset, "right")) - 1
        while offset < end:
            until = min(end, int(begins[number + 1]) if number + 1 < len(begins) else self.size)
            yield int(places[number]) + offset - int(begins[number]), until - offset
            offset, number = until, number + 1


def file_now(name: str | bytes) -> Watched | None:
    """The file of that name as it is now; None: there is none."""
    try:
        now = os.stat(name)  # noqa: PTH116 - names may be bytes
    except OSError:
        return None
    return _identity(now), _state(now), name


def reason(error: OSError) -> str:
    """Why a file could not be opened, and what helps."""
    few = "; streams and compressed captures keep a file open each, raise the limit with ulimit -n"
    return f"{error.strerror or error}{few if error.errno == errno.EMFILE else ''}"


def opened(name: str | bytes, *, pipe: bool = False) -> int:
    """A descriptor of a file, to read from; one more than there may be closes those that nobody reads from now.
    Nothing is waited for: a pipe may have taken the place of the file. ``pipe``: it is the user who named a pipe or a
    device, whose writer is waited for. NotAFileError: it is anything else."""
    number = _opened_now(name, os.O_RDONLY | os.O_CLOEXEC | (0 if pipe else os.O_NONBLOCK))
    mode = os.fstat(number).st_mode
    if stat.S_ISREG(mode) or (pipe and not stat.S_ISDIR(mode)):
        os.set_blocking(number, True)
        return number
    os.close(number)
    what = "a directory" if stat.S_ISDIR(mode) else "a pipe or a device"
    raise NotAFileError(errno.EINVAL, f"is {what}; a file was expected")


def _opened_now(name: str | bytes, flags: int) -> int:
    try:
        return os.open(name, flags)
    except OSError as error:
        if error.errno == errno.ENXIO:  # a socket, or a device without a driver
            raise NotAFileError(errno.EINVAL, "is a socket or a device; a file was expected") from None
        if error.errno not in (errno.EMFILE, errno.ENFILE):
            raise
    _close_idle(0)
    return os.open(name, flags)


def _rest(held: _Descriptor) -> None:
    """Keeps a descriptor that nobody reads from for later, and closes those that nobody has needed for longest."""
    with _lock:
        _idle[held] = None
        _close_idle(_limit())


def _close_idle(left: int) -> None:
    with _lock:
        while len(_idle) > left:
            _close(_idle.popitem(last=False)[0])


def _close(held: _Descriptor) -> None:
    if held.number >= 0:
        number, held.number = held.number, -1
        os.close(number)


def _limit() -> int:
    """How many files stay open: a few of those that the process may have."""
    import resource

    return max(8, min(256, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 4))


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def _state(status: os.stat_result) -> tuple[int, int, int]:
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _is_other(was: os.stat_result, now: os.stat_result) -> bool:
    """Whether the content of a file may have changed. The time of the last change of its status counts because nobody
    can set it back; so new rights, owners and links are changes, too: they could hide another one."""
    return _state(now) != _state(was)


def _settled(number: int) -> os.stat_result:
    """The status of a file, from which a later write differs: a file that was written in this very tick of the clock
    could be written again with the same time, so the tick is waited for."""
    for _ in range(_MOST_TICKS):
        now = time.clock_gettime_ns(_COARSE_CLOCK if sys.platform == "linux" else time.CLOCK_REALTIME)
        status = os.fstat(number)
        if now > status.st_ctime_ns:
            break
        time.sleep(0.001)
    return status
