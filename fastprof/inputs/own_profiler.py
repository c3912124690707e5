"""The profilers of JAX, TensorFlow and PyTorch, through their public functions, in the program that they record: a
program that records steps of itself, or one that ``fastprof run`` has started, which waits for the framework that it
imports.

Imports nothing but what the program itself has imported, and Python's own modules.

Python imports ``sitecustomize`` before the program; that file calls ``begin``, and leaves everything as it was. From
then on the functions that mark steps are counted, each as soon as its module is imported. Recorded by time, a thread
begins and ends; PyTorch is only recorded by the thread that works, so there this happens between steps.
"""

from __future__ import annotations

import atexit
import functools
import importlib.util
import json
import math
import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import fields, replace
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any, Final, Protocol

from fastprof.errors import UsageError
from fastprof.inputs.framework_profilers import (
    NAMES,
    MainThreadCall,
    Profiler,
    ProfilerLevels,
    find_profiler,
    list_imported,
)
from fastprof.inputs.step_times import FEWEST, STEPS, RecordingCost, Span, StepTimes
from fastprof.schema.value_classes import dataclass


@dataclass(frozen=True, slots=True)
class RecordedWindow:
    """A recorded time window. ``folder``: contains the profiler's output; ``delivered_s``: time at which the
    output was complete."""

    folder: str
    levels: ProfilerLevels
    span: Span
    delivered_s: float


class Recorder:
    """Records one window, and a second one at the levels ``without_python``, if given, when the first costs too much.

    ``choose``: returns the profiler when recording begins. ``steps``: the first step, and the step after the last; None
    if the caller begins and ends. ``folder``: for the profiler's output. ``ended``: called after each window."""

    def __init__(
        self,
        choose: Callable[[], Profiler],
        folder: str,
        levels: ProfilerLevels,
        steps: tuple[int, int] | None,
        ended: Callable[[RecordedWindow], None],
        without_python: ProfilerLevels | None = None,
    ) -> None:
        self.counted = 0
        """Steps that have begun."""
        self.is_recording = self.is_over = False
        self.windows: list[RecordedWindow] = []
        self.times = StepTimes()
        self._choose, self._folder, self._levels, self._ended = choose, folder, levels, ended
        self._next = steps
        self._without_python = without_python
        self._decides_at: int | None = None
        self._profiler: Profiler | None = None
        self._mark: AbstractContextManager[object] | None = None
        self._is_marking = False
        self._began_s = 0.0

    def count(self, *, is_marked: bool) -> None:
        """A step begins, and the one before ends. ``is_marked``: by this, in the capture, because the program does
        not."""
        if self._is_marking:  # our own mark calls what is hooked
            return
        self.times.note(STEPS)
        number, self.counted = self.counted, self.counted + 1
        self.end_step()
        if self._next is not None:
            self._begin_or_end(number)
        if is_marked and self.is_recording and self._profiler is not None:
            self._is_marking = True
            try:
                self._mark = self._profiler.step(number)
                self._mark.__enter__()
            finally:
                self._is_marking = False

    def _begin_or_end(self, number: int) -> None:
        """Begin or end a window with this step. Equally many unrecorded steps follow each window for comparison."""
        assert self._next is not None
        first, last = self._next
        if number == self._decides_at:
            self._decides_at = None
            if self.needs_second_window():
                self._next, self._levels = (number, number + last - first), self._without_python or self._levels
                first, self._without_python = number, None
            else:
                self.times.stop()
        if number == first and not self.is_over:
            self.begin()
            self.times.note(STEPS)
        elif number == last and self.is_recording:
            self.end()
            self.times.note(STEPS)
            self._decides_at = number + 1 + max(last - first, FEWEST)

    def needs_second_window(self) -> bool:
        """Return whether a window without Python is to follow."""
        return bool(self._without_python and self.windows) and self.measure_cost(0).is_high

    def measure_cost(self, number: int) -> RecordingCost:
        """Compare the steps of a window with the unrecorded steps before and after it."""
        window = self.windows[number]
        before = self._find_settled(self.windows[number - 1]) if number else 0.0
        after = self.windows[number + 1].span[0] if number + 1 < len(self.windows) else math.inf
        unrecorded = [(before, window.span[0]), (self._find_settled(window), after)]
        return self.times.measure_cost(window.span, unrecorded)

    def _find_settled(self, window: RecordedWindow) -> float:
        """Return the time after a window at which the program was as fast as before."""
        return window.delivered_s + (SETTLES_S if self._next is None else 0.0)

    def end_step(self) -> None:
        """End the step that lasts, if this has marked it."""
        mark, self._mark = self._mark, None
        if mark is not None:
            mark.__exit__(None, None, None)

    def section(self, name: str) -> AbstractContextManager[object]:
        """Mark a part of the program, if it is being recorded."""
        if self.is_recording and self._profiler is not None:
            return self._profiler.section(name)
        return nullcontext()

    def begin(self) -> None:
        """Start as ``Profiler.start`` does, with the same errors."""
        self._profiler = self._choose()
        self._profiler.settle()
        self._profiler.start(self._make_window_folder(), self._levels)
        self.is_recording, self._began_s = True, time.monotonic()

    def end(self) -> None:
        """End the window, if one is being recorded. Raises like ``Profiler.stop`` and ``ended``."""
        if not self.is_recording or self._profiler is None:
            return
        self.is_recording, self.is_over = False, True
        self._profiler.settle()
        folder, span = self._make_window_folder(), (self._began_s, time.monotonic())
        self._profiler.stop()
        window = RecordedWindow(folder, self._levels, span, time.monotonic())
        self.windows.append(window)
        self._ended(window)
        self.is_over = not self._without_python

    def _make_window_folder(self) -> str:
        folder = Path(self._folder, str(len(self.windows)))
        folder.mkdir(exist_ok=True)
        return str(folder)


