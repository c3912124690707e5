"""How long steps take, what they spend it on, and what to do about it.

The first page to open: step time with its percentiles and stragglers, verdicts on what bounds the program, the most
expensive device ops, and the hardware and software of the session. Formulas: docs/analyses/overview.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from operator import attrgetter
from types import SimpleNamespace
from typing import Final

import numpy as np
import pyarrow as pa

from fastprof.analyses import diagnosis, inference, input_pipeline, steps
from fastprof.analyses.contract import (
    AnalysisReport,
    Known,
    LazyTables,
    Notice,
    Opening,
    ScalarSpec,
    Section,
    get_known,
    has_rows,
    is_known,
    make_scalars,
)
from fastprof.analyses.input_pipeline import InputPipeline
from fastprof.analyses.op_stats import OpDatabase
from fastprof.decode.plane_kinds import DEVICE_PLANES
from fastprof.derive.devices import op_names, run_environment
from fastprof.derive.devices.device_events import NothingRan
from fastprof.derive.devices.device_peaks import HBM
from fastprof.derive.devices.run_environment import HostEnvironment, RunEnvironment
from fastprof.derive.host import Host
from fastprof.derive.ops import line_times, op_table
from fastprof.derive.ops.gpu_kernels import PrecisionTimes, sum_precision_times
from fastprof.derive.ops.line_times import DutyCycle
from fastprof.derive.ops.op_columns import find_ops_without_work, list_names_without_work
from fastprof.derive.ops.op_table import Ops, OpTable, sort_by_self_time
from fastprof.derive.steps import step_advice
from fastprof.derive.steps.step_advice import Verdict, adapt_to_framework, compute_percent
from fastprof.derive.steps.step_alignment import SessionSteps, describe_pairing
from fastprof.derive.steps.stragglers import is_worth_naming
from fastprof.schema.tables import (
    Column,
    Count,
    Flag,
    ObjectRows,
    Percent,
    Picoseconds,
    Share,
    String,
    TableSchema,
    Text,
    divide_or_null,
)
from fastprof.schema.value_classes import dataclass
from fastprof.tables.host_events import HOST_THREADS
from fastprof.tables.needs import Needs

NAME = "overview"
READS = Needs((DEVICE_PLANES, r"^/host:CPU$"), line_times.EVENT_STATS, line_times.METADATA_STATS)
AFTER = ("diagnosis", "steps", "op_stats", "kernel_stats", "input_pipeline", "inference")
WITHOUT = ("diagnosis",)


@dataclass(frozen=True, slots=True)
class Params:
    """Parameters. ``top_ops``: rows of the table top_ops."""

    top_ops: int = field(default=10, metadata={"help": "how many of the most expensive ops to list", "min": 0})


ASPECTS: Final[dict[str, tuple[str, str]]] = {
    "input": ("waiting for input", step_advice.HOST),
    "output": ("output", step_advice.HOST),
    "device_collectives": ("collective communication", step_advice.DEVICE),
    "kernel_launch": ("kernel launches", step_advice.HOST),
    "all_other": ("all other time", step_advice.HOST),
    "tc_idle": ("TensorCores idle", step_advice.HOST),
    "all_reduce": ("all-reduce", step_advice.DEVICE),
    "sparse_core": ("SparseCoreV0", step_advice.DEVICE),
    "precision": ("16-bit arithmetic", step_advice.DEVICE),
    "eager": ("eager execution", step_advice.HOST),
    "outside": ("outside compilation", step_advice.BOTH),
    "functions": ("tf.functions", step_advice.HOST),
}
"""Aspects that verdicts judge: display name, and the side to look at if it is a bottleneck."""


TABLES = {
    "findings": diagnosis.TABLES["findings"],
    "steps": input_pipeline.TABLES["steps"],
    "breakdown": input_pipeline.TABLES["breakdown"],
    "stragglers": steps.TABLES["stragglers"],
    "verdicts": TableSchema("verdicts", "an aspect of the program that was checked for a bottleneck", (
        Text("aspect", "aspect of the program that was examined",
             lambda rows: [ASPECTS[name][0] for name in rows.aspects]),
        Text("verdict", "bottleneck severity: none, moderate, high or unknown",
             attrgetter("severity")),
        Text("look_at", "side to examine: host, both or device; null: the aspect is no bottleneck, or the side is "
             "unknown", lambda rows: list(map(_choose_side, rows.aspects, rows.each))),
        Percent("percent", "share of time on which the verdict rests; null: unknown"),
        String("statement", "verdict as a sentence; null: the verdict needs none",
               lambda rows: [statement or None for statement in rows.plain_statement]),
    ), derived=True),
    "top_ops": TableSchema("top_ops", "a framework op on devices, or on hosts if there are no device ops, largest "
                           "self time first", (
        Column("rank", pa.int32(), "place of the op by self_ps, from 1",
               of=lambda rows: np.arange(1, len(rows.ops) + 1)),
        Text("host_or_device", "side on which the op ran: Host or Device", lambda rows: [rows.side] * len(rows.ops)),
        Text("type", "op type; null: unknown",
             lambda rows: [kind if kind and kind != "Unknown" else None for kind in rows.ops.category]),
        String("name", "op name", lambda rows: rows.ops.name),
        Count("calls", "calls of an op with this name on host threads; null: none are recorded", lambda rows: [
            rows.calls.get(name) for name in rows.ops.name]),
        Count("occurrences", "number of executions: on devices, summed over its instructions; on GPUs, over its "
              "kernels",
              lambda rows: rows.ops.occurrences),
        Picoseconds("total_ps", "sum of the durations of its occurrences", lambda rows: rows.ops.time_ps),
        Picoseconds("self_ps", "sum of the durations of its occurrences, without the time of ops nested in them",
                    lambda rows: rows.ops.self_ps),
        Share("self_share", "self_ps / self time of all ops of this side; null: the ops have no self time",
              lambda rows: divide_or_null(rows.ops.self_ps, rows.every_ps)),
        Share("cumulative_share", "sum of self_share of this op and all rows above; null: the ops have no self time",
              lambda rows: divide_or_null(np.cumsum(rows.ops.self_ps), rows.every_ps)),
        Column("flops_per_s", pa.float64(), "floating point operations / total_ps; null: the op ran on a host, took "
               "no time, or its work is unknown", True, "flop/s",
               of=lambda rows: divide_or_null(rows.ops.flops, rows.seconds)),
        Flag("could_use_tensor_cores", "whether the op could run on Tensor Cores; null: the capture has no GPU kernel "
             "of the op", lambda rows: [could for could, _ in rows.on_kernels]),
        Flag("uses_tensor_cores", "whether one of its kernels runs on Tensor Cores; null: the capture has no GPU "
             "kernel of the op, or uses_tensor_cores of one of them is null",
             lambda rows: [None if time is None else time > 0 for _, time in rows.on_kernels]),
    ), derived=True),
    "latency": inference.TABLES["latency"],
    "hosts": TableSchema("hosts", "a capture of the session", (
        Text("host", "host, named after its capture file"),
        Text("hostname", "host, as the capture calls it"),
        Text("hardware", "TPU, GPU, or CPU_ONLY if the host has no device"),
        Text("device_type", "device model; CPU if it has none"),
        Column("device_count", pa.int32(), "number of its devices, counted as the figure device_count",
               of=lambda rows: run_environment.count_by_host(rows.devices)),
        Percent("duty_cycle_percent", "busy time / observed time of the host's TPU chips or GPUs; null: the host has "
                                      "none, or they recorded no events",
                lambda rows: [compute_duty_percent(host.duty.busy_ps, host.duty.idle_ps) for host in rows.kept]),
        Percent("mxu_utilization_percent", "use of the matrix units, as the profiler measured it; null: the profiler "
                "did not measure it", lambda rows: [host.mxu_percent for host in rows.kept]),
        Percent("hbm_utilization_percent", "use of the memory bandwidth, as the profiler measured it; null: the "
                "profiler did not measure it", lambda rows: [host.hbm_percent for host in rows.kept]),
    ), derived=True),
}  # fmt: skip

MOST_UNTOLD: Final = 10.0
"""Percentage of op time with unknown work beyond which figures of all work are unknown."""

OF_COMPILED: Final = ("eager", "outside", "functions")
"""Aspects of compilation."""
_NO_FRAMEWORK: Final = "no event or op name identifies the framework"
_OF_INPUT: Final = (
    "input_percent", "output_percent", "step_time_shared_out_ps", "compute_percent", "idle_percent", "input_verdict",
)  # fmt: skip
"""Figures of the analysis input_pipeline."""
_OF_DIAGNOSIS: Final = ("headline", "window_ps", "compute_share", "incomplete")
_PRECISIONS: Final = ("compute_16bit_percent", "compute_32bit_percent", "compute_unknown_percent")
_CHIPS: Final = "of all TPU chips and GPUs"
SCALARS = {
    **{name: diagnosis.SCALARS[name] for name in _OF_DIAGNOSIS},
    **input_pipeline.STEP_FIGURES,
    **{name: input_pipeline.SCALARS[name] for name in _OF_INPUT},
    "host_count": ScalarSpec(None, "number of hosts of the session: each has a capture"),
    "task_count": ScalarSpec(None, "number of captures"),
    "device_type": ScalarSpec(None, "device model; the last one if there are several; CPU if there are none"),
    "device_count": ScalarSpec(None, run_environment.IN_WORDS),
    "framework": ScalarSpec(None, "program framework, by names in its capture"),
    "is_training": ScalarSpec(None, "whether a compiled program of the capture computes gradients"),
    "duty_cycle_percent": ScalarSpec("%", f"busy_ps / (busy_ps + idle_ps) {_CHIPS}"),
    "duty_cycle_sure_percent": ScalarSpec("%", "duty_cycle_percent if custom calls that record no work count as idle"),
    "busy_ps": ScalarSpec("ps", f"time {_CHIPS} in which a kernel, a copy, or an op that does more than wait ran"),
    "idle_ps": ScalarSpec("ps", f"time {_CHIPS} from the first to the last event of each, minus busy_ps"),
    "device_idle_percent": ScalarSpec("%", "time of devices in which no op ran, in percent of the time that they were "
                                      "observed"),
    "host_idle_percent": ScalarSpec("%", "time of host threads in which no framework op ran, in percent of the time "
                                    "that their ops span"),
    "mxu_utilization_percent": ScalarSpec("%", "mean over hosts of the use of the matrix units, as the profiler "
                                          "measured it", "matrix unit utilization"),
    "hbm_utilization_percent": ScalarSpec("%", "mean over hosts of the use of the memory bandwidth, as the profiler "
                                          "measured it"),
    "flops_utilization_percent": ScalarSpec("%", "floating point operations of device ops / peak operations over the "
                                                 "observed device time"),
    "memory_utilization_percent": ScalarSpec("%", "HBM bytes of device ops / HBM bytes at peak in the time that "
                                             "devices were observed"),
    "host_op_percent": ScalarSpec("%", "occurrences of framework ops on hosts / on hosts and devices",
                                  "ops that ran on hosts"),
    "device_op_percent": ScalarSpec("%", "occurrences of framework ops on devices / on hosts and devices",
                                    "ops that ran on devices"),
    "host_eager_percent": ScalarSpec("%", "self time of host ops that were executed eagerly, in percent of the self "
                                     "time of all host ops", "eager part of host op time"),
    "device_eager_percent": ScalarSpec("%", "self time of device ops that were executed eagerly, in percent of the "
                                       "self time of all device ops", "eager part of device op time"),
    "outside_compilation_percent": ScalarSpec("%", "self time of device ops for outside compilation, which runs on "
                                              "the host because it was not compiled, in percent of the self time of "
                                              "all device ops",
                                              "device op time outside compilation"),
    "compute_16bit_percent": ScalarSpec("%", "time of kernels that compute in 16 bits or fewer / time of all kernels",
                                        "kernel time in 16 bits"),
    "compute_32bit_percent": ScalarSpec("%", "time of kernels that compute in more bits / time of all kernels",
                                        "kernel time in 32 bits"),
    "compute_unknown_percent": ScalarSpec("%", "time of kernels whose precision is unknown / time of all kernels",
                                          "kernel time of unknown precision"),
}  # fmt: skip
_TOP_OPS = ("name", "type", "occurrences", "self_ps", "self_share")


def _has_top_ops(side: str) -> Callable[[AnalysisReport], bool]:
    """Return a predicate for Section.shown: whether the top ops ran on this side."""
    return lambda report: side in report.tables["top_ops"]["host_or_device"].to_pylist()


OPENING = Opening(
    ("{headline}",),
    (
        "window_ps", "compute_share", "step_time_mean_ps", "step_count", "duty_cycle_percent",
        "flops_utilization_percent", "mxu_utilization_percent", "host_idle_percent",
    ),
)  # fmt: skip

SECTIONS = (
    diagnosis.INCOMPLETE,
    diagnosis.FINDINGS,
    input_pipeline.STEP_TIME,
    Section("Where step time goes", "breakdown", ("category", "mean_ps", "stdev_ps", "share"), "share", 20,
            scalars=("step_time_shared_out_ps",), nonzero="mean_ps", shown=has_rows("breakdown"),
            words=steps.CATEGORY_WORDS),
    Section("Stragglers", "stragglers", ("step", "name", "host", "core_id", "duration_ps", "median_ps",
            "category", "excess_share"), "excess_share", 5, only=is_worth_naming,
            shown=has_rows("stragglers", is_worth_naming), words=steps.CATEGORY_WORDS),
    Section("Most expensive ops (summed over devices)", "top_ops", (*_TOP_OPS[:2], "calls", *_TOP_OPS[2:]),
            "self_share", shown=_has_top_ops("Device")),
    Section("Most expensive ops (host, summed over threads)", "top_ops", _TOP_OPS, "self_share",
            shown=_has_top_ops("Host")),
    Section("Use of devices", scalars=(
        "duty_cycle_percent", "device_idle_percent", "mxu_utilization_percent", "hbm_utilization_percent",
        "flops_utilization_percent", "memory_utilization_percent", "device_op_percent", "device_eager_percent",
        "outside_compilation_percent", *_PRECISIONS), shown=is_known("device_count")),
    Section("Use of hosts", scalars=("host_idle_percent", "host_op_percent", "host_eager_percent"),
            shown=is_known("host_op_percent")),
    Section("Latency of requests", "latency", shown=has_rows("latency")),
    Section("Ran on", scalars=("host_count", "device_type", "device_count", "framework", "is_training")),
    Section("Hosts", "hosts", ("host", "hardware", "device_type", "device_count", "duty_cycle_percent")),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class OverviewHostState:
    """Host state: environment, duty cycle, and measured use of matrix units and HBM."""

    environment: HostEnvironment
    duty: DutyCycle
    mxu_percent: float | None
    hbm_percent: float | None


@dataclass(frozen=True, slots=True)
class Overview:
    """Intermediate results of the report, for renderers."""

    hosts: Sequence[OverviewHostState]
    environment: RunEnvironment
    duty: DutyCycle
    ops: OpDatabase
    framework_ops: OpTable  # device ops by framework op, largest self time first
    precision: PrecisionTimes


def of_host(host: Host, params: Params) -> OverviewHostState:
    threads = host.raw.plane_named(HOST_THREADS)
    counters = {} if threads is None else threads.stats
    return OverviewHostState(
        HostEnvironment.of(host.raw, host.hostname, host.hardware),
        line_times.measure_duty_cycle(host.raw, host.workers),
        _compute_percent(counters.get("matrix_unit_utilization_percent")),
        _compute_percent(counters.get("hbm_utilization_percent")),
    )


def _compute_percent(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) else None


def run(kept: Sequence[OverviewHostState], params: Params, after: Mapping[str, AnalysisReport]) -> AnalysisReport:
    pipeline = after["input_pipeline"].detail_as(InputPipeline)
    ops = after["op_stats"].detail_as(OpDatabase)
    overview = Overview(
        kept,
        run_environment.merge_environments([facts.environment for facts in kept]),
        sum((facts.duty for facts in kept), DutyCycle()),
        ops,
        sort_by_self_time(ops.framework),
        sum_precision_times(after["kernel_stats"].detail_as(list)),
    )
    figures = make_scalars(SCALARS, _compute_values(overview, after))
    outside = op_table.measure_outside_compilation_percent(ops.device.table)
    findings = {
        "precision": step_advice.judge_precision(*overview.precision.to_judge),
        "eager": step_advice.judge_eager(
            op_table.measure_eager_percent(ops.host.table), op_table.measure_eager_percent(overview.framework_ops)
        ),
        "outside": step_advice.judge_outside_compilation(outside),
        "functions": step_advice.judge_tf_functions(
            [(function.name, function.expensive_percent) for function in ops.functions]
        ),
    }
    if _is_torch_on_gpus(overview):
        findings = {name: verdict for name, verdict in findings.items() if name not in OF_COMPILED}
    every = adapt_to_framework(pipeline.verdict.on_step_time() | findings, overview.environment.framework)
    judged = {name: verdict for name, verdict in every.items() if verdict.was_judged}
    tables = LazyTables({
        "findings": after["diagnosis"].tables["findings"],
        "steps": lambda: after["input_pipeline"].tables["steps"],
        "breakdown": lambda: after["input_pipeline"].tables["breakdown"],
        "stragglers": lambda: after["steps"].tables["stragglers"],
        "verdicts": TABLES["verdicts"].of(ObjectRows(list(judged.values()), aspects=list(judged))),
        "top_ops": TABLES["top_ops"].of(_list_top_ops(overview, params.top_ops, after["kernel_stats"])),
        "latency": after["inference"].tables["latency"],
        "hosts": TABLES["hosts"].of(ObjectRows([host.environment for host in kept], kept=kept)),
    })  # fmt: skip
    failed = (notice for notice in after["diagnosis"].notices if notice.severity in ("warning", "error"))
    notices = (*failed, *_list_notices(overview, pipeline, after["steps"]))
    return AnalysisReport(NAME, tables, figures, notices, dict(after), overview)


# ---- tables ---------------------------------------------------------------------------------------------


def _choose_side(aspect: str, verdict: Verdict) -> str | None:
    """Return the side to look at: both if input or output bounds the program moderately."""
    if verdict.severity in (step_advice.NONE, step_advice.UNDECIDED):
        return None
    return step_advice.BOTH if verdict.classification == step_advice.BOTH else ASPECTS[aspect][1]


def _list_top_ops(overview: Overview, count: int, kernels: AnalysisReport) -> SimpleNamespace:
    on_device = len(overview.framework_ops) > 0
    ranked = overview.framework_ops if on_device else sort_by_self_time(overview.ops.host.table)
    top = ranked.take(np.arange(min(max(count, 0), len(ranked))))
    every = overview.ops.device if on_device else overview.ops.host
    calls: dict[str, int] = {}
    for name, times in zip(overview.ops.host.table.name, overview.ops.host.table.occurrences.tolist(), strict=True):
        calls[name] = calls.get(name, 0) + times
    vague = list_names_without_work(every.table) if on_device else set(top.name)
    on_kernels = kernels.tables["ops"].select(["op_name", "could_use_tensor_cores", "tensor_core_ps"]).to_pylist()
    by_op = {name: figures for name, *figures in map(dict.values, on_kernels)}
    return SimpleNamespace(
        ops=top,
        side="Device" if on_device else "Host",
        every_ps=every.op_ps,
        seconds=np.where([name in vague for name in top.name], 0.0, top.time_ps / 1e12),
        calls=calls,
        on_kernels=[by_op.get(name, (None, None)) for name in top.name],
    )


# ---- figures --------------------------------------------------------------------------------------------


def compute_duty_percent(busy_ps: int, idle_ps: int) -> float | None:
    """Return the busy percentage of observed time, or None if no chip was observed."""
    return 100.0 * busy_ps / (busy_ps + idle_ps) if busy_ps + idle_ps else None


def compute_idle_percent(ops: Ops) -> float | None:
    """Return the percentage of observed time without any op, or None if no op records its time."""
    return 100.0 * ops.idle_ps / ops.total_ps if ops.op_ps and ops.total_ps > 0 else None


def _compute_values(overview: Overview, after: Mapping[str, AnalysisReport]) -> dict[str, Known]:
    environment = overview.environment
    values = {name: get_known(after["diagnosis"].scalars[name]) for name in _OF_DIAGNOSIS}
    values |= input_pipeline.get_step_figures(after["steps"])
    values |= {name: get_known(after["input_pipeline"].scalars[name]) for name in _OF_INPUT}
    values |= {
        "host_count": environment.task_count,
        "task_count": environment.task_count,
        "device_type": environment.device_type,
        "device_count": run_environment.count_devices([host.environment.devices for host in overview.hosts]),
        "framework": (None, _NO_FRAMEWORK) if environment.framework == op_names.UNKNOWN else environment.framework,
        "is_training": get_known(after["op_stats"].scalars["is_training"]),
    }
    return values | _measure_device_use(overview) | _measure_peak_use(overview) | _measure_op_use(overview)


def _measure_device_use(overview: Overview) -> dict[str, Known]:
    duty = overview.duty
    no_chip = NothingRan(
        "the capture has no device events" if overview.environment.device_count else "there is no device"
    )
    values: dict[str, Known] = {
        "duty_cycle_percent": _replace_none(compute_duty_percent(duty.busy_ps, duty.idle_ps), no_chip),
        "duty_cycle_sure_percent": _replace_none(compute_duty_percent(duty.sure_busy_ps, duty.sure_idle_ps), no_chip),
        "busy_ps": _sum_over_chips(duty, duty.busy_ps, no_chip),
        "idle_ps": _sum_over_chips(duty, duty.idle_ps, no_chip),
        "device_idle_percent": _replace_none(
            compute_idle_percent(overview.ops.device), NothingRan("no device event records an op")
        ),
        "host_idle_percent": _replace_none(
            compute_idle_percent(overview.ops.host), "no framework op took any time on a host thread"
        ),
    }
    for unit in ("mxu", "hbm"):
        measured = [getattr(facts, f"{unit}_percent") for facts in overview.hosts]
        percents = [percent for percent in measured if percent is not None]
        mean = sum(percents) / len(percents) if percents else None
        values[f"{unit}_utilization_percent"] = _replace_none(mean, "the profiler did not measure it")
    return values


def _sum_over_chips(duty: DutyCycle, time_ps: int, no_chip: str) -> Known:
    """Return a time summed over chips, unknown without chips or beyond 64 bits."""
    if not duty.chips:
        return None, no_chip
    return time_ps if time_ps < 2**63 else (None, "the times of all chips do not add up in 64 bits")


def _measure_peak_use(overview: Overview) -> dict[str, Known]:
    """Return the use of peak arithmetic and of peak HBM bandwidth."""
    names = ("flops_utilization_percent", "memory_utilization_percent")
    ops, peaks = overview.ops.device, overview.ops.peaks
    if peaks is None or not ops.total_ps:
        return dict.fromkeys(names, (None, NothingRan("no device was observed")))
    table = ops.table
    vague = compute_percent(int(table.self_ps[find_ops_without_work(table)].sum()), ops.op_ps)
    if vague >= MOST_UNTOLD:
        reason = f"the work of ops that take {vague:.1f} % of op time is unknown: library calls do not record it"
        return dict.fromkeys(names, (None, reason))
    innermost = ~op_table.is_container(table)
    done = (float(table.flops[innermost].sum()) / 1e12, float(table.hbm_bytes()[innermost].sum()) / 1e9)
    best = (peaks.teraflops_per_s, peaks.bandwidths_gb_per_s[HBM] if peaks.bandwidths_gb_per_s else 0.0)
    why = "; ".join(peaks.reasons) or "the capture does not record the device's peak"
    no_work = "the device ops of the capture do not record their work"
    seconds = ops.total_ps / 1e12
    return {
        name: (None, why) if not most else 100.0 * work / seconds / most if work else (None, no_work)
        for name, work, most in zip(names, done, best, strict=True)
    }


def _measure_op_use(overview: Overview) -> dict[str, Known]:
    no_host = "no framework op took any time on a host thread"
    no_device = NothingRan("no device event has a known op")
    on_host, on_device = (int(table.occurrences.sum()) for table in (overview.ops.host.table, overview.framework_ops))
    both = on_host + on_device
    why = overview.precision.why_unknown
    compiled = {
        "host_eager_percent": _replace_none(op_table.measure_eager_percent(overview.ops.host.table), no_host),
        "device_eager_percent": _replace_none(op_table.measure_eager_percent(overview.framework_ops), no_device),
        "outside_compilation_percent": _replace_none(
            op_table.measure_outside_compilation_percent(overview.ops.device.table), no_device
        ),
    }
    if _is_torch_on_gpus(overview):
        compiled = dict.fromkeys(compiled, (None, "PyTorch's profiler does not record which ops were compiled"))
    return {
        **compiled,
        "host_op_percent": compute_percent(on_host, both) if on_host else (None, no_host),
        "device_op_percent": compute_percent(on_device, both) if on_device else (None, no_device),
        **{name: _replace_none(part, why) for name, part in zip(_PRECISIONS, overview.precision.percents, strict=True)},
    }


def _is_torch_on_gpus(overview: Overview) -> bool:
    """Return whether PyTorch's own profiler recorded the ops: another profiler does on TPUs."""
    return overview.environment.framework == op_names.PYTORCH and overview.environment.hardware == "GPU"


