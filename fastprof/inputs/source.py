"""Bytes of a capture, readable at any offset: the caller's own, a file, or a spooled stream, decompressed, and
transcribed to an XSpace if it is of another format.

Plain files are read where and when their bytes are needed. Whatever can only be read from front to back (pipes, file
objects, gzip, zstd) is written to an unnamed temporary file, to be read so: in an XSpace the names come after the
events that use them. Other formats (``inputs/formats``) are transcribed on the way there. Decompressed bytes are what
offsets count. A transcription gives events as they come, names and metadata at the end: parts of the temporary file are
its XSpace.

isal reads only what is sound. From anything else on, the caller has the stream read by zlib, so that results, errors
and what is left of damaged data are the same with and without isal.
"""

from __future__ import annotations

import io
import os
import stat
import zlib
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, suppress
from typing import IO, TYPE_CHECKING, Any, BinaryIO, Final

from fastprof.errors import CaptureError, ChangedError, FastprofError, UnreadableError
from fastprof.inputs import open_files
from fastprof.inputs.formats import HEAD, IN_FILE, Scribe, find_format
from fastprof.inputs.formats.contract import FormatRemark
from fastprof.inputs.open_files import (
    PartsOfFile,
    ReadFile,
    SpooledFile,
    Watched,
    WatchedFile,
    describe_open_error,
    open_descriptor,
    prefetch,
)
from fastprof.inputs.stores.store_path import StorePath

if TYPE_CHECKING:
    from fastprof.inputs.profile_columns import ProfileColumns


class Transcription:
    """Takes a stream a chunk at a time. Its format is known from its first bytes, which wait until there are enough.

    ``read``: bytes of the stream that were scanned.
    ``failed``: the format's own fault, not that of the stream.
    ``parts``: at the end, parts of what was given that are the XSpace; None: all of it (``contract.Scribe``).
    ``profile``: at the end, as the contract has it.
    """

    def __init__(self, path: str, salvage: bool) -> None:
        self.read = 0
        self.failed = False
        self.remarks: list[FormatRemark] = []
        self.parts: bytes | None = None
        self.profile: ProfileColumns | None = None
        self._path = path
        self._salvage = salvage
        self._head: bytes | None = b""
        self._scribe: Scribe | None = None

    def scanned(self, chunks: Iterable[bytes]) -> Generator[Any, None, None]:
        """Scan chunks for ``push``. A thread may scan while another one pushes what was scanned before."""
        for chunk in chunks:
            self.read += len(chunk)
            if self._head is None:
                yield self._scanned(chunk)
                continue
            self._head += chunk
            if len(self._head) >= HEAD:
                yield self._begun()

    def push(self, scanned: Any) -> Iterator[bytes | memoryview]:
        """Yield the bytes of the XSpace that are ready."""
        if self._scribe is None:
            if scanned:
                yield scanned
            return
        try:
            ready = self._scribe.push(scanned)
        except CaptureError:
            self.failed = True
            raise
        if isinstance(ready, list):
            yield from ready
        elif ready:
            yield ready

    def finish(self) -> Iterator[bytes | memoryview]:
        """Yield the rest of the XSpace."""
        if self._head is not None:
            yield from self.push(self._begun())
        if self._scribe is not None:
            try:
                yield from self._scribe.finish()
            except CaptureError:
                self.failed = True
                raise
            self.remarks, self.parts, self.profile = self._scribe.remarks, self._scribe.parts, self._scribe.profile

    @property
    def is_needed(self) -> bool:
        """Return whether the stream is of another format; known before the first bytes are given."""
        return self._scribe is not None

    def close(self) -> None:
        if self._scribe is not None:
            self._scribe.close()

    def _begun(self) -> Any:
        head, self._head = self._head or b"", None
        form = find_format(head[:HEAD])
        if form is not None:
            self._scribe = form.scribe(self._path, self._salvage)
        return self._scanned(head)

    def _scanned(self, chunk: bytes) -> Any:
        return chunk if self._scribe is None else self._scribe.scan(chunk)


_GZIP: Final = 16 + zlib.MAX_WBITS
_ISAL_PIECE: Final = 1 << 16


class NotSoundError(Exception):
    """The data are damaged, cut off, or something else follows them."""


def inflate_with_isal(read: Callable[[int], bytes], size: int) -> Iterator[bytes] | None:
    """Return chunks of ``size`` bytes, the last one possibly shorter, or None if isal is not installed. They raise
    NotSoundError."""
    try:
        from isal import isal_zlib
    except ImportError:
        return None
    return _inflate_chunks(isal_zlib, read, size)


