"""Ops of devices in XProf's traces: events of TPUs record what an XSpace has in event metadata, and lines that XProf
derived of GPUs have only their names."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import fastprof

CAPTURES = Path(__file__).resolve().parents[3] / "shared" / "captures"
TRACE = CAPTURES / "chrome" / "tpu" / "vllm_v6e.trace.json.gz"
CORES = {3: "/device:TPU:0", 4: "/device:TPU:1"}


def _op_events() -> list[dict[str, Any]]:
    events = json.loads(gzip.decompress(TRACE.read_bytes()), parse_float=Decimal)["traceEvents"]
    return [row for row in events if row.get("ph") == "X" and row["pid"] in CORES and "hlo_category" in row["args"]]


@pytest.mark.captures
def test_op_stats_has_the_sums_of_the_trace() -> None:
    """By category, both cores together. No op of this trace lies in another, so self time is duration."""
    time_ps: Counter[str] = Counter()
    count: Counter[str] = Counter()
    for row in _op_events():
        category = row["args"]["hlo_category"]
        time_ps[category] += int(row["args"]["device_duration_ps"])
        count[category] += 1

    report = fastprof.load(TRACE).op_stats()
    rows = [row for row in report.tables["device_ops"].to_pylist() if row["category"] != "IDLE"]
    found: Counter[str] = Counter()
    occurrences: Counter[str] = Counter()
    for row in rows:
        found[row["category"]] += row["self_ps"]
        occurrences[row["category"]] += row["occurrences"]

    assert found == time_ps
    assert occurrences == count
    assert occurrences.total() == 6908
    assert {row["flops"] for row in rows if row["model_flops"]} == {None}  # XProf leaves them out
    assert not [one for one in report.notices if one.severity == "warning"]


@pytest.mark.captures
def test_overview_sees_that_the_devices_compute() -> None:
    figures = fastprof.load(TRACE).overview().scalars
    assert figures["device_idle_percent"].value == pytest.approx(0.04, abs=0.01)


@pytest.mark.captures
def test_a_trace_of_a_capture_has_its_ops(tmp_path: Path) -> None:
    """Programs and lines that XProf derives from ops do not count twice."""
    path = tmp_path / "host0.trace.json"
    capture = fastprof.load(CAPTURES / "xspace" / "synthetic-tpu-pod" / "host0.xplane.pb")
    capture.to_trace(path, format="xprof")

    def ops(profile: fastprof.Profile) -> list[tuple[Any, ...]]:
        columns = ("program_id", "name", "category", "framework_op", "occurrences", "total_ps", "self_ps")
        table = profile.op_stats().tables["device_ops"]
        return sorted(tuple(row[one] for one in columns) for row in table.to_pylist() if row["name"] != "IDLE")

    assert ops(fastprof.load(path)) == ops(capture)


@pytest.mark.captures
def test_lines_that_xprof_derived_of_gpus_are_no_kernels(tmp_path: Path) -> None:
    path = tmp_path / "host0.trace.json"
    capture = fastprof.load(CAPTURES / "xspace" / "gpu-mi300x-jax-conv-minimal-legacy")
    capture.to_trace(path, format="xprof")
    trace = fastprof.load(path)

    assert capture.op_stats().scalars["device_op_ps"].value == 4_475_521_000
    assert trace.op_stats().scalars["device_op_ps"].value == 4_475_521_000
    assert trace.kernel_stats().scalars["total_ps"].value == capture.kernel_stats().scalars["total_ps"].value
    names = [row["name"] for row in trace.lines.to_pylist()]
    assert "XLA Ops - from #1" in names
    again = tmp_path / "again.trace.json"
    trace.to_trace(again, format="xprof")
    assert [row["name"] for row in fastprof.load(again).lines.to_pylist()] == names  # none is derived twice


@pytest.mark.parametrize(
    ("module", "program"),
    [("jit_f(5)", 5), ("jit_f(18446744073709551621)", 0), ("jit_f(99999999999999999999)", 0), ("jit_f(\u0663)", 0),
     ("jit_f(3)\n", 0), ("jit_f", 0)],
)  # fmt: skip
def test_the_program_of_an_op_is_the_number_behind_the_name_of_its_module(module: str, program: int) -> None:
    """Of at most 64 bits, in plain digits."""
    names = [{"ph": "M", "pid": 1, "name": "process_name", "args": {"name": "/device:TPU:0"}}]
    names += [
        {"ph": "M", "pid": 1, "tid": tid, "name": "thread_name", "args": {"name": name}}
        for tid, name in ((1, "XLA Ops"), (2, "XLA Modules"))
    ]
    rows = [
        {"ph": "X", "pid": 1, "tid": 2, "ts": 1, "dur": 9, "name": module, "args": {}},
        {"ph": "X", "pid": 1, "tid": 1, "ts": 2, "dur": 1, "name": "a",
         "args": {"hlo_category": "f", "long_name": "%a = x"}},
    ]  # fmt: skip
    kept = {"displayTimeUnit": "ns", "metadata": {"highres-ticks": True}, "traceEvents": names + rows}
    report = fastprof.load(json.dumps(kept).encode()).report("hlo_stats")
    assert report.tables["ops"]["program_id"].to_pylist() == [program]
