"""Sums over pipeline calls, the stages that work at the same time, and the time per batch if one iterator were twice as
fast, ran ahead, or ran in parallel."""

from __future__ import annotations

import re
from collections.abc import Callable
from copy import copy
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from fastprof.derive.pipelines.iterators import Subtrees, find_tree_rows
from fastprof.derive.pipelines.recorded_pipelines import GENERATOR, IteratorKind, find_iterator_kind
from fastprof.schema.columns import (
    PERCENTILES,
    Bools,
    Float64s,
    Int64s,
    find_group_bounds,
    find_most_by,
    locate_percentile,
    number_owners,
    number_sorted_rows,
    number_values,
    sort_rows,
    sum_by,
)
from fastprof.schema.value_classes import dataclass
from fastprof.wording.patterns import compile_late

if TYPE_CHECKING:
    from fastprof.derive.pipelines.recorded_pipelines import Calls, InputPipelines, PipelineReading


_INPUT = compile_late(r"\[\d+\]", re.ASCII)
_WHAT = "the times of pipeline calls"


class CallSums:
    """Sums of calls by pipeline. ``between_ps``: time from its first call to the end of its last in which none of them
    ran."""

    def __init__(self, pipelines: InputPipelines, calls: Calls, slow_ps: int) -> None:
        """Sum calls. ``slow_ps``: calls that take longer are slow."""
        first, self.count = pipelines.first[:-1], np.diff(pipelines.first)
        size, last = len(first), np.maximum(pipelines.first[1:] - 1, 0)
        self.slow = np.bincount(calls.pipeline[calls.duration_ps > slow_ps], minlength=size)
        self.total_ps = sum_by(calls.pipeline, calls.duration_ps, size, _WHAT)
        self.between_ps = measure_between_calls(calls, size)
        self.least_ps = calls.duration_ps[last]
        self.most_ps = calls.duration_ps[first]
        self.percentiles_ps = {
            percent: calls.duration_ps[last - locate_percentile(percent, self.count)] for percent in PERCENTILES
        }
        """Percentiles by number. Calls are slowest first, so places count from the end."""


class IteratorSums:
    """Sums over all calls of the pipeline, by row of the tree. ``calls``: number of calls in which it ran;
    ``tree_row``: of each record."""

    def __init__(self, reading: PipelineReading) -> None:
        records, size = reading.records, len(reading.tree.iterator)
        row = find_tree_rows(reading.tree, reading.calls.pipeline[records.call], records.iterator)
        self.total_ps = sum_by(row, records.total_ps, size, _WHAT)
        self.self_ps = sum_by(row, records.self_ps, size, _WHAT)
        self.critical_ps = sum_by(row, records.critical_ps, size, _WHAT)
        self.count = sum_by(row, records.count, size)
        self.calls = np.bincount(row[row >= 0], minlength=size)
        self.blocking = np.bincount(row[records.is_blocking & (row >= 0)], minlength=size) > 0
        self.tree_row = row


class Bottlenecks:
    """Bottlenecks of calls and pipelines. ``of_call``: by call, the record of the largest critical time.
    ``of_pipeline``: by pipeline, the row of the tree of the largest over all calls, where similar iterators count
    together: the largest of them. Values are -1 without critical time; of equal ones the nearest to the program counts.
    ``critical_ps``: by pipeline, of the bottleneck and similar iterators; ``calls``: number of calls with one of them
    as bottleneck."""

    def __init__(self, reading: PipelineReading, sums: IteratorSums) -> None:
        calls, records, tree, count = reading.calls, reading.records, reading.tree, len(reading.pipelines)
        self.of_call = find_largest_rows(records.call, records.critical_ps, len(calls.pipeline))
        like = number_similar(reading)
        together = sum_by(like, sums.critical_ps, len(like), _WHAT)
        most = find_largest_rows(tree.pipeline, together, count)
        of_it = (like == most[tree.pipeline]) & (most[tree.pipeline] >= 0)
        self.of_pipeline = find_largest_rows(tree.pipeline, np.where(of_it, sums.critical_ps, 0), count)
        row = np.append(sums.tree_row, -1)[self.of_call]
        same = (row >= 0) & (np.append(like, -2)[row] == most[calls.pipeline])
        self.critical_ps = np.append(together, 0)[most]
        self.calls = np.bincount(calls.pipeline[same], minlength=count)

    def without_calls(self) -> Bottlenecks:
        shifted = copy(self)
        shifted.of_call = self.of_call[:0].copy()
        return shifted


