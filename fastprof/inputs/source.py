"""Bytes of a capture, readable at any offset: the caller's own, a file, or a spooled stream.

Plain files are read where and when their bytes are needed. Whatever can only be read from front to back (pipes, file
objects, gzip, zstd) is written to an unnamed temporary file, to be read so: in an XSpace the names come after the
events that use them. Other formats (``inputs/formats``) are transcribed on the way there. Decompressed bytes are what
offsets count. A transcription gives events as they come, names and metadata at the end: parts of the temporary file are
its XSpace.
"""

from __future__ import annotations

import io
import os
import stat
import tempfile
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, closing, suppress
from typing import IO, TYPE_CHECKING, Any, BinaryIO

from fastprof.errors import CaptureError, ChangedError, UnreadableError
from fastprof.inputs import unpacking
from fastprof.inputs.fast_inflation import NotSoundError, inflated
from fastprof.inputs.formats import HEAD, IN_FILE, format_of
from fastprof.inputs.formats.contract import Remark
from fastprof.inputs.gzip_members import DamagedMemberError, Members
from fastprof.inputs.made_ahead import made_ahead
from fastprof.inputs.open_files import PartsOfFile, ReadFile, SpooledFile, Watched, WatchedFile, opened, reason
from fastprof.inputs.transcribed import Transcription

if TYPE_CHECKING:
    from fastprof.inputs.profile_columns import ProfileColumns

CHUNK = 1 << 20
_MAGIC = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}
_MAGIC |= {bytes([first]) + b"\x2a\x4d\x18": "zstd" for first in range(0x50, 0x60)}  # frames to skip, as pzstd begins
_HEAD = 4
_EMPTY = "the file is empty: nothing was captured, or the profiler lost the data (as it does above 2 GiB)"


class Source:
    """The bytes of one capture: in ``memory``, or read from ``stored``. ``pushed``: all were pushed on the way."""

    def __init__(
        self, path: str, *, memory: memoryview | None = None, stored: ReadFile | None = None, pushed: bool = False
    ) -> None:
        self.path = path
        self.memory = memory
        self.stored = stored
        self.size = len(memory) if memory is not None else stored.size if stored is not None else 0
        self.pushed = pushed
        self.damage: str | None = None
        """What cut a compressed stream short, where that was tolerated."""
        self.read_size = self.size
        """Bytes of the capture as it was written, decompressed."""
        self.remarks: list[Remark] = []
        """What was tolerated while transcribing."""
        self.profile: ProfileColumns | None = None
        """The profile of tfprof that it was transcribed from, unless it is too large to keep."""
        self.file: Watched | None = None
        """The file that the bytes came from, compressed or not, as it was when it was opened; None: it was none."""
        if not self.size:
            raise CaptureError(_EMPTY, path=path, offset=0, salvageable=False)

    def read(self, offset: int, length: int) -> bytes:
        """These bytes, or fewer where the capture ends. Raises ChangedError, UnreadableError."""
        length = max(0, min(length, self.size - offset))
        if self.memory is not None:
            return bytes(self.memory[offset : offset + length])
        assert self.stored is not None
        descriptor = self.stored.begin()
        try:
            found = b"".join(_read_at(descriptor, *place) for place in self.stored.places(offset, length))
        except OSError as error:
            raise UnreadableError(f"reading failed: {error.strerror or error}", path=self.path) from error
        finally:
            self.stored.end()
        if len(found) != length:
            raise ChangedError("the file changed while it was being read; load it again", path=self.path)
        return found

    def check_unchanged(self) -> None:
        """Raise ChangedError if the file is not what it was when it was loaded."""
        if self.stored is not None:
            self.stored.check()


def _read_at(descriptor: int, offset: int, length: int) -> bytes:
    found = os.pread(descriptor, length, offset)
    while 0 < len(found) < length and (more := os.pread(descriptor, length - len(found), offset + len(found))):
        found += more
    return found


Push = Callable[[Any], None]


