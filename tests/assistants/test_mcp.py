"""The tools of ``fastprof mcp``, asked by the client of the SDK."""

from __future__ import annotations

import ast
import asyncio
import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters, stdio_client

import fastprof
from fastprof.cli import main as command
from fastprof.cli.assistants.tools import make_server
from fastprof.cli.assistants.warm_sessions import WarmSessions
from fastprof.render.brief import MOST_BYTES

ROOT = Path(__file__).resolve().parents[2]
DEMO = ROOT / "demo"
TOOLS = ["sessions", "diagnose", "report", "table", "events", "program", "compare", "check"]
Ask = Callable[..., dict[str, Any]]


@pytest.fixture
def ask() -> Ask:
    return asking(DEMO)


def asking(*folders: Path) -> Ask:
    """Return a function that asks a tool; errors are documents with the status "error", and marked as errors."""
    server = make_server(WarmSessions([str(folder) for folder in folders], {}))

    async def call(tool: str, given: dict[str, Any]) -> dict[str, Any]:
        async with Client(server) as client:
            result = await client.call_tool(tool, given)
        text = result.content[0].text  # type: ignore[union-attr]
        assert len(text) <= MOST_BYTES and json.loads(text) == result.structured_content
        document: dict[str, Any] = result.structured_content or {}
        assert result.is_error == (document["status"] == "error")
        return document

    return lambda tool, **given: asyncio.run(call(tool, given))


def test_eight_tools_are_described_and_read_only() -> None:
    async def list_tools() -> list[Any]:
        async with Client(make_server(WarmSessions([str(DEMO)], {}))) as client:
            return list((await client.list_tools()).tools)

    tools = asyncio.run(list_tools())
    assert [tool.name for tool in tools] == TOOLS
    assert all(tool.annotations.read_only_hint and len(tool.description) > 60 for tool in tools)
    assert all(tool.output_schema["type"] == "object" for tool in tools)
    assert sum(len(tool.model_dump_json()) for tool in tools) < 10_000


def test_sessions_lead_to_answers(ask: Ask) -> None:
    listed = ask("sessions")
    assert listed["tables"]["runs"]["total"] == 7
    first = listed["tables"]["runs"]["rows"][0]
    assert ask("diagnose", session=first["session"], run=first["run"])["status"] == "ok"


def test_a_diagnosis_is_that_of_the_command(ask: Ask, capsys: pytest.CaptureFixture[str]) -> None:
    command.main(["summary", str(DEMO / "xla"), "--brief", "-q"])
    printed = json.loads(capsys.readouterr().out)
    document = ask("diagnose", session=str(DEMO / "xla"))
    assert document.pop("more")[0] == (f'report(session="{DEMO / "xla"}", name="roofline", table="ops?bound_by=HBM")')
    assert printed.pop("more")[0].startswith("fastprof roofline ") and document == printed


@pytest.mark.parametrize(
    ("tool", "given", "more"),
    [
        ("sessions", {"limit": 2}, "sessions(limit=2, offset=2)"),
        ("report", {"session": "xla", "name": "roofline", "table": "ops?bound_by=HBM", "limit": 3},
            'report(session="xla", name="roofline", table="ops?bound_by=HBM", limit=3, offset=3)'),
        ("events", {"session": "xla", "by_name": False, "limit": 2, "offset": 4},
            'events(session="xla", by_name=false, offset=6, limit=2)'),
        ("table", {"session": "xla", "query": "select name from events"},
            'table(session="xla", query="select name from events", offset=10)'),
        ("program", {"session": "xla", "module": "jit_train_step", "graph": "blockers", "limit": 1},
            'program(session="xla", module="jit_train_step", graph="blockers", limit=1, offset=1)'),
        ("check", {"session": "xla", "fail_if": ["step_time_p50 > 1s", "step_time_p50 > 1ms"], "limit": 1},
            'check(session="xla", fail_if=["step_time_p50 > 1s", "step_time_p50 > 1ms"], limit=1, '
            'table="conditions", offset=1)'),
    ],
)  # fmt: skip
def test_more_is_a_call_that_shows_the_next_rows(ask: Ask, tool: str, given: dict[str, Any], more: str) -> None:
    document = ask(tool, **given)
    assert document["more"][0] == more
    call = ast.parse(more, mode="eval").body
    assert isinstance(call, ast.Call)
    following = {str(word.arg): json.loads(ast.get_source_segment(more, word.value) or "") for word in call.keywords}
    (first,), (second,) = document["tables"].values(), ask(tool, **following)["tables"].values()
    assert first["total"] == second["total"] and first["rows"] != second["rows"]