class StepCounter(Protocol):
    """Counts steps."""

    def count(self, *, is_marked: bool) -> None: ...

    def end_step(self) -> None: ...


def make_callback(steps: StepCounter) -> Any:
    """Raise UsageError: the program has not imported Keras."""
    keras = sys.modules.get("keras")
    if keras is None and (tensorflow := sys.modules.get("tensorflow")) is not None:
        keras = getattr(tensorflow, "keras", None)
    if keras is None:
        raise UsageError("the program has not imported keras; import it before its callback is made")
    is_marked = not str(getattr(keras, "__version__", "3")).startswith("2.")  # Keras 2 marks its steps itself

    class Batches(keras.callbacks.Callback):  # type: ignore[misc, name-defined]
        """A step lasts until the next batch begins, so that waiting for input belongs to steps."""

        def on_train_batch_begin(self, batch: int, logs: object = None) -> None:  # noqa: ARG002
            steps.count(is_marked=is_marked)

        def on_test_begin(self, logs: object = None) -> None:  # noqa: ARG002
            steps.end_step()

        def on_epoch_end(self, epoch: int, logs: object = None) -> None:  # noqa: ARG002
            steps.end_step()

    return Batches()


_VARIABLE: Final = "FASTPROF_RUN"
_REPORT: Final = "report.json"
_PERIOD_S: Final = 0.05
_LEAD_S: Final = 3.0
"""Calls of compiled functions are counted this long before recording begins: counting takes microseconds a call."""
_PATIENCE_S: Final = (10.0, 120.0)
"""Longest wait until steps follow each other, if no step or call has been counted, and if any has."""
_ENOUGH: Final = 5
"""A window lasts until it has this many steps, but not longer than ``_LONGEST_S``."""
_LONGEST_S: Final = 10.0
SETTLES_S: Final = 0.5
"""Time after a recording until a program is as fast as before."""
_TF_FUNCTIONS: Final = "tensorflow.python.eager.polymorphic_function.polymorphic_function"


def make_environment(folder: Path, settings: dict[str, Any], usual: dict[str, str]) -> dict[str, str]:
    """Return the environment of a process that records itself into ``folder``. ``settings``: ``steps``, or ``after_s``
    and ``duration_s``; ``waits``: True to begin once steps follow each other; ``extends``: True to last
    for enough steps; ``levels``."""
    (folder / "sitecustomize.py").write_text(f"from {__name__} import begin\n\nbegin()\n")
    path = usual.get("PYTHONPATH")
    settings = settings | {"folder": str(folder), "path": path}
    return usual | {
        "PYTHONPATH": os.pathsep.join([str(folder), *([path] if path else [])]),
        _VARIABLE: json.dumps(settings),
    }


def read_report(folder: Path) -> dict[str, Any]:
    """Return the report of the ended process, or {} if there is none. ``why``: reason why nothing was recorded, or
    None. ``windows``: recorded windows, each with ``folder``, ``python_level``, ``took_s`` and ``cost``."""
    try:
        said = json.loads((folder / _REPORT).read_text())
    except (OSError, ValueError):
        return {}
    return said if isinstance(said, dict) else {}


def begin() -> None:
    settings = json.loads(os.environ.pop(_VARIABLE))
    os.environ.pop("PYTHONPATH")
    if settings["path"] is not None:
        os.environ["PYTHONPATH"] = settings["path"]
    sys.path.remove(settings["folder"])
    script = _Script(settings)
    script.exit_later()
    sys.meta_path.insert(0, _Hooks(script))
    hidden = PathFinder.find_spec("sitecustomize")
    if hidden is not None and hidden.loader is not None:  # the one that ours has hidden
        sys.modules["sitecustomize"] = module = importlib.util.module_from_spec(hidden)
        hidden.loader.exec_module(module)


