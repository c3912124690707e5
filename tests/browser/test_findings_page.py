"""The page says first what costs the time, and each finding leads to the rows that show it and to its time."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from gate import few, left_to_test_all

from fastprof.cli.main import main as command
from tests.browser.hostile_space import MARKUP
from tests.browser.test_analysis_pages import settle
from tests.trace_builder import event, line, plane, xspace

sys.path.append(str(Path(__file__).resolve().parent.parent / "planted"))
from planted_cases import PLANTED

DEMO = Path(__file__).resolve().parent.parent.parent / "demo"
CASES = {one.name: one for one in PLANTED}
MS = 10**9

EVIDENCE = {
    "jax_sleeping_batches": ("gaps", "by_cause", "input"),
    "jax_slow_step": ("steps", "slow_steps", None),
    "gpu_single_precision": ("kernel_stats", "kernels", None),
    "gpu_at_the_memory": ("roofline", "ops", "HBM"),
    "tpu_idle_units": ("roofline", "lost_time", None),
    "tpu_ragged_channels": ("hlo_stats", "padding", None),
    "tpu_slow_chip": ("communication", "stragglers", None),
    "tpu_all_reduce": ("communication", "operations", None),
}
"""By run, the page and the table that its first finding leads to, and a text that all rows have."""


@pytest.fixture
def run(tmp_path: Path) -> Callable[[str], Path]:
    """``run(name)`` is a folder with the captures of a planted run."""

    def written(name: str) -> Path:
        folder = tmp_path / name
        folder.mkdir()
        for host, data in CASES[name].run().captures.items():
            (folder / f"{host}.xplane.pb").write_bytes(_unpacked(data))
        return folder

    return written


def _unpacked(data: bytes) -> bytes:
    import gzip

    return gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data


def tops(page: Any, *selectors: str) -> list[float]:
    """Where the first element of each selector begins."""
    found: list[float] = [page.locator(one).first.bounding_box()["y"] for one in selectors]
    return found


def in_sight(page: Any, selector: str) -> bool:
    box = page.locator(selector).first.bounding_box()
    return bool(box and box["y"] < page.viewport_size["height"] and box["y"] + box["height"] > 0)


def open_finding(page: Any) -> None:
    """Opens the first finding with the keyboard."""
    page.locator(".finding summary").first.press("Enter")


def follow(page: Any) -> None:
    """Clicks the evidence of the first finding."""
    open_finding(page)
    page.locator(".finding-evidence").first.click()
    page.wait_for_function("() => !location.hash.startsWith('#/overview')")
    settle(page)


def test_the_page_opens_with_the_headline_then_figures_then_a_chart_then_findings(
    page: Any, server: Callable[..., str], run: Callable[[str], Path]
) -> None:
    page.goto(server(run("jax_sleeping_batches")))
    settle(page)
    assert "#/overview" in page.url
    assert page.inner_text(".headline").startswith("Compute waits for input: $train.py:18 batches: ")
    assert page.inner_text(".finding-title >> nth=0") == "Compute waits for input: $train.py:18 batches"
    order = tops(page, ".headline", ".first-cards", ".columns-steps", ".finding")
    assert order == sorted(order) and order[-1] < page.viewport_size["height"]
    text = page.inner_text("#page")
    assert "input-bound" not in text and "All Others" not in text
    charts = page.inner_text(".columns-steps")
    assert "Step time by cause" in charts and "Input wait 70.2 %" in " ".join(charts.split())
    assert "All others" not in charts, "XProf's name for all that it does not know"
    shares = [float(one.split()[0]) for one in page.locator(".columns-steps .bar-value").all_inner_texts()]
    assert shares == sorted(shares, reverse=True)
    page.get_by_text("Verdicts by XProf's rules").click()
    assert "input-bound" in page.inner_text("#page")


@pytest.mark.parametrize("name", few(EVIDENCE, 2))
def test_the_evidence_of_a_finding_is_a_table_in_sight_with_its_rows(
    page: Any, server: Callable[..., str], run: Callable[[str], Path], name: str
) -> None:
    analysis, table, held = EVIDENCE[name]
    page.goto(f"{server(run(name))}#/overview")
    settle(page)
    assert page.get_attribute(".finding >> nth=0", "data-cause") == CASES[name].cause
    follow(page)
    assert page.url.split("#/")[1].startswith(f"{analysis}?")
    shown = f"[data-table={table}]"
    page.wait_for_selector(f"{shown} .row")
    assert in_sight(page, shown)
    rows = page.locator(f"{shown} .row").all_inner_texts()
    assert rows and all(held is None or held in row for row in rows)


@left_to_test_all
def test_the_evidence_of_a_slow_step_is_that_step_only(
    page: Any, server: Callable[..., str], run: Callable[[str], Path]
) -> None:
    page.goto(f"{server(run('jax_slow_step'))}#/diagnosis")
    settle(page)
    open_finding(page)
    step = page.inner_text(".finding-title >> nth=0").split()[1]
    page.locator(".finding-evidence").first.click()
    page.wait_for_selector("[data-table=slow_steps] .row")
    rows = page.locator("[data-table=slow_steps] .row").all_inner_texts()
    assert {row.split("\n")[0] for row in rows} == {step}


def test_a_finding_and_a_row_of_gaps_lead_into_the_timeline(
    page: Any, server: Callable[..., str], run: Callable[[str], Path]
) -> None:
    url = server(run("jax_sleeping_batches"))
    page.goto(f"{url}#/overview")
    settle(page)
    open_finding(page)
    page.locator(".finding").first.get_by_role("button", name="Timeline").click()
    page.wait_for_function("() => window.fastprofTimeline?.idle()", timeout=20_000)
    view = page.evaluate("() => window.fastprofTimeline.view()")
    longest = view["end_ps"] - view["start_ps"]
    assert 12 * MS < longest < 30 * MS, "a batch sleeps for 12 ms and more"
    page.goto(f"{url}#/gaps?table=gaps")
    settle(page)
    page.locator("[data-table=gaps] .row").nth(1).click()
    page.locator("section", has=page.locator("[data-table=gaps]")).get_by_text(
        "Show the row in the timeline"
    ).first.click()
    page.wait_for_function("() => window.fastprofTimeline?.idle()", timeout=20_000)
    view = page.evaluate("() => window.fastprofTimeline.view()")
    assert 12 * MS < view["end_ps"] - view["start_ps"] < longest


@left_to_test_all
def test_a_run_without_steps_has_its_time_by_cause(page: Any, server: Callable[..., str], tmp_path: Path) -> None:
    kernels = plane(
        "/device:GPU:0", [line("Stream #1(Compute)", [event("dot", 0, MS), event("dot", 3 * MS, MS)], id=1)]
    )
    (tmp_path / "gpu.xplane.pb").write_bytes(xspace(kernels))
    page.goto(f"{server(tmp_path / 'gpu.xplane.pb')}#/overview")
    settle(page)
    page.wait_for_selector(".columns-steps .bar-row")
    assert page.locator(".columns-steps h3").all_inner_texts() == ["Run time by cause"]
    assert " ".join(page.inner_text(".columns-steps .bar-list").split()) == "Not captured 50 % Compute 50 %"
    compute_is_green = r"rgb\(63, 166, 107\)|#3fa66b"
    assert re.search(compute_is_green, page.inner_html(".columns-steps"))


def test_findings_are_closed_until_their_evidence_is_wanted(page: Any, server: Callable[..., str]) -> None:
    page.goto(f"{server(DEMO / 'pod')}#/overview")
    settle(page)
    first = page.locator(".finding").first
    closed = first.inner_text()
    assert "Find out why the slowest host is slower: more work" in closed and "19.6 %" in closed
    assert not any(words in closed for words in ("Certainty", "Evidence", "largest difference"))
    open_finding(page)
    opened = first.inner_text()
    assert "Certainty likely" in opened and "Evidence: Steps" in opened and "largest difference: device" in opened


def test_the_first_page_has_every_cause_and_what_the_capture_lacks(page: Any, server: Callable[..., str]) -> None:
    page.goto(f"{server(DEMO / 'xla')}#/diagnosis")
    settle(page)
    assert "#/overview" in page.url, "the address of the diagnosis leads to the first page"
    assert page.locator("nav a", has_text="Diagnosis").count() == 0
    assert page.locator(".finding").count() >= 2
    line = page.get_by_text("other causes checked: little or no time lost; 17 cannot be judged")
    assert not page.locator("[data-table=examined]").is_visible()
    line.click()
    assert "33 rows" in page.inner_text("[data-table=examined] .table-count")
    card = page.locator("section[aria-label='Not recorded']")
    assert card.locator("code").inner_text() == "fastprof run --host-level 2 YOUR_PROGRAM.py"
    assert "ProfileOptions" not in card.inner_text()
    card.get_by_text("How to record each").click()
    assert "Host threads. Set ProfileOptions.host_tracer_level = 2." in card.inner_text()


def test_headline_figures_name_what_they_are_of_and_why_they_are_unknown(page: Any, server: Callable[..., str]) -> None:
    page.goto(f"{server(DEMO / 'pod')}#/overview")
    settle(page)
    cards = [" ".join(one.split()) for one in page.locator(".first-cards .card").all_inner_texts()]
    assert cards == [
        "Step time 1.734 ms ± 333 µs, 8 steps",
        "Device busy 92.6 % 82.5 % computing",
        "Input 6.38 % of step time",
        "Exposed communication 9.48 % of device time",
        "FLOPs utilization 41.4 % of 275 TFLOP/s per device",
    ]
    page.get_by_text("1 unknown figure").first.click()
    assert "the capture has no events MemoryAllocation" in page.inner_text(".first-cards")
    page.goto(f"{server(DEMO / 'xla')}#/overview")
    settle(page)
    page.get_by_text("2 unknown figures").first.click()
    assert "Input\nthe capture does not record host threads" in page.inner_text(".first-cards"), "never 0"


@left_to_test_all
def test_a_run_without_lost_time_says_so(page: Any, server: Callable[..., str], tmp_path: Path) -> None:
    ops = [event("dot", number * MS, MS) for number in range(4)]
    busy = plane("/device:GPU:0", [line("Stream #1(Compute)", ops, id=1)])
    (tmp_path / "busy.xplane.pb").write_bytes(xspace(busy))
    url = server(tmp_path / "busy.xplane.pb")
    for analysis in ("overview", "diagnosis"):
        page.goto(f"{url}#/{analysis}")
        settle(page)
        assert (
            page.inner_text(".headline") == "No cause takes 1 % of the run or more; devices compute for 100.0 % of it."
        )
        assert page.locator(".finding").count() == 0


def test_a_run_without_work_says_why_nothing_is_found(page: Any, server: Callable[..., str], tmp_path: Path) -> None:
    (tmp_path / "host.xplane.pb").write_bytes(xspace(plane("/host:CPU", [line("main", [event("work", 0, MS)])])))
    page.goto(f"{server(tmp_path / 'host.xplane.pb')}#/diagnosis")
    settle(page)
    assert page.inner_text(".headline") == "No device work is recorded: device time is neither used nor lost."


@left_to_test_all
def test_names_in_findings_stay_text(page: Any, server: Callable[..., str], tmp_path: Path) -> None:
    kernels = [event("dot", 0, MS), event("dot", 9 * MS, MS)]
    name = f"load_batch {MARKUP}"
    main = line("python", [event("train", 0, 10 * MS, {"step_num": 0}), event(name, MS, 8 * MS)])
    threads = plane("/host:CPU", [main], id=1)
    (tmp_path / "bad.xplane.pb").write_bytes(
        xspace(threads, plane("/device:GPU:0", [line("Stream #1(Compute)", kernels, id=1)], id=2))
    )
    page.goto(f"{server(tmp_path / 'bad.xplane.pb')}#/overview")
    settle(page)
    assert "load_batch <img src=x" in page.inner_text(".finding-title >> nth=0")
    assert page.locator("#page img").count() == 0
    assert page.evaluate("() => window.stolen") is None


def test_the_saved_report_leads_from_findings_to_their_rows(
    page: Any, tmp_path: Path, run: Callable[[str], Path]
) -> None:
    path = tmp_path / "report.html"
    assert command(["report", str(run("jax_sleeping_batches")), "--html", str(path), "--quiet"]) == 0
    page.goto(f"file://{path}#/overview")
    settle(page)
    assert page.inner_text(".headline").startswith("Compute waits for input: ")
    follow(page)
    assert in_sight(page, "[data-table=by_cause]")
    assert all("input" in row for row in page.locator("[data-table=by_cause] .row").all_inner_texts())
    page.goto(f"file://{path}#/diagnosis")
    settle(page)
    open_finding(page)
    page.locator(".finding").first.get_by_role("button", name="Timeline").click()
    page.wait_for_function("() => window.fastprofTimeline?.idle()", timeout=20_000)
    view = page.evaluate("() => window.fastprofTimeline.view()")
    assert view["end_ps"] - view["start_ps"] < 30 * MS
