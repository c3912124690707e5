"""The tree of a model, scopes with their layers and framework ops, and what each node of a tree of ops cost.

Times are self times, so that each part of a tree is the sum of its parts. The work of an op that others are nested in
is theirs, and counts for them alone; bytes that both the start and the end of a transfer record count once.
Utilization is work / self time / peak of one core. It is unknown for nodes that only start and await transfers, and
if the work of more than 10 % of the time is unknown; ``work_known_ps`` is the time of ops with known work.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from fastprof.derive.ops.op_trees import CATEGORY, SCOPE, UNNAMED, GrowingTree, PreorderTree, lay_out
from fastprof.derive.ops.roofline_model import (
    MOST_UNKNOWN,
    Ceiling,
    count_transfers_once,
    find_unknown_work,
    get_known_bytes,
    get_known_flops,
    list_ceilings,
    list_moved_bytes,
    mark_transfers,
    measure_efficiency,
)
from fastprof.derive.ops.training_passes import PASSES, UNKNOWN, PassTimes, generalize_layer, parse_scopes
from fastprof.schema.columns import Bools, Float64s, Int64s
from fastprof.schema.value_classes import dataclass

if TYPE_CHECKING:
    from fastprof.derive.devices.device_peaks import Peaks
    from fastprof.derive.ops.op_table import OpTable


COMPUTE: Final = "compute"
"""The column of ceilings that is arithmetic; the others are memories."""


@dataclass(frozen=True, slots=True, eq=False)
class NodeFigures:
    """Figures that ops add to the nodes above them, or sums of nodes over the ops below."""

    whole: dict[str, Int64s]
    """Times, and counts of ops."""
    work: dict[str, Float64s]
    """flops, model_flops, bytes and, by column, bytes of memories. Unknown is 0 of ops, and NaN of nodes."""
    beneath: list[Ceiling]

    @classmethod
    def of(cls, table: OpTable, peaks: Peaks | None) -> NodeFigures:
        """Return the figures of each op."""
        lost = measure_efficiency(table, beneath := list_ceilings(peaks)).lost_ps
        waiting, (flops_unknown, bytes_unknown) = mark_transfers(table), find_unknown_work(table)
        table = count_transfers_once(table)
        counted = table.time_ps <= table.self_ps  # no others are nested in it, as in loops and calls
        flops, moved = get_known_flops(table) & counted, get_known_bytes(table) & counted
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
        work |= {name: np.where(moved, size, 0.0) for name, size in list_moved_bytes(table).items()}
        return cls(whole, work, beneath)

    def summed(self, growth: GrowingTree, nodes: Sequence[int] | Int64s) -> NodeFigures:
        """Sum the figures of ops over each node of a tree; ``nodes``: the node of each op."""
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
        return NodeFigures(whole, work, self.beneath)

    def in_order(self, order: npt.NDArray[Any]) -> NodeFigures:
        """Return the figures of the nodes in another order."""
        whole = {name: values[order] for name, values in self.whole.items()}
        return NodeFigures(whole, {name: values[order] for name, values in self.work.items()}, self.beneath)

    def only_waits(self) -> Bools:
        """Mark nodes whose ops all start, await or are transfers."""
        waiting: Bools = (self.whole["waits"] > 0) & (self.whole["waits"] >= self.whole["ops"])
        return waiting

    def peak_of(self, column: str) -> float:
        """Flops or bytes per nanosecond of arithmetic (COMPUTE) or a memory; 0.0 if it is unknown."""
        return next((ceiling.per_ns for ceiling in self.beneath if ceiling.column == column), 0.0)

    def utilization(self, column: str) -> Float64s:
        """Return the share of the peak of arithmetic (COMPUTE) or a memory; NaN if the peak, or too much of the work,
        is unknown."""
        work, what = (self.work["flops"], "flops") if column == COMPUTE else (self.work[column], "bytes")
        known = self.whole[f"{what}_unknown_ps"] <= MOST_UNKNOWN * self.whole["op_ps"]
        known &= ~self.only_waits() & (self.whole["self_ps"] > 0)
        share = np.full(len(work), np.nan)
        if (peak := self.peak_of(column)) > 0:
            np.divide(work * 1e3, self.whole["self_ps"] * peak, out=share, where=known)
        return share


UNSCOPED: Final = "(no scope)"
"""Node of ops that record no framework op, by category."""


@dataclass(frozen=True, slots=True, eq=False)
class ScopeTree:
    """``instances``: by node, the number of scopes taken together. ``figures.whole`` has, beside the usual sums, the
    self time of each pass, by name with ``_ps``. ``category``: of the ops right at the node, the one with the most
    time; None if there are none."""

    tree: PreorderTree
    figures: NodeFigures
    instances: Int64s
    category: list[str | None]


def build_scope_trees(table: OpTable, figures: NodeFigures, passes: PassTimes) -> tuple[ScopeTree, ScopeTree]:
    """Return the scopes of all ops of a table, and the same with layers that differ only in a number taken together;
    ``figures``: of each op; ``passes``: of ops whose calls show it, that of others is shown by their names."""
    growth = GrowingTree("all")
    known: dict[str, tuple[int, int]] = {}
    nodes, codes = [], []
    for provenance, category in zip(table.provenance, table.category, strict=True):
        if provenance not in known:
            scopes = parse_scopes(provenance)
            known[provenance] = growth.path(0, SCOPE, scopes.path), scopes.passed
        end, passed = known[provenance]
        nodes.append(end or growth.path(0, CATEGORY, (UNSCOPED, category or UNNAMED)))
        codes.append(passed)
    figures = replace(figures, whole=figures.whole | _sum_passes_of_ops(table, codes, passes))
    layers, to = _collapse_layers(growth)
    ends, every = np.array(nodes, np.int64), np.ones(len(growth), np.int64)
    return (
        _build_scope_tree(growth, ends, table, figures, every),
        _build_scope_tree(layers, to[ends], table, figures, np.bincount(to, minlength=len(layers)).astype(np.int64)),
    )


def _sum_passes_of_ops(table: OpTable, codes: Sequence[int], passes: PassTimes) -> dict[str, Int64s]:
    """Return the self time of each op in each pass. ``codes``: by their names; without a pass in any name, all are
    unknown."""
    of_names = np.array(codes, np.int64) if any(codes) else np.full(len(codes), UNKNOWN)
    sums = np.where(of_names[:, None] == np.arange(len(PASSES)), table.self_ps[:, None], 0)
    for row, key in enumerate(zip(table.program_id.tolist(), table.name, strict=True)):
        if key in passes:
            sums[row] = passes[key]
    return {f"{name}_ps": sums[:, code] for code, name in enumerate(PASSES)}


def _build_scope_tree(
    growth: GrowingTree, nodes: Int64s, table: OpTable, of_ops: NodeFigures, instances: Int64s
) -> ScopeTree:
    """``nodes``: the node of each op; ``instances``: of each node as the tree grew."""
    figures = of_ops.summed(growth, nodes)
    tree = lay_out(growth, figures.whole["self_ps"], figures.work["flops"])
    times: dict[int, Counter[str]] = {}
    for node, category, self_ps in zip(nodes.tolist(), table.category, of_ops.whole["self_ps"].tolist(), strict=True):
        times.setdefault(node, Counter())[category] += self_ps
    most = [times[node].most_common(1)[0][0] if node in times else None for node in tree.grown.tolist()]
    return ScopeTree(tree, figures.in_order(tree.grown), instances[tree.grown], most)


def _collapse_layers(growth: GrowingTree) -> tuple[GrowingTree, Int64s]:
    """Return the tree with one node for siblings that differ only in a number, with its name if there is only one; and
    the new node of each."""
    layers = GrowingTree(growth.name[0])
    to = np.zeros(len(growth), np.int64)
    has_children = np.bincount(np.array(growth.parent[1:], np.int64), minlength=len(growth)) > 0
    names: dict[int, set[str]] = {}
    for node in range(1, len(growth)):
        name, kind = growth.name[node], growth.kind[node]
        layer = generalize_layer(name) if kind == SCOPE and has_children[node] else None
        to[node] = layers.child(int(to[growth.parent[node]]), kind, layer or name, (layer is not None, layer or name))
        if layer is not None:
            names.setdefault(int(to[node]), set()).add(name)
    for node, several in names.items():
        if len(several) == 1:
            layers.name[node] = next(iter(several))
    return layers, to
