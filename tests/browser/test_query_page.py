"""The page of SQL queries: a query is written with completion, run, drawn, saved, and held by the address."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

import fastprof
from fastprof.analyses import ANALYSES
from fastprof.viewer.html_report import collect_modules
from tests.browser.test_analysis_pages import settle

ROOT = Path(__file__).resolve().parents[2]
XLA = ROOT / "demo" / "xla"
TORCH = "tests/planted/recorded/torch_sleeping_loader.pt.trace.json.gz"
NAMES = "select name, count(*) as n from events group by name order by n desc, name"


def open_query(page: Any, url: str, query: str | None = None) -> None:
    page.goto("about:blank")
    page.goto(f"{url}#/query" + (f"?sql={quote(query)}" if query else ""))
    settle(page)


def run(page: Any, query: str) -> str:
    page.fill("#query", query)
    page.press("#query", "Control+Enter")
    page.wait_for_function("() => !document.querySelector('.query-state').textContent.startsWith('Running')")
    return str(page.inner_text(".query-state"))


def test_a_query_is_answered_as_a_table_and_a_chart(page: Any, server: Callable[..., str]) -> None:
    open_query(page, server(XLA))
    rows = fastprof.load(XLA).sql(NAMES).to_pylist()
    state = run(page, NAMES)
    assert re.fullmatch(rf"{len(rows)} rows in [\d.,]+ s", state)
    first = page.locator("[data-table=query] [role=row][data-place='0'] [role=gridcell]").all_inner_texts()
    assert first[-1] == str(rows[0]["n"])
    assert page.locator(".bar-row").count() == min(40, len(rows))
    assert "sql=select" in page.url
    assert re.match(r"The first 1,000 of 3,000 rows", run(page, "select range as i, range * 2 as j from range(3000)"))
    assert page.locator(".chart-drawing").count() == 1
    assert run(page, "select 1 as a where false").startswith("0 rows")
    assert page.inner_text(".query-answer .sentence") == "No row is in the answer."


def test_the_address_holds_the_query(page: Any, server: Callable[..., str]) -> None:
    open_query(page, server(XLA), "select 42 as answer")
    page.wait_for_selector("[data-table=query]")
    assert page.input_value("#query") == "select 42 as answer"
    assert page.inner_text(".query-state").startswith("1 row in")


def test_an_error_is_shown_beside_the_query(page: Any, server: Callable[..., str], faults: list[str]) -> None:
    open_query(page, server(XLA))
    run(page, "select nme from events")
    assert page.inner_text(".query-fault").endswith("did you mean 'name'?")
    assert page.locator("[data-table=query]").count() == 0
    faults[:] = [fault for fault in faults if "400" not in fault]  # the browser reports the status
    run(page, "select 1 as a")
    assert page.inner_text(".query-fault") == ""


def test_names_are_completed(page: Any, server: Callable[..., str]) -> None:
    open_query(page, server(XLA))
    page.wait_for_load_state("networkidle")
    box = page.locator("#query")
    box.fill("")
    box.type("select * from even")
    options = page.locator("[role=option]")
    assert [text.split("\n")[0] for text in options.all_inner_texts()][:2] == ["events", "event_stats"]
    assert box.get_attribute("aria-expanded") == "true"
    box.press("ArrowDown")
    assert box.get_attribute("aria-activedescendant") == "query-completions-1"
    box.press("ArrowUp")
    box.press("Enter")
    box.type(" where durat")
    box.press("Tab")
    assert box.input_value() == "select * from events where duration_ps"
    box.type(" > 0 and na")
    box.press("Escape")
    assert box.get_attribute("aria-expanded") == "false"


def test_all_rows_are_saved(page: Any, server: Callable[..., str]) -> None:
    open_query(page, server(XLA))
    run(page, "select range as i from range(1500)")
    with page.expect_download() as saved:
        page.click("text=All rows as CSV")
    lines = Path(saved.value.path()).read_text().splitlines()
    assert (lines[0], len(lines)) == ("i", 1501)


def test_an_example_is_run(page: Any, server: Callable[..., str]) -> None:
    open_query(page, server(XLA))
    page.click("summary:has-text('Examples')")
    page.click(".menu-item:text-is('Op stats')")
    page.wait_for_selector("[data-table=query]")
    assert "op_stats.ops" in page.input_value("#query")


def test_the_page_can_be_used_by_all(
    page: Any, server: Callable[..., str], find_faults: Callable[[], list[str]]
) -> None:
    open_query(page, server(XLA), NAMES)
    page.wait_for_selector("[data-table=query]")
    assert find_faults() == []


def test_a_saved_report_has_no_page_of_queries() -> None:
    assert not [name for name in collect_modules() if "query" in name]


def test_examples_are_of_all_analyses() -> None:
    module = "./fastprof/viewer/static/pages/query_examples.js"
    code = f"import {{ EXAMPLES }} from '{module}'; console.log(JSON.stringify(EXAMPLES))"
    node = ROOT / ".venv" / "bin" / "node"
    if not node.exists():
        pytest.skip("no node beside Python")
    done = subprocess.run(
        [str(node), "--disable-warning=MODULE_TYPELESS_PACKAGE_JSON", "--input-type=module", "-e", code],
        capture_output=True, text=True, check=True, cwd=ROOT,
    )  # fmt: skip
    examples = json.loads(done.stdout)
    names = ("demo/xla", "demo/memory", "demo/serving", "demo/tf-data", "demo/logdir", TORCH)
    profiles = [fastprof.load(ROOT / name) for name in names]
    empty = [title for title, query in examples if not any(profile.sql(query).num_rows for profile in profiles)]
    assert set(empty) <= {"Kernel stats", "Critical path"}  # no demo has kernels of GPUs
    assert len(examples) >= len(ANALYSES)
