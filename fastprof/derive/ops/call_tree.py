"""Calls as a tree: equal stacks are one node, which has the number of its calls and the sums of their amounts."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from fastprof.derive.ops.tables import sums_by
from fastprof.schema.array_types import Bools, Int32s, Int64s
from fastprof.schema.value_classes import dataclass

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
        """At most ``most`` nodes, those with the largest totals, a parent before its children; and for each that lost
        children one more, REST, with the sums of these. Sums stay what they are."""
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


def depths_limited(parent: Int64s, depth: Int32s) -> Int64s:
    """By call, itself, or the call around it at MOST_DEPTH if it lies deeper. ``parent``: the call around each, -1:
    none."""
    up = np.where(depth > MOST_DEPTH, parent, np.arange(len(parent)))
    while True:  # each round doubles how far up they look
        further = up[up]
        if np.array_equal(further, up):
            return up
        up = further


def call_tree(parent: Int64s, depth: Int32s, label: Int64s, own: Int64s) -> tuple[CallTree, Int64s]:
    """The tree of n calls, and the node of each. ``parent``: the call around each, -1: none; ``depth``: how many are
    around it; ``label``: what is called, from 0; ``own``: n rows of amounts. Takes a turn a level of depth."""
    at = depths_limited(parent, depth)
    is_call: Bools = at == np.arange(len(at))
    node = np.full(len(at) + 1, -1, np.int64)  # the last for -1
    base, labels = int(label.max(initial=0)) + 1, int(is_call.sum())
    order = np.argsort(depth, kind="stable")
    levels = np.searchsorted(depth[order], np.arange(min(int(depth.max(initial=-1)), MOST_DEPTH) + 2))
    parents, names, deep = [], [], []
    count = 0
    for level in range(len(levels) - 1):
        rows = order[levels[level] : levels[level + 1]]
        keys, place = np.unique((node[parent[rows]] + 1) * base + label[rows], return_inverse=True)
        node[rows] = count + place.reshape(-1)
        parents.append(keys // base - 1)
        names.append(keys % base)
        deep.append(np.full(len(keys), level, np.int64))
        count += len(keys)
    assert count <= labels
    nodes = node[at]
    above = np.concatenate([np.zeros(0, np.int64), *parents])
    calls = np.bincount(nodes[is_call], minlength=count).astype(np.int64)
    sums = _summed(nodes, own, count)
    flat = [np.concatenate([np.zeros(0, np.int64), *part]) for part in (names, deep)]
    return CallTree(above, flat[0], flat[1], calls, sums, rolled_up(above, flat[1], sums)), nodes


def rolled_up(parent: Int64s, depth: Int64s, own: Int64s) -> Int64s:
    """By node, the amounts of it and of all below it. CaptureError: those of all nodes do not fit 64 bits."""
    _summed(np.zeros(len(own), np.int64), own, 1)
    total = own.copy()
    order = np.argsort(depth, kind="stable")
    levels = np.searchsorted(depth[order], np.arange(1, int(depth.max(initial=0)) + 2))
    for level in range(len(levels) - 2, -1, -1):
        rows = order[levels[level] : levels[level + 1]]
        np.add.at(total, parent[rows], total[rows])
    return total


def _summed(row: Int64s, amounts: Int64s, count: int) -> Int64s:
    """Sums of rows of amounts. CaptureError: one does not fit 64 bits."""
    return np.stack([sums_by(row, column, count, TIMES) for column in amounts.T], axis=1)


def with_leaves(tree: CallTree, node: Int64s, label: Int64s, own: Int64s) -> CallTree:
    """The tree with children of some nodes: calls with a label and amounts, equal ones together. Of a ``node`` of -1
    they are left out."""
    some = node >= 0
    base = int(label.max(initial=0)) + 1
    keys, place = np.unique(node[some] * base + label[some], return_inverse=True)
    sums = _summed(place.reshape(-1), own[some], len(keys))
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
        rolled_up(parent, depth, every),
    )


def nearest(rows: Int64s, parent: Int64s, wanted: Bools) -> Int64s:
    """The nearest of the ``wanted`` around each of some rows, itself included; -1: none."""
    none = len(parent)
    up = np.where(wanted, np.arange(none), np.where(parent < 0, none, parent))
    up = np.append(up, none)
    while True:
        further = up[up]
        if np.array_equal(further, up):
            return np.where(up[rows] == none, -1, up[rows])
        up = further
