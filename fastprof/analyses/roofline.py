"""How close ops, steps and programs come to the device peaks, and what bounds them.

Formulas: docs/analyses/roofline.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Any

import numpy as np

from fastprof.analyses.contract import (
    OF_OPS,
    Alike,
    AnalysisReport,
    Known,
    Notice,
    Opening,
    ScalarSpec,
    Section,
    has_rows,
    make_scalars,
)
from fastprof.analyses.parameters import DEVICE_NAME, PEAKS, get_chosen_peaks
from fastprof.derive.devices import run_environment
from fastprof.derive.host import Host
from fastprof.derive.ops import device_ops
from fastprof.derive.ops import roofline_tables as rows_of
from fastprof.derive.ops.device_ops import HostDeviceOps, MergedDeviceOps, SessionOps, explain_no_ops, list_remarks
from fastprof.derive.ops.op_columns import SIMILAR, OpRows
from fastprof.derive.ops.op_table import RankedOps, merge_tables, rank_by_cost
from fastprof.derive.ops.roofline_model import (
    MOST_UNKNOWN,
    TOO_MUCH,
    Ceiling,
    Efficiency,
    count_transfers_once,
    list_ceilings,
    mark_transfers,
    measure_efficiency,
    measure_unknown_shares,
)
from fastprof.derive.ops.roofline_tables import RAN, WHOLE, MemoryRows, RooflineTotals, StepOps, is_feed, sum_step_ops
from fastprof.derive.ops.roofline_tables import TABLES as TABLES
from fastprof.derive.steps.step_alignment import SessionSteps
from fastprof.derive.steps.step_database import StepDatabase
from fastprof.derive.steps.step_source import AUTO, STEPS_FROM
from fastprof.schema.columns import number_values
from fastprof.schema.value_classes import dataclass
from fastprof.tables.needs import unite_needs

NAME = "roofline"
READS = unite_needs([
    Host.GROUPING,
    device_ops.READS,
])  # fmt: skip
AFTER = ("steps",)
REMEDY = "Profile a program that XLA compiles, while it runs. op_stats shows ops of other programs."
CONTENT = OF_OPS


@dataclass(frozen=True, slots=True)
class Params:
    steps_from: str = field(default=AUTO, metadata=STEPS_FROM)
    device: str | None = field(default=None, metadata=DEVICE_NAME)
    peak: str | None = field(default=None, metadata=PEAKS)


SCALARS = {
    "device_type": ScalarSpec(None, "device name in the capture"),
    "device_count": ScalarSpec(None, run_environment.IN_WORDS),
    "core_count": ScalarSpec(None, "devices that ran ops of compiled programs, or kernels"),
    "peak_flops_per_s": ScalarSpec("flop/s", "peak arithmetic of one core or GPU", "peak arithmetic"),
    "peak_hbm_bytes_per_s": ScalarSpec("bytes/s", "bandwidth of the HBM of one core or GPU", "peak HBM bandwidth"),
    "ridge_flops_per_byte": ScalarSpec(None, "ridge point: flops per HBM byte above which arithmetic is the limit",
                                       "ridge (flops per byte)"),
    "flops_per_s": ScalarSpec("flop/s", "flops of all ops / time observed, per core or GPU", "arithmetic"),
    "hbm_bytes_per_s": ScalarSpec("bytes/s", "HBM bytes of all ops / time observed, per core or GPU", "HBM bandwidth"),
    "compute_peak_percent": ScalarSpec("%", "flops_per_s / peak_flops_per_s", "of peak arithmetic"),
    "hbm_peak_percent": ScalarSpec("%", "hbm_bytes_per_s / peak_hbm_bytes_per_s", "of peak HBM bandwidth"),
    "bound_by": ScalarSpec(None, "resource that all ops together used nearest to its peak"),
    "ops_roofline_percent": ScalarSpec("%", "1 - lost_ps / self time, over ops whose lost_ps is known; excludes idle "
                                       "time, unlike roofline_percent of totals", "ops of the roofline"),
    "lost_ps": ScalarSpec("ps", "time that could be saved: self time of ops beyond their time at the roofline"),
    "unknown_ps": ScalarSpec("ps", "self time of ops whose lost_ps is unknown, whose work is done by nested ops, or "
                             "that are parts of transfers", "op time without a known roofline", need=RAN),
    "clock_share": ScalarSpec("share", "self time at the nominal clock / self time; below 1 if the clock was lower"),
}  # fmt: skip
OPENING = Opening(
    (
        "Ops reach {ops_roofline_percent} of their roofline; they are bound by {bound_by}.",
    ),
    (
        "ops_roofline_percent", "bound_by", "compute_peak_percent", "hbm_peak_percent", "lost_ps", "unknown_ps",
        "device_type",
    ),
)  # fmt: skip

SECTIONS = (
    Section("Device", scalars=("device_type", "device_count", "core_count", "peak_flops_per_s", "peak_hbm_bytes_per_s",
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
            "self_share", 20, shown=has_rows("ops"), by_worth=True,
            alike=Alike(("name", "framework_op"), ("self_ps", "self_share", "lost_ps"), SIMILAR)),
    Section("Possible gain", "lost_time", ("name", "lost_ps", "lost_share", "roofline_percent", "bound_by",
            "category", "self_ps", "least_ps", "program"), "lost_share", shown=has_rows("lost_time"), by_worth=True,
            alike=Alike(("name", "framework_op"), ("lost_ps", "lost_share", "self_ps", "least_ps"), SIMILAR)),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class RooflineHosts:
    """Roofline state of one host or several. ``planes``, ``ran``: per host, the devices listed and the devices that ran
    anything; ``steps``: work of its ops in each step, empty if not requested."""

    devices: HostDeviceOps | MergedDeviceOps
    planes: tuple[int, ...]
    ran: tuple[int, ...]
    steps: tuple[StepOps, ...]


@dataclass(frozen=True, slots=True)
class Roofline:
    """Intermediate results of the report. ``ops``: in table order; ``efficiency``: of ``ops`` below the ceilings
    ``beneath``."""

    devices: SessionOps
    steps: StepDatabase
    planes: tuple[int, ...]
    ran: tuple[int, ...]
    of_hosts: tuple[StepOps, ...]
    ops: RankedOps
    beneath: tuple[Ceiling, ...]
    efficiency: Efficiency

    @property
    def device_count(self) -> int:
        return run_environment.count_devices([host.present for host in self.devices.hosts])

    @property
    def core_count(self) -> int:
        """Number of devices on which anything ran."""
        return sum(self.ran)

    def of_steps(self, *, with_feeds: bool) -> RooflineTotals | None:
        """Return the work of steps, or None if host states lack it."""
        if len(self.of_hosts) != len(self.ran):
            return None
        return rows_of.sum_step_work(self.steps, self.of_hosts, self.ran, with_feeds=with_feeds)


def of_host(given: Host, params: Params) -> RooflineHosts:
    groups = given.groups_from(params.steps_from)
    tables = [count_transfers_once(ops.table) for _, ops in given.device_ops.by_device]
    return replace(of_host_for_others(given, params), steps=(sum_step_ops(given, groups, tables),))


def of_host_for_others(given: Host, params: Params) -> RooflineHosts:
    """Return the host state without the steps of ``totals``."""
    devices = given.device_ops
    ran = sum(len(ops.table) > 0 for _, ops in devices.by_device)
    return RooflineHosts(replace(devices, by_device=()), (len(devices.by_device),), (ran,), ())


def merge(kept: Sequence[RooflineHosts], params: Params, shared: dict[Any, Any]) -> RooflineHosts:
    return RooflineHosts(MergedDeviceOps.of([host.devices for host in kept], shared), *_join_counts(kept))


def _join_counts(kept: Sequence[RooflineHosts]) -> tuple[tuple[int, ...], tuple[int, ...], tuple[StepOps, ...]]:
    """Concatenate ``planes``, ``ran`` and ``steps`` of all hosts."""
    planes, ran = (tuple(count for host in kept for count in getattr(host, name)) for name in ("planes", "ran"))
    return planes, ran, tuple(steps for host in kept for steps in host.steps)


def run(kept: Sequence[RooflineHosts], params: Params, after: Mapping[str, AnalysisReport]) -> AnalysisReport:
    devices = SessionOps.of([host.devices for host in kept], get_chosen_peaks(params))
    ops = rank_by_cost(devices.ops)
    beneath = tuple(list_ceilings(devices.peaks))
    efficiency = measure_efficiency(ops.table, beneath)
    steps = after["steps"].detail_as(SessionSteps).database
    roofline = Roofline(devices, steps, *_join_counts(kept), ops, beneath, efficiency)
    total_rows = _make_total_rows(roofline, _list_totals(roofline))
    rows = OpRows(
        table=ops.table,
        ranked=ops,
        title=devices.title,
        efficiency=efficiency,
        total_ps=devices.ops.shared_ps,
        feeds=is_feed(ops.table),
    )
    lost = np.nan_to_num(efficiency.lost_ps)
    order = np.argsort(-lost, kind="stable").astype(np.int64)
    order = order[lost[order] > 0]
    lost_rows = OpRows(
        table=ops.table.take(order), title=rows.title, efficiency=efficiency.take(order), total_ps=rows.total_ps
    )
    tables = {
        "device": TABLES["device"].of(beneath if devices.peaks is not None else ()),
        "totals": TABLES["totals"].of(total_rows),
        "ops": TABLES["ops"].of(rows),
        "lost_time": TABLES["lost_time"].of(lost_rows),
        "memory": TABLES["memory"].of(MemoryRows(rows)),
    }
    figures = make_scalars(SCALARS, _compute_figures(roofline, total_rows))
    return AnalysisReport(NAME, tables, figures, tuple(_list_notices(roofline)), after, roofline)


# ---- rows of the tables


def _list_totals(roofline: Roofline) -> list[RooflineTotals]:
    """List the totals of the session, the average step, the steps and the programs, then without infeed and outfeed, if
    any ran."""
    if not roofline.devices.ops.parts:
        return []
    ops = replace(roofline.devices.ops, table=count_transfers_once(roofline.devices.ops.table))
    fed = bool(is_feed(ops.table).any())
    totals = []
    for with_feeds in (True, False) if fed else (True,):
        totals.append(rows_of.sum_session_work(ops, with_feeds=with_feeds))
        steps = roofline.of_steps(with_feeds=with_feeds)
        if steps:
            totals += [rows_of.average_steps(steps), steps]
        totals.append(rows_of.sum_program_work(ops, with_feeds=with_feeds))
    return totals


def _make_total_rows(roofline: Roofline, totals: Sequence[RooflineTotals]) -> OpRows:
    counts = [len(total) for total in totals]
    table = merge_tables([total.table for total in totals], np.arange(sum(counts)), [(0, WHOLE)] * sum(counts))
    none = [np.zeros(0, np.int64)]
    program = np.concatenate([total.table.program_id for total in totals] or none)
    of_program = np.repeat([total.scope == rows_of.PROGRAM for total in totals], counts).astype(bool)
    # Too much of the flops, and of the bytes, is unknown in the row's program, or else in the session.
    ops = roofline.devices.ops.table
    programs, own = number_values(ops.program_id)
    of_session = measure_unknown_shares(ops, np.zeros(len(ops), np.int64), 1)
    of_programs = measure_unknown_shares(ops, own.reshape(-1), len(programs) + 1)  # the last for rows of other kinds
    place = np.where(of_program, np.searchsorted(programs, program), len(programs))
    flops, moved = (
        np.where(of_program, each[place], whole[0]) > MOST_UNKNOWN
        for whole, each in zip(of_session, of_programs, strict=True)
    )
    too_much = flops, moved
    return OpRows(
        table=table,
        scope=[total.scope for total in totals for _ in range(len(total))],
        steps=np.repeat([total.steps for total in totals], counts).astype(np.int64),
        step=roofline.steps.numbers_of(np.concatenate([total.step for total in totals] or none)),
        program=program,
        of_program=of_program,
        title=roofline.devices.title,
        with_feeds=np.repeat([total.with_feeds for total in totals], counts).astype(bool),
        cores=roofline.core_count,
        too_much=too_much,
        efficiency=measure_efficiency(table, roofline.beneath, too_much),
    )


# ---- figures and notices


def _compute_figures(roofline: Roofline, totals: OpRows) -> dict[str, Known]:
    peaks = roofline.devices.peaks
    if not roofline.devices.ops.parts:
        return {
            **dict.fromkeys(SCALARS, (None, explain_no_ops(roofline.devices))),
            "device_count": roofline.device_count,
        }
    why = "; ".join(peaks.reasons) if peaks and peaks.reasons else "the device peaks are unknown"
    compute, hbm = roofline.beneath[0].per_ns, roofline.beneath[1].per_ns
    ops, lost, self_ps = roofline.devices.ops, roofline.efficiency.lost_ps, roofline.ops.table.self_ps
    is_known = ~np.isnan(lost)
    known_ps, lost_ps = int(self_ps[is_known].sum()), int(lost[is_known].astype(np.int64).sum())
    unknown = (None, "no op has both known work and known peaks")
    has_clock = ops.normalized_op_ps and ops.op_ps
    clock_share = ops.normalized_op_ps / ops.op_ps if has_clock else (None, "the device does not record its clock")
    return {
        "device_type": peaks.name if peaks and peaks.name else (None, "the capture does not say"),
        "device_count": roofline.device_count,
        "core_count": roofline.core_count,
        "peak_flops_per_s": compute * 1e9 or (None, why),
        "peak_hbm_bytes_per_s": hbm * 1e9 or (None, why),
        "ridge_flops_per_byte": compute / hbm if compute and hbm else (None, why),
        **_compute_reached(totals, why),
        "ops_roofline_percent": 100 * (1 - lost_ps / known_ps) if known_ps else unknown,
        "lost_ps": lost_ps if known_ps else unknown,
        "unknown_ps": int(self_ps[~is_known].sum()),
        "clock_share": clock_share,
    }


def _compute_reached(rows: OpRows, why: str) -> dict[str, Known]:
    """Return the figures of the first total, the session."""
    unknown, time_ps = "no op records its work", int(rows.table.time_ps[0])
    figures: dict[str, Known] = {}
    for rate, share, amount, place in (
        ("flops_per_s", "compute_peak_percent", rows.flops, 0),
        ("hbm_bytes_per_s", "hbm_peak_percent", rows.memory["hbm"], 1),
    ):
        is_known = not np.isnan(amount[0]) and time_ps > 0
        figures[rate] = float(amount[0]) * 1e12 / time_ps if is_known else (None, unknown)
        used = float(rows.efficiency.utilisation[0, place])
        reason = unknown if not is_known else TOO_MUCH if rows.too_much[place][0] else why
        figures[share] = 100 * used if not np.isnan(used) else (None, reason)
    reason = TOO_MUCH if any(rows[0] for rows in rows.too_much) else f"{unknown}, or {why}"
    return {**figures, "bound_by": rows.efficiency.bound_by[0] or (None, reason)}


def _list_notices(roofline: Roofline) -> Iterator[Notice]:
    yield from (Notice(*remark) for remark in list_remarks(roofline.devices))
    table, efficiency = roofline.ops.table, roofline.efficiency.efficiency
    count = int(((table.flops > 0) & (table.bytes_accessed > 0) & mark_transfers(table)).sum())
    if count and not np.isnan(efficiency).all():
        text = (
            f"{count} ops only start or await transfers and collectives: their self time is not the time of their "
            f"work, so their distance from the roofline is unknown."
        )
        yield Notice("info", text)
    steps, op_ps = roofline.of_steps(with_feeds=True), roofline.devices.ops.op_ps
    held = int(steps.table.self_ps.sum()) if steps else 0
    if steps and op_ps and held < _LITTLE * op_ps:  # so little that the rows of steps do not describe the work
        text = (
            f"Steps hold {100 * held / op_ps:.1f} % of the time of ops: the rest ran outside of them, perhaps because "
            "markers enclose what starts the work, not the work. --steps-from modules makes each execution of a "
            "program a step."
        )
        yield Notice("info", text)


_LITTLE = 0.5
"""Share of op time in steps below which ops ran outside of steps."""
