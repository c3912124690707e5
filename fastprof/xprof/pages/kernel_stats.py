"""XProf's page kernel_stats: the 1,000 kernels that took longest, in whole nanoseconds."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from fastprof.analyses.contract import AnalysisReport
from fastprof.derive.ops.gpu_kernels import KernelRow
from fastprof.xprof.pages.data_table import Cell, Col, boolean, join_columns, number, text

MOST_KERNELS = 1000

_COLUMNS: tuple[tuple[Col, Callable[[KernelRow], Cell]], ...] = (
    (text("kernel_name", "Kernel Name"), lambda row: row.kernel.name),
    (number("registers_per_thread", "Registers per thread"), lambda row: row.kernel.registers),
    (number("shmem_bytes", "Shared Mem bytes"),
     lambda row: (row.kernel.static_shared + row.kernel.dynamic_shared) % 2**32),
    (text("block_dim", "Block dim"), lambda row: ",".join(map(str, row.kernel.block))),
    (text("grid_dim", "Grid dim"), lambda row: ",".join(map(str, row.kernel.grid))),
    (number("occupancy_pct", "Theoretical Occupancy %"), lambda row: float(np.float32(row.launch.occupancy or 0.0))),
    (boolean("is_op_tensor_core_eligible", "Op is TensorCore eligible"), lambda row: row.kernel.could),
    (boolean("is_kernel_using_tensor_core", "Kernel uses TensorCore"), lambda row: row.kernel.uses),
    (text("op_name", "Op Name"), lambda row: row.kernel.op),
    (number("occurrences", "Occurrences"), lambda row: row.ns[0]),
    (number("total_duration_us", "Total Duration (μs)"), lambda row: row.ns[1] / 1000),
    (number("avg_duration_us", "Avg Duration (μs)"), lambda row: row.ns[1] // row.ns[0] / 1000),
    (number("min_duration_us", "Min Duration (μs)"), lambda row: row.ns[2] / 1000),
    (number("max_duration_us", "Max Duration (μs)"), lambda row: row.ns[3] / 1000),
)  # fmt: skip


class OpKernels(NamedTuple):
    """Kernels of an op among those of the page, in ns. ``could``: whether some of them could use tensor cores."""

    could: bool
    total_ns: int
    tensor_core_ns: int


def answer(report: AnalysisReport) -> object:
    rows = list_shown(report)
    columns = [(column, map(of, rows)) for column, of in _COLUMNS]
    return join_columns([(number("rank", "Rank"), range(1, len(rows) + 1)), *columns])


def list_shown(report: AnalysisReport) -> list[KernelRow]:
    """List the rows of the page: by time in whole nanoseconds, longest first."""
    rows: list[KernelRow] = [row for row in report.detail_as(list) if row.detailed and row.ns[0]]
    return sorted(rows, key=lambda row: (-row.ns[1], row.kernel))[:MOST_KERNELS]


def sum_by_op(report: AnalysisReport) -> dict[str, OpKernels]:
    """Return the sums that the pages overview_page and framework_op_stats take from this one, by op name."""
    ops: dict[str, OpKernels] = {}
    for row in list_shown(report):
        before = ops.get(row.kernel.op, OpKernels(row.kernel.could, 0, 0))
        tensor = row.ns[1] if row.kernel.uses else 0
        ops[row.kernel.op] = OpKernels(
            before.could or row.kernel.could, before.total_ns + row.ns[1], before.tensor_core_ns + tensor
        )
    return ops
