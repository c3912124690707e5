"""What XProf adds to the events of a capture before it shows them: groups, names of steps, flows, regions of threads.

Nothing of it where it takes the capture for grouped already.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fastprof._native.grouping import parents
from fastprof._native.step_kernels import placed
from fastprof.derive.host import Host
from fastprof.derive.steps.device_steps import MODULE_LINES, grouping_line, spread
from fastprof.derive.steps.event_types import KERNEL_EXECUTE, TF_OP
from fastprof.derive.steps.thread_pools import region_marks, regions
from fastprof.derive.timeline.flow_ends import FlowEnds, flow_ends, masked_run_ids
from fastprof.derive.timeline.merged_steps import MergedSteps, merged_steps
from fastprof.derive.timeline.track_order import is_grouped
from fastprof.schema.array_types import Int32s, Int64s
from fastprof.tables.host_events import HostEvents, Line

REGION = "ThreadpoolListener::Region"


@dataclass(frozen=True, slots=True)
class Regions:
    """Events that XProf adds, called ``REGION``: they have no stats. ``line``: the number of the line of each in
    ``lines`` of the host's events. ``group``: int32, -1: none."""

    line: Int64s
    start_ps: Int64s
    duration_ps: Int64s
    group: Int32s


@dataclass(frozen=True, slots=True)
class Preprocessed:
    """Rows are those of the host's events.

    ``grouped``    XProf takes the capture for grouped, and adds nothing
    ``group_id``   int32 by row, -1: none is set
    ``is_eager``   int8 by row, -1: it is not set
    ``step_rows``, ``step_names``  events that are called by the name of their step
    ``run_rows``, ``run_ids``      run_id as XProf shows it, in place of the event's own
    ``flow``       the flow of each event that gets one, in place of the event's own; rows ascend
    ``regions``    events that are added
    ``steps``      what becomes of the lines of steps of TPUs
    """

    grouped: bool
    group_id: Int32s
    is_eager: npt.NDArray[np.int8]
    step_rows: Int32s
    step_names: list[str]
    run_rows: Int32s
    run_ids: Int64s
    flow: FlowEnds
    regions: Regions
    steps: MergedSteps


def preprocessed(host: Host) -> Preprocessed:
    """Of a host that was read with ``timeline_needs.NEEDS``."""
    if is_grouped(host.raw):
        return _nothing(host.raw)
    steps = merged_steps(host)
    run_rows, run_ids = masked_run_ids(host)
    step_rows, step_names = _step_names(host, steps)
    flow = _shown(flow_ends(host, as_xprof=True))
    return Preprocessed(
        False, shown_groups(host), _eager(host), step_rows, step_names, run_rows, run_ids, flow, _regions(host), steps
    )


def _nothing(events: HostEvents) -> Preprocessed:
    rows, times = np.zeros(0, np.int32), np.zeros(0, np.int64)
    bits = np.zeros(0, np.uint8)
    return Preprocessed(
        True, np.full(len(events), -1, np.int32), np.full(len(events), -1, np.int8), rows, [], rows, times,
        FlowEnds(rows, bits, bits, times), Regions(times, times, times, rows), MergedSteps.none(),
    )  # fmt: skip


def group_ids(host: Host) -> Int32s:
    """``group_id`` of ``preprocessed``, without all else."""
    return np.full(len(host.raw), -1, np.int32) if is_grouped(host.raw) else shown_groups(host)


def shown_groups(host: Host) -> Int32s:
    """The group that XProf shows of each event, int32 by row, -1: none. Of a TPU's events it is that of the step that
    they overlap, whatever the capture tells; of executions where there are no steps that of the one before, where this
    one ends as they begin."""
    events = host.raw
    found = host.groups.group_id
    if len(events.stat("group_id")):
        again = found.copy()
        spread(events, host.forest.tpu_planes, again)
        found = np.where(again >= 0, again, found)
    for plane in host.forest.tpu_planes:
        line = grouping_line(plane)
        if line is not None and line.name in MODULE_LINES:
            here = slice(line.first, line.last)
            begin, duration = events.start_ps[here], events.duration_ps[here]
            end, group = begin + duration, found[here].copy()
            shown = np.empty(len(begin), np.int32)
            placed(begin, end, np.maximum.accumulate(end), group, begin, duration, True, shown)
            if (shown[shown >= 0] != group[shown >= 0]).any():
                found = found.copy() if found is host.groups.group_id else found
                found[here] = np.where(shown >= 0, shown, group)
    return found


def _step_names(host: Host, steps: MergedSteps) -> tuple[Int32s, list[str]]:
    """Roots that users made, and steps of TPUs."""
    groups = host.groups
    numbers, place = np.unique(np.concatenate([groups.step_groups, steps.group]), return_inverse=True)
    names = groups.names_of(numbers)
    rows = np.concatenate([groups.step_rows, steps.rows])
    order = np.argsort(rows, kind="stable")
    return rows[order].astype(np.int32), [names[one] for one in place[order].tolist()]


def _eager(host: Host) -> npt.NDArray[np.int8]:
    """Ops and kernels, of TPUs only those that tell their steps."""
    found = np.full(len(host.raw), -1, np.int8)
    if host.groups.vetoed:
        return found
    types = host.forest.types
    counts = (types == KERNEL_EXECUTE) | (types == TF_OP)
    for plane in host.forest.tpu_planes:
        line = grouping_line(plane)
        here = counts[plane.first : plane.last].copy()
        counts[plane.first : plane.last] = False
        if line is not None:
            counts[line.first : line.last] = here[line.first - plane.first : line.last - plane.first]
    return np.where(counts, host.groups.is_eager.astype(np.int8), found)


def _shown(ends: tuple[FlowEnds, FlowEnds, FlowEnds]) -> FlowEnds:
    """Of several flows of an event XProf shows the last: that which it consumes, else that which it produces."""
    columns = [
        np.concatenate(column) for column in zip(*((e.rows, e.direction, e.kind, e.number) for e in ends), strict=True)
    ]
    order = np.argsort(columns[0], kind="stable")
    rows = columns[0][order]
    last = order[np.append(rows[1:] != rows[:-1], True)] if len(rows) else order
    return FlowEnds(*(column[last] for column in columns))


def _regions(host: Host) -> Regions:
    """A region has the group of the event that includes it."""
    events = host.raw
    begun, begins, duration = region_marks(events)
    lines = [line for line in events.lines if line.last > line.first]
    firsts = np.array([line.first for line in lines], np.int64)
    numbers = np.array([line.number for line in lines], np.int64)
    place = np.searchsorted(firsts, begins) if len(begun) else begun
    above = _above(host, begun, np.unique(place), lines) if len(begun) else begun
    group = np.where(above >= 0, host.groups.group_id[above], -1).astype(np.int32) if len(begun) else above
    return Regions(numbers[place], events.start_ps[begun], duration, group.astype(np.int32))


def _above(host: Host, begun: Int64s, places: Int64s, lines: list[Line]) -> Int64s:
    """The event that includes each region, -1: none: the one that includes its mark, since regions let through."""
    events = host.raw
    parent = np.full(len(events), -1, np.int32)
    apart = np.zeros(len(events), np.uint8)
    rows, values = events.ints("_a")
    apart[rows[values != 0]] = 1
    bounds = np.array([(lines[one].first, lines[one].last) for one in places.tolist()], np.int64)
    parents(events.start_ps, events.duration_ps, apart, regions(events), bounds, parent)
    return parent[begun].astype(np.int64)
