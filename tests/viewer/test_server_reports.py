"""The analyses as the pages get them."""

from __future__ import annotations

import asyncio
import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
from demo_captures import DEMO
from served import Served

import fastprof
from fastprof.analyses import ANALYSES, accumulation

POD = DEMO / "pod"


@pytest.fixture(scope="module")
def pod() -> Served:
    return Served(POD)


def test_all_analyses_are_listed(pod: Served) -> None:
    answer = pod.get("/api/analyses")
    assert [one["name"] for one in answer] == list(ANALYSES)
    assert all({"verb", "title", "summary", "params"} <= set(one) for one in answer)


@pytest.mark.parametrize("name", ["overview", "op-stats", "steps"])
def test_a_report_is_that_of_the_command_line(pod: Served, name: str) -> None:
    wanted = json.loads(fastprof.load(POD).report(name.replace("-", "_")).to_json())
    assert pod.get(f"/api/report/{name}") == wanted


def test_the_page_sees_how_many_hosts_have_been_read(monkeypatch: pytest.MonkeyPatch) -> None:
    served, seen = Served(POD), []
    keep = accumulation.keep_host

    def looked_at(*args: Any) -> Any:
        seen.append(served.get("/api/analysed"))
        return keep(*args)

    monkeypatch.setattr(accumulation, "keep_host", looked_at)
    served.get("/api/report/op_stats")
    assert seen == [{"done": 0, "total": 0}, {"done": 1, "total": 2}]
    assert served.get("/api/analysed") == {"done": 0, "total": 0}


def test_a_report_takes_hosts_and_parameters(pod: Served) -> None:
    answer = pod.get("/api/report/steps", host="host1", steps_from="modules")
    wanted = fastprof.load(POD).select(hosts="host1").steps(steps_from="modules")
    assert answer == json.loads(wanted.to_json())
    several = pod.client.get("/api/report/steps?host=host0&host=host1").json()
    assert several == pod.get("/api/report/steps")


def test_tables_are_csv_too(pod: Served) -> None:
    answer = pod.client.get("/api/report/op_stats/ops.csv")
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    assert 'filename="op_stats.ops.csv"' in answer.headers["content-disposition"]
    rows = list(csv.reader(io.StringIO(answer.text)))
    assert rows[0] == fastprof.load(POD).op_stats().tables["ops"].column_names


def test_columns_of_some_tables_are_sent_alone(pod: Served) -> None:
    answer = pod.get("/api/report/op_stats", shape="columns", tables="ops", columns="ops.name,ops.self_ps", rows=2)
    table = answer["tables"]["ops"]
    assert (table["length"], [column["name"] for column in table["columns"]]) == (2, ["name", "self_ps"])
    assert list(answer["tables"]) == ["ops"]


def test_drawings_and_pages_of_xprof(pod: Served) -> None:
    answer = pod.client.get("/api/report/communication.svg")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "image/svg+xml")
    assert answer.text.startswith("<svg")
    assert pod.client.get("/api/report/overview/xprof").json()
    assert pod.refused("/api/report/steps.svg")[0] == 400


@pytest.mark.parametrize(("path", "params", "status", "words"), [
    ("/api/report/nothing", {}, 400, "no analysis 'nothing'"),
    ("/api/report/over-view", {}, 400, "no analysis"),
    ("/api/report/__init__", {}, 400, "no analysis"),
    ("/api/report/steps", {"color": "red"}, 400, "no parameter 'color'"),
    ("/api/report/steps", {"steps_from": " "}, 400, "one of auto, markers, loader, modules"),
    ("/api/report/overview", {"top_ops": "many"}, 400, "an integer"),
    ("/api/report/steps", {"host": "nobody"}, 404, "no host 'nobody'"),
    ("/api/report/steps/nothing.csv", {}, 404, "no table 'nothing'"),
    ("/api/report/steps", {"shape": "round"}, 400, "one of rows, columns"),
    ("/api/report/steps", {"shape": "columns", "tables": "nothing"}, 400, "nothing"),
])  # fmt: skip
def test_reports_that_are_none_are_refused(
    pod: Served, path: str, params: dict[str, Any], status: int, words: str
) -> None:
    found = pod.refused(path, **params)
    assert found[0] == status
    assert words in found[1]


def test_who_asks_at_once_waits_for_one_report(monkeypatch: pytest.MonkeyPatch) -> None:
    served = Served(POD)
    runs = []
    from fastprof.analyses import runner

    real = runner.run
    monkeypatch.setattr(runner, "run", lambda *args, **rest: runs.append(1) or real(*args, **rest))

    async def all_at_once() -> list[Any]:
        return await asyncio.gather(*(served.client.send("/api/report/op_stats") for _ in range(6)))

    answers = asyncio.run(all_at_once())
    assert {answer.status_code for answer in answers} == {200}
    assert len({answer.content for answer in answers}) == 1
    assert len(runs) == 1


def test_programs_are_listed_and_shown() -> None:
    served = Served(DEMO / "xla")
    modules = served.get("/api/hlo")["modules"]
    assert modules
    text = served.get("/api/hlo", module=modules[0]["program_id"], lines=5)
    assert text["text"][0].startswith("HloModule")
    assert served.refused("/api/hlo", module="nothing")[0] == 400
    assert served.refused("/api/hlo", module=modules[0]["module"], form="poem")[0] == 400


def test_steps_narrow_a_report_as_on_the_command_line(pod: Served) -> None:
    answer = pod.get("/api/report/steps", steps="2:4")
    assert answer == json.loads(fastprof.load(POD).select(steps=(2, 4)).steps().to_json())
    assert {row["step"] for row in answer["tables"]["steps"]["rows"]} == {2, 3}
    assert pod.get("/api/report/steps", steps="") == pod.get("/api/report/steps")
    status, sentence = pod.refused("/api/report/steps", steps="4-2")
    assert status == 400 and "write A:B" in sentence


def test_a_run_is_saved_as_a_trace_and_as_a_report(tmp_path: Path) -> None:
    pod = Served(POD)
    report = pod.client.get("/api/save/report.html")
    assert report.headers["content-type"] == "text/html; charset=utf-8"
    assert 'id="data-report-overview"' in report.text
    assert "<title>pod · 2026_11_21_12_00_00 · fastprof</title>" in report.text
    trace = pod.client.get("/api/save/trace.pftrace")
    assert trace.headers["content-disposition"] == "attachment"
    fastprof.load(POD).to_trace(tmp_path / "pod.pftrace")
    assert trace.content == (tmp_path / "pod.pftrace").read_bytes()
    assert pod.client.get("/api/save/trace.pftrace", method="HEAD").content == b""
    assert pod.client.get("/api/save/nothing").json() == {
        "error": "a run is saved as report.html, trace.pftrace, not 'nothing'"
    }
