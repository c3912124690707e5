"""A program that records itself: ``with fastprof.record(logdir, steps=(10, 15)) as recording: …``."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, nullcontext, suppress
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, TypeVar

from fastprof.errors import FastprofError, NotFoundError, UsageError
from fastprof.export.new_files import new_folder, output_errors
from fastprof.inputs.own_profiler.frameworks import Levels, Profiler, profiler_of
from fastprof.profile.captured_run import CapturedRun, is_run_name

if TYPE_CHECKING:
    from fastprof.profile.capture_checks import Check
    from fastprof.profile.profile import Profile

_CAPTURES: Final = ("*.xplane.pb", "*.pt.trace.json")
_UNFINISHED: Final = "recording"
_WAIT: Final = "next_batch"
"""A name that analyses know as input."""

Item = TypeVar("Item")


def record(
    logdir: str | os.PathLike[str],
    *,
    steps: tuple[int, int] | None = None,
    run: str | None = None,
    host_level: int = 2,
    device_level: int = 1,
    python_level: int = 0,
    advanced: Mapping[str, str | bool | int] | None = None,
    framework: str | None = None,
) -> Recording:
    """Record this program with the profiler of its framework: JAX, TensorFlow or PyTorch. Use it in ``with``.

    ``logdir``: the capture becomes ``LOGDIR/plugins/profile/RUN/HOST.xplane.pb`` (PyTorch: ``….pt.trace.json``).
    ``steps``: record from step ``steps[0]`` up to, but without, ``steps[1]``, counted from 0 in the block by
    ``Recording.steps``, ``step`` or ``keras_callback``. Without it the entire block is recorded.
    ``run``: name of the run; default: the time. Processes of one program that give the same name share the run.
    ``host_level`` 0 to 3, ``device_level`` 0 or 1, ``python_level`` 0 or 1: what the tracers record.
    ``advanced``: options of JAX's profiler, such as those of TPUs. ``framework``: "jax", "tensorflow" or "torch";
    default: the first of these that the program has imported.

    Raises UsageError: an argument is invalid, nothing is imported, or a profiler is recording already; OutputError.
    """
    if steps is not None and not (len(steps) == 2 and 0 <= steps[0] < steps[1]):
        raise UsageError(f"steps is a first step and the one after the last, as in (10, 15), not {steps!r}")
    if run is not None and not is_run_name(run):
        raise UsageError(f"{run!r} cannot be the name of a run: it is the name of one directory")
    levels = Levels(host_level, device_level, python_level, dict(advanced or {}))
    levels.check()
    return Recording(os.fspath(logdir), steps, run, levels, framework)


class Recording:
    """What ``record`` returns: counts steps, and has the ``profile`` when it ends."""

    def __init__(
        self, logdir: str, steps: tuple[int, int] | None, run: str | None, levels: Levels, framework: str | None
    ) -> None:
        self._logdir, self._steps, self._run_name, self._levels = logdir, steps, run, levels
        self._framework = framework
        self._next = 0
        self._profiler: Profiler | None = None
        self._folder: Path | None = None
        self._unfinished = ExitStack()
        self._mark: AbstractContextManager[object] | None = None
        self._is_recording = self._is_over = False
        self._began_ns = self._took_ns = 0
        self.path: str | None = None
        """The run, a directory; None: there is none yet."""

    def __enter__(self) -> Recording:
        if self._profiler is not None:
            raise UsageError("a recording is used once; call fastprof.record again")
        self._profiler = profiler_of(self._framework)
        self._make_folder()
        try:
            if self._steps is None:
                self._begin()
        except BaseException:
            self._unfinished.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        try:
            self.end_step()
            self._end()
        except Exception as fault:  # the program's own exception matters more
            if error is None:
                raise
            error.add_note(f"fastprof: {fault}")
        finally:
            self._is_over = True
            self._unfinished.close()
        if self.path is None and error is None:
            warnings.warn(self._why_nothing(), stacklevel=2)

    def step(self) -> None:
        """A step begins here, and the one before ends: call it first in the body of the loop."""
        self.count(is_marked=True)

    def steps(self, items: Iterable[Item]) -> Iterator[Item]:
        """The items, one a step: ``for batch in recording.steps(batches)``. A step lasts until the next item is there,
        so that waiting for input belongs to steps; the wait is marked as such."""
        rest = iter(items)
        try:
            while True:
                with self._waiting():
                    try:
                        item = next(rest)
                    except StopIteration:
                        return
                self.step()
                yield item
        finally:
            self.end_step()

    def keras_callback(self) -> Any:
        """A callback for ``fit``, of the Keras that the program has imported: a step is a batch of training."""
        from fastprof.inputs.own_profiler.keras_steps import callback

        return callback(self)

    @cached_property
    def profile(self) -> Profile:
        """What was recorded. Raises NotFoundError: nothing yet."""
        if self.path is None:
            raise NotFoundError(self._why_nothing())
        from fastprof.profile.loading import load

        return load(self.path)

    @cached_property
    def remarks(self) -> list[Check]:
        """What the capture lacks, each with ``text`` and ``advice``; reads all events."""
        from fastprof.profile.capture_checks import checks

        took_ps = 1000 * self._took_ns
        return checks(self.profile, took_ps, self._levels.host, self._levels.device, in_program=True)

    def __repr__(self) -> str:
        steps = "" if self._steps is None else f" of steps {self._steps[0]} to {self._steps[1] - 1}"
        state = self.path or ("recording" if self._is_recording else "nothing recorded")
        return f"<fastprof recording{steps}: {state}>"

    def count(self, *, is_marked: bool) -> None:
        """As ``step``. ``is_marked``: this marks the step in the capture, because the program does not."""
        number, self._next = self._next, self._next + 1
        if self._is_over or self._profiler is None:
            return
        self.end_step()
        if self._steps is not None:
            if number == self._steps[0]:
                self._begin()
            elif number == self._steps[1]:
                self._end()
        if is_marked and self._is_recording:
            self._mark = self._profiler.step(number)
            self._mark.__enter__()

    def end_step(self) -> None:
        """Ends the step that lasts, if any."""
        mark, self._mark = self._mark, None
        if mark is not None:
            mark.__exit__(None, None, None)

    def _waiting(self) -> AbstractContextManager[object]:
        if self._is_recording and self._profiler is not None:
            return self._profiler.section(_WAIT)
        return nullcontext()

    def _make_folder(self) -> None:
        """A hidden folder in the log directory, for what the profiler writes, which then moves to the run."""
        with output_errors(self._logdir, "cannot write to the log directory"):
            logdir = Path(self._logdir)
            if not logdir.is_dir():
                logdir.mkdir(parents=True)
                self._unfinished.callback(_remove_if_empty, logdir)
            self._folder = self._unfinished.enter_context(new_folder(logdir / _UNFINISHED))

    def _begin(self) -> None:
        assert self._profiler is not None
        self._profiler.settle()
        self._profiler.start(str(self._folder), self._levels)
        self._is_recording, self._began_ns = True, time.time_ns()

    def _end(self) -> None:
        if not self._is_recording or self._profiler is None or self._folder is None:
            return
        self._is_recording, self._is_over = False, True
        self._profiler.settle()
        self._took_ns = time.time_ns() - self._began_ns
        self._profiler.stop()
        files = sorted(file for pattern in _CAPTURES for file in self._folder.rglob(pattern))
        if not files:
            raise FastprofError("the profiler has written no capture")
        run = CapturedRun(self._logdir, self._run_name, is_shared=True)
        try:
            for file in files:
                run.take(file)
            self.path = str(run.path)
        finally:
            run.remove_if_empty()

    def _why_nothing(self) -> str:
        if self._is_recording:
            return "it is still recording"
        if self._steps is not None and self._next <= self._steps[0]:
            return (
                f"nothing was recorded: step {self._steps[0]} has not begun; {self._next} steps were counted, by "
                "recording.steps(…), recording.step() or recording.keras_callback()"
            )
        return "nothing was recorded"


def _remove_if_empty(folder: Path) -> None:
    with suppress(OSError):
        folder.rmdir()
