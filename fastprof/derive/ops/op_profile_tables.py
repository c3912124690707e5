"""Tables of the op profile: columns of the nodes of its trees, instructions of fusions, PyTorch's ops by pass.

No time is recorded within a fusion. The work of its instructions comes from XLA's cost model, one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from itertools import pairwise
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fastprof.derive.devices.device_events import NothingRan
from fastprof.derive.devices.op_names import is_kineto
from fastprof.derive.ops import op_columns as op
from fastprof.derive.ops.gpu_attribution import find_op_events
from fastprof.derive.ops.gpu_ops import list_op_lines
from fastprof.derive.ops.launches import find_launches
from fastprof.derive.ops.line_times import measure_line_times
from fastprof.derive.ops.op_columns import parse_framework_name
from fastprof.derive.ops.op_table import OpTable
from fastprof.derive.ops.op_trees import CATEGORY, IDLE, INSTRUCTION, KINDS, OP, PROGRAM, ROOT, SPARSE_CORE_OP
from fastprof.derive.ops.roofline_model import MEMORIES
from fastprof.derive.ops.scope_trees import COMPUTE
from fastprof.derive.ops.training_passes import PASSES, UNKNOWN, PassTimes, find_pass_of_calls
from fastprof.errors import CaptureError
from fastprof.schema.columns import Bools, Float64s, Int64s, UInt8s, find_runs, sum_by
from fastprof.schema.tables import Column, Count, Formula, Need, Picoseconds, Share, TableSchema, Text, resting_on
from fastprof.schema.value_classes import dataclass

if TYPE_CHECKING:
    from fastprof.decode.import_log import ImportLog
    from fastprof.derive.ops.device_ops import OpHost
    from fastprof.derive.ops.op_table import Ops
    from fastprof.derive.ops.op_trees import PreorderTree, Title
    from fastprof.derive.ops.scope_trees import NodeFigures
    from fastprof.hlo.programs import Program
    from fastprof.hlo.work import Counting


Key = tuple[int, str]
"""Program and name of an op."""

MOST_COSTED: Final = 1_000
"""Number of longest fusions for whose instructions work is computed: it takes longer than all else."""


@dataclass(slots=True)
class FusedInstructions:
    """Instructions within fusions, a column each. ``of``: by op that is a fusion, the first row of its instructions and
    the row after the last. ``above``: the row of the fusion that each is in; -1 if the op. Work is that of one
    execution, NaN where it is unknown."""

    of: dict[Key, tuple[int, int]] = field(default_factory=dict)
    above: list[int] = field(default_factory=list)
    name: list[str] = field(default_factory=list)
    category: list[str] = field(default_factory=list)
    framework_op: list[str] = field(default_factory=list)
    expression: list[str] = field(default_factory=list)
    flops: list[float] = field(default_factory=list)
    bytes: list[float] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.name)

    def add(self, op: Key, instructions: Sequence[tuple[int, str, str, str, str, float, float]]) -> None:
        """Add the instructions of an op, a value per column; ``above`` counts from the first of them."""
        first = len(self)
        for above, *values in instructions:
            self.above.append(above if above < 0 else first + above)
            columns = (self.name, self.category, self.framework_op, self.expression, self.flops, self.bytes)
            for column, value in zip(columns, values, strict=True):
                column.append(value)  # type: ignore[attr-defined]
        if instructions:
            self.of[op] = (first, len(self))


@dataclass(frozen=True, slots=True)
class HostPrograms:
    """Programs of a host, undecoded, and the log of their faults."""

    by_id: Mapping[int, Program]
    log: ImportLog

    @classmethod
    def of(cls, table: OpTable, programs: Iterable[Program], log: ImportLog) -> HostPrograms:
        """Return the programs of these ops."""
        ran = set(table.program_id.tolist())
        return cls({program.id: program for program in programs if program.id in ran}, log)


def list_fused_instructions(
    table: OpTable, hosts: Sequence[HostPrograms], counting: Counting
) -> tuple[FusedInstructions, list[str]]:
    """Return the instructions of all fusions among these ops whose programs are known, and sentences about programs
    that could not be read. A program is read from the first host that has it."""
    fused, problems = FusedInstructions(), []
    costed = set(np.argsort(-table.self_ps, kind="stable")[:MOST_COSTED].tolist())
    order = np.argsort(table.program_id, kind="stable")
    programs = table.program_id[order]
    for first, last in pairwise([*find_runs(programs).tolist(), len(order)]):
        number, rows = int(programs[first]), order[first:last].tolist()
        host = next((known for known in hosts if number in known.by_id), None)
        if host is None:
            continue
        program = host.by_id[number]
        from fastprof.derive.ops.fusion_reader import FusionReader  # most captures carry no programs

        try:
            module = program.read(host.log)
        except CaptureError as error:
            problems.append(program.problem(error))
            continue
        names = [table.name[row] for row in rows]
        reader = FusionReader(module, counting)
        for row, name, at in zip(rows, names, module.find(names).tolist(), strict=True):
            if at >= 0 and reader.is_fusion(at):
                fused.add((number, name), reader.instructions(at, with_work=row in costed))
    return fused, problems


def sum_torch_passes(host: OpHost) -> PassTimes:
    """Return the time of each op of PyTorch on the host's GPUs by pass."""
    times: dict[tuple[int, str], Int64s] = {}
    if not host.raw.planes_of("GPU") or not is_kineto(host.raw):
        return times
    events = host.events
    passed, op_events = find_pass_of_calls(events), find_op_events(events, host.modules)
    for plane in events.planes_of("GPU"):
        spans = measure_line_times(events, list_op_lines(plane))
        op = op_events.op[spans.rows].astype(np.int64)
        call = find_launches(events, spans.rows.astype(np.int64)).row
        codes = np.where(call >= 0, passed[call], UNKNOWN)
        count = len(PASSES)
        sums = sum_by(op * count + codes, spans.self_ps, count * len(op_events.ops)).reshape(-1, count)
        for number in np.unique(op).tolist():
            _add_times(times, (op_events.ops[number].program_id, op_events.ops[number].name), sums[number])
    return times


