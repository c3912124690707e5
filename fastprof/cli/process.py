"""The process of the command: how it gets memory and threads, and the signals that stop it, or must wait.

A verb allocates arrays of megabytes, one after the other, and ends soon. The C library gives such blocks back to the
system when they are freed, and each fresh block costs a page fault every 4 KiB, which is half as much as what fills it.
"""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import sys
import threading
from collections.abc import Iterator
from typing import Final, NoReturn

_OPTIONS: Final = {"M_TRIM_THRESHOLD": (-1, 2**31 - 1), "M_MMAP_MAX": (-4, 0), "M_ARENA_MAX": (-8, 1)}
"""Options of glibc's mallopt, and values: freed memory stays with the process, and all threads share it."""
_BETWEEN_COLLECTIONS: Final = 200_000
"""Objects made and not dropped before Python looks for cycles: importing makes many, and drops none."""


def limit_threads() -> None:
    """Keep NumPy's library of linear algebra, which fastprof does not use, from starting threads. Call it before the
    import."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    gc.set_threshold(_BETWEEN_COLLECTIONS)


def wait_for_pools() -> None:
    """Wait for the end of process pools that are no longer used, before Python ends."""
    if (engine := sys.modules.get("fastprof.engines.engine")) is not None:
        engine.wait_for_ends()


def end_process() -> None:
    """Keep Python from looking for cycles among all objects at its end: the system takes their memory anyway."""
    gc.freeze()


def keep_freed_memory() -> None:
    """Keep freed memory for the next allocation. Not for servers, which wait for long. Does nothing without glibc."""
    import ctypes

    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return
    for option, value in _OPTIONS.values():
        mallopt(option, value)


_STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Terminated(BaseException):
    """Raised when the process receives a request to end. Half-written output is removed on the way out."""


def install_handlers() -> None:
    """Make SIGTERM and SIGHUP raise Terminated, unless the caller ignores them, as nohup does."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _terminate)


def restore_signals() -> None:
    """Let signals end the process without a traceback from now on. A pool of processes ends by itself, and soon:
    killing it would leave its semaphores behind."""
    then = signal.SIG_IGN if "multiprocessing.synchronize" in sys.modules else signal.SIG_DFL
    for number in _STOPS:
        if callable(signal.getsignal(number)):
            signal.signal(number, then)


@contextlib.contextmanager
def hold_signals() -> Iterator[None]:
    """Delay signals until the end of the block: an exception raised during an import can get lost there."""
    if threading.current_thread() is not threading.main_thread():  # only the main thread handles signals
        yield
        return
    arrived: list[int] = []
    before = {number: signal.getsignal(number) for number in _STOPS}
    for number in _STOPS:
        if callable(before[number]):
            signal.signal(number, lambda number, _frame: arrived.append(number))
    try:
        yield
    finally:
        for number, handler in before.items():
            if callable(handler):
                signal.signal(number, handler)
        for stop in arrived[:1]:
            signal.raise_signal(stop)


@contextlib.contextmanager
def count_interrupts() -> Iterator[list[int]]:
    """Let Ctrl-C only lengthen the list that is yielded, until the end of the block."""
    arrived: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield arrived
        return
    before = signal.signal(signal.SIGINT, lambda number, _frame: arrived.append(number))
    try:
        yield arrived
    finally:
        signal.signal(signal.SIGINT, before)


def _terminate(_number: int, _frame: object) -> NoReturn:
    raise Terminated
