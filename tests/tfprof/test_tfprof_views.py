"""fastprof tfprof and Profile.tfprof: views and advice of a file, in all forms."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pyarrow as pa
import pytest
from profile_messages import profile_class
from ran import Command, Ran, run_command
from random_graphs import CPU, START, random_profile
from stacks_of_pprof import resolved

import fastprof
from fastprof.errors import UsageError


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Command:
    def run(*argv: str) -> Ran:
        return run_command(capsys, "tfprof", *argv)

    return run


@pytest.fixture
def small(tmp_path: Path) -> str:
    """A scope with two nodes, one made by the line that the other's line calls; 8 µs and 5 µs."""
    profile = profile_class()()
    profile.steps.append(3)
    profile.has_trace = True
    for number, text in enumerate(("model.py", "build", "layer"), 1):
        profile.id_to_string[number] = text
    for number, (name, micros, size) in enumerate((("net/a", 8, 3_000_000_001), ("net/b", 5, 0))):
        node = profile.nodes[number]
        node.name, node.id, node.op, node.canonical_device = name, number, "MatMul", CPU
        node.op_types.extend(["MatMul", CPU])
        node.shape.extend([size] if size else [])
        for function in range(number + 1):
            node.trace.traces.add(lineno=7 + function, file_id=1, function_id=2 + function, line_id=1)
        run = node.execs[3]
        run.run_count, run.all_start_micros, run.latest_end_micros = 1, START, START + micros
        run.cpu_execs[CPU].times.add(int64_values=[START, micros])
    profile.nodes[1].inputs[0] = 0
    path = tmp_path / "profile_3"
    path.write_bytes(profile.SerializeToString())
    return str(path)


def test_a_view_is_a_table_of_complete_numbers(small: str) -> None:
    view = fastprof.load(small).tfprof("scope", select=["micros", "params"])
    rows = view.table.select(["row", "parent", "depth", "name", "micros", "total_micros", "total_params"]).to_pylist()
    assert [tuple(row.values()) for row in rows] == [
        (0, None, 0, "_TFProfRoot", 0, 13, 3_000_000_001),
        (1, 0, 1, "net", 0, 13, 3_000_000_001),
        (2, 1, 2, "net/a", 8, 8, 3_000_000_001),
        (3, 1, 2, "net/b", 5, 5, 0),
    ]
    assert view.table["devices"].to_pylist() == [[], [], [CPU], [CPU]]
    assert view.table["types"].to_pylist()[2] == [CPU, "MatMul"]
    assert view.table["shape"].to_pylist() == [None, None, [3_000_000_001], None]
    assert view.table["input_shapes"].to_pylist()[3] == [{"slot": 0, "shape": []}]
    assert view.nodes.select(["row", "name", "micros"]).to_pylist() == [
        {"row": 2, "name": "net/a", "micros": 8},
        {"row": 3, "name": "net/b", "micros": 5},
    ]
    assert "net/a (3000000001, 3.00b/3.00b params, 8us/8us, 0us/0us, 8us/8us)\n" in view.text
    assert pa.table(view).equals(view.table)


def test_rows_of_several_nodes_list_them(small: str) -> None:
    profile = fastprof.load(small)
    ops = profile.tfprof("op").table.select(["name", "micros", "run_count", "definition_count", "devices"])
    assert ops.slice(1).to_pylist() == [
        {"name": "MatMul", "micros": 13, "run_count": 2, "definition_count": 2, "devices": [CPU]}
    ]
    lines = profile.tfprof("code").table.select(["name", "micros", "total_micros"]).slice(1).to_pylist()
    assert lines == [
        {"name": "model.py:7:build", "micros": 8, "total_micros": 13},
        {"name": "model.py:8:layer", "micros": 5, "total_micros": 5},
    ]
    assert profile.tfprof("graph").table["name"].to_pylist() == ["_TFProfRoot", "net/b", "net/a"]


def test_stacks_have_each_node_even_if_its_line_calls_another(small: str) -> None:
    stacks = resolved(gzip.decompress(fastprof.load(small).tfprof("code", select=["micros"]).to_pprof()))
    assert [(one["labels"][0][1], one["value"], len(one["stack"])) for one in stacks["samples"]] == [
        ("net/a", [1, 8], 0),
        ("net/b", [1, 5], 1),
    ]
    assert stacks["frames: function, file, start line, line"] == [["model:layer", "model.py", 0, 7]]


def test_presets_and_dictionaries_are_starting_points(small: str) -> None:
    profile = fastprof.load(small)
    assert profile.tfprof("scope", preset="time_and_memory").options.min_bytes == 1
    assert profile.tfprof("scope", preset="time_and_memory", min_bytes=0).table.num_rows == 4
    assert profile.tfprof("scope", options={}).table.num_rows == 1
    everything = {"account_type_regexes": [".*"], "start_name_regexes": [".*"], "show_name_regexes": [".*"]}
    assert profile.tfprof("scope", options=everything, max_depth=2).table.num_rows == 2


