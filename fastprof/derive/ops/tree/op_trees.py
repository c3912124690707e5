"""Trees as columns: they grow node by node, and are laid out in preorder, the largest child first.

Nothing here recurses: sums go up and places go down level by level, and builders keep the number of levels small.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import numpy as np
import numpy.typing as npt

from fastprof.schema.array_types import Int32s, Int64s

Numbers = TypeVar("Numbers", bound=npt.NDArray[Any])

ROOT, IDLE, PROGRAM, CATEGORY, SCOPE, DUPLICATES, OP, INSTRUCTION, SPARSE_CORE_OP = range(9)
KINDS: Final = (
    "root",
    "idle",
    "program",
    "category",
    "scope",
    "duplicates",
    "op",
    "instruction",
    "sparse core op",
)
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

    def levels(self) -> Levels:
        return Levels(np.array(self.parent, np.int32), np.array(self.depth, np.int32))


class Levels:
    """The nodes of a tree by their depth; ``parent``: of each node, -1: of the root."""

    def __init__(self, parent: Int32s, depth: Int32s) -> None:
        self.parent = parent
        self.depth = depth
        self._order = np.argsort(depth, kind="stable")
        self._starts = np.searchsorted(depth[self._order], np.arange(int(depth.max(initial=0)) + 2)).tolist()

    def down(self) -> Iterator[Int64s]:
        """The nodes of each level below the root, from the top."""
        for level in range(1, len(self._starts) - 1):
            yield self._order[self._starts[level] : self._starts[level + 1]]

    def up(self) -> Iterator[Int64s]:
        return iter(list(self.down())[::-1])

    def rolled_up(self, own: Numbers) -> Numbers:
        """Of each node, its own figure and those of all below it. ``own``: a row a node, of one or more columns."""
        total = own.copy()
        for nodes in self.up():
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

    def levels(self) -> Levels:
        return Levels(self.parent, self.depth)


def laid_out(growth: Growth, size: Int64s, work: npt.NDArray[np.float64]) -> Tree:
    """The tree in preorder: children by ``size``, largest first, then by ``work``, then by name; those within an op,
    which have no size, as they were added. Both are of each node as it grew."""
    levels = growth.levels()
    count = len(growth)
    kind = np.array(growth.kind, np.uint8)
    places = _places(levels, _siblings(growth, kind, size, work), count)
    order = np.argsort(places)
    parent = levels.parent[order]
    parent[1:] = places[parent[1:]]
    below = levels.rolled_up(np.ones(count, np.int64))[order]
    return Tree(
        parent=parent.astype(np.int32),
        depth=levels.depth[order],
        kind=kind[order],
        name=[growth.name[node] for node in order.tolist()],
        row=np.array(growth.row, np.int32)[order],
        last=(np.arange(count) + below).astype(np.int32),
        grown=order.astype(np.int32),
    )


def _siblings(
    growth: Growth, kind: npt.NDArray[np.uint8], size: Int64s, work: npt.NDArray[np.float64]
) -> npt.NDArray[Any]:
    """The nodes, children of one parent after each other, in their order."""
    rank = {name: place for place, name in enumerate(sorted(set(growth.name)))}
    named = np.array([rank[name] for name in growth.name], np.int64)
    named[(kind == INSTRUCTION) | (kind == SPARSE_CORE_OP)] = -1
    return np.lexsort((named, -work, -size, np.array(growth.parent, np.int32)))  # stable: else as they grew


def _places(levels: Levels, siblings: Int64s, count: int) -> Int64s:
    """Of each node its place in preorder."""
    below = levels.rolled_up(np.ones(count, np.int64))
    before = np.cumsum(below[siblings]) - below[siblings]  # nodes in subtrees of those that come before in the order
    parents = levels.parent[siblings]
    first = np.flatnonzero(np.append(True, parents[1:] != parents[:-1]))
    before -= np.repeat(before[first], np.diff(np.append(first, count)))
    offset = np.empty(count, np.int64)
    offset[siblings] = before
    place = np.zeros(count, np.int64)
    for nodes in levels.down():
        place[nodes] = place[levels.parent[nodes]] + 1 + offset[nodes]
    return place
