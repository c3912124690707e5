"""Trees of iterators as columns, against a walk of each tree."""

from __future__ import annotations

import random

import numpy as np
import pytest
from gate import few

from fastprof.derive.pipelines.iterators import Subtrees, find_tree_rows
from fastprof.derive.pipelines.recorded_pipelines import IteratorTree


def forest(seed: int) -> IteratorTree:
    """A few random trees in preorder; the same iterators may be in several, under other parents."""
    rng = random.Random(seed)
    rows: list[tuple[int, int, int, int]] = []
    for pipeline in range(rng.randrange(1, 4)):
        numbers = rng.sample(range(60), rng.randrange(1, 30))
        path = [numbers[0]]
        rows.append((pipeline, numbers[0], -1, 0))
        for number in numbers[1:]:
            del path[rng.randrange(1, len(path) + 1) :]
            rows.append((pipeline, number, path[-1], len(path)))
            path.append(number)
    return IteratorTree(*(np.array(column, np.int32) for column in zip(*rows, strict=True)))


@pytest.mark.parametrize("seed", few(range(40), 12))
def test_ends_stages_and_sums_are_those_of_a_walk(seed: int) -> None:
    tree = forest(seed)
    rng = np.random.default_rng(seed)
    size = len(tree.iterator)
    asynchronous, values = rng.random(size) < 0.3, rng.integers(0, 100, size).astype(np.float64)
    subtrees = Subtrees(tree, asynchronous)
    keys = list(zip(tree.pipeline.tolist(), tree.iterator.tolist(), strict=True))
    up = [
        keys.index((p, a)) if a >= 0 else -1 for p, a in zip(tree.pipeline.tolist(), tree.parent.tolist(), strict=True)
    ]
    above: list[list[int]] = []
    for row in range(size):
        above.append([] if up[row] < 0 else [up[row], *above[up[row]]])
    stage = [next((one for one in rows if asynchronous[one]), -1) for rows in above]
    below = [[one for one in range(size) if one == row or row in above[one]] for row in range(size)]
    assert subtrees.up.tolist() == up
    assert subtrees.stage.tolist() == stage
    assert subtrees.end.tolist() == [max(rows) + 1 for rows in below]
    sums = [sum(values[one] for one in rows if stage[one] == stage[rows[0]]) for rows in below]
    assert subtrees.sums(values).tolist() == sums


def test_a_chain_of_a_million_takes_no_walk() -> None:
    count = 1_000_000
    number = np.arange(count, dtype=np.int32)
    chain = IteratorTree(np.zeros(count, np.int32), number, number - 1, number)
    subtrees = Subtrees(chain, number % 2 == 1)
    assert (subtrees.end == count).all()
    assert subtrees.stage[[0, 1, 2, 3, 999_999]].tolist() == [-1, -1, 1, 1, 999_997]


def test_what_is_in_no_tree_has_no_row() -> None:
    tree = IteratorTree(*(np.array(column, np.int32) for column in ([0, 1], [4, 5], [-1, -1], [0, 0])))
    asked = [(0, 4), (1, 5), (0, 5), (1, 4), (7, 9), (0, -1)]
    pipeline, iterator = (np.array(column, np.int32) for column in zip(*asked, strict=True))
    assert find_tree_rows(tree, pipeline, iterator).tolist() == [0, 1, -1, -1, -1, -1]
    none = IteratorTree(*(np.zeros(0, np.int32) for _ in range(4)))
    assert find_tree_rows(none, pipeline, iterator).tolist() == [-1] * 6
    assert len(Subtrees(none, np.zeros(0, np.bool_)).end) == 0
