"""Reports of many runs, with and without an executor."""

from __future__ import annotations

import shutil
from concurrent.futures import BrokenExecutor
from pathlib import Path
from typing import Any

import pytest
from equal_reports import DEMO
from faulty_executors import Made, TestExecutor

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
    assert [run.name for run, _ in fastprof.batch(logdir, "steps", runs=RUNS[:1], since="2026-11-02")] == []
    assert [run.name for run, _ in fastprof.batch(logdir, "steps", runs=RUNS[0])] == [RUNS[0]]
    assert [run.name for run, _ in fastprof.batch(logdir, "steps", since="2026-11-04")] == []
    with pytest.raises(NotFoundError, match="no run 'x'; there are: 2026_11_03"):
        fastprof.batch(logdir, runs=["x"])


class Noting(TestExecutor):
    """Notes which run each task is of, when it is given."""

    def __init__(self, events: list[str], **how: Any) -> None:
        super().__init__(**how)
        self.events = events

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Any:
        self.events.append(Path(args[0].path).parent.name)
        return super().submit(fn, *args, **kwargs)


def test_workers_that_have_nothing_to_do_begin_with_the_next_run(logdir: Path) -> None:
    """And with no other one: of three runs, the last waits until the first is complete."""
    shutil.copytree(logdir / "plugins/profile" / RUNS[0], logdir / "plugins/profile/2026_10_01_00_00_00")
    events: list[str] = []
    found = []
    for run, reports in fastprof.batch(logdir, "steps", executor=Noting(events), in_flight=4):
        events.append("complete")
        found.append((run.name, reports["steps"].to_json()))
    first, second, third = (run.name for run in fastprof.runs(logdir))
    assert events == [first, first, second, second, "complete", third, third, "complete", "complete"]
    assert found == [(name, fastprof.load(logdir, run=name).steps().to_json()) for name in (first, second, third)]


@pytest.mark.parametrize("broken", [0, 1])
def test_a_host_that_kills_workers_is_blamed_on_its_own_run(logdir: Path, broken: int) -> None:
    """Whichever run has it: the other one is complete, and no host of it is lost."""

    def before(task: Any) -> None:
        if Path(task.path).parts[-2:] == (RUNS[broken], "host1.xplane.pb"):
            raise BrokenExecutor("a process ended")

    if broken == 0:  # the next run has it, while one host of the first is read
        (logdir / "plugins/profile" / RUNS[1] / "host1.xplane.pb").unlink()
    made = Made(before=before, order=lambda held: held[::-1])
    found = fastprof.batch(logdir, "steps", executor=made, retries=0, on_error="skip")
    runs = {run.name: reports["steps"] for run, reports in found}
    for number, name in enumerate(RUNS):
        expected = fastprof.load(logdir, run=name)
        expected = expected.select(hosts="host0") if number == broken else expected
        assert runs[name].tables["steps"].equals(expected.steps().tables["steps"]), name


def test_a_broken_run_is_an_error_when_its_turn_comes(logdir: Path) -> None:
    (logdir / "plugins/profile" / RUNS[0] / "host1.xplane.pb").write_bytes(b"no capture")
    found = fastprof.batch(logdir, "steps", executor=Made())
    assert next(found)[0].name == RUNS[1]
    with pytest.raises(CaptureError, match="host1"):
        next(found)
    closed = fastprof.batch(logdir, "steps", executor=(executor := TestExecutor()))
    next(closed)
    closed.close()
    assert executor.alive


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
