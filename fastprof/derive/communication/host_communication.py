"""The communication of one host's devices: the host state that stays when its events are gone. Also what the devices of
a host ran, as spans of time by kind: TensorCores, GPUs, or the host's threads.

A copy or a collective that is in flight while a core does nothing counts like an op that waits for it, so that sums are
those of the analysis communication. The threads of a host without devices that run what XLA compiled, or ops of
TensorFlow or PyTorch that belong to no input pipeline, are one device, ``CPU``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from fastprof import hlo
from fastprof.decode.workers import Workers
from fastprof.derive.communication import gpu_flights, tpu_flights
from fastprof.derive.communication.collectives import (
    NO_PAYLOAD,
    Assignments,
    DeviceArrivals,
    HostArrivals,
    find_device_arrivals,
    join_arrivals,
    keep_middle_steps,
    limit_rows,
    list_device_ids,
    parse_payload,
    read_rank,
    read_rank_count,
    read_zero_ns,
)
from fastprof.derive.communication.communication_sums import (
    CompressedColumns,
    DeviceStepSums,
    HostOperations,
    HostStepCosts,
    OperationSums,
    compress_spans,
    join_sums,
)
from fastprof.derive.communication.device_links import DeviceLinks, HostLinks, list_direct_links, list_host_links
from fastprof.derive.communication.flights import CoreActivity, Operation, Operations, SpanSums, measure_spans
from fastprof.derive.devices.device_events import list_op_events
from fastprof.derive.devices.op_names import is_kineto
from fastprof.derive.devices.run_environment import HostDevices
from fastprof.derive.ops import tpu_cores
from fastprof.derive.ops.device_ops import GPU_STATS
from fastprof.derive.ops.device_time import (
    COMPUTE,
    DeviceEvents,
    DeviceSpans,
    Transfer,
    find_thread_spans,
    make_span_records,
    make_transfer,
    read_row_times,
)
from fastprof.derive.steps.grouping import find_step_markers
from fastprof.derive.steps.step_database import SPARSE_CORE_IDS, StepDatabase, select_longest_markers
from fastprof.derive.steps.step_events import find_host_collectives, find_only_gpu_collectives
from fastprof.schema.columns import Bools, Int32s, Int64s, add_durations, find_equal, find_last_started, join_parts
from fastprof.schema.value_classes import dataclass
from fastprof.tables.host_events import HostEvents, Plane, compute_once

if TYPE_CHECKING:
    from fastprof.derive.steps.event_graph import EventForest
    from fastprof.derive.steps.grouping import Groups
    from fastprof.hlo.programs import Modules


Activities = tuple[Operations, list[CoreActivity | None]]
"""The operations of the devices, which nobody adds to, and the activity of each device, or None if it has no ops."""


def get_core_activities(events: HostEvents, planes: Sequence[Plane], workers: Workers) -> Activities:
    """Return activities of TensorCores and SparseCores, the latter last."""
    count = sum(plane.kind == "TPU" for plane in planes)
    known, activities = _get_tensor_core_activities(events, workers)
    cores = [activities[plane.number] for plane in planes[:count]]
    if count == len(planes):
        return known, cores
    operations = known.copy()
    return operations, cores + tpu_flights.find_tpu_flights(events, planes[count:], operations, workers)


@compute_once
def _get_tensor_core_activities(
    events: HostEvents, workers: Workers
) -> tuple[Operations, dict[int, CoreActivity | None]]:
    """Return activities of TensorCores by the numbers of their planes."""
    planes = sorted(events.planes_of("TPU"), key=lambda plane: plane.xplane_id)
    operations = Operations()
    activities = tpu_flights.find_tpu_flights(events, planes, operations, workers)
    return operations, {plane.number: did for plane, did in zip(planes, activities, strict=True)}


@compute_once
def get_gpu_activities(events: HostEvents, modules: Modules) -> Activities:
    """Return activities of GPUs, in the order of their planes."""
    operations = Operations()
    return operations, gpu_flights.find_gpu_flights(events, events.planes_of("GPU"), modules, operations)


def list_device_spans(
    events: HostEvents, modules: Modules, forest: EventForest, workers: Workers, computes: Callable[[str], bool]
) -> list[DeviceSpans]:
    """List what the devices of a host ran, without devices that ran nothing. ``computes``: whether a TensorFlow op of
    this name computes, if the host's threads are the device."""
    gpus, cores = events.planes_of("GPU"), events.planes_of("TPU")
    if not gpus and not cores:
        return find_thread_spans(events, forest, computes)
    own = []
    if cores:
        operations, activities = get_core_activities(events, cores, workers)
        for plane in cores:
            ops = list_op_events(events, plane)
            own.append(DeviceEvents(ops.rows, ops.start_ps, add_durations(ops.start_ps, ops.duration_ps)))
    else:
        operations, activities = get_gpu_activities(events, modules)
        for plane in gpus:
            lines = [line for line in plane.lines if not line.is_derived]
            rows = join_parts((np.arange(line.first, line.last, dtype=np.int32) for line in lines), np.int32)
            own.append(read_row_times(events, rows))
    transfers = [make_transfer(operation.name, operation.kind) for operation in operations.known]
    devices = zip(cores or gpus, activities, own, strict=True)
    return [_get_activity_spans(plane, did, transfers, its) for plane, did, its in devices if did is not None]


