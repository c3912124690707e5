"""Brief answers: at most 4,096 bytes, with the answer and figures of the report, lasting keys, or a reason."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from gate import few, rounds
from trace_builder import event, line, plane, xspace

import fastprof
from fastprof.analyses import ANALYSES
from fastprof.cli import main as command
from fastprof.render import brief

ROOT = Path(__file__).resolve().parents[2]
SESSIONS = [f"demo/{name}" for name in ("xla", "pod", "serving", "tf-data", "kernel", "memory", "logdir")]
LONG = [f"{'long_' * 60}{number}" for number in range(60)]


def captured() -> list[Path]:
    return few(sorted((ROOT / ".." / "shared" / "captures" / "xspace").glob("*/*.xplane.pb")), 4)


def ask(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, dict[str, Any], int]:
    """Return the exit code of a command, its document, and the bytes of the document."""
    code = command.main([*words, "--brief", "-q"])
    text = capsys.readouterr().out
    return code, json.loads(text), len(text.encode())


@pytest.mark.parametrize("session", [*SESSIONS, *map(str, captured())])
def test_every_report_fits_and_says_what_the_report_says(session: str) -> None:
    reports = fastprof.load(ROOT / session).reports()
    assert set(reports) == set(ANALYSES)
    for name, report in reports.items():
        text = report.to_json(brief=True)
        document = json.loads(text)
        assert len(text) <= brief.MOST_BYTES, name
        assert document == json.loads(report.to_json(brief=True))
        assert (document["status"] == "ok") == ("reason" not in document) == (document["answer"] is not None), name
        assert ("remedy" in document) == (document["status"] == "cannot_answer"), name
        assert {} not in document.values() and [] not in document.values()
        for figure, value in document.get("figures", {}).items():
            given = report.scalars[figure].value
            assert value == (brief.shorten(given) if isinstance(given, str) else given), figure
        for table, shown in document.get("tables", {}).items():
            assert shown["total"] == report.tables[table].num_rows
            assert len(shown.get("rows", ())) <= min(shown["total"], brief.MOST_ROWS)
        for number, row in enumerate(next(iter(document.get("tables", {}).values()), {}).get("rows", ())):
            check_row(row, next(iter(report.tables.values())).slice(number, 1).to_pylist()[0])


def check_row(row: dict[str, Any], given: dict[str, Any]) -> None:
    assert next(iter(row)) == "key"
    for column, value in row.items():
        if column != "key" and isinstance(value, int | bool):
            assert value == given[column], column
        elif column != "key" and isinstance(value, float):
            assert value == pytest.approx(given[column], rel=1e-6), column


def test_a_count_of_devices_is_no_answer() -> None:
    document = json.loads(fastprof.load(ROOT / "demo/xla").hardware_units().to_json(brief=True))
    assert (document["status"], document["answer"]) == ("cannot_answer", None)
    assert document["reason"].startswith("No hardware units: the capture has no samples")
    assert "--xla_xprof_enable_custom_call_tracing" in document["remedy"]


def test_counts_of_devices_and_steps_are_no_answer(capsys: pytest.CaptureFixture[str]) -> None:
    _, document, _ = ask(capsys, "communication", str(ROOT / "demo/serving"))
    assert (document["status"], document["answer"]) == ("cannot_answer", None)
    assert document["reason"] == "The devices of the capture recorded no ops." and document["figures"]["device_count"]


def test_a_list_without_programs_says_why(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "h.xplane.pb").write_bytes(xspace(plane("p", [line("l", [event(1, 0, 5)])])))
    _, document, _ = ask(capsys, "hlo", str(tmp_path))
    assert (document["status"], document["answer"]) == ("cannot_answer", None)
    assert document["reason"].startswith("No programs: the session has no compiled programs")
    assert document["remedy"] == "Profile a compiled program while it runs."
    assert document["tables"] == {"hlo_modules": {"total": 0}}


def test_the_content_of_a_session_is_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    _, document, _ = ask(capsys, "info", str(ROOT / "demo/pod"))
    assert document["answer"].startswith("Events: ") and document["answer"].endswith("; devices: 8 TPU (TPU v4).")
    assert document["figures"]["host_names"] == "host0, host1" and document["figures"]["devices"] == "8 TPU (TPU v4)"


def test_the_first_row_has_its_advice_whole() -> None:
    advice = "Set the flag that this sentence names at its end, after more words than a cell has room for: " + "x" * 200
    table = pa.table({"title": ["a", "b"], "advice": [advice, advice]})
    shown = [row["advice"] for row in brief.cut_table(table, 2, None)["rows"]]
    assert shown == [advice, f"{advice[:159]}…"]


def test_the_summary_has_the_figures_the_findings_and_the_next_commands(capsys: pytest.CaptureFixture[str]) -> None:
    code, document, size = ask(capsys, str(ROOT / "demo/xla"))
    assert (code, document["status"], size <= brief.MOST_BYTES) == (0, "ok", True)
    assert document["answer"] == "Ops are memory-bandwidth bound: up to 7.089 ms, 23.9 % of the run."
    assert document["figures"]["device_type"] == "TPU v6 Lite" and document["figures"]["step_count"] == 5
    findings = document["tables"]["findings"]
    assert findings["total"] == 6 and findings["rows"][0]["title"] == "Ops are memory-bandwidth bound"
    assert document["more"][0].startswith("fastprof roofline ")
    assert document["session"] == {"paths": [str(ROOT / "demo/xla")], "run": "2026_11_22_00_00_00", "hosts": 1,
        "files": 1}  # fmt: skip


@pytest.mark.parametrize(
    "words",
    [
        ("info",), ("events",), ("events", "--list"), ("hlo",), ("trends",), ("report",), ("steps", "--table", "steps"),
        ("hlo", "--module", "jit_train_step"), ("trends", "--figure", "step_time"),
        ("check", "--fail-if", "step_time > 1s"), ("report", "--only", "gaps,steps"), ("tfprof", "op"),
    ],
)  # fmt: skip
def test_every_verb_has_a_brief_answer(capsys: pytest.CaptureFixture[str], words: tuple[str, ...]) -> None:
    words = (words[0], str(ROOT / "demo/xla"), *words[1:])
    code, document, size = ask(capsys, *words)
    assert size <= brief.MOST_BYTES and document["status"] in ("ok", "cannot_answer")
    assert (code, document, size) == ask(capsys, *words)


def test_the_rows_of_a_chosen_table_stand_beside_all_figures(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("communication", str(ROOT / "demo/xla"), "--table", "stragglers?device=/device:TPU:1")
    _, document, _ = ask(capsys, *words)
    assert list(document["tables"]) == ["stragglers"] and document["tables"]["stragglers"]["total"] == 1
    assert document["figures"]["device_count"] == 2


@pytest.mark.parametrize(
    ("words", "more"),
    [
        (("--steps", "1:3"), "fastprof roofline {} --steps 1:3 --table 'ops?bound_by=HBM'"),
        (("roofline", "--steps", "1:3", "--table", "ops?bound_by=HBM"),
            "fastprof roofline {} --steps 1:3 --table 'ops?bound_by=HBM' --format json --limit 100"),
        (("report", "--only", "steps,op_stats", "--table", "op_stats.device_ops"),
            "fastprof op-stats {} --table device_ops --format json --limit 100"),
        (("hlo", "--module", "jit_train_step", "--graph", "blockers"),
            "fastprof hlo {} --module jit_train_step --graph blockers --format json --limit 100"),
        (("hlo", "--module", "jit_train_step"), "fastprof hlo {} --module jit_train_step --format csv --limit 100"),
        (("events", "--line", "XLA Ops", "--sort", "total_ps:asc"),
            "fastprof events {} --line 'XLA Ops' --sort total_ps:asc --offset 10 --brief"),
        (("events", "--list", "--time=-1ms:10ms", "--offset", "5", "--limit", "2"),
            "fastprof events {} --list --time=-1ms:10ms --offset 7 --brief --limit 2"),
    ],
)  # fmt: skip
def test_more_is_a_command_with_the_same_choices(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...], more: str
) -> None:
    session = str(ROOT / "demo/xla")
    named = () if words[0].startswith("-") else words[:1]
    _, document, _ = ask(capsys, *named, session, *words[len(named) :])
    assert document["more"][0] == more.format(session)
    assert command.main([*shlex.split(document["more"][0])[1:], "-q"]) == 0
    assert capsys.readouterr().out


def test_two_runs_are_compared_in_brief(capsys: pytest.CaptureFixture[str]) -> None:
    base, new = (str(ROOT / "demo" / name) for name in ("xla", "pod"))
    code, document, size = ask(capsys, "compare", base, new)
    assert code == 0 and size <= brief.MOST_BYTES
    assert document["figures"]["verdict"] == "not_comparable" and document["session"]["paths"] == [base, new]


def test_several_runs_share_the_room(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    data = next((ROOT / "demo/xla").rglob("*.xplane.pb")).read_bytes()
    count = rounds(30, 12)
    for number in range(count):
        folder = tmp_path / "plugins" / "profile" / f"run{number:02}"
        folder.mkdir(parents=True)
        (folder / "vm.xplane.pb").write_bytes(data)
    runs = ",".join(f"run{number:02}" for number in range(count))
    for words in (("steps",), ("report", "--only", "steps,gaps"), ("info",), ("summary",)):
        _, document, size = ask(capsys, *words, str(tmp_path), "--run", runs)
        assert size <= brief.MOST_BYTES
        assert len(document["runs"]) + document["runs_left_out"] == count and len(document["runs"]) >= 3


def test_missing_records_are_a_reason_with_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    code, document, _ = ask(capsys, "memory-profile", str(ROOT / "demo/xla"))
    assert (code, document["status"], document["answer"]) == (0, "cannot_answer", None)
    assert document["reason"].startswith("No memory profile: the capture has no threads of hosts")
    assert "host_tracer_level" in document["remedy"]
    assert "figures" not in document


@pytest.mark.parametrize(
    ("words", "reason", "code"),
    [
        (("steps", "nothing/there"), "no such file or directory", 3),
        (("steps", "demo/xla", "--run", "other"), "no run other", 3),
        (("steps", "demo/xla", "--host", "other"), "other", 3),
        (("report", "demo/xla", "--table", "steps.other"), "no table", 2),
    ],
)
def test_a_failure_is_a_document_too(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], reason: str, code: int
) -> None:
    monkeypatch.chdir(ROOT)
    ended, document, size = ask(capsys, *words)
    assert (ended, document["status"]) == (code, "error") and size <= brief.MOST_BYTES
    assert reason in " ".join((document["reason"], document.get("remedy", "")))


def test_brief_is_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["steps", "demo/xla", "--brief", "--format", "csv"]) == 2
    assert "--brief is JSON and cannot be combined with --format csv" in capsys.readouterr().err


def test_rows_give_way_before_tables_and_tables_before_the_answer() -> None:
    question = brief.Question("made", "logs")
    table = pa.table({"name": pa.array(LONG), "detail": pa.array(LONG), "amount": pa.array(range(60))})
    document = brief.summarise_table("made", table, question, table.num_rows)
    assert len(json.dumps(document)) < brief.MOST_BYTES and document["tables"]["made"]["total"] == 60
    assert 0 < len(document["tables"]["made"]["rows"]) <= brief.MOST_ROWS
    wide = pa.table({f"{'column' * 20}{number}": [number] for number in range(60)})
    document = brief.summarise_table("wide", wide, question, 1)
    assert document["answer"] == "1 row of wide" and document["tables"]["wide"] == {"total": 1}


def test_keys_are_of_what_rows_are_about() -> None:
    rows = {"name": ["a", "b", "a"], "step": [1, 1, 1], "time_ps": [3, 4, 5]}
    first = brief.list_keys(pa.table(rows))
    again = brief.list_keys(pa.table({**rows, "time_ps": [9, 8, 7]}).slice(1))
    assert len(set(first)) == 3 and first[2] == f"{first[0]}.2"
    assert again == [first[1], first[0]]


def test_columns_of_a_query_may_share_a_name_and_cut_texts_are_said() -> None:
    long = "n" * 500
    table = pa.Table.from_arrays([pa.array(["a"]), pa.array([long])], names=["x", "x"])
    document = brief.summarise_table("rows", table, brief.Question("sql"), 1)
    (row,) = document["tables"]["rows"]["rows"]
    assert (row["x"], row["x_2"][:4], len(row["x_2"])) == ("a", "nnnn", 160)
    assert document["caveats"] == ["Texts are cut after 159 letters: substr(x, 160) is the rest."]
    for of in ({"advice": [5]}, {"table": [1], "row": [2], "columns": [3]}, {"t": ["abc…"]}, {"column_name": [None]}):
        assert not brief.summarise_table("rows", pa.table(of), brief.Question("sql"), 1).get("caveats")
    question = brief.Question("sql", tool="table")._replace(given={"query": f"select {long}"})
    more = brief.summarise_table("rows", pa.table({"y": range(40)}), question, 40)["more"]
    assert more[0].endswith('\\u2026", offset=10)') and len(more[0]) < 200


def test_integers_are_exact_and_other_numbers_short() -> None:
    table = pa.table({"bytes": [231735296.0, 0.5, 1e300], "share": [1 / 3, 2.0, float("nan")]})
    rows = brief.summarise_table("made", table, brief.Question("made"), 3, {"mean": 123456789.25})
    assert [row["bytes"] for row in rows["tables"]["made"]["rows"]] == [231735296.0, 0.5, 1e300]
    assert [row["share"] for row in rows["tables"]["made"]["rows"]][:2] == [0.3333333, 2.0]
    assert rows["figures"] == {"mean": 123456789.25}


@pytest.mark.parametrize(
    ("text", "reason", "remedy"),
    [
        ("no rows. Record them with `a. B`.", "no rows.", "Record them with `a. B`."),
        ("no file; did you mean 'x'?", "no file", "did you mean 'x'?"),
        ("no events: record them (all; use more)", "no events", "record them (all; use more)"),
        ("not a report: tools such as `x export; run y` (a. B) write; `x stats` does not", None, None),
        ("one of a; b, c", None, None),
    ],
)  # fmt: skip
def test_advice_is_cut_off_at_the_end_of_a_sentence_or_before_what_to_do(
    text: str, reason: str | None, remedy: str | None
) -> None:
    assert brief.split_advice(text) == (reason or text, remedy)


def test_a_report_without_its_main_figure_answers_with_what_is_known() -> None:
    trace = ROOT / ".." / "shared" / "captures" / "chrome" / "kineto" / "h100_qwen.json.gz"
    document = json.loads(fastprof.load(trace).report("roofline").to_json(brief=True))
    assert document["status"] == "ok" and document["answer"].startswith("Shares of the peaks are unknown, because")
    document = json.loads(fastprof.load(ROOT / "demo/memory").report("input_pipeline").to_json(brief=True))
    assert document["answer"].startswith("step time mean: 4.239 ms")


def test_hostile_names_stay_in_their_strings(tmp_path: Path) -> None:
    names = ['"}]}\n\x1b[2J', "\ud7ff\u202e" * 200, "ключ" * 100]
    events = [event(name, at * 1000, 500) for at, name in enumerate(names)]
    (tmp_path / "a.xplane.pb").write_bytes(xspace(plane("/host:CPU", [line("main", events, id=1)])))
    for report in fastprof.load(tmp_path).reports().values():
        text = report.to_json(brief=True)
        assert len(text) <= brief.MOST_BYTES and text.isascii() and json.loads(text)["verb"]


@pytest.mark.parametrize("name", ["x" * 5000, "\U0001f600" * 400, "\x01" * 900])
def test_long_names_leave_a_document_of_the_size(name: str) -> None:
    rows = pa.table({"name": [name] * 50, "detail": [name] * 50})
    question = brief.Question("made", name, [name] * 3, name, 1, 1, [name] * 3)
    several = {f"{name}{number}": lambda _most: brief.summarise_table("t", rows, question, 50) for number in range(40)}
    for document in (
        brief.summarise_table("t", rows, question, 50),
        brief.summarise_several(several, "runs"),
        brief.summarise_error(f"{name}: {name}. Try {name}.", [name], "made"),
    ):
        (text,) = brief.write_document(document)
        assert len(text) <= brief.MOST_BYTES and json.loads(text)["status"] in ("ok", "error")
