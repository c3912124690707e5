"""What each node of a tree of ops cost: times and work summed over the ops below it, and how well they used the device.

Times are self times, so that each part of a tree is the sum of its parts. The work of an op that others are nested in
is theirs, and counts for them alone; bytes that both the start and the end of a transfer record count once.
Utilization is work / self time / peak of one core. It is unknown for nodes that only start and await transfers, and if
the work of more than 10 % of the time is unknown; ``work_known_ps`` is the time of ops with known work.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from fastprof.derive.ops.ceilings import MOST_UNKNOWN, Ceiling, against, ceilings, known_bytes, known_flops, unknown
from fastprof.derive.ops.roofline import moved_bytes
from fastprof.derive.ops.transfers import once, waits
from fastprof.schema.array_types import Bools, Float64s, Int64s
from fastprof.schema.value_classes import dataclass

if TYPE_CHECKING:
    from fastprof.derive.devices.devices import Peaks
    from fastprof.derive.ops.tables import OpTable
    from fastprof.derive.ops.tree.op_trees import Growth


COMPUTE: Final = "compute"
"""The column of ceilings that is arithmetic; the others are memories."""


@dataclass(frozen=True, slots=True, eq=False)
class Figures:
    """What ops add to the nodes above them, or what nodes have: the sums over the ops below them."""

    whole: dict[str, Int64s]
    """Times, and counts of ops."""
    work: dict[str, Float64s]
    """flops, model_flops, bytes and, by column, bytes of memories. Unknown is 0 of ops, and NaN of nodes."""
    beneath: list[Ceiling]

    @classmethod
    def of(cls, table: OpTable, peaks: Peaks | None) -> Figures:
        """Of each op."""
        lost = against(table, beneath := ceilings(peaks)).lost_ps
        waiting, (flops_unknown, bytes_unknown) = waits(table), unknown(table)
        table = once(table)
        counted = table.time_ps <= table.self_ps  # no others are nested in it, as in loops and calls
        flops, moved = known_flops(table) & counted, known_bytes(table) & counted
        lost_known = ~np.isnan(lost) & counted
        whole = {
            "self_ps": table.self_ps,
            "occurrences": table.occurrences,
            "executions": table.executions,
            "op_ps": table.self_ps,
            "waits": waiting.astype(np.int64),
            "flops_unknown_ps": np.where(flops_unknown, table.self_ps, 0),
            "bytes_unknown_ps": np.where(bytes_unknown, table.self_ps, 0),
            "ops": np.ones(len(table), np.int64),
            "flops_known": flops.astype(np.int64),
            "bytes_known": moved.astype(np.int64),
            "lost_known": lost_known.astype(np.int64),
            "work_known_ps": np.where(flops & moved, table.self_ps, 0),
            "lost_ps": np.where(lost_known, np.minimum(np.nan_to_num(lost), table.self_ps), 0).astype(np.int64),
        }
        work = {name: np.where(flops, getattr(table, name), 0.0) for name in ("flops", "model_flops")}
        work["bytes"] = np.where(moved, table.bytes_accessed, 0.0)
        work |= {name: np.where(moved, size, 0.0) for name, size in moved_bytes(table).items()}
        return cls(whole, work, beneath)

    def summed(self, growth: Growth, nodes: Sequence[int] | Int64s) -> Figures:
        """Of each node of a tree, from those of ops; ``nodes``: the node of each op."""
        levels = growth.levels()

        def sums(columns: dict[str, npt.NDArray[Any]], dtype: type[Any]) -> dict[str, npt.NDArray[Any]]:
            own = np.zeros((len(growth), len(columns)), dtype)
            if len(nodes):
                np.add.at(own, nodes, np.stack(list(columns.values()), axis=1))
            total = levels.rolled_up(own)
            return {name: total[:, place] for place, name in enumerate(columns)}

        whole, work = sums(self.whole, np.int64), sums(self.work, np.float64)
        for name, values in work.items():
            values[whole["flops_known" if name.endswith("flops") else "bytes_known"] == 0] = np.nan
        return Figures(whole, work, self.beneath)

    def in_order(self, order: npt.NDArray[Any]) -> Figures:
        """Of the same nodes in another order."""
        whole = {name: values[order] for name, values in self.whole.items()}
        return Figures(whole, {name: values[order] for name, values in self.work.items()}, self.beneath)

    def only_waits(self) -> Bools:
        """Nodes whose ops all start, await or are transfers."""
        waiting: Bools = (self.whole["waits"] > 0) & (self.whole["waits"] >= self.whole["ops"])
        return waiting

    def peak_of(self, column: str) -> float:
        """Flops or bytes per nanosecond of arithmetic (COMPUTE) or a memory; 0.0: unknown."""
        return next((one.per_ns for one in self.beneath if one.column == column), 0.0)

    def utilization(self, column: str) -> Float64s:
        """Of arithmetic (COMPUTE) or a memory, as a share of its peak; NaN: the peak, or too much of the work, is
        unknown."""
        work, what = (self.work["flops"], "flops") if column == COMPUTE else (self.work[column], "bytes")
        known = self.whole[f"{what}_unknown_ps"] <= MOST_UNKNOWN * self.whole["op_ps"]
        known &= ~self.only_waits() & (self.whole["self_ps"] > 0)
        share = np.full(len(work), np.nan)
        if (peak := self.peak_of(column)) > 0:
            np.divide(work * 1e3, self.whole["self_ps"] * peak, out=share, where=known)
        return share
