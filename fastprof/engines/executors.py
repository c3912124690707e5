"""Executors for ``load(executor=…)``: processes of this machine, and Ray, a remote function a host."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from multiprocessing.connection import wait
from typing import TYPE_CHECKING, Any, Final

from fastprof.decode.array_memory import find_folder_for, limit_memory
from fastprof.errors import UsageError

if TYPE_CHECKING:
    from multiprocessing.synchronize import Event


def processes(
    workers: int, memory_bytes: int | None = None, memory: int | None = None
) -> Callable[[], ProcessPoolExecutor]:
    """Return a function that makes a pool of processes for ``load(executor=…)``. ``memory_bytes``: of data that each
    may have; a host that needs more is a MemoryLimitError, where the system might have killed the process (Linux).
    ``memory``: memory limit of each process, at least 192 MiB, as in ``load(memory=…)``; default: none.

    They are spawned, never forked, because Arrow's threads do not survive a fork: a script that starts them keeps its
    work below ``if __name__ == "__main__":``.
    """
    if isinstance(workers, bool) or not isinstance(workers, int) or workers < 1:
        raise UsageError("processes takes an integer of at least 1")
    if memory_bytes is not None and (not isinstance(memory_bytes, int) or memory_bytes < 1):
        raise UsageError("memory_bytes must be an integer of at least 1")
    if memory is not None:
        find_folder_for(memory)

    def pool() -> ProcessPoolExecutor:
        if getattr(multiprocessing.current_process(), "_inheriting", False):
            raise UsageError(f"this is a process that the script started, which imports it first: {GUARD}")
        return Pool(workers, memory_bytes, memory)

    return pool


GUARD: Final = (
    'put the work of the script below if __name__ == "__main__":, and run it from a file, not from standard input'
)


class Pool(ProcessPoolExecutor):
    """``why_none_began``: what keeps processes from beginning, once one of them has ended; None: some began."""

    def __init__(self, workers: int, memory_bytes: int | None, memory: int | None = None) -> None:
        context = multiprocessing.get_context("spawn")
        self._began = context.Event()
        super().__init__(workers, context, initializer=_begin_process, initargs=(memory_bytes, memory, self._began))

    def why_none_began(self) -> str | None:
        if self._began.is_set():
            return None
        return (
            "none of the processes could start; see their output on standard error. Each first imports the "
            f"script that starts it: {GUARD}"
        )


def _begin_process(memory_bytes: int | None, memory: int | None, began: Event) -> None:
    """An interrupt of the terminal reaches all its processes: who started these ends them, and if it is killed, they
    end by themselves."""
    began.set()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    if memory_bytes is not None:
        import resource

        resource.setrlimit(resource.RLIMIT_DATA, (memory_bytes, memory_bytes))
    if memory is not None:
        limit_memory(memory)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)


def ray_executor(num_cpus: float = 1, memory: int | None = None, max_retries: int = 3) -> Executor:
    """Return an executor for ``load(executor=…)``. ``num_cpus``, ``memory`` (bytes): what Ray sets aside for a host;
    ``max_retries``: how often Ray runs one again whose worker was lost. Starts Ray if ``ray.init`` was not called.
    UsageError: Ray is not installed."""
    try:
        import ray
    except ImportError:
        raise UsageError("ray_executor needs Ray: pip install ray") from None
    if not ray.is_initialized():
        ray.init(log_to_driver=False)
    options: dict[str, Any] = {"num_cpus": num_cpus, "max_retries": max_retries, "scheduling_strategy": "SPREAD"}
    return RayExecutor(ray, options | ({} if memory is None else {"memory": memory}))


class RayExecutor(Executor):
    """``ray``: the package; ``options``: of each remote function."""

    def __init__(self, ray: Any, options: dict[str, Any]) -> None:
        self._ray = ray
        self._options = options
        self._remote: dict[Callable[..., Any], Any] = {}

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        if fn not in self._remote:
            self._remote[fn] = self._ray.remote(fn).options(**self._options)
        future: Future[Any] = self._remote[fn].remote(*args, **kwargs).future()
        return future