def _inflate_chunks(isal: Any, read: Callable[[int], bytes], size: int) -> Iterator[bytes]:
    stream, parts, count, left = isal.decompressobj(_GZIP), [], 0, b""
    while True:
        more = left or read(_ISAL_PIECE)
        try:
            part = stream.decompress(more, size - count)
        except isal.error as error:
            raise NotSoundError from error
        if not (more or part or stream.eof):
            raise NotSoundError
        parts.append(part)
        count += len(part)
        if count == size:
            yield b"".join(parts)
            parts, count = [], 0
        left = stream.unconsumed_tail
        if stream.eof:
            left = stream.unused_data or read(_ISAL_PIECE)
            if not left:
                break
            stream = isal.decompressobj(_GZIP)
    if count:
        yield b"".join(parts)


_MEMBER_MAGIC: Final = b"\x1f\x8b"
_PIECE: Final = 64 << 10


class DamagedMemberError(Exception):
    """``before``: what the last bytes before the damage inflate to."""

    def __init__(self, text: str, before: bytes) -> None:
        super().__init__(text)
        self.before = before


class GzipMembers:
    """``trailing``: bytes behind the last member that begin no other, as writers to tapes pad with zeros;
    ``are_zeros``: all of them are."""

    def __init__(self, read: Callable[[int], bytes], size: int) -> None:
        """``read``: at most that many packed bytes, none at their end."""
        self.trailing = 0
        self.are_zeros = True
        self._read = read
        self._size = size
        self._left = b""
        """Packed bytes that no member has taken."""

    def chunks(self) -> Iterator[bytes]:
        """Yield the inflated bytes in chunks of ``size`` bytes, the last one possibly shorter. DamagedMemberError."""
        parts, count, damage = list[bytes](), 0, None
        pieces = self._pieces(lambda: self._size - count)
        while True:
            try:
                part = next(pieces, b"")
            except DamagedMemberError as error:
                part, damage = error.before, error
            parts.append(part)
            count += len(part)
            if count >= self._size or damage or not part:
                if count:
                    yield b"".join(parts)
                if damage:
                    raise damage
                if not part:
                    return
                parts, count = [], 0

    def _pieces(self, most: Callable[[], int]) -> Iterator[bytes]:
        yield from self._member(most)
        while self._peek(len(_MEMBER_MAGIC)):
            if self._left[: len(_MEMBER_MAGIC)] != _MEMBER_MAGIC[: len(self._left)]:
                while self._peek(1):
                    self.trailing += len(self._left)
                    self.are_zeros &= not self._left.strip(b"\0")
                    self._left = b""
                return
            yield from self._member(most)

    def _member(self, most: Callable[[], int]) -> Iterator[bytes]:
        stream = zlib.decompressobj(_GZIP)
        while not stream.eof:
            is_end, before = not self._peek(1), stream.copy()
            try:
                piece = stream.decompress(self._left, most())
            except zlib.error as error:
                # Inflate the piece with the damage again, byte by byte: a call that fails gives nothing.
                inflated = bytearray()
                with suppress(zlib.error):
                    for at in range(len(self._left)):
                        inflated += before.decompress(self._left[at : at + 1])
                raise DamagedMemberError(str(error), bytes(inflated)) from None
            self._left = stream.unused_data if stream.eof else stream.unconsumed_tail
            if piece:
                yield piece
            elif is_end and not stream.eof:
                raise DamagedMemberError("Truncated compressed stream", b"")

    def _peek(self, size: int) -> bytes:
        while len(self._left) < size and (more := self._read(_PIECE)):
            self._left += more
        return self._left


CHUNK = 1 << 20
_MAGIC = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}
_MAGIC |= {bytes([first]) + b"\x2a\x4d\x18": "zstd" for first in range(0x50, 0x60)}  # frames to skip, as pzstd begins
_HEAD = 4
_EMPTY = "the file is empty: nothing was captured, or the profiler lost the data (as it does above 2 GiB)"


