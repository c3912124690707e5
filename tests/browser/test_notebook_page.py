"""The page of a notebook cell: links stay in its frame, and its address does too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import fastprof
from fastprof.viewer import notebook

XLA = Path(__file__).parents[2] / "demo" / "xla"


def test_a_cell_shows_pages_and_timeline_without_a_server(page: Any, faults: list[str], tmp_path: Path) -> None:
    shown = notebook.show(fastprof.load(XLA), "overview", height=500)
    (tmp_path / "notebook.html").write_text(f"<!doctype html><h1>A notebook</h1>{shown._repr_html_()}")
    page.goto(f"file://{tmp_path}/notebook.html")
    cell = page.frame_locator("iframe")
    cell.get_by_text("Ops are memory-bandwidth bound").first.wait_for()
    cell.get_by_role("link", name="Trace viewer").click()
    cell.locator("canvas").first.wait_for()
    assert page.frames[1].url == "about:srcdoc#/timeline"
    assert page.inner_text("h1") == "A notebook"
    assert faults == []


def test_the_list_of_pages_follows_the_width_until_someone_folds_it(page: Any, tmp_path: Path) -> None:
    """A browser may give a frame its width after the page in it has started."""
    shown = notebook.show(fastprof.load(XLA), "overview")
    (tmp_path / "notebook.html").write_text(f"<!doctype html>{shown._repr_html_()}")
    page.set_viewport_size({"width": 500, "height": 800})
    page.goto(f"file://{tmp_path}/notebook.html")
    cell = page.frame_locator("iframe")
    cell.get_by_text("Ops are memory-bandwidth bound").first.wait_for()
    link = cell.get_by_role("link", name="Trace viewer")
    link.wait_for(state="hidden")
    page.set_viewport_size({"width": 1280, "height": 800})
    link.wait_for()
    cell.get_by_role("button", name="Hide or show the list of pages").click()
    page.set_viewport_size({"width": 500, "height": 800})
    page.set_viewport_size({"width": 1280, "height": 800})
    link.wait_for(state="hidden")


def test_a_page_too_low_to_read_is_an_error() -> None:
    with pytest.raises(fastprof.UsageError, match="height must be at least 200 pixels, not 20"):
        notebook.show(fastprof.load(XLA), height=20)
