"""Values that many threads need, each computed once: the others wait for a value that is being computed."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from threading import Lock
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


class ComputedOnce(Generic[K, T]):
    """Values by key, the ``limit`` most recently used. A computation that fails is made again for the next request."""

    def __init__(self, limit: int | None = None) -> None:
        self._limit = limit
        self._lock = Lock()
        self._values: OrderedDict[K, Future[T]] = OrderedDict()

    def of(self, key: K, compute: Callable[[], T]) -> T:
        """The value of a key, from ``compute`` if there is none yet. Raises what ``compute`` raises."""
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
