"""What the time per batch would be if one iterator were twice as fast, ran ahead, or ran in parallel.

A batch costs the program the mean time of a call and the mean time between calls. The model is that of stages.py:
stages work at the same time and the longest sets the pace; what the time measured has beyond it (threads that take
turns, elements that differ) stays as it is. A change shortens a stage or splits it:

    twice as fast     the self time of the iterator is halved
    prefetched        the iterator and its inputs leave their stage and become one of their own
    parallel by n     they leave it too: n functions run at a time, on inputs that come one after another; of what
                      reads several inputs, n inputs are read at a time. It runs n elements ahead, and no more.
                      Only of what tf.data can run in parallel.

Where nothing runs ahead, all is one stage and times add up: there, the first two are exact. Where cores are recorded,
all work takes its share of them, and so does the program beside it, if threads compute. If they wait, a batch may take
``least_ps``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import numpy as np

from fastprof.derive.pipelines.iterator_kinds import Kind
from fastprof.derive.pipelines.pipeline_sums import alike
from fastprof.derive.pipelines.reading import GENERATOR
from fastprof.derive.pipelines.stages import Stages, busy, late
from fastprof.schema.array_types import Bools, Float64s, Int64s
from fastprof.schema.value_classes import dataclass

if TYPE_CHECKING:
    from fastprof.derive.pipelines.pipeline_sums import CallSums, IteratorSums
    from fastprof.derive.pipelines.reading import Reading


TWICE, AHEAD, PARALLEL = range(3)
"""The changes."""
WORTH: Final = 0.01
"""Part of a batch that a change must save to be proposed, or shown to people."""

ASSUMPTIONS: Final = (
    "exact: nothing runs ahead in this pipeline, so its times add up",
    "the longest of the stages that work at the same time sets the pace",
    "it runs on a thread of its own, with a buffer of a batch or more",
    "{n} calls of its function at a time, on inputs that come one after another",
    "{t} calls of its function at a time, as many as its thread pool has threads",
    "{n} batches are put together at a time, of elements that come one after another",
    "{n} inputs are read at a time; storage keeps up",
    "{n} at a time instead of {k}",
    "none: it runs ahead already",
    "none: it hands over what others have made, and has no work of its own",
    "none: it runs {k} at a time already",
    "none: it runs in parallel already; how many at a time is not recorded",
    "none: it fetches what the host's pipeline makes",
    "none: how long its own work takes is not recorded",
    "none: there was a single call, so the time between calls is unknown",
)
(
    SERIAL, STAGES, OWN_THREAD, FUNCTIONS, POOL, BATCHES, INPUTS, MORE, IS_AHEAD, NO_WORK, ENOUGH, UNRECORDED, OF_HOST,
    UNSEEN, SINGLE,
) = range(len(ASSUMPTIONS))  # fmt: skip
"""The basis of a prediction, or why there is none: numbers of ASSUMPTIONS."""


@dataclass(frozen=True, slots=True)
class WhatIf:
    """A row for each change of each iterator that works, or whose inputs work, or that is waited for; the one that
    saves most first. ``tree_row``: of the iterator; ``now_ps``: -1: unknown, of a single call; ``then_ps``: on the
    cores of the host, ``least_ps``: if threads wait rather than compute, -1: the change does not apply; ``at_a_time``:
    calls that it runs now, 0: not recorded; ``cores``, ``threads``: of its pipeline, 0: not recorded; ``alike``:
    iterators that change together. Times are per batch."""

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
        """What each saves of a batch; 0 where it does not apply."""
        return np.where(self.then_ps < 0, 0, self.now_ps - self.then_ps)

    @property
    def helps(self) -> Bools:
        """Whether it saves enough to be proposed."""
        return np.asarray(self.saved_ps >= np.maximum(self.now_ps * WORTH, 1.0))


_IN_PARALLEL: Final = (Kind.FUNCTION, Kind.SOURCE, Kind.INTERLEAVING)
"""Kinds of iterators that tf.data can run in parallel, or read in parallel."""

Leaves = tuple[Float64s, Float64s]
"""By row, of an iterator and its inputs as far as they are of one stage: time a batch, and waiting for what is late."""

Prediction = tuple[Float64s, Int64s, Float64s]
"""Time per batch, NaN where the change does not apply; the number of the assumption; and time per batch of the program
alone where other threads that compute leave it a share of the cores, 0 where that is as it was."""


def worded(found: WhatIf, parallel: int) -> tuple[list[str], Int64s]:
    """The basis of each row, or why there is no prediction, in words: the texts, and the text of each row."""
    is_known = found.then_ps >= 0
    bound = is_known & (found.then_ps > found.least_ps)
    state = np.select([~is_known | (found.assumption == SERIAL), found.cores == 0, bound], [0, 1, 2], 3)
    keys = np.stack([found.assumption, found.at_a_time, found.threads, found.cores, state])
    distinct, of_row = np.unique(keys, axis=1, return_inverse=True)
    texts = [
        (ASSUMPTIONS[number] + _CORES[state]).format(n=parallel, k=k, t=threads, cores=cores_are(cores))
        for number, k, threads, cores, state in distinct.T.tolist()
    ]
    return texts, of_row.reshape(-1)


_CORES: Final = (
    "",
    "; there are cores for all of it",
    "; {cores} not enough, if threads compute",
    "; {cores} enough",
)


def cores_are(count: int) -> str:
    """As a sentence begins on them."""
    return "1 core is" if count == 1 else f"{count:,} cores are"


def what_if(reading: Reading, calls: CallSums, sums: IteratorSums, parallel: int) -> WhatIf:
    """``parallel``: at how many a time iterators run in the last change."""
    if not len(reading.tree.iterator):
        return WhatIf(*(np.zeros(0, np.int64) for _ in range(10)))
    stages = Stages(reading, calls, sums)
    like, together = _like(reading, stages)
    leaves = together(stages.trees.sums(stages.work)), together(stages.trees.sums(stages.late))
    stages.work, stages.each = together(stages.work), together(stages.each)
    fetches = reading.iterators.kind[reading.tree.iterator] == GENERATOR
    counts = stages.asynchronous & ((sums.critical_ps > 0) | (stages.time[: stages.rows] > 0))
    works, any_works = counts | (stages.work > 0), counts | (leaves[0] + leaves[1] > 0)
    gains = np.where(stages.kind == Kind.FUNCTION, works, any_works & np.isin(stages.kind, _IN_PARALLEL))
    gains |= counts
    rows = (stages.kind != Kind.WRAPPER) & (like == np.arange(len(like)))
    of_change = [np.flatnonzero(rows & some) for some in (works, any_works, gains)]
    twice, ahead, several = of_change
    found = [
        _twice(stages, twice),
        _ahead(stages, ahead, leaves),
        _parallel(stages, several, leaves, parallel, fetches[several]),
    ]
    least, assumption, program = (np.concatenate(part) for part in zip(*found, strict=True))
    change, row = np.repeat(np.arange(3), [len(rows) for rows in of_change]), np.concatenate(of_change)
    now, pipeline = stages.now_of(row), stages.pipeline[row]
    single = calls.count[pipeline] < 2
    least = np.where(single, np.nan, least)
    less = np.where(stages.asynchronous[row], stages.function[row], stages.work[row]) / 2
    then = stages.on_cores(row, np.maximum(least, program), np.where(change == TWICE, less, 0.0))
    found_ps = [_whole_ps(np.minimum(time, now)) for time in (then, least)]
    now_ps = np.where(single, -1, _whole_ps(now))
    saved = np.where(found_ps[0] < 0, -1, now_ps - found_ps[0])
    order = np.lexsort((change, row, -saved))
    columns = (row, change, now_ps, *found_ps, np.where(single, SINGLE, assumption))
    alike = np.bincount(like, minlength=len(like))
    of_row = (stages.at_a_time[row], stages.cores[pipeline], stages.threads[pipeline], alike[row])
    return WhatIf(*(column[order] for column in (*columns, *of_row)))


def _whole_ps(times: Float64s) -> Int64s:
    """Whole picoseconds, as far as 64 bits hold them; -1: NaN."""
    most = 2.0**63 - 1024  # the last double below
    return np.where(np.isnan(times), -1.0, np.rint(np.minimum(times, most))).astype(np.int64)


def _like(reading: Reading, stages: Stages) -> tuple[Int64s, Callable[[Float64s], Float64s]]:
    """By row, the first of those of one stage that are alike, which change together; and how to add up over them.
    Asynchronous ones are stages themselves."""
    key = np.where(
        stages.asynchronous, -1 - np.arange(stages.rows), alike(reading) * (stages.stage.max() + 1) + stages.stage
    )
    _, first, of_key = np.unique(key, return_index=True, return_inverse=True)
    like = first[of_key]
    return like, lambda values: np.asarray(np.bincount(like, values, len(like)), np.float64)


def _twice(stages: Stages, rows: Int64s) -> Prediction:
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


def _ahead(stages: Stages, rows: Int64s, leaves: Leaves) -> Prediction:
    then = _without(stages, rows, leaves, leaves[0][rows] + leaves[1][rows], np.zeros(len(rows)))
    above = stages.trees.up[rows]
    buffered = (above >= 0) & (stages.kind[above] == Kind.BUFFER)
    done = stages.asynchronous[rows] | buffered
    return np.where(done, np.nan, then), np.where(done, IS_AHEAD, OWN_THREAD), np.zeros(len(rows))


def _without(stages: Stages, rows: Int64s, leaves: Leaves, time: Float64s, waits: Float64s) -> Float64s:
    """The time per batch if what ``leaves`` the stage of each row became one of this ``time``, which its consumer
    ``waits`` for where it is late."""
    stage = stages.stage[rows]
    base = np.maximum(stages.base[stage] - leaves[0][rows], 0.0)
    bursts = np.maximum(stages.bursts[stage] - leaves[1][rows], 0.0) + waits
    return stages.predicted(rows, stage, base, stages.function[stage], stages.at_a_time[stage], bursts, time)


def _parallel(stages: Stages, rows: Int64s, leaves: Leaves, parallel: int, fetches: Bools) -> Prediction:
    """``fetches``: what brings elements from the host's pipeline."""
    kind, each = stages.kind[rows], stages.each[rows]
    whole = leaves[0][rows] + leaves[1][rows]
    function = kind == Kind.FUNCTION
    ready = np.full(len(rows), parallel, np.int64)
    many, pooled = _in_pool(stages, rows, ready)
    many = np.where(function, many, ready)
    own = np.where(function, stages.work[rows], 0.0)
    made = np.where(function, Kind.PARALLEL, Kind.PARALLEL_INTERLEAVING)
    time = busy(made, whole - own, own, many, ready)
    several = time * np.maximum(1.0 - parallel / np.maximum(each, 1.0), 0.0)
    waits = np.where(function, late(made, whole - own, own, many, each, ready), several)
    then = _without(stages, rows, leaves, time, waits)
    why = np.select([~function, pooled, stages.batches[rows]], [INPUTS, POOL, BATCHES], FUNCTIONS)
    program = stages.rows + stages.pipeline[rows]
    alone = np.where(stages.stage[rows] < stages.rows, stages.time[program], stages.base[program] - whole + waits)
    ahead = np.where(stages.stage[rows] < stages.rows, 1.0, np.minimum(1.0, ready / np.maximum(each, 1.0)))
    once = np.ones(len(rows), np.int64)
    alone += stages.crowding(rows, np.where(function, own, whole) * ahead, once, many)
    behind = stages.asynchronous[rows]
    found = (then, why, np.where(stages.cores[stages.pipeline[rows]] > 0, alone, 0.0))
    of_itself = _more_at_a_time(stages, rows, parallel)
    then, why, alone = (np.where(behind, itself, one) for itself, one in zip(of_itself, found, strict=True))
    return np.where(fetches, np.nan, then), np.where(fetches, OF_HOST, why), alone


