"""Step events: markers, and what each event of host threads and GPUs counts for in the time of its step.

GPUs record that they were idle, not why. What host threads say that they do explains it, see host_causes. Drivers name
copies in several ways (``MEMCPYHtoD``, ``MemcpyH2D``, ``CopyHostToDevice``): all of them are copies. Gloo and MPI run
collectives on host threads, while the device is idle or computes:

    main thread    |--aten::mm--|  |--aten::mm--|
    gloo thread                 |--gloo:all_reduce--|
    GPU               |--sgemm--|             |--sgemm--|
                                '--exposed----'hidden\'
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np

from fastprof._native import records
from fastprof.decode.nesting import nest_line
from fastprof.derive.devices import op_names
from fastprof.derive.devices.communication_kinds import find_collective_kind
from fastprof.derive.devices.op_names import LOADERS, Framework, is_kineto
from fastprof.derive.steps.event_graph import find_events_with_stats
from fastprof.derive.steps.grouping import Groups
from fastprof.derive.steps.host_causes import overlap_spans
from fastprof.derive.steps.step_database import NO_TYPE, EventType, Markers, TypedEvents, Types
from fastprof.schema.columns import Bools, Int32s, Int64s, add_durations, find_rows_within, number_keys, number_values
from fastprof.schema.value_classes import dataclass
from fastprof.tables.host_events import HOST_THREADS, HostEvents, Line, Plane, compute_once

_MARKER = 254
_STAGE = "_ipl_stage_name"
_EXPLICIT = ("train", "test", "TraceContext")
_CALLS = ("EagerExecute", "EagerLocalExecute", "EagerKernelExecute", "FunctionRun")
"""Events around ops, which count for nothing themselves."""

HOST_STATS = (_STAGE, "_pt", "_p", "_ct", "_c")
"""What is read of events beyond what grouping reads."""


@dataclass(frozen=True, slots=True)
class HostStepEvents:
    """``events``: those of a group; ``rows``: their rows in the events of the host, or None if others are among them;
    ``lines``: the events at which lines begin, and the end of the last, or None if events are in any order; ``named``:
    the groups whose steps have a name."""

    markers: Markers
    events: TypedEvents
    rows: Int64s | None
    lines: Int64s | None
    named: Bools  # by group


def classify_host_name(name: str) -> int:
    """Return the event type of a name: _MARKER for markers of steps, NO_TYPE for events that count for nothing."""
    if name.startswith(_EXPLICIT) and "/" not in name:
        return _MARKER
    if name.startswith(_CALLS):
        return NO_TYPE
    lowered = name[:15].lower()
    if lowered.startswith("memcpy"):
        framework = op_names.parse_op_name(name).framework
        if framework == Framework.MEMCPY_H2D:
            return EventType.HOST_TO_DEVICE
        if framework == Framework.MEMCPY_H2H:
            return EventType.HOST_TO_HOST
    if "InfeedEnqueue" in name:
        op = op_names.parse_op_name(name)
        if op.framework == Framework.TENSORFLOW and op.type.startswith("InfeedEnqueue"):
            return EventType.HOST_TO_DEVICE
    waits = lowered == "iteratorgetnext" or name.startswith(LOADERS)
    return EventType.HOST_WAIT_INPUT if waits else EventType.HOST_COMPUTE


@compute_once
def collect_host_step_events(
    events: HostEvents, groups: Groups, type_of: Callable[[str], int] = classify_host_name
) -> HostStepEvents | None:
    """Collect step events of the plane of host threads, or None if there is none. ``type_of``: what an event of a name
    counts for."""
    plane = events.plane_named(HOST_THREADS)
    if plane is None:
        return None
    rows, every, lines = _select_grouped(events, groups, plane)
    metas = events.meta[rows]
    type_of_meta = np.full(len(events.names), NO_TYPE, np.uint8)
    used = np.zeros(len(events.names), np.bool_)
    used[metas] = True  # meta -1 is the last name, the empty one
    for number in np.flatnonzero(used).tolist():
        type_of_meta[number] = type_of(events.names[number])
    type_ = np.asarray(type_of_meta[metas])
    del metas
    type_[_find_root_stages(events, plane)[rows - plane.first] & (type_ == EventType.HOST_COMPUTE)] = (
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


@compute_once
def _select_grouped(events: HostEvents, groups: Groups, plane: Plane) -> tuple[Int64s, TypedEvents, Int64s]:
    """Return the events of a plane that have a group: their rows; the events, of no type; those at which lines begin,
    and the end of the last."""
    rows = plane.first + np.flatnonzero(groups.group_id[plane.first : plane.last] >= 0)
    none = np.full(len(rows), NO_TYPE, np.uint8)
    grouped = TypedEvents(groups.group_id[rows], none, events.start_ps[rows], events.duration_ps[rows])
    return rows, grouped, np.searchsorted(rows, [line.first for line in plane.lines] + [plane.last])


@compute_once
def _find_root_stages(events: HostEvents, plane: Plane) -> Bools:
    """Return input pipeline stages that are not inside of another stage, by row of the plane."""
    first, lines = plane.first, plane.lines
    roots = np.zeros(plane.last - first, np.bool_)
    stage = events.stat(_STAGE).of_kinds((records.STR, records.REF))
    keep = np.zeros(len(stage), np.bool_)
    distinct, place = number_values(stage.value)
    if len(distinct):
        keep = np.array([bool(text) for text in events.all_texts(distinct)], np.bool_)[place]
    rows = stage.rows[keep]
    rows = rows[(rows >= first) & (rows < plane.last)]
    if not len(rows):
        return roots
    is_stage = np.zeros(len(events), np.bool_)
    is_stage[rows] = True
    consumes = _find_consumers(events, first, plane.last)
    for line in lines:
        here = slice(line.first, line.last)
        if is_stage[here].any():
            inside = _find_inside_stages(events, line, is_stage[here], consumes[here])
            roots[line.first - first : line.last - first] = is_stage[here] & ~inside
    return roots


def _find_consumers(events: HostEvents, first: int, last: int) -> Bools:
    """Return rows that consume what an event of the plane produced, by context type and id."""
    makes, takes = (find_events_with_stats(events, *stats) for stats in (("_pt", "_p"), ("_ct", "_c")))
    makes, takes = (ends.where((ends.rows >= first) & (ends.rows < last)) for ends in (makes, takes))
    number, _ = number_keys([np.concatenate(pair) for pair in zip(makes.keys, takes.keys, strict=True)])
    marked = np.zeros(len(events), np.bool_)
    marked[takes.rows[np.isin(number[len(makes.rows) :], number[: len(makes.rows)])]] = True
    return marked


def _find_inside_stages(events: HostEvents, line: Line, is_stage: Bools, consumes: Bools) -> Bools:
    """Return the rows of a line that consume what others made, or that lie in a stage or in such a row, however
    deep."""
    count = line.last - line.first
    start, duration = events.start_ps[line.first : line.last], events.duration_ps[line.first : line.last]
    _, parent = nest_line(np.ascontiguousarray(start), np.ascontiguousarray(duration))
    inside = np.append(consumes, False)  # the last is the parent of rows without one
    holds = np.append(is_stage | consumes, False)  # a row makes those inside of it be inside
    parent = np.append(np.where(parent < 0, count, parent), count)
    while True:
        inside |= holds[parent]
        holds |= inside
        if (parent == count).all():
            return inside[:count]
        parent = parent[parent]


_ON_HOST: Final = ("gloo:", "mpi:")


@compute_once
def find_host_collectives(events: HostEvents) -> Int64s:
    """Return the rows of collectives that host threads run, by start. An op in its annotation counts once."""
    plane = events.plane_named(HOST_THREADS)
    if plane is None or not is_kineto(events):
        return np.zeros(0, np.int64)
    wanted = np.array([name.startswith(_ON_HOST) for name in events.names], bool)
    if not wanted.any():
        return np.zeros(0, np.int64)
    outermost = [np.zeros(0, np.int64)]
    for line in plane.lines:
        rows = line.first + np.flatnonzero(wanted[events.meta[line.first : line.last]])
        ends = add_durations(events.start_ps[rows], np.maximum(events.duration_ps[rows], 0))
        reached = np.append(np.iinfo(np.int64).min, np.maximum.accumulate(ends))[: len(rows)]
        outermost.append(rows[ends > reached])
    rows = np.concatenate(outermost)
    return rows[np.argsort(events.start_ps[rows], kind="stable")]


def find_only_gpu_collectives(events: HostEvents) -> Int64s:
    """Return the rows of host collectives that the only GPU waits for; none if no GPU ran anything, or several did."""
    lines = (line for plane in events.planes_of("GPU") for line in plane.lines)
    ran = {line.plane.number for line in lines if line.last > line.first and not line.is_derived}
    return find_host_collectives(events) if len(ran) == 1 else np.zeros(0, np.int64)


_OF_RUN = "op_end_ps"
"""A stat of events that a RunMetadata recorded, which knows no launches."""
GPU_STATS = ("correlation_id", "shape", _OF_RUN)

_SPELLINGS = (
    (("memcpyhtod", "memcpyh2d", "copyhosttodevice"), EventType.HOST_TO_DEVICE),
    (("memcpydtoh", "memcpyd2h", "copydevicetohost"), EventType.DEVICE_TO_HOST),
    (
        ("memcpydtod", "memcpyd2d", "memcpyptop", "memcpyp2p", "copydevicetodevice", "copypeertopeer"),
        EventType.DEVICE_TO_DEVICE,
    ),
    (("memcpyhtoh", "memcpyh2h", "copyhosttohost"), EventType.HOST_TO_HOST),
)
"""Prefixes of CUPTI and ROCm copy names, in lower case."""


@dataclass(frozen=True, slots=True)
class NamedMoves:
    """The copies and collectives among step events. ``row``: place of the event; ``name``: place of its name in
    ``names``; ``kernel_type``: the type the event would have as a kernel."""

    row: Int64s
    name: Int32s
    names: list[str]
    kernel_type: Types


@dataclass(frozen=True, slots=True)
class GpuStepEvents:
    """``group_count``: groups of the host. ``lines``: the events at which lines begin, and the end of the last;
    ``line_plane``: by line, the recorded id of its plane."""

    group_count: int
    markers: Markers
    events: TypedEvents
    lines: Int64s
    line_plane: Int64s
    moves: NamedMoves


def classify_gpu_name(name: str) -> int:
    """Return the event type of a name if its operands' shape is not recorded."""
    move = _classify_move(name)
    return _classify_kernel(name) if move == NO_TYPE else move


