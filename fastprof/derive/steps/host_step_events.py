"""Steps as the threads of a host show them: markers, and what each event counts for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from fastprof._native import records
from fastprof.decode.nesting import nested
from fastprof.derive.devices import op_names
from fastprof.derive.devices.kineto_categories import LOADERS
from fastprof.derive.devices.op_names import Framework
from fastprof.derive.steps.grouping import Groups
from fastprof.derive.steps.links import having, numbered
from fastprof.derive.steps.step_time import NO_TYPE, EventType, Markers, TypedEvents, Types
from fastprof.schema.array_types import Bools, Int32s, Int64s
from fastprof.schema.value_classes import dataclass
from fastprof.tables.host_events import HOST_THREADS, HostEvents, Line, Plane
from fastprof.tables.once import once

_MARKER = 254
_STAGE = "_ipl_stage_name"
_EXPLICIT = ("train", "test", "TraceContext")
_CALLS = ("EagerExecute", "EagerLocalExecute", "EagerKernelExecute", "FunctionRun")
"""Events around ops, which count for nothing themselves."""

STATS = (_STAGE, "_pt", "_p", "_ct", "_c")
"""What is read of events beyond what grouping reads."""


@dataclass(frozen=True, slots=True)
class HostStepEvents:
    """``events``: those of a group; ``rows``: where they are in the events of the host, None: others are among them;
    ``lines``: the events at which lines begin, and the end of the last, None: in any order; ``named``: the groups whose
    steps have a name."""

    markers: Markers
    events: TypedEvents
    rows: Int64s | None
    lines: Int64s | None
    named: Bools  # by group


def type_of_name(name: str) -> int:
    """The event type of a name: _MARKER for markers of steps, NO_TYPE for events that count for nothing."""
    if name.startswith(_EXPLICIT) and "/" not in name:
        return _MARKER
    if name.startswith(_CALLS):
        return NO_TYPE
    lowered = name[:15].lower()
    if lowered.startswith("memcpy"):
        framework = op_names.parse(name).framework
        if framework == Framework.MEMCPY_H2D:
            return EventType.HOST_TO_DEVICE
        if framework == Framework.MEMCPY_H2H:
            return EventType.HOST_TO_HOST
    if "InfeedEnqueue" in name:
        op = op_names.parse(name)
        if op.framework == Framework.TENSORFLOW and op.type.startswith("InfeedEnqueue"):
            return EventType.HOST_TO_DEVICE
    waits = lowered == "iteratorgetnext" or name.startswith(LOADERS)
    return EventType.HOST_WAIT_INPUT if waits else EventType.HOST_COMPUTE


@once
def host_step_events(
    events: HostEvents, groups: Groups, type_of: Callable[[str], int] = type_of_name
) -> HostStepEvents | None:
    """Of the plane of host threads; None where there is none. ``type_of``: what an event of a name counts for."""
    plane = events.plane_named(HOST_THREADS)
    if plane is None:
        return None
    rows, every, lines = _in_groups(events, groups, plane)
    type_ = _types_of_names(events, events.meta[rows], type_of)
    type_[_root_stages(events, plane)[rows - plane.first] & (type_ == EventType.HOST_COMPUTE)] = (
        EventType.HOST_WAIT_INPUT
    )
    is_named = np.zeros(plane.last - plane.first, np.bool_)
    named_rows = groups.step_rows
    is_named[named_rows[(named_rows >= plane.first) & (named_rows < plane.last)] - plane.first] = True
    is_named = is_named[rows - plane.first]
    type_[is_named] = _MARKER
    marks = np.flatnonzero(type_ == _MARKER)
    named = np.zeros(groups.count, np.bool_)
    named[every.group[is_named]] = True
    return HostStepEvents(
        Markers(every.group[marks], every.start_ps[marks], every.duration_ps[marks]),
        replace(every, type=type_),
        rows,
        lines,
        named,
    )


@once
def _in_groups(events: HostEvents, groups: Groups, plane: Plane) -> tuple[Int64s, TypedEvents, Int64s]:
    """The events of a plane that have a group: their rows; the events, of no type; those at which lines begin, and the
    end of the last."""
    rows = plane.first + np.flatnonzero(groups.group_id[plane.first : plane.last] >= 0)
    none = np.full(len(rows), NO_TYPE, np.uint8)
    found = TypedEvents(groups.group_id[rows], none, events.start_ps[rows], events.duration_ps[rows])
    return rows, found, np.searchsorted(rows, [line.first for line in plane.lines] + [plane.last])


def _types_of_names(events: HostEvents, metas: Int32s, type_of: Callable[[str], int]) -> Types:
    """The types of the names of events with these rows of metadata."""
    names = events.names
    by_meta = np.full(len(names), NO_TYPE, np.uint8)
    used = np.zeros(len(names), np.bool_)
    used[metas] = True  # meta -1 is the last name, the empty one
    for number in np.flatnonzero(used).tolist():
        by_meta[number] = type_of(names[number])
    return np.asarray(by_meta[metas])


@once
def _root_stages(events: HostEvents, plane: Plane) -> Bools:
    """Input pipeline stages that are not inside of another stage, by row of the plane."""
    first, lines = plane.first, plane.lines
    roots = np.zeros(plane.last - first, np.bool_)
    stage = events.stat(_STAGE).of_kinds((records.STR, records.REF))
    keep = np.zeros(len(stage), np.bool_)
    distinct, place = np.unique(stage.value, return_inverse=True)
    if len(distinct):
        keep = np.array([bool(text) for text in events.all_texts(distinct)], np.bool_)[place]
    rows = stage.rows[keep]
    rows = rows[(rows >= first) & (rows < plane.last)]
    if not len(rows):
        return roots
    is_stage = np.zeros(len(events), np.bool_)
    is_stage[rows] = True
    consumes = _consumers(events, first, plane.last)
    for line in lines:
        here = slice(line.first, line.last)
        if is_stage[here].any():
            inside = _inside_stages(events, line, is_stage[here], consumes[here])
            roots[line.first - first : line.last - first] = is_stage[here] & ~inside
    return roots


def _consumers(events: HostEvents, first: int, last: int) -> Bools:
    """Rows that consume what an event of the plane produced, by context type and id."""
    makes, takes = (having(events, *stats) for stats in (("_pt", "_p"), ("_ct", "_c")))
    makes, takes = (ends.where((ends.rows >= first) & (ends.rows < last)) for ends in (makes, takes))
    number, _ = numbered([np.concatenate(pair) for pair in zip(makes.keys, takes.keys, strict=True)])
    marked = np.zeros(len(events), np.bool_)
    marked[takes.rows[np.isin(number[len(makes.rows) :], number[: len(makes.rows)])]] = True
    return marked


def _inside_stages(events: HostEvents, line: Line, is_stage: Bools, consumes: Bools) -> Bools:
    """The rows of a line that consume what others made, or that lie in a stage or in such a row, however deep."""
    count = line.last - line.first
    start, duration = events.start_ps[line.first : line.last], events.duration_ps[line.first : line.last]
    _, parent = nested(np.ascontiguousarray(start), np.ascontiguousarray(duration))
    inside = np.append(consumes, False)  # the last is the parent of rows without one
    holds = np.append(is_stage | consumes, False)  # a row makes those inside of it be inside
    parent = np.append(np.where(parent < 0, count, parent), count)
    while True:
        inside |= holds[parent]
        holds |= inside
        if (parent == count).all():
            return inside[:count]
        parent = parent[parent]
