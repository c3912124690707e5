"""The page of tfprof: views, options, rows that open, order, filter, search, and the address that keeps all of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from gate import left_to_test_all

from tests.browser.test_analysis_pages import DEMO, settle
from tests.tfprof.profile_messages import profile_class

CPU = "/job:localhost/replica:0/task:0/device:cpu:0"
MARKUP = '<img src=x onerror="window.stolen=1">'
MEGABYTES = "long_" + "é" * 5_000_000
SCOPES, NODES = 3, 300
DEEP = 10_000


def made(path: Path, *ill: str) -> Path:
    """Two steps of three scopes of a hundred nodes, and nodes of other names; step 1 takes twice the time."""
    profile = profile_class()()
    profile.steps.extend([0, 1])
    profile.has_trace = True
    for number, text in enumerate(("model.py", "build", "layer"), 1):
        profile.id_to_string[number] = text
    names = [f"net_{n % SCOPES}/op_{n:03}" for n in range(NODES)]
    for number, name in enumerate((*names, *ill)):
        node = profile.nodes[number]
        node.name, node.id, node.op = name, number, ("MatMul", "Relu")[number % 2]
        node.op_types.extend([node.op, *(["_trainable_variables"] if number % 10 == 0 else [])])
        node.shape.extend([5, 2] if number % 10 == 0 else [])
        node.inputs.update({0: number - 1} if number % SCOPES > 0 and number < NODES else {})
        for function in range(number % 2 + 1):
            node.trace.traces.add(lineno=7 + function, file_id=1, function_id=2 + function, line_id=1)
        for step in (0, 1):
            run = node.execs[step]
            run.run_count, run.all_start_micros, run.latest_end_micros = 1, 10**15, 10**15 + 9
            run.cpu_execs[CPU].times.add(int64_values=[10**15, (number % SCOPES + 1) * (step + 1)])
            run.memory_execs.add(memory_micros=10**15, peak_bytes=1000 * (number % SCOPES + 1))
    path.write_bytes(profile.SerializeToString())
    return path


@pytest.fixture(scope="module")
def profile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made(tmp_path_factory.mktemp("tfprof") / "profile_1")


@pytest.fixture
def show(page: Any, server: Callable[..., str], profile: Path) -> Callable[[str], Any]:
    """``show(address)`` opens the page and waits for its rows."""

    def shown(address: str) -> Any:
        page.goto("about:blank")
        page.goto(f"{server(profile)}#{address}")
        page.wait_for_function("() => document.querySelector('#page')?.ariaBusy === 'false'")
        return page

    return shown


def names(page: Any) -> list[str]:
    """The labels of the rows, from top to bottom."""
    return list(page.evaluate(
        """() => [...document.querySelectorAll(".tree-row")].sort((a, b) => a.dataset.line - b.dataset.line)
            .map((row) => row.querySelector(".tree-text")?.textContent ?? "…")"""
    ))  # fmt: skip


def wait(page: Any, first: list[str]) -> None:
    """Until these are the first rows."""
    page.wait_for_function(
        """(wanted) => {
            const rows = [...document.querySelectorAll(".tree-row")].sort((a, b) => a.dataset.line - b.dataset.line);
            return wanted.every((name, at) => rows[at]?.querySelector(".tree-text")?.textContent === name);
        }""",
        arg=first,
    )


def hash_has(page: Any, text: str) -> None:
    page.wait_for_function("(text) => decodeURIComponent(location.hash).includes(text)", arg=text)


def row(page: Any, name: str) -> Any:
    return page.locator(".tree-row").filter(has=page.locator(f".tree-text:text-is('{name}')"))


def test_the_page_is_listed_and_opens_on_the_graph(page: Any, server: Callable[..., str], profile: Path) -> None:
    page.goto(server(profile))
    page.get_by_role("link", name="tfprof").click()
    settle(page)
    assert page.locator("input[value=graph]").is_checked()
    assert names(page)[0] == "_TFProfRoot"
    assert page.locator("[role=alert]").count() == 0


def test_rows_open_and_close_and_the_address_keeps_it(show: Callable[[str], Any]) -> None:
    page = show("/tfprof?view=scope&open=1&order_by=micros")
    wait(page, ["_TFProfRoot", "net_2", "net_1", "net_0"])
    row(page, "net_1").locator(".tree-branch").click()
    wait(page, ["_TFProfRoot", "net_2", "net_1", "op_001"])
    hash_has(page, "flip=")
    page.reload()
    wait(page, ["_TFProfRoot", "net_2", "net_1", "op_001"])
    row(page, "net_1").locator(".tree-branch").click()
    wait(page, ["_TFProfRoot", "net_2", "net_1", "net_0"])
    page.get_by_role("button", name="Open all").click()
    wait(page, ["_TFProfRoot", "net_2", "op_002"])
    page.go_back()
    wait(page, ["_TFProfRoot", "net_2", "net_1", "net_0"])


@left_to_test_all
def test_rows_out_of_sight_are_requested_when_they_come_into_it(show: Callable[[str], Any]) -> None:
    page = show("/tfprof?view=scope&open=9&order_by=name")
    wait(page, ["_TFProfRoot"])
    page.focus(".tree-scroll")
    page.keyboard.press("End")
    row(page, "op_299").wait_for()
    assert page.locator(".tree-row").count() < 60


@left_to_test_all
def test_keys_move_and_fold(show: Callable[[str], Any]) -> None:
    page = show("/tfprof?view=scope&open=1&order_by=name")
    row(page, "net_0").locator(".tree-text").click()
    page.focus(".tree-scroll")
    page.keyboard.press("ArrowRight")
    page.wait_for_function("() => document.querySelector('.tree-row.chosen')?.ariaExpanded === 'true'")
    page.keyboard.press("ArrowDown")
    page.wait_for_function("() => document.querySelector('.tree-row.chosen')?.ariaLevel === '3'")
    page.keyboard.press("ArrowLeft")
    page.wait_for_function("() => document.querySelector('.tree-row.chosen .tree-text').textContent === 'net_0'")
    page.keyboard.press("ArrowLeft")
    page.wait_for_function("() => document.querySelector('.tree-row.chosen')?.ariaExpanded === 'false'")


@left_to_test_all
def test_a_click_on_a_head_sorts(show: Callable[[str], Any]) -> None:
    page = show("/tfprof?view=scope&open=1&select=micros,peak_bytes")
    wait(page, ["_TFProfRoot", "net_2", "net_1", "net_0"])
    head = page.locator(".tree-sort", has_text="Peak bytes")
    head.click()
    hash_has(page, "sort=-total_peak_bytes")
    wait(page, ["_TFProfRoot", "net_2", "net_1", "net_0"])
    head.click()
    hash_has(page, "sort=total_peak_bytes")
    page.wait_for_function("() => document.querySelectorAll('.tree-text')[1].textContent === 'net_0'")
    assert page.locator("[aria-sort=ascending]").inner_text().startswith("Peak bytes")
    head.click()
    page.wait_for_function("() => !location.hash.includes('sort=')")
    wait(page, ["_TFProfRoot", "net_2", "net_1", "net_0"])


@left_to_test_all
def test_a_filter_leaves_rows_whose_names_hold_it(show: Callable[[str], Any]) -> None:
    page = show("/tfprof?view=scope")
    page.get_by_label("Filter", exact=True).fill("OP_29")
    page.keyboard.press("Enter")
    hash_has(page, "filter=OP_29")
    page.get_by_text("10 match", exact=False).wait_for()
    assert sorted(name for name in names(page) if name.startswith("op_")) == [f"op_29{n}" for n in range(10)]
    page.get_by_label("Filter", exact=True).fill("nothing like it")
    page.keyboard.press("Enter")
    page.get_by_text("No name contains the filter text.").wait_for()


@left_to_test_all
def test_a_search_goes_from_hit_to_hit_in_folded_rows(show: Callable[[str], Any]) -> None:
    page = show("/tfprof?view=scope&order_by=name&open=1")
    page.get_by_label("Find", exact=True).fill("op_29")
    page.keyboard.press("Enter")
    page.get_by_text("1 of 10").wait_for()
    page.wait_for_function("() => document.querySelector('.tree-row.chosen .tree-text')?.textContent === 'op_291'")
    page.get_by_role("button", name="Next").click()
    page.get_by_text("2 of 10").wait_for()
    page.wait_for_function("() => document.querySelector('.tree-row.chosen .tree-text')?.textContent === 'op_294'")
    page.get_by_role("button", name="Previous").click()
    page.get_by_text("1 of 10").wait_for()
    page.get_by_role("button", name="Previous").click()
    page.get_by_text("10 of 10").wait_for()
    page.wait_for_function("() => document.querySelector('.tree-row.chosen .tree-text')?.textContent === 'op_299'")
    page.locator(".details", has_text="net_2/op_299").wait_for()


def test_views_presets_steps_and_options(show: Callable[[str], Any]) -> None:
    page = show("/tfprof?view=scope")
    wait(page, ["_TFProfRoot", "net_2"])
    page.get_by_text("Op", exact=True).click()
    wait(page, ["_TFProfRoot", "MatMul", "Relu"])
    average = page.locator(".tree-row").first.inner_text()
    page.get_by_label("Step").select_option("1")
    hash_has(page, "step=1")
    page.wait_for_function("(before) => document.querySelector('.tree-row').innerText !== before", arg=average)
    page.get_by_label("Preset").select_option("trainable_variables_parameter")
    hash_has(page, "preset=trainable_variables_parameter")
    page.locator(".tree-head", has_text="Parameters").wait_for()
    assert "step=" not in page.url
    page.get_by_text("Code", exact=True).click()
    page.locator(".tree-row", has_text="model.py:7:build").wait_for()
    page.go_back()
    wait(page, ["_TFProfRoot", "MatMul"])
    page.go_back()
    page.wait_for_function("() => document.querySelector('select[id]').value === ''")
    assert "step=1" in page.url
    page.get_by_text("Options", exact=True).click()
    page.get_by_label("Hide names").fill("Relu")
    page.keyboard.press("Enter")
    hash_has(page, "hide_name_regexes=Relu")
    page.wait_for_function("() => document.querySelectorAll('.tree-row').length === 2")
    page.reload()
    page.get_by_text("Options (1 changed)").click()
    assert page.get_by_label("Hide names").input_value() == "Relu"
    page.get_by_role("button", name="Reset all").click()
    page.wait_for_function("() => document.querySelectorAll('.tree-row').length === 3")


@left_to_test_all
def test_attributes_are_columns_and_one_stays(show: Callable[[str], Any]) -> None:
    page = show("/tfprof?view=scope")
    page.get_by_text("Attributes").click()
    page.get_by_role("checkbox", name="Peak bytes").check()
    hash_has(page, "select=peak_bytes,micros")
    page.locator(".tree-head", has_text="Peak bytes").wait_for()
    page.get_by_role("checkbox", name="Time", exact=True).uncheck()  # the list stays open
    hash_has(page, "select=peak_bytes")
    page.wait_for_function("() => !document.querySelector('.tree-head').textContent.includes('Time')")
    page.get_by_role("checkbox", name="Peak bytes").click()
    assert page.get_by_role("checkbox", name="Peak bytes").is_checked()
    page.keyboard.press("Escape")
    assert not page.get_by_role("checkbox", name="Peak bytes").is_visible()


def test_what_is_wrong_with_an_option_is_said_beside_it(show: Callable[[str], Any], faults: list[str]) -> None:
    page = show("/tfprof?view=scope&hide_name_regexes=(a")
    alert = page.locator("[role=alert]")
    alert.wait_for()
    assert "'(a' is not a regular expression: missing )" in alert.inner_text()
    assert page.locator(".tree-row:visible").count() == 0
    page.get_by_role("button", name="Reset the options").click()
    wait(page, ["_TFProfRoot", "net_2"])
    assert alert.count() == 0
    page.evaluate("location.hash = '/tfprof?view=op&step=77'")
    page.get_by_text("the profile has no step 77; its steps: 0, 1").wait_for()
    page.evaluate("location.hash = '/tfprof?view=op&min_bytes=many'")
    page.get_by_text("min_bytes is an integer, not 'many'").wait_for()
    assert all("400" in fault for fault in faults)  # the browser notes them
    faults.clear()


def test_addresses_of_profiler_ui_are_taken(show: Callable[[str], Any]) -> None:
    given = {"view": "op", "select": ["peak_bytes"], "order_by": "peak_bytes", "max_depth": 0, "min_bytes": 0,
             "account_type_regexes": [".*"], "account_displayed_op_only": False, "show_name_regexes": [".*"],
             "hide_name_regexes": [], "start_name_regexes": [".*"], "trim_name_regexes": [], "step": 1}  # fmt: skip
    page = show(json.dumps(given))
    page.locator(".tree-head", has_text="Peak bytes").wait_for()
    assert len(names(page)) == 2
    assert page.get_by_label("Step").input_value() == "1"
    page.get_by_text("Scope", exact=True).click()
    hash_has(page, "#/tfprof?view=scope")
    hash_has(page, "max_depth=0")


@left_to_test_all
def test_stacks_and_advice(show: Callable[[str], Any]) -> None:
    page = show("/tfprof?view=pprof&select=peak_bytes")
    page.locator("canvas.flame").wait_for()
    page.locator(".row", has_text="model.py:8:layer").wait_for()
    page.get_by_label("Attribute").select_option("params")
    page.get_by_text("Parameters by stacks").wait_for()
    page.get_by_text("Advice", exact=True).click()
    page.get_by_text("top 1 operation type: MatMul", exact=False).wait_for()


def test_tables_and_files_are_saved(show: Callable[[str], Any]) -> None:
    page = show("/tfprof?view=code&select=params&step=1&filter=layer")
    wait(page, ["_TFProfRoot"])
    page.locator("#page").get_by_text("Save", exact=True).click()
    for words, name, begin in (
        ("Table as CSV", "tfprof_code.csv", b"row,parent,depth,name"),
        ("Tables as JSON", "tfprof_code.json", b'{"summary": {"view": "code"'),
        ("Report", "tfprof_code.txt", b"\nDoc:\ncode:"),
        ("Trace", "tfprof_code.trace.json", b'{"traceEvents":['),
        ("Stacks for pprof", "tfprof_code.pb.gz", b"\x1f\x8b"),
    ):
        with page.expect_download() as download:
            page.get_by_role("link", name=words, exact=True).click()
        assert download.value.suggested_filename == name
        assert Path(download.value.path()).read_bytes().startswith(begin)


@left_to_test_all
def test_hostile_names_are_text_and_cut_and_complete_on_demand(
    page: Any, server: Callable[..., str], tmp_path: Path
) -> None:
    page.goto(f"{server(made(tmp_path / 'profile_1', f'net_0/{MARKUP}', MEGABYTES))}#/tfprof?view=scope&open=9")
    wait(page, ["_TFProfRoot"])
    page.get_by_label("Find", exact=True).fill("<img")
    page.keyboard.press("Enter")
    row(page, MARKUP.replace("'", "")).wait_for()
    page.get_by_label("Find", exact=True).fill("long_é")
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Copy all 5,000,005 characters").wait_for()
    assert page.locator("img").count() == 0
    assert page.evaluate("() => window.stolen") is None
    assert page.evaluate("() => document.body.textContent.length") < 100_000
    assert page.evaluate("() => document.body.scrollWidth <= window.innerWidth")


@left_to_test_all
def test_depth_and_cycles_do_no_harm(page: Any, server: Callable[..., str], tmp_path: Path) -> None:
    profile = profile_class()()
    profile.nodes[DEEP].name = "entry"
    profile.nodes[DEEP].inputs[0] = 0
    for number in range(DEEP):
        node = profile.nodes[number]
        node.name, node.op, node.inputs[0] = f"n{number:05}", "Identity", (number + 1) % DEEP
    path = tmp_path / "profile_0"
    path.write_bytes(profile.SerializeToString())
    page.goto(f"{server(path)}#/tfprof?view=graph&max_depth=100000&find=n0999")
    page.wait_for_function("() => document.querySelector('#page')?.ariaBusy === 'false'")
    page.get_by_text("1 of 10").wait_for()
    page.get_by_role("button", name="Next").click()
    row(page, "n09990").wait_for()
    page.wait_for_function("() => document.querySelector('.tree-row.chosen')?.ariaLevel === '9993'")
    page.get_by_role("button", name="Close all").click()
    wait(page, ["_TFProfRoot", "entry"])


@left_to_test_all
def test_ids_that_do_not_exist_do_no_harm(show: Callable[[str], Any], faults: list[str]) -> None:
    page = show("/tfprof?view=scope&open=1&row=987654321&flip=123456789,5000-6000&sort=-micros")
    wait(page, ["_TFProfRoot"])
    assert page.locator(".tree-row.chosen").count() == 0
    page.evaluate("location.hash = '/tfprof?view=nothing'")
    wait(page, ["_TFProfRoot"])
    assert page.locator("input[value=graph]").is_checked()
    assert faults == []


@left_to_test_all
def test_captures_have_the_page_too(page: Any, server: Callable[..., str]) -> None:
    page.goto(f"{server(DEMO / 'xla')}#/tfprof?open=9&select=micros,float_ops")
    page.wait_for_function("() => document.querySelector('#page')?.ariaBusy === 'false'")
    assert page.locator("input[value=scope]").is_checked()
    page.locator(".tree-head", has_text="Bytes accessed").wait_for()
    page.locator(".tree-text", has_text="fusion").first.click()
    page.locator(".details", has_text="Bound by").wait_for()
    assert page.get_by_text("Advice", exact=True).count() == 0
    presets = page.get_by_label("Preset").locator("option").all_inner_texts()
    assert presets == ["none", "Float operations"]
    page.get_by_label("Step").fill("2")
    page.keyboard.press("Enter")
    hash_has(page, "step=2")
    page.get_by_text("Attributes").click()
    assert page.get_by_role("checkbox", name="Peak bytes").count() == 0
