"""Bytes of a capture, readable at any offset: a memory map, the caller's own bytes, or a spooled stream.

Plain files are mapped. Whatever can only be read from front to back (pipes, file objects, gzip, zstd) is
written to an unnamed temporary file, which is mapped then: in an XSpace the names come after the
events that use them. Decompressed bytes are what offsets count.
"""

from __future__ import annotations

import errno
import io
import mmap
import os
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator
from typing import IO, Any, BinaryIO

from fastprof.errors import CaptureError, ChangedError, UnreadableError
from fastprof.inputs import unpacking

CHUNK = 1 << 20
_MAGIC = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}
_MAGIC |= {bytes([first]) + b"\x2a\x4d\x18": "zstd" for first in range(0x50, 0x60)}  # frames to skip, as pzstd begins
_HEAD = 4

Watched = tuple[tuple[int, int], tuple[int, int], str | bytes]
"""Of a file: device and number; size and time of the last change; name."""


class Source:
    """The bytes of one capture. ``data`` has the buffer protocol and stays valid while the source lives."""

    def __init__(self, data: mmap.mmap | memoryview | bytes, path: str, watched: Watched | None) -> None:
        self.data = data
        self.path = path
        self.size = len(data)
        self.damage: str | None = None
        """What cut a compressed stream short, where that was tolerated."""
        self.file = watched
        """The file that the bytes came from, compressed or not, as it was when it was opened; None: it was none."""
        self._watched = watched

    def give_back(self, start: int, end: int) -> None:
        """Drop the mapped pages that lie wholly between the offsets; they come back when read again."""
        if not isinstance(self.data, mmap.mmap) or not hasattr(mmap, "MADV_DONTNEED"):
            return
        start = -(-start // mmap.PAGESIZE) * mmap.PAGESIZE
        end = end if end == self.size else end // mmap.PAGESIZE * mmap.PAGESIZE
        if end > start:
            self.data.madvise(mmap.MADV_DONTNEED, start, end - start)

    def give_back_all(self) -> None:
        """Drop all mapped pages: between two stages of reading, so that those of many files do not add up."""
        self.give_back(0, self.size)

    def check_unchanged(self) -> None:
        """Raise ChangedError where the file is not the one that was mapped: reading a truncated map would crash."""
        if self._watched is None:
            return
        place, state, name = self._watched
        try:
            now = os.stat(name)  # noqa: PTH116 - names may be bytes
        except OSError:
            changed = not self._is_whole()  # deleted or renamed: the map keeps the bytes, but those cut off before
        else:
            changed = (now.st_size, now.st_mtime_ns) != state
            if not changed and (now.st_dev, now.st_ino) != place:
                changed = not self._is_whole()
        if changed:
            raise ChangedError("the file changed since it was loaded; load it again", path=self.path)

    def _is_whole(self) -> bool:
        """Whether the end of the map can be read. Where the file is shorter the system ends a process that reads there;
        writing it to a pipe returns an error instead. The file itself is not kept open."""
        reader, writer = os.pipe()
        try:
            return os.write(writer, memoryview(self.data)[-1:]) == 1
        except OSError:
            return False
        finally:
            os.close(reader)
            os.close(writer)


Push = Callable[[Any], None]


def open_source(
    what: object, path: str, push: Push, salvage: bool = False, max_unpacked: int = unpacking.MOST
) -> Source:
    """Open a capture and push its bytes, in order, to ``push`` on the way: to salvage, all in one push.

    ``what`` is a path, bytes, or a binary file object. ``max_unpacked``: bytes that a compressed one may unpack to.
    Raises UnreadableError, or CaptureError where the bytes are
    empty or the compression is damaged (to salvage, what came before the damage is kept); whatever ``push``
    raises ends the reading.
    """
    if isinstance(what, (bytes, bytearray, memoryview)):
        view = memoryview(what)
        view = view.cast("B") if view.c_contiguous else memoryview(bytes(view))
        if _codec(bytes(view[:_HEAD])):
            return _spool(io.BytesIO(view), path, push, salvage, max_unpacked)
        return _pushed(Source(view, path, None), push)
    if isinstance(what, (str, os.PathLike)):
        return _open_file(os.fspath(what), path, push, salvage, max_unpacked)
    return _spool(what, path, push, salvage, max_unpacked)  # type: ignore[arg-type]


def _pushed(source: Source, push: Push) -> Source:
    if not source.size:
        raise CaptureError(
            "the file is empty: nothing was captured, or the profiler lost the data (as it does above 2 GiB)",
            path=source.path,
            offset=0,
            salvageable=False,
        )
    push(source.data)
    return source


def _open_file(name: str | bytes, path: str, push: Push, salvage: bool, max_unpacked: int) -> Source:
    try:
        with open(name, "rb", buffering=0) as file:  # noqa: PTH123 - names may be bytes
            status = os.fstat(file.fileno())
            if stat.S_ISDIR(status.st_mode):
                raise UnreadableError("is a directory; a file was expected", path=path)
            if not stat.S_ISREG(status.st_mode):
                return _spool(file, path, push, salvage, max_unpacked)
            watched = (status.st_dev, status.st_ino), (status.st_size, status.st_mtime_ns), name
            if _codec(os.pread(file.fileno(), _HEAD, 0)):
                source = _spool(file, path, push, salvage, max_unpacked)
                source.file = watched
                return source
            data: mmap.mmap | bytes = b""
            if status.st_size:
                data = _mapped(file.fileno(), status.st_size)
    except UnreadableError:
        raise
    except OSError as error:
        hint = (
            "; each capture keeps one file open, raise the limit with ulimit -n" if error.errno == errno.EMFILE else ""
        )
        raise UnreadableError(f"{error.strerror or error}{hint}", path=path) from error
    return _pushed(Source(data, path, watched), push)


def _mapped(descriptor: int, size: int) -> mmap.mmap:
    """The file in memory. From Python 3.13 on the map keeps no descriptor, so that hosts may be thousands."""
    if sys.version_info >= (3, 13):
        return mmap.mmap(descriptor, size, access=mmap.ACCESS_READ, trackfd=False)
    return mmap.mmap(descriptor, size, access=mmap.ACCESS_READ)


def _codec(head: bytes) -> str | None:
    return next((codec for magic, codec in _MAGIC.items() if head.startswith(magic)), None)


def _read(stream: BinaryIO, size: int, path: str) -> bytes:
    if getattr(stream, "closed", False):
        raise UnreadableError("the file object is closed", path=path)
    try:
        data: object = stream.read(size)
    except OSError as error:
        raise UnreadableError(f"reading failed: {error.strerror or error}", path=path) from error
    if isinstance(data, (bytes, bytearray, memoryview)):
        return bytes(data)
    if data is None:
        raise UnreadableError("the file object is non-blocking; a blocking one is needed", path=path)
    kind = "text; open it in binary mode" if isinstance(data, str) else f"{type(data).__name__}, not bytes"
    raise UnreadableError(f"the file object returns {kind}", path=path)


class _Packed(io.RawIOBase):
    """A compressed stream from its beginning again, after its first bytes have been looked at.

    ``failure``: what reading or copying it raised, which is no fault of the data. ``copy``: gets all that is read.
    """

    def __init__(self, head: bytes, rest: BinaryIO, path: str, copy: IO[bytes] | None) -> None:
        self.failure: OSError | None = None
        self._head = head
        self._rest = rest
        self._path = path
        self._copy = copy

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        try:
            taken = self._taken(size)
            if self._copy is not None:
                self._copy.write(taken)
        except OSError as error:
            self.failure = error
            raise
        return taken

    def _taken(self, size: int) -> bytes:
        if not self._head:
            return _read(self._rest, size, self._path)
        taken = self._head if size < 0 else self._head[:size]
        self._head = self._head[len(taken) :]
        return taken


def _chunks(stream: BinaryIO, path: str, copy: IO[bytes] | None, max_unpacked: int) -> Iterator[bytes]:
    """The stream's bytes, decompressed, in chunks as they come; ``copy`` gets those of a compressed one as they are."""
    head = b""
    while len(head) < _HEAD and (more := _read(stream, _HEAD - len(head), path)):
        head += more
    codec = _codec(head)
    if codec is None:
        if head:
            yield head
        while chunk := _read(stream, CHUNK, path):
            yield chunk
        return
    import pyarrow as pa

    packed, unpacked = _Packed(head, stream, path, copy), 0
    try:
        with pa.CompressedInputStream(pa.PythonFile(packed, mode="r"), codec) as plain:
            while chunk := plain.read(CHUNK):
                unpacked += len(chunk)
                unpacking.check_size(unpacked, max_unpacked, path)
                yield chunk
    except UnreadableError:
        raise
    except OSError as error:
        if packed.failure is not None:
            raise packed.failure from None
        raise CaptureError(f"the {codec} data are damaged or cut off: {error}", path=path) from error


def _last_bytes(packed: IO[bytes], known: int) -> bytes:
    """What damaged data still decompress to after ``known`` bytes: a read that fails gives nothing, so byte by byte."""
    import pyarrow as pa

    packed.seek(0)
    codec = _codec(packed.read(_HEAD))
    packed.seek(0)
    rest = bytearray()
    try:
        with pa.CompressedInputStream(pa.PythonFile(packed, mode="r"), codec) as plain:
            while known:
                known -= len(plain.read(min(known, CHUNK)))
            while byte := plain.read(1):
                rest += byte
    except OSError:
        pass
    return bytes(rest)


def _spool(stream: BinaryIO, path: str, push: Push, salvage: bool, max_unpacked: int) -> Source:
    """Copy a stream to a temporary file and map that. ``push`` sees the bytes as they come, unless salvaging."""
    damage, copied = None, 0
    try:
        with tempfile.TemporaryFile() as spool, tempfile.TemporaryFile() as packed:
            try:
                for chunk in _chunks(stream, path, packed if salvage else None, max_unpacked):
                    if not salvage:
                        push(chunk)
                    spool.write(chunk)
                    copied += len(chunk)
                    unpacking.check_space(copied - len(chunk), copied, path)
            except CaptureError as error:
                if not salvage:
                    raise
                damage = error.message
                spool.write(_last_bytes(packed, spool.tell()))
            spool.flush()
            size = spool.tell()
            data: mmap.mmap | bytes = _mapped(spool.fileno(), size) if size else b""
    except (CaptureError, UnreadableError):
        raise
    except OSError as error:
        text = f"copying to a temporary file failed: {error.strerror or error} (TMPDIR sets its directory)"
        raise UnreadableError(text, path=path) from error
    if damage is not None and not size:
        raise CaptureError(f"{damage}, and no data can be read", path=path, salvageable=False)
    source = _pushed(Source(data, path, None), push if salvage else lambda _: None)
    source.damage = damage
    return source