class _Script(Recorder):
    def __init__(self, settings: dict[str, Any]) -> None:
        steps, folder, levels = settings["steps"], settings["folder"], ProfilerLevels(**settings["levels"])
        self._by_step: tuple[int, int] | None = None if steps is None else (steps[0], steps[1])
        cheaper = replace(levels, python=0) if settings["without_python"] else None
        super().__init__(self._choose_profiler, folder, levels, self._by_step, self._note_end, cheaper)
        self._report = Path(folder, _REPORT)
        self._after_s, self._duration_s = settings["after_s"], float(settings["duration_s"] or 0)
        self._waits, self._extends = settings["waits"], settings["extends"]
        self._lock, self._exiting, self._process = threading.RLock(), threading.Event(), os.getpid()
        self._has_ended = threading.Event()
        self._is_waiting = self._is_due = self._ends_with_step = False
        self._fault = ""
        if self._by_step is None:
            threading.Thread(target=self._record_by_time, daemon=True, name="fastprof").start()

    def count(self, *, is_marked: bool) -> None:
        begins_or_ends = self._by_step is not None or self._is_due or self._ends_with_step
        with self._lock if begins_or_ends else nullcontext():  # else steps would wait while a thread begins or ends
            self._attempt(self.end_step)  # an open step would last until the profiler has written its output
            self._attempt(self._follow_time)
            self._attempt(lambda: super(_Script, self).count(is_marked=is_marked))

    def exit_later(self) -> None:
        """Run a function when the program ends, before what has been registered so far."""
        atexit.unregister(self._finish)
        atexit.register(self._finish)

    def _finish(self) -> None:
        if os.getpid() != self._process:
            return
        self._exiting.set()
        with self._lock:
            self.end_step()
            self._attempt(self.end)
            self.times.stop()
            self._write_report()

    def _write_report(self) -> None:
        why = None if self.windows else self._fault or self._why_nothing()
        windows = []
        for number, window in enumerate(self.windows):
            cost = self.measure_cost(number)
            windows.append({
                "folder": window.folder,
                "python_level": window.levels.python,
                "took_s": window.span[1] - window.span[0],
                "cost": {field.name: getattr(cost, field.name) for field in fields(cost)},
            })  # fmt: skip
        self._report.write_text(json.dumps({"why": why, "fault": self._fault, "windows": windows}))

    def _note_end(self, _window: RecordedWindow) -> None:
        self._write_report()  # a signal may end the program before it can say more
        self._has_ended.set()

    def _record_by_time(self) -> None:
        """Record a window when the program has worked for some time, and a second one if needed."""
        while not _find_working():
            if self._exiting.wait(_PERIOD_S):
                return
        lead_s = min(self._after_s, _LEAD_S)
        if self._exiting.wait(self._after_s - lead_s):
            return
        self.times.count_calls()
        if self._exiting.wait(lead_s) or (self._waits and not self._wait_for_steps()):
            return
        while self._record_window() and not self._watch(SETTLES_S):
            with self._lock:
                if not self.needs_second_window():
                    break
                self._levels, self._without_python = self._without_python or self._levels, None
        if not self._exiting.is_set():
            self.times.stop()

    def _wait_for_steps(self) -> bool:
        """Wait until steps follow each other, as the program may still compile. Return False if it ends."""
        began_s, self._is_waiting = time.monotonic(), True
        while not self.times.is_steady():
            has_calls = self.times.count_since(0.0) is not None
            if time.monotonic() - began_s >= _PATIENCE_S[has_calls]:
                break
            if self._exiting.wait(_PERIOD_S):
                return False
        self._is_waiting = False
        return True

    def _watch(self, settles_s: float = 0.0) -> bool:
        """Wait for the duration of a window, and until it has enough steps. Return whether the program ends."""
        begins_s = time.monotonic() + settles_s
        is_ending = self._exiting.wait(settles_s + self._duration_s)
        while not (is_ending or self._is_long_enough(begins_s)):
            is_ending = self._exiting.wait(_PERIOD_S)
        return is_ending

    def _is_long_enough(self, began_s: float) -> bool:
        took_s = time.monotonic() - began_s
        if not self._extends or took_s < self._duration_s:
            return took_s >= self._duration_s
        steps = self.times.count_since(began_s)
        return steps is None or steps > _ENOUGH or took_s >= _LONGEST_S

    def _record_window(self) -> bool:
        """Record a window, and return whether this succeeded. PyTorch records the thread that starts it, so it
        starts between two steps, or on the main thread if no optimizer is used."""
        self._has_ended.clear()
        with self._lock:
            if self._exiting.is_set():
                return False
            self._is_due = _find_working() == "torch" and self.counted > 0
        if not self._is_due:
            self._act(self.begin)
            self._watch()
            self._act(self.end)
        while not (self._has_ended.wait(_PERIOD_S) or self._exiting.is_set() or self._fault):
            pass
        return self._has_ended.is_set()

    def _act(self, act: Callable[[], object]) -> None:
        """Begin or end a window; with PyTorch on the main thread, once this runs Python."""

        def attempt() -> None:
            with self._lock:
                self._attempt(act)

        if _find_working() != "torch":
            attempt()
            return
        call = MainThreadCall(attempt)
        while not (call.has_ended.wait(_PERIOD_S) or self._exiting.is_set()):
            pass

    def _follow_time(self) -> None:
        if self._is_due and not self.is_recording:
            self._is_due, self._ends_with_step = False, True
            self.begin()
        elif self._ends_with_step and self._is_long_enough(self._began_s):
            self._ends_with_step = False
            self.end()

    def _choose_profiler(self) -> Profiler:
        return find_profiler(_find_working())

    def _attempt(self, act: Callable[[], object]) -> None:
        try:
            act()
        except Exception as error:  # noqa: BLE001  whatever fails, the program goes on
            self._fault, self.is_over = f"{error}", True

    def _why_nothing(self) -> str:
        if not list_imported():
            return f"the program has not imported {', '.join(NAMES)}"
        if self._by_step is None:
            begun = " and a step of an optimizer has begun" if self._is_due else ""
            begun = " and steps followed each other" if self._is_waiting else begun
            return f"it ended before {self._after_s:g} s had passed{begun}; give a smaller --after"
        if not self.counted:
            return "it has not marked any step; --after and --duration record by time"
        return f"step {self._by_step[0]} has not begun; {self.counted} steps were counted"


