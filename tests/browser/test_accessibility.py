"""Every page can be used by all: axe-core finds no serious fault, and what is clicked can be reached by keyboard."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from gate import few

from fastprof.analyses import ANALYSES
from tests.browser.test_analysis_pages import settle

DEMO = Path(__file__).resolve().parent.parent.parent / "demo"
AXE = DEMO.parent / ".venv/page/node_modules/axe-core/axe.min.js"
PAGES = ["overview", "trends", "hlo", *(name for name in ANALYSES if name not in ("overview", "diagnosis")), "timeline"]
FOUND = """async () => {
    const { violations } = await axe.run(document, { resultTypes: ["violations"] });
    return violations.filter((one) => ["serious", "critical"].includes(one.impact)).map((one) =>
        `${one.id}: ${one.nodes.slice(0, 5).map((node) => node.html.slice(0, 200)).join(" | ")}`);
}"""


@pytest.fixture
def axe() -> str:
    if not AXE.exists():
        absent = "no axe-core in .venv/page: run make lint"
        if os.environ.get("FASTPROF_REQUIRE_BROWSER"):
            pytest.fail(absent)
        pytest.skip(absent)
    return AXE.read_text()


@pytest.mark.parametrize("scheme", few(["light", "dark"], 1))
@pytest.mark.parametrize("name", few(["xla", "kernel", "memory", "serving", "tf-data"], 1))
def test_no_page_has_a_serious_fault_of_accessibility(
    page: Any, server: Callable[..., str], axe: str, scheme: str, name: str
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
        page.evaluate("() => document.querySelectorAll('details').forEach((one) => { one.open = true; })")
        page.evaluate(axe)
        found = page.evaluate(FOUND)
        if found:
            faults[shown] = found
    assert faults == {}
