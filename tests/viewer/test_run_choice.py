"""Which run of a log directory is shown: runs that appear, runs that cannot be opened, and no run at all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from demo_captures import DEMO
from log_directories import write_run
from served import Served
from test_server_process import serving
from trace_builder import event, line, plane, xspace

from fastprof.cli.main import main

OLD, MIDDLE, NEW = "2026_01_01_00_00_00", "2026_01_02_00_00_00", "2026_01_03_00_00_00"


def capture(name: str) -> bytes:
    return xspace(plane("/host:CPU", [line("main", [event(name, 0, 10)])]))


def write(logs: Path, run: str, data: bytes | None = None) -> Path:
    return write_run(logs, run, capture(f"event of {run}") if data is None else data)


def listed(served: Served) -> list[tuple[str, bool, bool]]:
    return [(run["name"], run["newest"], run["open"]) for run in served.get("/api/runs")["runs"]]


def shown(served: Served, **params: Any) -> str:
    served.timeline()
    name: str = served.get("/api/event", at=0, **params)["name"]
    return name


def test_the_run_that_is_open_is_named_whichever_is_the_newest(tmp_path: Path) -> None:
    write(tmp_path, OLD)
    write(tmp_path, MIDDLE)
    served = Served(tmp_path, run=OLD)
    assert listed(served) == [(MIDDLE, True, False), (OLD, False, True)]
    assert served.get("/api/open")["run"] == OLD
    assert shown(served) == f"event of {OLD}"
    write(tmp_path, NEW)
    assert listed(served) == [(NEW, True, False), (MIDDLE, False, False), (OLD, False, True)]
    assert (served.get("/api/open")["run"], shown(served)) == (OLD, f"event of {OLD}")
    opened = served.get("/api/open", run=NEW)
    assert opened["run"] == NEW
    while served.get("/api/timeline", run=NEW, version=opened["version"])["state"] != "ready":
        pass
    assert served.get("/api/event", run=NEW, version=opened["version"], at=0)["name"] == f"event of {NEW}"
    assert served.get("/api/runs")["directory"] is True


def test_a_directory_without_runs_waits_and_opens_the_first(tmp_path: Path) -> None:
    served = Served(tmp_path, opened=False)
    assert served.get("/api/runs")["runs"] == []
    opened = served.get("/api/open")
    assert (opened["run"], opened["version"], opened["hosts"]) == (None, None, [])
    assert opened["notice"] == f"No runs in {tmp_path.name} yet. The page opens the first run that appears."
    assert served.refused("/api/timeline")[0] == 404
    path = write(tmp_path, OLD, b"")
    assert served.get("/api/open")["run"] is None
    assert "the file is empty" in served.get("/api/open")["notice"]
    path.write_bytes(capture("first"))
    assert served.get("/api/open") | {"version": ""} == {"run": OLD, "version": "", "hosts": ["vm"], "notice": None}
    write(tmp_path, NEW)
    assert (served.get("/api/open")["run"], shown(served)) == (OLD, "first")


@pytest.mark.parametrize(("damaged", "words"), [(b"", "the file is empty"), (capture("x")[:-3], "at byte")])
def test_of_broken_runs_the_newest_good_one_is_opened(tmp_path: Path, damaged: bytes, words: str) -> None:
    write(tmp_path, OLD)
    write(tmp_path, MIDDLE)
    path = write(tmp_path, NEW, damaged)
    served = Served(tmp_path, opened=False)
    opened = served.get("/api/open")
    assert opened["run"] == MIDDLE
    assert opened["notice"].startswith(f"The run {NEW} cannot be opened: {path}: ") and words in opened["notice"]
    assert opened["notice"].endswith(f"The newest readable run is shown: {MIDDLE}.")
    assert listed(served) == [(NEW, True, False), (MIDDLE, False, True), (OLD, False, False)]
    problems = [run["problem"] for run in served.get("/api/runs")["runs"]]
    assert words in problems[0] and problems[1:] == [None, None]
    status, sentence = served.refused("/api/open", run=NEW)
    assert (status, words in sentence) == (422, True)
    path.write_bytes(capture("mended"))
    assert [run["problem"] for run in served.get("/api/runs")["runs"]] == [None, None, None]
    assert served.get("/api/open", run=NEW)["run"] == NEW
    assert served.get("/api/open")["notice"] is None


def test_an_empty_newest_run_is_listed_as_broken_before_it_is_opened(tmp_path: Path) -> None:
    write(tmp_path, OLD)
    served = Served(tmp_path)
    write(tmp_path, NEW, b"")
    assert [bool(run["problem"]) for run in served.get("/api/runs")["runs"]] == [True, False]


def test_the_verb_waits_for_the_first_run(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        assert b'"run":null' in server.get("/api/open")[1]
        write(tmp_path, OLD)
        assert f'"run":"{OLD}"'.encode() in server.get("/api/open")[1]
        assert server.get("/api/timeline")[0] == 200
        rest = server.end(15)[1]
    assert "Traceback" not in rest


def test_the_verb_says_which_run_is_broken_and_which_is_shown(tmp_path: Path) -> None:
    write(tmp_path, OLD)
    write(tmp_path, NEW, b"")
    with serving(tmp_path) as server:
        assert f'"run":"{OLD}"'.encode() in server.get("/api/open")[1]


@pytest.mark.parametrize("flags", [[], ["--run", NEW]])
def test_the_verb_ends_if_no_run_can_be_opened(
    tmp_path: Path, flags: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    if flags:
        write(tmp_path, OLD)
    write(tmp_path, NEW, b"")
    assert main(["serve", str(tmp_path), *flags]) == 4
    assert "the file is empty" in capsys.readouterr().err
    assert main(["serve", str(tmp_path / "nothing")]) == 3
    assert main(["serve", str(DEMO / "pod"), "--run", "nothing"]) == 3
