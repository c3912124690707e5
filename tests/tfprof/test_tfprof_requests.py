"""Requests to tfprof through the command line: where answers go, files of options, and what tfprof says of bad ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from goldens import Answer
from profile_messages import profile_class

import fastprof
from fastprof.errors import UsageError
from fastprof.inputs.formats.graph_def_text import GRAPH
from fastprof.inputs.formats.run_metadata_text import RUN
from fastprof.inputs.message import encode_text_proto
from fastprof.schema.message_fields import put
from fastprof.tfprof.option_files import read_checker_file, read_option_file

ALL = {"account_type_regexes": [".*"], "start_name_regexes": [".*"], "show_name_regexes": [".*"], "select": ["params"]}
GPU = "/job:localhost/replica:0/task:0/device:GPU:0"
LINES = "external/com_googlesource_code_re2/re2/re2.cc:{}\n"
MISSING = LINES.format("232: Error parsing '(': missing ): (") + LINES.format(
    "916: Invalid RE2: missing ): ("
)  # of an expression that is tried once


@pytest.fixture
def profile(tmp_path: Path) -> str:
    """The nodes a/b, which is a parameter, and c."""
    made = profile_class()()
    for number, name in enumerate(("a/b", "c")):
        node = made.nodes[number]
        node.name, node.id, node.op = name, number, "Const"
        node.op_types.append("Const")
    made.nodes[0].shape.extend([3, 4])
    path = tmp_path / "profile_0"
    path.write_bytes(made.SerializeToString())
    return str(path)


def ask(source: str | list[str], options: dict[str, Any], folder: Path, view: str = "scope", **more: str) -> Answer:
    path = folder / "options"
    path.write_text(json.dumps(options).replace("FOLDER", str(folder)))
    sources = [source] if isinstance(source, str) else source
    words = {"format": "tfprof", **more}
    return Answer(
        [*sources, view, "--options", str(path), *(w for k, v in words.items() for w in (f"--{k}", v))], folder
    )


def test_standard_output_has_the_options_around_the_report(profile: str, tmp_path: Path) -> None:
    ours = ask(profile, {**ALL, "output": "stdout"}, tmp_path)
    head, _, report = ours.out.partition("\n==================Model Analysis Report======================\n")
    assert (ours.code, ours.err, ours.files) == (0, "", {})
    assert head.startswith(
        "\n=========================Options=============================\n-max_depth                  10\n"
    )
    assert head.endswith("-select                     params\n-output                     stdout:\n")
    assert report.endswith("  c (0/0 params)\n\n======================End of Report==========================\n")
    alone = ask(profile, ALL, tmp_path).out
    assert report.startswith(alone) and "Options" not in alone


def test_the_output_says_where_the_answer_goes(profile: str, tmp_path: Path) -> None:
    ours = ask(profile, {**ALL, "output": "file:outfile=FOLDER/answer"}, tmp_path)
    assert (ours.code, ours.out, ours.err, [*ours.files]) == (0, "", "", ["answer"])
    assert ours.files["answer"].endswith(
        b"_TFProfRoot (--/12 params)\n  a (0/12 params)\n    a/b (3x4, 12/12 params)\n  c (0/0 params)\n"
    )
    (tmp_path / "answer").unlink()
    ours = ask(profile, {**ALL, "output": "none"}, tmp_path)
    assert (ours.code, ours.out, ours.err, ours.files) == (0, "", "", {})
    ours = ask(profile, {**ALL, "output": "timeline:outfile=FOLDER/answer"}, tmp_path)
    assert [*ours.files] == ["answer_-1"] and "Timeline file is written to FOLDER/answer_-1." in ours.out
    replaced = ask(profile, {**ALL, "output": "none"}, tmp_path, output=str(tmp_path / "answer"))
    assert replaced.files["answer"].startswith(b"\nDoc:\n")


def test_a_deprecated_option_replaces_the_output(profile: str, tmp_path: Path) -> None:
    options = {**ALL, "output": "none", "dump_to_file": "FOLDER/answer"}
    ours = ask(profile, options, tmp_path)
    assert (ours.code, ours.out, [*ours.files]) == (0, "", ["answer"])
    assert ours.err == (
        "-dump_to_file option is deprecated. Please use -output file:outfile=<filename>\n"
        "-output none is overwritten with -output file:outfile=FOLDER/answer\n"
    )
    report = ours.files["answer"]
    (tmp_path / "answer").unlink()
    assert ask(profile, options, tmp_path, output="-").out.encode() == report
    assert fastprof.load(profile).tfprof("scope", options=options).text.encode() == report


@pytest.mark.parametrize(
    ("output", "code", "message"),
    [
        ("file", 2, "INVALID_ARGUMENT: Missing required output_options for file\nE.g. -output file:outfile=...\n"),
        ("stdout:outfile=x", 2, "INVALID_ARGUMENT: Unrecognized options outfile for output_type: stdout\n"),
        (
            "paper",
            2,
            "INVALID_ARGUMENT: E.g. Unknown output type: paper, Valid types: file,none,pprof,stdout,timeline\n",
        ),
        ("file:outfile", 2, "INVALID_ARGUMENT: Visualize format: -output timeline:key=value,key=value,...\n"),
        (
            ":outfile=FOLDER/answer",
            2,
            "INVALID_ARGUMENT: E.g. Unknown output type: , Valid types: file,none,pprof,stdout,timeline\n",
        ),
        ("file:outfile=FOLDER/absent/answer", 3, "fastprof: FOLDER/absent/answer: cannot write: No such file"),
    ],
)
def test_outputs_that_cannot_be_are_errors(profile: str, tmp_path: Path, output: str, code: int, message: str) -> None:
    ours = ask(profile, {**ALL, "output": output}, tmp_path)
    assert (ours.code, ours.out, ours.files) == (code, "", {})
    assert ours.err.startswith(message)
    assert ours.err.strip() == message.strip() or code == 3


def test_what_tfprof_refuses_it_says_in_its_own_words(profile: str, tmp_path: Path) -> None:
    ours = ask(profile, {**ALL, "step": 4}, tmp_path)
    assert (ours.code, ours.out, ours.err) == (0, "", "Options -step=4 not found.\nAvailable steps: \n")
    assert ask(profile, ALL, tmp_path, "code").err == "No code trace information\n"


def test_json_is_what_tfprof_returns(profile: str, tmp_path: Path) -> None:
    ours = ask(profile, {**ALL, "output": "file:outfile=FOLDER/answer"}, tmp_path, format="json")
    assert json.loads(ours.out) == {
        "name": "_TFProfRoot", "total_parameters": "12", "total_definition_count": "3",
        "children": [
            {"name": "a", "total_parameters": "12", "total_definition_count": "2", "children": [
                {"name": "a/b", "parameters": "12", "total_parameters": "12", "total_definition_count": "1"}]},
            {"name": "c", "total_definition_count": "1"},
        ],
    }  # fmt: skip
    assert ours.files == {}
    assert json.loads(ask(profile, {**ALL, "step": 4}, tmp_path, format="json").out) == {}
    advice = ask(profile, {"OperationChecker": {}, "JobChecker": {}}, tmp_path, "advise", format="json")
    assert json.loads(advice.out) == {"checkers": {"OperationChecker": {}}}


def test_deep_answers_are_json_too(tmp_path: Path) -> None:
    made = profile_class()()
    made.nodes[0].name, made.nodes[0].op = "/".join("s" * 1_500), "Const"
    path = tmp_path / "profile_0"
    path.write_bytes(made.SerializeToString())
    ours = ask(str(path), {**ALL, "max_depth": 10_000}, tmp_path, format="json")
    assert ours.code == 0 and ours.out.count('"children": [') == 1_500 and ours.out.endswith("]}]}\n")


@pytest.mark.parametrize(
    "text",
    [
        '{"max_depth": 5, "select": ["micros", "bytes"], "account_displayed_op_only": true, "order_by": "bytes"}',
        '{"maxDepth": "5", "select": ["micros", "bytes"], "accountDisplayedOpOnly": true, "orderBy": "bytes"}',
        '# a\nmax_depth: 5  # b\nselect: "micros" select: \'bytes\'\naccount_displayed_op_only: true order_by: "bytes"',
        "-max_depth 5 -select micros,bytes -account_displayed_op_only -order_by bytes\n",
        "--max_depth=5 --select='micros,bytes' --account_displayed_op_only=yes --order_by=bytes",
        'max_depth: 5 select: ["micros", # a\n "bytes"] account_displayed_op_only: true order_by: "by" \'tes\';',
        '{"max_depth": 5.0, "select": ["micros", "bytes"], "account_displayed_op_only": true, "order_by": "bytes",'
        ' "step": null}',
    ],
)
def test_options_have_several_forms(tmp_path: Path, text: str) -> None:
    (tmp_path / "options").write_text(text)
    assert read_option_file(str(tmp_path / "options")) == {
        "max_depth": 5, "select": ["micros", "bytes"], "account_displayed_op_only": True, "order_by": "bytes"
    }  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[1]",
        "{",
        "max_depth",
        "max_dept: 3",
        "-max_dept 3",
        "hello",
        "-x",
        '{"a": 1}',
        "select: ['a' 1",
        "select: [a]",
    ],
)
def test_other_files_are_errors_or_empty(tmp_path: Path, text: str) -> None:
    (tmp_path / "options").write_text(text)
    if not text:
        assert read_option_file(str(tmp_path / "options")) == {}
        return
    with pytest.raises(UsageError):
        read_option_file(str(tmp_path / "options"))


@pytest.mark.parametrize(
    ("given", "rows", "tries"),
    [
        ({"show_name_regexes": ["c", "("]}, ["c"], 2),  # a and a/b; c matches before
        ({"hide_name_regexes": ["("], "show_name_regexes": ["a.*"]}, ["a", "a/b"], 2),
        ({"trim_name_regexes": ["("]}, ["a", "a/b", "c"], 4),  # the root, too
        ({"start_name_regexes": ["(", "a"]}, ["a", "a/b"], 2),  # what is below a is not tried
        ({"account_type_regexes": ["("]}, [], 3),
    ],
)
def test_invalid_expressions_match_nothing(
    profile: str, tmp_path: Path, given: dict[str, Any], rows: list[str], tries: int
) -> None:
    ours = ask(profile, {**ALL, **given}, tmp_path)
    assert ours.err == tries * MISSING
    assert [line.split()[0] for line in ours.out.partition("_TFProfRoot")[2].splitlines()[1:]] == rows


@pytest.mark.parametrize(
    ("regex", "fault"),
    [
        ("(?<n>a)", "invalid perl operator: (?<"),  # valid in later versions of RE2
        ("c(?<=a", "invalid perl operator: (?<"),
        ("[(?<a>](?<n>b", "invalid perl operator: (?<"),
        (")(?<n>a)", "unexpected ): )(?<n>a)"),
        (r"\Q(?<\E)", r"unexpected ): \Q(?<\E)"),
        ("(?@(?<a>b)", "invalid perl operator: (?@"),
    ],
)
def test_messages_are_those_of_the_regular_expressions_that_tfprof_has(
    profile: str, tmp_path: Path, regex: str, fault: str
) -> None:
    ours = ask(profile, {**ALL, "hide_name_regexes": [regex], "show_name_regexes": ["c"]}, tmp_path)
    assert ours.err == LINES.format(f"232: Error parsing '{regex}': {fault}") + LINES.format(
        f"916: Invalid RE2: {fault}"
    )
    assert ours.out.endswith("_TFProfRoot (--/12 params)\n  c (0/0 params)\n")


def test_literals_are_no_groups(profile: str, tmp_path: Path) -> None:
    ours = ask(profile, {**ALL, "show_name_regexes": [r"c|[(?<]|\(?<|\Q(?<\E"]}, tmp_path)
    assert ours.err == "" and ours.out.endswith("  c (0/0 params)\n")


def test_unknown_orders_and_columns_are_what_tfprof_makes_of_them(profile: str, tmp_path: Path) -> None:
    columns = {"select": ["params", "weight", "age"]}
    ours = ask(profile, {**ALL, **columns, "order_by": "size", "output": "stdout"}, tmp_path)
    assert "\n-order_by                   size\n" in ours.out
    assert "\n-select                     age,params,weight\n" in ours.out
    assert "\nUnknown select: age\nparam: Number of parameters (in the Variable).\nUnknown select: weight\n" in ours.out
    assert "\nnode name | # parameters\n_TFProfRoot (--/12 params)\n  a (0/12 params)\n" in ours.out
    assert ask(profile, {**ALL, "select": ["age"]}, tmp_path).out.endswith("  a ()\n    a/b ()\n  c ()\n")
    with pytest.raises(UsageError, match=r"order_by: unknown value 'size'"):
        fastprof.load(profile).tfprof("scope", order_by="size")


def test_without_an_order_rows_are_as_they_are_met(tmp_path: Path) -> None:
    graph = write_graph(
        tmp_path,
        'node { name: "a" op: "Add" input: "z" input: "b" } node { name: "b" op: "Neg" } node { name: "z" op: "Neg" }',
    )
    for order, rows in (("", ["a", "z", "b"]), ("name", ["a", "b", "z"]), ("size", ["a", "b", "z"])):
        ours = ask(graph, {**ALL, "order_by": order}, tmp_path, "graph")
        assert [line.split()[0] for line in ours.out.partition("_TFProfRoot")[2].splitlines()[1:]] == rows


def write_graph(folder: Path, text: str) -> list[str]:
    (folder / "graph.pb").write_bytes(b"".join(encode_text_proto(text.encode(), GRAPH)))
    return ["--graph", str(folder / "graph.pb")]


def test_inputs_that_the_graph_lacks_are_unknown_shapes(tmp_path: Path) -> None:
    text = 'node { name: "x" op: "Neg" input: "gone:1" input: "^y" input: "late" } node { name: "y" op: "NoOp" }'
    source = [*write_graph(tmp_path, text), "--run-metadata",
              make_run(tmp_path, 5, 'node_stats { node_name: "late" all_start_micros: 9 }')]  # fmt: skip
    options = {**ALL, "select": ["input_shapes"]}
    ours = ask(source, options, tmp_path, "graph")
    assert ours.out.endswith("\n  x (0:unknown|1:unknown|2:unknown)\n    late ()\n    y ()\n")
    assert "\ninput_type: 0:unknown,\t1:unknown,\t2:unknown\t(run*0|" in ask(source, options, tmp_path, "op").out
    returned = json.loads(ask(source, options, tmp_path, format="json").out)
    unknown = {"unknown_rank": True}
    assert {child["name"]: child.get("input_shapes") for child in returned["children"]} == {
        "late": None, "x": {"0": unknown, "1": unknown, "2": unknown}, "y": None
    }  # fmt: skip


def test_negative_steps_are_averages(tmp_path: Path) -> None:
    runs = [make_run(tmp_path, n, f'node_stats {{ node_name: "x" all_start_micros: 9 op_end_rel_micros: {n} }}')
            for n in (4, 8)]  # fmt: skip
    source = [
        *write_graph(tmp_path, 'node { name: "x" op: "Neg" }'),
        "--run-metadata",
        runs[0],
        "--run-metadata",
        runs[1],
    ]
    options = {**ALL, "select": ["cpu_micros"], "output": "timeline:outfile=FOLDER/answer"}
    for step, took in ((-1, 6), (-2, 6), (4, 4)):
        ours = ask(source, {**options, "step": step}, tmp_path)
        assert [*ours.files] == [f"answer_{step}"] and f'"dur":{took},'.encode() in ours.files[f"answer_{step}"]
        (tmp_path / f"answer_{step}").unlink()


def test_empty_types_of_a_log_are_types(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(put(1, put(1, "x") + put(3, "") + put(3, "B")))
    source = [*write_graph(tmp_path, 'node { name: "x" op: "Neg" }'), "--op-log", str(log)]
    assert ask(source, {**ALL, "select": ["op_types"]}, tmp_path).out.endswith("\n  x (|B|Neg)\n")
    ours = ask(source, {**ALL, "account_type_regexes": [""]}, tmp_path)
    assert ours.out.endswith("\n  x (0/0 params)\n")


def make_run(folder: Path, number: int, *stats: str) -> str:
    text = f'step_stats {{ dev_stats {{ device: "{GPU}" {"".join(stats)} }} }}'
    path = folder / f"run_{number}.pb"
    path.write_bytes(b"".join(encode_text_proto(text.encode(), RUN)))
    return str(path)


def test_graphs_runs_and_logs_are_read_as_tfprof_reads_them(tmp_path: Path) -> None:
    graph, log = tmp_path / "graph.pb", tmp_path / "log"
    text = (
        'node { name: "two" op: "Split" attr { key: "_output_shapes" value { list { '
        'shape { dim { size: 2 } } shape { dim { size: 7 } } } } } } node { name: "x" op: "Neg" input: "two:1" }'
    )
    graph.write_bytes(b"".join(encode_text_proto(text.encode(), GRAPH)))
    log.write_bytes(put(1, put(1, "late") + put(3, "marked")))
    memory = 'memory { allocator_name: "GPU_0" } memory { allocator_name: "GPU_1" }'
    first = make_run(tmp_path, 5, f'node_stats {{ node_name: "late" all_start_micros: 9 {memory} }}',
                     'node_stats { node_name: "late:late" }')  # fmt: skip
    second = make_run(tmp_path, 6, 'node_stats { node_name: "late" all_start_micros: 9 }')
    options = {**ALL, "select": ["op_types", "input_shapes"], "step": 0}
    source = ["--graph", str(graph), "--run-metadata", first, "--op-log", str(log)]
    ours = ask(source, options, tmp_path)
    assert ours.err == "found 2 gpu allocator for 1 node\nlate has no start time, skipping\n".replace(
        "late ", "late:late "
    )
    assert ours.out.startswith("\n\nFound accelerator operation but misses accelerator stream stats!\n")
    assert f"  late ({GPU.lower()}|late|marked, )\n" in ours.out
    assert "  x (Neg, 0:2)\n" in ours.out  # the first output, whichever it takes
    ours = ask([*source, "--run-metadata", second], {**options, "step": 6}, tmp_path)
    assert f"  late ({GPU.lower()}|late, )\n" in ours.out and ours.err == ""


def test_a_run_without_nodes_is_a_run(tmp_path: Path) -> None:
    graph, run = tmp_path / "graph.pb", tmp_path / "run.pb"
    graph.write_bytes(b"".join(encode_text_proto(b'node { name: "x" op: "Neg" }', GRAPH)))
    run.write_bytes(put(1, b""))
    source = ["--graph", str(graph), "--run-metadata", str(run)]
    assert ask(source, {**ALL, "step": 0}, tmp_path).err == ""
    run.write_bytes(b"hello there")
    assert "this is not RunMetadata" in ask(source, {**ALL, "step": 0}, tmp_path).err


@pytest.mark.parametrize("text", [b"\xff", b'{"checkers": 5}', b'{"checkers": null}', b'{"checkers": [1]}', b"[1]"])
def test_files_without_names_of_checkers_are_errors(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "options").write_bytes(text)
    with pytest.raises(UsageError):
        read_checker_file(str(tmp_path / "options"))
