"""The tables of the roofline: each column, and its formula."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from operator import attrgetter
from typing import Any, Final

import numpy as np
import pyarrow as pa

from fastprof.derive.devices.nothing_ran import NothingRan
from fastprof.derive.ops import op_columns as op
from fastprof.derive.ops.ceilings import Ceiling
from fastprof.derive.ops.op_columns import OpRows, known, per
from fastprof.derive.ops.roofline import MEMORIES, ON_CHIP, Memory, divided
from fastprof.derive.ops.roofline_totals import AVERAGE, NO_STEP, STEP
from fastprof.derive.ops.tables import CMEM, HBM, HOST, OTHER_SPACES, READ, VMEM, WRITE, exact_sum
from fastprof.schema.array_types import Bools, Float64s
from fastprof.schema.column_kinds import Count, Flag, Number, Picoseconds, Share, Text
from fastprof.schema.tables import Column, Formula, Need, TableSchema, resting_on

RAN: Final = Need("core_count", NothingRan("no op of a device is recorded"))
_UNKNOWN: Final = "null: the peak or the work is unknown (in a sum, for over 10 % of the time), the op is a transfer"


def _intensity(memory: Memory) -> Column:
    name = memory.column
    return Number(f"flops_per_{name}_byte", f"flops / {name}_bytes; null: either is unknown, or the bytes are 0",
                  lambda rows: per(rows.flops, rows.memory[name]))  # fmt: skip


def _peak_percent(name: str, rate: str, peak: str) -> Column:
    return op.Percent(f"{name}_peak_percent", f"{rate} / the peak of {peak}; {_UNKNOWN}, or the time is 0",
                      lambda rows: known(100 * rows.efficiency.of(name)))  # fmt: skip


def _attainable(rows: Any) -> pa.Array:
    return op.per_s(np.where(rows.flops > 0, rows.flops, np.nan), rows.efficiency.least_ps)


def _whole(name: str) -> Formula:
    """A time of ``Efficiency`` in whole picoseconds; null if it is NaN, or more than 64 bits can hold."""
    of = attrgetter(f"efficiency.{name}")

    def rounded(rows: Any) -> pa.Array:
        values = of(rows)
        unknown = ~(values < 2.0**63)
        return pa.array(np.where(unknown, 0, np.rint(values)).astype(np.int64), mask=unknown)

    return rounded


def _of_total(lost: Float64s, total_ps: int) -> pa.Array:
    return known(lost / total_ps if total_ps > 0 else np.full(len(lost), np.nan))


def _without_feeds(rows: Any) -> pa.Array:
    self_ps, feeds = rows.table.self_ps, rows.feeds
    total = rows.total_ps - exact_sum(self_ps[feeds])
    return known(np.where(feeds | (total <= 0), np.nan, self_ps / max(total, 1)))


def _is_of_no_step(rows: Any) -> Bools:
    """Rows of steps, if no op is known to be of any of them."""
    of_steps = np.isin(rows.scope, (AVERAGE, STEP))
    return of_steps & (not rows.table.self_ps[of_steps].any())


def _busy_share(rows: Any) -> pa.Array:
    table = rows.table
    is_share = (table.time_ps > 0) & (table.self_ps <= table.time_ps) & ~_is_of_no_step(rows)
    return known(np.where(is_share, divided(table.self_ps, table.time_ps), np.nan))


def _ridges(ceilings: Sequence[Ceiling]) -> list[float | None]:
    compute = ceilings[0].per_ns if ceilings else 0.0
    return [None if one.is_compute or not one.per_ns or not compute else compute / one.per_ns for one in ceilings]


_SPACES: Final = {0: None, HOST: "host memory", HBM: "HBM", CMEM: "CMEM", VMEM: "VMEM"}
_DIRECTIONS: Final = {READ: "read", WRITE: "write"}


def space_name(space: int) -> str | None:
    """The name of a memory space; None: not recorded. Devices do not record what the spaces of layouts are."""
    if space in _SPACES:
        return _SPACES[space]
    return f"layout space {space - OTHER_SPACES}" if space >= OTHER_SPACES else f"memory {space}"


class MemoryRows:
    """What ops move to or from each memory, in the order of the ops. ``row``: row of the op."""

    def __init__(self, ops: OpRows) -> None:
        memory = ops.table.memory
        order = np.lexsort((memory.operation, memory.space, memory.row))
        self.ops = ops
        self.row, self.size = memory.row[order].astype(np.int64), memory.bytes[order]
        self.spaces, self.operations = memory.space[order].tolist(), memory.operation[order].tolist()

    @cached_property
    def rate(self) -> Float64s:
        """Bytes a second; NaN: the op took no time."""
        time_ps = self.ops.table.time_ps[self.row]
        return np.where(time_ps > 0, divided(self.size * 1e12, time_ps), np.nan)

    def flops_per_byte(self) -> pa.Array:
        flops = self.ops.flops[self.row]
        return per(np.where(flops > 0, flops, np.nan), self.size)

    def peak_percent(self) -> pa.Array:
        peak = {ceiling.column: ceiling.per_ns * 1e9 for ceiling in self.ops.efficiency.beneath}
        names = {(HBM, way): "hbm" for way in (0, READ, WRITE)}
        names |= {(one.space, one.operation): one.column for one in ON_CHIP}
        keys = zip(self.spaces, self.operations, strict=True)
        peaks = np.array([peak.get(names.get(key, ""), 0.0) for key in keys])
        return known(100 * np.where(peaks > 0, divided(self.rate, peaks), np.nan))


_ROOFLINE_PERCENT: Final = op.Percent(
    "roofline_percent", "largest of the peak percentages above: time that the work takes at the roofline / total_ps; "
    "null: the work, or the peak of arithmetic or of HBM, is unknown, or the op is, starts or awaits a transfer",
    lambda rows: known(100 * rows.efficiency.efficiency),
)  # fmt: skip
_BENEATH: Final = (
    *map(_intensity, MEMORIES),
    _peak_percent("compute", "flops_per_s", "arithmetic"),
    *(_peak_percent(one.column, f"{one.column}_bytes_per_s", one.name) for one in MEMORIES),
    op.BOUND_BY,
    _ROOFLINE_PERCENT,
    op.FlopRate("attainable_flops_per_s", "flops_per_s / roofline_percent, the rate at the roofline; null: "
                "roofline_percent is null, or there are no flops", _attainable),
)  # fmt: skip
_LOST_SHARE: Final = Share("lost_share", "lost_ps / self time of all ops and idle time; null: lost_ps is null, or "
                           "there is no such time",
                    lambda rows: _of_total(rows.efficiency.lost_ps, rows.total_ps))  # fmt: skip

TABLES: Final = {
    table.name: table
    for table in (
        TableSchema("device", "a peak of the device: of one TensorCore, or of one GPU", (
            Text("resource", "resource that has the peak: Compute, HBM, or a memory on the chip and a direction",
                 lambda ceilings: [one.name for one in ceilings]),
            Number("peak", "highest rate of the resource; null: unknown",
                   lambda ceilings: [one.per_ns * 1e9 or None for one in ceilings]),
            Text("unit", "unit of peak: flop/s or bytes/s",
                 lambda ceilings: ["flop/s" if one.is_compute else "bytes/s" for one in ceilings]),
            Number("ridge_flops_per_byte", "flops per byte above which arithmetic is the limit and not this memory; "
                   "null: the resource is not a memory, or a peak is unknown", _ridges),
            Text("peak_source", "source of peak: capture, published table (of the maker), parameter, or unknown",
                 lambda ceilings: [one.source or "unknown" for one in ceilings]),
        ), derived=True),
        TableSchema("totals", "the session, the average step, a step, or a program", (
            Text("scope", "what the row is of: session, average step, step or program", attrgetter("scope")),
            Count("step", "number of the step; null: the row is not a step", attrgetter("step"),
                  lambda rows: rows.step == NO_STEP),
            Count("program_id", f"{op.PROGRAM_ID.description}; null: the row is not of a program",
                  attrgetter("program"), lambda rows: ~rows.of_program | (rows.program == 0)),
            Text("program", f"{op.PROGRAM.description}; null: the row is not of a program", lambda rows: [
                rows.title(number) if is_program else None
                for number, is_program in zip(rows.program.tolist(), rows.of_program.tolist(), strict=True)
            ]),
            Flag("with_feeds", "whether the work and the time of infeed and outfeed count; rows without them exist "
                 "only if any ran", attrgetter("with_feeds")),
            *resting_on(
                RAN,
                Picoseconds("total_ps", "time observed on all cores, with idle time; of a program, self time of its "
                            "ops", lambda rows: rows.table.time_ps // rows.steps),
            ),
            Picoseconds("per_core_ps", "total_ps / number of cores, rounded down; null: there are no cores",
                        lambda rows: rows.table.time_ps // rows.steps // max(rows.cores, 1),
                        lambda rows: np.full(len(rows.table), not rows.cores)),
            *resting_on(
                RAN,
                Picoseconds("busy_ps", "part of total_ps in which ops ran; null: no op is known to be of any step",
                            lambda rows: rows.table.self_ps // rows.steps, _is_of_no_step),
            ),
            Share("busy_share", "busy_ps / total_ps; null: total_ps is 0, or less than busy_ps, because ops of a step "
                  "overlap or end after it, or busy_ps is null", _busy_share),
            *op.AMOUNTS,
            *op.RATES,
            *op.MEMORY,
            *_BENEATH,
        ), derived=True),
        TableSchema("ops", "an instruction of a program on devices, largest self time first", (
            Count("rank", "place by self_ps, from 1", op.rank),
            *op.IDENTITY,
            *op.TIMES,
            Flag("is_feed", "whether the op is infeed or outfeed, which wait for the host", attrgetter("feeds")),
            Share("without_feeds_share", "self_ps / time observed without infeed and outfeed; null: the op is infeed "
                  "or outfeed, or there is no such time", _without_feeds),
            *op.WORK,
            *op.RATES,
            *op.MEMORY,
            *_BENEATH,
            Picoseconds("least_ps", "time at the roofline: total_ps * roofline_percent / 100; null: roofline_percent "
                        "is null", _whole("least_ps")),
            Picoseconds("lost_ps", "time that could be saved: self_ps - least_ps, at least 0; null: least_ps is null, "
                        "or the work is that of nested ops", _whole("lost_ps")),
            _LOST_SHARE,
            op.FRAMEWORK_OP,
            op.SOURCE,
            op.EXPRESSION,
        ), derived=True),
        TableSchema("lost_time", "an op that took longer than at the roofline, the most lost time first", (
            Count("rank", "place by lost_ps, from 1", op.rank),
            *op.IDENTITY,
            op.SELF,
            Picoseconds("least_ps", "time at the roofline", _whole("least_ps")),
            Picoseconds("lost_ps", "time that could be saved: self_ps - least_ps", _whole("lost_ps")),
            _LOST_SHARE,
            Share("cumulative_lost_share", "sum of lost_share of this row and all rows above; null: lost_share is null",
                  lambda rows: _of_total(np.cumsum(rows.efficiency.lost_ps), rows.total_ps)),
            op.Percent("roofline_percent", "time that the work takes at the roofline / total_ps", _ROOFLINE_PERCENT.of),
            op.BOUND_BY,
            op.FRAMEWORK_OP,
            op.SOURCE,
        ), derived=True),
        TableSchema("memory", "a memory that an op reads or writes", (
            Count("rank", "rank of the op in the table ops", lambda rows: rows.row + 1),
            Count("program_id", op.PROGRAM_ID.description,
                  lambda rows: op.known_programs(rows.ops.table.program_id[rows.row])),
            op.Words("name", "name of the op", lambda rows: [rows.ops.table.name[row] for row in rows.row.tolist()]),
            Text("space", "memory: HBM, CMEM, VMEM, host memory, layout space n (by the program), memory n (by the "
                 "capture); null: not recorded", lambda rows: [space_name(space) for space in rows.spaces]),
            Text("direction", "direction of the bytes: read or write; null: unknown",
                 lambda rows: [_DIRECTIONS.get(operation) for operation in rows.operations]),
            op.Amount("bytes", "bytes of all executions of the op", attrgetter("size")),
            op.ByteRate("bytes_per_s", "bytes / total_ps of the op; null: total_ps is 0",
                        lambda rows: known(rows.rate)),
            Number("flops_per_byte", "flops of the op / bytes; null: either is unknown or 0",
                   MemoryRows.flops_per_byte),
            op.Percent("peak_percent", "bytes_per_s / peak of the memory in this direction (of HBM, in both "
                       "together); null: bytes_per_s or the peak is unknown", MemoryRows.peak_percent),
        ), derived=True),
    )
}  # fmt: skip