def measure_between_calls(calls: Calls, size: int) -> Int64s:
    """Return, for each of ``size`` pipelines, the time from its first call to its last in which none of them ran."""
    order = sort_rows(calls.pipeline, calls.start_ps)
    pipeline, start = calls.pipeline[order], calls.start_ps[order]
    end = start + calls.duration_ps[order]
    if len(order) < 2:
        return np.zeros(size, np.int64)
    ends, place = number_values(end)
    reached = np.maximum.accumulate(pipeline.astype(np.int64) * len(ends) + place)
    gap = start[1:] - ends[reached[:-1] % len(ends)]
    gap[pipeline[1:] != pipeline[:-1]] = 0
    return sum_by(pipeline[1:], np.maximum(gap, 0), size, _WHAT)


def number_similar(reading: PipelineReading) -> Int64s:
    """Return, by row of the tree, the first row of its pipeline that differs only in the number of an input
    (``Interleave[1]::TFRecord``, ``Interleave[2]::TFRecord``), which a program sets up in one place."""
    tree = reading.tree
    numbers: dict[str, int] = {}
    longs = reading.iterators.long_name
    of_name = {long: numbers.setdefault(_INPUT.sub("", long), len(numbers)) for long in dict.fromkeys(longs)}
    name = [of_name[long] for long in longs]
    key = tree.pipeline.astype(np.int64) * max(len(numbers), 1) + np.array(name, np.int64)[tree.iterator]
    _, first, of_key = np.unique(key, return_index=True, return_inverse=True)
    return np.asarray(first[of_key])


def find_largest_rows(group: npt.NDArray[np.int32], values: Int64s, groups: int) -> Int64s:
    """Return the row of the largest value above 0 of each group, the first of equal ones, or -1."""
    most = find_most_by(group, values, groups)
    rows = np.flatnonzero((values == most[group]) & (values > 0))
    row = np.full(groups, -1, np.int64)
    row[group[rows[::-1]]] = rows[::-1]
    return row


WAITED: Final = 0.05
"""Share of the time per batch from which on an asynchronous iterator that the program waits for sets the pace, if its
own time is unknown."""


