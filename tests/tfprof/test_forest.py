"""Trees as arrays, against plain walks; also trees too deep to walk by recursion."""

from __future__ import annotations

import random

import numpy as np
import pytest
from gate import few

from fastprof.derive.tfprof.forest import NodeForest, measure_depths, sort_preorder


def random_parents(seed: int, size: int) -> list[int]:
    """Parents of a tree in preorder: each row is below its predecessor or one of that row's ancestors."""
    dice = random.Random(seed)
    parents = [-1]
    for row in range(1, size):
        parent = row - 1
        while parents[parent] >= 0 and dice.random() < 0.6:
            parent = parents[parent]
        parents.append(parent)
    return parents


def path(parents: list[int], row: int) -> list[int]:
    """A row and its ancestors."""
    rows = []
    while row >= 0:
        rows.append(row)
        row = parents[row]
    return rows


@pytest.mark.parametrize("seed", few(range(20), 8))
def test_parents_ends_and_sums_are_those_of_a_walk(seed: int) -> None:
    parents = random_parents(seed, 1 + seed * 7)
    paths = [path(parents, row) for row in range(len(parents))]
    forest = NodeForest(np.array([len(one) - 1 for one in paths]))
    values = np.array([random.Random(seed + row).randrange(-50, 50) for row in range(len(parents))])
    below = [[row for row, rows in enumerate(paths) if top in rows] for top in range(len(parents))]
    assert forest.parent.tolist() == parents
    assert forest.end.tolist() == [rows[-1] + 1 for rows in below]
    assert forest.below(values).tolist() == [values[rows].sum() for rows in below]
    assert forest.above(values).tolist() == [values[rows].sum() for rows in paths]
    marked = values > 20
    assert forest.under(marked).tolist() == [bool(marked[rows[1:]].any()) for rows in paths]


@pytest.mark.parametrize("seed", few(range(20), 8))
def test_kept_rows_hang_below_their_nearest_kept_ancestor(seed: int) -> None:
    parents = random_parents(seed, 40)
    kept = np.array([True, *(random.Random(seed + row).random() < 0.5 for row in range(39))])
    forest = NodeForest(measure_depths(np.array(parents))).only(kept)
    rows = np.flatnonzero(kept).tolist()
    nearest = [next((one for one in path(parents, row)[1:] if kept[one]), -1) for row in rows]
    assert [rows[parent] if parent >= 0 else -1 for parent in forest.parent.tolist()] == nearest


@pytest.mark.parametrize("seed", few(range(20), 8))
def test_siblings_are_sorted_and_ties_stay(seed: int) -> None:
    parents = random_parents(seed, 40)
    large = 2**62 if seed % 2 else 0
    keys = [random.Random(seed + row).choice([-large, 0, 1, 2, large]) for row in range(40)]

    def walked(row: int) -> list[int]:
        children = sorted((one for one in range(40) if parents[one] == row), key=lambda one: keys[one])
        return [row, *(each for child in children for each in walked(child))]

    assert NodeForest(measure_depths(np.array(parents))).sorted(np.array(keys)).tolist() == walked(0)


@pytest.mark.parametrize("seed", few(range(20), 8))
def test_preorder_goes_down_before_it_goes_on(seed: int) -> None:
    dice = random.Random(seed)
    parents = [-1, *(dice.randrange(row) for row in range(1, 40))]

    def walked(row: int) -> list[int]:
        return [row, *(each for child in range(40) if parents[child] == row for each in walked(child))]

    assert sort_preorder(np.array(parents)).tolist() == walked(0)
    assert measure_depths(np.array(parents)).tolist() == [len(path(parents, row)) - 1 for row in range(40)]


def test_a_chain_may_be_a_hundred_thousand_deep() -> None:
    size = 100_000
    chain = NodeForest(np.arange(size))
    assert chain.parent.tolist() == list(range(-1, size - 1))
    assert set(chain.end.tolist()) == {size}
    assert chain.below(np.ones(size, np.int64)).tolist() == list(range(size, 0, -1))
    assert chain.sorted(np.zeros(size, np.int64)).tolist() == list(range(size))
