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
    kernels = trace.kernel_stats()
    assert kernels.tables["ops"].to_pylist() == capture.kernel_stats().tables["ops"].to_pylist()
    assert kernels.scalars["longest_op"].value == "jit(forward_3d_conv)/jit(main)/conv_general_dilated"
    names = [row["name"] for row in trace.lines.to_pylist()]
    pids = [row["xplane_id"] for row in trace.planes.to_pylist()]
    assert "XLA Ops - from #1" in names
    again = tmp_path / "again.trace.json"
    trace.to_trace(again, format="xprof")
    assert [row["name"] for row in fastprof.load(again).lines.to_pylist()] == names  # none is derived twice
    assert [row["xplane_id"] for row in fastprof.load(again).planes.to_pylist()] == pids


@pytest.mark.parametrize(
    ("module", "program"),
    [("jit_f(5)", 5), ("jit_f(18446744073709551621)", None), ("jit_f(99999999999999999999)", None),
     ("jit_f(\u0663)", None), ("jit_f(3)\n", None), ("jit_f", None)],
)  # fmt: skip
def test_the_program_of_an_op_is_the_number_behind_the_name_of_its_module(module: str, program: int | None) -> None:
    """Of at most 64 bits, in plain digits."""
    assert programs_of([(module, 1, 9)], [(2, {})]) == [program]


def programs_of(modules: list[tuple[str, int, int]], ops: list[tuple[int, dict[str, Any]]]) -> list[int | None]:
    """The programs of ops that last 1 us each. ``modules``: name, begin and duration; ``ops``: begin and args."""
    names = [{"ph": "M", "pid": 1, "name": "process_name", "args": {"name": "/device:TPU:0"}}]
    names += [
        {"ph": "M", "pid": 1, "tid": tid, "name": "thread_name", "args": {"name": name}}
        for tid, name in ((1, "XLA Ops"), (2, "XLA Modules"))
    ]
    rows: list[dict[str, Any]] = [
        {"ph": "X", "pid": 1, "tid": 2, "ts": ts, "dur": dur, "name": name, "args": {}} for name, ts, dur in modules
    ]
    rows += [
        {"ph": "X", "pid": 1, "tid": 1, "ts": ts, "dur": 1, "name": f"a{ts}",
         "args": {"hlo_category": "f", "long_name": f"%a{ts} = x", **args}}
        for ts, args in ops
    ]  # fmt: skip
    kept = {"displayTimeUnit": "ns", "metadata": {"highres-ticks": True}, "traceEvents": names + rows}
    table = fastprof.load(json.dumps(kept).encode()).report("hlo_stats").tables["ops"]
    of_op = dict(zip(table["name"].to_pylist(), table["program_id"].to_pylist(), strict=True))
    return [of_op[f"a{ts}"] for ts, _ in ops]


def test_the_program_of_an_op_is_its_own_or_that_of_the_innermost_module() -> None:
    modules = [("outer(1)", 10, 30), ("inner(2)", 15, 5), ("empty(3)", 20, 0), ("next(4)", 40, 10)]
    own = {"program_id": "18446744073709551615"}
    ops: list[tuple[int, dict[str, Any]]] = [
        (9, {}), (10, {}), (15, {}), (20, {}), (30, {}), (35, own), (40, {}), (50, {}), (60, {"program_id": "7"}),
    ]  # fmt: skip
    assert programs_of(modules, ops) == [None, 1, 2, 1, 1, -1, 4, None, 7]