class Stages:
    """Stages of all pipelines are numbered: r: that of row r of the tree, if it is asynchronous; rows + p: the program,
    which takes from pipeline p.

    By row: ``batches``: it puts batches together; ``stage``: where it runs; ``work``: its time; ``each``: how often it
    runs for a batch; ``measure_burst_wait``: what its consumer waits for it in a burst.
    By stage: ``base``: time of the iterators on its thread, and of the program; ``function``: of the functions that it
    runs, ``at_a_time``: how many of them at a time, 0: not recorded; ``bursts``: waiting for what is late; ``least``:
    the assumed time of a stage that is waited for and whose work was not seen; ``time``: all in all.
    By pipeline: ``now``: time per batch as measured; ``cores``: that it may use, ``threads``: in the pool that runs its
    functions, 0: not recorded.
    """

    def __init__(self, reading: PipelineReading, calls: CallSums, sums: IteratorSums) -> None:
        tree, size, programs = reading.tree, len(reading.tree.iterator), len(calls.count)
        names = [reading.iterators.name[number] for number in tree.iterator.tolist()]
        pipeline, none = tree.pipeline.astype(np.int64), np.zeros(programs)
        self.kind = np.array([find_iterator_kind(name) for name in names], np.int64)
        self.batches = np.array([name.startswith(("Batch", "PaddedBatch")) for name in names], np.bool_)
        self.asynchronous = reading.iterators.is_async[tree.iterator]
        self.trees = Subtrees(tree, self.asynchronous)
        self.stage: Int64s = np.where(self.trees.stage >= 0, self.trees.stage, size + pipeline)
        self.pipeline: Int64s = np.concatenate([pipeline, np.arange(programs)])
        self.cores = read_numbers(reading, "cpu_budget")[reading.pipelines.root]
        self.threads = read_numbers(reading, "threadpool_size")[reading.pipelines.root]
        outside = calls.between_ps / np.maximum(calls.count - 1, 1)
        self.now: Float64s = calls.total_ps / np.maximum(calls.count, 1) + outside
        critical = sums.critical_ps / np.maximum(calls.count, 1)[pipeline]

        at_once = read_numbers(reading, "parallelism")[tree.iterator]
        self.at_a_time = np.append(np.where(self.asynchronous, at_once, 0), none.astype(np.int64))
        work, function, self.each = _sum_work(reading, calls, sums, self.trees, self.stage)
        work = np.where(self.asynchronous, 0.0, np.where(self.stage < size, work, critical))
        function = np.append(np.where(self.asynchronous & (self.at_a_time[:size] > 0), function, 0.0), none)
        base = np.bincount(self.stage, work, size + programs) + np.append(np.zeros(size), outside)
        kinds = np.append(self.kind, np.full(programs, IteratorKind.OTHER))
        time = measure_stage_time(kinds, base, function, self.at_a_time)
        fits = np.minimum(1.0, self.now[self.pipeline] / np.maximum(time, 1e-30))  # batches do come at this pace
        self.base, self.function, self.work = base * fits, function * fits, work * fits[self.stage]

        behind = measure_burst_wait(self.kind, self.base[:size], self.function[:size], self.at_a_time[:size], self.each)
        self.late: Float64s = np.where(self.asynchronous, behind, 0.0)
        self.bursts = np.asarray(np.bincount(self.stage, self.late, size + programs), np.float64)
        waited = self.asynchronous & (critical >= WAITED * self.now[pipeline]) & (critical > 0)
        is_fed = np.zeros(size + 1, np.bool_)
        is_fed[self.trees.up[reading.iterators.event_count[tree.iterator] > 0]] = True
        is_silent = (self.kind == IteratorKind.PARALLEL) & (self.function[:size] == 0)  # no events on its own threads
        unseen = waited & ((self.kind == IteratorKind.SERVICE) | is_silent | ~is_fed[:size])
        self.least = np.append(np.where(unseen, self.now[pipeline], 0.0), none)
        time = measure_stage_time(kinds, self.base, self.function, self.at_a_time) + self.bursts
        self.time: Float64s = np.maximum(time, self.least)

    @property
    def rows(self) -> int:
        return len(self.stage)

    @property
    def unseen(self) -> Bools:
        """Return whether each row runs a function on threads of its own for an unknown time."""
        silent = (self.kind == IteratorKind.PARALLEL) & (self.function[: self.rows] == 0)
        return np.asarray(silent | (self.kind == IteratorKind.SERVICE))

    def now_of(self, rows: Int64s) -> Float64s:
        return self.now[self.pipeline[rows]]

    def on_cores(self, rows: Int64s, then: Float64s, less: Float64s) -> Float64s:
        """Limit the time per batch of each row's pipeline by cores, if its stages would take ``then``, and threads did
        ``less`` work than now. No more cores are busy now than there are: the rest of the work is waiting."""
        pipeline = self.pipeline[rows]
        cores = self.cores[pipeline]
        work = np.bincount(self.pipeline, self.base + self.function, len(self.now))[pipeline]
        busy_now = np.minimum(work / np.maximum(cores, 1), self.now[pipeline])
        still = np.maximum(work - less, 0.0) / np.maximum(work, 1e-30)
        return np.where(cores > 0, np.maximum(then, busy_now * still), then)

    def crowding(self, rows: Int64s, work: Float64s, now: Int64s, then: Int64s) -> Float64s:
        """Return how much longer the program takes if ``then`` threads do this work beside it, and not ``now``: they
        have equal shares of the cores while they work. 0 if cores are not recorded."""
        recorded = self.cores[self.pipeline[rows]]
        cores = np.maximum(recorded, 1)

        def lost(threads: Int64s) -> Float64s:
            several = np.maximum(threads, 1)
            time: Float64s = work * np.maximum(several + 1 - cores, 0) / (several * cores)
            return time

        return np.where(recorded > 0, np.maximum(lost(then) - lost(now), 0.0), 0.0)

    def predicted(
        self,
        rows: Int64s,
        changed: Int64s,
        base: Float64s,
        function: Float64s,
        at_a_time: Int64s,
        bursts: Float64s,
        *added: Float64s,
        ready: Int64s | None = None,
    ) -> Float64s:
        """Predict the time per batch of each row's pipeline if the stage ``changed`` had these figures, and there were
        the stages ``added``: the time now, minus what the longest stage gets shorter. ``ready``: elements that it has
        ready at most, or None for as many as it makes at a time."""
        is_program = changed >= self.rows
        row = np.where(is_program, 0, changed)
        kind = np.where(is_program, IteratorKind.OTHER, self.kind[row])
        own = np.maximum(measure_stage_time(kind, base, function, at_a_time, ready) + bursts, self.least[changed])
        consumer = np.where(is_program, changed, self.stage[row])
        before = measure_burst_wait(
            kind, self.base[changed], self.function[changed], self.at_a_time[changed], self.each[row]
        )
        after = measure_burst_wait(kind, base, function, at_a_time, self.each[row], ready)
        of_consumer = np.where(is_program, own, self.time[consumer] - before + after)
        others = self._others(rows, changed, consumer)
        pace = np.maximum.reduce([others, self.time[changed], self.time[consumer]])
        then = np.maximum.reduce([others, own, of_consumer, *added])
        predicted: Float64s = self.now_of(rows) - (pace - np.minimum(then, pace))
        return predicted

    def _others(self, rows: Int64s, *left_out: Int64s) -> Float64s:
        """Return the longest stage of the pipeline of each row, some of its stages left out."""
        order = sort_rows(self.pipeline, -self.time)
        first = find_group_bounds(self.pipeline[order], len(self.now))
        pipeline = self.pipeline[rows]
        longest = np.zeros(len(rows))
        for place in reversed(range(len(left_out) + 1)):
            at = first[pipeline] + place
            stage = order[np.minimum(at, len(order) - 1)]
            counts = at < first[pipeline + 1]
            for other in left_out:
                counts &= stage != other
            longest = np.where(counts, self.time[stage], longest)
        return longest


