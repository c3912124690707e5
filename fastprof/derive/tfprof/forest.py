"""Trees as arrays in preorder: all walks are sums and searches, so a tree may be as deep as it likes. The tree of name
scopes, and the regular expressions that names are matched by: RE2's, and the entire text must match.

A node's subtree is the range of rows from its own to its end::

    row     0  1  2  3  4          a
    name    a  b  c  d  e         / \\
    depth   0  1  2  2  1        b   e
    parent -1  0  1  1  0       / \\
    end     5  4  3  4  5      c   d

A sum over a subtree is a difference of cumulated sums; a sum over a node's ancestors is a cumulated sum of what begins
at their rows and is taken back at their ends.

A node ``a/b/c`` is below ``a/b``, which is a node too, or a scope without figures. Names are sorted as if the slash
were the first of all bytes. That order is the preorder of the tree, because a name comes right before all names that
continue it with a slash::

    a        1 part,   0 shared with the name before       rows: a
    a/b/c    3 parts,  1 shared                                  a/b, a/b/c
    a/b/d    3 parts,  2 shared                                  a/b/d
    a-b      1 part,   0 shared                                  a-b
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from fastprof.errors import UsageError
from fastprof.schema.columns import (
    count_bounds,
    expand_ranges,
    find_group_bounds,
    find_last_started,
    find_runs,
    sort_rows,
)

Ints: TypeAlias = npt.NDArray[np.int64]
Flags: TypeAlias = npt.NDArray[np.bool_]


class NodeForest:
    """Tree by the depths of its rows in preorder; row 0 is the root, at depth 0."""

    def __init__(self, depth: Ints) -> None:
        self.depth = depth

    def __len__(self) -> int:
        return len(self.depth)

    @cached_property
    def parent(self) -> Ints:
        """Row of the parent: the last earlier row that is one less deep; -1 for the root."""
        size = len(self.depth)
        keys = np.sort(self.depth * size + np.arange(size))  # by depth, then row
        above = (self.depth - 1) * size
        place = np.searchsorted(keys, above + np.arange(size)) - 1
        parent: Ints = keys[np.maximum(place, 0)] - above
        parent[0] = -1
        return parent

    @cached_property
    def end(self) -> Ints:
        """Row after a node's subtree: its next sibling, else the end of its parent."""
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
        """Sum ``values`` over each node's subtree, itself included; rows are the last axis."""
        sums = np.zeros((*values.shape[:-1], len(self) + 1), values.dtype)
        np.cumsum(values, axis=-1, out=sums[..., 1:])
        return sums[..., self.end] - sums[..., :-1]

    def above(self, values: Ints) -> Ints:
        """Sum ``values`` over each node and its ancestors."""
        steps = np.zeros(len(self) + 1, np.int64)
        steps[:-1] = values
        np.subtract.at(steps, self.end, values)
        return np.cumsum(steps)[:-1]

    def under(self, marked: Flags) -> Flags:
        """Return whether each node has a marked ancestor other than itself."""
        return self.above(marked.astype(np.int64)) - marked > 0

    def only(self, chosen: Flags) -> NodeForest:
        """Return the tree of the chosen rows, each below its nearest chosen ancestor. The root must be chosen."""
        return NodeForest(self.above(chosen.astype(np.int64))[chosen] - 1)

    def sorted(self, key: Ints) -> Ints:
        """Return the rows in preorder again, with siblings in the order of ``key``; ties keep theirs."""
        order = _sort_groups(self.parent, key)
        sizes = (self.end - np.arange(len(self)))[order]
        ahead = np.empty(len(self), np.int64)
        ahead[order] = _sum_earlier_siblings(self.parent[order], sizes) + 1
        rows = np.empty(len(self), np.int64)
        rows[self.above(ahead) - 1] = np.arange(len(self))
        return rows


def _sort_groups(group: Ints, key: Ints) -> Ints:
    """Return the rows by group, then key, then row. If all three fit, one number a row is sorted, which is much
    faster."""
    size, least, most = len(group), int(key.min()), int(key.max())
    bits = (size.bit_length(), (most - least).bit_length())
    if 2 * bits[0] + bits[1] > _BITS:
        return sort_rows(group, key)
    packed = (((group + 1) << bits[1]) + (key - least) << bits[0]) + np.arange(size)
    packed.sort()
    return packed & ((1 << bits[0]) - 1)


_BITS = 62