def sum_passes(hosts: Iterable[PassTimes]) -> PassTimes:
    """Return the sums over hosts."""
    every: dict[tuple[int, str], Int64s] = {}
    for times in hosts:
        for key, sums in times.items():
            _add_times(every, key, sums)
    return every


def _add_times(times: dict[tuple[int, str], Int64s], key: tuple[int, str], sums: Int64s) -> None:
    times[key] = times[key] + sums if key in times else sums


HBM_WORK: Final = "hbm"
MOST_PATH: Final = 1001
"""Letters of a path."""
_END: Final = MOST_PATH // 2


@dataclass(frozen=True, slots=True, eq=False)
class OpTree:
    """The ops as a tree, and what its rows stand for: ops of ``table``, instructions of ``fused``, and ops of
    SparseCores of ``sparse``. ``figures`` has those of what is within ops too."""

    tree: PreorderTree
    figures: NodeFigures
    table: OpTable
    fused: FusedInstructions
    sparse: OpTable
    title: Title

    def spread(self, ops: Sequence[Any], sparse: Sequence[Any] = (), fused: Sequence[Any] = ()) -> list[Any]:
        """Return, per node, the value of its op, SparseCore op or instruction; None elsewhere and for empty texts."""
        spread: list[Any] = [None] * len(self.tree)
        for kind, values in ((OP, ops), (SPARSE_CORE_OP, sparse), (INSTRUCTION, fused)):
            nodes = np.flatnonzero(self.tree.kind == kind) if len(values) else np.zeros(0, np.intp)
            for node, row in zip(nodes.tolist(), self.tree.row[nodes].tolist(), strict=True):
                spread[node] = None if values[row] == "" else values[row]
        return spread

    def of_program(self, values: Sequence[Any]) -> list[Any]:
        """Return, per node, the value of its op, or of the first op of its program."""
        spread = self.spread(values)
        for node in np.flatnonzero(self.tree.kind == PROGRAM).tolist():
            spread[node] = spread[node + int(np.argmax(self.tree.kind[node : self.tree.last[node]] == OP))]
        return spread


