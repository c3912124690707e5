"""How much of each step waits for input, and which input ops take the time.

The device side: what part of step time is spent waiting for input, of the complete steps, with XProf's verdict on it.
The host side: the ops that read, prepare and enqueue data, and what their time says of how to make input faster.
Formulas: docs/analyses/input-pipeline.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from fastprof.analyses.contract import (
    Needs,
    Notice,
    Report,
    Scalar,
    ScalarSpec,
    Section,
    Value,
    has_rows,
    is_known,
    scalars,
)
from fastprof.analyses.op_stats import OpDatabase
from fastprof.analyses.steps import SCALARS as OF_STEPS
from fastprof.derive.ops.tables import Ops
from fastprof.derive.pipelines import input_ops
from fastprof.derive.pipelines.input_ops import InputOps, InputTime
from fastprof.derive.steps import verdicts
from fastprof.derive.steps.across_hosts import SessionSteps
from fastprof.derive.steps.database import StepDatabase
from fastprof.derive.steps.step_figures import (
    PS_PER_MS,
    GenericSteps,
    generic_steps,
    longest_wait_cores,
    step_times,
    tpu_categories,
    tpu_verdict,
)
from fastprof.derive.steps.time_types import CATEGORIES
from fastprof.derive.steps.tpu_step_values import TpuStepValues, tpu_step_values
from fastprof.derive.steps.verdicts import GenericBottleneck, TpuBottleneck
from fastprof.schema.array_types import Float64s, Int64s
from fastprof.schema.arrow_columns import typed
from fastprof.schema.tables import TEXT, Column, TableSchema

if TYPE_CHECKING:
    from fastprof.derive.host import Host

NAME = "input_pipeline"
READS = Needs(planes=(r"^/host:CPU$",))
AFTER = ("steps", "op_stats")


@dataclass(frozen=True, slots=True)
class Params:
    """None."""


_SHARE_OF_SELF = "the self time of all input ops"
TABLES = {
    "steps": TableSchema("steps", "a step, on all hosts and cores that took part in it", (
        Column("step", pa.int64(), "number of the step, as in the analysis steps"),
        Column("name", pa.string(), "name of the step; null: the capture gives none", True),
        Column("complete", pa.bool_(), "the step counts for averages and verdicts; the first and the last of more than "
               "five do not, except on TPUs: they may be cut off"),
        Column("step_ps", pa.int64(), "how long it took on the core that took longest", unit="ps"),
        Column("input_ps", pa.int64(), "time spent waiting for input and copying it to the device: mean over hosts; on "
               "TPUs of the core that waited longest", unit="ps"),
        Column("input_share", pa.float64(), "input_ps / the time of the step; on TPUs the mean of this over cores; "
               "null: it took no time", True, "share"),
        Column("least_input_share", pa.float64(), "the same of the core that waited least; null: not on a TPU", True,
               "share"),
        Column("most_input_share", pa.float64(), "the same of the core that waited most; null: not on a TPU", True,
               "share"),
        Column("longest_wait_core", TEXT, "core that waited longest for input, as host:ordinal; null: not on a TPU, or "
               "none waited", True),
    ), derived=True),
    "step_breakdown": TableSchema("step_breakdown", "time of one category in one step", (
        Column("step", pa.int64(), "number of the step, as in steps"),
        Column("category", TEXT, "what the time was spent on"),
        Column("time_ps", pa.int64(), "time: mean over hosts; on TPUs as docs/analyses/input-pipeline.md says",
               unit="ps"),
        Column("share", pa.float64(), "time_ps / the time of the step; null: it took no time", True, "share"),
    ), derived=True),
    "breakdown": TableSchema("breakdown", "a category of step time, over the complete steps, largest first", (
        Column("category", TEXT, "what the time was spent on"),
        Column("mean_ps", pa.int64(), "mean over steps", unit="ps"),
        Column("stdev_ps", pa.int64(), "standard deviation over steps (sample); null: fewer than two", True, "ps"),
        Column("share", pa.float64(), "mean_ps / step_time_shared_out_ps; null: that is 0", True, "share"),
    ), derived=True),
    "input_ops": TableSchema("input_ops", "an op that brings data in, on all hosts, largest self time first", (
        Column("name", pa.string(), "name of the op"),
        Column("category", TEXT, "what it does: enqueue, read files on demand or in advance, preprocess"),
        Column("occurrences", pa.int64(), "how often it ran"),
        Column("total_ps", pa.int64(), "sum of durations", unit="ps"),
        Column("self_ps", pa.int64(), "sum of durations less those of ops within", unit="ps"),
        Column("total_share", pa.float64(), f"total_ps / {_SHARE_OF_SELF}: may pass 1; null: that is 0", True, "share"),
        Column("self_share", pa.float64(), f"self_ps / {_SHARE_OF_SELF}; null: that is 0", True, "share"),
    ), derived=True),
    "input_time": TableSchema("input_time", "a kind of work for input, on all hosts", (
        Column("kind", TEXT, "kind of work"),
        Column("time_ps", pa.int64(), "time: docs/analyses/input-pipeline.md has the formulas", unit="ps"),
        Column("share", pa.float64(), "time_ps / time of all kinds; null: that is 0", True, "share"),
        Column("advice", pa.string(), "how to make it shorter"),
    ), derived=True),
}  # fmt: skip

STEP_FIGURES: Final = {name: spec for name, spec in OF_STEPS.items() if "step_" in name}
"""Figures that are those of the steps."""

SCALARS = {
    **STEP_FIGURES,
    "input_percent": ScalarSpec("%", "time waiting for input and copying it to devices, in percent of step time"),
    "output_percent": ScalarSpec("%", "time copying from devices to the host, in percent of step time"),
    "compute_percent": ScalarSpec("%", "time devices compute, in percent of step time; on TPUs what input, output and "
                                  "idle time leave, which collectives are part of"),
    "step_time_shared_out_ps": ScalarSpec("ps", "mean time of a step that is shared out among the categories of "
                                          "breakdown: the mean over hosts; on TPUs that of the core that took least, "
                                          "or what the categories add up to"),
    "idle_percent": ScalarSpec("%", "what input, output, compute and collectives leave; on TPUs idle time of "
                               "TensorCores, in percent of step time"),
    "input_verdict": ScalarSpec(None, "how much the program waits for input: none, moderate (5 % or more of step "
                                "time) or high (20 % or more)"),
    "uses_tf_data": ScalarSpec(None, "whether ops of tf.data, or stages of another pipeline that record what they do, "
                               "took any time"),
    "input_op_self_ps": ScalarSpec("ps", "self time of all input ops, on all threads of all hosts"),
    "enqueue_share": ScalarSpec("share", "part of the time for input that the host spends on enqueuing: durations of "
                                "infeed enqueues / time between their starts, else copies to devices / step time"),
}  # fmt: skip
SECTIONS = (
    Section("Step time", scalars=tuple(STEP_FIGURES), shown=is_known("step_count")),
    Section("Waiting for input", scalars=("input_percent", "output_percent", "compute_percent", "idle_percent"),
            shown=is_known("step_count")),
    Section("Where step time goes", "breakdown", ("category", "mean_ps", "stdev_ps", "share"), "share", 20,
            scalars=("step_time_shared_out_ps",), nonzero="mean_ps", shown=has_rows("breakdown")),
    Section("Steps", "steps", ("step", "name", "complete", "step_ps", "input_ps", "input_share"), "input_share", 20),
    Section("Time for input on the host", "input_time", ("kind", "time_ps", "share"), "share", nonzero="time_ps",
            shown=has_rows("input_ops")),
    Section("Input ops", "input_ops", ("name", "category", "occurrences", "total_ps", "self_ps", "self_share"),
            "self_share", 20, shown=has_rows("input_ops")),
)  # fmt: skip

KINDS: Final = (
    ("enqueuing data to the device", "combine small chunks of input data into fewer but larger ones"),
    ("reading files on demand", "read data in advance with the tf.data API: prefetch, interleave, reader buffer"),
    ("reading files in advance", "tune prefetch size, interleave cycle_length, reader buffer_size of the tf.data API"),
    ("preprocessing", "raise num_parallel_calls of Dataset.map(), or preprocess the data offline"),
    ("other reading or processing", "use the tf.data API, if you do not yet"),
)
"""Kinds of work for input, in the order of InputTime, and what makes each shorter."""
_STAGES: Final = (
    "tf-data shows which stage of the tf.data pipeline is slow: there each moment of a call counts once, while the "
    "times of input ops here are those of threads, which run side by side."
)


Known = Value | tuple[None, str]
"""A value, or no value and why."""


@dataclass(frozen=True, slots=True)
class InputPipeline:
    """What the report is made of, for renderers and for analyses that come after. Of the complete steps."""

    db: StepDatabase
    steps: GenericSteps | TpuStepValues
    step_ps: Int64s
    verdict: GenericBottleneck | TpuBottleneck
    ops: InputOps
    enqueue_share: float
    time: InputTime


def of_host(host: Host, params: Params) -> None:
    """Nothing is kept of a host: steps and op_stats have all that is needed."""


def examine(db: StepDatabase, host_ops: Ops, core_id: int | None = None) -> InputPipeline:
    """The input pipeline of some steps. ``core_id``: off TPUs, just what this core did, judged as XProf does."""
    ops = input_ops.input_ops(host_ops)
    step_ps = step_times(db)
    share = input_ops.enqueue_share(host_ops)
    if db.is_tpu:
        values = tpu_step_values(db)
        share = 0.0 if share is None else share
        return InputPipeline(db, values, step_ps, tpu_verdict(values), ops, share, _time(ops, share))
    steps = generic_steps(db, core_id)
    if share is None:
        share = _copying(steps, step_ps)
    verdict = steps.bottleneck(ops.uses_tf_data)
    verdict = verdict.as_measured() if core_id is None else verdict
    return InputPipeline(db, steps, step_ps, verdict, ops, share, _time(ops, share))


def _copying(steps: GenericSteps, step_ps: Int64s) -> float:
    """Copies to devices in the average step, as a part of it."""
    average = float(step_ps.mean()) if len(step_ps) else 0.0
    return float(steps.to_device_ps.mean()) / average if average > 0 and len(steps) else 0.0


def _time(ops: InputOps, share: float) -> InputTime:
    return input_ops.input_time(ops, share) if len(ops) else InputTime()


def run(kept: Sequence[Any], params: Params, after: Mapping[str, Report]) -> Report:  # noqa: ARG001
    db = after["steps"].detail_as(SessionSteps).database
    host_ops = after["op_stats"].detail_as(OpDatabase).host
    counted = examine(db.complete_steps(), host_ops)
    every = counted if counted.db is db else examine(db, host_ops)
    tables = {
        "steps": _steps_table(every),
        "step_breakdown": _step_breakdown_table(every),
        "breakdown": _breakdown_table(counted),
        "input_ops": _ops_table(counted.ops),
        "input_time": _time_table(counted.time),
    }
    why = why_no_steps(after["steps"])
    figures = scalars(SCALARS, step_figures(after["steps"]) | _values(counted, why))
    return Report(NAME, tables, figures, _notices(counted, why), dict(after), counted)


def why_no_steps(report: Report) -> str:
    """The reason, in words, why step times are not known, where they are not."""
    return next((notice.text for notice in report.notices if notice.severity == "warning"), "there are no steps")


def step_figures(report: Report) -> dict[str, Known]:
    """The figures of steps, as the report on them has them."""
    return {name: known(report.scalars[name]) for name in STEP_FIGURES}


def known(figure: Scalar) -> Known:
    """A figure of another report: its value, or why there is none."""
    return (None, figure.reason or "not known") if figure.value is None else figure.value


# ---- tables ---------------------------------------------------------------------------------------------


def _steps_table(pipeline: InputPipeline) -> pa.Table:
    db, steps = pipeline.db, pipeline.steps
    count = len(db)
    columns: dict[str, Any] = {
        "step": db.step,
        "name": [name or None for name in db.label],
        "complete": db.complete,
        "step_ps": pipeline.step_ps,
    }
    if isinstance(steps, TpuStepValues):
        percents = (steps.infeed_percent_average, steps.infeed_percent_minimum, steps.infeed_percent_maximum)
        took_time = np.asarray(pipeline.step_ps > 0)
        average, least, most = (pa.array(percent / 100.0, mask=~took_time) for percent in percents)
        input_ps = whole((steps.tc_infeed_ms + steps.scv0_infeed_ms) * PS_PER_MS)
        cores = longest_wait_cores(db, steps)
    else:
        input_ps = np.zeros(count, np.int64)
        input_ps[steps.row] = whole(steps.wait_input_ps + steps.to_device_ps)
        span = np.zeros(count)
        span[steps.row] = steps.step_ps
        average = shares(input_ps, span)
        least = most = pa.nulls(count, pa.float64())
        cores = [None] * count
    columns |= {"input_ps": input_ps, "input_share": average, "least_input_share": least, "most_input_share": most}
    columns["longest_wait_core"] = cores
    return table_of("steps", columns)


def categories(pipeline: InputPipeline) -> tuple[list[str], Float64s, Float64s, Int64s]:
    """What the time of steps is divided into: names, times [n, k] in ps, whole times [n], and rows of the database."""
    steps = pipeline.steps
    if isinstance(steps, TpuStepValues):
        names, times = tpu_categories(steps)
        return names, times, steps.step_ms * PS_PER_MS, np.arange(len(pipeline.db), dtype=np.int64)
    return [category.name for category in CATEGORIES], steps.category_ps, steps.step_ps, steps.row


def _step_breakdown_table(pipeline: InputPipeline) -> pa.Table:
    names, times, span, rows = categories(pipeline)
    index = np.tile(np.arange(len(names), dtype=np.int32), len(rows))
    return table_of("step_breakdown", {
        "step": np.repeat(pipeline.db.step[rows], len(names)),
        "category": pa.DictionaryArray.from_arrays(index, names),
        "time_ps": whole(times.reshape(-1)),
        "share": shares(times.reshape(-1), np.repeat(span, len(names))),
    })  # fmt: skip


def _breakdown_table(pipeline: InputPipeline) -> pa.Table:
    names, times, span, _ = categories(pipeline)
    if not len(times):
        names, times = [], times[:, :0]
    sums = times.sum(axis=0)
    order = np.argsort(-sums, kind="stable")
    several = len(times) > 1
    deviation = whole(times[:, order].std(axis=0, ddof=1)) if several else np.zeros(len(names), np.int64)
    return table_of("breakdown", {
        "category": [names[at] for at in order.tolist()],
        "mean_ps": whole(sums[order] / max(len(times), 1)),
        "stdev_ps": pa.array(deviation, mask=np.full(len(names), not several)),
        "share": shares(sums[order], np.full(len(names), span.sum())),
    })  # fmt: skip


def _ops_table(ops: InputOps) -> pa.Table:
    whole_time = np.full(len(ops), float(ops.self_ps.sum()))
    return table_of("input_ops", {
        "name": ops.name,
        "category": ops.category,
        "occurrences": ops.count,
        "total_ps": ops.time_ps,
        "self_ps": ops.self_ps,
        "total_share": shares(ops.time_ps, whole_time),
        "self_share": shares(ops.self_ps, whole_time),
    })  # fmt: skip


def _time_table(time: InputTime) -> pa.Table:
    parts = np.array(time.parts())
    return table_of("input_time", {
        "kind": [kind for kind, _ in KINDS],
        "time_ps": whole(parts),
        "share": shares(parts, np.full(len(parts), time.total_ps())),
        "advice": [advice for _, advice in KINDS],
    })  # fmt: skip


def table_of(name: str, columns: Mapping[str, Any]) -> pa.Table:
    schema = TABLES[name].arrow()
    return pa.table([typed(columns[field.name], field.type) for field in schema], schema=schema)


def whole(times: Float64s) -> Int64s:
    rounded: Int64s = np.rint(times).astype(np.int64)
    return rounded


def shares(part: Float64s | Int64s, whole: Float64s | Int64s) -> pa.Array:
    """part / whole; null where the whole is 0."""
    none = np.asarray(whole) == 0
    return pa.array(np.asarray(part, np.float64) / np.where(none, 1, whole), mask=none)


# ---- figures and words ----------------------------------------------------------------------------------


def _values(pipeline: InputPipeline, reason: str) -> dict[str, Known]:
    verdict, ops = pipeline.verdict, pipeline.ops
    values: dict[str, Known] = {}
    unknown = verdict.input.classification == verdicts.UNKNOWN
    for name in ("input", "output", "compute", "idle"):
        values[f"{name}_percent"] = (None, reason) if unknown else getattr(verdict, f"{name}_percent")
    values["input_verdict"] = (None, reason) if unknown else verdict.input.severity
    _, _, span, _ = categories(pipeline)
    values["step_time_shared_out_ps"] = round(float(span.mean())) if len(span) else (None, reason)
    values["uses_tf_data"] = ops.uses_tf_data
    values["input_op_self_ps"] = int(ops.self_ps.sum())
    values["enqueue_share"] = pipeline.enqueue_share
    return values


def _notices(pipeline: InputPipeline, why: str) -> tuple[Notice, ...]:
    verdict, ops = pipeline.verdict, pipeline.ops
    if verdict.input.classification == verdicts.UNKNOWN:
        return (Notice("warning", f"How long steps wait for input is not known: {why}"), *_on_stages(ops))
    sentences = [verdict.input.plain_statement]
    if verdict.input.classification in (verdicts.HOST, verdicts.BOTH):
        sentences.append(_next_step(pipeline))
    sentences += [finding.plain_statement for finding in further(verdict)]
    notices = [Notice("recommendation", text) for text in sentences if text]
    notices[:1] = [input_notice(verdict.input)]
    if len(ops) and pipeline.time.total_ps() == 0:
        notices.append(Notice("info", "The input ops that were seen took no time."))
    return (*notices, *_on_stages(ops))


def input_notice(found: verdicts.Finding) -> Notice:
    """The verdict on input; that a program is not bound by it asks for nothing."""
    asks = found.classification in (verdicts.HOST, verdicts.BOTH)
    return Notice("recommendation" if asks else "info", found.plain_statement)


def _on_stages(ops: InputOps) -> tuple[Notice, ...]:
    """Where to look further, if the capture has iterators of tf.data."""
    return (Notice("info", _STAGES),) if any(name.startswith("Iterator::") for name in ops.name) else ()


def further(verdict: GenericBottleneck | TpuBottleneck) -> list[verdicts.Finding]:
    """The verdicts on all but input, the ones with a statement."""
    if isinstance(verdict, TpuBottleneck):
        found = [verdict.output, verdict.tc_idle, verdict.all_reduce, verdict.sparse_core]
    else:
        found = [verdict.device_collectives, verdict.kernel_launch, verdict.all_other]
    return [finding for finding in found if finding.statement]


def _next_step(pipeline: InputPipeline) -> str:
    parts = pipeline.time.parts()
    if not pipeline.ops.uses_tf_data or not any(parts):
        return (
            "No op of a tf.data pipeline was seen, so what the time for input is spent on is not known: with the "
            "tf.data API (https://www.tensorflow.org/guide/data) the host's side can be broken down."
        )
    largest = max(range(len(parts)), key=lambda at: parts[at])
    kind, advice = KINDS[largest]
    percent = 100.0 * parts[largest] / sum(parts)
    return f"On the host, {percent:.1f} % of the time for input goes to {kind}: {advice}."
