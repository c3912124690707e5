"""Who wrote each event of a host's threads: the Python tracer, an op, an input pipeline, a framework or a user.

Names and stats decide where they can. All other events are a user's annotation where Python runs: on a thread that
runs Python, or in an op that calls it, and not inside of a framework's event that never does.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Final

import numpy as np

from fastprof._native.cause_kernels import event_writers
from fastprof.derive.devices import kineto_categories
from fastprof.derive.steps.device_steps import is_derived
from fastprof.derive.steps.enclosing import enclosing
from fastprof.derive.steps.traceme_names import NameKind, is_thread_of_python, kind_of_name
from fastprof.schema.array_types import Bools, Int32s, Records, UInt8s
from fastprof.schema.value_classes import dataclass
from fastprof.tables.host_events import HOST_THREADS, HostEvents, Line
from fastprof.tables.once import once


class Origin(IntEnum):
    """Who wrote an event."""

    NONE = 0
    """No event of a thread: one of a device, or of a line that a profiler derived."""
    PYTHON = 1
    """The Python tracer: a frame, ``$file.py:12 name`` or ``$builtins len``."""
    OP = 2
    """An op of a framework, or an instruction of a compiled program."""
    INPUT = 3
    """A stage of an input pipeline."""
    FRAMEWORK = 4
    """XLA, TSL, TensorFlow, JAX, PJRT or a driver."""
    USER = 5
    """A user: an annotation, the marker of a step, a range of NVTX."""


STATS: Final = (
    "_a", "_c", "_p", "_ipl_stage_id", "_ipl_stage_cat", "correlation_id", "hlo_op", "step_num", "tf_function_call",
    "tf_op", "tracing_count",
)  # fmt: skip
"""The stats of events that are read."""

_PLANES: Final = (
    "/host:CUPTI", "/host:NVTX-CUPTI", "/host:ROCTRACER", "/host:TPU-runtime", "/host:python-tracer",
)  # fmt: skip
MARKER: Final = 9
"""Beside NameKind: the marker of a step, or another event that a stat gives to a user."""
_RUNS_PYTHON: Final = (NameKind.PYTHON, NameKind.DISPATCH, NameKind.ANNOTATION, MARKER)
_IS_NATIVE: Final = (NameKind.OP, NameKind.INPUT, NameKind.NATIVE, NameKind.PASSING)
_WRITERS: Final = {
    NameKind.PYTHON: Origin.PYTHON, NameKind.OP: Origin.OP, NameKind.INPUT: Origin.INPUT,
    NameKind.NATIVE: Origin.FRAMEWORK, NameKind.PASSING: Origin.FRAMEWORK, NameKind.DISPATCH: Origin.FRAMEWORK,
    NameKind.CALLBACK: Origin.OP, NameKind.ANNOTATION: Origin.USER, MARKER: Origin.USER,
}  # fmt: skip
_OF_KIND: Final = np.array(
    [
        (
            kind == NameKind.UNKNOWN,
            kind in (NameKind.UNKNOWN, NameKind.PASSING),
            kind in _RUNS_PYTHON,
            kind in _IS_NATIVE,
            kind == NameKind.CALLBACK,
            _WRITERS.get(kind, Origin.NONE),
        )
        for kind in range(16)
    ],
    np.uint8,
)
"""By NameKind, and of MARKER, as in csrc/kernels/event_writers.h: of unknown names, the nearest event around that says
whether Python runs in it decides; without one, the thread does."""


@dataclass(frozen=True, slots=True)
class EventOrigins:
    """``origin``: by row of events; ``parent``: the row of the innermost event of the thread that encloses each, -1:
    none. Asynchronous events neither enclose nor are enclosed. ``lines``: the threads of the host;
    ``python_lines``: those that run Python; ``names``: [origin, number of a name], whether there are such events."""

    origin: UInt8s
    parent: Int32s
    lines: tuple[Line, ...]
    python_lines: tuple[Line, ...]
    names: Bools

    def of(self, origin: Origin) -> Bools:
        """Which events someone wrote, by row."""
        return np.equal(self.origin, origin)


@once
def event_origins(events: HostEvents) -> EventOrigins:
    """The writer of each event of the host. Reads STATS."""
    lines = tuple(line for line in events.lines if is_thread(line))
    kind = np.zeros(len(events), np.uint8)
    by_name = np.array([kind_of_name(name) for name in events.names], np.uint8)
    of_category = kinds_by_category(events)
    by_name = np.where(of_category, of_category, by_name)
    for line in lines:
        kind[line.first : line.last] = by_name[events.meta[line.first : line.last]]
    _ask_stats(events, lines, kind)
    python_lines = _python_lines(lines, kind)
    parent = enclosing(events)
    runs_python = {line.number for line in python_lines}
    rows = threads(lines, [line.number in runs_python for line in lines])
    origin, names = np.zeros(len(events), np.uint8), np.zeros((len(Origin), len(events.names)), np.bool_)
    known = (kind, parent, events.meta)
    event_writers(known, rows, _OF_KIND, (Origin.USER, Origin.FRAMEWORK), origin, names, len(Origin))
    for found in (origin, names):
        found.flags.writeable = False
    return EventOrigins(origin, parent, lines, python_lines, names)


THREAD: Final = np.dtype([("first", "i8"), ("last", "i8"), ("number", "i8")])
"""The structs of csrc/kernels/event_writers.h and reasons.h; a test compares their sizes with C's."""


