"""Device time by program, category or name scope, how well it was used, and what fusions are made of.

Ops are those of all devices together: docs/device-ops.md says which op an event belongs to. Formulas:
docs/analyses/op-profile.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from fastprof.analyses.contract import (
    Notice,
    Report,
    ScalarSpec,
    Section,
    Value,
    has_rows,
    is_known,
    scalars,
)
from fastprof.derive.host import GPU, Host
from fastprof.derive.ops import device_ops
from fastprof.derive.ops.device_ops import HostDeviceOps, SessionOps
from fastprof.derive.ops.op_remarks import remarks
from fastprof.derive.ops.tables import Ops, OpTable
from fastprof.derive.ops.tree import op_paths, tree_tables
from fastprof.derive.ops.tree.fused_columns import FusedInstructions
from fastprof.derive.ops.tree.fused_instructions import Programs, fused_instructions
from fastprof.derive.ops.tree.node_figures import COMPUTE, NodeFigures, OpFigures, in_order, of_growth
from fastprof.derive.ops.tree.op_paths import GROUPINGS
from fastprof.derive.ops.tree.op_trees import IDLE, INSTRUCTION, SPARSE_CORE_OP, Growth, laid_out
from fastprof.derive.ops.tree.scope_trees import UNSCOPED, ScopeTree, scopes_of
from fastprof.derive.ops.tree.tree_schemas import TABLES as TABLES
from fastprof.derive.ops.tree.tree_tables import HBM, OpTree
from fastprof.hlo.counting import GENERAL, OF_GPUS

NAME = "op_profile"
READS = device_ops.READS
AFTER: tuple[str, ...] = ()
MOST_SHOWN = 40
"""Nodes of a tree that the text shows: the largest, each below its parent."""
SHOWN_SHARE = 0.0005
"""Of all time, at least, that they have."""
IDLE_NAME = "IDLE"


@dataclass(frozen=True, slots=True)
class Params:
    """``group_by``: one of GROUPINGS."""

    group_by: str = field(default="program", metadata={"help": "how the tree groups ops", "choices": GROUPINGS})


SCALARS = {
    "device_total_ps": ScalarSpec("ps", "time observed on devices, summed over them"),
    "device_busy_ps": ScalarSpec("ps", "part of it in which an op ran"),
    "device_idle_ps": ScalarSpec("ps", "device_total_ps less device_busy_ps"),
    "op_ps": ScalarSpec("ps", "self times of all ops; more than device_busy_ps where ops ran at the same time",
                        "ops"),
    "compute_peak_percent": ScalarSpec("%", "flops of ops / device_total_ps / peak of a core, * 100; ops of unknown "
                                       "work count as none", "of peak arithmetic"),
    "hbm_peak_percent": ScalarSpec("%", "bytes to and from HBM / device_total_ps / bandwidth of a core, * 100; "
                                   "likewise", "of peak HBM bandwidth"),
    "lost_ps": ScalarSpec("ps", "op_ps less what ops would take if each used the arithmetic or memory that it comes "
                            "nearest to exhaust to its peak; of ops of which that is known"),
    "work_known_share": ScalarSpec("share", "part of op_ps that is of ops of which flops and bytes are known"),
    "unattributed_share": ScalarSpec("share", "part of op_ps that is of kernels and copies whose op is not known"),
    "program_count": ScalarSpec(None, "programs that ran"),
    "op_count": ScalarSpec(None, "different ops that ran"),
}  # fmt: skip


def is_largest(table: pa.Table) -> pa.Array:
    """By row of a tree, whether it is among the largest, of which the text shows MOST_SHOWN. A part is never larger
    than the whole: with a row its parent is shown, which comes before it."""
    self_ps = np.nan_to_num(table["self_ps"].to_numpy(), nan=-1)
    chosen = np.zeros(len(self_ps), bool)
    chosen[np.argsort(-self_ps, kind="stable")[:MOST_SHOWN]] = True
    return pa.array(chosen & (self_ps > 0) & (self_ps >= SHOWN_SHARE * self_ps[:1]))


def _shows_scopes(*, layers: bool, passes: bool) -> Callable[[Report], bool]:
    """For Section.shown: whether ops tell their scopes, and ``layers`` that only a number tells apart, and ``passes``
    of training."""

    def shown(report: Report) -> bool:
        scopes = report.tables["scopes"]
        names = scopes["path"].to_pylist()
        if all(name == "" or name.partition("/")[0] == UNSCOPED for name in names):
            return False
        alike = bool((report.tables["layers"]["instances"].to_numpy() > 1).any())
        trains = scopes["other_ps"][0].as_py() < scopes["self_ps"][0].as_py()
        return alike == layers and trains == passes

    return shown


_NODE_COLUMNS = ("name", "self_ps", "share", "lost_ps", "compute_peak_percent", "hbm_peak_percent", "occurrences")
_PASSES = ("forward_ps", "backward_ps", "recompute_ps", "other_ps")
_PASS_COLUMNS = ("self_ps", "busy_share", *_PASSES, "lost_ps", "compute_peak_percent")
_SCOPE_COLUMNS = ("self_ps", "busy_share", "lost_ps", "compute_peak_percent", "hbm_peak_percent", "ops")


def _scope_section(*, layers: bool, passes: bool) -> Section:
    title = "Layers of the model, those alike together" if layers else "Scopes of the model"
    columns = ("name", *(("instances",) if layers else ()), *(_PASS_COLUMNS if passes else _SCOPE_COLUMNS))
    shown = _shows_scopes(layers=layers, passes=passes)
    table = "layers" if layers else "scopes"
    return Section(
        title, table, columns, "busy_share", MOST_SHOWN, shown=shown, depth="depth", only=is_largest, parts=_PASSES
    )


SECTIONS = (
    Section("Device time", scalars=tuple(SCALARS), shown=is_known("device_total_ps")),
    Section("Where it goes", "tree", _NODE_COLUMNS, "share", MOST_SHOWN, shown=has_rows("tree"), depth="depth",
            only=is_largest),
    *(_scope_section(layers=layers, passes=passes) for layers in (True, False) for passes in (True, False)),
    Section("Devices", "devices", ("device", "total_ps", "busy_ps", "busy_share", "compute_peak_percent"), "busy_share",
            16, shown=has_rows("devices")),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class HostKept:
    """What is kept of one host."""

    ops: HostDeviceOps
    programs: Programs


@dataclass(frozen=True, slots=True)
class OpProfile:
    """What the report is made of, for renderers."""

    session: SessionOps
    group_by: str
    fused: FusedInstructions
    tree: OpTree
    scopes: ScopeTree


def of_host(given: Host, _params: Params) -> HostKept:
    ops = given.device_ops
    return HostKept(ops, Programs.of(ops.ops.table, given.raw.programs, given.raw.log))


def run(kept: Sequence[HostKept], params: Params, _after: Mapping[str, Report]) -> Report:
    session = SessionOps.of([one.ops for one in kept])
    counting = OF_GPUS if session.hardware == GPU else GENERAL
    fused, problems = fused_instructions(session.ops.table, [one.programs for one in kept], counting)
    figures = OpFigures.of(session.ops.table, session.peaks)
    tree = _tree(session, fused, figures, params.group_by)
    scopes = scopes_of(session.ops.table, figures)
    of_model = scopes.tree()
    tables = {
        "tree": tree_tables.tree_table(tree),
        "scopes": tree_tables.scope_table(of_model, "scopes"),
        "layers": tree_tables.scope_table(scopes.layers(), "layers"),
        "memory": tree_tables.memory_table(tree),
        "devices": _devices(kept),
    }
    detail = OpProfile(session, params.group_by, fused, tree, of_model)
    notices = tuple(_notices(session, problems))
    return Report(NAME, tables, scalars(SCALARS, _values(session, tree)), notices, detail=detail)


# ---- the tree


def _tree(session: SessionOps, fused: FusedInstructions, figures: OpFigures, group_by: str) -> OpTree:
    ops = session.ops
    growth, nodes = op_paths.grown(ops.table, group_by, session.title)
    idle = growth.added(0, IDLE, IDLE_NAME) if ops.idle_ps > 0 else None
    sparse = OpTable.empty() if ops.children is None else ops.children
    _add_within(growth, nodes, ops, fused)
    found = of_growth(growth, nodes, figures)
    if idle is not None:
        found.whole["self_ps"][[0, idle]] += ops.idle_ps
    work = found.work["flops"].copy()
    inner = np.flatnonzero(np.array(growth.kind) == INSTRUCTION)
    work[inner] = np.nan_to_num(np.array(fused.flops)[np.array(growth.row, np.int64)[inner]]) if len(inner) else 0.0
    tree = laid_out(growth, found.whole["self_ps"], work)
    return OpTree(tree, in_order(found, tree), ops.table, fused, sparse, session.title)


def _add_within(growth: Growth, nodes: Sequence[int], ops: Ops, fused: FusedInstructions) -> None:
    """Adds what ops are made of: instructions of fusions, and what SparseCores ran on their behalf."""
    table = ops.table
    for node, key in zip(nodes, zip(table.program_id.tolist(), table.name, strict=True), strict=True):
        first, last = fused.of.get(key, (0, 0))
        shift = len(growth) - first
        for row in range(first, last):
            above = fused.above[row]
            growth.added(node if above < 0 else above + shift, INSTRUCTION, fused.name[row], row)
    if ops.children is not None and ops.parent is not None:
        for row, (parent, name) in enumerate(zip(ops.parent.tolist(), ops.children.name, strict=True)):
            growth.added(nodes[parent], SPARSE_CORE_OP, name, row)


# ---- devices and figures


def _devices(kept: Sequence[HostKept]) -> pa.Table:
    rows = [_device(one.ops, name, ops) for one in kept for name, ops in one.ops.by_device]
    return pa.Table.from_pylist(rows, schema=TABLES["devices"].arrow())


def _device(host: HostDeviceOps, name: str, ops: Ops) -> dict[str, object]:
    found = _whole(ops, host.peaks)
    return {
        "host": host.name,
        "device": name,
        "ops": len(ops.table),
        "total_ps": ops.total_ps,
        "op_ps": ops.op_ps,
        "busy_ps": ops.busy_ps,
        "idle_ps": ops.idle_ps,
        "busy_share": ops.busy_ps / ops.total_ps if ops.total_ps else None,
        "flops": float(found.work["flops"][0]) if found.knows("flops")[0] else None,
        "compute_peak_percent": _percent(found, COMPUTE),
        "hbm_bytes": float(found.work[HBM][0]) if found.knows("bytes")[0] else None,
        "hbm_peak_percent": _percent(found, HBM),
        "lost_ps": int(found.whole["lost_ps"][0]) if found.knows("lost")[0] else None,
    }


def _whole(ops: Ops, of: object) -> NodeFigures:
    """All ops as one node, against the time observed."""
    figures = OpFigures.of(ops.table, of)  # type: ignore[arg-type]
    found = of_growth(Growth("all"), [0] * len(ops.table), figures)
    return NodeFigures(found.whole | {"self_ps": np.array([ops.total_ps])}, found.work, found.beneath)


def _percent(found: NodeFigures, column: str) -> float | None:
    share = float(found.utilisation(column)[0])
    return None if np.isnan(share) else 100 * share


def _values(session: SessionOps, tree: OpTree) -> dict[str, Value | tuple[None, str]]:
    ops, table = session.ops, session.ops.table
    if not ops.parts:
        return dict.fromkeys(SCALARS, (None, "the capture has no devices, and no thread that ran a compiled program"))
    whole = _whole(ops, session.peaks)
    unattributed = sum(own for own, why in zip(table.self_ps.tolist(), table.unattributed, strict=True) if why)
    no_time = (None, "no op took any time")
    peaks = (None, "the peak of the device, or the work of all of its ops, is not known")
    lost = bool(tree.figures.knows("lost")[0])
    return {
        "device_total_ps": ops.total_ps,
        "device_busy_ps": ops.busy_ps,
        "device_idle_ps": ops.idle_ps,
        "op_ps": ops.op_ps,
        "compute_peak_percent": peaks if (percent := _percent(whole, COMPUTE)) is None else percent,
        "hbm_peak_percent": peaks if (percent := _percent(whole, HBM)) is None else percent,
        "lost_ps": int(tree.figures.whole["lost_ps"][0]) if lost else peaks,
        "work_known_share": int(whole.whole["work_known_ps"][0]) / ops.op_ps if ops.op_ps else no_time,
        "unattributed_share": unattributed / ops.op_ps if ops.op_ps else no_time,
        "program_count": len(set(table.program_id.tolist()) - {0}),
        "op_count": len(table),
    }


# ---- notices


def _notices(session: SessionOps, problems: Sequence[str]) -> Iterator[Notice]:
    """``problems``: programs that could not be read."""
    yield from (Notice(*one) for one in remarks(session))
    told = {problem for host in session.hosts for problem in host.problems}
    for problem in dict.fromkeys(problems):
        if problem not in told:
            yield Notice("warning", f"{problem[:1].upper()}{problem[1:]}.")
