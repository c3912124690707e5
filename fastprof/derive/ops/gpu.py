"""Sums over the ops of GPUs: time, work, and where the figures of work are from.

attribution.py finds the op that an event belongs to, gpu_ops.py the ops that events name themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from fastprof.decode.plane_kinds import GPU_PLANES
from fastprof.derive.ops.attribution import WAYS, attributed
from fastprof.derive.ops.gpu_ops import GpuOpEvents, described, op_lines
from fastprof.derive.ops.line_times import LineTimes, line_times
from fastprof.derive.ops.stat_values import Numbers, distinct, distinct_rows, stat_beside, stat_places
from fastprof.derive.ops.tables import FROM_CAPTURE, FROM_HLO, HBM, Ops, OpTable, is_work, sums_by
from fastprof.derive.ops.torch_products import with_work_of_calls
from fastprof.derive.ops.work_sources import cost_accesses
from fastprof.hlo.modules import Modules
from fastprof.hlo.work import Cost
from fastprof.schema.array_types import Bools, Float64s, Int32s, Int64s, UInt8s
from fastprof.schema.value_classes import dataclass
from fastprof.tables.event_stats import Stat
from fastprof.tables.host_events import HostEvents, Plane
from fastprof.tables.once import once

PLANES: Final = (GPU_PLANES,)


@once
def op_events(events: HostEvents, modules: Modules) -> GpuOpEvents:
    """The op of each event of a GPU, see attribution.py."""
    return attributed(events, modules)


def device_ops(events: HostEvents, is_eager: UInt8s, modules: Modules) -> list[Ops]:
    """The ops of each GPU, in the order of the planes: every event counts somewhere. ``is_eager``: by row."""
    return [plane_ops(events, is_eager, modules, plane)[0] for plane in events.planes_of("GPU")]


def plane_ops(events: HostEvents, is_eager: UInt8s, modules: Modules, plane: Plane) -> tuple[Ops, LineTimes, Int32s]:
    """The ops of a GPU, its events, and beside these the row of each one's op."""
    found = op_events(events, modules)
    times = line_times(events, op_lines(plane))
    kernels = kernels_of(events, is_eager, times.rows, found)
    line = np.searchsorted([one.last for one in op_lines(plane)], times.rows, side="right")
    table, op = op_table(events, kernels, found, found.device_cost, times.duration_ps, times.self_ps, line)
    table = with_work_of_calls(table, events, found, kernels.rows, op)
    return times.ops(table, times.span_ps), times, op


def plane_events(events: HostEvents, modules: Modules, plane: Plane) -> tuple[LineTimes, Int32s]:
    """The events of a GPU, and the row of each one's op in its ops, which are not summed."""
    times = line_times(events, op_lines(plane))
    return times, distinct(op_events(events, modules).op[times.rows])[1]


@dataclass(frozen=True, slots=True)
class Kernels:
    """The events of a plane that belong to an op, line by line: their rows, the numbers of their ops, whether they are
    eager, and the work that they themselves record, else 0."""

    rows: Int64s
    op: Int32s
    eager: Bools
    flops: Float64s
    bytes: Float64s


def kernels_of(events: HostEvents, is_eager: UInt8s, rows: Numbers, found: GpuOpEvents) -> Kernels:
    """Those of these rows, which all have an op. ``is_eager``: by row of all events."""
    op = found.op[rows]
    flops, moved = (
        np.where(found.is_hlo[op], _recorded(events, stat, rows), 0.0) for stat in ("flops", "bytes_accessed")
    )
    return Kernels(rows.astype(np.int64), op, is_eager[rows] != 0, flops, moved)


def _recorded(events: HostEvents, stat: str, rows: Numbers) -> Float64s:
    """An integer stat of these events, 0 if they have none or one below 0."""
    at, values = events.ints(stat)
    figures: Float64s = np.maximum(stat_beside(at, values, rows, 0), 0).astype(np.float64)
    return figures


