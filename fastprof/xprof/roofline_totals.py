"""What ops did by step, and sums of ops, as XProf's roofline has them.

By step it counts the work that the capture itself records. Where infeed and outfeed are left out, those that are nested
in other ops are left out twice: their time, and the self time of what they are in.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import numpy as np

from fastprof.analyses.contract import Keeper, Report, union
from fastprof.analyses.roofline import Roofline
from fastprof.derive.host import Host
from fastprof.derive.ops import device_ops
from fastprof.derive.ops import roofline_totals as rows_of
from fastprof.derive.ops.roofline_totals import Totals
from fastprof.derive.ops.step_ops import SILENT, StepOps, is_feed, step_ops
from fastprof.derive.ops.tables import Ops, OpTable, exact_sum
from fastprof.xprof.steps import shown_steps, source_of

_NAME: Final = "step ops"


def _of_host(host: Host, params: Mapping[str, Any]) -> StepOps:
    return step_ops(host, host.groups_from(source_of(params)))


KEEPS: Final = {_NAME: Keeper(union([Host.GROUPING, device_ops.READS]), _of_host)}


def of_session(ops: Ops, *, with_feeds: bool) -> Totals:
    """All that ran."""
    found = rows_of.of_session(ops, with_feeds=with_feeds)
    if with_feeds:
        return found
    feeds = is_feed(ops.table)
    observed = ops.total_ps - exact_sum(ops.table.time_ps[feeds])
    busy = ops.busy_ps - exact_sum(ops.table.self_ps[feeds])
    return replace(found, table=replace(found.table, time_ps=np.array([observed]), self_ps=np.array([busy])))


def of_steps(report: Report, *, with_feeds: bool) -> Totals:
    """Each complete step on all hosts, as XProf numbers and aligns them."""
    detail = report.detail_as(Roofline)
    kept: list[StepOps] = list(report.kept[_NAME])
    steps = shown_steps(report, complete=True)
    counts = detail.planes
    found = rows_of.of_steps(steps, kept, counts, with_feeds=with_feeds)
    if with_feeds:
        return found
    fed = rows_of.sums_of_steps(steps, [(one.group, one.feeds.time_ps) for one in kept])
    return replace(found, table=replace(found.table, time_ps=rows_of.observed_ps(steps, counts) - fed))


def recorded_memory(table: OpTable) -> OpTable:
    """Without the bytes of ops that do not say where these go, in rows in which any op does."""
    memory = table.memory
    silent = memory.operation == SILENT
    recorded = np.zeros(len(table), bool)
    recorded[memory.row[~silent & (memory.bytes != 0)]] = True
    keep = ~(silent & recorded[memory.row])
    return replace(table, memory=memory.where(keep))
