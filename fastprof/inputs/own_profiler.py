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
import importlib.util
import json
import math
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import field, fields, replace
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any, Final, Protocol

from fastprof.errors import FastprofError, UsageError
from fastprof.inputs.python_calls import PythonCalls
from fastprof.inputs.step_times import FEWEST, STEPS, RecordingCost, Span, StepTimes
from fastprof.schema.value_classes import dataclass

_RUNNING: Final = "a profiler is recording this program already, and there can be only one; end it first"


@dataclass(frozen=True, slots=True)
class ProfilerLevels:
    """What to record. ``advanced``: options of the profiler by name."""

    host: int = 2
    device: int = 1
    python: int = 0
    advanced: Mapping[str, str | bool | int] = field(default_factory=dict)

    def check(self) -> None:
        for name, level, highest in (("host", self.host, 3), ("device", self.device, 1), ("python", self.python, 1)):
            if level not in range(highest + 1):
                raise UsageError(f"{name}_level is a whole number from 0 to {highest}, not {level!r}")


class Profiler(Protocol):
    """The profiler of a framework."""

    def start(self, folder: str, levels: ProfilerLevels) -> None:
        """Raise UsageError: it cannot record so, or is recording already. FastprofError: it fails."""

    def stop(self) -> None:
        """End what ``start`` began: captures are then below its folder."""

    def step(self, number: int) -> AbstractContextManager[object]:
        """Mark a step."""

    def section(self, name: str) -> AbstractContextManager[object]:
        """Mark a part of the program."""

    def settle(self) -> None:
        """Wait until devices have done what the program has given them so far, if the framework can."""


class _Jax:
    def __init__(self, jax: Any) -> None:
        self._jax = jax

    def start(self, folder: str, levels: ProfilerLevels) -> None:
        profiler = self._jax.profiler
        if not hasattr(profiler, "ProfileOptions"):
            raise UsageError(f"JAX {self._jax.__version__} cannot be recorded at chosen levels; a later one can")
        options = profiler.ProfileOptions()
        options.host_tracer_level, options.python_tracer_level = levels.host, levels.python
        if hasattr(options, "device_tracer_level"):
            options.device_tracer_level = levels.device
        elif not levels.device:
            raise UsageError("this JAX always records its devices: device_level=1")
        if levels.advanced:
            options.advanced_configuration = dict(levels.advanced)
        is_enabled = getattr(profiler.TraceAnnotation, "is_enabled", None)
        if is_enabled is not None and is_enabled():  # JAX itself would only notice at the end
            raise UsageError(_RUNNING)
        try:
            profiler.start_trace(folder, profiler_options=options)
        except RuntimeError as error:
            if "already" in str(error):
                raise UsageError(_RUNNING) from error
            raise FastprofError(f"JAX cannot record: {error}") from error

    def stop(self) -> None:
        try:
            self._jax.profiler.stop_trace()
        except RuntimeError as error:
            with suppress(Exception):  # else JAX would record never again
                self._jax._src.profiler._profile_state.reset()
            raise FastprofError(f"JAX cannot deliver what it recorded: {error}") from error

    def step(self, number: int) -> AbstractContextManager[object]:
        mark: AbstractContextManager[object] = self._jax.profiler.StepTraceAnnotation("train", step_num=number)
        return mark

    def section(self, name: str) -> AbstractContextManager[object]:
        mark: AbstractContextManager[object] = self._jax.profiler.TraceAnnotation(name)
        return mark

    def settle(self) -> None:
        with suppress(Exception):  # what has failed is raised where the program uses it
            self._jax.block_until_ready(self._jax.live_arrays())


