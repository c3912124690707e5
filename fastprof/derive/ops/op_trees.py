"""Trees of ops and of calls as columns: ops by program, category or name scope; calls by equal stacks.

Trees grow node by node, and are laid out in preorder, the largest child first. Nothing here recurses: sums go up and
places go down level by level, and builders keep the number of levels small. Calls with equal stacks are one node,
which has the number of its calls and the sums of their amounts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np
import numpy.typing as npt

from fastprof.schema.columns import Bools, Float64s, Int32s, Int64s, find_runs, number_values, sort_rows, sum_by
from fastprof.schema.value_classes import dataclass

if TYPE_CHECKING:
    from fastprof.derive.ops.op_table import OpTable


MOST_DEPTH: Final = 2_000
"""Calls that lie deeper count for the one around them at this depth."""
REST: Final = -1
"""The label of a node for the children of its parent that are left out."""
TIMES: Final = "the times of calls of Python"


@dataclass(frozen=True, slots=True, eq=False)
class CallTree:
    """Nodes, a parent before its children; -1 is the parent of the roots. ``label``: what is called. ``calls``, and by
    column of ``own``: the sums over the calls of the node. ``total``: with all below the node."""

    parent: Int64s
    label: Int64s
    depth: Int64s
    calls: Int64s
    own: Int64s
    total: Int64s

    def __len__(self) -> int:
        return len(self.parent)

    def bounded(self, most: int) -> CallTree:
        """Keep at most ``most`` nodes, those with the largest totals, and for each that lost children one more, REST,
        with their sums. Sums stay what they are."""
        if len(self) <= most:
            return self
        size = self.total.sum(axis=1)
        kept = np.sort(np.argsort(-size, kind="stable")[:most])
        number = np.full(len(self) + 1, -1, np.int64)  # the last for -1
        number[kept] = np.arange(len(kept))
        small = replace(self, **{name: getattr(self, name)[kept] for name in self.__dataclass_fields__})
        parent = number[small.parent]
        inner = np.flatnonzero(parent >= 0)
        lost = small.total - small.own
        np.subtract.at(lost, parent[inner], small.total[inner])
        calls = np.zeros(len(kept) + 1, np.int64)  # the last of lost roots
        gone = np.flatnonzero(number[:-1] < 0)
        above = number[self.parent[gone]]
        direct = (above >= 0) | (self.parent[gone] < 0)
        np.add.at(calls, above[direct], self.calls[gone[direct]])
        roots_lost = self.total[self.parent < 0].sum(axis=0) - small.total[parent < 0].sum(axis=0)
        lost = np.concatenate([lost, roots_lost[None]])
        rest = np.flatnonzero((calls > 0) | lost.any(axis=1))
        of_root = rest == len(kept)
        depth = np.where(of_root, 0, np.append(small.depth, 0)[rest] + 1)
        return CallTree(
            np.concatenate([parent, np.where(of_root, -1, rest)]),
            np.concatenate([small.label, np.full(len(rest), REST)]),
            np.concatenate([small.depth, depth]),
            np.concatenate([small.calls, calls[rest]]),
            np.concatenate([small.own, lost[rest]]),
            np.concatenate([small.total, lost[rest]]),
        )


def limit_depths(parent: Int64s, depth: Int32s) -> Int64s:
    """Return each call, or the call around it at MOST_DEPTH if it lies deeper. ``parent``: the call around each, or
    -1."""
    up = np.where(depth > MOST_DEPTH, parent, np.arange(len(parent)))
    while True:  # each round doubles how far up they look
        further = up[up]
        if np.array_equal(further, up):
            return up
        up = further


def build_call_tree(parent: Int64s, depth: Int32s, label: Int64s, own: Int64s) -> tuple[CallTree, Int64s]:
    """Return the tree of n calls, and the node of each. ``parent``: the call around each, or -1 if there is none;
    ``depth``: how many are around it; ``label``: what is called, from 0; ``own``: n rows of amounts. Takes a turn a
    level of depth."""
    at = limit_depths(parent, depth)
    is_call: Bools = at == np.arange(len(at))
    node = np.full(len(at) + 1, -1, np.int64)  # the last for -1
    base, labels = int(label.max(initial=0)) + 1, int(is_call.sum())
    order = np.argsort(depth, kind="stable")
    levels = np.searchsorted(depth[order], np.arange(min(int(depth.max(initial=-1)), MOST_DEPTH) + 2))
    parents, names, deep = [], [], []
    count = 0
    for level in range(len(levels) - 1):
        rows = order[levels[level] : levels[level + 1]]
        keys, place = number_values((node[parent[rows]] + 1) * base + label[rows])
        node[rows] = count + place.reshape(-1)
        parents.append(keys // base - 1)
        names.append(keys % base)
        deep.append(np.full(len(keys), level, np.int64))
        count += len(keys)
    assert count <= labels
    nodes = node[at]
    above = np.concatenate([np.zeros(0, np.int64), *parents])
    calls = np.bincount(nodes[is_call], minlength=count).astype(np.int64)
    sums = _sum_amounts(nodes, own, count)
    flat = [np.concatenate([np.zeros(0, np.int64), *part]) for part in (names, deep)]
    return CallTree(above, flat[0], flat[1], calls, sums, sum_subtrees(above, flat[1], sums)), nodes


def sum_subtrees(parent: Int64s, depth: Int64s, own: Int64s) -> Int64s:
    """Return the amounts of each node and all below it. CaptureError: those of all nodes do not fit 64 bits."""
    _sum_amounts(np.zeros(len(own), np.int64), own, 1)
    total = own.copy()
    order = np.argsort(depth, kind="stable")
    levels = np.searchsorted(depth[order], np.arange(1, int(depth.max(initial=0)) + 2))
    for level in range(len(levels) - 2, -1, -1):
        rows = order[levels[level] : levels[level + 1]]
        np.add.at(total, parent[rows], total[rows])
    return total


def _sum_amounts(row: Int64s, amounts: Int64s, count: int) -> Int64s:
    """Sums of rows of amounts. CaptureError: one does not fit 64 bits."""
    return np.stack([sum_by(row, column, count, TIMES) for column in amounts.T], axis=1)


def add_leaves(tree: CallTree, node: Int64s, label: Int64s, own: Int64s) -> CallTree:
    """Return the tree with children of some nodes: calls with a label and amounts, equal ones together. Of a ``node``
    of -1 they are left out."""
    some = node >= 0
    base = int(label.max(initial=0)) + 1
    keys, place = number_values(node[some] * base + label[some])
    sums = _sum_amounts(place.reshape(-1), own[some], len(keys))
    above = keys // base
    parent = np.concatenate([tree.parent, above])
    depth = np.concatenate([tree.depth, tree.depth[above] + 1])
    every = np.concatenate([tree.own, sums])
    return CallTree(
        parent,
        np.concatenate([tree.label, keys % base]),
        depth,
        np.concatenate([tree.calls, np.bincount(place.reshape(-1), minlength=len(keys)).astype(np.int64)]),
        every,
        sum_subtrees(parent, depth, every),
    )


def find_nearest_wanted(rows: Int64s, parent: Int64s, wanted: Bools) -> Int64s:
    """Return the nearest of the ``wanted`` around each of some rows, itself included; -1 if there is none."""
    none = len(parent)
    up = np.where(wanted, np.arange(none), np.where(parent < 0, none, parent))
    up = np.append(up, none)
    while True:
        further = up[up]
        if np.array_equal(further, up):
            return np.where(up[rows] == none, -1, up[rows])
        up = further


Numbers = TypeVar("Numbers", bound=npt.NDArray[Any])

ROOT, IDLE, PROGRAM, CATEGORY, SCOPE, DUPLICATES, OP, INSTRUCTION, SPARSE_CORE_OP = range(9)
KINDS: Final = (
    "root", "idle", "program", "category", "scope", "duplicates", "op", "instruction", "sparse core op",
)  # fmt: skip
"""Kinds of nodes, by code."""


class GrowingTree:
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
        """Return a new node. ``row``: of what the node stands for, in a table of its kind; -1 if of nothing."""
        self.parent.append(parent)
        self.depth.append(self.depth[parent] + 1)
        self.kind.append(kind)
        self.name.append(name)
        self.row.append(row)
        return len(self.parent) - 1

    def child(self, parent: int, kind: int, name: str, key: Hashable = None) -> int:
        """Return the child of this kind and key, by default its name, made where there is none yet."""
        place = (parent, kind, name if key is None else key)
        node = self._found.get(place)
        if node is None:
            node = self._found[place] = self.added(parent, kind, name)
        return node

    def path(self, node: int, kind: int, names: Sequence[str]) -> int:
        """Return the last node of a chain of children below ``node``."""
        for name in names:
            node = self.child(node, kind, name)
        return node

    def levels(self) -> TreeLevels:
        return TreeLevels(self)


class TreeLevels:
    """The nodes of a tree by their depth. ``parent``, ``depth``: of each node; ``below``: the nodes of each level below
    the root, from the top."""

    def __init__(self, growth: GrowingTree) -> None:
        self.parent: Int32s = np.array(growth.parent, np.int32)
        self.depth: Int32s = np.array(growth.depth, np.int32)
        order = np.argsort(self.depth, kind="stable")
        starts = np.searchsorted(self.depth[order], np.arange(1, int(self.depth.max()) + 2)).tolist()
        self.below: list[Int64s] = [order[first:last] for first, last in pairwise(starts)]

    def rolled_up(self, own: Numbers) -> Numbers:
        """Return the sum of each node's own figures and those of all below it; ``own``: a row per node, of any
        columns."""
        total = own.copy()
        for nodes in reversed(self.below):
            np.add.at(total, self.parent[nodes], total[nodes])
        return total


@dataclass(frozen=True, slots=True, eq=False)
class PreorderTree:
    """n nodes in preorder; node 0 is the root."""

    parent: Int32s
    depth: Int32s
    kind: npt.NDArray[np.uint8]
    name: list[str]
    row: Int32s
    """Row of what a node stands for, in a table of its kind, or -1."""
    last: Int32s
    """The node after the last one below each node."""
    grown: Int32s
    """Which node each was as the tree grew."""

    def __len__(self) -> int:
        return len(self.parent)

    def children(self) -> Int64s:
        """Return how many children each node has."""
        counts: Int64s = np.bincount(self.parent[1:], minlength=len(self)).astype(np.int64)
        return counts


def lay_out(growth: GrowingTree, size: Int64s, work: Float64s) -> PreorderTree:
    """Return the tree in preorder: children by ``size``, largest first, then by ``work`` (NaN is none), then by name;
    those within an op, which have no size, as they were added. Both are by node as it grew."""
    levels, count = growth.levels(), len(growth)
    kind = np.array(growth.kind, np.uint8)
    rank = {name: place for place, name in enumerate(sorted(set(growth.name)))}
    named = np.array([rank[name] for name in growth.name], np.int64)
    named[(kind == INSTRUCTION) | (kind == SPARSE_CORE_OP)] = -1
    siblings = sort_rows(levels.parent, -size, -np.nan_to_num(work), named)  # stable: else as they grew
    below = levels.rolled_up(np.ones(count, np.int64))
    places = _place_in_preorder(levels, siblings, below)
    order = np.argsort(places)
    parent = levels.parent[order]
    parent[1:] = places[parent[1:]]
    return PreorderTree(
        parent=parent,
        depth=levels.depth[order],
        kind=kind[order],
        name=[growth.name[node] for node in order.tolist()],
        row=np.array(growth.row, np.int32)[order],
        last=(np.arange(count) + below[order]).astype(np.int32),
        grown=order.astype(np.int32),
    )


def _place_in_preorder(levels: TreeLevels, siblings: Int64s, below: Int64s) -> Int64s:
    """Return the place of each node in preorder. ``siblings``: all nodes, children of one parent after each other, in
    their order; ``below``: by node, the number of nodes in its subtree."""
    before = np.cumsum(below[siblings]) - below[siblings]  # nodes in subtrees of those that come before in the order
    parents = levels.parent[siblings]
    first = find_runs(parents)
    before -= np.repeat(before[first], np.diff(np.append(first, len(siblings))))
    offset, place = np.zeros_like(below), np.zeros_like(below)
    offset[siblings] = before
    for nodes in levels.below:
        place[nodes] = place[levels.parent[nodes]] + 1 + offset[nodes]
    return place


GROUPINGS: Final = ("program", "category", "provenance")
MOST_SCOPES: Final = 100
"""Name scopes above each other; deeper ones are one node, so that a tree has few levels."""
NO_PROGRAM: Final = "(no program)"
UNATTRIBUTED: Final = "(unattributed)"
"""Events of unknown ops."""
UNNAMED: Final = "(unnamed)"

Title = Callable[[int], str | None]
"""Program title by id, as the capture lists it."""


def split_scopes(provenance: str) -> list[str]:
    """Return the parts of ``a/b/c:Type`` without the type; beyond MOST_SCOPES the last ones are one."""
    parts = [part for part in provenance.split("/") if part]
    if parts:
        parts[-1] = parts[-1].partition(":")[0]
        parts = parts if parts[-1] else parts[:-1]
    return limit_scopes(parts)


def limit_scopes(scopes: list[str]) -> list[str]:
    """Limit scopes to MOST_SCOPES by joining the last ones."""
    if len(scopes) <= MOST_SCOPES:
        return scopes
    return [*scopes[: MOST_SCOPES - 1], "/".join(scopes[MOST_SCOPES - 1 :])]


def build_op_tree(table: OpTable, group_by: str, title: Title) -> tuple[GrowingTree, list[int]]:
    """Return a tree of all ops of a table, and the node of each. Below each node, several ops that XLA marks as
    duplicates are together."""
    growth = GrowingTree(f"by {group_by}")
    parents = []
    programs = {number: _name_program(number, title) for number in set(table.program_id.tolist())}
    scopes = {text: split_scopes(text) for text in set(table.provenance)} if group_by == "provenance" else {}
    rows = zip(table.program_id.tolist(), table.category, table.provenance, table.unattributed, strict=True)
    for program, category, provenance, why in rows:
        name = UNATTRIBUTED if why and not program else programs[program]
        node = 0 if group_by == "category" else growth.child(0, PROGRAM, name, (program, name))
        if group_by == "provenance":
            node = growth.path(node, SCOPE, scopes[provenance])
        else:
            node = growth.child(node, CATEGORY, category or UNNAMED, category)
        parents.append(node)
    names = [named or name for named, name in zip(table.deduplicated_name, table.name, strict=True)]
    groups = list(zip(parents, names, table.program_id.tolist(), strict=True))
    counts = Counter(groups)
    for row, (parent, name, program) in enumerate(groups):
        if (count := counts[parent, name, program]) > 1:
            title_of_all = f"{name} and its {count - 1:,} duplicate{'s' * (count > 2)}"
            parents[row] = growth.child(parent, DUPLICATES, title_of_all, (name, program))
    return growth, [
        growth.added(parent, OP, name or UNNAMED, row)
        for row, (parent, name) in enumerate(zip(parents, table.name, strict=True))
    ]


def _name_program(program_id: int, title: Title) -> str:
    """Return how the capture lists the program, else its number; ops of no program are together."""
    return title(program_id) or (f"program {program_id % (1 << 64)}" if program_id else NO_PROGRAM)
