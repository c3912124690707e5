"""How much of each step waits for input, and which input ops take the time.

Device side: share of step time spent waiting for input, over complete steps, with XProf's verdict.
Host side: the ops that read, prepare and enqueue data, and how to make input faster.
Formulas: docs/analyses/input-pipeline.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from operator import attrgetter, itemgetter
from types import SimpleNamespace
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

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
from fastprof.analyses.findings.advice import OF_QUEUE
from fastprof.analyses.findings.advice import get_advice as advice_on
from fastprof.analyses.op_stats import OpDatabase
from fastprof.analyses.steps import CATEGORY_WORDS
from fastprof.analyses.steps import SCALARS as OF_STEPS
from fastprof.derive.causes.callees import find_callees
from fastprof.derive.causes.gaps import longest_loading
from fastprof.derive.devices.op_names import TENSORFLOW, choose_framework, find_host_framework
from fastprof.derive.ops import record_checks
from fastprof.derive.ops.op_table import Ops
from fastprof.derive.ops.record_checks import HostRecords
from fastprof.derive.pipelines import input_ops
from fastprof.derive.pipelines.input_ops import InputOps, InputTime
from fastprof.derive.steps import step_advice
from fastprof.derive.steps.host_calls import LoaderTime, asks_queue, longest_wait, measure_loader_time
from fastprof.derive.steps.host_causes import shows_input
from fastprof.derive.steps.step_advice import KINDS_OF_INPUT, Bottleneck, advise_on_loader, advise_on_unknown_input
from fastprof.derive.steps.step_alignment import SessionSteps
from fastprof.derive.steps.step_database import OWN_CATEGORIES, StepDatabase
from fastprof.derive.steps.step_figures import (
    NOT_FULLY_RECORDED,
    PS_PER_MS,
    GenericSteps,
    TpuStepValues,
    compute_step_times,
    compute_tpu_steps,
    find_longest_wait_cores,
    judge_tpu_steps,
    make_generic_steps,
    split_tpu_categories,
)
from fastprof.derive.steps.step_source import AUTO
from fastprof.schema.columns import Float64s, Int64s
from fastprof.schema.tables import (
    Column,
    Count,
    Flag,
    Need,
    Picoseconds,
    Share,
    String,
    TableSchema,
    Text,
    divide_or_null,
    encode_texts,
    resting_on,
)
from fastprof.schema.value_classes import dataclass
from fastprof.tables.needs import Needs

if TYPE_CHECKING:
    from fastprof.derive.host import Host

NAME = "input_pipeline"
READS = Needs(planes=(r"^/host:CPU$",), stats=record_checks.RECORD_STATS)
AFTER = ("steps", "op_stats")


@dataclass(frozen=True, slots=True)
class Params:
    """There are none."""


KINDS: Final = (
    ("enqueuing data to the device", "combine small chunks of input data into fewer but larger ones"),
    ("reading files on demand", "read data in advance with the tf.data API: prefetch, interleave, reader buffer"),
    ("reading files in advance", "tune prefetch size, interleave cycle_length, reader buffer_size of the tf.data API"),
    ("preprocessing", "raise num_parallel_calls of Dataset.map(), or preprocess the data offline"),
    ("other reading or processing", "use the tf.data API, if you do not yet"),
)
"""Kinds of input work, in the order of InputTime, and how to shorten each."""
_NO_COMPUTE: Final = "no compute of a device is recorded in steps"
_INPUT: Final = Need("input_percent")
_OF_DEVICES: Final = ("device_compute", "device_to_device", "device_collectives", "output", "copies")


def _make_category_columns(*columns: Column) -> tuple[Column, ...]:
    """Add the records that input and device times need to columns of time by category."""
    of_input = resting_on(Need("input_percent", only=("category", ("input",))), *columns)
    return resting_on(Need("compute_percent", _NO_COMPUTE, ("category", _OF_DEVICES)), *of_input)


_CATEGORY: Final = Text("category", "category of step time")
_TABLES: Final = (
    TableSchema("steps", "a step, over all hosts and cores that took part in it", (
        Count("step", "step number, as in the steps analysis", lambda rows: rows.db.number),
        String("name", "step name; null: the capture records no name",
               lambda rows: [name or None for name in rows.db.label]),
        Flag("complete", "false if the step may be cut off and is therefore excluded from averages and verdicts: the "
                         "first and last of more than five steps, except on TPUs and in captures of PyTorch's profiler",
             lambda rows: rows.db.complete),
        Picoseconds("step_ps", "step time, until the next one begins, on its slowest core"),
        *resting_on(
            _INPUT,
            Picoseconds("input_ps", "time in which input is loaded or waited for, without copies to devices: mean over "
                        f"hosts; on TPUs, of the core that waited longest; null: {NOT_FULLY_RECORDED}"),
            Share("input_share", "input_ps / mean step time over hosts; on TPUs, mean over cores of infeed / step "
                  f"time; null: the step took no time, or {NOT_FULLY_RECORDED}"),
        ),
        Share("least_input_share", "smallest share of the step that a core waited for input; null: the devices are "
              "not TPUs, or the step took no time"),
        Share("most_input_share", "largest share of the step that a core waited for input; null: the devices are not "
              "TPUs, or the step took no time"),
        Text("longest_wait_core", "core that waited longest for input, as host:ordinal; null: the devices are not "
             "TPUs, no core waited, or the capture does not describe the core"),
    ), derived=True),
    TableSchema("step_breakdown", f"a category of time in a step, unless {NOT_FULLY_RECORDED}", (
        Count("step", "step number, as in the steps table"),
        _CATEGORY,
        *_make_category_columns(
            Picoseconds("time_ps", "time of the category in the step: mean over hosts; on TPUs by the formulas of "
                        "docs/analyses/input-pipeline.md", lambda rows: round_times(rows.time)),
            Share("share", "time_ps / step time; null: the step took no time",
                  lambda rows: divide_or_null(rows.time, rows.span)),
        ),
    ), derived=True),
    TableSchema("breakdown", "a category of step time, over the complete steps whose device work is fully recorded, "
                "largest first", (
        _CATEGORY,
        *_make_category_columns(
            Picoseconds("mean_ps", "mean time per step", lambda rows: round_times(rows.total / max(rows.count, 1))),
            Picoseconds("stdev_ps", "standard deviation (sample) of the time per step; null: there are fewer than two "
                        "steps", lambda rows: round_times(rows.stdev),
                        lambda rows: np.full(len(rows.stdev), rows.count < 2)),
            Share("share", "mean_ps / step_time_shared_out_ps; null: step_time_shared_out_ps is 0",
                  lambda rows: divide_or_null(rows.total, rows.span)),
        ),
    ), derived=True),
    TableSchema("input_ops", "an input pipeline op, over all hosts, largest self time first", (
        String("name", "op name"),
        Text("category", "what the op does: enqueue, read files on demand or in advance, preprocess"),
        Count("occurrences", "number of executions", attrgetter("count")),
        Picoseconds("total_ps", "sum of the durations of its occurrences", attrgetter("time_ps")),
        Picoseconds("self_ps", "sum of the durations of its occurrences, without the time of ops nested in them"),
        Share("total_share", "total_ps / self time of all input ops; above 1 if ops are nested; null: the ops have no "
              "self time", lambda ops: divide_or_null(ops.time_ps, float(ops.self_ps.sum()))),
        Share("self_share", "self_ps / self time of all input ops; null: the ops have no self time",
              lambda ops: divide_or_null(ops.self_ps, float(ops.self_ps.sum()))),
    ), derived=True),
    TableSchema("input_time", "a kind of input work, over all hosts", (
        Text("kind", "kind of work", lambda _: [kind for kind, _ in KINDS]),
        *resting_on(
            Need("input_op_self_ps", "no input pipeline op is recorded"),
            Picoseconds("time_ps", "time of this kind of work, by the formulas of docs/analyses/input-pipeline.md",
                        lambda rows: round_times(np.array(rows.time.parts()))),
        ),
        Share("share", "time_ps / time of all kinds; null: no kind took any time",
              lambda rows: divide_or_null(np.array(rows.time.parts()), rows.time.total_ps())),
        String("advice", "how to shorten this time", lambda rows: rows.advice),
    ), derived=True),
)  # fmt: skip
TABLES: Final = {table.name: table for table in _TABLES}

STEP_FIGURES: Final = {name: spec for name, spec in OF_STEPS.items() if "step" in name}
"""Figures of the analysis steps."""

_COMPUTE = Need("compute_percent", _NO_COMPUTE)
_NO_INPUT = "neither calls that load data nor Python functions, which would show them, are recorded"
_HOST_OPS = Need("host_op_ps", "no host thread op is recorded")
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
    "step_time_shared_out_ps": ScalarSpec("ps", "mean step time that breakdown divides into categories, over the steps "
                                          "whose device work is fully recorded: mean over hosts; on TPUs the time of "
                                          "the fastest core, or the sum of the categories if that is larger",
                                          "step time (TPUs: of the fastest core)"),
    "idle_percent": ScalarSpec("%", "time without input, copies, compute and collectives, in percent of step time; on "
                               "TPUs idle time of TensorCores", "idle share of step time"),
    "input_verdict": ScalarSpec(None, "degree to which the program waits for input: none, moderate (5 % or more of "
                                "step time) or high (20 % or more)"),
    "uses_tf_data": ScalarSpec(None, "whether recorded input pipeline ops took any time", need=_HOST_OPS),
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
            scalars=("step_time_shared_out_ps",), nonzero="mean_ps", shown=has_rows("breakdown"),
            words=CATEGORY_WORDS),
    Section("Steps", "steps", ("step", "name", "complete", "step_ps", "input_ps", "input_share"), "input_share", 20),
    Section("Time for input on the host", "input_time", ("kind", "time_ps", "share"), "share", nonzero="time_ps",
            shown=has_rows("input_ops")),
    Section("Input ops", "input_ops", ("name", "category", "occurrences", "total_ps", "self_ps", "self_share"),
            "self_share", 20, shown=has_rows("input_ops")),
)  # fmt: skip

_STAGES: Final = (
    "tf-data shows the slow stage of the tf.data pipeline. It counts call time once, while the times of input ops "
    "here are summed over parallel threads."
)


@dataclass(frozen=True, slots=True)
class InputPipeline:
    """Intermediate results on the complete steps, for renderers and dependent analyses."""

    db: StepDatabase
    steps: GenericSteps | TpuStepValues
    step_ps: Int64s
    verdict: Bottleneck
    ops: InputOps
    enqueue_share: float
    time: InputTime


@dataclass(frozen=True, slots=True)
class InputHostState:
    """Host state beside that of steps and op_stats: framework, record checks, whether input would be recorded, waits
    for PyTorch's DataLoader, and the event with the most input time, with that time."""

    framework: str
    records: HostRecords
    shows_input: bool = True
    loader: LoaderTime = field(default_factory=LoaderTime)
    loading: tuple[str | None, int] = (None, 0)