def measure_stage_time(
    kind: Int64s, base: Float64s, function: Float64s, at_a_time: Int64s, ready: Int64s | None = None
) -> Float64s:
    """Return how long a stage works: its thread, and its functions, which replace the thread while their input is read.
    ``ready``: how many have a place, if that is more than run ``at_a_time``."""
    several = np.maximum(at_a_time, 1)
    places = several if ready is None else np.maximum(ready, 1)
    functions = np.maximum((base + function) / places, function / several)
    reads = kind == IteratorKind.PARALLEL_INTERLEAVING
    return np.where(reads, base / several, np.maximum(base, np.where(function > 0, functions, 0.0)))


def measure_burst_wait(
    kind: Int64s,
    base: Float64s,
    function: Float64s,
    at_a_time: Int64s,
    each: Float64s,
    ready: Int64s | None = None,
) -> Float64s:
    """Return how long a consumer of ``each`` elements of a batch in a burst waits, where ``ready`` of them are ready
    (None: as many as are made ``at_a_time``): for inputs that come one after another and the last function, or for
    functions in rounds."""
    several, count = np.maximum(at_a_time, 1), np.maximum(each, 1.0)
    one_input, one_function = base / count, function / count
    places = several if ready is None else np.maximum(ready, 1)
    missing = count - places
    rounds = missing * np.maximum((one_input + one_function) / places, one_function / several)
    rounds += (several - 1) * one_input
    waits = np.maximum(missing * one_input + one_function, rounds)
    return np.where((kind == IteratorKind.PARALLEL) & (function > 0) & (missing > 0), waits, 0.0)


