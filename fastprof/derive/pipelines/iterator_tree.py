"""The iterators of each pipeline as a tree: who asks whom for elements."""

from __future__ import annotations

import numpy as np

from fastprof._native.pipeline_kernels import preorder
from fastprof.derive.pipelines.reading import InputPipelines, Records, Tree
from fastprof.derive.steps.links import numbered
from fastprof.schema.array_types import Bools, Int32s, Int64s


def number_of(ids: Int64s, wanted: Int64s) -> Int32s:
    """The place of each wanted id among ids that differ, -1: it is not there."""
    number, count = numbered([np.concatenate([ids, wanted])])
    place = np.full(count, -1, np.int32)
    place[number[: len(ids)]] = np.arange(len(ids), dtype=np.int32)
    found: Int32s = place[number[len(ids) :]]
    return found


def parents_by_id(iterator_id: Int64s, parent_id: Int64s, has_parent: Bools) -> Int32s:
    """The number of the iterator that each one says it is asked by; -1: none, or it has no events."""
    parent = np.where(has_parent, number_of(iterator_id, parent_id), -1).astype(np.int32)
    parent[parent == np.arange(len(parent))] = -1
    return parent


def tree_of(parent: Int32s, pipelines: InputPipelines, call_pipeline: Int32s, records: Records) -> Tree:
    """``parent``: by iterator. What a call of the pipeline reached, and has no way up to its root, lies below that."""
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
    whole = [
        np.concatenate([pipeline[order], strays[0]]),
        np.concatenate([order, strays[1]]),
        np.concatenate([up[order], pipelines.root[strays[0]]]),
        np.concatenate([depth, np.ones(len(strays[0]), np.int32)]),
    ]
    rows = np.argsort(whole[0], kind="stable")
    return Tree(*(column[rows].astype(np.int32) for column in whole))


def _strays(pipeline: Int32s, of_record: Int32s, iterator: Int32s) -> tuple[Int32s, Int32s]:
    """Pairs of a pipeline and an iterator that its calls reached, though it is not in its tree."""
    apart = pipeline[iterator] != of_record
    pairs = np.unique(of_record[apart].astype(np.int64) << 32 | iterator[apart])
    return (pairs >> 32).astype(np.int32), (pairs & 0xFFFFFFFF).astype(np.int32)
