"""XProf's page framework_op_stats: the 500 most expensive framework ops of devices and of hosts, with and without idle
time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from fastprof.analyses.contract import AnalysisReport
from fastprof.analyses.op_stats import DEVICE, HOST, OpDatabase
from fastprof.derive.devices.device_peaks import Peaks
from fastprof.derive.ops.op_columns import is_training
from fastprof.derive.ops.op_table import MemoryAccess, RankedOps, rank_with_idle
from fastprof.xprof import counted_ops
from fastprof.xprof.counted_ops import Cells, find_eager, make_op_cells, merge_framework_ops
from fastprof.xprof.pages.data_table import join_columns, number, text
from fastprof.xprof.pages.kernel_stats import sum_by_op

KEEPS = counted_ops.DEVICE_OPS_KEEPS | counted_ops.HOST_OPS_KEEPS
MOST_OPS = 500
"""Number of ops of devices, and of hosts; idle time is one of them, even if it is then left out."""

_COLUMNS = (
    number("rank", "Rank"),
    text("host_or_device", "Host/device"),
    text("type", "Operation Type"),
    text("operation", "Operation Name"),
    number("occurrences", "#Occurrences"),
    number("total_time", "Total time (us)"),
    number("avg_time", "Avg. time (us)"),
    number("total_self_time", "Total self-time (us)"),
    number("avg_self_time", "Avg. self-time (us)"),
    number("device_total_self_time_percent", "Total self-time on Device (%)"),
    number("device_cumulative_total_self_time_percent", "Cumulative total-self time on Device (%)"),
    number("host_total_self_time_percent", "Total self-time on Host (%)"),
    number("Host_cumulative_total_self_time_percent", "Cumulative total-self time on Host (%)"),
    number("measured_flop_rate", "Normalized FLOP Rate (FLOPs/s)"),
    number("model_flop_rate", "Model FLOP Rate (GFLOP/s)"),
    number("measured_memory_bw", "Measured Memory BW (GBytes/Sec)"),
    number("operational_intensity", "Operational Intensity (FLOPs/Byte)"),
    number("gpu_tensorcore_utilization", "GPU TensorCore utilization"),
    text("bound_by", "Bound by"),
    text("eager", "Execution mode"),
)
_TENSOR_CORES = "gpu_tensorcore_utilization"
_SHARES = {
    DEVICE: ("device_total_self_time_percent", "device_cumulative_total_self_time_percent"),
    HOST: ("host_total_self_time_percent", "Host_cumulative_total_self_time_percent"),
}
"""Columns of the share of an op and of the cumulative share, by side."""


def answer(report: AnalysisReport) -> object:
    session = report.detail_as(OpDatabase)
    device = counted_ops.get_device_ops(report)
    table = merge_framework_ops(device.table)
    eager = find_eager(device.table)
    is_eager = np.array([eager[name] for name in table.name], bool)
    table = replace(table, is_eager=is_eager, memory=MemoryAccess.none())
    sides = {
        DEVICE: rank_with_idle(replace(device, table=table)),
        HOST: rank_with_idle(counted_ops.get_host_ops(report)),
    }
    tensor_cores = None
    peaks = counted_ops.combine_peaks(session.devices)
    if peaks is not None and peaks.hardware == "GPU":
        kernels = sum_by_op(report.after["kernel_stats"])
        tensor_cores = {name: op.tensor_core_ns / op.total_ns for name, op in kernels.items() if op.total_ns}
    return [_make_table(sides, peaks, tensor_cores, with_idle=with_idle) for with_idle in (True, False)]


def _make_table(
    sides: Mapping[str, RankedOps], peaks: Peaks | None, tensor_cores: Mapping[str, float] | None, *, with_idle: bool
) -> object:
    device = _make_cells(DEVICE, sides[DEVICE], peaks, with_idle=with_idle)
    host = _make_cells(HOST, sides[HOST], None, with_idle=with_idle)
    device[_TENSOR_CORES] = [(tensor_cores or {}).get(name, 0.0) for name in device["operation"]]
    cells = {name: [*device[name], *host[name]] for name in device}
    cells["rank"] = list(range(1, len(cells["operation"]) + 1))
    columns = [column for column in _COLUMNS if tensor_cores is not None or column.id != _TENSOR_CORES]
    kind = "Training" if is_training(zip(cells["operation"], cells["type"], strict=True)) else "Inference"
    properties = {"architecture_type": "Unknown", "task_type": kind}
    return join_columns([(column, cells[column.id]) for column in columns], properties)


def _make_cells(side: str, ops: RankedOps, peaks: Peaks | None, *, with_idle: bool) -> Cells:
    """Make the cells of one side; tensor cores and shares of the other side are 0."""
    rows = np.arange(min(len(ops), MOST_OPS))
    if not with_idle:
        rows = rows[~ops.is_idle[rows]]
    share, running = (
        (ops.self_share, ops.cumulative_self_share) if with_idle else (ops.busy_share, ops.cumulative_busy_share)
    )
    table = ops.table.take(rows)
    zeros = np.zeros(len(rows))
    cells = make_op_cells(table, peaks) | {
        "type": table.category,
        "host_or_device": [side] * len(rows),
        "eager": ["Eager" if is_eager else "Function" for is_eager in table.is_eager.tolist()],
        "rank": zeros,
        _TENSOR_CORES: zeros,
    }
    for name, ids in _SHARES.items():
        values = (share[rows], running[rows]) if name == side else (zeros, zeros)
        cells |= zip(ids, map(np.nan_to_num, values), strict=True)
    return cells
