"""GPU ops as XProf counts them: kernels whose op their own stats name, each of them an execution.

Consecutive kernels on a line, in one group and of instructions of one name, count for the program of the first, even if
they are of others; and the work that such a run's last kernel records is that of each of its kernels. The total is the
span, or the time of all ops if that is more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from fastprof.derive.ops.gpu_attribution import AttributedKernels, build_gpu_op_table, select_op_kernels
from fastprof.derive.ops.gpu_ops import GpuOpEvents, find_named_op_events, list_op_lines
from fastprof.derive.ops.line_times import list_line_spans, measure_span
from fastprof.derive.ops.op_table import Ops
from fastprof.schema.columns import number_distinct, number_owners, sum_exactly

if TYPE_CHECKING:
    from fastprof.derive.steps.grouping import Groups
    from fastprof.hlo.programs import Modules
    from fastprof.schema.columns import Float64s, Int64s
    from fastprof.tables.host_events import HostEvents, Line


def list_gpu_ops(events: HostEvents, groups: Groups, modules: Modules) -> list[Ops]:
    """List the ops of each GPU, in the order of the planes."""
    op_events = find_named_op_events(events, modules)
    costs = [replace(op.cost, elsewhere=()) for op in op_events.ops]
    ops = []
    for plane in events.planes_of("GPU"):
        lines = list_op_lines(plane)
        rows = np.concatenate([np.arange(line.first, line.last) for line in lines] or [np.empty(0, np.int64)])
        kernels = select_op_kernels(events, groups.is_eager, rows[op_events.op[rows] >= 0], op_events)
        kernels = _join_runs(kernels, groups, lines, op_events)
        times = np.maximum(events.duration_ps[kernels.rows], 0)
        table, _ = build_gpu_op_table(events, kernels, op_events, costs.__getitem__, times, times)
        op_ps = sum_exactly(table.self_ps)
        span = measure_span(events, plane, list_line_spans(events, lines))
        ops.append(Ops(table, total_ps=max(op_ps, span), op_ps=op_ps))
    return ops


def _join_runs(
    kernels: AttributedKernels, groups: Groups, lines: Sequence[Line], op_events: GpuOpEvents
) -> AttributedKernels:
    """Return the kernels with the ops and the work of their runs."""
    count = len(kernels.rows)
    if not count:
        return kernels
    names: dict[str, int] = {}
    met, place_of_op = number_distinct(kernels.op)
    name_of_op = np.array(
        [names.setdefault(op_events.ops[number].name, len(names)) for number in met.tolist()], np.int64
    )
    name, group = name_of_op[place_of_op], groups.group_id[kernels.rows]
    line = np.searchsorted([own_line.last for own_line in lines], kernels.rows, side="right")
    is_hlo = op_events.is_hlo[kernels.op]
    same = (name[1:] == name[:-1]) & (line[1:] == line[:-1]) & (group[1:] == group[:-1]) & (group[1:] >= 0)
    starts = np.flatnonzero(np.append(True, ~(same & is_hlo[1:] & is_hlo[:-1])))
    run = number_owners(np.diff(np.append(starts, count)))
    flops, moved = (_find_last_recorded(work, starts)[run] for work in (kernels.flops, kernels.bytes))
    op = kernels.op[starts][run]
    _, first, place = np.unique(op, return_index=True, return_inverse=True)
    return AttributedKernels(kernels.rows, op, kernels.eager[first][place], flops, moved)


def _find_last_recorded(work: Float64s, starts: Int64s) -> Float64s:
    """Return the last figure of each run that is not 0, or 0."""
    last = np.maximum.accumulate(np.where(work != 0, np.arange(len(work)), -1))
    last = last[np.append(starts[1:], len(work)) - 1]
    return np.where(last >= starts, work[last], 0.0)
