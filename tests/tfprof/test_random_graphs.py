"""Views of random graphs under random options, against plain recursion."""

from __future__ import annotations

import random

import pytest
from gate import few
from profile_messages import profile_class
from random_graphs import random_options, random_profile
from slow_views import FIGURES, VIEWS, Row, SlowProfile

import fastprof
from fastprof.derive.tfprof import recorded
from fastprof.derive.tfprof.view_set import make_view_set
from fastprof.derive.tfprof.views import VisibleTree

_COUNTS = ("run_count", "definition_count")


def listed(row: Row, of_nodes: bool, depth: int = 0) -> list[tuple[object, ...]]:
    """Rows in the order of the view: depth, name, whether it is accounted, nodes, own figures, sums."""
    figures = FIGURES if of_nodes else FIGURES[:9]
    own, total = [row.own[name] for name in figures], [row.total[name] for name in figures]
    own = own if depth else [0] * len(own)
    below = [one for child in row.children for one in listed(child, of_nodes, depth + 1)]
    return [(depth, row.name, row.accounted, row.nodes, own, total), *below]


def rows_of(shown: VisibleTree, names: list[str]) -> list[tuple[object, ...]]:
    of_nodes = shown.node is not None
    figures, totals = shown.figures.copy(), shown.totals
    figures[:, 0] = 0
    if not of_nodes:
        figures, totals = figures[:9], totals[:9]
    return [
        (depth, name, accounted, [names[node] for node in shown.members(place).tolist()], own, total)
        for place, (depth, name, accounted, own, total) in enumerate(
            zip(
                shown.forest.depth.tolist(), shown.names.to_pylist(), shown.accounted.tolist(), figures.T.tolist(),
                totals.T.tolist(), strict=True,
            )
        )
    ]  # fmt: skip


@pytest.mark.parametrize("seed", few(range(16), 5))
def test_views_are_those_of_plain_recursion(seed: int) -> None:
    assert recorded.FIGURES == FIGURES
    chance = random.Random(seed)
    data = random_profile(seed, chance.choice([1, 5, 20, 40]))
    views, slow = make_view_set(fastprof.load(data).tables), profile_class().FromString(data)
    names = views.recorded.names.to_pylist()
    for view, made in VIEWS.items():
        if view == "code" and not views.lines.is_known:
            continue
        for _ in range(3):
            options = random_options(chance, list(slow.steps))
            expected = listed(made(SlowProfile(slow), options), view in ("scope", "graph"))
            assert rows_of(views.shown(view, options), names) == expected, (view, options)
