"""The work of kernels that PyTorch's products of matrices, convolutions and attention launched.

A call may launch several kernels, as one that changes the layout before one that multiplies. The longest does the work,
or if the call computes several products, as gradients of input and weight, that number of the longest.

    aten::convolution_backward   |------------------|
    GPU                              |=wgrad=|  |nchwToNhwc|  |==dgrad==|        a product each for wgrad and dgrad
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fastprof.derive.devices.kineto_categories import ARGUMENTS
from fastprof.derive.ops.gpu_ops import GpuOpEvents
from fastprof.derive.ops.kernel_names import copy_category
from fastprof.derive.ops.stat_values import distinct_rows, stat_beside
from fastprof.derive.ops.tables import FROM_SHAPES, OpTable
from fastprof.derive.ops.torch_arguments import Call, Unknown, Work
from fastprof.derive.ops.torch_calls import OpsAround
from fastprof.derive.ops.torch_work import GRADIENTS, OLD_BACKWARD, PRODUCTS, outputs_of, work_of
from fastprof.schema.array_types import Bools, Int32s, Int64s
from fastprof.tables.host_events import HostEvents
from fastprof.tables.once import once


@once
def _copies(events: HostEvents) -> Bools:
    """By name of events, whether it is one of copies or fills."""
    return np.array([bool(copy_category(name)) for name in events.names], bool)


def with_work_of_calls(table: OpTable, events: HostEvents, found: GpuOpEvents, rows: Int64s, op: Int32s) -> OpTable:
    """The ops of these events of a GPU with the work of calls. ``op``: beside each event the row of its op, which
    ``found`` names. An op has known work if all its calls have."""
    multiplies = np.array([one.provenance in PRODUCTS and not one.is_hlo for one in found.ops] + [False], bool)
    mine = np.flatnonzero(multiplies[found.op[rows]] & ~_copies(events)[events.meta[rows]])
    if not len(mine):
        return table
    rows, op, count = rows[mine], op[mine], len(table)
    around = OpsAround(events)
    calls, of_call = np.unique(around.launching(rows), return_inverse=True)
    works, reasons = _of_calls(events, _with_shapes(events, around, calls))
    part = np.array([(0, 0, 0) if isinstance(one, int) else (one.flops, one.bytes, one.products) for one in works])
    reason = np.array([one if isinstance(one, int) else -1 for one in works], np.int32)[of_call]
    flops, moved, products = part.reshape(-1, 3)[of_call].T
    times = _products(of_call, events.duration_ps[rows], products)
    lacks = np.bincount(op, reason >= 0, count) > 0
    is_known = (np.bincount(op, minlength=count) > 0) & ~lacks
    has_bytes = is_known & (np.bincount(op, (times > 0) & (moved == 0), count) == 0)
    sums, sizes = (np.bincount(op, (one * times).astype(np.float64), count) for one in (flops, moved))
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


def _with_shapes(events: HostEvents, around: OpsAround, calls: Int64s) -> Int64s:
    """The calls, instead of those of a single gradient what calls them and has all shapes."""
    known = np.flatnonzero(calls >= 0)
    above = around.op_of(calls[known])
    has = np.array([name == OLD_BACKWARD for name in events.names] + [False], bool)
    shapes = calls.copy()
    shapes[known] = np.where(has[np.where(above >= 0, events.meta[above], -1)], above, calls[known])
    return shapes


def _products(call: Int64s, duration_ps: Int64s, products: Int64s) -> Int64s:
    """How many products each kernel computes: the longest of a call one each, and the longest what is left over."""
    order = np.lexsort((-duration_ps, call))
    sizes = np.bincount(call)
    rank = np.empty(len(call), np.int64)
    rank[order] = np.arange(len(call)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    left = np.maximum(products - sizes[call], 0)
    return (rank < products).astype(np.int64) + np.where(rank == 0, left, 0)


def _of_calls(events: HostEvents, rows: Int64s) -> tuple[list[Work | int], tuple[str, ...]]:
    """The work of calls of ops, or the place in the reasons of why it is not known. Row -1: none is recorded."""
    known = rows >= 0
    texts, number = _texts(events, rows[known])
    backward = np.array([name in GRADIENTS for name in events.names], bool)
    outputs = outputs_of(_texts(events, np.flatnonzero(backward[events.meta]))[0])
    works: list[Work | int] = []
    reasons = {"the call that launched it is not recorded": 0}
    for call in texts:
        try:
            works.append(work_of(call, outputs))
        except Unknown as unknown:
            works.append(reasons.setdefault(f"{call.op}: {unknown}", len(reasons)))
    every: list[Work | int] = [0] * len(rows)
    for row, place in zip(np.flatnonzero(known).tolist(), number.tolist(), strict=True):
        every[row] = works[place]
    return every, tuple(reasons)


def _texts(events: HostEvents, rows: Int64s) -> tuple[list[Call], Int32s]:
    """The distinct calls of these rows, and the place of that of each row."""
    columns = [stat_beside(*events.texts(name), rows) for name in ARGUMENTS]
    columns.append(events.meta[rows].astype(np.int64))
    first, number = distinct_rows(columns)
    calls = []
    for at in first.tolist():
        dims, old, types, values = (int(column[at]) for column in columns[:-1])
        text = [events.text(one) if one >= 0 else "" for one in (max(dims, old), types, values)]
        calls.append(Call(events.names[events.meta[rows[at]]], *text))
    return calls, number
