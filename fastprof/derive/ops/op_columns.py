"""Columns that tables of op statistics, HLO statistics and the roofline share, with their formulas; groups of ops, and
the framework ops that device ops come from."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from operator import attrgetter
from types import SimpleNamespace
from typing import Any, Final, Generic, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fastprof.derive.devices.op_names import Framework, parse_op_name
from fastprof.derive.ops.gpu_kernels import MEMSET
from fastprof.derive.ops.op_table import (
    FROM_CAPTURE,
    FROM_HLO,
    FROM_SHAPES,
    SPARSE_CORE,
    TENSOR_CORE,
    Ops,
    OpTable,
    merge_tables,
)
from fastprof.derive.ops.roofline_model import (
    MEMORIES,
    RooflineMemory,
    count_transfers_once,
    find_unknown_work,
    get_known_bytes,
    get_known_flops,
    list_moved_bytes,
    mark_transfers,
    ratio_or_zero,
)
from fastprof.schema.columns import Bools, Float64s, Int64s, sort_rows, sum_by
from fastprof.schema.tables import Column, Count, Flag, Formula, Kind, Number, Picoseconds, Share, TableSchema, Text

UNKNOWN = "Unknown"
"""Type of an op that records neither a type nor a category."""

CUSTOM_CALL = "custom-call"
"""Category of calls to code that XLA did not compile."""


def group_by_framework_op(table: OpTable, untyped: Sequence[str] | None = None) -> OpTable:
    """Return a row for each framework op, by first occurrence. Times, work and occurrences add up; an op is eager if
    one of its device ops is. A device op without provenance stands for itself.

    ``untyped``: by device op, the type of a framework op that records none, as those of TPUs often do; default: the
    category of the first of its device ops.
    """
    row, names, types = number_framework_ops(table, untyped)
    return replace(merge_tables([table], row, [(0, name) for name in names]), category=types)


def number_framework_ops(table: OpTable, untyped: Sequence[str] | None = None) -> tuple[Int64s, list[str], list[str]]:
    """Return, per device op, its row in ``group_by_framework_op``, and the names and types of these rows."""
    instead = table.category if untyped is None else untyped
    rows: dict[tuple[int, str], int] = {}
    types: list[str] = []
    row = np.zeros(len(table), np.int64)
    for i, (name, provenance) in enumerate(zip(table.name, table.provenance, strict=True)):
        op = parse_op_name(provenance) if provenance else None
        key = (0, name if op is None else op.name)
        row[i] = rows.setdefault(key, len(rows))
        if row[i] == len(types):
            types.append((op.type if op else "") or instead[i] or UNKNOWN)
        elif types[row[i]] == MEMSET and instead[i]:  # what an op clears first is not what it is
            types[row[i]] = instead[i]
    return row, [name for _, name in rows], types


def find_ops_without_work(table: OpTable) -> npt.NDArray[np.bool_]:
    """Mark device ops that took time without known work: library calls, and ops and kernels whose work neither the
    capture nor a program records."""
    calls = np.array(table.category, object) == CUSTOM_CALL
    calls |= np.logical_and(*find_unknown_work(table))
    bare: npt.NDArray[np.bool_] = (table.flops == 0) & (table.model_flops == 0) & (table.bytes_accessed == 0)
    return np.asarray(bare & calls & (table.self_ps > 0))


def list_names_without_work(table: OpTable) -> set[str]:
    """Return names of framework ops with any device op of unknown work."""
    rows = np.flatnonzero(find_ops_without_work(table)).tolist()
    return {parse_framework_name(table.provenance[row]) or table.name[row] for row in rows}


def parse_framework_name(provenance: str) -> str | None:
    """Return the name of the framework op that a device op comes from, or None if it is unknown."""
    return parse_op_name(provenance).name if provenance else None


def is_training_op(name: str, kind: str) -> bool:
    """Return whether an op belongs to backpropagation: to TensorFlow gradients or a JAX transposition."""
    framework = parse_op_name(f"{name}:{kind}").framework if kind else Framework.UNKNOWN
    scopes = name.split("/")
    if framework is Framework.TENSORFLOW:
        return any(scope == "gradient_tape" or scope.startswith("gradients") for scope in scopes[:-1])
    if not kind or (framework is Framework.JAX and kind.partition("[")[0] in scopes[-1]):
        return any(scope.startswith("transpose(") for scope in scopes)
    return False


def is_training(ops: Iterable[tuple[str, str]]) -> bool:
    """Return whether any of these ops, name and type, belongs to backpropagation."""
    return any(is_training_op(name, kind) for name, kind in ops)


Amount: Final = Kind(pa.float64(), "bytes")
Flops: Final = Kind(pa.float64(), "flop")
Percent: Final = Kind(pa.float64(), "%")
ByteRate: Final = Kind(pa.float64(), "bytes/s")
FlopRate: Final = Kind(pa.float64(), "flop/s")
Words: Final = Kind(pa.string())
"""Texts that seldom repeat."""

Title = Callable[[int], str | None]
"""The name of a program by its id, as the capture lists it."""

CORE_TYPES: Final = {TENSOR_CORE: "TensorCore", SPARSE_CORE: "SparseCore"}
SOURCES: Final = {FROM_CAPTURE: "capture", FROM_HLO: "hlo", FROM_SHAPES: "shapes"}


class OpRows(SimpleNamespace):
    """The rows of a table of ops: ``table``, and what else its formulas need. ``ranked``: the ops with their shares;
    ``title``: the name of a program by its id; ``efficiency``: how near they come to the roofline; ``steps``: the
    number of steps that the work of each row is of."""

    table: OpTable
    steps: Any = 1

    @cached_property
    def flops(self) -> Float64s:
        """NaN: unknown."""
        return np.where(get_known_flops(self.table), self.table.flops, np.nan)

    @cached_property
    def model_flops(self) -> Float64s:
        known = get_known_flops(self.table) | (self.table.model_flops > 0)
        return np.where(known, self.table.model_flops, np.nan)

    @cached_property
    def bytes(self) -> Float64s:
        return np.where(get_known_bytes(self.table), self.table.bytes_accessed, np.nan)

    @cached_property
    def memory(self) -> dict[str, Float64s]:
        """Bytes of each memory, by ``Memory.column``."""
        is_known = get_known_bytes(self.table)
        return {column: np.where(is_known, size, np.nan) for column, size in list_moved_bytes(self.table).items()}

    @cached_property
    def waits(self) -> Bools:
        return mark_transfers(self.table)


def make_sparse_core_schema(*columns: Column) -> TableSchema:
    """Return the table of ``list_sparse_core_rows``."""
    parent = Words("parent", "op of the TensorCore that waits for the instruction", attrgetter("parent"))
    row = "an instruction that SparseCores ran on behalf of a TensorCore op, whose time excludes it; longest first"
    return TableSchema("sparse_core_ops", row, (parent, *columns), derived=True)


def list_sparse_core_rows(ops: Ops, title: Title) -> OpRows:
    """Return what SparseCores ran on behalf of ops of TensorCores, the longest first."""
    children = OpTable.empty() if ops.children is None else ops.children
    parent = np.empty(0, np.int32) if ops.parent is None else ops.parent
    order = sort_rows(-children.time_ps, parent).astype(np.int64)
    names = [ops.table.name[row] for row in parent[order].tolist()]
    return OpRows(table=children.take(order), title=title, parent=names)


def mask_unknown(values: npt.NDArray[Any]) -> pa.Array:
    """Doubles, null if they are NaN."""
    return pa.array(values.astype(np.float64), from_pandas=True)


def make_text_formula(name: str) -> Formula:
    """Return a column of texts of the ops, null if they are empty."""
    of = attrgetter(f"table.{name}")
    return lambda rows: [text or None for text in of(rows)]


def divide_per_second(amount: Float64s, time_ps: npt.NDArray[Any]) -> pa.Array:
    """Amounts per second; null if either is unknown or the time is 0."""
    return mask_unknown(np.where(time_ps > 0, ratio_or_zero(amount * 1e12, time_ps), np.nan))


def divide_known(amount: Float64s, by: Float64s) -> pa.Array:
    """Null if either is unknown or ``by`` is 0."""
    return mask_unknown(np.where(by > 0, ratio_or_zero(amount, by), np.nan))


def number_rows(rows: Any) -> npt.NDArray[Any]:
    return np.arange(1, len(rows.table) + 1)


def _make_share_formula(name: str) -> Formula:
    of = attrgetter(f"ranked.{name}")
    return lambda rows: mask_unknown(of(rows))


def mask_unknown_programs(numbers: npt.ArrayLike) -> pa.Array:
    """Ids of programs, null if no program is known."""
    numbers = np.asarray(numbers, np.int64)
    return pa.array(numbers, mask=numbers == 0)


def _list_titles(rows: Any) -> list[str | None]:
    numbers = rows.table.program_id
    titles = {number: rows.title(number) for number in np.unique(numbers).tolist()}
    return [titles[number] for number in numbers.tolist()]


def _is_not_on_tpu(rows: Any) -> Bools:
    elsewhere: Bools = rows.table.core_type == 0
    return elsewhere


def _format_source_lines(rows: Any) -> list[str | None]:
    pairs = zip(rows.table.source_file, rows.table.source_line.tolist(), strict=True)
    return [None if not file else f"{file}:{line}" if line >= 0 else file for file, line in pairs]


def _make_code_formula(name: str, words: dict[int, str]) -> Formula:
    of = attrgetter(f"table.{name}")
    return lambda rows: [words.get(code) for code in of(rows).tolist()]


# ---- what an op is

PROGRAM_ID: Final = Count("program_id", "program id, uint64 as two's complement; null: no program is known",
                          lambda rows: mask_unknown_programs(rows.table.program_id))  # fmt: skip
PROGRAM: Final = Text("program", "program name; null: the capture does not contain the program", _list_titles)
CATEGORY: Final = Text("category", "instruction category", attrgetter("table.category"))
NAME: Final = Words("name", "instruction name", attrgetter("table.name"))
SIMILAR: Final = ("program", "self_ps")
"""Columns that decide, with the names of op and framework op, whether texts show ops as one: all reports agree."""
IDENTITY: Final = (
    PROGRAM_ID,
    PROGRAM,
    CATEGORY,
    NAME,
    Text(
        "core_type",
        "TensorCore or SparseCore; null: the device is not a TPU",
        _make_code_formula("core_type", CORE_TYPES),
    ),
)
FRAMEWORK_OP: Final = Words("framework_op", "framework op from which the instruction was compiled; null: unknown",
                            lambda rows: [parse_framework_name(text) for text in rows.table.provenance])  # fmt: skip
SOURCE: Final = Words("source", "file:line of the program's source; null: unknown", _format_source_lines)
EXPRESSION: Final = Words("expression", "full instruction text; null: unknown", make_text_formula("long_name"))
IS_EAGER: Final = Flag("is_eager", "whether any occurrence was executed eagerly, outside compiled functions",
                       attrgetter("table.is_eager"))  # fmt: skip
CORES: Final = Count("cores", "number of cores or devices that ran the op", attrgetter("table.cores"))

# ---- how long it took

OCCURRENCES: Final = Count("occurrences", "number of runs of the op, or of its kernels on GPUs; 0 for IDLE",
                           attrgetter("table.occurrences"))  # fmt: skip
TOTAL: Final = Picoseconds("total_ps", "sum of the durations of its occurrences", attrgetter("table.time_ps"))
SELF: Final = Picoseconds("self_ps", "sum of the durations of its occurrences, without the time of ops nested in them",
                          attrgetter("table.self_ps"))  # fmt: skip
COUNTS: Final = (
    OCCURRENCES,
    Count("executions", "number of executions; on GPUs an execution is one or more kernels, elsewhere an occurrence; "
          "0 for IDLE", attrgetter("table.executions")),
    TOTAL,
    Picoseconds("mean_ps", "total_ps / occurrences, rounded down; null: occurrences is 0",
                lambda rows: rows.table.time_ps // np.maximum(rows.table.occurrences, 1),
                lambda rows: rows.table.occurrences <= 0),
)  # fmt: skip
SELF_TIMES: Final = (
    SELF,
    Share("self_share", "self_ps / self time of all ops and idle time; null: there is no such time",
          _make_share_formula("self_share")),
    Share("cumulative_self_share", "sum of self_share of this row and all rows above; null: self_share is null",
          _make_share_formula("cumulative_self_share")),
    Share("busy_share", "self_ps / self time of all ops; null: the row is idle time, or no op took any time",
          _make_share_formula("busy_share")),
)  # fmt: skip
MIN: Final = Picoseconds("min_ps", "shortest occurrence, by the host's clock; null: the device is not a TPU",
                         attrgetter("table.min_ps"), _is_not_on_tpu)  # fmt: skip
TIMES: Final = (*COUNTS, MIN, *SELF_TIMES)
ON_TPUS: Final = (
    Picoseconds("normalized_ps", "total_ps at the nominal clock; null: the device is not a TPU",
                attrgetter("table.normalized_ps"), _is_not_on_tpu),
    Picoseconds("dma_stall_ps", "time that the op waited for memory transfers; null: the device is not a TPU",
                attrgetter("table.dma_stall_ps"), _is_not_on_tpu),
)  # fmt: skip
ENERGY: Final = Kind(pa.float64(), "joules")(
    "energy_joules", "energy that the op used; null: the device did not record it", attrgetter("table.energy_j"),
    lambda rows: rows.table.energy_j == 0,
)  # fmt: skip

# ---- how much work it was

_UNKNOWN: Final = "null: neither recorded nor computable from the program"
_SOURCES: Final = "capture (recorded), shapes (of arguments of PyTorch's ops), else computed from the program"
_WAITS: Final = ", or the op is part of a transfer that does not run at device memory speed"

AMOUNTS: Final = (
    Flops("flops", f"floating point operations that the device did; {_UNKNOWN}",
          lambda rows: mask_unknown(rows.flops / rows.steps)),
    Flops("model_flops", f"floating point operations that the model requires; {_UNKNOWN}",
          lambda rows: mask_unknown(rows.model_flops / rows.steps)),
    Amount("accessed_bytes", f"bytes read and written; in a sum, the bytes of a transfer count once; {_UNKNOWN}",
           lambda rows: mask_unknown(rows.bytes / rows.steps)),
)  # fmt: skip
WORK: Final = (
    *AMOUNTS,
    Text("flops_source", f"source of flops: {_SOURCES}; {_UNKNOWN}",
         _make_code_formula("flops_source", SOURCES)),
    Text("bytes_source", f"source of accessed_bytes: {_SOURCES}; {_UNKNOWN}",
         _make_code_formula("bytes_source", SOURCES)),
)  # fmt: skip
RATES: Final = (
    FlopRate("flops_per_s", f"flops / total_ps; {_UNKNOWN}, or total_ps is 0",
             lambda rows: divide_per_second(rows.flops, rows.table.time_ps)),
    FlopRate("model_flops_per_s", f"model_flops / total_ps; {_UNKNOWN}, or total_ps is 0",
             lambda rows: divide_per_second(rows.model_flops, rows.table.time_ps)),
    ByteRate("bytes_per_s", f"accessed_bytes / total_ps; {_UNKNOWN}, or total_ps is 0{_WAITS}",
             lambda rows: divide_per_second(np.where(rows.waits, np.nan, rows.bytes), rows.table.time_ps)),
    Number("flops_per_byte", f"flops / accessed_bytes; {_UNKNOWN}, or accessed_bytes is 0",
           lambda rows: divide_known(rows.flops, rows.bytes)),
)  # fmt: skip


def _make_memory_columns(memory: RooflineMemory) -> tuple[Column, ...]:
    """Bytes and rate of one memory."""
    name, every = memory.column, ", or all bytes if the op's memories are unknown" if memory.column == "hbm" else ""
    return (
        Amount(f"{name}_bytes", f"bytes of {memory.name}{every}; null: accessed_bytes is null",
               lambda rows: mask_unknown(rows.memory[name] / rows.steps)),
        ByteRate(f"{name}_bytes_per_s", f"{name}_bytes / total_ps; null: accessed_bytes is null, or total_ps is "
                 f"0{_WAITS}",
                 lambda rows: divide_per_second(np.where(rows.waits, np.nan, rows.memory[name]), rows.table.time_ps)),
    )  # fmt: skip


MEMORY: Final = tuple(column for memory in MEMORIES for column in _make_memory_columns(memory))
BOUND_BY: Final = Text(
    "bound_by", "resource that the op used closest to its peak: Compute, HBM, or a TPU memory and a direction; null: "
    f"the work of the op or the peaks of the device are unknown, or the op did no work{_WAITS}, or it is a collective, "
    "which links and other devices limit",
    attrgetter("efficiency.bound_by"),
)  # fmt: skip


K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True, eq=False)
class OpGroups(Generic[K]):
    """``keys``: of the groups, largest self time first, then as they are met; ``group``: the place of the group of each
    op."""

    keys: list[K]
    group: Int64s
    ops: Ops

    @property
    def table(self) -> OpTable:
        return self.ops.table

    @cached_property
    def knows_flops(self) -> Bools:
        return get_known_flops(self.table)

    @cached_property
    def knows_bytes(self) -> Bools:
        return get_known_bytes(self.table)

    @cached_property
    def flops(self) -> Float64s:
        return self.known_sums(self.table.flops, self.knows_flops)

    @cached_property
    def bytes(self) -> Float64s:
        return self.known_sums(count_transfers_once(self.table).bytes_accessed, self.knows_bytes)

    def sums(self, values: Int64s) -> Int64s:
        return sum_by(self.group, values, len(self.keys))

    def self_ps(self, chosen: Bools) -> Int64s:
        """Self time of the chosen ops of each group."""
        return self.sums(np.where(chosen, self.table.self_ps, 0))

    def known_sums(self, amount: Float64s, is_known: npt.NDArray[np.bool_]) -> Float64s:
        """NaN for groups in which no op's amount is known."""
        count = len(self.keys)
        sums = np.bincount(self.group, np.where(is_known, amount, 0.0), count)
        return np.where(np.bincount(self.group, is_known, count) > 0, sums, np.nan)


