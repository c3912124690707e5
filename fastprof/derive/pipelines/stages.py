"""The stages of pipelines: what works at the same time, and how long each takes for a batch.

Asynchronous iterators cut a pipeline into stages: the program with the iterators on its own thread, and below each
asynchronous iterator those that run on its thread, with the functions that it runs itself, some at a time. The longest
stage sets the pace. Times are doubles of picoseconds a batch, exact up to two hours.

An iterator that runs k calls at a time has k elements ready at most. Whoever takes B > k of them in a burst, and does
something else between bursts, waits for the rest (``late``).

Where the number of cores is recorded, the time of all stages together takes its share of each, if threads compute. They
may wait instead, for storage or another host: a capture does not record which.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from fastprof.derive.pipelines.iterator_kinds import Kind, kind_of
from fastprof.derive.pipelines.iterator_tree import Subtrees
from fastprof.schema.array_types import Bools, Float64s, Int64s

if TYPE_CHECKING:
    from fastprof.derive.pipelines.pipeline_sums import CallSums, IteratorSums
    from fastprof.derive.pipelines.reading import Reading


WAITED: Final = 0.05
"""An asynchronous iterator whose own time is unknown sets the pace if the program waits for it for at least this share
of the time per batch."""


class Stages:
    """Stages of all pipelines are numbered: r: that of row r of the tree, if it is asynchronous; rows + p: the program,
    which takes from pipeline p.

    By row: ``batches``: it puts batches together; ``stage``: where it runs; ``work``: its time; ``each``: how often it
    runs for a batch; ``late``: what its consumer waits for it in a burst.
    By stage: ``base``: time of the iterators on its thread, and of the program; ``function``: of the functions that it
    runs, ``at_a_time``: how many of them at a time, 0: not recorded; ``bursts``: waiting for what is late; ``least``:
    the assumed time of a stage that is waited for and whose work was not seen; ``time``: all in all.
    By pipeline: ``now``: time per batch as measured; ``cores``: that it may use, ``threads``: in the pool that runs its
    functions, 0: not recorded.
    """

    def __init__(self, reading: Reading, calls: CallSums, sums: IteratorSums) -> None:
        tree, size, programs = reading.tree, len(reading.tree.iterator), len(calls.count)
        names = [reading.iterators.name[number] for number in tree.iterator.tolist()]
        pipeline, none = tree.pipeline.astype(np.int64), np.zeros(programs)
        self.kind = np.array([kind_of(name) for name in names], np.int64)
        self.batches = np.array([name.startswith(("Batch", "PaddedBatch")) for name in names], np.bool_)
        self.asynchronous = reading.iterators.is_async[tree.iterator]
        self.trees = Subtrees(tree, self.asynchronous)
        self.stage: Int64s = np.where(self.trees.stage >= 0, self.trees.stage, size + pipeline)
        self.pipeline: Int64s = np.concatenate([pipeline, np.arange(programs)])
        self.cores = recorded_numbers(reading, "cpu_budget")[reading.pipelines.root]
        self.threads = recorded_numbers(reading, "threadpool_size")[reading.pipelines.root]
        outside = calls.between_ps / np.maximum(calls.count - 1, 1)
        self.now: Float64s = calls.total_ps / np.maximum(calls.count, 1) + outside
        critical = sums.critical_ps / np.maximum(calls.count, 1)[pipeline]

        at_once = recorded_numbers(reading, "parallelism")[tree.iterator]
        self.at_a_time = np.append(np.where(self.asynchronous, at_once, 0), none.astype(np.int64))
        work, function, self.each = _work(reading, calls, sums, self.trees, self.stage)
        work = np.where(self.asynchronous, 0.0, np.where(self.stage < size, work, critical))
        function = np.append(np.where(self.asynchronous & (self.at_a_time[:size] > 0), function, 0.0), none)
        base = np.bincount(self.stage, work, size + programs) + np.append(np.zeros(size), outside)
        kinds = np.append(self.kind, np.full(programs, Kind.OTHER))
        time = busy(kinds, base, function, self.at_a_time)
        fits = np.minimum(1.0, self.now[self.pipeline] / np.maximum(time, 1e-30))  # batches do come at this pace
        self.base, self.function, self.work = base * fits, function * fits, work * fits[self.stage]

        behind = late(self.kind, self.base[:size], self.function[:size], self.at_a_time[:size], self.each)
        self.late: Float64s = np.where(self.asynchronous, behind, 0.0)
        self.bursts = np.asarray(np.bincount(self.stage, self.late, size + programs), np.float64)
        waited = self.asynchronous & (critical >= WAITED * self.now[pipeline]) & (critical > 0)
        unseen = waited & _unseen(reading, self.trees, self.kind, self.function[:size])
        self.least = np.append(np.where(unseen, self.now[pipeline], 0.0), none)
        time = busy(kinds, self.base, self.function, self.at_a_time) + self.bursts
        self.time: Float64s = np.maximum(time, self.least)

    @property
    def rows(self) -> int:
        return len(self.stage)

    @property
    def unseen(self) -> Bools:
        """By row: it runs a function on threads of its own for an unknown time."""
        silent = (self.kind == Kind.PARALLEL) & (self.function[: self.rows] == 0)
        return np.asarray(silent | (self.kind == Kind.SERVICE))

    def now_of(self, rows: Int64s) -> Float64s:
        return self.now[self.pipeline[rows]]

    def on_cores(self, rows: Int64s, then: Float64s, less: Float64s) -> Float64s:
        """The time per batch of the pipeline of each row if its stages would take ``then``, and what threads do,
        ``less`` than now, takes cores. No more cores are busy now than there are: the rest of it is waiting."""
        pipeline = self.pipeline[rows]
        cores = self.cores[pipeline]
        work = np.bincount(self.pipeline, self.base + self.function, len(self.now))[pipeline]
        busy_now = np.minimum(work / np.maximum(cores, 1), self.now[pipeline])
        still = np.maximum(work - less, 0.0) / np.maximum(work, 1e-30)
        return np.where(cores > 0, np.maximum(then, busy_now * still), then)

    def crowding(self, rows: Int64s, work: Float64s, now: Int64s, then: Int64s) -> Float64s:
        """How much longer the program takes if ``then`` threads do this work beside it, and not ``now``: they have
        equal shares of the cores while they work. 0: cores are not recorded."""
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
        """The time per batch of the pipeline of each row if the stage ``changed`` had these figures, and there were the
        stages ``added``: what is measured now, less what the longest stage gets shorter. ``ready``: elements that it
        has ready at most; None: as many as it makes at a time."""
        is_program = changed >= self.rows
        row = np.where(is_program, 0, changed)
        kind = np.where(is_program, Kind.OTHER, self.kind[row])
        own = np.maximum(busy(kind, base, function, at_a_time, ready) + bursts, self.least[changed])
        consumer = np.where(is_program, changed, self.stage[row])
        before = late(kind, self.base[changed], self.function[changed], self.at_a_time[changed], self.each[row])
        after = late(kind, base, function, at_a_time, self.each[row], ready)
        of_consumer = np.where(is_program, own, self.time[consumer] - before + after)
        others = self._others(rows, changed, consumer)
        pace = np.maximum.reduce([others, self.time[changed], self.time[consumer]])
        then = np.maximum.reduce([others, own, of_consumer, *added])
        predicted: Float64s = self.now_of(rows) - (pace - np.minimum(then, pace))
        return predicted

    def _others(self, rows: Int64s, *left_out: Int64s) -> Float64s:
        """The longest stage of the pipeline of each row, some of its stages left out."""
        order = np.lexsort((-self.time, self.pipeline))
        first = np.searchsorted(self.pipeline[order], np.arange(len(self.now) + 1))
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


def busy(kind: Int64s, base: Float64s, function: Float64s, at_a_time: Int64s, ready: Int64s | None = None) -> Float64s:
    """How long a stage works: its thread, and its functions, which replace the thread while their input is read.
    ``ready``: how many have a place, where that is more than run ``at_a_time``."""
    several = np.maximum(at_a_time, 1)
    places = several if ready is None else np.maximum(ready, 1)
    functions = np.maximum((base + function) / places, function / several)
    reads = kind == Kind.PARALLEL_INTERLEAVING
    return np.where(reads, base / several, np.maximum(base, np.where(function > 0, functions, 0.0)))


def late(
    kind: Int64s,
    base: Float64s,
    function: Float64s,
    at_a_time: Int64s,
    each: Float64s,
    ready: Int64s | None = None,
) -> Float64s:
    """How long whoever takes ``each`` elements of a batch in a burst waits, where ``ready`` of them are ready (None: as
    many as are made ``at_a_time``): for inputs that come one after another and the last function, or for functions in
    rounds."""
    several, count = np.maximum(at_a_time, 1), np.maximum(each, 1.0)
    one_input, one_function = base / count, function / count
    places = several if ready is None else np.maximum(ready, 1)
    missing = count - places
    rounds = missing * np.maximum((one_input + one_function) / places, one_function / several)
    rounds += (several - 1) * one_input
    waits = np.maximum(missing * one_input + one_function, rounds)
    return np.where((kind == Kind.PARALLEL) & (function > 0) & (missing > 0), waits, 0.0)


def _work(
    reading: Reading, calls: CallSums, sums: IteratorSums, trees: Subtrees, stage: Int64s
) -> tuple[Float64s, Float64s, Float64s]:
    """By row, for a batch, over all events of the host: self time, time of functions, and how often it runs."""
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


def _unseen(reading: Reading, trees: Subtrees, kind: Int64s, function: Float64s) -> Bools:
    """Whether the work of each row on threads of its own, or its input, left no events."""
    feeds = np.zeros(len(kind) + 1, np.bool_)
    feeds[trees.up[reading.iterators.event_count[reading.tree.iterator] > 0]] = True
    return np.asarray((kind == Kind.SERVICE) | (kind == Kind.PARALLEL) & (function == 0) | ~feeds[:-1])


def recorded_numbers(reading: Reading, attribute: str) -> Int64s:
    """An attribute by iterator, if it is a number above 0; 0: not recorded."""
    values = reading.iterators.attributes.get(attribute)
    if values is None:
        return np.zeros(len(reading.iterators), np.int64)
    return np.array([value if isinstance(value, int) and 0 < value < 1 << 31 else 0 for value in values], np.int64)
