"""Tables of the roofline: work of ops by step, totals of sessions, programs and steps, columns and their formulas.

Ops that run other ops add nothing of their own. Time is time observed, idle time included; of a program, which is
never idle, it is the self time of its ops. Without infeed and outfeed, neither their work nor their time counts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from fastprof.derive.devices.device_events import NothingRan, OpEvents, list_op_events
from fastprof.derive.ops import host_ops, tpu_cores
from fastprof.derive.ops import op_columns as op
from fastprof.derive.ops.device_ops import list_device_planes
from fastprof.derive.ops.line_times import LineTimes
from fastprof.derive.ops.op_columns import OpRows, divide_known, mask_unknown
from fastprof.derive.ops.op_table import (
    CMEM,
    HBM,
    HOST,
    OTHER_SPACES,
    READ,
    VMEM,
    WRITE,
    MemoryAccess,
    Ops,
    OpTable,
    is_container,
    merge_tables,
)
from fastprof.derive.ops.roofline_model import MEMORIES, ON_CHIP, Ceiling, RooflineMemory, ratio_or_zero
from fastprof.derive.steps.step_database import StepDatabase
from fastprof.schema.columns import (
    Bools,
    Float64s,
    Int32s,
    Int64s,
    UInt8s,
    number_values,
    sort_rows,
    sum_by,
    sum_exactly,
)
from fastprof.schema.tables import (
    Column,
    Count,
    Flag,
    Formula,
    Need,
    Number,
    Picoseconds,
    Share,
    TableSchema,
    Text,
    resting_on,
)
from fastprof.schema.value_classes import dataclass

if TYPE_CHECKING:
    from fastprof.derive.ops.device_ops import OpHost
    from fastprof.derive.steps.grouping import Groups
    from fastprof.tables.host_events import HostEvents, Plane


FEEDS: Final = ("infeed", "outfeed")

WHOLE: Final = "Program"
"""Name of a row that stands for more than an op."""

SILENT: Final = 255
"""Direction of memory accesses of ops that do not record their memories: they count as HBM's."""

_KINDS: Final = (
    *((operation, space) for space in (HBM, CMEM, VMEM) for operation in (0, READ, WRITE)),
    (0, OTHER_SPACES),
    (SILENT, HBM),
)
"""Directions and spaces of the memory accesses of sums. A capture may number any amount of other memories, whose sums
are not shown: they are one kind."""
_ELSEWHERE: Final = len(_KINDS) - 2


def is_feed(table: OpTable) -> Bools:
    """Mark ops that wait for the host to send or take data: of categories like infeed and host outfeed."""
    return np.array([any(feed in category for feed in FEEDS) for category in table.category], bool)


@dataclass(frozen=True, slots=True, eq=False)
class StepOps:
    """What the devices of one host did in each of its groups: a row of a table a group, ``feeds`` of infeed and outfeed
    alone, ``others`` of all else. Time is the sum of durations, self time that of self times."""

    group: Int64s
    others: OpTable
    feeds: OpTable


@dataclass(frozen=True, slots=True, eq=False)
class _Events:
    """Events of one device: the row of each one's op in ``table``, and its group."""

    table: OpTable
    op: Int64s
    group: Int64s
    duration_ps: Int64s
    self_ps: Int64s


def sum_step_ops(host: OpHost, groups: Groups, tables: Sequence[OpTable] | None = None) -> StepOps:
    """Return what the devices of a host did by these groups of its events. ``tables``: of each device, in the order of
    its planes, the ops with the work that counts; None: only what the capture itself records."""
    planes = list_device_planes(host.raw)
    worked: Sequence[OpTable | None] = [None] * len(planes) if tables is None else tables
    parts = [_sum_device(host, plane, groups, table) for plane, table in zip(planes, worked, strict=True)]
    return _sum_parts(parts, groups.count)