def _get_activity_spans(
    plane: Plane, did: CoreActivity, transfers: Sequence[Transfer], own: DeviceEvents
) -> DeviceSpans:
    """Return the spans of a device, which waits first for the transfer at which it stands, then for those in flight."""
    flights = did.flights
    aloft = np.flatnonzero(flights.aloft & (flights.end_ps > flights.begin_ps))
    stood = flights.op[did.stood["row"]] if len(did.stood) else np.zeros(0, np.int32)
    op = np.concatenate([stood, flights.op[aloft]])
    kinds = np.array([transfer.kind for transfer in transfers] or [0], np.int32)
    rank = 2 * kinds[op]
    rank[len(stood) :] += 1
    spans = np.concatenate(
        [
            make_span_records(did.work["begin"], did.work["end"], 2 * COMPUTE, 0),
            make_span_records(did.stood["begin"], did.stood["end"], rank[: len(stood)], op[: len(stood)] + 1),
            make_span_records(flights.begin_ps[aloft], flights.end_ps[aloft], rank[len(stood) :], op[len(stood) :] + 1),
        ]
    )
    return DeviceSpans(plane.name, plane, spans, transfers, own)


EVENT_STATS: Final = tuple(
    dict.fromkeys((*tpu_cores.EVENT_STATS, *tpu_flights.EVENT_STATS, *GPU_STATS, *gpu_flights.EVENT_STATS))
)
METADATA_STATS: Final = tuple(
    dict.fromkeys((*tpu_flights.METADATA_STATS, *tpu_cores.METADATA_STATS, *hlo.METADATA_STATS))
)
"""Stats that are read, beside the plane stat core_details."""

_MOST_ID: Final = 2**31 - 1
"""Largest core id of steps; see steps/tpu_steps.py."""


@dataclass(frozen=True, slots=True)
class CommunicatingDevice:
    """A TensorCore, a SparseCore or a GPU. ``plane``: name of its plane; ``name``: as in the analysis steps."""

    plane: str
    name: str
    sparse: bool
    step_count: int


@dataclass(frozen=True, slots=True)
class HostCommunication:
    """Host state. ``hardware``: TPU, GPU or CPU_ONLY; ``present``: the devices of the capture; ``whole``: a row per
    device, from its first to its last op; ``has_kind``: [devices, kinds of ``whole``], whether anything of the kind ran
    on the device; ``steps``: steps of each device, or None if they are not needed."""

    host: str
    hardware: str
    present: HostDevices
    devices: tuple[CommunicatingDevice, ...]
    operations: HostOperations
    of_operations: OperationSums
    whole: SpanSums
    has_kind: Bools
    costs: HostStepCosts
    steps: CompressedColumns | None
    arrivals: HostArrivals
    links: HostLinks
    of_torch: bool = False
    """True if PyTorch's profiler recorded it."""
    zero_ns: int | None = None
    rank_count: int | None = None
    """The origin of times, and the number of ranks of the program; see collectives.py."""
    start_unix_ns: int | None = None
    """Start of profiling by the host's own clock."""
    uncounted_collectives: int = 0
    """Number of collectives of threads, if the host has no device or several: nothing shows which one waits for
    them."""

    def without_sums(self) -> HostCommunication:
        """Drop arrivals, and what is added up over hosts."""
        return replace(self, arrivals=self.arrivals.without_rows(), costs=_NO_COSTS, of_operations=_NO_OPERATIONS)


_NO_COSTS: Final = HostStepCosts.none()
_NO_OPERATIONS: Final = OperationSums.none()


class _StepWindows(NamedTuple):
    """Steps of one device."""

    name: str
    group: Int64s = np.zeros(0, np.int64)
    complete: Bools = np.zeros(0, np.bool_)
    begin_ps: Int64s = np.zeros(0, np.int64)
    duration_ps: Int64s = np.zeros(0, np.int64)


