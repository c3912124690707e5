"""The panels below the tracks: details of an event, and the list of hits."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.browser.test_timeline_page import US, Timeline
from tests.trace_builder import event, line, plane, xspace

LONG = "".join(f"%param.{place}, " for place in range(600))


@pytest.fixture(scope="module")
def panels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An event with a long text, beside 300 that differ in length."""
    steps = [event(f"step {place % 3}", place * 10 * US, (place % 7 + 1) * US, {"n": place}) for place in range(300)]
    lines = [line("main", [event("outer", 0, 10 * US, {"operands": LONG, "note": "brief"})]), line("steps", steps)]
    path = tmp_path_factory.mktemp("panels") / "panels.xplane.pb"
    path.write_bytes(xspace(plane("/host:CPU", lines)))
    return path


@pytest.fixture
def timeline(page: Any, server: Callable[..., str], panels: Path) -> Timeline:
    return Timeline(page, server(panels), "?t=0~20000000")


def selected(timeline: Timeline) -> Any:
    timeline.click("main", "outer")
    timeline.until("t.selection().details?.name === 'outer'")
    return timeline.page


def test_start_and_duration_come_first_and_long_texts_are_folded(timeline: Timeline) -> None:
    page = selected(timeline)
    terms = page.locator(".tl-facts >> nth=0").locator("dt").all_inner_texts()
    assert terms[:3] == ["Start", "Duration", "Self time"]
    value = page.locator(".tl-stats dd", has_text="%param.0,")
    assert value.locator(".tl-value").inner_text() == LONG[:160].rstrip() + "…"
    value.get_by_role("button", name=f"Show all ({len(LONG):,} letters)").click()
    assert value.locator(".tl-value").inner_text().strip() == LONG.strip()
    value.get_by_role("button", name="Show less").click()
    assert len(value.locator(".tl-value").inner_text()) <= 161
    assert page.locator(".tl-stats dd", has_text="brief").get_by_role("button").all_inner_texts() == ["Copy"]


def test_values_of_details_can_be_copied_entirely(page: Any, server: Callable[..., str], panels: Path) -> None:
    clipboard = "{ value: { writeText: async text => { window.copied = text } } }"
    page.add_init_script(f"Object.defineProperty(navigator, 'clipboard', {clipboard})")
    selected(Timeline(page, server(panels), "?t=0~20000000"))
    page.locator(".tl-stats dd", has_text="%param.0,").get_by_role("button", name="Copy").click()
    page.wait_for_function("() => window.copied")
    assert page.evaluate("() => window.copied") == LONG


def test_the_columns_of_details_can_be_dragged_and_stay_for_the_next_event(timeline: Timeline) -> None:
    page = selected(timeline)
    width = "() => document.querySelector('.tl-columns section').offsetWidth"
    before = page.evaluate(width)
    grip = page.locator(".tl-column-grip").first.bounding_box()
    page.mouse.move(grip["x"] + 8, grip["y"] + 20)
    page.mouse.down()
    page.mouse.move(grip["x"] + 108, grip["y"] + 20, steps=4)
    page.mouse.up()
    assert page.evaluate(width) == pytest.approx(before + 100, abs=2)
    page.locator(".tl-column-grip").first.press("ArrowLeft")
    assert page.evaluate(width) == pytest.approx(before + 76, abs=2)
    timeline.click("steps", "step 0")
    timeline.until("t.selection().details?.name === 'step 0'")
    assert page.evaluate(width) == pytest.approx(before + 76, abs=2)
