"""The panels below the tracks: details of an event, and the list of hits."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from gate import left_to_test_all

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
    value.get_by_role("button", name=f"Show all ({len(LONG):,} characters)").click()
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


@left_to_test_all
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


# ---- the list of hits


def hits(timeline: Timeline) -> list[list[str]]:
    """The cells of the rows in sight, from the top."""
    timeline.page.wait_for_function(
        "() => [...document.querySelectorAll('.tl-hits-row')].every((row) => row.children[1].textContent)"
    )
    rows = timeline.page.evaluate("""() => [...document.querySelectorAll('.tl-hits-row')]
        .sort((one, other) => one.dataset.row - other.dataset.row)
        .map((row) => [row.dataset.row, ...[...row.children].map((cell) => cell.textContent)])""")
    return list(rows)


def listed(timeline: Timeline, query: str) -> list[list[str]]:
    timeline.page.keyboard.press("/")
    timeline.page.keyboard.type(query)
    timeline.page.keyboard.press("Enter")
    timeline.until("t.selection().search?.hit")
    timeline.page.get_by_role("button", name="List all hits").click()
    return hits(timeline)


def test_all_hits_of_a_search_are_listed_with_their_times(timeline: Timeline) -> None:
    rows = listed(timeline, "step 1")
    assert rows[0] == ["0", "step 1", "10 µs", "2 µs", "steps", "panels /host:CPU"]
    assert timeline.page.inner_text(".tl-hits h2") == "100 hits of “step 1”"
    timeline.page.locator(".tl-hits-row[data-row='3']").click()
    timeline.until("t.selection().details?.start_ps === '100000000'")
    assert timeline.ask("selection")["search"]["number"] == 3
    assert timeline.page.locator(".tl-hits-row.selected").get_attribute("data-row") == "3"  # the list stays open
    timeline.page.get_by_role("button", name="Next hit").click()
    timeline.until("t.selection().details?.start_ps === '130000000'")
    assert timeline.page.locator(".tl-hits-row.selected").get_attribute("data-row") == "4"


@left_to_test_all
def test_hits_are_sorted_and_requested_as_they_come_into_sight(timeline: Timeline) -> None:
    asked: list[str] = []
    timeline.page.on("request", lambda request: asked.append(request.url) if "/search/hits" in request.url else None)
    listed(timeline, "step")
    assert len(asked) == 1 and "first=0&rows=200" in asked[0]
    timeline.page.locator(".tl-hits-box").press("End")
    assert hits(timeline)[-1][0] == "299"
    assert len(asked) == 2
    timeline.page.get_by_role("button", name="Duration").click()
    rows = hits(timeline)
    assert [row[3] for row in rows[:3]] == ["7 µs"] * 3
    timeline.page.get_by_role("button", name="Duration").click()
    timeline.until("document.querySelector('[aria-sort=ascending]')")
    assert hits(timeline)[0][3] == "1 µs"


@left_to_test_all
def test_the_columns_of_the_list_can_be_dragged(timeline: Timeline) -> None:
    listed(timeline, "step")
    page = timeline.page
    title = page.get_by_role("columnheader").first
    before = title.bounding_box()
    edge = before["x"] + before["width"] - 3
    page.mouse.move(edge, before["y"] + 10)
    page.mouse.down()
    page.mouse.move(edge - 120, before["y"] + 10, steps=4)
    page.mouse.up()
    width = title.bounding_box()["width"]
    assert width == pytest.approx(before["width"] - 120, abs=2)
    assert page.locator(".tl-hits-row .tl-hits-cell").first.bounding_box()["width"] == pytest.approx(width, abs=1)


@left_to_test_all
def test_the_first_hit_is_seen_above_the_panel_that_opens_for_it(
    page: Any, server: Callable[..., str], tmp_path: Path
) -> None:
    lines = [line(f"thread {place}", [event("call", 0, 10 * US)]) for place in range(80)]
    lines[20] = line("thread 20", [event("call", 0, 10 * US), event("wanted", 5 * US, US)])
    path = tmp_path / "deep.xplane.pb"
    path.write_bytes(xspace(plane("/host:CPU", lines)))
    timeline = Timeline(page, server(path), "?t=1000000~2000000")
    page.keyboard.press("/")
    page.keyboard.type("wanted")
    page.keyboard.press("Enter")
    timeline.until("t.selection().details?.name === 'wanted'")
    timeline.settle()
    area = page.locator(".tl-area").bounding_box()
    box = timeline.slice("thread 20", "wanted")
    assert area["y"] < box["y"] and box["y"] + box["height"] < area["y"] + area["height"]
