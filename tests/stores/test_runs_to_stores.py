"""Runs that are captured for a store: whole objects that replace nothing, or a temporary copy that stays."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
from capture.profiler_server import ProfilerServer, captured, serving
from object_server import ObjectServer
from trace_builder import event, line, plane, xspace

import fastprof
from fastprof.cli.main import main
from fastprof.errors import OutputError, UsageError
from fastprof.profile import run_upload
from fastprof.profile.run_upload import RunUpload

SAMPLE = xspace(plane("/host:CPU", [line("python", [event("work", 0, 10)])]))


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of temporary folders."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    return folder


@pytest.fixture
def take(server: ObjectServer) -> Iterator[Callable[..., int]]:
    assert server.address
    with serving(ProfilerServer(captured(SAMPLE))) as address:
        yield lambda *flags: main(["capture", address, "-o", "s3://bucket/new", "--duration", "10ms", *flags])


def list_new(server: ObjectServer) -> list[str]:
    return sorted(key for key in server.objects if key.startswith("new/"))


def test_a_capture_becomes_an_object(
    take: Callable[..., int], server: ObjectServer, temporary: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert take("--run", "first", "--hosts", "node7", "--then", "events") == 0
    assert list_new(server) == ["new/plugins/profile/first/node7.xplane.pb"]
    assert server.objects["new/plugins/profile/first/node7.xplane.pb"] == SAMPLE
    assert fastprof.load("s3://bucket/new").events.num_rows == 1
    shown = capsys.readouterr()
    assert "wrote s3://bucket/new/plugins/profile/first\n" in shown.err and "work" in shown.out
    assert list(temporary.iterdir()) == []


def test_a_named_run_is_not_added_to(
    take: Callable[..., int], server: ObjectServer, capsys: pytest.CaptureFixture[str]
) -> None:
    assert take("--run", "first", "--hosts", "a") == 0
    assert take("--run", "first", "--hosts", "b") == 3
    assert "already has a run 'first'; give the run another name" in capsys.readouterr().err
    assert len(list_new(server)) == 1


def test_captures_are_taken_again_and_again(
    take: Callable[..., int], server: ObjectServer, temporary: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert take("--count", "3", "--every", "0s", "--format", "json", "--no-checks") == 0
    documents = [json.loads(one) for one in capsys.readouterr().out.replace("}\n{", "}\0{").split("\0")]
    runs = [one["summary"]["run"].removeprefix("s3://bucket/") for one in documents]
    assert sorted(key.rpartition("/")[0] for key in list_new(server)) == sorted(runs)
    assert len(set(runs)) == 3
    assert list(temporary.iterdir()) == []
    assert take("--count", "3", "--every", "0s", "--keep", "1") == 2
    assert "a lifecycle rule of the bucket deletes old ones" in capsys.readouterr().err


def test_a_capture_that_cannot_be_uploaded_stays(
    take: Callable[..., int], server: ObjectServer, temporary: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server.fault = lambda request: "403" if request.method in ("PUT", "POST") else None
    assert take("--no-checks") == 3
    (capture,) = temporary.rglob("*.xplane.pb")
    assert capture.read_bytes() == SAMPLE
    shown = capsys.readouterr().err
    assert "s3://bucket/new: the store refuses access" in shown
    assert f"the captures are in {capture.parent}\n" in shown
    assert list_new(server) == []


@pytest.mark.parametrize("most", [0, 1 << 20])
def test_no_object_is_replaced(server: ObjectServer, monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    monkeypatch.setattr(run_upload, "_AT_ONCE", most)
    server.objects["new/plugins/profile/mine/vm.xplane.pb"] = b"of another host"
    for number in ("#2", "#3"):
        upload = RunUpload("s3://bucket/new", is_named=True)
        run = Path(upload.folder, "plugins", "profile", "mine")
        run.mkdir(parents=True)
        (run / "vm.xplane.pb").write_bytes(SAMPLE)
        assert upload.send(str(run)) == "s3://bucket/new/plugins/profile/mine"
        upload.discard()
        assert server.objects[f"new/plugins/profile/mine/vm{number}.xplane.pb"] == SAMPLE
        assert not run.exists()
    assert server.objects["new/plugins/profile/mine/vm.xplane.pb"] == b"of another host"


def test_a_time_that_another_run_has_is_not_taken(server: ObjectServer) -> None:
    upload = RunUpload("s3://bucket/new", is_named=False)
    run = Path(upload.folder, "plugins", "profile", "2026_01_01_00_00_00")
    run.mkdir(parents=True)
    (run / "vm.xplane.pb").write_bytes(SAMPLE)
    server.objects[f"new/plugins/profile/{run.name}/other.xplane.pb"] = SAMPLE
    name = upload.send(str(run)).rpartition("/")[2]
    assert name > run.name
    assert len(list_new(server)) == 2


def test_a_program_records_itself_for_a_store(
    server: ObjectServer, monkeypatch: pytest.MonkeyPatch, temporary: Path
) -> None:
    module, folders = ModuleType("jax"), list[str]()

    def stop() -> None:
        run = Path(folders[-1], "plugins", "profile", "now")
        run.mkdir(parents=True)
        (run / "vm.xplane.pb").write_bytes(SAMPLE)

    profiler = SimpleNamespace(
        ProfileOptions=SimpleNamespace,
        TraceAnnotation=object,
        start_trace=lambda folder, **_: folders.append(folder),
        stop_trace=stop,
    )
    module.__dict__.update(profiler=profiler, live_arrays=list, __version__="0.10.2", block_until_ready=list)
    for name in ("tensorflow", "torch"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setitem(sys.modules, "jax", module)
    with fastprof.record("s3://bucket/new", run="mine") as recording:
        pass
    assert recording.path == "s3://bucket/new/plugins/profile/mine"
    assert recording.profile.events.num_rows == 1
    assert list(temporary.iterdir()) == []
    server.fault = lambda request: "403" if request.method == "PUT" else None
    with (
        pytest.raises(OutputError, match=f"the captures are in {temporary}/"),
        fastprof.record("s3://bucket/new", run="other"),
    ):
        pass


def test_a_server_that_cannot_be_written_to_is_refused(server: ObjectServer, temporary: Path) -> None:
    with pytest.raises(UsageError, match="a store that can be listed"):
        RunUpload(f"{server.address}/bucket/new", is_named=False)
    assert main(["capture", "127.0.0.1:1", "-o", f"{server.address}/bucket/new"]) == 2
    assert list(temporary.iterdir()) == []
