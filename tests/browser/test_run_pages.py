"""The page of a log directory that changes: captures that are replaced, runs that appear, runs that are broken."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from gate import few, left_to_test_all

from tests.browser.conftest import serve
from tests.browser.test_analysis_pages import settle
from tests.capture.profiler_server import ProfilerServer, captured, serving
from tests.comparison.paired_runs import Plan
from tests.log_directories import write_run
from tests.trace_builder import event, line, plane, xspace

OLD, MIDDLE, NEW = "2026_01_01_00_00_00", "2026_01_02_00_00_00", "2026_01_03_00_00_00"
# What the page asks when it has nothing else to do: it may still be about the run that it has just left.
ASKED_AT_LEISURE = ("/api/analyses", "/api/empty")
LOOK = "() => document.dispatchEvent(new Event('visibilitychange'))"


def capture(name: str) -> bytes:
    return xspace(plane("/host:CPU", [line("main", [event(name, 0, 1000), event("other", 2000, 500)])]))


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Callable[..., str]]:
    """``served(*words)`` is the address of a server of this test's log directory, ``logs``."""
    running = []

    def start(*words: str) -> str:
        running.append(serve(tmp_path / "cache", str(tmp_path / "logs"), *words))
        return running[-1].url

    (tmp_path / "logs").mkdir()
    yield start
    for one in running:
        one.process.terminate()
        one.process.wait(10)
        one.process.stderr.close()


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    return tmp_path / "logs"


def drawn(page: Any) -> None:
    page.wait_for_function("() => window.fastprofTimeline?.idle()", timeout=20_000)


def names(page: Any) -> set[str]:
    """The names of the events that the timeline shows."""
    drawn(page)
    tracks = page.evaluate("() => window.fastprofTimeline.tracks()")
    return {one["name"] for track in tracks for one in page.evaluate(
        "id => window.fastprofTimeline.slices(id)", track["id"])}  # fmt: skip


def run_picked(page: Any) -> str:
    return str(page.locator(".pickers select").first.input_value())


def without(faults: list[str], status: int) -> None:
    """The browser reports such answers by itself."""
    faults[:] = [fault for fault in faults if f"status of {status}" not in fault]


@left_to_test_all
def test_a_page_of_a_capture_that_was_replaced_offers_to_be_loaded_again(
    served: Callable[..., str], logs: Path, page: Any, faults: list[str]
) -> None:
    path = write_run(logs, OLD, capture("before"))
    page.goto(f"{served()}#/timeline")
    assert names(page) == {"before", "other"}
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    path.with_name("new").write_bytes(capture("after"))
    path.with_name("new").replace(path)
    page.evaluate(LOOK)
    banner = page.locator(".banner")
    banner.wait_for()
    assert re.fullmatch(
        r"The capture .*/vm\.xplane\.pb changed after this page was loaded; reload the page\.\s*Reload",
        banner.inner_text().replace("\n", " "),
    )
    page.keyboard.press("/")
    page.keyboard.type("after")
    page.keyboard.press("Enter")
    page.evaluate(LOOK)
    page.wait_for_timeout(300)
    asked = [one for one in requests if "/api/" in one and "version=" in one]
    assert (banner.count(), len(asked)) == (1, 1), "nothing more is requested of the version"
    assert names(page) == {"before", "other"}, "the picture is of the version that it was of"
    without(faults, 410)
    banner.get_by_role("button", name="Reload").click()
    page.wait_for_function("() => !document.querySelector('.banner')")
    assert names(page) == {"after", "other"}


@left_to_test_all
def test_an_analysis_of_a_capture_that_was_replaced_says_so(
    served: Callable[..., str], logs: Path, page: Any, faults: list[str]
) -> None:
    path = write_run(logs, OLD, capture("before"))
    page.goto(f"{served()}#/overview")
    settle(page)
    path.write_bytes(capture("after, and longer"))
    page.locator("nav a", has_text="Steps").first.click()
    page.locator(".banner").wait_for()
    page.wait_for_function("() => document.querySelector('#page').ariaBusy === 'false'")
    assert page.inner_text(".main").count("changed after this page was loaded") == 1
    assert page.get_by_role("button", name="Reload").count() == 1
    without(faults, 410)
    page.get_by_role("button", name="Reload").click()
    page.wait_for_function("() => !document.querySelector('.banner, .failed')")
    settle(page)
    assert "#/steps" in page.url


@left_to_test_all
def test_a_newer_run_is_still_offered_after_the_capture_was_replaced(
    served: Callable[..., str], logs: Path, page: Any, faults: list[str]
) -> None:
    path = write_run(logs, OLD, capture("before"))
    page.goto(f"{served()}#/timeline")
    drawn(page)
    write_run(logs, NEW, capture("new"))
    page.evaluate(LOOK)
    page.locator(".banner-newer").wait_for()
    path.with_name("new").write_bytes(capture("after"))
    path.with_name("new").replace(path)
    page.evaluate(LOOK)
    page.locator(".news .banner-gone").wait_for()
    assert page.locator(".news .banner").count() == 2
    without(faults, 410)
    page.get_by_role("button", name="Open it").click()
    page.wait_for_function("() => !document.querySelector('.banner')")
    assert names(page) == {"new", "other"}


