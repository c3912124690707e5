"""How the process of the command gets memory and threads.

A verb allocates arrays of megabytes, one after the other, and ends soon. The C library gives such blocks back to the
system when they are freed, and each fresh block costs a page fault every 4 KiB, which is half as much as what fills it.
"""

from __future__ import annotations

import gc
import os
import sys
from typing import Final

_OPTIONS: Final = {"M_TRIM_THRESHOLD": (-1, 2**31 - 1), "M_MMAP_MAX": (-4, 0), "M_ARENA_MAX": (-8, 1)}
"""Options of glibc's mallopt, and values: freed memory stays with the process, and all threads share it."""
_BETWEEN_COLLECTIONS: Final = 200_000
"""How many more objects are made than dropped before Python looks for cycles: importing makes many, and drops none."""


def prepare() -> None:
    """Before NumPy is imported: its library of linear algebra, which fastprof does not use, starts no threads."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    gc.set_threshold(_BETWEEN_COLLECTIONS)


def wait_for_pools() -> None:
    """Before Python ends, pools of processes that nobody uses any more have to."""
    if (engine := sys.modules.get("fastprof.engines.engine")) is not None:
        engine.wait_for_ends()


def end() -> None:
    """Before Python ends: it would look for cycles among all objects that are left, and the system takes their memory
    anyway."""
    gc.freeze()


def keep_freed_memory() -> None:
    """Memory that is freed serves whoever asks next. Not for processes that wait for long, as servers do. Does nothing
    without glibc."""
    import ctypes

    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return
    for option, value in _OPTIONS.values():
        mallopt(option, value)
