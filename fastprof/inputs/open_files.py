"""Files that are read at any offset, for as long as a session is open, and that must stay what they were. Temporary
files for values that are seldom looked at, and how much a stream may take on the disk: a small compressed file can
unpack to any size.

A file is read with ``pread``, never mapped: the system ends a process that reads a map behind the end of a file that
has become shorter. Between ``begin`` and ``end`` anyone may read from the descriptor; ``end`` raises ChangedError
unless the file is as it was when it was opened, and only then may what was read be used. Hosts may be thousands, so
files are opened again when they are needed, and only those read last stay open.
"""

from __future__ import annotations

import errno
import mmap
import os
import stat
import sys
import threading
import time
import weakref
from collections import OrderedDict
from collections.abc import Callable, Generator, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, TypeVar

from fastprof.errors import ChangedError, UnreadableError, UsageError
from fastprof.inputs.stores.store_path import StorePath
from fastprof.wording.quantities import format_size

if TYPE_CHECKING:
    from fastprof.schema.columns import Records


_CHANGED = "the file changed since it was loaded; load it again"
_COARSE_CLOCK = 5
"""CLOCK_REALTIME_COARSE of Linux: the time that files are stamped with, which goes on in ticks of some milliseconds."""
_MOST_TICKS = 20
_MOST_WRITTEN = 1 << 30
"""Bytes of a write: systems refuse or cut larger ones."""

Watched = tuple[tuple[int, int], tuple[int, int, int], str | bytes]
"""The identity of a file: device and number; size and times of the last change of its content and of its status;
name."""


class ReadFile(Protocol):
    """What a source reads from. ``parts``: where its bytes stand in the file, as ``records.WINDOW_PART``. None: the
    file is the source."""

    size: int
    parts: Records | None

    @property
    def fetch(self) -> Callable[[int, int], None] | None:
        """Function that gets the bytes between two offsets of the file, before they are read. None: all are there."""

    def expect(self, begin: int, end: int) -> None:
        """Begin to fetch bytes that will be read."""

    def places(self, offset: int, length: int) -> Iterator[tuple[int, int]]:
        """Return where these bytes stand in the file: place and length of each piece."""

    def begin(self) -> int:
        """Return a descriptor to read from until ``end``."""

    def end(self) -> None:
        """Raise ChangedError if what was read since ``begin`` may not be what the file was."""

    def check(self) -> None:
        """Raise ChangedError if the file is not what it was."""


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
    fetch: Callable[[int, int], None] | None = None

    def __init__(self, name: str | bytes, path: str, number: int) -> None:
        self.name = name
        self.path = path
        try:
            self._was = _wait_until_settled(number)
        except BaseException:
            os.close(number)
            raise
        self.size = self._was.st_size
        self._opening = threading.Lock()
        self._held = _Descriptor(number)
        _keep_for_later(self._held)

    def expect(self, begin: int, end: int) -> None:
        pass

    @property
    def watched(self) -> Watched:
        return _identify(self._was), _get_state(self._was), self.name

    def __del__(self) -> None:
        held: _Descriptor | None = getattr(self, "_held", None)
        if held is not None and _lock is not None:  # as Python ends, modules lose what they hold, and files are closed
            with _lock:
                _idle.pop(held, None)
                _close_descriptor(held)

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
                    _keep_for_later(held)
        if changed:
            raise ChangedError(_CHANGED, path=self.path)

    def check(self) -> None:
        """A file that was deleted, or whose name now leads to another of the same size and time, is what it was as long
        as it is held open."""
        now, was = find_file(self.name), self.watched
        if now == was:
            return
        if now is not None and (now[0] == was[0] or now[1][:2] != was[1][:2]):
            raise ChangedError(_CHANGED, path=self.path)
        self.begin()
        self.end()

    def _opened_again(self) -> int:
        try:
            number = open_descriptor(self.name)
        except NotAFileError as error:
            raise ChangedError(_CHANGED, path=self.path) from error
        except FileNotFoundError as error:
            raise ChangedError("the file was deleted since it was loaded", path=self.path) from error
        except OSError as error:
            raise UnreadableError(describe_open_error(error), path=self.path) from error
        now = os.fstat(number)
        if _identify(now) != _identify(self._was) or _is_other(self._was, now):
            os.close(number)
            raise ChangedError(_CHANGED, path=self.path)
        return number

    def _differs(self, now: os.stat_result) -> bool:
        """Return whether the open file is another than it was. A new name changes the time of change, too."""
        was = self._was
        if not _is_other(was, now):
            return False
        if (now.st_size, now.st_mtime_ns) != (was.st_size, was.st_mtime_ns):
            return True
        named = find_file(self.name)
        return named is not None and named[0] == _identify(now)


