"""What the ops of GPUs add up to: time, work, and who says so.

Which op an event belongs to is told in attribution.py; ops that XProf counts in gpu_ops.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from fastprof.derive.ops.attribution import WAYS, attributed
from fastprof.derive.ops.executions import executions
from fastprof.derive.ops.gpu_ops import GpuOpEvents, Numbers, distinct, named_op_events, op_lines, stat_places
from fastprof.derive.ops.gpu_stats import EVENT_STATS as EVENT_STATS
from fastprof.derive.ops.line_times import LineTimes, line_times
from fastprof.derive.ops.tables import (
    FROM_CAPTURE,
    FROM_HLO,
    HBM,
    OTHER_SPACES,
    READ,
    WRITE,
    MemoryAccess,
    Ops,
    OpTable,
    exact_sum,
    is_work,
    span_ps,
    sums_by,
)
from fastprof.hlo.cost import Cost
from fastprof.hlo.modules import Modules
from fastprof.schema.array_types import Float64s, Int32s, Int64s
from fastprof.tables.host_events import HostEvents, Line, Plane, Stat

if TYPE_CHECKING:
    from fastprof.derive.steps.grouping import Groups

PLANES: Final = (r"^/device:GPU:",)


def op_events(events: HostEvents, modules: Modules) -> GpuOpEvents:
    """The op of each event of a GPU, see attribution.py: once, several analyses ask for them."""
    if _ATTRIBUTED not in events.kept:
        events.kept[_ATTRIBUTED] = attributed(events, modules)
    found: GpuOpEvents = events.kept[_ATTRIBUTED]
    return found


_ATTRIBUTED: Final = "attributed ops of GPUs"


def device_ops(events: HostEvents, groups: Groups, modules: Modules) -> list[Ops]:
    """The ops of each GPU, in the order of the planes: every event counts somewhere."""
    return [plane_ops(events, groups, modules, plane)[0] for plane in events.planes_of("GPU")]


def plane_ops(events: HostEvents, groups: Groups, modules: Modules, plane: Plane) -> tuple[Ops, LineTimes, Int32s]:
    """The ops of a GPU, its events, and beside these the row of each one's op."""
    found = op_events(events, modules)
    times = line_times(events, op_lines(plane))
    kernels = _kernels_of(events, groups, times.rows, found)
    line = np.searchsorted([one.last for one in op_lines(plane)], times.rows, side="right")
    table, op = _op_table(events, kernels, found, times.duration_ps, times.self_ps, line)
    return times.ops(table, times.span_ps), times, op


def xprof_device_ops(events: HostEvents, groups: Groups, modules: Modules) -> list[Ops]:
    """The same as XProf counts them: kernels whose op their own stats name. To it kernels that follow each other on a
    line, in one group and of instructions of one name, are of the first one's program, even where they are of others;
    and the work that such a run's last kernel tells of is that of each of its kernels. Its total is the span, or the
    time of all ops where that is more."""
    found = named_op_events(events, modules)
    ops = []
    for plane in events.planes_of("GPU"):
        lines = op_lines(plane)
        kernels = _in_runs(_kernels(events, groups, lines, found), groups, lines, found)
        times = np.maximum(events.duration_ps[kernels.rows], 0)
        table, _ = _op_table(events, kernels, found, times, times)
        op_ps = exact_sum(table.self_ps)
        ops.append(Ops(table, total_ps=max(op_ps, _span_ps(events, lines)), op_ps=op_ps))
    return ops


@dataclass(frozen=True, slots=True)
class _Kernels:
    """The events of a plane that belong to an op, line by line: their rows, the numbers of their ops, whether they are
    eager, and the work that they themselves tell of, 0 where they do not."""

    rows: Int64s
    op: Int32s
    eager: npt.NDArray[np.bool_]
    flops: Float64s
    bytes: Float64s