def _classify_move(name: str) -> int:
    """Return the type of a copy or collective; NO_TYPE for any other name."""
    lowered = name[:25].lower().replace(" ", "")  # Kineto writes "Memcpy HtoD (Pageable -> Device)"
    copy = next((type_ for beginnings, type_ in _SPELLINGS if lowered.startswith(beginnings)), NO_TYPE)
    return EventType.DEVICE_COLLECTIVES if copy == NO_TYPE and find_collective_kind(name) is not None else copy


def _classify_kernel(name: str) -> int:
    return EventType.DEVICE_COMPUTE_16 if "half" in name or "fp16" in name else EventType.DEVICE_COMPUTE_32


def _classify_torch_kernel(name: str) -> int:
    """Classify a PyTorch kernel, whose name has the types of its elements: ``bf16``, ``BFloat16``, ``c10::Half``."""
    is_half = "bf16" in name or "bfloat16" in name.lower() or "Half" in name
    return EventType.DEVICE_COMPUTE_16 if is_half else _classify_kernel(name)


def collect_gpu_step_events(events: HostEvents, groups: Groups) -> GpuStepEvents:
    """Collect events of all GPUs of a host that run for a launch (they have a correlation id) or that a RunMetadata
    recorded, in groups whose step the same GPU marks."""
    stat = events.stat("correlation_id")
    launched = (stat.kind == records.INT64) & (stat.value >= 0) | (stat.kind == records.UINT64)
    launched_rows = np.union1d(stat.rows[launched], events.ints(_OF_RUN)[0]).astype(np.int32)
    launched_rows = launched_rows[groups.group_id[launched_rows] >= 0]
    markers, parts, sizes, ids = [], [launched_rows[:0]], [0], []
    for plane in events.planes_of("GPU"):
        if plane.number not in groups.device_steps:
            continue
        steps = groups.device_steps[plane.number]
        marked, seen = np.zeros((2, groups.count), np.bool_)
        marked[steps.group_id] = True
        for line in plane.lines:
            if not line.is_derived:
                own = launched_rows[find_rows_within(launched_rows, line.first, line.last)]
                own = own[marked[groups.group_id[own]]]
                seen[groups.group_id[own]] = True
                parts.append(own)
                sizes.append(len(own))
                ids.append(plane.xplane_id)
        markers.append(steps.markers[seen[steps.group_id]])
    rows, lines = np.concatenate(parts), np.cumsum(sizes).astype(np.int64)
    type_, moves = _classify_rows(events, rows)
    typed = TypedEvents(groups.group_id[rows], type_, events.start_ps[rows], events.duration_ps[rows])
    return GpuStepEvents(groups.count, Markers.joined(markers), typed, lines, np.array(ids, np.int64), moves)


