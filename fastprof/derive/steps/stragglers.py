"""Which core each step waited for, and what it spent the time on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fastprof.derive.steps.core_breakdown import ALL_OTHERS, DEVICE_COMPUTE, core_breakdown
from fastprof.derive.steps.database import StepDatabase
from fastprof.schema.array_types import Bools, Int64s


@dataclass(frozen=True, slots=True)
class Stragglers:
    """The slowest core of each step that several took part in."""

    step: Int64s
    host: npt.NDArray[np.int32]  # index into StepDatabase.hosts
    core_id: Int64s  # on its host
    core_names: list[str]
    core_count: Int64s
    duration_ps: Int64s
    median_ps: Int64s
    category: Int64s  # index into CATEGORIES; -1: the core exceeds the median in none
    category_excess_ps: Int64s


def stragglers(database: StepDatabase) -> Stragglers:
    """Steps on several cores, on one of them longer than the median. SparseCores are left out. Of cores whose step took
    equally long, as on a TPU host, the one that computes longest is the slowest."""
    every = database.present & ~database.cores.sparse
    longer = np.where(every, database.duration_ps, 0).max(axis=1, initial=0)
    longer = longer > medians(database.duration_ps[:, :, None], every)[:, 0] if len(database) else longer > 0
    rows = np.flatnonzero((every.sum(axis=1) > 1) & longer)
    there = every[rows]
    times = core_breakdown(database)[rows]
    duration = np.where(there, database.duration_ps[rows], -1)
    longest = duration == duration.max(axis=1, initial=-1)[:, None]
    computing = np.where(longest, times[:, :, DEVICE_COMPUTE], -1)
    slowest = computing.argmax(axis=1) if len(rows) else rows
    at = np.arange(len(rows))
    excess = times[at, slowest] - medians(times, there)
    excess[:, ALL_OTHERS] = np.where((excess[:, :ALL_OTHERS] > 0).any(axis=1), 0, excess[:, ALL_OTHERS])
    category = excess.argmax(axis=1) if len(rows) else rows
    by = np.maximum(excess[at, category], 0)
    return Stragglers(
        database.step[rows],
        database.cores.host_number[slowest],
        database.cores.local_id[slowest],
        [database.cores.name[core] for core in slowest.tolist()],
        there.sum(axis=1).astype(np.int64),
        duration[at, slowest],
        medians(duration[:, :, None], there)[:, 0],
        np.where(by > 0, category, -1),
        by,
    )


def medians(times: Int64s, there: Bools) -> Int64s:
    """[n, k]: of [n, c, k] times the median over the cores that are there, the lower one of two."""
    most = np.iinfo(np.int64).max
    ordered = np.sort(np.where(there[:, :, None], times, most), axis=1)
    middle = (there.sum(axis=1) - 1) // 2
    median: Int64s = ordered[np.arange(len(times)), middle] if len(times) else np.zeros((0, times.shape[2]), np.int64)
    return median