def _kernels(events: HostEvents, groups: Groups, lines: list[Line], found: GpuOpEvents) -> _Kernels:
    rows = np.concatenate([np.arange(line.first, line.last) for line in lines] or [np.empty(0, np.int64)])
    return _kernels_of(events, groups, rows[found.op[rows] >= 0], found)


def _kernels_of(events: HostEvents, groups: Groups, rows: Numbers, found: GpuOpEvents) -> _Kernels:
    op = found.op[rows]
    flops, moved = (np.where(found.is_hlo[op], _told(events, stat, rows), 0.0) for stat in ("flops", "bytes_accessed"))
    return _Kernels(rows.astype(np.int64), op, groups.is_eager[rows] != 0, flops, moved)


def _told(events: HostEvents, stat: str, rows: Numbers) -> Float64s:
    """An integer stat of these events, 0 where they have none, or one below 0."""
    at, values = events.ints(stat)
    has, place = stat_places(at, rows)
    told = np.zeros(len(rows))
    told[has] = np.maximum(values[place], 0)
    return told


def _in_runs(kernels: _Kernels, groups: Groups, lines: list[Line], found: GpuOpEvents) -> _Kernels:
    """The same as XProf counts them, see ``xprof_device_ops``."""
    count = len(kernels.rows)
    if not count:
        return kernels
    names: dict[str, int] = {}
    met, place_of_op = distinct(kernels.op)
    name_of_op = np.array([names.setdefault(found.ops[one].name, len(names)) for one in met.tolist()], np.int64)
    name, group = name_of_op[place_of_op], groups.group_id[kernels.rows]
    line = np.searchsorted([one.last for one in lines], kernels.rows, side="right")
    is_hlo = found.is_hlo[kernels.op]
    same = (name[1:] == name[:-1]) & (line[1:] == line[:-1]) & (group[1:] == group[:-1]) & (group[1:] >= 0)
    starts = np.flatnonzero(np.append(True, ~(same & is_hlo[1:] & is_hlo[:-1])))
    run = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, count)))
    flops, moved = (_last_told(told, starts)[run] for told in (kernels.flops, kernels.bytes))
    op = kernels.op[starts][run]
    _, first, place = np.unique(op, return_index=True, return_inverse=True)
    return _Kernels(kernels.rows, op, kernels.eager[first][place], flops, moved)


def _last_told(told: Float64s, starts: Int64s) -> Float64s:
    """The last figure of each run that is not 0; 0 where there is none."""
    last = np.maximum.accumulate(np.where(told != 0, np.arange(len(told)), -1))
    last = last[np.append(starts[1:], len(told)) - 1]
    return np.where(last >= starts, told[last], 0.0)


def _op_table(
    events: HostEvents,
    kernels: _Kernels,
    found: GpuOpEvents,
    durations: Int64s,
    self_times: Int64s,
    line: Numbers | None = None,
) -> tuple[OpTable, Int32s]:
    """The ops of these kernels, and the row of each one's op. ``durations``, ``self_times``: beside the kernels.
    ``line``: the line of each, to count executions, whose work it is; None: the work of ops is that of each kernel, and
    as XLA's model tells it."""
    met, op = distinct(kernels.op)
    ops = [found.ops[number] for number in met.tolist()]
    count = len(ops)
    occurrences = np.bincount(op, minlength=count).astype(np.int64)
    costs = [one.cost if line is None else one.device_cost for one in ops]
    times = occurrences if line is None else executions(line, op, events.meta[kernels.rows], count)
    told_flops, told_bytes = (np.bincount(op, told, count) for told in (kernels.flops, kernels.bytes))
    model_flops = _or_told([one.model_flops for one in costs], times, told_flops)
    flops = _or_told([one.flops for one in costs], times, told_flops)
    moved = _or_told([one.bytes_accessed for one in costs], times, told_bytes)
    is_known = np.array([one.is_known for one in costs], bool)
    table = OpTable.of(
        [one.name for one in ops],
        program_id=[one.program_id for one in ops],
        category=[one.category for one in ops],
        provenance=[one.provenance for one in ops],
        long_name=[one.long_name for one in ops],
        deduplicated_name=[one.deduplicated_name for one in ops],
        source_file=[one.source[0] for one in ops],
        source_line=[one.source[1] for one in ops],
        source_stack=[one.source[2] for one in ops],
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
        memory=_memory(costs, times, with_others=line is not None),
        attribution=_ways(found.way[kernels.rows], op, count),
        unattributed=[one.reason for one in ops],
        flops_source=_source(is_known, told_flops),
        bytes_source=_source(is_known, told_bytes),
    )
    return table, op.astype(np.int32)