def _find_working() -> str | None:
    """Return the framework that the program uses. JAX counts when it has chosen its devices, which nothing may do
    before."""
    backends = sys.modules.get("jax._src.xla_bridge")
    chosen = getattr(backends, "backends_are_initialized", None)
    is_early = chosen is not None and not chosen()
    return next((name for name in list_imported() if not (name == "jax" and is_early)), None)


class _Hooks:
    """Finds modules as Python does; some are changed when they have been imported."""

    def __init__(self, script: _Script) -> None:
        self._script = script
        self._changes: dict[str, Callable[[Any], None]] = {
            "jax.profiler": self._count_jax,
            "tensorflow.python.profiler.trace": self._count_tensorflow,
            _TF_FUNCTIONS: self._count_functions,
            "keras.src.callbacks.callback_list": self._count_keras,
            "torch.optim.optimizer": self._count_torch,
        }

    def find_spec(self, name: str, path: Sequence[str] | None, _target: ModuleType | None = None) -> ModuleSpec | None:
        change = self._changes.pop(name, None)
        spec = None if change is None else PathFinder.find_spec(name, path)
        if change is None or spec is None or spec.loader is None:
            return None
        execute = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            self._script.exit_later()
            change(module)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec

    def _count_jax(self, module: Any) -> None:
        self._count_made(module.StepTraceAnnotation, lambda _stats: True)

    def _count_tensorflow(self, module: Any) -> None:
        self._count_made(module.Trace, lambda stats: "step_num" in stats)

    def _count_made(self, kind: Any, is_step: Callable[[dict[str, object]], bool]) -> None:
        usual, script = kind.__init__, self._script

        def __init__(mark: object, *words: object, **stats: object) -> None:  # noqa: N807
            if is_step(stats):
                script.count(is_marked=False)
            usual(mark, *words, **stats)

        kind.__init__ = __init__

    def _count_functions(self, module: Any) -> None:
        usual, times = module.Function.__call__, self._script.times

        def __call__(function: Any, *words: object, **others: object) -> object:  # noqa: N807
            if times.is_on:
                times.note(getattr(function, "_name", "a function"))
            return usual(function, *words, **others)

        module.Function.__call__ = __call__

    def _count_keras(self, module: Any) -> None:
        usual, script = module.CallbackList.__init__, self._script

        def __init__(every: object, callbacks: Any = None, *rest: object, **others: object) -> None:  # noqa: N807
            given = list(callbacks) if isinstance(callbacks, list | tuple) else [callbacks] if callbacks else []
            usual(every, [*given, make_callback(script)], *rest, **others)

        module.CallbackList.__init__ = __init__

    def _count_torch(self, module: Any) -> None:
        """Count calls of optimizers outside of their annotation. From inside, the annotation would last until the
        profiler has written its output."""
        usual, script = module.Optimizer.profile_hook_step, self._script

        def profile_hook_step(step: Callable[..., object]) -> Callable[..., object]:
            annotated = usual(step)

            @functools.wraps(step)
            def count_step(*words: object, **others: object) -> object:
                result = annotated(*words, **others)
                script.count(is_marked=True)
                return result

            return count_step

        module.Optimizer.profile_hook_step = staticmethod(profile_hook_step)
