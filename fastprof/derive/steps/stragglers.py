"""Stragglers: the slowest core and host of each step, the spread of step times, and hosts that wait for a slower one.

A core's own work is compared with the median over cores and over hosts. Extents of steps are compared, not periods:
what keeps cores together makes all of their periods equal.

If collectives keep hosts together, the next step begins on all of them when the slowest is done with the last one. A
quick host is done before and waits, and nothing that it records says for whom:

    slow host    |====== step 1 ======|--|====== step 2 ======|--|    from begin to begin as long as on the slow one;
    quick host   |== step 1 ==|----------|== step 2 ==|----------|    the gap is longer by what the step is shorter
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fastprof.derive.steps.host_steps import HostSteps
from fastprof.derive.steps.step_alignment import StepExtents, bound_steps_by_host
from fastprof.derive.steps.step_database import OWN_CATEGORIES, StepDatabase, get_spread
from fastprof.derive.steps.step_figures import COLLECTIVES, COMPUTE, OTHER, break_down_cores, compute_step_times
from fastprof.schema.columns import Bools, Int64s
from fastprof.schema.value_classes import dataclass
from fastprof.wording.quantities import format_step_category


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


def find_stragglers(database: StepDatabase) -> Iterator[Stragglers]:
    """Yield, in batches, multi-core steps whose slowest core exceeds the median. SparseCores are left out. Of cores
    whose step took equally long, as on a TPU host, the one that computes longest is the slowest."""
    return map(_find_stragglers, database.stretches())


def _find_stragglers(database: StepDatabase) -> Stragglers:
    every = database.present & ~database.cores.sparse
    own = database.extent_ps
    longer = np.where(every, own, 0).max(axis=1, initial=0) > compute_medians(own[:, :, None], every)[:, 0]
    rows = np.flatnonzero((every.sum(axis=1) > 1) & longer)
    if not len(rows):
        none = np.zeros(0, np.int64)
        return Stragglers(database, *(none,) * 7)
    there = every[rows]
    times = break_down_cores(database)[rows]
    duration = np.where(there, own[rows], -1)
    longest = duration == duration.max(axis=1)[:, None]
    slowest = np.where(longest, times[:, :, COMPUTE], -1).argmax(axis=1)
    at = np.arange(len(rows))
    middle = compute_medians(duration[:, :, None], there)[:, 0]
    category, by = _find_explaining_category(
        times[at, slowest] - compute_medians(times, there), duration[at, slowest] - middle
    )
    return Stragglers(database, rows, slowest, there.sum(axis=1), duration[at, slowest], middle, category, by)


def is_worth_naming(rows: pa.Table) -> Bools:
    """Return the rows of a table of stragglers that are late by enough to name them."""
    return ~(np.asarray(rows["excess_share"].to_numpy(), np.float64) < _LEAST_SHARE)


_LATE: Final = 100
_LEAST_SHARE: Final = 1 / _LATE
_ALIKE: Final = 0.5


def _find_explaining_category(excess: Int64s, total: Int64s) -> tuple[Int64s, Int64s]:
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


def compute_medians(times: Int64s, there: Bools) -> Int64s:
    """Return [n, k] of [n, c, k] times the median over the cores that are there, the lower one of two."""
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


def compare_hosts(database: StepDatabase) -> list[HostTime]:
    """Return the hosts that took part in complete steps."""
    every = database.complete_steps()
    parts = [_Compared.of(some) for some in every.stretches()]
    there = np.concatenate([part.there for part in parts])
    times = np.concatenate([part.times_ps for part in parts])
    took_part = np.any([part.took_part for part in parts], axis=0)
    compared, slowest, in_collectives, excess, base = (
        np.sum([getattr(part, name) for part in parts], axis=0).tolist()
        for name in ("compared", "slowest", "in_collectives_ps", "excess_ps", "base_ps")
    )
    beyond = np.maximum(np.array(excess, np.int64), 0)
    categories, by = (
        values.tolist()
        for values in _find_explaining_category(np.sum([part.category_excess_ps for part in parts], axis=0), beyond)
    )
    hosts = locate_host_cores(every)
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
    """Columns of the cores of each host, SparseCores left out. ``place``: hosts that have some, in StepDatabase.hosts;
    ``first``: the first core of each."""

    place: npt.NDArray[np.int32]
    first: npt.NDArray[np.intp]


def locate_host_cores(database: StepDatabase) -> HostColumns:
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
        dense, first = ~some.cores.sparse, locate_host_cores(some).first
        present = some.present[:, dense]
        there = _fold_by_host(np.logical_or, present, first)
        times = _fold_by_host(np.maximum, np.where(present, some.extent_ps[:, dense], 0), first)
        spent = _fold_by_host(np.add, np.where(present[:, :, None], break_down_cores(some)[:, dense], 0), first)
        spent //= np.maximum(_fold_by_host(np.add, present.astype(np.int64), first), 1)[:, :, None]
        several = there.sum(axis=1) > 1
        there_several = there & several[:, None]
        middle = compute_medians(times[:, :, None], there)
        usual = [compute_medians(spent[:, :, kind : kind + 1], there) for kind in range(spent.shape[2])]
        longest = np.where(there_several, times, -1).max(axis=1, initial=-1)[:, None]
        # less than a hundredth of the median is noise of clocks and of ends of collectives
        is_late = longest - middle >= np.maximum(middle // _LATE, 1)
        slowest = there_several & (times == longest) & is_late
        in_collectives = spent[:, :, COLLECTIVES].sum(axis=0)
        spent -= np.stack(usual, axis=2)

        def total(values: Int64s) -> Int64s:
            summed: Int64s = np.where(there_several[(...,) + (None,) * (values.ndim - 2)], values, 0).sum(axis=0)
            return summed

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


def _fold_by_host(fold: np.ufunc, values: np.ndarray, first: npt.NDArray[np.intp]) -> Any:
    """Fold [steps, cores, ...] to [steps, hosts, ...]."""
    return fold.reduceat(values, first, axis=1) if len(first) else values


def count_as_slow(excess_share: float, others: Iterable[float | None]) -> int:
    """Return how many of the other hosts are slow, too: their excess is at least half of it."""
    return sum((other or 0) >= _ALIKE * excess_share for other in others)


def describe_median(hosts: int) -> str:
    """Return the reference of a host in words: the lower median, which is the faster of two hosts."""
    return "the other host" if hosts == 2 else "the median of the hosts"


def describe_slowest_host(database: StepDatabase, times: list[HostTime]) -> str | None:
    """Return a sentence about the host that is slowest in most steps, by a hundredth at least, or None if there is
    none."""
    if not times:
        return None
    worst = max(times, key=lambda time: time.slowest_count)
    if (
        2 * worst.slowest_count <= worst.compared_count
        or worst.excess_share is None
        or worst.excess_share < _LEAST_SHARE
    ):
        return None
    steps = "1 step" if worst.compared_count == 1 else f"{worst.compared_count:,} steps"
    most = "" if worst.category is None else f", most of it in {format_step_category(worst.category)}"
    longer = f"{100 * worst.excess_share:.1f} % longer than {describe_median(len(times))}"
    alike = count_as_slow(worst.excess_share, [time.excess_share for time in times if time is not worst])
    if alike:
        hosts = "1 other host take" if alike == 1 else f"{alike:,} other hosts take"
        return f"{database.hosts[worst.place]} and {hosts} up to {longer}{most}, over {steps}."
    return (
        f"{database.hosts[worst.place]} is the slowest host in {worst.slowest_count:,} of {steps}: it takes "
        f"{longer}{most}."
    )


def describe_lock_step(times: list[HostTime]) -> str | None:
    """Say where to look for the host that delays the others, if collectives keep them together: their steps take
    equally long then, whoever is late. Return None if they do not."""
    compared = [time for time in times if time.excess_share is not None]
    alike = all(abs(time.excess_share or 0) < _LEAST_SHARE for time in compared)
    if not compared or not alike or min(time.collectives_share for time in compared) < _LEAST_SHARE:
        return None
    return (
        "Steps take equally long on all hosts, to 1 %, because collectives synchronize the hosts. The table blame of "
        "communication shows the host that delays the others."
    )


def summarize_steps(kept: Sequence[HostSteps], database: StepDatabase) -> list[dict[str, Any]]:
    """Return the spread of step times, then of each kind of time on each core."""
    times: list[tuple[str | None, int | None, str, Int64s]] = [(None, None, "step_time", get_longest_times(database))]
    for host in kept:
        own = host.database
        in_categories = break_down_cores(own)
        for core, core_id in enumerate(own.cores.id.tolist()):
            counts = own.present[:, core] & own.complete
            times.append((host.host, core_id, "step_time", own.duration_ps[counts, core]))
            counts &= ~own.lost[:, core]
            by_category = zip(OWN_CATEGORIES, in_categories[counts, core].T, strict=True)
            times += [(host.host, core_id, category.name, values) for category, values in by_category if values.any()]
    return [
        {"host": host, "core_id": core_id, "quantity": quantity, **summary}
        for host, core_id, quantity, values in times
        if (summary := get_spread(values)) is not None
    ]


def get_longest_times(database: StepDatabase) -> Int64s:
    """Return the time of each complete step on the core that took longest."""
    dense = ~database.cores.sparse
    batches = database.complete_steps().stretches()
    return np.concatenate([compute_step_times(steps)[steps.present[:, dense].any(axis=1)] for steps in batches])


def find_cores_in_steps(database: StepDatabase) -> Bools:
    """Return [c] whether a core took part in any step."""
    took_part: Bools = np.any([some.present.any(axis=0) for some in database.stretches()], axis=0)
    return took_part


WAITED_BETWEEN: Final = (
    "time between steps in which the host waits for a slower one: its gaps exceed those of the slowest host by as "
    "much as its steps are shorter, to within a tenth; null: they do not, in a fifth of the steps"
)
_ALIKE_GAPS: Final = 10
"""Hosts go on together if what passes from begin to begin differs by less than the wait divided by this."""
_MOSTLY: Final = 0.8
_FEWEST: Final = 4
"""Steps of a host that wait."""


def measure_waits_between(database: StepDatabase, own_steps: Sequence[Int64s]) -> list[int | None]:
    """Return for each host how long it waits between steps, or None; ``database`` has the steps that hosts have in
    common. ``own_steps``: by host, all of its steps: between two of these there may be one that is not common."""
    count, hosts = len(database), len(database.hosts)
    waited: list[int | None] = [None] * hosts
    if count <= _FEWEST or hosts < 2:
        return waited
    spans = _get_host_extents(database)
    slowest = spans[0].end_ps - spans[0].begin_ps
    for host in spans:
        slowest = np.maximum(slowest, host.end_ps - host.begin_ps)
    slowest = slowest[:-1]
    gap, period = (np.zeros(count - 1, np.int64) for _ in range(2))
    for host in reversed(spans):  # of equally slow hosts the first
        slow = (host.end_ps - host.begin_ps)[:-1] == slowest
        gap[slow], period[slow] = _measure_gaps(host)[slow], np.diff(host.begin_ps)[slow]
    for place, (host, own) in enumerate(zip(spans, own_steps, strict=True)):
        at = np.searchsorted(own, database.group[:, place])
        there = host.end_ps > host.begin_ps
        follows = (np.diff(at) == 1) & there[1:] & there[:-1]
        more = _measure_gaps(host) - gap
        waits = follows & (more > slowest // (2 * _ALIKE_GAPS))
        together = waits & (np.abs(np.diff(host.begin_ps) - period) <= more // _ALIKE_GAPS) & (gap >= 0) & (gap <= more)
        many = int(np.count_nonzero(waits))
        if many >= _FEWEST and np.count_nonzero(together) >= _MOSTLY * many:
            waited[place] = sum(more[together].tolist())
    return waited


def _get_host_extents(database: StepDatabase) -> list[StepExtents]:
    """Return the step extents of each host, without its SparseCores."""
    hosts, dense = locate_host_cores(database), ~database.cores.sparse
    begin, end = np.zeros((2, len(database.hosts), len(database)), np.int64)
    first = 0
    for some in database.stretches() if len(hosts.place) else ():
        own = slice(first, first + len(some))
        columns = (some.present[:, dense], some.extent_begin_ps[:, dense], some.extent_ps[:, dense])
        begin[hosts.place, own], end[hosts.place, own] = (
            bounds.T for bounds in bound_steps_by_host(*columns, hosts.first)
        )
        first = own.stop
    return list(map(StepExtents, begin, end))


def _measure_gaps(host: StepExtents) -> Int64s:
    """Return the gap after each step but the last."""
    return host.begin_ps[1:] - host.end_ps[:-1]
