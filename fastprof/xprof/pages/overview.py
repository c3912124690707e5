"""XProf's overview page: device ops, steps, run environment, recommendation, latency, diagnostics.

The duty cycle of chips is the one that XProf is sure of: it takes the work of ops for 32-bit integers."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from fastprof._native import records
from fastprof.analyses import overview as analysis
from fastprof.analyses.contract import AnalysisReport, Keeper
from fastprof.analyses.input_pipeline import InputPipeline
from fastprof.analyses.op_stats import OpDatabase
from fastprof.derive.ops import line_times, op_table
from fastprof.derive.ops.line_times import DutyCycle
from fastprof.derive.ops.op_table import Ops, OpTable, sort_by_self_time
from fastprof.derive.ops.roofline_model import ratio_or_zero
from fastprof.derive.steps import step_advice
from fastprof.derive.steps.step_advice import Verdict
from fastprof.derive.steps.step_figures import TpuStepValues, has_sparse_cores
from fastprof.tables.needs import Needs
from fastprof.xprof import counted_ops
from fastprof.xprof.counted_ops import find_eager, merge_framework_ops
from fastprof.xprof.pages import inference, input_pipeline, kernel_stats
from fastprof.xprof.pages.data_table import (
    Col,
    Values,
    anchor,
    boolean,
    format_percent,
    join_columns,
    make_data_table,
    number,
    one_digit,
    text,
    two_digits,
)
from fastprof.xprof.pages.input_pipeline import StepStat
from fastprof.xprof.pages.pod_viewer import UNNAMED_TPU

if TYPE_CHECKING:
    from fastprof.derive.host import Host
    from fastprof.schema.columns import Bools
    from fastprof.tables.host_events import Stat


_DUTY_CYCLE: Final = "duty cycle"


def is_32_bit_work(stat: Stat, _name: str) -> Bools:
    """Return whether XProf takes the stats for work: doubles are not, nor are values of 0 or less after cutting to 32
    bits."""
    is_integer = (stat.kind == records.INT64) | (stat.kind == records.UINT64)
    return np.asarray(is_integer & (stat.value.astype(np.int32) > 0))


def _get_duty_cycle(host: Host, _params: Mapping[str, Any]) -> DutyCycle:
    return line_times.measure_duty_cycle(host.raw, host.workers, is_32_bit_work)


_DUTY_READS: Final = Needs((), line_times.EVENT_STATS, line_times.METADATA_STATS)
_DUTY_KEEPS: Final = {_DUTY_CYCLE: Keeper(_DUTY_READS, _get_duty_cycle)}


def sum_sure_times(report: AnalysisReport) -> tuple[int, int]:
    """Return the picoseconds in which chips of all hosts were surely active, and in which they were not."""
    cycle = sum(report.kept[_DUTY_CYCLE], DutyCycle())
    return cycle.sure_busy_ps, cycle.sure_idle_ps


KEEPS: Final = counted_ops.DEVICE_OPS_KEEPS | input_pipeline.KEEPS | _DUTY_KEEPS
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


def answer(report: AnalysisReport) -> list[object]:
    """Make the seven parts of the page; the sixth is always empty."""
    overview = report.detail_as(analysis.Overview)
    pipeline = input_pipeline.read_pipeline(report, counted_ops.get_host_ops(report))
    is_training = bool(report.after["op_stats"].detail_as(OpDatabase).is_training)
    latency = [] if is_training else inference.list_latency_rows(report.after["inference"])
    warnings = [*overview.environment.warnings, *input_pipeline.list_pipeline_warnings(pipeline)]
    return [
        _make_analysis(overview, pipeline, report),
        input_pipeline.make_steps_table(pipeline),
        _describe_environment(overview, is_training),
        _make_recommendation(overview, pipeline),
        make_data_table(_LATENCY, latency),
        {},
        input_pipeline.make_diagnostics(warnings, analysis.list_errors(overview.environment)),
    ]


# ---- device ops and what they use -----------------------------------------------------------------------


def _make_analysis(overview: analysis.Overview, pipeline: InputPipeline, report: AnalysisReport) -> dict[str, object]:
    on_gpu = "GPU" in overview.environment.device_type
    every = sort_by_self_time(_group_framework_ops(report))
    top = every.take(np.arange(min(TOP_OPS, len(every))))
    total_ps = counted_ops.get_device_ops(report).op_ps or 1
    shares = [self_ps / total_ps for self_ps in top.self_ps.tolist()]
    columns: list[tuple[Col, Values]] = [
        (number("selfTimePercent", "Time (%)"), shares),
        (number("cumulativeTimePercent", "Cumulative time (%)"), accumulate(shares)),
        (text("category", "Category"), top.category),
        (text("operation", "Operation"), top.name),
        (
            number("flopRate", "GFLOPs/Sec" if on_gpu else "Bf16 Normalized Flop Rate(GFLOPs/Sec)"),
            ratio_or_zero(top.flops, top.time_ps / 1e3),
        ),
    ]
    properties = _list_shared_properties(overview, report)
    if not on_gpu:
        return join_columns(columns, properties | _list_tpu_properties(overview, pipeline, report))
    by_op = kernel_stats.sum_by_op(report.after["kernel_stats"])
    kernels = [by_op.get(name, kernel_stats.OpKernels(False, 0, 0)) for name in top.name]
    columns += [
        (boolean("tcEligibility", "TensorCore eligibility"), [kernel.could for kernel in kernels]),
        (boolean("tcUtilization", "Op is using TensorCore"), [kernel.tensor_core_ns != 0 for kernel in kernels]),
    ]
    narrow, wide = _sum_precisions(pipeline)
    precisions = {
        "device_compute_16bit": _divide_part(narrow, wide),
        "device_compute_32bit": _divide_part(wide, narrow),
    }
    return join_columns(columns, properties | _format_percents(precisions))


def _group_framework_ops(report: AnalysisReport) -> OpTable:
    return merge_framework_ops(counted_ops.get_device_ops(report).table)


def _list_shared_properties(overview: analysis.Overview, report: AnalysisReport) -> dict[str, str]:
    threads, table = counted_ops.get_host_ops(report), _group_framework_ops(report)
    on_host, on_device = int(threads.table.occurrences.sum()), int(table.occurrences.sum())
    # For XProf a framework op is eager if the last of its device ops is.
    last = find_eager(counted_ops.get_device_ops(report).table)
    eager = np.array([last.get(name, False) for name in table.name], bool)
    eager_percent = step_advice.compute_percent(int(table.self_ps[eager].sum()), int(table.self_ps.sum()))
    percents = {
        "host_tf_op": _divide_part(on_host, on_device),
        "device_tf_op": _divide_part(on_device, on_host),
        "host_op_time_eager": op_table.measure_eager_percent(threads.table) or 0.0,
        "device_op_time_eager": eager_percent,
    }
    for unit in ("mxu", "hbm"):
        used = sum(getattr(facts, f"{unit}_percent") or 0.0 for facts in overview.hosts)
        percents[f"{unit}_utilization"] = used / max(len(overview.hosts), 1)
    return _format_percents(percents) | {"host_trace_level": "0", "remark_text": "", "remark_color": ""}


def _format_percents(values: Mapping[str, float]) -> dict[str, str]:
    return {f"{name}_percent": format_percent(value) for name, value in values.items()}


def _divide_part(part: int, rest: int) -> float:
    return step_advice.compute_percent(part, part + rest)


def _sum_precisions(pipeline: InputPipeline) -> tuple[int, int]:
    """Return the time of 16-bit and of 32-bit kernels, to which some copies count."""
    return pipeline.db.compute_16bit_ps, pipeline.db.compute_32bit_ps


def _list_tpu_properties(
    overview: analysis.Overview, pipeline: InputPipeline, report: AnalysisReport
) -> dict[str, str]:
    """List properties of TPUs. Roofline utilization needs limits that XProf is not given; off TPUs all are 0."""
    idle = ("device_idle_time", "host_idle_time", "device_duty_cycle", "device_duty_cycle_high_confidence")
    unknown = ("flop_rate_utilization_relative_to_roofline", "memory_bw_utilization_relative_to_hw_limit")
    properties = dict.fromkeys(unknown, format_percent(0.0)) | _format_percents(dict.fromkeys(idle, 0.0))
    if overview.environment.hardware != "TPU":
        return properties
    ops = (counted_ops.get_device_ops(report), counted_ops.get_host_ops(report))
    sure_ps, idle_ps = sum_sure_times(report)
    active = analysis.compute_duty_percent(overview.duty.busy_ps, overview.duty.idle_ps) or 0.0
    duty = (active, _divide_part(sure_ps, idle_ps))
    properties |= _format_percents(dict(zip(idle, (*map(_measure_idle, ops), *duty), strict=True)))
    if idle_ps > 0:
        properties["idle_time_high_confidence_ps"] = f"{idle_ps:.6g}"
    return properties | _list_active_times(pipeline)


def _measure_idle(ops: Ops) -> float:
    """Return the idle percentage; without any time, all is idle."""
    return 100.0 if not ops.total_ps else 100.0 * (1.0 - ops.op_ps / ops.total_ps)


def _list_active_times(pipeline: InputPipeline) -> dict[str, str]:
    steps = pipeline.steps
    if not isinstance(steps, TpuStepValues) or not len(pipeline.db):
        return {}

    def average(of: str) -> float:
        return StepStat.of(getattr(steps, of)).average

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


def _describe_environment(overview: analysis.Overview, is_training: bool) -> dict[str, object]:
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
    return make_data_table([text("host_id"), text("command_line"), text("start_time"), text("bns_address")], [], p)


# ---- recommendation -------------------------------------------------------------------------------------


def _make_recommendation(overview: analysis.Overview, pipeline: InputPipeline) -> dict[str, object]:
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
    # XProf draws verdicts from steps of GPUs and CPUs, never from steps of TPUs.
    verdict = pipeline.verdict
    silent = Verdict("") if pipeline.db.is_tpu and len(pipeline.db) else None
    bound = silent or verdict.input
    p = {"bottleneck": bound.classification, "statement": bound.statement}
    for name in ("device_collectives", "kernel_launch", "all_other"):  # a TPU has none of them
        finding: Verdict = getattr(verdict, name) if silent is None else silent
        p[f"{name}_bottleneck"], p[f"{name}_statement"] = finding.classification, finding.statement
    p["precision_statement"] = step_advice.judge_precision(*_sum_precisions(pipeline)).statement
    other_side = {step_advice.HOST: step_advice.DEVICE, step_advice.DEVICE: step_advice.HOST}
    p["non_bottleneck_tip_types"] = other_side.get(bound.classification, "")
    return make_data_table(columns, rows, p)
