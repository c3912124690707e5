"""Where the thread of the backward pass takes over from the thread that waits for it, and where it hands back::

    main        [forward ops]                            [optimizer]
                             \\ 0                        / 0
    autograd                  [backward ops            ]

HolisticTraceAnalysis 0.6 takes both threads as one, if it knows them by their names: ops that do not overlap
follow each other then, as here.
"""

from __future__ import annotations

import numpy as np

from fastprof.derive.devices.kineto_categories import ANNOTATIONS, OPS, is_of
from fastprof.derive.ops.autograd import backward_names, forward_ops
from fastprof.derive.ops.streams.path_nodes import PathNodes
from fastprof.schema.array_types import Bools, Int64s
from fastprof.schema.time_sums import ends_of
from fastprof.tables.host_events import HostEvents

_FORWARD = "forward"


def hand_overs(events: HostEvents, nodes: PathNodes) -> tuple[Int64s, Int64s]:
    """Return pairs of ops, as places in ``nodes.ops``: the second waits on its thread for the end of the first."""
    is_backward = backward_names(events)[events.meta[nodes.ops]] > 0
    waiting = _waiting_line(events, nodes, is_backward) if is_backward.any() else None
    pairs = [(np.zeros(0, np.int64), np.zeros(0, np.int64))]
    if waiting is not None:
        start = events.start_ps[nodes.ops]
        end = ends_of(start, events.duration_ps[nodes.ops])
        main = _outermost(nodes, start, end, waiting)
        for line in np.unique(nodes.line[is_backward]).tolist():
            if line != waiting:
                theirs = _outermost(nodes, start, end, line)
                pairs += [_followed(start, end, main, theirs), _followed(start, end, theirs, main)]
    before, after = zip(*pairs, strict=True)
    return np.concatenate(before), np.concatenate(after)


def _waiting_line(events: HostEvents, nodes: PathNodes, is_backward: Bools) -> int | None:
    """Return the thread with most of the forward ops, else the only one that names an op or annotation so, else the
    only one beside those of the backward pass, or None."""
    lines, counts = np.unique(nodes.line[np.isin(nodes.ops, forward_ops(events))], return_counts=True)
    if len(lines):
        return int(lines[np.argmax(counts)])
    named = np.array([_FORWARD in name for name in events.names], bool) & is_of(events, OPS | ANNOTATIONS)
    rows = np.flatnonzero(named[events.meta])
    found = [line.number for line in events.lines if ((rows >= line.first) & (rows < line.last)).any()]
    beside = np.setdiff1d(nodes.line, nodes.line[is_backward]).tolist()
    return found[0] if len(found) == 1 else beside[0] if len(beside) == 1 else None


def _outermost(nodes: PathNodes, start: Int64s, end: Int64s, line: int) -> Int64s:
    """Return the places of a thread's ops that no other op is around, in order of time."""
    places: Int64s = np.flatnonzero(nodes.line == line)
    reached = np.maximum.accumulate(end[places])
    outer: Int64s = places[np.append(True, start[places[1:]] >= reached[:-1])[: len(places)]]
    return outer


def _followed(start: Int64s, end: Int64s, first: Int64s, second: Int64s) -> tuple[Int64s, Int64s]:
    """Return the ops of ``second`` before which an op of ``first`` ended last, and these before them."""
    at = np.searchsorted(end[first], start[second], side="right") - 1
    previous = np.append(np.iinfo(np.int64).min, end[second[:-1]])[: len(second)]
    switches = at >= 0
    switches[switches] = end[first[at[switches]]] >= previous[switches]
    return first[at[switches]], second[switches]
