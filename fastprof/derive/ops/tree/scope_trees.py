"""The tree of a model: its scopes, in them its layers, and at the ends the framework ops that were compiled."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from fastprof.derive.ops.tree.name_scopes import PASSES, UNKNOWN, PassTimes, layer_name, scoped
from fastprof.derive.ops.tree.node_figures import Figures
from fastprof.derive.ops.tree.op_paths import UNNAMED
from fastprof.derive.ops.tree.op_trees import CATEGORY, SCOPE, Growth, Tree, laid_out
from fastprof.schema.array_types import Int64s
from fastprof.schema.value_classes import dataclass

if TYPE_CHECKING:
    from fastprof.derive.ops.tables import OpTable


UNSCOPED: Final = "(no scope)"
"""Ops that record no framework op, by category."""


@dataclass(frozen=True, slots=True, eq=False)
class ScopeTree:
    """``instances``: by node, the number of scopes taken together. ``figures.whole`` has, beside the usual sums, the
    self time of each pass, by name with ``_ps``. ``category``: of the ops right at the node, the one with the most
    time; None: there are none."""

    tree: Tree
    figures: Figures
    instances: Int64s
    category: list[str | None]


def scope_trees(table: OpTable, figures: Figures, passes: PassTimes) -> tuple[ScopeTree, ScopeTree]:
    """The scopes of all ops of a table, and the same with layers that differ only in a number taken together;
    ``figures``: of each op; ``passes``: of ops whose calls show it, that of others is shown by their names."""
    growth = Growth("all")
    known: dict[str, tuple[int, int]] = {}
    nodes, codes = [], []
    for provenance, category in zip(table.provenance, table.category, strict=True):
        if provenance not in known:
            scopes = scoped(provenance)
            known[provenance] = growth.path(0, SCOPE, scopes.path), scopes.passed
        end, passed = known[provenance]
        nodes.append(end or growth.path(0, CATEGORY, (UNSCOPED, category or UNNAMED)))
        codes.append(passed)
    figures = replace(figures, whole=figures.whole | _of_passes(table, codes, passes))
    layers, to = _collapsed(growth)
    ends, every = np.array(nodes, np.int64), np.ones(len(growth), np.int64)
    return (
        _tree(growth, ends, table, figures, every),
        _tree(layers, to[ends], table, figures, np.bincount(to, minlength=len(layers)).astype(np.int64)),
    )


def _of_passes(table: OpTable, codes: Sequence[int], passes: PassTimes) -> dict[str, Int64s]:
    """The self time of each op in each pass. ``codes``: by their names; without a pass in any name, all are unknown."""
    of_names = np.array(codes, np.int64) if any(codes) else np.full(len(codes), UNKNOWN)
    sums = np.where(of_names[:, None] == np.arange(len(PASSES)), table.self_ps[:, None], 0)
    for row, key in enumerate(zip(table.program_id.tolist(), table.name, strict=True)):
        if key in passes:
            sums[row] = passes[key]
    return {f"{name}_ps": sums[:, code] for code, name in enumerate(PASSES)}


def _tree(growth: Growth, nodes: Int64s, table: OpTable, of_ops: Figures, instances: Int64s) -> ScopeTree:
    """``nodes``: the node of each op; ``instances``: of each node as the tree grew."""
    figures = of_ops.summed(growth, nodes)
    tree = laid_out(growth, figures.whole["self_ps"], figures.work["flops"])
    times: dict[int, Counter[str]] = {}
    for node, category, self_ps in zip(nodes.tolist(), table.category, of_ops.whole["self_ps"].tolist(), strict=True):
        times.setdefault(node, Counter())[category] += self_ps
    most = [times[one].most_common(1)[0][0] if one in times else None for one in tree.grown.tolist()]
    return ScopeTree(tree, figures.in_order(tree.grown), instances[tree.grown], most)


def _collapsed(growth: Growth) -> tuple[Growth, Int64s]:
    """The tree with one node for siblings that differ only in a number, with its name if there is only one; and the
    new node of each."""
    layers = Growth(growth.name[0])
    to = np.zeros(len(growth), np.int64)
    has_children = np.bincount(np.array(growth.parent[1:], np.int64), minlength=len(growth)) > 0
    names: dict[int, set[str]] = {}
    for node in range(1, len(growth)):
        name, kind = growth.name[node], growth.kind[node]
        layer = layer_name(name) if kind == SCOPE and has_children[node] else None
        to[node] = layers.child(int(to[growth.parent[node]]), kind, layer or name, (layer is not None, layer or name))
        if layer is not None:
            names.setdefault(int(to[node]), set()).add(name)
    for node, several in names.items():
        if len(several) == 1:
            layers.name[node] = next(iter(several))
    return layers, to
