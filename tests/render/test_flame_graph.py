"""The drawing of an op profile: whole whatever the capture, only shapes and texts, boxes as wide as time is long."""

from __future__ import annotations

from itertools import pairwise
from xml.etree import ElementTree

import pytest
from test_speedscope import HOSTILE, capture
from test_svg import NAMESPACE, assert_inside, parsed, texts
from trace_builder import plane, xspace
from xla_spaces import gpu_capture, tpu_capture

import fastprof


def drawn(space: bytes) -> ElementTree.Element:
    return parsed(fastprof.load(space).op_profile().to_svg())


def boxes(root: ElementTree.Element) -> dict[str, float]:
    """By the first line of its hint, the width of a box."""
    found: dict[str, float] = {}
    for group in root.iter(f"{NAMESPACE}g"):
        hint, box = group.find(f"{NAMESPACE}title"), group.find(f"{NAMESPACE}rect")
        assert hint is not None and box is not None and hint.text
        found.setdefault(hint.text.splitlines()[0], float(box.get("width", 0)))
    return found


def test_boxes_are_as_wide_as_time_is_long() -> None:
    found = boxes(drawn(capture(10**6, 3 * 10**6)))
    whole = found["by program"]
    assert found["op.1"] == pytest.approx(3 * found["op.0"], rel=0.01)
    assert found["program 7"] == pytest.approx(whole, rel=0.01) and found["layer_1"] == pytest.approx(
        0.75 * whole, rel=0.01
    )


def test_boxes_are_inside_of_what_they_are_part_of() -> None:
    root = drawn(tpu_capture(3))
    assert_inside(root)
    by_row: dict[float, list[tuple[float, float]]] = {}
    for group in root.iter(f"{NAMESPACE}g"):
        box = group.find(f"{NAMESPACE}rect")
        assert box is not None
        x, wide = float(box.get("x", 0)), float(box.get("width", 0))
        by_row.setdefault(float(box.get("y", 0)), []).append((x, x + wide))
    assert len(by_row) > 4
    for row in by_row.values():
        row.sort()
        assert all(one[1] <= after[0] + 0.6 for one, after in pairwise(row))


@pytest.mark.parametrize("space", [tpu_capture(1), gpu_capture(2), xspace(plane("/host:CPU"))])
def test_captures_of_all_kinds_are_drawn(space: bytes) -> None:
    root = drawn(space)
    assert_inside(root)
    assert texts(root)[0].text == "Op profile"


def test_names_are_texts_whatever_is_in_them() -> None:
    root = drawn(capture(10**6, name=HOSTILE + "W" * 400))
    assert_inside(root)


def test_a_drawing_stays_small() -> None:
    svg = fastprof.load(capture(*range(1, 6_000))).op_profile().to_svg()
    assert len(svg) < 1_500_000
    assert_inside(parsed(svg))