def find_event_ops(
    host: OpHost, plane: Plane, known: OpTable | None = None
) -> tuple[HostEvents, OpEvents | LineTimes, Int32s, OpTable]:
    """Return the events that a device's ops ran as: the events of the host that they are rows of, their times, the row
    of each one's op in the ops of this device, or -1 if there is none, and these ops. ``known``: these ops, None: they
    are summed."""
    if plane.kind == "TPU":
        table, op = tpu_cores.build_plane_table(host.raw, plane)
        return host.raw, list_op_events(host.raw, plane), op, table if known is None else known
    if plane.kind == "GPU":
        from fastprof.derive.ops import gpu_attribution  # it takes long to import

        events = host.events
        own = events.planes[plane.number]
        if known is not None:
            return events, *gpu_attribution.list_gpu_plane_events(events, host.modules, own), known
        ops, times, op = gpu_attribution.sum_gpu_plane_ops(events, host.is_eager, host.modules, own)
        return events, times, op, ops.table
    ops, times, op = host_ops.sum_cpu_ops(host.raw, host.modules, plane)
    return host.raw, times, op, ops.table if known is None else known


def _sum_device(host: OpHost, plane: Plane, groups: Groups, table: OpTable | None) -> _Events:
    events, times, op, ops = find_event_ops(host, plane, table)
    numbered = groups.events.planes[plane.number]  # grouping may have added events to other planes
    group = groups.group_id[times.rows - events.planes[plane.number].first + numbered.first]
    used = np.flatnonzero((op >= 0) & (group >= 0))
    return _Events(
        ops,
        op[used].astype(np.int64),
        group[used].astype(np.int64),
        times.duration_ps[used],
        times.self_ps[used],
    )


def _sum_parts(parts: Sequence[_Events], count: int) -> StepOps:
    """``count``: how many groups there may be."""
    met = np.zeros(count, bool)
    for part in parts:
        met[part.group] = True
    group = np.flatnonzero(met).astype(np.int64)
    place = np.cumsum(met) - 1
    keys = [(0, str(number)) for number in group.tolist()]
    met_by = [np.unique(part.group) for part in parts]
    row = np.concatenate([place[met_groups] for met_groups in met_by]) if parts else group
    sides = []
    for feeds in (False, True):
        tables = [
            _sum_by_group(part, is_feed(part.table) == feeds, own) for part, own in zip(parts, met_by, strict=True)
        ]
        sides.append(merge_tables(tables, row, keys) if tables else OpTable.empty())
    return StepOps(group, sides[0], sides[1])


def _sum_by_group(part: _Events, chosen: Bools, met: Int64s) -> OpTable:
    """Return what the chosen ops of a device did in each of these groups, which are all that it ran in: a device has no
    rows for the steps of others."""
    mine, count, table = chosen[part.op], len(met), part.table
    sources = {name: np.full(count, getattr(table, name).max(initial=0)) for name in ("flops_source", "bytes_source")}
    if not mine.any():
        return OpTable.of([""] * count, **sources)
    op, row = part.op[mine], np.searchsorted(met, part.group[mine])
    share = np.where(is_container(table), 0.0, ratio_or_zero(np.ones(len(table)), table.occurrences))

    def summed(amount: Float64s) -> Float64s:
        if not amount.any():  # devices have few of the kinds of memory
            return np.zeros(count)
        return np.bincount(row, (amount * share)[op], count).astype(np.float64)

    return OpTable.of(
        [""] * count,
        occurrences=np.bincount(row, minlength=count),
        time_ps=sum_by(row, part.duration_ps[mine], count),
        self_ps=sum_by(row, part.self_ps[mine], count),
        **sources,
        **_sum_work(table, summed),
    )


