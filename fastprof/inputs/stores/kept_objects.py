"""Objects that were fetched whole, kept as files for the next session: bounded in size, and checked when they are used.

    FOLDER/objects/KEY         the bytes, then their digest; KEY: a digest of URL, version and size
    FOLDER/objects/.KEY.…      being written; it is renamed when it is complete

FOLDER is that of ``FASTPROF_CACHE``; ``FASTPROF_CACHE=0`` keeps nothing.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import Final

from fastprof.inputs.open_files import write_bytes
from fastprof.inputs.stores.store_path import StorePath, get_pool
from fastprof.inputs.stores.store_verbs import StoredObject

_PIECE: Final = 1 << 20
_SEAL: Final = 16
_MOST_BYTES: Final = 10 << 30
_ABANDONED_S: Final = 24 * 3600


def find_cache_folder() -> Path | None:
    """Return the folder that the environment names, else one beside the user's other caches; None: "0" is named."""
    named = os.environ.get("FASTPROF_CACHE")
    if named:
        return None if named == "0" else Path(named)
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home and Path(home).is_absolute() else Path("~/.cache").expanduser()) / "fastprof"


def restore_object(path: StorePath, about: StoredObject, number: int) -> bool:
    """Copy a kept object to an open file. False: it is absent or damaged."""
    target = _find_place(path, about)
    if target is None:
        return False
    try:
        with target.open("rb") as kept:
            size = os.fstat(kept.fileno()).st_size - _SEAL
            digest = _copy(kept.fileno(), number, size) if size == about.size else b""
            is_whole = digest == os.pread(kept.fileno(), _SEAL, size)
        if is_whole:
            os.utime(target)
        else:
            target.unlink(missing_ok=True)
    except OSError:
        return False
    return is_whole


def keep_later(path: StorePath, about: StoredObject, number: int) -> None:
    """Keep what an open file has, in the background. Without room, nothing is kept."""
    copied = os.dup(number)
    try:
        get_pool().submit(_keep_and_close, path, about, copied)
    except RuntimeError:  # the interpreter ends
        os.close(copied)


def _keep_and_close(path: StorePath, about: StoredObject, number: int) -> None:
    target = _find_place(path, about)
    try:
        if target is None:
            return
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        hidden = target.with_name(f".{target.name}.{os.urandom(6).hex()}")
        try:
            descriptor = os.open(hidden, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            try:
                os.pwrite(descriptor, _copy(number, descriptor, about.size), about.size)
            finally:
                os.close(descriptor)
            hidden.replace(target)
        finally:
            hidden.unlink(missing_ok=True)
        _make_room(target.parent)
    except OSError:
        pass  # the object is fetched again
    finally:
        os.close(number)


def _find_place(path: StorePath, about: StoredObject) -> Path | None:
    """Return the file that keeps an object; None: nothing is kept, or nothing distinguishes its versions."""
    folder = find_cache_folder()
    if folder is None or not path.store.keeps or not (path.store.verbs.is_guarded and about.version):
        return None
    key = blake2b(repr((str(path), about.version, about.size)).encode("utf-8", "surrogatepass"), digest_size=20)
    return folder / "objects" / key.hexdigest()


def _copy(source: int, target: int, size: int) -> bytes:
    """Copy bytes from the beginning of one file to that of another, and return their digest."""
    digest, done = blake2b(digest_size=_SEAL), 0
    while done < size:
        piece = os.pread(source, min(_PIECE, size - done), done)
        if not piece:
            raise OSError("the file is too short")
        digest.update(piece)
        done += write_bytes(target, piece, done)
    return digest.digest()


def _make_room(folder: Path) -> None:
    """Delete the objects that were not used for longest until the others fit, and what killed processes left."""
    files = []
    for entry in os.scandir(folder):
        with suppress(OSError):
            status = entry.stat()
            if not entry.name.startswith("."):
                files.append((status.st_mtime, status.st_size, entry.path))
            elif status.st_mtime < time.time() - _ABANDONED_S:
                os.unlink(entry.path)  # noqa: PTH108
    size = 0
    for _, own, path in sorted(files, reverse=True):
        size += own
        if size > _MOST_BYTES:
            Path(path).unlink(missing_ok=True)