def _sum_work(
    reading: PipelineReading, calls: CallSums, sums: IteratorSums, trees: Subtrees, stage: Int64s
) -> tuple[Float64s, Float64s, Float64s]:
    """Return, by row, for a batch, over all events of the host: self time, time of functions, and how often it runs."""
    tree, iterators = reading.tree, reading.iterators
    events = iterators.event_count[tree.iterator].astype(np.float64)
    # How many batches the events below an asynchronous iterator are for: as many as its first input has events for
    # each event of it in a call.
    below = np.maximum(calls.count[tree.pipeline], 1).astype(np.float64)
    inputs = np.flatnonzero((trees.up >= 0) & (events > 0) & (sums.count > 0))[::-1]
    for_a_call = sums.count[inputs] / np.maximum(sums.calls[inputs], 1)
    below[trees.up[inputs]] = np.maximum(events[inputs] / for_a_call, 1.0)
    batches = np.append(below, np.maximum(calls.count, 1))[stage]
    own = np.maximum(iterators.event_self_ps[tree.iterator], 0) / batches
    return own, iterators.event_function_ps[tree.iterator] / below, events / batches


def read_numbers(reading: PipelineReading, attribute: str) -> Int64s:
    """Return an attribute by iterator, if it is a number above 0, or 0 if it is not recorded."""
    values = reading.iterators.attributes.get(attribute)
    if values is None:
        return np.zeros(len(reading.iterators), np.int64)
    return np.array([value if isinstance(value, int) and 0 < value < 1 << 31 else 0 for value in values], np.int64)


TWICE, AHEAD, PARALLEL = range(3)
"""Kinds of changes."""
WORTH: Final = 0.01
"""Part of a batch that a change must save to be proposed, or shown."""

ASSUMPTIONS: Final = (
    "exact: nothing runs ahead in this pipeline, so its times add up",
    "the longest concurrent stage sets the pace",
    "it runs on its own thread, with a buffer of a batch or more",
    "{n} calls of its function at a time, on inputs that come one after another",
    "{t} calls of its function at a time, as many as its thread pool has threads",
    "{n} batches are put together at a time, of elements that come one after another",
    "{n} inputs are read at a time; storage keeps up",
    "{n} at a time instead of {k}",
    "none: it already runs ahead",
    "none: it only passes elements on, and has no work of its own",
    "none: it already runs {k} at a time",
    "none: it already runs in parallel, with an unrecorded number at a time",
    "none: it fetches elements of the host's pipeline",
    "none: the time of its own work is not recorded",
    "none: there was a single call, so the time between calls is unknown",
)
(
    SERIAL, STAGES, OWN_THREAD, FUNCTIONS, POOL, BATCHES, INPUTS, MORE, IS_AHEAD, NO_WORK, ENOUGH, UNRECORDED, OF_HOST,
    UNSEEN, SINGLE,
) = range(len(ASSUMPTIONS))  # fmt: skip
"""Numbers of ASSUMPTIONS: the basis of a prediction, or why there is none."""


