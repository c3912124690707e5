"""XProf's page op_profile: a tree of ops with idle time and one without.

Nodes show at most 100 children below the levels that ops are grouped by. An op with nested ops is no node; its self
time counts for its program. The instructions of fusions are shown for TPUs alone, without figures."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from fastprof.analyses.op_profile import OpProfile
from fastprof.derive.host import TPU
from fastprof.derive.ops.op_profile_tables import FusedInstructions
from fastprof.derive.ops.op_table import HBM, READ, WRITE, Ops, OpTable
from fastprof.derive.ops.op_trees import CATEGORY, DUPLICATES, IDLE, OP, PROGRAM, ROOT, SCOPE, GrowingTree, limit_scopes
from fastprof.derive.ops.roofline_model import GIBI
from fastprof.schema.columns import Float64s
from fastprof.xprof import counted_ops

if TYPE_CHECKING:
    from fastprof.analyses.contract import AnalysisReport

KEEPS: Final = counted_ops.DEVICE_OPS_KEEPS
Node = dict[str, Any]

MOST_CHILDREN: Final = 100
_WHOLE_LEVELS: Final = {"program": 2, "category": 1, "provenance": 100}
"""Number of levels, the root among them, whose nodes have all children."""
_VERTICAL: Final = (ROOT, PROGRAM, SCOPE)
"""Kinds of nodes whose time is that of ops by themselves."""
_REGION: Final = "region"
"""Prefix of the names of ops that are left out."""
_IDLE_NAME: Final = "IDLE"
_NO_PROGRAM: Final = "main"
_FUSIONS: Final = " fusion"
"""Suffix of the categories of fusions."""
_LEAST: Final = 1e-10
"""Bound below which a divisor counts as 0."""
_COLUMNS: Final = ("time", "self", "normalized", "occurrences", "flops", "model_flops", "hbm", "read", "written")


def answer(report: AnalysisReport) -> object:
    profile = report.detail_as(OpProfile)
    ops = counted_ops.get_device_ops(report)
    name = f"by{profile.group_by.capitalize()}"
    return {
        name: _OpTreePage(profile, ops, with_idle=True).root(),
        f"{name}ExcludeIdle": _OpTreePage(profile, ops, with_idle=False).root(),
        "deviceType": profile.session.hardware,
        "aggDvfsTimeScaleMultiplier": _write_number(_divide(ops.normalized_op_ps, ops.op_ps)),
    }


def split_page_scopes(provenance: str) -> list[str]:
    """Split ``a/b/c:Type`` without the type; the last part is a part even if nothing is before its colon."""
    parts = [part for part in provenance.split("/") if part]
    if parts:
        parts[-1] = parts[-1].partition(":")[0]
    return limit_scopes(parts)


def _divide(a: float, b: float) -> float:
    return 0.0 if -_LEAST < b < _LEAST else a / b


def _write_number(value: float) -> float | int:
    """Convert a number to write: whole doubles have no fraction."""
    return int(value) if value.is_integer() and abs(value) < 1e15 else value


class _OpTreePage:
    """One of the two trees."""

    def __init__(self, profile: OpProfile, ops: Ops, *, with_idle: bool) -> None:
        self.session = profile.session
        self.peaks = counted_ops.combine_peaks(profile.session)
        self.ops = ops
        self.group_by = profile.group_by
        self.fused: FusedInstructions = profile.fused if profile.session.hardware == TPU else FusedInstructions()
        self.growth = GrowingTree(f"by_{profile.group_by}")
        self.total_ps = self.ops.total_ps if with_idle else self.ops.op_ps
        self.leaf: dict[int, int] = {}
        self._known: dict[tuple[Any, ...], Node] = {}
        self._sparse_rows: dict[int, list[int]] = {}  # the ops that a SparseCore ran for each op
        if self.ops.parent is not None:
            for row, parent in enumerate(self.ops.parent.tolist()):
                self._sparse_rows.setdefault(parent, []).append(row)
        self._of_sparse = _list_figures(self.ops.children) if self.ops.children is not None else {}
        nested = self._grow()
        idle = self.growth.added(0, IDLE, _IDLE_NAME) if with_idle and self.ops.parts else -1
        self.figures = self._summed(nested, idle)

    # ---- the tree as it grows

    def _grow(self) -> list[tuple[int, int]]:
        """Add a node for each op. Return (node, op) of those with nested ops, which have none."""
        table = self.ops.table
        nested = []
        held = (table.time_ps > table.self_ps).tolist()
        for row, (name, program) in enumerate(zip(table.name, table.program_id.tolist(), strict=True)):
            if name.startswith(_REGION):
                continue
            node = 0
            if self.group_by != "category":
                node = self.growth.child(0, PROGRAM, self.session.title(program) or _NO_PROGRAM, program)
            if held[row] and row not in self._sparse_rows:
                nested.append((node, row))
                continue
            if self.group_by == "provenance" and table.provenance[row]:
                node = self.growth.path(node, SCOPE, split_page_scopes(table.provenance[row]))
            node = self.growth.child(node, CATEGORY, table.category[row])
            node = self.growth.child(node, DUPLICATES, table.deduplicated_name[row] or name)
            self.leaf[row] = self.growth.added(node, OP, name, row)
        return nested

    # ---- figures

    def _summed(self, nested: Sequence[tuple[int, int]], idle: int) -> dict[str, npt.NDArray[Any]]:
        """Return the figures of each node as the tree grew, by the names of _COLUMNS."""
        own = _list_figures(self.ops.table)
        levels = self.growth.levels()
        rows, nodes = np.array(list(self.leaf), np.int64), np.array(list(self.leaf.values()), np.int64)
        whole: dict[str, npt.NDArray[Any]] = {}
        for name in _COLUMNS:
            values = np.zeros(len(self.growth), own[name].dtype)
            values[nodes] = own[name][rows]
            whole[name] = levels.rolled_up(values)
        held = self._held(own, rows, nodes, levels)
        for node, row in nested:
            for name in ("self", "normalized"):
                whole[name][[0, node] if node else [0]] += own[name][row]
        vertical = np.isin(np.array(self.growth.kind), _VERTICAL)
        whole["time"][vertical] = whole["self"][vertical]
        whole["occurrences"][vertical] = 0
        for name, values in held.items():
            whole[name][vertical] -= values[vertical]
        if idle >= 0:
            whole["time"][idle] = self.ops.idle_ps
        whole["time"][0] = self.total_ps
        return whole

    def _held(self, own: dict[str, Any], rows: Any, nodes: Any, levels: Any) -> dict[str, Any]:
        """Return the work of ops with nested ops, which does not count for the groups above."""
        table = self.ops.table
        with_more = (table.time_ps > table.self_ps)[rows]
        sums = {}
        for name in _COLUMNS[4:] if with_more.any() else ():
            values = np.zeros(len(self.growth))
            values[nodes[with_more]] = own[name][rows[with_more]]
            sums[name] = levels.rolled_up(values)
        return sums

    def _metrics(self, figures: Mapping[str, Any]) -> Node:
        """Make metrics. ``figures``: by the names of _COLUMNS. Nodes of equal figures share an object: in a chain of
        scopes all nodes are equal."""
        key = tuple([figures[name] for name in _COLUMNS])
        if key not in self._known:
            self._known[key] = self._made(figures)
        return self._known[key]

    def _made(self, figures: Mapping[str, Any]) -> Node:
        peaks, time, ns = self.peaks, figures["time"], figures["time"] / 1000
        peak = peaks.teraflops_per_s * 1000 if peaks else 0.0
        bandwidths = [*(peaks.bandwidths_gb_per_s if peaks else ()), 0.0, 0.0, 0.0][:3]
        per_ns = _divide(figures["flops"], ns)
        if figures["normalized"]:
            per_ns *= _divide(time, figures["normalized"])
        use, share = _divide(per_ns, peak), _divide(time, self.total_ps)
        rates = [_divide(figures[name], ns) / GIBI for name in ("hbm", "read", "written")]
        return {
            "flops": _write_number(min(use, 1.0) * share),
            "uncappedFlops": _write_number(use * share),
            "bandwidthUtils": [
                _write_number(min(_divide(rate, bandwidth / GIBI), 1.0))
                for rate, bandwidth in zip(rates, bandwidths, strict=True)
            ],
            "rawTime": time,
            "rawFlops": _write_number(figures["model_flops"]),
            "bf16Flops": _write_number(figures["flops"]),
            "normalizedTimePs": figures["normalized"],
            "rawBytesAccessedArray": [_write_number(rate * GIBI * ns) for rate in rates],
            "occurrences": figures["occurrences"],
            "avgTimePs": _write_number(_divide(time, figures["occurrences"])),
        }

    # ---- nodes as the page has them, from the ends up

    def root(self) -> Node:
        growth = self.growth
        children: list[list[int]] = [[] for _ in range(len(growth))]
        for node in range(1, len(growth)):
            children[growth.parent[node]].append(node)
        counts = [len(below) for below in children]
        times = self.figures["time"].tolist()
        kept = [0]
        for node in kept:  # it grows meanwhile
            below = sorted(children[node], key=lambda child: -times[child])
            children[node] = below[: self._most(growth.depth[node])]
            kept += children[node]
        made: dict[int, Node] = {}
        for node in reversed(kept):
            made[node] = self._node(node, [made.pop(child) for child in children[node]], counts[node])
        return made[0]

    def _node(self, node: int, children: list[Node], count: int) -> Node:
        """Make a node. Ops that are no duplicates of others replace the node above them, as idle time does that is
        alone."""
        kind, row = self.growth.kind[node], self.growth.row[node]
        if kind == OP:
            return self._op(node, row)
        if len(children) == 1 and (kind == DUPLICATES or (kind == ROOT and children[0]["name"] == _IDLE_NAME)):
            return children[0]
        shown: Node = {
            "name": self.growth.name[node],
            "numChildren": count,
            "children": children,
            "metrics": self._metrics(_take_figures(self.figures, node)),
        }
        if kind == IDLE:
            shown["xla"] = _make_xla(category=_IDLE_NAME)
        elif kind == DUPLICATES:
            shown["name"] = f"{children[0]['name']} and its duplicate(s)"
            # Duplicates are described as the first of them, fusions without their framework op.
            first = children[0]["xla"]
            changed: Node = {"provenance": ""} if first["category"].endswith(_FUSIONS) else {"layout": {}}
            shown["xla"] = first | changed
        return shown

    def _op(self, node: int, row: int) -> Node:
        depth = self.growth.depth[node]
        leaf = self._leaf(self.ops.table, row, _take_figures(self.figures, node))
        return _add_children(leaf, [*self._fused(row, depth), *self._sparse(row)], self._most(depth))

    def _most(self, depth: int) -> int | None:
        """Return how many children a node of this depth shows, or None for all."""
        return None if depth < _WHOLE_LEVELS[self.group_by] else MOST_CHILDREN

    def _leaf(self, table: OpTable, row: int, figures: Mapping[str, Any]) -> Node:
        line = int(table.source_line[row])
        return {
            "name": table.name[row],
            "numChildren": 0,
            "children": [],
            "metrics": self._metrics(figures),
            "xla": _make_xla(
                expression=table.long_name[row],
                provenance=table.provenance[row],
                category=table.category[row],
                program=int(table.program_id[row]),
                file=table.source_file[row],
                line=0 if line < 0 and self.session.hardware == TPU else line,
                stack=table.source_stack[row],
            ),
        }

    def _fused(self, row: int, depth: int) -> list[Node]:
        """Return the instructions of a fusion at a depth, each with those of fusions within it."""
        fused, table = self.fused, self.ops.table
        first, last = fused.of.get((int(table.program_id[row]), table.name[row]), (0, 0))
        nodes = {number: self._instruction(number) for number in range(first, last)}
        below: dict[int, list[Node]] = {}
        for number, node in nodes.items():
            below.setdefault(fused.above[number], []).append(node)
        depths: dict[int, int] = {}
        for number in nodes:
            depths[number] = depths.get(fused.above[number], depth) + 1
        for number in reversed(nodes):
            _add_children(nodes[number], below.get(number, []), self._most(depths[number]))
        return below.get(-1, [])

    def _instruction(self, row: int) -> Node:
        fused = self.fused
        metrics = self._metrics(dict.fromkeys(_COLUMNS, 0.0) | {"time": 0, "normalized": 0, "occurrences": 1})
        op = fused.framework_op[row] or ":"
        xla = _make_xla(expression=fused.expression[row], provenance=op, category=fused.category[row])
        return {"name": fused.name[row], "numChildren": 0, "children": [], "metrics": metrics, "xla": xla}

    def _sparse(self, row: int) -> list[Node]:
        """Return what a SparseCore ran on behalf of an op."""
        children = self.ops.children
        rows = self._sparse_rows.get(row, ())
        return [
            self._leaf(children, child, _take_figures(self._of_sparse, child)) for child in rows if children is not None
        ]


def _take_figures(figures: Mapping[str, npt.NDArray[Any]], place: int) -> dict[str, Any]:
    return {name: values[place].item() for name, values in figures.items()}


def _list_figures(table: OpTable) -> dict[str, npt.NDArray[Any]]:
    """List the figures of each op, by the names of _COLUMNS."""
    memory = table.memory

    def moved(chosen: npt.NDArray[np.bool_]) -> Float64s:
        return np.bincount(memory.row[chosen], memory.bytes[chosen], len(table)).astype(np.float64)

    on_chip = memory.space != HBM
    reads, writes = memory.operation == READ, memory.operation == WRITE
    return {
        "time": table.time_ps,
        "self": table.self_ps,
        "normalized": table.normalized_ps,
        "occurrences": table.occurrences,
        "flops": table.flops,
        "model_flops": table.model_flops,
        "hbm": moved(~on_chip & (reads | writes)),
        "read": moved(on_chip & reads),
        "written": moved(on_chip & writes),
    }


def _add_children(node: Node, children: Sequence[Node], most: int | None) -> Node:
    """Add children, at most ``most``: those of a fusion by flops, others by time, largest first."""
    key = "rawFlops" if node["xla"]["category"].endswith(_FUSIONS) else "rawTime"
    node["children"] = sorted(children, key=lambda child: -child["metrics"][key])[:most]
    node["numChildren"] = len(children)
    return node


def _make_xla(
    *,
    category: str,
    expression: str = "",
    provenance: str = "",
    program: int = 0,
    file: str = "",
    line: int = 0,
    stack: str = "",
) -> Node:
    return {
        "op": "",
        "expression": expression,
        "provenance": provenance,
        "category": category,
        "computationPrimitiveSize": 0,
        "fingerprint": "0",
        "programId": str(program % (1 << 64)),
        "sourceInfo": {"fileName": file, "lineNumber": line, "stackFrame": stack},
        "xprofKernelMetadata": _find_kernel_metadata(expression),
    }


def _find_kernel_metadata(expression: str) -> str:
    """Return what the author of a kernel wrote for XProf: JSON as text, within the JSON of a frontend attribute."""
    _, _, rest = expression.partition("kernel_metadata=")
    if "xprof_metadata" not in rest:
        return ""
    try:
        written, _ = json.JSONDecoder().raw_decode(rest)
        return json.dumps(
            json.loads(written["xprof_metadata"]), sort_keys=True, separators=(",", ":"), ensure_ascii=False
        )
    except (ValueError, TypeError, KeyError, RecursionError):
        return ""