def of_host(host: Host, params: Params) -> InputHostState:
    events, records = host.raw, record_checks.check_records(host.entire.raw)
    kept = InputHostState(
        find_host_framework(events), records, shows_input(host.entire.raw), measure_loader_time(events)
    )
    if kept.loader.waited_ps:
        return kept
    loading, time_ps = longest_loading(host.events, host.causes_from(AUTO), host.foremost_from(AUTO))
    if loading is not None:
        loading = find_callees(host.events).get(loading, loading)
    return replace(kept, loading=(loading, time_ps))


def examine(db: StepDatabase, host_ops: Ops, core_id: int | None = None) -> InputPipeline:
    """Examine the input pipeline of some steps. ``core_id``: without TPUs, only this core, judged as XProf does."""
    ops = input_ops.list_input_ops(host_ops)
    step_ps = compute_step_times(db)
    share = input_ops.measure_enqueue_share(host_ops)
    if db.is_tpu:
        values = compute_tpu_steps(db)
        share = 0.0 if share is None else share
        return InputPipeline(db, values, step_ps, judge_tpu_steps(values), ops, share, _make_input_time(ops, share))
    steps = make_generic_steps(db, core_id)
    if share is None:
        share = _measure_copying(steps, step_ps)
    verdict = steps.bottleneck(ops.uses_tf_data, copies_apart=core_id is None)
    verdict = verdict.as_measured() if core_id is None else verdict
    return InputPipeline(db, steps, step_ps, verdict, ops, share, _make_input_time(ops, share))


