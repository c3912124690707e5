"""Files that can be made again, kept between runs in a folder of their own: bounded in size, shared by processes.

A file is named by its key. It appears whole or not at all: it is built under another name and renamed. Who opens it
maps it, so it may be removed at any time without harm to those who have it open. Of several processes that want a file
that is not there one builds it, and the others wait for it.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import shutil
import tempfile
import time
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from fastprof.errors import OutputError, UsageError
from fastprof.inputs.open_files import opened
from fastprof.viewer import sealed_file
from fastprof.wording.amounts import byte_count

FOLDER = "FASTPROF_CACHE"
LIMIT = "FASTPROF_CACHE_LIMIT"
"""Environment variables: where the folder is, and how large it may grow, as 10GiB."""

USUAL_LIMIT = 10 << 30
_SUFFIX, _LOCK, _PARTIAL = ".fastprof", ".lock", ".partial"
_ABANDONED_S = 24 * 3600
_TRIES = 3
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
_SAMPLE, _SAMPLES = 1 << 16, 16

Build = Callable[[Path], None]
T = TypeVar("T")


def usual_folder() -> Path:
    """Where the environment says; else with the user's other caches."""
    if named := os.environ.get(FOLDER):
        return Path(named)
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home and Path(home).is_absolute() else Path("~/.cache").expanduser()) / "fastprof"


def usual_limit() -> int:
    """Bytes. UsageError: the environment names no size."""
    named = os.environ.get(LIMIT)
    if not named:
        return USUAL_LIMIT
    try:
        return byte_count(named)
    except ValueError as error:
        raise UsageError(f"{LIMIT}: {error}") from None


def source_key(path: str | os.PathLike[str], *more: object) -> str | None:
    """Names what a file holds, and ``more`` that decides what is made of it: equal keys mean equal contents.

    It covers place, size, times of the last changes and samples of the bytes, so that a file that was replaced within
    the resolution of its times still differs. None: it is no regular file, and nothing distinguishes its contents.
    """
    try:
        with open(opened(os.fspath(path)), "rb", buffering=0) as file:  # noqa: PTH123
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


class CacheFolder:
    """A folder of files made from captures, of at most ``limit_bytes``: the one used longest ago goes first."""

    def __init__(self, path: str | os.PathLike[str] | None = None, limit_bytes: int | None = None) -> None:
        self.path = usual_folder() if path is None else Path(path).expanduser()
        self.limit_bytes = usual_limit() if limit_bytes is None else limit_bytes
        self._held: set[Path] = set()
        self.lasting = True
        """Whether files stay when the process ends: not if the user's own folder cannot be written to."""
        if not self._is_usable():
            if path is not None:
                raise OutputError("no folder that can be written to: name another with --cache", path=str(path))
            self.lasting = False
            self.path = Path(tempfile.mkdtemp(prefix="fastprof-"))
            weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)

    def file(self, key: str | None, build: Build) -> Path:
        """The file of that key; if it is missing, ``build`` writes it to the path that it receives. Without a key it is
        always built, and the caller removes it, best as soon as it is open."""
        if key is None:
            return self._built(self._partial("unnamed"), build)
        target = self.path / f"{key}{_SUFFIX}"
        if self._touched(target):
            return target
        with self._lock(key):
            if self._touched(target):
                return target  # another process has built it meanwhile
            partial = self._built(self._partial(key), build)
            try:
                partial.replace(target)
            except OSError as error:
                partial.unlink(missing_ok=True)
                raise OutputError(f"cannot write: {error.strerror or error}", path=str(target)) from None
        self._make_room(keep=target)
        return target

    def opened(self, key: str | None, build: Build, open_file: Callable[[Path], T]) -> T:
        """Opens the file of that key, checked before. A file that is damaged, or that another process removes before it
        is open, is built again. Without a key it is gone once it is open."""
        fresh: list[Path] = []

        def built(path: Path) -> None:
            build(path)
            fresh.append(path)
            if key is not None:
                sealed_file.seal(path)

        for left in reversed(range(_TRIES)):
            fresh.clear()
            path = self.file(key, built)
            try:
                if not fresh:
                    sealed_file.check(path)
                return open_file(path)
            except FileNotFoundError:
                if not left:
                    raise
            except (ValueError, LookupError, OSError):
                if fresh or not left:  # built just now: it will be no better the next time
                    raise
                path.unlink(missing_ok=True)
            finally:
                if key is None:
                    path.unlink(missing_ok=True)
        raise AssertionError("the last try returns or raises")

    def let_go(self) -> None:
        """Removes the locks that are held: the process ends, and what it builds is given up."""
        for path in tuple(self._held):
            path.unlink(missing_ok=True)

    def _is_usable(self) -> bool:
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError:
            return False
        return os.access(self.path, os.W_OK | os.X_OK)

    def _partial(self, name: str) -> Path:
        return self.path / f"{name}.{os.getpid()}-{os.urandom(4).hex()}{_PARTIAL}"

    def _built(self, partial: Path, build: Build) -> Path:
        try:
            for left in reversed(range(_TRIES)):
                try:
                    build(partial)
                    break
                except OSError as error:
                    partial.unlink(missing_ok=True)
                    if error.errno not in _NO_ROOM or not left or not self._gave_room(left):
                        raise
        except OSError as error:
            text = f"cannot write: {error.strerror or error} (--cache names another folder)"
            raise OutputError(text, path=str(self.path)) from None
        except BaseException:
            partial.unlink(missing_ok=True)
            raise
        return partial

    @contextlib.contextmanager
    def _lock(self, key: str) -> Iterator[None]:
        """Held while the file of a key is built; the system lets go of it when a process dies."""
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
        """Whether the file is there; it counts as used now."""
        try:
            os.utime(target)
        except FileNotFoundError:
            return False
        except OSError:
            return target.exists()
        return True

    def _files(self) -> list[tuple[float, int, Path]]:
        """When each was used last, its size, its path."""
        found = []
        for path in self.path.iterdir():
            if path.suffix in (_SUFFIX, _PARTIAL, _LOCK):
                with contextlib.suppress(OSError):  # removed by another process
                    status = path.stat()
                    found.append((status.st_mtime, status.st_size, path))
        return found

    def _make_room(self, keep: Path) -> None:
        files = sorted(self._files())
        abandoned = time.time() - _ABANDONED_S
        for used, _, path in files:
            if path.suffix != _SUFFIX and used < abandoned:
                path.unlink(missing_ok=True)
        files = [one for one in files if one[2].suffix == _SUFFIX]
        total = sum(size for _, size, _ in files)
        for _, size, path in files:
            if total <= self.limit_bytes:
                return
            if path != keep:
                path.unlink(missing_ok=True)
                total -= size

    def _gave_room(self, left: int) -> bool:
        """Removes files because the disk is full, least recently used first: half of all, and all for the last try.
        Returns whether there were any."""
        files = [one for one in sorted(self._files()) if one[2].suffix == _SUFFIX]
        wanted = sum(size for _, size, _ in files) // left
        for _, size, path in files:
            if wanted > 0:
                path.unlink(missing_ok=True)
                wanted -= size
        return bool(files)
