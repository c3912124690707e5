"""One vocabulary of devices: every analysis has the same count of them and the same names."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from flight_spaces import FUSION, core
from gate import typical_captures
from reports import session_of
from step_captures import HOST, US, ran, spaces, step, tpu
from trace_builder import Plane, event, line, plane, xspace

import fastprof
from fastprof.analyses import ANALYSES
from fastprof.derive.devices.run_environment import HostDevices, count_by_host

FIGURES = ("device_count", "used_device_count")
OP = line("XLA Ops", [event("fusion.1", 0, 5 * US)])
THREADS = plane(HOST, [line("python", [step(0, 0, 100), ran("$app.py:3 main", 0, 90)])])
CPU_OP = plane(HOST, [line("tf_XLAEigen/1", [ran("dot.1", 10, 50, hlo_op="dot.1", hlo_module="jit_f")])])
TF_OP = plane(HOST, [line("tf_Compute/1", [ran("model/dense/MatMul:MatMul", 10, 50)])])


def gpus(used: int, count: int) -> list[Plane]:
    lines = [line("stream 1", [ran("k", 0, 5)])]
    return [plane(f"/device:GPU:{n}", lines if n < used else [], id=n + 10) for n in range(count)]


def tpus(count: int) -> list[Plane]:
    cores = [core(n, [(FUSION, 0, 5)]) for n in range(count)]
    return [*cores, plane("/device:TPU:0 SparseCore 1", [OP], id=90)]


SESSIONS = {
    "nothing": ([spaces()], (0, 0)),
    "threads that run no ops": ([spaces(THREADS)], (1, 0)),
    "ops of XLA on a CPU": ([spaces(CPU_OP)], (1, 1)),
    "ops of TensorFlow on a CPU": ([spaces(TF_OP)], (1, 1)),
    "two CPUs": ([xspace(CPU_OP, hostnames=["a"]), xspace(THREADS, hostnames=["b"])], (2, 1)),
    "GPUs, two of them used": ([spaces(THREADS, *gpus(2, 8))], (8, 2)),
    "TPUs and a SparseCore": ([spaces(THREADS, *tpus(4))], (4, 4)),
    "a coordinator": ([xspace(CPU_OP, hostnames=["a"]), xspace(*tpus(2), hostnames=["b"])], (2, 2)),
}


def figures_of(reports: Mapping[str, fastprof.Report]) -> dict[str, dict[str, object]]:
    """By figure and analysis, those that are known."""
    found: dict[str, dict[str, object]] = {name: {} for name in FIGURES}
    for analysis, report in reports.items():
        scalars = report.scalars
        for name in FIGURES:
            if name in scalars and scalars[name].value is not None:
                found[name][analysis] = scalars[name].value
    return found


@pytest.mark.parametrize("name", SESSIONS)
def test_all_analyses_count_the_same_devices(name: str) -> None:
    captures, (present, used) = SESSIONS[name]
    profile = session_of(*captures)
    found = figures_of(profile.reports(*ANALYSES))
    assert found["device_count"] == dict.fromkeys(
        ("overview", "diagnosis", "roofline", "hardware_units", "communication", "gaps"), present
    )
    assert set(found["used_device_count"].values()) == {used}
    assert {"diagnosis", "gaps"} <= set(found["used_device_count"])
    for analysis in ("overview", "op_stats"):
        assert sum(profile.report(analysis).tables["hosts"]["device_count"].to_pylist()) == present


@typical_captures
def test_analyses_have_the_same_devices_of_a_capture(capture: Path) -> None:
    """They count the same, and name planes or the CPU."""
    profile = fastprof.load(capture)
    reports = profile.reports(*ANALYSES)
    found = figures_of(reports)
    planes = set(profile.planes["name"].to_pylist()) | {"CPU"}
    for table, names in devices_of(reports).items():
        assert names <= planes, table
    assert [len(set(values.values())) for values in found.values()] == [1, 1]
    (present,), (used,) = (set(values.values()) for values in found.values())
    assert isinstance(present, int) and isinstance(used, int) and 0 <= used <= present > 0


def test_hosts_without_devices_count_only_among_themselves() -> None:
    cpu, pod = HostDevices("CPU", 1), HostDevices("TPU", 4)
    assert (count_by_host([cpu, cpu]), count_by_host([cpu, pod, pod]), count_by_host([])) == ([1, 1], [0, 4, 4], [])


# ---- names


def devices_of(reports: Mapping[str, fastprof.Report]) -> dict[str, set[str]]:
    """By analysis and table, the names in the column device."""
    found: dict[str, set[str]] = {}
    for analysis, report in reports.items():
        for name, table in report.tables.items():
            if "device" in table.column_names:
                found[f"{analysis}.{name}"] = set(table["device"].to_pylist()) - {None}
    return found


NAMED = {
    "ops of XLA on a CPU": {"gaps.devices": {"CPU"}, "op_profile.devices": {"CPU"}},
    "one GPU": {
        "gaps.devices": {"/device:GPU:0"}, "op_profile.devices": {"/device:GPU:0"}, "steps.steps": {"/device:GPU:0"},
        "communication.devices": {"/device:GPU:0"},
    },
    "several GPUs": {"gaps.devices": {"/device:GPU:0", "/device:GPU:1"}, "steps.steps": set()},
    "steps of threads": {"steps.steps": {"CPU"}, "pod_viewer.cores": {"CPU"}},
    "steps of TPUs": {
        "gaps.devices": {"/device:TPU:0"}, "op_profile.devices": {"/device:TPU:0"}, "steps.steps": {"/device:TPU:0"},
        "pod_viewer.cores": {"/device:TPU:0"}, "communication.steps": {"/device:TPU:0"},
    },
}  # fmt: skip


def launched(*ordinals: int) -> bytes:
    """A step that launches a kernel on each GPU."""
    calls = [ran("cudaLaunchKernel", 10 * n + 1, 5, correlation_id=n + 1) for n in ordinals]
    kernels = {n: [ran("k", 10 * n + 20, 5, correlation_id=n + 1)] for n in ordinals}
    planes = [plane(f"/device:GPU:{n}", [line("stream 1", one)], id=n + 10) for n, one in kernels.items()]
    return spaces(plane(HOST, [line("python", [step(0, 0, 100), *calls])]), *planes)


CAPTURES = {
    "ops of XLA on a CPU": spaces(CPU_OP),
    "one GPU": launched(0),
    "several GPUs": launched(0, 1),
    "steps of threads": spaces(plane(HOST, [line("python", [step(0, 0, 100), ran("op", 10, 5)])])),
    "steps of TPUs": spaces(tpu(0, [ran("0", 0, 100)], [("f", "fusion", 10, 20)])),
}


@pytest.mark.parametrize("name", CAPTURES)
def test_tables_name_a_device_alike(name: str) -> None:
    found = devices_of(session_of(CAPTURES[name]).reports(*ANALYSES))
    assert {table: found[table] for table in NAMED[name]} == NAMED[name]
