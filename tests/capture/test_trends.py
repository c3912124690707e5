"""Trends over the runs of a log directory: ``fastprof trends``, and what the page gets."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from log_directories import write_run
from trace_builder import event, line, plane, task_environment, xspace

import fastprof
from fastprof.cli.main import main
from fastprof.profile import batch
from fastprof.viewer.cache_folder import CacheFolder
from tests.viewer.served import Served

OLD, NEW = "2026_01_01_00_00_00", "2026_01_02_00_00_00"
Rows = Callable[..., list[dict[str, Any]]]


def capture(slow: int = 900, start: int = 10**9) -> bytes:
    """Ten steps of 500 ps and one of them slow, 500 ps after the end of the one before; each computes for 300 ps."""
    durations = [500] * 4 + [slow] + [500] * 5
    begins = [sum(durations[:i]) + 500 * i for i in range(10)]
    rows = [
        event("train", begin, took, {"step_num": i, "_r": 1})
        for i, (begin, took) in enumerate(zip(begins, durations, strict=True))
    ]
    ops = [event("dot.1", begin + 100, 300, {"hlo_op": "dot.1", "hlo_module": "m"}) for begin in begins]
    return xspace(plane("/host:CPU", [line("main", rows), line("worker", ops)]), task_environment(start))


@pytest.fixture
def logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FASTPROF_CACHE", str(tmp_path / "cache"))
    write_run(tmp_path / "logs", OLD, capture(start=7))
    write_run(tmp_path / "logs", NEW, capture(slow=950))
    return tmp_path / "logs"


@pytest.fixture
def rows(logs: Path, capsys: pytest.CaptureFixture[str]) -> Rows:
    def run(*flags: str, code: int = 0) -> list[dict[str, Any]]:
        assert main(["trends", str(logs), "--format", "json", *flags]) == code
        found: list[dict[str, Any]] = json.loads(capsys.readouterr().out)["rows"]
        return found

    return run


def test_a_run_is_a_row_of_what_its_reports_say(rows: Rows) -> None:
    new, old = rows()
    assert [new["run"], old["run"]] == [NEW, OLD]
    assert (old["step_count"], old["step_time_p50_ps"], old["step_time_max_ps"]) == (10, 1000, 1400)
    assert (new["step_time_max_ps"], new["start_unix_ns"], old["start_unix_ns"]) == (1450, 10**9, 7)
    # From the first step to the end of the last, 9,900 ps, devices compute 10 times 300 ps.
    assert old["not_computing_share"] == pytest.approx(1 - 3000 / 9900) and 0 < old["finding_share"] < 1
    assert old["finding"] and old["memory_peak_bytes"] is None and old["problem"] is None


def test_a_run_is_analysed_once_and_again_if_it_changes(
    rows: Rows, logs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    analysed: list[str] = []
    real = batch.measure_run

    def counted(profile: Any) -> dict[str, Any]:
        analysed.append(profile.run)
        return real(profile)

    monkeypatch.setattr(batch, "measure_run", counted)
    first = rows()
    assert rows() == first and analysed == [NEW, OLD]
    write_run(logs, OLD, capture(slow=700))
    assert [row["step_time_max_ps"] for row in rows()] == [1450, 1200] and analysed == [NEW, OLD, OLD]
    shutil.rmtree(logs / "plugins" / "profile" / NEW)
    assert [row["run"] for row in rows()] == [OLD] and len(analysed) == 3


def test_runs_that_cannot_be_read_cost_the_others_nothing(
    rows: Rows, logs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_run(logs, NEW, b"no capture")
    broken, sound = rows()
    assert broken["step_count"] is None and "vm.xplane.pb" in broken["problem"] and sound["problem"] is None
    assert rows("--run", NEW, code=4) == [broken]
    assert main(["trends", str(logs)]) == 0
    assert f"fastprof: {NEW}: " in capsys.readouterr().err


def test_what_is_lost_is_shown(rows: Rows, logs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Also when the row comes from the cache; and what was salvaged is not taken for a sound run."""
    write_run(logs, NEW, capture(slow=900)[:-20])
    for _ in range(2):
        salvaged, sound = rows("--on-error", "salvage")
        assert "truncated" in salvaged["problem"] and salvaged["step_count"] is not None and sound["problem"] is None
    assert main(["trends", str(logs), "--on-error", "salvage"]) == 0
    assert f"fastprof: {NEW}: 1 truncated" in capsys.readouterr().err
    refused, _ = rows()
    assert refused["step_count"] is None and "vm.xplane.pb" in refused["problem"]


