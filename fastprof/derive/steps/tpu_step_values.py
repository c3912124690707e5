"""What a TPU step says across its cores: its figures in milliseconds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from fastprof.derive.steps.database import IDLE, Collectives, StepDatabase
from fastprof.derive.steps.time_types import HOST_TRANSFERS, OFF_DUTY
from fastprof.schema.array_types import Float64s, Int64s

SCV0_INFEED, SCV0_OUTFEED = "sparsecorev0 infeed", "sparsecorev0 outfeed"
SCV0_WAIT, SCV0_TRANSFORM = "sparsecorev0 infeed wait", "sparsecorev0 infeed transform"
COLLECTIVES: Final = ("all-reduce", "all-to-all", "all-reduce fusion")
"""Categories of ops in which cores work together."""

_MS = 1e9


@dataclass(frozen=True, slots=True)
class TpuStepValues:
    """One value a step. Cores are TensorCores unless the name begins with sc."""

    step: Int64s
    tc_compute_ms: Float64s  # least over cores: the step less waiting for the host or the SparseCore
    tc_infeed_ms: Float64s  # most over cores
    max_infeed_core: Int64s  # id of that core; 0: no core waits for input
    tc_outfeed_ms: Float64s  # mean
    tc_idle_ms: Float64s  # the shortest step over cores, less the non-idle time; 0 at least
    host_transfer_ms: Float64s  # most over cores
    scv0_compute_ms: Float64s  # of the core that waits longest for the SparseCore
    scv0_infeed_ms: Float64s
    tc_collectives_ms: Float64s  # part of tc_compute_ms, of the same core
    all_reduce_compute_ms: Float64s  # of the core with most time in collectives: as long as the fastest core takes
    all_reduce_sync_ms: Float64s  # and the rest
    non_idle_ms: Float64s  # compute, which collectives are part of, infeed and outfeed
    step_ms: Float64s  # non-idle and idle time
    infeed_percent_average: Float64s  # over cores, of the core's step
    infeed_percent_minimum: Float64s
    infeed_percent_maximum: Float64s
    tc_active_ms: Float64s  # mean
    sc_active_ms: Float64s  # mean over SparseCores
    active_ms: Float64s  # the larger one
    sc_compute_ms: Float64s  # least over SparseCores: the step less idle time, infeed and outfeed
    sc_idle_ms: Float64s  # mean
    sc_infeed_ms: Float64s
    sc_outfeed_ms: Float64s
    sc_step_ms: Float64s


@dataclass(frozen=True, slots=True)
class _Over:
    """Folds [n, c] times of some cores into one a step; 0 where none of them took part."""

    there: npt.NDArray[np.bool_]

    def most(self, times: Int64s | Float64s) -> Float64s:
        most: Float64s = np.where(self.there, times, 0).max(axis=1, initial=0).astype(np.float64)
        return most

    def least(self, values: Float64s) -> Float64s:
        least: Float64s = np.where(self.there, values, np.inf).min(axis=1, initial=np.inf)
        return np.where(np.isfinite(least), least, 0.0)

    def mean(self, values: Float64s) -> Float64s:
        """Added up core by core, as XProf does."""
        total, count = np.zeros(len(values)), self.there.sum(axis=1)
        for core in range(values.shape[1]):
            total += np.where(self.there[:, core], values[:, core], 0.0)
        mean: Float64s = np.divide(total, count, out=np.zeros(len(count)), where=count > 0)
        return mean


def tpu_step_values(database: StepDatabase) -> TpuStepValues:
    """The values of each step of a database of TPU steps."""
    cores = _Over(database.present & ~database.cores.sparse)
    sparse = _Over(database.present & database.cores.sparse)
    step = database.duration_ps
    infeed, outfeed, transfers = (database.category(*names) for names in (("infeed",), ("outfeed",), HOST_TRANSFERS))
    wait, _ = waiting_for_scv0(database)
    # ops may add up to more than the step: then idle time is negative, and there is no compute if all waiting is
    waiting = infeed + outfeed + transfers + wait + _unfilled(database)
    compute = np.where(waiting < 0, 0, step - waiting)
    tc_compute, tc_infeed, tc_outfeed = cores.least(compute / _MS), cores.most(infeed) / _MS, cores.mean(outfeed / _MS)
    scv0_compute = cores.most(wait) / _MS
    together_ps = database.category(*COLLECTIVES)
    together, alone = _collectives(database)
    non_idle = tc_compute + scv0_compute + tc_infeed + tc_outfeed
    tc_idle = np.maximum(0.0, cores.least(step / _MS) - non_idle)
    percent = np.divide(100.0 * infeed, step, out=np.zeros(step.shape), where=step > 0)
    busy = np.where(database.knows_categories, busy_ps(database), database.sparse_busy_ps)
    tc_active, sc_active = cores.mean(busy / _MS), sparse.mean(busy / _MS)
    sc_idle = np.where(database.knows_categories, database.category(IDLE), step - database.sparse_busy_ps)
    return TpuStepValues(
        step=database.step,
        tc_compute_ms=tc_compute,
        tc_infeed_ms=tc_infeed,
        max_infeed_core=_core_of_most(database, np.where(cores.there, infeed, 0)),
        tc_outfeed_ms=tc_outfeed,
        tc_idle_ms=tc_idle,
        host_transfer_ms=cores.most(transfers) / _MS,
        scv0_compute_ms=scv0_compute,
        scv0_infeed_ms=np.zeros(len(database)),
        tc_collectives_ms=np.minimum(_of_least(cores.there, compute, together_ps) / _MS, tc_compute),
        all_reduce_compute_ms=together,
        all_reduce_sync_ms=alone,
        non_idle_ms=non_idle,
        step_ms=non_idle + tc_idle,
        infeed_percent_average=cores.mean(percent),
        infeed_percent_minimum=cores.least(percent),
        infeed_percent_maximum=cores.most(percent),
        tc_active_ms=tc_active,
        sc_active_ms=sc_active,
        active_ms=np.maximum(tc_active, sc_active),
        sc_compute_ms=sparse.least(np.maximum(step - sc_idle - infeed - outfeed, 0) / _MS),
        sc_idle_ms=sparse.mean(sc_idle / _MS),
        sc_infeed_ms=sparse.mean(infeed / _MS),
        sc_outfeed_ms=sparse.mean(outfeed / _MS),
        sc_step_ms=sparse.mean(step / _MS),
    )


def _of_least(there: npt.NDArray[np.bool_], times: Int64s, other: Int64s) -> Int64s:
    """[n]: of the core that has least of ``times``, what it has of ``other``; 0 where no core is there."""
    if not times.shape[1]:
        return np.zeros(len(times), np.int64)
    core = np.where(there, times, np.iinfo(np.int64).max).argmin(axis=1)
    found: Int64s = np.where(there.any(axis=1), other[np.arange(len(times)), core], 0)
    return found


def waiting_for_scv0(database: StepDatabase) -> tuple[Int64s, Int64s]:
    """[n, c]: time that a core waits for the first kind of SparseCore, and in which that transforms data.

    A core that records only its infeed from there transforms while it feeds out, and waits for the rest.
    """
    infeed, outfeed = database.category(SCV0_INFEED), database.category(SCV0_OUTFEED)
    least = np.minimum(infeed, outfeed)
    wait = np.where(infeed > 0, infeed - least, database.category(SCV0_WAIT))
    return wait, np.where(infeed > 0, least, database.category(SCV0_TRANSFORM))


def _unfilled(database: StepDatabase) -> Int64s:
    """[n, c]: the step less its ops; less than 0 where they add up to more."""
    unfilled: Int64s = database.duration_ps - database.category_ps[:, :, 1:].sum(axis=2) - database.infeed_ps
    return unfilled


def idle_ps(database: StepDatabase) -> Int64s:
    """[n, c]: what no op fills of a step."""
    return np.maximum(_unfilled(database), 0)


def busy_ps(database: StepDatabase) -> Int64s:
    """[n, c]: time in which a core works, as its categories of ops have it."""
    off_duty = np.maximum(database.category(*OFF_DUTY) + _unfilled(database), 0)
    wait, _ = waiting_for_scv0(database)
    busy: Int64s = np.maximum(database.duration_ps - off_duty - wait, 0)
    return busy


def _core_of_most(database: StepDatabase, infeed: Int64s) -> Int64s:
    if not infeed.shape[1]:
        return np.zeros(len(database), np.int64)
    core = database.cores.id[infeed.argmax(axis=1)]
    return np.where(infeed.max(axis=1) > 0, core, 0)


def _collectives(database: StepDatabase) -> tuple[Float64s, Float64s]:
    """Time in collectives of the core that has most of it: as long as the fastest core takes, which is work, and the
    rest, which is waiting for the others."""
    every = database.collectives
    if not len(every):
        return np.zeros(len(database)), np.zeros(len(database))
    duration = np.maximum(every.end_ps - every.begin_ps, 0)
    fastest = _least_of(every, duration)
    key = np.stack([every.step, every.core_id], axis=1)
    cores, place = np.unique(key, axis=0, return_inverse=True)
    compute, total = np.zeros(len(cores), np.int64), np.zeros(len(cores), np.int64)
    np.add.at(compute, place.reshape(-1), fastest)
    np.add.at(total, place.reshape(-1), duration)
    order = np.lexsort((-total, cores[:, 0]))
    step, first = np.unique(cores[order, 0], return_index=True)
    chosen = order[first]
    together, alone = np.zeros(len(database)), np.zeros(len(database))
    together[step] = compute[chosen] / _MS
    alone[step] = (total[chosen] - compute[chosen]) / _MS
    return together, alone


def _least_of(every: Collectives, duration: Int64s) -> Int64s:
    """Beside each collective, the time of the core that was fastest at it in that step."""
    ids, place = np.unique(np.stack([every.step, every.unique_id], axis=1), axis=0, return_inverse=True)
    least = np.full(len(ids), np.iinfo(np.int64).max)
    np.minimum.at(least, place.reshape(-1), duration)
    beside: Int64s = least[place.reshape(-1)]
    return beside
