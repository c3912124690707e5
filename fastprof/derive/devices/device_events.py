"""Events of the op lines of TPU cores: their times on the device's clock, and how they nest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from fastprof._native.op_kernels import SELF_CROSSED, self_times
from fastprof.decode.nesting import line_rows
from fastprof.schema.array_types import Int32s, Int64s, Records
from fastprof.schema.value_classes import dataclass
from fastprof.tables.host_events import HostEvents, Plane
from fastprof.tables.once import once

OP_LINES: Final = ("XLA Ops", "Framework Ops", "Sparse Core Ops")


@dataclass(frozen=True, slots=True)
class OpEvents:
    """The events of a core's op lines, in the order of their rows."""

    rows: Int32s
    """Row in the host's events."""
    start_ps: Int64s
    duration_ps: Int64s
    """On the device's clock if it has one; never negative."""
    self_ps: Int64s
    """Duration less the union of the events nested in it."""
    meta: Int32s
    """Row of event metadata, -1 if it has none."""
    lines: Records
    """Which events are of one line, as decode.nesting.line_rows has them."""
    overlaps: bool
    """Whether any events that are nested in the same one overlap."""

    def __len__(self) -> int:
        return len(self.rows)

    def self_less_sums(self) -> Int64s:
        """Duration less the sum of the events directly nested in it: less than ``self_ps`` if these overlap."""
        if not self.overlaps:
            return self.self_ps
        own, less_sums = np.empty_like(self.self_ps), np.empty_like(self.self_ps)
        self_times(self.start_ps, self.duration_ps, self.lines, own, less_sums)
        return less_sums


def device_spans(events: HostEvents, first: int, last: int) -> tuple[Int64s, Int64s]:
    """Start and duration of rows ``first`` to ``last``, by the device's clock if they have both its stats."""
    at, offsets = _within(*events.ints("device_offset_ps"), first, last)
    also, durations = _within(*events.ints("device_duration_ps"), first, last)
    if len(at) == len(also) == last - first:  # all of them have both
        return offsets, not_negative(durations)
    start, duration = events.start_ps[first:last], events.duration_ps[first:last]
    if not len(at) or not len(also):
        return start, not_negative(duration)
    start, duration = start.copy(), duration.copy()
    if not np.array_equal(at, also):
        at, i, j = np.intersect1d(at, also, assume_unique=True, return_indices=True)
        offsets, durations = offsets[i], durations[j]
    start[at - first] = offsets
    duration[at - first] = durations
    return start, not_negative(duration)


def not_negative(duration: Int64s) -> Int64s:
    return duration if not len(duration) or duration.min() >= 0 else np.maximum(duration, 0)


def _within(rows: Int32s, values: Int64s, first: int, last: int) -> tuple[Int32s, Int64s]:
    low, high = np.searchsorted(rows, np.array([first, last], rows.dtype)).tolist()
    return rows[low:high], values[low:high]


@once
def op_events(events: HostEvents, plane: Plane) -> OpEvents:
    """The events of the plane's op lines, nested line by line."""
    lines = [line for line in plane.lines if line.name in OP_LINES and line.last > line.first]
    if not lines:
        none = np.empty(0, np.int64)
        no_lines = line_rows(none, none)
        return OpEvents(np.empty(0, np.int32), none, none, none, np.empty(0, np.int32), no_lines, overlaps=False)
    spans = [device_spans(events, line.first, line.last) for line in lines]
    start, duration = (joined([span[i] for span in spans]) for i in range(2))
    rows = joined([np.arange(line.first, line.last, dtype=np.int32) for line in lines])
    counts = np.array([line.last - line.first for line in lines], np.int64)
    of_lines = line_rows(counts, np.cumsum(counts) - counts)
    self_ps = np.empty_like(start)
    overlaps = self_times(start, duration, of_lines, self_ps, None) == SELF_CROSSED
    metas = joined([events.meta[line.first : line.last] for line in lines])
    return OpEvents(rows, start, duration, self_ps, metas, of_lines, overlaps)


@once
def order_of_starts(events: HostEvents, plane: Plane) -> Int64s:
    """Sort the plane's op events by their start; equal ones stay in order."""
    return np.argsort(op_events(events, plane).start_ps, kind="stable")


def joined(parts: Sequence[npt.NDArray[Any]]) -> npt.NDArray[Any]:
    """The parts as one array; a single part is not copied."""
    return parts[0] if len(parts) == 1 else np.concatenate(parts)
