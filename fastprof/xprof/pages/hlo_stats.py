"""XProf's page hlo_stats: every op of devices, the largest self time first, each with the ops that SparseCores ran for
it."""

from __future__ import annotations

import numpy as np

from fastprof.analyses.contract import AnalysisReport
from fastprof.analyses.hlo_stats import HloStats
from fastprof.derive.devices.device_peaks import Peaks
from fastprof.derive.ops.op_columns import CORE_TYPES
from fastprof.derive.ops.op_table import (
    Ops,
    OpTable,
    RankedOps,
    is_outside_compilation,
    is_rematerialized,
    rank_by_cost,
)
from fastprof.schema.columns import Bools, Int32s, Int64s
from fastprof.xprof import counted_ops
from fastprof.xprof.counted_ops import Cells, format_program_ids, format_source_infos, make_op_cells
from fastprof.xprof.pages.data_table import join_columns, number, text

KEEPS = counted_ops.DEVICE_OPS_KEEPS
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


def answer(report: AnalysisReport) -> object:
    ops, peaks = counted_ops.get_device_ops(report), counted_ops.combine_peaks(report.detail_as(HloStats).devices)
    ranking = rank_by_cost(ops)
    ran = _find_ran(ranking)
    share = np.nan_to_num(ranking.self_share[ran])
    cells = _make_cells(ranking.table.take(ran), peaks) | {
        "rank": np.arange(1, len(ran) + 1),
        "total_self_time_percent": 100 * share,
        "cumulative_total_self_time_percent": 100 * np.cumsum(share),
    }
    order = np.arange(len(ran))
    if ops.children is not None and ops.parent is not None:
        place = np.full(len(ops.table), -1)
        place[ranking.rows[ran]] = order
        inner, parent = _make_child_cells(ops.children, ops.parent, ops.table, place, peaks)
        cells = {name: [*column, *inner[name]] for name, column in cells.items()}
        order = np.argsort(np.concatenate([order, place[parent]]), kind="stable")  # children after their parents
    rows = order.tolist()
    return join_columns([(column, [cells[column.id][row] for row in rows]) for column in _COLUMNS])


def _find_ran(ranking: RankedOps) -> Int64s:
    return np.flatnonzero(ranking.table.occurrences > 0).astype(np.int64)


def _make_child_cells(
    children: OpTable, parent: Int32s, parents: OpTable, place: Int64s, peaks: Peaks | None
) -> tuple[Cells, Int32s]:
    """Make the cells of ops that SparseCores ran for ops with a place on the page, the most expensive first, and return
    the rows of these ops."""
    ranking = rank_by_cost(Ops(children))
    ran = _find_ran(ranking)
    ran = ran[place[parent[ranking.rows[ran]]] >= 0]
    parent = parent[ranking.rows[ran]]
    names = [parents.name[row] for row in parent.tolist()]
    return _make_cells(ranking.table.take(ran), peaks) | {"parent_op_name": names}, parent


def _make_cells(table: OpTable, peaks: Peaks | None) -> Cells:
    """Make the cells of these ops; ranks and shares are 0."""
    count = len(table)
    cells = make_op_cells(table, peaks)
    expressions = [long or name for long, name in zip(table.long_name, table.name, strict=True)]
    return cells | {
        "rank": np.zeros(count),
        "program_id": format_program_ids(table),
        "hlo_op_name": [text.partition(" = ")[0].removeprefix("%") for text in expressions],
        "hlo_op_expression": expressions,
        "tf_op_name": table.provenance,
        "total_self_time_percent": np.zeros(count),
        "cumulative_total_self_time_percent": np.zeros(count),
        "normalized_flop_rate": cells["measured_flop_rate"],
        "hlo_rematerialization": _say_yes_or_no(is_rematerialized(table)),
        "outside_compilation": _say_yes_or_no(is_outside_compilation(table)),
        "autotuned": ["No"] * count,
        "source_info": format_source_infos(table),
        "core_type": [CORE_TYPES.get(code, "") for code in table.core_type.tolist()],
        "parent_op_name": [""] * count,
        "vdd_energy": table.energy_j,
    }


def _say_yes_or_no(marked: Bools) -> list[str]:
    return ["Yes" if mark else "No" for mark in marked.tolist()]
