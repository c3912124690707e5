"""Trees as columns, against a reader that recurses."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from gate import few

from fastprof.derive.ops.op_trees import CATEGORY, INSTRUCTION, OP, GrowingTree, PreorderTree, lay_out


def random_growth(seed: int, count: int) -> tuple[GrowingTree, np.ndarray]:
    """A tree, and the size of each of its nodes: that of all below it, of ends a small number, so that there are
    ties."""
    random = Random(seed)
    growth = GrowingTree("root")
    for _ in range(count):
        growth.added(random.randrange(len(growth)), CATEGORY, random.choice("abc"))
    own = np.array([random.randrange(4) for _ in range(len(growth))])
    return growth, growth.levels().rolled_up(own)


def expected(growth: GrowingTree, size: np.ndarray) -> list[tuple[int, int]]:
    """(node as it grew, depth) in preorder: largest first, then by name, then as they grew."""
    children: dict[int, list[int]] = {}
    for node, parent in enumerate(growth.parent):
        children.setdefault(parent, []).append(node)
    found = []

    def visit(node: int, depth: int) -> None:
        found.append((node, depth))
        for child in sorted(children.get(node, []), key=lambda one: (-size[one], growth.name[one], one)):
            visit(child, depth + 1)

    visit(0, 0)
    return found


def laid(growth: GrowingTree, size: np.ndarray) -> PreorderTree:
    return lay_out(growth, size, np.zeros(len(growth)))


@pytest.mark.parametrize("seed", few(range(20), 8))
def test_nodes_are_in_preorder_the_largest_child_first(seed: int) -> None:
    growth, size = random_growth(seed, 3 * seed)
    tree = laid(growth, size)
    assert list(zip(tree.grown.tolist(), tree.depth.tolist(), strict=True)) == expected(growth, size)
    assert tree.name == [growth.name[node] for node in tree.grown.tolist()]
    for node in range(1, len(tree)):
        assert tree.grown[tree.parent[node]] == growth.parent[tree.grown[node]]
        assert tree.parent[node] < node < tree.last[node] <= tree.last[tree.parent[node]]
    assert tree.children().sum() == len(tree) - 1


def test_sums_go_up_level_by_level() -> None:
    growth = GrowingTree("root")
    a = growth.added(0, CATEGORY, "a")
    b = growth.added(a, CATEGORY, "b")
    growth.added(a, CATEGORY, "c")
    growth.added(b, CATEGORY, "d")
    assert growth.levels().rolled_up(np.array([1, 10, 100, 1000, 10000])).tolist() == [11111, 11110, 10100, 1000, 10000]


def test_what_is_within_an_op_stays_in_order_but_for_its_work() -> None:
    growth = GrowingTree("root")
    op = growth.added(0, OP, "op", 7)
    for name in "zyx":
        growth.added(op, INSTRUCTION, name)
    work = np.array([0, 0, 1, 1, 2], np.float64)
    tree = lay_out(growth, np.array([9, 9, 0, 0, 0]), work)
    assert tree.name == ["root", "op", "x", "z", "y"] and tree.row.tolist()[:2] == [-1, 7]


def test_a_child_is_found_again_by_its_key() -> None:
    growth = GrowingTree("root")
    first = growth.child(0, CATEGORY, "a", 1)
    assert growth.child(0, CATEGORY, "a", 2) != first
    assert growth.child(0, CATEGORY, "other name", 1) == first
    assert growth.child(first, CATEGORY, "a", 1) not in (0, first)
    assert len(growth) == 4
