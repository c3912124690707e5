"""The work of device ops by the step that they ran in.

Ops whose work is that of ops within (op_marks.is_container) add nothing of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from fastprof.derive.devices.device_events import OpEvents, op_events
from fastprof.derive.ops import cpu, tpu
from fastprof.derive.ops.combine import merged
from fastprof.derive.ops.device_ops import device_planes
from fastprof.derive.ops.line_times import LineTimes
from fastprof.derive.ops.op_marks import is_container
from fastprof.derive.ops.roofline import divided
from fastprof.derive.ops.tables import (
    CMEM,
    HBM,
    OTHER_SPACES,
    READ,
    VMEM,
    WRITE,
    MemoryAccess,
    OpTable,
    sums_by,
)
from fastprof.schema.array_types import Bools, Float64s, Int32s, Int64s, UInt8s
from fastprof.schema.value_classes import dataclass

if TYPE_CHECKING:
    from fastprof.derive.ops.device_ops import OpHost
    from fastprof.derive.steps.grouping import Groups
    from fastprof.tables.host_events import HostEvents, Plane

FEEDS: Final = ("infeed", "outfeed")

WHOLE: Final = "Program"
"""Name of a row that stands for more than an op."""

SILENT: Final = 255
"""Direction of memory accesses of ops that do not record their memories: they count as HBM's."""

_KINDS: Final = (
    *((operation, space) for space in (HBM, CMEM, VMEM) for operation in (0, READ, WRITE)),
    (0, OTHER_SPACES),
    (SILENT, HBM),
)
"""Directions and spaces of the memory accesses of sums. A capture may number any amount of other memories, whose sums
are not shown: they are one kind."""
_ELSEWHERE: Final = len(_KINDS) - 2


def is_feed(table: OpTable) -> Bools:
    """Ops that wait for the host to send or take data: of categories like infeed and host outfeed."""
    return np.array([any(feed in category for feed in FEEDS) for category in table.category], bool)


@dataclass(frozen=True, slots=True, eq=False)
class StepOps:
    """What the devices of one host did in each of its groups: a row of a table a group, ``feeds`` of infeed and outfeed
    alone, ``others`` of all else. Time is the sum of durations, self time that of self times."""

    group: Int64s
    others: OpTable
    feeds: OpTable


@dataclass(frozen=True, slots=True, eq=False)
class _Events:
    """Events of one device: the row of each one's op in ``table``, and its group."""

    table: OpTable
    op: Int64s
    group: Int64s
    duration_ps: Int64s
    self_ps: Int64s


def step_ops(host: OpHost, groups: Groups, tables: Sequence[OpTable] | None = None) -> StepOps:
    """What the devices of a host did by these groups of its events. ``tables``: of each device, in the order of its
    planes, the ops with the work that counts; None: only what the capture itself records."""
    planes = device_planes(host.raw)
    worked: Sequence[OpTable | None] = [None] * len(planes) if tables is None else tables
    parts = [_of_device(host, plane, groups, table) for plane, table in zip(planes, worked, strict=True)]
    return _summed(parts, groups.count)


def event_ops(
    host: OpHost, plane: Plane, known: OpTable | None = None
) -> tuple[HostEvents, OpEvents | LineTimes, Int32s, OpTable]:
    """The events that a device's ops ran as: the events of the host that they are rows of, their times, the row of each
    one's op in the ops of this device, -1: none, and these ops. ``known``: these ops, None: they are summed."""
    if plane.kind == "TPU":
        table, op = tpu.plane_table(host.raw, plane)
        return host.raw, op_events(host.raw, plane), op, table if known is None else known
    if plane.kind == "GPU":
        from fastprof.derive.ops import gpu  # it takes long to import

        events = host.events
        own = events.planes[plane.number]
        if known is not None:
            return events, *gpu.plane_events(events, host.modules, own), known
        ops, times, op = gpu.plane_ops(events, host.is_eager, host.modules, own)
        return events, times, op, ops.table
    ops, times, op = cpu.plane_ops(host.raw, host.modules, plane)
    return host.raw, times, op, ops.table if known is None else known


def _of_device(host: OpHost, plane: Plane, groups: Groups, table: OpTable | None) -> _Events:
    events, times, op, ops = event_ops(host, plane, table)
    numbered = groups.events.planes[plane.number]  # grouping may have added events to other planes
    group = groups.group_id[times.rows - events.planes[plane.number].first + numbered.first]
    used = np.flatnonzero((op >= 0) & (group >= 0))
    return _Events(
        ops,
        op[used].astype(np.int64),
        group[used].astype(np.int64),
        times.duration_ps[used],
        times.self_ps[used],
    )


