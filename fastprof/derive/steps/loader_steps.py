"""Steps that nothing marks, from one call of the data loader to the next.

loader       |-next-|          |-next-|          |-next-|           |next|  the end of the data: no step
work                |=====|           |=====|           |=====|
extents      |------------|    |------------|    |------------|
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np

from fastprof.derive.devices.kineto_categories import LOADERS, is_kineto, is_op
from fastprof.derive.steps import profiler_steps
from fastprof.derive.steps.grouping import Groups, known_names
from fastprof.derive.steps.pool_work import outermost
from fastprof.derive.steps.repeating import LAUNCH, LEAST
from fastprof.derive.steps.step_time import Markers
from fastprof.schema.array_types import Bools, Int64s
from fastprof.schema.time_sums import ends_of
from fastprof.tables.host_events import HOST_THREADS, HostEvents
from fastprof.wording.patterns import pattern_of

_CALL: Final = pattern_of(r"^(?:IteratorGetNextOp|MultiDeviceIteratorGetNext\w*)::DoCompute$")
_MOSTLY: Final = 0.9
"""Least part of the calls that work follows on the same thread before the next call."""


class LoaderSteps(NamedTuple):
    """``groups``: the events of each step; ``spans``: from each call to the end of the work that its thread starts;
    ``name``: of the calls."""

    groups: Groups
    spans: Markers
    name: str


def loader_steps(groups: Groups) -> LoaderSteps | None:
    """Return steps that begin with calls of the data loader on the thread with most of them; None if there are fewer
    than three, or if work does not follow them."""
    events = groups.events
    plane = events.plane_named(HOST_THREADS)
    if plane is None:
        return None
    calls = _rows(events, np.array([name.startswith(LOADERS) or bool(_CALL.match(name)) for name in events.names]))
    if len(calls) < LEAST:
        return None
    firsts = np.array([line.first for line in plane.lines], np.int64)
    of = np.searchsorted(firsts, calls, side="right") - 1
    thread = plane.lines[int(np.bincount(of).argmax())]
    calls = calls[(calls >= thread.first) & (calls < thread.last)]
    calls = outermost(events, plane, calls)
    works = np.array([LAUNCH.search(name) is not None for name in events.names])
    works = is_op(events) if is_kineto(events) else works
    work = _rows(events, works)
    work = work[(work >= thread.first) & (work < thread.last)]
    start, work_start = events.start_ps[calls], events.start_ps[work]
    loaded = ends_of(start, np.maximum(events.duration_ps[calls], 0))
    until = np.append(start[1:], np.iinfo(np.int64).max)
    low, high = np.searchsorted(work_start, loaded), np.searchsorted(work_start, until)
    follows: Bools = high > low
    count = len(calls) - int(len(calls) > 0 and not follows[-1])
    if count < LEAST or follows[:count].mean() < _MOSTLY:
        return None
    calls, start, until = calls[:count], start[:count], until[:count]
    done = np.append(np.iinfo(np.int64).min, ends_of(work_start, np.maximum(events.duration_ps[work], 0)))
    done = np.maximum.accumulate(done)[high[:count]]
    spans = Markers(
        np.arange(count, dtype=np.int32), start, np.minimum(np.maximum(done, loaded[:count]), until) - start
    )
    name = events.names[int(events.meta[calls[0]])]
    return LoaderSteps(_grouped(groups, calls.astype(np.int32), until, name), spans, name)


def _rows(events: HostEvents, named: Bools) -> Int64s:
    """Return the rows of host threads whose names are among those."""
    plane = events.plane_named(HOST_THREADS)
    assert plane is not None
    return plane.first + np.flatnonzero(named[events.meta[plane.first : plane.last]])


def _grouped(groups: Groups, calls: np.ndarray, until: Int64s, name: str) -> Groups:
    """Return groups of what host threads begin from each call to the next, and of what GPUs run for it."""
    events, none = groups.events, np.zeros(0, np.int32)
    group_id = profiler_steps.group_ids(events, calls, until)
    return replace(
        groups,
        group_id=group_id,
        count=len(calls),
        root_rows=np.full(len(calls), -1, np.int32),
        step_rows=none,
        step_groups=none,
        relations=np.zeros((0, 2), np.int32),
        device_steps=profiler_steps.device_steps(events, group_id),
        vetoed=False,
        _naming=known_names(dict.fromkeys(range(len(calls)), name)),
    )
