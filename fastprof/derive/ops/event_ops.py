"""The op of each event of one device: for analyses that look at when ops ran, not only for how long."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fastprof.derive.devices.device_events import op_events
from fastprof.derive.ops import cpu, tpu
from fastprof.derive.ops.line_times import LineTimes
from fastprof.derive.ops.tables import OpTable
from fastprof.schema.array_types import Int32s, Int64s

if TYPE_CHECKING:
    from fastprof.derive.ops.device_ops import OpHost
    from fastprof.tables.host_events import HostEvents, Plane


@dataclass(frozen=True, slots=True)
class EventOps:
    """Events of the lines of ops of a device, line by line, in order of time."""

    events: HostEvents
    """What ``rows`` are rows of."""
    rows: Int32s
    op: Int32s
    """Row of each event's op in ``table``; -1: it is none, as events of TPUs that do not say which instruction ran."""
    start_ps: Int64s
    duration_ps: Int64s
    """On the device's clock where it has one; never negative."""
    self_ps: Int64s
    """Duration less the union of the events nested in it."""
    table: OpTable
    """Of this device only; work is that which the capture tells."""


def device_event_ops(host: OpHost, plane: Plane) -> EventOps:
    """``plane``: a TensorCore or SparseCore of a TPU, a GPU, or the threads of a host that has neither; of ``raw`` or
    ``events`` of the host. What has no ops has no events here either."""
    if plane.kind in ("TPU", "SPARSECORE"):
        mine = host.raw.planes[plane.number]
        found = op_events(host.raw, mine)
        table, op = tpu.plane_table(host.raw, mine)
        return EventOps(host.raw, found.rows, op, found.start_ps, found.duration_ps, found.self_ps, table)
    if plane.kind == "GPU":
        from fastprof.derive.ops import gpu  # it takes long to import

        events = host.events
        ops, times, op = gpu.plane_ops(events, host.is_eager, host.modules, events.planes[plane.number])
        return _of_lines(events, times, op, ops.table)
    if plane.kind == "CPU":
        ops, times, op = cpu.plane_ops(host.raw, host.modules, host.raw.planes[plane.number])
        return _of_lines(host.raw, times, op, ops.table)
    none = np.empty(0, np.int64)
    return EventOps(host.raw, np.empty(0, np.int32), np.empty(0, np.int32), none, none, none, OpTable.empty())


def _of_lines(events: HostEvents, times: LineTimes, op: Int32s, table: OpTable) -> EventOps:
    return EventOps(events, times.rows, op, times.start_ps, times.duration_ps, times.self_ps, table)
