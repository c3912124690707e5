"""Compiled instructions: time, arithmetic, memory traffic, padding, by program and category.

Instructions are those of devices, or of threads where a host has no devices. Formulas: docs/analyses/hlo-stats.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from fastprof.analyses.contract import Notice, Report, ScalarSpec, Section, Value, has_rows, scalars
from fastprof.analyses.late_tables import LateTables
from fastprof.derive.host import Host
from fastprof.derive.ops import device_ops
from fastprof.derive.ops.ceilings import against, ceilings, known_bytes, known_flops
from fastprof.derive.ops.device_ops import HostDeviceOps, SessionOps
from fastprof.derive.ops.hlo_columns import (
    columns_of_tpus,
    energy,
    expressions,
    identity_columns,
    memory_columns,
    rate_columns,
    source_columns,
    time_columns,
    work_columns,
)
from fastprof.derive.ops.hlo_schemas import TABLES as TABLES
from fastprof.derive.ops.op_columns import Columns, known, texts
from fastprof.derive.ops.op_groups import Grouped, grouped
from fastprof.derive.ops.op_marks import group_size, is_outside_compilation, is_rematerialized, replica_groups
from fastprof.derive.ops.op_remarks import remarks, why_no_ops
from fastprof.derive.ops.ranking import Ranked, by_cost
from fastprof.derive.ops.roofline import divided
from fastprof.derive.ops.tables import Ops, OpTable
from fastprof.hlo.operand_layouts import layout_columns, layouts_of, padding_of
from fastprof.schema.array_types import Bools, Int64s

NAME = "hlo_stats"
TITLE = "HLO stats"
READS = device_ops.READS
AFTER: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Params:
    """There are none."""


SCALARS = {
    "device_total_ps": ScalarSpec("ps", "time observed on devices: of each its ops' or its span, the longer, summed"),
    "device_op_ps": ScalarSpec("ps", "self time of ops"),
    "device_idle_ps": ScalarSpec("ps", "time observed in which no op ran"),
    "op_count": ScalarSpec(None, "ops, each program's own"),
    "program_count": ScalarSpec(None, "programs that ran"),
    "unknown_work_share": ScalarSpec("share", "self time of ops with neither known flops nor known bytes, of "
                                     "device_op_ps"),
    "unattributed_share": ScalarSpec("share", "self time of events whose op is not known, of device_op_ps"),
    "rematerialized_share": ScalarSpec("share", "self time of ops that compute again what was computed before, of "
                                       "device_op_ps"),
    "outside_compilation_share": ScalarSpec("share", "self time of ops that serve what runs on the host, of "
                                            "device_op_ps"),
    "padding_share": ScalarSpec("share", "padding among the bytes of all arrays that ops read and write, each as often "
                                "as its op ran"),
}  # fmt: skip
_TIME = ("occurrences", "self_ps", "self_share")
SECTIONS = (
    Section("Time", scalars=("device_total_ps", "device_op_ps", "device_idle_ps", "op_count", "program_count")),
    Section("Shares", scalars=("unknown_work_share", "unattributed_share", "rematerialized_share",
            "outside_compilation_share", "padding_share")),
    Section("Ops (summed over devices)", "ops", ("name", "category", *_TIME, "bound_by", "flops_per_s",
            "hbm_bytes_per_s", "framework_op", "program"), "self_share", 20, shown=has_rows("ops"), by_worth=True),
    Section("Categories", "categories", ("category", "op_count", *_TIME, "flops_per_s", "bytes_per_s"), "self_share",
            shown=has_rows("categories")),
    Section("Programs", "programs", ("program", "op_count", *_TIME, "flops_per_s", "bytes_per_s"), "self_share",
            shown=lambda report: report.tables["programs"].num_rows > 1),
    Section("Padded most", "padding", ("name", "padding_share", "padding_bytes", "worst_operand", "worst_share",
            "worst_shape", "occurrences", "program"), "padding_share", shown=has_rows("padding"), by_worth=True),
    Section("Collectives by groups of devices", "replica_groups", ("category", "replica_groups", "group_size", *_TIME),
            "self_share", shown=has_rows("replica_groups")),
    Section("How ops are known", "attribution", ("how", "self_ps", "self_share", "is_attributed", "occurrences"),
            "self_share", shown=lambda report: report.tables["attribution"].num_rows > 1),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class HloStats:
    """What the report is made of. ``ops``: in the order of the table."""

    devices: SessionOps
    ops: Ranked


def of_host(given: Host, _params: Params) -> HostDeviceOps:
    return given.device_ops


def run(kept: Sequence[HostDeviceOps], _params: Params, after: Mapping[str, Report]) -> Report:
    devices = SessionOps.of(kept)
    ranked = by_cost(devices.ops)
    ordered = replace(devices.ops, table=ranked.table)
    padding = _padding(ranked.table)
    again = is_rematerialized(ranked.table)
    tables: dict[str, pa.Table | Callable[[], pa.Table]] = {
        "ops": _ops_table(devices, ranked, padding, again),
        "categories": _categories_table(ordered, again),
        "programs": _programs_table(ordered, devices),
        "rematerialization": _marks_table(ordered, "rematerialization", again),
        "outside_compilation": _marks_table(ordered, "outside_compilation", is_outside_compilation(ranked.table)),
        "replica_groups": _replica_groups_table(ordered),
        "attribution": _attribution_table(ordered),
        "padding": partial(_padding_table, devices, ranked.table, padding),
        "layouts": partial(_layouts_table, ranked.table),
        "sparse_core_ops": _sparse_core_table(devices),
    }
    figures = _figures(devices, ranked.table, padding, again)
    return Report(
        NAME,
        LateTables(tables),
        scalars(SCALARS, figures),
        tuple(Notice(*one) for one in remarks(devices)),
        after,
        HloStats(devices, ranked),
    )


# ---- tables


def _table(name: str, columns: Columns) -> pa.Table:
    return pa.table(columns, schema=TABLES[name].arrow())


@dataclass(frozen=True, slots=True, eq=False)
class _Padding:
    """Of each op: bytes of its arrays, and with padding; where ``told``."""

    told: Any
    bytes: Int64s
    padded_bytes: Int64s


def _padding(table: OpTable) -> _Padding:
    found = [padding_of(text) for text in table.long_name]
    told = np.array([one.bytes is not None and one.padded_bytes is not None for one in found], bool)
    sizes = [np.array([size or 0 for size in column], np.int64)
             for column in ([one.bytes for one in found], [one.padded_bytes for one in found])]  # fmt: skip
    return _Padding(told, *sizes)


def _ops_table(devices: SessionOps, ops: Ranked, padding: _Padding, again: Bools) -> pa.Table:
    table = ops.table
    on_tpu = table.core_type > 0
    columns = {
        "rank": np.arange(1, len(ops) + 1),
        **columns_of_tpus(table),
        "dma_stall_share": known(np.where(on_tpu & (table.time_ps > 0), divided(table.dma_stall_ps, table.time_ps),
                                          np.nan)),
        "bound_by": against(table, ceilings(devices.peaks)).bound_by,
        "source_stack": texts(table.source_stack),
        "is_rematerialized": again,
        "is_outside_compilation": is_outside_compilation(table),
        "is_eager": table.is_eager,
        "replica_groups": replica_groups(table.long_name),
        "attribution": texts(table.attribution),
        "unattributed": texts(table.unattributed),
        "array_bytes": pa.array(padding.bytes, mask=~padding.told),
        "padded_bytes": pa.array(padding.padded_bytes, mask=~padding.told),
        "padding_share": _padding_share(padding.bytes, padding.padded_bytes, padding.told),
        "cores": table.cores.astype(np.int64),
        "energy_joules": energy(table),
        "deduplicated_name": texts(table.deduplicated_name),
        "expression": expressions(table),
    }  # fmt: skip
    work = work_columns(table) | rate_columns(table) | memory_columns(table)
    identity = identity_columns(table, devices.title) | source_columns(table)
    return _table("ops", identity | time_columns(ops) | work | columns)


def _padding_share(plain: Int64s, padded: Int64s, told: Any) -> pa.Array:
    share = divided((padded - plain).astype(np.float64), padded)
    return known(np.where(told & (padded > 0), share, np.nan))


def _categories_table(ops: Ops, again: Bools) -> pa.Table:
    groups = grouped(ops, ops.table.category)
    columns = {"category": groups.keys, "rematerialized_ps": groups.sums(np.where(again, ops.table.self_ps, 0))}
    return _table("categories", groups.times() | groups.work() | columns)


def _programs_table(ops: Ops, devices: SessionOps) -> pa.Table:
    groups = grouped(ops, ops.table.program_id.tolist())
    columns = {"program_id": groups.keys, "program": [devices.title(one) for one in groups.keys]}
    return _table("programs", groups.times() | groups.work() | columns)


def _marks_table(ops: Ops, name: str, marked: Any) -> pa.Table:
    groups: Grouped[bool] = grouped(ops, marked.tolist())
    key = TABLES[name].columns[0].name
    return _table(name, groups.times() | {key: groups.keys})


def _replica_groups_table(ops: Ops) -> pa.Table:
    told = replica_groups(ops.table.long_name)
    rows = np.array([row for row, text in enumerate(told) if text is not None], np.int64)
    chosen = replace(ops, table=ops.table.take(rows), children=None, parent=None)
    keys = [(chosen.table.category[place], str(told[row])) for place, row in enumerate(rows.tolist())]
    groups = grouped(chosen, keys)
    columns = {
        "category": [category for category, _ in groups.keys],
        "replica_groups": [text for _, text in groups.keys],
        "group_size": [group_size(text) for _, text in groups.keys],
        "accessed_bytes": groups.work()["accessed_bytes"],
    }
    return _table("replica_groups", groups.times() | columns)


def _attribution_table(ops: Ops) -> pa.Table:
    table = ops.table
    keys = [
        (not why, why or how or "the event itself")
        for how, why in zip(table.attribution, table.unattributed, strict=True)
    ]
    groups = grouped(ops, keys)
    columns = {"is_attributed": [known for known, _ in groups.keys], "how": [how for _, how in groups.keys]}
    return _table("attribution", groups.times() | columns)


def _padding_table(devices: SessionOps, table: OpTable, padding: _Padding) -> pa.Table:
    """Ops by the bytes of padding that all their occurrences moved."""
    size = np.where(padding.told, padding.padded_bytes - padding.bytes, 0)
    total = size.astype(np.float64) * table.executions
    rows = np.flatnonzero(total > 0)
    rows = rows[np.argsort(-total[rows], kind="stable")].astype(np.int64)
    chosen = table.take(rows)
    columns = {
        "rank": rows + 1,
        "occurrences": chosen.occurrences,
        "self_ps": chosen.self_ps,
        "padding_bytes": total[rows],
        "array_bytes": padding.bytes[rows],
        "padded_bytes": padding.padded_bytes[rows],
        "padding_share": _padding_share(padding.bytes[rows], padding.padded_bytes[rows], padding.told[rows]),
        **_worst_arrays(chosen.long_name),
    }
    return _table("padding", identity_columns(chosen, devices.title) | columns)


def _worst_arrays(texts_: Sequence[str]) -> Columns:
    """Of each op the array of most padding."""
    found = [
        max(layouts_of(text), key=lambda one: (one.padded_bytes or 0) - (one.bytes or 0), default=None)
        for text in texts_
    ]
    return {
        "worst_operand": [one and one.operand for one in found],
        "worst_shape": [one and one.shape for one in found],
        "worst_share": [one and one.wasted_share for one in found],
    }


def _layouts_table(table: OpTable) -> pa.Table:
    columns = layout_columns(table.long_name)
    rows = np.array(columns["op"], np.int64)
    told = columns | {
        "rank": rows + 1,
        "program_id": table.program_id[rows],
        "name": [table.name[row] for row in columns["op"]],
        "padding_share": columns["wasted_share"],
    }
    return _table("layouts", {name: told[name] for name in TABLES["layouts"].names()})


def _sparse_core_table(devices: SessionOps) -> pa.Table:
    ops = devices.ops
    children = OpTable.empty() if ops.children is None else ops.children
    parent = np.empty(0, np.int32) if ops.parent is None else ops.parent
    order = np.lexsort((parent, -children.time_ps)).astype(np.int64)
    children, parent = children.take(order), parent[order]
    columns = {
        "parent": [ops.table.name[row] for row in parent.tolist()],
        "occurrences": children.occurrences,
        "total_ps": children.time_ps,
        "self_ps": children.self_ps,
        "expression": expressions(children),
    }
    return _table("sparse_core_ops", identity_columns(children, devices.title) | work_columns(children) | columns)


# ---- figures and notices


def _figures(
    devices: SessionOps, table: OpTable, padding: _Padding, again: Bools
) -> dict[str, Value | tuple[None, str]]:
    ops = devices.ops
    why = why_no_ops(devices)
    if not ops.parts:
        return dict.fromkeys(SCALARS, (None, why))
    whole = int(table.self_ps.sum())

    def share(chosen: Any) -> Value | tuple[None, str]:
        return int(table.self_ps[chosen].sum()) / whole if whole else (None, why)

    padded, plain = (
        float((size * table.executions.astype(np.float64))[padding.told].sum())
        for size in (padding.padded_bytes, padding.bytes)
    )
    return {
        "device_total_ps": ops.total_ps,
        "device_op_ps": ops.op_ps,
        "device_idle_ps": ops.idle_ps,
        "op_count": len(table),
        "program_count": len(np.unique(table.program_id[table.program_id != 0])),
        "unknown_work_share": share(~(known_flops(table) | known_bytes(table))),
        "unattributed_share": share(np.array([bool(one) for one in table.unattributed], bool)),
        "rematerialized_share": share(again),
        "outside_compilation_share": share(is_outside_compilation(table)),
        "padding_share": 1 - plain / padded if padded else (None, "the texts of ops tell no arrays"),
    }
