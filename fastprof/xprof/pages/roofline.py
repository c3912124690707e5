"""XProf's page roofline_model: ops, steps and all of them beneath the roofline, with infeed and outfeed and without.

By step it counts the work that the capture itself records. If infeed and outfeed are left out, those that are nested in
other ops are left out twice: their time, and the self time of the ops around them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

import numpy as np

from fastprof.analyses.contract import AnalysisReport, Keeper
from fastprof.analyses.roofline import Roofline
from fastprof.derive.devices.device_peaks import GPU, TPU, Peaks
from fastprof.derive.host import Host
from fastprof.derive.ops import device_ops
from fastprof.derive.ops import roofline_tables as rows_of
from fastprof.derive.ops.op_table import Ops, OpTable, rank_with_idle
from fastprof.derive.ops.roofline_model import GIBI, MEMORIES, ratio_or_zero
from fastprof.derive.ops.roofline_tables import SILENT, WHOLE, RooflineTotals, StepOps, is_feed, sum_step_ops
from fastprof.schema.columns import Float64s, sum_exactly
from fastprof.tables.needs import unite_needs
from fastprof.xprof import counted_ops
from fastprof.xprof import steps as session_steps
from fastprof.xprof.counted_ops import Cells, format_program_ids, format_source_infos, make_op_cells
from fastprof.xprof.pages.data_table import boolean, join_columns, make_data_table, number, text
from fastprof.xprof.pages.pod_viewer import UNNAMED_TPU
from fastprof.xprof.steps import choose_source, get_shown_steps

_STEP_OPS: Final = "step ops"


def _get_step_ops(host: Host, params: Mapping[str, Any]) -> StepOps:
    return sum_step_ops(host, host.groups_from(choose_source(params)))


_STEP_OPS_KEEPS: Final = {_STEP_OPS: Keeper(unite_needs([Host.GROUPING, device_ops.READS]), _get_step_ops)}


def sum_session(ops: Ops, *, with_feeds: bool) -> RooflineTotals:
    """Sum everything that ran."""
    work = rows_of.sum_session_work(ops, with_feeds=with_feeds)
    if with_feeds:
        return work
    feeds = is_feed(ops.table)
    observed = ops.total_ps - sum_exactly(ops.table.time_ps[feeds])
    busy = ops.busy_ps - sum_exactly(ops.table.self_ps[feeds])
    return replace(work, table=replace(work.table, time_ps=np.array([observed]), self_ps=np.array([busy])))


def sum_steps(report: AnalysisReport, *, with_feeds: bool) -> RooflineTotals:
    """Sum each complete step on all hosts, as XProf numbers and aligns them."""
    detail = report.detail_as(Roofline)
    kept: list[StepOps] = list(report.kept[_STEP_OPS])
    steps = get_shown_steps(report, complete=True)
    counts = detail.planes
    work = rows_of.sum_step_work(steps, kept, counts, with_feeds=with_feeds)
    if with_feeds:
        return work
    fed = rows_of.sum_times_of_steps(steps, [(host.group, host.feeds.time_ps) for host in kept])
    return replace(work, table=replace(work.table, time_ps=rows_of.measure_observed_time(steps, counts) - fed))


def keep_recorded_memory(table: OpTable) -> OpTable:
    """Drop the bytes of ops that do not record where these go, in rows in which any op does."""
    memory = table.memory
    silent = memory.operation == SILENT
    recorded = np.zeros(len(table), bool)
    recorded[memory.row[~silent & (memory.bytes != 0)]] = True
    keep = ~(silent & recorded[memory.row])
    return replace(table, memory=memory.where(keep))


KEEPS: Final = counted_ops.DEVICE_OPS_KEEPS | _STEP_OPS_KEEPS | session_steps.KEEPS
MOST_OPS: Final = 1000
"""Number of ops, the most expensive; idle time is one of them, and so are those that are then left out."""

_TPU_ONLY = frozenset((
    "dma_stall_percent", "cmem_read_bw", "cmem_write_bw", "vmem_read_bw", "cmem_read_operational_intensity",
    "cmem_write_operational_intensity", "vmem_read_operational_intensity",
))  # fmt: skip
_COLUMNS = (
    text("step", "Step"),
    number("rank", "Rank"),
    text("category", "Category"),
    text("operation", "Operation"),
    number("occurrences", "# Occurrences"),
    number("total_time", "Total Time (us)"),
    number("avg_time", "Avg. time (us)"),
    number("total_self_time", "Total self time (us)"),
    number("avg_self_time", "Avg. self time (us)"),
    number("total_self_time_percent", "Total self time (%)"),
    number("cumulative_total_self_time_percent", "Cumulative total self time (%)"),
    number("dma_stall_percent", "%time stalled by DMA"),
    number("measured_flop_rate", "Normalized FLOP Rate (GFLOP/s)"),
    number("model_flop_rate", "Model FLOP Rate (GFLOP/s)"),
    number("measured_memory_bw", "Memory BW (GiB/s)"),
    *(number(f"{memory.column}_bw", f"{memory.name} BW (GiB/s)") for memory in MEMORIES),
    number("operational_intensity", "Operational Intensity (FLOP/Byte)"),
    *(number(f"{memory.column}_operational_intensity", f"{memory.name} Operational Intensity (FLOP/Byte)")
      for memory in MEMORIES),
    number("bottleneck_operational_intensity", "Bottleneck Operational Intensity (FLOP/Byte)"),
    text("bound_by", "Bound by"),
    number("total_time_per_core", "Total Time per core (us)"),
    number("total_time_in_percentage", "Total Time (%)"),
    number("optimal_flop_rate", "Optimal FLOP Rate (GFLOP/s)"),
    number("roofline_efficiency", "Roofline efficiency (%)"),
    number("compute_efficiency", "FLOP Rate / Peak (%)"),
    number("max_mem_bw_utilization", "Max memory BW utilization (among supported memories) (%)"),
    boolean("include_infeed_outfeed", "Include Infeed/Outfeed"),
    text("hlo_module_id", "Program ID"),
    text("source_info", "Source Info"),
)  # fmt: skip
_GPU_LABELS = {
    "vmem_write_bw": "SHM/L1 BW (GiB/s)",
    "vmem_write_operational_intensity": "SHM/L1 Operational Intensity (FLOP/Byte)",
}


def answer(report: AnalysisReport) -> object:
    peaks, ops = counted_ops.combine_peaks(report.detail_as(Roofline).devices), counted_ops.get_device_ops(report)
    on_gpu = peaks is not None and GPU in peaks.name
    columns = [
        replace(column, label=_GPU_LABELS.get(column.id, column.label)) if on_gpu else column
        for column in _COLUMNS
        if not (on_gpu and column.id in _TPU_ONLY)
    ]
    parts = [] if peaks is None else list(_list_parts(report, ops, peaks))
    cells = [(column, [cell for part in parts for cell in part[column.id]]) for column in columns]
    roofs = join_columns(cells, _list_properties(peaks, ops, on_gpu=on_gpu))
    steps = session_steps.get_shown_steps(report, complete=True)
    warnings = session_steps.list_step_warnings(len(steps), empty_intersection=steps.empty_intersect)
    diagnostics = make_data_table(
        [text("severity", "Severity"), text("message", "Message")], [["WARNING", warning] for warning in warnings]
    )
    return [roofs, diagnostics]


# ---- rows


def _list_parts(report: AnalysisReport, ops: Ops, peaks: Peaks) -> Iterator[Cells]:
    """Yield the rows of the page: all that ran, its ops, the average step and each step, with feeds, then without."""
    detail = report.detail_as(Roofline)
    cores, several = detail.devices.ops.parts, len(detail.planes) > 1
    for with_feeds in (True, False):
        total = sum_session(ops, with_feeds=with_feeds)
        yield _make_sum_cells(total, ["Total"], peaks, cores)
        yield _make_op_cells(ops, int(total.table.time_ps[0]), peaks, cores, with_feeds=with_feeds)
        of_steps = sum_steps(report, with_feeds=with_feeds)
        if peaks.hardware != TPU:  # steps of GPUs are there, without any ops or time
            of_steps = replace(of_steps, table=OpTable.of(of_steps.table.name))
        if peaks.hardware == TPU or several:
            average = rows_of.average_steps(of_steps)
            cells = _make_sum_cells(average, ["Average"], peaks, cores)
            times = {name: cells[name] / max(average.steps, 1) for name in ("total_time", "total_time_per_core")}
            yield cells | times  # its average time is not divided by the number of steps
        yield _make_sum_cells(of_steps, [str(number) for number in of_steps.step.tolist()], peaks, cores)


def _make_sum_cells(totals: rows_of.RooflineTotals, steps: list[str], peaks: Peaks, cores: int) -> Cells:
    """Make rows that stand for all ops: for the page they are a single op, without self time, that ran once."""
    count = len(totals)
    table = replace(
        keep_recorded_memory(totals.table),
        category=[WHOLE] * count,
        occurrences=np.ones(count, np.int64),
        self_ps=np.zeros(count, np.int64),
    )
    return _make_cells(table, steps, peaks, cores, with_feeds=totals.with_feeds)


def _make_op_cells(ops: Ops, total_ps: int, peaks: Peaks, cores: int, *, with_feeds: bool) -> Cells:
    ranking = rank_with_idle(ops)
    table = ranking.table.take(np.arange(min(len(ranking), MOST_OPS)))
    shown = table.occurrences > 0  # not idle time
    if not with_feeds:
        shown &= ~is_feed(table)
    table = table.take(np.flatnonzero(shown).astype(np.int64))
    total = np.full(len(table), total_ps)
    share = ratio_or_zero(table.self_ps, total)
    return _make_cells(table, ["Total"] * len(table), peaks, cores, with_feeds=with_feeds) | {
        "rank": np.arange(1, len(table) + 1),
        "total_self_time_percent": share,
        "cumulative_total_self_time_percent": np.cumsum(share),
        "total_time_in_percentage": ratio_or_zero(table.time_ps, total),
    }


def _make_cells(table: OpTable, steps: list[str], peaks: Peaks, cores: int, *, with_feeds: bool) -> Cells:
    """Make the cells of each op, or of all of a step; rank and shares of self time are 0."""
    cells, zeros = make_op_cells(table, peaks), np.zeros(len(table))
    gflops = cells["measured_flop_rate"]
    compute = _divide_all(gflops, peaks.teraflops_per_s * 1000)
    used = np.max([_divide_all(cells[f"{name}_bw"], peak) for name, peak in _list_supported(peaks)], axis=0)
    efficiency = np.maximum(compute, used)
    return cells | {
        "step": steps,
        "rank": zeros,
        "total_self_time_percent": zeros,
        "cumulative_total_self_time_percent": zeros,
        "total_time_per_core": cells["total_time"] / cores if cores else zeros,
        "total_time_in_percentage": (table.time_ps != 0).astype(np.float64),
        "include_infeed_outfeed": [with_feeds] * len(table),
        "hlo_module_id": format_program_ids(table),
        "source_info": format_source_infos(table),
        "optimal_flop_rate": np.where(efficiency < _LEAST, 0.0, ratio_or_zero(gflops, efficiency)),
        "roofline_efficiency": efficiency,
        "compute_efficiency": compute,
        "max_mem_bw_utilization": used,
    }


def _list_supported(peaks: Peaks) -> Iterator[tuple[str, float]]:
    """Yield the memories that the page takes for supported, and their peaks in GiB/s."""
    shown = _list_shown_peaks(peaks)
    yield "hbm", _get_gibi(peaks, 0)
    if peaks.has_cmem:
        yield from ((name, shown[name]) for name in ("cmem_read", "cmem_write"))
    if peaks.has_merged_vmem or peaks.hardware == GPU:
        yield from ((name, shown[name]) for name in ("vmem_read", "vmem_write"))


_LEAST: Final = 1e-10
"""Bound below which a divisor counts as 0."""


def _divide_all(values: Float64s, by: float) -> Float64s:
    return values / by if by >= _LEAST else np.zeros(len(values))


def _divide(a: float, b: float) -> float:
    return 0.0 if abs(b) < _LEAST else a / b


# ---- peaks


def _get_gibi(peaks: Peaks, place: int) -> float:
    """Return a peak bandwidth in GiB/s."""
    return peaks.bandwidths_gb_per_s[place] / GIBI if place < len(peaks.bandwidths_gb_per_s) else 0.0


def _list_shown_peaks(peaks: Peaks) -> dict[str, float]:
    """Return peaks of memories on the chip, in GiB/s. VMEM's is shown only for devices on which it replaces CMEM."""
    if peaks.hardware == GPU:
        places = {"vmem_read": 1, "vmem_write": 2}
    elif peaks.has_cmem:
        places = {"cmem_read": 3, "cmem_write": 4}
    else:
        places = {"vmem_read": 5, "vmem_write": 6} if peaks.has_merged_vmem else {}
    names = ("cmem_read", "cmem_write", "vmem_read", "vmem_write")
    return {name: _get_gibi(peaks, places[name]) if name in places else 0.0 for name in names}


def _list_properties(peaks: Peaks | None, ops: Ops, *, on_gpu: bool) -> dict[str, str]:
    given = peaks or Peaks(TPU, "", 0.0, (0.0,) * 7)
    gflops = given.teraflops_per_s * 1000
    bandwidths = {"hbm": _get_gibi(given, 0), **_list_shown_peaks(given)}
    limits: dict[str, float] = {"peak_flop_rate": gflops}
    for name, peak in bandwidths.items():
        limits[f"peak_{name}_bw"] = peak
        limits[f"{name}_ridge_point"] = _divide(gflops, peak * GIBI)
    limits |= {
        "megacore": given.has_megacore,
        "has_cmem": given.has_cmem,
        "has_merged_vmem": given.has_merged_vmem,
        "time_scale_multiplier": _divide(ops.normalized_op_ps, ops.op_ps),
    }
    if on_gpu:
        kept = ("peak_flop_rate", "peak_hbm_bw", "peak_vmem_write_bw", "hbm_ridge_point", "vmem_write_ridge_point")
        limits = {name: limits[name] for name in kept}
    name = "" if given.name == UNNAMED_TPU else given.name
    return {"device_type": name, **{name: f"{value:.6g}" for name, value in limits.items()}}