def _measure_copying(steps: GenericSteps, step_ps: Int64s) -> float:
    """Return the share of copies to devices in the average step."""
    average = float(step_ps.mean()) if len(step_ps) else 0.0
    return float(steps.to_device_ps.mean()) / average if average > 0 and len(steps) else 0.0


def _make_input_time(ops: InputOps, share: float) -> InputTime:
    return input_ops.divide_input_time(ops, share) if len(ops) else InputTime()


def run(kept: Sequence[InputHostState], params: Params, after: Mapping[str, AnalysisReport]) -> AnalysisReport:
    framework = choose_framework(host.framework for host in kept)
    loader = longest_wait(host.loader for host in kept)
    loading, _ = max((host.loading for host in kept), key=itemgetter(1), default=(None, 0))
    db = after["steps"].detail_as(SessionSteps).database
    host_ops = after["op_stats"].detail_as(OpDatabase).host
    counted = examine(db.complete_steps(), host_ops)
    every = counted if counted.db is db else examine(db, host_ops)
    why = "no step has a full record of its device work" if len(counted.db) else explain_no_steps(after["steps"])
    lost = _mark_without_devices(kept)
    tables = LazyTables({
        "steps": lambda: TABLES["steps"].of(_make_steps(every)),
        "step_breakdown": lambda: TABLES["step_breakdown"].of(_make_step_breakdown(every)),
        "breakdown": lambda: TABLES["breakdown"].of(_make_breakdown(counted)),
        "input_ops": lambda: TABLES["input_ops"].of(counted.ops),
        "input_time": lambda: TABLES["input_time"].of(
            SimpleNamespace(time=counted.time, advice=_list_advice(counted.ops, framework))),
    } | ({name: TABLES[name].empty for name in ("step_breakdown", "breakdown")} if lost else {}))  # fmt: skip
    values = get_step_figures(after["steps"]) | _compute_values(counted, why) | {"host_op_ps": host_ops.op_ps}
    figures = make_scalars(SCALARS, values | lost | _mark_without_input(counted, kept))
    notices = tuple(_list_notices(counted, why, framework, loader, loading))
    return AnalysisReport(NAME, tables, figures, notices, dict(after), counted)


