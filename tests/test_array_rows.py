"""Rows as arrays: they are chosen and joined column by column, also where a column has rows of its own."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from fastprof.derive.serving.requests import NumberLinks
from fastprof.schema.columns import ArrayRows, Int64s


@dataclass(frozen=True, slots=True)
class Parents(ArrayRows):
    age: Int64s
    children: NumberLinks = field(metadata={"none": NumberLinks.none()})


def parents(ages: list[int], bounds: list[int], children: list[int]) -> Parents:
    return Parents(np.array(ages), NumberLinks(np.array(bounds), np.array(children)))


def plain(rows: Parents) -> list[tuple[int, list[int]]]:
    bounds, children = rows.children.bounds.tolist(), rows.children.others.tolist()
    return [(age, children[bounds[i] : bounds[i + 1]]) for i, age in enumerate(rows.age.tolist())]


def test_rows_are_chosen_by_mask_or_number() -> None:
    rows = parents([30, 40, 50], [0, 2, 2, 3], [1, 2, 3])
    assert len(rows) == 3
    assert plain(rows[np.array([2, 0])]) == [(50, [3]), (30, [1, 2])]
    assert plain(rows[np.array([False, True, True])]) == [(40, []), (50, [3])]


def test_rows_of_several_parts_are_joined() -> None:
    parts = [parents([30], [0, 1], [7]), parents([40, 50], [0, 0, 2], [8, 9])]
    assert plain(Parents.joined(parts)) == [(30, [7]), (40, []), (50, [8, 9])]
    assert len(Parents.joined([])) == len(Parents.none()) == len(Parents.none().children) == 0
