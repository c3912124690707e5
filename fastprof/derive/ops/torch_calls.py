"""Calls of PyTorch's ops: what GPUs ran for them, and the work of the kernels that they launched.

An op launches kernels itself, or an op that it calls does::

     aten::linear     |------------------|
     aten::addmm        |-------------|
     launch                 |-|               aten::addmm launches the kernel itself; aten::linear in all
     GPU                           |==sgemm==|

A call may launch several kernels, as one that changes the layout before one that multiplies. The longest does the
work, or if the call computes several products, as gradients of input and weight, that number of the longest.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

import numpy as np

from fastprof.derive.devices.op_names import ARGUMENTS, is_kineto, may_launch
from fastprof.derive.ops.gpu_kernels import classify_copy
from fastprof.derive.ops.gpu_ops import GpuOpEvents
from fastprof.derive.ops.launches import find_launchers
from fastprof.derive.ops.op_table import FROM_SHAPES, OpTable
from fastprof.derive.ops.stat_columns import join_stat_values
from fastprof.derive.ops.torch_work import (
    GRADIENTS,
    OLD_BACKWARD,
    PRODUCTS,
    TorchCall,
    TorchWork,
    UnknownWork,
    compute_call_work,
    index_outputs,
)
from fastprof.derive.steps.device_steps import is_derived
from fastprof.derive.steps.spans import find_enclosing
from fastprof.schema.columns import Bools, Int32s, Int64s, number_distinct_rows, number_values, sort_rows, sum_by
from fastprof.schema.value_classes import dataclass
from fastprof.tables.host_events import HostEvents, compute_once


@dataclass(frozen=True, slots=True)
class LaunchedTime:
    """What all calls of ops of a name launched: ``own_ps`` themselves, ``total_ps`` with the ops that they call. What
    an op launches through another of its name counts once."""

    own_ps: int
    total_ps: int


def sum_launched_by_name(events: HostEvents) -> Mapping[str, LaunchedTime] | None:
    """By name of the ops of a host; None: they are not PyTorch's, or the host has no GPU. Ops that are not here
    launched nothing."""
    gpus = events.planes_of("GPU")
    if not gpus or not is_kineto(events):
        return None
    lines = [line for plane in gpus for line in plane.lines if not is_derived(line)]
    rows = np.concatenate([np.zeros(0, np.int64), *(np.arange(line.first, line.last) for line in lines)])
    around, pairs = OpsAround(events), []
    at = around.launching(rows)
    rows, at = rows[at >= 0], at[at >= 0]
    kernel, count = np.arange(len(rows)), len(events.names)
    while len(at):
        pairs.append(kernel * count + events.meta[at])
        at = around.op_of(at)
        kernel, at = kernel[at >= 0], at[at >= 0]
    own = _sum_times(events, rows, pairs[0] if pairs else kernel, count)
    every = np.unique(np.concatenate([kernel, *pairs]))  # an op may call another of its name
    total = _sum_times(events, rows, every, count)
    launched: dict[str, LaunchedTime] = {}
    for meta in np.flatnonzero(total).tolist():
        known = launched.get(events.names[meta], NOTHING)
        launched[events.names[meta]] = LaunchedTime(known.own_ps + int(own[meta]), known.total_ps + int(total[meta]))
    return launched


def _sum_times(events: HostEvents, rows: Int64s, pairs: Int64s, count: int) -> Int64s:
    """By name of the op, the time of rows. ``pairs``: place of the row * ``count`` + name."""
    return sum_by(pairs % count, events.duration_ps[rows[pairs // count]], count)


NOTHING: Final = LaunchedTime(0, 0)


class OpsAround:
    """Finds the innermost op around events."""

    def __init__(self, events: HostEvents) -> None:
        self._events = events
        self._parent = find_enclosing(events)
        self._is_op: Bools = may_launch(events)[events.meta]

    def launching(self, rows: Int64s) -> Int64s:
        """The innermost op that launched each of these rows of a GPU; -1: it is unknown."""
        op = find_launchers(self._events, rows).astype(np.int64)
        inside = np.flatnonzero((op >= 0) & ~self._is_op[op])
        op[inside] = self.op_of(op[inside])
        return op

    def op_of(self, rows: Int64s) -> Int64s:
        """-1: none is."""
        at = self._parent[rows].astype(np.int64)
        while True:
            passed = np.flatnonzero(at >= 0)
            passed = passed[~self._is_op[at[passed]]]
            if not len(passed):
                return at
            at[passed] = self._parent[at[passed]]


def merge_launched(hosts: Iterable[Mapping[str, LaunchedTime] | None]) -> Mapping[str, LaunchedTime] | None:
    """The sums of all hosts; None: no host has a GPU."""
    every = [host for host in hosts if host is not None]
    merged: dict[str, LaunchedTime] = {}
    for launched in every:
        for name, more in launched.items():
            known = merged.get(name, NOTHING)
            merged[name] = LaunchedTime(known.own_ps + more.own_ps, known.total_ps + more.total_ps)
    return merged if every else None


@compute_once
def _mark_copies(events: HostEvents) -> Bools:
    """By name of events, whether it is one of copies or fills."""
    return np.array([bool(classify_copy(name)) for name in events.names], bool)


def fill_work_of_calls(table: OpTable, events: HostEvents, op_events: GpuOpEvents, rows: Int64s, op: Int32s) -> OpTable:
    """The ops of these events of a GPU with the work of calls. ``op``: beside each event the row of its op, which
    ``found`` names. An op has known work if all its calls have."""
    multiplies = np.array(
        [named.provenance in PRODUCTS and not named.is_hlo for named in op_events.ops] + [False], bool
    )
    mine = np.flatnonzero(multiplies[op_events.op[rows]] & ~_mark_copies(events)[events.meta[rows]])
    if not len(mine):
        return table
    rows, op, count = rows[mine], op[mine], len(table)
    around = OpsAround(events)
    calls, of_call = number_values(around.launching(rows))
    works, reasons = _compute_work_of_calls(events, _find_calls_with_shapes(events, around, calls))
    part = np.array([(0, 0, 0) if isinstance(work, int) else (work.flops, work.bytes, work.products) for work in works])
    reason = np.array([work if isinstance(work, int) else -1 for work in works], np.int32)[of_call]
    flops, moved, products = part.reshape(-1, 3)[of_call].T
    times = _count_products(of_call, events.duration_ps[rows], products)
    lacks = np.bincount(op, reason >= 0, count) > 0
    is_known = (np.bincount(op, minlength=count) > 0) & ~lacks
    has_bytes = is_known & (np.bincount(op, (times > 0) & (moved == 0), count) == 0)
    sums, sizes = (np.bincount(op, (amount * times).astype(np.float64), count) for amount in (flops, moved))
    why = [""] * count
    for row, place in zip(op[reason >= 0].tolist(), reason[reason >= 0].tolist(), strict=True):
        why[row] = why[row] or reasons[place]
    return replace(
        table,
        flops=np.where(is_known, sums, table.flops),
        model_flops=np.where(is_known, sums, table.model_flops),
        bytes_accessed=np.where(has_bytes, sizes, table.bytes_accessed),
        flops_source=np.where(is_known, FROM_SHAPES, table.flops_source).astype(np.uint8),
        bytes_source=np.where(has_bytes & (sizes > 0), FROM_SHAPES, table.bytes_source).astype(np.uint8),
        no_work=why,
    )


def _find_calls_with_shapes(events: HostEvents, around: OpsAround, calls: Int64s) -> Int64s:
    """The calls, instead of those of a single gradient what calls them and has all shapes."""
    known = np.flatnonzero(calls >= 0)
    above = around.op_of(calls[known])
    has = np.array([name == OLD_BACKWARD for name in events.names] + [False], bool)
    shapes = calls.copy()
    shapes[known] = np.where(has[np.where(above >= 0, events.meta[above], -1)], above, calls[known])
    return shapes


def _count_products(call: Int64s, duration_ps: Int64s, products: Int64s) -> Int64s:
    """How many products each kernel computes: the longest of a call one each, and the longest what is left over."""
    order = sort_rows(call, -duration_ps)
    sizes = np.bincount(call)
    rank = np.empty(len(call), np.int64)
    rank[order] = np.arange(len(call)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    left = np.maximum(products - sizes[call], 0)
    return (rank < products).astype(np.int64) + np.where(rank == 0, left, 0)


def _compute_work_of_calls(events: HostEvents, rows: Int64s) -> tuple[list[TorchWork | int], tuple[str, ...]]:
    """The work of calls of ops, or the place in the reasons of why it is not known. Row -1: none is recorded."""
    known = rows >= 0
    texts, number = _read_calls(events, rows[known])
    backward = np.array([name in GRADIENTS for name in events.names], bool)
    outputs = index_outputs(_read_calls(events, np.flatnonzero(backward[events.meta]))[0])
    works: list[TorchWork | int] = []
    reasons = {"the call that launched it is not recorded": 0}
    for call in texts:
        try:
            works.append(compute_call_work(call, outputs))
        except UnknownWork as unknown:
            works.append(reasons.setdefault(f"{call.op}: {unknown}", len(reasons)))
    every: list[TorchWork | int] = [0] * len(rows)
    for row, place in zip(np.flatnonzero(known).tolist(), number.tolist(), strict=True):
        every[row] = works[place]
    return every, tuple(reasons)


def _read_calls(events: HostEvents, rows: Int64s) -> tuple[list[TorchCall], Int32s]:
    """The distinct calls of these rows, and the place of that of each row."""
    columns = [join_stat_values(*events.texts(name), rows) for name in ARGUMENTS]
    columns.append(events.meta[rows].astype(np.int64))
    first, number = number_distinct_rows(columns)
    calls = []
    for at in first.tolist():
        dims, old, types, values = (int(column[at]) for column in columns[:-1])
        text = [events.text(argument) if argument >= 0 else "" for argument in (max(dims, old), types, values)]
        calls.append(TorchCall(events.names[events.meta[rows[at]]], *text))
    return calls, number
