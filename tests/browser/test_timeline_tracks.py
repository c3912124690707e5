"""Tracks as a user arranges them: pinned, hidden, moved; lanes and tracks that are empty in the window."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from gate import left_to_test_all

from fastprof.cli.main import main as command
from tests.browser.test_timeline_page import US, Timeline
from tests.trace_builder import event, line, plane, xspace

NAMES = [f"thread {place}" for place in range(12)]


@pytest.fixture(scope="module")
def tracks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve threads, each with 5 lanes in its own ten of 1,200 µs, and with an event on its first lane in all."""
    lines = []
    for place, name in enumerate(NAMES):
        nested = [event("nested", (place * 100 + deep) * US, (50 - 2 * deep) * US) for deep in range(1, 5)]
        lines.append(line(name, [event("long", 0, 1200 * US), *nested], id=place + 1))
    lines.append(line("rare", [event("once", 1100 * US, 50 * US)], id=99))
    path = tmp_path_factory.mktemp("tracks") / "tracks.xplane.pb"
    path.write_bytes(xspace(plane("/host:CPU", lines), plane("/device:GPU:0", [line("Stream #1", lines[0].events)])))
    return path


@pytest.fixture
def timeline(page: Any, server: Callable[..., str], tracks: Path) -> Timeline:
    return Timeline(page, server(tracks))


def names(timeline: Timeline) -> list[str]:
    timeline.settle()
    return [one["name"] for one in timeline.ask("tracks") if not one["derived"]]


def label(timeline: Timeline, name: str) -> Any:
    return timeline.page.locator(".tl-label:visible", has_text=name).filter(
        has=timeline.page.get_by_text(name, exact=True)
    )


def reopened(timeline: Timeline) -> Timeline:
    """The page, opened again by a link to what it shows."""
    timeline.page.wait_for_timeout(400)  # the address follows after a pause
    address = timeline.page.url
    timeline.page.goto("about:blank")
    timeline.page.goto(address)
    timeline.settle()
    return timeline


@left_to_test_all
def test_pinned_tracks_stay_on_top_and_a_link_has_them(timeline: Timeline) -> None:
    for name in ("thread 3", "thread 1"):
        label(timeline, name).hover()
        label(timeline, name).get_by_role("button", name=f"Pin on top: {name}").click()
        timeline.settle()  # labels are given to other rows in the next frame
    before = [timeline.track(name)["top"] for name in ("thread 3", "thread 1")]
    timeline.page.mouse.move(800, 600)
    timeline.page.mouse.wheel(0, 700)
    timeline.settle()
    assert [timeline.track(name)["top"] for name in ("thread 3", "thread 1")] == before
    assert [one["name"] for one in reopened(timeline).ask("tracks") if one["pinned"]] == ["thread 3", "thread 1"]
    assert names(timeline)[:2] == ["thread 3", "thread 1"]
    assert names(timeline).count("thread 3") == 1
    timeline.click("thread 1", "long")
    timeline.until("t.selection().details?.name === 'long'")
    assert timeline.ask("selection")["details"]["track_name"] == "thread 1"
    timeline.page.keyboard.press("Shift+P")
    timeline.until("t.tracks().filter(one => one.pinned).length === 1")


def test_hidden_tracks_are_listed_and_come_back(timeline: Timeline) -> None:
    label(timeline, "thread 2").hover()
    timeline.page.keyboard.press("Shift+H")
    timeline.until("t.tracks().every(one => one.name !== 'thread 2')")
    timeline.settle()  # labels are given to other rows in the next frame
    label(timeline, "/device:GPU:0").hover()
    label(timeline, "/device:GPU:0").get_by_role("button", name="Hide").click()
    timeline.page.mouse.move(800, 600)
    hidden = [name for name in NAMES if name != "thread 2"] + ["rare"]
    assert names(timeline) == hidden
    assert names(reopened(timeline)) == hidden
    timeline.page.locator(".tl-tracks summary", has_text="Tracks · 2 hidden").click()
    timeline.page.get_by_role("button", name="thread 2").click()
    timeline.until("t.tracks().some(one => one.name === 'thread 2')")
    timeline.page.get_by_role("button", name="Show all hidden tracks").click()
    assert names(timeline) == ["Stream #1", *NAMES, "rare"]


