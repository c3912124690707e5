"""What the streams of a host's GPUs ran, the kind of each event, and the call that launched it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from fastprof.derive.ops.kernel_names import copy_category
from fastprof.derive.ops.launches import known_calls, launchers, launches
from fastprof.derive.steps.device_steps import is_derived
from fastprof.derive.steps.gpu_step_events import type_of_name
from fastprof.derive.steps.step_time import EventType
from fastprof.schema.array_rows import ArrayRows
from fastprof.schema.array_types import Bools, Int32s, Int64s, UInt8s
from fastprof.schema.time_sums import ends_of
from fastprof.schema.value_classes import dataclass
from fastprof.tables.host_events import COUNTER_LINE, HostEvents, Line
from fastprof.tables.once import once

KINDS: Final = ("compute", "communication", "copy")
"""Kernels that compute, collectives, and copies and fills."""
COMPUTE, COMMUNICATION, COPY = range(len(KINDS))


@dataclass(frozen=True, slots=True)
class StreamEvents(ArrayRows):
    """By event, those of a stream together, in order of start. ``row``: of the host's events; ``stream``: place in
    ``Streams.lines``; ``call``: the row of the call of the host that launched it, -1: not recorded; ``call_ps``,
    ``call_end_ps``: when that call began and ended, 0 without one; ``queued``: whether the event waited in a queue from
    that call on: it begins no earlier, and no other call has its correlation id."""

    row: Int64s
    stream: Int32s
    start_ps: Int64s
    end_ps: Int64s
    kind: UInt8s
    call: Int32s
    call_ps: Int64s
    call_end_ps: Int64s
    queued: Bools


@dataclass(frozen=True, slots=True, eq=False)
class Streams:
    """Of a host: the lines of its streams that ran anything, and what they ran."""

    lines: tuple[Line, ...]
    events: StreamEvents

    def of_planes(self) -> Iterator[tuple[int, StreamEvents]]:
        """What each GPU ran, by the number of its plane."""
        plane = np.array([line.plane.number for line in self.lines], np.int64)[self.events.stream]
        for number in np.unique(plane).tolist():
            yield number, self.events[slice(*np.searchsorted(plane, [number, number + 1]).tolist())]


@once
def streams_of(events: HostEvents, with_ops: bool = False) -> Streams:
    """The streams of all GPUs of a host. Negative durations count as none. ``with_ops``: the op that launched an event
    is its call if no call is recorded."""
    planes = events.planes_of("GPU")
    lines = tuple(line for plane in planes for line in plane.lines if _is_stream(line) and line.last > line.first)
    rows = np.concatenate([*(np.arange(line.first, line.last) for line in lines), np.zeros(0, np.int64)])
    rows = rows.astype(np.int64)
    stream = np.repeat(np.arange(len(lines), dtype=np.int32), [line.last - line.first for line in lines])
    call = launchers(events, rows) if with_ops else launches(events, rows).row
    launched = call >= 0
    begun, done = np.zeros(len(rows), np.int64), np.zeros(len(rows), np.int64)
    begun[launched] = events.start_ps[call[launched]]
    done[launched] = ends_of(begun[launched], np.maximum(events.duration_ps[call[launched]], 0))
    start = events.start_ps[rows]
    end = ends_of(start, np.maximum(events.duration_ps[rows], 0))
    kind = _kind_of_names(events)[events.meta[rows]]
    queued = launched & np.isin(rows, known_calls(events)[0]) & (start >= begun)
    return Streams(lines, StreamEvents(rows, stream, start, end, kind, call, begun, done, queued))


def _is_stream(line: Line) -> bool:
    return not is_derived(line) and line.name != COUNTER_LINE


def _kind_of_names(events: HostEvents) -> UInt8s:
    return np.array([kind_of_name(name) for name in events.names], np.uint8)


def kind_of_name(name: str) -> int:
    """The kind of a kernel or copy by its name."""
    if type_of_name(name) == EventType.DEVICE_COLLECTIVES:
        return COMMUNICATION
    return COPY if copy_category(name) else COMPUTE