def explain_no_steps(report: AnalysisReport) -> str:
    """Return why step times are unknown."""
    return report.scalars["step_time_mean_ps"].reason or "there are no steps"


def get_step_figures(report: AnalysisReport) -> dict[str, Known]:
    """Return the step figures of the report steps."""
    return {name: get_known(report.scalars[name]) for name in STEP_FIGURES}


# ---- tables ---------------------------------------------------------------------------------------------


def _make_steps(pipeline: InputPipeline) -> SimpleNamespace:
    db, steps, step_ps = pipeline.db, pipeline.steps, pipeline.step_ps
    if isinstance(steps, TpuStepValues):
        percents = (steps.infeed_percent_average, steps.infeed_percent_minimum, steps.infeed_percent_maximum)
        # infeeds of a core may overlap
        average, least, most = (pa.array(np.minimum(percent / 100.0, 1.0), mask=step_ps <= 0) for percent in percents)
        input_ps = np.minimum(round_times((steps.tc_infeed_ms + steps.scv0_infeed_ms) * PS_PER_MS), step_ps)
        cores = find_longest_wait_cores(db, steps)
    else:
        times, span, unknown = np.zeros(len(db), np.int64), np.zeros(len(db)), np.ones(len(db), np.bool_)
        times[steps.row], span[steps.row], unknown[steps.row] = round_times(steps.wait_input_ps), steps.step_ps, False
        input_ps, average = pa.array(times, mask=unknown), divide_or_null(times, span)
        least = pa.nulls(len(db), pa.float64())
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


def list_categories(pipeline: InputPipeline) -> tuple[list[str], Float64s, Float64s, Int64s]:
    """Return the categories of step time: names, times [n, k] in ps, step times [n], and rows of the database."""
    steps = pipeline.steps
    if isinstance(steps, TpuStepValues):
        names, times = split_tpu_categories(steps)
        return names, times, steps.step_ms * PS_PER_MS, np.arange(len(pipeline.db), dtype=np.int64)
    return [category.name for category in OWN_CATEGORIES], steps.own_category_ps, steps.step_ps, steps.row


def _make_step_breakdown(pipeline: InputPipeline) -> SimpleNamespace:
    names, times, span, rows = list_categories(pipeline)
    return SimpleNamespace(
        step=np.repeat(pipeline.db.number[rows], len(names)),
        category=encode_texts(names, np.tile(np.arange(len(names)), len(rows))),
        time=times.reshape(-1),
        span=np.repeat(span, len(names)),
    )


