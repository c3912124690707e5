"""Ops of SparseCores as XProf counts them: those that ran for the first occurrence of an op, and the time between."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from fastprof.derive.ops import sparse_core
from fastprof.derive.ops.sparse_core import Offloaded, Rules, lies_within
from fastprof.derive.ops.tables import IDLE, Ops, OpTable, sums_by

if TYPE_CHECKING:
    from fastprof.derive.devices.device_events import OpEvents
    from fastprof.schema.array_types import Int32s, Int64s
    from fastprof.tables.host_events import HostEvents, Plane


def with_sparse_cores(events: HostEvents, planes: Sequence[Plane], ops: Sequence[Ops]) -> list[Ops]:
    """The ops of TensorCores, with those that SparseCores ran on their behalf as children."""
    return sparse_core.with_sparse_cores(events, planes, ops, _RULES)


def _first_open(found: OpEvents, begin: Int64s, end: Int64s) -> Int64s:
    """XProf looks only at the first module that ends no sooner than the event begins: what begins when one ends and the
    next begins is in none."""
    order = np.argsort(begin, kind="stable")
    place = np.searchsorted(np.maximum.accumulate(end[order]), found.start_ps, side="left")
    place[place == len(order)] = -1
    return lies_within(found, begin, end, order, place)


def _firsts(op: Int32s) -> Int32s:
    """-1 of all but the first event of each op."""
    known = np.flatnonzero(op >= 0)
    _, first = np.unique(op[known], return_index=True)
    firsts = np.full(len(op), -1, op.dtype)
    firsts[known[first]] = op[known[first]]
    return firsts


def _idle(one: Offloaded, parent_of_key: Int64s) -> tuple[OpTable, Int64s]:
    """The time of modules in which none of their ops ran: a row for each parent, and its parent."""
    ran = sums_by(one.key, one.self_ps, len(parent_of_key)).tolist()
    idle: dict[int, int] = {}
    for key, time in one.module_ps.items():
        parent = int(parent_of_key[key])
        if parent >= 0:
            idle[parent] = idle.get(parent, 0) + time - ran[key]
    count, times = len(idle), list(idle.values())
    table = OpTable.of([IDLE] * count, category=[IDLE] * count, time_ps=times, self_ps=times)
    return table, np.array(list(idle), np.int64)


_RULES: Final = Rules(_first_open, lambda found: found.self_less_sums(), _firsts, _idle)