def test_runs_are_chosen(rows: Rows, logs: Path) -> None:
    assert [row["run"] for row in rows("--limit", "1")] == [NEW]
    assert [row["run"] for row in rows("--run", OLD)] == [OLD]
    assert [row["run"] for row in rows("--since", "2026-01-02")] == [NEW]
    assert main(["trends", str(logs), "--run", "none"]) == main(["trends", str(logs), "--since", "2026-01-03"]) == 3
    assert main(["trends", str(logs), "--since", "soon"]) == 2
    assert main(["trends", str(logs), "--as-hosts"]) == main(["trends", "-"]) == 2
    assert rows() == [{**row, "logdir": str(logs)} for row in fastprof.trends(logs).to_pylist()]


def complete(served: Served) -> list[str]:
    """The runs of all rows, once these are there."""
    for _ in range(2000):
        answer = served.get("/api/trends")
        if not answer["pending"]:
            return [row["run"] for row in answer["trends"]["rows"]]
        time.sleep(0.005)
    raise AssertionError("the rows did not come")


def count_steps(monkeypatch: pytest.MonkeyPatch, logs: Path, cache: Path) -> tuple[int, int]:
    """How many directories a start lists until all rows are there, and how many runs it opens."""
    served, steps, opened = Served(str(logs), cache=CacheFolder(cache)), [], []
    scandir, load = os.scandir, served.runs._trends._load
    with monkeypatch.context() as patch:
        patch.setattr(os, "scandir", lambda *path: steps.append(path) or scandir(*path))  # type: ignore[func-returns-value]
        patch.setattr(served.runs._trends, "_load", lambda run: opened.append(run) or load(run))
        served.get("/api/runs")
        patch.setattr(served.runs._runs, "_took_s", 1e9)  # the list is made once, however slow the machine
        steps.clear()
        complete(served)
    return len(steps), len(opened)


def test_a_start_looks_at_each_run_once_and_opens_none_whose_row_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fresh, known = [], []
    for count in (3, 6, 12):
        logs, cache = tmp_path / f"logs{count}", tmp_path / f"cache{count}"
        for number in range(count):
            write_run(logs, f"2026_01_01_00_00_{number:02}", capture())
        fresh.append(count_steps(monkeypatch, logs, cache))
        known.append(count_steps(monkeypatch, logs, cache))
    listed = [steps for steps, _ in fresh]
    assert [opened for _, opened in fresh] == [3, 6, 12]
    assert listed[2] - listed[1] == 2 * (listed[1] - listed[0])
    assert known == [(0, 0)] * 3


def test_the_page_gets_rows_as_they_are_computed(logs: Path, tmp_path: Path) -> None:
    served = Served(str(logs), cache=CacheFolder(tmp_path / "cache"))
    assert complete(served) == [NEW, OLD]
    units = {one["name"]: one["unit"] for one in served.get("/api/trends")["trends"]["columns"]}
    assert (units["step_time_p50_ps"], units["not_computing_share"], units["memory_peak_bytes"]) == (
        "ps",
        "share",
        "bytes",
    )
    shutil.rmtree(logs / "plugins" / "profile" / OLD)  # as a ring of runs does
    write_run(logs, "2026_01_03_00_00_00", capture())
    assert complete(served) == ["2026_01_03_00_00_00", NEW]
    assert [row["run"] for row in served.get("/api/trends", limit=1)["trends"]["rows"]] == ["2026_01_03_00_00_00"]