class _TensorFlow:
    def __init__(self, tensorflow: Any) -> None:
        self._tensorflow = tensorflow
        self._calls = PythonCalls(tensorflow.profiler.experimental.Trace)

    def start(self, folder: str, levels: ProfilerLevels) -> None:
        if levels.advanced:
            raise UsageError("the profiler of TensorFlow takes no advanced options in the program")
        profiler = self._tensorflow.profiler.experimental
        options = profiler.ProfilerOptions(
            host_tracer_level=levels.host, python_tracer_level=0, device_tracer_level=levels.device
        )
        try:
            profiler.start(folder, options=options)
        except self._tensorflow.errors.AlreadyExistsError as error:
            raise UsageError(_RUNNING) from error
        except self._tensorflow.errors.OpError as error:
            raise FastprofError(f"TensorFlow cannot record: {error}") from error
        if levels.python:
            self._calls.start()

    def stop(self) -> None:
        self._calls.stop()
        try:
            self._tensorflow.profiler.experimental.stop()
        except self._tensorflow.errors.OpError as error:
            raise FastprofError(f"TensorFlow cannot deliver what it recorded: {error}") from error

    def step(self, number: int) -> AbstractContextManager[object]:
        return self._marked("train", step_num=number, _r=1)

    def section(self, name: str) -> AbstractContextManager[object]:
        return self._marked(name)

    def _marked(self, name: str, **stats: int) -> AbstractContextManager[object]:
        mark: AbstractContextManager[object] = self._tensorflow.profiler.experimental.Trace(name, **stats)
        return mark

    def settle(self) -> None:
        pass


class _Torch:
    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._profile: Any = None
        self._folder = ""

    def start(self, folder: str, levels: ProfilerLevels) -> None:
        if levels.advanced:
            raise UsageError("the profiler of PyTorch takes no advanced options")
        profiler = self._torch.profiler
        cpu = profiler.ProfilerActivity.CPU
        activities = [
            activity
            for activity in profiler.supported_activities()
            if (levels.host if activity == cpu else levels.device)
        ]
        if not activities:
            raise UsageError("with these levels PyTorch records nothing")
        is_enabled = getattr(self._torch.autograd, "_profiler_enabled", None)
        if is_enabled is not None and is_enabled():  # PyTorch itself would end the other, and crash
            raise UsageError(_RUNNING)
        try:
            self._profile = profiler.profile(activities=activities, with_stack=bool(levels.python))
            self._profile.start()
        except (RuntimeError, AssertionError) as error:
            raise FastprofError(f"PyTorch cannot record: {error}; another profiler may be recording") from error
        self._folder = folder

    def stop(self) -> None:
        import socket
        import time

        self._profile.stop()
        name = f"{socket.gethostname() or 'unknown'}.{time.time_ns() // 10**6}.pt.trace.json"
        self._profile.export_chrome_trace(str(Path(self._folder, name)))

    def step(self, number: int) -> AbstractContextManager[object]:
        return self.section(f"ProfilerStep#{number}")

    def section(self, name: str) -> AbstractContextManager[object]:
        mark: AbstractContextManager[object] = self._torch.profiler.record_function(name)
        return mark

    def settle(self) -> None:
        pass


_FRAMEWORKS: Final[Mapping[str, Callable[[Any], Profiler]]] = {"jax": _Jax, "tensorflow": _TensorFlow, "torch": _Torch}
NAMES: Final = tuple(_FRAMEWORKS)


def list_imported() -> list[str]:
    """Return the frameworks that the program has imported, completely, in the order of ``NAMES``."""
    return [name for name in NAMES if (module := sys.modules.get(name)) is not None and not _is_unfinished(module)]


def find_profiler(name: str | None) -> Profiler:
    """Return the profiler of the framework of this name, or of the first that is imported. Raises UsageError."""
    if name is not None and name not in NAMES:
        raise UsageError(f"{name!r} is not a framework that can be recorded: {', '.join(NAMES)}")
    there = list_imported()
    if not there or name not in (None, *there):
        missing = name or "jax, tensorflow or torch"
        raise UsageError(f"the program has not imported {missing}, so there is nothing to record yet")
    chosen = name or there[0]
    return _FRAMEWORKS[chosen](sys.modules[chosen])


def _is_unfinished(module: object) -> bool:
    return bool(getattr(getattr(module, "__spec__", None), "_initializing", False))


@dataclass(frozen=True, slots=True)
class RecordedWindow:
    """Time that was recorded. ``folder``: what the profiler wrote is below it."""

    folder: str
    levels: ProfilerLevels
    span: Span
    first: int
    """Steps that had been counted when it began."""
    last: int
    """Steps that had been counted when it ended."""


