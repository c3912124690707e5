"""What each node of a tree of ops cost: times and work summed over the ops below it, and how well they used the device.

Times are self times, so that each part of a tree is the sum of its parts. Work of an op that others are nested in is
that of these, and counts for them alone; bytes that the start and the end of a transfer both tell count once.
Utilisation is work by self time by the peak of one core. It is not known of nodes where the work of more than 10 % of
the time is not, nor of those that only start and await transfers; ``work_known_ps`` says of how much of the time work
is known.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from fastprof.derive.ops.ceilings import Ceiling, against, ceilings, known_bytes, known_flops
from fastprof.derive.ops.roofline import moved_bytes
from fastprof.derive.ops.transfers import once, waits
from fastprof.derive.ops.unknown_work import MOST_UNKNOWN, unknown
from fastprof.schema.array_types import Bools, Float64s, Int64s

if TYPE_CHECKING:
    from fastprof.derive.devices.devices import Peaks
    from fastprof.derive.ops.tables import OpTable
    from fastprof.derive.ops.tree.op_trees import Growth, Tree


COMPUTE: Final = "compute"
"""The column of ceilings that is arithmetic; the others are memories."""


@dataclass(frozen=True, slots=True, eq=False)
class OpFigures:
    """Of each op what it adds to the nodes above it."""

    whole: dict[str, Int64s]
    """Times, and of how many ops what is known."""
    work: dict[str, Float64s]
    """flops, model_flops, bytes and, by column, bytes of memories; 0 where it is not known."""
    beneath: list[Ceiling]

    @classmethod
    def of(cls, table: OpTable, peaks: Peaks | None) -> OpFigures:
        lost = against(table, beneath := ceilings(peaks)).lost_ps
        waiting, (flops_unknown, bytes_unknown) = waits(table), unknown(table)
        table = once(table)
        counted = ~holds_others(table)
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


def holds_others(table: OpTable) -> Bools:
    """Ops that others are nested in, as loops and calls."""
    held: Bools = table.time_ps > table.self_ps
    return held


@dataclass(frozen=True, slots=True, eq=False)
class NodeFigures:
    """The same of each node: sums over the ops below it."""

    whole: dict[str, Int64s]
    work: dict[str, Float64s]
    beneath: list[Ceiling]

    def knows(self, what: str) -> Bools:
        """Of which nodes it is known of any op: flops, bytes or lost."""
        known: Bools = self.whole[f"{what}_known"] > 0
        return known

    def only_waits(self) -> Bools:
        """Nodes whose ops all start, await or are transfers."""
        waiting: Bools = (self.whole["waits"] > 0) & (self.whole["waits"] >= self.whole["ops"])
        return waiting

    def utilisation(self, column: str) -> Float64s:
        """Of arithmetic (COMPUTE) or a memory, as a share of its peak; NaN: the peak, or too much of the work, is not
        known."""
        peak = next((one.per_ns for one in self.beneath if one.column == column), 0.0)
        work = self.work["flops" if column == COMPUTE else column]
        known = self.knows("flops" if column == COMPUTE else "bytes")
        known &= (
            self.whole[f"{'flops' if column == COMPUTE else 'bytes'}_unknown_ps"] <= MOST_UNKNOWN * self.whole["op_ps"]
        )
        known &= ~self.only_waits()
        share = np.full(len(work), np.nan)
        if peak > 0:
            np.divide(work * 1e3, self.whole["self_ps"] * peak, out=share, where=known & (self.whole["self_ps"] > 0))
        return share


def of_growth(growth: Growth, nodes: list[int] | Int64s, figures: OpFigures) -> NodeFigures:
    """Of each node as the tree grew; ``nodes``: the node of each op."""
    levels = growth.levels()

    def summed(columns: dict[str, npt.NDArray[Any]], dtype: type[Any]) -> dict[str, npt.NDArray[Any]]:
        own = np.zeros((len(growth), len(columns)), dtype)
        if len(nodes):
            np.add.at(own, nodes, np.stack(list(columns.values()), axis=1))
        total = levels.rolled_up(own)
        return {name: total[:, place] for place, name in enumerate(columns)}

    return NodeFigures(summed(figures.whole, np.int64), summed(figures.work, np.float64), figures.beneath)


def in_order(figures: NodeFigures, tree: Tree) -> NodeFigures:
    """The same of the tree in preorder."""
    return NodeFigures(
        {name: values[tree.grown] for name, values in figures.whole.items()},
        {name: values[tree.grown] for name, values in figures.work.items()},
        figures.beneath,
    )
