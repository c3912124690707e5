"""Shares of op time: of ops executed eagerly, of ops left to the host, of the largest ops."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from fastprof.derive.ops.op_marks import is_outside_compilation
from fastprof.derive.ops.tables import OpTable

CONTAINERS: Final = ("call", "conditional", "while", "megacore fusion")
"""Categories of ops whose work is that of ops within."""


def by_self_time(table: OpTable) -> OpTable:
    """Largest self time first, then by name."""
    self_ps, name = table.self_ps.tolist(), table.name
    order = sorted(range(len(table)), key=lambda row: (-self_ps[row], name[row]))
    return table.take(np.array(order, np.int64))


def occurrences(table: OpTable) -> int:
    return int(table.occurrences.sum())


def eager_percent(table: OpTable) -> float | None:
    """Self time of ops executed eagerly, in percent of all; None: there is none."""
    return _percent(table, table.is_eager)


def outside_compilation_percent(table: OpTable) -> float | None:
    """Self time of device ops that serve what runs on the host instead, in percent of all; None: there is none."""
    return _percent(table, is_outside_compilation(table))


def _percent(table: OpTable, chosen: npt.NDArray[np.bool_]) -> float | None:
    whole = int(table.self_ps.sum())
    return 100.0 * int(table.self_ps[chosen].sum()) / whole if whole else None