def open_source(
    what: object,
    path: str,
    push: Push,
    salvage: bool = False,
    max_unpacked: int = unpacking.MOST,
    *,
    pipe: bool = False,
) -> Source:
    """Open a capture. What can only be read once is pushed, in order, to ``push`` on the way, unless it is salvaged.

    ``what`` is a path, bytes, a binary file object, or a part of a source that is open. ``max_unpacked``: bytes that a
    compressed one may unpack to.
    ``pipe``: the path may be one of a pipe or a device, not only of a file.
    Raises UnreadableError, or CaptureError where the bytes are empty or the compression is damaged (to salvage, what
    came before the damage is kept); whatever ``push`` raises ends the reading.
    """
    if isinstance(what, Source):
        return what
    if isinstance(what, (bytes, bytearray, memoryview)):
        view = memoryview(what)
        view = view.cast("B") if view.c_contiguous else memoryview(bytes(view))
        if _codec(bytes(view[:_HEAD])) or format_of(bytes(view[:HEAD])):
            return _spool(io.BytesIO(view), path, push, salvage, max_unpacked, ahead=True)
        return Source(path, memory=view)
    if isinstance(what, (str, os.PathLike)):
        return _open_file(os.fspath(what), path, push, salvage, max_unpacked, pipe)
    return _spool(what, path, push, salvage, max_unpacked)  # type: ignore[arg-type]


def _open_file(name: str | bytes, path: str, push: Push, salvage: bool, max_unpacked: int, pipe: bool) -> Source:
    try:
        number = opened(name, pipe=pipe)
        if not stat.S_ISREG(os.fstat(number).st_mode):
            with open(number, "rb", buffering=0) as stream:  # noqa: PTH123
                return _spool(stream, path, push, salvage, max_unpacked)
        file = WatchedFile(name, path, number)
    except UnreadableError:
        raise
    except OSError as error:
        raise UnreadableError(reason(error), path=path) from error
    source = Source(path, stored=file)
    head = source.read(0, HEAD)
    if _codec(head) or format_of(head):
        parts = None if salvage or _codec(head) else _parts_in_file(source, head)
        if parts is None:
            source = _unpacked(file, path, push, salvage, max_unpacked)
        else:
            source = Source(path, stored=PartsOfFile(file, parts))
            source.read_size = file.size
    source.file = file.watched
    return source


def _parts_in_file(source: Source, head: bytes) -> bytes | None:
    """Where the XSpace stands in a file of another format; None: it does not stand there."""
    form = format_of(head)
    find = IN_FILE.get(form.NAME) if form else None
    return find(source.read, source.size, source.path) if find else None


def _unpacked(file: WatchedFile, path: str, push: Push, salvage: bool, max_unpacked: int) -> Source:
    number = file.begin()
    try:
        with open(number, "rb", buffering=0, closefd=False) as stream:
            return _spool(stream, path, push, salvage, max_unpacked, ahead=True)
    finally:
        file.end()


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


def _chunks(
    stream: BinaryIO, path: str, copy: IO[bytes] | None, max_unpacked: int, remarks: list[Remark] | None = None
) -> Generator[bytes, None, None]:
    """The stream's bytes, decompressed, in chunks as they come; ``copy`` gets those of zstd as they are."""
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
    unpacked = 0
    fast = _fast(head, stream, path) if codec == "gzip" else None
    if fast is not None:
        begin = stream.tell() - len(head)
        try:
            for chunk in fast:
                unpacked += len(chunk)
                unpacking.check_size(unpacked, max_unpacked, path)
                yield chunk
            return
        except NotSoundError:
            stream.seek(begin)
            head = b""
    packed = _Packed(head, stream, path, copy if codec == "zstd" else None)
    yield from _unpack(codec, packed, path, max_unpacked, unpacked, [] if remarks is None else remarks)


def _fast(head: bytes, stream: BinaryIO, path: str) -> Iterator[bytes] | None:
    """What inflates faster than zlib; None: nothing that is installed, or the stream could not be read once more."""
    if not isinstance(stream, (io.FileIO, io.BytesIO)) or not stream.seekable():
        return None
    rest = [head]
    return inflated(lambda size: rest.pop() if rest else _read(stream, size, path), CHUNK)


def _unpack(
    codec: str, packed: _Packed, path: str, max_unpacked: int, known: int, remarks: list[Remark]
) -> Generator[bytes, None, None]:
    """What a compressed stream has behind its first ``known`` bytes."""
    unpacked = 0
    try:
        for chunk in _of_gzip(packed, remarks) if codec == "gzip" else _of_zstd(packed):
            unpacked += len(chunk)
            unpacking.check_size(unpacked, max_unpacked, path)
            if unpacked > known:
                yield chunk
    except UnreadableError:
        raise
    except (DamagedMemberError, OSError) as error:
        if packed.failure is not None:
            raise packed.failure from None
        raise CaptureError(f"the {codec} data are damaged or cut off: {error}", path=path) from error


