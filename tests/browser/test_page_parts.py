"""What all pages share: tables of any length, keys, charts that stay here, themes, the address, errors as sentences."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from gate import few, left_to_test_all

DEMO = Path(__file__).resolve().parent.parent.parent / "demo"
ROWS = 100_000


def opened(page: Any, address: str) -> None:
    """Goes to an address and waits until its page is drawn."""
    page.goto("about:blank")
    page.goto(address)
    page.wait_for_function("() => document.querySelector('#page')?.ariaBusy === 'false'", timeout=30_000)


@pytest.fixture
def long_table(page: Any, server: Callable[..., str]) -> Any:
    """A page with a table of many rows: a name, a time from 0 on, and a share that is not always known."""
    opened(page, f"{server(DEMO / 'pod')}#/steps")
    page.evaluate(
        """async (rows) => {
            const { table } = await import("/static/table.js");
            const { tableOf } = await import("/static/report.js");
            const numbers = Array.from({ length: rows }, (_, row) => row);
            const data = tableOf("long", [
                { name: "name", values: numbers.map((row) => `op <b>${row % 1000}</b>`) },
                { name: "self_ps", unit: "ps", type: "int64", values: numbers.map((row) => row * 1_000_000) },
                { name: "share", unit: "share", values: numbers.map((row) => (row % 7 ? row / rows : null)) },
            ]);
            const root = document.querySelector("#page");
            root.replaceChildren();
            window.shown = table(root, data, { filters: ["self_ps"], bar: "share", caption: "Long" });
        }""",
        ROWS,
    )
    return page


def first_row(page: Any) -> list[str]:
    texts: list[str] = page.evaluate(
        """() => {
            const rows = [...document.querySelectorAll("#page .row")];
            const first = rows.find((row) => row.dataset.place === "0");
            return [...first.children].map((cell) => cell.textContent);
        }"""
    )
    return texts


@left_to_test_all
def test_a_long_table_keeps_few_elements_and_shows_names_as_text(long_table: Any) -> None:
    assert long_table.locator("#page .row").count() < 60
    assert first_row(long_table)[0] == "op <b>0</b>"
    assert long_table.locator("#page .row b").count() == 0
    assert long_table.inner_text("#page .table-count") == "100,000 rows"
    assert long_table.get_attribute("#page [role=grid]", "aria-rowcount") == str(ROWS + 1)


def test_a_column_sorts_by_its_numbers_and_unknown_ones_come_last(long_table: Any) -> None:
    share = long_table.locator("#page [role=columnheader] button", has_text="Share")
    share.click()
    assert first_row(long_table)[0] == "op <b>999</b>"
    assert long_table.locator("#page [aria-sort=descending]").count() == 1
    share.click()
    assert first_row(long_table)[2] == "0.00"  # row 1, a hundred-thousandth; row 0 is not known
    long_table.focus("#page [role=grid]")
    long_table.keyboard.press("End")
    last = long_table.locator("#page .row.active")
    assert last.locator(".cell").nth(2).inner_text() == "–"
    share.click()
    assert first_row(long_table)[0] == "op <b>0</b>"


def test_filters_take_words_and_bounds_with_units(long_table: Any) -> None:
    count = long_table.locator("#page .table-count")
    long_table.fill("#page .filter-all", "b>7</ op")
    long_table.wait_for_function("() => document.querySelector('.table-count').textContent.startsWith('100 of')")
    long_table.get_by_label("Filter by Self").fill("< 50 ms")
    long_table.wait_for_function("() => document.querySelector('.table-count').textContent.startsWith('50 of')")
    long_table.get_by_label("Filter by Self").fill("nothing like a number")
    long_table.wait_for_function("() => document.querySelector('.table-count').textContent.startsWith('100 of')")
    long_table.fill("#page .filter-all", "no such op")
    long_table.wait_for_selector("text=No row matches the filter.")
    assert count.inner_text() == "0 of 100,000 rows"


def test_keys_move_through_a_table(long_table: Any) -> None:
    long_table.focus("#page [role=grid]")
    for key in ("ArrowDown", "ArrowDown", "PageDown"):
        long_table.keyboard.press(key)
    active = long_table.locator("#page .row.active")
    assert int(active.get_attribute("data-place")) > 5
    assert long_table.get_attribute("#page [role=grid]", "aria-activedescendant") == active.get_attribute("id")
    long_table.keyboard.press("End")
    assert active.get_attribute("data-place") == str(ROWS - 1)
    long_table.keyboard.press("Home")
    assert active.get_attribute("data-place") == "0"


@left_to_test_all
def test_the_saved_rows_are_those_shown_with_whole_values(long_table: Any) -> None:
    long_table.get_by_label("Filter by Self").fill("= 3000000")
    long_table.wait_for_function("() => document.querySelector('.table-count').textContent.startsWith('1 of')")
    with long_table.expect_download() as download:
        long_table.locator("#page button", has_text="CSV").click()
    assert Path(download.value.path()).read_text() == "name,self_ps,share\nop <b>3</b>,3000000,0.00003\n"


def test_a_run_is_saved_and_the_command_of_a_table_copied(page: Any, server: Callable[..., str]) -> None:
    opened(page, f"{server(DEMO / 'pod')}#/steps?steps=2:4")
    page.locator(".side summary", has_text="Save").press("Enter")
    with page.expect_download() as download:
        page.get_by_text("Trace for Perfetto").click()
    assert download.value.suggested_filename == "2026_11_21_12_00_00.pftrace"
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    part = page.locator("[data-table=slow_steps], [data-table=steps]").first
    part.get_by_text("CSV").click()
    part.get_by_text("Copy the command").click()
    part.get_by_text("Copied").wait_for()
    table = part.get_attribute("data-table")
    command = page.evaluate("() => navigator.clipboard.readText()")
    assert command == f"fastprof steps pod --run 2026_11_21_12_00_00 --steps 2:4 --table {table} --format csv"


@left_to_test_all
def test_charts_have_no_button_that_sends_them_away(page: Any, server: Callable[..., str]) -> None:
    opened(page, f"{server(DEMO / 'xla')}#/overview")
    titles = page.eval_on_selector_all(".chart-save", "all => all.map(one => one.title)")
    assert titles and not [title for title in titles if "hare" in title or "loud" in title or "dit in" in title]
    assert page.eval_on_selector_all("a[href]", "all => all.every(one => one.origin === location.origin)")
    with page.expect_download() as download:
        page.locator(".chart-save[title*=PNG]").first.click(force=True)
    assert download.value.suggested_filename.endswith(".png")


def test_a_theme_is_chosen_and_kept(page: Any, server: Callable[..., str]) -> None:
    url = server(DEMO / "pod")
    opened(page, f"{url}#/overview")
    before = page.evaluate("() => document.documentElement.dataset.theme")
    page.get_by_label("Light or dark").click()
    after = page.evaluate("() => document.documentElement.dataset.theme")
    assert {before, after} == {"light", "dark"}
    opened(page, f"{url}#/overview")
    assert page.evaluate("() => document.documentElement.dataset.theme") == after


def test_the_address_is_the_view_and_back_goes_back(page: Any, server: Callable[..., str]) -> None:
    opened(page, f"{server(DEMO / 'pod')}#/steps?steps=2:4")
    assert page.get_by_role("textbox", name="Steps").input_value() == "2:4"
    assert page.locator("[data-figure=step_count] .card-value").inner_text() == "2"
    page.get_by_role("textbox", name="Steps").fill("3")
    page.keyboard.press("Enter")
    page.wait_for_function("() => document.querySelector('[data-figure=step_count] .card-value')?.textContent === '1'")
    page.go_back()
    page.wait_for_function("() => document.querySelector('[data-figure=step_count] .card-value')?.textContent === '2'")


@left_to_test_all
def test_parameters_that_both_pages_have_stay_in_the_address(page: Any, server: Callable[..., str]) -> None:
    opened(page, f"{server(DEMO / 'pod')}#/overview?steps=2:4&steps_from=modules")
    page.locator("nav a", has_text="Steps").first.click()
    page.wait_for_function("() => location.hash.startsWith('#/steps')")
    assert page.url.endswith("steps=2%3A4&steps_from=modules")
    page.locator("nav a", has_text="Trace viewer").first.click()
    page.wait_for_function("() => location.hash.startsWith('#/timeline')")
    assert "steps=" not in page.url


@pytest.mark.parametrize(
    ("address", "sentence"),
    few(
        [
            ("#/op_stats?run=%3Cimg%20src=x%3E", "no run '<img src=x>'"),
            ("#/op_stats?host=nobody", "no host 'nobody'"),
        ],
        1,
    ),
)
def test_what_is_wrong_is_said_in_a_sentence(
    page: Any, server: Callable[..., str], faults: list[str], address: str, sentence: str
) -> None:
    opened(page, server(DEMO / "pod") + address)
    assert sentence in page.inner_text("[role=alert]")
    assert page.locator("#page img").count() == 0
    page.get_by_role("button", name="Try again").click()
    page.wait_for_selector("[role=alert]")
    page.locator("nav a", has_text="Overview").first.click()
    page.wait_for_function("() => !document.querySelector('[role=alert]')")
    faults[:] = [fault for fault in faults if "status of 40" not in fault]  # the browser reports these by itself


@left_to_test_all
def test_an_unknown_page_has_a_way_home(page: Any, server: Callable[..., str]) -> None:
    opened(page, server(DEMO / "pod") + "#/no_such_page")
    assert page.inner_text("[role=alert] p") == 'There is no page "no_such_page".'
    page.get_by_role("button", name="Show the Overview").click()
    page.locator(".headline").wait_for()
    assert "#/overview" in page.url


def test_one_box_finds_pages_findings_and_ops_by_keyboard(page: Any, server: Callable[..., str]) -> None:
    opened(page, f"{server(DEMO / 'pod')}#/steps")
    box = page.get_by_role("searchbox", name="Search", exact=True)
    box.fill("wait input")
    page.locator(".search-hits a", has_text="Finding").wait_for()
    box.press("ArrowDown")
    while "Finding" not in page.evaluate("() => document.activeElement.closest('a')?.textContent ?? ''"):
        page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.locator(".finding details[open]").wait_for()
    assert "TPUs wait for input: infeed.1" in page.inner_text(".finding details[open]")
    box.fill("conv_general")
    page.locator(".search-hits a", has_text="Op").first.click()
    page.wait_for_function("() => location.hash.startsWith('#/op_stats')")
    page.locator("[data-table=ops] .row").first.wait_for()
    assert "conv_general_dilated" in page.inner_text("[data-table=ops] .row >> nth=0")
    assert box.input_value() == "" and page.locator(".search-hits a").count() == 0
