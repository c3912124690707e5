"""Ops of host threads by where they are called: an op of Python code is a node for each stack of calls around it.

thread   |-- train.py(9): main ------------------------------------|
           |-- nn.Module: Net_0 ------------|  |-- aten::add -|         aten::add    called by main
             |-- nn.Module: Linear_0 ---|
               |-- aten::linear --|                                     Net_0/Linear_0/aten::linear
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fastprof._native.op_kernels import self_times
from fastprof.decode.nesting import line_rows
from fastprof.derive.devices.op_names import is_frame
from fastprof.derive.ops.call_tree import call_tree, nearest
from fastprof.derive.ops.gpu_ops import programs
from fastprof.derive.ops.host_ops import XLA_OP, ThreadOps
from fastprof.derive.ops.tables import DURATIONS, sums_by
from fastprof.derive.steps.enclosing import enclosing
from fastprof.derive.steps.python_frames import frame_of, has_line
from fastprof.schema.array_types import Int32s, Int64s
from fastprof.schema.value_classes import dataclass
from fastprof.tables.host_events import HostEvents

if TYPE_CHECKING:
    from fastprof.derive.ops.device_ops import OpHost

_MODULE = "nn.Module: "


@dataclass(frozen=True, slots=True)
class CodeFrame:
    """A call in a stack: the function, and the line that is known of it; 0: none."""

    file: str
    line: int
    function: str


Stack = tuple[CodeFrame, ...]
"""The outermost call first."""


@dataclass(frozen=True, slots=True)
class HostNode:
    """An op and where it is called. ``modules``: those of PyTorch around it, outermost first. ``program_id``: of an
    instruction of a compiled program."""

    name: str
    type: str
    modules: tuple[str, ...]
    stack: Stack
    program_id: int | None
    calls: int
    self_ps: int


@dataclass(frozen=True, slots=True)
class HostNodes:
    """``of_row``: by row of the host's events the place of its op in ``each``, of several the first; -1: none. ``rows``
    and ``node``: the occurrences."""

    each: list[HostNode]
    of_row: Int32s
    rows: Int64s
    node: Int64s


def host_nodes(host: OpHost) -> HostNodes:
    """CaptureError: times do not add up in 64 bits."""
    events = host.events
    threads = ThreadOps(events, host.is_eager, host.workers)
    rows, op, counts = threads.occurrences()
    self_ps = np.empty(len(rows), np.int64)
    start, duration = events.start_ps[rows], np.maximum(events.duration_ps[rows], 0)
    self_times(start, duration, line_rows(counts, np.cumsum(counts) - counts), self_ps, None)
    sites, site = _sites(events, rows)
    is_compiled = np.array([kind == XLA_OP for _, _, kind in threads.keys], bool)
    program = np.where(np.append(is_compiled, False)[op], programs(events)[1][rows], 0)
    keys = np.stack([op, site, program])
    every, first, node = np.unique(keys, axis=1, return_index=True, return_inverse=True)
    order = np.argsort(first, kind="stable")
    place = np.argsort(order)[node.reshape(-1)]
    count = len(order)
    calls, own = np.bincount(place, minlength=count).tolist(), sums_by(place, self_ps, count, DURATIONS).tolist()
    each = []
    for at, (number, where, program_id) in enumerate(every.T[order].tolist()):
        _, name, kind = threads.keys[number]
        modules, stack = sites[where]
        each.append(
            HostNode(name, kind, modules, stack, program_id if is_compiled[number] else None, calls[at], own[at])
        )
    of_row = np.full(len(events), -1, np.int32)
    of_row[rows[::-1]] = place[::-1]
    return HostNodes(each, of_row, rows, place)


def _sites(events: HostEvents, rows: Int64s) -> tuple[list[tuple[tuple[str, ...], Stack]], Int64s]:
    """The modules and stacks around these rows, and which each has. Stacks that differ only in calls of compiled
    functions are one."""
    is_call = np.array([is_frame(name) for name in events.names], bool)[events.meta]
    frames = np.flatnonzero(is_call)
    if not len(frames) or not len(rows):
        return [((), ())], np.zeros(len(rows), np.int64)
    parent = enclosing(events).astype(np.int64)
    above = nearest(np.arange(len(parent)), parent, is_call)
    place = np.full(len(events) + 1, -1, np.int64)
    place[frames] = np.arange(len(frames))
    of_frames = place[np.append(above, -1)[parent[frames]]]
    tree, node = call_tree(
        of_frames, _depths(of_frames), events.meta[frames].astype(np.int64), np.zeros((len(frames), 1), np.int64)
    )
    around = np.append(node, -1)[place[np.append(above, -1)[parent[rows]]]]
    known: dict[tuple[tuple[str, ...], Stack], int] = {((), ()): 0}
    stacks: list[tuple[tuple[str, ...], Stack]] = []
    for up, label in zip(tree.parent.tolist(), tree.label.tolist(), strict=True):
        modules, stack = stacks[up] if up >= 0 else ((), ())
        name = events.names[label]
        if name.startswith(_MODULE):
            modules = (*modules, name.removeprefix(_MODULE))
        elif has_line(name):
            frame = frame_of(name)
            stack = (*stack, CodeFrame(frame.file, frame.line or 0, frame.function))
        stacks.append((modules, stack))
    number = np.array([known.setdefault(one, len(known)) for one in stacks] + [0], np.int64)
    return list(known), number[around]


def _depths(parent: Int64s) -> Int32s:
    """How many calls are around each; -1: none is."""
    depth = np.where(parent < 0, 0, 1).astype(np.int64)
    up = parent.copy()
    while (left := np.flatnonzero(up >= 0)).size:
        further = up[left]
        depth[left] += depth[further]
        up[left] = up[further]
    return depth.astype(np.int32)
