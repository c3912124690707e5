"""The profilers of JAX, TensorFlow and PyTorch, through their public functions, in the program that they record.

Imports nothing but what the program itself has imported, and Python's own modules.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import field
from pathlib import Path
from typing import Any, Final, Protocol

from fastprof.errors import FastprofError, UsageError
from fastprof.schema.value_classes import dataclass

_RUNNING: Final = "a profiler is recording this program already, and there can be only one; end it first"


@dataclass(frozen=True, slots=True)
class Levels:
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
    """Of a framework."""

    def start(self, folder: str, levels: Levels) -> None:
        """Raises UsageError: it cannot record so, or is recording already. FastprofError: it fails."""

    def stop(self) -> None:
        """Ends what ``start`` began: captures are then below its folder."""

    def step(self, number: int) -> AbstractContextManager[object]:
        """Marks a step."""

    def section(self, name: str) -> AbstractContextManager[object]:
        """Marks a part of it."""

    def settle(self) -> None:
        """Waits until devices have done what the program has given them so far, if the framework can."""


class _Jax:
    def __init__(self, jax: Any) -> None:
        self._jax = jax

    def start(self, folder: str, levels: Levels) -> None:
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

    def start(self, folder: str, levels: Levels) -> None:
        if levels.advanced:
            raise UsageError("the profiler of TensorFlow takes no advanced options in the program")
        profiler = self._tensorflow.profiler.experimental
        options = profiler.ProfilerOptions(
            host_tracer_level=levels.host, python_tracer_level=levels.python, device_tracer_level=levels.device
        )
        try:
            profiler.start(folder, options=options)
        except self._tensorflow.errors.AlreadyExistsError as error:
            raise UsageError(_RUNNING) from error
        except self._tensorflow.errors.OpError as error:
            raise FastprofError(f"TensorFlow cannot record: {error}") from error

    def stop(self) -> None:
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

    def start(self, folder: str, levels: Levels) -> None:
        if levels.advanced:
            raise UsageError("the profiler of PyTorch takes no advanced options")
        profiler = self._torch.profiler
        cpu = profiler.ProfilerActivity.CPU
        activities = [one for one in profiler.supported_activities() if (levels.host if one == cpu else levels.device)]
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


def imported() -> list[str]:
    """The frameworks that the program has imported, completely, in the order of ``NAMES``."""
    return [name for name in NAMES if (module := sys.modules.get(name)) is not None and not _is_unfinished(module)]


def profiler_of(name: str | None) -> Profiler:
    """Of the framework of this name, None for the first that is imported. Raises UsageError."""
    if name is not None and name not in NAMES:
        raise UsageError(f"{name!r} is not a framework that can be recorded: {', '.join(NAMES)}")
    there = imported()
    if not there or name not in (None, *there):
        missing = name or "jax, tensorflow or torch"
        raise UsageError(f"the program has not imported {missing}, so there is nothing to record yet")
    chosen = name or there[0]
    return _FRAMEWORKS[chosen](sys.modules[chosen])


def _is_unfinished(module: object) -> bool:
    return bool(getattr(getattr(module, "__spec__", None), "_initializing", False))