def _of_gzip(packed: _Packed, remarks: list[Remark]) -> Iterator[bytes]:
    members, unpacked = Members(packed.read, CHUNK), 0
    for chunk in members.chunks():
        unpacked += len(chunk)
        yield chunk
    if members.trailing:
        what = "zeros" if members.are_zeros else "bytes that gzip did not write"
        text = f"{what} behind the compressed data are passed over"
        severity = "info" if members.are_zeros else "data_loss"
        remarks.append(Remark(severity, "trailing_bytes", text, members.trailing, unpacked))


def _of_zstd(packed: IO[bytes] | _Packed) -> Iterator[bytes]:
    import pyarrow as pa

    with pa.CompressedInputStream(pa.PythonFile(packed, mode="r"), "zstd") as plain:
        while chunk := plain.read(CHUNK):
            yield chunk


def beginning(name: str) -> bytes:
    """The first mebibyte of a file, decompressed, or what of it can be read."""
    found = b""
    with suppress(OSError, CaptureError, UnreadableError), open(opened(name), "rb", buffering=0) as stream:  # noqa: PTH123
        for chunk in _chunks(stream, name, None, 2 * CHUNK):
            found += chunk
            if len(found) >= CHUNK:
                break
    return found


def entire(name: str, path: str, max_unpacked: int) -> bytes:
    """All of a small file, decompressed. Raises UnreadableError, CaptureError."""
    try:
        with open(opened(name), "rb", buffering=0) as stream:  # noqa: PTH123
            return b"".join(_chunks(stream, path, None, max_unpacked))
    except OSError as error:
        raise UnreadableError(reason(error), path=path) from error


def _last_bytes(packed: IO[bytes], known: int) -> bytes:
    """What damaged zstd still decompress to after ``known`` bytes: a read that fails gives nothing, so byte by byte."""
    import pyarrow as pa

    rest = bytearray()
    if not packed.seek(0, io.SEEK_END):  # of gzip, all has been given
        return b""
    packed.seek(0)
    with suppress(OSError), pa.CompressedInputStream(pa.PythonFile(packed, mode="r"), "zstd") as plain:
        while known:
            known -= len(plain.read(min(known, CHUNK)))
        while byte := plain.read(1):
            rest += byte
    return bytes(rest)


def _spool(stream: BinaryIO, path: str, push: Push, salvage: bool, max_unpacked: int, *, ahead: bool = False) -> Source:
    """Copy a stream to a temporary file, which is read then. ``push`` sees the bytes of an XSpace as they come, unless
    salvaging.

    ``ahead``: threads read, unpack and scan the next chunks meanwhile; not of a pipe, as a fault would wait for its
    bytes.
    """
    damage, copied, transcription = None, 0, Transcription(path, salvage)
    remarks: list[Remark] = []

    def copy(pieces: Iterator[bytes | memoryview]) -> None:
        nonlocal copied
        for piece in pieces:
            if not salvage and not transcription.is_needed:
                push(piece)
            spool.write(piece)
            copied += len(piece)
            unpacking.check_space(copied - len(piece), copied, path)

    with ExitStack() as temporary:
        temporary.callback(transcription.close)
        try:
            spool = temporary.enter_context(tempfile.TemporaryFile())
            packed = temporary.enter_context(tempfile.TemporaryFile()) if salvage else None
            try:
                chunks = _chunks(stream, path, packed, max_unpacked, remarks)
                if ahead:
                    chunks = temporary.enter_context(closing(made_ahead(chunks)))
                scanned = transcription.scanned(chunks)
                with closing(made_ahead(scanned) if ahead else scanned) as coming:
                    for chunk in coming:
                        copy(transcription.push(chunk))
            except CaptureError as error:
                if packed is None or transcription.failed:
                    raise
                damage = error.message
                for chunk in transcription.scanned([_last_bytes(packed, transcription.read)]):
                    copy(transcription.push(chunk))
            copy(transcription.finish())
            spool.flush()
            number = os.dup(spool.fileno()) if copied else -1
        except (CaptureError, UnreadableError):
            raise
        except OSError as error:
            text = f"copying to a temporary file failed: {reason(error)} (TMPDIR sets its directory)"
            raise UnreadableError(text, path=path) from error
        if damage is not None and not copied:
            raise CaptureError(f"{damage}, and no data can be read", path=path, salvageable=False)
        if not copied:
            raise CaptureError(_EMPTY, path=path, offset=0, salvageable=False)
        spooled: ReadFile = SpooledFile(number, copied)
        if transcription.parts is not None:
            spooled = PartsOfFile(spooled, transcription.parts)
        source = Source(path, stored=spooled, pushed=not salvage and not transcription.is_needed)
        source.damage = damage
        source.remarks = remarks + transcription.remarks
        source.profile = transcription.profile
        source.read_size = transcription.read
        return source
