"""Devices of any vendor are devices: all analyses agree which those are, and what they compute and exchange."""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import fastprof

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from trace_builder import event, line, plane, xspace  # noqa: E402

US = 10**6
Event = dict[str, Any]


class Right(NamedTuple):
    """``compute_us``: what streams compute. ``copy_us``: what copies take."""

    device: str
    kernels: int
    compute_us: float
    exposed_us: int
    compute_share: float
    steps: int
    copy_us: int = 0


REPORTED = {
    "p5-mtia": Right("/device:MTIA:9", 8, 1800, 80, 0.45, 4, 80),
    "i30b-ascend": Right("/device:NPU:0", 8, 1600, 1200, 0.4, 4),
    "i08b-legacy": Right("/device:GPU:0", 1, 134.175995, 0, 1.0, 0),
    "i74-hpu": Right("/device:HPU:0", 4, 1600, 0, 0.4, 4),
}


def check(profile: fastprof.Profile, right: Right) -> None:
    """Compare what each analysis says of the only device."""
    diagnosis, overview = profile.diagnosis().scalars, profile.overview().scalars
    communication, streams = profile.communication(), profile.streams().tables["streams"]
    assert [one["device"] for one in communication.tables["devices"].to_pylist()] == [right.device]
    assert set(streams["device"].to_pylist()) == {right.device}
    assert sum(streams["compute_ps"].to_pylist()) == right.compute_us * US
    assert sum(streams["copy_ps"].to_pylist()) == right.copy_us * US
    assert diagnosis["device_count"].value == overview["device_count"].value == 1
    assert diagnosis["compute_share"].value == overview["compute_share"].value == pytest.approx(right.compute_share)
    assert communication.scalars["exposed_ps"].value == right.exposed_us * US
    assert profile.kernel_stats().scalars["occurrences"].value == right.kernels
    assert profile.steps().scalars["step_count"].value == right.steps
    assert overview["device_type"].value == right.device.split(":")[1]


@pytest.mark.parametrize("name", REPORTED)
def test_reported_devices_are_found(name: str) -> None:
    check(fastprof.load(HERE / f"{name}.json.gz"), REPORTED[name])