def _sum_work(table: OpTable, summed: Callable[[Float64s], Float64s]) -> dict[str, Any]:
    """Return the columns of work. ``summed``: the sums of a figure of the ops by row."""
    columns: dict[str, Any] = {
        name: summed(getattr(table, name)) for name in ("flops", "model_flops", "bytes_accessed")
    }
    memory, count = table.memory, len(_KINDS) - 1
    kind = np.full(len(memory.row), _ELSEWHERE, np.int64)
    for at, (operation, space) in enumerate(_KINDS[:_ELSEWHERE]):
        kind[(memory.operation == operation) & (memory.space == space)] = at
    cells = np.bincount(memory.row.astype(np.int64) * count + kind, memory.bytes, len(table) * count)
    by_op = [*cells.astype(np.float64).reshape(len(table), count).T]  # of each op by kind of access, as in _KINDS
    by_op.append(np.where(table.has_breakdown(), 0.0, table.bytes_accessed))
    sizes = [summed(size) for size in by_op]
    rows = [np.flatnonzero(size) for size in sizes]
    lengths = [len(row) for row in rows]
    columns["memory"] = MemoryAccess(
        np.concatenate(rows).astype(np.int32),
        np.repeat(np.array([operation for operation, _ in _KINDS], np.uint8), lengths),
        np.repeat(np.array([space for _, space in _KINDS], np.int64), lengths),
        np.concatenate([size[chosen] for size, chosen in zip(sizes, rows, strict=True)]),
    )
    return columns


def sum_work_by_row(ops: OpTable, chosen: Bools, row: Int64s, count: int) -> OpTable:
    """Return the work of the chosen ops as ``count`` rows, whose times are 0; ``row``: that of each op."""
    used = np.flatnonzero(chosen & ~is_container(ops)).astype(np.int64)
    table, row = ops.take(used), row[used]

    def source(codes: UInt8s) -> UInt8s:
        most = np.zeros(count, np.uint8)
        np.maximum.at(most, row, codes)
        return most

    return OpTable.of(
        [WHOLE] * count,
        flops_source=source(table.flops_source),
        bytes_source=source(table.bytes_source),
        **_sum_work(table, lambda amount: np.bincount(row, amount, count).astype(np.float64)),
    )


SESSION, AVERAGE, STEP, PROGRAM = "session", "average step", "step", "program"
NO_STEP: Final = -1


@dataclass(frozen=True, slots=True, eq=False)
class RooflineTotals:
    """Rows of one kind. ``table``: times are those of all cores together, self time is that of ops; ``step``: numbers,
    NO_STEP: not a step; ``steps``: the number of steps that the figures of each row are of."""

    scope: str
    with_feeds: bool
    table: OpTable
    step: Int64s
    steps: int = 1

    def __len__(self) -> int:
        return len(self.table)


def sum_session_work(ops: Ops, *, with_feeds: bool) -> RooflineTotals:
    """Return the work of all that ran."""
    chosen = np.full(len(ops.table), True) if with_feeds else ~is_feed(ops.table)
    fed_ps = sum_exactly(ops.table.self_ps[~chosen])
    observed, busy = ops.total_ps - min(fed_ps, ops.total_ps), max(ops.busy_ps - fed_ps, 0)
    table = replace(
        sum_work_by_row(ops.table, chosen, np.zeros(len(ops.table), np.int64), 1),
        time_ps=np.array([observed]),
        self_ps=np.array([busy]),
    )
    return RooflineTotals(SESSION, with_feeds, table, np.array([NO_STEP]))


def sum_program_work(ops: Ops, *, with_feeds: bool) -> RooflineTotals:
    """Return the work of each program, the largest self time first."""
    chosen = np.full(len(ops.table), True) if with_feeds else ~is_feed(ops.table)
    programs, place = number_values(ops.table.program_id[chosen])
    self_ps = sum_by(place.reshape(-1), ops.table.self_ps[chosen], len(programs))
    order = np.argsort(-self_ps, kind="stable")
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    row = np.zeros(len(ops.table), np.int64)
    row[chosen] = rank[place.reshape(-1)]
    table = sum_work_by_row(ops.table, chosen, row, len(programs))
    table = replace(table, program_id=programs[order], time_ps=self_ps[order], self_ps=self_ps[order])
    return RooflineTotals(PROGRAM, with_feeds, table, np.full(len(order), NO_STEP))