class Recorder:
    """Records one window; if ``without_python`` is given and the first costs too much, a second one with these levels.

    ``choose``: the profiler, when recording begins. ``steps``: the first, and the one after the last; None: others
    begin and end. ``folder``: what the profiler writes is below it. ``ended``: called after each window."""

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
        self._began = (0.0, 0)

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
        """Begin or end a window with this step. As many unrecorded steps follow a window as it had, to compare with."""
        assert self._next is not None
        first, last = self._next
        if number == self._decides_at:
            self._decides_at = None
            if self.needs_another():
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

    def needs_another(self) -> bool:
        """Return whether a window without Python is to follow."""
        return bool(self._without_python and self.windows) and self.measure_cost(0).is_high

    def measure_cost(self, number: int) -> RecordingCost:
        """Compare the steps of a window with the unrecorded ones before and after it."""
        window = self.windows[number]
        before = self.windows[number - 1].span[1] + SETTLES_S if number else 0.0
        after = self.windows[number + 1].span[0] if number + 1 < len(self.windows) else math.inf
        settled = window.span[1] + (SETTLES_S if self._next is None else 0.0)
        return self.times.measure_cost(window.span, [(before, window.span[0]), (settled, after)])

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
        self._profiler.start(self._window_folder(), self._levels)
        self.is_recording, self._began = True, (time.monotonic(), self.counted)

    def end(self) -> None:
        """Does nothing if no window is being recorded. Raises as ``Profiler.stop`` and ``ended``."""
        if not self.is_recording or self._profiler is None:
            return
        self.is_recording, self.is_over = False, True
        self._profiler.settle()
        began, first = self._began
        window = RecordedWindow(self._window_folder(), self._levels, (began, time.monotonic()), first, self.counted)
        self._profiler.stop()
        self.windows.append(window)
        self._ended(window)
        self.is_over = not self._without_python

    def _window_folder(self) -> str:
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
"""Calls of compiled functions are counted this long before recording begins."""
SETTLES_S: Final = 0.5
"""Time after a recording in which a program is not yet as fast as before."""
_TF_FUNCTIONS: Final = "tensorflow.python.eager.polymorphic_function.polymorphic_function"


def make_environment(folder: Path, settings: dict[str, Any], usual: dict[str, str]) -> dict[str, str]:
    """Return the environment of a process that records itself into ``folder``. ``settings``: ``steps``, or ``after_s``
    and ``duration_s``; ``levels``."""
    (folder / "sitecustomize.py").write_text(f"from {__name__} import begin\n\nbegin()\n")
    path = usual.get("PYTHONPATH")
    settings = settings | {"folder": str(folder), "path": path}
    return usual | {
        "PYTHONPATH": os.pathsep.join([str(folder), *([path] if path else [])]),
        _VARIABLE: json.dumps(settings),
    }


