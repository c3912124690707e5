"""Ops of what XLA compiled for the CPU: events of host threads that name an instruction of a program (``hlo_op``).

The threads of a host are the lines of one device. Where an event lies within another of its thread, as the body of a
loop within the loop, the time is its own. XProf does not show these.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from fastprof.derive.ops.gpu_ops import GpuOp, described, described_by_programs, instruction_keys
from fastprof.derive.ops.line_times import LineTimes, line_times
from fastprof.derive.ops.tables import Ops, OpTable, summed_by, sums_by
from fastprof.derive.ops.work_sources import with_work_of_programs
from fastprof.hlo.modules import Modules
from fastprof.hlo.work import GENERAL, NOTHING
from fastprof.schema.array_types import Int32s
from fastprof.tables.host_events import HostEvents, Plane

EVENT_STATS: Final = ("hlo_op", "program_id")


def _rows(events: HostEvents, plane: Plane) -> Int32s:
    """The plane's events that name an instruction."""
    at, _ = events.texts("hlo_op")
    return at[slice(*np.searchsorted(at, [plane.first, plane.last]).tolist())]


def plane_ops(events: HostEvents, modules: Modules, plane: Plane) -> tuple[Ops, LineTimes, Int32s]:
    """The ops that a host's threads ran, their events, and beside these the row of each one's op."""
    times = line_times(events, plane.lines, _rows(events, plane))
    keys, op = instruction_keys(events, times.rows)
    found = described_by_programs(keys, modules, GENERAL)
    ops = [one or GpuOp(*key, "", "", NOTHING) for key, one in zip(keys, found, strict=True)]
    time = summed_by(op, times.duration_ps, len(keys))
    table = OpTable.of(
        [name for _, name in keys],
        occurrences=time["count"].copy(),
        time_ps=time["total"].copy(),
        min_ps=time["minimum"].copy(),
        self_ps=sums_by(op, times.self_ps, len(keys)),
        cores=np.ones(len(keys), np.int32),
        **described(ops),
    )
    return times.ops(with_work_of_programs(table, modules), times.span_ps), times, op