def sum_step_work(
    steps: StepDatabase, hosts: Sequence[StepOps], devices: Sequence[int], *, with_feeds: bool
) -> RooflineTotals:
    """Return the work of each step on all hosts. ``hosts``: what each did, in the steps' order of hosts; ``devices``:
    their number of devices."""
    count = len(steps)
    tables, places = [OpTable.of([""] * count)], [np.arange(count, dtype=np.int64)]
    for host, work in enumerate(hosts):
        row = _find_rows_of_groups(steps.group[:, host], work.group)
        known = row >= 0
        for part in (work.others, work.feeds) if with_feeds else (work.others,):
            tables.append(part.take(np.flatnonzero(known).astype(np.int64)))
            places.append(row[known])
    table = merge_tables(tables, np.concatenate(places), [(0, WHOLE)] * count)
    observed = measure_observed_time(steps, devices)
    if not with_feeds:
        fed = [(work.group, work.feeds.self_ps) for work in hosts]
        observed = np.maximum(observed - sum_times_of_steps(steps, fed), 0)
    table = replace(table, time_ps=observed)
    return RooflineTotals(STEP, with_feeds, table, steps.step)


def sum_times_of_steps(steps: StepDatabase, of_hosts: Sequence[tuple[Int64s, Int64s]]) -> Int64s:
    """Return the time of each step. ``of_hosts``: groups and their times, host by host."""
    total = np.zeros(len(steps), np.int64)
    for host, (group, times) in enumerate(of_hosts):
        row = _find_rows_of_groups(steps.group[:, host], group)
        np.add.at(total, row[row >= 0], times[row >= 0])
    return total


def measure_observed_time(steps: StepDatabase, devices: Sequence[int]) -> Int64s:
    """Time of each step, on all devices together. Other than TPUs a host has one core for all its devices."""
    parts = []
    for some in steps.stretches():
        times = np.where(some.cores.sparse[None, :] | ~some.present, 0, some.duration_ps)
        if some.is_tpu:
            count = np.ones(times.shape[1], np.int64)
        else:
            count = np.array(devices, np.int64)[some.cores.host_number]
        if int(times.max(initial=0)) * int(count.sum()) < 2**63:
            total = (times * count).sum(axis=1)
        else:
            exact = [sum_exactly((of_step * count).tolist()) for of_step in times.astype(object)]
            total = np.array(exact, np.int64)
        parts.append(total)
        del times  # before those of the next steps are read
    return np.concatenate(parts)


def average_steps(steps: RooflineTotals) -> RooflineTotals:
    """Return all steps as one row, whose figures are the sums over them."""
    table = merge_tables([steps.table], np.zeros(len(steps), np.int64), [(0, WHOLE)])
    return RooflineTotals(AVERAGE, steps.with_feeds, table, np.array([NO_STEP]), steps=len(steps))


def _find_rows_of_groups(groups: Int64s, wanted: Int64s) -> Int64s:
    """Return the step that each group is; -1 if it is not a step."""
    row = {group: place for place, group in enumerate(groups.tolist()) if group >= 0}
    return np.array([row.get(group, -1) for group in wanted.tolist()], np.int64)


RAN: Final = Need("core_count", NothingRan("no op of a device is recorded"))
_UNKNOWN: Final = "null: the peak or the work is unknown (in a sum, for over 10 % of the time), the op is a transfer"


def _make_intensity_column(memory: RooflineMemory) -> Column:
    name = memory.column
    return Number(f"flops_per_{name}_byte", f"flops / {name}_bytes; null: either is unknown, or the bytes are 0",
                  lambda rows: divide_known(rows.flops, rows.memory[name]))  # fmt: skip


def _make_peak_percent_column(name: str, rate: str, peak: str) -> Column:
    return op.Percent(f"{name}_peak_percent", f"{rate} / the peak of {peak}; {_UNKNOWN}, or the time is 0",
                      lambda rows: mask_unknown(100 * rows.efficiency.of(name)))  # fmt: skip


