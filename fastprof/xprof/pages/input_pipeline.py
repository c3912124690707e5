"""XProf's input pipeline analyzer: core of the longest infeed, steps, input ops, advice, diagnostics."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from fastprof.analyses.input_pipeline import InputPipeline, examine
from fastprof.derive.pipelines.input_ops import ENQUEUE, InputTime
from fastprof.derive.steps.database import GENERIC_CORE
from fastprof.derive.steps.step_figures import TpuStepValues, longest_wait_cores, tpu_verdict
from fastprof.xprof import host_ops
from fastprof.xprof import steps as session_steps
from fastprof.xprof.pages import step_tables
from fastprof.xprof.pages.data_table import Col, Values, anchor, data_table, number, of_columns, text, three_digits

if TYPE_CHECKING:
    from fastprof.analyses.contract import Report
    from fastprof.derive.ops.tables import Ops

KEEPS: Final = host_ops.KEEPS | session_steps.KEEPS
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


def answer(report: Report) -> list[object]:
    """The five tables of the page."""
    pipeline = as_shown(report, host_ops.of_session(report))
    return [
        _longest_infeed(pipeline),
        steps_table(pipeline),
        _input_ops(pipeline),
        data_table([text("link")], [[advice] for advice in _ADVICE]),
        diagnostics(step_warnings(pipeline)),
    ]


def as_shown(report: Report, ops: Ops) -> InputPipeline:
    """The input pipeline as XProf sees it: off TPUs, the steps of the first host; on hosts, the ops that it counts."""
    pipeline = examine(session_steps.shown_steps(report, complete=True), ops, GENERIC_CORE)
    steps = pipeline.steps
    if not isinstance(steps, TpuStepValues):
        return pipeline
    # XProf draws its verdict from steps that have the time of all-reduces twice: within compute, and beside it
    longer = steps.step_ms + steps.all_reduce_compute_ms + steps.all_reduce_sync_ms
    return replace(pipeline, verdict=tpu_verdict(steps, longer))


def steps_table(pipeline: InputPipeline) -> dict[str, object]:
    """The table of steps, of this page and of the overview page."""
    tf_data = pipeline.ops.uses_tf_data
    if isinstance(pipeline.steps, TpuStepValues):
        return step_tables.tpu_table(pipeline.db, pipeline.steps, pipeline.verdict, tf_data)
    return step_tables.generic_table(pipeline.db, pipeline.steps, pipeline.verdict, tf_data)


def step_warnings(pipeline: InputPipeline) -> list[str]:
    return session_steps.step_warnings(len(pipeline.db), empty_intersection=pipeline.db.empty_intersect)


def diagnostics(warnings: list[str], errors: list[str] | None = None) -> dict[str, object]:
    """The table of what went wrong while profiling."""
    rows = [["WARNING", warning] for warning in warnings] + [["ERROR", error] for error in errors or []]
    return data_table([text("severity", "Severity"), text("message", "Message")], rows)


def _longest_infeed(pipeline: InputPipeline) -> dict[str, object]:
    steps = pipeline.steps
    if not isinstance(steps, TpuStepValues):
        return data_table([])
    numbers = [str(step) for step in steps.step.tolist()]
    columns = [text("index", "Index"), *(text(str(at)) for at in range(len(numbers)))]
    cores = [core or "unknown" for core in longest_wait_cores(pipeline.db, steps)]
    return data_table(columns, [["Step number", *numbers], ["Core name", *cores]])


def _input_ops(pipeline: InputPipeline) -> dict[str, object]:
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
    return of_columns(columns, {name: three_digits(ps / PS_PER_US) for name, ps in p.items()})
