"""How near ops, steps and programs come to the peaks of the device, and what bounds them.

Formulas: docs/analyses/roofline.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from fastprof.analyses.contract import Notice, Report, ScalarSpec, Section, Value, has_rows, scalars, union
from fastprof.derive.host import Host
from fastprof.derive.ops import device_ops
from fastprof.derive.ops import roofline_totals as rows_of
from fastprof.derive.ops.ceilings import COLUMNS, Ceiling, Efficiency, against, ceilings, known_bytes, known_flops
from fastprof.derive.ops.combine import merged
from fastprof.derive.ops.device_ops import HostDeviceOps, SessionOps
from fastprof.derive.ops.hlo_columns import (
    expressions,
    identity_columns,
    memory_columns,
    per,
    per_s,
    rate_columns,
    source_columns,
    time_columns,
    work_columns,
)
from fastprof.derive.ops.op_columns import Columns, known
from fastprof.derive.ops.op_remarks import remarks, why_no_ops
from fastprof.derive.ops.ranking import Ranked, by_cost
from fastprof.derive.ops.roofline import ON_CHIP, divided, moved_bytes
from fastprof.derive.ops.roofline_schemas import TABLES as TABLES
from fastprof.derive.ops.roofline_totals import Totals
from fastprof.derive.ops.step_ops import WHOLE, StepOps, is_feed, step_ops
from fastprof.derive.ops.tables import (
    CMEM,
    HBM,
    HOST,
    READ,
    VMEM,
    WRITE,
    OpTable,
    exact_sum,
)
from fastprof.derive.ops.transfers import once, waits
from fastprof.derive.ops.unknown_work import MOST_UNKNOWN, TOO_MUCH, unknown_shares
from fastprof.derive.steps.across_hosts import SessionSteps
from fastprof.derive.steps.database import StepDatabase
from fastprof.derive.steps_from import MARKERS, MODULES, STEPS_FROM
from fastprof.schema.array_types import Bools, Float64s, Int64s

NAME = "roofline"
READS = union([
    Host.GROUPING,
    device_ops.READS,
])  # fmt: skip
AFTER = ("steps",)


@dataclass(frozen=True, slots=True)
class Params:
    steps_from: str = field(default=MARKERS, metadata=STEPS_FROM)


SCALARS = {
    "device_type": ScalarSpec(None, "what the capture calls the device"),
    "core_count": ScalarSpec(None, "TensorCores, or GPUs, that ran anything"),
    "peak_flops_per_s": ScalarSpec("flop/s", "of one core or GPU at best", "peak arithmetic"),
    "peak_hbm_bytes_per_s": ScalarSpec("bytes/s", "bandwidth of the HBM of one core or GPU", "peak HBM bandwidth"),
    "ridge_flops_per_byte": ScalarSpec(None, "flops per byte of HBM above which arithmetic is the limit",
                                       "ridge (flops per byte)"),
    "flops_per_s": ScalarSpec("flop/s", "flops of all ops / time observed, of one core or GPU", "arithmetic"),
    "hbm_bytes_per_s": ScalarSpec("bytes/s", "bytes of HBM of all ops / time observed, of one core or GPU",
                                  "HBM bandwidth"),
    "compute_peak_percent": ScalarSpec("%", "flops_per_s / peak_flops_per_s", "of peak arithmetic"),
    "hbm_peak_percent": ScalarSpec("%", "hbm_bytes_per_s / peak_hbm_bytes_per_s", "of peak HBM bandwidth"),
    "bound_by": ScalarSpec(None, "the resource that all ops together come nearest to exhaust"),
    "ops_roofline_percent": ScalarSpec("%", "1 - lost_ps / self time, of ops of which that is known: without idle "
                                       "time, unlike roofline_percent of totals", "ops of the roofline"),
    "lost_ps": ScalarSpec("ps", "self time of ops beyond what they would take at the roofline: what could be won"),
    "unknown_ps": ScalarSpec("ps", "self time of ops of which that is not known, whose work is that of ops within, or "
                             "that start, await or are transfers"),
    "clock_share": ScalarSpec("share", "self time at the nominal clock / self time; below 1: the clock was lower"),
}  # fmt: skip
SECTIONS = (
    Section("Device", scalars=("device_type", "core_count", "peak_flops_per_s", "peak_hbm_bytes_per_s",
            "ridge_flops_per_byte")),
    Section("Reached", scalars=("flops_per_s", "hbm_bytes_per_s", "compute_peak_percent", "hbm_peak_percent",
            "bound_by", "ops_roofline_percent", "lost_ps", "unknown_ps")),
    Section("Peaks", "device", ("resource", "peak", "unit", "ridge_flops_per_byte", "peak_source"),
            shown=has_rows("device")),
    Section("Session, steps, programs", "totals", ("scope", "step", "total_ps", "roofline_percent", "bound_by",
            "compute_peak_percent", "hbm_peak_percent", "program", "flops_per_s", "hbm_bytes_per_s", "flops_per_byte",
            "with_feeds"), shown=has_rows("totals"), by_worth=True),
    Section("Ops (summed over devices)", "ops", ("name", "self_ps", "self_share", "roofline_percent",
            "bound_by", "lost_ps", "category", "flops_per_s", "hbm_bytes_per_s", "flops_per_byte", "program"),
            "self_share", 20, shown=has_rows("ops"), by_worth=True),
    Section("What could be won", "lost_time", ("name", "lost_ps", "lost_share", "roofline_percent", "bound_by",
            "category", "self_ps", "least_ps", "program"), "lost_share", shown=has_rows("lost_time"), by_worth=True),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class RooflineHost:
    """What is kept of one host. ``steps``: what its ops did by step."""

    devices: HostDeviceOps
    steps: StepOps


@dataclass(frozen=True, slots=True)
class Roofline:
    """What the report is made of. ``kept``: of each host; ``ops``: in the order of the table, beneath ``beneath``."""

    devices: SessionOps
    steps: StepDatabase
    kept: tuple[RooflineHost, ...]
    ops: Ranked
    beneath: tuple[Ceiling, ...]
    efficiency: Efficiency

    @property
    def device_count(self) -> int:
        """Those on which anything ran."""
        return sum(_ran(host.devices) for host in self.kept)

    def of_steps(self, *, with_feeds: bool) -> Totals:
        counts = [_ran(host.devices) for host in self.kept]
        return rows_of.of_steps(self.steps, [host.steps for host in self.kept], counts, with_feeds=with_feeds)


def _ran(host: HostDeviceOps) -> int:
    return sum(len(ops.table) > 0 for _, ops in host.by_device)


def of_host(given: Host, params: Params) -> RooflineHost:
    devices = given.device_ops
    groups = given.groups_from(modules=params.steps_from == MODULES)
    tables = [once(ops.table) for _, ops in devices.by_device]
    return RooflineHost(devices, step_ops(given, groups, tables))


def run(kept: Sequence[RooflineHost], _params: Params, after: Mapping[str, Report]) -> Report:
    devices = SessionOps.of([one.devices for one in kept])
    ops = by_cost(devices.ops)
    beneath = tuple(ceilings(devices.peaks))
    found = Roofline(
        devices,
        after["steps"].detail_as(SessionSteps).database,
        tuple(kept),
        ops,
        beneath,
        against(ops.table, beneath),
    )
    totals = _totals(found)
    tables = {
        "device": _device_table(found),
        "totals": _totals_table(found, totals),
        "ops": _ops_table(found),
        "lost_time": _lost_table(found),
        "memory": _memory_table(found),
    }
    return Report(NAME, tables, scalars(SCALARS, _figures(found, totals)), tuple(_notices(found)), after, found)


# ---- tables


def _table(name: str, columns: Columns) -> pa.Table:
    return pa.table(columns, schema=TABLES[name].arrow())


def _device_table(found: Roofline) -> pa.Table:
    beneath = found.beneath if found.devices.peaks is not None else ()
    compute = beneath[0].per_ns if beneath else 0.0
    columns = {
        "resource": [one.name for one in beneath],
        "peak": [one.per_ns * 1e9 or None for one in beneath],
        "unit": ["flop/s" if one.is_compute else "bytes/s" for one in beneath],
        "ridge_flops_per_byte": [
            None if one.is_compute or not one.per_ns or not compute else compute / one.per_ns for one in beneath
        ],
        "peak_source": [one.source or "unknown" for one in beneath],
    }
    return _table("device", columns)


def _totals(found: Roofline) -> list[Totals]:
    """The session, the average step, each step, each program; then again without infeed and outfeed, where any ran."""
    if not found.devices.ops.parts:
        return []
    ops = replace(found.devices.ops, table=once(found.devices.ops.table))
    fed = bool(is_feed(ops.table).any())
    totals = []
    for with_feeds in (True, False) if fed else (True,):
        totals.append(rows_of.of_session(ops, with_feeds=with_feeds))
        steps = found.of_steps(with_feeds=with_feeds)
        if len(steps):
            totals += [rows_of.average(steps), steps]
        totals.append(rows_of.of_programs(ops, with_feeds=with_feeds))
    return totals


def _totals_table(found: Roofline, totals: Sequence[Totals]) -> pa.Table:
    counts = [len(one) for one in totals]
    table = merged([one.table for one in totals], np.arange(sum(counts)), [(0, WHOLE)] * sum(counts))
    steps = np.repeat([one.steps for one in totals], counts).astype(np.int64)
    step = np.concatenate([one.step for one in totals] or [np.zeros(0, np.int64)])
    program = np.concatenate([one.table.program_id for one in totals] or [np.zeros(0, np.int64)])
    of_program = np.repeat([one.scope == rows_of.PROGRAM for one in totals], counts).astype(bool)
    scopes = [one.scope for one in totals for _ in range(len(one))]
    columns = {
        "scope": scopes,
        "step": pa.array(step, mask=step == rows_of.NO_STEP),
        "program_id": pa.array(program, mask=~of_program),
        "program": [
            found.devices.title(number) if known else None
            for number, known in zip(program.tolist(), of_program.tolist(), strict=True)
        ],
        "with_feeds": np.repeat([one.with_feeds for one in totals], counts).astype(bool),
        **_observed(table, steps, found.device_count),
    }
    beneath = _beneath_columns(
        table, found.beneath, against(table, found.beneath, _unknown_work(found, program, of_program))
    )
    work = _mean_work(table, steps) | rate_columns(table) | beneath
    return _table("totals", work | columns)


def _unknown_work(found: Roofline, program: Int64s, of_program: Bools) -> tuple[Bools, Bools]:
    """Of each row of totals whether too much of the flops, or of the bytes, is not known: of a program its own, else
    that of the session."""
    ops = found.devices.ops.table
    rows = np.where(of_program, program, 0)
    too_much = np.zeros((len(rows), 2), bool)
    for number in np.unique(rows[of_program]).tolist():
        mine = ops.take(np.flatnonzero(ops.program_id == number).astype(np.int64))
        too_much[of_program & (rows == number)] = np.array(unknown_shares(mine)) > MOST_UNKNOWN
    too_much[~of_program] = np.array(unknown_shares(ops)) > MOST_UNKNOWN
    return too_much[:, 0], too_much[:, 1]


def _observed(table: OpTable, steps: Int64s, cores: int) -> Columns:
    total, busy = table.time_ps // steps, table.self_ps // steps
    share = divided(table.self_ps, table.time_ps)
    return {
        "total_ps": total,
        "per_core_ps": pa.array(total // max(cores, 1), mask=np.full(len(table), not cores)),
        "busy_ps": busy,
        "busy_share": known(np.where(table.time_ps > 0, share, np.nan)),
    }


def _mean_work(table: OpTable, steps: Int64s) -> Columns:
    """Of one step, where figures are of several; rates need no such."""
    no_flops, no_bytes = ~known_flops(table), ~known_bytes(table)
    columns: Columns = {
        "flops": pa.array(table.flops / steps, mask=no_flops),
        "model_flops": pa.array(table.model_flops / steps, mask=no_flops),
        "accessed_bytes": pa.array(table.bytes_accessed / steps, mask=no_bytes),
    }
    for name, size in moved_bytes(table).items():
        columns[f"{name}_bytes"] = pa.array(size / steps, mask=no_bytes)
        columns[f"{name}_bytes_per_s"] = per_s(np.where(no_bytes, np.nan, size), table.time_ps)
    return columns


def _beneath_columns(table: OpTable, beneath: Sequence[Ceiling], found: Efficiency) -> Columns:
    flops = np.where(known_flops(table), table.flops, np.nan)
    told = known_bytes(table)
    columns: Columns = {
        f"flops_per_{name}_byte": per(flops, np.where(told, size, np.nan)) for name, size in moved_bytes(table).items()
    }
    place = {ceiling.column: number for number, ceiling in enumerate(beneath)}
    for name in COLUMNS:
        share = found.utilisation[:, place[name]] if name in place else np.full(len(table), np.nan)
        columns[f"{name}_peak_percent"] = known(100 * share)
    attainable = per_s(np.where(flops > 0, flops, np.nan), found.least_ps)
    return columns | {
        "bound_by": found.bound_by,
        "roofline_percent": known(100 * found.efficiency),
        "attainable_flops_per_s": attainable,
    }


def _ops_table(found: Roofline) -> pa.Table:
    table, total = found.ops.table, found.devices.ops.shared_ps
    feeds = is_feed(table)
    without = total - exact_sum(table.self_ps[feeds])
    share = np.where(feeds | (without <= 0), np.nan, table.self_ps / max(without, 1))
    columns = {
        "rank": np.arange(1, len(table) + 1),
        "is_feed": feeds,
        "without_feeds_share": known(share),
        "expression": expressions(table),
        **_lost_columns(found, np.arange(len(table))),
    }
    identity = identity_columns(table, found.devices.title) | time_columns(found.ops) | source_columns(table)
    work = work_columns(table) | rate_columns(table) | memory_columns(table)
    return _table("ops", identity | work | _beneath_columns(table, found.beneath, found.efficiency) | columns)


def _lost_columns(found: Roofline, rows: Int64s) -> Columns:
    """Of these ops, in this order."""
    total = found.devices.ops.shared_ps
    least, lost = found.efficiency.least_ps[rows], found.efficiency.lost_ps[rows]
    return {
        "least_ps": _whole(least),
        "lost_ps": _whole(lost),
        "lost_share": known(lost / total if total > 0 else np.full(len(lost), np.nan)),
    }


def _whole(values: Float64s) -> pa.Array:
    """Rounded to whole numbers, null where they are NaN or 64 bits do not hold them."""
    unknown = ~(values < 2.0**63)
    return pa.array(np.where(unknown, 0, np.rint(values)).astype(np.int64), mask=unknown)


def _lost_table(found: Roofline) -> pa.Table:
    lost, total = np.nan_to_num(found.efficiency.lost_ps), found.devices.ops.shared_ps
    order = np.argsort(-lost, kind="stable").astype(np.int64)
    order = order[lost[order] > 0]
    table = found.ops.table.take(order)
    told = _lost_columns(found, order)
    bound_by = found.efficiency.bound_by
    columns = {
        "rank": np.arange(1, len(order) + 1),
        "self_ps": table.self_ps,
        "cumulative_lost_share": known(np.cumsum(lost[order]) / total if total > 0 else np.full(len(order), np.nan)),
        "roofline_percent": 100 * found.efficiency.efficiency[order],
        "bound_by": [bound_by[row] for row in order.tolist()],
    }
    identity = identity_columns(table, found.devices.title) | source_columns(table)
    return _table("lost_time", identity | told | columns)


_SPACES = {0: "not told", HOST: "host memory", HBM: "HBM", CMEM: "CMEM", VMEM: "VMEM"}
_OF_LAYOUTS = 1000
"""From here on codes of memory spaces are those of layouts, of which the device does not say what they are."""


def space_name(space: int) -> str:
    """What a memory space is called."""
    if space in _SPACES:
        return _SPACES[space]
    return f"layout space {space - _OF_LAYOUTS}" if space >= _OF_LAYOUTS else f"memory {space}"


def _memory_table(found: Roofline) -> pa.Table:
    table, memory = found.ops.table, found.ops.table.memory
    order = np.lexsort((memory.operation, memory.space, memory.row))
    row, size = memory.row[order].astype(np.int64), memory.bytes[order]
    rate = np.where(table.time_ps[row] > 0, divided(size * 1e12, table.time_ps[row]), np.nan)
    directions = {READ: "read", WRITE: "write"}
    spaces, operations = memory.space[order].tolist(), memory.operation[order].tolist()
    flops = np.where(known_flops(table), table.flops, np.nan)
    columns = {
        "rank": row + 1,
        "program_id": table.program_id[row],
        "name": [table.name[one] for one in row.tolist()],
        "space": [space_name(space) for space in spaces],
        "direction": [directions.get(one) for one in operations],
        "bytes": size,
        "bytes_per_s": known(rate),
        "flops_per_byte": per(np.where(flops[row] > 0, flops[row], np.nan), size),
        "peak_percent": known(100 * _memory_utilisation(rate, found.beneath, spaces, operations)),
    }
    return _table("memory", columns)


def _memory_utilisation(rate: Float64s, beneath: Sequence[Ceiling], spaces: list[int], ways: list[int]) -> Float64s:
    """``rate``: bytes a second."""
    peak = {ceiling.column: ceiling.per_ns * 1e9 for ceiling in beneath}
    names = {(HBM, way): "hbm" for way in (0, READ, WRITE)}
    names |= {(one.space, one.operation): one.column for one in ON_CHIP}
    peaks = np.array([peak.get(names.get(key, ""), 0.0) for key in zip(spaces, ways, strict=True)])
    return np.where(peaks > 0, divided(rate, peaks), np.nan)


# ---- figures and notices


def _figures(found: Roofline, totals: Sequence[Totals]) -> dict[str, Value | tuple[None, str]]:
    peaks = found.devices.peaks
    if not found.devices.ops.parts or not totals:
        return dict.fromkeys(SCALARS, (None, why_no_ops(found.devices)))
    why = "; ".join(peaks.reasons) if peaks and peaks.reasons else "the peaks of the device are not known"
    compute, hbm = found.beneath[0].per_ns, found.beneath[1].per_ns
    return {
        "device_type": peaks.name if peaks and peaks.name else (None, "the capture does not say"),
        "core_count": found.device_count,
        "peak_flops_per_s": compute * 1e9 or (None, why),
        "peak_hbm_bytes_per_s": hbm * 1e9 or (None, why),
        "ridge_flops_per_byte": compute / hbm if compute and hbm else (None, why),
        **_reached(found, totals[0].table, why),
        **_won(found),
    }


def _reached(found: Roofline, table: OpTable, why: str) -> dict[str, Value | tuple[None, str]]:
    too_much = tuple(np.array([share > MOST_UNKNOWN]) for share in unknown_shares(found.devices.ops.table))
    beneath = against(table, found.beneath, (too_much[0], too_much[1]))
    unknown = "no op tells its work"
    time_ps = int(table.time_ps[0])
    rates: dict[str, Value | tuple[None, str]] = {}
    for name, told, amount, place, share in (
        ("flops_per_s", known_flops(table), table.flops, 0, "compute_peak_percent"),
        ("hbm_bytes_per_s", known_bytes(table), table.hbm_bytes(), 1, "hbm_peak_percent"),
    ):
        known = bool(told[0]) and time_ps > 0
        rates[name] = float(amount[0]) * 1e12 / time_ps if known else (None, unknown)
        used = float(beneath.utilisation[0, place])
        reason = TOO_MUCH if known and too_much[place][0] else why if known else unknown
        rates[share] = 100 * used if not np.isnan(used) else (None, reason)
    bound_by = beneath.bound_by[0] or (None, TOO_MUCH if any(map(np.any, too_much)) else f"{unknown}, or {why}")
    return {**rates, "bound_by": bound_by}


def _won(found: Roofline) -> dict[str, Value | tuple[None, str]]:
    ops, lost = found.devices.ops, found.efficiency.lost_ps
    told = ~np.isnan(lost)
    self_ps = found.ops.table.self_ps
    spent = int(self_ps[told].sum())
    why = "of no op both the work and the peaks are known"
    sum_lost = float(lost[told].sum())
    return {
        "ops_roofline_percent": 100 * (1 - sum_lost / spent) if spent else (None, why),
        "lost_ps": round(sum_lost) if spent else (None, why),
        "unknown_ps": int(self_ps[~told].sum()),
        "clock_share": ops.normalized_op_ps / ops.op_ps
        if ops.normalized_op_ps and ops.op_ps
        else (None, "the device does not tell its clock"),
    }


def _notices(found: Roofline) -> Iterator[Notice]:
    yield from (Notice(*one) for one in remarks(found.devices))
    yield from _elsewhere(found)
    yield from _beside_steps(found)


def _elsewhere(found: Roofline) -> Iterator[Notice]:
    """Says that ops with work of their own stand beneath no roof: their self time is not the time of that work."""
    table, efficiency = found.ops.table, found.efficiency.efficiency
    count = int(((table.flops > 0) & (table.bytes_accessed > 0) & waits(table)).sum())
    if count and not np.isnan(efficiency).all():
        text = (
            f"{count} ops only start or await transfers and collectives: their self time is not that of their work, so "
            "that how near they come to the roofline is not known."
        )
        yield Notice("info", text)


_LITTLE = 0.5
"""Share of the ops' time; steps that hold less of it are not what ops ran in."""


def _beside_steps(found: Roofline) -> Iterator[Notice]:
    """Says where steps hold little of what ran: their rows are then not those of the work."""
    steps, op_ps = found.of_steps(with_feeds=True), found.devices.ops.op_ps
    held = int(steps.table.self_ps.sum())
    if not len(steps) or not op_ps or held >= _LITTLE * op_ps:
        return
    text = (
        f"Steps hold {100 * held / op_ps:.1f} % of the time of ops: the rest ran outside of them, as where markers "
        "enclose what starts the work, not the work. --steps-from modules makes each execution of a program a step."
    )
    yield Notice("info", text)