class SpooledFile:
    """A temporary file without a name, which only this process can change. ``number``: its descriptor, which stays
    open."""

    parts: Records | None = None
    fetch: Callable[[int, int], None] | None = None

    def __init__(self, number: int, size: int) -> None:
        self._number = number
        self.size = size

    def expect(self, begin: int, end: int) -> None:
        pass

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
    """Parts of a file, concatenated. ``parts``: their places and lengths there, as uint64 pairs."""

    def __init__(self, file: ReadFile, parts: bytes) -> None:
        import numpy as np

        from fastprof._native.records import WINDOW_PART

        places, lengths = np.frombuffer(parts, np.uint64).reshape(-1, 2).T
        self._file = file
        self.size = int(lengths.sum())
        self._begins = np.cumsum(lengths) - lengths  # searched for each value that is looked at
        self.parts: Records | None = np.zeros(len(places), WINDOW_PART)
        self.parts["begin"], self.parts["place"] = self._begins, places
        self.begin, self.end, self.check, self.fetch = file.begin, file.end, file.check, file.fetch

    def expect(self, begin: int, end: int) -> None:
        pass

    def places(self, offset: int, length: int) -> Iterator[tuple[int, int]]:
        from fastprof.schema.columns import find_place  # late: most files are not in parts

        assert self.parts is not None
        begins, places = self._begins, self.parts["place"]
        end, number = offset + length, find_place(begins, offset)
        while offset < end:
            until = min(end, int(begins[number + 1]) if number + 1 < len(begins) else self.size)
            yield int(places[number]) + offset - int(begins[number]), until - offset
            offset, number = until, number + 1


def find_file(name: str | bytes) -> Watched | None:
    """Return the file or object of that name as it is now, or None."""
    if isinstance(name, StorePath):
        return name.find_version()
    try:
        now = os.stat(name)  # noqa: PTH116 - names may be bytes
    except OSError:
        return None
    return _identify(now), _get_state(now), name


def describe_open_error(error: OSError) -> str:
    """Describe why a file could not be opened, and what helps."""
    few = "; streams and compressed captures keep a file open each, raise the limit with ulimit -n"
    return f"{error.strerror or error}{few if error.errno == errno.EMFILE else ''}"


def open_descriptor(name: str | bytes, *, pipe: bool = False) -> int:
    """Open a file for reading, which closes idle descriptors if there are too many. Nothing is waited for: a pipe may
    have taken the place of the file. ``pipe``: the user named a pipe or a device, whose writer is waited for.
    NotAFileError: it is anything else."""
    number = _open_now(name, os.O_RDONLY | os.O_CLOEXEC | (0 if pipe else os.O_NONBLOCK))
    mode = os.fstat(number).st_mode
    if stat.S_ISREG(mode) or (pipe and not stat.S_ISDIR(mode)):
        os.set_blocking(number, True)
        return number
    os.close(number)
    what = "a directory" if stat.S_ISDIR(mode) else "a pipe or a device"
    raise NotAFileError(errno.EINVAL, f"is {what}; a file was expected")


def _open_now(name: str | bytes, flags: int) -> int:
    try:
        return os.open(name, flags)
    except OSError as error:
        if error.errno == errno.ENXIO:  # a socket, or a device without a driver
            raise NotAFileError(errno.EINVAL, "is a socket or a device; a file was expected") from None
        if error.errno not in (errno.EMFILE, errno.ENFILE):
            raise
    _close_idle(0)
    return os.open(name, flags)


def _keep_for_later(held: _Descriptor) -> None:
    """Keep an idle descriptor for later, and close those that nobody has needed for longest."""
    with _lock:
        _idle[held] = None
        _close_idle(_limit_open_files())


def _close_idle(left: int) -> None:
    with _lock:
        while len(_idle) > left:
            _close_descriptor(_idle.popitem(last=False)[0])


def _close_descriptor(held: _Descriptor) -> None:
    if held.number >= 0:
        number, held.number = held.number, -1
        os.close(number)


def _limit_open_files() -> int:
    """Return how many files stay open: a few of those that the process may have."""
    import resource

    return max(8, min(256, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 4))