def threads(lines: Sequence[Line], numbers: Sequence[int]) -> Records:
    """THREAD: their rows, and a number of each."""
    found = np.empty(len(lines), THREAD)
    for place, (line, number) in enumerate(zip(lines, numbers, strict=True)):
        found[place] = line.first, line.last, number
    return found


@once
def kinds_by_category(events: HostEvents) -> UInt8s:
    """Return what the category of each row of metadata says of the writer: a NameKind or MARKER, 0 for
    nothing."""
    found = np.zeros(len(events.names), np.uint8)
    for categories, kind in (
        (kineto_categories.PYTHON, NameKind.PYTHON), (kineto_categories.CALLS, NameKind.NATIVE),
        (kineto_categories.MEMORY, NameKind.NATIVE),
        (kineto_categories.ANNOTATIONS, MARKER),
    ):  # fmt: skip
        found[kineto_categories.is_of(events, categories)] = kind
    found[kineto_categories.is_op(events)] = NameKind.OP
    return found


def is_thread(line: Line) -> bool:
    """Whether a line is a thread of the host, not of a device and not derived from others."""
    name = line.plane.name
    is_host = name == HOST_THREADS or name.startswith(f"{HOST_THREADS} [") or name in _PLANES
    return is_host and not is_derived(line)


def _ask_stats(events: HostEvents, lines: Sequence[Line], kind: UInt8s) -> None:
    """What stats say of events whose names say nothing, and of ops among those that carry one."""
    bounds = [min((line.first for line in lines), default=0), max((line.last for line in lines), default=0)]
    for name, known in (
        ("tf_op", NameKind.OP), ("hlo_op", NameKind.OP),
        ("_ipl_stage_id", NameKind.INPUT), ("_ipl_stage_cat", NameKind.INPUT),
        ("correlation_id", NameKind.NATIVE), ("_p", NameKind.NATIVE), ("_c", NameKind.NATIVE),
        ("tracing_count", NameKind.DISPATCH), ("tf_function_call", NameKind.DISPATCH),
        ("step_num", MARKER),
    ):  # fmt: skip
        rows = events.stat(name).rows
        rows = rows[slice(*np.searchsorted(rows, bounds).tolist())]
        kind[rows[kind[rows] == NameKind.UNKNOWN]] = known


def _python_lines(lines: Sequence[Line], kind: UInt8s) -> tuple[Line, ...]:
    """The threads that run Python: those that have its frames or calls of a framework from it, or mark steps, those
    that Python names, and others of the same name, as threads of one program are called alike."""
    shows = _OF_KIND[:, 2] > 0
    runs = [is_thread_of_python(line.name) or bool(shows[kind[line.first : line.last]].any()) for line in lines]
    names = {_program_of(line) for line, own in zip(lines, runs, strict=True) if own} - {""}
    names -= {_program_of(line) for line in lines if line.name.startswith(_POOLS)}
    return tuple(line for line, own in zip(lines, runs, strict=True) if own or _program_of(line) in names)


_POOLS: Final = (
    "tf_", "pjrt", "py_xla", "tfrt", "EventFDAsyncWorker", "switchto-", "futex-", "Host Threads", "XLA", "Eigen", "tpu",
    "grpc", "xla", "async-", "jax_", "stream_", "megascale",
)  # fmt: skip
"""How threads of the frameworks' pools are called."""


def _program_of(line: Line) -> str:
    """The name of a thread without its number."""
    return line.name.rpartition("/")[0] or line.name
