"""``fastprof capture snapshot``: continuous profiling, by the names of today and of 2025."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path

import pytest
from profiler_server import ProfilerServer, captured, message, serving
from trace_builder import xspace

from fastprof.cli.main import main

NAMES = {
    "today": ("StartContinuousProfiling", "GetSnapshot", "StopContinuousProfiling"),
    "2025": ("ContinuousProfiling", "GetSnapShot"),
}


@pytest.mark.parametrize("year", NAMES)
def test_start_snapshot_and_stop(year: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    start, snapshot, *stop = NAMES[year]
    server = ProfilerServer(others={start: b"", snapshot: captured(xspace(b"recorded")), **dict.fromkeys(stop, b"")})
    logs = tmp_path / "logs"
    with serving(server) as address:
        assert main(["snapshot", "--start", address, "--host-level", "3", "--set", "number=7"]) == 0
        assert main(["snapshot", address, "-o", str(logs), "--hosts", "node7"]) == 0
        assert main(["snapshot", "--stop", address]) == (0 if stop else 6)
    called = dict(server.called)
    assert list(called) == list(NAMES[year])
    request = message("ProfileRequest")
    request.ParseFromString(called[start])
    assert request.opts.host_tracer_level == 3 and request.emit_xspace and not request.repository_root
    assert request.opts.advanced_configuration[0].value.int64_value == 7
    assert called[snapshot] == b""
    assert [path.name for path in logs.rglob("*") if path.is_file()] == ["node7.xplane.pb"]
    assert next(logs.rglob("*.xplane.pb")).read_bytes() == xspace(b"recorded")
    assert capsys.readouterr().out.count("done") == 1 + len(stop)


def test_snapshots_of_some_and_of_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answers = [captured(xspace(b"one")), captured(b"", empty=True)]
    with ExitStack() as stack:
        servers = [stack.enter_context(serving(ProfilerServer(others={"GetSnapshot": one}))) for one in answers]
        servers.append(stack.enter_context(serving(ProfilerServer())))
        assert main(["snapshot", *servers, "-o", str(tmp_path / "logs"), "--format", "json"]) == 5
    rows = json.loads(capsys.readouterr().out)["workers"]["rows"]
    assert [row["status"] for row in rows] == ["written", "empty", "unsupported"]
    assert len(list(tmp_path.rglob("*.xplane.pb"))) == 1


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["a:1", "--start", "-o", "logs"], "return no capture"),
        (["a:1", "--start", "--stop"], "not allowed with argument"),
    ],
)
def test_flags_of_snapshot_that_do_not_fit(words: list[str], problem: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["snapshot", *words]) == 2
    assert problem in capsys.readouterr().err
