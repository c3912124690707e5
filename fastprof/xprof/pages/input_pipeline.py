"""XProf's input pipeline analyzer: core of the longest infeed, steps, input ops, advice, diagnostics.

The overview page shows its table of steps, too: the complete steps only. Off TPUs its rows are the steps of the first
host, whatever other hosts did, while the summary of step times is over all of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from fastprof.analyses.input_pipeline import InputPipeline, examine
from fastprof.derive.pipelines.input_ops import ENQUEUE, InputTime
from fastprof.derive.steps import step_advice
from fastprof.derive.steps.step_database import CATEGORIES, GENERIC_CORE, StepDatabase
from fastprof.derive.steps.step_figures import (
    PS_PER_MS,
    GenericSteps,
    TpuStepValues,
    compute_step_times,
    find_longest_wait_cores,
    has_sparse_cores,
    judge_tpu_steps,
)
from fastprof.schema.columns import Float64s
from fastprof.xprof import counted_ops
from fastprof.xprof import steps as session_steps
from fastprof.xprof.pages.data_table import (
    Col,
    Values,
    anchor,
    join_columns,
    make_data_table,
    number,
    one_digit,
    text,
    three_digits,
    two_digits,
)

if TYPE_CHECKING:
    from fastprof.analyses.contract import AnalysisReport
    from fastprof.derive.ops.op_table import Ops


SMALLEST: Final = 2.2250738585072014e-308
"""Initial value of XProf's maxima: the largest of zeros alone is this."""

_GENERIC: Final = (
    ("deviceComputeTimeMs", "device_compute"),
    ("deviceToDeviceTimeMs", "device_to_device"),
    ("deviceCollectivesTimeMs", "device_collectives"),
    ("hostComputeTimeMs", "host_compute"),
    ("kernelLaunchTimeMs", "kernel_launch"),
    ("infeedTimeMs", "infeed"),
    ("outfeedTimeMs", "outfeed"),
    ("compileTimeMs", "compile"),
    ("otherTimeMs", "other"),
)
"""Columns of the generic table, one per category of step time: their ids, and the names of their properties."""

_TF_DATA_GUIDE: Final = anchor("https://www.tensorflow.org/guide/data", "the tf.data API")


class StepStat(NamedTuple):
    """XProf's statistics, with the rounding and the quirks of its formulas; 0 without values."""

    average: float = 0.0
    standard_deviation: float = 0.0
    """Standard deviation of a sample; NaN for a single 0, since the largest value is then not the smallest one."""
    minimum: float = 0.0
    maximum: float = 0.0

    @classmethod
    def of(cls, values: Float64s) -> StepStat:
        count, total, squares, low, high = len(values), 0.0, 0.0, math.inf, SMALLEST
        for value in values.tolist():
            total += value
            squares += value * value
            low, high = min(low, value), max(high, value)
        if not count:
            return cls()
        variance = (squares - total**2 / count) / (count - 1) if count > 1 else math.nan
        deviation = 0.0 if low == high else math.sqrt(variance) if variance >= 0 else math.nan
        return cls(total / count, deviation, low, high)


def put_summary(name: str, values: Float64s, write: Callable[[float], str] = one_digit) -> dict[str, str]:
    """Make the four properties of a summary."""
    return {f"{name}_{part}": write(value) for part, value in StepStat.of(values)._asdict().items()}


def advise_next_step(classification: str, uses_tf_data: bool) -> str:
    """Return XProf's advice on what to do next, by its verdict on input."""
    if classification not in (step_advice.HOST, step_advice.BOTH):
        return "You may skip the rest of this page."
    if uses_tf_data:
        return "Look at Section 3 for the breakdown of input time on the host."
    return (
        f"Consider using {_TF_DATA_GUIDE} to enable profiler's host-side analysis for input pipeline. Profiler "
        "currently does not support custom input pipeline (please ignore Section 3 below)."
    )