# ---- figures of nodes


def _make_time_formula(name: str) -> Formula:
    return lambda rows: rows.figures.whole[name]


def _make_work_formula(name: str) -> Formula:
    return lambda rows: op.mask_unknown(rows.figures.work[name])


def _make_rate_formula(name: str) -> Formula:
    return lambda rows: _divide_or_null(rows.figures.work[name], rows.figures.whole["self_ps"] / 1e12)


def _make_percent_formula(column: str) -> Formula:
    return lambda rows: op.mask_unknown(100 * rows.figures.utilization(column))


def _divide_or_nan(a: npt.NDArray[Any], b: npt.NDArray[Any]) -> Float64s:
    """a / b, NaN where b is 0."""
    ratio: Float64s = np.divide(a, b, out=np.full(len(a), np.nan), where=b != 0)
    return ratio


def _divide_or_null(a: npt.NDArray[Any], b: npt.NDArray[Any]) -> pa.Array:
    """a / b, null where b is 0 or a is unknown."""
    return op.mask_unknown(_divide_or_nan(a, b))


_NODE = (
    Count("node", "node number, in preorder, from 0: children follow their parent, largest first",
          lambda rows: np.arange(len(rows.tree))),
    Count("parent", "number of the parent node; null: the node is the root",
          lambda rows: rows.tree.parent, lambda rows: rows.tree.parent < 0),
    Count("depth", "number of nodes above it", lambda rows: rows.tree.depth),
)  # fmt: skip
OBSERVED: Final = Need("device_total_ps", NothingRan("no op of a device is recorded"))
_COUNTS = (
    Count("children", "number of nodes directly below it", lambda rows: rows.tree.children()),
    *resting_on(
        OBSERVED,
        Count("ops", "number of ops below it; 1 for an op, 0 within an op", _make_time_formula("ops")),
        Count("occurrences", "number of times that the ops below it ran, on GPUs the number of kernels; for an "
              "instruction, the number of its fusion", _make_time_formula("occurrences")),
        Count("executions", "number of executions of the ops below it; on GPUs an execution is one or more kernels",
              _make_time_formula("executions")),
    ),
)  # fmt: skip
_KNOWN = "null: the work of all ops below the node is unknown"
_RATE = "null: the work of all ops below the node is unknown, or self_ps is 0"
_UTILIZATION = ("null: the device peak, or the work of more than 10 % of the time, is unknown, all ops of the node "
                "are parts of transfers, or self_ps is 0")  # fmt: skip


def _make_work_columns(of_instructions: str = "") -> tuple[Column, ...]:
    """``of_instructions``: the description of those within fusions."""
    return (
        op.Flops("flops", f"floating point operations that the device did{of_instructions}; {_KNOWN}, or nested ops "
                 f"did the work", _make_work_formula("flops")),
        op.Flops("model_flops", f"floating point operations that the model requires{of_instructions}; {_KNOWN}",
               _make_work_formula("model_flops")),
        op.FlopRate("flops_per_s", f"flops / self_ps; {_RATE}", _make_rate_formula("flops")),
        op.Percent("compute_peak_percent", f"100 * flops_per_s / peak of a core; {_UTILIZATION}",
                   _make_percent_formula(COMPUTE)),
        op.Amount("accessed_bytes", f"bytes read and written in all memories{of_instructions}; {_KNOWN}",
                  _make_work_formula("bytes")),
        op.Amount("hbm_bytes", "bytes read and written in HBM, or in all memories for ops that do not record memories; "
               f"{_KNOWN}", _make_work_formula(HBM_WORK)),
        op.ByteRate("hbm_bytes_per_s", f"hbm_bytes / self_ps; {_RATE}", _make_rate_formula(HBM_WORK)),
        op.Percent("hbm_peak_percent", f"100 * hbm_bytes_per_s / bandwidth of a core; {_UTILIZATION}",
                   _make_percent_formula(HBM_WORK)),
        Picoseconds("lost_ps", "time that could be saved: self_ps minus roofline time, over ops below the node with "
                    "a known roofline; null: no op has one",
                    _make_time_formula("lost_ps"), lambda rows: rows.figures.whole["lost_known"] == 0),
        Share("work_known_share", "part of self_ps in ops with known flops and bytes; null: self_ps is 0",
              lambda rows: _divide_or_null(rows.figures.whole["work_known_ps"], rows.figures.whole["self_ps"])),
    )  # fmt: skip


