"""Processes of this machine as an executor."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing.connection import wait
from typing import TYPE_CHECKING, Final

from fastprof.errors import UsageError

if TYPE_CHECKING:
    from multiprocessing.synchronize import Event


def processes(workers: int, memory_bytes: int | None = None) -> Callable[[], ProcessPoolExecutor]:
    """Return a function that makes a pool of processes for ``load(executor=…)``. ``memory_bytes``: of data that each
    may have; a host that needs more is a MemoryLimitError, where the system might have killed the process (Linux).

    They are spawned, never forked, because Arrow's threads do not survive a fork: a script that starts them keeps its
    work below ``if __name__ == "__main__":``.
    """
    if isinstance(workers, bool) or not isinstance(workers, int) or workers < 1:
        raise UsageError("processes takes a whole number of at least 1")
    if memory_bytes is not None and (not isinstance(memory_bytes, int) or memory_bytes < 1):
        raise UsageError("memory_bytes must be a whole number of at least 1")

    def pool() -> ProcessPoolExecutor:
        if getattr(multiprocessing.current_process(), "_inheriting", False):
            raise UsageError(f"this is a process that the script started, which imports it first: {GUARD}")
        return Pool(workers, memory_bytes)

    return pool


GUARD: Final = (
    'keep what the script does below if __name__ == "__main__":, and run it from a file, not from standard input'
)


class Pool(ProcessPoolExecutor):
    """``why_none_began``: what keeps processes from beginning, once one of them has ended; None: some began."""

    def __init__(self, workers: int, memory_bytes: int | None) -> None:
        context = multiprocessing.get_context("spawn")
        self._began = context.Event()
        super().__init__(workers, context, initializer=_begin_process, initargs=(memory_bytes, self._began))

    def why_none_began(self) -> str | None:
        if self._began.is_set():
            return None
        return (
            "none of the processes could begin; what they wrote to standard error says why. Each first imports the "
            f"script that starts it: {GUARD}"
        )


def _begin_process(memory_bytes: int | None, began: Event) -> None:
    """An interrupt of the terminal reaches all its processes: who started these ends them, and if it is killed, they
    end by themselves."""
    began.set()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    if memory_bytes is not None:
        import resource

        resource.setrlimit(resource.RLIMIT_DATA, (memory_bytes, memory_bytes))


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)
