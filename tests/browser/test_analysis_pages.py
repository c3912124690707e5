"""Every analysis has a page, on the server and in the saved report, with the figures of the analysis."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from gate import few

import fastprof
from fastprof.analyses import ANALYSES
from fastprof.cli.main import main as command

DEMO = Path(__file__).resolve().parent.parent.parent / "demo"
BEST = {
    "memory_profile": "memory", "tf_data": "tf-data", "inference": "serving", "pod_viewer": "pod", "overview": "pod",
    "input_pipeline": "pod", "steps": "pod", "hardware_units": "kernel",
}  # fmt: skip
"""The demo capture that has something to show for an analysis; xla for the others."""

CHARTS = {
    "overview", "input_pipeline", "op_stats", "hlo_stats", "roofline", "memory_profile", "memory_viewer", "pod_viewer",
    "inference",
}  # fmt: skip
"""Pages that show a chart of these captures."""


def settle(page: Any) -> None:
    """Waits until the page of the address has its report and is drawn."""
    page.wait_for_function(
        """() => {
            const here = decodeURIComponent(location.hash.slice(2).split("?")[0]);
            const current = document.querySelector("nav [aria-current=page]")?.getAttribute("href") ?? "";
            return current.startsWith(`#/${here}`) && document.querySelector("#page")?.ariaBusy === "false";
        }""",
        timeout=30_000,
    )


def test_axes_of_step_charts_have_the_numbers_of_the_program(page: Any, server: Callable[..., str]) -> None:
    page.goto(f"{server(DEMO / 'memory')}#/steps")
    settle(page)
    page.wait_for_selector("#page .chart")
    for chart in page.locator("#page .chart-drawing").all()[:2]:
        *numbers, title = chart.locator(".chart-text[text-anchor=middle]").all_text_contents()
        assert title == "Step" and {"2", "12"} <= {*numbers} <= {*map(str, range(2, 14))}


def chart_count(page: Any) -> int:
    return int(page.locator("#page .chart").count())


@pytest.mark.parametrize("analysis", few([name for name in ANALYSES if name != "diagnosis"], 5))
def test_each_analysis_has_a_page_with_a_headline_and_at_most_six_figures(
    page: Any, server: Callable[..., str], analysis: str
) -> None:
    page.goto(f"{server(DEMO / BEST.get(analysis, 'xla'))}#/{analysis}")
    settle(page)
    assert page.locator("[role=alert]:visible").count() == 0
    assert page.inner_text("h1") in page.inner_text("nav [aria-current=page]")
    check_opening(page, analysis)
    if analysis in CHARTS:
        page.wait_for_selector("#page .chart", timeout=20_000)
        assert chart_count(page) >= 1
    assert len(page.inner_text("#page")) > 100


def check_opening(page: Any, analysis: str) -> None:
    headline = page.inner_text("#page .headline")
    assert headline.endswith(".") and "{" not in headline
    cards = page.locator(".first-cards")
    if analysis in ("kernel_stats", "streams", "critical_path", "python_time"):  # the reason, and no card
        assert headline.startswith(("No kernels: ", "No streams: the ", "No critical path: the ", "No Python: "))
        assert page.locator(".card:visible").count() == 0
        return
    assert cards.count() == 1
    assert 1 <= cards.locator(".card").count() <= 6
    assert cards.locator(".card-unknown").count() == 0


def test_pages_without_anything_to_show_say_so(page: Any, server: Callable[..., str]) -> None:
    """The capture of a model server has no programs, no allocations, no input pipeline, no devices."""
    url = server(DEMO / "serving")
    for analysis in few([name for name in ANALYSES if name != "diagnosis"], 8):
        page.goto(f"{url}#/{analysis}")
        settle(page)
        assert page.locator("[role=alert]:visible").count() == 0, analysis
        assert len(page.inner_text("#page")) > 20, analysis


def test_the_overview_has_the_figures_of_the_analysis(page: Any, server: Callable[..., str]) -> None:
    scalars = fastprof.load(DEMO / "pod").overview().scalars
    page.goto(f"{server(DEMO / 'pod')}#/overview")
    settle(page)
    text = page.inner_text("#page")
    mean = scalars["step_time_mean_ps"].value
    assert isinstance(mean, (int, float))
    assert f"{mean / 1e9:.4g}" in text
    assert str(scalars["step_count"].value) in text


def test_the_other_figures_of_a_page_are_folded(page: Any, server: Callable[..., str]) -> None:
    page.goto(f"{server(DEMO / 'pod')}#/overview")
    settle(page)
    assert page.inner_text("#page .headline").endswith(" % of the run.")
    assert page.locator(".all-figures .card:visible").count() == 0
    page.get_by_text("All figures").click()
    assert page.locator(".all-figures .card:visible").count() > 6
    assert "Matrix unit utilization" in page.inner_text(".all-figures dl")  # unknown, with its reason


def test_a_skeleton_keeps_the_place_of_what_is_computed(page: Any, server: Callable[..., str]) -> None:
    held: list[Any] = []
    page.route("**/api/report/hlo_stats*", lambda route: held.append(route))
    page.goto(f"{server(DEMO / 'xla')}#/hlo_stats")
    page.wait_for_selector(".skeleton .shade-card")
    tops = "[...document.querySelectorAll('#page .headline, #page .cards')].slice(0, 2).map((e) => e.offsetTop)"
    before = page.evaluate(tops)
    moves = "getComputedStyle(document.querySelector('.shade-card')).animationName"
    assert page.evaluate(moves) == "none"
    page.emulate_media(reduced_motion="no-preference")
    assert page.evaluate(moves) != "none"
    page.emulate_media(reduced_motion="reduce")
    assert page.locator(".waiting:visible").count() == 0
    held[0].continue_()
    settle(page)
    assert page.locator(".skeleton").count() == 0
    assert page.evaluate(tops) == before


def test_op_stats_can_leave_idle_out(page: Any, server: Callable[..., str]) -> None:
    page.goto(f"{server(DEMO / 'xla')}#/op_stats")
    settle(page)
    page.wait_for_selector("#page .chart")
    assert chart_count(page) >= 2
    assert "IDLE" not in "".join(page.locator("#page .chart").all_inner_texts())
    page.get_by_label("Idle time").select_option("1")
    page.wait_for_function("() => [...document.querySelectorAll('.chart')].some(c => c.textContent.includes('IDLE'))")


def test_a_table_sorts_filters_and_comes_as_csv(page: Any, server: Callable[..., str]) -> None:
    page.goto(f"{server(DEMO / 'xla')}#/hlo_stats")
    settle(page)
    names = fastprof.load(DEMO / "xla").hlo_stats().tables
    assert names
    filters = page.locator("#page input[type=search]:visible")
    assert filters.count() >= 1
    filters.first.fill("all-reduce")
    page.wait_for_timeout(400)
    rows = page.locator("#page tbody tr:visible, #page [role=row]:visible")
    assert rows.count() >= 1
    assert "all-reduce" in page.inner_text("#page")
    page.locator("#page").get_by_text("CSV").first.click()
    with page.expect_download() as download:
        page.locator("#page .menu-body:visible a, #page .menu-body:visible button").first.click()
    assert download.value.suggested_filename.endswith(".csv")


def test_a_picked_host_is_in_the_address_and_narrows_the_report(page: Any, server: Callable[..., str]) -> None:
    page.goto(f"{server(DEMO / 'pod')}#/steps")
    settle(page)
    assert page.get_by_label("Steps by core").is_visible()
    page.get_by_label("Host").first.select_option("host1")
    page.wait_for_function("() => location.hash.includes('host=host1')")
    settle(page)
    assert "host0" not in page.inner_text("#page")


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("saved") / "report.html"
    assert command(["report", str(DEMO / "xla"), "--html", str(path), "--quiet"]) == 0
    return path


def test_the_saved_report_opens_from_disk(page: Any, saved: Path) -> None:
    pages = ("overview", "op_stats", "op_profile", "hlo_stats", "roofline", "communication", "memory_viewer")
    for analysis in few(pages, 3):
        page.goto("about:blank")
        page.goto(f"file://{saved}#/{analysis}")
        settle(page)
        assert page.locator("[role=alert]:visible").count() == 0, analysis
        assert len(page.inner_text("#page")) > 100, analysis


def test_the_saved_report_has_a_timeline_that_zooms(page: Any, saved: Path) -> None:
    page.goto(f"file://{saved}#/timeline")
    page.wait_for_function("() => window.fastprofTimeline?.idle()", timeout=20_000)
    before = page.evaluate("() => window.fastprofTimeline.view()")
    page.mouse.move(800, 300)
    for _ in range(5):
        page.keyboard.press("w")
    page.wait_for_function("() => window.fastprofTimeline.idle()")
    after = page.evaluate("() => window.fastprofTimeline.view()")
    assert after["end_ps"] - after["start_ps"] < before["end_ps"] - before["start_ps"]
    tracks = page.evaluate("() => window.fastprofTimeline.tracks()")
    assert any(page.evaluate("id => window.fastprofTimeline.slices(id).length", one["id"]) for one in tracks)


FOLDED = ["Python time", "Kernel stats", "Streams", "Critical path", "Hardware units", "Memory profile", "tf.data"]
"""Pages for which the demo capture xla has nothing."""


def folded(page: Any) -> dict[str, str]:
    """Opens the entry of pages without content, and returns their reasons by title."""
    entry = page.locator("nav .nav-fold")
    entry.locator("summary").press("Enter")
    return {one.locator("a").inner_text(): one.locator("p").inner_text() for one in entry.locator("li").all()}


def test_pages_without_content_are_folded_under_one_entry_with_reasons(page: Any, server: Callable[..., str]) -> None:
    page.goto(f"{server(DEMO / 'xla')}#/overview")
    settle(page)
    page.get_by_text("Nothing recorded for 7 pages").wait_for()
    assert not page.get_by_role("link", name="Kernel stats").is_visible()
    reasons = folded(page)
    assert list(reasons) == FOLDED
    assert reasons["Kernel stats"] == "No kernels: the capture has no GPU planes."
    assert not page.get_by_text("tfprof").count() and not page.get_by_text("Inference").count()
    page.get_by_role("link", name="Kernel stats").click()
    settle(page)
    assert "the capture has no GPU planes" in page.inner_text("#page")


def test_a_page_that_turned_out_empty_is_folded_when_it_is_left(page: Any, server: Callable[..., str]) -> None:
    page.goto(f"{server(DEMO / 'serving')}#/communication")
    settle(page)
    page.locator("nav a[href*=inference]").first.click()
    settle(page)
    page.wait_for_selector("nav .nav-fold a[href*=communication]", state="attached")
    assert folded(page)["Communication"] == "The devices of the capture recorded no ops."


def test_the_saved_report_folds_pages_without_content(page: Any, saved: Path) -> None:
    page.goto(f"file://{saved}#/overview")
    settle(page)
    assert list(folded(page)) == FOLDED


def test_pages_of_steps_that_are_not_there_say_which_are(
    page: Any, server: Callable[..., str], faults: list[str]
) -> None:
    address = server(DEMO / "pod")
    for analysis in ("overview", "op_stats", "memory_profile"):
        page.goto("about:blank")
        page.goto(f"{address}#/{analysis}?steps=99")
        settle(page)
        assert "no step 99; choose from 0:8 (ends excluded)" in page.inner_text("[role=alert]:visible"), analysis
    assert faults and all("400" in fault for fault in faults)
    faults.clear()