@left_to_test_all
def test_a_run_that_appears_after_the_capture_was_replaced_is_offered(
    served: Callable[..., str], logs: Path, page: Any, faults: list[str]
) -> None:
    path = write_run(logs, OLD, capture("before"))
    page.goto(f"{served()}#/timeline")
    drawn(page)
    path.write_bytes(capture("after"))
    page.evaluate(LOOK)
    page.locator(".banner-gone").wait_for()
    write_run(logs, NEW, capture("new"))
    page.evaluate(LOOK)
    page.locator(".banner-newer").wait_for()
    assert f"There is a newer run: {NEW}." in page.inner_text(".banner-newer")
    assert page.locator(".pickers select").first.locator("option").all_inner_texts() == [NEW, OLD]
    without(faults, 410)
    page.get_by_role("button", name="Open it").click()
    page.wait_for_function("() => !document.querySelector('.banner')")
    assert names(page) == {"new", "other"}


@pytest.mark.parametrize("flags", few([["--run", OLD], []], 1))
def test_the_picker_names_the_run_that_is_shown_and_a_newer_one_is_offered(
    served: Callable[..., str], logs: Path, page: Any, flags: list[str]
) -> None:
    write_run(logs, OLD, capture("old"))
    if flags:
        write_run(logs, MIDDLE, capture("middle"))
    page.goto(f"{served(*flags)}#/timeline")
    assert names(page) == {"old", "other"}
    assert f"run={OLD}" in page.url
    if flags:
        assert run_picked(page) == OLD
        assert f"There is a newer run: {MIDDLE}." in page.inner_text(".banner")
    write_run(logs, NEW, capture("new"))
    page.evaluate(LOOK)
    page.wait_for_function("name => document.querySelector('.banner')?.textContent.includes(name)", arg=NEW)
    assert page.locator(".banner").count() == 1
    assert (run_picked(page), names(page)) == (OLD, {"old", "other"}), "it does not change by itself"
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    page.get_by_role("button", name="Open it").click()
    page.wait_for_function("name => location.hash.includes(name)", arg=NEW)
    page.wait_for_function("() => !document.querySelector('.banner')")
    assert (run_picked(page), names(page)) == (NEW, {"new", "other"})
    asked = [one for one in requests if "/api/" in one and not any(name in one for name in ASKED_AT_LEISURE)]
    assert [one for one in asked if f"run={NEW}" not in one] == []
    assert page.evaluate("() => [...document.querySelectorAll('nav a')].every(one => one.hash.includes('run='))")
    page.locator(".pickers select").first.select_option(OLD)
    page.wait_for_function("name => location.hash.includes(name)", arg=OLD)
    assert (run_picked(page), names(page)) == (OLD, {"old", "other"})
    page.reload()
    assert (run_picked(page), names(page)) == (OLD, {"old", "other"})
    assert page.locator(".banner").count() == 0, "the user chose it"


def test_a_directory_without_runs_shows_the_first_that_appears(
    served: Callable[..., str], logs: Path, page: Any
) -> None:
    page.goto(f"{served()}#/timeline")
    page.wait_for_function("() => document.querySelector('.waiting')?.textContent.includes('No runs in logs yet')")
    write_run(logs, OLD, capture("first"))
    page.wait_for_function("name => location.hash.includes(name)", arg=OLD)
    assert names(page) == {"first", "other"}
    assert page.locator(".banner").count() == 0


@left_to_test_all
def test_of_very_many_runs_the_newest_and_the_shown_one_can_be_picked(
    served: Callable[..., str], logs: Path, page: Any
) -> None:
    for number in range(203):
        write_run(logs, f"run{number:03}", capture("event"))
    page.goto(f"{served('--run', 'run202')}#/timeline?run=run000")
    drawn(page)
    assert run_picked(page) == "run000"
    assert 201 <= page.locator(".pickers option").count() <= 202
    placeholder = page.get_by_label("Find a run").get_attribute("placeholder")
    assert re.fullmatch(r"of \d+ runs", placeholder)


@left_to_test_all
def test_a_broken_newest_run_is_listed_with_the_reason(
    served: Callable[..., str], logs: Path, page: Any, faults: list[str]
) -> None:
    write_run(logs, OLD, capture("old"))
    path = write_run(logs, NEW, b"")
    page.goto(f"{served()}#/timeline")
    assert (run_picked(page), names(page)) == (OLD, {"old", "other"})
    banner = page.inner_text(".banner")
    assert f"The run {NEW} cannot be opened" in banner and "the file is empty" in banner
    assert page.locator(".banner button", has_text="Open").count() == 0
    options = page.locator(".pickers option").all_inner_texts()
    assert options[0].startswith(f"{NEW} – broken: ") and options[1] == OLD
    page.locator(".pickers select").first.select_option(NEW)
    page.locator(".failed").wait_for()
    assert "the file is empty" in page.inner_text(".failed")
    assert run_picked(page) == NEW
    without(faults, 422)
    path.write_bytes(capture("mended"))
    page.get_by_role("button", name="Try again").click()
    page.wait_for_function("() => !document.querySelector('.failed')")
    assert names(page) == {"mended", "other"}