def test_rows_are_limited_to_fifty(ask: Ask) -> None:
    for limit, count in ((30, 30), (1000, 50)):
        document = ask("table", session="xla", query="select name from range(80) t(name)", limit=limit)
        assert len(document["tables"]["rows"]["rows"]) == count
    assert ask("table", session="xla", query="select 1", offset=-1)["status"] == "error"
    assert ask("events", session="xla", limit=0)["status"] == "error"


def test_columns_of_reports_and_of_sql_are_listed_whole(ask: Ask) -> None:
    whole = fastprof.load(DEMO / "xla").report("memory_viewer").tables
    listed = ask("report", session="xla", name="memory_viewer", columns=True)
    assert {name: table["columns"] for name, table in listed["tables"].items()} == {
        name: table.column_names for name, table in whole.items()
    }
    typed = ask("report", session="xla", name="steps", table="steps", columns=True)
    assert "step int64" in typed["tables"]["steps"]["columns"] and list(typed["tables"]) == ["steps"]
    described = ask("table", session="xla", query="describe hlo_instructions")["tables"]["rows"]
    assert len(described["columns"]) == described["total"] > 30


def test_a_table_without_rows_says_why(ask: Ask) -> None:
    document = ask("table", session="xla", query="select * from kernel_stats.kernels")
    assert document["answer"] == "0 rows" and document["caveats"] == ["No kernels: the capture has no GPU planes."]
    document = ask("report", session="xla", name="kernel_stats", table="kernels")
    assert (document["status"], document["reason"]) == ("cannot_answer", "No kernels: the capture has no GPU planes.")
    document = ask("report", session="xla", name="roofline", table="ops?bound_by=NVLink")
    assert document["caveats"][0] == "The table ops has no such row."


def test_a_report_shows_the_rows_of_a_table_page_by_page(ask: Ask) -> None:
    whole = fastprof.load(DEMO / "xla").report("roofline").tables["ops"].to_pylist()
    bound = [row["name"] for row in whole if row["bound_by"] == "HBM"]
    seen: list[str] = []
    while len(seen) < len(bound):
        document = ask("report", session="xla", name="roofline", table="ops?bound_by=HBM", offset=len(seen))
        assert document["tables"]["ops"]["total"] == len(bound)
        seen += [row["name"] for row in document["tables"]["ops"]["rows"]]
    assert seen == bound


def test_a_report_takes_hosts_steps_and_parameters(ask: Ask) -> None:
    document = ask("report", session="pod", name="steps", host="host1", steps="1")
    wanted = fastprof.load(DEMO / "pod").select(hosts="host1", steps=1).report("steps")
    assert document["figures"]["step_time_mean_ps"] == wanted.scalars["step_time_mean_ps"].value
    assert document["session"]["hosts"] == len(fastprof.load(DEMO / "pod").hosts)
    assert ask("report", session="xla", name="steps", parameters={"other": 1})["status"] == "error"


def test_events_by_name_have_percentiles_and_single_ones_an_order(ask: Ask) -> None:
    sums = ask("events", session="xla", line="XLA Ops", sort="p99_ps")
    rows = sums["tables"]["event_summary"]["rows"]
    assert 3 <= len(rows) <= 10
    assert [row["p99_ps"] for row in rows] == sorted((row["p99_ps"] for row in rows), reverse=True)
    single = ask("events", session="xla", by_name=False, line="XLA Ops", min_duration="1ms", offset=3)
    assert single["tables"]["events"]["total"] == 40
    assert all(row["duration_ps"] >= 10**9 for row in single["tables"]["events"]["rows"])


