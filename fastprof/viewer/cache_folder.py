"""Files that can be made again, kept between runs in a folder of their own: bounded in size, shared by processes.

A file is named by its key, and sealed: compressed in blocks, with a checksum of each, because old files, disks, copies
and people do damage. It appears whole or not at all: it is built under another name and renamed.

    KEY.PID-RANDOM.partial  --complete, renamed-->  KEY.fastprof  --copied, and the copy checked-->  mapped

Readers map a copy without a name, which nobody can truncate: the system kills a process that reads a map beyond the end
of its file. Files of the folder may therefore be removed or damaged at any time without harm to their readers. A writer
locks its file until it is complete. An unlocked partial file belongs to a killed writer, and the next process that
opens a file of the folder removes it.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import struct
import time
import weakref
import zlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Final, TypeVar

import pyarrow as pa

from fastprof.decode.workers import Workers, count_cpus
from fastprof.errors import FastprofError, OutputError, UsageError
from fastprof.export.new_files import DESCRIPTOR, make_temporary_folder, open_nameless
from fastprof.inputs.open_files import open_descriptor, write_bytes
from fastprof.inputs.stores.kept_objects import find_cache_folder
from fastprof.inputs.stores.store_path import StorePath
from fastprof.wording.amounts import parse_size

_BLOCK: Final = 1 << 20
_SHARE: Final = 16
"""Blocks that a thread checks at a time: less is not worth a thread."""
_RECORD: Final = struct.Struct("<II")
"""Stored length and checksum of a block."""
_FOOT: Final = struct.Struct("<QI4s8s")
"""Number of bytes, a checksum of the checksums and of that number, and the magic."""
_MAGIC: Final = b"fpsealed"


class DamagedFileError(ValueError):
    """Raised for a file that is not what was written, or of another kind: it is to be built again."""


def seal_file(path: Path) -> None:
    """Compress a complete file in its place, block by block, and add checksums of the blocks. OSError: it cannot be
    read or written."""
    with path.open("r+b") as file:
        descriptor = file.fileno()
        size = os.fstat(descriptor).st_size
        blocks, end, workers = b"", 0, Workers(count_cpus())
        for batch in _split_range(size, _SHARE * _BLOCK * workers.threads):
            shares = _split_range(batch.stop, _SHARE * _BLOCK, batch.start)
            for data, own in workers.run(None, [partial(_compress_share, descriptor, share) for share in shares]):
                blocks += own
                end += write_bytes(descriptor, data, end)
        file.truncate(end)
        file.seek(end)
        file.write(blocks + _make_foot(size, blocks))


def copy_sealed(descriptor: int, copy: Path) -> None:
    """Check a sealed file, and write its plain bytes to an empty file. Raises DamagedFileError if the file lacks
    checksums, or they do not match its bytes. OSError: a file cannot be read or written."""
    total = os.fstat(descriptor).st_size
    foot = os.pread(descriptor, _FOOT.size, total - _FOOT.size) if total >= _FOOT.size else bytes(_FOOT.size)
    size = _FOOT.unpack(foot)[0]
    begin = total - _FOOT.size - _RECORD.size * -(-size // _BLOCK)
    if foot[-len(_MAGIC) :] != _MAGIC or begin < 0:
        raise DamagedFileError("no checksums")
    blocks = os.pread(descriptor, total - _FOOT.size - begin, begin)
    records = list(_RECORD.iter_unpack(blocks))  # the stored length and checksum of each block
    if foot != _make_foot(size, blocks) or sum(length for length, _ in records) != begin:
        raise DamagedFileError("the checksums are damaged")
    ends = [0, *accumulate(length for length, _ in records)]
    numbers = [range(share.start // _BLOCK, -(-share.stop // _BLOCK)) for share in _split_range(size, _SHARE * _BLOCK)]
    with copy.open("r+b") as file:
        target = file.fileno()
        tasks = [partial(_copy_share, descriptor, target, size, records, ends, share) for share in numbers]
        Workers(count_cpus()).run(None, tasks)


def _split_range(end: int, step: int, begin: int = 0) -> list[range]:
    return [range(first, min(first + step, end)) for first in range(begin, end, step)]


def _compress_share(descriptor: int, share: range) -> tuple[bytes, bytes]:
    """Return the blocks of a part of a file, each compressed if that is shorter, and their records."""
    codec, stored, records = pa.Codec("zstd", compression_level=1), [], b""
    for block in _split_range(share.stop, _BLOCK, share.start):
        plain = os.pread(descriptor, len(block), block.start)
        packed = codec.compress(plain, asbytes=True)
        stored.append(packed if len(packed) < len(plain) else plain)
        records += _RECORD.pack(len(stored[-1]), zlib.crc32(stored[-1]))
    return b"".join(stored), records


def _copy_share(
    descriptor: int, target: int, size: int, records: Sequence[tuple[int, int]], ends: Sequence[int], share: range
) -> None:
    """Check blocks, numbered as in ``share``, and write their plain bytes to ``target``."""
    codec = pa.Codec("zstd")
    for number in share:
        length, checksum = records[number]
        plain_length = min(_BLOCK, size - number * _BLOCK)
        stored = os.pread(descriptor, length, ends[number])
        if length > plain_length or zlib.crc32(stored) != checksum or len(stored) != length:
            raise DamagedFileError("the bytes are not those that were written")
        try:
            plain = stored if length == plain_length else codec.decompress(stored, plain_length, asbytes=True)
        except (OSError, ValueError) as error:
            raise DamagedFileError("a block cannot be decompressed") from error
        write_bytes(target, plain, number * _BLOCK)


def _make_foot(size: int, blocks: bytes) -> bytes:
    return _FOOT.pack(size, zlib.crc32(blocks + struct.pack("<Q", size)), b"", _MAGIC)


LIMIT = "FASTPROF_CACHE_LIMIT"
"""Environment variable: how large the folder may grow, as 10GiB."""

USUAL_LIMIT = 10 << 30
_SUFFIX, _LOCK, _PARTIAL = ".fastprof", ".lock", ".partial"
_ABANDONED_S = 24 * 3600
"""Age from which on a file is abandoned on a file system without locks."""
_SLACK = 16
"""1/16 of the limit is freed in addition, so that not every new file needs a listing."""
_TRIES = 3
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
_SAMPLE, _SAMPLES = 1 << 16, 16

Build = Callable[[Path], None]
T = TypeVar("T")


def get_usual_limit() -> int:
    """Return the largest size in bytes. UsageError: the environment names no size."""
    named = os.environ.get(LIMIT)
    if not named:
        return USUAL_LIMIT
    try:
        return parse_size(named)
    except ValueError as error:
        raise UsageError(f"{LIMIT}: {error}") from None


def make_source_key(path: str | os.PathLike[str], *more: object) -> str | None:
    """Name what a file holds, and ``more`` that decides what is made of it: equal keys mean equal contents.

    The key of a file covers place, size, times of the last changes and samples of the bytes, so that a file that was
    replaced within the resolution of its times still differs; that of an object in a store covers URL and version. None
    if it is not a regular file, so that nothing distinguishes its contents.
    """
    if isinstance(path, StorePath):
        version = path.find_version()
        return version and hashlib.sha256(repr((str(path), version[1], *more)).encode()).hexdigest()[:40]
    try:
        with open(open_descriptor(os.fspath(path)), "rb", buffering=0) as file:  # noqa: PTH123
            status = os.fstat(file.fileno())
            digest = hashlib.sha256()
            state = (status.st_size, status.st_mtime_ns, status.st_ctime_ns)
            place = (os.path.realpath(path), status.st_dev, status.st_ino, *state, *more)
            digest.update(repr(place).encode("utf-8", "surrogatepass"))
            step = max(status.st_size // _SAMPLES, _SAMPLE)
            for at in (*range(0, status.st_size, step), max(status.st_size - _SAMPLE, 0)):
                digest.update(os.pread(file.fileno(), _SAMPLE, at))
    except OSError:
        return None
    return digest.hexdigest()[:40]


class _Listing:
    """Size of a folder at its last listing plus new files, and how many more files need no listing."""

    def __init__(self, files: int = 0, size: int = 0) -> None:
        self.left, self.size = files, size

    def covers(self, added: int, limit: int) -> bool:
        """Count a file of ``added`` bytes, and return whether the folder need not be listed again."""
        self.left, self.size = self.left - 1, self.size + added
        return self.left >= 0 and self.size <= limit


def _is_abandoned(path: Path, used: float) -> bool:
    """Return whether the process that wrote a file has ended: then its lock is free."""
    try:
        with path.open("r+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return used < time.time() - _ABANDONED_S
    return True


class CacheFolder:
    """Folder of files made from captures, of at most ``limit_bytes``: the least recently used goes first."""

    def __init__(self, path: str | os.PathLike[str] | None = None, limit_bytes: int | None = None) -> None:
        named = find_cache_folder() if path is None else Path(path).expanduser()
        self.path = named or Path()
        self.limit_bytes = get_usual_limit() if limit_bytes is None else limit_bytes
        self._held: set[Path] = set()
        self._listed = _Listing()
        self._is_swept = False
        self.lasting = True
        """True if files stay when the process ends: not if the user's own folder cannot be written to, or is "0"."""
        if named is None or not self._is_usable():
            if path is not None:
                raise OutputError("no folder that can be written to: name another with --cache", path=str(path))
            self.lasting = False
            folder = contextlib.ExitStack()
            self.path = folder.enter_context(make_temporary_folder("fastprof-cache"))
            weakref.finalize(self, folder.close)

    def file(self, key: str, build: Build) -> Path:
        """Return the file of that key; if it is missing, ``build`` writes it to the path that it receives."""
        target = self.path / f"{key}{_SUFFIX}"
        if self._touched(target):
            return target
        with self._lock(key):
            if self._touched(target):
                return target  # another process has built it meanwhile
            with self._write_new_file(key, build) as partial:
                try:
                    size = partial.stat().st_size
                    partial.replace(target)
                except OSError as error:
                    partial.unlink(missing_ok=True)
                    raise OutputError(f"cannot write: {error.strerror or error}", path=str(target)) from None
        self._make_room(target, size)
        return target

    def find(self, key: str, open_file: Callable[[Path], T]) -> T | None:
        """Check and open the file of that key, or return None if it is missing or damaged."""
        path = self.path / f"{key}{_SUFFIX}"
        try:
            if not self._touched(path):
                return None
            with path.open("rb") as file:
                return self._open_written(key, partial(copy_sealed, file.fileno()), open_file)
        except (ValueError, LookupError, OSError):
            return None

    def opened(self, key: str | None, build: Build, open_file: Callable[[Path], T]) -> T:
        """Check and open a copy of the file of that key that has no name. A damaged file, or one that another process
        removes before it is copied, is built again. Without a key, open a new file without a name."""
        if key is None:
            return self._open_written("unnamed", build, open_file)
        fresh: list[Path] = []

        def built(path: Path) -> None:
            build(path)
            fresh.append(path)
            seal_file(path)

        for left in reversed(range(_TRIES)):
            fresh.clear()
            path = self.file(key, built)
            try:
                with path.open("rb") as file:
                    return self._open_written(key, partial(copy_sealed, file.fileno()), open_file)
            except OutputError:  # the copy cannot be written
                raise
            except FileNotFoundError:
                if not left:
                    raise
            except (ValueError, LookupError, OSError):
                if fresh or not left:  # built just now: it will be no better the next time
                    raise
                path.unlink(missing_ok=True)
        raise AssertionError("the last try returns or raises")

    def _open_written(self, name: str, write: Build, open_file: Callable[[Path], T]) -> T:
        """Write a new file, and open it without a name."""
        with self._write_new_file(name, write, is_named=False) as path:
            try:
                return open_file(path)
            finally:
                self._remove_name(path)

    def let_go(self) -> None:
        """Remove the locks that are held: the process ends, and what it builds is given up."""
        for path in tuple(self._held):
            path.unlink(missing_ok=True)

    def _is_usable(self) -> bool:
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError:
            return False
        return os.access(self.path, os.W_OK | os.X_OK)

    @contextlib.contextmanager
    def _write_new_file(self, name: str, write: Build, *, is_named: bool = True) -> Iterator[Path]:
        """Write a new file, locked until the end of the block."""
        path, held = self._try_to_write(name, write, is_named)
        try:
            yield path
        finally:
            os.close(held)

    def _try_to_write(self, name: str, write: Build, is_named: bool) -> tuple[Path, int]:
        """Return a file that was written, and the descriptor that holds its lock."""
        for left in reversed(range(_TRIES)):
            try:
                path, held = self._lock_new_file(name, is_named)
                try:
                    write(path)
                    return path, held
                except BaseException:
                    self._remove_name(path)
                    os.close(held)
                    raise
            except FastprofError:
                raise
            except OSError as error:
                if error.errno not in _NO_ROOM or not left or not self._gave_room(left):
                    text = f"cannot write: {error.strerror or error} (--cache names another folder)"
                    raise OutputError(text, path=str(self.path)) from None
        raise AssertionError("the last try returns or raises")

    def _remove_name(self, path: Path) -> None:
        if path.parent == self.path:  # else the file never had a name
            path.unlink(missing_ok=True)

    def _lock_new_file(self, name: str, is_named: bool) -> tuple[Path, int]:
        """Make an empty file, and return it with the descriptor that holds its lock. It has no name if it needs none,
        and the file system can do without."""
        if not self._is_swept:
            self._is_swept = True
            self._remove_abandoned()
        if not is_named and (nameless := open_nameless(self.path, 0o600)) is not None:
            return Path(DESCRIPTOR.format(nameless)), nameless
        while True:
            path = self.path / f"{name}.{os.getpid()}-{os.urandom(4).hex()}{_PARTIAL}"
            held = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600)
            with contextlib.suppress(OSError):  # a file system without locks
                fcntl.flock(held, fcntl.LOCK_EX)
            if os.fstat(held).st_nlink:
                return path, held
            os.close(held)  # it was taken for a file that nobody writes

    @contextlib.contextmanager
    def _lock(self, key: str) -> Iterator[None]:
        """Hold a lock while the file of a key is built; the system releases it when a process dies."""
        path = self.path / f"{key}{_LOCK}"
        try:
            held = path.open("a")
        except OSError as error:
            raise OutputError(f"cannot write: {error.strerror or error}", path=str(path)) from None
        with held:
            with contextlib.suppress(OSError):  # a file system without locks: at worst it is built twice
                fcntl.flock(held, fcntl.LOCK_EX)
            self._held.add(path)
            try:
                yield
            finally:
                self._held.discard(path)
                path.unlink(missing_ok=True)

    def _touched(self, target: Path) -> bool:
        """Return whether the file is there; it counts as used now."""
        try:
            os.utime(target)
        except FileNotFoundError:
            return False
        except OSError:
            return target.exists()
        return True

    def _files(self) -> list[tuple[float, int, Path]]:
        """List the files, each with its last use and its size."""
        files = []
        for path in self.path.iterdir():
            if path.suffix in (_SUFFIX, _PARTIAL, _LOCK):
                with contextlib.suppress(OSError):  # removed by another process
                    status = path.stat()
                    files.append((status.st_mtime, status.st_size, path))
        return files

    def _remove_abandoned(self) -> list[tuple[float, int, Path]]:
        """Remove what killed processes left, and list the complete files."""
        files = self._files()
        for used, _, path in files:
            if path.suffix != _SUFFIX and _is_abandoned(path, used):
                path.unlink(missing_ok=True)
        return [file for file in files if file[2].suffix == _SUFFIX]

    def _make_room(self, keep: Path, added: int) -> None:
        """Remove what was used longest ago if the folder is too large, and what killed processes left. Files are listed
        if they may be too large, or have become twice as many."""
        if self._listed.covers(added, self.limit_bytes):
            return
        files = sorted(self._remove_abandoned())
        total = sum(size for _, size, _ in files)
        most = self.limit_bytes if total <= self.limit_bytes else self.limit_bytes - self.limit_bytes // _SLACK
        for _, size, path in files:
            if total > most and path != keep:
                path.unlink(missing_ok=True)
                total -= size
        self._listed = _Listing(len(files), total)

    def _gave_room(self, left: int) -> bool:
        """Remove files because the disk is full, least recently used first: half of all, and all for the last try.
        Returns whether there were any."""
        files = [file for file in sorted(self._files()) if file[2].suffix == _SUFFIX]
        wanted = sum(size for _, size, _ in files) // left
        for _, size, path in files:
            if wanted > 0:
                path.unlink(missing_ok=True)
                wanted -= size
        return bool(files)