class GpuTimes(NamedTuple):
    """GPU events of a host in spans of time, launched by any step; an event is repeated for each span that it
    overlaps. ``lines``: the events at which lines begin, and the end of the last; ``plane``: [lines] recorded id of
    the plane of each line."""

    events: TypedEvents
    lines: Int64s
    plane: Int64s


def collect_gpu_times(events: HostEvents, spans: Markers) -> GpuTimes:
    """Return what all GPUs of a host ran in the time of spans, and the host's collectives if there is one GPU. Events
    without duration take no part."""
    planes = events.planes_of("GPU")
    own = [(plane, line) for plane in planes for line in plane.lines if not line.is_derived]
    rows = np.concatenate([np.zeros(0, np.int64), *(np.arange(line.first, line.last) for _, line in own)])
    bounds = np.cumsum([0, *(line.last - line.first for _, line in own)])
    type_, _ = _classify_rows(events, rows)
    ids = [plane.xplane_id for plane, _ in own]
    if len(on_host := find_only_gpu_collectives(events)):
        rows, bounds = np.concatenate([rows, on_host]), np.append(bounds, len(rows) + len(on_host))
        type_ = np.append(type_, np.full(len(on_host), EventType.DEVICE_COLLECTIVES, np.uint8))
        ids.append(ids[-1])
    type_[events.duration_ps[rows] <= 0] = NO_TYPE
    none = np.full(len(rows), -1, np.int32)
    met, place = overlap_spans(TypedEvents(none, type_, events.start_ps[rows], events.duration_ps[rows]), spans)
    lines = np.searchsorted(place, bounds).astype(np.int64)
    return GpuTimes(met, lines, np.array(ids, np.int64))