def _more_at_a_time(stages: Stages, rows: Int64s, parallel: int) -> Prediction:
    """Of asynchronous iterators: ``parallel`` at a time, not as many as now."""
    known = stages.at_a_time[rows]
    ready = np.full(len(rows), parallel, np.int64)
    many, pooled = _in_pool(stages, rows, ready)
    pooled &= stages.kind[rows] == Kind.PARALLEL
    many = np.where(pooled, np.maximum(many, known), ready)
    figures = (stages.base[rows], stages.function[rows], many, stages.bursts[rows])
    then = stages.predicted(rows, rows, *figures, ready=ready)
    buffers = ~np.isin(stages.kind[rows], (Kind.PARALLEL, Kind.PARALLEL_INTERLEAVING, Kind.SERVICE))
    reason = np.select(
        [buffers, known >= parallel, known == 0, stages.unseen[rows], pooled],
        [NO_WORK, ENOUGH, UNRECORDED, UNSEEN, POOL],
        MORE,
    )
    alone = stages.crowding(rows, stages.function[rows], known, many)
    alone = np.where(alone > 0, stages.time[stages.rows + stages.pipeline[rows]] + alone, 0.0)
    return np.where((reason == MORE) | (reason == POOL), then, np.nan), reason, alone


def _in_pool(stages: Stages, rows: Int64s, wanted: Int64s) -> tuple[Int64s, Bools]:
    """How many of the functions ``wanted`` at a time the pipeline's pool of threads runs, and whether that is fewer."""
    threads = stages.threads[stages.pipeline[rows]]
    fewer = (threads > 0) & (threads < wanted)
    return np.where(fewer, threads, wanted), fewer
