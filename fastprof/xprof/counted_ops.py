"""Ops as XProf counts them: of TPU cores and host threads, sums over cores, devices, hosts and framework ops, and cells
of its pages of ops.

TPU: self time is the duration minus the sum of the directly nested ops. The span of a core is that of its ops, of its
steps, and of the line of framework ops that it derives, by the host's clock. Steps without a group do not count, unless
none has a group. Of SparseCores, XProf counts the ops that ran for the first occurrence of an op, and the time between.

Host: instructions of compiled programs do not count, nor ops that cross another one of their thread, or end together
with it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from html import escape
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from fastprof.analyses.contract import AnalysisReport, Keeper
from fastprof.derive.devices.device_events import find_op_ids, get_device_spans, list_op_events
from fastprof.derive.devices.op_names import parse_op_name
from fastprof.derive.host import GPU, TPU, Host
from fastprof.derive.ops import device_ops, host_ops, op_columns, op_table
from fastprof.derive.ops.host_ops import ThreadOps
from fastprof.derive.ops.line_times import Spans, measure_span
from fastprof.derive.ops.op_table import IDLE, Ops, OpTable, is_distinct, merge_memory, merge_ops, number_ops
from fastprof.derive.ops.roofline_model import GIBI, compute_rates, ratio_or_zero
from fastprof.derive.ops.tpu_cores import (
    OffloadedOps,
    SparseCores,
    build_plane_table,
    find_enclosing_module,
    list_op_spans,
    list_step_lines,
    sum_core_totals,
)
from fastprof.schema.columns import find_most_by, find_rows_within, sum_by
from fastprof.tables.host_events import HOST_THREADS, TEXT_KINDS, compute_once
from fastprof.tables.needs import Needs, unite_needs

if TYPE_CHECKING:
    from fastprof.derive.devices.device_events import OpEvents
    from fastprof.derive.devices.device_peaks import Peaks
    from fastprof.derive.ops.device_ops import SessionOps
    from fastprof.schema.columns import Bools, Int32s, Int64s
    from fastprof.tables.host_events import HostEvents, Plane


Cells = dict[str, Any]
"""Cells of all rows, an array or a list, by the id of the column."""


def make_op_cells(table: OpTable, peaks: Peaks | None) -> Cells:
    """Make the cells of ops. Times are in microseconds, rates in 10**9 flops and GiB per second; 0 if the divisor is
    0."""
    rate = compute_rates(table, peaks)
    total_us, self_us = table.time_ps / 1e6, table.self_ps / 1e6
    return {
        "category": table.category,
        "operation": table.name,
        "occurrences": table.occurrences,
        "total_time": total_us,
        "avg_time": ratio_or_zero(total_us, table.occurrences),
        "total_self_time": self_us,
        "avg_self_time": ratio_or_zero(self_us, table.occurrences),
        "dma_stall_percent": ratio_or_zero(table.dma_stall_ps, table.time_ps),
        "measured_flop_rate": rate.gflops,
        "model_flop_rate": rate.model_gflops,
        "measured_memory_bw": rate.gigabytes / GIBI,
        **{f"{name}_bw": speed / GIBI for name, speed in rate.memory.items()},
        "operational_intensity": rate.intensity,
        **{f"{name}_operational_intensity": of for name, of in rate.memory_intensity.items()},
        "bottleneck_operational_intensity": rate.bound_intensity,
        "bound_by": rate.bound_by,
    }


def format_program_ids(table: OpTable) -> list[str]:
    return [str(number % 2**64) for number in table.program_id.tolist()]


def format_source_infos(table: OpTable) -> list[str]:
    """Format the source of each op, with the calls that lead there."""
    places = zip(table.source_file, table.source_line.tolist(), table.source_stack, strict=True)
    return [
        f"<div class='source-info-cell' title='{_escape_words(stack)}'>{_escape_words(file)}:{line}</div>"
        if file and line != -1
        else ""
        for file, line, stack in places
    ]


def _escape_words(words: str) -> str:
    return escape(words).replace("&#x27;", "&#39;")


_HOST_OPS: Final = "host ops"


def count_host_ops(host: Host) -> Ops:
    threads = ThreadOps(host.events, host.is_eager, host.workers)
    if threads.lines:
        return threads.stacked()[0]
    plane = host.events.plane_named(HOST_THREADS)
    # to XProf there is a thread where there is a line, be it one that a profiler computed
    return replace(Ops.none(), parts=1) if plane is not None and plane.lines else Ops.none()


def _keep_host_ops(host: Host, _params: Mapping[str, Any]) -> Ops:
    return count_host_ops(host)


HOST_OPS_KEEPS: Final = {
    _HOST_OPS: Keeper(unite_needs([Host.GROUPING, Needs(stats=host_ops.EVENT_STATS)]), _keep_host_ops)
}


def get_host_ops(report: AnalysisReport) -> Ops:
    """Return the ops of all hosts."""
    host_ops: Sequence[Ops] = report.kept[_HOST_OPS]
    return merge_ops(host_ops, add_cores=False)


def list_tpu_ops(host: Host) -> list[Ops]:
    """List the ops of each TensorCore. Groups, which take long, are only read if steps may be of the host's groups."""
    regrouped = _has_host_groups(host.raw) and not host.forest.recorded
    group_id = host.groups.group_id if regrouped else None
    events = host.events if regrouped else host.raw
    planes = events.planes_of("TPU")
    cores = host.workers.run(None, [partial(count_core_ops, events, plane, group_id) for plane in planes])
    return XprofSparseCores(events).children_of(planes, cores)


