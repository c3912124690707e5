"""What XProf adds to the events of a capture before it shows them: groups, names of steps, flows, regions of threads.

Nothing if it takes the capture for grouped already. To XProf the ends of a flow in several processes are one,
and ids of launches that were not recorded as unsigned integers are 0.
"""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Final

import numpy as np

from fastprof._native import records
from fastprof._native.grouping import parents
from fastprof.derive.host import Host
from fastprof.derive.steps.event_types import CODES, among
from fastprof.derive.steps.thread_pools import region_marks, regions
from fastprof.derive.timeline.event_groups import EventGroups, event_groups
from fastprof.derive.timeline.flow_ends import (
    CONTEXTS,
    LAUNCHES,
    RUN_ID_BITS,
    FlowEnds,
    correlated,
    flow_ends,
    flow_keys,
)
from fastprof.derive.timeline.track_order import is_grouped
from fastprof.schema.array_types import Int32s, Int64s
from fastprof.schema.value_classes import dataclass
from fastprof.tables.host_events import Line

REGION = "ThreadpoolListener::Region"
_MASKED: Final = tuple(CODES[n] for n in ("DoEnqueueProgram", "CompleteCallbacks", "DoEnqueueContinuationProgram"))
"""Events whose run_id XProf shows with fewer bits."""


@dataclass(frozen=True, slots=True)
class Regions:
    """Events that XProf adds, called ``REGION``: they have no stats. ``line``: the number of the line of each in
    ``lines`` of the host's events. ``group``: int32, -1: none."""

    line: Int64s
    start_ps: Int64s
    duration_ps: Int64s
    group: Int32s


@dataclass(frozen=True, slots=True)
class Preprocessed(EventGroups):
    """Rows are those of the host's events.

    ``grouped``    XProf takes the capture for grouped, and adds nothing
    ``run_rows``, ``run_ids``      run_id as XProf shows it, in place of the event's own
    ``flow``       the flow of each event that gets one, in place of the event's own; rows ascend
    ``regions``    events that are added
    """

    grouped: bool
    run_rows: Int32s
    run_ids: Int64s
    flow: FlowEnds
    regions: Regions


def preprocessed(host: Host) -> Preprocessed:
    """Of a host that was read with ``derived_lines.NEEDS``."""
    groups = event_groups(host)
    own = {one.name: getattr(groups, one.name) for one in fields(groups)}
    if is_grouped(host.raw):
        rows, times, bits = np.zeros(0, np.int32), np.zeros(0, np.int64), np.zeros(0, np.uint8)
        flow, added = FlowEnds(rows, bits, bits, times), Regions(times, times, times, rows)
        return Preprocessed(**own, grouped=True, run_rows=rows, run_ids=times, flow=flow, regions=added)
    run_rows, run_ids = host.raw.ints("run_id")
    masked = among(host.forest.types[run_rows], _MASKED)
    return Preprocessed(
        **own,
        grouped=False,
        run_rows=run_rows[masked],
        run_ids=run_ids[masked] & RUN_ID_BITS,
        flow=_shown(_flow_ends(host)),
        regions=_regions(host),
    )


def _flow_ends(host: Host) -> FlowEnds:
    """To XProf ids that are not recorded as uint64 are 0, and processes are one."""
    keys = []
    for one in flow_keys(host):
        if one.space == LAUNCHES:
            stat = host.raw.stat("correlation_id")
            one = correlated(host.raw, stat.rows, np.where(stat.kind == records.UINT64, stat.value, 0))
        elif one.space == CONTEXTS:
            one = replace(one, parts=(one.parts[0], np.zeros_like(one.parts[1])))
        keys.append(one)
    return flow_ends(keys)


def _shown(ends: FlowEnds) -> FlowEnds:
    """Of several flows of an event XProf shows the last: the one that it consumes, else the one that it produces."""
    order = np.argsort(ends.rows, kind="stable")
    rows = ends.rows[order]
    return ends.take(order[np.append(rows[1:] != rows[:-1], True)] if len(rows) else order)


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
