"""What users choose in the pages of programs, memory, pods and input pipelines shows, and is in the address."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from gate import few, left_to_test_all
from step_captures import host, ran, spaces, step
from test_analysis_pages import DEMO, settle
from trace_builder import Event

import fastprof
from fastprof.cli.main import main as command

MODULE = "jit_train_step(7311650934521873002)"


@pytest.fixture
def show(page: Any, server: Callable[..., str]) -> Callable[..., Any]:
    """``show(demo, address)`` opens a page and waits until it is drawn."""

    def shown(demo: str, address: str) -> Any:
        page.goto("about:blank")
        page.goto(f"{server(DEMO / demo)}#/{address}")
        settle(page)
        return page

    return shown


def details(page: Any) -> str:
    page.wait_for_function("() => !document.querySelector('.details-body').textContent.includes('Reading …')")
    return str(page.inner_text(".details"))


def wait_for(page: Any, selector: str, text: str) -> None:
    page.locator(selector, has_text=re.compile(re.escape(text))).first.wait_for(timeout=10_000)


# ---- op profile


def test_the_tree_of_ops_opens_and_reports_an_op(show: Callable[..., Any]) -> None:
    page = show("xla", "op_profile")
    longest = fastprof.load(DEMO / "xla").op_profile().tables["tree"].to_pylist()
    op = next(row for row in longest if row["kind"] == "op")
    page.locator(".tree-text", has_text=op["name"]).first.click()
    assert op["expression"].split(" = ")[0].lstrip("%") in details(page)
    assert f"node={op['node']}" in page.url
    page.keyboard.press("ArrowRight")
    page.wait_for_function("() => document.querySelector('.tree-row.chosen')?.getAttribute('aria-expanded') === 'true'")
    page.keyboard.press("ArrowDown")
    page.wait_for_function("node => !location.hash.endsWith(`node=${node}`)", arg=op["node"])


@left_to_test_all
def test_the_tree_is_grouped_and_ordered_as_chosen(show: Callable[..., Any]) -> None:
    page = show("xla", "op_profile")
    page.get_by_text("Category", exact=True).first.click()
    page.wait_for_function("() => location.hash.includes('group_by=category')")
    settle(page)
    wait_for(page, ".tree-text", "by category")
    page.get_by_text("Lost time", exact=True).click()
    assert "order=lost" in page.url
    page.get_by_text("Layers", exact=True).click()
    wait_for(page, ".tree-row", "layer_*")
    page.get_by_role("textbox", name="Find").fill("mlp")
    page.keyboard.press("Enter")
    wait_for(page, ".tree-row.chosen", "mlp")


# ---- HLO stats and roofline


@left_to_test_all
def test_an_instruction_leads_to_its_text_and_its_neighbours(show: Callable[..., Any]) -> None:
    page = show("xla", "hlo_stats?op=loss_fusion.103")
    assert "loss_fusion.103" in details(page)
    assert "f32" in details(page) or "bf16" in details(page)
    page.locator(".details a", has_text="HLO text").click()
    page.wait_for_selector(".hlo-line.marked")
    assert "loss_fusion.103" in page.inner_text(".hlo-line.marked")
    page.locator(".hlo-line.marked .hlo-link").first.click()
    page.wait_for_function("() => location.hash.includes('instruction=convolution_fusion.101')")
    wait_for(page, ".hlo-line.marked", "convolution_fusion.101")
    wait_for(page, ".graph-node.centre", "convolution_fusion.101")
    page.go_back()
    wait_for(page, ".hlo-line.marked", "loss_fusion.103")


def test_the_text_of_a_program_is_there_to_its_last_line(show: Callable[..., Any]) -> None:
    page = show("xla", f"hlo?module={quote(MODULE)}&form=long-txt")
    lines = fastprof.load(DEMO / "xla").hlo_text(MODULE, "long-txt").splitlines()
    page.wait_for_selector(".hlo-line")
    page.evaluate("() => { const box = document.querySelector('.hlo-text'); box.scrollTop = box.scrollHeight; }")
    wait_for(page, ".hlo-number", str(len(lines)))
    last = next(line for line in reversed(lines) if "ROOT" in line)
    wait_for(page, ".hlo-line", last.strip().split(" = ")[0])


def test_a_dot_of_the_roofline_is_a_row(show: Callable[..., Any]) -> None:
    page = show("xla", "roofline")
    page.wait_for_selector(".chart .chart-dots circle")
    page.get_by_text("Session, steps and programs", exact=True).click()
    wait_for(page, "[role=row]", "average step")
    assert "of=totals" in page.url
    page.locator("[role=row]", has_text="average step").first.click()
    assert "Share of the roofline" in details(page)


# ---- memory


def test_what_was_alive_at_a_time_and_whether_a_request_fits(show: Callable[..., Any]) -> None:
    page = show("memory", "memory_profile")
    page.get_by_role("textbox", name="Alive at").fill("20ms")
    page.keyboard.press("Enter")
    page.wait_for_function("() => location.hash.includes('at=20ms')")
    settle(page)
    wait_for(page, "h2", "Alive at 20ms")
    page.get_by_role("textbox", name="Would this size fit?").fill("100MiB")
    page.keyboard.press("Enter")
    page.wait_for_function("() => location.hash.includes('request=100MiB')")
    settle(page)
    wait_for(page, "h2", "When the request fits")


@left_to_test_all
def test_a_moment_of_memory_records_its_allocation(show: Callable[..., Any]) -> None:
    page = show("memory", "memory_profile")
    page.locator(".chart svg").first.focus()
    for _ in range(8):
        page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    seventh = fastprof.load(DEMO / "memory").memory_profile().tables["snapshots"].slice(7, 1).to_pylist()[0]
    wait_for(page, ".details", seventh["op_name"])


@left_to_test_all
def test_the_capacity_is_in_the_legend_with_a_line_of_its_own(show: Callable[..., Any]) -> None:
    page = show("memory", "memory_profile")
    chart = page.locator(".chart", has_text="Fragmentation").first
    entries = chart.locator(".chart-entry")
    names = entries.all_inner_texts()
    assert "Capacity, 256 MiB" in names
    lines = chart.locator("svg .chart-line").evaluate_all(
        "all => all.map(one => [one.getAttribute('stroke'), one.getAttribute('stroke-dasharray')])"
    )
    assert ["var(--text)", "8 4"] in lines and chart.locator("svg line[stroke]").count() == 0
    keys = chart.locator(".chart-key-dashed").evaluate_all("all => all.map(one => getComputedStyle(one).background)")
    assert len(keys) == len(set(keys)) == 2, "capacity and fragmentation"
    entries.nth(names.index("Capacity, 256 MiB")).click()
    assert chart.locator("svg .chart-line").count() == len(lines) - 1


@left_to_test_all
def test_bytes_held_at_the_end_are_called_so(show: Callable[..., Any]) -> None:
    page = show("memory", "memory_profile")
    label = page.locator("[data-figure=held_at_end_bytes] .card-title")
    assert label.inner_text() == "Bytes held at the end"
    text = fastprof.load(DEMO / "memory").memory_profile().to_text()
    assert "allocations held at the end" in text


@left_to_test_all
def test_another_allocator_is_in_the_address(show: Callable[..., Any]) -> None:
    page = show("memory", "memory_profile")
    page.get_by_role("combobox", name="Allocator", exact=True).select_option("gpu_host_bfc")
    page.wait_for_function("() => location.hash.includes('allocator=gpu_host_bfc')")
    settle(page)
    rows = fastprof.load(DEMO / "memory").memory_profile().tables["allocators"].to_pylist()
    count = next(row["allocation_count"] for row in rows if row["allocator"] == "gpu_host_bfc")
    wait_for(page, "[data-figure=allocation_count]", str(count))


@left_to_test_all
def test_the_buffer_under_the_pointer_is_described(show: Callable[..., Any]) -> None:
    page = show("xla", "memory_viewer")
    buffers = page.locator("canvas.buffer-map")
    buffers.scroll_into_view_if_needed()
    box = buffers.bounding_box()
    note = page.locator("canvas.buffer-map + .canvas-note")
    for share in (0.9, 0.8, 0.6, 0.4, 0.2):
        page.mouse.move(box["x"] + box["width"] / 2, box["y"] + share * (box["height"] - 26))
        if note.inner_text():
            break
    assert " · points " in note.inner_text()


@left_to_test_all
def test_a_buffer_is_marked_in_all_charts(show: Callable[..., Any]) -> None:
    page = show("xla", "memory_viewer")
    assert page.locator("canvas.buffer-bars").count() >= 2
    assert page.locator("canvas.buffer-map").count() == 1
    page.locator("canvas.buffer-bars").first.click(position={"x": 80, "y": 100})
    largest = fastprof.load(DEMO / "xla").memory_viewer().tables["buffers_at_peak"].to_pylist()[0]
    assert largest["buffer"] in details(page)
    page.get_by_role("combobox", name="Memory", exact=True).select_option("1")
    page.wait_for_function("() => location.hash.includes('memory_space=1')")
    settle(page)
    wait_for(page, "[data-figure=peak_bytes]", "8 MiB")


# ---- input pipelines, pods, communication


@left_to_test_all
def test_a_call_of_a_pipeline_has_its_own_graph(show: Callable[..., Any]) -> None:
    page = show("tf-data", "tf_data")
    wait_for(page, ".graph-node.worst", "Map")
    page.get_by_role("combobox", name="Call", exact=True).select_option("3")
    page.wait_for_function("() => location.hash.includes('rank=3')")
    rows = fastprof.load(DEMO / "tf-data").tf_data().tables["call_iterators"].to_pylist()
    row = next(row for row in rows if row["rank"] == 3 and row["name"] == "Map")
    wait_for(page, ".graph-node", f"{row['critical_ps'] / 1e6:.4g} µs")
    assert page.locator(".graph-node").count() == 8
    page.get_by_text("Alike together", exact=True).click()
    page.wait_for_function("() => document.querySelectorAll('.graph-node').length === 10")


@left_to_test_all
def test_the_pipeline_that_the_report_calls_slow_is_shown_first(
    page: Any, server: Callable[..., str], tmp_path: Path
) -> None:
    """Calls of host a take longer, but outside of all steps."""

    def call(at: float, length: float) -> Event:
        return ran("Iterator::Root", at, length, id=1)

    idle = [step(0, 0, 50), ran("work", 5, 40), call(100, 500), step(1, 700, 50), ran("work", 705, 40)]
    waiting = [step(0, 0, 200), call(10, 100)]
    for name, thread in (("a", idle), ("b", waiting)):
        (tmp_path / f"{name}.xplane.pb").write_bytes(spaces(host(thread), hostnames=(name,)))
    report = fastprof.load(tmp_path).tf_data()
    assert report.scalars["slow_pipeline"].value == "Host:0 of b"
    assert report.tables["bottlenecks"].to_pylist()[0]["host"] == "a"
    page.goto(f"{server(tmp_path)}#/tf_data")
    settle(page)
    wait_for(page, ".graph-node", "Root")
    assert page.locator(".page-body").get_by_role("combobox", name="Host", exact=True).input_value() == "b"
    calls = page.get_by_role("combobox", name="Call", exact=True).locator("option").all_inner_texts()
    assert calls[0] == "the only call"


@left_to_test_all
def test_the_step_of_the_pod_viewer_slides(show: Callable[..., Any]) -> None:
    page = show("pod", "pod_viewer?step=2")
    assert page.locator(".core").count() == 8
    page.locator(".core").nth(5).click()
    before = details(page)
    page.get_by_role("slider", name="Step").focus()
    page.keyboard.press("ArrowRight")
    page.wait_for_function("() => location.hash.includes('step=3')")
    page.wait_for_function("before => document.querySelector('.details').innerText !== before", arg=before)
    page.get_by_role("combobox", name="Colour cores by", exact=True).select_option("input_ps")
    assert "metric=input_ps" in page.url


@left_to_test_all
def test_steps_of_a_device_are_a_choice(show: Callable[..., Any]) -> None:
    page = show("xla", "communication")
    page.get_by_role("combobox", name="Steps of", exact=True).select_option("worker0:1")
    page.wait_for_function("() => location.hash.includes('device=')")
    settle(page)
    wait_for(page, "h2", "Steps of worker0:1")
    page.locator("[role=row]", has_text="all-reduce.123").first.click()
    assert "Bus bandwidth" in details(page)


# ---- saved


@pytest.mark.parametrize(
    ("demo", "analysis", "words"),
    few(
        [
            ("memory", "memory_profile", "A saved report has no other times"),
            ("tf-data", "tf_data", "Map"),
            ("pod", "pod_viewer", "host1"),
        ],
        1,
    ),
)
def test_saved_pages_work_and_say_what_needs_a_server(
    page: Any, tmp_path: Path, demo: str, analysis: str, words: str
) -> None:
    path = tmp_path / "report.html"
    assert command(["report", str(DEMO / demo), "--html", str(path), "--quiet"]) == 0
    page.goto(f"file://{path}#/{analysis}")
    settle(page)
    assert page.locator("[role=alert]:visible").count() == 0
    assert words in page.inner_text("#page")


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    few(
        [
            ("op_stats?steps=abc", '"abc" is not a range of steps'),
            ("op_stats?steps=3-5", "3:6 for 3 to 5"),
            ("steps?steps=4-2", "write A:B"),
            ("op_stats?steps=5:5", "holds no step"),
            ("op_profile?group_by=colour", "group_by is one of program, category, provenance"),
        ],
        1,
    ),
)
def test_a_wrong_parameter_is_reported_below_its_control_and_can_be_mended(
    page: Any, server: Callable[..., str], wrong: str, complaint: str
) -> None:
    """Nothing is asked of the server, so that no error is in the console: the fixture of the page looks."""
    page.goto(f"{server(DEMO / 'xla')}#/{wrong}")
    settle(page)
    assert complaint in page.inner_text("[role=alert]")
    assert page.locator("#page .parameters input").count() >= 1
    page.get_by_text("Show the page without it").click()
    page.wait_for_selector("#page .section")
    assert page.locator("[role=alert]").count() == 0


@left_to_test_all
def test_the_roofline_has_no_dots_of_ops_that_only_start_work(page: Any, server: Callable[..., str]) -> None:
    """Eight all-reduce-start of 60 ns record 168 MB each: their share of the roofline is unknown."""
    page.goto(f"{server(DEMO / 'xla')}#/roofline")
    settle(page)
    assert "8 have no dot: they start or await transfers" in page.inner_text("#page")
    page.wait_for_selector("#page .chart svg")
    names = page.locator("#page .chart-legend .chart-entry").all_inner_texts()
    assert "all-reduce" in names
    assert "all-reduce-start" not in names


def test_details_of_the_op_profile_come_with_a_chosen_row(page: Any, server: Callable[..., str]) -> None:
    page.goto(f"{server(DEMO / 'xla')}#/op_profile")
    settle(page)
    assert not page.locator(".details").is_visible()
    page.locator(".tree-row").nth(4).click()
    page.wait_for_selector(".details h3:has-text('convolution_fusion')")
    name = page.locator(".tree-head > *").first.bounding_box()
    assert name["width"] >= 260


# ---- from the timeline


def test_an_event_leads_to_its_rows_in_op_stats_and_to_its_instruction(page: Any, server: Callable[..., str]) -> None:
    page.goto(f"{server(DEMO / 'xla')}#/timeline?event=616@worker0")
    page.get_by_role("button", name="In op stats").click()
    page.get_by_text("1 of 69 rows").wait_for()
    page.get_by_text("2 of 108 rows").wait_for()
    page.go_back()
    page.get_by_role("button", name="HLO", exact=True).click()
    page.locator(".hlo", has_text="norm_fusion.2 = ").wait_for()
    assert "instruction=norm_fusion.2" in page.url


def test_a_link_has_the_filters_and_the_sorting_of_tables(show: Callable[..., Any]) -> None:
    page = show("xla", "hlo_stats")
    table = page.locator(".table").first
    table.locator(".filter-all").fill("fusion")
    page.wait_for_function("() => location.hash.includes('find-')")
    table.get_by_role("columnheader").first.get_by_role("button").click()
    page.wait_for_function("() => location.hash.includes('find-') && location.hash.includes('sort-')")
    count = table.locator(".table-count").inner_text()
    order = table.get_by_role("columnheader").first.get_attribute("aria-sort")
    assert order in ("ascending", "descending")
    page.reload()
    table.locator(".table-count", has_text=count).wait_for(timeout=10_000)
    assert table.locator(".filter-all").input_value() == "fusion"
    assert table.get_by_role("columnheader").first.get_attribute("aria-sort") == order