def count_core_ops(events: HostEvents, plane: Plane, group_id: Int32s | None = None) -> Ops:
    """Count the ops of a core. ``group_id``: by row, or None if all steps count."""
    table, op = build_plane_table(events, plane)
    if not len(find_op_ids(events)):
        table, op = table.take(np.zeros(0, np.int64)), np.full(len(op), -1, np.int32)
    ops, steps = list_op_spans(events, plane), _list_step_spans(events, plane, group_id)
    shown = [*ops, *steps, *_list_framework_spans(events, plane)]
    span = measure_span(events, plane, shown) if ops or steps else 1
    core_ops = list_op_events(events, plane)
    if core_ops.overlaps:
        table = replace(table, self_ps=sum_by(op, core_ops.self_less_sums(), len(table)))
    return sum_core_totals(table, span)


def _has_host_groups(events: HostEvents) -> bool:
    """Return whether TPU steps may belong to groups of the host's: something on a TPU records what it runs for."""
    planes = [plane for plane in events.planes if plane.kind in ("TPU", "SPARSECORE")]
    if not any(list_step_lines(plane) for plane in planes):
        return False
    for stat in ("run_id", "_c"):
        rows = events.stat(stat).rows
        if any(len(rows[find_rows_within(rows, plane.first, plane.last)]) for plane in planes):
            return True
    return False


def _list_step_spans(events: HostEvents, plane: Plane, group_id: Int32s | None) -> list[Spans]:
    """List starts and durations of the steps of a core; if any has a group, only of those with a group."""
    spans = []
    for line in list_step_lines(plane):
        start, duration = get_device_spans(events, line.first, line.last)
        kept = np.full(len(start), True) if group_id is None else group_id[line.first : line.last] >= 0
        spans.append((start[kept], duration[kept]) if kept.any() else (start, duration))
    return spans


def _list_framework_spans(events: HostEvents, plane: Plane) -> list[Spans]:
    """List the spans of a core's events that record their framework op, by the host's clock."""
    if len(events.stat("group_id")):
        return []
    named, spans = _has_framework_op(events), []
    for line in plane.lines:
        mine = named[events.meta[line.first : line.last]]
        start, duration = events.start_ps[line.first : line.last], events.duration_ps[line.first : line.last]
        if mine.any():
            spans.append((start, duration) if mine.all() else (start[mine], duration[mine]))
    return spans


@compute_once
def _has_framework_op(events: HostEvents) -> Bools:
    """Return, by row of event metadata, whether it records a framework op."""
    named = np.zeros(len(events.names), np.bool_)
    stat = events.meta_stat("tf_op").of_kinds(TEXT_KINDS)
    named[stat.rows] = [bool(text) for text in events.all_texts(stat.value)]
    return named


# ---- SparseCores


