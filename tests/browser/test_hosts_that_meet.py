"""The pages of a pod show which host delays the others, in which steps, and how far apart clocks are."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from clock_pods import Pod, write_clocks
from gate import left_to_test_all


def section(page: Any, title: str) -> Any:
    part = page.locator("#page section", has=page.locator("h2", has_text=title))
    part.wait_for(timeout=30_000)
    return part


@left_to_test_all
def test_pages_of_a_pod_show_which_host_delays_the_others(
    page: Any, server: Callable[..., str], tmp_path: Path
) -> None:
    """12 hosts; the last but one is slow."""
    write_clocks(tmp_path / "run", Pod(seed=1, hosts=12, steps=4, collectives=3, straggler=10, factor=1.5))
    url = server(tmp_path / "run")
    page.goto(f"{url}#/communication")
    worst = section(page, "Who delays the others")
    assert "host010 delays the others." in worst.inner_text()
    assert "The first 10 of 12 hosts." in worst.inner_text()
    hosts = section(page, "All steps on all hosts")
    canvas = hosts.locator("canvas[aria-label='Steps by host']")
    canvas.hover(position={"x": 140, "y": 10.5 * canvas.bounding_box()["height"] / 13})
    assert hosts.locator(".canvas-note").inner_text().startswith("host01")
    assert "host010" in section(page, "Host clocks").inner_text()
    page.goto(f"{url}#/pod_viewer")
    worst = section(page, "Who delays the others")
    assert "host010 delays the others." in worst.inner_text()
    assert worst.locator("[role=grid]").count() == 1