def format_html(finding: step_advice.Verdict) -> str:
    """Format a statement with its link as XProf writes it."""
    if finding.link is None:
        return finding.statement
    return finding.statement.replace(finding.link.words, anchor(finding.link.url, finding.link.words))


# ---- GPUs and CPUs --------------------------------------------------------------------------------------


def make_generic_table(
    db: StepDatabase, steps: GenericSteps, verdict: step_advice.Bottleneck, uses_tf_data: bool
) -> dict[str, object]:
    """Make the table of steps. ``db``: the complete steps; ``steps``: the shown ones among them, with their verdict."""
    times = steps.categories(PS_PER_MS)  # XProf adds up milliseconds
    spans = steps.step_ps / PS_PER_MS
    labels = [db.name[row] or str(int(db.step[row])) for row in steps.row.tolist()]
    rows = zip(labels, times.tolist(), spans.tolist(), strict=True)
    columns: list[tuple[Col, Values]] = [
        (text("stepnum", "Step number"), labels),
        *(
            (number(id, category.label), time)
            for (id, _), category, time in zip(_GENERIC, CATEGORIES, times.T, strict=True)
        ),
        (text("tooltip", role="tooltip"), [_format_generic_tooltip(*row) for row in rows]),
        (number("stepTimeMs", "Step time"), spans),
    ]
    p = {
        "hardware_type": db.hardware,
        "step_time_graph_column_ids": ",".join(["stepnum", *(id for id, _ in _GENERIC)]) + ", tooltip",
        "input_conclusion": verdict.input.statement,
        "summary_nextstep": advise_next_step(verdict.input.classification, uses_tf_data),
        **put_summary("steptime_ms", compute_step_times(db) / PS_PER_MS),
    }
    for (_, name), time in zip(_GENERIC, times.T, strict=True):
        p[f"{name}_time_ms_avg"], p[f"{name}_time_ms_sdv"] = map(one_digit, StepStat.of(time)[:2])
    for name in ("device_collectives", "kernel_launch", "all_other"):  # XProf: the statement in both
        p[f"{name}_bottleneck"] = p[f"{name}_statement"] = getattr(verdict, name).statement
    return join_columns(columns, p)


def _format_generic_tooltip(label: str, times: Sequence[float], span: float) -> str:
    lines = [f"Step {label}, duration: {two_digits(span)} ms"]
    for category, time in reversed(list(zip(CATEGORIES, times, strict=True))):
        lines.append(f"-{category.label.replace('collective communication', 'collectives')}: {two_digits(time)} ms")
    return "\n".join(lines)


# ---- TPUs -----------------------------------------------------------------------------------------------

_TPU: Final = (
    ("tcComputeTimeMs", "TensorCore compute (in ms)", "tc_compute_ms"),
    ("scv0ComputeTimeMs", "SparseCoreV0 compute (in ms)", "scv0_compute_ms"),
    ("scv0InfeedTimeMs", "SparseCoreV0 input (in ms)", "scv0_infeed_ms"),
    ("tcInfeedTimeMs", "TensorCore input (in ms)", "tc_infeed_ms"),
    ("tcOutfeedTimeMs", "TensorCore output (in ms)", "tc_outfeed_ms"),
    ("tcIdleTimeMs", "TensorCore idle (in ms)", "tc_idle_ms"),
    ("hostTransferTimeMs", "Host transfer (in ms)", "host_transfer_ms"),
)
"""Columns of the TPU table: id, label, and field of TpuStepValues."""


