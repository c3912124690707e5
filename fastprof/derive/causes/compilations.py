"""Compilations: which functions were traced and compiled during the capture, when, and for how long.

A compilation is
    JAX          a call of a jitted function, until its last ``backend_compile`` ends
    TensorFlow   a call of a tf.function that traces, and what XLA compiles of the function, then or later
    PyTorch      a frame that torch.compile compiles

    call        |==============PjitFunction(f)===============|
    compile                    |==backend_compile==|
    compilation |==================================|
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Final

import numpy as np

from fastprof.derive.devices.op_names import JAX, PYTORCH, TENSORFLOW, is_kineto
from fastprof.derive.steps.event_origin import has_line, parse_frame
from fastprof.derive.steps.host_calls import compiles_code
from fastprof.hlo.program_changes import Change
from fastprof.schema.columns import Int32s, Int64s, add_durations, find_last_started
from fastprof.schema.value_classes import dataclass
from fastprof.tables.host_events import HOST_THREADS, HostEvents, Line, find_lines
from fastprof.wording.patterns import compile_late
from fastprof.wording.traced_arguments import TRACED_ARGUMENTS, parse_arguments

_CALL, _TRACINGS = "tf_function_call", "tracing_count"
_MODULE_STATS: Final = ("name", "module")
"""Stats in which XLA's compilers name the program."""
STATS: Final = (_CALL, _TRACINGS, TRACED_ARGUMENTS, *_MODULE_STATS)
"""Stats of events that compilations are read from."""

_CALL_OF_JAX: Final = compile_late(r"P(?:jit|map)Function\((.*)\)$", re.DOTALL)
_COMPILES: Final = compile_late(r"backend_compile(?:_and_load)?$|XlaCompilationCache::")
"""Names of events that are one compilation each; events of passes and stages lie within."""
_BACKEND: Final = compile_late(r"\w*Compiler::RunBackend$|XlaCompileBackend$")
"""Names of events in which XLA compiles the program that a stat names."""
_OF_TENSORFLOW: Final = compile_late(
    r"a?_*(?:inference|forward|backward)_(.+?)_\d+(?:__XlaMustCompile.*|_*[._\d]*)$", re.DOTALL
)
_NUMBER: Final = compile_late(r"(?:\.\d+)?(?:\(\d+\))?$")
_NO_LETTERS: Final = compile_late(r"\W+")
_COMPILE_ID: Final = compile_late(r".*\bcompile_id=(\d+/\d+)")
_TRACES: Final = "bytecode_tracing"
"""Prefix of the names of events in which torch.compile traces a frame."""
REACHED_LIMIT: Final = "not traced: likely recompile_limit was reached, and the frame runs eagerly from then on"
REGION: Final = compile_late(r"Torch-Compiled Region: (\d+/\d+)")
"""Names of events in which compiled code runs, with the compile id: number of the frame / of its compilation from 0."""


@dataclass(frozen=True, slots=True)
class Compilation:
    """A compilation of a function.

    ``function``: its name, or "" if not recorded. ``row``: row of the event. ``ready_ps``: when the program is ready to
    run. ``is_repeated``: the function was compiled before. ``program``, ``compared_program``: names of both programs,
    or None. ``changes``: differences; empty if unknown, for a ``reason``. ``scalars``: scalar arguments of the program.
    ``source``: file and line of the call, or None. ``arguments``: recorded arguments of a tf.function, by name.
    ``tracings``: number of traces of the tf.function since the program began, or 0. ``step``: key of the step on the
    host, or -1. ``is_early``: starts before the first step."""

    function: str
    framework: str
    row: int
    start_ps: int
    duration_ps: int
    ready_ps: int
    is_repeated: bool = False
    program: str | None = None
    compared_program: str | None = None
    changes: tuple[Change, ...] = ()
    reason: str | None = None
    scalars: tuple[str, ...] = ()
    source: str | None = None
    arguments: Mapping[str, str] = field(default_factory=dict)
    tracings: int = 0
    step: int = -1
    is_early: bool = False


def find_call_compilations(events: HostEvents) -> list[Compilation]:
    """Return the compilations of JAX and TensorFlow, not yet compared."""
    if is_kineto(events):
        return []
    calls = [*_find_jax_calls(events), *_find_tensorflow_calls(events)]
    return _add_backends(calls, [*_find_backends(events)])


# ---- JAX and TensorFlow


def _list_lines(events: HostEvents) -> Sequence[Line]:
    plane = events.plane_named(HOST_THREADS)
    return [] if plane is None else [line for line in plane.lines if line.last > line.first]


