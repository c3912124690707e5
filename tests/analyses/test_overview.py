"""The overview: what it ran on, what bounds it, what costs most, and XProf's page of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hand_made import MS, generic_db, op_stats, ops, steps_report, tpu_db
from reports import column, figures, records
from trace_builder import plane, xspace

import fastprof
from fastprof.analyses import inference, input_pipeline, kernel_stats, overview
from fastprof.analyses.contract import AnalysisReport, Notice, Scalar
from fastprof.analyses.input_pipeline import InputHostState
from fastprof.analyses.kernel_stats import HostKernels
from fastprof.analyses.overview import OverviewHostState
from fastprof.derive.devices import gpu_kernels
from fastprof.derive.devices.device_peaks import Peaks
from fastprof.derive.devices.run_environment import HostDevices, HostEnvironment
from fastprof.derive.ops.gpu_kernels import KernelKey, KernelRow
from fastprof.derive.ops.host_op_stats import EAGER, TfFunction
from fastprof.derive.ops.line_times import DutyCycle
from fastprof.derive.ops.op_table import Ops, OpTable
from fastprof.derive.ops.record_checks import HostRecords
from fastprof.derive.steps.step_database import StepDatabase
from fastprof.xprof.pages import overview as page

STEP = {"device_compute_32": 60, "host_wait_input": 20, "host_to_device": 10, "unknown_time": 10}
PEAKS = Peaks("TPU", "TPU v4", 100.0, (1000.0,) + (0.0,) * 6)


def host(
    name: str = "host0", kind: str = "GPU", device: str = "Nvidia GPU (Ampere)", count: int = 1,
    duty: DutyCycle | None = None, mxu: float | None = None, errors: Sequence[str] = (), warnings: Sequence[str] = (),
) -> OverviewHostState:  # fmt: skip
    devices = HostDevices("CPU", 1) if kind == "CPU_ONLY" else HostDevices(kind, count)
    said = (tuple(errors), tuple(warnings))
    environment = HostEnvironment(name, f"{name}.net", kind, device, count, "unknown", *said, devices)
    return OverviewHostState(environment, duty or DutyCycle(), mxu, None)


def cpu(name: str = "host0") -> OverviewHostState:
    return host(name, "CPU_ONLY", "CPU", 0)


def report_of(
    db: StepDatabase,
    *hosts: OverviewHostState,
    host_ops: Ops | None = None,
    device_ops: Ops | None = None,
    framework: OpTable | None = None,
    notices: Sequence[Notice] = (),
    top_ops: int = 10,
    kernels: Sequence[KernelRow] = (),
    **stats: Any,
) -> AnalysisReport:
    training = Scalar("is_training", stats.get("is_training"), None, "", "the capture carries no programs")
    detail = op_stats(host_ops, device_ops, framework, **stats)
    op_report = AnalysisReport("op_stats", {}, {"is_training": training}, (), {}, detail)
    after = {"steps": steps_report(db, *notices), "op_stats": op_report}
    after["kernel_stats"] = kernel_stats.run([HostKernels(1, list(kernels), ())], kernel_stats.Params(), {})
    of_input = InputHostState("TensorFlow", HostRecords("", (), True, False))
    after["input_pipeline"] = input_pipeline.run([of_input], input_pipeline.Params(), after)
    after["inference"] = inference.run([], inference.Params(), {})
    after["diagnosis"] = fastprof.load(xspace(plane("/host:CPU", []))).report("diagnosis")
    hosts = hosts or (host(),)
    kept = {"host ops": [detail.host], "device ops": [detail.device], "duty cycle": [one.duty for one in hosts]}
    return replace(overview.run(hosts, overview.Params(top_ops), after), kept=kept)


def test_the_figures_of_steps_are_of_the_complete_ones() -> None:
    wild = {"unknown_time": 1000}
    report = report_of(generic_db([wild, *[STEP] * 6, wild]))
    assert (figures(report)["input_percent"], figures(report)["input_verdict"]) == (pytest.approx(20), "high")
    assert len(records(report, "steps")) == 8
    assert records(report, "breakdown")[0]["mean_ps"] == 60 * MS


def test_hosts_add_up_and_a_coordinator_is_not_a_cpu() -> None:
    hosts = [cpu("c"), host("a", count=8), host("b", count=4, device="Nvidia GPU (Hopper)")]
    values = figures(report_of(generic_db([STEP]), *hosts))
    assert (values["host_count"], values["task_count"]) == (3, 3)
    assert (values["device_type"], values["device_count"]) == ("Nvidia GPU (Hopper)", 12)
    assert column(report_of(generic_db([STEP]), *hosts), "hosts", "hostname") == [
        "c.net",
        "a.net",
        "b.net",
    ]


def test_duty_cycles_of_hosts_add_up_before_they_are_a_share() -> None:
    hosts = [host("a", duty=DutyCycle(1, 90, 10, 80, 20)), host("b", duty=DutyCycle(1, 100, 200, 100, 200))]
    report = report_of(generic_db([STEP]), *hosts)
    assert figures(report)["duty_cycle_percent"] == pytest.approx(100 * 190 / 400)
    assert figures(report)["duty_cycle_sure_percent"] == pytest.approx(100 * 180 / 400)
    assert [row["duty_cycle_percent"] for row in records(report, "hosts")] == [90, pytest.approx(100 / 3)]


def test_measured_use_is_the_mean_of_the_hosts_that_measured_it() -> None:
    report = report_of(generic_db([STEP]), host("a", mxu=40.0), host("b"), host("c", mxu=20.0))
    assert figures(report)["mxu_utilization_percent"] == 30
    assert report.scalars["hbm_utilization_percent"].value is None
    assert report.scalars["hbm_utilization_percent"].reason == "the profiler did not measure it"


def test_what_is_not_known_has_a_reason_and_no_number() -> None:
    notice = Notice("warning", "no step markers in this capture")
    report = report_of(generic_db([], hardware="CPU_ONLY"), cpu(), notices=[notice])
    unknown = {name: scalar.reason for name, scalar in report.scalars.items() if scalar.value is None}
    assert unknown["step_time_mean_ps"] == notice.text
    assert unknown["input_verdict"] == notice.text
    assert unknown["duty_cycle_percent"] == "there is no device"
    assert unknown["is_training"] == "the capture carries no programs"
    assert unknown["host_op_percent"] == "no framework op took any time on a host thread"
    assert all(unknown.values())
    assert records(report, "verdicts") == [
        {"aspect": "waiting for input", "verdict": "unknown", "look_at": None, "percent": None,
         "statement": "No step time measured. Therefore we cannot tell where the performance bottleneck is."}
    ]  # fmt: skip
    assert [(one.severity, one.text) for one in report.notices] == [("warning", f"Step time is unknown: {notice.text}")]


DEVICE_OPS = (
    {
        "name": "a",
        "category": "MatMul",
        "provenance": "a:MatMul",
        "occurrences": 4,
        "time_ps": 60,
        "self_ps": 30,
        "flops": 120.0,
        "is_eager": True,
    },
    {"name": "b", "category": "Unknown", "occurrences": 2, "time_ps": 50, "self_ps": 50},
    {"name": "c", "category": "Add", "occurrences": 1, "time_ps": 20, "self_ps": 20},
)


def test_the_most_expensive_ops_come_first_with_their_share_of_all() -> None:
    found = records(report_of(generic_db([STEP]), device_ops=ops(*DEVICE_OPS), top_ops=2), "top_ops")
    assert [(row["rank"], row["host_or_device"], row["name"], row["type"]) for row in found] == [
        (1, "Device", "b", None),
        (2, "Device", "a", "MatMul"),
    ]
    assert [row["self_share"] for row in found] == [0.5, 0.3]
    assert [row["cumulative_share"] for row in found] == [0.5, 0.8]
    assert found[1]["flops_per_s"] == pytest.approx(2e12)
    assert found[1]["uses_tensor_cores"] is None


def test_without_device_ops_those_of_hosts_are_listed() -> None:
    found = records(report_of(generic_db([STEP]), cpu(), host_ops=ops(*DEVICE_OPS)), "top_ops")
    assert [(row["host_or_device"], row["name"]) for row in found] == [("Host", "b"), ("Host", "a"), ("Host", "c")]
    assert found[1]["flops_per_s"] is None


def test_placement_counts_occurrences_and_eager_shares_count_self_time() -> None:
    host_ops = ops({"name": "h", "occurrences": 3, "time_ps": 10, "self_ps": 10}, total_ps=40)
    values = figures(report_of(generic_db([STEP]), host_ops=host_ops, device_ops=ops(*DEVICE_OPS, total_ps=200)))
    assert (values["host_op_percent"], values["device_op_percent"]) == (30, 70)
    assert (values["host_eager_percent"], values["device_eager_percent"]) == (0, 30)
    assert (values["host_idle_percent"], values["device_idle_percent"]) == (75, 50)


def test_work_is_measured_against_the_peaks_of_the_devices_without_counting_containers_twice() -> None:
    device_ops = ops(
        {"name": "dot", "category": "convolution", "self_ps": 10**12, "time_ps": 10**12, "flops": 30e12,
         "bytes_accessed": 400e9},
        {"name": "loop", "category": "while", "time_ps": 10**12, "flops": 30e12, "bytes_accessed": 400e9},
        total_ps=2 * 10**12,
    )  # fmt: skip
    values = figures(report_of(generic_db([STEP]), device_ops=device_ops, peaks=PEAKS))
    assert values["flops_utilization_percent"] == pytest.approx(15)
    assert values["memory_utilization_percent"] == pytest.approx(20)


def test_verdicts_come_from_steps_ops_and_functions_and_are_no_notices() -> None:
    eager = [TfFunction("slow", {EAGER: 1}, {EAGER: 100})]
    db = generic_db([{"device_compute_32": 60, "host_wait_input": 25, "unknown_time": 15}])
    sgemm = KernelKey("sgemm", (1, 1, 1), (1, 1, 1), 8, 0, 0, uses=False, could=False, op="")
    times = (1, 60, 60, 60)
    row = KernelRow(
        "host0", sgemm, gpu_kernels.parse_launch("regs:8"), "Nvidia", False, False, 0, 1, 0, "f32", times, times, True
    )
    report = report_of(db, device_ops=ops(*DEVICE_OPS), functions=eager, kernels=[row])
    assert report.notices == ()
    rows = {row["aspect"]: row for row in records(report, "verdicts")}
    starts = {"waiting for input": "Your program is HIGHLY", "all other time": "15.0 % of the total",
              "16-bit arithmetic": "Only 0.0 % of device", "eager execution": "30.0 % of Op time on the device",
              "tf.functions": "Expensive tf-functions"}  # fmt: skip
    for aspect, start in starts.items():
        assert rows[aspect]["statement"].startswith(start)
    verdicts = {aspect: (row["verdict"], row["look_at"]) for aspect, row in rows.items()}
    assert verdicts["waiting for input"] == ("high", "host")
    assert verdicts["tf.functions"] == ("moderate", "host") and verdicts["16-bit arithmetic"] == ("moderate", "device")
    assert verdicts["kernel launches"] == ("none", None)


def test_tpus_get_a_verdict_too() -> None:
    report = report_of(tpu_db([[{"step": 10, "infeed": 3, "fusion": 7}]]), host(kind="TPU", device="TPU v4"))
    statement = records(report, "verdicts")[0]["statement"]
    assert statement.startswith("Your program is HIGHLY input-bound because 30.0 %")


def test_what_the_profiler_said_is_passed_on_once() -> None:
    hosts = [host("a", errors=["z", "y"], warnings=["w", "w"]), host("b", errors=["y"], warnings=["w"])]
    listed = [(one.severity, one.text) for one in report_of(generic_db([STEP]), *hosts).notices]
    assert listed[-3:] == [("warning", "w"), ("error", "y"), ("error", "z")]


# ---- XProf's page ---------------------------------------------------------------------------------------


def properties(table: object) -> dict[str, str]:
    assert isinstance(table, dict)
    found: dict[str, str] = table["p"]
    return found


def test_the_page_of_gpus_reports_precision_and_tensor_cores() -> None:
    db = generic_db([STEP], precision=(10, 30))
    host_ops = ops({"name": "h", "occurrences": 3, "time_ps": 10, "self_ps": 10})
    analysis, steps, environment, recommendation, latency, empty, diagnostics = page.answer(
        report_of(db, device_ops=ops(*DEVICE_OPS), host_ops=host_ops)
    )
    assert isinstance(analysis, dict)
    assert [column["id"] for column in analysis["cols"]][4:] == ["flopRate", "tcEligibility", "tcUtilization"]
    assert [cell["v"] for cell in analysis["rows"][1]["c"]] == [0.3, 0.8, "MatMul", "a", 2000.0, False, False]
    p = properties(analysis)
    assert (p["device_compute_16bit_percent"], p["device_compute_32bit_percent"]) == ("25.0%", "75.0%")
    assert (p["host_tf_op_percent"], p["device_op_time_eager_percent"]) == ("30.0%", "30.0%")
    assert properties(steps)["hardware_type"] == "GPU"
    assert properties(environment) == {
        "device_core_count": "1", "device_type": "Nvidia GPU (Ampere)", "host_count": "1", "is_training": "false",
        "task_count": "1 (num tasks per host = 1)",
    }  # fmt: skip
    recommended = properties(recommendation)
    assert (recommended["bottleneck"], recommended["non_bottleneck_tip_types"]) == ("host", "device")
    assert recommended["all_other_bottleneck"] == "moderate"
    assert isinstance(latency, dict)
    assert latency["rows"] == []
    assert empty == {}
    assert isinstance(diagnostics, dict)
    assert diagnostics["rows"] == []


def test_the_page_of_tpus_is_silent_about_bottlenecks_once_there_are_steps() -> None:
    tpu = host(kind="TPU", device="TPU v4", duty=DutyCycle(1, 90, 10, 80, 20))
    with_steps = page.answer(report_of(tpu_db([[{"step": 10, "infeed": 3, "fusion": 7}]]), tpu))
    assert set(properties(with_steps[3]).values()) == {""}
    p = properties(with_steps[0])
    assert (p["device_duty_cycle_percent"], p["idle_time_high_confidence_ps"]) == ("90.0%", "20")
    assert (p["active_steptime_ms_average"], p["tc_active_ms_average"]) == ("7.00", "7.00")
    without = page.answer(report_of(tpu_db([]), tpu))
    assert properties(without[3])["bottleneck"] == "unknown"
    assert properties(without[3])["kernel_launch_bottleneck"] == "no"
    assert "tc_active_ms_average" not in properties(without[0])


def test_the_page_of_cpus_looks_like_that_of_tpus_with_zeros() -> None:
    p = properties(page.answer(report_of(generic_db([STEP], hardware="CPU_ONLY"), cpu()))[0])
    assert p["device_duty_cycle_percent"] == p["host_idle_time_percent"] == "0.0%"
    assert "device_compute_16bit_percent" not in p


def test_the_page_says_where_a_device_shows_no_core() -> None:
    rows_of = page.answer(report_of(generic_db([STEP]), host(count=0)))[6]
    assert isinstance(rows_of, dict)
    assert rows_of["rows"][0]["c"][0]["v"] == "ERROR"
    diagnostics = page.answer(report_of(generic_db([STEP]), host(count=0, errors=["lost"], warnings=["late"])))[6]
    assert isinstance(diagnostics, dict)
    assert [[cell["v"] for cell in row["c"]] for row in diagnostics["rows"]] == [["WARNING", "late"], ["ERROR", "lost"]]
