"""XProf's page hlo_stats: every op of devices, the largest self time first, each with what SparseCores ran for it."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

import numpy as np
import numpy.typing as npt

from fastprof.analyses.contract import Report
from fastprof.analyses.hlo_stats import HloStats
from fastprof.derive.devices.devices import Peaks
from fastprof.derive.ops.op_columns import CORE_TYPES
from fastprof.derive.ops.op_marks import is_outside_compilation, is_rematerialized
from fastprof.derive.ops.ranking import by_cost
from fastprof.derive.ops.roofline import GIBI, divided, rates
from fastprof.derive.ops.tables import Ops, OpTable
from fastprof.xprof import device_ops
from fastprof.xprof.pages.data_table import Cell, data_table, number, text

KEEPS = device_ops.KEEPS
_COLUMNS = (
    number("rank", "Rank"),
    text("program_id", "Program id"),
    text("category", "HLO op category"),
    text("hlo_op_name", "HLO op name"),
    text("hlo_op_expression", "HLO op text"),
    text("tf_op_name", "Framework op name"),
    number("occurrences", "#Occurrences"),
    number("total_time", "Total time (us)"),
    number("avg_time", "Avg. time (us)"),
    number("total_self_time", "Total self time (us)"),
    number("avg_self_time", "Avg. self time (us)"),
    number("total_self_time_percent", "Total self time (%)"),
    number("cumulative_total_self_time_percent", "Cumulative total self time (%)"),
    number("dma_stall_percent", "%time stalled by DMA"),
    number("model_flop_rate", "Model GFLOP/s"),
    number("normalized_flop_rate", "Normalized GFLOP/s"),
    number("measured_memory_bw", "Measured memory BW (GiB/s)"),
    number("hbm_bw", "HBM BW (GiB/s)"),
    number("cmem_read_bw", "CMEM Read BW (GiB/s)"),
    number("cmem_write_bw", "CMEM Write BW (GiB/s)"),
    number("operational_intensity", "Operational intensity (FLOPS/Byte)"),
    text("bound_by", "Bound by"),
    text("hlo_rematerialization", "Rematerialization"),
    text("outside_compilation", "Outside Compilation"),
    text("autotuned", "Autotuned"),
    text("source_info", "Source Info"),
    text("core_type", "TPU core type"),
    text("parent_op_name", "Parent op name"),
    number("vdd_energy", "VDD Energy (J)"),
)
Columns = dict[str, list[Cell]]
"""By id."""


def answer(report: Report) -> object:
    found = report.detail_as(HloStats)
    return data_table(_COLUMNS, _rows(device_ops.of_session(report), device_ops.peaks_of(found.devices)))


def _rows(ops: Ops, peaks: Peaks | None) -> Iterator[tuple[Cell, ...]]:
    ranking = by_cost(ops)
    ran = np.flatnonzero(ranking.table.occurrences > 0).astype(np.int64)
    place = ranking.rows[ran].tolist()
    share = np.nan_to_num(ranking.self_share[ran])
    columns = _columns(ranking.table.take(ran), peaks) | {
        "rank": list(range(1, len(ran) + 1)),
        "total_self_time_percent": (100 * share).tolist(),
        "cumulative_total_self_time_percent": (100 * np.cumsum(share)).tolist(),
    }
    children = _children(ops, peaks)
    for row, cells in zip(place, _as_rows(columns), strict=True):
        yield cells
        yield from children.get(row, ())


def _children(ops: Ops, peaks: Peaks | None) -> dict[int, list[tuple[Cell, ...]]]:
    """What SparseCores ran, by the row of the op that they ran it for."""
    if ops.children is None or ops.parent is None:
        return {}
    ranking = by_cost(Ops(ops.children))
    ran = np.flatnonzero(ranking.table.occurrences > 0).astype(np.int64)  # not idle time
    parent = ops.parent[ranking.rows[ran]].tolist()
    names: list[Cell] = [ops.table.name[row] for row in parent]
    found: dict[int, list[tuple[Cell, ...]]] = {}
    columns = _columns(ranking.table.take(ran), peaks) | {"parent_op_name": names}
    for row, cells in zip(parent, _as_rows(columns), strict=True):
        found.setdefault(row, []).append(cells)
    return found


def _as_rows(columns: Columns) -> Iterator[tuple[Cell, ...]]:
    return zip(*(columns[column.id] for column in _COLUMNS), strict=True)


def _columns(table: OpTable, peaks: Peaks | None) -> Columns:
    """The columns of these ops; ranks and shares are 0."""
    rate = rates(table, peaks)
    count = len(table)
    zeros: list[Cell] = [0.0] * count
    blank: list[Cell] = [""] * count
    expressions = [long or name for long, name in zip(table.long_name, table.name, strict=True)]
    times = {"total": table.time_ps / 1e6, "total_self": table.self_ps / 1e6}
    memory = {name: (speed / GIBI).tolist() for name, speed in rate.memory.items()}
    return {
        "rank": zeros,
        "program_id": [str(number % 2**64) for number in table.program_id.tolist()],
        "category": list(table.category),
        "hlo_op_name": [text.partition(" = ")[0].removeprefix("%") for text in expressions],
        "hlo_op_expression": list(expressions),
        "tf_op_name": list(table.provenance),
        "occurrences": table.occurrences.tolist(),
        **{f"{name}_time": time.tolist() for name, time in times.items()},
        **{f"avg{name[5:]}_time": divided(time, table.occurrences).tolist() for name, time in times.items()},
        "total_self_time_percent": zeros,
        "cumulative_total_self_time_percent": zeros,
        "dma_stall_percent": divided(table.dma_stall_ps, table.time_ps).tolist(),
        "model_flop_rate": rate.model_gflops.tolist(),
        "normalized_flop_rate": rate.gflops.tolist(),
        "measured_memory_bw": (rate.gigabytes / GIBI).tolist(),
        "hbm_bw": memory["hbm"],
        "cmem_read_bw": memory["cmem_read"],
        "cmem_write_bw": memory["cmem_write"],
        "operational_intensity": rate.intensity.tolist(),
        "bound_by": list(rate.bound_by),
        "hlo_rematerialization": _yes_or_no(is_rematerialized(table)),
        "outside_compilation": _yes_or_no(is_outside_compilation(table)),
        "autotuned": ["No"] * count,
        "source_info": [source_info(table, row) for row in range(count)],
        "core_type": [CORE_TYPES.get(code, "") for code in table.core_type.tolist()],
        "parent_op_name": blank,
        "vdd_energy": table.energy_j.tolist(),
    }


def _yes_or_no(marked: npt.NDArray[np.bool_]) -> list[Cell]:
    return ["Yes" if one else "No" for one in marked.tolist()]


def source_info(table: OpTable, row: int) -> str:
    """Where in the source an op comes from, with the calls that lead there."""
    file, line = table.source_file[row], int(table.source_line[row])
    if not file or line == -1:
        return ""
    stack, place = (_escaped(one) for one in (table.source_stack[row], file))
    return f"<div class='source-info-cell' title='{stack}'>{place}:{line}</div>"


def _escaped(words: str) -> str:
    return escape(words).replace("&#x27;", "&#39;")
