"""Compiled instructions: time, arithmetic, memory traffic, padding, by program and category.

Covers device instructions, or thread instructions if a host has no devices. Formulas: docs/analyses/hlo-stats.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from fastprof.analyses.contract import (
    NO_PROGRAMS_OF_TORCH,
    OF_OPS,
    Alike,
    AnalysisReport,
    Known,
    LazyTables,
    Notice,
    Opening,
    ScalarSpec,
    Section,
    has_rows,
    make_scalars,
)
from fastprof.analyses.parameters import DEVICE_NAME, PEAKS, get_chosen_peaks
from fastprof.derive.devices.device_events import NothingRan
from fastprof.derive.host import Host
from fastprof.derive.ops import device_ops
from fastprof.derive.ops import op_columns as op
from fastprof.derive.ops.device_ops import (
    HostDeviceOps,
    MergedDeviceOps,
    SessionOps,
    explain_no_ops,
    list_device_planes,
    list_remarks,
)
from fastprof.derive.ops.op_columns import (
    GROUP_BYTES,
    GROUP_TIMES,
    GROUP_WORK,
    OpGroups,
    OpRows,
    group_ops,
    mask_unknown,
    take_key,
)
from fastprof.derive.ops.op_table import (
    Ops,
    OpTable,
    RankedOps,
    is_outside_compilation,
    is_rematerialized,
    parse_group_size,
    parse_replica_groups,
    rank_by_cost,
)
from fastprof.derive.ops.roofline_model import (
    get_known_bytes,
    get_known_flops,
    list_ceilings,
    measure_efficiency,
    ratio_or_zero,
)
from fastprof.derive.ops.roofline_tables import find_event_ops
from fastprof.hlo.shapes import measure_padding, read_layouts
from fastprof.schema.columns import (
    PERCENTILES,
    Bools,
    Float64s,
    Int64s,
    find_percentiles,
    find_runs,
    join_parts,
    reduce_runs,
    sort_rows,
)
from fastprof.schema.tables import (
    Bytes,
    Column,
    Count,
    Flag,
    Formula,
    Need,
    ObjectRows,
    Picoseconds,
    Share,
    TableSchema,
    Text,
)
from fastprof.schema.value_classes import dataclass

if TYPE_CHECKING:
    from fastprof.derive.ops.device_ops import OpHost

NAME = "hlo_stats"
TITLE = "HLO stats"
READS = device_ops.READS
AFTER: tuple[str, ...] = ()
REMEDY = "Profile a program that XLA compiles, while it runs. op_stats shows ops of other programs."
CONTENT = OF_OPS
NOT_OF_TORCH = f"{NO_PROGRAMS_OF_TORCH} The reports op_stats and kernel_stats show its ops and kernels."


@dataclass(frozen=True, slots=True)
class Params:
    device: str | None = field(default=None, metadata=DEVICE_NAME)
    peak: str | None = field(default=None, metadata=PEAKS)
    percentiles: bool = field(
        default=False,
        metadata={"help": "fill the table durations with percentiles of op durations", "alone": True},
    )


_GROUPED = (*GROUP_TIMES, *GROUP_WORK)
_SHAPE = (
    Bytes("array_bytes", "bytes of the output and operands of one execution; null: the instruction text does not show "
          "them", attrgetter("padding.bytes"), lambda rows: ~rows.padding.is_known),
    Bytes("padded_bytes", "bytes of the output and operands with the padding of their tiles; null: the instruction "
          "text does not show them", attrgetter("padding.padded_bytes"), lambda rows: ~rows.padding.is_known),
    Share("padding_share", "share of padded_bytes that is padding; null: padded_bytes is unknown or 0",
          lambda rows: mask_unknown(rows.padding.share)),
)  # fmt: skip


def _compute_dma_stall_share(rows: Any) -> pa.Array:
    table = rows.table
    share = ratio_or_zero(table.dma_stall_ps, table.time_ps)
    return mask_unknown(np.where((table.core_type > 0) & (table.time_ps > 0), share, np.nan))


def _make_worst_formula(name: str) -> Formula:
    """Return the formula of an attribute of the array with the most padding."""
    return lambda rows: [array and getattr(array, name) for array in rows.worst]


TABLES = {
    table.name: table
    for table in (
        TableSchema("ops", "an instruction of a device program, or another device op, largest self time first", (
            Count("rank", "place by self_ps, from 1", op.number_rows),
            *op.IDENTITY,
            *op.TIMES,
            *op.ON_TPUS,
            Share("dma_stall_share", "dma_stall_ps / total_ps; null: the device is not a TPU, or total_ps is 0",
                  _compute_dma_stall_share),
            *op.WORK,
            *op.RATES,
            *op.MEMORY,
            op.BOUND_BY,
            op.FRAMEWORK_OP,
            op.SOURCE,
            op.Words("source_stack", "calls that lead to the source line, one per line; null: unknown",
                     op.make_text_formula("source_stack")),
            Flag("is_rematerialized", "whether the op recomputes an earlier result to save memory (rematerialization)"),
            Flag("is_outside_compilation", "whether the op is for outside compilation: work that runs on the host "
                 "because it was not compiled"),
            op.IS_EAGER,
            op.Words("replica_groups", "groups of devices of a collective op, as its text lists them; null: it lists "
                     "none", lambda rows: parse_replica_groups(rows.table.long_name)),
            Text("attribution", "how the op of the events was identified; null: the events name their op",
                 op.make_text_formula("attribution")),
            Text("unattributed", "why the op of the events is unknown; null: the op is known",
                 op.make_text_formula("unattributed")),
            *_SHAPE,
            op.CORES,
            op.ENERGY,
            op.Words("deduplicated_name", "original instruction of a copy, as recorded; null: the instruction is not "
                     "a copy", op.make_text_formula("deduplicated_name")),
            op.EXPRESSION,
        ), derived=True),
        TableSchema("categories", "a category of ops, largest self time first", (
            Text("category", "instruction category", attrgetter("keys")),
            *_GROUPED,
            Picoseconds("rematerialized_ps", "self time of ops that recompute earlier results (rematerialization)",
                        lambda groups: groups.self_ps(is_rematerialized(groups.table))),
        ), derived=True),
        TableSchema("programs", "a program, largest self time first", (
            replace(op.PROGRAM_ID, of=lambda groups: op.mask_unknown_programs(take_key(0)(groups))),
            replace(op.PROGRAM, of=take_key(1)), *_GROUPED,
        ), derived=True),
        TableSchema("rematerialization", "all ops that recompute earlier results, or all other ops", (
            Flag("is_rematerialized", "whether the ops recompute earlier results to save memory (rematerialization)",
                 attrgetter("keys")), *GROUP_TIMES,
        ), derived=True),
        TableSchema("outside_compilation", "all ops for outside compilation, or all other ops", (
            Flag("is_outside_compilation", "whether the ops are for outside compilation: work that runs on the host "
                 "because it was not compiled", attrgetter("keys")), *GROUP_TIMES,
        ), derived=True),
        TableSchema("replica_groups", "a category of collective ops and device groups, largest "
                    "self time first", (
            Text("category", "instruction category", take_key(0)),
            op.Words("replica_groups", "device groups, as the text of the instructions lists them", take_key(1)),
            Count("group_size", "number of devices of each group; null: groups differ in size, or are unknown",
                  lambda groups: [parse_group_size(text) for _, text in groups.keys]),
            *GROUP_TIMES,
            GROUP_BYTES,
        ), derived=True),
        TableSchema("attribution", "a method that identified the ops of events, or a reason why they are unknown", (
            Flag("is_attributed", "whether the op of the events is known", take_key(0)),
            Text("how", "how the op was identified, or why not; the event itself if the event names its op",
                 take_key(1)),
            *GROUP_TIMES,
        ), derived=True),
        TableSchema("padding", "an op with padded arrays, the one with the most padding first", (
            Count("rank", "rank of the op in the ops table"),
            *op.IDENTITY,
            op.OCCURRENCES,
            op.SELF,
            op.Amount("padding_bytes", "(padded_bytes - array_bytes) * occurrences"),
            Bytes("array_bytes", "bytes of the output and operands of one execution", attrgetter("padding.bytes")),
            Bytes("padded_bytes", "array_bytes with the padding of tiles", attrgetter("padding.padded_bytes")),
            Share("padding_share", "share of padded_bytes that is padding", attrgetter("padding.share")),
            op.Words("worst_operand", "array with the most padding: output, or the name of the instruction that "
                     "writes it", _make_worst_formula("operand")),
            op.Words("worst_shape", "type and dimensions of the array with the most padding",
                     _make_worst_formula("shape")),
            Share("worst_share", "share of padding in the array with the most padding",
                  _make_worst_formula("wasted_share")),
        ), derived=True),
        TableSchema("layouts", "an array that an op reads or writes", (
            Count("rank", "rank of the op in the ops table", lambda rows: np.array(rows.at, np.int64) + 1),
            op.Words("name", "op name", lambda rows: [rows.table.name[row] for row in rows.at]),
            op.Words("operand", "output, or the name of the instruction that writes the array"),
            Share("padding_share", "share of padded_bytes that is padding; null: unknown", attrgetter("wasted_share")),
            Bytes("bytes", "size without padding; null: unknown"),
            Bytes("padded_bytes", "size with padding; null: unknown"),
            op.Words("shape", "type and dimensions of the array"),
            op.Words("layout", "order of dimensions, tiles and memory space, as programs write it"),
            op.Words("tile", "tile; empty if there is none"),
            Column("padded_dimensions", pa.list_(pa.int64()), "sizes of the dimensions with padding; null: unknown",
                   True),
            Column("semantics", pa.list_(pa.string()), "role of each dimension: batch, feature, spatial or "
                   "contracting; null: the op text does not show it"),
            Count("memory_space", "number of the memory space, n in S(n) of the layout"),
            Count("position", "place among the operands, from 0; -1 for the output"),
            Count("program_id", op.PROGRAM_ID.description,
                  lambda rows: op.mask_unknown_programs([rows.table.program_id[row] for row in rows.at])),
        ), derived=True),
        TableSchema("durations", "an op with percentiles of its durations, in the order of the table ops; "
                    "empty without --percentiles", (
            Count("rank", "rank of the op in the ops table", attrgetter("rank")),
            op.PROGRAM_ID,
            op.PROGRAM,
            op.NAME,
            op.OCCURRENCES,
            op.TOTAL,
            Picoseconds("min_ps", "duration of the shortest occurrence"),
            *(
                Picoseconds(f"p{percentile}_ps", f"duration that {percentile} % of the occurrences do not exceed")
                for percentile in PERCENTILES
            ),
            Picoseconds("max_ps", "duration of the longest occurrence"),
        ), derived=True),
        op.make_sparse_core_schema(*op.IDENTITY, op.OCCURRENCES, op.TOTAL, op.SELF, *op.WORK, op.EXPRESSION),
    )
}  # fmt: skip
_OBSERVED = Need("device_total_ps", NothingRan("no op of a device is recorded"))
SCALARS = {
    "device_total_ps": ScalarSpec("ps", "observed time, summed over devices: op time or span, whichever is "
                                  "longer", need=_OBSERVED),
    "device_op_ps": ScalarSpec("ps", "self time of ops", need=_OBSERVED),
    "device_idle_ps": ScalarSpec("ps", "part of device_total_ps in which no op ran", need=_OBSERVED),
    "op_count": ScalarSpec(None, "number of ops; equal names in two programs are two ops", need=_OBSERVED),
    "program_count": ScalarSpec(None, "number of programs that ran", need=_OBSERVED),
    "unknown_work_share": ScalarSpec("share", "share of device_op_ps in ops with neither known flops nor known bytes",
                                     "share of op time with unknown work"),
    "unattributed_share": ScalarSpec("share", "share of device_op_ps in events whose op is unknown"),
    "rematerialized_share": ScalarSpec("share", "share of device_op_ps in ops that recompute earlier results "
                                       "(rematerialization)"),
    "outside_compilation_share": ScalarSpec("share", "share of device_op_ps in ops for outside compilation (work "
                                            "that was not compiled)"),
    "padding_share": ScalarSpec("share", "share of padding in the bytes of all arrays that ops read and write, over "
                                "all occurrences", "padding share of the bytes of arrays"),
}  # fmt: skip
_TIME = ("occurrences", "self_ps", "self_share")
OPENING = Opening(
    (
        "Instructions account for {device_op_ps} of {device_total_ps} of device time.",
    ),
    (
        "device_op_ps", "device_idle_ps", "op_count", "program_count", "unknown_work_share", "padding_share",
    ),
)  # fmt: skip

SECTIONS = (
    Section("Time", scalars=("device_total_ps", "device_op_ps", "device_idle_ps", "op_count", "program_count")),
    Section("Shares", scalars=("unknown_work_share", "unattributed_share", "rematerialized_share",
            "outside_compilation_share", "padding_share")),
    Section("Ops (summed over devices)", "ops", ("name", "category", *_TIME, "bound_by", "flops_per_s",
            "hbm_bytes_per_s", "framework_op", "program"), "self_share", 20, shown=has_rows("ops"), by_worth=True,
            alike=Alike(("name", "framework_op"), _TIME, op.SIMILAR)),
    Section("Categories", "categories", ("category", "op_count", *_TIME, "flops_per_s", "bytes_per_s"), "self_share",
            shown=has_rows("categories")),
    Section("Programs", "programs", ("program", "op_count", *_TIME, "flops_per_s", "bytes_per_s"), "self_share",
            shown=lambda report: report.tables["programs"].num_rows > 1),
    Section("Durations of occurrences", "durations", ("name", "program", "occurrences", "min_ps", "p50_ps", "p90_ps",
            "p99_ps", "max_ps"), rows=20, shown=has_rows("durations")),
    Section("Padded most", "padding", ("name", "padding_share", "padding_bytes", "worst_operand", "worst_share",
            "worst_shape", "occurrences", "program"), "padding_share", shown=has_rows("padding"), by_worth=True,
            alike=Alike(("name", "worst_operand"), ("padding_bytes", "occurrences"))),
    Section("Collectives by device groups", "replica_groups", ("category", "replica_groups", "group_size", *_TIME),
            "self_share", shown=has_rows("replica_groups")),
    Section("How ops are known", "attribution", ("how", "self_ps", "self_share", "is_attributed", "occurrences"),
            "self_share", shown=lambda report: report.tables["attribution"].num_rows > 1),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class HloStats:
    """Intermediate results of the report. ``ops`` are in table order."""

    devices: SessionOps
    ops: RankedOps


@dataclass(frozen=True, slots=True)
class HloHosts:
    """Device ops of one or more hosts. ``durations``: durations of op occurrences; None without --percentiles."""

    devices: HostDeviceOps | MergedDeviceOps
    durations: OpDurations | None


def of_host(given: Host, params: Params) -> HloHosts:
    devices = replace(given.device_ops, by_device=())  # only their sum is used here
    return HloHosts(devices, count_op_durations(given) if params.percentiles else None)


def merge(kept: Sequence[HloHosts], params: Params, shared: dict[Any, Any]) -> HloHosts:
    return HloHosts(MergedDeviceOps.of([hosts.devices for hosts in kept], shared), _join_durations(kept))


def _join_durations(kept: Sequence[HloHosts]) -> OpDurations | None:
    asked = [hosts.durations for hosts in kept if hosts.durations is not None]
    return merge_op_durations(asked) if asked else None


def run(kept: Sequence[HloHosts], params: Params, after: Mapping[str, AnalysisReport]) -> AnalysisReport:
    devices = SessionOps.of([hosts.devices for hosts in kept], get_chosen_peaks(params))
    ranked = rank_by_cost(devices.ops)
    table = ranked.table
    ordered = replace(devices.ops, table=table)
    rows = OpRows(
        table=table,
        ranked=ranked,
        title=devices.title,
        efficiency=measure_efficiency(table, list_ceilings(devices.peaks)),
        padding=_find_padding(table),
        is_rematerialized=is_rematerialized(table),
        is_outside_compilation=is_outside_compilation(table),
    )
    programs = table.program_id.tolist()
    groups: dict[str, OpGroups[Any]] = {
        "categories": group_ops(ordered, table.category),
        "programs": group_ops(ordered, list(zip(programs, map(devices.title, programs), strict=True))),
        "rematerialization": group_ops(ordered, rows.is_rematerialized.tolist()),
        "outside_compilation": group_ops(ordered, rows.is_outside_compilation.tolist()),
        "replica_groups": _group_by_replicas(ordered),
        "attribution": group_ops(ordered, _list_attributions(table)),
    }
    tables = {
        "ops": TABLES["ops"].of(rows),
        **{name: TABLES[name].of(group) for name, group in groups.items()},
        "padding": partial(_build_padding_table, rows),
        "layouts": partial(_build_layouts_table, table),
        "durations": _build_durations_table(rows, _join_durations(kept)),
        "sparse_core_ops": TABLES["sparse_core_ops"].of(op.list_sparse_core_rows(devices.ops, devices.title)),
    }
    notices = tuple(Notice(*remark) for remark in list_remarks(devices))
    figures = make_scalars(SCALARS, _compute_figures(devices, rows))
    return AnalysisReport(NAME, LazyTables(tables), figures, notices, after, HloStats(devices, ranked))


# ---- rows of the tables


@dataclass(frozen=True, slots=True, eq=False)
class _Padding:
    """Bytes of the arrays of each op, without and with padding; 0 if unknown."""

    is_known: Bools
    bytes: Int64s
    padded_bytes: Int64s

    @property
    def share(self) -> Float64s:
        """Share of padding in the bytes of each op, or NaN if unknown."""
        share = ratio_or_zero((self.padded_bytes - self.bytes).astype(np.float64), self.padded_bytes)
        return np.where(self.is_known & (self.padded_bytes > 0), share, np.nan)

    def take(self, rows: Int64s) -> _Padding:
        return _Padding(self.is_known[rows], self.bytes[rows], self.padded_bytes[rows])


def _find_padding(table: OpTable) -> _Padding:
    paddings = [measure_padding(text) for text in table.long_name]
    is_known = np.array([padding.bytes is not None and padding.padded_bytes is not None for padding in paddings], bool)
    plain, padded = ([getattr(padding, name) or 0 for padding in paddings] for name in ("bytes", "padded_bytes"))
    return _Padding(is_known, np.array(plain, np.int64), np.array(padded, np.int64))


def _group_by_replicas(ops: Ops) -> OpGroups[tuple[str, str]]:
    """Group collective ops by category and device groups."""
    groups = parse_replica_groups(ops.table.long_name)
    rows = np.array([row for row, text in enumerate(groups) if text is not None], np.int64)
    collectives = replace(ops, table=ops.table.take(rows), children=None, parent=None)
    texts = [str(groups[row]) for row in rows.tolist()]
    return group_ops(collectives, list(zip(collectives.table.category, texts, strict=True)))


def _list_attributions(table: OpTable) -> list[tuple[bool, str]]:
    """Return whether the op of each row's events is known, and how or why not."""
    pairs = zip(table.attribution, table.unattributed, strict=True)
    return [(not why, why or how or "the event itself") for how, why in pairs]


