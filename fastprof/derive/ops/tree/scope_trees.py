"""The tree of a model: its scopes, in them its layers, and at the ends the framework ops that were compiled."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from fastprof.derive.ops.tree.name_scopes import PASSES, Scoped, layer_name, scoped
from fastprof.derive.ops.tree.node_figures import NodeFigures, OpFigures, in_order, of_growth
from fastprof.derive.ops.tree.op_paths import UNNAMED
from fastprof.derive.ops.tree.op_trees import CATEGORY, SCOPE, Growth, Tree, laid_out
from fastprof.schema.array_types import Int64s

if TYPE_CHECKING:
    from fastprof.derive.ops.tables import OpTable


UNSCOPED: Final = "(no scope)"
"""Ops that tell no framework op, by category."""


@dataclass(frozen=True, slots=True, eq=False)
class ScopeTree:
    """``instances``: of each node how many scopes were taken for one. ``figures.whole`` has, beside the usual sums,
    the self time of each pass, by name with ``_ps``. ``category``: that of the ops right at the node which took most
    time; None: no op is."""

    tree: Tree
    figures: NodeFigures
    instances: Int64s
    category: list[str | None]


@dataclass(frozen=True, slots=True)
class Scopes:
    """The tree as it grew, and the node and category of each op."""

    growth: Growth
    nodes: list[int]
    category: Sequence[str]
    figures: OpFigures

    def tree(self) -> ScopeTree:
        ones = np.ones(len(self.growth), np.int64)
        return self._finished(self.growth, np.array(self.nodes, np.int64), ones)

    def layers(self) -> ScopeTree:
        """The same with layers that only a number tells apart, and all in them, taken together."""
        growth, to = _collapsed(self.growth)
        instances = np.bincount(to, minlength=len(growth)).astype(np.int64)
        nodes = to[np.array(self.nodes, np.int64)] if self.nodes else np.empty(0, np.int64)
        return self._finished(growth, nodes, instances)

    def _finished(self, growth: Growth, nodes: Int64s, instances: Int64s) -> ScopeTree:
        figures = of_growth(growth, nodes, self.figures)
        tree = laid_out(growth, figures.whole["self_ps"], figures.work["flops"])
        category = self._categories(nodes)
        return ScopeTree(
            tree, in_order(figures, tree), instances[tree.grown], [category.get(one) for one in tree.grown.tolist()]
        )

    def _categories(self, nodes: Int64s) -> dict[int, str]:
        """By node of the growth."""
        times: dict[int, Counter[str]] = {}
        own = zip(nodes.tolist(), self.category, self.figures.whole["self_ps"].tolist(), strict=True)
        for node, category, self_ps in own:
            times.setdefault(node, Counter())[category] += self_ps
        return {node: found.most_common(1)[0][0] for node, found in times.items()}


def scopes_of(table: OpTable, figures: OpFigures) -> Scopes:
    """The scopes of all ops of a table; ``figures``: what each of these adds."""
    growth = Growth("all")
    known: dict[str, Scoped] = {}
    ends: dict[str, int] = {}
    nodes, passes = [], []
    for provenance, category in zip(table.provenance, table.category, strict=True):
        if provenance not in known:
            known[provenance] = scoped(provenance)
            ends[provenance] = _end(growth, known[provenance].path)
        end = ends[provenance]
        if end == 0:
            end = growth.child(growth.child(0, CATEGORY, UNSCOPED), CATEGORY, category or UNNAMED)
        nodes.append(end)
        passes.append(known[provenance].passed)
    return Scopes(growth, nodes, table.category, _by_pass(figures, passes))


def _end(growth: Growth, path: Sequence[str]) -> int:
    node = 0
    for part in path:
        node = growth.child(node, SCOPE, part)
    return node


def _by_pass(figures: OpFigures, passes: Sequence[int]) -> OpFigures:
    code, self_ps = np.array(passes, np.int64), figures.whole["self_ps"]
    times = {f"{name}_ps": np.where(code == number, self_ps, 0) for number, name in enumerate(PASSES)}
    return replace(figures, whole=figures.whole | times)


def _collapsed(growth: Growth) -> tuple[Growth, Int64s]:
    """The tree with one node for siblings that only a number tells apart, called after the first where it is the only
    one; and the node that each went to."""
    found = Growth(growth.name[0])
    to = np.zeros(len(growth), np.int64)
    has_children = np.bincount(np.array(growth.parent[1:], np.int64), minlength=len(growth)) > 0
    names: dict[int, set[str]] = {}
    for node in range(1, len(growth)):
        name, kind = growth.name[node], growth.kind[node]
        layer = layer_name(name) if kind == SCOPE and has_children[node] else None
        to[node] = found.child(int(to[growth.parent[node]]), kind, layer or name, (layer is not None, layer or name))
        if layer is not None:
            names.setdefault(int(to[node]), set()).add(name)
    for node, several in names.items():
        if len(several) == 1:
            found.name[node] = next(iter(several))
    return found, to
