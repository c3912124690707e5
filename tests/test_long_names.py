"""Names may be long or damaged: reading them takes time in proportion to their length."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from effort import takes_less
from trace_builder import event, line, plane, xspace

import fastprof
from fastprof.analyses import ANALYSES
from fastprof.cli import main
from fastprof.derive.causes import slow_steps
from fastprof.derive.devices.op_names import drop_serial
from fastprof.derive.ops import roofline_model
from fastprof.derive.steps import event_origin, inferred_steps

Reading = Callable[[str], object]

READINGS: dict[str, tuple[Reading, str]] = {
    "launches": (inferred_steps.LAUNCH_PATTERN.search, "a"),
    "waits": (slow_steps._WAIT.search, "$a "),
    "input": (event_origin._INPUT.match, "Dataset"),
    "eager input": (lambda text: event_origin._INPUT.match(f"EagerLocalExecute: {text}!"), "Iterator"),
    "layouts": (roofline_model._HOST_LAYOUT.search, "S(5)"),
    "serials": (lambda text: drop_serial(f"{text}!"), ".1"),
    "many serials": (drop_serial, ".1"),
}


@pytest.mark.parametrize("what", READINGS)
def test_sixteen_times_the_name_takes_less_than_a_hundred_times_the_time(what: str) -> None:
    read, unit = READINGS[what]
    small, large = (("{" if what == "layouts" else "") + unit * count for count in (1_000, 16_000))
    assert takes_less(lambda: read(large), 100, lambda: read(small), noise_s=0.02)  # by pairs it would be 256


def written(pieces: tuple[str, ...], seed: int) -> str:
    draw = random.Random(seed)
    return "".join(draw.choice(pieces) for _ in range(draw.randrange(1, 9)))


def test_names_are_read_as_the_plain_patterns_read_them() -> None:
    op = re.compile(r"[A-Za-z0-9.][\w./>-]*:[A-Z_]\w*$")
    inputs = re.compile(r"(?:\w+Dataset\w*|Iterator\w*)Op::|EagerLocalExecute: (?:\w*Iterator\w*|\w*Dataset\w*)$")
    own_inputs = re.compile(r"Iterator(?:::|$)|MakeIterator::|InstantiatedCapturedFunction::")
    layout = re.compile(r"\{[^{}]*S\(5\)[^{}]*\}")
    serial = re.compile(r"(\.\d+|\.clone|\.remat\d*)+$")
    known = []
    for seed in range(6_000):
        name = written(("a", "_", "/", ":", "Op", "MatMul", "-", " ", ">"), seed)
        known.append(op.search(name) is not None)
        assert (inferred_steps.LAUNCH_PATTERN.search(name) is not None) == known[-1], name
        name = written(("Iterator", "Dataset", "Op", "::", "EagerLocalExecute: ", "V2", " "), seed)
        known.append(inputs.match(name) is not None)
        assert (event_origin._INPUT.match(name) is not None) == (known[-1] or own_inputs.match(name) is not None), name
        name = written(("{", "}", "S(5)", "1,0", "S(1)"), seed)
        known.append(layout.search(name) is not None)
        assert (roofline_model._HOST_LAYOUT.search(name) is not None) == known[-1], name
        name = written(("copy", "-start", ".", "12", ".clone", ".remat", ".3"), seed)
        known.append(serial.search(name) is not None)
        assert drop_serial(name) == serial.sub("", name), name
    assert min(sum(known[kind::4]) for kind in range(4)) > 100


def test_steps_of_a_capture_with_a_long_name() -> None:
    events = [event("$profiler.py:" + "1" * 200_000, 100 * k, 90) for k in range(5)]
    report = fastprof.load(xspace(plane("/host:CPU", [line("python", events)]))).steps()
    assert report.scalars["steps_source"].value is None


def test_texts_of_reports_cut_long_names() -> None:
    name = "x" * 100_000
    events: list[dict[str, object]] = []
    for step in range(3):
        ids = {"correlation": step + 1, "External id": step + 1, "device": 0, "stream": 7}
        for category, what, place, start, duration in (
            ("user_annotation", f"ProfilerStep#{step}", 1, 0, 1000),
            ("python_function", f"{name}.py(3): f", 1, 5, 900),
            ("cpu_op", f"aten::{name}", 1, 10, 500),
            ("cuda_runtime", "cudaLaunchKernel", 1, 20, 5),
            ("kernel", name, 0, 50, 800),
        ):
            begin = {"ph": "X", "cat": category, "name": what, "pid": place, "tid": 7, "ts": 1000 * step + start}
            events.append({**begin, "dur": duration, "args": ids})
    trace = json.dumps({"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "H100"}], "traceEvents": events})
    reports = fastprof.load(trace.encode()).reports(*ANALYSES)
    assert {report: size for report, made in reports.items() if (size := len(made.to_text())) > 10_000} == {}


def test_texts_cut_names_that_tables_keep(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Names of 30,000 letters in every field that reports write sentences of."""

    def slice_of(name: str, tid: int, at: int, duration: int, category: str, **args: object) -> dict[str, object]:
        names = {"ph": "X", "name": name, "pid": 0, "tid": tid, "cat": category, "args": args}
        return names | {"ts": 1000 + at, "dur": duration}

    long = "x" * 30_000
    collective = f"ncclDevKernel_AllReduce_{long}"
    events = []
    for step in range(4):
        at = 1000 * step
        ids = (2 * step + 1, 2 * step + 2)
        events += [
            slice_of(f"{long}annotation", 1, at, 1000, "user_annotation"),
            *(slice_of(f"{long}aten::mm", 1, at + 40 * n, 30, "cpu_op", **{"External id": ids[n]}) for n in range(2)),
            *(slice_of("launchKernel", 1, at + 5 + 40 * n, 5, "cuda_runtime", correlation=ids[n]) for n in range(2)),
            slice_of(f"{long}gemm", 7, at + 100, 500, "kernel", device=0, stream=7, correlation=ids[0]),
            slice_of(collective, 7, at + 600, 300, "kernel", device=0, stream=7, correlation=ids[1]),
        ]
    path = tmp_path / "long.json"
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    profile = fastprof.load(path)
    assert f"{long}gemm" in profile.kernel_stats().tables["kernels"]["name"].to_pylist()
    for report in profile.reports(*ANALYSES).values():
        assert all(len(notice.text) < 2_000 for notice in report.notices), report.analysis
    for verb in ("diagnosis", "overview", "kernel-stats", "communication", "steps", "gaps", "info"):
        assert main.main([verb, str(path)]) == 0
        assert len(capsys.readouterr().out) < 20_000, verb
