"""Threads in virtual time, on few cores or many, and the events that a profiler sees of them.

Threads are generators: they yield how long they compute, for how long they sleep, or the signal that they wait for.
Where there are few cores, those that compute take turns.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Mapping
from collections.abc import Generator as Coroutine
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from trace_builder import Event, Value, event, stat


@dataclass(frozen=True)
class Asleep:
    """What a thread does that waits for a time, for storage or another host."""

    time_ps: int


class Signal:
    """What threads wait for: that something has changed."""

    def __init__(self) -> None:
        self.waiting: list[Running] = []


Running = Coroutine["int | Asleep | Signal", None, None]
Steps = Coroutine["int | Asleep | Signal", None, Any]


class Clock:
    """Runs threads in virtual time. ``cores``: shared equally by all threads that compute; None: one each.
    ``threads_free``: of the pool that runs functions; None: as many as there are functions."""

    def __init__(self, cores: int | None = None, pool: int | None = None) -> None:
        self.now_ps = 0
        self.threads: list[Thread] = []
        self.cores, self.pool = cores, pool
        self.threads_free = pool
        self.freed = Signal()
        self._turn = 0
        self._due: list[tuple[int, int, Running]] = []
        self._served = 0
        """What a thread would have computed by now that has done so from the beginning, in picoseconds."""
        self._computing: list[tuple[int, int, Running]] = []
        """By how much will have been served when they are done."""

    def thread(self, name: str) -> Thread:
        self.threads.append(Thread(self, name))
        return self.threads[-1]

    def begin(self, thread: Running, after_ps: int = 0) -> None:
        self._turn += 1
        heapq.heappush(self._due, (self.now_ps + after_ps, self._turn, thread))

    def wake(self, signal: Signal) -> None:
        for thread in signal.waiting:
            self.begin(thread)
        signal.waiting.clear()

    def run_until(self, done: Callable[[], bool]) -> None:
        while not done():
            thread = self._next()
            asked = next(thread, None)
            if isinstance(asked, Signal):
                asked.waiting.append(thread)
            elif isinstance(asked, Asleep):
                self.begin(thread, asked.time_ps)
            elif asked is not None and (self.cores is None or not asked):
                self.begin(thread, asked)
            elif asked is not None:
                self._turn += 1
                heapq.heappush(self._computing, (self._served + asked, self._turn, thread))

    def _next(self) -> Running:
        """The thread that goes on next; the time is then."""
        if self._computing:
            assert self.cores is not None
            crowd = max(len(self._computing), self.cores)
            needed = self._computing[0][0] - self._served
            at_ps = self.now_ps + -(-needed * crowd // self.cores)
            if not self._due or at_ps <= self._due[0][0]:
                self._served, _, thread = heapq.heappop(self._computing)
                self.now_ps = at_ps
                return thread
            self._served += (self._due[0][0] - self.now_ps) * self.cores // crowd
        self.now_ps, _, thread = heapq.heappop(self._due)
        return thread

    def in_pool(self) -> Steps:
        """Waits for a thread of the pool."""
        while self.threads_free == 0:
            yield self.freed
        if self.threads_free is not None:
            self.threads_free -= 1

    def leave_pool(self) -> None:
        if self.threads_free is not None:
            self.threads_free += 1
            self.wake(self.freed)


@dataclass
class _Open:
    name: str
    begin_ps: int
    stats: Mapping[str, Value]
    end_ps: int | None = None


class Thread:
    """A line of the capture: events inside one another."""

    def __init__(self, clock: Clock, name: str) -> None:
        self.clock = clock
        self.name = name
        self.noted: list[_Open] = []

    @contextmanager
    def event(self, name: str, **stats: Value) -> Iterator[None]:
        one = _Open(name, self.clock.now_ps, stats)
        self.noted.append(one)
        yield
        one.end_ps = self.clock.now_ps

    def between(self, begin_ps: int, end_ps: int) -> list[Event]:
        """What a profiler sees that watches for so long: events that begin and end meanwhile."""
        events = [
            event(one.name, one.begin_ps, one.end_ps - one.begin_ps, [stat(*pair) for pair in one.stats.items()])
            for one in self.noted
            if one.end_ps is not None and one.begin_ps >= begin_ps and one.end_ps <= end_ps
        ]
        return sorted(events, key=lambda each: (each.offset_ps or 0, -each.duration_ps))
