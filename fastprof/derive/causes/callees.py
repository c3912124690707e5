"""Callees: the Python function that takes most of the time of a function that calls it.

A loader often is a generator or a ``__getitem__`` that calls the slow function. From each long function, the search
goes on to the costliest callee as long as that takes half of the long function's time. It passes library functions
between functions of the same file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from fastprof.derive.steps.event_graph import find_enclosing
from fastprof.derive.steps.event_origin import mark_frames, parse_frame
from fastprof.schema.columns import Bools, Int64s, add_durations, number_values, sum_by
from fastprof.tables.host_events import HostEvents, compute_once

_LONG: Final = 50
"""A function is long if its calls take at least 1 / _LONG of the host's recorded time."""
_DEEPEST: Final = 100


@compute_once
def find_callees(events: HostEvents) -> dict[str, str]:
    """Return the innermost function of the same file that takes at least half of each long function's time, by the
    name of the long function."""
    lined, _ = mark_frames(events)
    if not lined.any() or not len(events):
        return {}
    count = len(events.names)
    total = sum_by(events.meta, events.duration_ps, count)
    span = int(add_durations(events.start_ps, events.duration_ps).max() - events.start_ps.min())
    long = lined & (_LONG * total >= span)
    rows = np.flatnonzero(long[events.meta])
    caller = find_around(events, rows, long)
    rows, caller = rows[caller >= 0], caller[caller >= 0]
    pair, of_pair = number_values(events.meta[caller].astype(np.int64) * count + events.meta[rows])
    time = sum_by(of_pair, events.duration_ps[rows], len(pair))
    main: dict[int, tuple[int, int]] = {}
    for place in np.argsort(-time, kind="stable").tolist():
        outer, inner = divmod(int(pair[place]), count)
        if outer != inner:
            main.setdefault(outer, (inner, int(time[place])))
    innermost = {outer: _follow_callees(events.names, outer, int(total[outer]), main) for outer in main}
    return {events.names[outer]: events.names[inner] for outer, inner in innermost.items() if inner != outer}


def _follow_callees(names: Sequence[str], outer: int, total_ps: int, main: Mapping[int, tuple[int, int]]) -> int:
    """Return the innermost function of the same file. ``main``: the costliest callee of each function, and the
    callee's time."""
    function, innermost, passed = outer, outer, {outer}
    file = parse_frame(names[outer]).file
    while function in main:
        function, time_ps = main[function]
        if function in passed or 2 * time_ps < total_ps:
            break
        passed.add(function)
        if parse_frame(names[function]).file == file:
            innermost = function
    return innermost


def find_around(events: HostEvents, rows: Int64s, is_sought: Bools) -> Int64s:
    """Return the nearest event around each row whose name is sought, or -1. ``is_sought``: by row of event metadata."""
    parent = find_enclosing(events)
    above = parent[rows].astype(np.int64)
    for _ in range(_DEEPEST):
        up = (above >= 0) & ~is_sought[events.meta[above]]
        if not up.any():
            return above
        above[up] = parent[above[up]]
    return np.where((above >= 0) & is_sought[events.meta[above]], above, -1)
