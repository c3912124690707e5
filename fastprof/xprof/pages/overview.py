"""XProf's overview page: device ops, steps, run environment, recommendation, latency, diagnostics."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate
from typing import TYPE_CHECKING, Final

import numpy as np

from fastprof.analyses import overview as analysis
from fastprof.analyses.input_pipeline import InputPipeline
from fastprof.analyses.op_stats import OpDatabase
from fastprof.derive.ops import op_marks
from fastprof.derive.ops.ranking import by_self_time
from fastprof.derive.ops.roofline import divided
from fastprof.derive.ops.tables import Ops, OpTable
from fastprof.derive.steps import verdicts
from fastprof.derive.steps.step_figures import TpuStepValues, has_sparse_cores
from fastprof.derive.steps.verdicts import Finding
from fastprof.xprof import device_ops, duty_cycle, host_ops
from fastprof.xprof.device_ops import by_framework_op, last_is_eager
from fastprof.xprof.pages import inference, input_pipeline, kernel_stats
from fastprof.xprof.pages.data_table import (
    Col,
    Values,
    anchor,
    boolean,
    data_table,
    number,
    of_columns,
    one_digit,
    percent,
    text,
    two_digits,
)  # fmt: skip
from fastprof.xprof.pages.pod_viewer import UNNAMED_TPU
from fastprof.xprof.pages.step_tables import Stat

if TYPE_CHECKING:
    from fastprof.analyses.contract import Report

KEEPS: Final = device_ops.KEEPS | input_pipeline.KEEPS | duty_cycle.KEEPS
TOP_OPS: Final = 10

_LATENCY: Final = (
    text("percentile"),
    number("hostTimeMs", "Host time (in ms)"),
    number("deviceTimeMs", "Device time (in ms)"),
    number("communicationTimeMs", "Host-device communication time (in ms)"),
    number("totalTimeMs", "Total latency (in ms)"),
)
_TIMELINE: Final = "trace_viewer (look at the activities on the timeline of each"
_BY_THREAD: Final = f"{_TIMELINE} Host Thread near the bottom of the trace view)"
_BY_INPUT_OP: Final = "input_pipeline_analyzer (especially Section 3 for the breakdown of input operations on the Host)"
_GUIDE: Final = "https://www.tensorflow.org/guide/data_performance"


def answer(report: Report) -> list[object]:
    """The seven parts of the page; the sixth is always empty."""
    overview = report.detail_as(analysis.Overview)
    pipeline = input_pipeline.as_shown(report, host_ops.of_session(report))
    is_training = bool(report.after["op_stats"].detail_as(OpDatabase).is_training)
    latency = [] if is_training else inference.latency_rows(report.after["inference"])
    warnings = [*overview.environment.warnings, *input_pipeline.step_warnings(pipeline)]
    return [
        _analysis(overview, pipeline, report),
        input_pipeline.steps_table(pipeline),
        _run_environment(overview, is_training),
        _recommendation(overview, pipeline),
        data_table(_LATENCY, latency),
        {},
        input_pipeline.diagnostics(warnings, analysis.errors_of(overview.environment)),
    ]


# ---- device ops and what they use -----------------------------------------------------------------------


def _analysis(overview: analysis.Overview, pipeline: InputPipeline, report: Report) -> dict[str, object]:
    on_gpu = "GPU" in overview.environment.device_type
    every = by_self_time(_framework_ops(report))
    top = every.take(np.arange(min(TOP_OPS, len(every))))
    total_ps = device_ops.of_session(report).op_ps or 1
    shares = [self_ps / total_ps for self_ps in top.self_ps.tolist()]
    columns: list[tuple[Col, Values]] = [
        (number("selfTimePercent", "Time (%)"), shares),
        (number("cumulativeTimePercent", "Cumulative time (%)"), accumulate(shares)),
        (text("category", "Category"), top.category),
        (text("operation", "Operation"), top.name),
        (
            number("flopRate", "GFLOPs/Sec" if on_gpu else "Bf16 Normalized Flop Rate(GFLOPs/Sec)"),
            divided(top.flops, top.time_ps / 1e3),
        ),
    ]
    properties = _shared_properties(overview, report)
    if not on_gpu:
        return of_columns(columns, properties | _tpu_properties(overview, pipeline, report))
    by_op = kernel_stats.by_op(report.after["kernel_stats"])
    kernels = [by_op.get(name, kernel_stats.OpKernels(False, 0, 0)) for name in top.name]
    columns += [
        (boolean("tcEligibility", "TensorCore eligibility"), [one.could for one in kernels]),
        (boolean("tcUtilization", "Op is using TensorCore"), [one.tensor_core_ns != 0 for one in kernels]),
    ]
    return of_columns(columns, properties | _gpu_properties(pipeline))


def _framework_ops(report: Report) -> OpTable:
    return by_framework_op(device_ops.of_session(report).table)


def _shared_properties(overview: analysis.Overview, report: Report) -> dict[str, str]:
    threads = host_ops.of_session(report)
    on_host, on_device = int(threads.table.occurrences.sum()), int(_framework_ops(report).occurrences.sum())
    percents = {
        "host_tf_op": _part(on_host, on_device),
        "device_tf_op": _part(on_device, on_host),
        "host_op_time_eager": op_marks.eager_percent(threads.table) or 0.0,
        "device_op_time_eager": _device_eager(report),
    }
    for unit in ("mxu", "hbm"):
        used = sum(getattr(facts, f"{unit}_percent") or 0.0 for facts in overview.hosts)
        percents[f"{unit}_utilization"] = used / max(len(overview.hosts), 1)
    return _percents(percents) | {"host_trace_level": "0", "remark_text": "", "remark_color": ""}


def _percents(values: Mapping[str, float]) -> dict[str, str]:
    return {f"{name}_percent": percent(value) for name, value in values.items()}


def _part(part: int, rest: int) -> float:
    return verdicts.share(part, part + rest)


def _device_eager(report: Report) -> float:
    """A framework op is eager for XProf where the last of its device ops is."""
    table = _framework_ops(report)
    last = last_is_eager(device_ops.of_session(report).table)
    eager = np.array([last.get(name, False) for name in table.name], bool)
    return verdicts.share(int(table.self_ps[eager].sum()), int(table.self_ps.sum()))


def _precision(pipeline: InputPipeline) -> tuple[int, int]:
    """Time of 16-bit and of 32-bit kernels, to which some copies count."""
    return pipeline.db.compute_16bit_ps, pipeline.db.compute_32bit_ps


def _gpu_properties(pipeline: InputPipeline) -> dict[str, str]:
    narrow, wide = _precision(pipeline)
    return _percents({"device_compute_16bit": _part(narrow, wide), "device_compute_32bit": _part(wide, narrow)})


def _tpu_properties(overview: analysis.Overview, pipeline: InputPipeline, report: Report) -> dict[str, str]:
    """Utilisation of the roofline needs limits that XProf is not given; off TPUs it leaves all of these at 0."""
    idle = ("device_idle_time", "host_idle_time", "device_duty_cycle", "device_duty_cycle_high_confidence")
    unknown = ("flop_rate_utilization_relative_to_roofline", "memory_bw_utilization_relative_to_hw_limit")
    properties = dict.fromkeys(unknown, percent(0.0)) | _percents(dict.fromkeys(idle, 0.0))
    if overview.environment.hardware != "TPU":
        return properties
    ops = (device_ops.of_session(report), host_ops.of_session(report))
    sure_ps, idle_ps = duty_cycle.sure_times(report)
    active = analysis.duty_percent(overview.duty.busy_ps, overview.duty.idle_ps) or 0.0
    duty = (active, _part(sure_ps, idle_ps))
    properties |= _percents(dict(zip(idle, (*map(_idle, ops), *duty), strict=True)))
    if idle_ps > 0:
        properties["idle_time_high_confidence_ps"] = f"{idle_ps:.6g}"
    return properties | _active_times(pipeline)


def _idle(ops: Ops) -> float:
    """Of nothing, all is idle."""
    return 100.0 if not ops.total_ps else 100.0 * (1.0 - ops.op_ps / ops.total_ps)


def _active_times(pipeline: InputPipeline) -> dict[str, str]:
    steps = pipeline.steps
    if not isinstance(steps, TpuStepValues) or not len(pipeline.db):
        return {}

    def average(of: str) -> float:
        return Stat.of(getattr(steps, of)).average

    sparse, p = has_sparse_cores(pipeline.db), {}
    if average("active_ms"):
        p["active_steptime_ms_average"] = two_digits(average("active_ms"))
        for core in ("tc", "sc") if sparse else ("tc",):
            p[f"{core}_active_ms_average"] = two_digits(average(f"{core}_active_ms"))
    if sparse and average("sc_step_ms"):
        p["sc_steptime_average"] = one_digit(average("sc_step_ms"))
        for part in ("infeed", "outfeed", "idle"):
            p[f"sc_{part}_time_avg"] = one_digit(average(f"sc_{part}_ms"))
    return p


# ---- run environment ------------------------------------------------------------------------------------


def _run_environment(overview: analysis.Overview, is_training: bool) -> dict[str, object]:
    environment = overview.environment
    per_host = environment.task_count // environment.host_count if environment.host_count else 0
    tasks = f"{environment.task_count}" + (f" (num tasks per host = {per_host})" if environment.task_count else "")
    p = {
        "host_count": str(environment.host_count),
        "task_count": tasks,
        "device_type": "" if environment.device_type == UNNAMED_TPU else environment.device_type,
        "device_core_count": str(environment.device_count),
        "is_training": "true" if is_training else "false",
    }
    return data_table([text("host_id"), text("command_line"), text("start_time"), text("bns_address")], [], p)


# ---- recommendation -------------------------------------------------------------------------------------


def _recommendation(overview: analysis.Overview, pipeline: InputPipeline) -> dict[str, object]:
    hardware = overview.environment.hardware
    tool = "op_profile" if hardware == "TPU" else "framework_op_stats"
    timeline = "TPU core" if hardware == "TPU" else hardware
    host, device, document = (
        "Next steps for reducing the Host time",
        "Next steps for reducing the Device time",
        "Other useful resources",
    )
    rows = [
        ["faq", "Refer to the TF2 Profiler FAQ", "Tool troubleshooting / FAQ"],
        ["host", _BY_INPUT_OP, host],
        ["host", _BY_THREAD, host],
        ["device", f"{tool} (identify the time-consuming operations executed on the {hardware})", device],
        ["device", f"{_TIMELINE} {timeline} in the trace view)", device],
        ["doc", anchor(f"{_GUIDE}_analysis", "Analyze tf.data performance with the TF Profiler"), document],
        ["doc", anchor(_GUIDE, "Better performance with the tf.data API"), document],
    ]
    columns = [text("tip_type"), text("link"), text("description")]
    return data_table(columns, rows, _verdict_properties(pipeline))


def _verdict_properties(pipeline: InputPipeline) -> dict[str, str]:
    """XProf draws its verdict from steps of GPUs and CPUs, never from steps of TPUs."""
    verdict = pipeline.verdict
    silent = Finding("") if pipeline.db.is_tpu and len(pipeline.db) else None
    bound = silent or verdict.input
    p = {"bottleneck": bound.classification, "statement": bound.statement}
    for name in ("device_collectives", "kernel_launch", "all_other"):  # a TPU has none of them
        finding: Finding = getattr(verdict, name) if silent is None else silent
        p[f"{name}_bottleneck"], p[f"{name}_statement"] = finding.classification, finding.statement
    p["precision_statement"] = verdicts.of_precision(*_precision(pipeline)).statement
    other_side = {verdicts.HOST: verdicts.DEVICE, verdicts.DEVICE: verdicts.HOST}
    p["non_bottleneck_tip_types"] = other_side.get(bound.classification, "")
    return p