@pytest.mark.parametrize(
    ("view", "given", "message"),
    [
        ("scop", {}, "unknown view 'scop'; did you mean 'scope'?"),
        ("scope", {"step": 4}, "the profile has no step 4; its steps: 3"),
        ("scope", {"max_dept": 4}, "unknown option of tfprof: 'max_dept'; did you mean 'max_depth'?"),
        ("scope", {"max_depth": "4"}, "max_depth is a 64-bit integer, not '4'"),
        ("scope", {"select": "micros"}, "select is a list of texts, not 'micros'"),
        ("scope", {"select": ["micro"]}, "select: unknown value 'micro'; did you mean 'micros'?"),
        ("scope", {"order_by": "size"}, "order_by: unknown value 'size'"),
        ("scope", {"hide_name_regexes": ["("]}, "'(' is not a regular expression"),
        ("scope", {"preset": "all"}, "unknown preset 'all'"),
        ("scope", {"host": "other"}, "host 'other' has no profile of tfprof"),
    ],
)
def test_what_does_not_exist_is_an_error(small: str, view: str, given: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError) as error:
        fastprof.load(small).tfprof(view, **given)
    assert message in str(error.value)


def test_flags_are_the_options(small: str, command: Command) -> None:
    ran = command(small, "scope", "--select", "micros", "--select", "params", "--order-by", "params", "--step", "3",
                  "--hide-name-regexes", "net", "--min-micros", "6", "--format", "json")  # fmt: skip
    document = json.loads(ran.out)
    assert ran.code == 0
    assert document["summary"]["options"]["select"] == ["micros", "params"]
    assert "checkpoints" in document["summary"]["unknown"].pop("tensor_value") and not document["summary"]["unknown"]
    assert [row["name"] for row in document["tfprof_view"]["rows"]] == ["_TFProfRoot", "net/a"]
    assert document["tfprof_view"]["rows"][1]["total_params"] == 3_000_000_001
    assert [row["name"] for row in document["tfprof_view_nodes"]["rows"]] == ["net/a"]


def test_reports_are_those_of_the_python_interface(small: str, command: Command, tmp_path: Path) -> None:
    options = tmp_path / "options.json"
    options.write_text(json.dumps({"account_type_regexes": [".*"], "start_name_regexes": [".*"],
                                   "show_name_regexes": [".*"], "select": ["micros"], "max_depth": 2}))  # fmt: skip
    ran = command(small, "scope", "--options", str(options), "--format", "tfprof", "--order-by", "micros")
    view = fastprof.load(small).tfprof("scope", options=json.loads(options.read_text()), order_by="micros")
    assert (ran.code, ran.out, ran.err) == (0, view.text, "")
    assert ran.out.endswith("_TFProfRoot (--/13us, --/0us, --/13us)\n  net (0us/13us, 0us/0us, 0us/13us)\n")


def test_a_table_shows_what_is_selected_and_names_as_a_tree(small: str, command: Command) -> None:
    ran = command(small, "scope", "--select", "micros")
    assert ran.out.splitlines() == [
        "micros (µs)  total_micros (µs)  name",
        "          0                 13  _TFProfRoot",
        "          0                 13    net",
        "          8                  8      net/a",
        "          5                  5      net/b",
    ]


def test_other_outputs(small: str, command: Command, tmp_path: Path) -> None:
    assert command(small, "code", "-o", str(tmp_path / "out.pprof")).code == 0
    assert resolved(gzip.decompress((tmp_path / "out.pprof").read_bytes()))["comment"] != []
    trace = json.loads(command(small, "graph", "--format", "timeline").out)
    assert [(one["name"], one["ts"], one["dur"]) for one in trace["traceEvents"] if one["ph"] == "X"] == [
        ("net/b", START, 5)  # of two that start at once, tfprof keeps the first
    ]
    boxes = json.loads(command(small, "scope", "--format", "timeline").out)
    assert [one["name"] for one in boxes["traceEvents"] if one["ph"] == "X"] == ["_TFProfRoot", "net", "net/a", "net/b"]


