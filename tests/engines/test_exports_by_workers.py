"""Hosts that workers export: whatever becomes of these, the files are those of one process, byte for byte."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from concurrent.futures import BrokenExecutor
from pathlib import Path
from typing import Any

import pytest
from equal_reports import DEMO
from faulty_executors import Hang, Made, TestExecutor

import fastprof
from fastprof import CaptureError, OutputError, UsageError
from fastprof.engines.worker import keep_host
from fastprof.export import folders, writers
from fastprof.export.by_workers import WriteHosts
from fastprof.profile.profile import Profile
from fastprof.tables.table_set import TABLES

SMALL = ("lines", "nesting", "import_log")


@pytest.fixture
def pod(tmp_path: Path) -> Path:
    """A run of three hosts, in turn those of the demo."""
    (source,) = (DEMO / "pod/plugins/profile").iterdir()
    (tmp_path / "pod").mkdir()
    for number in range(3):
        shutil.copy(source / f"host{number % 2}.xplane.pb", tmp_path / f"pod/host{number}.xplane.pb")
    return tmp_path / "pod"


def load(path: Any, **how: Any) -> Profile:
    return fastprof.load(path, threads=1, **how)


def contents(out: Path) -> dict[str, bytes]:
    return {path.relative_to(out).as_posix(): path.read_bytes() for path in out.rglob("*") if path.is_file()}


def check_as_one(profile: Profile, other: Profile, place: Path, **how: Any) -> None:
    """``place``: holds nothing but the captures."""
    before = sorted(place.iterdir())
    expected = contents(folders.write(other, place / "one", **how))
    found = contents(folders.write(profile, place / "out", **how))
    assert list(expected) and sorted(found) == sorted(expected)
    assert [name for name, data in expected.items() if found[name] != data] == []
    assert sorted(place.iterdir()) == sorted([*before, place / "one", place / "out"]), "something is left"
    assert "_of_all_steps" not in profile.__dict__, "the session was opened here"


def writing(task: Any, *numbers: int) -> bool:
    return isinstance(task.work, WriteHosts) and task.number in numbers


# ---- answers


@pytest.mark.parametrize("format", ["parquet", "csv"])
def test_all_tables_whatever_the_order_of_answers(pod: Path, format: str) -> None:
    executor = TestExecutor(lambda held: held[::-1])
    tables = tuple(TABLES) if format == "parquet" else SMALL
    (pod / "host2.xplane.pb").unlink()
    check_as_one(load(pod, executor=executor), load(pod), pod.parent, tables=tables, format=format)
    assert sorted(executor.given) == [0, 0, 1, 1], "hosts are counted, then written"


def test_some_events_of_some_hosts(pod: Path) -> None:
    chosen: dict[str, Any] = {"steps": (1, 3), "hosts": ["host1", "host2"], "names": "dot|fusion"}
    profile = load(pod, executor=TestExecutor()).select(**chosen)
    check_as_one(profile, load(pod).select(**chosen), pod.parent, tables=["events", *SMALL])
    for nothing in ({"hosts": []}, {"tables": []}):
        with pytest.raises(UsageError, match="nothing to export"):
            some = load(pod).select(hosts=nothing.get("hosts"))
            folders.write(some, pod.parent / "x", tables=nothing.get("tables"))


def test_runs_and_files_of_several_hosts_with_flows(pod: Path) -> None:
    """Ids count on from run to run, also from one that is not selected. A file has hosts of two names."""
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
    profile, one = load(runs, executor=TestExecutor()), load(runs)
    assert profile.has_runs
    for place, names in (("both", None), ("second", list(one.runs)[1])):
        (pod.parent / place).mkdir()
        check_as_one(profile.select(runs=names), one.select(runs=names), pod.parent / place, tables=["flows", *SMALL])


def test_progress_counts_files(pod: Path) -> None:
    seen: list[tuple[str, int, int]] = []
    folders.write(
        load(pod, executor=TestExecutor()), pod.parent / "out", tables=["lines"], progress=lambda *one: seen.append(one)
    )
    assert seen == [(stage, done + 1, 3) for stage in ("indexing", "exporting") for done in range(3)]


# ---- workers


@pytest.mark.parametrize("how", ["twice", "killed", "late"])
def test_of_hosts_that_are_written_twice_nothing_is_left(pod: Path, how: str) -> None:
    left = [1]

    def before(task: Any) -> None:
        if writing(task, 1) and left[0]:
            left[0] -= 1
            assert keep_host(task).fault is None  # its files are there
            if how == "killed":
                raise BrokenExecutor("a process ended")
            if how == "late":
                raise Hang

    made = Made(before=before)
    profile = load(pod, executor=made, host_timeout=0.4 if how == "late" else None)
    check_as_one(profile, load(pod), pod.parent, tables=SMALL)
    assert left == [0] and len(made.made) == (1 if how == "twice" else 2)


def test_a_broken_host_is_an_error_or_left_out(pod: Path) -> None:
    path = pod / "host0.xplane.pb"
    path.write_bytes(path.read_bytes()[:5_000])
    with pytest.raises(CaptureError, match="host0"):
        folders.write(load(pod, executor=TestExecutor()), pod.parent / "out")
    assert [one.name for one in pod.parent.iterdir()] == ["pod"]
    how = {"on_error": "skip"}
    check_as_one(load(pod, executor=TestExecutor(), **how), load(pod, **how), pod.parent, tables=["events", *SMALL])


def test_a_host_that_cannot_be_written_is_left_out_and_keeps_its_ids(pod: Path) -> None:
    def before(task: Any) -> None:
        if writing(task, 0):
            raise BrokenExecutor("a process ended")

    profile = load(pod, executor=Made(before=before), retries=0, on_error="skip")
    found = contents(folders.write(profile, pod.parent / "out", tables=SMALL))
    expected = contents(folders.write(load(pod), pod.parent / "one", tables=SMALL))
    for name in ("lines/host=host1/part-0.parquet", "nesting/host=host2/part-0.parquet"):
        assert found[name] == expected[name]
    assert not [name for name in found if "host0" in name] and b"host0" not in found["session.json"]
    (row,) = profile.remarks().to_pylist()
    assert row["code"] == "skipped_host" and "killed 1 time" in row["example"]


# ---- folders


def test_folders_that_cannot_be_written(pod: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = pod.parent / "out"

    def elsewhere(task: Any) -> None:
        if writing(task, 0, 1, 2):
            object.__setattr__(task.work, "parts", str(pod / "of another machine"))

    def removed(task: Any) -> None:
        if writing(task, 0, 1, 2):
            shutil.rmtree(task.work.parts, ignore_errors=True)

    def made(task: Any) -> None:
        if writing(task, 0):
            out.mkdir()
        assert not writing(task, 2), "the export should have ended"

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    def check_fails(match: str, before: Callable[[Any], None] = lambda _: None) -> None:
        with pytest.raises(OutputError, match=match) as found:
            load(pod, executor=TestExecutor(before=before), on_error="skip").to_parquet(
                out, tables=["lines"], layout="paths"
            )
        assert found.value.path == str(out)
        assert [one.name for one in pod.parent.iterdir()] == ["pod"], "something is left"

    check_fails("a worker does not see it: workers need the file systems of this machine", elsewhere)
    check_fails("the hidden folder beside it, in which it was written, was removed in the meantime", removed)
    with pytest.raises(OutputError, match="already exists: it was created in the meantime"):
        load(pod, executor=TestExecutor(before=made), in_flight=1).to_parquet(out, tables=["lines"], layout="paths")
    out.rmdir()
    with pytest.raises(OutputError, match="already exists: it was created in the meantime"):
        folders.write(load(pod), out, progress=lambda *_: out.mkdir())
    out.rmdir()
    with monkeypatch.context() as patched:
        patched.setattr(writers.ParquetWriter, "write", full)
        check_fails("cannot write: No space left on device")
    out.mkdir()
    with pytest.raises(OutputError, match="already exists"):
        load(pod, executor=TestExecutor()).to_parquet(out, layout="paths")


def test_an_interrupt_leaves_nothing(pod: Path) -> None:
    def interrupt(stage: str, done: int, total: int) -> None:  # noqa: ARG001
        if stage == "exporting":
            raise KeyboardInterrupt

    executor = TestExecutor()
    with pytest.raises(KeyboardInterrupt):
        folders.write(load(pod, executor=executor), pod.parent / "out", progress=interrupt)
    assert [one.name for one in pod.parent.iterdir()] == ["pod"]