def make_tpu_table(
    db: StepDatabase, steps: TpuStepValues, verdict: step_advice.Bottleneck, uses_tf_data: bool
) -> dict[str, object]:
    """Make the table of TPU steps. ``db``: the steps, whose values across cores ``steps`` has."""
    # a session with SparseCores, described or in a step, has none of the first kind
    sparse = has_sparse_cores(db)
    any_sparse = sparse or bool((db.cores.sparse & db.cores.has_details).any())
    timed = [column for column in _TPU if not (any_sparse and column[0].startswith("scv0"))]
    labels = [str(step) for step in steps.step.tolist()]
    highest = np.maximum(steps.infeed_percent_maximum, SMALLEST)
    waits = (steps.tc_infeed_ms + steps.scv0_infeed_ms).tolist()
    tooltips = [
        f"step {label}:\nTime waiting for input data = {three_digits(wait)} ms, Step time = {three_digits(span)} ms"
        for label, wait, span in zip(labels, waits, steps.step_ms.tolist(), strict=True)
    ]
    columns: list[tuple[Col, Values]] = [
        (text("stepnum"), labels),
        *((number(id, label), getattr(steps, field)) for id, label, field in timed),
        (text("tooltip", role="tooltip"), tooltips),
        (number("infeedPercentAverage", "% step time waiting for input data"), steps.infeed_percent_average),
        (number("infeedPercentMin", "Infeed percent min", role="interval"), steps.infeed_percent_minimum),
        (number("infeedPercentMax", "Infeed percent max", role="interval"), highest),
    ]
    p = {
        "hardware_type": "TPU",
        "input_conclusion": format_html(verdict.input),
        "output_conclusion": format_html(verdict.output),
        "summary_nextstep": advise_next_step(verdict.input.classification, uses_tf_data),
        "step_time_graph_column_ids": ",".join(["stepnum", *(id for id, *_ in timed), "tooltip"]),
        "active_steptime_ms_average": two_digits(StepStat.of(steps.active_ms).average),
        **put_summary("steptime_ms", compute_step_times(db) / PS_PER_MS, two_digits),
        **put_summary("infeed_percent", highest),
    }
    averaged = [*(field for *_, field in timed), "tc_active_ms"]
    if sparse:
        averaged.append("sc_active_ms")
        if steps.sc_step_ms.min(initial=np.inf) > 0:
            averaged += ["sc_compute_ms", "sc_infeed_ms", "sc_outfeed_ms", "sc_idle_ms"]
            p["sc_step_time_ms_average"] = one_digit(StepStat.of(steps.sc_step_ms).average)
    return join_columns(
        columns, p | {f"{name}_average": two_digits(StepStat.of(getattr(steps, name)).average) for name in averaged}
    )


KEEPS: Final = counted_ops.HOST_OPS_KEEPS | session_steps.KEEPS
PS_PER_US: Final = 1e6

_API: Final = "https://www.tensorflow.org/api_docs/python/tf/data/"
_PREFETCH: Final = f"{_API}Dataset#prefetch"
_INTERLEAVE: Final = f"{_API}Dataset#interleave"
_READER: Final = f"{_API}TFRecordDataset#class_tfrecorddataset"
_ADVICE: Final = (
    "Enqueuing data: you may want to combine small input data chunks into fewer but larger chunks.",
    "Data preprocessing: you may increase num_parallel_calls in "
    f"{anchor(f'{_API}Dataset#map', 'Dataset map()')} or preprocess the data OFFLINE.",
    "Reading data from files in advance: you may tune parameters in the following tf.data API ("
    f"{anchor(_PREFETCH, 'prefetch size')}, {anchor(_INTERLEAVE, 'interleave cycle_length')}, "
    f"{anchor(_READER, 'reader buffer_size')})",
    "Reading data from files on demand: you should read data IN ADVANCE using the following tf.data API ("
    f"{anchor(_PREFETCH, 'prefetch')}, {anchor(_INTERLEAVE, 'interleave')}, {anchor(_READER, 'reader buffer')})",
    "Other data reading or processing: you may consider using the "
    f"{anchor('https://www.tensorflow.org/programmers_guide/datasets', 'tf.data API')} (if you are not using it now)",
)


