"""The communication of one host's devices: what is kept of it when its events are gone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from fastprof import hlo
from fastprof.decode.workers import Workers
from fastprof.derive.communication import activities, gpu_flights, tpu_flights
from fastprof.derive.communication.arrivals import Arrivals, Arrived, arrivals, arrived, of_middle_steps, share
from fastprof.derive.communication.device_links import HostLinks, Sent, direct_links, host_links
from fastprof.derive.communication.flights import CoreActivity, Operation, Sums, measured
from fastprof.derive.communication.narrow_columns import Compressed
from fastprof.derive.communication.operation_sums import HostOperations, OfOperations
from fastprof.derive.communication.payload import NO_PAYLOAD, payload
from fastprof.derive.communication.ranks import rank_count, rank_of, zero_ns
from fastprof.derive.communication.step_sums import CostsOfSteps, DeviceSteps, joined, kept_spans
from fastprof.derive.communication.teams import Assignments, device_ids
from fastprof.derive.devices.device_count import HostDevices
from fastprof.derive.devices.kineto_categories import is_kineto
from fastprof.derive.ops import tpu
from fastprof.derive.ops.device_ops import GPU_STATS
from fastprof.derive.steps.database import SPARSE_CORE_IDS, StepDatabase
from fastprof.derive.steps.host_collectives import collectives_of_only_gpu, host_collectives
from fastprof.derive.steps.marked_spans import markers
from fastprof.derive.steps.step_time import longest
from fastprof.schema.array_types import Bools, Int32s, Int64s
from fastprof.schema.time_sums import ends_of
from fastprof.schema.value_classes import dataclass
from fastprof.tables.host_events import HostEvents, Plane

if TYPE_CHECKING:
    from fastprof.derive.steps.grouping import Groups
    from fastprof.hlo.modules import Modules

EVENT_STATS: Final = tuple(
    dict.fromkeys((*tpu.EVENT_STATS, *tpu_flights.EVENT_STATS, *GPU_STATS, *gpu_flights.EVENT_STATS))
)
METADATA_STATS: Final = tuple(dict.fromkeys((*tpu_flights.METADATA_STATS, *tpu.METADATA_STATS, *hlo.METADATA_STATS)))
"""Stats that are read, beside the plane stat core_details."""

_MOST_ID: Final = 2**31 - 1
"""Ids of cores that are larger are not those of steps; see steps/tpu_steps.py."""


@dataclass(frozen=True, slots=True)
class Device:
    """A TensorCore, a SparseCore or a GPU. ``plane``, ``name``: of its plane, and as in the analysis steps."""

    plane: str
    name: str
    sparse: bool
    step_count: int


@dataclass(frozen=True, slots=True)
class HostCommunication:
    """``hardware``: TPU, GPU or CPU_ONLY. ``present``: the devices of the capture. ``whole``: a row per device, from
    its first to its last op; ``has_kind``: [devices, kinds of ``whole``], whether anything of the kind ran on the
    device. ``steps``: of each device; None: they are not kept."""

    host: str
    hardware: str
    present: HostDevices
    devices: tuple[Device, ...]
    operations: HostOperations
    of_operations: OfOperations
    whole: Sums
    has_kind: Bools
    costs: CostsOfSteps
    steps: Compressed | None
    arrivals: Arrivals
    links: HostLinks
    of_torch: bool = False
    """PyTorch's profiler recorded it."""
    zero_ns: int | None = None
    rank_count: int | None = None
    """What times count from, and of how many ranks the program is; see ranks."""
    start_unix_ns: int | None = None
    """When the host's own clock had it that profiling began."""
    uncounted_collectives: int = 0
    """Collectives of threads, if the host has no device or several: nothing shows which one waits for them."""

    def without_sums(self) -> HostCommunication:
        """Without arrivals, and without what is added up over hosts."""
        return replace(self, arrivals=self.arrivals.without_rows(), costs=_NO_COSTS, of_operations=_NO_OPERATIONS)


_NO_COSTS: Final = CostsOfSteps.none()
_NO_OPERATIONS: Final = OfOperations.none()


class _Windows(NamedTuple):
    """The steps of one device."""

    name: str
    group: Int64s = np.zeros(0, np.int64)
    complete: Bools = np.zeros(0, np.bool_)
    begin_ps: Int64s = np.zeros(0, np.int64)
    duration_ps: Int64s = np.zeros(0, np.int64)


