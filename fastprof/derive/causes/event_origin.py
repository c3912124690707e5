"""Who wrote each event of a host's threads: the Python tracer, an op, an input pipeline, a framework or a user.

Names and stats decide where they can. All other events are a user's annotation where Python runs: on a thread that
runs Python, or in an op that calls it, and not inside of a framework's event that never does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

import numpy as np

from fastprof._native.grouping import parents
from fastprof.derive.causes.traceme_names import NameKind, is_thread_of_python, kind_of_name
from fastprof.derive.steps.device_steps import is_derived
from fastprof.derive.steps.thread_pools import regions
from fastprof.schema.array_types import Bools, Int32s, Int64s, UInt8s
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
_STEP: Final = 9
"""Beside NameKind: the marker of a step, or another event that a stat gives to a user."""
_ORIGINS: Final = np.array([
    Origin.NONE, Origin.PYTHON, Origin.OP, Origin.INPUT, Origin.FRAMEWORK, Origin.FRAMEWORK, Origin.FRAMEWORK,
    Origin.OP, Origin.USER, Origin.USER,
], np.uint8)  # fmt: skip
"""By NameKind, and of _STEP; events of unknown names are looked at one by one."""


@dataclass(frozen=True, slots=True)
class EventOrigins:
    """``origin``: by row of events; ``parent``: the row of the innermost event of the thread that encloses each, -1:
    none. Asynchronous events neither enclose nor are enclosed. ``lines``: the threads of the host;
    ``python_lines``: those that run Python."""

    origin: UInt8s
    parent: Int32s
    lines: tuple[Line, ...]
    python_lines: tuple[Line, ...]

    def of(self, origin: Origin) -> Bools:
        """Which events someone wrote, by row."""
        return np.equal(self.origin, origin)


@once
def event_origins(events: HostEvents) -> EventOrigins:
    """The writer of each event of the host. Reads STATS."""
    lines = tuple(line for line in events.lines if is_thread(line))
    kind = np.zeros(len(events), np.uint8)
    by_name = np.array([kind_of_name(name) for name in events.names], np.uint8)
    for line in lines:
        kind[line.first : line.last] = by_name[events.meta[line.first : line.last]]
    on_threads = _on(events, lines)
    _ask_stats(events, on_threads, kind)
    python_lines = _python_lines(lines, kind)
    parent = _enclosing(events, lines)
    origin = _ORIGINS[kind]
    rows = np.flatnonzero(on_threads & (kind == NameKind.UNKNOWN))
    origin[rows] = np.where(_is_users(rows, kind, parent, _on(events, python_lines)), Origin.USER, Origin.FRAMEWORK)
    for found in (origin, parent):
        found.flags.writeable = False
    return EventOrigins(origin, parent, lines, python_lines)


def is_thread(line: Line) -> bool:
    """Whether a line is a thread of the host, not of a device and not derived from others."""
    name = line.plane.name
    is_host = name == HOST_THREADS or name.startswith(f"{HOST_THREADS} [") or name in _PLANES
    return is_host and not is_derived(line)


def _on(events: HostEvents, lines: Sequence[Line]) -> Bools:
    on = np.zeros(len(events), np.bool_)
    for line in lines:
        on[line.first : line.last] = True
    return on


def _ask_stats(events: HostEvents, on_threads: Bools, kind: UInt8s) -> None:
    """What stats say of events whose names say nothing, and of ops among those that carry one."""
    for name, known in (
        ("tf_op", NameKind.OP), ("hlo_op", NameKind.OP),
        ("_ipl_stage_id", NameKind.INPUT), ("_ipl_stage_cat", NameKind.INPUT),
        ("correlation_id", NameKind.NATIVE), ("_p", NameKind.NATIVE), ("_c", NameKind.NATIVE),
        ("tracing_count", NameKind.DISPATCH), ("tf_function_call", NameKind.DISPATCH),
        ("step_num", _STEP),
    ):  # fmt: skip
        rows = events.stat(name).rows
        rows = rows[on_threads[rows] & (kind[rows] == NameKind.UNKNOWN)]
        kind[rows] = known


def _python_lines(lines: Sequence[Line], kind: UInt8s) -> tuple[Line, ...]:
    """The threads that run Python: those that have its frames or calls of a framework from it, or mark steps, those
    that Python names, and others of the same name, as threads of one program are called alike."""
    shows = np.isin(kind, (NameKind.PYTHON, NameKind.DISPATCH, NameKind.ANNOTATION, _STEP))
    runs = [is_thread_of_python(line.name) or bool(shows[line.first : line.last].any()) for line in lines]
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


def _enclosing(events: HostEvents, lines: Sequence[Line]) -> Int32s:
    apart: UInt8s | None = None
    rows, values = events.ints("_a")
    if len(rows):
        apart = np.zeros(len(events), np.uint8)
        apart[rows[values != 0]] = 1
    parent = np.full(len(events), -1, np.int32)
    bounds = np.array([(line.first, line.last) for line in lines], np.int64).reshape(-1, 2)
    parents(events.start_ps, events.duration_ps, apart, regions(events), bounds, parent)
    return parent


def _is_users(rows: Int64s, kind: UInt8s, parent: Int32s, on_python: Bools) -> Bools:
    """Of events whose name says nothing: whether Python wrote them. The nearest event around that says whether Python
    runs in it decides; without one, the thread does."""
    nearest = kind[_above(rows, parent, kind, (NameKind.UNKNOWN,))]
    through = kind[_above(rows, parent, kind, (NameKind.UNKNOWN, NameKind.PASSING))]
    calls_python = np.isin(nearest, (NameKind.PYTHON, NameKind.DISPATCH, NameKind.ANNOTATION, _STEP))
    is_native = np.isin(nearest, (NameKind.OP, NameKind.INPUT, NameKind.NATIVE, NameKind.PASSING))
    users: Bools = (through == NameKind.CALLBACK) | calls_python | (on_python[rows] & ~is_native)
    return users


def _above(rows: Int64s, parent: Int32s, kind: UInt8s, passed: tuple[int, ...]) -> Int64s:
    """The nearest event above each of the rows whose kind is not ``passed``; if there is none, the outermost above it,
    or the row itself. The rows are ``passed``, too. Paths are halved at each turn: a nest of n takes log n."""
    passes = np.isin(kind, passed)
    members = np.flatnonzero(passes).astype(np.int32)
    place = np.empty(len(kind), np.int32)
    place[members] = np.arange(len(members), dtype=np.int32)
    above = np.where(parent[members] < 0, members, parent[members])
    onward = np.where(passes[above] & (above != members), place[above], np.int32(-1))
    while len(further := np.flatnonzero(onward >= 0)):
        through = onward[further]
        above[further], onward[further] = above[through], onward[through]
    return above[place[rows]]
