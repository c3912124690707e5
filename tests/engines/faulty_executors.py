"""Executors that answer in any order, late or never, and that break: what engines do, without their processes."""

from __future__ import annotations

import pickle
import threading
import time
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Executor, Future
from typing import Any

Order = Callable[[list[Any]], list[Any]]
Before = Callable[[Any], None]


class TestExecutor(Executor):
    """Holds what it is given for a moment, then runs it in an order of its own. Tasks and answers are pickled on their
    way. ``before``: called with each task before it is run; what it raises is what the worker raises, and a
    BrokenExecutor breaks the executor, as the end of a process does."""

    __test__ = False

    def __init__(self, order: Order = list, before: Before = lambda _: None, hold_s: float = 0.02) -> None:
        self.given: list[int] = []
        self.alive = True
        self._order, self._before, self._hold_s = order, before, hold_s
        self._held: list[tuple[Future[Any], Callable[..., Any], bytes]] = []
        self._lock = threading.Lock()
        self._broken: BrokenExecutor | None = None
        threading.Thread(target=self._run, daemon=True).start()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        with self._lock:
            if self._broken is not None:
                raise self._broken
            assert self.alive and not kwargs
            future: Future[Any] = Future()
            self.given.append(args[0].number)
            self._held.append((future, fn, pickle.dumps(args)))
            return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: ARG002
        self.alive = False

    def _run(self) -> None:
        while self.alive and self._broken is None:
            time.sleep(self._hold_s)
            with self._lock:
                held, self._held = self._order(self._held), []
            for place, (future, fn, args) in enumerate(held):
                if not future.set_running_or_notify_cancel():
                    continue
                task = pickle.loads(args)
                try:
                    self._before(task[0])
                    future.set_result(pickle.loads(pickle.dumps(fn(*task))))
                except BrokenExecutor as error:
                    self._break(error, [future, *(one for one, *_ in held[place + 1 :])])
                    return
                except Hang:
                    pass
                except BaseException as error:  # noqa: BLE001  as a pool hands it over
                    future.set_exception(error)

    def _break(self, error: BrokenExecutor, lost: list[Future[Any]]) -> None:
        with self._lock:
            self._broken = error
            lost += [future for future, *_ in self._held]
        for future in lost:
            if not future.done():
                future.set_exception(error)


class Hang(BaseException):
    """Raised before a task: its worker never answers."""


class Made:
    """A function that makes executors, and remembers them."""

    def __init__(self, **how: Any) -> None:
        self.how = how
        self.made: list[TestExecutor] = []

    def __call__(self) -> TestExecutor:
        self.made.append(TestExecutor(**self.how))
        return self.made[-1]

    @property
    def given(self) -> list[int]:
        """The numbers of all tasks that were given, in order."""
        return [number for one in self.made for number in one.given]
