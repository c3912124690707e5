"""What the devices of a host did, for all analyses that ask: computed once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from fastprof.decode.workers import Workers
from fastprof.derive.communication import gpu_flights, tpu_flights
from fastprof.derive.communication.flights import CoreActivity, Operations
from fastprof.tables.host_events import HostEvents, Plane
from fastprof.tables.once import once

if TYPE_CHECKING:
    from fastprof.hlo.modules import Modules

Activities = tuple[Operations, list[CoreActivity | None]]
"""The operations of the devices, which nobody adds to; and beside the devices what each did, None: it has no ops."""


def of_cores(events: HostEvents, planes: Sequence[Plane], workers: Workers) -> Activities:
    """Of TensorCores and SparseCores, the latter last."""
    count = sum(plane.kind == "TPU" for plane in planes)
    known, found = _of_tensor_cores(events, workers)
    cores = [found[plane.number] for plane in planes[:count]]
    if count == len(planes):
        return known, cores
    operations = known.copy()
    return operations, cores + tpu_flights.activities(events, planes[count:], operations, workers)


@once
def _of_tensor_cores(events: HostEvents, workers: Workers) -> tuple[Operations, dict[int, CoreActivity | None]]:
    """By number of their planes."""
    planes = sorted(events.planes_of("TPU"), key=lambda plane: plane.xplane_id)
    operations = Operations()
    found = tpu_flights.activities(events, planes, operations, workers)
    return operations, {plane.number: did for plane, did in zip(planes, found, strict=True)}


@once
def of_gpus(events: HostEvents, modules: Modules) -> Activities:
    """Of GPUs, in the order of their planes."""
    operations = Operations()
    return operations, gpu_flights.activities(events, events.planes_of("GPU"), modules, operations)
