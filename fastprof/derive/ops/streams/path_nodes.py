"""What may lie on the critical path of a window: ops and calls of the host that begin in it, and what they launched."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from fastprof.derive.devices.kineto_categories import ANNOTATIONS, CALLS, is_kineto, is_of, is_op
from fastprof.derive.devices.op_names import is_frame
from fastprof.derive.ops.launches import launches
from fastprof.derive.ops.streams.stream_events import StreamEvents, Streams, streams_of
from fastprof.schema.array_types import Bools, Int32s, Int64s
from fastprof.schema.time_sums import ends_of
from fastprof.schema.value_classes import dataclass
from fastprof.tables.host_events import HostEvents

WAITS: Final = frozenset({"_sync"})
"""The category of what PyTorch's profiler records of waits: for a stream, a device or an event."""
MEDIAN: Final = -1


@dataclass(frozen=True, slots=True)
class Window:
    """``number``: which of ``count`` annotations of equal text it is, in order of time."""

    name: str
    number: int
    count: int
    begin_ps: int
    end_ps: int


@dataclass(frozen=True, slots=True, eq=False)
class PathNodes:
    """``ops``: rows of the host, ``line`` of each. ``ran``: what calls launched, of a stream together, in order of
    start. ``waits``: rows of recorded waits, and of their calls."""

    streams: Streams
    ops: Int64s
    line: Int64s
    ran: StreamEvents
    waits: Int64s
    wait_call: Int32s


def window_of(events: HostEvents, text: str, marks: Int64s, number: int) -> Window | None:
    """The annotation of the host whose name contains the text; without a text one of the ``marks`` of steps, and
    without marks all that is recorded. ``number``: from 0 in order of time, or MEDIAN, the one of median duration.
    None: no annotation is so."""
    rows = _named(events, text) if text else marks
    if not text and not len(rows):
        return _everything(events)
    if not len(rows) or number >= len(rows):
        return None
    rows = rows[np.argsort(events.start_ps[rows], kind="stable")]
    if number == MEDIAN:
        number = int(np.argsort(events.duration_ps[rows], kind="stable")[(len(rows) - 1) // 2])
    row = rows[number]
    end = int(ends_of(events.start_ps[[row]], np.maximum(events.duration_ps[[row]], 0))[0])
    return Window(events.names[events.meta[row]], number, len(rows), int(events.start_ps[row]), end)


def _named(events: HostEvents, text: str) -> Int64s:
    """Events of the host whose names contain the text: annotations where the profiler says which these are."""
    of_name = np.array([text in name for name in events.names], bool)
    if is_kineto(events):
        old = is_of(events, frozenset({"operator"}))  # files of 2021 write annotations as ops
        of_name &= is_of(events, ANNOTATIONS) | old & ~is_op(events)
    return np.flatnonzero(of_name[events.meta] & _on_host(events))


def _everything(events: HostEvents) -> Window | None:
    if not len(events):
        return None
    end = ends_of(events.start_ps, np.maximum(events.duration_ps, 0))
    return Window("", 0, 1, int(events.start_ps.min()), int(end.max()))


def _on_host(events: HostEvents) -> Bools:
    return _of_planes(events, "/host:")


def _of_planes(events: HostEvents, begin: str) -> Bools:
    found = np.zeros(len(events), bool)
    for plane in events.planes:
        if plane.name.startswith(begin):
            found[plane.first : plane.last] = True
    return found


def path_nodes(events: HostEvents, window: Window, marks: Int64s) -> PathNodes:
    """What counts in the window; of the host only what lasts."""
    streams = streams_of(events, True)
    every = streams.events
    begun = (events.start_ps >= window.begin_ps) & (events.start_ps <= window.end_ps)
    inside = (every.call >= 0) & begun[np.maximum(every.call, 0)]
    wanted = begun & (events.duration_ps > 0) & _is_op(events, every)
    wanted[marks] = False
    ops = np.flatnonzero(wanted)
    bounds = sorted((line.first, line.number) for line in events.lines if line.last > line.first)
    line = np.array([number for _, number in bounds], np.int64)[_place([first for first, _ in bounds], ops)]
    waits = np.flatnonzero(is_of(events, WAITS)[events.meta] & _of_planes(events, "/device:"))
    call = launches(events, waits).row
    return PathNodes(streams, ops, line, every[inside], waits, call)


def _place(first: Sequence[int], rows: Int64s) -> Int64s:
    place: Int64s = np.searchsorted(np.array(first, np.int64), rows, side="right") - 1
    return place


def _is_op(events: HostEvents, every: StreamEvents) -> Bools:
    """Ops and calls. Where the profiler does not say which events these are: what threads that launch recorded, calls
    of Python excepted."""
    if is_kineto(events):
        known: Bools = (is_op(events) | is_of(events, CALLS))[events.meta] & _on_host(events)
        return known
    launching = np.zeros(len(events), bool)
    calls = every.call[every.call >= 0]
    for line in events.lines:
        if line.last > line.first and ((calls >= line.first) & (calls < line.last)).any():
            launching[line.first : line.last] = True
    plain = np.array([not is_frame(name) for name in events.names], bool)
    found: Bools = launching & plain[events.meta]
    return found