def _find_jax_calls(events: HostEvents) -> Iterator[Compilation]:
    """Yield the outermost jitted calls that compile, and compilations outside of such calls."""
    compiles = np.array([_COMPILES.match(name) is not None for name in events.names], bool)
    if not compiles.any():
        return
    calls = np.array([_CALL_OF_JAX.match(name) is not None for name in events.names], bool)
    for line in _list_lines(events):
        meta = events.meta[line.first : line.last]
        at = np.flatnonzero(compiles[meta])
        if not len(at):
            continue
        begin = events.start_ps[line.first : line.last]
        end = add_durations(begin, np.maximum(events.duration_ps[line.first : line.last], 0))
        outermost = _find_outermost(at, np.flatnonzero(calls[meta]), begin, end)
        last = {call if call >= 0 else -1 - row: row for call, row in zip(outermost.tolist(), at.tolist(), strict=True)}
        for call, row in last.items():
            match = _CALL_OF_JAX.match(events.names[meta[call]]) if call >= 0 else None
            first, until = call if call >= 0 else row, int(end[row])
            start = int(begin[first])
            yield Compilation(match[1] if match else "", JAX, line.first + first, start, until - start, until)


def _find_outermost(at: Int64s, calls: Int64s, begin: Int64s, end: Int64s) -> Int64s:
    """Return the outermost call that encloses each event of a line, or -1. Events are ordered by start."""
    if not len(calls):
        return np.full(len(at), -1, np.int64)
    reached = np.maximum.accumulate(end[calls])
    outermost = calls[np.append(True, begin[calls[1:]] >= reached[:-1])]
    before = find_last_started(outermost, at)
    call = outermost[np.maximum(before, 0)]
    return np.where((before >= 0) & (end[call] >= end[at]), call, -1)


def _find_tensorflow_calls(events: HostEvents) -> Iterator[Compilation]:
    """Yield calls of tf.functions that trace. A nested function may be traced twice at its first call."""
    rows, numbers = events.texts(_CALL)
    traced = [number for number in np.unique(numbers).tolist() if events.text(number).startswith("traced")]
    rows = rows[np.isin(numbers, traced)].astype(np.int64)
    tracings = events.dense(_TRACINGS)[rows] if len(rows) else rows
    start, duration = events.start_ps[rows], np.maximum(events.duration_ps[rows], 0)
    of_line = find_lines(events.lines, rows).tolist()
    end = add_durations(start, duration)
    arguments = _find_arguments(events, zip(of_line, end.tolist(), rows.tolist(), strict=True))
    until: dict[int, int] = {}
    for row, begin, took, count, line in zip(
        rows.tolist(), start.tolist(), duration.tolist(), tracings.tolist(), of_line, strict=True
    ):
        is_within = begin < until.get(line, begin)
        until[line] = max(until.get(line, begin), begin + took)
        is_repeated = count > 1 and not is_within
        yield Compilation(
            events.names[events.meta[row]], TENSORFLOW, row, begin, took, begin, is_repeated,
            arguments=arguments.get(row, {}), tracings=max(count, 0),
        )  # fmt: skip


def _find_arguments(events: HostEvents, calls: Iterable[tuple[int, int, int]]) -> dict[int, Mapping[str, str]]:
    """Return the recorded arguments of traced calls, by row: ``fastprof run`` writes them when a call has traced.
    ``calls``: line, end and row of each."""
    arguments: dict[int, Mapping[str, str]] = {}
    ended = sorted(calls)
    rows, numbers = events.texts(TRACED_ARGUMENTS)
    lines, times = find_lines(events.lines, rows), events.start_ps[rows]
    for number, line, time in zip(numbers.tolist(), lines.tolist(), times.tolist(), strict=True):
        last = bisect_right(ended, (line, time, len(events))) - 1
        if last >= 0 and ended[last][0] == line:
            arguments.setdefault(ended[last][2], parse_arguments(events.text(number)))
    return arguments


def _find_backends(events: HostEvents) -> Iterator[Compilation]:
    """Yield XLA's compilations of programs, with the function of each program."""
    named = np.array([_BACKEND.match(name) is not None for name in events.names], bool)
    for stat in _MODULE_STATS if named.any() else ():
        rows, numbers = events.texts(stat)
        ours = named[events.meta[rows]]
        for row, number in zip(rows[ours].tolist(), numbers[ours].tolist(), strict=True):
            start, duration = int(events.start_ps[row]), max(int(events.duration_ps[row]), 0)
            framework, function = parse_function(events.text(number))
            yield Compilation(function, framework, row, start, duration, start + duration)


def parse_function(title: str) -> tuple[str, str]:
    """Return the framework and function of a program, by its name without the program number:
    ``jit_f(7)``, ``a_inference_f_12__XlaMustCompile_true_….2(1)``."""
    if match := _OF_TENSORFLOW.match(title.partition("(")[0]):
        return TENSORFLOW, match[1]
    name = _NUMBER.sub("", title)
    for prefix in ("jit_", "pjit_", "pmap_"):
        if name.startswith(prefix):
            return JAX, name.removeprefix(prefix)
    return TENSORFLOW if name.startswith(("cluster_", "a_")) else JAX, name


def make_key(function: str) -> str:
    """Return the function's name as spelled in program names, without outer underscores."""
    return _NO_LETTERS.sub("_", function).strip("_")