def _identify(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def _get_state(status: os.stat_result) -> tuple[int, int, int]:
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _is_other(was: os.stat_result, now: os.stat_result) -> bool:
    """Return whether the content of a file may have changed. The time of the last change of its status counts because
    nobody can set it back; so new rights, owners and links are changes, too: they could hide another one."""
    return _get_state(now) != _get_state(was)


def _wait_until_settled(number: int) -> os.stat_result:
    """Return the status of a file, from which a later write differs: a file that was written in this very tick of the
    clock could be written again with the same time, so the tick is waited for."""
    for _ in range(_MOST_TICKS):
        now = time.clock_gettime_ns(_COARSE_CLOCK if sys.platform == "linux" else time.CLOCK_REALTIME)
        status = os.fstat(number)
        if now > status.st_ctime_ns:
            break
        time.sleep(0.001)
    return status


MOST_UNPACKED: Final = 16 << 30
"""Bytes that a compressed capture may unpack to; profilers write 2 GiB at most."""

_RESERVE: Final = 1 << 30
_SHARE: Final = 20  # of a small disk, a twentieth is the reserve
_STRIDE: Final = 64 << 20  # free space is looked at each time that this number of bytes has been written


def check_limit(most: int | None) -> int:
    """Return the limit of a user, or the usual one. UsageError: it is not a size."""
    if most is None:
        return MOST_UNPACKED
    if not isinstance(most, int) or isinstance(most, bool) or most < 1:
        raise UsageError(f"max_unpacked must be a number of bytes above 0, not {most!r}")
    return most


class TooLargeError(UnreadableError):
    """A compressed capture unpacks to more than may be: however often it is tried."""


def check_unpacked_size(unpacked: int, most: int, path: str) -> None:
    """TooLargeError: a compressed stream has unpacked to more than ``most`` bytes."""
    if unpacked > most:
        text = f"unpacks to more than {format_size(most)}; if it is meant to, raise the limit: "
        raise TooLargeError(text + "--max-unpacked SIZE, load(…, max_unpacked=BYTES)", path=path)


def check_disk_space(before: int, size: int, path: str | None) -> None:
    """UnreadableError: the disk is nearly full. ``before``, ``size``: bytes before the last write and now."""
    if before // _STRIDE == size // _STRIDE:
        return
    import shutil
    import tempfile

    folder = tempfile.gettempdir()
    disk = shutil.disk_usage(folder)
    reserve = min(_RESERVE, disk.total // _SHARE)
    if disk.free < reserve:
        raise UnreadableError(
            f"copying to a temporary file stopped after {format_size(size)}: less than "
            f"{format_size(reserve)} are free in "
            f"{folder} (TMPDIR sets another directory)",
            path=path,
        )


def write_bytes(number: int, data: bytes | memoryview, offset: int) -> int:
    """Write all bytes at an offset of an open file, and return their number."""
    left = memoryview(data)
    while left:
        left = left[os.pwrite(number, left[:_MOST_WRITTEN], offset + len(data) - len(left)) :]
    return len(data)


class SpilledPiece(NamedTuple):
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

    def write(self, data: bytes | memoryview) -> SpilledPiece:
        """Raise UnreadableError if the disk has no room for it."""
        view = memoryview(data).cast("B")
        with self._lock:
            try:
                if self._number < 0:
                    self._open()
                piece = SpilledPiece(self._size, len(view))
                write_bytes(self._number, view, piece.offset)
            except OSError as error:
                text = f"writing to a temporary file failed: {error.strerror or error} (TMPDIR sets its directory)"
                raise UnreadableError(text) from error
            self._size += len(view)
            check_disk_space(piece.offset, self._size, None)
            return piece

    def read(self, piece: SpilledPiece) -> bytes:
        content = os.pread(self._number, piece.length, piece.offset) if piece.length else b""
        while len(content) < piece.length:  # a read may give less than is there, as above 2 GiB
            more = os.pread(self._number, piece.length - len(content), piece.offset + len(content))
            if not more:
                raise UnreadableError("a temporary file became shorter while it was in use")
            content += more
        return content

    def mapped(self, piece: SpilledPiece) -> memoryview:
        """Return the bytes, in memory only while they are looked at."""
        if not piece.length:
            return memoryview(b"")
        before = piece.offset % mmap.ALLOCATIONGRANULARITY
        begin = piece.offset - before
        whole = mmap.mmap(self._number, before + piece.length, access=mmap.ACCESS_READ, offset=begin)
        return memoryview(whole)[before:]

    def _open(self) -> None:
        import tempfile

        with tempfile.TemporaryFile(prefix="fastprof-") as file:
            self._number = os.dup(file.fileno())
        weakref.finalize(self, os.close, self._number)


T = TypeVar("T")


def prefetch(chunks: Iterator[T], begin: Callable[[], None] | None = None) -> Generator[T, None, None]:
    """Yield the same chunks, while a thread makes the next one. ``begin``: called by the thread first."""
    from concurrent.futures import ThreadPoolExecutor

    try:
        with ThreadPoolExecutor(1, thread_name_prefix="fastprof", initializer=begin) as pool:
            coming = pool.submit(next, chunks, None)
            while (piece := coming.result()) is not None:
                coming = pool.submit(next, chunks, None)
                yield piece
    finally:
        if isinstance(chunks, Generator):
            chunks.close()
