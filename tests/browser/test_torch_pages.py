"""The pages of a PyTorch trace: those of compiled programs and of other frameworks are not listed, nor named."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from gate import few, left_to_test_all

KINETO = Path(__file__).resolve().parents[3] / "shared" / "captures" / "chrome" / "kineto"
FOREIGN = re.compile(
    r"(?<![A-Za-z0-9])(tensorflow|keras|(?:torch_|stable)?(?:xla|hlo)|jax|tf[._-](?:data|function)|hlo[_-]stats)(?![A-Za-z0-9])",
    re.IGNORECASE,
)
SEEN = """() => [document.title, document.body.innerText,
  ...[...document.querySelectorAll("[title], [aria-label], [placeholder]")].filter((one) => one.checkVisibility())
    .flatMap((one) => ["title", "aria-label", "placeholder"].map((name) => one.getAttribute(name)))].join("\\n")"""
"""What a user can read: texts, and the words that show when the pointer rests on something."""


def settle(page: Any) -> None:
    page.wait_for_function(
        """() => {
            const here = decodeURIComponent(location.hash.slice(2).split("?")[0]);
            const current = document.querySelector("nav [aria-current=page]")?.getAttribute("href") ?? "";
            return current.startsWith(`#/${here}`) && document.querySelector("#page")?.ariaBusy === "false";
        }""",
        timeout=30_000,
    )


@pytest.mark.parametrize("name", few(["h100_qwen", "resnet50_worker0"], 1))
def test_no_page_has_a_foreign_word(page: Any, server: Callable[..., str], name: str) -> None:
    trace = KINETO / f"{name}.json.gz"
    if not trace.exists():
        pytest.skip("no captures beside the project")
    url = server(trace)
    page.goto(f"{url}#/overview")
    settle(page)
    page.wait_for_selector("nav .nav-fold")
    listed = [one.get_attribute("href") for one in page.locator("nav a").all()]
    pages = [re.sub(r"^#/(\w+).*", r"\1", href) for href in listed]
    assert {"overview", "kernel_stats", "gaps", "communication", "streams"} <= set(pages)
    assert not {"hlo", "hlo_stats", "memory_viewer", "tf_data", "tfprof"} & set(pages)
    details = 0
    for href in listed:
        page.goto(f"{url}{href}")
        if "timeline" not in href:
            settle(page)
            for rows in (page.locator("#page .tree-row:visible"), page.locator("#page .row:visible")):
                if rows.count() > 1:
                    rows.nth(1).click()
                    page.wait_for_function(
                        "() => !document.querySelector('#page .details')?.textContent.includes('Reading …')"
                    )
                    details += page.locator("#page .details .link-row, #page .details dl").count()
        else:
            page.wait_for_function("() => window.fastprofTimeline?.idle()")
        text = page.evaluate(SEEN)
        assert not [text[max(0, one.start() - 80) : one.end() + 80] for one in FOREIGN.finditer(text)], href
    assert details, "rows show their details"


@left_to_test_all
def test_a_link_to_a_page_that_is_not_listed_says_why(page: Any, server: Callable[..., str]) -> None:
    trace = KINETO / "alexnet.json.gz"
    if not trace.exists():
        pytest.skip("no captures beside the project")
    page.goto(f"{server(trace)}#/memory_viewer")
    settle(page)
    assert "PyTorch's profiler records no compiled programs" in page.inner_text("#page")