def sort_preorder(parent: Ints) -> Ints:
    """Return the rows of a tree in preorder, siblings in the order of rows. ``parent``: -1 for row 0; other rows come
    later than their parents. Depth costs a pass each."""
    size = len(parent)
    depth = measure_depths(parent)
    by_depth = np.argsort(depth, kind="stable")
    bounds = find_group_bounds(depth[by_depth], int(depth.max(initial=0)) + 1)
    sizes = np.ones(size, np.int64)
    for level in range(len(bounds) - 2, 0, -1):
        rows = by_depth[bounds[level] : bounds[level + 1]]
        np.add.at(sizes, parent[rows], sizes[rows])
    place = np.zeros(size, np.int64)
    for level in range(1, len(bounds) - 1):
        rows = by_depth[bounds[level] : bounds[level + 1]]
        rows = rows[np.argsort(parent[rows], kind="stable")]
        place[rows] = place[parent[rows]] + 1 + _sum_earlier_siblings(parent[rows], sizes[rows])
    rows = np.empty(size, np.int64)
    rows[place] = np.arange(size)
    return rows


def _sum_earlier_siblings(parent: Ints, sizes: Ints) -> Ints:
    """Sum the sizes of the rows before each row that have its parent. Rows of a parent follow each other."""
    before = np.cumsum(sizes) - sizes
    first = find_runs(parent)
    earlier: Ints = before - np.repeat(before[first], np.diff(first, append=len(parent)))
    return earlier


def measure_depths(parent: Ints) -> Ints:
    """Return the depth of each row; parents come before their rows."""
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


EVERYTHING = (".*",)


def match_any(texts: pa.Array, regexes: Sequence[str]) -> Flags:
    """Return whether any of ``regexes`` matches each text entirely. ``.*`` does not match the end of a line.
    UsageError: one is not a regular expression."""
    matches = np.zeros(len(texts), np.bool_)
    for regex in regexes:
        matches |= match_regex(texts, regex)
    return matches


NOTHING = r"[^\s\S]"
"""Regular expression that matches nothing."""


def find_fault(regex: str) -> str:
    """Return RE2's error for an invalid regular expression, or ""."""
    try:  # alone: an expression such as a)(b would be valid inside the parentheses
        pc.match_substring_regex(pa.array([""]), regex)
    except pa.ArrowInvalid as error:
        return str(error).partition(": ")[2]
    return ""


def match_regex(texts: pa.Array, regex: str) -> Flags:
    """Return whether a regular expression matches each text entirely. UsageError: it is not one."""
    if fault := find_fault(regex):
        raise UsageError(f"{regex!r} is not a regular expression: {fault}")
    matches = pc.match_substring_regex(texts, rf"\A(?:{regex}{_close_quote(regex)})\z")
    return np.asarray(matches.to_numpy(zero_copy_only=False), np.bool_)


def _close_quote(regex: str) -> str:
    r"""Return ``\E`` if a quote ``\Q…`` reaches the end."""
    place, quoted = 0, False
    while 0 <= place < len(regex):
        if quoted:
            place = regex.find(r"\E", place)
            quoted = place < 0
            place += 2 if place >= 0 else 0
        elif regex[place] == "\\":
            quoted = regex.startswith(r"\Q", place)
            place += 2
        else:
            place += 1
    return r"\E" if quoted else ""


ROOT = "_TFProfRoot"
_SLASH = ord("/")
_MOST_BYTES = 1 << 30  # of names of scopes: a deep name has as many, each as long as itself


class NameScopes:
    """Rows of the tree: 0 is the root, others are the first parts of a node's name."""

    def __init__(self, names: pa.Array) -> None:
        self._names = names
        self._offsets, self._bytes = get_text_buffers(names)
        self._slashes = np.flatnonzero(self._bytes == _SLASH)
        self._first_slash = np.searchsorted(self._slashes, self._offsets[:-1])
        parts = np.diff(np.r_[self._first_slash, len(self._slashes)]) + 1
        order = _sort_names(self._offsets, self._bytes)
        shared = _count_shared_parts(self._offsets, self._bytes, self._slashes, order)
        added = np.maximum(parts[order] - shared, 0)
        place, level = expand_ranges(shared + 1, added)
        owner = order[place]
        is_node = level == parts[owner]
        self.forest = NodeForest(np.r_[0, level])
        self.node = np.r_[-1, np.where(is_node, owner, -1)]
        """Node of each row; -1 for a scope without a node, and the root."""
        self._owner, self._level = np.r_[-1, owner], np.r_[0, level]

    def names(self, rows: Ints) -> pa.Array:
        """Return the names of these rows. UsageError: those of scopes are too long."""
        nodes = self.node[rows]
        scopes = rows[nodes < 0]
        parts = [self._names.take(pa.array(nodes[nodes >= 0])), self._scope_names(scopes)]
        place = np.empty(len(rows), np.int64)
        place[nodes >= 0] = np.arange(len(parts[0]))
        place[nodes < 0] = np.arange(len(scopes)) + len(parts[0])
        return pa.concat_arrays(parts).take(pa.array(place))

    def _scope_names(self, rows: Ints) -> pa.Array:
        inner = rows[rows > 0]
        owner = self._owner[inner]
        begins = self._offsets[owner]
        lengths = self._slashes[self._first_slash[owner] + self._level[inner] - 1] - begins
        if lengths.sum() > _MOST_BYTES:
            raise UsageError(f"the names of {len(inner):,} scopes are longer than {_MOST_BYTES:,} bytes together")
        names = slice_texts(self._bytes, begins, lengths)
        return pa.concat_arrays([pa.array([ROOT]), names]) if len(inner) < len(rows) else names


