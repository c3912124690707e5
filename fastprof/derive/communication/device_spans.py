"""What the devices of a host ran, as spans of time by kind: TensorCores, GPUs, or the host's threads.

A copy or a collective that is in flight while a core does nothing counts like an op that waits for it, so that sums are
those of the analysis communication. The threads of a host without devices that run what XLA compiled, or ops of
TensorFlow or PyTorch that belong to no input pipeline, are one device, ``CPU``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from fastprof.decode.workers import Workers
from fastprof.derive.communication import activities
from fastprof.derive.communication.flights import CoreActivity
from fastprof.derive.devices.device_events import op_events
from fastprof.derive.ops.device_time import (
    COMPUTE,
    DeviceEvents,
    Spans,
    Transfer,
    spans_of,
    transfer,
)
from fastprof.derive.ops.threads_as_device import spans_of_threads, times_of_rows
from fastprof.derive.steps.device_steps import is_derived
from fastprof.schema.array_types import Int32s
from fastprof.schema.time_sums import ends_of
from fastprof.tables.host_events import HostEvents, Plane

if TYPE_CHECKING:
    from fastprof.derive.steps.forest import Forest
    from fastprof.hlo.modules import Modules


def device_spans(
    events: HostEvents, modules: Modules, forest: Forest, workers: Workers, computes: Callable[[str], bool]
) -> list[Spans]:
    """What the devices of a host ran; those that ran nothing are left out. ``computes``: of the name of an op of
    TensorFlow, whether it computes, where the threads are the device."""
    gpus, cores = events.planes_of("GPU"), events.planes_of("TPU")
    if not gpus and not cores:
        return spans_of_threads(events, forest, computes)
    if cores:
        operations, found = activities.of_cores(events, cores, workers)
        own = [_of_core(events, plane) for plane in cores]
    else:
        operations, found = activities.of_gpus(events, modules)
        own = [times_of_rows(events, _gpu_rows(plane)) for plane in gpus]
    transfers = [transfer(one.name, one.kind) for one in operations.known]
    devices = zip(cores or gpus, found, own, strict=True)
    return [_of_activity(plane, did, transfers, its) for plane, did, its in devices if did is not None]


def _gpu_rows(plane: Plane) -> Int32s:
    lines = [line for line in plane.lines if not is_derived(line)]
    return np.concatenate(
        [np.zeros(0, np.int32), *(np.arange(line.first, line.last, dtype=np.int32) for line in lines)]
    )


def _of_core(events: HostEvents, plane: Plane) -> DeviceEvents:
    found = op_events(events, plane)
    return DeviceEvents(found.rows, found.start_ps, ends_of(found.start_ps, found.duration_ps))


def _of_activity(plane: Plane, did: CoreActivity, transfers: Sequence[Transfer], own: DeviceEvents) -> Spans:
    """A device waits first for the transfer at which it stands, then for those in flight."""
    flights = did.flights
    aloft = np.flatnonzero(flights.aloft & (flights.end_ps > flights.begin_ps))
    stood = flights.op[did.stood["row"]] if len(did.stood) else np.zeros(0, np.int32)
    op = np.concatenate([stood, flights.op[aloft]])
    kinds = np.array([one.kind for one in transfers] or [0], np.int32)
    rank = 2 * kinds[op]
    rank[len(stood) :] += 1
    spans = np.concatenate(
        [
            spans_of(did.work["begin"], did.work["end"], 2 * COMPUTE, 0),
            spans_of(did.stood["begin"], did.stood["end"], rank[: len(stood)], op[: len(stood)] + 1),
            spans_of(flights.begin_ps[aloft], flights.end_ps[aloft], rank[len(stood) :], op[len(stood) :] + 1),
        ]
    )
    return Spans(plane.name, plane, spans, transfers, own)
