"""Trees of iterators as columns: where each subtree ends, and which asynchronous iterator each iterator runs below.

A row is an iterator of a pipeline; rows of a tree are in preorder, trees one after another. Nothing here recurses or
walks the rows one by one: pointers are doubled until they stand still, so a chain of n rows takes log n rounds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from fastprof.schema.array_types import Bools, Int64s

if TYPE_CHECKING:
    from fastprof.derive.pipelines.reading import Tree


@dataclass(frozen=True, slots=True)
class Subtrees:
    """``up``: the row of the parent, -1: none. ``end``: the row after the last one below. ``stage``: the row of the
    nearest asynchronous iterator above, which is not itself; -1: none. All by row of the tree."""

    up: Int64s
    end: Int64s
    stage: Int64s

    def sums(self, values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Of each row, the sum over itself and all rows below that are of the same stage."""
        order = np.lexsort((np.arange(len(values)), self.stage))
        before = np.concatenate([[0.0], np.cumsum(values[order])])
        place = np.empty(len(values), np.int64)
        place[order] = np.arange(len(values))
        ends = _places(self.stage, order, self.end)
        sums: npt.NDArray[np.float64] = before[ends] - before[place]
        return sums


def _places(stage: Int64s, order: Int64s, rows: Int64s) -> Int64s:
    """Where in ``order``, by stage, then row, the first row of each stage is that is not before ``rows``."""
    size = len(stage) + 1
    keys = (stage[order] + 1) * size + order
    return np.searchsorted(keys, (stage + 1) * size + rows)


def subtrees(tree: Tree, asynchronous: Bools) -> Subtrees:
    """``asynchronous``: by row of the tree."""
    up = parent_rows(tree)
    return Subtrees(up, _ends(tree.depth.astype(np.int64), up), _stages(up, asynchronous))


def row_keys(pipeline: npt.NDArray[np.int32], iterator: npt.NDArray[np.int32], iterators: int) -> Int64s:
    """One number for a pipeline and an iterator."""
    keys: Int64s = pipeline.astype(np.int64) * max(iterators, 1) + iterator
    return keys


def rows_of(tree: Tree, pipeline: npt.NDArray[np.int32], iterator: npt.NDArray[np.int32]) -> Int64s:
    """The row of the tree of each iterator of a pipeline; -1: there is none."""
    if not len(tree.iterator):
        return np.full(len(iterator), -1, np.int64)
    count = int(max(tree.iterator.max(), iterator.max(initial=0))) + 1
    keys = row_keys(tree.pipeline, tree.iterator, count)
    order = np.argsort(keys, kind="stable")
    keys, wanted = keys[order], row_keys(pipeline, iterator, count)
    place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where((keys[place] == wanted) & (iterator >= 0), order[place], -1)


def parent_rows(tree: Tree) -> Int64s:
    """The row of the parent of each row; -1: none."""
    return rows_of(tree, tree.pipeline, tree.parent)


def _ends(depth: Int64s, up: Int64s) -> Int64s:
    """A subtree ends where the next row of its depth begins, if that has the same parent, else with its parent's."""
    count = len(depth)
    order = np.lexsort((np.arange(count), depth))
    following = np.full(count + 1, count, np.int64)
    same = depth[order[1:]] == depth[order[:-1]]
    following[order[:-1][same]] = order[1:][same]
    above = np.append(up, -1)
    is_last = (following == count) | (above[np.minimum(following, count)] != above)
    is_last[:count] &= up >= 0  # the next tree follows upon a root
    pointer = np.where(is_last, np.where(above >= 0, above, count), np.arange(count + 1))
    return following[_settled(pointer)][:count]


def _stages(up: Int64s, asynchronous: Bools) -> Int64s:
    count = len(up)
    above = np.where(up >= 0, up, count)
    pointer = np.append(np.where(asynchronous, np.arange(count), above), count)
    found = _settled(pointer)[above]
    return np.where(found == count, -1, found)


def _settled(pointer: Int64s) -> Int64s:
    """Where each pointer leads in the end: a place that points to itself."""
    for _ in range(len(pointer).bit_length()):
        further = pointer[pointer]
        if (further == pointer).all():
            break
        pointer = further
    return pointer
