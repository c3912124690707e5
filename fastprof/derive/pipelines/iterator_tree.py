"""The iterators of each pipeline as a tree: who takes elements from whom, where each subtree ends, and below which
asynchronous iterator each runs.

A row is an iterator of a pipeline; rows of a tree are in preorder, trees one after another. Nothing recurses or walks
the rows one by one: pointers are doubled until they stand still, so a chain of n rows takes log n rounds.
"""

from __future__ import annotations

import numpy as np

from fastprof._native.pipeline_kernels import preorder
from fastprof.derive.pipelines.reading import InputPipelines, Records, Tree
from fastprof.derive.steps.links import numbered
from fastprof.schema.array_types import Bools, Float64s, Int32s, Int64s


def number_of(ids: Int64s, wanted: Int64s) -> Int32s:
    """The place of each wanted id among distinct ids, -1: none."""
    number, count = numbered([np.concatenate([ids, wanted])])
    place = np.full(count, -1, np.int32)
    place[number[: len(ids)]] = np.arange(len(ids), dtype=np.int32)
    return np.asarray(place[number[len(ids) :]])


def parents_by_id(iterator_id: Int64s, parent_id: Int64s, has_parent: Bools) -> Int32s:
    """The number of the iterator that each one names as its parent; -1: none, or it has no events."""
    parent = np.where(has_parent, number_of(iterator_id, parent_id), -1).astype(np.int32)
    parent[parent == np.arange(len(parent))] = -1
    return parent


def tree_of(parent: Int32s, pipelines: InputPipelines, call_pipeline: Int32s, records: Records) -> Tree:
    """``parent``: by iterator. Iterators that a call reached are below its root if no way leads up to it."""
    up = parent.copy()
    up[pipelines.root] = -1
    order, depth = np.empty(len(up), np.int32), np.empty(len(up), np.int32)
    count = preorder(up, pipelines.root, order, depth)
    order, depth = order[:count], depth[:count]
    pipeline = np.full(len(up), -1, np.int32)
    begins = np.flatnonzero(depth == 0)
    pipeline[order] = np.repeat(np.arange(len(begins), dtype=np.int32), np.diff(np.append(begins, count)))
    of_record = call_pipeline[records.call]
    strays = _strays(pipeline, of_record, records.iterator)
    columns = [
        np.concatenate([pipeline[order], strays[0]]),
        np.concatenate([order, strays[1]]),
        np.concatenate([up[order], pipelines.root[strays[0]]]),
        np.concatenate([depth, np.ones(len(strays[0]), np.int32)]),
    ]
    rows = np.argsort(columns[0], kind="stable")
    return Tree(*(column[rows].astype(np.int32) for column in columns))


def _strays(pipeline: Int32s, of_record: Int32s, iterator: Int32s) -> tuple[Int32s, Int32s]:
    """Pairs of a pipeline and an iterator that its calls reached outside of its tree."""
    apart = pipeline[iterator] != of_record
    pairs = np.unique(of_record[apart].astype(np.int64) << 32 | iterator[apart])
    return (pairs >> 32).astype(np.int32), (pairs & 0xFFFFFFFF).astype(np.int32)


def rows_of(tree: Tree, pipeline: Int32s, iterator: Int32s) -> Int64s:
    """The row of the tree of each iterator of a pipeline; -1: none."""
    if not len(tree.iterator):
        return np.full(len(iterator), -1, np.int64)
    count = int(max(tree.iterator.max(), iterator.max(initial=0))) + 1
    keys, wanted = (
        at.astype(np.int64) * count + of for at, of in ((tree.pipeline, tree.iterator), (pipeline, iterator))
    )
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where((keys[place] == wanted) & (iterator >= 0), order[place], -1)


class Subtrees:
    """``up``: the row of the parent, -1: none. ``end``: the row after the last one below. ``stage``: the row of the
    nearest asynchronous iterator above, not itself; -1: none. All by row of the tree."""

    def __init__(self, tree: Tree, asynchronous: Bools) -> None:
        """``asynchronous``: by row of the tree."""
        self.up = rows_of(tree, tree.pipeline, tree.parent)
        self.end = _ends(tree.depth.astype(np.int64), self.up)
        self.stage = _stages(self.up, asynchronous)

    def sums(self, values: Float64s) -> Float64s:
        """For each row the sum over itself and all rows below in the same stage."""
        order = np.lexsort((np.arange(len(values)), self.stage))
        before = np.concatenate([[0.0], np.cumsum(values[order])])
        place = np.empty(len(values), np.int64)
        place[order] = np.arange(len(values))
        size = (
            len(values) + 1
        )  # in the order of stage, then row: the first row of each stage that is not before its end
        keys = (self.stage[order] + 1) * size + order
        ends = np.searchsorted(keys, (self.stage + 1) * size + self.end)
        return np.asarray(before[ends] - before[place])


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
    stage = _settled(pointer)[above]
    return np.where(stage == count, -1, stage)


def _settled(pointer: Int64s) -> Int64s:
    """Where each pointer leads in the end: a place that points to itself."""
    for _ in range(len(pointer).bit_length()):
        further = pointer[pointer]
        if (further == pointer).all():
            break
        pointer = further
    return pointer