def answer(report: AnalysisReport) -> list[object]:
    """Make the five tables of the page."""
    pipeline = read_pipeline(report, counted_ops.get_host_ops(report))
    return [
        _make_infeed_table(pipeline),
        make_steps_table(pipeline),
        _make_input_ops(pipeline),
        make_data_table([text("link")], [[advice] for advice in _ADVICE]),
        make_diagnostics(list_pipeline_warnings(pipeline)),
    ]


def read_pipeline(report: AnalysisReport, ops: Ops) -> InputPipeline:
    """Read the input pipeline as XProf sees it: off TPUs, the steps of the first host; on hosts, the ops that it
    counts."""
    pipeline = examine(session_steps.get_shown_steps(report, complete=True), ops, GENERIC_CORE)
    steps = pipeline.steps
    if not isinstance(steps, TpuStepValues):
        return pipeline
    # XProf draws its verdict from steps that have the time of all-reduces twice: within compute, and beside it
    longer = steps.step_ms + steps.all_reduce_compute_ms + steps.all_reduce_sync_ms
    return replace(pipeline, verdict=judge_tpu_steps(steps, longer))


def make_steps_table(pipeline: InputPipeline) -> dict[str, object]:
    """Make the table of steps, of this page and of the overview page."""
    tf_data = pipeline.ops.uses_tf_data
    if isinstance(pipeline.steps, TpuStepValues):
        return make_tpu_table(pipeline.db, pipeline.steps, pipeline.verdict, tf_data)
    return make_generic_table(pipeline.db, pipeline.steps, pipeline.verdict, tf_data)


def list_pipeline_warnings(pipeline: InputPipeline) -> list[str]:
    return session_steps.list_step_warnings(len(pipeline.db), empty_intersection=pipeline.db.empty_intersect)


def make_diagnostics(warnings: list[str], errors: list[str] | None = None) -> dict[str, object]:
    """Make the table of problems while profiling."""
    rows = [["WARNING", warning] for warning in warnings] + [["ERROR", error] for error in errors or []]
    return make_data_table([text("severity", "Severity"), text("message", "Message")], rows)


def _make_infeed_table(pipeline: InputPipeline) -> dict[str, object]:
    steps = pipeline.steps
    if not isinstance(steps, TpuStepValues):
        return make_data_table([])
    numbers = [str(step) for step in steps.step.tolist()]
    columns = [text("index", "Index"), *(text(str(at)) for at in range(len(numbers)))]
    cores = [core or "unknown" for core in find_longest_wait_cores(pipeline.db, steps)]
    return make_data_table(columns, [["Step number", *numbers], ["Core name", *cores]])


def _make_input_ops(pipeline: InputPipeline) -> dict[str, object]:
    ops = pipeline.ops
    total_ps = float(ops.self_ps.sum()) or 1.0
    columns: list[tuple[Col, Values]] = [
        (text("opName", "Input Op"), ops.name),
        (number("count", "Count"), ops.count),
        (number("timeInMs", "Total Time (in ms)"), ops.time_ps / 1e9),
        (number("timeInPercent", "Total Time (as % of total input-processing time)"), ops.time_ps / total_ps),
        (number("selfTimeInMs", "Total Self Time (in ms)"), ops.self_ps / 1e9),
        (number("selfTimeInPercent", "Total Self Time (as % of total input-processing time)"), ops.self_ps / total_ps),
        (text("category", "Category"), ops.category),
    ]
    # XProf scales by the time of ops that enqueue, and so finds no time at all where there are none and copies are seen
    time = pipeline.time if ops.self_of(ENQUEUE) or not pipeline.enqueue_share else InputTime()
    p = {
        "enqueue_us": time.enqueue_ps,
        "demanded_file_read_us": time.demanded_read_ps,
        "advanced_file_read_us": time.advanced_read_ps,
        "preprocessing_us": time.preprocessing_ps,
        "unclassified_nonequeue_us": time.other_ps,
    }
    return join_columns(columns, {name: three_digits(ps / PS_PER_US) for name, ps in p.items()})
