"""The pages of a pod show which host delays the others, in which steps, and how far apart clocks are."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from clock_pods import Pod, write_clocks


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """12 hosts; the last but one is slow."""
    folder = tmp_path_factory.mktemp("pod") / "run"
    write_clocks(folder, Pod(seed=1, hosts=12, steps=10, collectives=3, straggler=10, factor=1.5))
    return folder


def section(page: Any, title: str) -> Any:
    part = page.locator("#page section", has=page.locator("h2", has_text=title))
    part.wait_for(timeout=30_000)
    return part


def test_the_page_of_communication_shows_hosts_by_step(page: Any, server: Callable[..., str], run: Path) -> None:
    page.goto(f"{server(run)}#/communication")
    worst = section(page, "Who delays the others")
    assert "host010 delays the others." in worst.inner_text()
    assert "The first 10 of 12 hosts." in worst.inner_text()
    hosts = section(page, "All steps on all hosts")
    canvas = hosts.locator("canvas[aria-label='Steps by host']")
    canvas.hover(position={"x": 140, "y": 10.5 * canvas.bounding_box()["height"] / 13})
    assert hosts.locator(".canvas-note").inner_text().startswith("host01")
    assert "host010" in section(page, "Clocks of hosts").inner_text()


def test_the_pod_viewer_shows_the_hosts_that_delay_others(page: Any, server: Callable[..., str], run: Path) -> None:
    page.goto(f"{server(run)}#/pod_viewer")
    worst = section(page, "Who delays the others")
    assert "host010 delays the others." in worst.inner_text()
    assert worst.locator("[role=grid]").count() == 1
