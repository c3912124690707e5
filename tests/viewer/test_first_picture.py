"""What the timeline shows first: of a trace of PyTorch's profiler, when the program ran, not how long it recorded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from served import Served
from trace_builder import event, line, plane, xspace

PROFILER = {
    "cat": "Trace",
    "name": "PyTorch Profiler (0)",
    "pid": "Spans",
    "tid": "PyTorch Profiler",
    "ts": 0,
    "dur": 900,
}
OP = {"cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 100, "dur": 20}
STEP = {"cat": "user_annotation", "name": "ProfilerStep#3", "pid": 1, "tid": 1, "ts": 200, "dur": 50}
CALL = {
    "cat": "cuda_runtime",
    "name": "cudaLaunchKernel",
    "pid": 1,
    "tid": 1,
    "ts": 210,
    "dur": 2,
    "args": {"correlation": 5},
}
KERNEL = {
    "cat": "kernel",
    "name": "gemm",
    "pid": 0,
    "tid": 7,
    "ts": 240,
    "dur": 40,
    "args": {"correlation": 5, "stream": 7, "device": 0},
}


@pytest.mark.parametrize(
    ("events", "run_us"),
    [
        ([PROFILER, OP, STEP, CALL, KERNEL], (200, 280)),
        ([PROFILER, OP, STEP], (200, 250)),
        ([PROFILER, OP, CALL, KERNEL], (240, 280)),
        ([PROFILER, OP, CALL], (100, 212)),
    ],
    ids=["steps and devices", "steps", "devices", "all but the profiler"],
)  # fmt: skip
def test_the_first_picture_is_of_the_run(tmp_path: Path, events: list[dict[str, Any]], run_us: tuple[int, int]) -> None:
    path = tmp_path / "rank0.json"
    path.write_text(json.dumps({"traceEvents": [{"ph": "X", **one} for one in events]}))
    timeline = Served(path).timeline()
    assert timeline["span_ps"] == str(900_000_000)
    assert timeline["run_ps"] == [str(time * 1_000_000) for time in run_us]


def test_other_captures_are_shown_from_end_to_end() -> None:
    timeline = Served(xspace(plane("/host:CPU", [line("python", [event("ProfilerStep#1", 5, 10)])]))).timeline()
    assert timeline["run_ps"] is None


def test_counters_come_after_the_streams_and_threads(tmp_path: Path) -> None:
    path = tmp_path / "rank0.json"
    path.write_text(json.dumps({"traceEvents": [{"ph": "X", **one} for one in (OP, CALL, KERNEL)]}))
    for process in Served(path).timeline()["processes"]:
        tracks = process["tracks"]
        shown = sorted(zip(tracks["sort"], tracks["kind"], strict=True))
        kinds = [kind for _, kind in shown]
        assert kinds == sorted(kinds, key=lambda kind: kind == "counter")
        if "GPU" in process["name"]:
            assert "counter" in kinds
