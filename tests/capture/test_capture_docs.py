"""The commands of docs/capture.md run, against servers at the addresses that it names."""

from __future__ import annotations

import re
import shlex
import socket
import time
from pathlib import Path
from typing import Any

import pytest
from profiler_server import ProfilerServer, captured, message, serving
from test_capture_workers import sample
from test_run_program import put_jax_beside
from trace_builder import xspace

from fastprof.cli import capture
from fastprof.cli.main import main

_TRAINING = """
import jax
for number in range(4): jax.profiler.StepTraceAnnotation("train", step_num=number)
assert jax.profiler.over.wait(60)
"""
PAGE = Path(__file__).resolve().parents[2] / "docs" / "capture.md"


def test_commands_of_the_page_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    report = message("MonitorResponse", data="TPU type: TPU v3").SerializeToString()
    continuous = {"GetSnapshot": captured(sample()), "StartContinuousProfiling": b"", "StopContinuousProfiling": b""}
    blocks = re.findall(r"^```sh\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    lines = [line.partition("  #")[0] for block in blocks for line in block.splitlines()]
    assert len(lines) == 13
    monkeypatch.setenv("SLURM_JOB_NODELIST", "127.0.0.[1-1]")
    monkeypatch.setattr(capture, "_wait_until", lambda _args, _until: True)
    monkeypatch.chdir(tmp_path)
    put_jax_beside(tmp_path)
    (tmp_path / "train.py").write_text(_TRAINING)
    with (
        serving(ProfilerServer(captured(sample()), monitor=report, others=continuous)) as one,
        serving(ProfilerServer(captured(sample()))) as two,
    ):
        (tmp_path / "workers.txt").write_text(f"{one}\n{two}  # the second\n")
        here = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", int(one.rpartition(":")[2])))]
        real = socket.getaddrinfo
        monkeypatch.setattr(
            socket, "getaddrinfo", lambda name, *a, **b: here if name.startswith("trainer.") else real(name, *a, **b)
        )
        for text in lines:
            port = one.rpartition(":")[2]
            line = text.replace("svc:9012", f"svc:{port}").replace("slurm:9012", f"slurm:{port}")
            words = shlex.split(line.replace("localhost:9012", one).replace("localhost:9013", two))
            assert main(words[1:]) == 0, line
            out, _ = capsys.readouterr()
            assert "written" in out or "done" in out or out.startswith(("Overview", "Diagnosis")) or "TPU v3" in out, (
                line
            )


def test_progress(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def profile(_request: Any, context: Any) -> bytes:
        while context.time_remaining() > 4.7:  # the deadline is 5.2 s ahead
            time.sleep(0.01)
        return captured(xspace(b"x"))

    with serving(ProfilerServer(profile)) as address:
        flags = ("--duration", "200ms", "--timeout", "5s", "--no-checks", "--progress", "plain")
        assert main(["capture", address, "-o", str(tmp_path / "logs"), *flags]) == 0
    err = capsys.readouterr().err
    assert err.index("capturing:") < err.index("waiting for captures:")
