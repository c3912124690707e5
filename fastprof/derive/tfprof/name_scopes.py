"""The tree of name scopes: a node ``a/b/c`` is below ``a/b``, which is a node too, or a scope without figures.

Names are sorted as if the slash were the first of all bytes. That order is the preorder of the tree, because a name
comes right before all names that continue it with a slash::

    a        1 part,   0 shared with the name before       rows: a
    a/b/c    3 parts,  1 shared                                  a/b, a/b/c
    a/b/d    3 parts,  2 shared                                  a/b/d
    a-b      1 part,   0 shared                                  a-b
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fastprof.derive.tfprof.forest import Forest, Ints
from fastprof.errors import UsageError

ROOT = "_TFProfRoot"
_SLASH = ord("/")
_MOST_BYTES = 1 << 30  # of names of scopes: a deep name has as many, each as long as itself


class NameScopes:
    """Rows of the tree: 0 is the root, others are the first parts of a node's name."""

    def __init__(self, names: pa.Array) -> None:
        self._names = names
        self._offsets, self._bytes = text_buffers(names)
        self._slashes = np.flatnonzero(self._bytes == _SLASH)
        self._first_slash = np.searchsorted(self._slashes, self._offsets[:-1])
        parts = np.diff(np.r_[self._first_slash, len(self._slashes)]) + 1
        order = _preorder(self._offsets, self._bytes)
        shared = _shared_parts(self._offsets, self._bytes, self._slashes, order)
        added = np.maximum(parts[order] - shared, 0)
        owner = np.repeat(order, added)
        level = np.arange(len(owner)) - np.repeat(np.cumsum(added) - added, added) + np.repeat(shared, added) + 1
        is_node = level == parts[owner]
        self.forest = Forest(np.r_[0, level])
        self.node = np.r_[-1, np.where(is_node, owner, -1)]
        """The node of each row; -1: a scope without a node, or the root."""
        self._owner, self._level = np.r_[-1, owner], np.r_[0, level]

    def names(self, rows: Ints) -> pa.Array:
        """The names of these rows. UsageError: those of scopes are too long."""
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
        names = slices_of(self._bytes, begins, lengths)
        return pa.concat_arrays([pa.array([ROOT]), names]) if len(inner) < len(rows) else names


def text_buffers(texts: pa.Array) -> tuple[Ints, np.typing.NDArray[np.uint8]]:
    """Where each text begins, with the end of the last one, and the bytes of all; the first begins at 0."""
    offsets = np.frombuffer(texts.buffers()[1] or b"\0" * 4, np.int32)[texts.offset : texts.offset + len(texts) + 1]
    offsets = offsets.astype(np.int64)
    data = np.frombuffer(texts.buffers()[2] or b"", np.uint8)[offsets[0] : offsets[-1]]
    return offsets - offsets[0], data


def slices_of(data: np.typing.NDArray[np.uint8], begins: Ints, lengths: Ints) -> pa.Array:
    """Texts that are stretches of ``data``."""
    offsets = np.r_[0, np.cumsum(lengths)]
    taken = data[np.arange(offsets[-1]) + np.repeat(begins - offsets[:-1], lengths)]
    buffers = [None, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(taken)]
    return pa.Array.from_buffers(pa.string(), len(lengths), buffers)


def _preorder(offsets: Ints, data: np.typing.NDArray[np.uint8]) -> Ints:
    """The names in the order of their bytes, with the slash before all others."""
    ranks = np.arange(256, dtype=np.uint8)
    ranks[:_SLASH] += 1
    ranks[_SLASH] = 0
    buffers = [None, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(ranks[data])]
    ranked = pa.Array.from_buffers(pa.binary(), len(offsets) - 1, buffers)
    return np.asarray(pc.sort_indices(ranked)).astype(np.int64)


def _shared_bytes(begin: Ints, length: Ints, data: np.typing.NDArray[np.uint8]) -> Ints:
    """How many bytes each text begins with that the text before begins with, too. Eight at a time are compared, as one
    number: the lowest byte that differs is the first."""
    padded = np.r_[data, np.zeros(8, np.uint8)]
    eights = np.ndarray(len(data) + 1, np.dtype("<u8"), padded, strides=(1,))
    shared, most = np.zeros(len(begin), np.int64), np.zeros(len(begin), np.int64)
    most[1:] = np.minimum(length[1:], length[:-1])
    left = np.flatnonzero(most)
    while len(left) >= _FEW:
        differing = eights[begin[left] + shared[left]] ^ eights[begin[left - 1] + shared[left]]
        lowest = differing & (~differing + np.uint64(1))
        alike = np.searchsorted(_FIRST_BITS, lowest, "right") - 1
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


def _shared_parts(offsets: Ints, data: np.typing.NDArray[np.uint8], slashes: Ints, order: Ints) -> Ints:
    """How many parts of each name, in ``order``, are those of the name before."""
    begin, length = offsets[order], np.diff(offsets)[order]
    shared = _shared_bytes(begin, length, data)
    first = np.searchsorted(slashes, begin)
    parts = np.searchsorted(slashes, begin + shared) - first
    before = np.r_[0, length[:-1]]
    followed = np.r_[slashes, -1][np.searchsorted(slashes, begin + shared)] == begin + shared
    whole = (shared == before) & (followed | (length == shared)) & (np.arange(len(order)) > 0)
    both: Ints = parts + whole
    return both