class _OnDevice(NamedTuple):
    """What is kept of one device, before those of a host are put together."""

    device: Device
    steps: DeviceSteps
    whole: Sums
    operations: OfOperations
    arrived: Arrived
    direct: Sent


def host_communication(
    events: HostEvents,
    hardware: str,
    modules: Modules,
    groups: Groups,
    steps: StepDatabase,
    workers: Workers,
    names: Mapping[int, str] | None,
    session_hosts: int,
) -> HostCommunication:
    """``names``: of steps, by group; None: sums of steps are not kept. ``session_hosts``: if there are
    many, arrivals of the middle steps are kept only."""
    planes = device_planes(events, hardware)
    is_gpu = hardware == "GPU"
    operations, found = activities.of_gpus(events, modules) if is_gpu else activities.of_cores(events, planes, workers)
    kind_of_op = np.array([one.kind.number for one in operations.known], np.int32)
    meets = np.array([one.kind.meets for one in operations.known], np.bool_)
    active = [(place, plane, did) for place, (plane, did) in enumerate(zip(planes, found, strict=True)) if did]
    on_host = collectives_of_only_gpu(events)
    windows = partial(_with_collectives, events, groups, on_host)
    jobs = [
        partial(_on_device, plane, activity, kind_of_op, meets, windows(_windows(steps, groups, place, plane)))
        for place, plane, activity in active
    ]
    each: list[_OnDevice] = workers.run(None, jobs)
    ids = device_ids([plane for _, plane, _ in active])
    assignments = Assignments(modules, ids, all_here=is_gpu)
    teams = _teams([one.operations.op for one in each], assignments, operations.known)
    of_rows = [team[np.searchsorted(one.operations.op, one.arrived.op)] for one, team in zip(each, teams, strict=True)]
    of_torch = is_kineto(events)
    every = arrivals([one.arrived for one in each], of_rows, sized=of_torch)
    of_steps = [one.steps for one in each]
    whole = joined([one.whole for one in each])
    return HostCommunication(
        host=events.host,
        hardware=hardware,
        present=HostDevices.of(events),
        devices=tuple(one.device for one in each),
        operations=HostOperations.of(operations.known),
        of_operations=OfOperations.joined([one.operations for one in each]),
        whole=whole,
        has_kind=np.array([np.isin(whole.kinds, one.whole.kinds) for one in each]).reshape(len(each), len(whole.kinds)),
        costs=CostsOfSteps.of(of_steps),
        steps=None if names is None else kept_spans(of_steps, names),
        arrivals=of_middle_steps(every, _complete(of_steps), share(session_hosts, len(each))),
        links=host_links(
            [one.direct for one in each],
            [one.operations for one in each],
            operations.known,
            assignments,
            is_gpu=is_gpu,
            rank=rank_of(events),
            session_hosts=session_hosts,
        ),
        of_torch=of_torch,
        zero_ns=zero_ns(events),
        rank_count=rank_count(events),
        start_unix_ns=events.start_unix_ns,
        uncounted_collectives=len(host_collectives(events)) - len(on_host),
    )


def _on_device(plane: Plane, activity: CoreActivity, kind_of_op: Int32s, meets: Bools, windows: _Windows) -> _OnDevice:
    begin_ps = np.append(windows.begin_ps, activity.begin_ps)
    duration_ps = np.append(windows.duration_ps, activity.end_ps - activity.begin_ps)
    sums, exposed_ps, hidden_ps = measured(activity, kind_of_op, begin_ps, duration_ps)
    whole = sums.rows(slice(-1, None))
    steps = DeviceSteps(sums.rows(slice(0, -1)), windows.group, windows.complete)
    if not len(windows.group):
        steps = DeviceSteps(whole, np.full(1, -1, np.int64), np.ones(1, np.bool_))
    flights = activity.flights
    chosen = np.flatnonzero(meets[flights.op])
    chosen = chosen[np.argsort(flights.begin_ps[chosen], kind="stable")]
    group = _groups_at(flights.begin_ps[chosen], windows)
    return _OnDevice(
        Device(plane.name, windows.name, plane.kind == "SPARSECORE", len(windows.group)),
        steps,
        whole,
        OfOperations.of(flights, exposed_ps, hidden_ps),
        arrived(flights, chosen, group, is_gpu=plane.kind == "GPU"),
        direct_links(flights, activity.direct, kind_of_op),
    )


