"""A capture that means ill is shown as text, and the page stays usable."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from gate import left_to_test_all

from fastprof.analyses import ANALYSES
from fastprof.cli.main import main as command
from tests.browser.hostile_space import LINES, MARKUP, far_apart, hostile
from tests.browser.test_analysis_pages import settle
from tests.browser.test_timeline_page import Timeline
from tests.trace_builder import event, line, plane, xspace


@pytest.fixture(scope="module")
def ill(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("ill") / "ill.xplane.pb"
    path.write_bytes(hostile())
    return path


def test_markup_control_characters_and_megabytes_are_text(page: Any, server: Callable[..., str], ill: Path) -> None:
    timeline = Timeline(page, server(ill))
    assert page.evaluate("() => window.stolen") is None
    assert page.evaluate("() => window.fastprofTimeline.tracks().length") > LINES
    box = page.evaluate(
        """() => {
            const [first] = window.fastprofTimeline.tracks();
            const slice = window.fastprofTimeline.slices(first.id).find(one => one.count === 1 && one.width > 2);
            return {x: slice.x, y: slice.y, width: slice.width};
        }"""
    )
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + 4)
    timeline.until("t.selection().details")
    assert page.evaluate("() => window.stolen") is None


def test_markup_in_search_results_and_details_is_text(page: Any, server: Callable[..., str], ill: Path) -> None:
    timeline = Timeline(page, server(ill))
    page.keyboard.press("/")
    page.keyboard.type("<img")
    page.keyboard.press("Enter")
    timeline.until("t.selection().search?.hit")
    assert timeline.ask("selection")["search"]["hit"]["name"].startswith("<img")
    assert page.locator("img, iframe").count() == 0
    assert MARKUP[:20] in page.inner_text("body")
    assert page.evaluate("() => window.stolen") is None


STEERING = r"""() => {
    const steers = /[\u0080-\u009f\u061c\u200b\u200e\u200f\u2028-\u202e\u2066-\u2069]/;
    const texts = node => [...node.childNodes].filter(child => child.nodeType === 3).map(child => child.data);
    const all = [...document.querySelectorAll("body *")].flatMap(node => [node.title ?? "", ...texts(node)]);
    return all.filter(text => steers.test(text));
}"""


@left_to_test_all
def test_a_name_does_not_turn_the_text_beside_it(page: Any, server: Callable[..., str], tmp_path: Path) -> None:
    """Marks of direction are escapes; an element whose letters run from right to left stays by itself."""
    name = "mul\u202e21 txet\u2066\x9b\u200b\u2028"
    kernels = [event(name, 10 * i, 5, {"hlo_op": name, "hlo_module": name, "tf_op": name}) for i in range(4)]
    main = [event(name, 100 * i, 90, {"step_num": i, "_r": 1}) for i in range(4)]
    planes = [
        plane("/host:CPU", [line(name, main)]),
        plane("/device:GPU:0", [line(f"Stream #1 {name}", kernels)], id=1),
    ]
    capture = tmp_path / "turned.xplane.pb"
    capture.write_bytes(xspace(*planes, hostnames=[name]))
    url, shown = server(capture), set()
    for route in ("timeline", "overview", "op_stats", "kernel_stats", "steps", "hlo_stats", "pod_viewer"):
        page.goto(f"{url}#/{route}")
        settle(page)
        assert page.evaluate(STEERING) == [], route
        if r"\u202e21" in page.inner_text("body"):
            shown.add(route)
    assert {"timeline", "op_stats", "hlo_stats"} <= shown
    assert page.evaluate("() => getComputedStyle(document.querySelector('span')).unicodeBidi") == "isolate"


@left_to_test_all
def test_pages_of_a_hostile_capture_are_text(page: Any, server: Callable[..., str], tmp_path: Path) -> None:
    capture = tmp_path / "ill.xplane.pb"
    capture.write_bytes(hostile(lines=50))
    url = server(capture)
    for analysis in ANALYSES:
        page.goto(f"{url}#/{analysis}")
        settle(page)
        assert page.evaluate("() => window.stolen") is None, analysis


def test_the_saved_report_of_a_hostile_capture_is_text(page: Any, tmp_path: Path) -> None:
    capture, saved = tmp_path / "ill.xplane.pb", tmp_path / "report.html"
    capture.write_bytes(hostile(lines=50))
    assert command(["report", str(capture), "--html", str(saved), "--quiet"]) == 0
    for analysis in ("overview", "op_stats", "kernel_stats", "timeline"):
        page.goto("about:blank")
        page.goto(f"file://{saved}#/{analysis}")
        settle(page)
        assert page.evaluate("() => window.stolen") is None, analysis


@left_to_test_all
def test_events_at_both_ends_of_time_can_be_reached(page: Any, server: Callable[..., str], tmp_path: Path) -> None:
    capture = tmp_path / "far.xplane.pb"
    capture.write_bytes(far_apart())
    timeline = Timeline(page, server(capture))
    timeline.ask("show", 0, 100)
    timeline.settle()
    assert [(one["name"], one["start_ps"]) for one in timeline.slices("main")] == [("a", 0), ("b", 20)]