# ---- the tree of ops


def _name_kinds(codes: UInt8s) -> list[str]:
    return [KINDS[code] for code in codes.tolist()]


def _is_within_op(rows: Any) -> Bools:
    """Mark nodes within an op."""
    inner: Bools = (rows.tree.kind == INSTRUCTION) | (rows.tree.kind == SPARSE_CORE_OP)
    return inner


def _compute_shares(rows: Any) -> pa.Array:
    self_ps = rows.figures.whole["self_ps"]
    return _divide_or_null(self_ps, np.where(_is_within_op(rows), 0, self_ps[0]))


def _compute_busy_shares(rows: OpTree) -> pa.Array:
    self_ps, kind = rows.figures.whole["self_ps"], rows.tree.kind
    busy_ps = self_ps[:1] - self_ps[kind == IDLE].sum()
    return _divide_or_null(self_ps, np.where(_is_within_op(rows) | (kind == IDLE) | (kind == ROOT), 0, busy_ps))


def _compute_mean_times(ops: OpTable) -> list[int]:
    return (ops.time_ps // np.maximum(ops.occurrences, 1)).tolist()  # type: ignore[no-any-return]


def _list_categories(rows: OpTree) -> list[str | None]:
    categories = rows.spread(rows.table.category, rows.sparse.category, rows.fused.category)
    for node in np.flatnonzero(rows.tree.kind == CATEGORY).tolist():
        categories[node] = rows.tree.name[node]
    return categories


def _list_framework_ops(rows: OpTree) -> list[str | None]:
    """Return framework ops; SparseCore ops have none. Provenances repeat."""
    names = {text: parse_framework_name(text) or "" for text in {*rows.table.provenance, *rows.fused.framework_op}}
    of_ops, of_fused = ([names[text] for text in texts] for texts in (rows.table.provenance, rows.fused.framework_op))
    return rows.spread(of_ops, fused=of_fused)


def _list_sources(rows: OpTree) -> list[str | None]:
    places = zip(rows.table.source_file, rows.table.source_line.tolist(), strict=True)
    return rows.spread([f"{file}:{line}" if file and line >= 0 else file for file, line in places])


def _compute_cost_shares(rows: OpTree) -> pa.Array:
    """Return each instruction's share of the work of its fusion; instructions of nested fusions are parts of these."""
    fused = rows.fused
    shares = np.full(len(fused), np.nan)
    flops, moved = np.array(fused.flops), np.array(fused.bytes)
    above = np.array(fused.above, np.int64)
    for first, last in fused.of.values():
        group = above[first:last]
        for fusion in np.unique(group).tolist():
            places = first + np.flatnonzero(group == fusion)
            work = flops[places] if np.nansum(flops[places]) > 0 else moved[places]
            total = np.nansum(work)
            if total > 0:
                shares[places] = work / total
    is_instruction = rows.tree.kind == INSTRUCTION
    of_nodes = np.full(len(rows.tree), np.nan)
    of_nodes[is_instruction] = shares[rows.tree.row[is_instruction]]
    return op.mask_unknown(of_nodes)


_TREE = TableSchema("tree", "a part of the program, an op, or an instruction within an op", (
    *_NODE,
    Text("kind", "kind of the node: root, idle, program, category, scope, duplicates (copies of one op by the "
         "compiler), op, instruction (within a fusion), sparse core op (for which an op waits)",
         lambda rows: _name_kinds(rows.tree.kind)),
    Text("name", "node name: a program, category, op, instruction, or a part of a framework op name",
         lambda rows: rows.tree.name),
    *_COUNTS,
    *resting_on(
        OBSERVED,
        Picoseconds("self_ps", "self time of all ops below the node, plus idle time; null: the node is inside an op, "
                               "where no time is recorded", _make_time_formula("self_ps"), _is_within_op),
    ),
    Picoseconds("total_ps", "sum of the durations of an op, with nested ops; null: the node is not an op",
                lambda rows: rows.spread(rows.table.time_ps.tolist(), rows.sparse.time_ps.tolist())),
    Picoseconds("mean_ps", "total_ps / occurrences, rounded down; null: the node is not an op",
                lambda rows: rows.spread(_compute_mean_times(rows.table), _compute_mean_times(rows.sparse))),
    Share("share", "self_ps / self_ps of the root, idle time included; null: the node is inside an op, or no time is "
                   "recorded",
          _compute_shares),
    Share("busy_share", "self_ps / self time of all ops; null: the node is idle time, the root or within an op, or "
          "the ops took no time", _compute_busy_shares),
    *_make_work_columns("; for instructions within the longest fusions, the compiler's cost model * executions"),
    Share("cost_share", "flops of an instruction / flops of its fusion, or the share of bytes if the fusion has no "
          "flops; null: the node is not an instruction, or its work is unknown", _compute_cost_shares),
    Text("flops_source", "source of the flops of an op: capture (recorded), else computed from the program; null: "
         "unknown, or the node is not an op",
         lambda rows: rows.spread([op.SOURCES.get(code) for code in rows.table.flops_source.tolist()])),
    Text("bytes_source", "source of the bytes of an op: capture (recorded), else computed from the program; null: "
         "unknown, or the node is not an op",
         lambda rows: rows.spread([op.SOURCES.get(code) for code in rows.table.bytes_source.tolist()])),
    Count("program_id", "program id, uint64 as two's complement; null: no program is known, or the node is neither a "
          "program nor an op",
          lambda rows: rows.of_program(op.mask_unknown_programs(rows.table.program_id).to_pylist())),
    Text("program", "program name; null: the capture does not list it, or the node is neither a program nor an "
         "op", lambda rows: rows.of_program([rows.title(number) for number in rows.table.program_id.tolist()])),
    Text("category", "category of the ops or of the instruction; null: unknown, or the node spans categories",
         _list_categories),
    Text("framework_op", "framework op from which the op or instruction was compiled; null: unknown, or the node is "
         "neither", _list_framework_ops),
    Text("attribution", "how the op of the events was identified; null: the events name their op, or the node is not "
         "an op", lambda rows: rows.spread(rows.table.attribution)),
    Text("unattributed", "why the op of the events is unknown; null: the op is known, or the node is not an op",
         lambda rows: rows.spread(rows.table.unattributed)),
    Text("source", "file:line of the program's source; null: unknown", _list_sources),
    Text("expression", "full instruction text; null: unknown",
         lambda rows: rows.spread(rows.table.long_name, rows.sparse.long_name, rows.fused.expression)),
), derived=True)  # fmt: skip


# ---- scopes of the model


def _compute_own_times(rows: Any) -> npt.NDArray[np.int64]:
    own: npt.NDArray[np.int64] = rows.figures.whole["self_ps"].copy()
    np.subtract.at(own, rows.tree.parent[1:], rows.figures.whole["self_ps"][1:])
    return own


def _join_paths(rows: Any) -> list[str]:
    """Return the names from the top, without that of the root; long ones without their middle, as each name stands in
    the paths of all nodes below it."""
    paths = [""] * len(rows.tree)
    for node, above in enumerate(rows.tree.parent.tolist()):
        if above >= 0:
            path = f"{paths[above]}/{rows.tree.name[node]}" if above else rows.tree.name[node]
            paths[node] = path if len(path) <= MOST_PATH else f"{path[:_END]}…{path[-_END:]}"
    return paths


def _sum_figures(rows: Any, names: Sequence[str]) -> npt.NDArray[np.int64]:
    total: npt.NDArray[np.int64] = sum(rows.figures.whole[name] for name in names)
    return total


def _make_pass(name: str, what: str, maybe: Sequence[str] = (), also: Sequence[str] = ()) -> Column:
    """``what``: how ops show that they are of the pass. ``maybe``: passes whose ops may be of this one, like those of
    unknown passes; ``also``: passes that are counted with it."""

    def is_unknown(rows: Any) -> Bools:
        unknown: Bools = (_sum_figures(rows, [name, *also]) == 0) & (_sum_figures(rows, ["unknown_ps", *maybe]) > 0)
        return unknown

    null = "null: no op is known to belong to it, but some may"
    return Picoseconds(
        name, f"part of self_ps in {what}; {null}", lambda rows: _sum_figures(rows, [name, *also]), is_unknown
    )


_PASS_COLUMNS = (
    _make_pass("forward_ps",
               "the forward pass: ops in jvp(…); in PyTorch, ops with the sequence number of a backward op or an "
               "arrow to one, or called by a module", ["outside_ps"]),
    _make_pass("backward_ps",
               "the backward pass: ops in transpose(…), gradient_tape or gradients…; in PyTorch, ops that autograd "
               "evaluates, with recomputation if recompute_ps is null", also=["within_ps"]),
    _make_pass("recompute_ps",
               "recomputation of dropped values: ops in rematted_computation; in PyTorch, ops in recompute_fn, in "
               "the backward pass of a checkpoint, or with gradients enabled in the backward pass", ["within_ps"]),
    _make_pass("other_ps", "none of these passes, such as loss and optimizer", ["outside_ps"]),
    Picoseconds("unknown_pass_ps", "part of self_ps in ops of unknown passes: self_ps minus the known passes",
                lambda rows: _sum_figures(rows, ["outside_ps", "unknown_ps"])),
)  # fmt: skip


def _make_scope_table(name: str, what: str, *more: Column) -> TableSchema:
    return TableSchema(name, what, (
        *_NODE,
        Text("name", "scope name, or last part of the name of the framework op; (no scope) for ops without one, by "
             "category", lambda rows: rows.tree.name),
        Text("path", "names from the top to the node, separated by slashes; without the middle if longer than 1,000 "
             "letters", _join_paths),
        *more,
        *_COUNTS,
        *resting_on(
            OBSERVED, Picoseconds("self_ps", "sum of the self times of the ops below it", _make_time_formula("self_ps"))
        ),
        Text("category", "category with the most time among the ops of own_ps; null: there are no such ops, or it is "
             "unknown", lambda rows: [text or None for text in rows.category]),
        *resting_on(
            OBSERVED,
            Picoseconds("own_ps", "part of self_ps in ops with exactly this name, without ops deeper in the "
                        "scope", _compute_own_times),
        ),
        Share("busy_share", "self_ps / self time of all ops; null: the ops took no time", _compute_shares),
        *resting_on(OBSERVED, *_PASS_COLUMNS),
        *_make_work_columns(),
    ), derived=True)  # fmt: skip


# ---- memories and devices


def build_memory_table(ops: OpTree) -> pa.Table:
    """Return the table ``memory``: a row for each node and memory that it moved bytes of."""
    figures = ops.figures
    moved = np.stack([figures.work[memory.column] for memory in MEMORIES], axis=1)
    node, memory = np.nonzero(moved > 0)
    peak = 1e9 * np.array([max(figures.peak_of(memory_kind.column), 0.0) or np.nan for memory_kind in MEMORIES])[memory]
    rate = _divide_or_nan(moved[node, memory], figures.whole["self_ps"][node] / 1e12)
    rate[figures.only_waits()[node]] = np.nan
    columns = {"node": node, "memory": memory, "size": moved[node, memory], "rate": rate, "peak": peak}
    return TABLES["memory"].of(SimpleNamespace(tree=ops.tree, **columns))


_MEMORY = TableSchema("memory", "a memory that a node of the tree read or wrote", (
    Count("node", "number of the node in the tree table", lambda rows: rows.node),
    Text("kind", "kind of the node", lambda rows: _name_kinds(rows.tree.kind[rows.node])),
    Text("name", "node name", lambda rows: [rows.tree.name[number] for number in rows.node.tolist()]),
    Text("memory", "memory: HBM, or a TPU core memory and a direction",
         lambda rows: [MEMORIES[number].name for number in rows.memory.tolist()]),
    op.Amount("accessed_bytes", "bytes of the ops below the node that record them", lambda rows: rows.size),
    op.ByteRate("bytes_per_s", "accessed_bytes / self_ps of the node; null: self_ps is 0, or all ops of the node are "
                "parts of transfers", lambda rows: op.mask_unknown(rows.rate)),
    op.ByteRate("peak_bytes_per_s", "peak bandwidth of the memory for one core; null: unknown",
               lambda rows: op.mask_unknown(rows.peak)),
    op.Percent("peak_percent", "100 * bytes_per_s / peak_bytes_per_s; null: bytes_per_s or peak_bytes_per_s is null",
             lambda rows: op.mask_unknown(100 * rows.rate / rows.peak)),
), derived=True)  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class DeviceRow:
    """A device, and the figures of all of its ops as one node, against the time observed."""

    host: str
    name: str
    ops: Ops
    figures: NodeFigures


def _make_device_formula(of: Callable[[DeviceRow], Any]) -> Formula:
    return lambda rows: [of(row) for row in rows]


def _join_device_work(column: Column) -> Column:
    def of(rows: Sequence[DeviceRow]) -> pa.Array:
        return pa.chunked_array([column.array(row) for row in rows], column.type).combine_chunks()

    return replace(column, of=of, null=None)


_DEVICES = TableSchema("devices", "a device", (
    Text("host", "host to which the device belongs", _make_device_formula(lambda row: row.host)),
    Text("device", "device plane, or CPU for host threads", _make_device_formula(lambda row: row.name)),
    *resting_on(
        Need("total_ps", "the device recorded nothing"),
        Count("ops", "number of different ops that it ran", _make_device_formula(lambda row: len(row.ops.table))),
        Picoseconds("total_ps", "time observed on the device", _make_device_formula(lambda row: row.ops.total_ps)),
        Picoseconds("op_ps", "sum of the self times of its ops", _make_device_formula(lambda row: row.ops.op_ps)),
        Picoseconds("busy_ps", "time in which any op ran; unlike in op_ps, time in which several ops ran counts once",
                    _make_device_formula(lambda row: row.ops.busy_ps)),
        Picoseconds("idle_ps", "total_ps - busy_ps", _make_device_formula(lambda row: row.ops.idle_ps)),
    ),
    Share("busy_share", "busy_ps / total_ps; null: total_ps is 0",
          _make_device_formula(lambda row: row.ops.busy_ps / row.ops.total_ps if row.ops.total_ps else None)),
    *(_join_device_work(column) for column in _make_work_columns()
      if column.name in ("flops", "compute_peak_percent", "hbm_bytes", "hbm_peak_percent", "lost_ps")),
), derived=True)  # fmt: skip

TABLES: Final = {table.name: table for table in (
    _TREE,
    _make_scope_table("scopes", "a model scope, or a framework op in it, over all programs"),
    _make_scope_table("layers",
                      "a model scope, or a framework op in it; scopes that differ only in a number are one "
                 "row", Count("instances", "number of scopes in this row, which differ only in a number",
                                  lambda rows: rows.instances)),
    _MEMORY,
    _DEVICES,
)}  # fmt: skip
