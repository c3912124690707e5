"""Gives tasks to an executor and gathers what comes back, whatever becomes of the workers.

waiting ──► running ──► done           one answer a task: the first counts, later ones are dropped
   ▲           │
   └── lost ───┤ the executor broke: who was in flight is a suspect
               ▼
            suspects, one at a time: who breaks it alone is the one that breaks it

If nothing is waiting, workers begin with the tasks of another gathering, that of the next run (``Engine.ahead``), which
then goes on with what they did. If the executor breaks or ends meanwhile, these are given again when their turn comes.
"""

from __future__ import annotations

import time
import traceback
from collections import Counter, deque
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, CancelledError, Executor, Future, wait
from operator import attrgetter
from typing import Any, Final

import numpy as np

from fastprof.engines.engine import Engine
from fastprof.engines.host_task import FilesTask, GroupTask, HostTask, Kept
from fastprof.engines.worker import keep_host
from fastprof.errors import EngineError, FastprofError, NotFoundError, UnreadableError
from fastprof.wording.quantities import count_noun, format_size

_GRACE_S: Final = 1.0
"""How long others are waited for after a fault, so that of several faults it is mostly the same one that is raised."""
_PATIENCE_S: Final = 0.5
_LOST: Final = ("KilledWorker", "WorkerCrashedError", "OutOfMemoryError", "NodeDiedError")
"""What engines raise that run a task again by themselves, when they give up."""
_MOST_TRAVELLING: Final = 256 << 20
"""Bytes of tasks that workers have at a time."""
_UNSEEN: Final = 3
_SLOWER: Final = 3
_SLACK_S: Final = 10.0
"""A host is slow that runs this many times as long as others for each byte, and this much longer."""


Task = HostTask | GroupTask | FilesTask


def _submit_task(executor: Executor, task: Any) -> Future[Kept]:
    return executor.submit(keep_host, task)


def gather(
    engine: Engine,
    tasks: Sequence[Task],
    report: Callable[[int], None] = lambda _: None,
    stored: Callable[[Kept], Kept] = lambda kept: kept,
    submitted: Callable[[Executor, Any], Future[Kept]] = _submit_task,
) -> dict[int, Kept]:
    """Return what was kept of each task, by its number. ``report``: called with how many are done; ``stored``: with
    each answer that counts, and returns what is held of it; ``submitted``: gives a task to the executor. Raises the
    fault of a task that the session cannot do without: of several the one with the lowest number."""
    return Gathering(engine, tasks, stored, submitted).run(report)


