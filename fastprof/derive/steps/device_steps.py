"""Steps as devices show them: their own line of steps, or one made from the groups of their events.

A TPU's events belong to the step, else to the module execution, that they overlap in time. A GPU has no line of steps:
consecutive events of one group make up a step.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from fastprof._native.grouping import EventGraph
from fastprof._native.kernels import rank_order
from fastprof._native.step_kernels import placed
from fastprof.decode.plane_kinds import is_gpu_plane
from fastprof.derive.steps.step_time import Markers
from fastprof.schema.array_rows import ArrayRows
from fastprof.schema.array_types import Int32s, Int64s
from fastprof.schema.value_classes import dataclass
from fastprof.tables.host_events import COUNTER_LINE, FIRST_DERIVED, HostEvents, Line, Plane, beside

STEP_LINES = ("Steps", "Sparse Core Steps")
MODULE_LINES = ("XLA Modules", "Sparse Core Modules")


@dataclass(frozen=True, slots=True)
class DeviceSteps(ArrayRows):
    """The steps of one plane, in order. ``device_start_ps``, ``device_duration_ps``: by the clock of the device if it
    is recorded, else the same as the others."""

    group_id: Int32s
    start_ps: Int64s
    duration_ps: Int64s
    device_start_ps: Int64s
    device_duration_ps: Int64s

    @property
    def markers(self) -> Markers:
        return Markers(self.group_id, self.device_start_ps, self.device_duration_ps)


def is_derived(line: Line) -> bool:
    """Whether a profiler made the line from others."""
    return line.is_derived


def grouping_line(plane: Plane) -> Line | None:
    """The line of a TPU plane that marks its steps: the line of steps, else that of modules; None: both are empty."""
    for names in (STEP_LINES, MODULE_LINES):
        for line in plane.lines:
            if line.name in names and line.last > line.first:
                return line
    return None


def of_planes(events: HostEvents, group_id: Int32s, recorded: bool) -> dict[int, DeviceSteps]:
    """The steps of each device plane, by its number. Events of GPUs that have no group join the one before them.
    ``recorded``: the groups are those of the capture, and so are the steps that it shows of GPUs."""
    found = {}
    for plane in events.planes:
        if is_gpu_plane(plane.name):
            found[plane.number] = _of_gpu(events, plane, group_id, recorded)
        elif plane.name.startswith("/device:TPU:"):
            line = grouping_line(plane)
            if line is not None and line.name in STEP_LINES:
                found[plane.number] = _merged(events, line, group_id)
    return found


def device_times(events: HostEvents, rows: npt.NDArray[np.intp] | Int32s) -> tuple[Int64s, Int64s]:
    """Start and duration by the device's own clock where the event records both, else the event's own."""
    start, duration = events.start_ps[rows], events.duration_ps[rows]
    has_offset, offset = beside(rows, *events.ints("device_offset_ps"))
    has_length, length = beside(rows, *events.ints("device_duration_ps"))
    both = has_offset & has_length
    return np.where(both, offset, start), np.where(both, length, duration)


# ---- GPUs


def _of_gpu(events: HostEvents, plane: Plane, group_id: Int32s, recorded: bool) -> DeviceSteps:
    shown = [line for line in plane.lines if line.xline_id & 0xFFFFFFFF == FIRST_DERIVED]
    if not shown:
        return _derived(events, plane, group_id)
    known = _shown(events, shown[0], group_id)
    return known if recorded else DeviceSteps.joined([_derived(events, plane, group_id), known])


def _shown(events: HostEvents, line: Line, group_id: Int32s) -> DeviceSteps:
    """The steps of a line that whoever wrote the capture derived."""
    rows = np.arange(line.first, line.last)
    rows = rows[group_id[rows] >= 0]
    start, duration = events.start_ps[rows], events.duration_ps[rows]
    return DeviceSteps(group_id[rows], start, duration, start, duration)


def _derived(events: HostEvents, plane: Plane, group_id: Int32s) -> DeviceSteps:
    rows = np.concatenate(
        [np.arange(line.first, line.last) for line in plane.lines if not is_derived(line)] or [np.zeros(0, np.intp)]
    )
    rows = rows[by_time(events.start_ps[rows], events.duration_ps[rows])]
    groups = group_id[rows]
    last_known = np.maximum.accumulate(np.where(groups >= 0, np.arange(len(rows)), -1))
    groups = np.where(last_known >= 0, groups[np.maximum(last_known, 0)], -1).astype(np.int32)
    group_id[rows] = groups
    times = (events.start_ps[rows], events.duration_ps[rows])
    return _runs(groups, times, times)


def by_time(start: Int64s, duration: Int64s) -> npt.NDArray[np.intp]:
    """The order of start, then shorter first; equal ones as std::sort leaves them. Lines are sorted by start, so this
    is quick unless there are ties."""
    order = np.argsort(start, kind="stable")
    ordered = start[order]
    if not (ordered[1:] == ordered[:-1]).any():
        return order
    order = np.lexsort((duration, start))
    times = np.stack([start[order], duration[order]])
    fresh = np.append(True, (times[:, 1:] != times[:, :-1]).any(axis=0))
    if fresh.all():
        return order
    place = np.empty(len(order), np.int64)
    place[order] = -np.cumsum(fresh)
    ranked = np.arange(len(order), dtype=np.int32)
    rank_order(place, ranked)
    return ranked.astype(np.intp)


def _runs(groups: Int32s, times: tuple[Int64s, Int64s], device_times: tuple[Int64s, Int64s]) -> DeviceSteps:
    """Consecutive events of one group as one step, from the earliest start to the last end; group -1 is none. Times are
    starts and durations."""
    if not len(groups):
        return DeviceSteps.none()
    first = np.flatnonzero(np.append(True, groups[1:] != groups[:-1]))
    kept = groups[first] >= 0
    return DeviceSteps(groups[first][kept], *_spans(times, first, kept), *_spans(device_times, first, kept))


def _spans(
    times: tuple[Int64s, Int64s], first: npt.NDArray[np.intp], kept: npt.NDArray[np.bool_]
) -> tuple[Int64s, Int64s]:
    """Start and duration of runs of events, which begin at ``first``; of those that are kept."""
    start, duration = times
    begin = np.minimum.reduceat(start, first)
    return begin[kept], (np.maximum.reduceat(start + duration, first) - begin)[kept]


# ---- TPUs


def nodes(events: HostEvents, planes: Sequence[Plane]) -> Int32s:
    """The row that represents each event in the graph: itself on hosts and on grouping lines, on other lines of a TPU
    the first event of the grouping line that ends after it begins, if that includes it; -1: none."""
    node = np.arange(len(events), dtype=np.int32)
    for plane in planes:
        line = grouping_line(plane)
        node[plane.first : plane.last] = -1
        if line is None:
            continue
        own = np.arange(line.first, line.last, dtype=np.int32)
        spans = _spans_of(events, line)
        for other in plane.lines:
            if other is not line:
                placed(*spans, own, *_times_of(events, other), False, node[other.first : other.last])
        node[line.first : line.last] = own
    return node


def _times_of(events: HostEvents, line: Line) -> tuple[Int64s, Int64s]:
    return events.start_ps[line.first : line.last], events.duration_ps[line.first : line.last]


def _spans_of(events: HostEvents, line: Line) -> tuple[Int64s, Int64s, Int64s]:
    """Begin and end of the events of a line, and the latest end so far."""
    begin, duration = _times_of(events, line)
    end = begin + duration
    return begin, end, np.maximum.accumulate(end)


def lock_step(planes: Sequence[Plane], graph: EventGraph, group_id: Int32s, count: int) -> tuple[int, bytes]:
    """Where no group of the host reaches a TensorCore, the steps of all of them are numbered alike, on from ``count``;
    returns the new number of groups, and int32 pairs of groups, in which the first leads into the second."""
    lines = [grouping_line(plane) for plane in planes if plane.kind == "TPU"]
    cores = [line for line in lines if line is not None]
    if any((group_id[line.first : line.last] >= 0).any() for line in cores):
        return count, b""
    pairs = [graph.group(np.arange(line.first, line.last, dtype=np.int32), None, count, group_id)[1] for line in cores]
    return count + max((line.last - line.first for line in cores), default=0), b"".join(pairs)


def spread(events: HostEvents, planes: Sequence[Plane], group_id: Int32s) -> None:
    """Gives the other events of a TPU the group of the event of the grouping line that they overlap; what counts has
    none."""
    for plane in planes:
        line = grouping_line(plane)
        if line is None:
            continue
        spans, groups = _spans_of(events, line), group_id[line.first : line.last].copy()
        if line.name in STEP_LINES:
            spans, groups = _one_a_step(spans, groups)
        for other in plane.lines:
            if (other is line and line.name in STEP_LINES) or other.name == COUNTER_LINE:
                continue
            found = group_id[other.first : other.last]
            placed(*spans, groups, *_times_of(events, other), True, found)
            if other is line:
                found[groups >= 0] = groups[groups >= 0]


def _one_a_step(spans: tuple[Int64s, Int64s, Int64s], groups: Int32s) -> tuple[tuple[Int64s, Int64s, Int64s], Int32s]:
    """Spans of steps that follow each other and have one group as one, from the begin of the first to the end of the
    last, without those of no group; as they are where none has one."""
    first = np.flatnonzero(np.append(True, groups[1:] != groups[:-1]))
    last = np.append(first[1:], len(groups)) - 1
    known = groups[first] >= 0
    if not known.any():
        return spans, groups
    begin, end = spans[0][first[known]], spans[1][last[known]]
    return (begin, end, np.maximum.accumulate(end)), np.ascontiguousarray(groups[first[known]])


def _merged(events: HostEvents, line: Line, group_id: Int32s) -> DeviceSteps:
    """Steps of a TPU's own line: those without a group are left out; ones of a group that follow each other are one."""
    rows = np.arange(line.first, line.last)
    return _runs(group_id[rows], _times_of(events, line), device_times(events, rows))
