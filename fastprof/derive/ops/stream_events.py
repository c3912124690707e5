"""GPU streams: what they ran and which call launched it, queue lengths, launch delays, and copies with their bandwidth.

A queue grows where the host calls a launch, and shrinks where the kernel begins::

    host       | launch a | launch b | launch c |
    stream 7          |-- a --|-- b --|-- c --|
    queue      1      0  1    0  ...
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from fastprof.derive.ops.gpu_kernels import classify_copy, parse_copy_bytes
from fastprof.derive.ops.launches import find_known_calls, find_launchers, find_launches
from fastprof.derive.steps.device_steps import is_derived
from fastprof.derive.steps.step_database import EventType
from fastprof.derive.steps.step_events import classify_gpu_name
from fastprof.schema.columns import (
    ArrayRows,
    Bools,
    Float64s,
    Int32s,
    Int64s,
    UInt8s,
    add_durations,
    find_rows_within,
    sort_rows,
)
from fastprof.schema.value_classes import dataclass
from fastprof.tables.host_events import COUNTER_LINE, HostEvents, Line, compute_once, join_stat

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
class GpuStreams:
    """Of a host: the lines of its streams that ran anything, and what they ran."""

    lines: tuple[Line, ...]
    events: StreamEvents

    def of_planes(self) -> Iterator[tuple[int, StreamEvents]]:
        """What each GPU ran, by the number of its plane."""
        plane = np.array([line.plane.number for line in self.lines], np.int64)[self.events.stream]
        for number in np.unique(plane).tolist():
            yield number, self.events[find_rows_within(plane, number, number + 1)]


@compute_once
def read_streams(events: HostEvents, with_ops: bool = False) -> GpuStreams:
    """The streams of all GPUs of a host. Negative durations count as none. ``with_ops``: the op that launched an event
    is its call if no call is recorded."""
    planes = events.planes_of("GPU")
    lines = tuple(line for plane in planes for line in plane.lines if _is_event_stream(line) and line.last > line.first)
    rows = np.concatenate([*(np.arange(line.first, line.last) for line in lines), np.zeros(0, np.int64)])
    rows = rows.astype(np.int64)
    stream = np.repeat(np.arange(len(lines), dtype=np.int32), [line.last - line.first for line in lines])
    call = find_launchers(events, rows) if with_ops else find_launches(events, rows).row
    launched = call >= 0
    begun, done = np.zeros(len(rows), np.int64), np.zeros(len(rows), np.int64)
    begun[launched] = events.start_ps[call[launched]]
    done[launched] = add_durations(begun[launched], np.maximum(events.duration_ps[call[launched]], 0))
    start = events.start_ps[rows]
    end = add_durations(start, np.maximum(events.duration_ps[rows], 0))
    kind = _classify_names(events)[events.meta[rows]]
    queued = launched & np.isin(rows, find_known_calls(events)[0]) & (start >= begun)
    return GpuStreams(lines, StreamEvents(rows, stream, start, end, kind, call, begun, done, queued))


def _is_event_stream(line: Line) -> bool:
    return not is_derived(line) and line.name != COUNTER_LINE


def _classify_names(events: HostEvents) -> UInt8s:
    return np.array([classify_name(name) for name in events.names], np.uint8)


def classify_name(name: str) -> int:
    """The kind of a kernel or copy by its name."""
    if classify_gpu_name(name) == EventType.DEVICE_COLLECTIVES:
        return COMMUNICATION
    return COPY if classify_copy(name) else COMPUTE


@dataclass(frozen=True, slots=True)
class StreamSeries:
    """Values that change at points of time, the points of one ``of`` together, in order of time."""

    of: Int64s
    time_ps: Int64s
    value: Float64s

    def part(self, number: int) -> slice:
        return find_rows_within(self.of, number, number + 1)

    def lasted_ps(self, part: slice) -> Int64s:
        """How long each value of a part lasts; the last does not count."""
        return np.append(np.diff(self.time_ps[part]), 0).astype(np.int64)


def count_queued(events: StreamEvents) -> StreamSeries:
    """Return the queue length of each stream at each launch and kernel start. Kernels not known to have queued do not
    count. A launch comes before a start of the same time."""
    stream = events.stream[events.queued].astype(np.int64)
    time = np.concatenate([events.call_ps[events.queued], events.start_ps[events.queued]])
    change = np.repeat([1, -1], [len(stream), len(stream)])
    of = np.concatenate([stream, stream])
    order = sort_rows(of, time, -change)
    of, time, total = of[order], time[order], np.cumsum(change[order])
    return StreamSeries(of, time, total.astype(np.float64))  # each stream ends at 0, where the next begins


def sum_bandwidths(of: Int64s, start: Int64s, end: Int64s, gbps: Float64s) -> StreamSeries:
    """The sum of the bandwidths of copies that run at once, by kind ``of`` copy. A copy without duration lasts a
    microsecond. One that begins as another ends does not run at once with it."""
    end = np.where(end == start, start + 1_000_000, end)
    time, change = np.concatenate([start, end]), np.concatenate([gbps, -gbps])
    running = np.repeat([1, -1], [len(start), len(end)])
    both = np.concatenate([of, of])
    order = sort_rows(both, time, running)
    both, total = both[order], np.cumsum(change[order])
    total = np.where(np.cumsum(running[order]) > 0, total, 0.0)  # each kind ends at 0, where the next begins
    return StreamSeries(both, time[order], np.maximum(total, 0.0))


def measure_launch_delays(events: StreamEvents) -> Int64s:
    """From the end of the call to the begin of what it launched, at least 0; of events whose call is known."""
    known = events.call >= 0
    delay: Int64s = np.maximum(events.start_ps[known] - events.call_end_ps[known], 0)
    return delay


STATS: Final = ("memcpy_details", "bytes", "memory bandwidth (GB/s)")
_PREFIX: Final = 11
"""Of the name of a copy, what names its kind: ``Memcpy HtoD``."""
_MOST_BYTES: Final = 1 << 50
"""A larger copy is damage: sums of others fit 64 bits."""


@dataclass(frozen=True, slots=True, eq=False)
class GpuCopies:
    """By copy. ``of``: its place in ``kinds``; ``size``: bytes, -1: not recorded; ``gbps``: gigabytes a second, NaN:
    unknown."""

    kinds: list[str]
    events: StreamEvents
    of: Int64s
    size: Int64s
    gbps: Float64s

    def bandwidths(self) -> StreamSeries:
        """By place in ``kinds``, the sum of bandwidths of copies that run at once; unknown ones count as 0."""
        known = np.nan_to_num(self.gbps, nan=0.0, posinf=0.0)
        return sum_bandwidths(self.of, self.events.start_ps, self.events.end_ps, known)


def select_copies(events: HostEvents, mine: StreamEvents) -> GpuCopies:
    """Those among the events of a GPU. Reads STATS."""
    copies = mine[mine.kind == COPY]
    names = [_name_copy_kind(events.names[meta]) for meta in events.meta[copies.row].tolist()]
    kinds = sorted(set(names))
    of = np.array([kinds.index(name) for name in names], np.int64)
    size = read_copy_bytes(events, copies.row)
    return GpuCopies(
        kinds, copies, of, size, read_copy_bandwidth(events, copies.row, size, copies.end_ps - copies.start_ps)
    )


def _name_copy_kind(name: str) -> str:
    return name[:_PREFIX].rstrip() if name.startswith("Memcpy") else "Memset" if name.startswith("Memset") else name


def read_copy_bytes(events: HostEvents, rows: Int64s) -> Int64s:
    """Bytes of copies, from their details; -1: not recorded."""
    has, size = join_stat(rows, *events.ints("bytes"))
    sizes = np.where(has & (size >= 0), size, -1)
    at, texts = events.texts("memcpy_details")
    detailed, number = join_stat(rows, at, texts)
    for place in np.flatnonzero(detailed & ~has).tolist():
        sizes[place] = min(parse_copy_bytes(events.text(int(number[place]))) or -1, _MOST_BYTES + 1)
    sizes[sizes > _MOST_BYTES] = -1
    return sizes


def read_copy_bandwidth(events: HostEvents, rows: Int64s, size: Int64s, duration: Int64s) -> Float64s:
    """The recorded bandwidth of copies in gigabytes a second, else bytes / duration; NaN: neither is known."""
    stat = events.stat("memory bandwidth (GB/s)").at(rows)
    computed = np.where((size >= 0) & (duration > 0), size * 1000 / np.maximum(duration, 1), np.nan)
    return np.where(np.isnan(stat.numbers), computed, stat.numbers)