def group_ops(ops: Ops, keys: Sequence[K]) -> OpGroups[K]:
    """``keys``: that of the group of each op."""
    numbers: dict[K, int] = {}
    place = np.array([numbers.setdefault(key, len(numbers)) for key in keys], np.int64)
    self_ps = sum_by(place, ops.table.self_ps, len(numbers))
    order = np.argsort(-self_ps, kind="stable")
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    names = list(numbers)
    return OpGroups([names[number] for number in order.tolist()], rank[place], ops)


def take_key(place: int) -> Formula:
    """Return a part of the key of each group."""
    return lambda groups: [key[place] for key in groups.keys]


def _divide_group_share(part: Int64s, total: int) -> pa.Array:
    return mask_unknown(part / total if total > 0 else np.full(len(part), np.nan))


GROUP_TIMES: Final = (
    Count("op_count", "number of ops", lambda groups: np.bincount(groups.group, minlength=len(groups.keys))),
    Count("occurrences", "number of times that the ops ran; on GPUs the number of their kernels",
          lambda groups: groups.sums(groups.table.occurrences)),
    Count("executions", "number of executions of the ops; on GPUs an execution is one or more kernels",
          lambda groups: groups.sums(groups.table.executions)),
    Picoseconds("self_ps", "sum of the self times of the ops", lambda groups: groups.sums(groups.table.self_ps)),
    Share("self_share", "self_ps / self time of all ops and idle time; null: there is no such time",
          lambda groups: _divide_group_share(groups.sums(groups.table.self_ps), groups.ops.shared_ps)),
    Share("busy_share", "self_ps / self time of all ops; null: no op took any time",
          lambda groups: _divide_group_share(groups.sums(groups.table.self_ps), groups.ops.op_ps)),
)  # fmt: skip
GROUP_BYTES: Final = Amount(
    "accessed_bytes", "sum of the known bytes of ops, where the bytes of a transfer count once; null: none are known",
    lambda groups: mask_unknown(groups.bytes),
)  # fmt: skip
GROUP_WORK: Final = (
    Flops("flops", "sum of the known flops of ops; null: none are known", lambda groups: mask_unknown(groups.flops)),
    GROUP_BYTES,
    FlopRate("flops_per_s", "flops / self time of the ops whose flops are known; null: no flops are known, or these "
             "ops took no time", lambda groups: divide_per_second(groups.flops, groups.self_ps(groups.knows_flops))),
    ByteRate("bytes_per_s", "accessed_bytes / self time of the ops whose bytes are known; null: no bytes are known, "
             "or these ops took no time",
             lambda groups: divide_per_second(groups.bytes, groups.self_ps(groups.knows_bytes))),
    Picoseconds("unknown_work_ps", "self time of ops with neither known flops nor known bytes",
                lambda groups: groups.self_ps(~(groups.knows_flops | groups.knows_bytes))),
)  # fmt: skip
