"""What the timeline shows first: the steps, or when the program ran under PyTorch's profiler; tracks in their order."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from served import Served
from trace_builder import event, line, plane, u64, xspace

from fastprof.tables.host_events import FIRST_DERIVED

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


START_UP, TRAIN = event("start-up", 0, 100), event("train", 500, 30, {"_r": 1, "step_num": 4})
LAUNCH = event("launch", 510, 1, {"correlation_id": u64(1)})
RUN = event("dot.1", 600, 20, {"hlo_module": "jit_f", "run_id": 1})
STREAM = plane("/device:GPU:0", [line("Stream #1", [event("kernel", 540, 60, {"correlation_id": u64(1)})])], id=1)


@pytest.mark.parametrize(
    ("threads", "devices", "steps_ps"),
    [
        ([START_UP, TRAIN, event("end", 1000, 1)], [], (500, 530)),
        ([START_UP, TRAIN, RUN, event("end", 1000, 1)], [], (500, 620)),
        ([START_UP, TRAIN, LAUNCH, event("end", 1000, 1)], [STREAM], (500, 600)),
        ([START_UP, event("end", 1000, 1)], [], None),
    ],
    ids=["marked", "with the work that they launched", "with what devices ran", "none"],
)  # fmt: skip
def test_the_first_picture_is_of_the_steps(
    threads: list[Any], devices: list[Any], steps_ps: tuple[int, int] | None
) -> None:
    timeline = Served(xspace(plane("/host:CPU", [line("python", threads)]), *devices)).timeline()
    assert timeline["run_ps"] == (steps_ps and [str(time) for time in steps_ps])


def test_python_threads_and_lines_that_the_profiler_derived_are_of_kinds_of_their_own() -> None:
    frames = [event("$train.py:7 main", 0, 20), event("$loader.py:9 next", 5, 2)]
    lines = [line("main", [*frames, event("PjitFunction(f)", 9, 2)]), line("loader", frames, id=2)]
    lines.append(line("Framework Ops", [event("MatMul", 0, 9)], id=FIRST_DERIVED + 1))
    (process,) = Served(xspace(plane("/host:CPU", lines))).timeline()["processes"]
    assert dict(zip(process["tracks"]["name"], process["tracks"]["kind"], strict=True)) == {
        "main": "events", "loader": "frames", "Framework Ops": "derived",
    }  # fmt: skip


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