def read_report(folder: Path) -> dict[str, Any]:
    """Return what the process says when it ends: ``why`` nothing was recorded, or None; ``windows`` that were recorded,
    each with ``folder``, ``python_level``, ``took_s`` and ``cost``. Empty: it could not say."""
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
        super().__init__(self._chosen, folder, levels, self._by_step, self._note_end, cheaper)
        self._report = Path(folder, _REPORT)
        self._after_s, self._duration_s = settings["after_s"], settings["duration_s"]
        self._lock, self._exiting, self._process = threading.RLock(), threading.Event(), os.getpid()
        self._has_ended = threading.Event()
        self._is_due = False
        self._end_s = 0.0
        self._fault = ""
        if self._by_step is None:
            threading.Thread(target=self._watch, daemon=True, name="fastprof").start()

    def count(self, *, is_marked: bool) -> None:
        begins_or_ends = self._by_step is not None or self._is_due or self._end_s
        with self._lock if begins_or_ends else nullcontext():  # else steps would wait while a thread begins or ends
            self._attempt(self._by_time)
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
            why = None if self.windows else self._fault or self._why_nothing()
            self._report.write_text(json.dumps({"why": why, "fault": self._fault, "windows": self._describe_windows()}))

    def _describe_windows(self) -> list[dict[str, Any]]:
        windows = []
        for number, window in enumerate(self.windows):
            cost = self.measure_cost(number)
            windows.append({
                "folder": window.folder,
                "python_level": window.levels.python,
                "took_s": window.span[1] - window.span[0],
                "cost": {field.name: getattr(cost, field.name) for field in fields(cost)},
            })  # fmt: skip
        return windows

    def _note_end(self, _window: RecordedWindow) -> None:
        self._has_ended.set()

    def _watch(self) -> None:
        """A profiler begins some time after a framework works, and ends; then, perhaps, another one."""
        while not _find_working():
            if self._exiting.wait(_PERIOD_S):
                return
        lead_s = min(self._after_s, _LEAD_S)
        if self._exiting.wait(self._after_s - lead_s):
            return
        self.times.count_calls()
        if self._exiting.wait(lead_s):
            return
        while self._record_window() and not self._exiting.wait(SETTLES_S + self._duration_s):
            with self._lock:
                if not self.needs_another():
                    break
                self._levels, self._without_python = self._without_python or self._levels, None
        if not self._exiting.is_set():
            self.times.stop()

    def _record_window(self) -> bool:
        """Record for some time, and return whether that has succeeded. PyTorch begins and ends between steps."""
        self._has_ended.clear()
        with self._lock:
            if self._exiting.is_set():
                return False
            is_between_steps = self._is_due = _find_working() == "torch"
            if not is_between_steps:
                self._attempt(self.begin)
        if not is_between_steps:
            self._exiting.wait(self._duration_s)
            with self._lock:
                self._attempt(self.end)
        while not (self._has_ended.wait(_PERIOD_S) or self._exiting.is_set() or self._fault):
            pass
        return self._has_ended.is_set()

    def _by_time(self) -> None:
        if self._is_due and not self.is_recording:
            self._is_due = False
            self._end_s = time.monotonic() + self._duration_s
            self.begin()
        elif self._end_s and time.monotonic() >= self._end_s:
            self._end_s = 0.0
            self.end()

    def _chosen(self) -> Profiler:
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
            return f"it ended before {self._after_s:g} s had passed{begun}; give a smaller --after"
        if not self.counted:
            return "it has marked no step; --after and --duration record by time"
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
            "jax.profiler": self._of_jax,
            "tensorflow.python.profiler.trace": self._of_tensorflow,
            _TF_FUNCTIONS: self._of_functions,
            "keras.src.callbacks.callback_list": self._of_keras,
            "torch.optim.optimizer": self._of_torch,
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

    def _of_jax(self, module: Any) -> None:
        self._count_made(module.StepTraceAnnotation, lambda _stats: True)

    def _of_tensorflow(self, module: Any) -> None:
        self._count_made(module.Trace, lambda stats: "step_num" in stats)

    def _count_made(self, kind: Any, is_step: Callable[[dict[str, object]], bool]) -> None:
        usual, script = kind.__init__, self._script

        def __init__(mark: object, *words: object, **stats: object) -> None:  # noqa: N807
            if is_step(stats):
                script.count(is_marked=False)
            usual(mark, *words, **stats)

        kind.__init__ = __init__

    def _of_functions(self, module: Any) -> None:
        usual, times = module.Function.__call__, self._script.times

        def __call__(function: Any, *words: object, **others: object) -> object:  # noqa: N807
            if times.is_on:
                times.note(getattr(function, "_name", "a function"))
            return usual(function, *words, **others)

        module.Function.__call__ = __call__

    def _of_keras(self, module: Any) -> None:
        usual, script = module.CallbackList.__init__, self._script

        def __init__(every: object, callbacks: Any = None, *rest: object, **others: object) -> None:  # noqa: N807
            given = list(callbacks) if isinstance(callbacks, list | tuple) else [callbacks] if callbacks else []
            usual(every, [*given, make_callback(script)], *rest, **others)

        module.CallbackList.__init__ = __init__

    def _of_torch(self, module: Any) -> None:
        module.register_optimizer_step_post_hook(lambda *_: self._script.count(is_marked=True))