def _build_padding_table(ops: OpRows) -> pa.Table:
    """Rank ops by the bytes of padding that all their occurrences moved."""
    padding: _Padding = ops.padding
    size = np.where(padding.is_known, padding.padded_bytes - padding.bytes, 0).astype(np.float64) * ops.table.executions
    rows = np.flatnonzero(size > 0)
    rows = rows[np.argsort(-size[rows], kind="stable")].astype(np.int64)
    table = ops.table.take(rows)
    arrays = [read_layouts(text) for text in table.long_name]
    worst = [
        max(operands, key=lambda array: (array.padded_bytes or 0) - (array.bytes or 0), default=None)
        for operands in arrays
    ]
    return TABLES["padding"].of(OpRows(
        table=table, title=ops.title, rank=rows + 1, padding_bytes=size[rows], padding=padding.take(rows), worst=worst
    ))  # fmt: skip


def _build_durations_table(ops: OpRows, durations: OpDurations | None) -> pa.Table:
    """List the ops with known durations, in the order of the ops table."""
    if durations is None:
        return TABLES["durations"].empty()
    places = {key: place for place, key in enumerate(durations.keys)}
    keys = zip(ops.table.program_id.tolist(), ops.table.name, strict=True)
    place = np.array([places.get(key, -1) for key in keys], np.int64)
    rows = np.flatnonzero(place >= 0)
    ranks = find_percentiles(durations.op, durations.duration_ps, len(places), (0, *PERCENTILES, 100), durations.times)
    names = ("min_ps", *(f"p{percentile}_ps" for percentile in PERCENTILES), "max_ps")
    columns = {name: values[place[rows]] for name, values in zip(names, ranks.values(), strict=True)}
    return TABLES["durations"].of(OpRows(table=ops.table.take(rows), title=ops.title, rank=rows + 1, **columns))


