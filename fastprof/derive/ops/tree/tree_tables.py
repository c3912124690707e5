"""Trees of ops as tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fastprof.derive.ops.framework import framework_name
from fastprof.derive.ops.roofline import MEMORIES
from fastprof.derive.ops.tables import FROM_CAPTURE, FROM_HLO, OpTable
from fastprof.derive.ops.tree.node_figures import COMPUTE, NodeFigures
from fastprof.derive.ops.tree.op_trees import (
    CATEGORY,
    IDLE,
    INSTRUCTION,
    KINDS,
    OP,
    PROGRAM,
    ROOT,
    SPARSE_CORE_OP,
    Tree,
)
from fastprof.derive.ops.tree.tree_schemas import TABLES
from fastprof.schema.array_types import Bools, Float64s

if TYPE_CHECKING:
    from fastprof.derive.ops.tree.fused_columns import FusedInstructions
    from fastprof.derive.ops.tree.op_paths import Title
    from fastprof.derive.ops.tree.scope_trees import ScopeTree

Columns = dict[str, Any]
Texts = list[str | None]

_SOURCES: Final = {FROM_CAPTURE: "capture", FROM_HLO: "hlo"}
HBM: Final = "hbm"
MOST_PATH: Final = 1001
"""Letters of a path."""
_END: Final = MOST_PATH // 2


@dataclass(frozen=True, slots=True, eq=False)
class OpTree:
    """The ops as a tree, and what its rows stand for: ops of ``table``, instructions of ``fused``, and ops of
    SparseCores of ``sparse``."""

    tree: Tree
    figures: NodeFigures
    table: OpTable
    fused: FusedInstructions
    sparse: OpTable
    title: Title


def tree_table(found: OpTree) -> pa.Table:
    """The table ``tree``."""
    tree, figures = found.tree, found.figures
    inner = _within(tree)
    columns = _node_columns(tree, figures)
    columns |= _work_columns(figures, ~inner)
    columns |= {
        "kind": [KINDS[code] for code in tree.kind.tolist()],
        "self_ps": pa.array(figures.whole["self_ps"], mask=inner),
    }
    columns |= _shares(tree, figures)
    columns |= _op_times(found)
    columns |= _texts_of(found)
    for name in ("occurrences", "executions"):
        columns[name] = _times(found, name)
    _add_instructions(found, columns)
    return pa.table({name: columns[name] for name in TABLES["tree"].arrow().names}, schema=TABLES["tree"].arrow())


def scope_table(found: ScopeTree, name: str) -> pa.Table:
    """The table ``scopes`` or ``layers``."""
    tree, whole = found.tree, found.figures.whole
    columns = _node_columns(tree, found.figures) | _work_columns(found.figures, np.ones(len(tree), bool))
    columns |= {f"{one}_ps": whole[f"{one}_ps"] for one in ("forward", "backward", "recompute", "other", "self")}
    columns |= {
        "path": _paths(tree),
        "occurrences": whole["occurrences"],
        "executions": whole["executions"],
        "category": [text or None for text in found.category],
        "own_ps": _own(whole["self_ps"], tree),
        "busy_share": _known(_divided(whole["self_ps"], np.full(len(tree), whole["self_ps"][0]))),
        "instances": found.instances,
    }
    schema = TABLES[name].arrow()
    return pa.table({column: columns[column] for column in schema.names}, schema=schema)


def memory_table(found: OpTree) -> pa.Table:
    """The table ``memory``."""
    tree, figures = found.tree, found.figures
    moved = [figures.work[memory.column] for memory in MEMORIES]
    chosen = [np.flatnonzero(one > 0) for one in moved]
    which = np.repeat(np.arange(len(MEMORIES)), [len(rows) for rows in chosen])
    nodes = np.concatenate(chosen)
    order = np.lexsort((which, nodes))
    nodes, which = nodes[order], which[order]
    peaks = np.array([next((c.per_ns for c in figures.beneath if c.column == m.column), 0.0) for m in MEMORIES])
    size = np.stack(moved, axis=1)[nodes, which]
    rate = _divided(size, figures.whole["self_ps"][nodes] / 1e12)
    peak = np.where(peaks > 0, peaks * 1e9, np.nan)[which]
    rate = np.where(figures.only_waits()[nodes], np.nan, rate)
    columns = {
        "node": nodes,
        "kind": [KINDS[code] for code in tree.kind[nodes].tolist()],
        "name": [tree.name[node] for node in nodes.tolist()],
        "memory": [MEMORIES[one].name for one in which.tolist()],
        "accessed_bytes": size,
        "bytes_per_s": _known(rate),
        "peak_bytes_per_s": _known(peak),
        "peak_percent": _known(100 * rate / peak),
    }
    return pa.table(columns, schema=TABLES["memory"].arrow())


# ---- columns


def _node_columns(tree: Tree, figures: NodeFigures) -> Columns:
    return {
        "node": np.arange(len(tree)),
        "parent": pa.array(tree.parent.astype(np.int64), mask=tree.parent < 0),
        "depth": tree.depth.astype(np.int64),
        "name": tree.name,
        "children": tree.children(),
        "ops": figures.whole["ops"],
    }


def _work_columns(figures: NodeFigures, shown: Bools) -> Columns:
    """``shown``: nodes that have figures at all."""
    flops, moved, lost = (shown & figures.knows(what) for what in ("flops", "bytes", "lost"))
    seconds = figures.whole["self_ps"] / 1e12
    return {
        "flops": pa.array(figures.work["flops"], mask=~flops),
        "model_flops": pa.array(figures.work["model_flops"], mask=~flops),
        "flops_per_s": _known(np.where(flops, _divided(figures.work["flops"], seconds), np.nan)),
        "compute_peak_percent": _known(np.where(shown, 100 * figures.utilisation(COMPUTE), np.nan)),
        "accessed_bytes": pa.array(figures.work["bytes"], mask=~moved),
        "hbm_bytes": pa.array(figures.work[HBM], mask=~moved),
        "hbm_bytes_per_s": _known(np.where(moved, _divided(figures.work[HBM], seconds), np.nan)),
        "hbm_peak_percent": _known(np.where(shown, 100 * figures.utilisation(HBM), np.nan)),
        "lost_ps": pa.array(figures.whole["lost_ps"], mask=~lost),
        "work_known_share": _known(_divided(figures.whole["work_known_ps"], figures.whole["self_ps"])),
    }


def _shares(tree: Tree, figures: NodeFigures) -> Columns:
    self_ps, every = figures.whole["self_ps"], np.full(len(tree), figures.whole["self_ps"][0])
    idle = (tree.kind == IDLE) | (tree.kind == ROOT)
    busy = every - self_ps[tree.kind == IDLE].sum()
    inner = _within(tree)
    return {
        "share": _known(np.where(inner, np.nan, _divided(self_ps, every))),
        "busy_share": _known(np.where(inner | idle, np.nan, _divided(self_ps, busy))),
    }


def _op_times(found: OpTree) -> Columns:
    """Of ops, also those of SparseCores, how long they took with what is nested in them."""
    total = _by_row(found, "time_ps")
    count = np.maximum(_by_row(found, "occurrences"), 1)
    is_op = (found.tree.kind == OP) | (found.tree.kind == SPARSE_CORE_OP)
    return {"total_ps": pa.array(total, mask=~is_op), "mean_ps": pa.array(total // count, mask=~is_op)}


def _by_row(found: OpTree, column: str) -> npt.NDArray[np.int64]:
    """A figure of the ops that nodes are, 0 of other nodes."""
    values = np.zeros(len(found.tree), np.int64)
    for kind, table in ((OP, found.table), (SPARSE_CORE_OP, found.sparse)):
        nodes = found.tree.kind == kind
        values[nodes] = getattr(table, column)[found.tree.row[nodes]]
    return values


def _times(found: OpTree, name: str) -> npt.NDArray[np.int64]:
    """Instructions run as often as the op that they are in."""
    tree = found.tree
    counts = found.figures.whole[name].copy()
    sparse = tree.kind == SPARSE_CORE_OP
    counts[sparse] = getattr(found.sparse, name)[tree.row[sparse]]
    inner = np.flatnonzero(tree.kind == INSTRUCTION)
    counts[inner] = counts[_op_above(tree)[inner]]
    return counts


def _op_above(tree: Tree) -> npt.NDArray[np.int64]:
    """Of each node the last op at or before it: of what is within an op, that op."""
    found: npt.NDArray[np.int64] = np.maximum.accumulate(np.where(tree.kind == OP, np.arange(len(tree)), 0))
    return found


def _texts_of(found: OpTree) -> Columns:
    """What ops, and those of SparseCores, tell in words; null of other nodes."""
    table, tree = found.table, found.tree
    provenance = _framework_names(table.provenance)
    sources = [
        None if not file else f"{file}:{line}" if line >= 0 else file
        for file, line in zip(table.source_file, table.source_line.tolist(), strict=True)
    ]
    programs = {number: found.title(number) for number in set(table.program_id.tolist())}
    columns = {
        "framework_op": _spread(tree, OP, provenance),
        "source": _spread(tree, OP, sources),
        "program": _spread(tree, OP, [programs[number] for number in table.program_id.tolist()]),
        "category": _spread(tree, OP, table.category),
        "expression": _spread(tree, OP, table.long_name),
        "attribution": _spread(tree, OP, table.attribution),
        "unattributed": _spread(tree, OP, table.unattributed),
        "flops_source": _spread(tree, OP, [_SOURCES.get(code) for code in table.flops_source.tolist()]),
        "bytes_source": _spread(tree, OP, [_SOURCES.get(code) for code in table.bytes_source.tolist()]),
    }
    _set(columns["category"], tree, SPARSE_CORE_OP, found.sparse.category.__getitem__)
    _set(columns["expression"], tree, SPARSE_CORE_OP, found.sparse.long_name.__getitem__)
    for node in np.flatnonzero(tree.kind == CATEGORY).tolist():
        columns["category"][node] = tree.name[node]
    program_id = _spread(tree, OP, table.program_id.tolist())
    for node in np.flatnonzero(tree.kind == PROGRAM).tolist():
        first = int(np.flatnonzero(tree.kind[node : tree.last[node]] == OP)[0]) + node
        program_id[node], columns["program"][node] = program_id[first], columns["program"][first]
    return columns | {"program_id": program_id}


def _framework_names(provenances: Sequence[str]) -> Texts:
    """The names in provenances, which repeat."""
    names = {text: framework_name(text) for text in set(provenances)}
    return [names[text] for text in provenances]


def _spread(tree: Tree, kind: int, values: Sequence[Any]) -> list[Any]:
    """Values by row at the nodes of a kind; None elsewhere, and for empty texts."""
    spread: list[Any] = [None] * len(tree)
    nodes = np.flatnonzero(tree.kind == kind)
    for node, row in zip(nodes.tolist(), tree.row[nodes].tolist(), strict=True):
        spread[node] = None if values[row] == "" else values[row]
    return spread


def _set(column: list[Any], tree: Tree, kind: int, value: Callable[[int], Any]) -> None:
    nodes = np.flatnonzero(tree.kind == kind)
    for node, row in zip(nodes.tolist(), tree.row[nodes].tolist(), strict=True):
        column[node] = value(row) or None


def _add_instructions(found: OpTree, columns: Columns) -> None:
    """What is told of the instructions within fusions."""
    tree, fused = found.tree, found.fused
    nodes = np.flatnonzero(tree.kind == INSTRUCTION)
    shares = np.full(len(tree), np.nan)
    if len(nodes):
        rows = tree.row[nodes]
        texts = {"category": fused.category, "expression": fused.expression}
        texts["framework_op"] = [text or "" for text in _framework_names(fused.framework_op)]
        for name, values in texts.items():
            _set(columns[name], tree, INSTRUCTION, values.__getitem__)
        shares[nodes] = _cost_shares(fused)[rows]
        times = columns["executions"][nodes]
        for name, source in (("flops", fused.flops), ("model_flops", fused.flops), ("accessed_bytes", fused.bytes)):
            figures = np.asarray(columns[name].to_numpy(zero_copy_only=False), np.float64).copy()
            figures[nodes] = np.array(source)[rows] * times
            columns[name] = _known(figures)
    columns["cost_share"] = _known(shares)


def _cost_shares(fused: FusedInstructions) -> Float64s:
    """Of each instruction the part of the work of its fusion; those within nested fusions are parts of these."""
    shares = np.full(len(fused), np.nan)
    flops, moved = np.array(fused.flops), np.array(fused.bytes)
    above = np.array(fused.above, np.int64)
    for first, last in fused.of.values():
        group = above[first:last]
        for one in np.unique(group).tolist():
            rows = first + np.flatnonzero(group == one)
            work = flops[rows] if np.nansum(flops[rows]) > 0 else moved[rows]
            whole = np.nansum(work)
            if whole > 0:
                shares[rows] = work / whole
    return shares


def _own(times: npt.NDArray[np.int64], tree: Tree) -> npt.NDArray[np.int64]:
    """Of each node what is not its children's."""
    own = times.copy()
    np.subtract.at(own, tree.parent[1:], times[1:])
    return own


def _paths(tree: Tree) -> list[str]:
    """The names from the top, without that of the root; long ones without their middle, as each name stands in the
    paths of all nodes below it."""
    paths = [""] * len(tree)
    for node, above in enumerate(tree.parent.tolist()):
        if above >= 0:
            path = f"{paths[above]}/{tree.name[node]}" if above else tree.name[node]
            paths[node] = path if len(path) <= MOST_PATH else f"{path[:_END]}…{path[-_END:]}"
    return paths


def _within(tree: Tree) -> Bools:
    """Nodes within an op."""
    inner: Bools = (tree.kind == INSTRUCTION) | (tree.kind == SPARSE_CORE_OP)
    return inner


def _divided(a: npt.NDArray[Any], b: npt.NDArray[Any]) -> Float64s:
    """a / b, NaN where b is 0."""
    result: Float64s = np.divide(a, b, out=np.full(len(a), np.nan), where=np.asarray(b) != 0)
    return result


def _known(values: Float64s) -> pa.Array:
    return pa.array(np.asarray(values, np.float64), from_pandas=True)