def _make_whole_formula(name: str) -> Formula:
    """Return a time of ``Efficiency`` in whole picoseconds; null if it is NaN, or more than 64 bits can hold."""
    of = attrgetter(f"efficiency.{name}")

    def rounded(rows: Any) -> pa.Array:
        values = of(rows)
        unknown = ~(values < 2.0**63)
        return pa.array(np.where(unknown, 0, np.rint(values)).astype(np.int64), mask=unknown)

    return rounded


def _divide_by_total(lost: Float64s, total_ps: int) -> pa.Array:
    return mask_unknown(lost / total_ps if total_ps > 0 else np.full(len(lost), np.nan))


def _compute_share_without_feeds(rows: Any) -> pa.Array:
    self_ps, feeds = rows.table.self_ps, rows.feeds
    total = rows.total_ps - sum_exactly(self_ps[feeds])
    return mask_unknown(np.where(feeds | (total <= 0), np.nan, self_ps / max(total, 1)))


def _is_of_no_step(rows: Any) -> Bools:
    """Mark step rows without a known op."""
    of_steps = np.isin(rows.scope, (AVERAGE, STEP))
    return of_steps & (not rows.table.self_ps[of_steps].any())


def _compute_busy_share(rows: Any) -> pa.Array:
    table = rows.table
    is_share = (table.time_ps > 0) & (table.self_ps <= table.time_ps) & ~_is_of_no_step(rows)
    return mask_unknown(np.where(is_share, ratio_or_zero(table.self_ps, table.time_ps), np.nan))


def _compute_ridges(ceilings: Sequence[Ceiling]) -> list[float | None]:
    compute = ceilings[0].per_ns if ceilings else 0.0
    return [
        None if ceiling.is_compute or not ceiling.per_ns or not compute else compute / ceiling.per_ns
        for ceiling in ceilings
    ]


_SPACES: Final = {0: None, HOST: "host memory", HBM: "HBM", CMEM: "CMEM", VMEM: "VMEM"}
_DIRECTIONS: Final = {READ: "read", WRITE: "write"}


def name_space(space: int) -> str | None:
    """Return the name of a memory space; None if it is not recorded. Devices do not record what the spaces of layouts
    are."""
    if space in _SPACES:
        return _SPACES[space]
    return f"layout space {space - OTHER_SPACES}" if space >= OTHER_SPACES else f"memory {space}"


class MemoryRows:
    """What ops move to or from each memory, in the order of the ops. ``row``: row of the op."""

    def __init__(self, ops: OpRows) -> None:
        memory = ops.table.memory
        order = sort_rows(memory.row, memory.space, memory.operation)
        self.ops = ops
        self.row, self.size = memory.row[order].astype(np.int64), memory.bytes[order]
        self.spaces, self.operations = memory.space[order].tolist(), memory.operation[order].tolist()

    @cached_property
    def rate(self) -> Float64s:
        """Bytes a second; NaN if the op took no time."""
        time_ps = self.ops.table.time_ps[self.row]
        return np.where(time_ps > 0, ratio_or_zero(self.size * 1e12, time_ps), np.nan)

    def flops_per_byte(self) -> pa.Array:
        flops = self.ops.flops[self.row]
        return divide_known(np.where(flops > 0, flops, np.nan), self.size)

    def peak_percent(self) -> pa.Array:
        peak = {ceiling.column: ceiling.per_ns * 1e9 for ceiling in self.ops.efficiency.beneath}
        names = {(HBM, way): "hbm" for way in (0, READ, WRITE)}
        names |= {(memory_kind.space, memory_kind.operation): memory_kind.column for memory_kind in ON_CHIP}
        keys = zip(self.spaces, self.operations, strict=True)
        peaks = np.array([peak.get(names.get(key, ""), 0.0) for key in keys])
        return mask_unknown(100 * np.where(peaks > 0, ratio_or_zero(self.rate, peaks), np.nan))


