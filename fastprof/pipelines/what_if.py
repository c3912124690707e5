"""What the time per batch would be if one iterator were twice as fast, ran ahead, or ran in parallel.

A batch costs the program the mean time of a call and the mean time between calls. The model is that of stages.py:
stages work at the same time and the longest sets the pace; what the time measured has beyond it (threads that take
turns, elements that differ) stays as it is. A change shortens a stage or splits it:

    twice as fast     the self time of the iterator is halved
    prefetched        the iterator and its inputs leave their stage and become one of their own
    parallel by n     they leave it too: n functions run at a time, on inputs that come one after another; of what
                      reads several inputs, n inputs are read at a time. It runs n elements ahead, and no more.

Where nothing runs ahead, all is one stage and times add up: there, the first two are exact.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from fastprof.pipelines.pipeline_sums import alike
from fastprof.pipelines.reading import GENERATOR
from fastprof.pipelines.stages import Stages, busy, late, stages_of
from fastprof.pipelines.suggestions import Kind

if TYPE_CHECKING:
    from fastprof.pipelines.pipeline_sums import CallSums, IteratorSums
    from fastprof.pipelines.reading import Reading

Int64s = npt.NDArray[np.int64]
Float64s = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

TWICE, AHEAD, PARALLEL = range(3)
"""The changes."""

ASSUMPTIONS: Final = (
    "exact: nothing runs ahead in this pipeline, so its times add up",
    "the longest of the stages that work at the same time sets the pace; there are cores for all",
    "its own thread has a core, and a buffer of a batch or more",
    "{n} calls of its function at a time, on inputs that come one after another; there are cores for them",
    "{n} inputs are read at a time; storage and cores keep up",
    "{n} copies of it and of its inputs, each over a part of the data; there are cores for them",
    "{n} at a time instead of {k}; there are cores for them",
    "none: it runs ahead already",
    "none: it hands over what others have made, and has no work of its own",
    "none: it runs {k} at a time already",
    "none: it runs in parallel already; how many at a time is not recorded",
    "none: it fetches what the host's pipeline makes",
    "none: how long its own work takes is not recorded",
)
(
    SERIAL, STAGES, OWN_THREAD, FUNCTIONS, INPUTS, COPIES, MORE, IS_AHEAD, NO_WORK, ENOUGH, UNTOLD, OF_HOST, UNSEEN,
) = range(len(ASSUMPTIONS))  # fmt: skip
"""What a prediction rests on, or why there is none: numbers of ASSUMPTIONS."""


@dataclass(frozen=True, slots=True)
class WhatIf:
    """A row for each change of each iterator that works, it or its inputs, or is waited for; what saves most first.
    ``tree_row``: of the iterator; ``then_ps``: -1 where the change does not apply; ``at_a_time``: what it runs now, 0:
    not told; ``alike``: how many iterators change together. Times are per batch, whole ps."""

    tree_row: Int64s
    change: Int64s
    now_ps: Int64s
    then_ps: Int64s
    assumption: Int64s
    at_a_time: Int64s
    alike: Int64s


_FUNCTIONS: Final = (Kind.FUNCTION, Kind.OTHER)

Leaves = tuple[Float64s, Float64s]
"""By row, of an iterator and its inputs as far as they are of one stage: time a batch, and waiting for what is late."""

Prediction = tuple[Float64s, Int64s]
"""Time per batch, NaN where the change does not apply, and the number of the assumption."""


def what_if(reading: Reading, calls: CallSums, sums: IteratorSums, parallel: int) -> WhatIf:
    """``parallel``: at how many a time iterators run in the last change."""
    if not len(reading.tree.iterator):
        return WhatIf(*(np.zeros(0, np.int64) for _ in range(7)))
    stages = stages_of(reading, calls, sums)
    like, together = _like(reading, stages)
    leaves = together(stages.trees.sums(stages.work)), together(stages.trees.sums(stages.late))
    stages = replace(stages, work=together(stages.work), each=together(stages.each))
    fetches = reading.iterators.kind[reading.tree.iterator] == GENERATOR
    counts = stages.asynchronous & ((sums.critical_ps > 0) | (stages.time[: stages.rows] > 0))
    works, any_works = counts | (stages.work > 0), counts | (leaves[0] + leaves[1] > 0)
    gains = np.where(np.isin(stages.kind, _FUNCTIONS), works, any_works)
    rows = (stages.kind != Kind.WRAPPER) & (like == np.arange(len(like)))
    of_change = [np.flatnonzero(rows & some) for some in (works, any_works, gains)]
    twice, ahead, several = of_change
    found = [
        _twice(stages, twice),
        _ahead(stages, ahead, leaves),
        _parallel(stages, several, leaves, parallel, fetches[several]),
    ]
    then, assumption = (np.concatenate(part) for part in zip(*found, strict=True))
    change, row = np.repeat(np.arange(3), [len(rows) for rows in of_change]), np.concatenate(of_change)
    now = stages.now_of(row)
    then_ps = np.where(np.isnan(then), -1, np.rint(np.fmin(then, now))).astype(np.int64)
    now_ps = np.rint(now).astype(np.int64)
    saved = np.where(then_ps < 0, -1, now_ps - then_ps)
    order = np.lexsort((change, row, assumption == COPIES, -saved))
    row = row[order]
    alike = np.bincount(like, minlength=len(like))[row]
    return WhatIf(row, change[order], now_ps[order], then_ps[order], assumption[order], stages.at_a_time[row], alike)


def _like(reading: Reading, stages: Stages) -> tuple[Int64s, Callable[[Float64s], Float64s]]:
    """By row, the first of those of one stage that are alike, which change together; and how to add up over them.
    Asynchronous ones are stages themselves."""
    key = np.where(
        stages.asynchronous, -1 - np.arange(stages.rows), alike(reading) * (stages.stage.max() + 1) + stages.stage
    )
    _, first, of_key = np.unique(key, return_index=True, return_inverse=True)
    like: Int64s = first[of_key]
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
    reason = np.where(stages.untold[rows], UNSEEN, NO_WORK)
    return np.where(unknown, np.nan, then), np.where(unknown, reason, why)


def _ahead(stages: Stages, rows: Int64s, leaves: Leaves) -> Prediction:
    then = _without(stages, rows, leaves, leaves[0][rows] + leaves[1][rows], np.zeros(len(rows)))
    above = stages.trees.up[rows]
    buffered = (above >= 0) & (stages.kind[above] == Kind.BUFFER)
    done = stages.asynchronous[rows] | buffered
    return np.where(done, np.nan, then), np.where(done, IS_AHEAD, OWN_THREAD)


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
    function = np.isin(kind, _FUNCTIONS)
    many = np.full(len(rows), parallel, np.int64)
    own = np.where(function, stages.work[rows], 0.0)
    made = np.where(function, Kind.PARALLEL, Kind.PARALLEL_INTERLEAVING)
    time = busy(made, whole - own, own, many)
    several = time * np.maximum(1.0 - parallel / np.maximum(each, 1.0), 0.0)
    waits = np.where(function, late(made, whole - own, own, many, each), several)
    then = _without(stages, rows, leaves, time, waits)
    why = np.where(function, FUNCTIONS, np.where(np.isin(kind, (Kind.SOURCE, Kind.INTERLEAVING)), INPUTS, COPIES))
    itself, reason = _more_at_a_time(stages, rows, parallel)
    behind = stages.asynchronous[rows]
    then, why = np.where(behind, itself, then), np.where(behind, reason, why)
    return np.where(fetches, np.nan, then), np.where(fetches, OF_HOST, why)


def _more_at_a_time(stages: Stages, rows: Int64s, parallel: int) -> Prediction:
    """Of asynchronous iterators: ``parallel`` at a time, not as many as now."""
    known = stages.at_a_time[rows]
    many = np.full(len(rows), parallel, np.int64)
    then = stages.predicted(rows, rows, stages.base[rows], stages.function[rows], many, stages.bursts[rows])
    buffers = ~np.isin(stages.kind[rows], (Kind.PARALLEL, Kind.PARALLEL_INTERLEAVING, Kind.SERVICE))
    reason = np.select(
        [buffers, known >= parallel, known == 0, stages.untold[rows]], [NO_WORK, ENOUGH, UNTOLD, UNSEEN], MORE
    )
    return np.where(reason == MORE, then, np.nan), reason
