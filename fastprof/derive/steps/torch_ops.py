"""The ops of PyTorch that threads of a host run as their device, and those of them that are too short to be work.

Ops that a data loader runs prepare input. Of the others the outermost count, with all that they call. If Python calls
many short ones one after the other, most of the time is what each call costs: such a run is launching, not computing.

    Optimizer.step   |----------------------------------------|
    ops                |.|  |.| |.|  |.|  ... |.|  |.|  |.|
    run                |------------------------------------|
"""

from __future__ import annotations

from typing import Final

import numpy as np

from fastprof.derive.devices import kineto_categories
from fastprof.derive.devices.kineto_categories import LOADERS, STEP, is_kineto, is_op
from fastprof.derive.steps.enclosing import enclosing
from fastprof.derive.steps.python_frames import has_line
from fastprof.derive.steps.stretches import union
from fastprof.schema.array_types import Bools, Int64s
from fastprof.schema.time_sums import ends_of
from fastprof.schema.value_classes import dataclass
from fastprof.tables.host_events import HOST_THREADS, HostEvents, Line
from fastprof.tables.once import once

SHORT_PS: Final = 10_000_000
"""An op that takes less in the median costs more to call than to run."""
FEWEST: Final = 20
"""Short ops in a row that are a run."""
_LONG_GAP_PS: Final = 1_000_000_000
_PER_LONG_GAP: Final = 100
"""Between ops of a run, one gap in this number may be long: the machine does something else meanwhile. If more are
long, Python works in them."""


@dataclass(frozen=True, slots=True)
class OpRuns:
    """Runs of short ops, in order. ``first`` and ``last``: the rows of each run's first event and after its last;
    ``site``: the row of the annotation or function that calls the ops, else of the first op."""

    first: Int64s
    last: Int64s
    begin_ps: Int64s
    end_ps: Int64s
    site: Int64s

    def __len__(self) -> int:
        return len(self.first)

    def of_time(self, begin_ps: Int64s, end_ps: Int64s) -> Int64s:
        """The run that each span of time lies in, -1: none does."""
        if not len(self):
            return np.full(len(begin_ps), -1, np.int64)
        order = np.argsort(self.begin_ps, kind="stable")
        run = order[np.maximum(np.searchsorted(self.begin_ps[order], begin_ps, side="right") - 1, 0)]
        inside = (self.begin_ps[run] <= begin_ps) & (end_ps <= self.end_ps[run])
        return np.where(inside, run, -1)


@once
def computing_ops(events: HostEvents) -> Int64s:
    """The rows of the outermost ops on threads of a host without devices, in order, but for those of data loaders."""
    none = np.zeros(0, np.int64)
    plane = events.plane_named(HOST_THREADS)
    if plane is None or not is_kineto(events) or events.planes_of("GPU"):
        return none
    return np.concatenate([none, *(_of_line(events, line) for line in plane.lines)])


def _of_line(events: HostEvents, line: Line) -> Int64s:
    meta = events.meta[line.first : line.last]
    ops = line.first + np.flatnonzero(is_op(events)[meta])
    if not len(ops):
        return ops
    loads = line.first + np.flatnonzero(_loads(events)[meta])
    begin, end = union(events.start_ps[loads], np.maximum(events.duration_ps[loads], 0))
    start = events.start_ps[ops]
    if len(begin):
        place = np.searchsorted(begin, start, side="right") - 1
        ops = ops[(place < 0) | (start >= end[place])]
        start = events.start_ps[ops]
    reached = np.maximum.accumulate(ends_of(start, np.maximum(events.duration_ps[ops], 0)))
    return ops[np.append(True, start[1:] >= reached[:-1])] if len(ops) else ops


@once
def _loads(events: HostEvents) -> Bools:
    """By row of event metadata, whether the event waits for a data loader."""
    return np.array([name.startswith(LOADERS) for name in events.names], np.bool_)