def _make_breakdown(pipeline: InputPipeline) -> SimpleNamespace:
    names, times, span, _ = list_categories(pipeline)
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


def round_times(times: Float64s) -> Int64s:
    whole_numbers: Int64s = np.rint(times).astype(np.int64)
    return whole_numbers


# ---- figures and words ----------------------------------------------------------------------------------


def _compute_values(pipeline: InputPipeline, reason: str) -> dict[str, Known]:
    verdict, ops = pipeline.verdict, pipeline.ops
    unknown = verdict.input.classification == step_advice.UNDECIDED
    percents = [f"{name}_percent" for name in ("input", "output", "compute", "idle")]
    _, _, span, _ = list_categories(pipeline)
    return {
        **{name: (None, reason) if unknown else getattr(verdict, name) for name in percents},
        "input_verdict": (None, reason) if unknown else verdict.input.severity,
        "step_time_shared_out_ps": round(float(span.mean())) if len(span) else (None, reason),
        "uses_tf_data": ops.uses_tf_data,
        "input_op_self_ps": int(ops.self_ps.sum()),
        "enqueue_share": pipeline.enqueue_share,
    }


def _mark_without_devices(kept: Sequence[InputHostState]) -> dict[str, Known]:
    """Return figures that are unknown because device records are missing, though threads compute."""
    why = record_checks.explain_missing_records(host.records for host in kept)
    names = ("output_percent", "compute_percent", "idle_percent", "enqueue_share")
    return {} if why is None else dict.fromkeys(names, (None, why))


def _mark_without_input(pipeline: InputPipeline, kept: Sequence[InputHostState]) -> dict[str, Known]:
    """Return figures that are unknown because nothing would show loading of input. TPUs record their infeed."""
    if pipeline.verdict.input_percent or isinstance(pipeline.steps, TpuStepValues):
        return {}
    if not len(pipeline.db) or any(host.shows_input for host in kept):
        return {}
    return dict.fromkeys(("input_percent", "input_verdict"), (None, _NO_INPUT))


def _list_advice(ops: InputOps, framework: str) -> list[str]:
    """Return advice by kind of work, in terms of tf.data if the program uses it or may."""
    of_tf_data = framework == TENSORFLOW or _has_iterators(ops)
    return [advice for _, advice in KINDS] if of_tf_data else list(KINDS_OF_INPUT)


def _list_notices(
    pipeline: InputPipeline, why: str, framework: str, loader: LoaderTime, loading: str | None
) -> tuple[Notice, ...]:
    verdict, ops = pipeline.verdict, pipeline.ops
    if verdict.input.classification == step_advice.UNDECIDED:
        return (Notice("warning", f"The input wait of steps is unknown: {why}"), *_note_stages(ops))
    notices = []
    if verdict.input.classification in (step_advice.HOST, step_advice.BOTH):
        words = (verdict.input.plain_statement, _advise_next_step(pipeline, framework, loader, loading))
        notices += [Notice("recommendation", text) for text in words]
    if len(ops) and pipeline.time.total_ps() == 0:
        notices.append(Notice("info", "The recorded input ops took no time."))
    return (*notices, *_note_stages(ops))


def _note_stages(ops: InputOps) -> tuple[Notice, ...]:
    """Point to the report tf_data if the capture has tf.data iterators."""
    return (Notice("info", _STAGES),) if _has_iterators(ops) else ()


def _has_iterators(ops: InputOps) -> bool:
    return any(name.startswith("Iterator::") for name in ops.name)


def _advise_next_step(pipeline: InputPipeline, framework: str, loader: LoaderTime, loading: str | None) -> str:
    if loader.waited_ps:
        return advise_on_loader(loader)
    parts = pipeline.time.parts()
    if not pipeline.ops.uses_tf_data or not any(parts):
        if loading is not None and asks_queue(loading):
            return advice_on(OF_QUEUE, framework, on_gpus=not isinstance(pipeline.steps, TpuStepValues))
        return advise_on_unknown_input(framework, loading, on_tpu=isinstance(pipeline.steps, TpuStepValues))
    largest = max(range(len(parts)), key=lambda at: parts[at])
    kind, advice = KINDS[largest][0], _list_advice(pipeline.ops, framework)[largest]
    percent = 100.0 * parts[largest] / sum(parts)
    return f"On the host, {percent:.1f} % of input time is {kind}: {advice}."