@dataclass(frozen=True, slots=True)
class WhatIf:
    """Predictions of changes of each iterator that works, or whose inputs work, or that is waited for; the change that
    saves most is first. ``tree_row``: of the iterator; ``now_ps``: -1 for a single call; ``then_ps``: on the cores of
    the host, ``least_ps``: if threads wait rather than compute, or -1 if the change does not apply; ``at_a_time``:
    calls that it runs now; ``cores``, ``threads``: of its pipeline; 0 if not recorded; ``alike``: number of iterators
    that change together. Times are per batch."""

    tree_row: Int64s
    change: Int64s
    now_ps: Int64s
    then_ps: Int64s
    least_ps: Int64s
    assumption: Int64s
    at_a_time: Int64s
    cores: Int64s
    threads: Int64s
    alike: Int64s

    @property
    def saved_ps(self) -> Int64s:
        """Time that each change saves of a batch, 0 if it does not apply."""
        return np.where(self.then_ps < 0, 0, self.now_ps - self.then_ps)

    @property
    def helps(self) -> Bools:
        """Return whether each change saves enough to be proposed."""
        return np.asarray(self.saved_ps >= np.maximum(self.now_ps * WORTH, 1.0))


_IN_PARALLEL: Final = (IteratorKind.FUNCTION, IteratorKind.SOURCE, IteratorKind.INTERLEAVING)
"""Kinds of iterators that tf.data can run in parallel, or read in parallel."""

Leaves = tuple[Float64s, Float64s]
"""Figures by row, of an iterator and its inputs as far as they are of one stage: time a batch, and waiting for what is
late."""

Prediction = tuple[Float64s, Int64s, Float64s]
"""Time per batch, NaN if the change does not apply; the number of the assumption; and time per batch of the program
alone where other threads that compute leave it a share of the cores, or 0 if that is as it was."""


def describe_predictions(what_if: WhatIf, parallel: int) -> tuple[list[str], Int64s]:
    """Describe the basis of each row, or why there is no prediction: the texts, and the text of each row."""
    is_known = what_if.then_ps >= 0
    bound = is_known & (what_if.then_ps > what_if.least_ps)
    state = np.select([~is_known | (what_if.assumption == SERIAL), what_if.cores == 0, bound], [0, 1, 2], 3)
    keys = [what_if.assumption, what_if.at_a_time, what_if.threads, what_if.cores, state]
    first, of_row = number_sorted_rows(keys)
    texts = [
        (ASSUMPTIONS[number] + _CORES[state]).format(
            n=parallel, k=k, t=threads, cores="1 core is" if cores == 1 else f"{cores:,} cores are"
        )
        for number, k, threads, cores, state in zip(*(column[first].tolist() for column in keys), strict=True)
    ]
    return texts, of_row


_CORES: Final = (
    "",
    "; there are cores for all of it",
    "; {cores} not enough, if CPU-bound",
    "; {cores} enough",
)


def predict_changes(reading: PipelineReading, calls: CallSums, sums: IteratorSums, parallel: int) -> WhatIf:
    """Predict all changes. ``parallel``: how many at a time iterators run in the last change."""
    if not len(reading.tree.iterator):
        return WhatIf(*(np.zeros(0, np.int64) for _ in range(10)))
    stages = Stages(reading, calls, sums)
    like, together = _number_similar_rows(reading, stages)
    leaves = together(stages.trees.sums(stages.work)), together(stages.trees.sums(stages.late))
    stages.work, stages.each = together(stages.work), together(stages.each)
    fetches = reading.iterators.kind[reading.tree.iterator] == GENERATOR
    counts = stages.asynchronous & ((sums.critical_ps > 0) | (stages.time[: stages.rows] > 0))
    works, any_works = counts | (stages.work > 0), counts | (leaves[0] + leaves[1] > 0)
    gains = np.where(stages.kind == IteratorKind.FUNCTION, works, any_works & np.isin(stages.kind, _IN_PARALLEL))
    gains |= counts
    rows = (stages.kind != IteratorKind.WRAPPER) & (like == np.arange(len(like)))
    of_change = [np.flatnonzero(rows & some) for some in (works, any_works, gains)]
    twice, ahead, several = of_change
    predictions = [
        _predict_twice_as_fast(stages, twice),
        _predict_ahead(stages, ahead, leaves),
        _predict_parallel(stages, several, leaves, parallel, fetches[several]),
    ]
    least, assumption, program = (np.concatenate(part) for part in zip(*predictions, strict=True))
    change, row = number_owners([len(rows) for rows in of_change]), np.concatenate(of_change)
    now, pipeline = stages.now_of(row), stages.pipeline[row]
    single = calls.count[pipeline] < 2
    least = np.where(single, np.nan, least)
    less = np.where(stages.asynchronous[row], stages.function[row], stages.work[row]) / 2
    then = stages.on_cores(row, np.maximum(least, program), np.where(change == TWICE, less, 0.0))
    predicted_ps = [_round_ps(np.minimum(time, now)) for time in (then, least)]
    now_ps = np.where(single, -1, _round_ps(now))
    saved = np.where(predicted_ps[0] < 0, -1, now_ps - predicted_ps[0])
    order = sort_rows(-saved, row, change)
    columns = (row, change, now_ps, *predicted_ps, np.where(single, SINGLE, assumption))
    alike = np.bincount(like, minlength=len(like))
    of_row = (stages.at_a_time[row], stages.cores[pipeline], stages.threads[pipeline], alike[row])
    return WhatIf(*(column[order] for column in (*columns, *of_row)))


