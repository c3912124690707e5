"""Which core, and which host, each step waited for: step times compared with the median of cores and of hosts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from fastprof.derive.steps.database import StepDatabase
from fastprof.derive.steps.step_figures import COLLECTIVES, COMPUTE, OTHER, core_breakdown, step_times
from fastprof.derive.steps.step_time import OWN_CATEGORIES
from fastprof.schema.array_types import Bools, Int64s
from fastprof.schema.value_classes import dataclass


@dataclass(frozen=True, slots=True)
class Stragglers:
    """The slowest core of each step that several took part in. ``step``, ``core``: places in the database."""

    database: StepDatabase
    step: Int64s
    core: Int64s
    core_count: Int64s
    duration_ps: Int64s
    median_ps: Int64s
    category: Int64s  # index into OWN_CATEGORIES; -1: none explains at least half of excess_ps
    category_excess_ps: Int64s

    @property
    def excess_ps(self) -> Int64s:
        return self.duration_ps - self.median_ps


def stragglers(database: StepDatabase) -> Iterator[Stragglers]:
    """Steps on several cores, on one of them longer than the median; of some steps after the others. SparseCores are
    left out. Of cores whose step took equally long, as on a TPU host, the one that computes longest is the slowest."""
    return map(_stragglers, database.stretches())


def _stragglers(database: StepDatabase) -> Stragglers:
    every = database.present & ~database.cores.sparse
    longer = step_times(database) > medians(database.duration_ps[:, :, None], every)[:, 0]
    rows = np.flatnonzero((every.sum(axis=1) > 1) & longer)
    if not len(rows):
        none = np.zeros(0, np.int64)
        return Stragglers(database, *(none,) * 7)
    there = every[rows]
    times = core_breakdown(database)[rows]
    duration = np.where(there, database.duration_ps[rows], -1)
    longest = duration == duration.max(axis=1)[:, None]
    slowest = np.where(longest, times[:, :, COMPUTE], -1).argmax(axis=1)
    at = np.arange(len(rows))
    middle = medians(duration[:, :, None], there)[:, 0]
    category, by = _explaining(times[at, slowest] - medians(times, there), duration[at, slowest] - middle)
    return Stragglers(database, rows, slowest, there.sum(axis=1), duration[at, slowest], middle, category, by)


def worth_naming(rows: pa.Table) -> Bools:
    """The rows of a table of stragglers that are late, see _is_late."""
    return ~(np.asarray(rows["excess_share"].to_numpy(), np.float64) < _LEAST_SHARE)


def _is_late(time_ps: Int64s, median_ps: Int64s) -> Bools:
    """Whether times are longer than the median by a hundredth: less is noise of clocks and of ends of collectives."""
    late: Bools = time_ps - median_ps >= np.maximum(median_ps // _LATE, 1)
    return late


_LATE: Final = 100
_LEAST_SHARE: Final = 1 / _LATE
_ALIKE: Final = 0.5


def _explaining(excess: Int64s, total: Int64s) -> tuple[Int64s, Int64s]:
    """Of [n, 10] times by category beyond the median the largest, if it is at least half of ``total``, and how much it
    is; -1 and 0: none is. All other time counts if no other category is that large."""
    at = np.arange(len(excess))
    named = excess.copy()
    named[:, OTHER] = 0
    largest = named.argmax(axis=1)
    least = np.maximum(total - total // 2, 1)
    category = np.where(named[at, largest] >= least, largest, OTHER)
    by = excess[at, category]
    return np.where(by >= least, category, -1), np.where(by >= least, by, 0)


def medians(times: Int64s, there: Bools) -> Int64s:
    """[n, k]: of [n, c, k] times the median over the cores that are there, the lower one of two."""
    most = np.iinfo(np.int64).max
    ordered = np.sort(np.where(there[:, :, None], times, most), axis=1)
    middle = (there.sum(axis=1) - 1) // 2
    median: Int64s = ordered[np.arange(len(times)), middle] if ordered.size else times.sum(axis=1)
    return median


class HostTime(NamedTuple):
    """A host, over the complete steps that all hosts have. What compares hosts is None if there is only one."""

    place: int  # in StepDatabase.hosts
    core_count: int  # SparseCores left out
    times_ps: Int64s  # of each step, on the core that took longest
    compared_count: int  # steps in which another host took part too
    slowest_count: int  # of those, in which no host took longer, and it took a hundredth longer than the median
    excess_ps: float | None  # mean of what it took beyond the median of the hosts, the lower one of two
    excess_share: float | None  # sum of that / the sum of medians
    category: str | None  # of a host that takes longer: in which at least half of its excess lies
    category_excess_ps: float | None  # mean of that
    collectives_share: float  # part of its steps in which it is in collectives


def host_times(database: StepDatabase) -> list[HostTime]:
    """The hosts that took part in complete steps."""
    complete, sparse = np.flatnonzero(database.complete), database.cores.sparse
    cores = [database.cores_of(place) for place in range(len(database.hosts))]
    present_on = partial(_present_on, database, complete)
    took = [place for place, own in enumerate(cores) if present_on(own).any()]
    if not took:
        return []
    there = np.zeros((len(complete), len(took)), np.bool_)
    times = np.zeros((len(complete), len(took)), np.int64)
    spent = np.zeros((len(complete), len(took), len(OWN_CATEGORIES)), np.int64)
    core_counts = []
    for column, place in enumerate(took):  # one by one: what all cores of a pod spent takes much memory
        own, present = cores[place], present_on(cores[place])
        dense = ~sparse[own]
        there[:, column] = present.any(axis=1)
        times[:, column] = np.where(present, database.duration_ps[:, own][complete][:, dense], 0).max(axis=1)
        spent[:, column] = _mean(core_breakdown(database, cores=own)[complete][:, dense], present)
        core_counts.append(int(present.any(axis=0).sum()))
    several = there.sum(axis=1) > 1
    there_several = there & several[:, None]
    middle = medians(times[:, :, None], there)[:, 0]
    longest = np.where(there_several, times, -1).max(axis=1)
    late = several & _is_late(longest, middle)
    usual = np.concatenate([medians(spent[:, :, kind : kind + 1], there) for kind in range(spent.shape[2])], axis=1)
    found = []
    for column, place in enumerate(took):
        own = there_several[:, column]
        compared = int(own.sum())
        excess, base = int((times[own, column] - middle[own]).sum()), int(middle[own].sum())
        (category,), (by,) = (
            one.tolist()
            for one in _explaining((spent[own, column] - usual[own]).sum(axis=0)[None], np.array([max(excess, 0)]))
        )
        explained = excess > 0 and category >= 0
        found.append(HostTime(
            place,
            core_counts[column],
            times[there[:, column], column],
            compared,
            int((late & own & (times[:, column] == longest)).sum()),
            excess / compared if compared else None,
            excess / base if compared and base else None,
            OWN_CATEGORIES[category].name if explained else None,
            by / compared if explained else None,
            int(spent[:, column, COLLECTIVES].sum()) / max(int(times[:, column].sum()), 1),
        ))  # fmt: skip
    return found


def _present_on(database: StepDatabase, steps: Int64s, cores: slice) -> Bools:
    """[steps, cores that are no SparseCores]"""
    present: Bools = database.present[:, cores][steps][:, ~database.cores.sparse[cores]]
    return present


def slow_as(excess_share: float, others: Iterable[float | None]) -> int:
    """How many of the other hosts are slow, too: their excess is at least half of it."""
    return sum((one or 0) >= _ALIKE * excess_share for one in others)


def _mean(times: Int64s, there: np.ndarray) -> Int64s:
    """[n, k]: of [n, c, k] times the mean over the cores that are there, rounded down."""
    total = np.where(there[:, :, None], times, 0).sum(axis=1)
    mean: Int64s = total // np.maximum(there.sum(axis=1), 1)[:, None]
    return mean


def verdict(database: StepDatabase, times: list[HostTime]) -> str | None:
    """A sentence about the host that is slowest in most steps, by a hundredth at least; None: there is none."""
    if not times:
        return None
    worst = max(times, key=lambda one: one.slowest_count)
    if (
        2 * worst.slowest_count <= worst.compared_count
        or worst.excess_share is None
        or worst.excess_share < _LEAST_SHARE
    ):
        return None
    steps = "1 step" if worst.compared_count == 1 else f"{worst.compared_count:,} steps"
    most = "" if worst.category is None else f", most of it in {worst.category.replace('_', ' ')}"
    longer = f"{100 * worst.excess_share:.1f} % longer than the median of the hosts"
    alike = slow_as(worst.excess_share, [one.excess_share for one in times if one is not worst])
    if alike:
        hosts = "1 other host take" if alike == 1 else f"{alike:,} other hosts take"
        return f"{database.hosts[worst.place]} and {hosts} up to {longer}{most}, over {steps}."
    return (
        f"{database.hosts[worst.place]} is the slowest host in {worst.slowest_count:,} of {steps}: it takes "
        f"{longer}{most}."
    )


def kept_together(times: list[HostTime]) -> str | None:
    """Where to look for the host that delays the others, if collectives keep them together: their steps take equally
    long then, whoever is late. None: they do not."""
    compared = [one for one in times if one.excess_share is not None]
    alike = all(abs(one.excess_share or 0) < _LEAST_SHARE for one in compared)
    if not compared or not alike or min(one.collectives_share for one in compared) < _LEAST_SHARE:
        return None
    return (
        "Steps take equally long on all hosts, to 1 %, and all hosts are in collectives meanwhile, which keep them "
        "together. The table blame of communication has which host delays the others."
    )
