"""The page of Python: a flame graph that zooms, functions, and the time of devices."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from gate import left_to_test_all
from test_analysis_pages import settle
from trace_builder import event, line, plane, ref, xspace

CAPTURE = xspace(
    plane("/host:CPU", [
        line("python", [event("$train.py:1 main", 0, 1000_000), event("$train.py:5 step", 100_000, 300_000),
                        event("cuLaunchKernel", 150_000, 5_000, {"correlation_id": 8})]),
    ]),
    plane("/device:GPU:0", [line("Stream #1", [
        event("add", 200_000, 40_000, {"correlation_id": 8, "kernel_details": ref("regs:1")}),
    ])]),
)  # fmt: skip


@left_to_test_all
def test_the_page_shows_calls_as_a_flame_graph(page: Any, server: Callable[..., str], tmp_path: Path) -> None:
    (tmp_path / "a.xplane.pb").write_bytes(CAPTURE)
    page.goto(f"{server(tmp_path)}#/python_time")
    settle(page)
    canvas = page.locator("canvas.flame")
    assert canvas.get_attribute("aria-label") == "Flame graph of Python"
    canvas.click(position={"x": 5, "y": 50})
    assert "main" in page.inner_text(".canvas-note") and page.locator("button", has_text="All").first.is_visible()
    assert "step" in page.inner_text("#page") and "train.py" in page.inner_text("#page")
    page.get_by_text("Devices", exact=True).click()
    page.wait_for_function("() => location.hash.includes('time=device')")
    page.locator("canvas.flame").hover(position={"x": 5, "y": 90})
    assert "40" in page.inner_text(".canvas-note")