def test_programs_are_listed_and_read(ask: Ask) -> None:
    listed = ask("program", session="xla")
    assert listed["tables"]["hlo_modules"]["rows"][0]["name"] == "jit_train_step"
    fusions = ask("program", session="xla", module="jit_train_step", opcode="fusion")
    assert fusions["tables"]["hlo_instructions"]["total"] == 79
    name = fusions["tables"]["hlo_instructions"]["rows"][0]["name"]
    near = ask("program", session="xla", module="jit_train_step", instruction=name, width=1)
    assert near["tables"]["hlo_walk"]["rows"][0]["relation"] == "itself"
    blockers = ask("program", session="xla", module="jit_train_step", graph="blockers")
    assert blockers["tables"]["hlo_blockers"]["rows"][0]["reason"] == "collective"
    chain = ask("program", session="xla", module="jit_train_step", graph="path", instruction="param_tokens", to="tuple")
    assert chain["tables"]["hlo_path"]["total"] == 6


def test_runs_are_compared_and_checked(ask: Ask) -> None:
    document = ask("compare", base="xla", new="pod", table="environment")
    assert document["figures"]["verdict"] == "not_comparable" and document["answer"]
    assert list(document["tables"]) == ["environment"]
    checked = ask("check", session="xla", fail_if=["step_time_p50 > 1ms", "step_time_p50 > 1s"])
    assert (checked["figures"]["verdict"], checked["figures"]["failed_count"]) == ("failed", 1)


def test_a_query_is_answered(ask: Ask) -> None:
    document = ask("table", session="xla", query="select count(*) as n, any_value(line) as line from events")
    assert (document["status"], document["tables"]["rows"]["rows"][0]["n"]) == ("ok", 1210)
    listed = ask("table", session="xla", query="show tables")
    assert listed["tables"]["rows"]["total"] > 150


@pytest.mark.parametrize(
    ("tool", "given", "reason"),
    [
        ("report", {"session": "/etc/passwd", "name": "steps"}, "is outside of the folders of this server"),
        ("diagnose", {"session": "../pyproject.toml"}, "is outside of the folders of this server"),
        ("diagnose", {"session": "xla/../../README.md"}, "is outside of the folders of this server"),
        ("diagnose", {"session": "xla\0/etc/passwd"}, "null character"),
        ("diagnose", {"session": ""}, "is empty"),
        ("diagnose", {"session": "missing"}, "no such file or directory"),
        ("diagnose", {"session": "demo/xla"}, "folders of this server did you mean 'xla'?"),
        ("report", {"session": "xl", "name": "steps"}, "did you mean 'xla'?"),
        ("diagnose", {"session": "xla", "run": "missing"}, "no run missing"),
        ("check", {"session": "xla", "fail_if": ["a > +5%"], "against": "/etc"}, "is outside of the folders"),
        ("check", {"session": "xla", "fail_if": ["nonsense"]}, "nonsense"),
        ("compare", {"base": "xla", "new": "/"}, "is outside of the folders"),
        ("report", {"session": "xla", "name": "stps"}, "no analysis 'stps'"),
        ("report", {"session": "xla", "name": "steps", "table": "stps"}, "no table 'stps'"),
        ("report", {"session": "xla", "name": "steps", "steps": "x"}, "'x'"),
        ("table", {"session": "xla", "query": "select nme from events"}, "did you mean 'name'"),
        ("table", {"session": "xla", "query": "select * from read_text('/etc/passwd')"}, "cannot be read as a table"),
        ("table", {"session": "xla", "query": "copy events to 'x'"}, "not COPY"),
        ("events", {"session": "xla", "name": "("}, "regular expression"),
        ("events", {"session": "xla", "time": "x:"}, "'x'"),
        ("events", {"session": "xla", "sort": "other"}, "no column 'other'"),
        ("program", {"session": "xla", "module": "other"}, "no program 'other'"),
        ("program", {"session": "xla", "module": "jit_train_step", "graph": "other"}, "no graph 'other'"),
        ("events", {"session": "xla", "offset": -1}, "offset is an integer from 0 to"),
        ("sessions", {"offset": 2**63}, "offset is an integer from 0 to"),
        ("report", {"session": "xla", "name": "steps", "parameters": {"name": "x"}}, "name"),
        ("program", {"session": "xla", "module": "jit_train_step", "graph": "path"}, "needs instruction and to"),
    ],
)
def test_a_wrong_question_is_an_error_with_the_reason(ask: Ask, tool: str, given: dict[str, Any], reason: str) -> None:
    document = ask(tool, **given)
    assert document["status"] == "error"
    assert reason in f"{document['reason']} {document.get('remedy', '')}"


