"""Trees as columns: they grow node by node, and are laid out in preorder, the largest child first.

Nothing here recurses: sums go up and places go down level by level, and builders keep the number of levels small.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from itertools import pairwise
from typing import Any, Final, TypeVar

import numpy as np
import numpy.typing as npt

from fastprof.schema.array_types import Float64s, Int32s, Int64s
from fastprof.schema.value_classes import dataclass

Numbers = TypeVar("Numbers", bound=npt.NDArray[Any])

ROOT, IDLE, PROGRAM, CATEGORY, SCOPE, DUPLICATES, OP, INSTRUCTION, SPARSE_CORE_OP = range(9)
KINDS: Final = (
    "root", "idle", "program", "category", "scope", "duplicates", "op", "instruction", "sparse core op",
)  # fmt: skip
"""Kinds of nodes, by code."""


class Growth:
    """A tree as it grows. Node 0 is its root; a parent comes before its children."""

    def __init__(self, root: str) -> None:
        self.parent: list[int] = [-1]
        self.depth: list[int] = [0]
        self.kind: list[int] = [ROOT]
        self.name: list[str] = [root]
        self.row: list[int] = [-1]
        self._found: dict[Hashable, int] = {}

    def __len__(self) -> int:
        return len(self.parent)

    def added(self, parent: int, kind: int, name: str, row: int = -1) -> int:
        """A new node. ``row``: of what the node stands for, in a table of its kind; -1: of nothing."""
        self.parent.append(parent)
        self.depth.append(self.depth[parent] + 1)
        self.kind.append(kind)
        self.name.append(name)
        self.row.append(row)
        return len(self.parent) - 1

    def child(self, parent: int, kind: int, name: str, key: Hashable = None) -> int:
        """The child of this kind and key, by default its name, made where there is none yet."""
        place = (parent, kind, name if key is None else key)
        node = self._found.get(place)
        if node is None:
            node = self._found[place] = self.added(parent, kind, name)
        return node

    def path(self, node: int, kind: int, names: Sequence[str]) -> int:
        """The last node of a chain of children below ``node``."""
        for name in names:
            node = self.child(node, kind, name)
        return node

    def levels(self) -> Levels:
        return Levels(self)


class Levels:
    """The nodes of a tree by their depth. ``parent``, ``depth``: of each node; ``below``: the nodes of each level below
    the root, from the top."""

    def __init__(self, growth: Growth) -> None:
        self.parent: Int32s = np.array(growth.parent, np.int32)
        self.depth: Int32s = np.array(growth.depth, np.int32)
        order = np.argsort(self.depth, kind="stable")
        starts = np.searchsorted(self.depth[order], np.arange(1, int(self.depth.max()) + 2)).tolist()
        self.below: list[Int64s] = [order[first:last] for first, last in pairwise(starts)]

    def rolled_up(self, own: Numbers) -> Numbers:
        """By node, the sum of its own figures and those of all below it; ``own``: a row per node, of any columns."""
        total = own.copy()
        for nodes in reversed(self.below):
            np.add.at(total, self.parent[nodes], total[nodes])
        return total


@dataclass(frozen=True, slots=True, eq=False)
class Tree:
    """n nodes in preorder; node 0 is the root."""

    parent: Int32s
    depth: Int32s
    kind: npt.NDArray[np.uint8]
    name: list[str]
    row: Int32s
    """Of what a node stands for, in a table of its kind; -1: of nothing."""
    last: Int32s
    """The node after the last one below each node."""
    grown: Int32s
    """Which node each was as the tree grew."""

    def __len__(self) -> int:
        return len(self.parent)

    def children(self) -> Int64s:
        """How many children each node has."""
        counts: Int64s = np.bincount(self.parent[1:], minlength=len(self)).astype(np.int64)
        return counts


def laid_out(growth: Growth, size: Int64s, work: Float64s) -> Tree:
    """The tree in preorder: children by ``size``, largest first, then by ``work`` (NaN is none), then by name; those
    within an op, which have no size, as they were added. Both are by node as it grew."""
    levels, count = growth.levels(), len(growth)
    kind = np.array(growth.kind, np.uint8)
    rank = {name: place for place, name in enumerate(sorted(set(growth.name)))}
    named = np.array([rank[name] for name in growth.name], np.int64)
    named[(kind == INSTRUCTION) | (kind == SPARSE_CORE_OP)] = -1
    siblings = np.lexsort((named, -np.nan_to_num(work), -size, levels.parent))  # stable: else as they grew
    below = levels.rolled_up(np.ones(count, np.int64))
    places = _places(levels, siblings, below)
    order = np.argsort(places)
    parent = levels.parent[order]
    parent[1:] = places[parent[1:]]
    return Tree(
        parent=parent,
        depth=levels.depth[order],
        kind=kind[order],
        name=[growth.name[node] for node in order.tolist()],
        row=np.array(growth.row, np.int32)[order],
        last=(np.arange(count) + below[order]).astype(np.int32),
        grown=order.astype(np.int32),
    )


def _places(levels: Levels, siblings: Int64s, below: Int64s) -> Int64s:
    """The place of each node in preorder. ``siblings``: all nodes, children of one parent after each other, in their
    order; ``below``: by node, the number of nodes in its subtree."""
    before = np.cumsum(below[siblings]) - below[siblings]  # nodes in subtrees of those that come before in the order
    parents = levels.parent[siblings]
    first = np.flatnonzero(np.append(True, parents[1:] != parents[:-1]))
    before -= np.repeat(before[first], np.diff(np.append(first, len(siblings))))
    offset, place = np.zeros_like(below), np.zeros_like(below)
    offset[siblings] = before
    for nodes in levels.below:
        place[nodes] = place[levels.parent[nodes]] + 1 + offset[nodes]
    return place