def get_text_buffers(texts: pa.Array) -> tuple[Ints, np.typing.NDArray[np.uint8]]:
    """Return where each text begins, with the end of the last one, and the bytes of all; the first begins at 0."""
    offsets = np.frombuffer(texts.buffers()[1] or b"\0" * 4, np.int32)[texts.offset : texts.offset + len(texts) + 1]
    offsets = offsets.astype(np.int64)
    data = np.frombuffer(texts.buffers()[2] or b"", np.uint8)[offsets[0] : offsets[-1]]
    return offsets - offsets[0], data


def slice_texts(data: np.typing.NDArray[np.uint8], begins: Ints, lengths: Ints) -> pa.Array:
    """Return texts that are slices of ``data``."""
    taken = data[expand_ranges(begins, lengths)[1]]
    buffers = [None, pa.py_buffer(count_bounds(lengths).astype(np.int32)), pa.py_buffer(taken)]
    return pa.Array.from_buffers(pa.string(), len(lengths), buffers)


def _sort_names(offsets: Ints, data: np.typing.NDArray[np.uint8]) -> Ints:
    """Return the names in the order of their bytes, with the slash before all others."""
    ranks = np.arange(256, dtype=np.uint8)
    ranks[:_SLASH] += 1
    ranks[_SLASH] = 0
    buffers = [None, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(ranks[data])]
    ranked = pa.Array.from_buffers(pa.binary(), len(offsets) - 1, buffers)
    return np.asarray(pc.sort_indices(ranked)).astype(np.int64)


def _count_shared_bytes(begin: Ints, length: Ints, data: np.typing.NDArray[np.uint8]) -> Ints:
    """Count the bytes that each text begins with like the text before. Eight at a time are compared, as one number: the
    lowest byte that differs is the first."""
    padded = np.r_[data, np.zeros(8, np.uint8)]
    eights = np.ndarray(len(data) + 1, np.dtype("<u8"), padded, strides=(1,))
    shared, most = np.zeros(len(begin), np.int64), np.zeros(len(begin), np.int64)
    most[1:] = np.minimum(length[1:], length[:-1])
    left = np.flatnonzero(most)
    while len(left) >= _FEW:
        differing = eights[begin[left] + shared[left]] ^ eights[begin[left - 1] + shared[left]]
        lowest = differing & (~differing + np.uint64(1))
        alike = find_last_started(_FIRST_BITS, lowest)
        alike[differing == 0] = 8
        shared[left] = np.minimum(shared[left] + alike, most[left])
        left = left[(alike == 8) & (shared[left] < most[left])]
    for text in left.tolist():
        here, before, done = begin[text], begin[text - 1], shared[text]
        rest = data[here + done : here + most[text]] != data[before + done : before + most[text]]
        shared[text] += int(rest.argmax()) if rest.any() else len(rest)
    return shared


_FEW: Final = 64  # pairs of texts that are compared one by one
_FIRST_BITS: Final = np.uint64(1) << np.arange(0, 64, 8, dtype=np.uint64)


def _count_shared_parts(offsets: Ints, data: np.typing.NDArray[np.uint8], slashes: Ints, order: Ints) -> Ints:
    """Count the parts that each name, in ``order``, shares with the name before."""
    begin, length = offsets[order], np.diff(offsets)[order]
    shared = _count_shared_bytes(begin, length, data)
    first = np.searchsorted(slashes, begin)
    parts = np.searchsorted(slashes, begin + shared) - first
    before = np.r_[0, length[:-1]]
    followed = np.r_[slashes, -1][np.searchsorted(slashes, begin + shared)] == begin + shared
    whole = (shared == before) & (followed | (length == shared)) & (np.arange(len(order)) > 0)
    both: Ints = parts + whole
    return both
