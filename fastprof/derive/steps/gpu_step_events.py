"""Steps as GPUs show them: markers, what each kernel or copy counts for, collectives and memory transfers.

Drivers name copies in several ways: ``MEMCPYHtoD``, ``MemcpyH2D``, ``CopyHostToDevice``. All of them are copies here;
to XProf only the first is one, and of collectives only those of nccl.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from fastprof._native import records
from fastprof.derive.devices import op_names
from fastprof.derive.devices.op_names import Framework
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
from fastprof.schema.array_types import Bools, Int32s, Int64s
from fastprof.tables.host_events import HostEvents, Plane

STATS = ("correlation_id", "shape", "memcpy_details")

_COPIES = {
    Framework.MEMCPY_H2D: HOST_TO_DEVICE,
    Framework.MEMCPY_D2H: DEVICE_TO_HOST,
    Framework.MEMCPY_D2D: DEVICE_TO_DEVICE,
}
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
class GpuStepEvents:
    """``plane_id``: beside each event, the id of its plane as recorded. ``bytes``: what a transfer moved.
    ``xprof_type``: the types that events have to XProf."""

    markers: Markers
    events: TypedEvents
    plane_id: Int64s
    bytes: Int64s
    xprof_type: Types

    def as_in_xprof(self) -> GpuStepEvents:
        """The same with XProf's types; itself where they are no others."""
        if np.array_equal(self.events.type, self.xprof_type):
            return self
        return replace(self, events=replace(self.events, type=self.xprof_type))


def type_of_name(name: str) -> int:
    """The event type that a name stands for where nothing is known of its shape."""
    lowered = name[:24].lower()
    for beginnings, type_ in _SPELLINGS:
        if lowered.startswith(beginnings):
            return type_
    return xprof_type_of_name(name)


def xprof_type_of_name(name: str) -> int:
    """The same by XProf's rules."""
    lowered = name[:6].lower()
    if lowered == "memcpy":
        copy = _COPIES.get(op_names.parse(name).framework)
        if copy is not None:
            return copy
    if lowered.startswith("nccl"):
        return DEVICE_COLLECTIVES
    return DEVICE_COMPUTE_16 if "half" in name or "fp16" in name else DEVICE_COMPUTE_32


def gpu_step_events(events: HostEvents, groups: Groups) -> GpuStepEvents:
    """Of all GPUs of a host: what runs for a launch (it has a correlation id) and belongs to a group of which the same
    GPU has a step."""
    stat = events.stat("correlation_id")
    launched = (stat.kind == records.INT64) & (stat.value >= 0) | (stat.kind == records.UINT64)
    launched_rows = stat.rows[launched]
    launched_rows = launched_rows[groups.group_id[launched_rows] >= 0]
    markers, parts, sizes, ids = [], [launched_rows[:0]], [0], [np.zeros(0, np.int64)]
    for plane in events.planes_of("GPU"):
        if plane.number in groups.device_steps:
            shown, by_line = _of_plane(plane, groups, launched_rows)
            markers.append(shown)
            parts += by_line
            sizes += [len(one) for one in by_line]
            ids.append(np.full(sum(len(one) for one in by_line), plane.xplane_id, np.int64))
    rows, lines = np.concatenate(parts), np.cumsum(sizes).astype(np.int64)
    type_, xprof_type = (_types(events, rows, rule) for rule in (type_of_name, xprof_type_of_name))
    typed = TypedEvents(groups.group_id[rows], type_, events.start_ps[rows], events.duration_ps[rows], lines)
    return GpuStepEvents(joined(markers), typed, np.concatenate(ids), _bytes_moved(events, rows, type_), xprof_type)


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


def _types(events: HostEvents, rows: Int32s, rule: Callable[[str], int]) -> Types:
    """By name; where the shape of a kernel's operands is recorded, it tells whether they are of 16 bits."""
    meta = events.meta[rows]
    by_meta = np.full(len(events.names), NO_TYPE, np.uint8)
    for number in np.unique(meta).tolist():
        by_meta[number] = rule(events.names[number])
    type_ = by_meta[meta]
    shape = events.stat("shape").of_kinds((records.STR, records.REF))
    shaped, at, beside = np.intersect1d(rows, shape.rows, assume_unique=True, return_indices=True)
    if len(shaped):
        distinct, place = np.unique(shape.value[beside], return_inverse=True)
        texts = events.all_texts(distinct)
        said = np.array([bool(text) for text in texts], np.bool_)[place]
        half = np.array(["half" in text for text in texts], np.bool_)[place]
        computes: Bools = (type_[at] == DEVICE_COMPUTE_16) | (type_[at] == DEVICE_COMPUTE_32)
        change = said & computes
        type_[at[change]] = np.where(half[change], DEVICE_COMPUTE_16, DEVICE_COMPUTE_32)
    return type_


def _bytes_moved(events: HostEvents, rows: Int32s, type_: Types) -> Int64s:
    """Bytes of each memory transfer, by its details."""
    moved = np.zeros(len(rows), np.int64)
    details = events.stat("memcpy_details").of_kinds((records.STR, records.REF))
    copies = np.flatnonzero(np.isin(type_, TRANSFERS))
    _, at, beside = np.intersect1d(rows[copies], details.rows, assume_unique=True, return_indices=True)
    if len(at):
        distinct, place = np.unique(details.value[beside], return_inverse=True)
        sizes = np.array([num_bytes(text) for text in events.all_texts(distinct)], np.int64)
        moved[copies[at]] = sizes[place]
    return moved


def num_bytes(details: str) -> int:
    """The bytes that a copy moved, from its details: ``num_bytes:4096`` or ``size:4096 dest:0``; 0: not told."""
    found = _BYTES.search(details)
    return int(found.group(1)) if found else 0