@left_to_test_all
def test_tracks_are_moved_by_dragging_their_labels_and_by_keys(timeline: Timeline) -> None:
    boxes = [label(timeline, name).bounding_box() for name in ("thread 1", "thread 0")]
    timeline.page.mouse.move(boxes[0]["x"] + 60, boxes[0]["y"] + 10)
    timeline.page.mouse.down()
    timeline.page.mouse.move(boxes[1]["x"] + 60, boxes[1]["y"] + 12, steps=5)
    timeline.page.mouse.up()
    timeline.settle()
    assert names(timeline)[1:4] == ["thread 1", "thread 0", "thread 2"]
    assert not timeline.track("thread 1")["collapsed"]  # the drag was no click
    label(timeline, "thread 0").locator(".tl-label-main").focus()
    timeline.page.keyboard.press("Alt+ArrowDown")
    timeline.settle()
    timeline.page.keyboard.press("Alt+ArrowDown")  # the label keeps the focus
    timeline.settle()
    assert names(timeline)[1:5] == ["thread 1", "thread 2", "thread 3", "thread 0"]
    assert names(reopened(timeline))[1:5] == ["thread 1", "thread 2", "thread 3", "thread 0"]
    label(timeline, "/host:CPU").click(button="right")
    timeline.page.get_by_role("menuitem", name="Move to the top").click()
    timeline.until("t.tracks().at(-1).name === 'Stream #1'")


def test_hardware_units_are_graphs_whose_values_hold_until_the_next(
    page: Any, server: Callable[..., str], tmp_path: Path
) -> None:
    samples = [event("MXU", at * US, US, {"% util": value}) for at, value in ((0, 72.5), (600, 20.0))]
    samples.append(event("Vector Spills", 0, US, {"spills": 4.0}))
    lines = [line("_counters_", samples, id=2**32 - 1), line("Tensor Core", [event("range", 0, 1000 * US)])]
    path = tmp_path / "units.xplane.pb"
    path.write_bytes(xspace(plane("/device:TPU:0", lines)))
    timeline = Timeline(page, server(path))
    timeline.until("t.tracks().some(one => one.name === 'MXU')")
    for name, part, text in (("MXU", 0.4, "MXU: 72.5 %"), ("MXU", 0.8, "MXU: 20 %"), ("Vector Spills", 0.5, "4")):
        timeline.settle()
        box, track = timeline.page.locator("canvas").first.bounding_box(), timeline.track(name)
        timeline.page.mouse.move(box["x"] + part * box["width"], track["top"] + track["height"] / 2)
        timeline.page.locator(".tl-tip:visible", has_text=text).wait_for()


@left_to_test_all
def test_lanes_that_are_empty_in_the_window_take_no_room(timeline: Timeline) -> None:
    assert {timeline.track(name)["lanesShown"] for name in NAMES} == {5}
    timeline.ask("show", 705 * US, 740 * US)
    timeline.page.wait_for_timeout(50)
    timeline.settle()
    assert [timeline.track(name)["lanesShown"] for name in NAMES] == [1] * 7 + [5] + [1] * 4
    tops = [(one["lane"], one["y"]) for one in timeline.slices("thread 7")]
    assert tops == [(lane, tops[0][1] + 19 * lane) for lane in range(5)]


def test_lanes_of_a_saved_report_are_those_of_its_window(page: Any, tracks: Path, tmp_path: Path) -> None:
    saved = tmp_path / "report.html"
    assert command(["report", str(tracks), "--html", str(saved), "--quiet"]) == 0
    timeline = Timeline(page, saved.as_uri())
    timeline.ask("show", 705 * US, 740 * US)
    page.wait_for_timeout(50)
    timeline.settle()
    assert [timeline.track(name)["lanesShown"] for name in NAMES] == [1] * 7 + [5] + [1] * 4


def test_lanes_appear_at_once_when_an_event_comes_in_and_the_pointer_keeps_its_place(timeline: Timeline) -> None:
    timeline.ask("show", 705 * US, 740 * US)
    timeline.page.wait_for_timeout(50)
    timeline.settle()
    box = timeline.slice("thread 9", "long")
    timeline.page.mouse.move(800, box["y"] + 5)
    timeline.page.keyboard.down("d")
    timeline.until("t.tracks().find(one => one.name === 'thread 8').lanesShown === 5")
    timeline.page.keyboard.up("d")
    timeline.settle()
    assert timeline.slice("thread 9", "long")["y"] == box["y"]


@left_to_test_all
def test_tracks_that_are_empty_in_the_window_can_be_hidden(timeline: Timeline) -> None:
    timeline.ask("show", 705 * US, 740 * US)
    timeline.page.wait_for_timeout(50)
    assert "rare" in names(timeline)
    timeline.page.keyboard.press("Shift+E")
    assert "rare" not in names(timeline)
    assert "rare" not in names(reopened(timeline))
    timeline.ask("show", 1090 * US, 1150 * US)
    timeline.page.wait_for_timeout(50)
    assert "rare" in names(timeline)