def _build_layouts_table(table: OpTable) -> pa.Table:
    layouts = [(row, array) for row, text in enumerate(table.long_name) for array in read_layouts(text)]
    at, arrays = zip(*layouts, strict=True) if layouts else ((), ())
    return TABLES["layouts"].of(ObjectRows(arrays, table=table, at=at))


# ---- figures and notices


def _compute_figures(devices: SessionOps, rows: OpRows) -> dict[str, Known]:
    ops, table, padding = devices.ops, rows.table, rows.padding
    why = explain_no_ops(devices)
    if not ops.parts:
        return dict.fromkeys(SCALARS, (None, why))
    total = int(table.self_ps.sum())

    def share(chosen: Any) -> Known:
        return int(table.self_ps[chosen].sum()) / total if total else (None, why)

    padded, plain = (
        float((size * table.executions.astype(np.float64))[padding.is_known].sum())
        for size in (padding.padded_bytes, padding.bytes)
    )
    return {
        "device_total_ps": ops.total_ps,
        "device_op_ps": ops.op_ps,
        "device_idle_ps": ops.idle_ps,
        "op_count": len(table),
        "program_count": len(np.unique(table.program_id[table.program_id != 0])),
        "unknown_work_share": share(~(get_known_flops(table) | get_known_bytes(table))),
        "unattributed_share": share(np.array([bool(reason) for reason in table.unattributed], bool)),
        "rematerialized_share": share(rows.is_rematerialized),
        "outside_compilation_share": share(rows.is_outside_compilation),
        "padding_share": 1 - plain / padded if padded else (None, "op texts show no arrays"),
    }


