"""An object of a store as a file: an unnamed temporary file of its size, whose blocks are fetched before they are
read. Threads share it; a block that one of them fetches is waited for by the others.

    object   | block | block | block | …        fetched in ranges of whole blocks, each of the version that was opened
    file     | bytes |  hole | bytes | …        takes disk space only for blocks that were fetched

Ranges are fetched side by side, the first ones first. A block can be read as soon as it has come, before the rest of
its range, so that reading follows fetching.
"""

from __future__ import annotations

import contextlib
import io
import os
import tempfile
import threading
import time
import weakref
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from fastprof.errors import ChangedError, NotFoundError, UnreadableError
from fastprof.inputs import open_files
from fastprof.inputs.stores.kept_objects import keep_later, restore_object
from fastprof.inputs.stores.store_path import SIDE_BY_SIDE, StorePath, explain_store_error, get_pool
from fastprof.inputs.stores.store_verbs import (
    AbsentError,
    OtherVersionError,
    RefusedError,
    StoredObject,
    StoreError,
)

if TYPE_CHECKING:
    from fastprof.schema.columns import Records

BLOCK: Final = 64 << 10
"""Least bytes of a fetch: a walk over capture headers reads a few bytes in many places."""
RANGE: Final = 8 << 20
"""Most bytes of a request."""
MOST_AT_ONCE: Final = 256 << 20
"""Objects up to this size are fetched entirely as soon as they are opened."""
_MOST_IN_ROW: Final = 16
_TRIES: Final = 3
_WAIT_S: Final = 0.1
_MISSING, _COMING, _THERE = range(3)
_CHANGED: Final = "the object changed since it was listed or loaded; load it again"