def _summed(parts: Sequence[_Events], count: int) -> StepOps:
    """``count``: how many groups there may be."""
    met = np.zeros(count, bool)
    for part in parts:
        met[part.group] = True
    group = np.flatnonzero(met).astype(np.int64)
    place = np.cumsum(met) - 1
    keys = [(0, str(one)) for one in group.tolist()]
    met_by = [np.unique(part.group) for part in parts]
    row = np.concatenate([place[one] for one in met_by]) if parts else group
    sides = []
    for feeds in (False, True):
        tables = [_by_group(part, is_feed(part.table) == feeds, own) for part, own in zip(parts, met_by, strict=True)]
        sides.append(merged(tables, row, keys) if tables else OpTable.empty())
    return StepOps(group, sides[0], sides[1])


def _by_group(part: _Events, chosen: Bools, met: Int64s) -> OpTable:
    """What the chosen ops of a device did in each of these groups, which are all that it ran in: a device has no rows
    for the steps of others."""
    mine, count, table = chosen[part.op], len(met), part.table
    sources = {name: np.full(count, getattr(table, name).max(initial=0)) for name in ("flops_source", "bytes_source")}
    if not mine.any():
        return OpTable.of([""] * count, **sources)
    op, row = part.op[mine], np.searchsorted(met, part.group[mine])
    share = np.where(is_container(table), 0.0, divided(np.ones(len(table)), table.occurrences))

    def summed(amount: Float64s) -> Float64s:
        if not amount.any():  # devices have few of the kinds of memory
            return np.zeros(count)
        return np.bincount(row, (amount * share)[op], count).astype(np.float64)

    return OpTable.of(
        [""] * count,
        occurrences=np.bincount(row, minlength=count),
        time_ps=sums_by(row, part.duration_ps[mine], count),
        self_ps=sums_by(row, part.self_ps[mine], count),
        **sources,
        **_work(table, summed),
    )


def _work(table: OpTable, summed: Callable[[Float64s], Float64s]) -> dict[str, Any]:
    """The columns of work. ``summed``: the sums of a figure of the ops by row."""
    columns: dict[str, Any] = {
        name: summed(getattr(table, name)) for name in ("flops", "model_flops", "bytes_accessed")
    }
    return columns | {"memory": _memory([summed(size) for size in _by_access(table)])}


def _kinds(memory: MemoryAccess) -> Int64s:
    """By access its place in _KINDS."""
    place = np.full(len(memory.row), _ELSEWHERE, np.int64)
    for at, (operation, space) in enumerate(_KINDS[:_ELSEWHERE]):
        place[(memory.operation == operation) & (memory.space == space)] = at
    return place


def _by_access(table: OpTable) -> list[Float64s]:
    """Bytes of each op by kind of access, as in _KINDS."""
    memory, kind, count = table.memory, _kinds(table.memory), len(_KINDS) - 1
    cells = np.bincount(memory.row.astype(np.int64) * count + kind, memory.bytes, len(table) * count)
    by_op = cells.astype(np.float64).reshape(len(table), count)
    return [*by_op.T, np.where(table.has_breakdown(), 0.0, table.bytes_accessed)]


def _memory(sizes: Sequence[Float64s]) -> MemoryAccess:
    rows = [np.flatnonzero(size) for size in sizes]
    lengths = [len(one) for one in rows]
    return MemoryAccess(
        np.concatenate(rows).astype(np.int32),
        np.repeat(np.array([operation for operation, _ in _KINDS], np.uint8), lengths),
        np.repeat(np.array([space for _, space in _KINDS], np.int64), lengths),
        np.concatenate([size[one] for size, one in zip(sizes, rows, strict=True)]),
    )


def sums_of_work(ops: OpTable, chosen: Bools, row: Int64s, count: int) -> OpTable:
    """The work of the chosen ops as ``count`` rows, whose times are 0; ``row``: that of each op."""
    used = np.flatnonzero(chosen & ~is_container(ops)).astype(np.int64)
    table, row = ops.take(used), row[used]

    def source(codes: UInt8s) -> UInt8s:
        most = np.zeros(count, np.uint8)
        np.maximum.at(most, row, codes)
        return most

    return OpTable.of(
        [WHOLE] * count,
        flops_source=source(table.flops_source),
        bytes_source=source(table.bytes_source),
        **_work(table, lambda amount: np.bincount(row, amount, count).astype(np.float64)),
    )
