"""The tables of the analysis tf_data: each column, how it is computed from a host's pipelines, and the part of each
step that its pipelines take."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fastprof.derive.pipelines.iterators import find_tree_rows
from fastprof.derive.pipelines.recorded_pipelines import (
    FILE_READ,
    GENERATOR,
    PARTS,
    Helps,
    PipelineReading,
    SelfParts,
    Value,
    is_true,
    make_empty_reading,
    suggest_change,
)
from fastprof.derive.pipelines.stages import (
    PARALLEL,
    TWICE,
    Bottlenecks,
    CallSums,
    IteratorSums,
    WhatIf,
    describe_predictions,
    number_similar,
    predict_changes,
    read_numbers,
)
from fastprof.schema.columns import (
    Int64s,
    count_bounds,
    find_equal,
    measure_covered_time,
    merge_spans,
    number_values,
    sort_rows,
    sum_exactly,
)
from fastprof.schema.tables import (
    Column,
    Count,
    Flag,
    Formula,
    Picoseconds,
    Share,
    TableSchema,
    Text,
    divide_or_null,
    encode_texts,
)
from fastprof.schema.value_classes import dataclass

if TYPE_CHECKING:
    from fastprof.derive.pipelines.recorded_pipelines import Calls
    from fastprof.derive.steps.step_database import StepDatabase


MOST_PAIRS: Final = 1 << 19
"""Bound of pipelines times steps up to which calls that run ahead are looked for in each step."""
_LEAST: Final = 64  # steps that a pipeline counts for: each takes its own look


@dataclass(frozen=True, slots=True)
class StepSpans:
    """Steps of a host: the group of events of each, ascending, its number, time and name. ``of_devices``: whether they
    come from the events of devices."""

    group: Int64s
    number: Int64s
    begin_ps: Int64s
    duration_ps: Int64s
    label: list[str]
    of_devices: bool = False


@dataclass(frozen=True, slots=True)
class StepWaits:
    """Waits by step, then pipeline, if a call is of the step or runs in it. ``step``: row of StepSpans. ``ahead_ps``:
    -1 throughout unless ``ahead_known``, because there are too many steps and pipelines."""

    step: Int64s
    pipeline: Int64s
    count: Int64s
    wait_ps: Int64s
    ahead_ps: Int64s
    ahead_known: bool = True


def make_no_steps(*, of_devices: bool = False) -> StepSpans:
    none = np.zeros(0, np.int64)
    return StepSpans(none, none, none, none, [], of_devices)


def find_step_spans(database: StepDatabase) -> StepSpans:
    """Return when each step ran on the first core that took part in it."""
    rows = np.arange(len(database))
    if not len(rows) or not database.present.shape[1]:
        return make_no_steps()
    core = database.present.argmax(axis=1)
    begin, duration = database.begin_ps[rows, core], database.duration_ps[rows, core]
    of_devices = database.hardware != "CPU_ONLY"
    return StepSpans(database.step, database.number, begin, duration, database.label, of_devices)


def measure_step_waits(calls: Calls, steps: StepSpans) -> StepWaits:
    pipelines = int(calls.pipeline.max(initial=-1)) + 1
    step = _find_step(calls, steps)
    key = step * max(pipelines, 1) + calls.pipeline
    waits, of_pair, count = np.unique(key[step >= 0], return_inverse=True, return_counts=True)
    wait_ps = _measure_covered(calls, steps, step, of_pair, waits // max(pipelines, 1))
    ahead = _find_calls_ahead(calls, steps, pipelines)
    if ahead is None:
        return StepWaits(waits // pipelines, waits % pipelines, count, wait_ps, np.full(len(waits), -1), False)
    keys = np.union1d(waits, ahead[0])
    filled_in = np.zeros((3, len(keys)), np.int64)
    at = np.searchsorted(keys, waits)
    filled_in[0, at], filled_in[1, at] = count, wait_ps
    filled_in[2, np.searchsorted(keys, ahead[0])] = ahead[1]
    return StepWaits(keys // max(pipelines, 1), keys % max(pipelines, 1), *filled_in)


def measure_waits(calls: Calls, steps: StepSpans) -> Int64s:
    """Return the time of each step in which it waits for a call of any pipeline."""
    step = _find_step(calls, steps)
    waits = np.zeros(len(steps.group), np.int64)
    some, of_step = number_values(step[step >= 0])
    waits[some] = _measure_covered(calls, steps, step, of_step, some)
    return waits


def is_outside_steps(calls: Calls, steps: StepSpans) -> npt.NDArray[np.bool_]:
    """Return whether each call overlaps no step at all."""
    spans = merge_spans(steps.begin_ps, steps.duration_ps)
    return np.asarray(measure_covered_time(spans, calls.start_ps, calls.duration_ps) == 0)


def _find_step(calls: Calls, steps: StepSpans) -> Int64s:
    """Return the step whose group each call is of, or -1."""
    there, place = find_equal(steps.group, calls.group_id)
    return np.where(there, place, -1)


def _measure_covered(calls: Calls, steps: StepSpans, step: Int64s, of_set: Int64s, step_of_set: Int64s) -> Int64s:
    """Return how much of its step each set of calls covers. Measured on a clock that runs through the sets' steps one
    after another. ``of_set``: the set of each call that has a ``step``."""
    rows = np.flatnonzero(step >= 0)
    at = step[rows]
    duration = np.maximum(steps.duration_ps[step_of_set], 0)
    sum_exactly(duration, "the durations of steps")
    base = count_bounds(duration)[:-1]
    length = np.maximum(steps.duration_ps[at], 0)
    begin = np.clip(calls.start_ps[rows] - steps.begin_ps[at], 0, length)
    end = np.clip(calls.start_ps[rows] + calls.duration_ps[rows] - steps.begin_ps[at], 0, length)
    return measure_covered_time(merge_spans(base[of_set] + begin, end - begin), base, duration)


def _find_calls_ahead(calls: Calls, steps: StepSpans, pipelines: int) -> tuple[Int64s, Int64s] | None:
    """Return pairs of a step and a pipeline as step * pipelines + pipeline, ascending, and the time in which calls
    without a group run during it, or None if there are too many pairs."""
    rows = np.flatnonzero(calls.group_id < 0)
    keys, times = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    if not len(steps.group):
        return keys[0], times[0]
    of_none = np.unique(calls.pipeline[rows])
    if len(of_none) * max(len(steps.group), _LEAST) > MOST_PAIRS:
        return None
    bounds = np.searchsorted(calls.pipeline[rows], np.append(of_none, pipelines))
    for pipeline, first, last in zip(of_none.tolist(), bounds[:-1], bounds[1:], strict=True):
        here = rows[first:last]
        spans = merge_spans(calls.start_ps[here], calls.duration_ps[here])
        time = measure_covered_time(spans, steps.begin_ps, np.maximum(steps.duration_ps, 0))
        some = np.flatnonzero(time)
        keys.append(some * pipelines + pipeline)
        times.append(time[some])
    key, time = np.concatenate(keys), np.concatenate(times)
    order = np.argsort(key, kind="stable")
    return key[order], time[order]


_PS_PER_US = 1_000_000
_MOST = 2**63 - 1


@dataclasses.dataclass(frozen=True)
class HostPipelines:
    """The pipelines of one host, and what is computed of them. ``slow_us``, ``parallel``: parameters of the
    analysis."""

    host: str
    reading: PipelineReading
    steps: StepSpans
    slow_us: int
    parallel: int

    @property
    def call_count(self) -> int:
        return int(self.reading.pipelines.first[-1])

    @cached_property
    def calls(self) -> CallSums:
        return CallSums(self.reading.pipelines, self.reading.calls, self.slow_us * _PS_PER_US)

    @cached_property
    def sums(self) -> IteratorSums:
        return IteratorSums(self.reading)

    @cached_property
    def bottlenecks(self) -> Bottlenecks:
        return Bottlenecks(self.reading, self.sums)

    @cached_property
    def what_if(self) -> WhatIf:
        return predict_changes(self.reading, self.calls, self.sums, self.parallel)

    @cached_property
    def waits(self) -> StepWaits:
        return measure_step_waits(self.reading.calls, self.steps)

    @cached_property
    def ids(self) -> list[str]:
        """Ids of iterators, in decimal."""
        return [self.reading.iterators.shown_id(number) for number in range(len(self.reading.iterators))]

    @cached_property
    def suggestions(self) -> list[str | None]:
        """Advice on the bottleneck of each pipeline, or None if it has none."""
        reading, tree, iterators = self.reading, self.reading.tree, self.reading.iterators
        parts, known, helps = reading.parts, iterators.attributes, _Helps(self)
        read = parts.part == FILE_READ
        reading_ps = np.zeros(len(tree.iterator) + 1, np.int64)
        reading_ps[find_tree_rows(tree, parts.pipeline[read], parts.iterator[read])] = parts.time_ps[read]
        suggestions: list[str | None] = []
        for row in self.bottlenecks.of_pipeline.tolist():
            number = int(tree.iterator[row]) if row >= 0 else -1
            suggestions.append(None if row < 0 else suggest_change(
                iterators.name[number],
                iterators.long_name[number],
                {name: known[name][number] for name in ("parallelism", "autotune") if name in known},
                to_device=iterators.kind[number] == GENERATOR,
                reading=int(reading_ps[row]) / int(self.sums.critical_ps[row]),
                helps=helps(row),
            ))  # fmt: skip
        return suggestions

    @cached_property
    def in_steps(self) -> InSteps:
        calls, waits, durations = self.reading.calls, self.waits, np.maximum(self.steps.duration_ps, 0)
        count, called, total = len(self.reading.pipelines), len(calls) > 0, int(durations.sum())
        shares: list[float | None] = []
        for pipeline in range(count):
            rows = np.flatnonzero(waits.pipeline == pipeline)
            is_known = total and waits.count[rows].any()
            shares.append(int(waits.wait_ps[rows].sum()) / total if is_known else None)
        away = calls.pipeline[is_outside_steps(calls, self.steps)]
        return InSteps(
            len(self.steps.group),
            sum_exactly(durations, "the durations of steps") if called else 0,
            int(measure_waits(calls, self.steps).sum()) if called else 0,
            bool(waits.count.any()),
            bool(waits.wait_ps.any()),
            np.bincount(away, minlength=count).tolist(),
            shares,
            waits.ahead_known,
        )

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "sums"}

    def without_calls(self) -> HostPipelines:
        """Drop the rows of calls, records and steps."""
        nothing, steps = make_empty_reading(), make_no_steps(of_devices=self.steps.of_devices)
        reading = replace(self.reading, calls=nothing.calls, records=nothing.records)
        pipelines = HostPipelines(self.host, reading, steps, self.slow_us, self.parallel)
        names = ("calls", "what_if", "suggestions", "in_steps")
        vars(pipelines).update({name: getattr(self, name) for name in names})
        vars(pipelines)["bottlenecks"] = self.bottlenecks.without_calls()
        return pipelines


class InSteps(NamedTuple):
    """Sums over steps. ``step_count``, ``step_ps``: number of steps of the host, and their durations; ``waited_ps``:
    part of these in which calls ran; ``has_calls``, ``waits``: whether any call belongs to a step, and takes time;
    ``outside``: by pipeline, number of calls outside of all steps; ``shares``: by pipeline, the share of step time in
    which calls ran that belong to the steps, or None without steps or such calls; ``ahead_known``: see StepWaits."""

    step_count: int
    step_ps: int
    waited_ps: int
    has_calls: bool
    waits: bool
    outside: list[int]
    shares: list[float | None]
    ahead_known: bool


class _Helps:
    """Predictions whether changes make batches faster: changes of similar iterators together, and of pipelines."""

    def __init__(self, host: HostPipelines) -> None:
        what_if, tree = host.what_if, host.reading.tree
        self._like, self._pipeline = number_similar(host.reading), tree.pipeline
        known, several = what_if.then_ps >= 0, what_if.change == PARALLEL
        row = self._like[what_if.tree_row]
        self._of = {
            name: [np.bincount(of[some], minlength=len(self._like)) for some in (known & which, what_if.helps & which)]
            for name, of, which in (
                ("faster", row, what_if.change == TWICE),
                ("several", row, several),
                ("any_change", self._pipeline[what_if.tree_row], what_if.change >= 0),
            )
        }
        self._cores = np.zeros(len(self._like), np.int64)
        bound = known & several & (what_if.least_ps < what_if.then_ps)
        self._cores[row[bound]] = what_if.cores[bound]

    def __call__(self, row: int) -> Helps:
        place = {"faster": self._like[row], "several": self._like[row], "any_change": self._pipeline[row]}
        helpful: dict[str, bool | None] = {}
        for name, (known, helps) in self._of.items():
            helpful[name] = bool(helps[place[name]]) if known[place[name]] else None
        return Helps(**helpful, cores=int(self._cores[self._like[row]]))


# ---- rows of the tables


@dataclasses.dataclass(frozen=True, slots=True)
class _PipelineRows:
    """Rows of a table about one host. ``pipeline``, ``iterator``: of each row, or -1; ``columns``: an object with
    further columns of the table, each by its name."""

    host: HostPipelines
    pipeline: npt.NDArray[Any]
    iterator: npt.NDArray[Any]
    columns: Any = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.columns, name)

    @property
    def reading(self) -> PipelineReading:
        return self.host.reading

    def ids(self, iterator: npt.NDArray[Any]) -> pa.Array:
        return encode_texts([*self.host.ids, None], iterator)

    def long_names(self, iterator: npt.NDArray[Any]) -> pa.Array:
        return encode_texts([*self.reading.iterators.long_name, None], iterator)

    def roots(self) -> npt.NDArray[Any]:
        return self.reading.pipelines.root

    def recorded(self, name: str, convert: Callable[[Value], int | None]) -> list[int | None]:
        """Return an attribute of the iterators; a prefetch calls the size of its buffer its limit."""
        attributes = self.reading.iterators.attributes
        values = attributes.get(name, [None] * len(self.reading.iterators))
        if name == "buffer_size" and (limits := attributes.get("buffer_limit")) is not None:
            values = [size if limit is None else limit for size, limit in zip(values, limits, strict=True)]
        numbers = [None if value is None else convert(value) for value in values]
        return [numbers[number] for number in self.iterator.tolist()]

    def of_iterator(self) -> Int64s:
        """Return the critical time of the iterator of each row, over all calls."""
        return np.append(self.host.sums.critical_ps, 0)[find_tree_rows(self.reading.tree, self.pipeline, self.iterator)]


def list_rows(host: HostPipelines) -> dict[str, _PipelineRows]:
    """List the rows of each table."""
    reading, tree, records, calls = host.reading, host.reading.tree, host.reading.records, host.reading.calls
    of_pipeline, of_call = host.bottlenecks.of_pipeline, host.bottlenecks.of_call
    parts, segments, changed = reading.parts, reading.segments, host.what_if.tree_row
    some = np.flatnonzero(of_pipeline >= 0)
    of_part = find_tree_rows(tree, parts.pipeline, parts.iterator)
    critical = np.append(host.sums.critical_ps, 0)[of_part]
    order = sort_rows(parts.pipeline, -critical, of_part, -parts.time_ps, parts.part)
    return {
        "pipelines": _PipelineRows(host, np.arange(len(of_pipeline)), np.append(tree.iterator, -1)[of_pipeline],
                           host.calls),
        "iterators": _PipelineRows(host, tree.pipeline, tree.iterator, host.sums),
        "critical_path": _PipelineRows(host, segments.pipeline, segments.iterator, segments),
        "bottlenecks": _PipelineRows(host, some, tree.iterator[of_pipeline[some]]),
        "self_time": _PipelineRows(host, parts.pipeline[order], parts.iterator[order], SelfParts(
            *(getattr(parts, name)[order] for name in SelfParts.__slots__))),
        "step_waits": _PipelineRows(host, host.waits.pipeline, np.full(len(host.waits.pipeline), -1), host.waits),
        "what_if": _PipelineRows(host, tree.pipeline[changed], tree.iterator[changed], host.what_if),
        "calls": _PipelineRows(host, calls.pipeline, np.append(records.iterator, -1)[of_call], calls),
        "call_iterators": _PipelineRows(host, calls.pipeline[records.call], records.iterator, records),
    }  # fmt: skip


# ---- columns


def _mark_places(count: int, places: Int64s) -> npt.NDArray[np.bool_]:
    """Mark which of ``count`` rows are at these places; -1 is none."""
    marks = np.zeros(count, np.bool_)
    marks[places[places >= 0]] = True
    return marks


def _get_size(value: Value) -> int | None:
    return value if isinstance(value, int) and 0 <= value <= _MOST else None


def _make_recorded_column(name: str, convert: Callable[[Value], int | None] = _get_size) -> Formula:
    return lambda rows: rows.recorded(name, convert)


def _make_root_column(name: str, description: str) -> Column:
    return Count(name, description, lambda rows: read_numbers(rows.reading, name)[rows.roots()],
                 lambda rows: read_numbers(rows.reading, name)[rows.roots()] == 0)  # fmt: skip


def _get_call_step(rows: _PipelineRows) -> pa.Array:
    """Return the step of each call, or null if it belongs to no step."""
    steps, group = rows.host.steps.group, rows.reading.calls.group_id
    at = np.searchsorted(steps, group)
    of_step = np.append(steps, -1)[at] == group
    return pa.array(np.append(rows.host.steps.number, -1)[at], mask=~of_step | (group < 0))


def _explain_no_prediction(rows: _PipelineRows) -> npt.NDArray[np.bool_]:
    return np.asarray(rows.then_ps < 0)


def _lacks_iterator(rows: _PipelineRows) -> npt.NDArray[np.bool_]:
    return rows.iterator < 0


_HOST: Final = Text("host", "host, named after its capture file",
                    lambda rows: encode_texts([rows.host.host], np.zeros(len(rows.pipeline), np.int64)))  # fmt: skip
_PIPELINE: Final = Text("pipeline", "input pipeline, Host:k or Device:k, numbered on each host by first call",
                        lambda rows: encode_texts(rows.reading.pipelines.name, rows.pipeline))  # fmt: skip
_ITERATOR: Final = Text("iterator_id", "iterator id, as recorded",
                        lambda rows: rows.ids(rows.iterator))  # fmt: skip
_NAME: Final = Text("name", "what the iterator does: the last part of its long name",
                    lambda rows: encode_texts([*rows.reading.iterators.name, None], rows.iterator))  # fmt: skip
_LONG_NAME: Final = Text("long_name", "full iterator name: the names of its consumers, then its name",
                         lambda rows: rows.long_names(rows.iterator))  # fmt: skip


_NO_TIME: Final = "null: the calls took no time"
_NOT_APPLICABLE: Final = "null: the change does not apply"


def _make_bottleneck_column(what: str) -> tuple[Column, ...]:
    return (
        Text("bottleneck_id", f"iterator with the largest critical time {what}; {_NO_TIME}", _ITERATOR.of),
        Text("bottleneck_name", f"bottleneck name; {_NO_TIME}", _NAME.of),
    )


_TABLES: Final = (
    TableSchema("pipelines", "an input pipeline of a host, in order of its first call", (
        _HOST,
        _PIPELINE,
        Text("kind", "host, or device: a pipeline that copies elements to a device in advance",
             lambda rows: encode_texts(["host", "device"], rows.reading.pipelines.is_device.astype(np.int64))),
        Text("root_id", "id of the iterator that the program calls", lambda rows: rows.ids(rows.roots())),
        Text("name", "long name of the iterator that the program calls", lambda rows: rows.long_names(rows.roots())),
        Count("call_count", "pipeline calls; each returns an element, usually a batch", lambda rows: rows.count),
        Count("slow_call_count", "calls longer than slow_call_us", lambda rows: rows.slow),
        Picoseconds("min_ps", "shortest call", lambda rows: rows.least_ps),
        Picoseconds("mean_ps", "total_ps / call_count, rounded down",
                    lambda rows: rows.total_ps // np.maximum(rows.count, 1)),
        Picoseconds("p50_ps", "duration that 50 of 100 calls do not exceed", lambda rows: rows.percentiles_ps[50]),
        Picoseconds("p90_ps", "duration that 90 of 100 calls do not exceed", lambda rows: rows.percentiles_ps[90]),
        Picoseconds("p99_ps", "duration that 99 of 100 calls do not exceed", lambda rows: rows.percentiles_ps[99]),
        Picoseconds("max_ps", "longest call", lambda rows: rows.most_ps),
        Picoseconds("total_ps", "sum of the durations of the calls"),
        Picoseconds("between_calls_ps", "time between the first call and the last in which no call ran",
                    lambda rows: rows.between_ps),
        _make_root_column("cpu_budget",
                          "cores that the pipeline uses: all of the host, unless the program sets another number; "
                 "null: not recorded"),
        _make_root_column("threadpool_size",
                          "threads of the pipeline's own pool, which run its functions; null: it has no "
                 "pool, or the number is not recorded"),
        *_make_bottleneck_column("over all calls, with similar iterators counted together"),
        Text("bottleneck_long_name", f"full bottleneck name; {_NO_TIME}", _LONG_NAME.of),
        Picoseconds("bottleneck_ps", "critical time of the bottleneck and similar iterators / call_count, rounded "
                    f"down; {_NO_TIME}", lambda rows: rows.host.bottlenecks.critical_ps // np.maximum(
                        rows.count, 1), _lacks_iterator),
        Share("bottleneck_share", f"critical time of the bottleneck and similar iterators / total_ps; {_NO_TIME}",
              lambda rows: rows.host.bottlenecks.critical_ps / np.maximum(rows.total_ps, 1), _lacks_iterator),
        Count("bottleneck_call_count", "calls that have the same bottleneck, or a similar iterator as bottleneck",
              lambda rows: rows.host.bottlenecks.calls),
    ), derived=True),
    TableSchema("iterators", "a pipeline iterator; consumers come before their inputs", (
        _HOST,
        _PIPELINE,
        Column("depth", pa.int32(), "number of iterators between this one and the program",
               of=lambda rows: rows.reading.tree.depth),
        _ITERATOR,
        Text("parent_id", "id of the iterator's consumer, which takes its elements; null: the program takes them",
             lambda rows: rows.ids(rows.reading.tree.parent)),
        _NAME,
        _LONG_NAME,
        Flag("is_async", "whether threads of the iterator make its elements in advance",
             lambda rows: rows.reading.iterators.is_async[rows.iterator]),
        Count("call_count", "iterator events in pipeline calls", lambda rows: rows.count),
        Picoseconds("total_ps", "duration of the iterator's events in calls, whether or not anything waited for them"),
        Picoseconds("self_ps", "total_ps minus the time in which inputs of the iterator run"),
        Picoseconds("critical_ps", "critical time: the time that all calls waited for the iterator itself. The "
                    "critical times of all iterators add up to the time of all calls"),
        Share("critical_share", "critical_ps / time of all calls; null: the time of all calls is 0",
              lambda rows: divide_or_null(rows.critical_ps, rows.host.calls.total_ps[rows.pipeline])),
        Flag("is_blocking", "whether a call waited for the iterator or for work that involves it",
             lambda rows: rows.blocking),
        Flag("is_bottleneck", "whether the iterator is the bottleneck of the pipeline",
             lambda rows: _mark_places(len(rows.iterator), rows.host.bottlenecks.of_pipeline)),
        Count("event_count", "all iterator events on the host, in calls or not",
              lambda rows: rows.reading.iterators.event_count[rows.iterator]),
        Picoseconds("event_self_ps", "duration of all iterator events, minus the time of iterators inside them",
                    lambda rows: rows.reading.iterators.event_self_ps[rows.iterator]),
        Picoseconds("function_ps", "time of user functions that the iterator ran, each counted in full",
                    lambda rows: rows.reading.iterators.event_function_ps[rows.iterator]),
        Count("parallelism", "calls that the iterator runs at the same time, as last recorded; null: not recorded",
              _make_recorded_column("parallelism")),
        Count("buffer_size", "elements that the iterator's buffer can hold, as last recorded; null: not recorded",
              _make_recorded_column("buffer_size")),
        Flag("autotune", "whether the framework chooses the parallelism or buffer size itself; null: not recorded",
             _make_recorded_column("autotune", is_true)),
        Flag("deterministic", "whether the iterator keeps the order of elements; null: not recorded",
             _make_recorded_column("deterministic", is_true)),
        Count("cycle_length", "inputs that the iterator reads in turn; null: not recorded",
              _make_recorded_column("cycle_length")),
        Count("batch_size", "elements per batch; null: not recorded", _make_recorded_column("batch_size")),
    ), derived=True),
    TableSchema("critical_path", "a period of the slowest call of a pipeline, in order of time", (
        _HOST,
        _PIPELINE,
        Text("iterator_id", "id of the iterator that the call waited for", _ITERATOR.of),
        _NAME,
        Picoseconds("start_ps", "start, from the start of the host's capture"),
        Picoseconds("duration_ps", "duration"),
    ), derived=True),
    TableSchema("bottlenecks", "a pipeline bottleneck; the pipeline with the largest sum of calls comes first", (
        _HOST,
        _PIPELINE,
        _ITERATOR,
        _NAME,
        _LONG_NAME,
        Picoseconds("critical_ps", "critical time of the bottleneck and similar iterators / number of calls, rounded "
                    "down", lambda rows:
                    (rows.host.bottlenecks.critical_ps // np.maximum(rows.host.calls.count, 1))[rows.pipeline]),
        Share("critical_share", "critical time of the bottleneck and similar iterators / time of all calls",
              lambda rows:
              (rows.host.bottlenecks.critical_ps / np.maximum(rows.host.calls.total_ps, 1))[rows.pipeline]),
        Picoseconds("total_ps", "time of all pipeline calls",
                    lambda rows: rows.host.calls.total_ps[rows.pipeline]),
        Picoseconds("max_call_ps", "duration of the slowest call of the pipeline",
                    lambda rows: rows.host.calls.most_ps[rows.pipeline]),
        Text("suggestion", "how to make the bottleneck faster",
             lambda rows: encode_texts(rows.host.suggestions, rows.pipeline)),
    ), derived=True),
    TableSchema("self_time", "a part of the critical time of an iterator, longest first", (
        _HOST,
        _PIPELINE,
        _ITERATOR,
        _NAME,
        Text("part", "activity that took the time: file read, user function, taking from the buffer, waiting for a "
             "buffer, other", lambda rows: encode_texts(PARTS, rows.part.astype(np.int64))),
        Picoseconds("time_ps", "time of the part, over all calls"),
        Share("share", "time_ps / critical time of the iterator; null: the critical time is 0",
              lambda rows: divide_or_null(rows.time_ps, rows.of_iterator())),
    ), derived=True),
    TableSchema("step_waits", "a pipeline in a step of its host", (
        _HOST,
        Count("step", "step number, as in the steps analysis; if hosts number a step differently, the number on this "
              "host",
              lambda rows: rows.host.steps.number[rows.step]),
        Text("step_name", "step name", lambda rows: encode_texts(rows.host.steps.label, rows.step)),
        _PIPELINE,
        Count("call_count", "calls that belong to the step, on any thread", lambda rows: rows.count),
        Picoseconds("wait_ps", "time of the step in which a call that belongs to it ran"),
        Share("wait_share", "wait_ps / step duration; null: the duration is 0",
              lambda rows: divide_or_null(rows.wait_ps, np.maximum(rows.host.steps.duration_ps[rows.step], 0))),
        Picoseconds("ahead_ps", "time of the step in which a call that belongs to no step ran, such as on a thread "
                    "that runs ahead; null: too many steps and pipelines to compute it", lambda rows: rows.ahead_ps,
                    lambda rows: rows.ahead_ps < 0),
        Picoseconds("step_ps", "step duration", lambda rows: rows.host.steps.duration_ps[rows.step]),
    ), derived=True),
    TableSchema("what_if", "a change of one iterator and the predicted batch time, largest gain first", (
        _HOST,
        _PIPELINE,
        _ITERATOR,
        _NAME,
        Text("change", "twice as fast; prefetched: the iterator runs ahead of its consumer; parallel by n", lambda rows:
             encode_texts(["twice as fast", "prefetched", f"parallel by {rows.host.parallel:,}"], rows.change)),
        Picoseconds("now_ps", "time per batch now: mean duration of a call + mean time between calls; null: the "
                    "pipeline was called once", lambda rows: rows.now_ps, lambda rows: rows.now_ps < 0),
        Picoseconds("then_ps", f"time per batch after the change, if CPU-bound; the core limit applies if cpu_budget "
                    f"is known; {_NOT_APPLICABLE}", lambda rows: rows.then_ps, _explain_no_prediction),
        Picoseconds("least_then_ps", f"time per batch after the change, if I/O-bound: threads wait for storage or "
                    f"other hosts, so the core limit does not apply; {_NOT_APPLICABLE}",
                    lambda rows: rows.least_ps, _explain_no_prediction),
        Picoseconds("saved_ps", f"now_ps - then_ps; {_NOT_APPLICABLE}", lambda rows: rows.now_ps - rows.then_ps,
                    _explain_no_prediction),
        Column("speedup", pa.float64(), f"now_ps / then_ps; {_NOT_APPLICABLE}, or then_ps is 0", True,
               of=lambda rows: divide_or_null(rows.now_ps, np.maximum(rows.then_ps, 0))),
        Count("iterator_count", "iterators that change together, which differ only in the number of an input",
              lambda rows: rows.alike),
        Text("assumption", "what the prediction assumes, or why there is no prediction",
             lambda rows: encode_texts(*describe_predictions(rows.host.what_if, rows.host.parallel))),
    ), derived=True),
    TableSchema("calls", "a pipeline call, slowest first", (
        _HOST,
        _PIPELINE,
        Count("rank", "place among the pipeline calls, from 0: the slowest",
              lambda rows: np.arange(len(rows.pipeline)) - rows.reading.pipelines.first[rows.pipeline]),
        Count("step", "step that the call belongs to, numbered as in step_waits; null: no step", _get_call_step),
        Picoseconds("start_ps", "start of the call, from the start of the host's capture"),
        Picoseconds("duration_ps", "call duration: the time that the program waited"),
        Flag("is_slow", "whether the call took longer than slow_call_us",
             lambda rows: rows.duration_ps > rows.host.slow_us * _PS_PER_US),
        *_make_bottleneck_column("of the call"),
        Picoseconds("bottleneck_ps", f"critical time of the bottleneck in the call; {_NO_TIME}",
                    lambda rows: np.append(rows.reading.records.critical_ps, 0)[rows.host.bottlenecks.of_call],
                    _lacks_iterator),
    ), derived=True),
    TableSchema("call_iterators", "an iterator in a call; consumers come before their inputs", (
        _HOST,
        _PIPELINE,
        Count("rank", "place of the call among the pipeline calls, from 0: the slowest",
              lambda rows: rows.call - rows.reading.pipelines.first[rows.pipeline]),
        _ITERATOR,
        _NAME,
        Picoseconds("start_ps", "start of the iterator's first event in the call, from the start of the host's "
                    "capture"),
        Picoseconds("total_ps", "duration of the iterator's events in the call"),
        Picoseconds("self_ps", "total_ps minus the time in which inputs of the iterator run"),
        Picoseconds("critical_ps", "critical time: the time that the call waited for the iterator itself"),
        Count("call_count", "iterator events in the call", lambda rows: rows.count),
        Flag("is_blocking", "whether the call waited for the iterator or for work that involves it"),
        Flag("is_bottleneck", "whether the iterator has the largest critical time of the call",
             lambda rows: _mark_places(len(rows.reading.records), rows.host.bottlenecks.of_call)),
    ), derived=True),
)  # fmt: skip
TABLES: Final = {table.name: table for table in _TABLES}
LARGE: Final = ("calls", "call_iterators")
"""Tables with a row for each call."""
