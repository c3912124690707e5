"""What the names of a host's events add to findings: functions that were compiled, and where functions are defined."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Final

import numpy as np

from fastprof.derive.devices.op_names import is_frame
from fastprof.derive.steps.event_origin import event_origins
from fastprof.derive.steps.python_frames import frame_of, has_line, is_built_in
from fastprof.schema.array_types import Int64s
from fastprof.schema.value_classes import dataclass
from fastprof.tables.host_events import HostEvents
from fastprof.wording.patterns import pattern_of

_COMPILES: Final = pattern_of(r"backend_compile(?:_and_load)?$|tf\.function-graph_building$|XlaCompilationCache::")
"""Events that are one compilation each; those of passes and stages lie within."""
_CALLED: Final = pattern_of(r"PjitFunction\((.*)\)$", re.DOTALL)


@dataclass(frozen=True, slots=True)
class NamesOfHost:
    """``compiled``: how often each function was compiled, "" if none is recorded; ``defined``: by function of Python
    that the tracer saw, its file and line, "" if several are called alike; ``callers``: of compiled functions whose
    calls take long, the function with a line that calls it for longest."""

    compiled: Mapping[str, int] = field(default_factory=dict)
    defined: Mapping[str, str] = field(default_factory=dict)
    callers: Mapping[str, str] = field(default_factory=dict)

    def called(self, event: str) -> str:
        """Return the event, with the line that calls it if it is a compiled function of Python."""
        if event not in self.callers:
            return event
        caller = frame_of(self.callers[event])
        return f"{frame_of(event).function} in {caller.function} ({caller.file}:{caller.line})"

    @property
    def has_python(self) -> bool:
        return bool(self.defined)


def names_of(raw: HostEvents, events: HostEvents) -> NamesOfHost:
    """``events``: of the same host, with what derived analyses know of them."""
    return NamesOfHost(_compiled(raw), _defined(events.recorded_names), _callers(events))


def joined(hosts: Iterable[NamesOfHost]) -> NamesOfHost:
    """Of all hosts: compilations are added; definitions that differ are left out."""
    compiled: Counter[str] = Counter()
    defined: dict[str, str] = {}
    callers: dict[str, str] = {}
    for one in hosts:
        compiled.update(one.compiled)
        for function, place in one.defined.items():
            defined[function] = place if defined.get(function, place) == place else ""
        callers.update({name: caller for name, caller in one.callers.items() if name not in callers})
    return NamesOfHost(compiled, defined, callers)


def _defined(names: Iterable[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for name in dict.fromkeys(names):
        if is_frame(name):
            frame = frame_of(name)
            place = "" if frame.line is None else f"{frame.file}:{frame.line}"
            found[frame.function] = place if found.get(frame.function, place) == place else ""
    return found


_LONG_PS: Final = 100_000_000
_HOPS: Final = 8


def _callers(raw: HostEvents) -> dict[str, str]:
    built_in = np.array([is_built_in(name) for name in raw.names], np.bool_)
    if not built_in.any():
        return {}
    lined = np.array([has_line(name) for name in raw.names], np.bool_)
    rows = np.flatnonzero(built_in[raw.meta] & (raw.duration_ps >= _LONG_PS))
    parent = event_origins(raw).parent
    caller = parent[rows].astype(np.int64)
    for _ in range(_HOPS):
        up = (caller >= 0) & ~lined[raw.meta[caller]]
        caller[up] = parent[caller[up]]
    known = (caller >= 0) & lined[raw.meta[caller]]
    rows, caller = rows[known], caller[known]
    time: dict[tuple[int, int], int] = {}
    for pair, time_ps in zip(
        zip(raw.meta[rows].tolist(), raw.meta[caller].tolist(), strict=True),
        raw.duration_ps[rows].tolist(),
        strict=True,
    ):
        time[pair] = time.get(pair, 0) + time_ps
    found: dict[str, str] = {}
    for (called, by), _time_ps in sorted(time.items(), key=lambda one: one[1]):
        found[raw.names[called]] = raw.names[by]
    return found


def _compiled(raw: HostEvents) -> Counter[str]:
    """How often each function was compiled: the outermost call of a function that encloses the compilation."""
    names = raw.names
    compiles = np.array([_COMPILES.match(name) is not None for name in names], bool)
    if not compiles.any():
        return Counter()
    calls = np.array([_CALLED.match(name) is not None for name in names], bool)
    found: Counter[str] = Counter()
    for line in raw.lines:
        meta = raw.meta[line.first : line.last]
        at = np.flatnonzero(compiles[meta])
        if len(at):
            begin = raw.start_ps[line.first : line.last]
            end = begin + raw.duration_ps[line.first : line.last]
            call = _around(at, np.flatnonzero(calls[meta]), begin, end)
            functions, counts = np.unique(np.where(call < 0, -1, meta[call]), return_counts=True)
            for name, count in zip(functions.tolist(), counts.tolist(), strict=True):
                match = _CALLED.match(names[name])
                found[match[1] if match else ""] += count
    return found


def _around(at: Int64s, calls: Int64s, begin: Int64s, end: Int64s) -> Int64s:
    """For each event of a line the outermost of these calls that encloses it, -1: none; ordered by start."""
    if not len(calls):
        return np.full(len(at), -1, np.int64)
    reached = np.maximum.accumulate(end[calls])
    outermost = calls[np.append(True, begin[calls[1:]] >= reached[:-1])]
    before = np.searchsorted(outermost, at) - 1
    call = outermost[np.maximum(before, 0)]
    return np.where((before >= 0) & (end[call] >= end[at]), call, -1)
