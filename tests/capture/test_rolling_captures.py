"""``fastprof capture`` again and again; and the workers that a job lists."""

from __future__ import annotations

import argparse
import json
import signal
import time
from pathlib import Path
from typing import Any

import grpc
import pytest
from profiler_server import ProfilerServer, captured, serving
from test_capture_workers import Run, sample, take
from trace_builder import xspace

from fastprof.cli.main import main
from fastprof.cli.servers import parse_waiting_time
from fastprof.errors import UsageError
from fastprof.inputs.profiler_client.profiler_servers import list_job_addresses

__all__ = ["take"]


def test_the_newest_runs_stay_and_what_others_wrote(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = tmp_path / "logs" / "plugins" / "profile"
    (runs / "others").mkdir(parents=True)
    (runs / "others" / "vm.xplane.pb").touch()
    waits: list[float] = []
    monkeypatch.setattr(time, "sleep", waits.append)

    def profile(request: Any, _context: object) -> bytes:
        if len(server.requests) == 1:
            (runs / request.session_id / "note.txt").touch()
        return captured(sample())

    server = ProfilerServer(profile)
    with serving(server) as address:
        flags = ("--duration", "20ms", "--count", "4", "--every", "10ms", "--keep", "2", "--then", "steps")
        assert main(["capture", address, "-o", str(tmp_path / "logs"), *flags]) == 0
    sessions = [one.session_id for one in server.requests]
    assert len(set(sessions)) == 4
    assert sorted(path.name for path in runs.iterdir()) == sorted([sessions[0], *sessions[2:], "others"])
    assert [path.name for path in (runs / sessions[0]).iterdir()] == ["note.txt"]
    assert capsys.readouterr().out.count("steps source") == 1
    assert all(0 < one <= 0.1 for one in waits)


def test_a_capture_that_fails_is_followed_by_the_next(take: Run, tmp_path: Path) -> None:
    def profile(_request: Any, context: grpc.ServicerContext) -> bytes:
        if len(server.requests) == 2:
            context.abort(grpc.StatusCode.INTERNAL, "no disk")
        return captured(xspace(b"x"))

    server = ProfilerServer(profile)
    with serving(server) as address:
        ran = take(address, "--count", "3", "--every", "0s", "--keep", "5")
    assert ran.code == 5 and len(list((tmp_path / "logs").rglob("*.pb"))) == 2
    documents = ran.out.replace("}\n{", "}\0{").split("\0")
    assert [json.loads(one)["summary"]["failed"] for one in documents] == [0, 1, 0]


def test_an_interrupt_between_captures_ends_them_well(take: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "sleep", lambda _seconds: signal.raise_signal(signal.SIGINT))
    server = ProfilerServer(captured(xspace(b"x")))
    with serving(server) as address:
        assert take(address, "--every", "1h").code == 0
    assert len(server.requests) == 1


def test_times_of_minutes_and_hours() -> None:
    assert [parse_waiting_time(text) for text in ("10m", "1.5h", "2s", "3ms")] == [600, 5400, 2, 0.003]
    for wrong in ("m", "10x", "25h", "1mm", "-1m"):
        with pytest.raises(argparse.ArgumentTypeError):
            parse_waiting_time(wrong)


@pytest.mark.parametrize(
    "flags", [("--keep", "2"), ("--count", "2", "--run", "a"), ("--every", "1s", "--then", "info"),
              ("--count", "2", "--on-server")]
)  # fmt: skip
def test_flags_that_do_not_fit(take: Run, tmp_path: Path, flags: tuple[str, ...]) -> None:
    assert take("localhost:1", *flags).code == 2
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("job", "listed", "expected"),
    [
        ("slurm:9012", "node[008-010,12],login1", "node008 node009 node010 node12 login1"),
        ("slurm:9012", "a[1-2]b[3-4]-ib", "a1b3-ib a1b4-ib a2b3-ib a2b4-ib"),
        ("slurm:9012", "n[9-11]", "n9 n10 n11"),
        ("tpu", "10.0.0.2, 10.0.0.3", "10.0.0.2 10.0.0.3"),
        ("tpu:9012", "localhost", "localhost"),
    ],
)
def test_workers_of_a_job(job: str, listed: str, expected: str) -> None:
    kind = job.partition(":")[0]
    variable = {"slurm": "SLURM_JOB_NODELIST", "tpu": "TPU_WORKER_HOSTNAMES"}[kind]
    port = job.partition(":")[2] or "8466"
    assert [str(one) for one in list_job_addresses(job, {variable: listed})] == [
        f"{host}:{port}" for host in expected.split()
    ]


def test_several_processes_of_a_machine_and_the_flag(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    two = list_job_addresses("slurm:9012-9013", {"SLURM_JOB_NODELIST": "a[1-2]"})
    assert [str(one) for one in two] == ["a1:9012", "a1:9013", "a2:9012", "a2:9013"]
    server = ProfilerServer(captured(xspace(b"x")))
    with serving(server) as address:
        host, _, port = address.partition(":")
        monkeypatch.setenv("TPU_WORKER_HOSTNAMES", host)
        flags = ("--duration", "20ms", "--no-checks", "-q")
        assert main(["capture", "--job", f"tpu:{port}", "-o", str(tmp_path), *flags]) == 0
    assert address in capsys.readouterr().out


@pytest.mark.parametrize(
    ("job", "listed"),
    [
        ("slurm", "a"), ("pbs:9012", "a"), ("slurm:9012", ""), ("slurm:0", "a"), ("slurm:9013-9012", "a"),
        ("slurm:99999", "a"), ("slurm:9012", "a["), ("slurm:9012", "a[1-"), ("slurm:9012", "a[2-1]"),
        ("slurm:9012", "a[1,]"), ("slurm:9012", "a,,b"), ("slurm:9012", "a/b"), ("slurm:9012", "a[1-999999999]"),
        ("slurm:9012", "a[1-9999][1-9999][1-9999]"), ("slurm:1-9999", "a[1-9999]"), ("slurm:9012", "a]b"),
    ],
)  # fmt: skip
def test_jobs_that_are_refused(job: str, listed: str) -> None:
    with pytest.raises(UsageError, match=r"^--job: "):
        list_job_addresses(job, {"SLURM_JOB_NODELIST": listed})
