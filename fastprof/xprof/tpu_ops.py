"""Ops of TPU cores as XProf counts them.

Its self time is the duration less the sum of what is directly nested. The span of a core is that of its ops, of its
steps, and of the line of framework ops that it derives, by the host's clock. Steps without a group do not count, unless
none has a group. Of SparseCores it counts the ops that ran for the first occurrence of an op, and the time between.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from fastprof.derive.devices.device_events import device_spans, op_events
from fastprof.derive.ops.line_times import Spans, spanned_ps
from fastprof.derive.ops.sparse_core import Offloaded, SparseCores, lies_within
from fastprof.derive.ops.tables import IDLE, Ops, OpTable, sums_by
from fastprof.derive.ops.tpu import TEXT_KINDS, op_spans, plane_table, step_lines, with_totals
from fastprof.tables.once import once

if TYPE_CHECKING:
    from fastprof.derive.devices.device_events import OpEvents
    from fastprof.derive.host import Host
    from fastprof.schema.array_types import Bools, Int32s, Int64s
    from fastprof.tables.host_events import HostEvents, Plane


def device_ops(host: Host) -> list[Ops]:
    """The ops of each TensorCore. Takes groups, which take long, only where steps may be of the host's groups."""
    regrouped = _host_leads_steps(host.raw) and not host.forest.recorded
    group_id = host.groups.group_id if regrouped else None
    events = host.events if regrouped else host.raw
    planes = events.planes_of("TPU")
    cores = host.workers.run(None, [partial(core_ops, events, plane, group_id) for plane in planes])
    return XprofSparseCores(events).children_of(planes, cores)


def core_ops(events: HostEvents, plane: Plane, group_id: Int32s | None = None) -> Ops:
    """The ops of one core. ``group_id``: by row; None: all steps count."""
    table, op = plane_table(events, plane)
    ops, steps = op_spans(events, plane), _step_spans(events, plane, group_id)
    shown = [*ops, *steps, *_framework_spans(events, plane)]
    span = spanned_ps(events, plane, shown) if ops or steps else 1
    found = op_events(events, plane)
    if found.overlaps:
        table = replace(table, self_ps=sums_by(op, found.self_less_sums(), len(table)))
    return with_totals(table, span)


def _host_leads_steps(events: HostEvents) -> bool:
    """Whether steps of a TPU may belong to groups of the host's: something on a TPU says what it runs for."""
    planes = [plane for plane in events.planes if plane.kind in ("TPU", "SPARSECORE")]
    if not any(step_lines(plane) for plane in planes):
        return False
    for stat in ("run_id", "_c"):
        rows = events.stat(stat).rows
        if any(np.diff(np.searchsorted(rows, [plane.first, plane.last]))[0] for plane in planes):
            return True
    return False


def _step_spans(events: HostEvents, plane: Plane, group_id: Int32s | None) -> list[Spans]:
    """Starts and durations of the steps of a core; of those with a group where any has one."""
    spans = []
    for line in step_lines(plane):
        start, duration = device_spans(events, line.first, line.last)
        kept = np.full(len(start), True) if group_id is None else group_id[line.first : line.last] >= 0
        spans.append((start[kept], duration[kept]) if kept.any() else (start, duration))
    return spans


def _framework_spans(events: HostEvents, plane: Plane) -> list[Spans]:
    """Those of the events of a core that record their framework op, by the host's clock."""
    if len(events.stat("group_id")):
        return []
    named, spans = _names_framework_op(events), []
    for line in plane.lines:
        mine = named[events.meta[line.first : line.last]]
        start, duration = events.start_ps[line.first : line.last], events.duration_ps[line.first : line.last]
        if mine.any():
            spans.append((start, duration) if mine.all() else (start[mine], duration[mine]))
    return spans


@once
def _names_framework_op(events: HostEvents) -> Bools:
    """By row of event metadata: whether it records a framework op."""
    named = np.zeros(len(events.names), np.bool_)
    stat = events.meta_stat("tf_op").of_kinds(TEXT_KINDS)
    named[stat.rows] = [bool(text) for text in events.all_texts(stat.value)]
    return named


# ---- SparseCores


class XprofSparseCores(SparseCores):
    """What SparseCores ran on behalf of TensorCores, by XProf's rules."""

    def module_of(self, found: OpEvents, begin: Int64s, end: Int64s) -> Int64s:
        """XProf looks only at the first module that ends no sooner than the event begins: what begins when one ends and
        the next begins is in none."""
        order = np.argsort(begin, kind="stable")
        place = np.searchsorted(np.maximum.accumulate(end[order]), found.start_ps, side="left")
        place[place == len(order)] = -1
        return lies_within(found, begin, end, order, place)

    def self_ps(self, found: OpEvents) -> Int64s:
        return found.self_less_sums()

    def counted(self, op: Int32s) -> Int32s:
        """The first event of each op."""
        known = np.flatnonzero(op >= 0)
        _, first = np.unique(op[known], return_index=True)
        firsts = np.full(len(op), -1, op.dtype)
        firsts[known[first]] = op[known[first]]
        return firsts

    def more_children(self, part: Offloaded, parent_of_key: Int64s) -> list[tuple[OpTable, Int64s]]:
        """The time of modules in which none of their ops ran: a row for each parent, and its parent."""
        ran = sums_by(part.key, part.self_ps, len(parent_of_key)).tolist()
        idle: Counter[int] = Counter()
        for key, time in part.module_ps.items():
            parent = int(parent_of_key[key])
            if parent >= 0:
                idle[parent] += time - ran[key]
        count, times = len(idle), list(idle.values())
        table = OpTable.of([IDLE] * count, category=[IDLE] * count, time_ps=times, self_ps=times)
        return [(table, np.array(list(idle), np.int64))]