class _DeviceMeasures(NamedTuple):
    """State of one device, before those of a host are joined."""

    device: CommunicatingDevice
    steps: DeviceStepSums
    whole: SpanSums
    operations: OperationSums
    arrived: DeviceArrivals
    direct: DeviceLinks


def measure_host_communication(
    events: HostEvents,
    hardware: str,
    modules: Modules,
    groups: Groups,
    steps: StepDatabase,
    workers: Workers,
    names: Mapping[int, str] | None,
    session_hosts: int,
) -> HostCommunication:
    """Measure the communication of a host. ``names``: of steps, by group, or None if sums of steps are not needed.
    ``session_hosts``: with many, only arrivals of the middle steps stay."""
    planes = list_device_planes(events, hardware)
    is_gpu = hardware == "GPU"
    operations, activities = (
        get_gpu_activities(events, modules) if is_gpu else get_core_activities(events, planes, workers)
    )
    kind_of_op = np.array([op.kind.number for op in operations.known], np.int32)
    meets = np.array([op.kind.meets for op in operations.known], np.bool_)
    active = [(place, plane, did) for place, (plane, did) in enumerate(zip(planes, activities, strict=True)) if did]
    on_host = find_only_gpu_collectives(events)
    windows = partial(_extend_windows, events, groups, on_host)
    jobs = [
        partial(
            _measure_device, plane, activity, kind_of_op, meets, windows(_find_windows(steps, groups, place, plane))
        )
        for place, plane, activity in active
    ]
    each: list[_DeviceMeasures] = workers.run(None, jobs)
    ids = list_device_ids([plane for _, plane, _ in active])
    assignments = Assignments(modules, ids, all_here=is_gpu)
    teams = _find_teams([device.operations.op for device in each], assignments, operations.known)
    of_rows = [
        team[np.searchsorted(device.operations.op, device.arrived.op)] for device, team in zip(each, teams, strict=True)
    ]
    of_torch = is_kineto(events)
    every = join_arrivals([device.arrived for device in each], of_rows, sized=of_torch)
    of_steps = [device.steps for device in each]
    whole = join_sums([device.whole for device in each])
    return HostCommunication(
        host=events.host,
        hardware=hardware,
        present=HostDevices.of(events),
        devices=tuple(device.device for device in each),
        operations=HostOperations.of(operations.known),
        of_operations=OperationSums.joined([device.operations for device in each]),
        whole=whole,
        has_kind=np.array([np.isin(whole.kinds, device.whole.kinds) for device in each]).reshape(
            len(each), len(whole.kinds)
        ),
        costs=HostStepCosts.of(of_steps),
        steps=None if names is None else compress_spans(of_steps, names),
        arrivals=keep_middle_steps(every, _find_complete_groups(of_steps), limit_rows(session_hosts, len(each))),
        links=list_host_links(
            [device.direct for device in each],
            [device.operations for device in each],
            operations.known,
            assignments,
            is_gpu=is_gpu,
            rank=read_rank(events),
            session_hosts=session_hosts,
        ),
        of_torch=of_torch,
        zero_ns=read_zero_ns(events),
        rank_count=read_rank_count(events),
        start_unix_ns=events.start_unix_ns,
        uncounted_collectives=len(find_host_collectives(events)) - len(on_host),
    )


def _measure_device(
    plane: Plane, activity: CoreActivity, kind_of_op: Int32s, meets: Bools, windows: _StepWindows
) -> _DeviceMeasures:
    begin_ps = np.append(windows.begin_ps, activity.begin_ps)
    duration_ps = np.append(windows.duration_ps, activity.end_ps - activity.begin_ps)
    sums, exposed_ps, hidden_ps = measure_spans(activity, kind_of_op, begin_ps, duration_ps)
    whole = sums.rows(slice(-1, None))
    steps = DeviceStepSums(sums.rows(slice(0, -1)), windows.group, windows.complete)
    if not len(windows.group):
        steps = DeviceStepSums(whole, np.full(1, -1, np.int64), np.ones(1, np.bool_))
    flights = activity.flights
    chosen = np.flatnonzero(meets[flights.op])
    chosen = chosen[np.argsort(flights.begin_ps[chosen], kind="stable")]
    begins, group = flights.begin_ps[chosen], np.full(len(chosen), -1, np.int64)
    if len(windows.group):  # of the step that began last, if it is not over
        order = np.argsort(windows.begin_ps, kind="stable")
        last = find_last_started(windows.begin_ps[order], begins)
        place = order[np.maximum(last, 0)]
        within = (last >= 0) & (begins - windows.begin_ps[place] < windows.duration_ps[place])
        group = np.where(within, windows.group[place], -1)
        del last, place, within
    return _DeviceMeasures(
        CommunicatingDevice(plane.name, windows.name, plane.kind == "SPARSECORE", len(windows.group)),
        steps,
        whole,
        OperationSums.of(flights, exposed_ps, hidden_ps),
        find_device_arrivals(flights, chosen, group, hidden_ps, is_gpu=plane.kind == "GPU"),
        list_direct_links(flights, activity.direct, kind_of_op),
    )


