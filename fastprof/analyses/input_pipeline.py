"""How much of each step waits for input, and which input ops take the time.

The device side: what part of step time is spent waiting for input, of the complete steps, with XProf's verdict on it.
The host side: the ops that read, prepare and enqueue data, and how to make input faster.
Formulas: docs/analyses/input-pipeline.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from operator import attrgetter, itemgetter
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from fastprof.analyses.contract import (
    Known,
    Needs,
    Notice,
    Opening,
    Report,
    ScalarSpec,
    Section,
    has_rows,
    is_known,
    known,
    scalars,
)
from fastprof.analyses.findings.advice import OF_QUEUE
from fastprof.analyses.findings.advice import advice as advice_on
from fastprof.analyses.late_tables import LateTables
from fastprof.analyses.op_stats import OpDatabase
from fastprof.analyses.steps import SCALARS as OF_STEPS
from fastprof.derive.causes.gaps import longest_loading
from fastprof.derive.devices.framework import TENSORFLOW, framework_of_host, together
from fastprof.derive.ops import record_checks
from fastprof.derive.ops.record_checks import HostRecords
from fastprof.derive.ops.tables import Ops
from fastprof.derive.pipelines import input_ops
from fastprof.derive.pipelines.input_ops import InputOps, InputTime
from fastprof.derive.steps import verdicts
from fastprof.derive.steps.across_hosts import SessionSteps
from fastprof.derive.steps.database import StepDatabase
from fastprof.derive.steps.host_causes import shows_input
from fastprof.derive.steps.input_words import asks_queue
from fastprof.derive.steps.remedies import KINDS_OF_INPUT, on_loader, on_unknown_input
from fastprof.derive.steps.step_figures import (
    PS_PER_MS,
    GenericSteps,
    TpuStepValues,
    generic_steps,
    longest_wait_cores,
    step_times,
    tpu_categories,
    tpu_step_values,
    tpu_verdict,
)
from fastprof.derive.steps.step_source import AUTO
from fastprof.derive.steps.step_time import OWN_CATEGORIES
from fastprof.derive.steps.torch_loaders import LoaderTime, loader_time, longest_wait
from fastprof.derive.steps.verdicts import Bottleneck
from fastprof.schema.array_types import Float64s, Int64s
from fastprof.schema.arrow_columns import shares, texts
from fastprof.schema.column_kinds import Count, Flag, Picoseconds, Share, String, Text
from fastprof.schema.tables import Column, Need, TableSchema, resting_on
from fastprof.schema.value_classes import dataclass

if TYPE_CHECKING:
    from fastprof.derive.host import Host

NAME = "input_pipeline"
READS = Needs(planes=(r"^/host:CPU$",), stats=record_checks.STATS)
AFTER = ("steps", "op_stats")


@dataclass(frozen=True, slots=True)
class Params:
    """None."""


KINDS: Final = (
    ("enqueuing data to the device", "combine small chunks of input data into fewer but larger ones"),
    ("reading files on demand", "read data in advance with the tf.data API: prefetch, interleave, reader buffer"),
    ("reading files in advance", "tune prefetch size, interleave cycle_length, reader buffer_size of the tf.data API"),
    ("preprocessing", "raise num_parallel_calls of Dataset.map(), or preprocess the data offline"),
    ("other reading or processing", "use the tf.data API, if you do not yet"),
)
"""Kinds of work for input, in the order of InputTime, and what makes each shorter."""
_NO_COMPUTE: Final = "no compute of a device is recorded in steps"
_INPUT: Final = Need("input_percent")
_OF_DEVICES: Final = ("device_compute", "device_to_device", "device_collectives", "output", "copies")


def _of_categories(*columns: Column) -> tuple[Column, ...]:
    """Columns of times by category, with what the times of input and of devices need."""
    of_input = resting_on(Need("input_percent", only=("category", ("input",))), *columns)
    return resting_on(Need("compute_percent", _NO_COMPUTE, ("category", _OF_DEVICES)), *of_input)


_CATEGORY: Final = Text("category", "category of step time")
_TABLES: Final = (
    TableSchema("steps", "a step, over all hosts and cores that took part in it", (
        Count("step", "number of the step, as in the analysis steps", lambda rows: rows.db.number),
        String("name", "name of the step; null: the capture records no name",
               lambda rows: [name or None for name in rows.db.label]),
        Flag("complete", "false if the step may be cut off and does not count for averages and verdicts: the first "
             "and the last of more than five steps, except on TPUs and of PyTorch's profiler",
             lambda rows: rows.db.complete),
        Picoseconds("step_ps", "time of the step, until the next one begins, on its slowest core"),
        *resting_on(
            _INPUT,
            Picoseconds("input_ps", "time in which input is loaded or waited for, without copies to devices: mean over "
                        "hosts; on TPUs, of the core that waited longest"),
            Share("input_share", "input_ps / mean time of the step over hosts; on TPUs, mean over cores of infeed / "
                  "time of the step; null: the step took no time"),
        ),
        Share("least_input_share", "smallest share of the step that a core waited for input; null: the devices are "
              "not TPUs, or the step took no time"),
        Share("most_input_share", "largest share of the step that a core waited for input; null: the devices are not "
              "TPUs, or the step took no time"),
        Text("longest_wait_core", "core that waited longest for input, as host:ordinal; null: the devices are not "
             "TPUs, no core waited, or the capture does not describe the core"),
    ), derived=True),
    TableSchema("step_breakdown", "a category of time in a step", (
        Count("step", "number of the step, as in the table steps"),
        _CATEGORY,
        *_of_categories(
            Picoseconds("time_ps", "time of the category in the step: mean over hosts; on TPUs by the formulas of "
                        "docs/analyses/input-pipeline.md", lambda rows: rounded(rows.time)),
            Share("share", "time_ps / time of the step; null: the step took no time",
                  lambda rows: shares(rows.time, rows.span)),
        ),
    ), derived=True),
    TableSchema("breakdown", "a category of step time, over the complete steps, largest first", (
        _CATEGORY,
        *_of_categories(
            Picoseconds("mean_ps", "mean time per step", lambda rows: rounded(rows.total / max(rows.count, 1))),
            Picoseconds("stdev_ps", "standard deviation (sample) of the time per step; null: there are fewer than two "
                        "steps", lambda rows: rounded(rows.stdev),
                        lambda rows: np.full(len(rows.stdev), rows.count < 2)),
            Share("share", "mean_ps / step_time_shared_out_ps; null: step_time_shared_out_ps is 0",
                  lambda rows: shares(rows.total, rows.span)),
        ),
    ), derived=True),
    TableSchema("input_ops", "an op of the input pipeline, over all hosts, largest self time first", (
        String("name", "name of the op"),
        Text("category", "what the op does: enqueue, read files on demand or in advance, preprocess"),
        Count("occurrences", "number of times that the op ran", attrgetter("count")),
        Picoseconds("total_ps", "sum of the durations of its occurrences", attrgetter("time_ps")),
        Picoseconds("self_ps", "sum of the durations of its occurrences, without the time of ops nested in them"),
        Share("total_share", "total_ps / self time of all input ops; above 1 if ops are nested; null: the ops have no "
              "self time", lambda ops: shares(ops.time_ps, float(ops.self_ps.sum()))),
        Share("self_share", "self_ps / self time of all input ops; null: the ops have no self time",
              lambda ops: shares(ops.self_ps, float(ops.self_ps.sum()))),
    ), derived=True),
    TableSchema("input_time", "a kind of work for input, over all hosts", (
        Text("kind", "kind of work", lambda _: [kind for kind, _ in KINDS]),
        *resting_on(
            Need("input_op_self_ps", "no op of an input pipeline is recorded"),
            Picoseconds("time_ps", "time of this kind of work, by the formulas of docs/analyses/input-pipeline.md",
                        lambda rows: rounded(np.array(rows.time.parts()))),
        ),
        Share("share", "time_ps / time of all kinds; null: no kind took any time",
              lambda rows: shares(np.array(rows.time.parts()), rows.time.total_ps())),
        String("advice", "how to shorten this time", lambda rows: rows.advice),
    ), derived=True),
)  # fmt: skip
TABLES: Final = {table.name: table for table in _TABLES}

STEP_FIGURES: Final = {name: spec for name, spec in OF_STEPS.items() if "step" in name}
"""Figures that are those of the steps."""

_COMPUTE = Need("compute_percent", _NO_COMPUTE)
_NO_INPUT = "neither calls that load data nor Python functions, which would show them, are recorded"
_HOST_OPS = Need("host_op_ps", "no op of a host thread is recorded")
SCALARS = {
    **STEP_FIGURES,
    "input_percent": ScalarSpec("%", "time in which input is loaded or waited for, in percent of step time; null: "
                                "neither calls that load data nor Python functions are recorded",
                                "input share of step time"),
    "output_percent": ScalarSpec("%", "time copying from devices to the host, in percent of step time",
                                 "output share of step time", need=_COMPUTE),
    "compute_percent": ScalarSpec("%", "time that devices compute, in percent of step time; on TPUs the rest without "
                                  "input, output, copies and idle time, collectives included",
                                  "compute share of step time", need=_COMPUTE),
    "step_time_shared_out_ps": ScalarSpec("ps", "mean step time that the categories of breakdown divide: mean over "
                                          "hosts; on TPUs the time of the fastest core, or the sum of the categories "
                                          "if that is larger", "step time (TPUs: of the fastest core)"),
    "idle_percent": ScalarSpec("%", "time without input, copies, compute and collectives, in percent of step time; on "
                               "TPUs idle time of TensorCores", "idle share of step time"),
    "input_verdict": ScalarSpec(None, "degree to which the program waits for input: none, moderate (5 % or more of "
                                "step time) or high (20 % or more)"),
    "uses_tf_data": ScalarSpec(None, "whether recorded ops of an input pipeline took any "
                               "time", need=_HOST_OPS),
    "input_op_self_ps": ScalarSpec("ps", "self time of all input ops, on all threads of all hosts",
                                   need=_HOST_OPS),
    "enqueue_share": ScalarSpec("share", "share of input time that the host spends on enqueuing: durations of infeed "
                                "enqueues / time between their starts; without infeed, copies to devices / step time",
                                need=_COMPUTE),
}  # fmt: skip
OPENING = Opening(
    (
        "Steps, {steps_inferred}, take {step_time_mean_ps} on average; {input_percent} of that is waiting for input.",
        "Steps take {step_time_mean_ps} on average; {input_percent} of that is waiting for input.",
    ),
    (
        "input_percent", "input_verdict", "step_time_mean_ps", "compute_percent", "idle_percent", "output_percent",
        "step_count",
    ),
)  # fmt: skip

STEP_TIME: Final = Section("Step time", scalars=tuple(name for name in STEP_FIGURES if name != "steps_inferred"),
                           shown=is_known("step_count"))  # fmt: skip
SECTIONS = (
    STEP_TIME,
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

_STAGES: Final = (
    "tf-data shows which stage of the tf.data pipeline is slow: there each moment of a call counts once, while the "
    "times of input ops here are those of threads, which run side by side."
)


@dataclass(frozen=True, slots=True)
class InputPipeline:
    """What the report is made of, for renderers and for analyses that come after. Of the complete steps."""

    db: StepDatabase
    steps: GenericSteps | TpuStepValues
    step_ps: Int64s
    verdict: Bottleneck
    ops: InputOps
    enqueue_share: float
    time: InputTime


@dataclass(frozen=True, slots=True)
class KeptHost:
    """Steps and op_stats have all but the framework of the program, what shows that records are missing, whether input
    would be recorded, how the program waits for a DataLoader of PyTorch, and which event takes most of the time for
    input, with that time."""

    framework: str
    records: HostRecords
    shows_input: bool = True
    loader: LoaderTime = field(default_factory=LoaderTime)
    loading: tuple[str | None, int] = (None, 0)


def of_host(host: Host, params: Params) -> KeptHost:
    events, records = host.raw, record_checks.records_of(host.entire.raw)
    kept = KeptHost(framework_of_host(events), records, shows_input(host.entire.raw), loader_time(events))
    if kept.loader.waited_ps:
        return kept
    return replace(kept, loading=longest_loading(host.events, host.causes_from(AUTO), host.foremost_from(AUTO)))


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
    verdict = steps.bottleneck(ops.uses_tf_data, copies_apart=core_id is None)
    verdict = verdict.as_measured() if core_id is None else verdict
    return InputPipeline(db, steps, step_ps, verdict, ops, share, _time(ops, share))


def _copying(steps: GenericSteps, step_ps: Int64s) -> float:
    """Copies to devices in the average step, as a part of it."""
    average = float(step_ps.mean()) if len(step_ps) else 0.0
    return float(steps.to_device_ps.mean()) / average if average > 0 and len(steps) else 0.0


def _time(ops: InputOps, share: float) -> InputTime:
    return input_ops.input_time(ops, share) if len(ops) else InputTime()


def run(kept: Sequence[KeptHost], params: Params, after: Mapping[str, Report]) -> Report:
    framework = together(one.framework for one in kept)
    loader = longest_wait(one.loader for one in kept)
    loading, _ = max((one.loading for one in kept), key=itemgetter(1), default=(None, 0))
    db = after["steps"].detail_as(SessionSteps).database
    host_ops = after["op_stats"].detail_as(OpDatabase).host
    counted = examine(db.complete_steps(), host_ops)
    every = counted if counted.db is db else examine(db, host_ops)
    rows: dict[str, Callable[[], Any]] = {
        "steps": lambda: _steps(every),
        "step_breakdown": lambda: _step_breakdown(every),
        "breakdown": lambda: _breakdown(counted),
        "input_ops": lambda: counted.ops,
        "input_time": lambda: SimpleNamespace(time=counted.time, advice=_advice(counted.ops, framework)),
    }
    why = why_no_steps(after["steps"])
    lost = _without_devices(kept)
    divided = ("breakdown", "step_breakdown") if lost else ()
    tables = LateTables({
        name: schema.empty if name in divided else partial(_table, schema, rows[name])
        for name, schema in TABLES.items()
    })  # fmt: skip
    values = step_figures(after["steps"]) | _values(counted, why) | {"host_op_ps": host_ops.op_ps}
    figures = scalars(SCALARS, values | lost | _without_input(counted, kept))
    notices = tuple(_notices(counted, why, framework, loader, loading))
    return Report(NAME, tables, figures, notices, dict(after), counted)


def _table(schema: TableSchema, rows: Callable[[], Any]) -> pa.Table:
    return schema.of(rows())


def why_no_steps(report: Report) -> str:
    """Return why step times are not known, if they are not."""
    return report.scalars["step_time_mean_ps"].reason or "there are no steps"


def step_figures(report: Report) -> dict[str, Known]:
    """The figures of steps, as the report on them has them."""
    return {name: known(report.scalars[name]) for name in STEP_FIGURES}


# ---- tables ---------------------------------------------------------------------------------------------


def _steps(pipeline: InputPipeline) -> SimpleNamespace:
    db, steps, step_ps = pipeline.db, pipeline.steps, pipeline.step_ps
    if isinstance(steps, TpuStepValues):
        percents = (steps.infeed_percent_average, steps.infeed_percent_minimum, steps.infeed_percent_maximum)
        # infeeds of a core may overlap
        average, least, most = (pa.array(np.minimum(percent / 100.0, 1.0), mask=step_ps <= 0) for percent in percents)
        input_ps = np.minimum(rounded((steps.tc_infeed_ms + steps.scv0_infeed_ms) * PS_PER_MS), step_ps)
        cores = longest_wait_cores(db, steps)
    else:
        input_ps, span = np.zeros(len(db), np.int64), np.zeros(len(db))
        input_ps[steps.row], span[steps.row] = rounded(steps.wait_input_ps), steps.step_ps
        average, least = shares(input_ps, span), pa.nulls(len(db), pa.float64())
        most, cores = least, [None] * len(db)
    return SimpleNamespace(
        db=db,
        step_ps=step_ps,
        input_ps=input_ps,
        input_share=average,
        least_input_share=least,
        most_input_share=most,
        longest_wait_core=cores,
    )


def categories(pipeline: InputPipeline) -> tuple[list[str], Float64s, Float64s, Int64s]:
    """What step time is divided into: names, times [n, k] in ps, times of the steps [n], and rows of the database."""
    steps = pipeline.steps
    if isinstance(steps, TpuStepValues):
        names, times = tpu_categories(steps)
        return names, times, steps.step_ms * PS_PER_MS, np.arange(len(pipeline.db), dtype=np.int64)
    return [category.name for category in OWN_CATEGORIES], steps.own_category_ps, steps.step_ps, steps.row


def _step_breakdown(pipeline: InputPipeline) -> SimpleNamespace:
    names, times, span, rows = categories(pipeline)
    return SimpleNamespace(
        step=np.repeat(pipeline.db.number[rows], len(names)),
        category=texts(names, np.tile(np.arange(len(names)), len(rows))),
        time=times.reshape(-1),
        span=np.repeat(span, len(names)),
    )


def _breakdown(pipeline: InputPipeline) -> SimpleNamespace:
    names, times, span, _ = categories(pipeline)
    if not len(times):
        names, times = [], times[:, :0]
    total = times.sum(axis=0)
    order = np.argsort(-total, kind="stable")
    return SimpleNamespace(
        category=[names[at] for at in order.tolist()],
        count=len(times),
        total=total[order],
        stdev=times[:, order].std(axis=0, ddof=1) if len(times) > 1 else np.zeros(len(names)),
        span=span.sum(),
    )


def rounded(times: Float64s) -> Int64s:
    whole_numbers: Int64s = np.rint(times).astype(np.int64)
    return whole_numbers


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


def _without_devices(kept: Sequence[KeptHost]) -> dict[str, Known]:
    """Return what is unknown because records of devices are missing, though threads compute."""
    why = record_checks.why_unknown(one.records for one in kept)
    names = ("output_percent", "compute_percent", "idle_percent", "enqueue_share")
    return {} if why is None else dict.fromkeys(names, (None, why))


def _without_input(pipeline: InputPipeline, kept: Sequence[KeptHost]) -> dict[str, Known]:
    """Return what is unknown because nothing would show that the program loads input. TPUs record their infeed."""
    if pipeline.verdict.input_percent or isinstance(pipeline.steps, TpuStepValues):
        return {}
    if not len(pipeline.db) or any(one.shows_input for one in kept):
        return {}
    return dict.fromkeys(("input_percent", "input_verdict"), (None, _NO_INPUT))


def _advice(ops: InputOps, framework: str) -> list[str]:
    """By kind of work, in terms of tf.data where the program uses it or may."""
    of_tf_data = framework == TENSORFLOW or _has_iterators(ops)
    return [advice for _, advice in KINDS] if of_tf_data else list(KINDS_OF_INPUT)


def _notices(
    pipeline: InputPipeline, why: str, framework: str, loader: LoaderTime, loading: str | None
) -> tuple[Notice, ...]:
    verdict, ops = pipeline.verdict, pipeline.ops
    if verdict.input.classification == verdicts.UNKNOWN:
        return (Notice("warning", f"How long steps wait for input is not known: {why}"), *_on_stages(ops))
    notices = []
    if verdict.input.classification in (verdicts.HOST, verdicts.BOTH):
        words = (verdict.input.plain_statement, _next_step(pipeline, framework, loader, loading))
        notices += [Notice("recommendation", text) for text in words]
    if len(ops) and pipeline.time.total_ps() == 0:
        notices.append(Notice("info", "The input ops that were seen took no time."))
    return (*notices, *_on_stages(ops))


def _on_stages(ops: InputOps) -> tuple[Notice, ...]:
    """Where to look further, if the capture has iterators of tf.data."""
    return (Notice("info", _STAGES),) if _has_iterators(ops) else ()


def _has_iterators(ops: InputOps) -> bool:
    return any(name.startswith("Iterator::") for name in ops.name)


def _next_step(pipeline: InputPipeline, framework: str, loader: LoaderTime, loading: str | None) -> str:
    if loader.waited_ps:
        return on_loader(loader)
    parts = pipeline.time.parts()
    if not pipeline.ops.uses_tf_data or not any(parts):
        if loading is not None and asks_queue(loading):
            return advice_on(OF_QUEUE, framework)
        return on_unknown_input(framework, loading, on_tpu=isinstance(pipeline.steps, TpuStepValues))
    largest = max(range(len(parts)), key=lambda at: parts[at])
    kind, advice = KINDS[largest][0], _advice(pipeline.ops, framework)[largest]
    percent = 100.0 * parts[largest] / sum(parts)
    return f"On the host, {percent:.1f} % of the time for input goes to {kind}: {advice}."
