"""Device time by program, category or name scope, its utilization, and the contents of fusions.

Covers the ops of all devices together: docs/device-ops.md says which op an event belongs to. Formulas:
docs/analyses/op-profile.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field

import numpy as np
import pyarrow as pa

from fastprof.analyses.contract import (
    OF_OPS,
    AnalysisReport,
    Known,
    Notice,
    Opening,
    ScalarSpec,
    Section,
    has_rows,
    is_known,
    make_scalars,
)
from fastprof.analyses.parameters import DEVICE_NAME, PEAKS, get_chosen_peaks
from fastprof.derive.devices.device_peaks import Peaks, apply_chosen_peaks
from fastprof.derive.devices.run_environment import CPU
from fastprof.derive.host import GPU, Host
from fastprof.derive.ops import device_ops, op_profile_tables, op_trees
from fastprof.derive.ops.device_ops import CPU_ONLY, HostDeviceOps, SessionOps, explain_no_ops, list_remarks
from fastprof.derive.ops.op_profile_tables import (
    HBM_WORK,
    OBSERVED,
    DeviceRow,
    FusedInstructions,
    HostPrograms,
    OpTree,
    list_fused_instructions,
    sum_passes,
    sum_torch_passes,
)
from fastprof.derive.ops.op_profile_tables import TABLES as TABLES
from fastprof.derive.ops.op_table import Ops, OpTable
from fastprof.derive.ops.op_trees import GROUPINGS, IDLE, INSTRUCTION, OP, SPARSE_CORE_OP, GrowingTree, lay_out
from fastprof.derive.ops.scope_trees import COMPUTE, UNSCOPED, NodeFigures, build_scope_trees
from fastprof.derive.ops.training_passes import SEQUENCE, PassTimes
from fastprof.hlo.work import GENERAL, OF_GPUS
from fastprof.schema.columns import mark_largest
from fastprof.schema.value_classes import dataclass
from fastprof.tables.needs import Needs, unite_needs

NAME = "op_profile"
READS = unite_needs([device_ops.READS, Needs(stats_with_gpus=(SEQUENCE,))])
AFTER: tuple[str, ...] = ()
CONTENT = OF_OPS
MOST_SHOWN = 40
"""Number of the largest tree nodes, each below its parent, that text shows."""
SHOWN_SHARE = 0.0005
"""Least share of all time that shown nodes have."""
IDLE_NAME = "IDLE"


@dataclass(frozen=True, slots=True)
class Params:
    """``group_by``: one of GROUPINGS."""

    group_by: str = field(
        default="program", metadata={"help": "how the tree groups ops", "choices": GROUPINGS, "alone": True}
    )
    device: str | None = field(default=None, metadata=DEVICE_NAME)
    peak: str | None = field(default=None, metadata=PEAKS)


SCALARS = {
    "device_total_ps": ScalarSpec("ps", "time observed on devices, summed over them", need=OBSERVED),
    "device_busy_ps": ScalarSpec("ps", "part of device_total_ps in which an op ran", need=OBSERVED),
    "device_idle_ps": ScalarSpec("ps", "device_total_ps - device_busy_ps", need=OBSERVED),
    "op_ps": ScalarSpec("ps", "sum of the self times of all ops; more than device_busy_ps if ops ran at the same time",
                        "ops", need=OBSERVED),
    "compute_peak_percent": ScalarSpec("%", "100 * flops of ops / device_total_ps / peak of a core; ops of unknown "
                                       "work count 0", "of peak arithmetic"),
    "hbm_peak_percent": ScalarSpec("%", "100 * bytes to and from HBM / device_total_ps / bandwidth of a core; ops of "
                                   "unknown work count 0", "of peak HBM bandwidth"),
    "lost_ps": ScalarSpec("ps", "time that could be saved: op_ps minus roofline time, over ops with a known roofline"),
    "work_known_share": ScalarSpec("share", "part of op_ps in ops with known flops and bytes"),
    "unattributed_share": ScalarSpec("share", "part of op_ps in kernels and copies of unknown ops"),
    "program_count": ScalarSpec(None, "number of programs that ran", need=OBSERVED),
    "op_count": ScalarSpec(None, "number of different ops that ran", need=OBSERVED),
}  # fmt: skip


def is_largest(table: pa.Table) -> pa.Array:
    """Return whether each tree row is among the MOST_SHOWN largest, which text shows.

    A parent is at least as large as its children and comes before them, so a shown row's parent is shown.
    """
    self_ps = np.nan_to_num(table["self_ps"].to_numpy(), nan=-1)
    return pa.array(mark_largest(self_ps, MOST_SHOWN) & (self_ps > 0) & (self_ps >= SHOWN_SHARE * self_ps[:1]))


def _has_scopes(*, layers: bool, passes: bool) -> Callable[[AnalysisReport], bool]:
    """Return a predicate for Section.shown: whether ops have scopes, with or without numbered ``layers`` and training
    ``passes``."""

    def shown(report: AnalysisReport) -> bool:
        scopes = report.tables["scopes"]
        names = scopes["path"].to_pylist()
        if all(name == "" or name.partition("/")[0] == UNSCOPED for name in names):
            return False
        alike = bool((report.tables["layers"]["instances"].to_numpy() > 1).any())
        trains = any(scopes[name][0].as_py() for name in _PASSES[:3])
        return alike == layers and trains == passes

    return shown


_NODE_COLUMNS = ("name", "self_ps", "share", "lost_ps", "compute_peak_percent", "hbm_peak_percent", "occurrences")
_PASSES = ("forward_ps", "backward_ps", "recompute_ps", "other_ps", "unknown_pass_ps")
_PASS_COLUMNS = ("self_ps", "busy_share", *_PASSES, "lost_ps", "compute_peak_percent")
_SCOPE_COLUMNS = ("self_ps", "busy_share", "lost_ps", "compute_peak_percent", "hbm_peak_percent", "ops")


def _make_scope_section(*, layers: bool, passes: bool) -> Section:
    title = "Model layers, similar layers merged" if layers else "Model scopes"
    columns = ("name", *(("instances",) if layers else ()), *(_PASS_COLUMNS if passes else _SCOPE_COLUMNS))
    shown = _has_scopes(layers=layers, passes=passes)
    table = "layers" if layers else "scopes"
    return Section(
        title, table, columns, "busy_share", MOST_SHOWN, shown=shown, depth="depth", only=is_largest, parts=_PASSES
    )


OPENING = Opening(
    (
        "Ops take {op_ps} of the {device_total_ps} of devices, and reach {compute_peak_percent} of peak arithmetic.",
        "Ops account for {op_ps} of {device_total_ps} of device time.",
    ),
    (
        "op_ps", "device_idle_ps", "compute_peak_percent", "hbm_peak_percent", "lost_ps", "op_count", "program_count",
    ),
)  # fmt: skip

SECTIONS = (
    Section("Device time", scalars=tuple(SCALARS), shown=is_known("device_total_ps")),
    Section("Device time by node", "tree", _NODE_COLUMNS, "share", MOST_SHOWN, shown=has_rows("tree"), depth="depth",
            only=is_largest),
    *(_make_scope_section(layers=layers, passes=passes) for layers in (True, False) for passes in (True, False)),
    Section("Devices", "devices", ("device", "total_ps", "busy_ps", "busy_share", "compute_peak_percent"), "busy_share",
            16, shown=has_rows("devices")),
)  # fmt: skip


ProfileHostState = tuple[HostDeviceOps, HostPrograms, PassTimes]
"""Host state: device ops, programs, and times of training passes."""


@dataclass(frozen=True, slots=True)
class OpProfile:
    """Intermediate results of the report, for renderers."""

    session: SessionOps
    group_by: str
    fused: FusedInstructions


def of_host(given: Host, params: Params) -> ProfileHostState:
    ops = given.device_ops
    return ops, HostPrograms.of(ops.ops.table, given.raw.programs, given.raw.capture.log), sum_torch_passes(given)


def run(kept: Sequence[ProfileHostState], params: Params, after: Mapping[str, AnalysisReport]) -> AnalysisReport:
    chosen = get_chosen_peaks(params)
    session = SessionOps.of([ops for ops, _, _ in kept], chosen)
    counting = OF_GPUS if session.hardware == GPU else GENERAL
    fused, problems = list_fused_instructions(session.ops.table, [programs for _, programs, _ in kept], counting)
    figures = NodeFigures.of(session.ops.table, session.peaks)
    tree = _build_tree(session, fused, figures, params.group_by)
    scopes, layers = build_scope_trees(session.ops.table, figures, sum_passes(passes for _, _, passes in kept))
    devices = [
        DeviceRow(
            host.name,
            CPU if host.hardware == CPU_ONLY else name,
            ops,
            _sum_all_ops(ops, apply_chosen_peaks(host.best_peaks, chosen)),
        )
        for host, _, _ in kept
        for name, ops in host.by_device
    ]
    tables = {
        "tree": TABLES["tree"].of(tree),
        "scopes": TABLES["scopes"].of(scopes),
        "layers": TABLES["layers"].of(layers),
        "memory": op_profile_tables.build_memory_table(tree),
        "devices": TABLES["devices"].of(devices),
    }
    notices = [Notice(*remark) for remark in list_remarks(session)]
    known = {problem for host in session.hosts for problem in host.problems}
    for problem in dict.fromkeys(problems):  # programs that cannot be read
        if problem not in known:
            notices.append(Notice("warning", f"{problem[:1].upper()}{problem[1:]}."))
    detail = OpProfile(session, params.group_by, fused)
    return AnalysisReport(
        NAME,
        tables,
        make_scalars(SCALARS, _compute_values(session, tree)),
        tuple(notices),
        detail=detail,
    )


# ---- the tree


def _build_tree(session: SessionOps, fused: FusedInstructions, figures: NodeFigures, group_by: str) -> OpTree:
    ops = session.ops
    growth, nodes = op_trees.build_op_tree(ops.table, group_by, session.title)
    idle = growth.added(0, IDLE, IDLE_NAME) if ops.idle_ps > 0 else None
    keys = zip(ops.table.program_id.tolist(), ops.table.name, strict=True)
    for node, key in zip(nodes, keys, strict=True):  # instructions of fusions
        first, last = fused.of.get(key, (0, 0))
        shift = len(growth) - first
        for row in range(first, last):
            above = fused.above[row]
            growth.added(node if above < 0 else above + shift, INSTRUCTION, fused.name[row], row)
    if ops.children is not None and ops.parent is not None:  # SparseCore ops on behalf of ops
        for row, (parent, name) in enumerate(zip(ops.parent.tolist(), ops.children.name, strict=True)):
            growth.added(nodes[parent], SPARSE_CORE_OP, name, row)
    of_nodes = figures.summed(growth, nodes)
    if idle is not None:
        of_nodes.whole["self_ps"][[0, idle]] += ops.idle_ps
    inner = np.flatnonzero(np.array(growth.kind) == INSTRUCTION)
    rows = np.array(growth.row, np.int64)[inner]
    for name, values in (("flops", fused.flops), ("model_flops", fused.flops), ("bytes", fused.bytes)):
        of_nodes.work[name][inner] = np.array(values)[rows]
    tree = lay_out(growth, of_nodes.whole["self_ps"], of_nodes.work["flops"])
    sparse = OpTable.empty() if ops.children is None else ops.children
    op_tree = OpTree(tree, of_nodes.in_order(tree.grown), ops.table, fused, sparse, session.title)
    # Instructions run as often as their op, so that their work is that of all its executions.
    kind, whole, work = op_tree.tree.kind, op_tree.figures.whole, op_tree.figures.work
    inner, within_core = np.flatnonzero(kind == INSTRUCTION), kind == SPARSE_CORE_OP
    op_above = np.maximum.accumulate(np.where(kind == OP, np.arange(len(kind)), 0))
    for name in ("occurrences", "executions"):
        whole[name][within_core] = getattr(sparse, name)[op_tree.tree.row[within_core]]
        whole[name][inner] = whole[name][op_above[inner]]
    for name in ("flops", "model_flops", "bytes"):
        work[name][inner] *= whole["executions"][inner]
    return op_tree


# ---- figures


def _sum_all_ops(ops: Ops, peaks: Peaks | None) -> NodeFigures:
    """Return the figures of all ops as one node, against the observed time."""
    figures = NodeFigures.of(ops.table, peaks).summed(GrowingTree("all"), [0] * len(ops.table))
    figures.whole["self_ps"] = np.array([ops.total_ps])
    return figures


def _compute_values(session: SessionOps, tree: OpTree) -> dict[str, Known]:
    ops, table = session.ops, session.ops.table
    if not ops.parts or (not ops.total_ps and not len(table)):
        return dict.fromkeys(SCALARS, (None, explain_no_ops(session)))
    figures = _sum_all_ops(ops, session.peaks)
    unattributed = sum(own for own, why in zip(table.self_ps.tolist(), table.unattributed, strict=True) if why)
    no_time = (None, "no op took any time")
    peaks = (None, "the device peak, or the work of all ops, is unknown")

    def percent(column: str) -> Known:
        share = float(figures.utilization(column)[0])
        return peaks if np.isnan(share) else 100 * share

    return {
        "device_total_ps": ops.total_ps,
        "device_busy_ps": ops.busy_ps,
        "device_idle_ps": ops.idle_ps,
        "op_ps": ops.op_ps,
        "compute_peak_percent": percent(COMPUTE),
        "hbm_peak_percent": percent(HBM_WORK),
        "lost_ps": int(tree.figures.whole["lost_ps"][0]) if tree.figures.whole["lost_known"][0] else peaks,
        "work_known_share": int(figures.whole["work_known_ps"][0]) / ops.op_ps if ops.op_ps else no_time,
        "unattributed_share": unattributed / ops.op_ps if ops.op_ps else no_time,
        "program_count": len(set(table.program_id.tolist()) - {0}),
        "op_count": len(table),
    }


# ---- notices