class CaptureSource:
    """The bytes of one capture: in ``memory``, or read from ``stored``. ``pushed``: all were pushed on the way."""

    def __init__(
        self, path: str, *, memory: memoryview | None = None, stored: ReadFile | None = None, pushed: bool = False
    ) -> None:
        self.path = path
        self.memory = memory
        self.stored = stored
        self.size = len(memory) if memory is not None else stored.size if stored is not None else 0
        self.pushed = pushed
        self.is_transcribed = False
        self.damage: str | None = None
        """What cut a compressed stream short, where that was tolerated."""
        self.read_size = self.size
        """Bytes of the capture as it was written, decompressed."""
        self.remarks: list[FormatRemark] = []
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
            places = list(self.stored.places(offset, length))
            if self.stored.fetch is not None:
                for begin, size in places:
                    self.stored.fetch(begin, begin + size)
            content = b"".join(_read_at(descriptor, *place) for place in places)
        except FastprofError:
            raise
        except OSError as error:
            raise UnreadableError(f"reading failed: {error.strerror or error}", path=self.path) from error
        finally:
            self.stored.end()
        if len(content) != length:
            raise ChangedError("the file changed while it was being read; load it again", path=self.path)
        return content

    @property
    def is_fetched(self) -> bool:
        """Return whether bytes come from a store when they are needed, so that it pays to read few."""
        return self.stored is not None and self.stored.fetch is not None and self.stored.parts is None

    def expect(self, begin: int, end: int) -> None:
        """Begin to fetch bytes that will be read, if they come from a store."""
        if self.stored is not None and self.is_fetched:
            self.stored.expect(begin, end)

    def check_unchanged(self) -> None:
        """Raise ChangedError if the file is not what it was when it was loaded."""
        if self.stored is not None:
            self.stored.check()


def _read_at(descriptor: int, offset: int, length: int) -> bytes:
    content = os.pread(descriptor, length, offset)
    while 0 < len(content) < length and (more := os.pread(descriptor, length - len(content), offset + len(content))):
        content += more
    return content


Push = Callable[[Any], None]


def open_source(
    what: object,
    path: str,
    push: Push,
    salvage: bool = False,
    max_unpacked: int = open_files.MOST_UNPACKED,
    *,
    pipe: bool = False,
) -> CaptureSource:
    """Open a capture. What can only be read once is pushed, in order, to ``push`` on the way, unless it is salvaged.

    ``what`` is a path, bytes, a binary file object, or a part of a source that is open. ``max_unpacked``: bytes that a
    compressed one may unpack to.
    ``pipe``: the path may be one of a pipe or a device, not only of a file.
    Raises UnreadableError, or CaptureError where the bytes are empty or the compression is damaged (to salvage, what
    came before the damage is kept); whatever ``push`` raises ends the reading.
    """
    if isinstance(what, CaptureSource):
        return what
    if isinstance(what, (bytes, bytearray, memoryview)):
        view = memoryview(what)
        view = view.cast("B") if view.c_contiguous else memoryview(bytes(view))
        if _find_codec(bytes(view[:_HEAD])) or find_format(bytes(view[:HEAD])):
            return _spool(io.BytesIO(view), path, push, salvage, max_unpacked, ahead=True)
        return CaptureSource(path, memory=view)
    if isinstance(what, StorePath):
        return _open_object(what, path, push, salvage, max_unpacked)
    if isinstance(what, (str, os.PathLike)):
        return _open_file(os.fspath(what), path, push, salvage, max_unpacked, pipe)
    return _spool(what, path, push, salvage, max_unpacked)  # type: ignore[arg-type]


def _open_file(name: str | bytes, path: str, push: Push, salvage: bool, max_unpacked: int, pipe: bool) -> CaptureSource:
    try:
        number = open_descriptor(name, pipe=pipe)
        if not stat.S_ISREG(os.fstat(number).st_mode):
            with open(number, "rb", buffering=0) as stream:  # noqa: PTH123
                return _spool(stream, path, push, salvage, max_unpacked)
        file = WatchedFile(name, path, number)
    except UnreadableError:
        raise
    except OSError as error:
        raise UnreadableError(describe_open_error(error), path=path) from error

    def unpack() -> CaptureSource:
        number = file.begin()
        try:
            with open(number, "rb", buffering=0, closefd=False) as stream:
                return _spool(stream, path, push, salvage, max_unpacked, ahead=True)
        finally:
            file.end()

    source = _read_by_content(file, path, salvage, unpack)
    source.file = file.watched
    return source


def open_ahead(sources: Iterable[object]) -> None:
    """Begin to fetch objects of stores that will be opened next."""
    for source in sources:
        if isinstance(source, StorePath):
            from fastprof.inputs.stores import remote_file

            remote_file.open_ahead(source)


def measure_objects(sources: Iterable[object]) -> list[int]:
    """Return the bytes of each source that are in a store, as far as they are known; 0 for other sources."""
    places = [source if isinstance(source, StorePath) else None for source in sources]
    known = [place and place.store.known.get(place.key) for place in places]
    return [about.size if about else 0 for about in known]


