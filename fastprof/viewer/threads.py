"""Threads of the server, in which answers are made, so that a slow one holds up no other; values that many threads
need, each computed once."""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from threading import Lock
from typing import Any, Generic, TypeVar

from fastprof.decode.array_memory import adopt_thread

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


class ComputedOnce(Generic[K, T]):
    """Values by key, the ``limit`` most recently used. A computation that fails is made again for the next request."""

    def __init__(self, limit: int | None = None) -> None:
        self._limit = limit
        self._lock = Lock()
        self._values: OrderedDict[K, Future[T]] = OrderedDict()

    def of(self, key: K, compute: Callable[[], T]) -> T:
        """Return the value of a key, from ``compute`` if there is none yet. Raises what ``compute`` raises."""
        with self._lock:
            waited, mine = self._values.get(key), Future[T]()
            if waited is None:
                self._values[key] = mine
            self._values.move_to_end(key)
            while self._limit is not None and len(self._values) > self._limit:
                self._values.popitem(last=False)
        if waited is not None:
            return waited.result()
        try:
            mine.set_result(compute())
        except BaseException as error:
            mine.set_exception(error)
            with self._lock:
                if self._values.get(key) is mine:
                    del self._values[key]
            raise
        return mine.result()


Job = tuple[Callable[[], Any], asyncio.AbstractEventLoop, "asyncio.Future[Any]"]


class ThreadPool:
    """Pool of ``count`` threads, which begin when they are needed and end with the process, whatever they are at."""

    def __init__(self, name: str, count: int) -> None:
        self._name, self._count = name, count
        self._jobs: queue.SimpleQueue[Job] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._started = 0
        self._waited_for = 0

    async def run(self, work: Callable[[], T]) -> T:
        """Return or raise what ``work`` does, in one of the threads. It is not begun once nobody waits for it."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[T] = loop.create_future()
        self._jobs.put((work, loop, answer))
        with self._lock:
            self._waited_for += 1
            if self._started < min(self._count, self._waited_for):
                self._started += 1
                threading.Thread(target=self._work, name=f"{self._name}-{self._started}", daemon=True).start()
        return await answer

    def _work(self) -> None:
        adopt_thread()
        while True:
            work, loop, answer = self._jobs.get()
            result, error = None, None
            try:
                if not answer.cancelled():
                    result = work()
            except BaseException as raised:  # noqa: BLE001  handed to who waits
                error = raised
            with self._lock:
                self._waited_for -= 1
            try:
                loop.call_soon_threadsafe(_settle, answer, result, error)
            except RuntimeError:
                return  # the server has stopped meanwhile
            del work, answer, result, error


class Changes:
    """Signal that wakes coroutines, of whatever loop, when a thread has changed what they look at."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: set[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = set()

    def happened(self) -> None:
        """Wake the coroutines that wait, after a change."""
        with self._lock:
            for loop, event in self._waiting:
                with contextlib.suppress(RuntimeError):  # a server that has stopped
                    loop.call_soon_threadsafe(event.set)

    async def until(self, met: Callable[[], bool], seconds: float) -> None:
        """Wait for a change after which ``met``, so long at most."""
        event = asyncio.Event()
        mine = (asyncio.get_running_loop(), event)
        with self._lock:
            self._waiting.add(mine)
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    while not met():
                        await event.wait()
                        event.clear()
        finally:
            with self._lock:
                self._waiting.discard(mine)


def _settle(answer: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
    if answer.cancelled():
        return
    if error is None:
        answer.set_result(result)
    else:
        answer.set_exception(error)
