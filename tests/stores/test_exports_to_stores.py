"""Datasets in stores: the objects of a local one, byte for byte; runs added again, by several writers, after a kill."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest
from exported import capture, kill_export, put_run
from object_server import ObjectServer, Request

import fastprof
from fastprof.cli.main import main
from fastprof.engines import processes
from fastprof.export import destinations, run_manifests
from fastprof.inputs.stores import store_path

ROOT = Path(__file__).resolve().parents[2]
TABLES = ["hosts", "lines", "events", "import_log"]
OUT = "s3://bucket/out"


def contents(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def stored(server: ObjectServer) -> dict[str, bytes]:
    """The objects below s3://bucket/out; pyarrow makes one for a folder whose last object it deleted."""
    there = {key.removeprefix("out/"): data for key, data in server.objects.items() if key.startswith("out/")}
    return {name: data for name, data in there.items() if not name.endswith("/")}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return put_run(tmp_path / "run")


@pytest.mark.parametrize("client", ["obstore", "pyarrow"])
def test_a_run_is_added_twice(
    client: str,
    server: ObjectServer,
    run: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(store_path, "has_obstore", lambda: client == "obstore")
    fastprof.load(run).to_parquet(tmp_path / "local")
    assert main(["export", str(run), "-o", OUT]) == 0
    assert capsys.readouterr().err == f"fastprof: Wrote {OUT}\n"
    assert stored(server) == contents(tmp_path / "local")
    server.forget()
    assert main(["export", str(run), "-o", OUT]) == 0
    assert capsys.readouterr().err == f"fastprof: {OUT} has the run run already; nothing to do\n"
    assert server.count("PUT") == server.count("POST") == 0
    assert fastprof.export.write(fastprof.load(run), OUT) == OUT
    assert not server.uploads


@pytest.mark.parametrize("name", ["a b", "日本語", "a=b%20c"])
def test_names_of_runs_are_those_of_files(name: str, server: ObjectServer, tmp_path: Path) -> None:
    folder = tmp_path / "logs/plugins/profile" / name
    folder.mkdir(parents=True)
    (folder / "vm.xplane.pb").write_bytes(capture(0))
    for out in (OUT, tmp_path / "local"):
        fastprof.load(folder).to_parquet(out, tables=TABLES)
    fastprof.load(folder).to_parquet(OUT, tables=[*TABLES, "planes"], replace=True)
    fastprof.load(folder).to_parquet(tmp_path / "local", tables=[*TABLES, "planes"], replace=True)
    assert stored(server) == contents(tmp_path / "local")


def test_workers_write_to_the_store(server: ObjectServer, run: Path, tmp_path: Path) -> None:
    fastprof.load(run).to_parquet(tmp_path / "local", reports=["overview"])
    fastprof.load(run, executor=processes(2)).to_parquet(OUT, reports=["overview"])
    assert stored(server) == contents(tmp_path / "local")


def test_all_runs_by_processes_from_store_to_store(server: ObjectServer, run: Path) -> None:
    for host in ("vm0", "vm1"):
        server.objects[f"logs/plugins/profile/second/{host}.xplane.pb"] = (run / f"{host}.xplane.pb").read_bytes()
    assert main(["export", "s3://bucket/logs", "--all-runs", "-o", OUT, "--jobs", "2", "-q"]) == 0
    manifests = [name for name in stored(server) if name.startswith("_fastprof/runs/")]
    assert sorted(manifests) == ["_fastprof/runs/2026_11_21_09_58_38.json", "_fastprof/runs/second.json"]


@pytest.mark.parametrize("is_same", [True, False])
def test_another_writer_comes_first(
    is_same: bool, server: ObjectServer, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first manifest counts: one with other content fails, and takes its files away."""
    first = TABLES if is_same else ["lines"]
    fastprof.load(run).to_parquet(tmp_path / "alone", tables=first)
    real = run_manifests.RunWriter.commit

    def commit(self: Any, *args: Any) -> None:
        monkeypatch.setattr(run_manifests.RunWriter, "commit", real)
        fastprof.load(run).to_parquet(OUT, tables=first)
        real(self, *args)

    monkeypatch.setattr(run_manifests.RunWriter, "commit", commit)
    if is_same:
        fastprof.load(run).to_parquet(OUT, tables=TABLES)
        assert stored(server) == contents(tmp_path / "alone")
        return
    with pytest.raises(fastprof.OutputError, match="was added by another process in the meantime, with other content"):
        fastprof.load(run).to_parquet(OUT, tables=TABLES)
    assert {name.split("/")[0] for name in stored(server)} == {"_fastprof", "lines", "runs"}


def test_one_of_two_writers_puts_a_new_object(server: ObjectServer) -> None:
    destination = destinations.open_destination(OUT)
    other = pickle.loads(pickle.dumps(destination))
    assert [destination.put_new("a.json", b"1"), other.put_new("a.json", b"2")] == [True, False]
    assert other.read("a.json") == b"1" and other.read("b.json") is None
    other.put("b/c.json", b"3")
    assert [*destination.list("")] == ["a.json", "b/c.json"]
    other.delete("a.json")
    other.delete("a.json")
    assert [*destination.list("")] == ["b/c.json"] == [*destination.list("b/")]
    assert {*server.objects} > {"out/b/c.json"}


@pytest.mark.parametrize("step", [2, 5, 8])
def test_killed_before_the_manifest(step: int, server: ObjectServer, run: Path, tmp_path: Path) -> None:
    """Whatever was put already: the next writer of the run makes it right, and nothing is left over."""
    fastprof.load(run).to_parquet(tmp_path / "alone", tables=TABLES)
    kill_export(run, OUT, step, "StoreFolder.open_writer", "StoreFolder.put_new")
    assert stored(server) and "_fastprof/runs/run.json" not in stored(server)
    fastprof.load(run).to_parquet(OUT, tables=TABLES)
    assert stored(server) == contents(tmp_path / "alone")


@pytest.mark.parametrize("client", ["obstore", "pyarrow", "fsspec"])
def test_a_file_that_fails_is_absent(
    client: str, server: ObjectServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_path, "has_obstore", lambda: client == "obstore")
    out: Any = OUT
    if client == "fsspec":
        import fsspec

        out = store_path.make_store_path(str(tmp_path / "out"), filesystem=fsspec.filesystem("file"))
    destination = destinations.open_destination(out)
    with pytest.raises(ZeroDivisionError), destination.open_writer("a.parquet") as sink:
        sink.write(bytes(100))
        raise ZeroDivisionError
    assert [*destination.list("")] == []
    assert not server.uploads


def test_any_file_system_holds_a_dataset(run: Path, tmp_path: Path) -> None:
    import fsspec

    files = fsspec.filesystem("file")
    fastprof.load(run).to_parquet(tmp_path / "local", tables=TABLES)
    fastprof.load(run).to_parquet(str(tmp_path / "out"), tables=TABLES, filesystem=files)
    assert contents(tmp_path / "out") == contents(tmp_path / "local")


@pytest.mark.parametrize(("status", "says"), [("403", "the store refuses access: "), ("400", "the store cannot write")])
def test_a_store_that_refuses(status: str, says: str, server: ObjectServer, run: Path) -> None:
    def refuse(request: Request) -> str | None:
        return status if request.method in ("PUT", "POST") else None

    server.fault = refuse
    with pytest.raises(fastprof.OutputError, match=says) as caught:
        fastprof.load(run).to_parquet(OUT, tables=TABLES)
    assert caught.value.path == OUT
    assert stored(server) == {}


@pytest.mark.parametrize(
    ("out", "more", "says"),
    [
        (OUT, ["--layout", "paths"], "the layout paths needs a local folder; for a URL, use the layout dataset"),
        (OUT, ["--format", "csv", "--layout", "paths"], "the layout paths needs a local folder"),
        ("https://user:hidden@host/out?sig=hidden", [], "writing needs a folder, or a store that can be listed"),
        ("s3://bucket/out?sig=hidden", [], "credentials in a URL are not accepted"),
        ("s3://", [], "the URL has no bucket"),
    ],
)
def test_urls_that_cannot_be_written(
    out: str, more: list[str], says: str, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["export", str(run), "-o", out, *more]) == 2
    message = capsys.readouterr().err
    assert says in message and "hidden" not in message
