"""The page of two runs: how users come to it, what it shows, and that its address holds both."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

import fastprof
from tests.browser.hostile_space import MARKUP
from tests.browser.test_analysis_pages import settle
from tests.comparison.paired_runs import MODEL, Plan
from tests.log_directories import write_run

BASE, MIDDLE, NEW = "2026_01_01_00_00_00", "2026_01_02_00_00_00", "2026_01_03_00_00_00"


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make three runs: the newest with a slower and a faster op, the middle with other devices and markup in a name."""
    folder = tmp_path_factory.mktemp("logs")
    plan = Plan(MODEL, steps=12, chips=1)
    slower = plan.changed("fusion.3", time_us=4400).changed("fusion.5", time_us=1800)
    ill = replace(plan, ops=[*MODEL[:3], replace(MODEL[3], name=MARKUP), *MODEL[4:]], model="TPU v5p")
    for run, one in ((BASE, plan), (MIDDLE, ill), (NEW, slower)):
        write_run(folder, run, one.captures()[0])
    return folder


def cells(page: Any, table: str, row: int) -> list[str]:
    return list(page.locator(f"[data-table={table}] [role=row][data-place='{row}'] [role=gridcell]").all_inner_texts())


def open_page(page: Any, url: str, address: str) -> None:
    page.goto("about:blank")
    page.goto(f"{url}#/{address}")
    settle(page)


def test_two_runs_are_compared_from_what_costs_most(page: Any, server: Callable[..., str], logs: Path) -> None:
    open_page(page, server(logs), f"compare?run={NEW}&base={BASE}")
    report = fastprof.compare(*(fastprof.load(logs, run=run) for run in (BASE, NEW)))
    assert page.inner_text(".headline") == report.scalars["headline"].value
    cards = page.locator(".first-cards .card").all_inner_texts()
    assert [card.split("\n")[0] for card in cards] == [
        "Verdict", "Change of the mean step", "Mean step, base", "Mean step, new", "Smallest detectable change",
    ]  # fmt: skip
    assert cards[0].startswith("Verdict\nslower") and "95 % interval +" in cards[1]
    assert "12 steps, median" in cards[2]
    bars = page.locator(".bar-row").all_inner_texts()
    assert bars[0].startswith("fusion.3\n+2.") and bars[-1].startswith("fusion.5\n−")
    colours = page.locator(".bar-fill").evaluate_all("all => all.map(one => one.style.background)")
    assert (colours[0], colours[-1]) == ("rgb(217, 83, 79)", "rgb(63, 166, 107)")
    assert page.locator(".chart-dots circle").count() == 24
    assert [title.split("\n")[0] for title in page.locator(".section h2").all_inner_texts()] == [
        "Changes of the mean step", "Time by cause", "Ops", "Figures",
    ]  # fmt: skip
    first = report.tables["changes"].to_pylist()[0]
    wanted = [f"{first[name] / 1e9:.3f}" for name in ("base_ps", "new_ps", "change_ps")]
    assert cells(page, "changes", 0)[:4] == ["fusion.3", *wanted]
    page.locator("[data-table=changes] a", has_text="fusion.3").click()
    page.wait_for_function("() => location.hash.startsWith('#/op_stats?')")
    settle(page)
    assert page.locator("[data-table=device_ops] [role=row][data-place]").count() == 1
    assert "fusion.3" in cells(page, "device_ops", 0)


def test_a_base_is_chosen_swapped_and_kept_with_another_run(page: Any, server: Callable[..., str], logs: Path) -> None:
    open_page(page, server(logs), f"steps?run={NEW}")
    page.get_by_label("Compare with").select_option(BASE)
    page.wait_for_function(f"() => location.hash === '#/compare?run={NEW}&base={BASE}'")
    settle(page)
    assert page.get_by_label("Compare with").input_value() == BASE
    page.get_by_role("link", name="Swap runs").click()
    page.wait_for_function(f"() => location.hash === '#/compare?run={BASE}&base={NEW}'")
    settle(page)
    assert "faster" in page.inner_text(".headline")
    page.get_by_label("Run", exact=True).select_option(MIDDLE)
    page.wait_for_function(f"() => location.hash === '#/compare?run={MIDDLE}&base={NEW}'")
    page.get_by_label("Run, the newest").or_(page.get_by_label("Run", exact=True)).select_option(NEW)
    page.wait_for_function(f"() => location.hash === '#/compare?run={NEW}&base={MIDDLE}'")
    open_page(page, server(logs), f"compare?run={NEW}&base={NEW}")
    assert page.inner_text(".page .sentence").startswith("A comparison needs two runs")


