"""The slowest core and host of each step: own work compared with the median over cores and over hosts.

Extents of steps are compared, not periods: what keeps cores together makes all of their periods equal.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fastprof.derive.steps.database import StepDatabase
from fastprof.derive.steps.step_figures import COLLECTIVES, COMPUTE, OTHER, core_breakdown
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
    own = database.extent_ps
    longer = np.where(every, own, 0).max(axis=1, initial=0) > medians(own[:, :, None], every)[:, 0]
    rows = np.flatnonzero((every.sum(axis=1) > 1) & longer)
    if not len(rows):
        none = np.zeros(0, np.int64)
        return Stragglers(database, *(none,) * 7)
    there = every[rows]
    times = core_breakdown(database)[rows]
    duration = np.where(there, own[rows], -1)
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
    """Return the category with the largest of [n, 11] times beyond the median, and this time, if it is at least half
    of ``total``; else -1 and 0. The category of all other time counts only if no other category is that large."""
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
    every = database.complete_steps()
    parts = [_Compared.of(some) for some in every.stretches()]
    there = np.concatenate([one.there for one in parts])
    times = np.concatenate([one.times_ps for one in parts])
    took_part = np.any([one.took_part for one in parts], axis=0)
    compared, slowest, in_collectives, excess, base = (
        np.sum([getattr(one, name) for one in parts], axis=0).tolist()
        for name in ("compared", "slowest", "in_collectives_ps", "excess_ps", "base_ps")
    )
    beyond = np.maximum(np.array(excess, np.int64), 0)
    categories, by = (
        one.tolist() for one in _explaining(np.sum([one.category_excess_ps for one in parts], axis=0), beyond)
    )
    hosts = host_columns(every)
    core_counts = np.add.reduceat(took_part.astype(np.int64), hosts.first).tolist() if len(took_part) else []
    return [
        HostTime(
            place,
            core_counts[at],
            times[there[:, at], at],
            compared[at],
            slowest[at],
            excess[at] / compared[at] if compared[at] else None,
            excess[at] / base[at] if compared[at] and base[at] else None,
            OWN_CATEGORIES[categories[at]].name if excess[at] > 0 and categories[at] >= 0 else None,
            by[at] / compared[at] if excess[at] > 0 and categories[at] >= 0 else None,
            in_collectives[at] / max(int(times[:, at].sum()), 1),
        )
        for at, place in enumerate(hosts.place.tolist())
        if core_counts[at]
    ]


class HostColumns(NamedTuple):
    """Where the cores of each host are among those that are no SparseCores. ``place``: of hosts that have some, in
    StepDatabase.hosts; ``first``: its first one."""

    place: npt.NDArray[np.int32]
    first: npt.NDArray[np.intp]


def host_columns(database: StepDatabase) -> HostColumns:
    return HostColumns(*np.unique(database.cores.host_number[~database.cores.sparse], return_index=True))


@dataclass(frozen=True, slots=True)
class _Compared:
    """Hosts in some steps. ``there``, ``times_ps``: [steps, hosts]; ``took_part``: by core, without SparseCores; the
    rest are sums by host, over the steps in which several took part, of ``in_collectives_ps`` over all."""

    there: Bools
    times_ps: Int64s
    took_part: Bools
    compared: Int64s
    slowest: Int64s
    in_collectives_ps: Int64s
    excess_ps: Int64s
    base_ps: Int64s
    category_excess_ps: Int64s  # [hosts, 10]

    @classmethod
    def of(cls, some: StepDatabase) -> _Compared:
        dense, first = ~some.cores.sparse, host_columns(some).first
        present = some.present[:, dense]
        there = _by_host(np.logical_or, present, first)
        times = _by_host(np.maximum, np.where(present, some.extent_ps[:, dense], 0), first)
        spent = _by_host(np.add, np.where(present[:, :, None], core_breakdown(some)[:, dense], 0), first)
        spent //= np.maximum(_by_host(np.add, present.astype(np.int64), first), 1)[:, :, None]
        several = there.sum(axis=1) > 1
        there_several = there & several[:, None]
        middle = medians(times[:, :, None], there)
        usual = [medians(spent[:, :, kind : kind + 1], there) for kind in range(spent.shape[2])]
        longest = np.where(there_several, times, -1).max(axis=1, initial=-1)[:, None]
        slowest = there_several & (times == longest) & _is_late(longest, middle)
        in_collectives = spent[:, :, COLLECTIVES].sum(axis=0)
        spent -= np.stack(usual, axis=2)

        def total(values: Int64s) -> Int64s:
            found: Int64s = np.where(there_several[(...,) + (None,) * (values.ndim - 2)], values, 0).sum(axis=0)
            return found

        return cls(
            there,
            times,
            np.asarray(present.any(axis=0)),
            there_several.sum(axis=0),
            slowest.sum(axis=0),
            in_collectives,
            total(times - middle),
            total(np.broadcast_to(middle, times.shape)),
            total(spent),
        )


def _by_host(fold: np.ufunc, values: np.ndarray, first: npt.NDArray[np.intp]) -> Any:
    """[steps, hosts, ...] of [steps, cores, ...]."""
    return fold.reduceat(values, first, axis=1) if len(first) else values


def slow_as(excess_share: float, others: Iterable[float | None]) -> int:
    """How many of the other hosts are slow, too: their excess is at least half of it."""
    return sum((one or 0) >= _ALIKE * excess_share for one in others)


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
