"""Which call or op of PyTorch launched what a device ran, if no correlation id says it: by a recorded arrow, else by an
id that both have.

call    hipExtModuleLaunchKernel, External id 81      the launch: both ends get one correlation id
kernel  MT256x112x64, External id 81

op      aten::mm, External id 11                      no call of this id is recorded: the op gets the same ``OP_ID``
kernel  MT256x112x64, External id 11
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from fastprof._native import records
from fastprof.schema.array_types import Bools, Int32s, Int64s
from fastprof.schema.value_classes import dataclass
from fastprof.tables.event_stats import Stat
from fastprof.tables.host_events import HOST_THREADS, HostEvents, beside

CORRELATION: Final = "correlation_id"
EXTERNAL_IDS: Final = ("External id", "external id")
"""As ops, calls and what devices ran record it; kernels of 2020 write it small."""
OP_ID: Final = "op of a launch"
"""A stat that an op and what it launched have in common; only in events that need it."""
CALLS: Final = frozenset({"runtime", "_runtime", "_driver"})
"""Categories of calls of the driver or its runtime, which launch and copy; ``_``: those of vendors end so."""
_OPS: Final = frozenset({"cpu_op", "operator"})
_STARTS: Final = ("launch", "memcpy", "memset", "copy", "fill", "enqueue", "submit")
"""Parts of the names of calls that start work, among those of one id."""


@dataclass(frozen=True, slots=True)
class _Ids:
    """Rows of events with an id."""

    rows: Int64s
    ids: Int64s

    def where(self, keep: Bools) -> _Ids:
        return _Ids(self.rows[keep], self.ids[keep])


def link_launches(events: HostEvents, external_ids: Callable[[], list[Stat]]) -> None:
    """Complete the correlation ids of events, which were read. ``external_ids``: reads the stats ``EXTERNAL_IDS``."""
    rows = _without_call(events)
    if not len(rows):
        return
    launcher = np.full(len(rows), -1, np.int64)
    has, own = beside(rows, *events.ints(CORRELATION))
    bare = ~has | (own <= 0)  # with an id, the arrow would come from the call that is missing; binding takes long
    if bare.any():
        launcher[bare] = _by_arrows(events, rows[bare])
    left = launcher < 0
    if left.any():
        launcher[left] = _by_ids(events, rows[left], np.where(has, own, 0)[left], external_ids())
    known = launcher >= 0
    is_call = is_of(events, CALLS)[events.meta[launcher]]
    _correlate(events, rows[known & is_call], launcher[known & is_call])
    is_op = is_of(events, _OPS)[events.meta[launcher]]
    if (known & is_op).any():
        events.stats[OP_ID] = _common(rows[known & is_op], launcher[known & is_op])


def is_of(events: HostEvents, categories: frozenset[str]) -> Bools:
    """By row of event metadata, whether the category is one of these; the last is that of events without any."""
    endings = tuple(one for one in categories if one.startswith("_"))
    wanted = {one for one in set(events.categories) if one in categories or one.endswith(endings)}
    if not wanted:
        return np.zeros(len(events.categories), bool)
    return np.array([one in wanted for one in events.categories], bool)


def _without_call(events: HostEvents) -> Int64s:
    """Return what devices ran whose call is not known by a correlation id; not what was launched before calls were
    recorded: ids count up."""
    lines = [
        line
        for plane in events.planes
        if plane.kind in ("GPU", "CUSTOM")
        for line in plane.lines
        if not line.is_derived and line.last > line.first
    ]
    rows = np.concatenate([np.zeros(0, np.int64), *(np.arange(line.first, line.last) for line in lines)])
    at, ids = events.ints(CORRELATION)
    has, own = beside(rows, at, ids)
    threads = events.plane_named(HOST_THREADS)
    calls = ids[:0] if threads is None else ids[slice(*np.searchsorted(at, [threads.first, threads.last]))]
    linked = np.isin(own, calls) if len(calls) else np.zeros(len(rows), bool)
    earlier = (own > 0) & (own < calls.min(initial=np.iinfo(np.int64).max)) if len(calls) else linked
    left: Int64s = rows[~(has & (linked | earlier))]
    return left


def _by_arrows(events: HostEvents, rows: Int64s) -> Int64s:
    """Return the event of a thread that an arrow leads from to each row; -1: none."""
    launcher = np.full(len(events), -1, np.int64)
    threads = events.plane_named(HOST_THREADS)
    if threads is not None:
        begin, end = events.recorded_arrows()
        of_threads = (begin >= threads.first) & (begin < threads.last)
        launcher[end[of_threads]] = begin[of_threads]
    return launcher[rows]


def _by_ids(events: HostEvents, rows: Int64s, correlations: Int64s, stats: list[Stat]) -> Int64s:
    """Return the call with the External id of each row, else the op that has it; -1: neither is recorded. If several
    calls of an id start work, the nth launches what is nth of the id. External ids that repeat the ``correlations`` of
    the rows (0: none) name calls, not ops."""
    ids = np.zeros(len(events), np.int64)
    for stat in stats:
        whole = stat.of_kinds((records.INT64, records.UINT64))
        ids[whole.rows] = whole.value
    host = np.zeros(len(events), bool)
    threads = events.plane_named(HOST_THREADS)
    if threads is not None:
        host[threads.first : threads.last] = True
    have = np.flatnonzero(host & (ids > 0))
    with_id = _Ids(have, ids[have])
    wanted = _Ids(rows, ids[rows])
    is_call, is_op = (is_of(events, one)[events.meta[have]] for one in (CALLS, _OPS))
    starts = np.array([any(part in name.lower() for part in _STARTS) for name in events.names], bool)
    repeats = (correlations > 0).any() and bool((wanted.ids == correlations)[correlations > 0].all())
    launcher = np.full(len(rows), -1, np.int64)
    for chosen in (is_call & starts[events.meta[have]], is_call, *(() if repeats else (is_op,))):
        left = launcher < 0
        launcher[left] = _matches(events, wanted.where(left), with_id.where(chosen))
    return launcher


def _matches(events: HostEvents, wanted: _Ids, launchers: _Ids) -> Int64s:
    """Return the launcher of each wanted row, the nth of an id for the nth, the last for those that are left; -1: none
    has the id."""
    order = np.lexsort((events.start_ps[launchers.rows], launchers.ids))
    rows, ids = launchers.rows[order], launchers.ids[order]
    by_time = np.lexsort((events.start_ps[wanted.rows], wanted.ids))
    first = np.searchsorted(wanted.ids[by_time], wanted.ids[by_time])
    nth = np.empty(len(by_time), np.int64)
    nth[by_time] = np.arange(len(by_time)) - first
    low, high = (np.searchsorted(ids, wanted.ids, side) for side in ("left", "right"))
    known = (high > low) & (wanted.ids > 0)
    found = np.full(len(nth), -1, np.int64)
    found[known] = rows[np.minimum(low + nth, high - 1)[known]]
    return found


def _correlate(events: HostEvents, rows: Int64s, calls: Int64s) -> None:
    """Give each row the correlation id of its call, and calls without one an id that no other event has."""
    if not len(rows):
        return
    at, ids = events.ints(CORRELATION)
    has, own = beside(calls, at, ids)
    fresh = max(int(ids.max(initial=0)), 0) + 1
    own = np.where(has & (own > 0), own, fresh + np.unique(calls, return_inverse=True)[1].reshape(-1))
    _put(events, np.concatenate([calls, rows]), np.concatenate([own, own]))


def _put(events: HostEvents, rows: Int64s, ids: Int64s) -> None:
    """Set the correlation ids of rows, instead of those that they have."""
    stat = events.stat(CORRELATION)
    rows, first = np.unique(rows, return_index=True)
    keep = ~np.isin(stat.rows, rows)
    every = np.concatenate([stat.rows[keep], rows.astype(np.int32)])
    order = np.argsort(every, kind="stable")
    kind = np.concatenate([stat.kind[keep], np.full(len(rows), records.INT64, np.uint8)])
    value = np.concatenate([stat.value[keep], ids[first]])
    events.replace_stat(CORRELATION, Stat(every[order], kind[order], value[order]))


def _common(rows: Int64s, ops: Int64s) -> Stat:
    """Return the stat that ops and the rows that they launched have in common."""
    used, number = np.unique(ops, return_inverse=True)
    every = np.concatenate([used, rows])
    ids = np.concatenate([np.arange(len(used)), number.reshape(-1)]) + 1
    order = np.argsort(every)
    at: Int32s = every[order].astype(np.int32)
    return Stat(at, np.full(len(at), records.INT64, np.uint8), ids[order].astype(np.int64))
