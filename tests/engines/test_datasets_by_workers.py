"""Datasets that workers write: whatever becomes of these, the bytes are those of one process."""

from __future__ import annotations

import json
import shutil
from concurrent.futures import BrokenExecutor
from pathlib import Path
from typing import Any

import pytest
from equal_reports import DEMO
from faulty_executors import Hang, Made, TestExecutor

import fastprof
from fastprof import CaptureError, OutputError
from fastprof.engines.worker import keep_files
from fastprof.export import dataset_files
from fastprof.export.by_workers import WriteGroup
from fastprof.export.destinations import LocalFolder
from fastprof.profile.profile import Profile
from fastprof.tables.table_set import TABLES

SMALL = ("lines", "nesting", "import_log")


@pytest.fixture
def pod(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run of three hosts, in turn those of the demo; two share files."""
    (source,) = (DEMO / "pod/plugins/profile").iterdir()
    (tmp_path / "pod").mkdir()
    for number in range(3):
        shutil.copy(source / f"host{number % 2}.xplane.pb", tmp_path / f"pod/host{number}.xplane.pb")
    monkeypatch.setattr(dataset_files, "LARGEST_GROUP", 25_000)
    return tmp_path / "pod"


def load(path: Any, **how: Any) -> Profile:
    return fastprof.load(path, threads=1, **how)


def contents(out: Path) -> dict[str, bytes]:
    return {path.relative_to(out).as_posix(): path.read_bytes() for path in out.rglob("*") if path.is_file()}


def check_as_one(profile: Profile, other: Profile, place: Path, **how: Any) -> None:
    other.to_parquet(place / "one", **how)
    profile.to_parquet(place / "out", **how)
    expected, found = contents(place / "one"), contents(place / "out")
    assert sorted(found) == sorted(expected)
    assert [name for name, data in expected.items() if found[name] != data] == []


def writing(task: Any, *numbers: int) -> bool:
    return isinstance(task.work, WriteGroup) and task.number in numbers


def test_all_tables_whatever_the_order_of_answers(pod: Path) -> None:
    executor = TestExecutor(lambda held: held[::-1])
    profile = load(pod, executor=executor)
    check_as_one(profile, load(pod), pod.parent, tables=tuple(TABLES))
    assert sorted(executor.given) == [0, 0, 1, 1, 2], "three hosts are described, two groups written"
    assert "_of_all_steps" not in profile.__dict__, "the session was opened here"


def test_reports_and_some_events_of_some_hosts(pod: Path) -> None:
    chosen: dict[str, Any] = {"steps": (1, 3), "hosts": ["host1", "host2"], "names": "dot|fusion"}
    profile = load(pod, executor=TestExecutor()).select(**chosen)
    check_as_one(profile, load(pod).select(**chosen), pod.parent, tables=["events", *SMALL], reports=["steps"])


def test_runs_and_files_of_several_hosts_with_flows(pod: Path) -> None:
    event = '{"ph":"%s","name":"n","cat":"c","id":1,"pid":1,"tid":1,"ts":%d%s}'
    flow = [event % ("X", 1, ',"dur":5'), event % ("s", 2, ""), event % ("f", 4, ',"bp":"e"')]
    (pod / "trace").mkdir()
    trace, other = pod / "trace/trace.json", pod.parent / "other.json.gz"
    trace.write_text(f"[{','.join(flow)}]")
    load(pod).select(hosts=["host0", "host1"]).to_trace(other, format="chrome")
    files = [trace, other, pod / "host0.xplane.pb"]
    for number, some in enumerate([files, files[:1]]):
        (place := pod.parent / str(number)).mkdir()
        how: dict[str, Any] = {"as_hosts": True} if len(some) > 1 else {}
        check_as_one(load(some, executor=TestExecutor(), **how), load(some, **how), place)
    runs = [pod, pod / "trace"]
    (pod.parent / "both").mkdir()
    check_as_one(load(runs, executor=TestExecutor()), load(runs), pod.parent / "both", tables=["flows", *SMALL])


def test_progress_counts_files_and_groups(pod: Path) -> None:
    seen: list[tuple[str, int, int]] = []
    load(pod, executor=TestExecutor(), progress=lambda *one: seen.append(one)).to_parquet(pod.parent / "out")
    assert seen == [("indexing", done, 3) for done in (1, 2, 3)] + [("exporting", done, 2) for done in (1, 2)]


@pytest.mark.parametrize("how", ["twice", "killed", "late"])
def test_groups_that_are_written_twice(pod: Path, how: str) -> None:
    left = [1]

    def before(task: Any) -> None:
        if writing(task, 1) and left[0]:
            left[0] -= 1
            assert keep_files(task).fault is None  # its files are there
            if how == "killed":
                raise BrokenExecutor("a process ended")
            if how == "late":
                raise Hang

    made = Made(before=before)
    profile = load(pod, executor=made, host_timeout=0.4 if how == "late" else None)
    check_as_one(profile, load(pod), pod.parent, tables=("events", *SMALL))
    assert left == [0]


def test_a_broken_host_is_an_error_or_left_out(pod: Path) -> None:
    path = pod / "host0.xplane.pb"
    path.write_bytes(path.read_bytes()[:5_000])
    with pytest.raises(CaptureError, match="host0"):
        load(pod, executor=TestExecutor()).to_parquet(pod.parent / "out")
    assert not (pod.parent / "out").exists()
    how = {"on_error": "skip"}
    check_as_one(load(pod, executor=TestExecutor(), **how), load(pod, **how), pod.parent, tables=["events", *SMALL])


def test_a_group_that_cannot_be_written_is_a_fault(pod: Path) -> None:
    def before(task: Any) -> None:
        if writing(task, 1):
            raise BrokenExecutor("a process ended")

    out = pod.parent / "out"
    load(pod, executor=Made(before=before), retries=0, on_error="skip").to_parquet(out, tables=SMALL)
    (fault,) = json.loads((out / "_fastprof/runs/pod.json").read_text())["faults"]
    assert fault["code"] == "skipped_host" and "killed 1 time" in fault["example"]
    assert sorted(name for name in contents(out) if name.startswith("nesting")) == [
        "nesting/run=pod/host-00000-00001-0.parquet"
    ]


def test_workers_of_another_machine(pod: Path) -> None:
    def elsewhere(task: Any) -> None:
        if writing(task, 0, 1):
            place = LocalFolder(str(pod.parent / "of another machine"), "out")
            object.__setattr__(task.work.files, "destination", place)

    with pytest.raises(OutputError, match="the files of a worker are not here: workers need the file systems"):
        load(pod, executor=TestExecutor(before=elsewhere)).to_parquet(pod.parent / "out", tables=SMALL)
    assert not (pod.parent / "out/_fastprof/runs").exists()
