"""XProf's page framework_op_stats: the 500 most expensive framework ops of devices and of hosts, with and without idle
time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from fastprof.analyses.contract import Report
from fastprof.analyses.op_stats import DEVICE, HOST, OpDatabase
from fastprof.derive.devices.devices import Peaks
from fastprof.derive.ops.framework import is_training
from fastprof.derive.ops.ranking import Ranked, ranked
from fastprof.derive.ops.roofline import GIBI, Rates, rates
from fastprof.derive.ops.tables import MemoryAccess, Ops
from fastprof.xprof import device_ops, host_ops
from fastprof.xprof.op_sums import by_framework_op, last_is_eager
from fastprof.xprof.pages.data_table import Cell, data_table, number, text
from fastprof.xprof.pages.kernel_stats import by_op

KEEPS = device_ops.KEEPS | host_ops.KEEPS
MOST_OPS = 500
"""Of devices, and of hosts; idle time is one of them, even where it is then left out."""

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


def answer(report: Report) -> object:
    found = report.detail_as(OpDatabase)
    sides = {DEVICE: _ranked(device_ops.of_session(report)), HOST: ranked(host_ops.of_session(report))}
    tensor_cores = None
    peaks = device_ops.peaks_of(found.devices)
    if peaks is not None and peaks.hardware == "GPU":
        kernels = by_op(report.after["kernel_stats"])
        tensor_cores = {name: op.tensor_core_ns / op.total_ns for name, op in kernels.items() if op.total_ns}
    return [_table(sides, peaks, tensor_cores, with_idle=with_idle) for with_idle in (True, False)]


def _ranked(device: Ops) -> Ranked:
    """By framework op, of which the last instruction says whether it is eager. All bytes count as those of HBM."""
    table = by_framework_op(device.table)
    eager = last_is_eager(device.table)
    is_eager = np.array([eager[name] for name in table.name], bool)
    table = replace(table, is_eager=is_eager, memory=MemoryAccess.none())
    return ranked(replace(device, table=table))


def _table(
    sides: Mapping[str, Ranked], peaks: Peaks | None, tensor_cores: Mapping[str, float] | None, *, with_idle: bool
) -> object:
    columns = [column for column in _COLUMNS if tensor_cores is not None or column.id != _TENSOR_CORES]
    rows: list[list[Cell]] = []
    ops: list[tuple[str, str]] = []
    for side, ranking in sides.items():
        rate = rates(ranking.table, peaks if side == DEVICE else None)
        for row in range(min(len(ranking), MOST_OPS)):
            if ranking.is_idle[row] and not with_idle:
                continue
            cells = _cells(side, ranking, row, rate, with_idle=with_idle)
            cells["rank"] = len(rows) + 1
            cells[_TENSOR_CORES] = (tensor_cores or {}).get(ranking.table.name[row], 0.0) if side == DEVICE else 0.0
            rows.append([cells[column.id] for column in columns])
            ops.append((ranking.table.name[row], ranking.table.category[row]))
    kind = "Training" if is_training(ops) else "Inference"
    return data_table(columns, rows, {"architecture_type": "Unknown", "task_type": kind})


def _cells(side: str, ops: Ranked, row: int, rate: Rates, *, with_idle: bool) -> dict[str, Cell]:
    table = ops.table
    share, running = (
        (ops.self_share, ops.cumulative_self_share) if with_idle else (ops.busy_share, ops.cumulative_busy_share)
    )
    shares = [0.0 if np.isnan(part[row]) else float(part[row]) for part in (share, running)]
    device, host = (shares, [0.0, 0.0]) if side == DEVICE else ([0.0, 0.0], shares)
    occurrences = int(table.occurrences[row])
    total_us, self_us = int(table.time_ps[row]) / 1e6, int(table.self_ps[row]) / 1e6
    return {
        "host_or_device": side,
        "type": table.category[row],
        "operation": table.name[row],
        "occurrences": occurrences,
        "total_time": total_us,
        "avg_time": total_us / occurrences if occurrences else 0.0,
        "total_self_time": self_us,
        "avg_self_time": self_us / occurrences if occurrences else 0.0,
        "device_total_self_time_percent": device[0],
        "device_cumulative_total_self_time_percent": device[1],
        "host_total_self_time_percent": host[0],
        "Host_cumulative_total_self_time_percent": host[1],
        "measured_flop_rate": float(rate.gflops[row]),
        "model_flop_rate": float(rate.model_gflops[row]),
        "measured_memory_bw": float(rate.gigabytes[row]) / GIBI,
        "operational_intensity": float(rate.intensity[row]),
        "bound_by": rate.bound_by[row],
        "eager": "Eager" if table.is_eager[row] else "Function",
    }
