"""Steps as GPUs show them: markers, what each kernel or copy counts for, and waiting for input.

Drivers name copies in several ways: ``MEMCPYHtoD``, ``MemcpyH2D``, ``CopyHostToDevice``. All of them are copies.

GPUs record that they stood still, not why. What host threads say that they do explains it, see host_reasons.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fastprof._native import records
from fastprof.derive.devices.collective_kernels import kind_of_collective
from fastprof.derive.devices.kineto_categories import is_kineto
from fastprof.derive.steps.device_steps import is_derived
from fastprof.derive.steps.grouping import Groups
from fastprof.derive.steps.host_collectives import collectives_of_only_gpu
from fastprof.derive.steps.host_reasons import meetings
from fastprof.derive.steps.step_time import NO_TYPE, EventType, Markers, TypedEvents, Types
from fastprof.schema.array_types import Int32s, Int64s
from fastprof.schema.value_classes import dataclass
from fastprof.tables.host_events import HostEvents, Plane

_OF_RUN = "op_end_ps"
"""A stat of events that a RunMetadata recorded, which knows no launches."""
STATS = ("correlation_id", "shape", _OF_RUN)

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


def type_of_name(name: str) -> int:
    """The event type of a name if its operands' shape is not recorded."""
    move = _move_of_name(name)
    return _kernel_of_name(name) if move == NO_TYPE else move


def _move_of_name(name: str) -> int:
    """The type of a copy or collective; NO_TYPE for any other name."""
    lowered = name[:25].lower().replace(" ", "")  # Kineto writes "Memcpy HtoD (Pageable -> Device)"
    copy = next((type_ for beginnings, type_ in _SPELLINGS if lowered.startswith(beginnings)), NO_TYPE)
    return EventType.DEVICE_COLLECTIVES if copy == NO_TYPE and kind_of_collective(name) is not None else copy


def _kernel_of_name(name: str) -> int:
    return EventType.DEVICE_COMPUTE_16 if "half" in name or "fp16" in name else EventType.DEVICE_COMPUTE_32


def _kernel_of_torch(name: str) -> int:
    """PyTorch's kernels name the types of their elements: ``bf16``, ``BFloat16``, ``c10::Half``."""
    is_half = "bf16" in name or "bfloat16" in name.lower() or "Half" in name
    return EventType.DEVICE_COMPUTE_16 if is_half else _kernel_of_name(name)


def gpu_step_events(events: HostEvents, groups: Groups) -> GpuStepEvents:
    """Events of all GPUs of a host that run for a launch (they have a correlation id) or that a RunMetadata recorded,
    in groups whose step the same GPU marks."""
    stat = events.stat("correlation_id")
    launched = (stat.kind == records.INT64) & (stat.value >= 0) | (stat.kind == records.UINT64)
    launched_rows = np.union1d(stat.rows[launched], events.ints(_OF_RUN)[0]).astype(np.int32)
    launched_rows = launched_rows[groups.group_id[launched_rows] >= 0]
    markers, parts, sizes, ids = [], [launched_rows[:0]], [0], []
    for plane in events.planes_of("GPU"):
        if plane.number in groups.device_steps:
            shown, by_line = _of_plane(plane, groups, launched_rows)
            markers.append(shown)
            parts += by_line
            sizes += [len(one) for one in by_line]
            ids += [plane.xplane_id] * len(by_line)
    rows, lines = np.concatenate(parts), np.cumsum(sizes).astype(np.int64)
    type_, moves = _types(events, rows)
    typed = TypedEvents(groups.group_id[rows], type_, events.start_ps[rows], events.duration_ps[rows])
    return GpuStepEvents(groups.count, Markers.joined(markers), typed, lines, np.array(ids, np.int64), moves)


def _of_plane(plane: Plane, groups: Groups, launched: Int32s) -> tuple[Markers, list[Int32s]]:
    """The markers of a GPU, and the rows of its lines that count."""
    steps = groups.device_steps[plane.number]
    marked = np.zeros(groups.count, np.bool_)
    marked[steps.group_id] = True
    seen, rows = np.zeros(groups.count, np.bool_), []
    for line in plane.lines:
        if not is_derived(line):
            one = launched[slice(*np.searchsorted(launched, [line.first, line.last]))]
            rows.append(one[marked[groups.group_id[one]]])
            seen[groups.group_id[rows[-1]]] = True
    return steps.markers[seen[steps.group_id]], rows


class GpuTimes(NamedTuple):
    """GPU events of a host in spans of time, launched by any step; an event is repeated for each span that it
    overlaps. ``lines``: the events at which lines begin, and the end of the last; ``plane``: [lines] recorded id of
    the plane of each line."""

    events: TypedEvents
    lines: Int64s
    plane: Int64s


def events_in_time(events: HostEvents, spans: Markers) -> GpuTimes:
    """Return what all GPUs of a host ran in the time of spans, and the host's collectives if there is one GPU. Events
    without duration take no part."""
    planes = events.planes_of("GPU")
    own = [(plane, line) for plane in planes for line in plane.lines if not is_derived(line)]
    rows = np.concatenate([np.zeros(0, np.int64), *(np.arange(line.first, line.last) for _, line in own)])
    bounds = np.cumsum([0, *(line.last - line.first for _, line in own)])
    type_, _ = _types(events, rows)
    ids = [plane.xplane_id for plane, _ in own]
    if len(on_host := collectives_of_only_gpu(events)):
        rows, bounds = np.concatenate([rows, on_host]), np.append(bounds, len(rows) + len(on_host))
        type_ = np.append(type_, np.full(len(on_host), EventType.DEVICE_COLLECTIVES, np.uint8))
        ids.append(ids[-1])
    type_[events.duration_ps[rows] <= 0] = NO_TYPE
    none = np.full(len(rows), -1, np.int32)
    met, place = meetings(TypedEvents(none, type_, events.start_ps[rows], events.duration_ps[rows]), spans)
    lines = np.searchsorted(place, bounds).astype(np.int64)
    return GpuTimes(met, lines, np.array(ids, np.int64))


def _types(events: HostEvents, rows: Int32s | Int64s) -> tuple[Types, NamedMoves]:
    """By name; the recorded shape of a kernel's operands, where there is one, decides whether it is 16-bit."""
    meta = events.meta[rows]
    distinct, place = np.unique(meta, return_inverse=True)
    names = [events.names[number] for number in distinct.tolist()]
    move = np.array([_move_of_name(name) for name in names], np.uint8)[place]
    kernel_of_name = _kernel_of_torch if is_kineto(events) else _kernel_of_name
    type_ = np.array([kernel_of_name(name) for name in names], np.uint8)[place]
    shape = events.stat("shape").of_kinds((records.STR, records.REF))
    _, shaped, beside = np.intersect1d(rows, shape.rows, assume_unique=True, return_indices=True)
    if len(shaped):
        values, of_value = np.unique(shape.value[beside], return_inverse=True)
        texts = events.all_texts(values)
        known = np.array([bool(text) for text in texts], np.bool_)[of_value]
        half = np.array(["half" in text for text in texts], np.bool_)[of_value]
        type_[shaped[known]] = np.where(half[known], EventType.DEVICE_COMPUTE_16, EventType.DEVICE_COMPUTE_32)
    moves = np.flatnonzero(move != NO_TYPE)
    kernel_type = type_[moves]
    type_[moves] = move[moves]
    used, name = np.unique(place[moves], return_inverse=True)
    named = [names[one] for one in used.tolist()]
    return type_, NamedMoves(moves, name.astype(np.int32), named, kernel_type)