def _replace_none(value: float | None, reason: str) -> Known:
    return (None, reason) if value is None else value


# ---- words ----------------------------------------------------------------------------------------------


def _list_notices(overview: Overview, pipeline: InputPipeline, of_steps: AnalysisReport) -> tuple[Notice, ...]:
    """Return faults and unknowns, slow hosts, and how steps of hosts were paired. Advice is in the findings."""
    if pipeline.verdict.input.classification == step_advice.UNDECIDED:
        why = input_pipeline.explain_no_steps(of_steps)
        notices = [Notice("warning", f"Step time is unknown: {why}")]
    else:
        notices = [notice for notice in of_steps.notices if notice.severity == "warning"]
    environment = overview.environment
    notices += [Notice("warning", text) for text in dict.fromkeys(environment.warnings)]
    notices += [Notice("error", text) for text in dict.fromkeys(list_errors(environment))]
    notices += [notice for notice in of_steps.notices if notice.severity == "recommendation"]
    pairing = describe_pairing(of_steps.detail_as(SessionSteps).database)
    return (*notices, *(Notice("info", text) for text in pairing))


def list_errors(environment: RunEnvironment) -> list[str]:
    """Return the profiler's errors, or one that the device shows no core if it has none."""
    if environment.errors or environment.device_type == run_environment.CPU_TYPE or environment.device_count > 0:
        return list(environment.errors)
    return [step_advice.NO_DEVICE_TRACE]