def _find_complete_groups(devices: Sequence[DeviceStepSums]) -> Int64s:
    """Return the groups of the steps that are complete on all devices that have them."""
    group = join_parts(device.group for device in devices)
    complete = join_parts((device.complete for device in devices), np.bool_)
    return np.setdiff1d(group, group[~complete])


def _find_teams(ran_on: Sequence[Int64s], assignments: Assignments, operations: Sequence[Operation]) -> list[Int64s]:
    """Return, for each device and each operation that it ran, the group of devices in which it takes part: 0 if there
    is only one, -1 if unknown. Only devices that ran an operation are looked up in its groups."""
    ends = np.cumsum([len(ran) for ran in ran_on], dtype=np.int64)
    op = join_parts(ran_on)
    device = np.searchsorted(ends, np.arange(len(op)), side="right")
    team = np.zeros(len(op), np.int64)
    order = np.argsort(op, kind="stable")
    ran, first = np.unique(op[order], return_index=True)
    for number, rows in zip(ran.tolist(), np.split(order, first)[1:], strict=True):
        operation = operations[number]
        shape = parse_payload(operation.kind, operation.text) if operation.kind.meets and operation.text else NO_PAYLOAD
        if shape.count is not None and shape.count > 1:
            team[rows] = assignments.teams(operation.program_id, shape, device[rows])
    return np.split(team, ends)[:-1]


def list_device_planes(events: HostEvents, hardware: str) -> list[Plane]:
    """List GPUs, or TPU cores in the order of the cores of steps: by id, SparseCores last."""
    if hardware == "GPU":
        return events.planes_of("GPU")
    if hardware != "TPU":
        return []
    planes = [plane for plane in events.planes if plane.kind in ("TPU", "SPARSECORE")]
    planes.sort(key=_get_core_id)
    if any(not 0 <= _get_core_id(plane) <= _MOST_ID for plane in planes):
        planes.sort(key=lambda plane: plane.kind == "SPARSECORE")
    return planes


def _get_core_id(plane: Plane) -> int:
    return plane.xplane_id + (SPARSE_CORE_IDS if plane.kind == "SPARSECORE" else 0)


def _find_windows(steps: StepDatabase, groups: Groups, place: int, plane: Plane) -> _StepWindows:
    """Find the steps that a device took part in; on a GPU, the longest run of each step's events."""
    if plane.kind == "GPU":
        own = groups.device_steps.get(plane.number)
        if own is None:
            return _StepWindows(plane.name)
        spans = select_longest_markers(own.markers)
        known, rows = find_equal(steps.step, spans.group)
        group, complete, spans = spans.group[known].astype(np.int64), steps.complete[rows[known]], spans[known]
        return _StepWindows(plane.name, group, complete, spans.start_ps, spans.duration_ps)
    if len(steps.cores) <= place:
        return _StepWindows(plane.name)
    rows = np.flatnonzero(steps.present[:, place])
    begin, duration = steps.begin_ps[rows, place], np.maximum(steps.duration_ps[rows, place], 0)
    return _StepWindows(steps.cores.name[place], steps.step[rows], steps.complete[rows], begin, duration)


def _extend_windows(events: HostEvents, groups: Groups, rows: Int64s, windows: _StepWindows) -> _StepWindows:
    """Extend each step to the end of the host's collectives, ``rows``, that begin before the next step."""
    if not len(rows) or not len(windows.group):
        return windows
    begin, duration, group = windows.begin_ps, windows.duration_ps.copy(), windows.group
    order = np.argsort(begin, kind="stable")
    last = order[-1]
    marked = np.unique(group)
    marker_end = int(find_step_markers(events, groups, marked)[1][np.searchsorted(marked, group[last])])
    until = np.append(begin[order[1:]], max(int(begin[last] + duration[last]), marker_end))
    start = events.start_ps[rows]
    step = find_last_started(begin[order], start)
    within = (step >= 0) & (start < until[step])
    end = np.minimum(add_durations(start, np.maximum(events.duration_ps[rows], 0)), until[step])
    place = order[step[within]]
    np.maximum.at(duration, place, end[within] - begin[place])
    return windows._replace(duration_ps=duration)