def _round_ps(times: Float64s) -> Int64s:
    """Round to whole picoseconds, as far as 64 bits hold them; NaN becomes -1."""
    most = 2.0**63 - 1024  # the last double below
    return np.where(np.isnan(times), -1.0, np.rint(np.minimum(times, most))).astype(np.int64)


def _number_similar_rows(reading: PipelineReading, stages: Stages) -> tuple[Int64s, Callable[[Float64s], Float64s]]:
    """Return, by row, the first of the similar rows of its stage, which change together; and a function that sums over
    them. Asynchronous ones are stages themselves."""
    key = np.where(
        stages.asynchronous,
        -1 - np.arange(stages.rows),
        number_similar(reading) * (stages.stage.max() + 1) + stages.stage,
    )
    _, first, of_key = np.unique(key, return_index=True, return_inverse=True)
    like = first[of_key]
    return like, lambda values: np.asarray(np.bincount(like, values, len(like)), np.float64)


def _predict_twice_as_fast(stages: Stages, rows: Int64s) -> Prediction:
    behind, stage = stages.asynchronous[rows], stages.stage[rows]
    changed = np.where(behind, rows, stage)
    base = stages.base[changed] - stages.work[rows] / 2
    function = np.where(behind, stages.function[rows] / 2, stages.function[changed])
    then = stages.predicted(rows, changed, base, function, stages.at_a_time[changed], stages.bursts[changed])
    runs_ahead = np.zeros(len(stages.now), np.bool_)
    runs_ahead[stages.pipeline[: stages.rows][stages.asynchronous]] = True
    why = np.where(runs_ahead[stages.pipeline[rows]], STAGES, SERIAL)
    unknown = behind & (stages.function[rows] == 0)
    reason = np.where(stages.unseen[rows], UNSEEN, NO_WORK)
    return np.where(unknown, np.nan, then), np.where(unknown, reason, why), np.zeros(len(rows))


def _predict_ahead(stages: Stages, rows: Int64s, leaves: Leaves) -> Prediction:
    then = _predict_without(stages, rows, leaves, leaves[0][rows] + leaves[1][rows], np.zeros(len(rows)))
    above = stages.trees.up[rows]
    buffered = (above >= 0) & (stages.kind[above] == IteratorKind.BUFFER)
    done = stages.asynchronous[rows] | buffered
    return np.where(done, np.nan, then), np.where(done, IS_AHEAD, OWN_THREAD), np.zeros(len(rows))


def _predict_without(stages: Stages, rows: Int64s, leaves: Leaves, time: Float64s, waits: Float64s) -> Float64s:
    """Predict the time per batch if what ``leaves`` the stage of each row became a stage of this ``time``, which its
    consumer ``waits`` for where it is late."""
    stage = stages.stage[rows]
    base = np.maximum(stages.base[stage] - leaves[0][rows], 0.0)
    bursts = np.maximum(stages.bursts[stage] - leaves[1][rows], 0.0) + waits
    return stages.predicted(rows, stage, base, stages.function[stage], stages.at_a_time[stage], bursts, time)


