"""Collectives of host threads, as of Gloo: communication of the device that computes meanwhile, or waits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import fastprof

HERE = Path(__file__).parent
US = 10**6
Event = dict[str, Any]


def test_gloo_is_exposed_while_the_device_is_idle() -> None:
    profile = fastprof.load(HERE / "p8-gloo.json.gz")
    communication = profile.communication()
    values = {name: communication.scalars[name].value for name in ("exposed_ps", "hidden_ps", "step_exposed_mean_ps")}
    assert values == {"exposed_ps": 1200 * US, "hidden_ps": 0, "step_exposed_mean_ps": 300 * US}
    (operation,) = communication.tables["operations"].to_pylist()
    assert (operation["kind"], operation["occurrences"], operation["payload_bytes"]) == ("all-reduce", 4, 8_196_000)
    assert profile.steps().tables["steps"]["device_collectives_ps"].to_pylist() == [300 * US] * 4
    findings = {row["cause"]: row["cost_ps"] for row in profile.diagnosis().tables["findings"].to_pylist()}
    assert findings["communication"] == 1200 * US
    assert "host_compute" not in findings


def slice_of(name: str, pid: int, tid: int, ts: float, dur: float, cat: str, **args: object) -> Event:
    return {"ph": "X", "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur, "cat": cat, "args": args}


def write(folder: Path, call: str, kernels: list[tuple[int, int, int]]) -> fastprof.Profile:
    """Three steps of 1 ms with a collective from 500 to 800 us. ``kernels``: device, begin and duration in a step."""
    events = []
    for step in range(3):
        at = 1000 * step
        given = {"Input Dims": [[1024, 8], [3]], "Input type": ["c10::BFloat16", "long int"]}
        events += [
            slice_of(f"ProfilerStep#{step}", 700, 1, at, 1000, "user_annotation"),
            slice_of("aten::mm", 700, 1, at + 1, 20, "cpu_op"),
            *(slice_of("launch", 700, 1, at + 5, 2, "cuda_runtime", correlation=at + one[0]) for one in kernels),
            slice_of(call, 700, 9, at + 500, 300, "user_annotation", **given),
            slice_of(call, 700, 9, at + 510, 280, "cpu_op", **given),
            slice_of(call, 700, 8, at + 510, 200, "cpu_op", **given),
        ]
        events += [slice_of("sgemm", device, 7, at + begin, duration, "kernel", device=device, stream=7,
                            correlation=at + device)
                   for device, begin, duration in kernels]  # fmt: skip
    path = folder / "trace.json"
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    return fastprof.load(path)


@pytest.mark.parametrize(
    ("call", "kind", "size"),
    [
        ("gloo:reduce", "reduce", 16_408),
        ("mpi:broadcast", "broadcast", 16_408),
        ("gloo:send", "send and recv", 16_408),
        ("gloo:all_gather", "all-gather", None),
        ("gloo:barrier", "other collective", None),
    ],
)
def test_compute_hides_what_it_overlaps(call: str, kind: str, size: int | None, tmp_path: Path) -> None:
    """The annotation around the op of the same name counts once; two threads communicate at once."""
    communication = write(tmp_path, call, [(0, 100, 500)]).communication()
    (row,) = communication.tables["kinds"].to_pylist()
    assert (row["kind"], row["occurrences"], row["hidden_ps"], row["exposed_ps"]) == (kind, 6, 300 * US, 600 * US)
    assert communication.tables["operations"]["payload_bytes"].to_pylist() == [size]
    assert communication.tables["steps"]["exposed_ps"].to_pylist() == [200 * US] * 3


@pytest.mark.parametrize("kernels", [[], [(0, 100, 500), (1, 100, 500)]])
def test_no_device_or_several_leave_them_unassigned(kernels: list[tuple[int, int, int]], tmp_path: Path) -> None:
    report = write(tmp_path, "gloo:all_reduce", kernels).communication()
    assert any("6 collectives of host threads" in notice.text for notice in report.notices)
    assert not any("Nothing communicates" in notice.text for notice in report.notices)
    if not kernels:
        unknown = report.scalars["exposed_ps"]
        assert unknown.value is None
        assert unknown.reason


def test_collectives_of_devices_are_not_of_the_host(tmp_path: Path) -> None:
    report = write(tmp_path, "nccl:all_reduce", [(0, 100, 500)]).communication()
    assert report.scalars["exposed_ps"].value == 0
    assert not report.tables["operations"].num_rows
