"""tfprof's views as the page asks for them: options, rows that open and close, order, filter, search, files, errors."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from demo_captures import DEMO
from large_profile import large_profile
from profile_messages import profile_class
from random_graphs import random_options, random_profile

import fastprof
from fastprof.derive.tfprof.options import PRESETS, ViewOptions
from fastprof.viewer.tfprof_answers import BASE, format_value
from tests.viewer.served import Served

URL = "/api/tfprof/"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Served:
    path = tmp_path_factory.mktemp("large") / "profile_1"
    path.write_bytes(large_profile(3_000))
    return Served(path)


def rows(served: Served, **params: Any) -> list[tuple[int, str, str]]:
    """Depth, label and state of all rows that show."""
    found: list[tuple[int, str, str]] = []
    while True:
        answer = served.get(f"{URL}rows", **params, first=len(found))
        columns = {one["name"]: one["values"] for one in answer["table"]["columns"]}
        found += zip(columns["depth"], columns["label"], columns["state"], strict=True)
        if len(found) >= answer["lines"]:
            return found


def column(answer: Any, name: str) -> list[Any]:
    (values,) = [one["values"] for one in answer["table"]["columns"] if one["name"] == name]
    return list(values)


def test_what_there_is_to_choose_from(served: Served) -> None:
    about = served.get(f"{URL}about")

    assert about["steps"] == ["0", "1"]
    names = {one["name"] for one in about["options"]}
    assert names == {*ViewOptions.__slots__} - {"output"}
    assert about["bases"][""]["max_depth"] == "10000" and about["bases"][""]["account_displayed_op_only"] == "true"
    assert set(about["bases"]) == {"", *PRESETS}
    assert about["bases"]["time_and_memory"]["select"] == "micros,bytes"


@pytest.mark.parametrize("view", ["scope", "graph", "op", "code"])
def test_all_rows_are_those_of_the_view(served: Served, view: str) -> None:
    given = {"select": ["bytes", "params"], "order_by": "bytes", "min_micros": 3, "hide_name_regexes": [".*Relu.*"]}
    base = {"max_depth": 10_000, "account_displayed_op_only": True}
    table = served.profile.tfprof(view, **base, **given).table  # type: ignore[union-attr]
    texts = {"select": "bytes,params", "order_by": "bytes", "min_micros": "3", "hide_name_regexes": ".*Relu.*"}
    answer = served.get(f"{URL}rows", view=view, open=10_000, rows=1000, **texts)
    assert answer["lines"] == answer["rows"] == table.num_rows
    assert column(answer, "total_bytes") == table["total_bytes"].to_pylist()[:1000]
    assert column(answer, "params") == table["params"].to_pylist()[:1000]
    assert column(answer, "name") == table["name"].to_pylist()[:1000]
    assert answer["root"]["bytes"] == str(table["total_bytes"][0])


@pytest.mark.parametrize("preset", [None, *PRESETS])
def test_a_preset_is_that_of_the_command_line_and_options_replace_it(served: Served, preset: str | None) -> None:
    base = BASE if preset is None else ViewOptions()
    wanted = served.profile.tfprof("scope", preset=preset, step=1, **({} if preset else  # type: ignore[union-attr]
                                   {"max_depth": base.max_depth, "order_by": "micros",
                                    "account_displayed_op_only": True}))  # fmt: skip
    given = {} if preset is None else {"preset": preset}
    answer = served.get(f"{URL}rows", view="scope", open=100, rows=1000, step=1, **given)
    assert answer["rows"] == wanted.table.num_rows
    assert column(answer, "name") == wanted.table["name"].to_pylist()[:1000]


def test_random_options_are_read_from_texts(tmp_path: Path) -> None:
    import random

    path = tmp_path / "profile_0"
    path.write_bytes(random_profile(5, 60))
    served, chance = Served(path), random.Random(5)
    steps = served.profile.tfprof("op").recorded.steps  # type: ignore[union-attr]
    for _ in range(25):
        options = random_options(chance, list(steps))
        texts = {name: format_value(getattr(options, name)) for name in ViewOptions.__slots__ if name != "output"}
        given = {name: getattr(options, name) for name in texts}
        view = chance.choice(["scope", "graph", "op", "code"])
        wanted = fastprof.load(path).tfprof(view, **given).table
        answer = served.get(f"{URL}rows", view=view, open=1000, rows=1000, **texts)
        assert column(answer, "name") == wanted["name"].to_pylist(), (view, texts)
        assert column(answer, "total_micros") == wanted["total_micros"].to_pylist()


def test_rows_open_down_to_a_depth_and_others_are_flipped(served: Served) -> None:
    first = rows(served, view="scope", order_by="name", open=1)
    assert first[:3] == [(0, "_TFProfRoot", "open"), (1, "block_1", "closed"), (1, "block_2", "closed")]
    answer = served.get(f"{URL}rows", view="scope", order_by="name", open=1)
    ids = column(answer, "id")
    opened = rows(served, view="scope", order_by="name", open=1, flip=ids[1])
    assert opened[1:3] == [(1, "block_1", "open"), (2, "block_0", "closed")]
    assert len(opened) > len(first)
    closed = rows(served, view="scope", order_by="name", open=2, flip=ids[1])
    assert closed[1:3] == [(1, "block_1", "closed"), (1, "block_2", "open")]


def test_without_a_depth_a_screenful_is_open(served: Served) -> None:
    for view in ("scope", "graph", "op", "code"):
        answer = served.get(f"{URL}rows", view=view)
        assert answer["lines"] >= 8
        if answer["open"] > 1:
            assert served.get(f"{URL}rows", view=view, open=answer["open"] - 1)["lines"] <= 40
        if answer["lines"] < 40:
            deeper = served.get(f"{URL}rows", view=view, open=answer["open"] + 1)
            assert deeper["lines"] > 40 or deeper["lines"] == answer["rows"]


def test_siblings_are_sorted_by_any_column_either_way(served: Served) -> None:
    for sort, reverse in (("-total_params", True), ("total_params", False), ("-bytes", True), ("name", False)):
        answer = served.get(f"{URL}rows", view="scope", open=1, select="params,bytes", sort=sort)
        values = column(answer, sort.removeprefix("-"))[1:]
        assert values == sorted(values, reverse=reverse)
    ops = served.get(f"{URL}rows", view="op", sort="name")
    assert column(ops, "name")[1:] == sorted(column(ops, "name")[1:])
    assert column(ops, "depth")[1:] == [1] * 8
    answer = served.get(f"{URL}rows", view="scope", open=100, sort="-micros", rows=1000)
    depths, micros = column(answer, "depth"), column(answer, "micros")
    parents: list[int] = []
    last: dict[int, int] = {}  # the sibling before, by depth
    for depth, value in zip(depths, micros, strict=True):
        parents = parents[:depth]
        last = {level: one for level, one in last.items() if level <= depth}
        assert value <= last.get(depth, value)
        last[depth] = value


def test_a_filter_keeps_rows_and_what_is_above_them(served: Served) -> None:
    answer = served.get(f"{URL}rows", view="scope", filter="matmul_72", rows=1000)
    names = column(answer, "name")
    hits = [name for name in names if "matmul_72" in name.lower()]
    everything = served.profile.tfprof("scope", max_depth=100).table["name"].to_pylist()  # type: ignore[union-attr]
    assert sorted(hits) == sorted(name for name in everything if "matmul_72" in name.lower())
    assert answer["matches"] == len(hits)
    for name in names[1:]:
        assert any(hit == name or hit.startswith(f"{name}/") for hit in hits)
    assert served.get(f"{URL}rows", view="scope", filter="no such")["lines"] == 1


def test_a_search_goes_round_and_says_what_to_open(served: Served) -> None:
    found = [served.get(f"{URL}find", view="scope", find="MATMUL_7", hit=hit) for hit in (0, 1, -1)]
    assert found[0]["count"] == found[1]["count"] and found[2]["hit"] == found[2]["count"] - 1
    for one in found:
        shown = served.get(f"{URL}rows", view="scope", row=one["row"], flip=one["flip"], rows=1000)
        assert "MatMul_7" in column(shown, "name")[shown["at"]]
        assert column(shown, "id")[shown["at"]] == one["row"]
    assert served.get(f"{URL}rows", view="scope", row=found[0]["row"])["at"] is None
    assert served.get(f"{URL}find", view="scope", find="no such") == {"count": 0, "hit": 0, "row": None, "flip": ""}


def test_a_row_has_all_that_is_known_of_it(served: Served) -> None:
    (op,) = [place for place, name in enumerate(column(served.get(f"{URL}rows", view="op"), "name")) if name == "Relu"]
    row = served.get(f"{URL}row", view="op", row=column(served.get(f"{URL}rows", view="op"), "id")[op])
    assert (row["name"], row["letters"], row["is_node"]) == ("Relu", 4, False)
    assert (row["nodes"]["length"], row["nodes"]["of"]) == (20, 375)
    micros = next(one["values"] for one in row["nodes"]["columns"] if one["name"] == "micros")
    assert micros == sorted(micros, reverse=True) and micros[0] > micros[-1]
    node = served.get(f"{URL}find", view="graph", find="VariableV2_12")
    row = served.get(f"{URL}row", view="graph", row=node["row"])
    values = {one["name"]: one["values"][0] for one in row["table"]["columns"]}
    assert row["is_node"] and values["shape"].startswith("64×")
    assert "_trainable_variables" in values["types"]


def test_stacks_are_the_rows_with_most_of_a_figure(served: Served) -> None:
    answer = served.get(f"{URL}stacks", view="pprof", select="bytes")
    table = served.profile.tfprof("code", max_depth=10_000).table  # type: ignore[union-attr]
    assert (answer["figure"], answer["total"]) == ("bytes", str(table["total_bytes"][0]))
    boxes = answer["boxes"]
    assert len(boxes["name"]) + answer["left_out"] == sum(one > 0 for one in table["total_bytes"].to_pylist())
    assert all(boxes["value"][place] <= boxes["value"][up] for place, up in enumerate(boxes["parent"]) if up >= 0)
    sums: dict[str, int] = {}
    for name, own in zip(table["name"].to_pylist(), table["bytes"].to_pylist(), strict=True):
        sums[name] = sums.get(name, 0) + own
    for name, own in zip(answer["lines"]["name"], answer["lines"]["own"], strict=True):
        assert sums[name] == own
    assert len(answer["lines"]["name"]) == 100


def test_a_line_that_calls_itself_is_summed_once(tmp_path: Path) -> None:
    profile = profile_class()()
    profile.steps.append(0)
    profile.has_trace = True
    for number, text in enumerate(("a.py", "f", "g"), 1):
        profile.id_to_string[number] = text
    for number, functions in enumerate(((2, 2), (2, 3, 2), (3,))):
        node = profile.nodes[number]
        node.name, node.id, node.op = f"n{number}", number, "Add"
        node.op_types.append("Add")
        node.shape.append(10)
        for function in functions:
            node.trace.traces.add(lineno=1, file_id=1, function_id=function, line_id=1)
    path = tmp_path / "profile_0"
    path.write_bytes(profile.SerializeToString())
    lines = Served(path).get(f"{URL}stacks", view="pprof", select="params")["lines"]
    assert [*zip(lines["name"], lines["own"], lines["total"], strict=True)] == [
        ("a.py:1:f", 20, 20),
        ("a.py:1:g", 10, 20),
    ]


def test_files_are_those_of_the_command_line(served: Served) -> None:
    given = {"max_depth": 10_000, "order_by": "micros", "account_displayed_op_only": True, "select": ["params"]}
    view = served.profile.tfprof("code", **given)  # type: ignore[union-attr]

    def saved(form: str) -> Any:
        answer = served.client.get(f"{URL}save/{form}", {"view": "code", "select": "params"})
        assert answer.status_code == 200
        assert answer.headers["content-disposition"] == f'attachment; filename="tfprof_code.{form}"'
        return answer

    assert saved("txt").text == view.text
    lines = saved("csv").text.splitlines()
    assert lines[0].split(",")[:4] == ["row", "parent", "depth", "name"]
    assert len(lines) == view.table.num_rows + 1
    document = saved("json").json()
    assert document["tfprof_view"]["rows"][1]["name"] == view.table["name"][1].as_py()
    assert document["summary"]["options"]["select"] == ["params"]
    assert saved("trace.json").text == view.timeline()
    assert saved("pb.gz").content == view.to_pprof()


def test_the_advisor_reports(served: Served) -> None:
    reports = served.get(f"{URL}advice")["reports"]
    assert reports == served.profile.tfprof_advice().reports  # type: ignore[union-attr]
    assert len(reports["ExpensiveOperationChecker"]) == 3


@pytest.mark.parametrize(
    ("path", "params", "status", "sentence"),
    [
        ("rows", {"view": "scop"}, 400, "unknown view 'scop'; did you mean 'scope'?"),
        ("rows", {"hide_name_regexes": "(a"}, 400, "'(a' is not a regular expression: missing )"),
        ("rows", {"account_type_regexes": "a,*"}, 400, "'*' is not a regular expression"),
        ("rows", {"max_depth": "many"}, 400, "max_depth is an integer, not 'many'"),
        ("rows", {"min_bytes": "9" * 20}, 400, "min_bytes is a 64-bit integer"),
        ("rows", {"account_displayed_op_only": "maybe"}, 400, "is true or false, not 'maybe'"),
        ("rows", {"max_dept": "3"}, 400, "unknown option of tfprof: 'max_dept'; did you mean 'max_depth'?"),
        ("rows", {"select": "micro"}, 400, "select: unknown value 'micro'; did you mean 'micros'?"),
        ("rows", {"select": "[]"}, 400, "choose at least one attribute"),
        ("rows", {"order_by": "size"}, 400, "order_by: unknown value 'size'"),
        ("rows", {"step": "7"}, 400, "the profile has no step 7; its steps: 0, 1"),
        ("rows", {"preset": "all"}, 400, "unknown preset 'all'"),
        ("rows", {"sort": "-total_micro"}, 400, "did you mean 'total_micros'?"),
        ("rows", {"sort": "devices"}, 400, "rows are not sorted by 'devices'"),
        ("rows", {"rows": "1001"}, 400, "rows is an integer from 0 to 1000, not '1001'"),
        ("rows", {"first": "-1"}, 400, "first is an integer from 0 on"),
        ("rows", {"open": "0"}, 400, "open is an integer from 1 on"),
        ("rows", {"flip": "a"}, 400, "flip must be numbers and ranges"),
        ("rows", {"row": "x"}, 400, "row is an integer"),
        ("rows", {"host": "other"}, 400, "host 'other' has no profile of tfprof"),
        ("row", {"row": "99999999"}, 404, "the view has no row 99999999 under these options"),
        ("row", {}, 400, "the argument row is missing"),
        ("find", {}, 400, "the argument find is missing"),
        ("stacks", {"view": "pprof", "select": "device"}, 400, "stacks show one figure"),
        ("save/exe", {}, 404, "a view is saved as csv, json, txt, trace.json, pb.gz, not 'exe'"),
        ("save/pb.gz", {"view": "scope"}, 400, "only the view code has"),
        ("save/trace.json", {"view": "op"}, 400, "the view op has no timeline"),
    ],
)
def test_what_cannot_be_is_a_sentence(
    served: Served, path: str, params: dict[str, str], status: int, sentence: str
) -> None:
    found = served.refused(URL + path, **params)
    assert found[0] == status
    assert sentence in found[1]


def test_lists_are_texts_with_commas_or_json(served: Served) -> None:
    def count(**params: str) -> int:
        return int(served.get(f"{URL}rows", view="op", **params)["rows"])

    assert count(show_name_regexes="Relu, MatMul") == 3
    assert count(show_name_regexes='["Re(lu){1,2}", "MatMul"]') == 3
    assert count(show_name_regexes="[CR]o?n?.*") == 4
    assert count(show_name_regexes="[]") == 1
    assert count(hide_name_regexes="[]") == 9


def test_rows_of_an_answer_are_few_whatever_is_open(served: Served) -> None:
    answer = served.client.get(f"{URL}rows", {"view": "scope", "open": 100})
    assert answer.json()["lines"] > 3_000
    assert answer.json()["table"]["length"] == 200
    assert len(answer.content) < 60_000
    assert served.get(f"{URL}rows", view="scope", first=10**9)["table"]["length"] == 0


def test_two_users_at_once_do_not_disturb_each_other(served: Served) -> None:
    requests = [
        {"view": view, "step": step, "order_by": order, "open": 2, "sort": sort}
        for view in ("scope", "graph", "op", "code")
        for step in ("-1", "1")
        for order in ("micros", "bytes")
        for sort in ("", "-total_float_ops")
    ]
    alone = [served.client.get(f"{URL}rows", one).content for one in requests]

    async def together() -> list[Any]:
        both = [served.client.send(f"{URL}rows", one) for one in (*requests, *reversed(requests))]
        return await asyncio.gather(*both)

    answers = [one.content for one in asyncio.run(together())]
    assert answers == [*alone, *reversed(alone)]
    assert len(set(alone)) > len(requests) // 3


def test_hostile_names_are_cut_and_sent_in_full_on_demand(tmp_path: Path) -> None:
    profile = profile_class()()
    long = "é" * 5_000_000
    for number, name in enumerate(("<img src=x onerror=alert(1)>/\x1b[31m", long, "a/b", "", "//")):
        profile.nodes[number].name = name
        profile.nodes[number].op = "o" * (10_000 * number)
        profile.nodes[number].op_types.append("t" * (10_000 * number))
    path = tmp_path / "profile_0"
    path.write_bytes(profile.SerializeToString())
    served = Served(path)
    for view in ("scope", "graph", "op"):
        answer = served.client.get(f"{URL}rows", {"view": view, "open": 9, "select": "micros,op_types"})
        assert answer.status_code == 200
        assert len(answer.content) < 40_000
    hit = served.get(f"{URL}find", view="graph", find="éé")
    row = served.get(f"{URL}row", view="graph", row=hit["row"])
    assert (row["letters"], row["name"]) == (5_000_000, "é" * 20_000)
    assert served.client.get(f"{URL}name", {"view": "graph", "row": hit["row"]}).text == long


def test_depth_and_cycles_do_no_harm(tmp_path: Path) -> None:
    profile, depth = profile_class()(), 10_000
    for number in range(depth):
        node = profile.nodes[number]
        node.name, node.id, node.op = f"n{number:05}", number, "Identity"
        node.inputs[0] = (number + 1) % depth  # a circle, entered from outside
        node.op_types.append("Identity")
    profile.nodes[depth].name = "entry"
    profile.nodes[depth].inputs[0] = 0
    profile.nodes[depth].op_types.append("Identity")
    path = tmp_path / "profile_0"
    path.write_bytes(profile.SerializeToString())
    served = Served(path)
    assert served.get(f"{URL}rows", view="graph", max_depth=10**6)["rows"] == depth + 2
    found = served.get(f"{URL}find", view="graph", max_depth=10**6, find=f"n{depth - 1:05}")
    answer = served.get(f"{URL}rows", view="graph", max_depth=10**6, flip=found["flip"], row=found["row"], first=depth)
    assert answer["at"] == depth + 1
    assert column(answer, "depth") == [depth, depth + 1]
    assert len(found["flip"]) < 40  # a range, not all numbers


def test_a_session_without_views_says_so_and_is_listed_as_empty(served: Served, tmp_path: Path) -> None:
    trace = tmp_path / "trace.json"
    trace.write_text(json.dumps({"traceEvents": [{"ph": "X", "ts": 1, "dur": 2, "pid": 1, "tid": 1, "name": "a"}]}))
    other = Served(trace)
    sentence = "the session has no profile of tfprof, and no ops that ran"
    assert other.refused(f"{URL}about") == (400, sentence)
    assert other.get("/api/empty")["tfprof"] == sentence
    assert "tfprof" not in served.get("/api/empty")


def test_captures_have_exact_times_and_say_what_they_do_not_record() -> None:
    served = Served(DEMO / "xla")
    about = served.get(f"{URL}about")
    assert about["capture"] and about["host"] is None
    assert {"bytes", "params"} <= set(about["unknown"]) and about["absent"] == []
    for view in ("scope", "op", "graph"):
        table = served.profile.tfprof(view, max_depth=10_000, order_by="micros").table  # type: ignore[union-attr]
        answer = served.get(f"{URL}rows", view=view, open=1000, rows=1000, account_displayed_op_only="false",
                            select="micros,float_ops", order_by="micros")  # fmt: skip
        assert column(answer, "total_micros") == table["total_time_ps"].to_pylist()[:1000]
        assert column(answer, "accessed_bytes") == table["accessed_bytes"].to_pylist()[:1000]
        assert answer["root"]["micros"] == str(table["total_time_ps"][0])
        (unit,) = {one["unit"] for one in answer["table"]["columns"] if one["name"] == "micros"}
        assert unit == "ps"
        sorted_rows = served.get(f"{URL}rows", view=view, open=1, sort="-total_micros")
        assert column(sorted_rows, "total_micros")[1:] == sorted(column(sorted_rows, "total_micros")[1:], reverse=True)
    hit = served.get(f"{URL}find", view="scope", find="fusion")
    row = served.get(f"{URL}row", view="scope", row=hit["row"])
    values = {one["name"]: one["values"][0] for one in row["table"]["columns"]}
    assert values["micros"] > 10**6 and values["bytes"] is None and "time_ps" not in values
    assert "memory-profile" in served.refused(f"{URL}rows", view="scope", preset="time_and_memory")[1]
    assert served.refused(f"{URL}advice")[0] == 400


def test_graphs_with_runs_have_views_too(tmp_path: Path) -> None:
    (tmp_path / "g.pbtxt").write_text('node { name: "a" op: "Const" }\nnode { name: "b" op: "Neg" input: "a" }\n')
    (tmp_path / "run_meta").write_text(
        'step_stats { dev_stats { device: "/job:x/replica:0/task:0/cpu:0"\n'
        '  node_stats { node_name: "b" all_start_micros: 5 op_end_rel_micros: 7 } } }\n'
    )
    served = Served(tmp_path)
    assert "tfprof" not in served.get("/api/empty")
    answer = served.get(f"{URL}rows", view="graph", step=0, open=9)
    assert [*zip(column(answer, "name"), column(answer, "total_micros"), strict=True)] == [
        ("_TFProfRoot", 7), ("b", 7), ("a", 0)
    ]  # fmt: skip
    assert served.refused(f"{URL}rows", view="code") == (
        400, "the profile has no code traces for the view code"
    )  # fmt: skip
