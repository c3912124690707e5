"""In the process of a program that ``fastprof run`` has started: waits for the framework that it imports, and records.

Python imports ``sitecustomize`` before the program; that file calls ``begin``, and leaves everything as it was. From
then on the functions that mark steps are counted, each as soon as its module is imported. Recorded by time, a thread
begins and ends; PyTorch is only recorded by the thread that works, so there this happens between steps.
"""

from __future__ import annotations

import atexit
import importlib.util
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from fastprof.inputs.own_profiler.frameworks import NAMES, Levels, Profiler, imported, profiler_of
from fastprof.inputs.own_profiler.keras_steps import callback
from fastprof.inputs.own_profiler.recorder import Recorder

_VARIABLE: Final = "FASTPROF_RUN"
_REPORT: Final = "report.json"
_PERIOD_S: Final = 0.05


def environment(folder: Path, settings: dict[str, Any], usual: dict[str, str]) -> dict[str, str]:
    """The environment of a process that records itself into ``folder``. ``settings``: ``steps``, or ``after_s`` and
    ``duration_s``; ``levels``."""
    (folder / "sitecustomize.py").write_text(f"from {__name__} import begin\n\nbegin()\n")
    path = usual.get("PYTHONPATH")
    settings = settings | {"folder": str(folder), "path": path}
    return usual | {
        "PYTHONPATH": os.pathsep.join([str(folder), *([path] if path else [])]),
        _VARIABLE: json.dumps(settings),
    }


def report(folder: Path) -> dict[str, Any]:
    """What the process says when it ends: ``why`` nothing was recorded, or None. Empty: it could not say."""
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
        steps, folder = settings["steps"], settings["folder"]
        self._by_step: tuple[int, int] | None = None if steps is None else (steps[0], steps[1])
        super().__init__(self._chosen, folder, Levels(**settings["levels"]), self._by_step, lambda: None)
        self._report = Path(folder, _REPORT)
        self._after_s, self._duration_s = settings["after_s"], settings["duration_s"]
        self._lock, self._exiting, self._process = threading.RLock(), threading.Event(), os.getpid()
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
        """At the end of the program, before what has been registered so far."""
        atexit.unregister(self._finish)
        atexit.register(self._finish)

    def _finish(self) -> None:
        if os.getpid() != self._process:
            return
        self._exiting.set()
        with self._lock:
            self.end_step()
            self._attempt(self.end)
            why = None if self.is_over and not self._fault else self._fault or self._why_nothing()
            self._report.write_text(json.dumps({"why": why, "counted": self.counted, "took_ps": self.took_ps}))

    def _watch(self) -> None:
        """Begins some time after a framework works, and ends."""
        while not _working():
            if self._exiting.wait(_PERIOD_S):
                return
        if self._exiting.wait(self._after_s):
            return
        with self._lock:
            self._is_due = _working() == "torch"
            if self._is_due or self._exiting.is_set():
                return
            self._attempt(self.begin)
        self._exiting.wait(self._duration_s)
        with self._lock:
            self._attempt(self.end)

    def _by_time(self) -> None:
        if self._is_due and not self.is_recording:
            self._is_due = False
            self._end_s = time.monotonic() + self._duration_s
            self.begin()
        elif self._end_s and time.monotonic() >= self._end_s:
            self.end()

    def _chosen(self) -> Profiler:
        return profiler_of(_working())

    def _attempt(self, act: Callable[[], object]) -> None:
        try:
            act()
        except Exception as error:  # noqa: BLE001  whatever fails, the program goes on
            self._fault, self.is_over = f"{error}", True

    def _why_nothing(self) -> str:
        if not imported():
            return f"the program has not imported {', '.join(NAMES)}"
        if self._by_step is None:
            begun = " and a step of an optimizer has begun" if self._is_due else ""
            return f"it ended before {self._after_s:g} s had passed{begun}; give a smaller --after"
        if not self.counted:
            return "it has marked no step; --after and --duration record by time"
        return f"step {self._by_step[0]} has not begun; {self.counted} steps were counted"


def _working() -> str | None:
    """The framework that the program uses. JAX counts when it has chosen its devices, which nothing may do before."""
    backends = sys.modules.get("jax._src.xla_bridge")
    chosen = getattr(backends, "backends_are_initialized", None)
    is_early = chosen is not None and not chosen()
    return next((name for name in imported() if not (name == "jax" and is_early)), None)


class _Hooks:
    """Finds modules as Python does; some are changed when they have been imported."""

    def __init__(self, script: _Script) -> None:
        self._script = script
        self._changes: dict[str, Callable[[Any], None]] = {
            "jax.profiler": self._of_jax,
            "tensorflow.python.profiler.trace": self._of_tensorflow,
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

    def _of_keras(self, module: Any) -> None:
        usual, script = module.CallbackList.__init__, self._script

        def __init__(every: object, callbacks: Any = None, *rest: object, **others: object) -> None:  # noqa: N807
            given = list(callbacks) if isinstance(callbacks, list | tuple) else [callbacks] if callbacks else []
            usual(every, [*given, callback(script)], *rest, **others)

        module.CallbackList.__init__ = __init__

    def _of_torch(self, module: Any) -> None:
        module.register_optimizer_step_post_hook(lambda *_: self._script.count(is_marked=True))