@once
def op_runs(events: HostEvents) -> OpRuns:
    """Ops count as short if those of their name that are called in the same annotation are, in the median."""
    ops = computing_ops(events)
    line, site = _lines_and_sites(events, ops)
    start = events.start_ps[ops]
    end = ends_of(start, np.maximum(events.duration_ps[ops], 0))
    short = _are_short(events.meta[ops], np.where(site < 0, -1, events.meta[site]), end - start)
    apart = np.ones(len(ops), np.bool_)
    apart[1:] = (line[1:] != line[:-1]) | (site[1:] != site[:-1]) | ~short[1:] | ~short[:-1]
    long_gap = np.zeros(len(ops), np.bool_)
    long_gap[1:] = start[1:] - end[:-1] > _LONG_GAP_PS
    of = np.cumsum(apart) - 1
    often = np.bincount(of, long_gap & ~apart) * _PER_LONG_GAP > np.bincount(of)
    first = np.flatnonzero(apart | (long_gap & often[of]))
    stop = np.append(first[1:], len(ops))
    many = (stop - first >= FEWEST) & short[first]
    first, last = first[many], stop[many] - 1
    begin, until = start[first], end[last]
    after = [_row_at(events, row, time) for row, time in zip(ops[last].tolist(), until.tolist(), strict=True)]
    sites = [_site(events, *pair) for pair in zip(site[first].tolist(), ops[first].tolist(), strict=True)]
    return OpRuns(ops[first], np.array(after, np.int64), begin, until, np.array(sites, np.int64))


def _are_short(meta: Int64s, site: Int64s, duration: Int64s) -> Bools:
    if not len(meta):
        return np.zeros(0, np.bool_)
    order = np.lexsort((duration, site, meta))
    new = np.append(True, (meta[order][1:] != meta[order][:-1]) | (site[order][1:] != site[order][:-1]))
    first = np.flatnonzero(new)
    count = np.diff(np.append(first, len(order)))
    short = np.empty(len(order), np.bool_)
    short[order] = np.repeat(duration[order[first + count // 2]] < SHORT_PS, count)
    return short


def _lines_and_sites(events: HostEvents, ops: Int64s) -> tuple[Int64s, Int64s]:
    """Of each op the number of its thread, and the row of the innermost annotation around it, -1: none but that of a
    step."""
    line_of, site = np.zeros(len(ops), np.int64), np.full(len(ops), -1, np.int64)
    wanted = kineto_categories.is_of(events, kineto_categories.ANNOTATIONS)
    wanted = wanted & ~np.array([name.startswith(STEP) for name in events.names], np.bool_)
    for line in events.lines:
        low, high = np.searchsorted(ops, [line.first, line.last]).tolist()
        if low == high:
            continue
        line_of[low:high] = line.number
        marks = line.first + np.flatnonzero(wanted[events.meta[line.first : line.last]])
        begins = np.searchsorted(ops[low:high], marks) + low
        until = ends_of(events.start_ps[marks], np.maximum(events.duration_ps[marks], 0))
        ends = np.searchsorted(events.start_ps[ops[low:high]], until) + low
        for mark, begin, end in zip(marks.tolist(), begins.tolist(), ends.tolist(), strict=True):
            site[begin:end] = mark  # those within others come after them
    return line_of, site


def _row_at(events: HostEvents, row: int, time: int) -> int:
    """The first row on the thread of a row that begins at a time or later."""
    line = next(line for line in events.lines if line.first <= row < line.last)
    return line.first + int(np.searchsorted(events.start_ps[line.first : line.last], time))


def _site(events: HostEvents, annotation: int, op: int) -> int:
    """The annotation, else the innermost function around the op whose line of source is recorded, else the op."""
    at = annotation if annotation >= 0 else int(enclosing(events)[op])
    while at >= 0 and annotation < 0 and not has_line(events.names[events.meta[at]]):
        at = int(enclosing(events)[at])
    return at if at >= 0 else op
