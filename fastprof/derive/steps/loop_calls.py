"""Functions that a training loop calls before each step: what they return flows into the step, so they load its input.

    loop       |------------------------------------------------------------|
    calls        |fetch|  |step|log|  |fetch|  |step|log|  |fetch|  |step|log|
                          the first step runs after fetch and before log

The order alone does not distinguish a loader from a logger if the capture begins after a step: then no call is input by
it.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from fastprof.derive.devices.op_names import is_frame
from fastprof.derive.steps.enclosing import enclosing
from fastprof.derive.steps.python_frames import frame_of
from fastprof.derive.steps.stretches import filled, hold_any, union
from fastprof.schema.array_types import Bools, Int32s, Int64s
from fastprof.schema.time_sums import ends_of
from fastprof.tables.host_events import HostEvents, Line

_LEAST: Final = 3
"""Fewest steps of a loop."""
_SAMPLE: Final = 256
"""Launches whose callers are looked at, spread over the run."""
_DEEPEST: Final = 512
_MOST: Final = 0.9
"""Least part of the launches that the function with the loop holds, and of the calls that a step follows at once."""
_LEAST_SHARE: Final = 0.02
"""Least part of the loop that calls of a name take, or they cost too little to be called anything."""
_WORKS: Final = 10
"""A call is work if launches take a tenth of its time, or if it waits for what it launches."""
_SHORT: Final = 20
"""Calls between a loader and the step that take less than its time divided by this do not come between them."""


def calls_before_steps(
    events: HostEvents, line: Line, works: Int64s, marks: Int32s, may_load: Bools, waits: Int64s
) -> Int64s:
    """Return rows of a thread that are calls before each step of its loop.

    ``works``: rows that launch work, ascending; ``marks``: markers of steps; ``may_load``: by row of the thread,
    whether a call may be a loader; ``waits``: rows that wait for devices.
    """
    none = np.zeros(0, np.int64)
    if len(works) < _LEAST:
        return none
    parent = enclosing(events)
    is_mark = np.zeros(line.last - line.first, np.bool_)
    own_marks = marks[(marks >= line.first) & (marks < line.last)]
    is_mark[own_marks - line.first] = True
    loop = _loop(parent, works[:: max(len(works) // _SAMPLE, 1)], is_mark, line.first)
    above = parent[line.first : line.last]
    in_mark = (above >= line.first) & is_mark[np.maximum(above - line.first, 0)]
    above = np.where(in_mark, parent[np.maximum(above, 0)], above)
    calls = line.first + np.flatnonzero((above == loop) & ~is_mark)
    if loop >= 0:
        calls = calls[calls > loop]
    start = events.start_ps[calls]
    end = ends_of(start, np.maximum(events.duration_ps[calls], 0))
    worked = filled(union(events.start_ps[works], np.maximum(events.duration_ps[works], 0)), start, end - start)
    has_waits = hold_any(start, end, events.start_ps[waits])
    is_work = (worked > 0) & ((worked * _WORKS >= end - start) | has_waits)
    idle = ~is_work & ~has_waits & may_load[calls - line.first]
    if np.count_nonzero(is_work) < _LEAST or not idle.any():
        return none
    found, first_work = [none], int(np.flatnonzero(is_work)[0])
    lasts = int(end.max()) - int(start.min())
    called, time = _functions(events, calls), end - start
    for function in np.unique(called[:first_work][idle[:first_work]]).tolist():
        own = np.flatnonzero((called == function) & idle)
        if len(own) >= _LEAST and int(time[own].sum()) >= _LEAST_SHARE * lasts and _precede(own, is_work, time):
            found.append(calls[own])
    return np.sort(np.concatenate(found))


def _functions(events: HostEvents, calls: Int64s) -> Int64s:
    """Return a number for the function of each call: PyTorch names a generator by the line that it goes on at."""
    metas, place = np.unique(events.meta[calls], return_inverse=True)
    names = [events.names[meta] for meta in metas.tolist()]
    keys = [frame_of(name)[:2] if is_frame(name) else (name, "") for name in names]
    numbers = {key: number for number, key in enumerate(dict.fromkeys(keys))}
    return np.array([numbers[key] for key in keys], np.int64)[place.reshape(-1)]


def _loop(parent: Int32s, works: Int64s, is_mark: Bools, first: int) -> int:
    """Return the row of the innermost call that holds nearly all launches, -1 if none does; markers are none."""
    chains = []
    for row in works.tolist():
        chain: list[int] = []
        while (row := int(parent[row])) >= 0 and len(chain) < _DEEPEST:
            if not (row >= first and row - first < len(is_mark) and is_mark[row - first]):
                chain.append(row)
        chains.append(chain[::-1])
    loop, depth = -1, 0
    while True:
        at = [chain[depth] for chain in chains if len(chain) > depth]
        if not at:
            return loop
        rows, often = np.unique(at, return_counts=True)
        if often.max() < _MOST * len(chains):
            return loop
        loop = int(rows[often.argmax()])
        chains = [chain for chain in chains if len(chain) > depth and chain[depth] == loop] or chains
        depth += 1


def _precede(own: Int64s, is_work: Bools, time: Int64s) -> bool:
    """Return whether calls of a loop, given by their places, precede the step: nearly always the next call that is not
    short is work, and one call at most follows the last work."""
    upto = np.cumsum(is_work)
    between: Int64s = upto[own[1:]] - upto[own[:-1]]
    if np.count_nonzero(between > 0) < _MOST * len(between):
        return False
    long = time * _SHORT >= np.median(time[own])
    follows = 0
    last = own[upto[own] < upto[-1]]
    for place in last.tolist():
        later = place + 1
        while later < len(is_work) and not is_work[later] and not long[later]:
            later += 1
        follows += int(later < len(is_work) and bool(is_work[later]))
    return len(last) >= len(own) - 1 and follows >= _MOST * len(last)