def _predict_parallel(stages: Stages, rows: Int64s, leaves: Leaves, parallel: int, fetches: Bools) -> Prediction:
    """Predict parallel work. ``fetches``: whether a row brings elements from the host's pipeline."""
    kind, each = stages.kind[rows], stages.each[rows]
    whole = leaves[0][rows] + leaves[1][rows]
    function = kind == IteratorKind.FUNCTION
    ready = np.full(len(rows), parallel, np.int64)
    many, pooled = _fit_in_pool(stages, rows, ready)
    many = np.where(function, many, ready)
    own = np.where(function, stages.work[rows], 0.0)
    made = np.where(function, IteratorKind.PARALLEL, IteratorKind.PARALLEL_INTERLEAVING)
    time = measure_stage_time(made, whole - own, own, many, ready)
    several = time * np.maximum(1.0 - parallel / np.maximum(each, 1.0), 0.0)
    waits = np.where(function, measure_burst_wait(made, whole - own, own, many, each, ready), several)
    then = _predict_without(stages, rows, leaves, time, waits)
    why = np.select([~function, pooled, stages.batches[rows]], [INPUTS, POOL, BATCHES], FUNCTIONS)
    program = stages.rows + stages.pipeline[rows]
    alone = np.where(stages.stage[rows] < stages.rows, stages.time[program], stages.base[program] - whole + waits)
    ahead = np.where(stages.stage[rows] < stages.rows, 1.0, np.minimum(1.0, ready / np.maximum(each, 1.0)))
    once = np.ones(len(rows), np.int64)
    alone += stages.crowding(rows, np.where(function, own, whole) * ahead, once, many)
    behind = stages.asynchronous[rows]
    predicted = (then, why, np.where(stages.cores[stages.pipeline[rows]] > 0, alone, 0.0))
    of_itself = _predict_more_at_a_time(stages, rows, parallel)
    then, why, alone = (np.where(behind, itself, changed) for itself, changed in zip(of_itself, predicted, strict=True))
    return np.where(fetches, np.nan, then), np.where(fetches, OF_HOST, why), alone


def _predict_more_at_a_time(stages: Stages, rows: Int64s, parallel: int) -> Prediction:
    """Predict that asynchronous iterators run ``parallel`` at a time, not as many as now."""
    known = stages.at_a_time[rows]
    ready = np.full(len(rows), parallel, np.int64)
    many, pooled = _fit_in_pool(stages, rows, ready)
    pooled &= stages.kind[rows] == IteratorKind.PARALLEL
    many = np.where(pooled, np.maximum(many, known), ready)
    figures = (stages.base[rows], stages.function[rows], many, stages.bursts[rows])
    then = stages.predicted(rows, rows, *figures, ready=ready)
    buffers = ~np.isin(
        stages.kind[rows], (IteratorKind.PARALLEL, IteratorKind.PARALLEL_INTERLEAVING, IteratorKind.SERVICE)
    )
    reason = np.select(
        [buffers, known >= parallel, known == 0, stages.unseen[rows], pooled],
        [NO_WORK, ENOUGH, UNRECORDED, UNSEEN, POOL],
        MORE,
    )
    alone = stages.crowding(rows, stages.function[rows], known, many)
    alone = np.where(alone > 0, stages.time[stages.rows + stages.pipeline[rows]] + alone, 0.0)
    return np.where((reason == MORE) | (reason == POOL), then, np.nan), reason, alone


def _fit_in_pool(stages: Stages, rows: Int64s, wanted: Int64s) -> tuple[Int64s, Bools]:
    """Return how many of the functions ``wanted`` at a time the pipeline's pool of threads runs, and whether that is
    fewer."""
    threads = stages.threads[stages.pipeline[rows]]
    fewer = (threads > 0) & (threads < wanted)
    return np.where(fewer, threads, wanted), fewer
