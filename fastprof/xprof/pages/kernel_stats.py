"""XProf's page kernel_stats: the 1,000 kernels that took longest, in whole nanoseconds."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fastprof.analyses.contract import Report
from fastprof.analyses.kernel_stats import Row
from fastprof.xprof.pages.data_table import Cell, boolean, data_table, number, text

MOST_KERNELS = 1000

_COLUMNS = (
    number("rank", "Rank"),
    text("kernel_name", "Kernel Name"),
    number("registers_per_thread", "Registers per thread"),
    number("shmem_bytes", "Shared Mem bytes"),
    text("block_dim", "Block dim"),
    text("grid_dim", "Grid dim"),
    number("occupancy_pct", "Theoretical Occupancy %"),
    boolean("is_op_tensor_core_eligible", "Op is TensorCore eligible"),
    boolean("is_kernel_using_tensor_core", "Kernel uses TensorCore"),
    text("op_name", "Op Name"),
    number("occurrences", "Occurrences"),
    number("total_duration_us", "Total Duration (μs)"),
    number("avg_duration_us", "Avg Duration (μs)"),
    number("min_duration_us", "Min Duration (μs)"),
    number("max_duration_us", "Max Duration (μs)"),
)


class OpKernels(NamedTuple):
    """The kernels of an op among those of the page, in ns. ``could``: some of them could use tensor cores."""

    could: bool
    total_ns: int
    tensor_core_ns: int


def answer(report: Report) -> object:
    return data_table(_COLUMNS, [_row(rank, row) for rank, row in enumerate(shown(report), 1)])


def shown(report: Report) -> list[Row]:
    """Rows of the page: by time in whole nanoseconds, longest first."""
    rows: list[Row] = sorted(report.detail_as(list), key=lambda row: (-row.ns[1], row.kernel))
    return rows[:MOST_KERNELS]


def by_op(report: Report) -> dict[str, OpKernels]:
    """What the pages overview_page and framework_op_stats take from this one, by op name."""
    found: dict[str, OpKernels] = {}
    for row in shown(report):
        before = found.get(row.kernel.op, OpKernels(row.kernel.could, 0, 0))
        tensor = row.ns[1] if row.kernel.uses else 0
        found[row.kernel.op] = OpKernels(
            before.could or row.kernel.could, before.total_ns + row.ns[1], before.tensor_core_ns + tensor
        )
    return found


def _row(rank: int, row: Row) -> list[Cell]:
    kernel = row.kernel
    count, total, shortest, longest = row.ns
    return [
        rank,
        kernel.name,
        kernel.registers,
        (kernel.static_shared + kernel.dynamic_shared) % 2**32,
        ",".join(map(str, kernel.block)),
        ",".join(map(str, kernel.grid)),
        float(np.float32(row.launch.occupancy or 0.0)),
        kernel.could,
        kernel.uses,
        kernel.op,
        count,
        total / 1000,
        total // count / 1000,
        shortest / 1000,
        longest / 1000,
    ]