_MOST_CALLS: Final = 32
"""Most calls of a function that may compile at the same time."""


def _add_backends(calls: list[Compilation], backends: Sequence[Compilation]) -> list[Compilation]:
    """Return the calls, and the XLA compilations outside of calls. A tf.function may be compiled after the call that
    traced it: then the call and the first compilation are joined."""
    of_function: dict[str, list[int]] = {}
    for place, call in enumerate(calls):
        of_function.setdefault(make_key(call.function), []).append(place)
    for places in of_function.values():
        places.sort(key=lambda place: calls[place].start_ps)
    joined: set[int] = set()
    apart = []
    for backend in sorted(backends, key=lambda each: each.start_ps):
        places = of_function.get(make_key(backend.function), [])
        last_before = bisect_right(places, backend.start_ps, key=lambda place: calls[place].start_ps)
        before = places[max(last_before - _MOST_CALLS, 0) : last_before]
        within = [place for place in before if backend.start_ps <= calls[place].start_ps + calls[place].duration_ps]
        last = max(within or before, key=lambda place: calls[place].start_ps, default=None)
        if last is None or (not within and (last in joined or calls[last].framework != TENSORFLOW)):
            apart.append(backend)
            continue
        call = calls[last]
        more = 0 if within else backend.duration_ps
        ready = max(call.ready_ps, backend.ready_ps)
        calls[last] = replace(call, duration_ps=call.duration_ps + more, ready_ps=ready)
        joined.add(last)
    return calls + apart


# ---- PyTorch


def find_frame_compilations(events: HostEvents) -> list[Compilation]:
    """Return the frames that torch.compile compiles, not yet compared. ``program``: the compile id, such as ``0/2``, or
    None if not recorded. ``function``: always ""."""
    compiles = compiles_code(events) & np.array([name != "dynamo" for name in events.names], bool)
    if not compiles.any():
        return []
    traces = np.array([name.startswith(_TRACES) for name in events.names], bool)
    frames = []
    for line in _list_lines(events):
        meta, begin = events.meta[line.first : line.last], events.start_ps[line.first : line.last]
        end = add_durations(begin, np.maximum(events.duration_ps[line.first : line.last], 0))
        rows = np.flatnonzero(compiles[meta])
        if not len(rows):
            continue
        rows = rows[np.append(True, begin[rows[1:]] >= np.maximum.accumulate(end[rows])[:-1])]
        ids = _find_compile_ids(events, meta)
        for row, after in zip(rows.tolist(), [*rows[1:].tolist(), len(meta)], strict=True):
            at = bisect_left(ids, (row, ""))
            number = ids[at][1] if at < len(ids) and ids[at][0] < after else None
            is_repeated = number is not None and not number.endswith("/0")
            start, until = int(begin[row]), int(end[row])
            is_traced = traces[meta[row + 1 : int(find_last_started(begin, end[row : row + 1] - 1)[0]) + 1]].any()
            reason = REACHED_LIMIT if is_repeated and traces.any() and not is_traced else None
            frames.append(
                Compilation(
                    "", PYTORCH, line.first + row, start, until - start, until, is_repeated, number, reason=reason
                )
            )
    return frames


def _find_compile_ids(events: HostEvents, meta: Int32s) -> list[tuple[int, str]]:
    """Return rows and compile ids of the events of a line that have one: compiling events and compiled regions."""
    named = {}
    for number, name in enumerate(events.names):
        if match := _COMPILE_ID.match(name) or REGION.match(name):
            named[number] = match[1]
    rows = np.flatnonzero(np.isin(meta, list(named)))
    return [(row, named[number]) for row, number in zip(rows.tolist(), meta[rows].tolist(), strict=True)]


def find_regions(events: HostEvents) -> dict[str, tuple[int, int]]:
    """Return the first compiled region of each compile id: its first row, and the row after its last."""
    regions: dict[str, tuple[int, int]] = {}
    named = {number: match[1] for number, name in enumerate(events.names) if (match := REGION.match(name))}
    for line in _list_lines(events) if named else ():
        begin = events.start_ps[line.first : line.last]
        known, first = np.unique(events.meta[line.first : line.last], return_index=True)
        for row in (line.first + first[np.isin(known, list(named))]).tolist():
            until = int(events.start_ps[row]) + max(int(events.duration_ps[row]), 0)
            last = line.first + int(find_last_started(begin, np.array([until - 1]))[0]) + 1
            regions.setdefault(named[int(events.meta[row])], (row, last))
    return regions


def find_frame_function(events: HostEvents, region: tuple[int, int]) -> str:
    """Return the function whose compiled code runs: the first Python function in it; "" if none is recorded."""
    names = (events.names[number] for number in events.meta[region[0] + 1 : region[1]].tolist())
    name = next((name for name in names if has_line(name)), None)
    return "" if name is None else parse_frame(name).function