def test_the_runs_and_the_list_of_pages_lead_to_it(page: Any, server: Callable[..., str], logs: Path) -> None:
    open_page(page, server(logs), f"trends?run={NEW}")
    page.wait_for_function("() => document.querySelectorAll('[data-table=trends] [role=row]').length === 4")
    links = page.locator("[data-table=trends] a", has_text="compare")
    assert links.evaluate_all("all => all.map(one => one.getAttribute('href'))") == [
        f"#/compare?run={NEW}&base={MIDDLE}", f"#/compare?run={MIDDLE}&base={BASE}",
    ]  # fmt: skip
    assert page.locator("nav a", has_text="Compare").get_attribute("href") == f"#/compare?run={NEW}&base={MIDDLE}"


def test_a_run_alone_has_nothing_to_be_compared_with(
    page: Any, server: Callable[..., str], tmp_path: Path, logs: Path
) -> None:
    data = (logs / "plugins" / "profile" / BASE / "vm.xplane.pb").read_bytes()
    write_run(tmp_path, BASE, data)
    open_page(page, server(tmp_path), "steps")
    assert page.get_by_label("Compare with").count() == 0
    assert page.locator(".nav a", has_text="Trends").count() == 1
    assert page.locator(".nav a", has_text="Compare").count() == 0


def windows_of(page: Any) -> dict[str, tuple[int, int]]:
    """Return the windows of both timelines in the address, in picoseconds of their runs, once they no longer change."""
    page.wait_for_function("() => window.fastprofTimeline?.idle()", timeout=20_000)
    address = page.evaluate("() => location.hash")
    while (now := page.wait_for_timeout(400) or page.evaluate("() => location.hash")) != address:
        address = now
    params = parse_qs(urlsplit(address.removeprefix("#")).query)
    return {side: tuple(map(int, params[f"{side}-t"][0].split("~"))) for side in ("new", "base")}


def test_both_timelines_show_the_same_step_at_the_same_place(
    page: Any, server: Callable[..., str], logs: Path, find_faults: Callable[[], list[str]]
) -> None:
    open_page(page, server(logs), f"compare?run={NEW}&base={BASE}")
    page.get_by_role("link", name="Timelines").click()
    page.wait_for_selector(".two-half .tl-steps-of:not([hidden])")
    assert page.locator(".two-half > h2").all_inner_texts() == [f"New: {NEW}", f"Base: {BASE}"]
    first = windows_of(page)
    assert page.get_by_label("Aligned at step").input_value() == "6"
    assert page.locator(".two-change").inner_text() == "base 9.952 ms, new 11.74 ms (+18 %)"
    page.get_by_label("Next step").click()
    page.wait_for_function("() => location.hash.includes('align=7')")
    second = windows_of(page)
    moved = [round((second[side][0] - first[side][0]) / 1e6) for side in ("new", "base")]
    assert moved == [round(step) for step in (steps_apart(logs, NEW), steps_apart(logs, BASE))]
    half = page.locator(".two-half").nth(1)
    half.hover()
    page.keyboard.press("w")
    page.wait_for_function("address => location.hash !== address", arg=page.evaluate("() => location.hash"))
    zoomed = windows_of(page)
    spans = [end - start for start, end in zoomed.values()]
    assert spans[0] == pytest.approx(spans[1], abs=2) and spans[0] < second["new"][1] - second["new"][0]
    aligned = second["new"][0] - second["base"][0]
    assert zoomed["new"][0] - zoomed["base"][0] == pytest.approx(aligned, abs=2)
    page.reload()
    page.wait_for_selector(".two-half .tl-steps-of:not([hidden])")
    assert windows_of(page) == zoomed and page.get_by_label("Aligned at step").input_value() == "7"
    assert find_faults() == []
    page.get_by_role("link", name="Figures").click()
    settle(page)
    assert "slower" in page.inner_text(".headline")


def steps_apart(logs: Path, run: str) -> float:
    """Return the time from the start of step 6 to the start of step 7 of a run, in microseconds."""
    steps = fastprof.load(logs, run=run).report("steps").tables["steps"].to_pylist()
    starts = {row["step"]: row["start_ps"] for row in steps}
    return float((starts[7] - starts[6]) / 1e6)


def test_markup_is_text_and_no_fault_of_accessibility_is_serious(
    page: Any, server: Callable[..., str], logs: Path, find_faults: Callable[[], list[str]]
) -> None:
    open_page(page, server(logs), f"compare?run={MIDDLE}&base={BASE}")
    assert cells(page, "environment", 0) == ["devices", "1 TPU v6 Lite", "1 TPU v5p", "no"]
    assert page.locator(".section h2").first.inner_text() == "Runs differ"
    assert page.evaluate("() => window.stolen") is None
    assert page.locator("#page img, #page script").count() == 0
    assert MARKUP[:12] in page.inner_text("#page")
    assert find_faults() == []
    page.wait_for_selector("[role=img][aria-label='Changes of Layers']")
    page.locator("canvas.flame").hover(position={"x": 5, "y": 25})
    assert "Model" in page.inner_text(".canvas-note")
    page.emulate_media(color_scheme="dark")
    assert find_faults() == []
