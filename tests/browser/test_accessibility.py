"""Every page can be used by all: axe-core finds no serious fault, and what is clicked can be reached by keyboard."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from gate import few

from fastprof.analyses import ANALYSES
from tests.browser.test_analysis_pages import settle

DEMO = Path(__file__).resolve().parent.parent.parent / "demo"
PAGES = ["overview", "trends", "hlo", *(name for name in ANALYSES if name not in ("overview", "diagnosis")), "timeline"]


@pytest.mark.parametrize("scheme", few(["light", "dark"], 1))
@pytest.mark.parametrize("name", few(["xla", "kernel", "memory", "serving", "tf-data"], 1))
def test_no_page_has_a_serious_fault_of_accessibility(
    page: Any, server: Callable[..., str], find_faults: Callable[[], list[str]], scheme: str, name: str
) -> None:
    page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    url = server(DEMO / name)
    faults = {}
    for shown in few(PAGES, 5):
        page.goto(f"{url}#/{shown}")
        page.reload()
        if shown == "timeline":
            page.wait_for_function("() => window.fastprofTimeline?.idle()")
        else:
            settle(page)
        found = find_faults()
        if found:
            faults[shown] = found
    assert faults == {}