def _ways(way: npt.NDArray[np.uint8], op: Numbers, count: int) -> list[str]:
    """In words, how most events of each op lead to it; of equally many ways the one that counts first."""
    ways = [*WAYS, ""]  # the last: none does
    events = np.bincount(op.astype(np.int64) * len(ways) + way, minlength=count * len(ways))
    return [ways[most] for most in events.reshape(count, len(ways)).argmax(axis=1).tolist()]


def _source(is_known: npt.NDArray[np.bool_], told: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    """Where the figures of ops are from: the cost model's come first, those of events where it does not know."""
    return np.where(is_known, FROM_HLO, np.where(told > 0, FROM_CAPTURE, 0)).astype(np.uint8)


def _or_told(of_one: list[int], times: Int64s, told: npt.NDArray[Any]) -> Float64s:
    """Work of ops by the cost of one execution or, where that tells nothing, by what their events say."""
    known = np.array(of_one, np.float64)
    return np.where(known > 0, known * times, told)


def _memory(costs: list[Cost], times: Int64s, *, with_others: bool) -> MemoryAccess:
    """Bytes to and from HBM, of ops that the cost model knows them of; and to and from other memories, if wanted."""
    found: list[tuple[int, int, int, float]] = []
    for i, (one, count) in enumerate(zip(costs, times.tolist(), strict=True)):
        others = one.elsewhere if with_others else ()
        for space, read, written in ((0, one.hbm_read_bytes, one.hbm_write_bytes), *others):
            code = OTHER_SPACES + space if space else HBM
            found += [(i, way, code, float(size) * count) for way, size in ((READ, read), (WRITE, written)) if size > 0]
    rows, ways, codes, sizes = zip(*found, strict=True) if found else ((), (), (), ())
    return MemoryAccess(
        np.array(rows, np.int32), np.array(ways, np.uint8), np.array(codes, np.int64), np.array(sizes, np.float64)
    )


def _energy(events: HostEvents, rows: Int64s, op: Numbers, ops: int) -> Float64s:
    found = events.stat("vdd_energy_j")
    if not len(found) or not len(rows):
        return np.zeros(ops)
    has, place = stat_places(found.rows, rows)
    told = Stat(found.rows[place], found.kind[place], found.value[place]).numbers
    joules = np.zeros(len(rows))
    joules[has] = np.where(is_work(told), told, 0.0)
    energy: Float64s = np.bincount(op, joules, ops).astype(np.float64)
    return energy


def _span_ps(events: HostEvents, lines: list[Line]) -> int:
    """From the first begin to the last end of all events, of which negative durations count as 0."""
    if not lines:
        return 0
    begin = min(int(events.start_ps[line.first : line.last].min()) for line in lines)
    end = max(_last_end(events, line) for line in lines)
    return span_ps(events.host, lines[0].plane.name, begin, end)


def _last_end(events: HostEvents, line: Line) -> int:
    start = events.start_ps[line.first : line.last]
    duration = np.maximum(events.duration_ps[line.first : line.last], 0)
    if int(start.max()) + int(duration.max()) < 2**63:
        return int((start + duration).max())
    ends: list[int] = [a + b for a, b in zip(start.tolist(), duration.tolist(), strict=True)]
    return max(ends)
