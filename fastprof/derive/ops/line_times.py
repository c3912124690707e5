"""Time on lines of a device, such as the streams of a GPU or the threads of a host: own time of events that nest, and
time in which any line was busy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fastprof._native.op_kernels import self_times
from fastprof.decode.nesting import line_rows
from fastprof.derive.ops.tables import (
    Ops,
    OpTable,
    exact_sum,
    span_ps,
)
from fastprof.schema.array_types import Int32s, Int64s
from fastprof.tables.host_events import HostEvents, Line

_LATEST = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True)
class LineTimes:
    """Events of several lines of one device, one line after the other."""

    rows: Int32s
    start_ps: Int64s
    duration_ps: Int64s
    """Never negative."""
    self_ps: Int64s
    """Duration less the union of what is nested in the event."""
    busy_ps: int
    """Time in which an event of any line ran."""
    span_ps: int
    """From the first begin to the last end."""

    def ops(self, table: OpTable, span: int) -> Ops:
        """The ops of the device, which was observed for ``span`` ps."""
        op_ps = exact_sum(table.self_ps)
        return Ops(table, total_ps=max(self.busy_ps, span), op_ps=op_ps, overlapped_ps=op_ps - self.busy_ps)


def line_times(events: HostEvents, lines: Sequence[Line], wanted: Int32s | None = None) -> LineTimes:
    """The times of these lines' events; ``wanted``: of these rows only, which ascend. CaptureError: the times of a
    device span more than 64 bits can count."""
    lines = sorted(lines, key=lambda line: line.first)
    if wanted is None:
        parts = [np.arange(line.first, line.last, dtype=np.int32) for line in lines]
    else:
        parts = [wanted[slice(*np.searchsorted(wanted, [one.first, one.last]).tolist())] for one in lines]
    rows = np.concatenate([np.empty(0, np.int32), *parts])
    start, duration = events.start_ps[rows], np.maximum(events.duration_ps[rows], 0)
    counts = np.array([len(part) for part in parts], np.int64)
    own = np.empty_like(start)
    self_times(start, duration, line_rows(counts, np.cumsum(counts) - counts), own, None)
    end = np.where(start > _LATEST - duration, _LATEST, start + duration)
    span = span_ps(events.host, lines[0].plane.name, int(start.min()), _last_end(start, duration)) if len(rows) else 0
    return LineTimes(rows, start, duration, own, _busy_ps(start, end), span)


def _last_end(start: Int64s, duration: Int64s) -> int:
    """Exactly: of times so late that an end overflows, in Python's integers."""
    if int(start.max()) + int(duration.max()) <= _LATEST:
        return int((start + duration).max())
    ends: list[int] = [a + b for a, b in zip(start.tolist(), duration.tolist(), strict=True)]
    return max(ends)


def _busy_ps(start: Int64s, end: Int64s) -> int:
    """The union of the events."""
    order = np.argsort(start, kind="stable")
    start, end = start[order], np.maximum.accumulate(end[order])
    before = np.append(start[:1], end[:-1])
    gained: Int64s = np.maximum(end - np.maximum(start, before), 0)
    return int(gained.sum())
