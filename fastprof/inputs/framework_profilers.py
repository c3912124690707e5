"""The profilers of JAX, TensorFlow and PyTorch, called through their public functions inside the recorded program.

TensorFlow 2.21 ignores the tracer levels that a program gives, and leaves its Python tracer off. ``PythonCalls``
records Python functions as annotations instead, with the names that profilers give them. Library functions are left
out unless the program itself calls them, because frameworks call hundreds in each step.
"""

from __future__ import annotations

import ctypes
import sys
import sysconfig
import threading
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import field
from pathlib import Path, PurePath
from types import CodeType, FrameType
from typing import Any, Final, Protocol

from fastprof.errors import FastprofError, UsageError
from fastprof.schema.value_classes import dataclass

_RUNNING: Final = "a profiler is recording this program already, and there can be only one; end it first"


@dataclass(frozen=True, slots=True)
class ProfilerLevels:
    """Tracer levels. ``advanced``: options of the profiler by name."""

    host: int = 2
    device: int = 1
    python: int = 0
    advanced: Mapping[str, str | bool | int] = field(default_factory=dict)

    def check(self) -> None:
        for name, level, highest in (("host", self.host, 3), ("device", self.device, 1), ("python", self.python, 1)):
            if level not in range(highest + 1):
                raise UsageError(f"{name}_level is an integer from 0 to {highest}, not {level!r}")


class Profiler(Protocol):
    """The profiler of a framework."""

    def start(self, folder: str, levels: ProfilerLevels) -> None:
        """UsageError: the profiler does not support ``levels``, or is recording already. FastprofError: it fails."""

    def stop(self) -> None:
        """Stop recording. Captures are then below the folder that ``start`` received."""

    def step(self, number: int) -> AbstractContextManager[object]:
        """Mark a step."""

    def section(self, name: str) -> AbstractContextManager[object]:
        """Mark a part of the program."""

    def settle(self) -> None:
        """Wait until devices have finished the dispatched work, if the framework supports this."""


class _Jax:
    def __init__(self, jax: Any) -> None:
        self._jax = jax

    def start(self, folder: str, levels: ProfilerLevels) -> None:
        profiler = self._jax.profiler
        if not hasattr(profiler, "ProfileOptions"):
            raise UsageError(f"JAX {self._jax.__version__} does not support tracer levels; use a later version")
        options = profiler.ProfileOptions()
        options.host_tracer_level, options.python_tracer_level = levels.host, levels.python
        if hasattr(options, "device_tracer_level"):
            options.device_tracer_level = levels.device
        elif not levels.device:
            raise UsageError("this version of JAX always records devices: use device_level=1")
        if levels.advanced:
            options.advanced_configuration = dict(levels.advanced)
        is_enabled = getattr(profiler.TraceAnnotation, "is_enabled", None)
        if is_enabled is not None and is_enabled():  # JAX itself would only report this at the end
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
            with suppress(Exception):  # else JAX could not record again
                self._jax._src.profiler._profile_state.reset()
            raise FastprofError(f"JAX cannot deliver what it recorded: {error}") from error

    def step(self, number: int) -> AbstractContextManager[object]:
        mark: AbstractContextManager[object] = self._jax.profiler.StepTraceAnnotation("train", step_num=number)
        return mark

    def section(self, name: str) -> AbstractContextManager[object]:
        mark: AbstractContextManager[object] = self._jax.profiler.TraceAnnotation(name)
        return mark

    def settle(self) -> None:
        with suppress(Exception):  # the program sees the error when it uses the array
            self._jax.block_until_ready(self._jax.live_arrays())


class _TensorFlow:
    def __init__(self, tensorflow: Any) -> None:
        self._tensorflow = tensorflow
        self._calls = PythonCalls(tensorflow.profiler.experimental.Trace)

    def start(self, folder: str, levels: ProfilerLevels) -> None:
        if levels.advanced:
            raise UsageError("TensorFlow's profiler takes no advanced options inside the program")
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
            raise UsageError("PyTorch's profiler takes no advanced options")
        profiler = self._torch.profiler
        cpu = profiler.ProfilerActivity.CPU
        activities = [
            activity
            for activity in profiler.supported_activities()
            if (levels.host if activity == cpu else levels.device)
        ]
        if not activities:
            raise UsageError("PyTorch records nothing at these levels")
        is_enabled = getattr(self._torch.autograd, "_profiler_enabled", None)
        if is_enabled is not None and is_enabled():  # PyTorch itself would end the other, and crash
            raise UsageError(_RUNNING)
        try:
            more = bool(levels.python)
            self._profile = profiler.profile(activities=activities, with_stack=more, record_shapes=more)
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
    """Return the frameworks that the program has completely imported, in the order of ``NAMES``."""
    return [name for name in NAMES if (module := sys.modules.get(name)) is not None and not _is_unfinished(module)]


def find_profiler(name: str | None) -> Profiler:
    """Return the profiler of this framework, or of the first imported one. UsageError: it is not imported."""
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