_ROOFLINE_PERCENT: Final = op.Percent(
    "roofline_percent", "largest of the peak percentages above: time that the work takes at the roofline / total_ps; "
    "null: the work, or the peak of arithmetic or of HBM, is unknown, or the op is part of a transfer",
    lambda rows: mask_unknown(100 * rows.efficiency.efficiency),
)  # fmt: skip
_BENEATH: Final = (
    *map(_make_intensity_column, MEMORIES),
    _make_peak_percent_column("compute", "flops_per_s", "arithmetic"),
    *(_make_peak_percent_column(memory.column, f"{memory.column}_bytes_per_s", memory.name) for memory in MEMORIES),
    op.BOUND_BY,
    _ROOFLINE_PERCENT,
    op.FlopRate("attainable_flops_per_s", "flops_per_s / roofline_percent, the rate at the roofline; null: "
                "roofline_percent is null, or there are no flops",
                lambda rows: op.divide_per_second(
                    np.where(rows.flops > 0, rows.flops, np.nan), rows.efficiency.least_ps)),
)  # fmt: skip
_LOST_SHARE: Final = Share("lost_share", "lost_ps / self time of all ops and idle time; null: lost_ps is null, or "
                           "there is no such time",
                    lambda rows: _divide_by_total(rows.efficiency.lost_ps, rows.total_ps))  # fmt: skip