class XprofSparseCores(SparseCores):
    """Ops that SparseCores ran on behalf of TensorCores, by XProf's rules."""

    def module_of(self, ops: OpEvents, begin: Int64s, end: Int64s) -> Int64s:
        """Return the module of each op. XProf looks only at the first module that ends no sooner than the event begins:
        an event that begins when one module ends and the next begins is in none."""
        order = np.argsort(begin, kind="stable")
        place = np.searchsorted(np.maximum.accumulate(end[order]), ops.start_ps, side="left")
        place[place == len(order)] = -1
        return find_enclosing_module(ops, begin, end, order, place)

    def self_ps(self, ops: OpEvents) -> Int64s:
        return ops.self_less_sums()

    def counted(self, op: Int32s) -> Int32s:
        """Return the first event of each op."""
        known = np.flatnonzero(op >= 0)
        _, first = np.unique(op[known], return_index=True)
        firsts = np.full(len(op), -1, op.dtype)
        firsts[known[first]] = op[known[first]]
        return firsts

    def more_children(self, part: OffloadedOps, parent_of_key: Int64s) -> list[tuple[OpTable, Int64s]]:
        """Return a table of the time of modules in which none of their ops ran, a row for each parent, and the
        parents."""
        ran = sum_by(part.key, part.self_ps, len(parent_of_key)).tolist()
        idle: Counter[int] = Counter()
        for key, time in part.module_ps.items():
            parent = int(parent_of_key[key])
            if parent >= 0:
                idle[parent] += time - ran[key]
        count, times = len(idle), list(idle.values())
        table = OpTable.of([IDLE] * count, category=[IDLE] * count, time_ps=times, self_ps=times)
        return [(table, np.array(list(idle), np.int64))]


_DEVICE_OPS: Final = "device ops"


def _get_device_ops(host: Host, _params: Mapping[str, Any]) -> Ops:
    if host.raw.planes_of(TPU):
        ops = list_tpu_ops(host)
    elif host.raw.planes_of(GPU):
        from fastprof.xprof import gpu_ops  # it takes long to import

        ops = gpu_ops.list_gpu_ops(host.events, host.groups, host.modules)
    else:
        ops = []
    return combine_ops(ops) if ops else Ops.none()


DEVICE_OPS_KEEPS: Final = {_DEVICE_OPS: Keeper(unite_needs([Host.GROUPING, device_ops.READS]), _get_device_ops)}


def get_device_ops(report: AnalysisReport) -> Ops:
    """Return the ops of all devices."""
    device_ops: Sequence[Ops] = report.kept[_DEVICE_OPS]
    return combine_ops(device_ops)


def combine_peaks(session: SessionOps) -> Peaks | None:
    """Combine peaks: arithmetic of the last host that records it, bandwidths of the first host with devices, known or
    not."""
    recorded = [host.peaks for host in session.hosts if host.peaks is not None]
    computing = [device for device in recorded if device.teraflops_per_s > 0] or recorded
    return replace(computing[-1], bandwidths_gb_per_s=recorded[0].bandwidths_gb_per_s) if recorded else None


# ---- sums


def combine_ops(parts: Sequence[Ops]) -> Ops:
    """Combine the ops of all parts. Where some parts record where an op's bytes went, that is all that is known of it.
    Children of an op are those of the first part that has any."""
    parts = [part for part in parts if part.parts]
    if len(parts) == 1 and is_distinct(parts[0].table):
        return parts[0]
    tables = [part.table for part in parts]
    memory = merge_memory(tables, number_ops(tables)[0], others_to_hbm=False)
    ops = op_table.merge_ops(_pick_first_children(parts))
    return replace(ops, table=replace(ops.table, memory=memory))


def _pick_first_children(parts: Sequence[Ops]) -> list[Ops]:
    seen: set[tuple[int, str]] = set()
    ops = []
    for part in parts:
        if part.children is not None and part.parent is not None:
            parents = [(int(part.table.program_id[row]), part.table.name[row]) for row in part.parent.tolist()]
            rows = np.array([row for row, parent in enumerate(parents) if parent not in seen], np.int64)
            seen.update(parents)
            part = replace(part, children=part.children.take(rows), parent=part.parent[rows])
        ops.append(part)
    return ops


def merge_framework_ops(table: OpTable) -> OpTable:
    """Merge ops by framework op. A framework op ran as often as the most frequent of its device ops; without a type, it
    is Unknown."""
    grouped = op_columns.group_by_framework_op(table, [op_columns.UNKNOWN] * len(table))
    place = {name: row for row, name in enumerate(grouped.name)}
    rows = np.array([place[name] for name in _list_framework_ops(table)], np.int64)
    return replace(grouped, occurrences=find_most_by(rows, table.occurrences, len(grouped)))


def find_eager(table: OpTable) -> dict[str, bool]:
    """Return, by framework op, whether the last of its device ops is eager."""
    return dict(zip(_list_framework_ops(table), table.is_eager.tolist(), strict=True))


def _list_framework_ops(table: OpTable) -> list[str]:
    """List the framework op of each device op; an op without provenance stands for itself."""
    return [
        parse_op_name(provenance).name if provenance else name
        for name, provenance in zip(table.name, table.provenance, strict=True)
    ]