# ---- counts of op durations, from which percentiles over any number of devices are exact


Key = tuple[int, str]
"""Program id and name of an op."""


@dataclass(frozen=True, slots=True, eq=False)
class OpDurations:
    """Durations of each op, sorted. ``op``: place in ``keys``; ``times``: number of occurrences with the duration."""

    keys: list[Key]
    op: Int64s
    duration_ps: Int64s
    times: Int64s


def count_op_durations(host: OpHost) -> OpDurations:
    """Count the durations of the ops of all devices of a host."""
    devices = [find_event_ops(host, plane) for plane in list_device_planes(host.raw)]
    parts = []
    for _, times, number, table in devices:
        known = number >= 0
        once = np.ones(int(known.sum()), np.int64)
        keys = list(zip(table.program_id.tolist(), table.name, strict=True))
        parts.append(OpDurations(keys, number[known].astype(np.int64), times.duration_ps[known], once))
    return merge_op_durations(parts)


def merge_op_durations(parts: Sequence[OpDurations]) -> OpDurations:
    """Merge counts of several devices or hosts, with a new number for each op."""
    numbers: dict[Key, int] = {}
    of_parts = [np.array([numbers.setdefault(key, len(numbers)) for key in part.keys], np.int64) for part in parts]
    places = join_parts(number[part.op] for number, part in zip(of_parts, parts, strict=True))
    duration, times = (join_parts(getattr(part, name) for part in parts) for name in ("duration_ps", "times"))
    order = sort_rows(places, duration)
    places, duration, times = places[order], duration[order], times[order]
    first = find_runs(places, duration)
    return OpDurations(list(numbers), places[first], duration[first], reduce_runs(np.add, times, first))
