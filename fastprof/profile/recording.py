"""A program that records itself: ``with fastprof.record(logdir, steps=(10, 15)) as recording: …``."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, TypeVar

from fastprof.errors import FastprofError, NotFoundError, UsageError
from fastprof.inputs.own_profiler.frameworks import ProfilerLevels, Recorder, find_profiler
from fastprof.profile.captured_run import is_run_name, make_unfinished_folder, move_to_run

if TYPE_CHECKING:
    from fastprof.profile.captured_run import Check
    from fastprof.profile.profile import Profile

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
    if steps is not None and not (isinstance(steps, tuple | list) and len(steps) == 2 and 0 <= steps[0] < steps[1]):
        raise UsageError(f"steps is a first step and the one after the last, as in (10, 15), not {steps!r}")
    if run is not None and not is_run_name(run):
        raise UsageError(f"{run!r} cannot be the name of a run: it is the name of one directory")
    levels = ProfilerLevels(host_level, device_level, python_level, dict(advanced or {}))
    levels.check()
    return Recording(os.fspath(logdir), steps, run, levels, framework)


class Recording:
    """What ``record`` returns: counts steps, and has the ``profile`` when it ends."""

    def __init__(
        self, logdir: str, steps: tuple[int, int] | None, run: str | None, levels: ProfilerLevels, framework: str | None
    ) -> None:
        self._logdir, self._steps, self._run_name, self._levels = logdir, steps, run, levels
        self._framework = framework
        self._recorder: Recorder | None = None
        self._folder = Path()
        self._unfinished = ExitStack()
        self.path: str | None = None
        """The run, a directory; None: there is none yet."""

    def __enter__(self) -> Recording:
        if self._recorder is not None:
            raise UsageError("a recording is used once; call fastprof.record again")
        profiler = find_profiler(self._framework)
        self._folder = self._unfinished.enter_context(make_unfinished_folder(self._logdir))
        self._recorder = Recorder(lambda: profiler, str(self._folder), self._levels, self._steps, self._deliver)
        try:
            if self._steps is None:
                self._recorder.begin()
        except BaseException:
            self._unfinished.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        recorder = self._entered()
        try:
            recorder.end_step()
            recorder.end()
        except Exception as fault:  # the program's own exception matters more
            if error is None:
                raise
            error.add_note(f"fastprof: {fault}")
        finally:
            recorder.is_over = True
            self._unfinished.close()
        if self.path is None and error is None:
            warnings.warn(self._why_nothing(), stacklevel=2)

    def step(self) -> None:
        """A step begins here, and the one before ends: call it first in the body of the loop."""
        self._entered().count(is_marked=True)

    def steps(self, items: Iterable[Item]) -> Iterator[Item]:
        """The items, one a step: ``for batch in recording.steps(batches)``. A step lasts until the next item is there,
        so that waiting for input belongs to steps; the wait is marked as such."""
        rest, recorder = iter(items), self._entered()
        try:
            while True:
                with recorder.section(_WAIT):
                    try:
                        item = next(rest)
                    except StopIteration:
                        return
                recorder.count(is_marked=True)
                yield item
        finally:
            recorder.end_step()

    def keras_callback(self) -> Any:
        """A callback for ``fit``, of the Keras that the program has imported: a step is a batch of training."""
        from fastprof.inputs.own_profiler.frameworks import make_callback

        return make_callback(self._entered())

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
        from fastprof.profile.captured_run import check_capture

        return check_capture(self.profile, 0, self._levels.host, self._levels.device, "record")

    def __repr__(self) -> str:
        steps = "" if self._steps is None else f" of steps {self._steps[0]} to {self._steps[1] - 1}"
        return f"<fastprof recording{steps}: {self.path or self._why_nothing()}>"

    def _entered(self) -> Recorder:
        if self._recorder is None:
            raise UsageError("a recording is used in with: with fastprof.record(…) as recording")
        return self._recorder

    def _deliver(self) -> None:
        self.path = move_to_run(self._folder, self._logdir, self._run_name)
        if self.path is None:
            raise FastprofError("the profiler has written no capture")

    def _why_nothing(self) -> str:
        recorder = self._recorder
        if recorder is not None and recorder.is_recording:
            return "it is still recording"
        if recorder is not None and self._steps is not None and recorder.counted <= self._steps[0]:
            return (
                f"nothing was recorded: step {self._steps[0]} has not begun; {recorder.counted} steps were counted, by "
                "recording.steps(…), recording.step() or recording.keras_callback()"
            )
        return "nothing was recorded"
