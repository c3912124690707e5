"""The executor that reads hosts: one that was given, or one that is made, and made again when it breaks."""

from __future__ import annotations

import _thread
import weakref
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import suppress
from typing import Any, Final

from fastprof.errors import EngineError, UsageError

MakesExecutor = Callable[[], Executor]
_IN_FLIGHT: Final = 64


class Engine:
    """``retries``: how often a host is tried again whose worker was lost, or that took longer than ``host_timeout``
    seconds (None: it may). ``in_flight``: hosts given to the executor at a time; None: twice its workers, or 64."""

    def __init__(
        self,
        executor: Executor | MakesExecutor,
        retries: int = 2,
        host_timeout: float | None = None,
        in_flight: int | None = None,
    ) -> None:
        if not isinstance(executor, Executor) and not callable(executor):
            raise UsageError("executor must be a concurrent.futures.Executor, or a function that creates one")
        if not isinstance(retries, int) or retries < 0:
            raise UsageError("retries must be an integer of at least 0")
        if host_timeout is not None and not host_timeout > 0:
            raise UsageError("host_timeout must be a number of seconds above 0")
        if in_flight is not None and (not isinstance(in_flight, int) or in_flight < 1):
            raise UsageError("in_flight must be an integer of at least 1")
        self.retries, self.host_timeout = retries, host_timeout
        self.ahead: Any = None
        """The Gathering that workers begin with if they have nothing else to do: of hosts of the next run."""
        self._in_flight = in_flight
        self._make = None if isinstance(executor, Executor) else executor
        self._executor = executor if isinstance(executor, Executor) else None
        self._end: weakref.finalize[..., Engine] | None = None

    @property
    def is_made(self) -> bool:
        """Return whether the executor is ours: it can be made again."""
        return self._make is not None

    @property
    def executor(self) -> Executor:
        if self._executor is None:
            assert self._make is not None
            made = self._make()
            if not isinstance(made, Executor):
                raise UsageError(f"executor is a function, but makes no Executor: {type(made).__name__}")
            self._executor = made
            self._end = weakref.finalize(self, _end_in_thread, made)
            self._end.atexit = False  # the interpreter ends what is left itself
        return self._executor

    @property
    def is_here(self) -> bool:
        """Return whether its workers are all on this machine: to run a host twice at once makes nothing quicker."""
        return isinstance(self.executor, ThreadPoolExecutor) or hasattr(self.executor, "_processes")

    @property
    def in_flight(self) -> int:
        workers = getattr(self.executor, "_max_workers", None)  # of pools; others do not say
        return self._in_flight or (2 * workers if isinstance(workers, int) and workers > 0 else _IN_FLIGHT)

    def stop(self) -> None:
        """End an executor that was made, with what runs in it; the next use makes another. One that was given is left
        alone."""
        if self._make is None or self._executor is None:
            return
        executor, self._executor = self._executor, None
        if self._end is not None:
            self._end.detach()
        kill_workers(executor)

    def check_renewable(self, error: BaseException) -> None:
        """EngineError: the executor broke, and was given as an object, or none of its processes could begin."""
        why = getattr(self._executor, "why_none_began", lambda: None)()
        if why is not None:
            raise EngineError(why) from error
        if self._make is None:
            raise EngineError(
                f"the executor broke ({type(error).__name__}: {error}); pass load(executor=…) a function that "
                f"creates one, so that it can be created again"
            ) from error


def _end_in_thread(executor: Executor) -> None:
    """End an executor whose engine is gone, in a thread of its own: an exception that a signal raises meanwhile, such
    as KeyboardInterrupt, would be lost here."""
    done = _thread.allocate_lock()
    done.acquire()

    def end() -> None:
        try:
            executor.shutdown()
        finally:
            done.release()

    with suppress(RuntimeError):  # Python is ending, and ends it
        _thread.start_new_thread(end, ())
        _ENDING.append(done)


_ENDING: Final[list[_thread.LockType]] = []


def wait_for_ends() -> None:
    """Wait until all executors have ended whose engines are gone. A pool that ends while Python does may write a
    traceback of Python's own to standard error."""
    while _ENDING:
        with _ENDING.pop():
            pass


def kill_workers(executor: Executor) -> None:
    """End an executor, and its processes if it is a pool of them: one that hangs cannot be asked to end."""
    processes: dict[int, Any] = dict(getattr(executor, "_processes", None) or {})
    executor.shutdown(wait=False, cancel_futures=True)
    for process in processes.values():
        with suppress(OSError, ValueError, AttributeError):
            process.kill()
    if processes:
        executor.shutdown(wait=True)  # quick now; a pool that ends while the interpreter does is an error there