def _classify_rows(events: HostEvents, rows: Int32s | Int64s) -> tuple[Types, NamedMoves]:
    """Classify rows by name. The recorded shape of a kernel's operands, where there is one, decides whether it is
    16-bit."""
    meta = events.meta[rows]
    distinct, place = number_values(meta)
    names = [events.names[number] for number in distinct.tolist()]
    move = np.array([_classify_move(name) for name in names], np.uint8)[place]
    kernel_of_name = _classify_torch_kernel if is_kineto(events) else _classify_kernel
    type_ = np.array([kernel_of_name(name) for name in names], np.uint8)[place]
    shape = events.stat("shape").of_kinds((records.STR, records.REF))
    _, shaped, beside = np.intersect1d(rows, shape.rows, assume_unique=True, return_indices=True)
    if len(shaped):
        values, of_value = number_values(shape.value[beside])
        texts = events.all_texts(values)
        known = np.array([bool(text) for text in texts], np.bool_)[of_value]
        half = np.array(["half" in text for text in texts], np.bool_)[of_value]
        type_[shaped[known]] = np.where(half[known], EventType.DEVICE_COMPUTE_16, EventType.DEVICE_COMPUTE_32)
    moves = np.flatnonzero(move != NO_TYPE)
    kernel_type = type_[moves]
    type_[moves] = move[moves]
    used, name = number_values(place[moves])
    named = [names[number] for number in used.tolist()]
    return type_, NamedMoves(moves, name.astype(np.int32), named, kernel_type)
