"""Time between steps in which hosts wait for a slower one.

If collectives keep hosts together, the next step begins on all of them when the slowest is done with the last one. A
quick host is done before and waits, and nothing that it records says for whom:

    slow host    |====== step 1 ======|--|====== step 2 ======|--|    from begin to begin as long as on the slow one;
    quick host   |== step 1 ==|----------|== step 2 ==|----------|    the gap is longer by what the step is shorter
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from fastprof.derive.steps.database import StepDatabase
from fastprof.derive.steps.outlines import Spans, spans_of_hosts
from fastprof.derive.steps.stragglers import host_columns
from fastprof.schema.array_types import Int64s

WAITED_BETWEEN: Final = (
    "time between steps in which the host waits for a slower one: its gaps are longer than those of the slowest host "
    "by what its steps are shorter, within a tenth; null: they are not, in a fifth of the steps"
)
_ALIKE: Final = 10
"""Hosts go on together if what passes from begin to begin differs by less than the wait divided by this."""
_MOSTLY: Final = 0.8
_FEWEST: Final = 4
"""Steps of a host that wait."""


def waited_between(database: StepDatabase, own_steps: Sequence[Int64s]) -> list[int | None]:
    """By host of ``database``, which has the steps that hosts have in common. ``own_steps``: by host, all of its steps:
    between two of these there may be one that is not common."""
    count, hosts = len(database), len(database.hosts)
    waited: list[int | None] = [None] * hosts
    if count <= _FEWEST or hosts < 2:
        return waited
    spans = _spans(database)
    slowest = spans[0].end_ps - spans[0].begin_ps
    for one in spans:
        slowest = np.maximum(slowest, one.end_ps - one.begin_ps)
    slowest = slowest[:-1]
    gap, period = (np.zeros(count - 1, np.int64) for _ in range(2))
    for one in reversed(spans):  # of equally slow hosts the first
        slow = (one.end_ps - one.begin_ps)[:-1] == slowest
        gap[slow], period[slow] = _gaps(one)[slow], np.diff(one.begin_ps)[slow]
    for place, (one, own) in enumerate(zip(spans, own_steps, strict=True)):
        at = np.searchsorted(own, database.group[:, place])
        there = one.end_ps > one.begin_ps
        follows = (np.diff(at) == 1) & there[1:] & there[:-1]
        more = _gaps(one) - gap
        waits = follows & (more > slowest // (2 * _ALIKE))
        together = waits & (np.abs(np.diff(one.begin_ps) - period) <= more // _ALIKE) & (gap >= 0) & (gap <= more)
        many = int(np.count_nonzero(waits))
        if many >= _FEWEST and np.count_nonzero(together) >= _MOSTLY * many:
            waited[place] = sum(more[together].tolist())
    return waited


def _spans(database: StepDatabase) -> list[Spans]:
    """Of the steps of each host, without its SparseCores."""
    hosts, dense = host_columns(database), ~database.cores.sparse
    begin, end = np.zeros((2, len(database.hosts), len(database)), np.int64)
    first = 0
    for some in database.stretches() if len(hosts.place) else ():
        own = slice(first, first + len(some))
        columns = (some.present[:, dense], some.extent_begin_ps[:, dense], some.extent_ps[:, dense])
        begin[hosts.place, own], end[hosts.place, own] = (one.T for one in spans_of_hosts(*columns, hosts.first))
        first = own.stop
    return list(map(Spans, begin, end))


def _gaps(one: Spans) -> Int64s:
    """After each step but the last."""
    return one.begin_ps[1:] - one.end_ps[:-1]
