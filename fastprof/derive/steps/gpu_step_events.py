"""Steps as GPUs show them: markers, what each kernel or copy counts for, collectives and memory transfers.

Drivers name copies in several ways: ``MEMCPYHtoD``, ``MemcpyH2D``, ``CopyHostToDevice``. All of them are copies.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from fastprof._native import records
from fastprof.derive.steps.device_steps import is_derived
from fastprof.derive.steps.grouping import Groups
from fastprof.derive.steps.step_time import (
    Markers,
    TypedEvents,
    Types,
    joined,
)
from fastprof.derive.steps.time_types import (
    DEVICE_COLLECTIVES,
    DEVICE_COMPUTE_16,
    DEVICE_COMPUTE_32,
    DEVICE_TO_DEVICE,
    DEVICE_TO_HOST,
    HOST_TO_DEVICE,
    HOST_TO_HOST,
    NO_TYPE,
)
from fastprof.schema.array_types import Int32s, Int64s
from fastprof.tables.host_events import HostEvents, Plane

STATS = ("correlation_id", "shape", "memcpy_details")

_SPELLINGS = (
    (("memcpyhtod", "memcpyh2d", "copyhosttodevice"), HOST_TO_DEVICE),
    (("memcpydtoh", "memcpyd2h", "copydevicetohost"), DEVICE_TO_HOST),
    (("memcpydtod", "memcpyd2d", "memcpyptop", "memcpyp2p", "copydevicetodevice", "copypeertopeer"), DEVICE_TO_DEVICE),
    (("memcpyhtoh", "memcpyh2h", "copyhosttohost"), HOST_TO_HOST),
    (("nccl", "rccl", "msccl"), DEVICE_COLLECTIVES),
)
"""What names begin with, in lower case, of CUPTI's copies, ROCm's copies and collectives."""

TRANSFERS = (HOST_TO_DEVICE, DEVICE_TO_HOST, DEVICE_TO_DEVICE)
"""The event types of memory transfers, in the order of StepDatabase.transfer_ps."""

_BYTES = re.compile(r"(?:^|[\s:])(?:num_bytes|size):\s*(\d{1,18})(?!\d)", re.ASCII)


@dataclass(frozen=True, slots=True)
class NamedMoves:
    """The copies and collectives among step events. ``row``: place of the event; ``name``: place of its name in
    ``names``; ``kernel_type``: the type the event would have as a kernel; ``bytes``: moved, 0 where not recorded."""

    row: Int64s
    name: Int32s
    names: list[str]
    kernel_type: Types
    bytes: Int64s


@dataclass(frozen=True, slots=True)
class GpuStepEvents:
    """``group_count``: groups of the host. ``line_plane``: by line of ``events``, the recorded id of its plane."""

    group_count: int
    markers: Markers
    events: TypedEvents
    line_plane: Int64s
    moves: NamedMoves


def type_of_name(name: str) -> int:
    """The event type that a name stands for where its operands' shape is not recorded."""
    move = _move_of_name(name)
    return _kernel_of_name(name) if move == NO_TYPE else move


def _move_of_name(name: str) -> int:
    """The type of a copy or collective; NO_TYPE for any other name."""
    lowered = name[:24].lower()
    return next((type_ for beginnings, type_ in _SPELLINGS if lowered.startswith(beginnings)), NO_TYPE)


def _kernel_of_name(name: str) -> int:
    return DEVICE_COMPUTE_16 if "half" in name or "fp16" in name else DEVICE_COMPUTE_32


def gpu_step_events(events: HostEvents, groups: Groups) -> GpuStepEvents:
    """Events of all GPUs of a host that run for a launch (they have a correlation id), in groups whose step the same
    GPU marks."""
    stat = events.stat("correlation_id")
    launched = (stat.kind == records.INT64) & (stat.value >= 0) | (stat.kind == records.UINT64)
    launched_rows = stat.rows[launched]
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
    typed = TypedEvents(groups.group_id[rows], type_, events.start_ps[rows], events.duration_ps[rows], lines)
    return GpuStepEvents(groups.count, joined(markers), typed, np.array(ids, np.int64), moves)


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
    markers = Markers(steps.group_id, steps.device_start_ps, steps.device_duration_ps)
    return markers.where(seen[steps.group_id]), rows


def _types(events: HostEvents, rows: Int32s) -> tuple[Types, NamedMoves]:
    """By name; the recorded shape of a kernel's operands, where there is one, decides whether it is 16-bit."""
    meta = events.meta[rows]
    distinct, place = np.unique(meta, return_inverse=True)
    names = [events.names[number] for number in distinct.tolist()]
    move = np.array([_move_of_name(name) for name in names], np.uint8)[place]
    type_ = np.array([_kernel_of_name(name) for name in names], np.uint8)[place]
    shape = events.stat("shape").of_kinds((records.STR, records.REF))
    _, shaped, beside = np.intersect1d(rows, shape.rows, assume_unique=True, return_indices=True)
    if len(shaped):
        values, of_value = np.unique(shape.value[beside], return_inverse=True)
        texts = events.all_texts(values)
        known = np.array([bool(text) for text in texts], np.bool_)[of_value]
        half = np.array(["half" in text for text in texts], np.bool_)[of_value]
        type_[shaped[known]] = np.where(half[known], DEVICE_COMPUTE_16, DEVICE_COMPUTE_32)
    moves = np.flatnonzero(move != NO_TYPE)
    kernel_type = type_[moves]
    type_[moves] = move[moves]
    used, name = np.unique(place[moves], return_inverse=True)
    moved = _bytes_moved(events, rows[moves])
    named = [names[one] for one in used.tolist()]
    return type_, NamedMoves(moves, name.astype(np.int32), named, kernel_type, moved)


def _bytes_moved(events: HostEvents, rows: Int32s) -> Int64s:
    """Bytes of each copy, from its details; 0 where these record none."""
    moved = np.zeros(len(rows), np.int64)
    details = events.stat("memcpy_details").of_kinds((records.STR, records.REF))
    _, at, beside = np.intersect1d(rows, details.rows, assume_unique=True, return_indices=True)
    if len(at):
        distinct, place = np.unique(details.value[beside], return_inverse=True)
        moved[at] = np.array([num_bytes(text) for text in events.all_texts(distinct)], np.int64)[place]
    return moved


def num_bytes(details: str) -> int:
    """The bytes that a copy moved, from its details: ``num_bytes:4096`` or ``size:4096 dest:0``; 0: not recorded."""
    match = _BYTES.search(details)
    return int(match.group(1)) if match else 0
