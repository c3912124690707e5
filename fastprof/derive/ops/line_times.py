"""Time on lines of a device, such as the streams of a GPU or the threads of a host: own time of events that nest, and
time in which any line was busy."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fastprof._native.op_kernels import extent, self_times
from fastprof.decode.nesting import line_rows
from fastprof.derive.ops.tables import (
    Ops,
    OpTable,
    exact_sum,
    span_ps,
)
from fastprof.schema.array_types import Int32s, Int64s
from fastprof.schema.value_classes import dataclass
from fastprof.tables.host_events import HostEvents, Line, Plane

_LATEST = np.iinfo(np.int64).max
Spans = tuple[Int64s, Int64s]
"""Starts and durations of events."""


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
    span = spanned_ps(events, lines[0].plane, [(start, duration)]) if lines else 0
    return LineTimes(rows, start, duration, own, covered(start, end), span)


def spans_of(events: HostEvents, lines: Sequence[Line]) -> list[Spans]:
    """The recorded times of each line's events."""
    return [(events.start_ps[line.first : line.last], events.duration_ps[line.first : line.last]) for line in lines]


def spanned_ps(events: HostEvents, plane: Plane, spans: Sequence[Spans]) -> int:
    """From the first begin to the last end of events of a plane; 0: there are none. CaptureError: 64 bits cannot count
    it."""
    extents = [_extent(start, duration) for start, duration in spans if len(start)]
    if not extents:
        return 0
    return span_ps(events.host, plane.name, min(begin for begin, _ in extents), max(end for _, end in extents))


def _extent(start: Int64s, duration: Int64s) -> tuple[int, int]:
    """First begin and last end, exactly: if an end overflows, in Python's integers."""
    in_64_bits = extent(start, duration)
    if in_64_bits is not None:
        return in_64_bits
    ends = [a + max(b, 0) for a, b in zip(start.tolist(), duration.tolist(), strict=True)]
    return int(start.min()), max(ends)


def covered(begin: Int64s, end: Int64s) -> int:
    """The length of the union of intervals, in any order."""
    if not len(begin):
        return 0
    if (begin[1:] < begin[:-1]).any():
        order = np.argsort(begin, kind="stable")
        begin, end = begin[order], end[order]
    reached = np.maximum.accumulate(end)
    first = np.concatenate([begin[:1], np.maximum(begin[1:], reached[:-1])])
    return int(np.maximum(end - first, 0).sum())