def test_advice(small: str, command: Command) -> None:
    ran = command(small, "advise", "--format", "tfprof", "--checkers", "ExpensiveOperationChecker")
    first = "top 1 operation type: MatMul, cpu: 13us, accelerator: 0us, total: 13us (100.00%)"
    assert ran.out == f"\nExpensiveOperationChecker:\n{first}\n"
    advice = fastprof.load(small).tfprof_advice()
    assert advice.reports == {
        "AcceleratorUtilizationChecker": [], "OperationChecker": [], "ExpensiveOperationChecker": [first]
    }  # fmt: skip
    assert advice.table.to_pylist() == [{"checker": "ExpensiveOperationChecker", "report": first}]
    several = "first of one\nsecond of one"
    advice.reports = {"OperationChecker": [several, "other"], "JobChecker": []}
    assert [row["report"] for row in advice.by_line().to_pylist()] == ["first of one", "second of one", "other"]
    with pytest.raises(UsageError, match="unknown checker 'JobCheckr'; did you mean 'JobChecker'"):
        fastprof.load(small).tfprof_advice(["JobCheckr"])


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["scop"], "unknown view 'scop'"),
        ([], "which view of"),
        (["op", "--format", "timeline"], "the view op has no timeline"),
        (["scope", "--format", "pprof"], "only the view code has"),
        (["code", "--format", "pprof", "--select", "micros,bytes"], "select one"),
        (["advise", "--format", "pprof"], "--format pprof needs a view"),
        (["scope", "--checkers", "JobChecker"], "--checkers needs the view advise"),
        (["scope", "--step", "x"], "'x' is not an integer"),
        (["scope", "--options", "absent.json"], "absent.json"),
    ],
)
def test_errors_are_texts(small: str, command: Command, argv: list[str], message: str) -> None:
    ran = command(small, *argv)
    assert ran.code in (2, 3)
    assert message in ran.err
    assert "Traceback" not in ran.err


def test_sessions_without_a_profile_say_so(tmp_path: Path, command: Command) -> None:
    other = tmp_path / "trace.json"
    other.write_text('{"traceEvents": [{"ph": "X", "ts": 1, "dur": 2, "pid": 1, "tid": 1, "name": "a"}]}')
    ran = command(str(other), "scope")
    assert ran.code == 2
    assert "the session has no profile of tfprof" in ran.err


def test_a_view_is_of_one_run(tmp_path: Path) -> None:
    for run in ("first", "second"):
        (tmp_path / run).mkdir()
        (tmp_path / run / "profile_0").write_bytes(random_profile(1, 5))
    profile = fastprof.load([tmp_path / "first", tmp_path / "second"])
    assert profile.has_runs
    with pytest.raises(UsageError, match="one run"):
        profile.tfprof("scope")
    assert profile.runs["first"].tfprof("scope").text == profile.runs["second"].tfprof("scope").text


def test_circles_and_deep_names_do_no_harm(tmp_path: Path) -> None:
    profile = profile_class()()
    profile.steps.append(0)
    depth = 3_000
    for number in range(depth):
        node = profile.nodes[number]
        node.name, node.id, node.op = f"n{number:05}", number, "Identity"
        node.inputs[0] = (number + 1) % depth
        node.op_types.append("Identity")
    profile.nodes[depth].name = "/".join("s" * 2_000)
    profile.nodes[depth].inputs[0] = 0
    path = tmp_path / "profile_0"
    path.write_bytes(profile.SerializeToString())
    opened = fastprof.load(path)
    graph = opened.tfprof("graph", max_depth=10**6)
    assert graph.table["depth"].to_pylist() == list(range(depth + 2))
    assert graph.text.endswith(f"{'  ' * (depth + 1)}n{depth - 1:05} (0us/0us, 0us/0us, 0us/0us)\n")
    scope = opened.tfprof("scope", max_depth=10**6).table
    assert max(scope["depth"].to_pylist()) == 2_000
    assert scope["total_definition_count"].to_pylist()[0] == depth + 2_000


def test_names_are_data(tmp_path: Path, command: Command) -> None:
    profile = profile_class()()
    for number, name in enumerate(("<script>/\x1b[31m", "x" * 1_000_000, "", "//", "é\n")):
        profile.nodes[number].name = name
    path = tmp_path / "profile_0"
    path.write_bytes(profile.SerializeToString())
    for view in ("scope", "graph", "op"):
        assert command(str(path), view, "--wide").code == 0
    names = fastprof.load(path).tfprof("scope").table["name"].to_pylist()
    assert sorted(names) == sorted(
        ["_TFProfRoot", "", "/", "//", "<script>", "<script>/\x1b[31m", "x" * 1_000_000, "é\n"]
    )


def test_equal_requests_give_equal_reports(tmp_path: Path) -> None:
    path = tmp_path / "profile_0"
    path.write_bytes(random_profile(1, 40))
    first, second = (fastprof.load(path).tfprof("code", order_by="micros") for _ in range(2))
    assert first.text == second.text


def test_what_tfprof_complains_of_is_noted(small: str, command: Command) -> None:
    ran = command(small, "code", "--account-displayed-op-only", "--select", "micros,tensor_value")
    assert "code view ignores account_displayed_op_only" in ran.err
    assert "tensor_value: tfprof does not show tensor values" in ran.err
    assert "ignores" not in command(small, "scope", "--account-displayed-op-only").err
    profile = profile_class()()
    profile.nodes[0].name = "x"
    path = Path(small).with_name("profile_9")
    path.write_bytes(profile.SerializeToString())
    ran = command(str(path), "advise")
    assert "Missing RunMetadata info" in ran.err and "Missing op_log (code traces)" in ran.err
    assert ran.code == 0
