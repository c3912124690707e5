"""What started what: host calls and the GPU events that they launched, starts and ends of asynchronous ops.

A GPU event begins after the call that launched it, and ends before a later call returns that waits for the device::

     host   |launch|        |==wait for device==|
     GPU             |==kernel==|

Asynchronous ops are recorded in parts: one op starts what others update and another one ends. The first operand of a
part is the part before it: ``%copy-done.3 = f32[8] copy-done(%copy-start.3)``.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

import numpy as np
import numpy.typing as npt

from fastprof._native.grouping import parents
from fastprof.derive.ops.gpu_ops import OpReferences
from fastprof.derive.steps.event_graph import find_enclosing, find_pool_regions
from fastprof.derive.steps.event_origin import waits_for_device
from fastprof.hlo.shapes import read_expression
from fastprof.schema.columns import (
    Bools,
    Int32s,
    Int64s,
    add_durations,
    find_last_started,
    find_present,
    find_rows_within,
    sort_rows,
)
from fastprof.schema.value_classes import dataclass
from fastprof.tables.host_events import HostEvents, compute_once
from fastprof.tables.host_reader import CORRELATION, OP_ID
from fastprof.wording.patterns import compile_late


@dataclass(frozen=True, slots=True)
class Launches:
    """Launches of GPU rows. ``correlated``: whether the event has a correlation id. ``row``: host event that launched
    it, or -1. ``shared``: whether that launched others as well, as a graph does. ``before``: whether it was launched
    before calls were recorded: its id is below theirs, and ids count up."""

    correlated: Bools
    row: Int32s
    shared: Bools
    before: Bools


@dataclass(frozen=True, slots=True)
class _Correlated:
    """``rows``, ``ids``: events with a launch id. ``calls``, ``call_ids``: those of the host, by id. ``launched``,
    ``times``: the ids of GPU events, sorted, and how many events have each."""

    rows: Int32s
    ids: Int64s
    calls: Int32s
    call_ids: Int64s
    launched: Int64s
    times: Int64s


@compute_once
def _read_correlated(events: HostEvents, stat: str) -> _Correlated:
    at, ids = events.ints(stat)
    on_gpu = _mark_gpu_rows(events, at)
    calls, call_ids = at[~on_gpu], ids[~on_gpu]
    order = np.argsort(call_ids, kind="stable")
    launched, times = np.unique(ids[on_gpu], return_counts=True)
    return _Correlated(at, ids, calls[order], call_ids[order], launched, times)


def _mark_gpu_rows(events: HostEvents, rows: Int32s) -> Bools:
    """Return which of these ascending rows are of GPUs."""
    on_gpu = np.zeros(len(rows), bool)
    for plane in events.planes_of("GPU"):
        on_gpu[find_rows_within(rows, plane.first, plane.last)] = True
    return on_gpu


def find_launches(events: HostEvents, rows: Int64s) -> Launches:
    """Return the last host event with the same correlation id as each row."""
    known = _read_correlated(events, CORRELATION)
    has, place = find_present(known.rows, rows)
    wanted = known.ids[place]
    row, (shared, before) = np.full(len(rows), -1, np.int32), np.zeros((2, len(rows)), bool)
    row[has] = find_calls(events, wanted)
    shared[has] = known.times[np.searchsorted(known.launched, wanted)] > 1
    before[has] = (wanted > 0) & (wanted < known.call_ids[:1].max(initial=0))
    return Launches(has, row, shared, before)


def find_launchers(events: HostEvents, rows: Int64s) -> Int32s:
    """Return the call that launched each row or, if no call is recorded, the op that the row names by its id; -1 if
    neither."""
    row = find_launches(events, rows).row
    if OP_ID in events.stats:
        has, place = find_present(events.ints(OP_ID)[0], rows)
        row[has] = np.where(row[has] < 0, find_calls(events, events.ints(OP_ID)[1][place], OP_ID), row[has])
    return row


@compute_once
def find_known_calls(events: HostEvents) -> tuple[Int32s, Int32s]:
    """Return the rows of GPUs with a known call, and the rows of these calls. Calls whose id several have are left out,
    as after a restart of the profiler."""
    none = np.zeros(0, np.int32)
    if not any(plane.last > plane.first for plane in events.planes_of("GPU")):
        return none, none
    known = _read_correlated(events, CORRELATION)
    if not len(known.launched) or not len(known.calls):
        return none, none
    repeats = known.call_ids[1:] == known.call_ids[:-1]
    alone = ~(np.append(False, repeats) | np.append(repeats, False)) & (known.call_ids != 0)
    calls, ids = known.calls[alone], known.call_ids[alone]
    on_gpu = _mark_gpu_rows(events, known.rows)
    rows, wanted = known.rows[on_gpu], known.ids[on_gpu]
    has, place = find_present(ids, wanted)
    return rows[has], calls[place]


def has_launches(events: HostEvents) -> bool:
    """Return whether any launch of GPU work is recorded."""
    return len(find_known_calls(events)[0]) > 0


def find_calls(events: HostEvents, ids: Int64s, stat: str = CORRELATION) -> Int32s:
    """Return the last event of the host that has each id in this stat; -1 if none has it."""
    known = _read_correlated(events, stat)
    after = find_last_started(known.call_ids, ids)
    called = after >= 0
    called[called] = known.call_ids[after[called]] == ids[called]
    row = np.full(len(ids), -1, np.int32)
    row[called] = known.calls[after[called]]
    return row


def find_enclosing_reference(events: HostEvents, rows: Int32s, references: OpReferences) -> Int32s:
    """Return the nearest event above each of these on its thread that may refer to an op; -1 if there is none."""
    if not len(rows):
        return rows
    parent = _find_parents(events, rows)
    above = parent[rows]
    none = len(events)
    up = np.where(references.possible(), np.arange(none, dtype=np.int32), parent)
    up = np.append(np.where(up < 0, none, up), none)
    while True:  # each round doubles how far up they look
        further = up[up]
        if np.array_equal(further, up):
            break
        up = further
    reference: npt.NDArray[np.int32] = up[above].astype(np.int32)
    return np.where((above < 0) | (reference == none), -1, reference).astype(np.int32)


def _find_parents(events: HostEvents, rows: Int32s) -> Int32s:
    """Return what encloses each event of the threads that these rows are of."""
    parent = np.full(len(events), -1, np.int32)
    bounds = np.array([(line.first, line.last) for line in events.used_lines], np.int64)
    bounds = bounds[np.argsort(bounds[:, 0])]
    line = np.unique(find_last_started(bounds[:, 0], rows))
    apart: npt.NDArray[np.uint8] | None = None
    at, values = events.ints("_a") if "_a" in events.stats else (rows[:0], rows[:0])
    if len(at):
        apart = np.zeros(len(events), np.uint8)
        apart[at[values != 0]] = 1
    share = np.ascontiguousarray(bounds[line])
    parents(events.start_ps, events.duration_ps, apart, find_pool_regions(events), share, parent, events.slack_ps)
    return parent


_WAITS: Final = compile_late(r"^(cuda|hip)DeviceSynchronize$|^cuCtxSynchronize$", re.ASCII)


def measure_start_before_call(events: HostEvents) -> tuple[Int32s, Int64s]:
    """Return the rows of GPUs with a known call, and by how much each begins before it: negative if after."""
    rows, calls = find_known_calls(events)
    return rows, events.start_ps[calls] - events.start_ps[rows]


def measure_end_after_wait(events: HostEvents) -> tuple[Int32s, Int64s]:
    """Return the rows of a GPU that a later call waited for, and by how much each ends after that call returned:
    negative if before. Of several GPUs, calls do not record which they wait for."""
    rows, calls = find_known_calls(events)
    used = [plane for plane in events.planes_of("GPU") if plane.last > plane.first]
    metas = [meta for meta, name in enumerate(events.names) if _WAITS.search(name)] if len(used) == 1 else []
    waits = np.flatnonzero(np.isin(events.meta, metas)) if metas and len(rows) else rows[:0]
    if not len(waits):
        return rows[:0], np.zeros(0, np.int64)
    waits = waits[np.argsort(events.start_ps[waits], kind="stable")]
    place = np.searchsorted(events.start_ps[waits], events.start_ps[calls], side="right")
    waited = place < len(waits)
    rows, wait = rows[waited], waits[place[waited]]
    ends = add_durations(events.start_ps[rows], np.maximum(events.duration_ps[rows], 0))
    return rows, ends - add_durations(events.start_ps[wait], np.maximum(events.duration_ps[wait], 0))


START, UPDATE, DONE = "-start", "-update", "-done"
PARTS: Final = (START, UPDATE, DONE)
"""Suffixes of opcodes of asynchronous parts."""
ASYNC_LINE: Final = "Async XLA Ops"
"""The line on which a core records the time from start to end."""
_PLAIN: Final = ("send", "recv")
"""Ops that start something though their names have no ``-start``."""


@lru_cache(1 << 15)
def find_part_before(name: str, text: str) -> str:
    """Return the name of the op that starts what another one updates or ends: its operand, else made from its own name;
    "" if it has neither."""
    read = read_expression(text) if text else None
    if read is not None and read.operands:
        return read.operands[0].name
    for ending in (DONE, UPDATE):
        before, part, serial = name.rpartition(ending)
        if part:
            return before + ("" if before in _PLAIN else START) + serial
    return ""


def find_latest_begin(key: Int64s, time: Int64s, begins: Bools) -> Int64s:
    """Return for each row that begins nothing the latest row of its key that begins, unless another row that begins
    nothing is between them; -1 if there is none."""
    order = sort_rows(key, time)
    after, before = order[1:], order[:-1]
    pairs = ~begins[after] & begins[before] & (key[after] == key[before])
    beginning = np.full(len(key), -1, np.int64)
    beginning[after[pairs]] = before[pairs]
    return beginning


def find_waits_before(events: HostEvents, begin_ps: Int64s, end_ps: Int64s, time_ps: Int64s) -> Int64s:
    """Return the row of the wait for the device in which each idle interval began: the outermost ATen op, else the
    call, or -1 if there is none. ``begin_ps``, ``end_ps``: idle intervals; ``time_ps``: a time in each wanted one."""
    waits = np.array([waits_for_device(name) for name in events.names], np.bool_)
    rows = np.flatnonzero(waits[events.meta])
    rows = rows[np.argsort(events.start_ps[rows], kind="stable")]
    if not len(rows) or not len(begin_ps) or not len(time_ps):
        return np.full(len(time_ps), -1)
    interval = np.maximum(find_last_started(begin_ps, time_ps), 0)
    since = begin_ps[interval]
    place = find_last_started(events.start_ps[rows], since)
    ends = add_durations(events.start_ps[rows], np.maximum(events.duration_ps[rows], 0))
    longest = np.maximum.accumulate(np.where(ends >= np.maximum.accumulate(ends), np.arange(len(rows)), 0))
    at = longest[np.maximum(place, 0)]  # the wait that ends last, among those that have begun
    row = rows[at]
    row[(place < 0) | (ends[at] < since) | (time_ps < since) | (time_ps >= end_ps[interval])] = -1
    above = np.append(find_enclosing(events), -1)
    of_aten = np.array([name.startswith("aten::") for name in events.names], np.bool_)
    of_op = np.append(of_aten[events.meta], False)
    while (outer := of_op[above[row]]).any():
        row = np.where(outer, above[row], row)
    return row