TABLES: Final = {
    table.name: table
    for table in (
        TableSchema("device", "a peak of the device: of one TensorCore, or of one GPU", (
            Text("resource", "resource that has the peak: Compute, HBM, or a memory on the chip and a direction",
                 lambda ceilings: [ceiling.name for ceiling in ceilings]),
            Number("peak", "highest rate of the resource; null: unknown",
                   lambda ceilings: [ceiling.per_ns * 1e9 or None for ceiling in ceilings]),
            Text("unit", "unit of peak: flop/s or bytes/s",
                 lambda ceilings: ["flop/s" if ceiling.is_compute else "bytes/s" for ceiling in ceilings]),
            Number("ridge_flops_per_byte", "ridge point: flops per byte above which arithmetic, not this memory, is "
                   "the limit; "
                   "null: the resource is not a memory, or a peak is unknown", _compute_ridges),
            Text("peak_source", "source of peak: capture, published table (of the vendor), parameter, or unknown",
                 lambda ceilings: [ceiling.source or "unknown" for ceiling in ceilings]),
        ), derived=True),
        TableSchema("totals", "the session, the average step, a step, or a program", (
            Text("scope", "what the row is of: session, average step, step or program", attrgetter("scope")),
            Count("step", "step number; null: the row is not a step", attrgetter("step"),
                  lambda rows: rows.step == NO_STEP),
            Count("program_id", f"{op.PROGRAM_ID.description}; null: the row is not of a program",
                  attrgetter("program"), lambda rows: ~rows.of_program | (rows.program == 0)),
            Text("program", f"{op.PROGRAM.description}; null: the row is not of a program", lambda rows: [
                rows.title(number) if is_program else None
                for number, is_program in zip(rows.program.tolist(), rows.of_program.tolist(), strict=True)
            ]),
            Flag("with_feeds", "whether infeed and outfeed are included; rows without them exist only if any "
                 "ran", attrgetter("with_feeds")),
            *resting_on(
                RAN,
                Picoseconds("total_ps", "observed time on all cores, with idle time; for a program, self time of its "
                            "ops", lambda rows: rows.table.time_ps // rows.steps),
            ),
            Picoseconds("per_core_ps", "total_ps / number of cores, rounded down; null: there are no cores",
                        lambda rows: rows.table.time_ps // rows.steps // max(rows.cores, 1),
                        lambda rows: np.full(len(rows.table), not rows.cores)),
            *resting_on(
                RAN,
                Picoseconds("busy_ps", "part of total_ps in which ops ran; null: no op is known to belong to a step",
                            lambda rows: rows.table.self_ps // rows.steps, _is_of_no_step),
            ),
            Share("busy_share", "busy_ps / total_ps; null: total_ps is 0, or less than busy_ps, because ops of a step "
                  "overlap or end after it, or busy_ps is null", _compute_busy_share),
            *op.AMOUNTS,
            *op.RATES,
            *op.MEMORY,
            *_BENEATH,
        ), derived=True),
        TableSchema("ops", "an instruction of a program on devices, largest self time first", (
            Count("rank", "place by self_ps, from 1", op.number_rows),
            *op.IDENTITY,
            *op.TIMES,
            Flag("is_feed", "whether the op is infeed or outfeed, which wait for the host", attrgetter("feeds")),
            Share("without_feeds_share", "self_ps / time observed without infeed and outfeed; null: the op is infeed "
                  "or outfeed, or there is no such time", _compute_share_without_feeds),
            *op.WORK,
            *op.RATES,
            *op.MEMORY,
            *_BENEATH,
            Picoseconds("least_ps", "time at the roofline: total_ps * roofline_percent / 100; null: roofline_percent "
                        "is null", _make_whole_formula("least_ps")),
            Picoseconds("lost_ps", "time that could be saved: self_ps - least_ps, at least 0; null: least_ps is null, "
                        "or nested ops do the work", _make_whole_formula("lost_ps")),
            _LOST_SHARE,
            op.FRAMEWORK_OP,
            op.SOURCE,
            op.EXPRESSION,
        ), derived=True),
        TableSchema("lost_time", "an op that took longer than at the roofline, the most lost time first", (
            Count("rank", "place by lost_ps, from 1", op.number_rows),
            *op.IDENTITY,
            op.SELF,
            Picoseconds("least_ps", "time at the roofline", _make_whole_formula("least_ps")),
            Picoseconds("lost_ps", "time that could be saved: self_ps - least_ps", _make_whole_formula("lost_ps")),
            _LOST_SHARE,
            Share("cumulative_lost_share", "sum of lost_share of this row and all rows above; null: lost_share is null",
                  lambda rows: _divide_by_total(np.cumsum(rows.efficiency.lost_ps), rows.total_ps)),
            op.Percent("roofline_percent", "time that the work takes at the roofline / total_ps", _ROOFLINE_PERCENT.of),
            op.BOUND_BY,
            op.FRAMEWORK_OP,
            op.SOURCE,
        ), derived=True),
        TableSchema("memory", "a memory that an op reads or writes", (
            Count("rank", "rank of the op in the ops table", lambda rows: rows.row + 1),
            Count("program_id", op.PROGRAM_ID.description,
                  lambda rows: op.mask_unknown_programs(rows.ops.table.program_id[rows.row])),
            op.Words("name", "op name", lambda rows: [rows.ops.table.name[row] for row in rows.row.tolist()]),
            Text("space", "memory: HBM, CMEM, VMEM, host memory, layout space n (by the program), memory n (by the "
                 "capture); null: not recorded", lambda rows: [name_space(space) for space in rows.spaces]),
            Text("direction", "direction of the bytes: read or write; null: unknown",
                 lambda rows: [_DIRECTIONS.get(operation) for operation in rows.operations]),
            op.Amount("bytes", "bytes of all executions of the op", attrgetter("size")),
            op.ByteRate("bytes_per_s", "bytes / total_ps of the op; null: total_ps is 0",
                        lambda rows: mask_unknown(rows.rate)),
            Number("flops_per_byte", "flops of the op / bytes; null: either is unknown or 0",
                   MemoryRows.flops_per_byte),
            op.Percent("peak_percent", "bytes_per_s / peak of the memory in this direction (of HBM, in both "
                       "together); null: bytes_per_s or the peak is unknown", MemoryRows.peak_percent),
        ), derived=True),
    )
}  # fmt: skip
