"""A pool of threads for the compiled core, which works without the interpreter's lock."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from fastprof.decode.array_memory import adopt_thread
from fastprof.errors import FastprofError

T = TypeVar("T")
Progress = Callable[[str, int, int], None]
"""Called with a stage, how much of it is done, and how much there is."""
_LARGE = 1 << 20  # bytes of a session from which threads save more time than they take to start
HOSTS_READ = "analysing hosts"
"""The stage of analyses, a host at a time."""


def count_cpus() -> int:
    """Return the number of processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0)) or 1
    return os.cpu_count() or 1


class Workers:
    """Runs tasks on ``threads`` threads; a single one is the caller's. ``if_large``: none for small sessions."""

    def __init__(self, threads: int, progress: Progress | None = None, if_large: bool = False) -> None:
        self.threads = threads
        self._missing_bytes = _LARGE if if_large else 0
        self._progress = progress
        self._own = threading.local()

    def expect(self, size: int) -> None:
        """Count the bytes of a capture that tasks will read."""
        self._missing_bytes -= size

    @property
    def are_several(self) -> bool:
        """Return whether tasks run on several threads: small sessions take less time than threads take to start."""
        return self.threads > 1 and self._missing_bytes <= 0

    @property
    def progress(self) -> Progress | None:
        """The callback of the calling thread: threads share the workers, and each reports what it runs itself."""
        progress: Progress | None = getattr(self._own, "progress", self._progress)
        return progress

    @contextmanager
    def reporting(self, progress: Progress | None) -> Iterator[None]:
        """Make the calling thread report to ``progress`` inside the block. None: no change."""
        before = self.progress
        self._own.progress = progress or before
        try:
            yield
        finally:
            self._own.progress = before

    def report(self, stage: str | None, done: int, total: int) -> None:
        """Report how much of a stage is done, unless ``stage`` is None."""
        if self.progress is not None and stage is not None:
            self.progress(stage, done, total)

    def run(self, stage: str | None, tasks: Sequence[Callable[[], T]]) -> list[T]:
        """Return the results in the order of the tasks. Of several errors, the one at the lowest offset is raised.

        Progress counts tasks; without a stage it is not reported.
        """
        if not self.are_several or len(tasks) < 2:
            return [self._counted(stage, i, len(tasks), task) for i, task in enumerate(tasks)]
        from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait

        count = min(self.threads, len(tasks))
        with ThreadPoolExecutor(count, thread_name_prefix="fastprof", initializer=adopt_thread) as pool:
            futures = [pool.submit(task) for task in tasks]
            try:
                if self.progress is None or stage is None:
                    wait(futures, return_when=FIRST_EXCEPTION)
                else:
                    for i, future in enumerate(futures):
                        wait([future])
                        self.report(stage, i + 1, len(tasks))
            finally:
                for future in futures:
                    future.cancel()
        errors = [future.exception() for future in futures if not future.cancelled()]
        raised = [error for error in errors if error is not None]
        if raised:
            raise min(raised, key=_get_offset)
        return [future.result() for future in futures]

    def _counted(self, stage: str | None, i: int, total: int, task: Callable[[], T]) -> T:
        result = task()
        self.report(stage, i + 1, total)
        return result


def _get_offset(error: BaseException) -> tuple[bool, int]:
    offset = error.offset if isinstance(error, FastprofError) else None
    return (offset is None, offset or 0)


def group_sizes(sizes: Iterable[int], limit: int) -> list[tuple[int, int]]:
    """Consecutive items in groups of about ``limit`` in all: (first, last) pairs."""
    groups: list[tuple[int, int]] = []
    start = filled = 0
    end = 0
    for i, size in enumerate(sizes):
        if filled and filled + size > limit:
            groups.append((start, i))
            start, filled = i, 0
        filled += size
        end = i + 1
    if end > start:
        groups.append((start, end))
    return groups
