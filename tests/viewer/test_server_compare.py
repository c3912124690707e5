"""The comparison of two runs of a log directory, as the page gets it."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from demo_captures import DEMO
from log_directories import write_run
from served import Answer, Served
from trace_builder import event, line, plane, xspace

import fastprof
from fastprof.analyses import runner
from tests.comparison.paired_runs import MODEL, Plan

BROKEN, BASE, MIDDLE, NEW = "2025_01_01_00_00_00", "2026_01_01_00_00_00", "2026_01_02_00_00_00", "2026_01_03_00_00_00"
MARKUP = "<img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make two runs, the new one with a slower op, a run with another name, and an unreadable run."""
    folder = tmp_path_factory.mktemp("logs")
    plan = Plan(MODEL, steps=10, chips=1)
    write_run(folder, BASE, plan.captures()[0])
    renamed = replace(plan, ops=[*MODEL[:3], replace(MODEL[3], name=MARKUP), *MODEL[4:]])
    write_run(folder, MIDDLE, renamed.captures()[0])
    write_run(folder, NEW, plan.changed("fusion.3", time_us=4400).captures()[0])
    write_run(folder, BROKEN, b"no capture")
    return folder


@pytest.fixture(scope="module")
def served(logs: Path) -> Served:
    return Served(logs)


def test_a_comparison_is_that_of_the_command_line(served: Served, logs: Path) -> None:
    answer = served.get("/api/compare", run=NEW, base=BASE)
    runs = [fastprof.load(logs, run=run) for run in (BASE, NEW)]
    assert answer == json.loads(fastprof.compare(*runs).to_json())
    assert answer["scalars"]["verdict"]["value"] == "slower"
    assert answer["tables"]["changes"]["rows"][0]["name"] == "fusion.3"
    assert answer["tables"]["categories"]["rows"][0]["label"] == "compute"
    back = served.get("/api/compare", run=BASE, base=NEW)
    assert back["scalars"]["verdict"]["value"] == "faster"


def test_tables_of_a_comparison_come_by_column_too(served: Served) -> None:
    answer = served.get("/api/compare", run=NEW, base=BASE, shape="columns", tables="steps", columns="steps.run")
    (column,) = answer["tables"]["steps"]["columns"]
    assert (column["texts"], len(column["codes"])) == (["base", "new"], 20)


def test_each_run_is_measured_once(logs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    served, runs = Served(logs), []
    real = runner.run
    monkeypatch.setattr(runner, "run", lambda *args, **rest: runs.append(1) or real(*args, **rest))

    async def ask(*bases: str) -> list[Answer]:
        asked = (served.client.send("/api/compare", {"run": NEW, "base": base}) for base in bases)
        return await asyncio.gather(*asked)

    answers = asyncio.run(ask(BASE, BASE, BASE))
    assert {answer.status_code for answer in answers} == {200} and len({answer.content for answer in answers}) == 1
    measured = len(runs)
    tag = {"if-none-match": answers[0].headers["etag"]}
    assert served.client.get("/api/compare", {"run": NEW, "base": BASE}, tag).status_code == 304
    assert len(runs) == measured
    assert served.get("/api/compare", run=NEW, base=MIDDLE)
    assert len(runs) == measured + measured // 2


def test_a_base_that_was_rewritten_is_measured_again(logs: Path) -> None:
    served = Served(logs)
    plan = Plan(MODEL, steps=10, chips=1)
    run = "2025_02_01_00_00_00"
    again = write_run(logs, run, plan.captures()[0])
    before = served.get("/api/compare", run=NEW, base=run)
    again.write_bytes(plan.changed("fusion.3", time_us=8800).captures()[0])
    after = served.get("/api/compare", run=NEW, base=run)
    assert [one["scalars"]["verdict"]["value"] for one in (before, after)] == ["slower", "faster"]


@pytest.mark.parametrize(("params", "status", "words"), [
    ({}, 400, "the argument base is missing"),
    ({"base": ""}, 400, "the argument base is missing"),
    ({"base": NEW}, 400, f"base: '{NEW}' is the run itself; name another one"),
    ({"base": "nothing"}, 404, "no run 'nothing'"),
    ({"base": MARKUP}, 404, f"no run {MARKUP!r}"),
    ({"base": BROKEN}, 422, f"{BROKEN}/vm.xplane.pb"),
    ({"base": "../../../etc/passwd"}, 404, "no run '../../../etc/passwd'"),
    ({"base": str(DEMO / "xla")}, 404, "no run '"),
    ({"base": f"./{BASE}"}, 404, "no run '"),
    ({"base": "\0"}, 404, "no run '\\x00'"),
    ({"base": "gs://bucket/run"}, 404, "no run 'gs://bucket/run'"),
    ({"base": BASE, "run": "nothing"}, 404, "no run 'nothing'"),
    ({"base": BASE, "version": "gone"}, 410, "changed after this page was loaded"),
    ({"base": BASE, "shape": "columns", "tables": "nothing"}, 400, "no table 'nothing'"),
])  # fmt: skip
def test_comparisons_that_are_none_are_refused(served: Served, params: dict[str, Any], status: int, words: str) -> None:
    found = served.refused("/api/compare", **{"run": NEW, **params})
    assert found[0] == status
    assert words in found[1]


def test_one_session_has_no_other_run_to_compare_with() -> None:
    served = Served(DEMO / "kernel")
    name = served.get("/api/open")["run"]
    assert served.refused("/api/compare", base=name)[0] == 400
    assert served.refused("/api/compare", base="another")[0] == 404


def test_runs_without_steps_say_why_they_have_no_verdict(tmp_path: Path) -> None:
    for run in (BASE, NEW):
        write_run(tmp_path, run, xspace(plane("/host:CPU", [line("main", [event(MARKUP, 0, 10)])])))
    answer = Served(tmp_path).get("/api/compare", run=NEW, base=BASE)
    verdict = answer["scalars"]["step_change_share"]
    assert (verdict["value"], verdict["reason"]) == (None, "a run has fewer than two complete steps")
    assert answer["tables"]["changes"]["rows"] == []


def test_markup_in_a_name_stays_text(served: Served) -> None:
    answer = served.client.get("/api/compare", {"run": MIDDLE, "base": BASE})
    assert answer.headers["content-type"] == "application/json"
    names = {row["name"] for row in answer.json()["tables"]["ops"]["rows"]}
    assert MARKUP in names
