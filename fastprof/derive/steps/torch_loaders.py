"""What the program's own functions take of the time in which it waits for PyTorch's DataLoader.

enumerate(DataLoader)   |------------------------------------|
fetch.py                  |--------------------------------|
train.py: __getitem__       |---------| |--------| |------|       the outermost that are not PyTorch's
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np

from fastprof.derive.devices.kineto_categories import LOADERS, is_kineto
from fastprof.derive.steps.python_frames import frame_of, has_line
from fastprof.derive.steps.stretches import union
from fastprof.schema.array_types import Bools, Int64s
from fastprof.schema.time_sums import ends_of
from fastprof.schema.value_classes import dataclass
from fastprof.tables.host_events import HOST_THREADS, HostEvents, Line
from fastprof.tables.once import once

_LIBRARY: Final = "torch/"
"""Part of the names of PyTorch's own files."""
_ITERATOR_OF_WORKERS: Final = "_MultiProcessingDataLoaderIter"
"""The iterator of a loader that has workers; others are of _SingleProcessDataLoaderIter."""


@dataclass(frozen=True, slots=True)
class LoaderCalls:
    """``waited_ps``: time in which threads wait for a loader; ``count``: how often they do; ``rows``: the outermost
    functions in these waits that are not PyTorch's."""

    waited_ps: int
    count: int
    rows: Int64s


@once
def loader_calls(events: HostEvents) -> LoaderCalls:
    plane = events.plane_named(HOST_THREADS)
    waits = np.array([name.startswith(LOADERS) for name in events.names], np.bool_)
    waited, count, rows = 0, 0, [np.zeros(0, np.int64)]
    if plane is not None and is_kineto(events) and waits.any():
        own = np.array([has_line(name) and _LIBRARY not in frame_of(name).file for name in events.names], np.bool_)
        for line in plane.lines:
            time, calls, functions = _of_line(events, line, waits, own)
            waited, count = waited + time, count + calls
            rows.append(functions)
    return LoaderCalls(waited, count, np.concatenate(rows))


def _of_line(events: HostEvents, line: Line, waits: Bools, own: Bools) -> tuple[int, int, Int64s]:
    meta = events.meta[line.first : line.last]
    calls, functions = (line.first + np.flatnonzero(of[meta]) for of in (waits, own))
    begin, end = union(events.start_ps[calls], np.maximum(events.duration_ps[calls], 0))
    if not len(begin):
        return 0, 0, functions[:0]
    place = np.searchsorted(begin, events.start_ps[functions], side="right") - 1
    until = ends_of(events.start_ps[functions], np.maximum(events.duration_ps[functions], 0))
    inside = (place >= 0) & (until <= end[place])
    functions, until = functions[inside], until[inside]
    outermost = np.append(True, events.start_ps[functions[1:]] >= np.maximum.accumulate(until)[:-1])
    return int((end - begin).sum()), len(calls), functions[outermost[: len(functions)]]


@dataclass(frozen=True, slots=True)
class LoaderTime:
    """How long and how often a program waits for a DataLoader, whether workers load for it, and the function of its
    own that takes most of that time; None: none is recorded."""

    waited_ps: int = 0
    count: int = 0
    function: str | None = None
    function_ps: int = 0
    has_workers: bool = False


def loader_time(events: HostEvents) -> LoaderTime:
    calls = loader_calls(events)
    has_workers = calls.count > 0 and any(_ITERATOR_OF_WORKERS in name for name in events.recorded_names)
    if not len(calls.rows):
        return LoaderTime(calls.waited_ps, calls.count, None, 0, has_workers)
    time = np.zeros(len(events.names), np.int64)
    np.add.at(time, events.meta[calls.rows], events.duration_ps[calls.rows])
    most = int(time.argmax())
    return LoaderTime(calls.waited_ps, calls.count, events.names[most], int(time[most]), has_workers)


def longest_wait(hosts: Iterable[LoaderTime]) -> LoaderTime:
    """Return the loader of the host that waits longest."""
    return max(hosts, key=lambda one: one.waited_ps, default=LoaderTime())


def function_within(events: HostEvents, begin_ps: Int64s, end_ps: Int64s) -> Int64s:
    """Of spans in order that do not overlap, the longest call of the program's own function that takes most of each;
    -1: none takes half of it."""
    rows, found = loader_calls(events).rows, np.full(len(begin_ps), -1, np.int64)
    if not len(rows) or not len(begin_ps):
        return found
    span = np.searchsorted(begin_ps, events.start_ps[rows], side="right") - 1
    inside = (span >= 0) & (ends_of(events.start_ps[rows], events.duration_ps[rows]) <= end_ps[span])
    rows, span = rows[inside], span[inside]
    key, of = np.unique(span * len(events.names) + events.meta[rows], return_inverse=True)
    time, longest = np.zeros((2, len(key)), np.int64)
    np.add.at(time, of, events.duration_ps[rows])
    order = np.argsort(events.duration_ps[rows], kind="stable")
    longest[of[order]] = rows[order]  # the last that is written stays
    most = np.argsort(time, kind="stable")
    most = most[2 * time[most] >= (end_ps - begin_ps)[key[most] // len(events.names)]]
    found[key[most] // len(events.names)] = longest[most]
    return found