def op_table(
    events: HostEvents,
    kernels: Kernels,
    found: GpuOpEvents,
    cost_of: Callable[[int], Cost],
    durations: Int64s,
    self_times: Int64s,
    line: Numbers | None = None,
) -> tuple[OpTable, Int32s]:
    """The ops of these kernels, and the row of each one's op. ``cost_of``: of an op by its number, of one execution.
    ``durations``, ``self_times``: beside the kernels; ``line``: the line of each, to count executions, None: each
    kernel is one."""
    met, op = distinct(kernels.op)
    ops = [found.ops[number] for number in met.tolist()]
    count = len(ops)
    occurrences = np.bincount(op, minlength=count).astype(np.int64)
    costs = [cost_of(number) for number in met.tolist()]
    times = occurrences if line is None else _executions(line, op, events.meta[kernels.rows], count)
    own_flops, own_bytes = (np.bincount(op, work, count) for work in (kernels.flops, kernels.bytes))
    model_flops = _or_recorded([one.model_flops for one in costs], times, own_flops)
    flops = _or_recorded([one.flops for one in costs], times, own_flops)
    moved = _or_recorded([one.bytes_accessed for one in costs], times, own_bytes)
    is_known = np.array([one.is_known for one in costs], bool)
    table = OpTable.of(
        [one.name for one in ops],
        occurrences=occurrences,
        executions=times,
        time_ps=sums_by(op, durations, count),
        self_ps=sums_by(op, self_times, count),
        flops=flops,
        model_flops=np.where(model_flops > 0, model_flops, flops),
        bytes_accessed=moved,
        energy_j=_energy(events, kernels.rows, op, count),
        cores=np.ones(count, np.int32),
        is_eager=np.bincount(op, kernels.eager, count) > 0,
        memory=cost_accesses(enumerate(costs), times, {0: HBM}),
        attribution=_ways(found.way[kernels.rows], op, count),
        unattributed=[one.reason for one in ops],
        flops_source=_source(is_known, own_flops),
        bytes_source=_source(is_known, own_bytes),
        **described(ops),
    )
    return table, op.astype(np.int32)


def _executions(line: Numbers, op: Numbers, name: Numbers, count: int) -> Int64s:
    """How often each of ``count`` ops ran; one execution may launch several kernels. ``line``, ``op``, ``name``: of the
    kernels, as numbers, line after line, in order of time.

    Kernels of one op that follow each other on a line are a run: at least one execution, and as many as the least
    frequent kernel name occurs in it, since an execution may launch a kernel several times. Where an op launches
    kernels of one name only, each counts as an execution.
    """
    if not len(op):
        return np.zeros(count, np.int64)
    starts = np.flatnonzero(np.append(True, (op[1:] != op[:-1]) | (line[1:] != line[:-1])))
    lengths = np.diff(np.append(starts, len(op)))
    times = np.ones(len(starts), np.int64)
    longer = np.flatnonzero(lengths > 1)
    if len(longer):
        times[longer] = _least_frequent(np.repeat(lengths > 1, lengths), lengths[longer], name)
    return np.bincount(op[starts], times, count).astype(np.int64)


def _least_frequent(chosen: Numbers, lengths: Int64s, name: Numbers) -> Int64s:
    """How often the least frequent name of each run occurs in it. ``chosen``: kernels of these runs."""
    run = np.repeat(np.arange(len(lengths)), lengths)
    first, pair = distinct_rows([run, name[chosen]])
    times = np.bincount(pair, minlength=len(first))
    least = lengths.astype(np.int64).copy()
    np.minimum.at(least, run[first], times)
    return least


def _ways(way: UInt8s, op: Numbers, count: int) -> list[str]:
    """How most events of each op are known to be its, in words; of equally frequent ways the first."""
    ways = [*WAYS, ""]  # the last: unknown
    events = np.bincount(op.astype(np.int64) * len(ways) + way, minlength=count * len(ways))
    return [ways[most] for most in events.reshape(count, len(ways)).argmax(axis=1).tolist()]


def _source(is_known: Bools, recorded: npt.NDArray[Any]) -> UInt8s:
    """Where the figures of ops are from: the cost model, else their events."""
    return np.where(is_known, FROM_HLO, np.where(recorded > 0, FROM_CAPTURE, 0)).astype(np.uint8)


def _or_recorded(of_one: list[int], times: Int64s, recorded: npt.NDArray[Any]) -> Float64s:
    """Work of ops by the cost of one execution or, if that is unknown, as their events record it."""
    known = np.array(of_one, np.float64)
    return np.where(known > 0, known * times, recorded)


def _energy(events: HostEvents, rows: Int64s, op: Numbers, ops: int) -> Float64s:
    found = events.stat("vdd_energy_j")
    if not len(found) or not len(rows):
        return np.zeros(ops)
    has, place = stat_places(found.rows, rows)
    recorded = Stat(found.rows[place], found.kind[place], found.value[place]).numbers
    joules = np.zeros(len(rows))
    joules[has] = np.where(is_work(recorded), recorded, 0.0)
    energy: Float64s = np.bincount(op, joules, ops).astype(np.float64)
    return energy
