"""The critical path of a window of a host: of all chains of ops, launches and kernels that follow from each other, the
one that takes longest."""

from __future__ import annotations

from typing import Final

import numpy as np

from fastprof._native.cause_kernels import longest_path
from fastprof._native.pipeline_kernels import nearest_marked
from fastprof.derive.ops.streams.path_edges import (
    BREAK,
    HOST,
    LAUNCH,
    NEXT,
    WAIT,
    PathEdges,
    path_edges,
)
from fastprof.derive.ops.streams.path_nodes import PathNodes, Window, path_nodes
from fastprof.derive.steps.enclosing import enclosing
from fastprof.schema.array_types import Int64s, UInt8s
from fastprof.schema.time_sums import ends_of
from fastprof.schema.value_classes import dataclass
from fastprof.tables.host_events import HostEvents

_OF_ITS_END: Final = (LAUNCH, BREAK, NEXT, WAIT)
"""Kinds of edges that belong to the op or kernel which they lead to."""


@dataclass(frozen=True, slots=True, eq=False)
class CriticalPath:
    """By edge of the path, in its order: ``kind`` of path_edges.KINDS, ``row`` of the op or kernel that it belongs to,
    when it begins and how long it takes. ``length_ps``: of all. ``nodes``, ``cut``: begins and ends that were examined,
    and edges that contradict others in circles. ``waits``, ``launches``: whether waits, and calls that launched
    most of what GPUs ran, are recorded in the window."""

    window: Window
    kind: UInt8s
    row: Int64s
    start_ps: Int64s
    time_ps: Int64s
    length_ps: int
    nodes: int
    cut: int
    waits: bool
    launches: bool


def critical_path(events: HostEvents, window: Window, marks: Int64s) -> CriticalPath:
    """The longest path. Of several as long as each other, one."""
    nodes = path_nodes(events, window, marks)
    edges = path_edges(events, nodes)
    time = _times(events, nodes)
    rank = np.empty(len(time), np.int32)
    rank[np.argsort(time, kind="stable")] = np.arange(len(time), dtype=np.int32)
    reach, via = np.zeros(len(time), np.int64), np.zeros(len(time), np.int32)
    cut = longest_path(rank[edges.begin], rank[edges.end], edges.weight, reach, via)
    path = edges[_walk(edges, rank, reach, via)]
    row = _rows(events, nodes, path)
    length = int(reach.max(initial=0))
    waits, called = bool((nodes.wait_call >= 0).any()), nodes.ran.call >= 0
    launches = bool(2 * np.count_nonzero(called) > len(called))
    return CriticalPath(window, path.kind, row, time[path.begin], path.weight, length, len(time), cut, waits, launches)


def _times(events: HostEvents, nodes: PathNodes) -> Int64s:
    start = events.start_ps[nodes.ops]
    times = np.empty((len(nodes.ops) + len(nodes.ran), 2), np.int64)
    times[:, 0] = np.concatenate([start, nodes.ran.start_ps])
    times[:, 1] = np.concatenate([ends_of(start, events.duration_ps[nodes.ops]), nodes.ran.end_ps])
    return times.reshape(-1)


def _walk(edges: PathEdges, rank: np.ndarray, reach: Int64s, via: np.ndarray) -> Int64s:
    """The edges of the path, from its end back to where it began."""
    found = []
    at = int(np.argmax(reach)) if len(reach) else 0
    while len(reach) and (edge := int(via[at])) >= 0:
        found.append(edge)
        at = int(rank[edges.begin[edge]])
    return np.array(found[::-1], np.int64)


def _rows(events: HostEvents, nodes: PathNodes, path: PathEdges) -> Int64s:
    """What each edge belongs to: along a thread the innermost op that is open meanwhile."""
    rows = np.concatenate([nodes.ops, nodes.ran.row]).astype(np.int64)
    of_end = np.isin(path.kind, _OF_ITS_END) | (path.begin % 2 == 1)
    found: Int64s = rows[np.where(of_end, path.end, path.begin) // 2]
    between = np.flatnonzero((path.kind == HOST) & (path.begin % 2 == 1) & (path.end % 2 == 0))
    is_op = np.zeros(len(events), np.uint8)
    is_op[nodes.ops] = 1
    parent, nearest = enclosing(events), np.empty(len(events), np.int32)
    nearest_marked(parent, is_op, 1, nearest)
    above = np.append(nearest, -1)[parent[found[between]]]  # the last where nothing is around
    found[between] = np.where(above >= 0, above, found[between])
    return found