def _open_object(place: StorePath, path: str, push: Push, salvage: bool, max_unpacked: int) -> CaptureSource:
    """Open an object of a store. Where the store has no ranges, the object is read as a stream, once."""
    from fastprof.inputs.stores import remote_file  # late: most sessions are files

    file = remote_file.open_remote_file(place)
    if file is None:
        with remote_file.open_remote_stream(place) as stream:
            return _spool(stream, path, push, salvage, max_unpacked)

    def unpack() -> CaptureSource:
        file.expect(0, file.size)
        return _spool(remote_file.RemoteStream(file), path, push, salvage, max_unpacked, ahead=True)  # type: ignore[arg-type]

    source = _read_by_content(file, path, salvage, unpack)
    source.file = place.identify(file.about)
    return source


def _read_by_content(file: ReadFile, path: str, salvage: bool, unpack: Callable[[], CaptureSource]) -> CaptureSource:
    """Return the bytes of a file: as they are, parts of it, or what ``unpack`` makes of it."""
    source = CaptureSource(path, stored=file)
    head = source.read(0, HEAD)
    if not (_find_codec(head) or find_format(head)):
        return source
    parts = None if salvage or _find_codec(head) else _find_parts(source, head)
    if parts is None:
        return unpack()
    source = CaptureSource(path, stored=PartsOfFile(file, parts))
    source.read_size = file.size
    return source


def _find_parts(source: CaptureSource, head: bytes) -> bytes | None:
    """Return the parts of a file of another format that are its XSpace, or None."""
    form = find_format(head)
    find = IN_FILE.get(form.NAME) if form else None
    return find(source.read, source.size, source.path) if find else None


def _find_codec(head: bytes) -> str | None:
    return next((codec for magic, codec in _MAGIC.items() if head.startswith(magic)), None)


def _read_head(stream: BinaryIO, size: int, path: str) -> bytes:
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
            return _read_head(self._rest, size, self._path)
        taken = self._head if size < 0 else self._head[:size]
        self._head = self._head[len(taken) :]
        return taken


def _read_chunks(
    stream: BinaryIO, path: str, copy: IO[bytes] | None, max_unpacked: int, remarks: list[FormatRemark] | None = None
) -> Generator[bytes, None, None]:
    """Yield the stream's bytes, decompressed, in chunks as they come; ``copy`` gets those of zstd unchanged."""
    head = b""
    while len(head) < _HEAD and (more := _read_head(stream, _HEAD - len(head), path)):
        head += more
    codec = _find_codec(head)
    if codec is None:
        if head:
            yield head
        while chunk := _read_head(stream, CHUNK, path):
            yield chunk
        return
    unpacked = 0
    fast = _inflate_fast(head, stream, path) if codec == "gzip" else None
    if fast is not None:
        begin = stream.tell() - len(head)
        try:
            for chunk in fast:
                unpacked += len(chunk)
                open_files.check_unpacked_size(unpacked, max_unpacked, path)
                yield chunk
            return
        except NotSoundError:
            stream.seek(begin)
            head = b""
    packed = _Packed(head, stream, path, copy if codec == "zstd" else None)
    yield from _unpack(codec, packed, path, max_unpacked, unpacked, [] if remarks is None else remarks)


def _inflate_fast(head: bytes, stream: BinaryIO, path: str) -> Iterator[bytes] | None:
    """Return the chunks of a decompressor faster than zlib, or None if none is installed or the stream could not be
    read once more."""
    if not (isinstance(stream, (io.RawIOBase, io.BytesIO)) and stream.seekable()):
        return None
    rest = [head]
    return inflate_with_isal(lambda size: rest.pop() if rest else _read_head(stream, size, path), CHUNK)


def _unpack(
    codec: str, packed: _Packed, path: str, max_unpacked: int, known: int, remarks: list[FormatRemark]
) -> Generator[bytes, None, None]:
    """Yield the decompressed bytes of a stream after its first ``known`` bytes."""
    unpacked = 0
    try:
        for chunk in _unpack_gzip(packed, remarks) if codec == "gzip" else _unpack_zstd(packed):
            unpacked += len(chunk)
            open_files.check_unpacked_size(unpacked, max_unpacked, path)
            if unpacked > known:
                yield chunk
    except UnreadableError:
        raise
    except (DamagedMemberError, OSError) as error:
        if packed.failure is not None:
            raise packed.failure from None
        raise CaptureError(f"the {codec} data are damaged or cut off: {error}", path=path) from error