@left_to_test_all
def test_of_many_runs_the_newest_are_offered_and_the_others_found_by_name(
    served: Callable[..., str], logs: Path, page: Any
) -> None:
    for number in range(230):
        write_run(logs, f"2026_01_01_{number // 60:02}_{number % 60:02}_00", capture(f"event of {number}"))
    page.goto(f"{served()}#/timeline")
    assert names(page) == {"event of 229", "other"}
    assert page.locator(".pickers select").first.locator("option").count() == 200
    find = page.get_by_label("Find a run")
    assert find.get_attribute("placeholder") == "of 230 runs"
    find.fill("01_00_07")
    find.press("Enter")
    page.wait_for_function("() => document.querySelectorAll('.pickers select option').length === 2")
    assert run_picked(page) == "2026_01_01_03_49_00"
    page.locator(".pickers select").first.select_option("2026_01_01_00_07_00")
    page.wait_for_function("() => location.hash.includes('2026_01_01_00_07_00')")
    page.wait_for_function("() => !document.querySelector('.waiting')")
    assert names(page) == {"event of 7", "other"}
    assert run_picked(page) == "2026_01_01_00_07_00"
    page.get_by_label("Find a run").fill("")
    page.get_by_label("Find a run").press("Enter")
    page.wait_for_function("() => document.querySelectorAll('.pickers select option').length > 100")
    assert run_picked(page) == "2026_01_01_00_07_00"


def test_trends_show_where_a_figure_changed(served: Callable[..., str], logs: Path, page: Any) -> None:
    """A click on a point of step times opens the timeline of its run."""
    fast = Plan(steps=6, chips=1)
    plans = [*[fast] * 5, *[fast.changed("fusion.3", time_us=3200)] * 4]
    for day, plan in enumerate(plans, 1):
        write_run(logs, f"2026_01_{day:02}_00_00_00", replace(plan, seed=day).captures()[0])
    page.goto(f"{served()}#/trends")
    page.wait_for_function("() => document.querySelectorAll('[data-table=trends] [role=row]').length === 10")
    said = page.locator("p.sentence", has_text="Median: mean ")
    assert said.inner_text() == "Median: mean 10.95 ms since run 2026_01_06_00_00_00, +9.98 % from 9.955 ms"
    assert "run=2026_01_06_00_00_00" in said.locator("a").get_attribute("href")
    drawing = page.get_by_label("Step time of each run")
    assert drawing.locator("path[stroke-dasharray]").count() >= 1
    box = drawing.bounding_box()
    page.mouse.click(box["x"] + box["width"] - 50, box["y"] + box["height"] / 2)
    page.wait_for_function("() => location.hash.startsWith('#/timeline') && location.hash.includes('2026_01_09')")


def test_a_page_captures_and_offers_the_run_that_came(served: Callable[..., str], logs: Path, page: Any) -> None:
    """Then again and again, until it is stopped; the page of trends has a row for each run."""
    write_run(logs, OLD, capture("before"))
    server = ProfilerServer(captured(capture("captured")))
    with serving(server) as address:
        page.goto(f"{served('--capture', address, '--token', 'a long token')}?token=a%20long%20token#/timeline")
        assert names(page) == {"before", "other"}
        page.locator("details.capture summary").click()
        page.get_by_label("Duration").select_option("500")
        page.get_by_label("Python tracer").check()
        page.get_by_role("button", name="Start").click()
        status = "document.querySelector('.capture-status')?.textContent"
        page.wait_for_function(f"() => {status}.startsWith('Wrote ')")
        page.get_by_label("How often").select_option("3600000")
        page.get_by_label("Keep the newest").select_option("3")
        page.get_by_role("button", name="Start").click()
        page.wait_for_function(f"() => {status}.includes('Captures: 1. The newest 3 are kept.Wrote ')")
        page.get_by_role("button", name="Stop").click()
        page.wait_for_function(f"() => {status}.startsWith('Captures: 1')")
        page.locator("nav a", has_text="Trends").click()
        page.wait_for_function("() => document.querySelectorAll('[data-table=trends] [role=row]').length === 4")
        assert page.locator("[data-table=trends] a").last.inner_text() == OLD
        page.locator("nav a", has_text="Trace viewer").click()
        drawn(page)
    request, again = server.requests
    assert (request.opts.duration_ms, request.opts.python_tracer_level) == (500, 1)
    page.locator(".banner", has_text=again.session_id).wait_for()
    page.get_by_role("button", name="Open it").click()
    page.wait_for_function(f"() => document.querySelector('.pickers select')?.value === '{again.session_id}'")
    assert names(page) == {"captured", "other"}
