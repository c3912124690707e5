"""Ops in the order of what they cost, idle time among them, with their shares of it."""

from __future__ import annotations

from typing import Any

import numpy as np

from fastprof.derive.ops.tables import IDLE, NUMBER_COLUMNS, TEXT_COLUMNS, Ops, OpTable
from fastprof.schema.array_types import Bools, Float64s, Int64s
from fastprof.schema.value_classes import dataclass


@dataclass(frozen=True, slots=True)
class Ranked:
    """Largest self time first, then by name. Shares are from 0 to 1; NaN if there is nothing to share."""

    table: OpTable
    is_idle: Bools
    """The row of idle time, at most one."""
    self_share: Float64s
    """Of all time, idle time included."""
    cumulative_self_share: Float64s
    busy_share: Float64s
    """Of the time of ops; NaN for idle time."""
    cumulative_busy_share: Float64s
    rows: Int64s
    """Of each op its row in the table that was ranked; of idle time the one after the last."""

    def __len__(self) -> int:
        return len(self.table)


def ranked(ops: Ops) -> Ranked:
    """The ops and, if anything was observed, how long none ran."""
    return _ranked(ops, _with_idle(ops) if ops.parts else ops.table)


def by_cost(ops: Ops) -> Ranked:
    """The ops alone, their shares those among all time."""
    return _ranked(ops, ops.table)


def by_self_time(table: OpTable) -> OpTable:
    """Largest self time first, then by name."""
    return table.take(_order(table))


def _order(table: OpTable) -> Int64s:
    self_ps, names = table.self_ps.tolist(), table.name
    return np.array(sorted(range(len(table)), key=lambda row: (-self_ps[row], names[row])), np.int64)


def _ranked(ops: Ops, table: OpTable) -> Ranked:
    idle = len(ops.table)
    order = _order(table)
    table = table.take(order)
    is_idle = order == idle
    share = _share(table.self_ps, ops.shared_ps)
    busy = np.where(is_idle, np.nan, _share(table.self_ps, ops.op_ps))
    running = np.where(is_idle, np.nan, np.cumsum(np.where(is_idle, 0.0, busy)))
    return Ranked(table, is_idle, share, np.cumsum(share), busy, running, order)


def _with_idle(ops: Ops) -> OpTable:
    """The table with a row more."""
    table = ops.table
    columns: dict[str, Any] = {name: [*getattr(table, name), ""] for name in ("name", *TEXT_COLUMNS)}
    columns["name"][-1] = columns["category"][-1] = IDLE
    numbers = {"time_ps": ops.idle_ps, "self_ps": ops.idle_ps, "source_line": -1}
    for name in NUMBER_COLUMNS:
        columns[name] = np.append(getattr(table, name), numbers.get(name, 0))
    return OpTable.of(memory=table.memory, **columns)


def _share(part: Int64s, total: int) -> Float64s:
    return part / float(total) if total > 0 else np.full(len(part), np.nan)
