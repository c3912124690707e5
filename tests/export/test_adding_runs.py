"""Runs that are added to a dataset: again, by several writers, by writers that are killed, with other content."""

from __future__ import annotations

import errno
import json
import os
import random
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest
from exported import capture, kill_export, put_run
from gate import left_to_test_all, rounds

import fastprof
from fastprof.cli.main import main
from fastprof.export import dataset_files, destinations, run_manifests, writers

ROOT = Path(__file__).resolve().parents[2]
TABLES = ["hosts", "lines", "events", "import_log"]


def contents(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def put_runs(folder: Path, count: int) -> Path:
    """A log directory of runs, each with content of its own."""
    for number in range(count):
        run = folder / "plugins/profile" / f"run{number:03}"
        run.mkdir(parents=True)
        for host in range(1 + number % 2):
            (run / f"vm{host}.xplane.pb").write_bytes(capture(host, steps=2 + number % 7))
    return folder


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return put_run(tmp_path / "run")


# ---- again ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("threads", [1, 2])
def test_the_same_run_is_the_same_bytes(threads: int, run: Path, tmp_path: Path) -> None:
    fastprof.load(run).to_parquet(tmp_path / "out")
    fastprof.load(run, threads=threads).to_parquet(tmp_path / "again")
    assert contents(tmp_path / "again") == contents(tmp_path / "out")


def test_a_run_that_is_there_is_left_alone(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    assert main(["export", str(run), "-o", str(out)]) == 0
    assert capsys.readouterr().err == f"fastprof: Wrote {out}\n"
    before = contents(out)

    def fail(*_: Any) -> None:
        raise AssertionError("nothing should be written")

    monkeypatch.setattr(writers.ParquetWriter, "write", fail)
    for flags in ([], ["--replace"]):
        assert main(["export", str(run), "-o", str(out), *flags]) == 0
        assert capsys.readouterr().err == f"fastprof: {out} has the run run already; nothing to do\n"
    assert contents(out) == before


def test_other_content_under_a_name_is_refused_or_replaced(run: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    fastprof.load(run).to_parquet(out, tables=TABLES)
    before = contents(out)
    (run / "vm1.xplane.pb").write_bytes(capture(1, steps=3))
    with pytest.raises(fastprof.OutputError, match=r"has the run 'run' with other captures; replace it with --replace"):
        fastprof.load(run).to_parquet(out, tables=TABLES)
    with pytest.raises(fastprof.OutputError, match="with other captures"):
        fastprof.load(run).select(hosts="vm0").to_parquet(out, tables=TABLES)
    assert contents(out) == before
    fastprof.load(run).to_parquet(out, tables=[*TABLES, "planes"], replace=True)
    after = contents(out)
    assert not {name for name in before if name.endswith(".parquet")} & {*after}
    assert ds.dataset(out / "events").count_rows() == fastprof.load(run).events.num_rows
    with pytest.raises(fastprof.OutputError, match="with other tables, reports or filters"):
        fastprof.load(run).to_parquet(out, tables=TABLES)
    fastprof.load(run).to_parquet(out, tables=TABLES, force=True)
    assert "planes" not in {name.split("/")[0] for name in contents(out)}


def test_runs_of_one_name_from_different_places(tmp_path: Path) -> None:
    """The second one gets the digest of its content; each is found again."""
    for place, steps in (("a", 3), ("b", 4)):
        folder = tmp_path / place / "plugins/profile/r"
        folder.mkdir(parents=True)
        (folder / "vm.xplane.pb").write_bytes(capture(0, steps=steps))
    for _ in range(2):
        for place in ("a", "b"):
            fastprof.load(tmp_path / place).to_parquet(tmp_path / "out", tables=TABLES)
    runs = ds.dataset(tmp_path / "out" / "runs").to_table()
    assert sorted(runs["name"].to_pylist()) == ["r", "r"]
    first, second = sorted(runs["run"].to_pylist())
    content = json.loads((tmp_path / f"out/_fastprof/runs/{second}.json").read_text())["content"]
    assert (first, second) == ("r", f"r~{content[:8]}")
    shutil.copytree(tmp_path / "a", tmp_path / "c")
    fastprof.load(tmp_path / "c").to_parquet(tmp_path / "out", tables=TABLES)
    assert len(list((tmp_path / "out/_fastprof/runs").iterdir())) == 2, "a copy is the same content"


@pytest.mark.parametrize("name", [".hidden", "..", "a.partial", "日本語"])
def test_runs_of_odd_names_are_added_beside_others(name: str, run: Path, tmp_path: Path) -> None:
    folder = tmp_path / "logs/plugins/profile" / (name if name != ".." else "...")
    folder.mkdir(parents=True)
    (folder / "vm.xplane.pb").write_bytes(capture(0))
    for path in (folder, run, folder):
        fastprof.load(path).to_parquet(tmp_path / "out", tables=TABLES)
    assert ds.dataset(tmp_path / "out/runs").to_table(["run"]).num_rows == 2
    assert len(list((tmp_path / "out/_fastprof/runs").iterdir())) == 2


def test_a_dataset_of_another_version(run: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    fastprof.load(run).to_parquet(out, tables=TABLES)
    known = out / "_fastprof/format.json"
    other = put_run(tmp_path / "other", ["vm"])
    for text, says in (
        ('{"layout": 1, "schema_version": "99"}', "has layout 1 and schema 99, newer than this fastprof's"),
        ('{"layout": 2, "schema_version": "1"}', "has layout 2 and schema 1, newer"),
        ('{"layout": 1, "sche', "format.json is damaged"),
        ('{"layout": 1}', "format.json is damaged"),
    ):
        known.write_text(text)
        with pytest.raises(fastprof.OutputError, match=says):
            fastprof.load(other).to_parquet(out, tables=TABLES)
    known.write_text('{"layout": 1, "schema_version": "2"}')
    fastprof.load(other).to_parquet(out, tables=TABLES)
    assert ds.dataset(out / "runs").count_rows() == 2


def test_a_folder_of_other_things_is_refused(run: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    fastprof.load(run).to_parquet(out, layout="paths")
    before = contents(out)
    with pytest.raises(fastprof.OutputError, match=r"contains 'session\.json' and is not a"):
        fastprof.load(run).to_parquet(out, force=True)
    assert contents(out) == before


def test_a_broken_host_is_no_run_or_a_fault_of_it(run: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    path = run / "vm1.xplane.pb"
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(fastprof.CaptureError):
        fastprof.load(run).to_parquet(out)
    assert not (out / "_fastprof/runs").exists()
    fastprof.load(run, on_error="skip").to_parquet(out)
    (fault,) = json.loads((out / "_fastprof/runs/run.json").read_text())["faults"]
    assert (fault["code"], fault["path"]) == ("skipped_host", str(path))
    assert ds.dataset(out / "hosts").to_table(["host"]).to_pylist() == [{"host": "vm0"}]


# ---- several writers --------------------------------------------------------------------------------


def test_another_writer_of_the_same_content_comes_first(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    fastprof.load(run).to_parquet(tmp_path / "alone", tables=TABLES)
    real = run_manifests.RunWriter.commit

    def commit(self: Any, *args: Any) -> None:
        monkeypatch.setattr(run_manifests.RunWriter, "commit", real)
        fastprof.load(run).to_parquet(out, tables=TABLES)
        real(self, *args)

    monkeypatch.setattr(run_manifests.RunWriter, "commit", commit)
    fastprof.load(run).to_parquet(out, tables=TABLES)
    assert contents(out) == contents(tmp_path / "alone")


def test_another_writer_of_other_content_comes_first(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first manifest counts: the other writer fails, and takes its files away."""
    out = tmp_path / "out"
    fastprof.load(run).to_parquet(tmp_path / "alone", tables=["lines"])
    real = run_manifests.RunWriter.commit

    def commit(self: Any, *args: Any) -> None:
        monkeypatch.setattr(run_manifests.RunWriter, "commit", real)
        fastprof.load(run).to_parquet(out, tables=["lines"])
        real(self, *args)

    monkeypatch.setattr(run_manifests.RunWriter, "commit", commit)
    with pytest.raises(fastprof.OutputError, match="was added by another process in the meantime, with other content"):
        fastprof.load(run).to_parquet(out, tables=TABLES)
    listed = {file["name"] for file in json.loads((out / "_fastprof/runs/run.json").read_text())["files"]}
    assert {name for name in contents(out) if not name.startswith("_fastprof/")} == listed
    assert ds.dataset(out / "lines").to_table() == ds.dataset(tmp_path / "alone/lines").to_table()


def test_two_writers_replace_a_run(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last manifest counts, and its files are there."""
    out = tmp_path / "out"
    fastprof.load(run).to_parquet(out, tables=["lines"])
    real = run_manifests.RunWriter.commit

    def commit(self: Any, *args: Any) -> None:
        monkeypatch.setattr(run_manifests.RunWriter, "commit", real)
        first = run_manifests.RunWriter.commit

        def last(other: Any, *of_other: Any) -> None:
            first(self, *args)  # the one that began first commits while the other one has written its files
            first(other, *of_other)

        with monkeypatch.context() as patch:
            patch.setattr(run_manifests.RunWriter, "commit", last)
            fastprof.load(run).to_parquet(out, tables=["lines", "planes"], replace=True)

    monkeypatch.setattr(run_manifests.RunWriter, "commit", commit)
    fastprof.load(run).to_parquet(out, tables=["lines", "hosts"], replace=True)
    listed = {file["name"] for file in json.loads((out / "_fastprof/runs/run.json").read_text())["files"]}
    assert {name for name in contents(out) if not name.startswith("_fastprof/")} == listed
    assert {name.split("/")[0] for name in listed} == {"lines", "planes", "runs"}
    assert not (out / "_fastprof/begun").exists()


ADD = """\
import sys
from fastprof.cli.main import main
sys.exit(main(["export", sys.argv[1], "--all-runs", "-o", sys.argv[2], "-q"]))
"""


def start(logs: Path, out: Path) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen([sys.executable, "-c", ADD, str(logs), str(out)], env=environment)


def check_many_runs(count: int, kills: int, tmp_path: Path, seed: int) -> None:
    """Runs are added one by one, twice, by two processes at once, while a third one is killed again and again."""
    logs = put_runs(tmp_path / "logs", count)
    for run in fastprof.runs(logs)[::-1]:
        for _ in range(2):
            fastprof.load(run).to_parquet(tmp_path / "alone")
    out, random_ = tmp_path / "out", random.Random(seed)
    for _ in range(kills):
        victim = start(logs, out)
        try:
            victim.wait(random_.uniform(0.2, 1.5))
        except subprocess.TimeoutExpired:
            victim.send_signal(signal.SIGKILL)
        victim.wait()
    assert [process.wait(600) for process in [start(logs, out), start(logs, out)]] == [0, 0]
    expected, there = contents(tmp_path / "alone"), contents(out)
    assert sorted(there) == sorted(expected), {*there} ^ {*expected}
    assert [name for name, data in expected.items() if there[name] != data] == []
    rows = ds.dataset(out / "events").to_table(["run"])["run"].value_counts().to_pylist()
    assert {row["values"]: row["counts"] for row in rows} == {
        run.name: fastprof.load(run).events.num_rows for run in fastprof.runs(logs)
    }


def test_many_runs(tmp_path: Path) -> None:
    check_many_runs(rounds(20, 8), rounds(6, 2), tmp_path, seed=1)


@left_to_test_all
def test_a_hundred_runs(tmp_path: Path) -> None:
    check_many_runs(100, 12, tmp_path, seed=2)


@pytest.mark.parametrize("step", range(1, 9))
def test_killed_at_each_step(step: int, run: Path, tmp_path: Path) -> None:
    """Whatever had its name already: the next writer of the run makes it right, and nothing is left over."""
    out = tmp_path / "out"
    fastprof.load(run).to_parquet(tmp_path / "alone", tables=TABLES)
    kill_export(run, out, step, "os.replace", "os.link")
    assert not (out / "_fastprof/runs/run.json").exists()
    fastprof.load(run).to_parquet(out, tables=TABLES)
    assert contents(out) == contents(tmp_path / "alone")


@pytest.mark.parametrize("replace", [False, True])
def test_killed_after_the_manifest(replace: bool, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is left is deleted by the next writer of the run, though there is nothing to add."""
    out = tmp_path / "out"
    fastprof.load(run).to_parquet(tmp_path / "alone", tables=TABLES)
    if replace:
        fastprof.load(run).to_parquet(out, tables=["planes", "lines"])

    def clean(*_: Any) -> None:
        (out / "lines/run=run/.x.partial").touch()
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(run_manifests.RunWriter, "_clean", clean)
        fastprof.load(run).to_parquet(out, tables=TABLES, replace=True)
    assert main(["export", str(run), "--tables", ",".join(TABLES), "-o", str(out), "-q"]) == 0
    left, alone = contents(out), contents(tmp_path / "alone")
    listed = {file["name"] for file in json.loads(left["_fastprof/runs/run.json"])["files"]}
    assert {*left} == listed | {"_fastprof/format.json", "_fastprof/runs/run.json"} and len(left) == len(alone)
    assert replace or left == alone


def test_a_capture_that_changed_after_its_writer_was_killed(run: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    kill_export(run, out, 6, "os.replace", "os.link")
    left = {name for name in contents(out) if name.endswith(".parquet")}
    (run / "vm1.xplane.pb").write_bytes(capture(1, steps=3))
    fastprof.load(run).to_parquet(out, tables=TABLES)
    assert left and not left & {*contents(out)}
    assert ds.dataset(out / "events").count_rows() == fastprof.load(run).events.num_rows
    assert len(contents(out)) == len(TABLES) + 3


# ---- what goes wrong in the middle ------------------------------------------------------------------


@pytest.mark.parametrize("step", ["__init__", "write", "close"])
@pytest.mark.parametrize("calls", [0, 2])
def test_a_full_disk(step: str, calls: int, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, left = getattr(writers.ParquetWriter, step), [calls]

    def method(*args: Any) -> Any:
        left[0] -= 1
        if left[0] < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(*args)

    with monkeypatch.context() as patch:
        patch.setattr(writers.ParquetWriter, step, method)
        with pytest.raises(fastprof.OutputError, match="cannot write: No space left on device") as caught:
            fastprof.load(run).to_parquet(tmp_path / "out", tables=TABLES)
    assert caught.value.path == str(tmp_path / "out")
    assert not (tmp_path / "out/_fastprof/runs").exists()
    assert not [name for name in contents(tmp_path / "out") if ".partial" in name]
    fastprof.load(run).to_parquet(tmp_path / "out", tables=TABLES)
    fastprof.load(run).to_parquet(tmp_path / "alone", tables=TABLES)
    assert contents(tmp_path / "out") == contents(tmp_path / "alone")


def test_places_that_cannot_be_written(run: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"precious")
    for out in (tmp_path / "file", tmp_path / "file" / "out", Path("/proc/self/out")):
        with pytest.raises(fastprof.OutputError, match=r"cannot (write|read)"):
            fastprof.load(run).to_parquet(out)
    assert (tmp_path / "file").read_bytes() == b"precious"


def test_a_local_destination(tmp_path: Path) -> None:
    place = destinations.open_destination(tmp_path / "out")
    assert place.read("a/b") is None and list(place.list("")) == []
    assert place.put_new("a/b", b"1") and not place.put_new("a/b", b"2")
    place.put("a/c", b"3")
    place.put("a/c", b"4")
    with pytest.raises(KeyError), place.open_writer("a/d") as sink:
        sink.write(b"5")
        assert list(place.list("")) == ["a/b", "a/c"], "what is being written is not listed"
        raise KeyError
    (tmp_path / "out/a/.x.partial").touch()
    assert list(place.list("a/")) == ["a/.x.partial", "a/b", "a/c"], "what a killed writer left is"
    for name in ("a/.x.partial", "a/b", "a/c", "a/c"):
        place.delete(name)
    assert list(place.list("")) == [] and not (tmp_path / "out/a").exists()
    assert isinstance(dataset_files.LARGEST_GROUP, int)


# ---- all runs ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("jobs", [[], ["--jobs", "2"]])
def test_all_runs_of_a_log_directory(jobs: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    logs, out = put_runs(tmp_path / "logs", 4), tmp_path / "out"
    fastprof.load(fastprof.runs(logs)[1]).to_parquet(out)
    broken = logs / "plugins/profile/run000/vm0.xplane.pb"
    whole = broken.read_bytes()
    broken.write_bytes(whole[:-9])
    command = ["export", str(logs), "--all-runs", "-o", str(out), *jobs]
    assert main(command) == 4
    err = capsys.readouterr().err
    assert f"run000: {broken}: " in err and f"added 2 runs to {out}; it had 1 already\n" in err
    broken.write_bytes(whole)
    assert main(command) == 0
    assert capsys.readouterr().err == f"fastprof: added 1 run to {out}; it had 3 already\n"
    assert ds.dataset(out / "runs").count_rows() == 4
    assert main([*command, "--run", "x"]) == 2
    assert main(["export", str(logs), str(logs), "--all-runs", "-o", str(out)]) == 2
