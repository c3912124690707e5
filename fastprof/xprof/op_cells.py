"""Cells that XProf's pages of ops share, by id of their column."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

from fastprof.derive.ops.roofline import GIBI, divided, rates
from fastprof.derive.ops.tables import OpTable

if TYPE_CHECKING:
    from fastprof.derive.devices.devices import Peaks

Cells = dict[str, Any]
"""By id of a column the cells of all rows: an array or a list."""


def op_cells(table: OpTable, peaks: Peaks | None) -> Cells:
    """Times in microseconds, rates in 10**9 flops and GiB a second; 0 where the divisor is 0."""
    rate = rates(table, peaks)
    total_us, self_us = table.time_ps / 1e6, table.self_ps / 1e6
    return {
        "category": table.category,
        "operation": table.name,
        "occurrences": table.occurrences,
        "total_time": total_us,
        "avg_time": divided(total_us, table.occurrences),
        "total_self_time": self_us,
        "avg_self_time": divided(self_us, table.occurrences),
        "dma_stall_percent": divided(table.dma_stall_ps, table.time_ps),
        "measured_flop_rate": rate.gflops,
        "model_flop_rate": rate.model_gflops,
        "measured_memory_bw": rate.gigabytes / GIBI,
        **{f"{name}_bw": speed / GIBI for name, speed in rate.memory.items()},
        "operational_intensity": rate.intensity,
        **{f"{name}_operational_intensity": of for name, of in rate.memory_intensity.items()},
        "bottleneck_operational_intensity": rate.bound_intensity,
        "bound_by": rate.bound_by,
    }


def program_ids(table: OpTable) -> list[str]:
    return [str(number % 2**64) for number in table.program_id.tolist()]


def source_infos(table: OpTable) -> list[str]:
    """Where in the source each op comes from, with the calls that lead there."""
    places = zip(table.source_file, table.source_line.tolist(), table.source_stack, strict=True)
    return [
        f"<div class='source-info-cell' title='{_escaped(stack)}'>{_escaped(file)}:{line}</div>"
        if file and line != -1
        else ""
        for file, line, stack in places
    ]


def _escaped(words: str) -> str:
    return escape(words).replace("&#x27;", "&#39;")