# ---- Python functions of TensorFlow programs


_LIBRARIES: Final = (*{sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}, "<frozen ")
_CALLBACKS: Final = ("tensorflow.python.ops.script_ops", "FuncRegistry")
"""Class that calls Python functions from TensorFlow's own threads."""
_COMPILED: Final = ("tensorflow.python.eager.polymorphic_function.polymorphic_function", "Function")
"""Class of compiled functions. Their calls run no Python but TensorFlow's own."""
_OWN: Final = PurePath(__file__).parent
_PENDING: Final = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)


class MainThreadCall:
    """Call of a function by the main thread, between two Python instructions. ``has_ended`` is set after the call."""

    def __init__(self, act: Callable[[], object]) -> None:
        self.has_ended = threading.Event()
        self._act = act
        self._pending = _PENDING(self._run)  # referenced until the interpreter calls it
        ctypes.pythonapi.Py_AddPendingCall(self._pending, None)

    def _run(self, _nothing: object) -> int:
        try:
            self._act()
        finally:
            self.has_ended.set()
        return 0


class PythonCalls:
    """Annotates the Python functions of a program. ``mark``: returns the framework's annotation with a name."""

    def __init__(self, mark: Callable[..., AbstractContextManager[object]]) -> None:
        self._mark = mark
        self._is_on = False
        self._names: dict[CodeType, tuple[str, bool]] = {}
        self._pending: MainThreadCall | None = None
        self._hooked: list[tuple[Any, Any]] = []

    def start(self) -> None:
        """Trace the main thread, later threads and functions that TensorFlow calls; from Python 3.12 on, all threads.
        A thread with its own profile function is not traced."""
        self._is_on = True
        self._replace_call(_CALLBACKS, self._call_traced)
        self._replace_call(_COMPILED, self._call_untraced)
        if hasattr(threading, "setprofile_all_threads"):
            if sys.getprofile() is None:
                threading.setprofile_all_threads(self._begin)
            return
        if threading.getprofile() is None:
            threading.setprofile(self._begin)
        if threading.current_thread() is threading.main_thread():
            self._trace_thread()
        else:
            self._pending = MainThreadCall(self._trace_thread)

    def stop(self) -> None:
        """Stop tracing. Other threads stop at their next call."""
        self._is_on = False
        if threading.getprofile() == self._begin:
            threading.setprofile(None)
        while self._hooked:
            kind, usual = self._hooked.pop()
            kind.__call__ = usual

    def _trace_thread(self) -> None:
        if self._is_on and sys.getprofile() is None:
            sys.setprofile(self._begin)

    def _replace_call(self, path: tuple[str, str], call: Callable[..., object]) -> None:
        module, name = path
        kind = getattr(sys.modules.get(module), name, None)
        if kind is None:
            return
        usual = kind.__call__

        def call_hooked(*words: object, **others: object) -> object:
            return call(usual, *words, **others)

        self._hooked.append((kind, usual))
        kind.__call__ = call_hooked

    def _call_traced(self, usual: Callable[..., object], *words: object, **others: object) -> object:
        self._trace_thread()
        return usual(*words, **others)

    def _call_untraced(self, usual: Callable[..., object], *words: object, **others: object) -> object:
        from fastprof.inputs.tf_traces import call_marked  # late: other frameworks do not need it

        trace = sys.getprofile()
        if getattr(trace, "__module__", None) != __name__:
            return usual(*words, **others)
        sys.setprofile(None)
        try:
            return call_marked(usual, self._mark, *words, **others)
        finally:
            sys.setprofile(trace)

    def _begin(self, frame: FrameType, event: str, value: object) -> None:
        """Trace this thread with a tracer of its own."""
        trace = self._make_tracer()
        sys.setprofile(trace)
        trace(frame, event, value)

    def _make_tracer(self) -> Callable[[FrameType, str, object], None]:
        opened: list[tuple[FrameType, AbstractContextManager[object]]] = []

        def trace(frame: FrameType, event: str, _value: object) -> None:
            if not self._is_on:
                sys.setprofile(None)
                while opened:
                    opened.pop()[1].__exit__(None, None, None)
            elif event == "call":
                name, is_library = self._describe(frame.f_code)
                caller = frame.f_back
                if name and not (is_library and (caller is None or self._describe(caller.f_code)[1])):
                    mark = self._mark(name)
                    mark.__enter__()
                    opened.append((frame, mark))
            elif event == "return" and opened and opened[-1][0] is frame:
                opened.pop()[1].__exit__(None, None, None)

        return trace

    def _describe(self, code: CodeType) -> tuple[str, bool]:
        """Return the name of a function in captures ("" for fastprof's own), and whether it is a library function."""
        known = self._names.get(code)
        if known is None:
            file = PurePath(code.co_filename)
            is_own = file.parent == _OWN
            name = "" if is_own else f"${file.name}:{code.co_firstlineno} {code.co_name}"
            known = self._names[code] = (name, is_own or code.co_filename.startswith(_LIBRARIES))
        return known
