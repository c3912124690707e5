"""The communication of one host's devices: what is kept of it when its events are gone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np

from fastprof import hlo
from fastprof.decode.workers import Workers
from fastprof.derive.communication import device_groups, gpu_flights, tpu_flights, tpu_instructions
from fastprof.derive.communication.flights import (
    NO_BYTES,
    CoreActivity,
    Flights,
    Operation,
    Operations,
)
from fastprof.derive.communication.kinds import BETWEEN_DEVICES
from fastprof.derive.communication.overlap import Measured, Sums, measured
from fastprof.derive.communication.payload import NO_PAYLOAD, payload
from fastprof.derive.ops import tpu
from fastprof.derive.ops.device_ops import GPU_STATS
from fastprof.derive.ops.tables import summed_by, sums_by
from fastprof.derive.steps.database import SPARSE_CORE_IDS, StepDatabase
from fastprof.derive.steps.step_time import Markers, longest
from fastprof.schema.array_types import Bools, Int32s, Int64s
from fastprof.tables.host_events import HostEvents, Plane

if TYPE_CHECKING:
    from fastprof.derive.steps.grouping import Groups
    from fastprof.hlo.modules import Modules

EVENT_STATS: Final = tuple(
    dict.fromkeys((*tpu.EVENT_STATS, *tpu_flights.EVENT_STATS, *GPU_STATS, *gpu_flights.EVENT_STATS))
)
METADATA_STATS: Final = tuple(
    dict.fromkeys((*tpu_instructions.METADATA_STATS, *tpu.METADATA_STATS, *hlo.METADATA_STATS))
)
"""What is read, beside the plane stat core_details."""

_MOST_ID: Final = 2**31 - 1
"""Ids of cores that are larger are not those of steps; see steps/tpu_steps.py."""


@dataclass(frozen=True, slots=True)
class OfOperations:
    """Sums over the flights of a device, a row an operation. ``bytes``: NO_BYTES where a flight records none."""

    op: Int64s
    count: Int64s
    time_ps: Int64s
    min_ps: Int64s
    max_ps: Int64s
    wait_ps: Int64s
    hidden_ps: Int64s
    exposed_ps: Int64s
    bytes: Int64s


@dataclass(frozen=True, slots=True)
class Arrivals:
    """Flights between devices, a row each, by begin. ``group``: of the step in which it begins, -1: none; begin and end
    are by the host's clock, the duration by the core's. ``blocks``: nothing else goes on until it ends, so that its end
    says when the last device came."""

    op: Int32s
    group: Int64s
    begin_ps: Int64s
    end_ps: Int64s
    duration_ps: Int64s
    blocks: Bools


@dataclass(frozen=True, slots=True)
class Device:
    """A TensorCore, a SparseCore or a GPU. ``group``: of each step on it, the rows of ``steps``; ``whole``: one
    row, from its first to its last op."""

    plane: str
    name: str
    core_id: int
    sparse: bool
    group: Int64s
    complete: Bools
    steps: Sums
    whole: Sums
    operations: OfOperations
    arrivals: Arrivals


@dataclass(frozen=True, slots=True)
class HostCommunication:
    """``hardware``: TPU, GPU or CPU_ONLY. ``teams``: of operations that have several groups of devices, by their
    number, the group of each device; None: it is not known."""

    host: str
    hardware: str
    devices: tuple[Device, ...]
    operations: tuple[Operation, ...]
    teams: Mapping[int, Sequence[int | None]]


@dataclass(frozen=True, slots=True)
class _Windows:
    """The steps of one device."""

    name: str
    core_id: int
    group: Int64s
    complete: Bools
    begin_ps: Int64s
    duration_ps: Int64s


def host_communication(
    events: HostEvents, hardware: str, modules: Modules, groups: Groups, steps: StepDatabase, workers: Workers
) -> HostCommunication:
    operations = Operations()
    planes = device_planes(events, hardware)
    if hardware == "GPU":
        found = gpu_flights.activities(events, planes, modules, operations)
    else:
        found = tpu_flights.activities(events, planes, operations, workers)
    kind_of_op = np.array([one.kind.number for one in operations.known], np.int32)
    meets = np.array([one.kind.scope == BETWEEN_DEVICES for one in operations.known], np.bool_)
    jobs = [
        partial(_device, plane, activity, kind_of_op, meets, _windows(steps, groups, place, plane))
        for place, (plane, activity) in enumerate(zip(planes, found, strict=True))
        if activity is not None
    ]
    devices = workers.run(None, jobs)
    there = [plane for plane, activity in zip(planes, found, strict=True) if activity is not None]
    teams = _teams(there, modules, operations.known, hardware)
    return HostCommunication(events.host, hardware, tuple(devices), tuple(operations.known), teams)


def _teams(
    planes: Sequence[Plane], modules: Modules, operations: Sequence[Operation], hardware: str
) -> dict[int, Sequence[int | None]]:
    """See HostCommunication."""
    ids = device_groups.device_ids(planes)
    found: dict[int, Sequence[int | None]] = {}
    known: dict[tuple[int, str, bool], Sequence[int | None]] = {}
    for number, one in enumerate(operations):
        shape = payload(one.kind, one.text) if one.kind.meets and one.text else NO_PAYLOAD
        if shape.count is None or shape.count < 2:
            continue
        key = (one.program_id, shape.groups, shape.is_global)
        if key not in known:
            module = modules.module(one.program_id)
            nobody: list[int | None] = [None] * len(planes)
            known[key] = (
                nobody if module is None else device_groups.teams(module, shape, ids, all_here=hardware == "GPU")
            )
        found[number] = known[key]
    return found


def device_planes(events: HostEvents, hardware: str) -> list[Plane]:
    """GPUs; of TPUs the cores in the order in which steps have them: by id, SparseCores last."""
    if hardware == "GPU":
        return events.planes_of("GPU")
    if hardware != "TPU":
        return []
    planes = [plane for plane in events.planes if plane.kind in ("TPU", "SPARSECORE")]
    planes.sort(key=_core_id)
    if any(not 0 <= _core_id(plane) <= _MOST_ID for plane in planes):
        planes.sort(key=lambda plane: plane.kind == "SPARSECORE")
    return planes


def _core_id(plane: Plane) -> int:
    return plane.xplane_id + (SPARSE_CORE_IDS if plane.kind == "SPARSECORE" else 0)


def _windows(steps: StepDatabase, groups: Groups, place: int, plane: Plane) -> _Windows:
    """The steps that a device took part in: of a GPU the longest run of each step's events on it."""
    if plane.kind == "GPU":
        own = groups.device_steps.get(plane.number)
        if own is None:
            return _no_windows(plane.name, plane)
        spans = longest(Markers(own.group_id, own.device_start_ps, own.device_duration_ps))
        rows = np.minimum(np.searchsorted(steps.step, spans.group), max(len(steps) - 1, 0))
        known = steps.step[rows] == spans.group if len(steps) else np.zeros(len(spans), np.bool_)
        spans = spans.where(known)
        complete = steps.complete[rows[known]]
        return _Windows(
            plane.name, plane.xplane_id, spans.group.astype(np.int64), complete, spans.start_ps, spans.duration_ps
        )
    if len(steps.cores) <= place:
        return _no_windows(plane.name, plane)
    rows = np.flatnonzero(steps.present[:, place])
    begin, duration = steps.begin_ps[rows, place], np.maximum(steps.duration_ps[rows, place], 0)
    name, number = steps.cores.name[place], int(steps.cores.local_id[place])
    return _Windows(name, number, steps.step[rows], steps.complete[rows], begin, duration)


