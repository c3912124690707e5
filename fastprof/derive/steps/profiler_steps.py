"""Steps of PyTorch's profiler: ``ProfilerStep#7`` on the thread that called ``profiler.step()``.

What other threads do in that time belongs to the step too: autograd runs the backward pass on a thread of its own,
which has no marker. What a device runs belongs to the step in which it was launched, which may be over by then::

    main thread  |--- ProfilerStep#7 ---|--- ProfilerStep#8 ---|
    autograd          |- backward -|                               begins in step 7
    GPU                        |------ kernels ------|             launched in step 7
"""

from __future__ import annotations

import re
from typing import Final

import numpy as np

from fastprof.derive.devices import kineto_categories
from fastprof.derive.devices.kineto_categories import STEP
from fastprof.derive.steps.device_steps import DeviceSteps, is_derived
from fastprof.schema.array_types import Int32s, Int64s
from fastprof.tables.host_events import HOST_THREADS, HostEvents
from fastprof.tables.launch_links import CORRELATION, OP_ID
from fastprof.wording.patterns import pattern_of

_NUMBERED: Final = pattern_of(re.escape(STEP) + r"(\d{1,18})", re.ASCII)


def step_marks(events: HostEvents) -> Int32s:
    """The rows of the markers, in order of time; none where the profiler wrote none."""
    threads = events.plane_named(HOST_THREADS)
    if threads is None or not any(name.startswith(STEP) for name in events.names):
        return np.zeros(0, np.int32)
    wanted = kineto_categories.is_of(events, kineto_categories.ANNOTATIONS | kineto_categories.OPS)
    named = np.array([_NUMBERED.fullmatch(name) is not None for name in events.names], bool) & wanted
    rows = threads.first + np.flatnonzero(named[events.meta[threads.first : threads.last]])
    return rows[np.argsort(events.start_ps[rows], kind="stable")].astype(np.int32)


def numbers(events: HostEvents, marks: Int32s, most: int) -> Int32s:
    """The number of each step, as its marker has it. If two have one number, or one is ``most`` or more, as by damage,
    they are counted instead."""
    names = (events.names[meta].removeprefix(STEP) for meta in events.meta[marks].tolist())
    found = np.array([min(int(name), most) for name in names], np.int32)
    is_usable = len(np.unique(found)) == len(found) and (found < most).all()
    return found if is_usable else np.arange(len(marks), dtype=np.int32)


def group_ids(events: HostEvents, marks: Int32s, until_ps: Int64s | None = None) -> Int32s:
    """Return by row the number of the marker in whose step each event is, -1 if it is in none. ``until_ps``: when steps
    end; by default with their markers."""
    group_id = np.full(len(events), -1, np.int32)
    begin = events.start_ps[marks]
    end = begin + np.maximum(events.duration_ps[marks], 0) if until_ps is None else until_ps
    threads = events.plane_named(HOST_THREADS)
    if threads is not None:
        rows = slice(threads.first, threads.last)
        group_id[rows] = _in_time(events.start_ps[rows], begin, end)
    group_id[marks] = np.arange(len(marks), dtype=np.int32)
    for stat in (CORRELATION, OP_ID):
        if stat in events.stats:
            _follow_launches(events, stat, group_id)
    return group_id


def device_steps(events: HostEvents, group_id: Int32s) -> dict[int, DeviceSteps]:
    """By number of plane the steps of each GPU: from the first to the last that it ran of a step."""
    found = {}
    for plane in events.planes_of("GPU"):
        spans = [np.arange(line.first, line.last) for line in plane.lines if not is_derived(line)]
        rows = np.concatenate([*spans, np.zeros(0, np.int64)]).astype(np.int64)
        rows = rows[group_id[rows] >= 0]
        steps, place = np.unique(group_id[rows], return_inverse=True)
        begin = np.full(len(steps), np.iinfo(np.int64).max, np.int64)
        end = np.full(len(steps), np.iinfo(np.int64).min, np.int64)
        np.minimum.at(begin, place, events.start_ps[rows])
        np.maximum.at(end, place, events.start_ps[rows] + np.maximum(events.duration_ps[rows], 0))
        found[plane.number] = DeviceSteps(steps, begin, end - begin, begin, end - begin)
    return found


def _in_time(start: Int64s, begin: Int64s, end: Int64s) -> Int32s:
    """The last step that has begun by each start, if it is not over; -1: none."""
    step = np.searchsorted(begin, start, side="right") - 1
    within = (step >= 0) & (start < end[step])
    return np.where(within, step, -1).astype(np.int32)


def _follow_launches(events: HostEvents, stat: str, group_id: Int32s) -> None:
    """Give what devices ran the group of the call or op with the same id."""
    rows, ids = events.ints(stat)
    on_device = np.zeros(len(events), bool)
    for plane in events.planes_of("GPU"):
        on_device[plane.first : plane.last] = True
    launched = on_device[rows]
    calls, call_ids = rows[~launched], ids[~launched]
    order = np.argsort(call_ids, kind="stable")
    place = np.searchsorted(call_ids[order], ids[launched])
    known = place < len(order)
    known[known] = call_ids[order][place[known]] == ids[launched][known]
    group_id[rows[launched][known]] = group_id[calls[order[place[known]]]]