def _unpack_gzip(packed: _Packed, remarks: list[FormatRemark]) -> Iterator[bytes]:
    members, unpacked = GzipMembers(packed.read, CHUNK), 0
    for chunk in members.chunks():
        unpacked += len(chunk)
        yield chunk
    if members.trailing:
        what = "zeros" if members.are_zeros else "bytes that are not gzip"
        text = f"{what} after the compressed data are ignored"
        severity = "info" if members.are_zeros else "data_loss"
        remarks.append(FormatRemark(severity, "trailing_bytes", text, members.trailing, unpacked))


def _unpack_zstd(packed: IO[bytes] | _Packed) -> Iterator[bytes]:
    import pyarrow as pa

    with pa.CompressedInputStream(pa.PythonFile(packed, mode="r"), "zstd") as plain:
        while chunk := plain.read(CHUNK):
            yield chunk


def _open_stream(name: str) -> AbstractContextManager[BinaryIO]:
    if isinstance(name, StorePath):
        from fastprof.inputs.stores import remote_file

        return remote_file.open_remote_stream(name)
    return open(open_descriptor(name), "rb", buffering=0)  # noqa: PTH123


def read_beginning(name: str) -> bytes:
    """Return the first mebibyte of a file, decompressed, or what of it can be read."""
    content = b""
    with suppress(OSError, CaptureError), _open_stream(name) as stream:
        for chunk in _read_chunks(stream, name, None, 2 * CHUNK):
            content += chunk
            if len(content) >= CHUNK:
                break
    return content


def read_entire(name: str, path: str, max_unpacked: int) -> bytes:
    """Return all of a small file, decompressed. Raises UnreadableError, CaptureError."""
    try:
        with _open_stream(name) as stream:
            return b"".join(_read_chunks(stream, path, None, max_unpacked))
    except FastprofError:
        raise
    except OSError as error:
        raise UnreadableError(describe_open_error(error), path=path) from error


def _salvage_last_bytes(packed: IO[bytes], known: int) -> bytes:
    """Return what damaged zstd data still decompress to after ``known`` bytes: a read that fails gives nothing, so it
    goes byte by byte."""
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


def _spool(
    stream: BinaryIO, path: str, push: Push, salvage: bool, max_unpacked: int, *, ahead: bool = False
) -> CaptureSource:
    """Copy a stream to a temporary file, which is read then. ``push`` sees the bytes of an XSpace as they come, unless
    salvaging.

    ``ahead``: threads read, unpack and scan the next chunks meanwhile; not of a pipe, as a fault would wait for its
    bytes.
    """
    damage, copied, transcription = None, 0, Transcription(path, salvage)
    remarks: list[FormatRemark] = []

    def copy(pieces: Iterator[bytes | memoryview]) -> None:
        nonlocal copied
        for piece in pieces:
            if not salvage and not transcription.is_needed:
                push(piece)
            spool.write(piece)
            copied += len(piece)
            open_files.check_disk_space(copied - len(piece), copied, path)

    import tempfile

    with ExitStack() as temporary:
        temporary.callback(transcription.close)
        try:
            spool = temporary.enter_context(tempfile.TemporaryFile())
            packed = temporary.enter_context(tempfile.TemporaryFile()) if salvage else None
            try:
                chunks = _read_chunks(stream, path, packed, max_unpacked, remarks)
                if ahead:
                    chunks = temporary.enter_context(closing(prefetch(chunks)))
                scanned = transcription.scanned(chunks)
                with closing(prefetch(scanned) if ahead else scanned) as coming:
                    for chunk in coming:
                        copy(transcription.push(chunk))
            except CaptureError as error:
                if packed is None or transcription.failed:
                    raise
                damage = error.message
                for chunk in transcription.scanned([_salvage_last_bytes(packed, transcription.read)]):
                    copy(transcription.push(chunk))
            copy(transcription.finish())
            spool.flush()
            number = os.dup(spool.fileno()) if copied else -1
        except (CaptureError, UnreadableError):
            raise
        except OSError as error:
            text = f"copying to a temporary file failed: {describe_open_error(error)} (TMPDIR sets its directory)"
            raise UnreadableError(text, path=path) from error
        if damage is not None and not copied:
            raise CaptureError(f"{damage}, and no data can be read", path=path, salvageable=False)
        if not copied:
            raise CaptureError(_EMPTY, path=path, offset=0, salvageable=False)
        spooled: ReadFile = SpooledFile(number, copied)
        if transcription.parts is not None:
            spooled = PartsOfFile(spooled, transcription.parts)
        source = CaptureSource(path, stored=spooled, pushed=not salvage and not transcription.is_needed)
        source.is_transcribed = transcription.is_needed
        source.damage = damage
        source.remarks = remarks + transcription.remarks
        source.profile = transcription.profile
        source.read_size = transcription.read
        return source