def _complete(devices: Sequence[DeviceSteps]) -> Int64s:
    """The groups of the steps that are complete on all devices that have them."""
    group = np.concatenate([np.zeros(0, np.int64), *(device.group for device in devices)])
    complete = np.concatenate([np.zeros(0, np.bool_), *(device.complete for device in devices)])
    return np.setdiff1d(group, group[~complete])


def _teams(ran_on: Sequence[Int64s], assignments: Assignments, operations: Sequence[Operation]) -> list[Int64s]:
    """Of each device, beside the operations that it ran, the group of devices in which it takes part, 0 if there is
    only one; -1: unknown. Only devices that ran an operation are looked up in its groups."""
    ends = np.cumsum([len(ran) for ran in ran_on], dtype=np.int64)
    op = np.concatenate([np.zeros(0, np.int64), *ran_on])
    device = np.searchsorted(ends, np.arange(len(op)), side="right")
    team = np.zeros(len(op), np.int64)
    order = np.argsort(op, kind="stable")
    ran, first = np.unique(op[order], return_index=True)
    for number, rows in zip(ran.tolist(), np.split(order, first)[1:], strict=True):
        one = operations[number]
        shape = payload(one.kind, one.text) if one.kind.meets and one.text else NO_PAYLOAD
        if shape.count is not None and shape.count > 1:
            team[rows] = assignments.teams(one.program_id, shape, device[rows])
    return np.split(team, ends)[:-1]


def device_planes(events: HostEvents, hardware: str) -> list[Plane]:
    """GPUs; cores of TPUs in the order of the cores of steps: by id, SparseCores last."""
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
            return _Windows(plane.name)
        spans = longest(own.markers)
        rows = np.minimum(np.searchsorted(steps.step, spans.group), max(len(steps) - 1, 0))
        known = steps.step[rows] == spans.group if len(steps) else np.zeros(len(spans), np.bool_)
        group, complete, spans = spans.group[known].astype(np.int64), steps.complete[rows[known]], spans[known]
        return _Windows(plane.name, group, complete, spans.start_ps, spans.duration_ps)
    if len(steps.cores) <= place:
        return _Windows(plane.name)
    rows = np.flatnonzero(steps.present[:, place])
    begin, duration = steps.begin_ps[rows, place], np.maximum(steps.duration_ps[rows, place], 0)
    return _Windows(steps.cores.name[place], steps.step[rows], steps.complete[rows], begin, duration)


def _with_collectives(events: HostEvents, groups: Groups, rows: Int64s, windows: _Windows) -> _Windows:
    """Extend each step to the end of the host's collectives, ``rows``, that begin before the next step."""
    if not len(rows) or not len(windows.group):
        return windows
    begin, duration, group = windows.begin_ps, windows.duration_ps.copy(), windows.group
    order = np.argsort(begin, kind="stable")
    last = order[-1]
    marker_end = int(markers(events, groups, np.unique(group))[1][np.searchsorted(np.unique(group), group[last])])
    until = np.append(begin[order[1:]], max(int(begin[last] + duration[last]), marker_end))
    start = events.start_ps[rows]
    step = np.searchsorted(begin[order], start, side="right") - 1
    within = (step >= 0) & (start < until[step])
    end = np.minimum(ends_of(start, np.maximum(events.duration_ps[rows], 0)), until[step])
    place = order[step[within]]
    np.maximum.at(duration, place, end[within] - begin[place])
    return windows._replace(duration_ps=duration)


def _groups_at(times: Int64s, windows: _Windows) -> Int64s:
    """The group of the step in which each time lies: the one that began last; -1: none."""
    if not len(windows.group):
        return np.full(len(times), -1, np.int64)
    order = np.argsort(windows.begin_ps, kind="stable")
    last = np.searchsorted(windows.begin_ps[order], times, side="right") - 1
    place = order[np.maximum(last, 0)]
    within = (last >= 0) & (times - windows.begin_ps[place] < windows.duration_ps[place])
    return np.where(within, windows.group[place], -1)
