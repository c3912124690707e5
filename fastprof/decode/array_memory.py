"""Memory limit of the process: arrays beyond it are temporary files, whose pages the kernel may evict."""

from __future__ import annotations

import os
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Final

from fastprof.errors import UnreadableError, UsageError
from fastprof.wording.quantities import format_size

_BASE: Final = 128 << 20
"""Bytes of the limit that are left to the interpreter, libraries and small objects. What these take beyond that is
subtracted from the limit of arrays."""
LEAST: Final = 192 << 20
"""Bytes of the lowest limit."""
_LEAST_BY_DEFAULT, _MOST_BY_DEFAULT, _SHARE_OF_MACHINE, _LARGE = 256 << 20, 2 << 30, 4, 200_000_000
_IN_MEMORY: Final = frozenset({"tmpfs", "ramfs", "devtmpfs"})
"""Kinds of file systems whose files are memory."""
_MOUNTS: Final = Path("/proc/self/mountinfo")
_LIMITS: Final = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))
"""Memory of a container."""


class _Thread(threading.local):
    """State of a thread. ``is_adopted``: its arrays count."""

    is_adopted = False


_THREAD: Final = _Thread()
_limit: tuple[int, str] | None = None
"""Limit of this process in bytes, and the directory of its temporary files."""


def limit_memory(most: int) -> None:
    """Keep the memory that arrays and the C core of this process use at about ``most`` bytes.

    The limit counts the arrays that the calling thread makes from now on, and those of threads of this package.
    Raises UsageError below 192 MiB, UnreadableError if no directory for temporary files is on a disk.
    """
    _bind(most, find_folder_for(most))


def find_folder_for(most: int) -> str:
    """Return the directory for temporary files of a limit. Raises what ``limit_memory`` raises."""
    if most < LEAST:
        raise UsageError(f"a memory limit must be at least {format_size(LEAST)}")
    folder = find_disk_folder()
    if folder is None:
        import tempfile

        text = "a memory limit needs a directory on a disk for temporary files, and all known ones are in memory"
        raise UnreadableError(f"{text} (TMPDIR sets the directory)", path=tempfile.gettempdir())
    return folder


def limit_by_default(size: int | None = None) -> None:
    """Limit memory to a quarter of the machine, to 2 GiB and, above 200 MB, to ``size``, the bytes of the captures, but
    never below 256 MiB. Memory stays unlimited if temporary files would be in memory."""
    folder = find_disk_folder()
    if folder is not None:
        most = min(_MOST_BY_DEFAULT, _count_machine_bytes() // _SHARE_OF_MACHINE)
        if size is not None and size > _LARGE:  # files cost smaller captures a tenth of their time
            most = min(most, size)
        _bind(max(most, _LEAST_BY_DEFAULT), folder)


def share_limit(most: int | None, processes: int) -> int | None:
    """Return the memory limit of each process: its share of ``most`` or, by default, of a quarter of the machine, but
    at least 192 MiB. Return None if temporary files would be in memory."""
    whole = _count_machine_bytes() // _SHARE_OF_MACHINE if most is None else most
    return None if find_disk_folder() is None else max(min(whole // processes, most or _MOST_BY_DEFAULT), LEAST)


def adopt_thread() -> None:
    """Count arrays that the calling thread makes from now on, if there is a limit."""
    if _limit is None or _THREAD.is_adopted:
        return
    import numpy as np

    from fastprof._native.border import adopt_arrays

    core = getattr(np, "_core", None) or np.core
    adopt_arrays(core._multiarray_umath._ARRAY_API)
    _THREAD.is_adopted = True


def find_disk_folder() -> str | None:
    """Return the directory for temporary files, or /var/tmp if that directory is in memory. Return None if both are in
    memory, and on systems other than Linux."""
    if not sys.platform.startswith("linux"):
        return None
    import tempfile

    kinds = _read_mounts()
    folders = (tempfile.gettempdir(), "/var/tmp")
    return next(
        (name for name in folders if os.access(name, os.W_OK) and _find_kind(name, kinds) not in _IN_MEMORY), None
    )


def _bind(most: int, folder: str) -> None:
    global _limit
    from fastprof._native.border import bind_blocks

    if _limit != (most, folder):  # other threads may be making arrays with this limit
        if not bind_blocks(max(most - _BASE, 0), os.fsencode(folder), beside=_BASE):
            raise UnreadableError("the path of the directory for temporary files is too long", path=folder)
        _limit = most, folder
    adopt_thread()


def _read_mounts() -> dict[str, str]:
    """Return the kind of file system by mount point. Later mounts of a point hide earlier ones."""
    kinds = {}
    try:
        with _MOUNTS.open(encoding="utf-8", errors="surrogateescape") as mounts:
            for line in mounts:
                place, _, rest = line.partition(" - ")
                kinds[place.split()[4].replace("\\040", " ")] = rest.split()[0]
    except (OSError, IndexError):
        return {}
    return kinds


def _find_kind(folder: str, kinds: dict[str, str]) -> str | None:
    """Return the kind of file system that the folder is on; None if it is unknown."""
    path = Path(folder).resolve()
    for place in (path, *path.parents):
        if str(place) in kinds:
            return kinds[str(place)]
    return None


def _count_machine_bytes() -> int:
    """Return the memory of the machine, or of its container if that has less."""
    sizes = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for path in _LIMITS:
        with suppress(OSError, ValueError):  # no container, or "max"
            sizes.append(int(path.read_text("ascii")))
    return min(sizes)
