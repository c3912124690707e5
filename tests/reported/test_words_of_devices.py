"""Findings name the kind of device that was captured, and advice fits it, its maker and the direction of copies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from test_devices_of_vendors import HERE, labels, of_kineto, slice_of, write

import fastprof
from fastprof.analyses.findings.advice import _NOT_ON_GPUS, _TEXTS, get_advice
from fastprof.analyses.findings.facts import DiagnosisFacts, EventNames
from fastprof.analyses.findings.guides import RULES
from fastprof.derive.devices.gpu_kernels import AMD, NVIDIA
from fastprof.derive.devices.op_names import FRAMEWORKS, JAX, PYTORCH, TENSORFLOW
from fastprof.derive.host import GPU

US = 10**6
OF_CUDA = ("CUDA", "cuda", "pin_memory", "pinned", "on GPUs", "_gpu_", "TF_GPU", "NCCL")


def of_category(call: str, work: str) -> list[dict[str, Any]]:
    """Kineto labels devices of all makers as GPUs."""
    return of_kineto("GPU 3", call, work)


@pytest.mark.parametrize(
    ("label", "call", "work", "word"),
    [
        ("GPU 3", "cuda_runtime", "kernel", "GPU"),
        ("GPU 3", "hip_runtime", "kernel", "GPU"),
        ("GPU 3", "xpu_runtime", "kernel", "XPU"),
        ("GPU 3", "xpu_driver", "hpu_op", "HPU"),
        ("GPU 3", "mtia_runtime", "mtia_ccp_events", "MTIA"),
        ("MTIA 3", "mtia_runtime", "mtia_ccp_events", "MTIA"),
        ("NPU 3", "privateuse1_runtime", "npu_task", "NPU"),
    ],
)
def test_titles_name_the_kind_of_device(label: str, call: str, work: str, word: str, tmp_path: Path) -> None:
    profile = write(tmp_path, of_kineto(label, call, work))
    report = profile.diagnosis()
    titles = report.tables["findings"]["title"].to_pylist()
    assert titles and all(word in title or title.startswith("Launched work") for title in titles)
    assert report.scalars["headline"].value.startswith((f"The {word} waits", f"{word} idle"))
    assert profile.overview().scalars["device_type"].value == word
    others = {"GPU", "TPU", "XPU", "HPU", "NPU", "MTIA"} - {word}
    shown = report.to_text().replace(f"/device:{word}", "")
    assert not [other for other in others if f"The {other}" in shown or f"{other}s" in shown]


@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize("cause", _TEXTS)
def test_advice_for_other_devices_names_nothing_of_cuda(cause: str, framework: str) -> None:
    if cause in ("precision", "memory_bound") or "on the CPU" in cause:
        return
    text = get_advice(cause, framework, on_gpus=False)
    assert not [word for word in OF_CUDA if word in text]


def test_advice_for_gpus_names_cuda() -> None:
    for cause, of_cause in _NOT_ON_GPUS.items():
        assert all(get_advice(cause, framework, on_gpus=True) != text for framework, text in of_cause.items())
    assert "CUDA graphs" in get_advice("launch", PYTORCH, on_gpus=True)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_rules_for_other_devices_name_nothing_of_cuda(rule: Any) -> None:
    """Whether their evidence can exist there is another question: allocations of CUDA cannot."""
    for framework in (JAX, PYTORCH, TENSORFLOW):
        facts = DiagnosisFacts(framework, GPU, {}, EventNames(), device="MTIA")
        text = rule.get_text(facts)
        if rule.name not in ("memory_growth", "l2_fetch", "overlap", "combine"):
            assert not text or not [word for word in OF_CUDA if word in text], text


def test_units_are_called_as_their_maker_calls_them() -> None:
    rule = next(rule for rule in RULES if rule.name == "sixteen_bits")
    texts = [
        rule.get_text(DiagnosisFacts(PYTORCH, GPU, {}, EventNames(), maker=maker)) for maker in (NVIDIA, AMD, None)
    ]
    assert [text.endswith(f"uses {units}.") for text, units in zip(
        texts, ("Tensor Cores", "Matrix Cores", "Tensor Cores"), strict=True)] == [True] * 3  # fmt: skip


def copies(label: str, call: str, work: str, direction: str) -> list[dict[str, Any]]:
    """Steps that wait for a copy of one direction between the kernels."""
    events = labels(700, "python", "CPU") + labels(3, "python", label)
    ways = {"HOST_TO_DEVICE": "Memcpy HtoD (Pageable -> Device)", "DEVICE_TO_HOST": "Memcpy DtoH (Device -> Pageable)"}
    for step in range(4):
        at, number = 1000.0 * step, 10 + 2 * step
        is_mtia = work == "mtia_ccp_events"
        events += [
            slice_of(f"ProfilerStep#{step}", 700, 700, at, 1000, "user_annotation"),
            slice_of("aten::copy_", 700, 700, at + 5, 30, "cpu_op"),
            slice_of("memcpy", 700, 700, at + 10, 8, call, correlation=number),
            slice_of("dma_request" if is_mtia else ways[direction], 3, 2, at + 40, 500,
                     work if is_mtia else "gpu_memcpy", correlation=number, stream=2, device=3,
                     **({"direction": direction, "size": 4096} if is_mtia else {"bytes": 4096})),
            slice_of("aten::mm", 700, 700, at + 100, 30, "cpu_op"),
            slice_of("launchKernel", 700, 700, at + 110, 8, call, correlation=number + 1),
            slice_of("matmul", 3, 2, at + 545, 450, work, correlation=number + 1, stream=2, device=3),
        ]  # fmt: skip
    return events


@pytest.mark.parametrize(
    ("device", "direction", "named", "missing"),
    [
        (("MTIA 3", "mtia_runtime", "mtia_ccp_events"), "HOST_TO_DEVICE", "device=…", (".item()", "pinned")),
        (("MTIA 3", "mtia_runtime", "mtia_ccp_events"), "DEVICE_TO_HOST", ".item()", ("device=…", "pinned")),
        (("GPU 3", "cuda_runtime", "kernel"), "HOST_TO_DEVICE", "pinned memory", (".item()",)),
        (("GPU 3", "cuda_runtime", "kernel"), "DEVICE_TO_HOST", ".item()", ("device=…",)),
    ],
)
def test_advice_on_copies_is_for_their_direction(
    device: tuple[str, str, str], direction: str, named: str, missing: tuple[str, ...], tmp_path: Path
) -> None:
    rows = write(tmp_path, copies(*device, direction)).diagnosis().tables["findings"].to_pylist()
    (row,) = [row for row in rows if row["cause"] == "transfer"]
    assert row["title"].startswith(f"The {device[0].split()[0]} waits")
    assert named in row["advice"] and not [word for word in missing if word in row["advice"]]


def test_reported_mtia_gets_no_advice_of_cuda() -> None:
    report = fastprof.load(HERE / "p5-mtia.json.gz").diagnosis()
    texts = [*report.tables["findings"]["advice"].to_pylist(), *report.tables["unrecorded"]["how"].to_pylist()]
    assert not [text for text in texts if any(word in text for word in ("CUDA", "Nsight", "pinned"))]


def test_a_listed_device_without_activity_is_recorded_with_its_own(tmp_path: Path) -> None:
    events = labels(700, "python", "CPU") + [
        slice_of("aten::mm", 700, 700, 5.0, 900, "cpu_op"),
        slice_of("dma", 3, 2, 1500.0, 1, "mtia_insight"),
    ]
    text = write(tmp_path, events).diagnosis().scalars["incomplete"].value
    assert (text is not None and "MTIA device is listed" in text) or (text is not None and "1 MTIA is listed" in text)
    assert "ProfilerActivity.MTIA" in text


# ---- counters


def test_counters_of_xpu_are_of_their_device_and_their_events_are_no_kernels(tmp_path: Path) -> None:
    """The scope profiler writes what it measured of a kernel as an event around it, and as counters."""
    events = of_kineto("GPU 3", "xpu_runtime", "kernel")
    for step in range(4):
        at = 1000.0 * step + 100
        metrics = {"GpuTime [ns]": 300_000, "XVE_ACTIVE [%]": 45.5}
        events += [
            slice_of("metrics: matmul", 3, 2, at - 0.001, 300.002, "kernel", kernel_id=step, queue="7", **metrics),
            {"ph": "C", "cat": "xpu_scope_profiler", "name": "metrics", "pid": 3, "tid": 2, "ts": at, "args": metrics},
            {"ph": "C", "cat": "xpu_scope_profiler", "name": "metrics", "pid": 3, "tid": 2, "ts": at + 300,
             "args": {"GpuTime [ns]": 0, "XVE_ACTIVE [%]": 0}},
        ]  # fmt: skip
    profile = write(tmp_path, events)
    assert profile.kernel_stats().scalars["total_ps"].value == 1200 * US
    assert profile.kernel_stats().scalars["occurrences"].value == 4
    assert profile.diagnosis().scalars["compute_share"].value == pytest.approx(0.3, abs=0.1)
    counters = [line for line in profile.lines.to_pylist() if line["name"] == "_counters_"]
    planes = {row["plane_id"]: row["name"] for row in profile.planes.to_pylist()}
    assert [planes[line["plane_id"]] for line in counters] == ["/device:XPU:3"]
    rows = profile.hardware_units().tables["counters"].to_pylist()
    assert {(row["kernel"], row["counter"], row["value"] or row["real_value"]) for row in rows} == {
        ("metrics: matmul", "GpuTime [ns]", 300_000), ("metrics: matmul", "XVE_ACTIVE [%]", 45.5)
    }  # fmt: skip


@pytest.mark.parametrize(("label", "cat"), [("MTIA 3", "mtia_counters"), ("GPU 3", "mtia_counters"), ("GPU 3", "own")])
def test_counters_with_the_number_of_a_device_as_pid_are_of_it(label: str, cat: str, tmp_path: Path) -> None:
    events = of_kineto(label, "mtia_runtime", "mtia_ccp_events")
    events.append({"ph": "C", "cat": cat, "name": "power", "pid": 3, "tid": 0, "ts": 5, "args": {"W": 310}})
    events.append({"ph": "C", "cat": "own", "name": "queue", "pid": 700, "tid": 0, "ts": 5, "args": {"length": 2}})
    profile = write(tmp_path, events)
    planes = {row["plane_id"]: row["name"] for row in profile.planes.to_pylist()}
    lines = [planes[line["plane_id"]] for line in profile.lines.to_pylist() if line["name"] == "_counters_"]
    assert sorted(lines) == ["/device:MTIA:3", "/host:CPU"]
    assert profile.kernel_stats().scalars["occurrences"].value == 4
