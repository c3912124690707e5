"""Calls of the host that launched what a GPU ran, and what enclosed these calls on their threads."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fastprof._native.grouping import parents
from fastprof.derive.ops.references import References
from fastprof.derive.ops.stat_values import stat_places
from fastprof.derive.steps.thread_pools import regions
from fastprof.schema.array_types import Bools, Int32s, Int64s
from fastprof.schema.value_classes import dataclass
from fastprof.tables.host_events import HostEvents
from fastprof.tables.launch_links import CORRELATION, OP_ID
from fastprof.tables.once import once


@dataclass(frozen=True, slots=True)
class Launches:
    """Beside rows of a GPU: ``correlated``: whether the event has a correlation id. ``row``: the event of the host that
    launched it; -1: there is none. ``shared``: whether that launched others as well, as a graph does. ``before``: it
    was launched before calls were recorded: its id is below theirs, and ids count up."""

    correlated: Bools
    row: Int32s
    shared: Bools
    before: Bools


@dataclass(frozen=True, slots=True)
class _Correlated:
    """``rows``, ``ids``: what has an id of launches. ``calls``, ``call_ids``: those of the host, by id. ``launched``,
    ``times``: the ids of GPUs, sorted, and how many events have each."""

    rows: Int32s
    ids: Int64s
    calls: Int32s
    call_ids: Int64s
    launched: Int64s
    times: Int64s


@once
def _correlated(events: HostEvents, stat: str) -> _Correlated:
    at, ids = events.ints(stat)
    on_gpu = _on_gpus(events, at)
    calls, call_ids = at[~on_gpu], ids[~on_gpu]
    order = np.argsort(call_ids, kind="stable")
    launched, times = np.unique(ids[on_gpu], return_counts=True)
    return _Correlated(at, ids, calls[order], call_ids[order], launched, times)


def _on_gpus(events: HostEvents, rows: Int32s) -> Bools:
    """Return which of these ascending rows are of GPUs."""
    on_gpu = np.zeros(len(rows), bool)
    for plane in events.planes_of("GPU"):
        first, last = np.searchsorted(rows, [plane.first, plane.last])
        on_gpu[first:last] = True
    return on_gpu


def launches(events: HostEvents, rows: Int64s) -> Launches:
    """The last event of the host that has the same correlation id."""
    known = _correlated(events, CORRELATION)
    has, place = stat_places(known.rows, rows)
    wanted = known.ids[place]
    row, (shared, before) = np.full(len(rows), -1, np.int32), np.zeros((2, len(rows)), bool)
    row[has] = calls_of(events, wanted)
    shared[has] = known.times[np.searchsorted(known.launched, wanted)] > 1
    before[has] = (wanted > 0) & (wanted < known.call_ids[:1].max(initial=0))
    return Launches(has, row, shared, before)


def launchers(events: HostEvents, rows: Int64s) -> Int32s:
    """The call that launched each row or, if no call is recorded, the op that the row names by its id; -1: neither."""
    row = launches(events, rows).row
    if OP_ID in events.stats:
        has, place = stat_places(events.ints(OP_ID)[0], rows)
        row[has] = np.where(row[has] < 0, calls_of(events, events.ints(OP_ID)[1][place], OP_ID), row[has])
    return row


@once
def known_calls(events: HostEvents) -> tuple[Int32s, Int32s]:
    """Return the rows of GPUs with a known call, and the rows of these calls. Calls whose id several have are left out,
    as after a restart of the profiler."""
    none = np.zeros(0, np.int32)
    if not any(plane.last > plane.first for plane in events.planes_of("GPU")):
        return none, none
    known = _correlated(events, CORRELATION)
    if not len(known.launched) or not len(known.calls):
        return none, none
    repeats = known.call_ids[1:] == known.call_ids[:-1]
    alone = ~(np.append(False, repeats) | np.append(repeats, False)) & (known.call_ids != 0)
    calls, ids = known.calls[alone], known.call_ids[alone]
    on_gpu = _on_gpus(events, known.rows)
    rows, wanted = known.rows[on_gpu], known.ids[on_gpu]
    place = np.searchsorted(ids, wanted)
    has = place < len(ids)
    has[has] = ids[place[has]] == wanted[has]
    return rows[has], calls[place[has]]


def has_launches(events: HostEvents) -> bool:
    """Return whether the call is recorded that launched anything that GPUs ran."""
    return len(known_calls(events)[0]) > 0


def calls_of(events: HostEvents, ids: Int64s, stat: str = CORRELATION) -> Int32s:
    """The last event of the host that has each id in this stat; -1: none has it."""
    known = _correlated(events, stat)
    after = np.searchsorted(known.call_ids, ids, side="right") - 1
    called = after >= 0
    called[called] = known.call_ids[after[called]] == ids[called]
    row = np.full(len(ids), -1, np.int32)
    row[called] = known.calls[after[called]]
    return row


def enclosing(events: HostEvents, rows: Int32s, references: References) -> Int32s:
    """The nearest event above each of these on its thread that may refer to an op; -1: none."""
    if not len(rows):
        return rows
    parent = _parents(events, rows)
    above = parent[rows]
    none = len(events)
    up = np.where(references.possible(), np.arange(none, dtype=np.int32), parent)
    up = np.append(np.where(up < 0, none, up), none)
    while True:  # each round doubles how far up they look
        further = up[up]
        if np.array_equal(further, up):
            break
        up = further
    found: npt.NDArray[np.int32] = up[above].astype(np.int32)
    return np.where((above < 0) | (found == none), -1, found).astype(np.int32)


def _parents(events: HostEvents, rows: Int32s) -> Int32s:
    """What encloses each event of the threads that these rows are of."""
    parent = np.full(len(events), -1, np.int32)
    bounds = np.array([(line.first, line.last) for line in events.lines if line.last > line.first], np.int64)
    bounds = bounds[np.argsort(bounds[:, 0])]
    line = np.unique(np.searchsorted(bounds[:, 0], rows, side="right") - 1)
    apart: npt.NDArray[np.uint8] | None = None
    at, values = events.ints("_a") if "_a" in events.stats else (rows[:0], rows[:0])
    if len(at):
        apart = np.zeros(len(events), np.uint8)
        apart[at[values != 0]] = 1
    share = np.ascontiguousarray(bounds[line])
    parents(events.start_ps, events.duration_ps, apart, regions(events), share, parent, events.slack_ps)
    return parent
