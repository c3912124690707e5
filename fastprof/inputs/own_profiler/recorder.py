"""Steps of a program are counted, and recorded from one to another."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

from fastprof.inputs.own_profiler.frameworks import Levels, Profiler


class Recorder:
    """``choose``: the profiler, when recording begins. ``steps``: the first, and the one after the last; None: others
    begin and end. ``folder``: what the profiler writes is below it, when ``ended`` is called."""

    def __init__(
        self,
        choose: Callable[[], Profiler],
        folder: str,
        levels: Levels,
        steps: tuple[int, int] | None,
        ended: Callable[[], None],
    ) -> None:
        self.counted = 0
        """Steps that have begun."""
        self.is_recording = self.is_over = False
        self.took_ps = 0
        self._choose, self._folder, self._levels, self._steps, self._ended = choose, folder, levels, steps, ended
        self._profiler: Profiler | None = None
        self._mark: AbstractContextManager[object] | None = None
        self._is_marking = False
        self._began_ns = 0

    def count(self, *, is_marked: bool) -> None:
        """A step begins, and the one before ends. ``is_marked``: by this, in the capture, because the program does
        not."""
        if self._is_marking:  # our own mark calls what is hooked
            return
        number, self.counted = self.counted, self.counted + 1
        self.end_step()
        if self.is_over:
            return
        if self._steps is not None and number == self._steps[0]:
            self.begin()
        elif self._steps is not None and number == self._steps[1]:
            self.end()
        if is_marked and self.is_recording and self._profiler is not None:
            self._is_marking = True
            try:
                self._mark = self._profiler.step(number)
                self._mark.__enter__()
            finally:
                self._is_marking = False

    def end_step(self) -> None:
        """Ends the step that lasts, if this has marked it."""
        mark, self._mark = self._mark, None
        if mark is not None:
            mark.__exit__(None, None, None)

    def section(self, name: str) -> AbstractContextManager[object]:
        """Marks a part of the program, if it is being recorded."""
        if self.is_recording and self._profiler is not None:
            return self._profiler.section(name)
        return nullcontext()

    def begin(self) -> None:
        """Raises as ``Profiler.start``."""
        self._profiler = self._choose()
        self._profiler.settle()
        self._profiler.start(self._folder, self._levels)
        self.is_recording, self._began_ns = True, time.time_ns()

    def end(self) -> None:
        """Does nothing if it has not begun, or is over. Raises as ``Profiler.stop`` and ``ended``."""
        if not self.is_recording or self._profiler is None:
            return
        self.is_recording, self.is_over = False, True
        self._profiler.settle()
        self.took_ps = 1000 * (time.time_ns() - self._began_ns)
        self._profiler.stop()
        self._ended()