def _no_windows(name: str, plane: Plane) -> _Windows:
    none = np.zeros(0, np.int64)
    return _Windows(name, _core_id(plane), none, none.astype(np.bool_), none, none)


def _device(plane: Plane, activity: CoreActivity, kind_of_op: Int32s, meets: Bools, windows: _Windows) -> Device:
    begin_ps = np.append(windows.begin_ps, activity.begin_ps)
    duration_ps = np.append(windows.duration_ps, activity.end_ps - activity.begin_ps)
    found = measured(activity, kind_of_op, begin_ps, duration_ps)
    return Device(
        plane=plane.name,
        name=windows.name,
        core_id=windows.core_id,
        sparse=plane.kind == "SPARSECORE",
        group=windows.group,
        complete=windows.complete,
        steps=found.sums.rows(slice(0, -1)),
        whole=found.sums.rows(slice(-1, None)),
        operations=_of_operations(activity.flights, found, len(kind_of_op)),
        arrivals=_arrivals(activity.flights, meets, windows, plane.kind == "GPU"),
    )


def _of_operations(flights: Flights, found: Measured, count: int) -> OfOperations:
    times = summed_by(flights.op, flights.end_ps - flights.begin_ps, count)
    met = np.flatnonzero(times["count"])
    unknown = np.bincount(flights.op[flights.bytes == NO_BYTES], minlength=count)[met] > 0
    moved = sums_by(flights.op, flights.bytes, count, "the bytes of copies")[met]
    wait, hidden, exposed = (
        sums_by(flights.op, values, count)[met] for values in (flights.wait_ps, found.hidden_ps, found.exposed_ps)
    )
    return OfOperations(
        met,
        times["count"][met],
        times["total"][met],
        times["minimum"][met],
        times["maximum"][met],
        wait,
        hidden,
        exposed,
        np.where(unknown, NO_BYTES, moved),
    )


def _arrivals(flights: Flights, meets: Bools, windows: _Windows, is_gpu: bool) -> Arrivals:
    chosen = np.flatnonzero(meets[flights.op])
    chosen = chosen[np.argsort(flights.begin_ps[chosen], kind="stable")]
    return Arrivals(
        flights.op[chosen],
        _groups_at(flights.begin_ps[chosen], windows),
        flights.clock_begin_ps[chosen],
        flights.clock_end_ps[chosen],
        flights.end_ps[chosen] - flights.begin_ps[chosen],
        np.full(len(chosen), True) if is_gpu else ~flights.aloft[chosen],
    )


def _groups_at(times: Int64s, windows: _Windows) -> Int64s:
    """The group of the step in which each time lies: the one that began last; -1: none."""
    if not len(windows.group):
        return np.full(len(times), -1, np.int64)
    order = np.argsort(windows.begin_ps, kind="stable")
    last = np.searchsorted(windows.begin_ps[order], times, side="right") - 1
    place = order[np.maximum(last, 0)]
    within = (last >= 0) & (times - windows.begin_ps[place] < windows.duration_ps[place])
    return np.where(within, windows.group[place], -1)