class RemoteFile:
    """An object that has ranges, in the version ``about``."""

    parts: Records | None = None

    def __init__(self, path: StorePath, about: StoredObject) -> None:
        self.path = path
        self.about = about
        self.size = about.size
        self.fetched_bytes = 0
        self._states = bytearray(-(-self.size // BLOCK))
        self._left = len(self._states)
        self._change = threading.Condition()
        self._writing = threading.Lock()  # the kernel lets one thread write to a file; others would spin
        self._lately = (0, -1, 0)
        """The blocks that were fetched last, and how often those behind them were needed next."""
        with tempfile.TemporaryFile(prefix="fastprof-") as file:
            os.truncate(file.fileno(), self.size)
            self._number = os.dup(file.fileno())

    def __del__(self) -> None:
        if (number := getattr(self, "_number", -1)) >= 0:
            os.close(number)

    def places(self, offset: int, length: int) -> Iterator[tuple[int, int]]:
        yield offset, length

    def begin(self) -> int:
        return self._number

    def end(self) -> None:
        pass

    def check(self) -> None:
        pass

    # ---- fetching

    def fetch(self, begin: int, end: int) -> None:
        """Wait until these bytes are in the file. Raises ChangedError, NotFoundError, UnreadableError."""
        if not self._left:
            return
        first, last = begin // BLOCK, -(-end // BLOCK)
        while True:
            with self._change:
                mine = self._claim(first, self._read_ahead(first, last))
                if not mine:
                    if self._states.find(_COMING, first, last) < 0:
                        return
                    self._change.wait()
                    continue
            others = [get_pool().submit(_fetch_rest, weakref.ref(self), *blocks, 0) for blocks in mine[1:]]
            self._fetch_blocks(*mine[0])
            for other in others:
                other.result()

    def expect(self, begin: int, end: int) -> None:
        """Begin to fetch bytes that will be read. Threads claim one range at a time, so that a reader who needs a later
        range can fetch it at once."""
        first, until = begin // BLOCK, -(-end // BLOCK)
        for _ in range(SIDE_BY_SIDE):
            with self._change:
                blocks = self._claim_range(first, until)
            if blocks is None:
                return
            get_pool().submit(_fetch_rest, weakref.ref(self), *blocks, until)
            first = blocks[1]

    def has_all(self) -> None:
        """Note that all bytes are in the file."""
        self._states[:] = bytes([_THERE]) * len(self._states)
        self._left = 0

    def _read_ahead(self, first: int, last: int) -> int:
        """Return the block to which is fetched, if any before ``last`` is missing: who goes on from what was fetched
        gets more each time."""
        if self._states.find(_MISSING, first, last) < 0:
            return last
        since, until, in_row = self._lately
        in_row = min(in_row + 1, _MOST_IN_ROW) if since <= first <= until else 0
        last = min(last + min(1 << in_row >> 2, RANGE // BLOCK), len(self._states))
        self._lately = first, last, in_row
        return last

    def _claim(self, first: int, last: int) -> list[tuple[int, int]]:
        """Mark missing blocks as coming, and return them in runs that one request fetches."""
        runs = []
        while (blocks := self._claim_range(first, last)) is not None:
            runs.append(blocks)
            first = blocks[1]
        return runs

    def _claim_range(self, first: int, last: int) -> tuple[int, int] | None:
        """Mark the first run of missing blocks as coming, and return it; None if no block is missing."""
        at = self._states.find(_MISSING, first, last)
        if at < 0:
            return None
        stop = at
        while stop < min(last, at + RANGE // BLOCK) and self._states[stop] == _MISSING:
            self._states[stop] = _COMING
            stop += 1
        return at, stop

    def _fetch_blocks(self, first: int, last: int) -> None:
        begin, end = first * BLOCK, min(last * BLOCK, self.size)
        try:
            self._fetch_range(begin, end)
        except OSError as error:
            if isinstance(error, (UnreadableError, NotFoundError)):
                raise
            text = f"copying to a temporary file failed: {error.strerror or error} (TMPDIR sets its directory)"
            raise UnreadableError(text, path=str(self.path)) from error
        finally:
            with self._change:
                left = self._states.count(_COMING, first, last)
                self._states[last - left : last] = bytes([_MISSING]) * left
                self._change.notify_all()
        open_files.check_disk_space(self.fetched_bytes - (end - begin), self.fetched_bytes, str(self.path))

    def _takes_new_tag(self, refused: str) -> bool:
        """Return whether the object is the one that was listed, though the store's lists have other tags than its
        answers: size and time are the same, and nothing has been fetched. Then its tag is that of the answers."""
        try:
            now = self.path.store.stat(self.path.key)
        except StoreError:
            return False
        with self._change:
            if self.about.version != refused:  # another thread has found that out
                return True
            if now is None or self.fetched_bytes or now.version == refused:
                return False
            if (now.size, int(now.changed_s)) != (self.size, int(self.about.changed_s)):
                return False
            self.about = now
            return True

    def _fetch_range(self, begin: int, end: int) -> None:
        """Copy a range of whole blocks to the file. The client of the store has its own retries; connections that break
        off are tried again from the first missing block on, and one short answer is forgiven."""
        what, short = f" for the bytes {begin:,} to {end:,}", 0
        for left in reversed(range(_TRIES)):
            version = self.about.version
            begin = self._states.find(_COMING, begin // BLOCK) * BLOCK
            try:
                size = self._copy_answer(begin, end, version)
                if size == end - begin:
                    return
                short += 1
                failure = StoreError(f"the answer has {size:,} bytes, not {end - begin:,}")
            except OtherVersionError:
                if not self._takes_new_tag(version):
                    raise ChangedError(_CHANGED, path=str(self.path)) from None
                failure = StoreError("the version differs")
            except (AbsentError, RefusedError) as error:
                raise explain_store_error(error, self.path) from None
            except StoreError as error:
                failure = error
            if short == 2 or not left:
                break
            time.sleep(_WAIT_S * (_TRIES - left))
        raise explain_store_error(failure, self.path, what)

    def _copy_answer(self, begin: int, end: int, version: str) -> int:
        """Copy an answer to the file, and return its size. An answer that is too long is not read to its end. Blocks
        can be read as they come; if the store cannot be asked for a version, after versions have been compared."""
        store, at = self.path.store.verbs, begin
        for piece in store.read(self.path.key, begin, end, version):
            if len(piece) > end - at:
                return at + len(piece) - begin
            with self._writing:
                at += open_files.write_bytes(self._number, piece, at)
            if store.is_guarded:
                self._publish(begin, min(at, end - 1))  # the last one waits for the end of the answer
        if not store.is_guarded:
            now = store.stat(self.path.key)
            if now is None or now[:2] != self.about[:2]:
                raise OtherVersionError("the version differs")
        self._publish(begin, at)
        return at - begin

    def _publish(self, begin: int, end: int) -> None:
        """Let threads read the blocks between two offsets that are complete."""
        last = end // BLOCK if end < self.size else len(self._states)
        with self._change:
            first = self._states.find(_COMING, begin // BLOCK, last)
            if first < 0:
                return
            self._states[first:last] = bytes([_THERE]) * (last - first)
            self._left -= last - first
            self.fetched_bytes += min(last * BLOCK, self.size) - first * BLOCK
            if not self._left and self.size <= MOST_AT_ONCE:
                keep_later(self.path, self.about, self._number)
            self._change.notify_all()


def _fetch_rest(reference: weakref.ref[RemoteFile], first: int, last: int, until: int) -> None:
    """Fetch blocks of a file, then missing ones before ``until``, as long as somebody has the file."""
    blocks: tuple[int, int] | None = (first, last)
    while blocks is not None and (file := reference()) is not None:
        first, last = blocks
        file._fetch_blocks(first, last)
        with file._change:
            blocks = file._claim_range(last, until)
        del file


class RemoteStream(io.RawIOBase):
    """A remote file from front to back."""

    def __init__(self, file: RemoteFile) -> None:
        self._file = file
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + (0, self._at, self._file.size)[whence]
        return self._at

    def readinto(self, buffer: Any) -> int:
        size = min(len(buffer), max(0, self._file.size - self._at))
        if size:
            self._file.fetch(self._at, self._at + size)
            size = os.preadv(self._file.begin(), [memoryview(buffer)[:size]], self._at)
            self._at += size
        return size


def open_remote_file(path: StorePath, *, at_once: bool = True) -> RemoteFile | None:
    """Return the object as a file; None: its store has no ranges for it. It is the version that was listed or looked at
    last. ``at_once``: begin to fetch all of a small one. Raises NotFoundError, UnreadableError."""
    ahead: RemoteFile | None = path.store.opened.pop(path.key, None)
    if ahead is not None:
        return ahead
    about = path.store.known.get(path.key) or path.call(lambda: path.store.stat(path.key))
    if about is None:
        raise NotFoundError("no such object", path=str(path))
    if not about.has_ranges:
        return None
    try:
        file = RemoteFile(path, about)
    except OSError as error:
        text = f"a temporary file cannot be made: {open_files.describe_open_error(error)} (TMPDIR sets its directory)"
        raise UnreadableError(text, path=str(path)) from error
    if at_once and file.size <= MOST_AT_ONCE:
        if restore_object(path, about, file.begin()):
            file.has_all()
        else:
            file.expect(0, file.size)
    return file


def open_ahead(path: StorePath) -> None:
    """Begin to fetch an object that will be opened next, if it was listed."""
    if path.key in path.store.known and path.key not in path.store.opened:
        file = open_remote_file(path)
        if file is not None:
            file.expect(0, min(BLOCK, file.size))
            path.store.opened[path.key] = file


@contextlib.contextmanager
def open_remote_stream(path: StorePath) -> Generator[BinaryIO]:
    """Return an object from front to back: in ranges as it is read, or whole if its store has none."""
    file = open_remote_file(path, at_once=False)
    if file is not None:
        yield RemoteStream(file)  # type: ignore[misc]
        return
    with contextlib.ExitStack() as opened:
        yield path.call(lambda: opened.enter_context(path.store.verbs.open_reader(path.key)))
