"""Ops by what they have in common: how many, how long, how much work; the largest self time first."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

from fastprof.derive.ops.ceilings import known_bytes, known_flops
from fastprof.derive.ops.hlo_columns import per_s
from fastprof.derive.ops.op_columns import Columns, known
from fastprof.derive.ops.tables import Ops, OpTable, sums_by
from fastprof.derive.ops.transfers import once
from fastprof.schema.array_types import Float64s, Int64s

K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True, slots=True, eq=False)
class Grouped(Generic[K]):
    """``keys``: of the groups, largest self time first, then as they are met; ``group``: of each op, the place of its
    group."""

    keys: list[K]
    group: Int64s
    table: OpTable
    shared_ps: int
    op_ps: int

    def times(self) -> Columns:
        """How many ops, how often and how long."""
        count = len(self.keys)
        self_ps = self.sums(self.table.self_ps)
        return {
            "op_count": np.bincount(self.group, minlength=count),
            "occurrences": self.sums(self.table.occurrences),
            "executions": self.sums(self.table.executions),
            "self_ps": self_ps,
            "self_share": _share(self_ps, self.shared_ps),
            "busy_share": _share(self_ps, self.op_ps),
        }

    def sums(self, values: Int64s) -> Int64s:
        return sums_by(self.group, values, len(self.keys))

    def work(self) -> Columns:
        """Of the ops whose work is known."""
        flops_known, bytes_known = known_flops(self.table), known_bytes(self.table)
        columns: Columns = {}
        moved = once(self.table).bytes_accessed
        for column, rate, recorded, amount in (
            ("flops", "flops_per_s", flops_known, self.table.flops),
            ("accessed_bytes", "bytes_per_s", bytes_known, moved),
        ):
            sums = self.known_sums(amount, recorded)
            columns[column] = known(sums)
            columns[rate] = per_s(sums, self.sums(np.where(recorded, self.table.self_ps, 0)))
        unknown = ~(flops_known | bytes_known)
        return columns | {"unknown_work_ps": self.sums(np.where(unknown, self.table.self_ps, 0))}

    def known_sums(self, amount: Float64s, recorded: npt.NDArray[np.bool_]) -> Float64s:
        """NaN for groups in which it is known of no op."""
        count = len(self.keys)
        sums = np.bincount(self.group, np.where(recorded, amount, 0.0), count)
        return np.where(np.bincount(self.group, recorded, count) > 0, sums, np.nan)


def grouped(ops: Ops, keys: Sequence[K]) -> Grouped[K]:
    """``keys``: of each op that of its group."""
    table = ops.table
    met: dict[K, int] = {}
    place = np.array([met.setdefault(key, len(met)) for key in keys], np.int64)
    self_ps = sums_by(place, table.self_ps, len(met))
    order = np.argsort(-self_ps, kind="stable")
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    names = list(met)
    return Grouped([names[one] for one in order.tolist()], rank[place], table, ops.shared_ps, ops.op_ps)


def _share(part: Int64s, whole: int) -> object:
    return known(part / whole if whole > 0 else np.full(len(part), np.nan))