def slice_of(name: str, pid: int | str, tid: int, ts: float, dur: float, cat: str = "", **args: object) -> Event:
    row = {"ph": "X", "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur, "args": args}
    return row | {"cat": cat} if cat else row


def arrow(phase: str, pid: int, tid: int, ts: float, number: int) -> Event:
    row = {"ph": phase, "name": "HostToDevice", "cat": "HostToDevice", "id": number, "pid": pid, "tid": tid, "ts": ts}
    return row | {"bp": "e"} if phase == "f" else row


def labels(pid: int, name: str, label: str) -> list[Event]:
    return [{"ph": "M", "name": f"process_{key}", "pid": pid, "tid": 0, "args": {arg: text}}
            for key, arg, text in (("name", "name", name), ("labels", "labels", label))]  # fmt: skip


def write(folder: Path, events: list[Event]) -> fastprof.Profile:
    path = folder / "trace.json"
    path.write_text(json.dumps({"traceEvents": events}))
    return fastprof.load(path)


def of_kineto(label: str, call: str, work: str) -> list[Event]:
    """Four steps of 1 ms in which a device computes for 0.3 ms. ``call``, ``work``: categories."""
    events = labels(700, "python", "CPU") + labels(3, "python", label)
    for step in range(4):
        at, number = 1000.0 * step, 10 + step
        events += [
            slice_of(f"ProfilerStep#{step}", 700, 700, at, 1000, "user_annotation"),
            slice_of("aten::mm", 700, 700, at + 5, 900, "cpu_op"),
            slice_of("launchKernel", 700, 700, at + 10, 8, call, correlation=number),
            slice_of("matmul", 3, 2, at + 100, 300, work, correlation=number),
        ]
    return events


VENDORS = {
    "hip": ("GPU 3", "hip_runtime", "kernel", "GPU"),
    "mps": ("MPS 3", "mps_runtime", "mps_kernel", "MPS"),
    "musa": ("MUSA 3", "musa_driver", "kernel", "MUSA"),
    "custom": ("PrivateUse1 3", "privateuse1_runtime", "kernel", "PrivateUse1"),
    "npu": ("NPU 3", "privateuse1_driver", "npu_task", "NPU"),
    "xpu": ("XPU 3", "xpu_driver", "kernel", "XPU"),
}


@pytest.mark.parametrize("name", VENDORS)
def test_devices_are_found_by_labels_and_categories(name: str, tmp_path: Path) -> None:
    label, call, work, word = VENDORS[name]
    profile = write(tmp_path, of_kineto(label, call, work))
    check(profile, Right(f"/device:{word}:3", 4, 1200, 0, 0.3, 4))
    assert profile.kernel_stats().tables["kernels"]["op_name"].to_pylist() == ["aten::mm"]


def test_small_pids_of_hosts_are_no_devices(tmp_path: Path) -> None:
    """In containers a program may have a pid that Kineto labels as a device, too."""
    events = of_kineto("GPU 3", "cuda_runtime", "kernel") + labels(7, "python", "CPU") + labels(7, "python", "GPU 7")
    events += [slice_of("own", 7, 1, 100.0, 3000, "custom")]
    check(write(tmp_path, events), Right("/device:GPU:3", 4, 1200, 0, 0.3, 4))


def test_waits_of_mtia_are_no_work_and_copies_have_directions(tmp_path: Path) -> None:
    events = of_kineto("MTIA 3", "mtia_runtime", "mtia_ccp_events")
    events += [
        slice_of("event_wait", 3, 9, 500.0, 400, "mtia_ccp_events", stream=5, wait_on_stream=4),
        slice_of("event_record", 3, 9, 950.0, 20, "mtia_ccp_events", stream=5),
        slice_of("sample", 3, 8, 0.0, 4000, "mtia_insight"),
        slice_of("dma_request", 3, 9, 1500.0, 40, "mtia_ccp_events", stream=5, direction="DEVICE_TO_HOST", size=4096),
        slice_of("dma_request", 3, 9, 1600.0, 60, "mtia_ccp_events", stream=5, direction="HOST_TO_DEVICE", size=512),
    ]
    profile = write(tmp_path, events)
    check(profile, Right("/device:MTIA:3", 4, 1200, 100, 0.3, 4, 100))
    kinds = profile.communication().tables["kinds"].to_pylist()
    assert {row["kind"]: (row["time_ps"], row["moved_bytes"]) for row in kinds} == {
        "copy device to host": (40 * US, 4096), "copy host to device": (60 * US, 512)
    }  # fmt: skip


@pytest.mark.parametrize("communication", ["Communication", "HCCL"])
def test_tasks_of_ascend_that_wait_or_send_are_not_kernels(communication: str, tmp_path: Path) -> None:
    events = labels(1, "Python", "CPU") + labels(2, "CANN", "CPU") + labels(30, "Ascend Hardware", "NPU 5")
    events += labels(40, communication, "NPU 5") + labels(50, "Overlap Analysis", "NPU 5")
    for step in range(3):
        at = 1000.0 * step
        events += [
            slice_of(f"ProfilerStep#{step}", 1, 1, at, 1000, "cpu_op"),
            slice_of("aclnnMatmul", 2, 1, at + 1, 20),
            slice_of("MatMulV3", 30, 2, at + 50, 250, **{"Task Type": "KERNEL_MIX_AIC"}),
            slice_of("Cast", 30, 2, at + 300, 50, **{"Task Type": "AI_VECTOR_CORE"}),
            slice_of("EVENT_WAIT", 30, 3, at, 900, **{"Task Type": "EVENT_WAIT_SQE"}),
            slice_of("Notify_Wait", 30, 3, at + 900, 90, **{"Task Type": "NOTIFY_WAIT_SQE"}),
            slice_of("hcom_allGather__1_2", 40, 1, at + 200, 300),
            slice_of("Notify_Wait", 40, 2, at + 200, 100),
            slice_of("Memcpy", 40, 2, at + 300, 200),
            slice_of("Computing", 50, 1, at + 50, 300),
            slice_of("Free", 50, 2, at + 500, 500),
            arrow("s", 2, 1, at + 10, step),
            arrow("f", 30, 2, at + 50, step),
        ]
    profile = write(tmp_path, events)
    check(profile, Right("/device:NPU:5", 9, 900, 450, 0.3, 3))
    assert profile.communication().tables["kinds"]["kind"].to_pylist() == ["all-gather"]
    assert profile.flows.num_rows == 3


def test_names_of_processes_may_come_last(tmp_path: Path) -> None:
    """torch_npu writes what processes are called behind their events."""
    events = json.loads(gzip.decompress((HERE / "i30b-ascend.json.gz").read_bytes()))
    events.sort(key=lambda row: row["ph"] == "M")
    check(write(tmp_path, events), REPORTED["i30b-ascend"])


def test_devices_of_old_autograd_are_numbered_by_tid(tmp_path: Path) -> None:
    events = [slice_of("mm", "CPU functions", 1, 0.0, 100)]
    events += [slice_of("mm", "XPU functions", tid, 50.0, 200) for tid in (0, 2)]
    profile = write(tmp_path, events)
    assert [row["device"] for row in profile.communication().tables["devices"].to_pylist()] == [
        "/device:GPU:0", "/device:GPU:2"
    ]  # fmt: skip
    assert profile.kernel_stats().scalars["total_ps"].value == 400 * US
    assert profile.overview().scalars["framework"].value == "PyTorch"


def _event(name: str, begin_us: int, duration_us: int) -> Any:
    return event(name, begin_us * US, duration_us * US)


@pytest.mark.parametrize("word", ["NPU", "XPU", "HPU", "METAL", "MTIA"])
def test_devices_of_xspace_are_found_by_the_names_of_planes(word: str, tmp_path: Path) -> None:
    kernels = [_event("matmul", 100, 300), _event("matmul", 500, 300)]
    host = plane("/host:CPU", [line("main", [_event("step", 0, 1000)])])
    (tmp_path / "host.xplane.pb").write_bytes(xspace(plane(f"/device:{word}:1", [line("Stream #1", kernels)]), host))
    profile = fastprof.load(tmp_path)
    assert [row["device"] for row in profile.communication().tables["devices"].to_pylist()] == [f"/device:{word}:1"]
    assert profile.kernel_stats().scalars["total_ps"].value == 600 * US
    assert profile.diagnosis().scalars["used_device_count"].value == 1


@pytest.mark.parametrize(
    "name", ["/device:CPU:0", "/device:XLA_CPU:0", "/device:CUSTOM:Megascale Trace", "/device:TPU:x"]
)
def test_other_planes_are_no_gpus(name: str, tmp_path: Path) -> None:
    (tmp_path / "host.xplane.pb").write_bytes(xspace(plane(name, [line("a", [_event("x", 0, 10)])])))
    profile = fastprof.load(tmp_path)
    assert profile.diagnosis().scalars["device_count"].value == 0
    assert not profile.streams().tables["streams"].num_rows


@pytest.mark.parametrize("number", [-1, -(2**63)])
def test_a_negative_number_is_of_a_device(number: int) -> None:
    """ROCm and broken traces have such; their kernels are not lost."""
    events = [
        {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": 10 * at, "dur": 2,
         "args": {"correlation": at + 1}}
        for at in range(4)
    ] + [
        {"ph": "X", "cat": "kernel", "name": "gemm", "pid": number, "tid": 7, "ts": 10 * at + 3, "dur": 5,
         "args": {"device": number, "stream": 7, "correlation": at + 1}}
        for at in range(4)
    ]  # fmt: skip
    profile = fastprof.load(json.dumps({"schemaVersion": 1, "traceEvents": events}).encode())
    assert profile.diagnosis().scalars["incomplete"].value is None
    assert profile.kernel_stats().scalars["occurrences"].value == 4
