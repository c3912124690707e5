"""The rows of a roofline that stand for more than an op: all that ran, each program, each step, the average step.

Time is time observed, idle time included; of a program, which is never idle, it is the self time of its ops. Without
infeed and outfeed, neither their work nor their time counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from fastprof.derive.ops.combine import merged
from fastprof.derive.ops.step_ops import WHOLE, StepOps, is_feed, sums_of_work
from fastprof.derive.ops.tables import Ops, OpTable, exact_sum, sums_by
from fastprof.derive.steps.database import StepDatabase
from fastprof.schema.array_types import Int64s
from fastprof.schema.value_classes import dataclass

SESSION, AVERAGE, STEP, PROGRAM = "session", "average step", "step", "program"
"""What a row stands for."""

NO_STEP: Final = -1


@dataclass(frozen=True, slots=True, eq=False)
class Totals:
    """Rows of one kind. ``table``: times are those of all cores together, self time is that of ops; ``step``: numbers,
    NO_STEP: not a step; ``steps``: the number of steps that the figures of each row are of."""

    scope: str
    with_feeds: bool
    table: OpTable
    step: Int64s
    steps: int = 1

    def __len__(self) -> int:
        return len(self.table)


def of_session(ops: Ops, *, with_feeds: bool) -> Totals:
    """All that ran."""
    chosen = np.full(len(ops.table), True) if with_feeds else ~is_feed(ops.table)
    fed_ps = exact_sum(ops.table.self_ps[~chosen])
    observed, busy = ops.total_ps - min(fed_ps, ops.total_ps), max(ops.busy_ps - fed_ps, 0)
    table = replace(
        sums_of_work(ops.table, chosen, np.zeros(len(ops.table), np.int64), 1),
        time_ps=np.array([observed]),
        self_ps=np.array([busy]),
    )
    return Totals(SESSION, with_feeds, table, np.array([NO_STEP]))


def of_programs(ops: Ops, *, with_feeds: bool) -> Totals:
    """Each program, the largest self time first."""
    chosen = np.full(len(ops.table), True) if with_feeds else ~is_feed(ops.table)
    programs, place = np.unique(ops.table.program_id[chosen], return_inverse=True)
    self_ps = sums_by(place.reshape(-1), ops.table.self_ps[chosen], len(programs))
    order = np.argsort(-self_ps, kind="stable")
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    row = np.zeros(len(ops.table), np.int64)
    row[chosen] = rank[place.reshape(-1)]
    table = sums_of_work(ops.table, chosen, row, len(programs))
    table = replace(table, program_id=programs[order], time_ps=self_ps[order], self_ps=self_ps[order])
    return Totals(PROGRAM, with_feeds, table, np.full(len(order), NO_STEP))


def of_steps(steps: StepDatabase, hosts: Sequence[StepOps], devices: Sequence[int], *, with_feeds: bool) -> Totals:
    """Each step on all hosts. ``hosts``: what each did, in the order of those of the steps; ``devices``: the number of
    devices of each."""
    count = len(steps)
    tables, places = [OpTable.of([""] * count)], [np.arange(count, dtype=np.int64)]
    for host, one in enumerate(hosts):
        row = _row_of_group(steps.group[:, host], one.group)
        known = row >= 0
        for part in (one.others, one.feeds) if with_feeds else (one.others,):
            tables.append(part.take(np.flatnonzero(known).astype(np.int64)))
            places.append(row[known])
    table = merged(tables, np.concatenate(places), [(0, WHOLE)] * count)
    observed = observed_ps(steps, devices)
    if not with_feeds:
        fed = [(one.group, one.feeds.self_ps) for one in hosts]
        observed = np.maximum(observed - sums_of_steps(steps, fed), 0)
    table = replace(table, time_ps=observed)
    return Totals(STEP, with_feeds, table, steps.step)


def sums_of_steps(steps: StepDatabase, of_hosts: Sequence[tuple[Int64s, Int64s]]) -> Int64s:
    """Times of each step. ``of_hosts``: groups and their times, host by host, as ``of_steps``."""
    total = np.zeros(len(steps), np.int64)
    for host, (group, times) in enumerate(of_hosts):
        row = _row_of_group(steps.group[:, host], group)
        np.add.at(total, row[row >= 0], times[row >= 0])
    return total


def observed_ps(steps: StepDatabase, devices: Sequence[int]) -> Int64s:
    """Time of each step, on all devices together. Other than TPUs a host has one core for all its devices."""
    return np.concatenate([_observed_ps(some, devices) for some in steps.stretches()])


def _observed_ps(steps: StepDatabase, devices: Sequence[int]) -> Int64s:
    times = np.where(steps.cores.sparse[None, :] | ~steps.present, 0, steps.duration_ps)
    if steps.is_tpu:
        count = np.ones(times.shape[1], np.int64)
    else:
        count = np.array(devices, np.int64)[steps.cores.host_number]
    if int(times.max(initial=0)) * int(count.sum()) < 2**63:
        total: Int64s = (times * count).sum(axis=1)
        return total
    return np.array([exact_sum((one * count).tolist()) for one in times.astype(object)], np.int64)


def average(steps: Totals) -> Totals:
    """All steps as one row, whose figures are the sums over them."""
    table = merged([steps.table], np.zeros(len(steps), np.int64), [(0, WHOLE)])
    return Totals(AVERAGE, steps.with_feeds, table, np.array([NO_STEP]), steps=len(steps))


def _row_of_group(groups: Int64s, wanted: Int64s) -> Int64s:
    """The step that each group is; -1: it is not a step."""
    row = {group: place for place, group in enumerate(groups.tolist()) if group >= 0}
    return np.array([row.get(group, -1) for group in wanted.tolist()], np.int64)