def test_a_link_does_not_lead_out(tmp_path: Path) -> None:
    folder = tmp_path / "logs" / "plugins" / "profile" / "run"
    folder.mkdir(parents=True)
    source = next((DEMO / "xla").rglob("*.xplane.pb"))
    (folder / "vm.xplane.pb").symlink_to(source)
    ask = asking(tmp_path / "logs")
    leads_out = "a link of this session leads outside of the folders"
    assert leads_out in ask("diagnose", session=".")["reason"]
    inside = tmp_path / "logs" / "other"
    inside.mkdir()
    shutil.copy(source, inside / "vm.xplane.pb")
    for place in ("plugins", "plugins/profile/run", "plugins/profile/run/vm.xplane.pb"):
        document = ask("check", session="other", fail_if=["step_time > +5%"], against=place)
        assert document["status"] == "error" and "outside of the folders" in document["reason"], place
        assert str(DEMO) not in json.dumps(document)
    assert "is a pattern" in ask("check", session="other", fail_if=["a > +5%"], against="[p]lugins")["reason"]
    (tmp_path / "logs" / "out").symlink_to(DEMO)
    assert "is outside of the folders" in ask("diagnose", session="out/xla")["reason"]


def test_a_changed_run_is_read_again_and_a_same_one_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "vm.xplane.pb"
    shutil.copy(next((DEMO / "xla").rglob("*.xplane.pb")), path)
    loaded: list[Any] = []
    load = fastprof.load
    monkeypatch.setattr(fastprof, "load", lambda *words, **how: loaded.append(words) or load(*words, **how))
    ask = asking(tmp_path)
    first = ask("diagnose", session=".")
    assert ask("diagnose", session=".") == first and len(loaded) == 1
    new = tmp_path / "new"
    shutil.copy(next((DEMO / "kernel").rglob("*.xplane.pb")), new)
    new.replace(path)
    assert ask("diagnose", session=".")["answer"] != first["answer"] and len(loaded) == 2


def test_two_clients_ask_at_once() -> None:
    server = make_server(WarmSessions([str(DEMO)], {}))

    async def ask_all() -> list[Any]:
        async with Client(server) as one, Client(server) as other:
            calls = [
                client.call_tool("report", {"session": session, "name": name})
                for client in (one, other)
                for session in ("xla", "pod")
                for name in ("steps", "gaps")
            ]
            return [result.structured_content for result in await asyncio.gather(*calls)]

    answers = asyncio.run(ask_all())
    assert answers[:4] == answers[4:] and all(answer["status"] == "ok" for answer in answers)


def test_the_verb_serves_on_standard_input_and_output() -> None:
    async def ask_over_pipes() -> dict[str, Any]:
        words = ["-m", "fastprof", "mcp", str(DEMO), "-q"]
        parameters = StdioServerParameters(command=sys.executable, args=words, env=dict(os.environ))
        async with Client(stdio_client(parameters)) as client:
            result = await client.call_tool("report", {"session": "xla", "name": "steps"})
            return result.structured_content or {}

    assert asyncio.run(ask_over_pipes())["answer"].startswith("Steps take 5.945 ms on average")


def test_the_verb_says_what_is_missing(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(sys.modules, "mcp.server.mcpserver", None)
    monkeypatch.setitem(sys.modules, "mcp", None)
    assert command.main(["mcp", str(DEMO)]) == 2
    assert "pip install 'fastprof-arrow[mcp]'" in capsys.readouterr().err
    assert command.main(["mcp", str(DEMO / "missing")]) == 3
