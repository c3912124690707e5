"""Reports of many runs, with and without an executor."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from equal_reports import DEMO
from faulty_executors import Made

import fastprof
from fastprof import CaptureError, NotFoundError

RUNS = ("2026_11_01_00_00_00", "2026_11_03_00_00_00")


@pytest.fixture
def logdir(tmp_path: Path) -> Path:
    (source,) = (DEMO / "pod/plugins/profile").iterdir()
    for run in RUNS:
        shutil.copytree(source, tmp_path / "plugins/profile" / run)
    return tmp_path


@pytest.mark.parametrize("on_engine", [False, True])
def test_runs_come_one_by_one_the_newest_first(logdir: Path, on_engine: bool) -> None:
    made = Made()
    found = list(fastprof.batch(logdir, "steps", params={"steps_from": "auto"}, executor=made if on_engine else None))
    assert [run.name for run, _ in found] == list(RUNS[::-1])
    for run, reports in found:
        (report,) = reports.values()
        assert report.to_json() == fastprof.load(logdir, run=run).steps().to_json()
    assert [len(one.given) for one in made.made] == ([2 * len(RUNS)] if on_engine else []), "one executor serves all"


def test_runs_are_chosen_by_name_and_read_when_their_turn_comes(logdir: Path) -> None:
    path = logdir / "plugins/profile" / RUNS[1] / "host0.xplane.pb"
    path.write_bytes(path.read_bytes()[:5_000])
    found = fastprof.batch(logdir, "steps", runs=list(RUNS))
    assert next(found)[0].name == RUNS[0]
    with pytest.raises(CaptureError):
        next(found)
    with pytest.warns(UserWarning, match=f"the run {RUNS[1]} is left out: .*host1"):
        (path.parent / "host1.xplane.pb").write_bytes(b"no capture")
        assert [run.name for run, _ in fastprof.batch(logdir, "steps", on_error="skip")] == [RUNS[0]]
    with pytest.raises(NotFoundError, match="no run 'x'; there are: 2026_11_03"):
        fastprof.batch(logdir, runs=["x"])


def test_trends_have_a_row_a_run(logdir: Path) -> None:
    (logdir / "plugins/profile" / RUNS[0] / "host0.xplane.pb").write_bytes(b"no capture")
    made = Made()
    found = fastprof.trends(logdir, executor=made)
    assert found.equals(fastprof.trends(logdir)) and len(made.made) == 1
    read, unread = found.to_pylist()
    reports = fastprof.load(logdir, run=RUNS[1]).reports("steps", "diagnosis")
    assert (read["run"], read["problem"], unread["run"]) == (RUNS[1], None, RUNS[0])
    assert read["step_count"] == reports["steps"].scalars["step_count"].value == 8
    assert read["finding"] == reports["diagnosis"].tables["findings"]["title"][0].as_py()
    assert "host0.xplane.pb: " in unread["problem"] and unread["step_count"] is None
    assert fastprof.trends(logdir, runs=[RUNS[1]]).to_pylist() == [read]
