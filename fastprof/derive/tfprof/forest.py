"""Trees as arrays in preorder: all walks are sums and searches, so a tree may be as deep as it likes.

A node's subtree is the stretch of rows from its own to its end::

    row     0  1  2  3  4          a
    name    a  b  c  d  e         / \\
    depth   0  1  2  2  1        b   e
    parent -1  0  1  1  0       / \\
    end     5  4  3  4  5      c   d

A sum over a subtree is a difference of cumulated sums; a sum over a node's ancestors is a cumulated sum of what begins
at their rows and is taken back at their ends.
"""

from __future__ import annotations

from functools import cached_property
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Ints: TypeAlias = npt.NDArray[np.int64]
Flags: TypeAlias = npt.NDArray[np.bool_]


class Forest:
    """A tree by the depths of its rows in preorder; row 0 is the root, at depth 0."""

    def __init__(self, depth: Ints) -> None:
        self.depth = depth

    def __len__(self) -> int:
        return len(self.depth)

    @cached_property
    def parent(self) -> Ints:
        """Row of the parent: the last earlier row that is one less deep; of the root -1."""
        size = len(self.depth)
        keys = np.sort(self.depth * size + np.arange(size))  # by depth, then row
        above = (self.depth - 1) * size
        place = np.searchsorted(keys, above + np.arange(size)) - 1
        parent: Ints = keys[np.maximum(place, 0)] - above
        parent[0] = -1
        return parent

    @cached_property
    def end(self) -> Ints:
        """The row after a node's subtree: its next sibling, else the end of its parent."""
        size = len(self.depth)
        by_parent = np.argsort(self.parent, kind="stable")
        end = np.full(size, -1, np.int64)
        siblings = self.parent[by_parent[:-1]] == self.parent[by_parent[1:]]
        end[by_parent[:-1][siblings]] = by_parent[1:][siblings]
        end[0] = size
        jump = self.parent.copy()
        open_rows = np.flatnonzero(end < 0)
        while len(open_rows):  # each pass doubles the number of generations that an open row looks up
            up = jump[open_rows]
            end[open_rows] = end[up]
            jump[open_rows] = jump[up]
            open_rows = open_rows[end[open_rows] < 0]
        return end

    def below(self, values: Ints) -> Ints:
        """Sums of ``values`` over each node's subtree, itself included; rows are the last axis."""
        sums = np.zeros((*values.shape[:-1], len(self) + 1), values.dtype)
        np.cumsum(values, axis=-1, out=sums[..., 1:])
        return sums[..., self.end] - sums[..., :-1]

    def above(self, values: Ints) -> Ints:
        """Sums of ``values`` over each node and its ancestors."""
        steps = np.zeros(len(self) + 1, np.int64)
        steps[:-1] = values
        np.subtract.at(steps, self.end, values)
        return np.cumsum(steps)[:-1]

    def under(self, marked: Flags) -> Flags:
        """Which nodes have a marked ancestor, other than themselves."""
        return self.above(marked.astype(np.int64)) - marked > 0

    def only(self, kept: Flags) -> Forest:
        """The tree of the kept rows, each below its nearest kept ancestor. The root must be kept."""
        return Forest(self.above(kept.astype(np.int64))[kept] - 1)

    def sorted(self, key: Ints) -> Ints:
        """The rows in preorder again, with siblings in the order of ``key``; ties keep theirs."""
        order = _sorted_groups(self.parent, key)
        sizes = (self.end - np.arange(len(self)))[order]
        before = np.cumsum(sizes) - sizes
        parents = self.parent[order]
        first = np.r_[True, parents[1:] != parents[:-1]]
        before -= np.repeat(before[first], np.diff(np.r_[np.flatnonzero(first), len(order)]))
        ahead = np.empty(len(self), np.int64)
        ahead[order] = before + 1
        rows = np.empty(len(self), np.int64)
        rows[self.above(ahead) - 1] = np.arange(len(self))
        return rows


def _sorted_groups(group: Ints, key: Ints) -> Ints:
    """Rows by group, then key, then row. If all three fit, one number a row is sorted, which is much faster."""
    size, least, most = len(group), int(key.min()), int(key.max())
    bits = (size.bit_length(), (most - least).bit_length())
    if 2 * bits[0] + bits[1] > _BITS:
        return np.lexsort((key, group))
    packed = (((group + 1) << bits[1]) + (key - least) << bits[0]) + np.arange(size)
    packed.sort()
    return packed & ((1 << bits[0]) - 1)


_BITS = 62


def preorder(parent: Ints) -> Ints:
    """The rows of a tree in preorder, siblings in the order of rows; ``parent`` of row 0 is -1, others come later than
    their parents. Depth costs a pass each."""
    size = len(parent)
    depth = depths(parent)
    by_depth = np.argsort(depth, kind="stable")
    bounds = np.searchsorted(depth[by_depth], np.arange(depth.max(initial=0) + 2))
    sizes = np.ones(size, np.int64)
    for level in range(len(bounds) - 2, 0, -1):
        rows = by_depth[bounds[level] : bounds[level + 1]]
        np.add.at(sizes, parent[rows], sizes[rows])
    place = np.zeros(size, np.int64)
    for level in range(1, len(bounds) - 1):
        rows = by_depth[bounds[level] : bounds[level + 1]]
        rows = rows[np.argsort(parent[rows], kind="stable")]
        before = np.cumsum(sizes[rows]) - sizes[rows]
        first = np.r_[True, parent[rows][1:] != parent[rows][:-1]]
        before -= np.repeat(before[first], np.diff(np.r_[np.flatnonzero(first), len(rows)]))
        place[rows] = place[parent[rows]] + 1 + before
    rows = np.empty(size, np.int64)
    rows[place] = np.arange(size)
    return rows


def depths(parent: Ints) -> Ints:
    """Depth of each row, whose parents come before it."""
    depth = np.zeros(len(parent), np.int64)
    depth[1:] = 1
    jump = parent.copy()
    rows = np.flatnonzero(jump > 0)
    while len(rows):  # after pass k a row has counted 2^k generations, or all
        up = jump[rows]
        depth[rows] += depth[up]
        jump[rows] = jump[up]
        rows = rows[jump[rows] > 0]
    return depth