class Gathering:
    """What becomes of some tasks; arguments as of ``gather``."""

    def __init__(
        self,
        engine: Engine,
        tasks: Sequence[Task],
        stored: Callable[[Kept], Kept] = lambda kept: kept,
        submitted: Callable[[Executor, Any], Future[Kept]] = _submit_task,
    ) -> None:
        self.submitted = submitted
        self.engine = engine
        self.tasks = tasks
        self.report: Callable[[int], None] = lambda _: None
        self.stored = stored
        self.waiting = deque(sorted(tasks, key=lambda task: -(task.size_bytes or 0)))  # the largest first
        self.suspects: deque[Task] = deque()
        self.running: dict[Future[Kept], Task] = {}
        self.since: dict[Future[Kept], float] = {}
        self.tried: Counter[tuple[int, str]] = Counter()
        self.done: dict[int, Kept] = {}
        self.ends_at: float | None = None
        self.failure: FastprofError | None = None
        """A fault that came before its turn."""
        self.ahead: Gathering | None = None

    def run(self, report: Callable[[int], None]) -> dict[int, Kept]:
        """Give what is left to give, and return when all is done."""
        self.report = report
        self.ahead = self.engine.ahead if self.engine.ahead is not self else None
        try:
            if self.failure is not None:
                raise self.failure
            while len(self.done) < len(self.tasks) and not self._is_over():
                self._submit()
                self._collect()
            if self.ends_at is None:
                self._go_ahead()  # workers have something to do while the report is made
        except BaseException:
            self._leave(stop=True)
            raise
        if self.ends_at is not None:
            self._leave(stop=bool(self.running))
            ending = min((result for result in self.done.values() if self._ends(result)), key=attrgetter("number"))
            raise ending.fault  # type: ignore[misc]
        self._leave(stop=False)
        return self.done

    def _is_over(self) -> bool:
        return self.ends_at is not None and (not self.running or time.monotonic() > self.ends_at)

    def _leave(self, *, stop: bool) -> None:
        if stop and self.engine.is_made:
            self._end_executor()  # a pool that finds its processes gone fails at futures that others have cancelled
            return
        self.cancel()

    def cancel(self) -> None:
        for future in self.running:
            future.cancel()

    def _end_executor(self) -> None:
        self.engine.stop()
        if self.ahead is not None:
            self.ahead.take_back()

    # ---- giving

    def _submit(self) -> None:
        if self.ends_at is not None:
            return
        if self.suspects:
            if not self.running:
                self._start(self.suspects.popleft())
            return
        while self.waiting and self._has_slot() and not self.suspects and self._has_room():
            self._start(self.waiting.popleft())
        if not (self.waiting or self.suspects):
            self._go_ahead()

    def _has_slot(self) -> bool:
        others = 0 if self.ahead is None else len(self.ahead.running)
        return len(self.running) + others < self.engine.in_flight

    def _has_room(self) -> bool:
        travelling = sum(task.travelling for task in self.running.values())
        return not travelling or travelling + self.waiting[0].travelling <= _MOST_TRAVELLING

    def _start(self, task: Task) -> None:
        if task.number in self.done:
            return
        try:
            self._give(task)
        except BrokenExecutor as error:
            self._broke(error, [task])

    def _give(self, task: Task) -> None:
        try:
            future = self.submitted(self.engine.executor, task)
        except (BrokenExecutor, FastprofError):
            raise
        except Exception as error:
            text = f"the executor accepts no hosts: {type(error).__name__}: {error}; pass a running executor"
            raise EngineError(text) from error
        if not isinstance(future, Future):
            raise EngineError(f"submit of the executor gave no Future, but {type(future).__name__}")
        self.running[future] = task
        self.since[future] = time.monotonic()

    # ---- ahead

    def _go_ahead(self) -> None:
        """Give tasks of the next gathering."""
        ahead = self.ahead
        while ahead is not None and ahead.waiting and ahead._goes_on() and self._has_slot():
            try:
                ahead._give(ahead.waiting[0])
            except BrokenExecutor as error:
                if self.running:
                    self._broke(error, [])
                return  # else its own turn will meet that
            ahead.waiting.popleft()

    def _goes_on(self) -> bool:
        return self.ends_at is None and self.failure is None

    def take_back(self) -> None:
        """What was given is waiting again: the executor ended for reasons of another gathering."""
        self.waiting.extendleft(self.running.values())
        self.running.clear()
        self.since.clear()

    # ---- taking

    def _collect(self) -> None:
        futures = [*self.running, *(self.ahead.running if self.ahead is not None else ())]
        if not futures:
            return
        wait(futures, _PATIENCE_S, FIRST_COMPLETED)  # which overlooks those that somebody cancels
        broken, lost = self._take_ended()
        broken_ahead: BaseException | None = None
        lost_ahead: list[Task] = []
        if self.ahead is not None:
            try:
                broken_ahead, lost_ahead = self.ahead._take_ended()
            except FastprofError as error:
                self.ahead.failure = error
            self.ahead.waiting.extendleft(lost_ahead)
        if broken is not None or broken_ahead is not None:
            self._broke(broken or broken_ahead or BrokenExecutor(), lost, alone=not lost_ahead)
            return
        if self.engine.host_timeout is not None:
            self._look_for_late(self.engine.host_timeout)
        if self._may_run_twice():
            # Give hosts a second time, once, that take much longer than their size explains. Answers are equal, so the
            # first one will do.
            pace, now = float(np.median(self._paces())), time.monotonic()
            for future, task in list(self.running.items()):
                usual = pace * (task.size_bytes or 0)
                if now - self.since[future] > _SLOWER * usual + _SLACK_S and not self.tried[task.number, "slow"]:
                    self.tried[task.number, "slow"] += 1
                    self._start(task)

    def _take_ended(self) -> tuple[BaseException | None, list[Task]]:
        """Take answers. If the executor broke: its error, and the tasks that ended so."""
        ended = [future for future in self.running if future.done()]
        lost: list[Task] = []
        broken: BaseException | None = None
        for future in ended:
            task = self.running.pop(future)
            self.since.pop(future)
            try:
                kept = future.result()
            except BrokenExecutor as error:
                lost.append(task)
                broken = error
            except CancelledError:
                self._again(task, "cancelled", EngineError(f"the executor cancelled {task.what}", path=task.path))
            except FastprofError:
                raise
            except Exception as error:  # noqa: BLE001  whatever an engine raises
                self._failed(task, error)
            else:
                self._take(task, kept)
        return broken, lost

    def _take(self, task: Task, kept: Kept) -> None:
        if not isinstance(kept, Kept) or kept.number != task.number:
            raise EngineError("the executor gave the answer of another call", path=task.path)
        if task.number in self.done:  # it was run twice
            return
        self.done[task.number] = self.stored(kept)
        first = list(self.done.values())[:_UNSEEN]
        unseen = [result.fault for result in first if isinstance(result.fault, NotFoundError | UnreadableError)]
        known = any(task.size_bytes is not None for task in self.tasks)  # the session sees them
        if known and unseen and len(unseen) == len(first) and len(first) == min(_UNSEEN, len(self.tasks)):
            raise EngineError(
                "workers cannot see this file and others: give them access to this machine's file systems",
                path=unseen[0].path,
            )
        if self._ends(kept) and self.ends_at is None:
            self.ends_at = time.monotonic() + _GRACE_S
        for future, other in self.running.items():
            if other.number == task.number:
                future.cancel()
        self.report(len(self.done))

    def _ends(self, kept: Kept) -> bool:
        """Return whether its fault is one that the session cannot do without the host for."""
        task = next(iter(self.tasks))
        return kept.fault is not None and (not kept.in_opening or task.on_error == "raise")

    # ---- faults of workers

    def _fault(self, task: Task, error: FastprofError) -> None:
        self._take(task, Kept(task.number, fault=error, in_opening=True))

    def _again(self, task: Task, why: str, error: EngineError, most: int | None = None) -> None:
        """Try a host again, or give it up."""
        self.tried[task.number, why] += 1
        if self.tried[task.number, why] > (self.engine.retries if most is None else most):
            self._fault(task, error)
        else:
            self.waiting.append(task)

    def _failed(self, task: Task, error: Exception) -> None:
        lost = next((cls.__name__ for cls in type(error).__mro__ if cls.__name__ in _LOST), None)
        if lost is not None:
            text = f"the worker of {task.what} was lost: {lost}: {error}"
            self._fault(task, EngineError(text, path=task.path))
            return
        trace = "".join(traceback.format_exception(error)).strip()
        self._again(task, "failed", EngineError(f"a worker failed on {task.what}: {trace}", path=task.path), most=1)

    def _broke(self, error: BaseException, lost: Sequence[Task], alone: bool = True) -> None:
        """The executor broke. It does not say for whom: all that it had are suspects. ``alone``: whether all that ended
        are of this gathering. Workers no longer go ahead."""
        self.engine.check_renewable(error)
        together = [*lost, *self.running.values()]
        alone = alone and not (self.ahead is not None and self.ahead.running)
        self.running.clear()
        self.since.clear()
        self._end_executor()
        self.ahead = None
        suspects = list({task.number: task for task in together}.values())
        if len(suspects) != 1 or not alone:
            self.suspects.extend(suspects)
            return
        (task,) = suspects
        self.tried[task.number, "killed"] += 1
        if self.tried[task.number, "killed"] <= self.engine.retries:
            self.suspects.append(task)
            return
        peak = max((result.peak_bytes for result in self.done.values()), default=0)
        times = count_noun(self.tried[task.number, "killed"], "time", "times")
        text = f"the worker of {task.what} was killed {times}, possibly because it ran out of memory"
        sizes = (
            [f"its file has {format_size(task.size_bytes)}"]
            if task.path is not None and task.size_bytes is not None
            else []
        )
        sizes += [f"others took up to {format_size(peak)}"] if peak else []
        text += f" ({'; '.join(sizes)})" if sizes else ""
        self._fault(task, EngineError(text, path=task.path))

    def _may_run_twice(self) -> bool:
        """Return whether idle machines may repeat what others are slow with: nothing is left to give."""
        return not (self.waiting or self.suspects or self.ends_at or self.engine.is_here) and bool(self._paces())

    def _paces(self) -> list[float]:
        """Seconds a byte of the hosts that are done."""
        sizes = {task.number: task.size_bytes for task in self.tasks}
        return [
            result.wall_s / size
            for result in self.done.values()
            if result.fault is None and (size := sizes[result.number])
        ]

    def _look_for_late(self, host_timeout: float) -> None:
        """Try hosts again that take too long. A process that hangs cannot be taken back: its pool is made again."""
        now = time.monotonic()
        for future in self.running:
            if not future.running():
                self.since[future] = now  # it waits in the executor
        late = [future for future, since in self.since.items() if now - since > host_timeout]
        if not late:
            return
        tasks = [self.running.pop(future) for future in late]
        for future in late:
            self.since.pop(future)
            future.cancel()
        if self.engine.is_made:
            self._end_executor()
            self.waiting.extendleft(self.running.values())
            self.running.clear()
            self.since.clear()
        for task in tasks:
            text = f"{task.what} took longer than host_timeout, {host_timeout:g} s"
            self._again(task, "late", EngineError(text, path=task.path))
