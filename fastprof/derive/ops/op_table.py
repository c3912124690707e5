"""Ops and what they cost: the rows that every op statistic is made of.

An op is known by (program_id, name). On the host program_id is 0, or the id of an input pipeline stage. Tables of
several cores, devices or hosts are merged into one: figures add up, and the first text that is not empty counts.
Ranked tables stand in the order of self time, with idle time among the ops.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import fields, replace
from math import isqrt
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from fastprof.errors import CaptureError
from fastprof.schema.columns import (
    Bools,
    Float64s,
    Int32s,
    Int64s,
    Records,
    UInt8s,
    find_least_by,
    number_sorted_rows,
    sum_by,
    sum_exactly,
)
from fastprof.schema.value_classes import dataclass
from fastprof.wording.patterns import compile_late

IDLE = "IDLE"
"""Name and category of the row for time without any op."""

TENSOR_CORE, SPARSE_CORE = 1, 2
"""Codes of ``core_type``; 0 if it is unknown."""

READ, WRITE = 1, 2
"""Codes of what a memory access does; 0 if it is unknown."""

FROM_CAPTURE, FROM_HLO, FROM_SHAPES = 1, 2, 3
"""Codes of where figures of work are from; 0 if they are not known."""

MOST_WORK = 2.0**100
"""Larger figures of flops, bytes or joules are damage; those below add up and divide without overflow."""

HBM, CMEM, VMEM = 1, 2, 3
"""Codes of memory spaces; 0 if it is unknown."""
OTHER_SPACES: Final = 1000
"""Added to the number that layouts give a memory space if it has no code of its own here."""
HOST: Final = OTHER_SPACES + 5
"""The host's memory: S(5) in layouts."""


@dataclass(frozen=True, slots=True, eq=False)
class MemoryAccess:
    """Bytes that ops move, by memory space and direction; an op without a row here has no such breakdown."""

    row: Int32s
    """Row of the op in its table."""
    operation: UInt8s
    """READ, WRITE or 0."""
    space: Int64s
    """HBM, CMEM, VMEM or another number."""
    bytes: Float64s
    """Bytes of all occurrences together."""

    @classmethod
    def none(cls) -> MemoryAccess:
        return cls(np.empty(0, np.int32), np.empty(0, np.uint8), np.empty(0, np.int64), np.empty(0))

    @classmethod
    def of(cls, accesses: Sequence[tuple[int, int, int, float]]) -> MemoryAccess:
        """Build from row, operation, space and bytes of each access."""
        types = (np.int32, np.uint8, np.int64, np.float64)
        columns = zip(*accesses, strict=True) if accesses else ((), (), (), ())
        return cls(*(np.array(column, dtype) for column, dtype in zip(columns, types, strict=True)))

    def where(self, chosen: Bools) -> MemoryAccess:
        return MemoryAccess(*(getattr(self, name)[chosen] for name in self.__slots__))

    def and_also(self, other: MemoryAccess) -> MemoryAccess:
        pairs = ((getattr(self, name), getattr(other, name)) for name in self.__slots__)
        return MemoryAccess(*(np.concatenate(pair) for pair in pairs))


@dataclass(frozen=True, slots=True, eq=False)
class OpTable:
    """n ops, a column each. ``OpTable.of`` makes one and fills the columns that are not given.

    Times are exact int64 picoseconds. Work (flops, bytes) is float64: exact below 2**53, and never overflows.
    Work is that of all occurrences together.
    """

    program_id: Int64s
    """Program (uint64 as two's complement); on the host 0, or the id of an input pipeline stage."""
    name: list[str]
    category: list[str]
    """HLO category; type of a framework op; "" if it is unknown."""
    provenance: list[str]
    """Framework op that it comes from, `name:type`; "" if it is unknown."""
    long_name: list[str]
    """The HLO instruction in full."""
    deduplicated_name: list[str]
    source_file: list[str]
    source_line: Int64s
    """-1: unknown."""
    source_stack: list[str]
    attribution: list[str]
    """How the op was found for events that do not name it themselves; "" if they do."""
    unattributed: list[str]
    """Why it is not known which op its events belong to; "" if it is."""
    no_work: list[str]
    """Why the work of a product of PyTorch is not known; "" of all others."""
    occurrences: Int64s
    executions: Int64s
    """How often the op ran as a whole: on GPUs one execution may be several occurrences, which are kernels."""
    time_ps: Int64s
    """Sum of durations."""
    self_ps: Int64s
    """Sum of durations less those of nested ops."""
    min_ps: Int64s
    """Shortest occurrence."""
    normalized_ps: Int64s
    """time_ps at the nominal clock (TPU)."""
    dma_stall_ps: Int64s
    flops: Float64s
    model_flops: Float64s
    bytes_accessed: Float64s
    energy_j: Float64s
    cores: Int32s
    """Cores that the op ran on."""
    core_type: UInt8s
    """TENSOR_CORE, SPARSE_CORE or 0."""
    is_eager: Bools
    tells_memories: Bools
    """True if the capture says how the bytes of an op of one core divide over memories, if only that it is not known:
    then ``memory`` has no row of it. False of ops that were combined."""
    flops_source: UInt8s
    """FROM_CAPTURE, FROM_HLO, FROM_SHAPES or 0: where ``flops`` and ``model_flops`` are from."""
    bytes_source: UInt8s
    """FROM_CAPTURE, FROM_HLO, FROM_SHAPES or 0: source of ``bytes_accessed`` and ``memory``."""
    memory: MemoryAccess

    def __len__(self) -> int:
        return len(self.name)

    @classmethod
    def of(cls, name: Sequence[str], **columns: object) -> OpTable:
        """Return a table of these names; columns left out are 0, "", -1 (source_line), ``occurrences`` (executions) or
        False."""
        count = len(name)
        columns.setdefault("executions", columns.get("occurrences"))
        filled: dict[str, object] = {"name": list(name)}
        for column in TEXT_COLUMNS:
            given = columns.pop(column, None)
            filled[column] = [""] * count if given is None else list(given)  # type: ignore[call-overload]
        for column, dtype in NUMBER_COLUMNS.items():
            given = columns.pop(column, None)
            blank = -1 if column == "source_line" else 0
            filled[column] = np.full(count, blank, dtype) if given is None else np.asarray(given, dtype)
        filled["memory"] = columns.pop("memory", None) or MemoryAccess.none()
        if columns:
            raise TypeError(f"an op table has no column {', '.join(columns)}")
        return cls(**filled)  # type: ignore[arg-type]

    @classmethod
    def empty(cls) -> OpTable:
        return cls.of([])

    def take(self, rows: Int64s) -> OpTable:
        """These rows, in this order; each at most once."""
        picked = rows.tolist()
        columns: dict[str, object] = {}
        for column in ("name", *TEXT_COLUMNS):
            texts = getattr(self, column)
            columns[column] = [texts[row] for row in picked]
        for column in NUMBER_COLUMNS:
            columns[column] = getattr(self, column)[rows]
        to = np.full(len(self), -1, np.int32)
        to[rows] = np.arange(len(rows), dtype=np.int32)
        memory = replace(self.memory, row=to[self.memory.row])
        return OpTable(**columns, memory=memory.where(memory.row >= 0))  # type: ignore[arg-type]

    def moved_bytes(self, space: int, operation: int | None = None) -> Float64s:
        """Return bytes of each op to or from a memory space; 0 if the op has no breakdown."""
        chosen = self.memory.space == space
        if operation is not None:
            chosen &= self.memory.operation == operation
        return np.bincount(self.memory.row[chosen], self.memory.bytes[chosen], len(self)).astype(np.float64)

    def has_breakdown(self) -> Bools:
        """Mark ops that say how their bytes divide over memory spaces."""
        known = np.zeros(len(self), bool)
        known[self.memory.row] = True
        return known

    def hbm_bytes(self) -> Float64s:
        """Bytes to and from HBM; of an op without a breakdown all its bytes."""
        return np.where(self.has_breakdown(), self.moved_bytes(HBM), self.bytes_accessed)


_NUMBER_TYPES: Final = {
    "Bools": np.bool_, "Float64s": np.float64, "Int32s": np.int32, "Int64s": np.int64, "UInt8s": np.uint8,
}  # fmt: skip
TEXT_COLUMNS: Final = tuple(
    field.name for field in fields(OpTable) if field.type == "list[str]" and field.name != "name"
)
"""Text columns, without ``name``."""
NUMBER_COLUMNS: Final[dict[str, type[np.generic]]] = {
    field.name: _NUMBER_TYPES[str(field.type)] for field in fields(OpTable) if field.type in _NUMBER_TYPES
}
"""Number columns, with their types."""


_HALF: Final = np.uint64(32)
_LOW_BITS: Final = np.uint64(2**32 - 1)


def is_work(figures: Float64s) -> Bools:
    """Mark figures that may be work; others, such as negative ones and NaN, count as not recorded."""
    with np.errstate(invalid="ignore"):
        known: Bools = (figures >= 0) & (figures <= MOST_WORK)
    return known


def compute_span(host: str, plane: str, begin: int, end: int) -> int:
    """Return the time from ``begin`` to ``end``, or 0 if the end comes first. CaptureError: 64 bits cannot hold it."""
    if end - begin >= 2**63:
        raise CaptureError(f"the times of plane {plane} of host {host} span more than 64 bits of picoseconds can count")
    return max(end - begin, 0)


def measure_deviations(row: npt.NDArray[Any], values: npt.NDArray[Any], sums: Records) -> list[int | None]:
    """Return the standard deviation (sample) of values by row, rounded down; None if a row has fewer than two.
    ``sums``: of ``summarize_by``.

    Of n values it is sqrt((n * squares - total**2) / (n * (n - 1))). Squares take up to 126 bits, so value
    = high * 2**32 + low is squared in parts, and each part is added up in halves of 32 bits."""
    number = np.abs(values).astype(np.uint64)
    high, low = number >> _HALF, number & _LOW_BITS
    squares = [0] * len(sums)
    for product, place in ((low * low, 0), (high * low, 33), (high * high, 64)):
        for part, more in ((product & _LOW_BITS, 0), (product >> _HALF, 32)):
            added = sum_by(row, part, len(sums)).tolist()
            squares = [square + (sum_ << place + more) for square, sum_ in zip(squares, added, strict=True)]
    counted = zip(sums["count"].tolist(), sums["total"].tolist(), squares, strict=True)
    return [isqrt((n * square - total**2) // (n * (n - 1))) if n > 1 else None for n, total, square in counted]


def compute_quartiles(values: Int64s) -> list[int]:
    """Return the quartiles of integers in ascending order, at least one: by their places, linear between two values,
    rounded down. Of 10, 20, 40 they are 15, 20, 30."""
    places = [divmod(quarter * (len(values) - 1), 4) for quarter in (1, 2, 3)]
    return [
        (int(values[at]) * (4 - rest) + int(values[min(at + 1, len(values) - 1)]) * rest) // 4 for at, rest in places
    ]


@dataclass(frozen=True, slots=True, eq=False)
class Ops:
    """Ops of a thread, a core, a device or a host, and the time they are measured against.

    ``table`` has no row for idle time: that is ``idle_ps``.
    """

    table: OpTable
    total_ps: int = 0
    """Time observed: of each line or device at least its span, and at least the time in which its ops ran, summed."""
    op_ps: int = 0
    """Sum of self times."""
    normalized_op_ps: int = 0
    """Sum of self times at the nominal clock (TPU)."""
    infeed_enqueue_ps: int = 0
    """Time from infeed enqueue to infeed enqueue, but for the last of each host thread: their durations."""
    infeed_enqueue_start_diff_ps: int = 0
    """Time from infeed enqueue start to start, but for the last of each host thread: their durations."""
    overlapped_ps: int = 0
    """Self time that ran while other ops of the same device did, on other lines of it: ``op_ps`` counts it again."""
    parts: int = 1
    """Threads, cores or devices that these are the ops of; 0 if there was nothing to observe, not even idle time."""
    children: OpTable | None = None
    """SparseCore ops that run on behalf of ops of ``table``; in no sum of it."""
    parent: Int32s | None = None
    """Row in ``table`` of each child's op."""

    @property
    def busy_ps(self) -> int:
        """Time in which any op ran."""
        return self.op_ps - self.overlapped_ps

    @property
    def idle_ps(self) -> int:
        return self.total_ps - self.busy_ps

    @property
    def shared_ps(self) -> int:
        """Base of shares of self time: all ops, and idle time."""
        return self.op_ps + self.idle_ps

    @classmethod
    def none(cls) -> Ops:
        return cls(OpTable.empty(), parts=0)


_SUMMED = ("occurrences", "executions", "time_ps", "self_ps", "normalized_ps", "dma_stall_ps")
_OPS_SUMMED = (
    "total_ps", "op_ps", "overlapped_ps", "normalized_op_ps", "infeed_enqueue_ps", "infeed_enqueue_start_diff_ps",
)  # fmt: skip
_WORK = ("flops", "model_flops", "bytes_accessed", "energy_j")
_SOURCES = ("flops_source", "bytes_source")
_REMEMBERED = 7
"""Other tables that a table is compared with."""
_TEXTS = (
    "category",
    "provenance",
    "long_name",
    "deduplicated_name",
    "source_stack",
    "attribution",
    "unattributed",
    "no_work",
)


def merge_ops(parts: Sequence[Ops], *, add_cores: bool = True) -> Ops:
    """Return the ops of all parts, one row for each (program_id, name) in the order in which they are met."""
    parts = [part for part in parts if part.parts]
    if len(parts) == 1 and is_distinct(parts[0].table):
        return parts[0]
    tables = [part.table for part in parts]
    row, keys = number_ops(tables)
    table = merge_tables(tables, row, keys, add_cores=add_cores)
    children, parent = _merge_children(parts, row)
    return Ops(
        table,
        **{name: sum_exactly([getattr(part, name) for part in parts]) for name in _OPS_SUMMED},
        parts=sum(part.parts for part in parts),
        children=children,
        parent=parent,
    )


def merge_ops_once(parts: Sequence[Ops], shared: dict[Any, Any]) -> Ops:
    """``merge_ops``, if it was not yet made of the very same parts: analyses often keep the same ops of a host."""
    key = tuple(map(id, parts))
    if key not in shared:
        shared[key] = parts, merge_ops(parts)  # who has the parts has their ids
    merged: Ops = shared[key][1]
    return merged


def is_distinct(table: OpTable) -> bool:
    """Return whether no two ops of a table have the same program and name."""
    return len(set(zip(table.program_id.tolist(), table.name, strict=True))) == len(table)


def number_ops(tables: Sequence[OpTable]) -> tuple[Int64s, list[tuple[int, str]]]:
    """Return the row of each op of each table, in turn, if each (program_id, name) has one; and these keys. Hosts of a
    program mostly have the same ops in the same order: these are looked up once."""
    numbers: dict[tuple[int, str], int] = {}
    rows: list[Int64s] = []
    known: list[tuple[OpTable, Int64s]] = []
    for table in tables:
        alike = (
            row for other, row in known
            if table.name == other.name and np.array_equal(table.program_id, other.program_id)
        )  # fmt: skip
        row = next(alike, None)
        if row is None:
            keys = zip(table.program_id.tolist(), table.name, strict=True)
            row = np.fromiter((numbers.setdefault(key, len(numbers)) for key in keys), np.int64)
            known = [*known[-_REMEMBERED:], (table, row)]
        rows.append(row)
    return np.concatenate([*rows, np.zeros(0, np.int64)]), list(numbers)


def merge_tables(
    tables: Sequence[OpTable], row: Int64s, keys: Sequence[tuple[int, str]], *, add_cores: bool = True
) -> OpTable:
    """Return the tables' ops, one after the other, each added to its ``row``; rows have these keys."""
    count = len(keys)

    def column(name: str) -> npt.NDArray[Any]:
        return np.concatenate([getattr(table, name) for table in tables] or [np.empty(0, np.int64)])

    columns: dict[str, Any] = {name: sum_by(row, column(name), count) for name in _SUMMED}
    columns |= {name: np.bincount(row, column(name), count).astype(np.float64) for name in _WORK}
    ends = np.cumsum([len(table) for table in tables], dtype=np.int64)
    of_tables = np.split(row, ends[:-1])[: len(tables)]
    columns |= {
        name: _take_first_texts(of_tables, [getattr(table, name) for table in tables], count) for name in _TEXTS
    }
    columns |= _take_first_sources(of_tables, tables, count)
    cores, core_type = np.zeros(count, np.int64), np.zeros(count, np.uint8)
    (np.add if add_cores else np.maximum).at(cores, row, column("cores").astype(np.int64))
    np.maximum.at(core_type, row, column("core_type").astype(np.uint8))
    sources = {name: np.zeros(count, np.uint8) for name in _SOURCES}
    for name, source in sources.items():
        np.maximum.at(source, row, column(name).astype(np.uint8))
    lacks = np.array([bool(reason) for reason in columns["no_work"]], bool)  # a part of the work is not the work
    for amounts in (*sources.values(), *(columns[name] for name in _WORK[:-1])):
        amounts[lacks] = 0
    return OpTable.of(
        [name for _, name in keys],
        program_id=[program for program, _ in keys],
        min_ps=find_least_by(row, column("min_ps"), count),
        is_eager=np.bincount(row, column("is_eager"), count) > 0,
        cores=np.minimum(cores, 2**31 - 1),
        core_type=core_type,
        memory=merge_memory(tables, row),
        **sources,
        **columns,
    )


def _take_first_texts(rows: Sequence[Int64s], texts: Sequence[Sequence[str]], count: int) -> list[str]:
    """Return the first text of each row that is not empty. ``rows``, ``texts``: of each table."""
    first = [""] * count
    before: tuple[Int64s, Sequence[str]] | None = None
    for row, column in zip(rows, texts, strict=True):
        if before is not None and before[1] == column and np.array_equal(before[0], row):
            continue  # the same texts for the same rows
        before = row, column
        for at, text in zip(row.tolist(), column, strict=True):
            if text and not first[at]:
                first[at] = text
    return first


def _take_first_sources(rows: Sequence[Int64s], tables: Sequence[OpTable], count: int) -> dict[str, Any]:
    """File and line belong together: those of the first op that has a file."""
    file, line = [""] * count, [-1] * count
    before: tuple[Int64s, OpTable] | None = None
    for row, table in zip(rows, tables, strict=True):
        if before is not None and before[1].source_file == table.source_file and np.array_equal(before[0], row):
            continue  # the same files for the same rows
        before = row, table
        for at, name, number in zip(row.tolist(), table.source_file, table.source_line.tolist(), strict=True):
            if name and not file[at]:
                file[at], line[at] = name, number
    return {"source_file": file, "source_line": line}


def merge_memory(tables: Sequence[OpTable], row: Int64s, *, others_to_hbm: bool = True) -> MemoryAccess:
    """Return the tables' memory accesses, one row for each (op, operation, space). ``others_to_hbm``: if only some of
    the ops that become one record where their bytes went, the bytes of the others count as HBM's."""
    starts = np.cumsum([0] + [len(table) for table in tables])[:-1]
    owner = [row[table.memory.row + start] for table, start in zip(tables, starts.tolist(), strict=True)]
    if not sum(len(part) for part in owner):
        return MemoryAccess.none()
    silent = ~np.concatenate([table.has_breakdown() for table in tables])
    silent &= np.isin(row, np.concatenate(owner)) & others_to_hbm
    moved = np.concatenate([table.bytes_accessed for table in tables])[silent]
    owner.append(row[silent])
    operation = np.concatenate([*(table.memory.operation for table in tables), np.zeros(len(moved))]).astype(np.int64)
    space = np.concatenate([*(table.memory.space for table in tables), np.full(len(moved), HBM)])
    every = np.concatenate([*(table.memory.bytes for table in tables), moved])
    op = np.concatenate(owner)
    first, place = number_sorted_rows([op, operation, space])
    total = np.bincount(place, every, len(first)).astype(np.float64)
    return MemoryAccess(op[first].astype(np.int32), operation[first].astype(np.uint8), space[first], total)


def _merge_children(parts: Sequence[Ops], row: Int64s) -> tuple[OpTable | None, Int32s | None]:
    """Return the children of all parts, under the rows that their parents went to."""
    starts = np.cumsum([0] + [len(part.table) for part in parts])[:-1].tolist()
    tables, parents = [], []
    for part, start in zip(parts, starts, strict=True):
        if part.children is not None and part.parent is not None:
            tables.append(part.children)
            parents.append(row[part.parent + start])
    if not tables:
        return None, None
    programs = [program for table in tables for program in table.program_id.tolist()]
    names = [name for table in tables for name in table.name]
    numbers: dict[tuple[int, int, str], int] = {}
    keys = zip(np.concatenate(parents).tolist(), programs, names, strict=True)
    place = np.fromiter((numbers.setdefault(key, len(numbers)) for key in keys), np.int64)
    table = merge_tables(tables, place, [(program, name) for _, program, name in numbers])
    return table, np.array([at for at, _, _ in numbers], np.int32)


@dataclass(frozen=True, slots=True)
class RankedOps:
    """Largest self time first, then by name. Shares are from 0 to 1; NaN if there is nothing to share."""

    table: OpTable
    is_idle: Bools
    """The row of idle time, at most one."""
    self_share: Float64s
    """Share of all time, idle time included."""
    cumulative_self_share: Float64s
    busy_share: Float64s
    """Share of op time; NaN for idle time."""
    cumulative_busy_share: Float64s
    rows: Int64s
    """Row of each op in the table that was ranked; for idle time the one after the last."""

    def __len__(self) -> int:
        return len(self.table)


def rank_with_idle(ops: Ops) -> RankedOps:
    """Return the ops and, if anything was observed, how long none ran."""
    if not ops.parts:
        return _rank_table(ops, ops.table)
    table = ops.table
    columns: dict[str, Any] = {name: [*getattr(table, name), ""] for name in ("name", *TEXT_COLUMNS)}
    columns["name"][-1] = columns["category"][-1] = IDLE
    numbers = {"time_ps": ops.idle_ps, "self_ps": ops.idle_ps, "source_line": -1}
    for name in NUMBER_COLUMNS:
        columns[name] = np.append(getattr(table, name), numbers.get(name, 0))
    return _rank_table(ops, OpTable.of(memory=table.memory, **columns))


def rank_by_cost(ops: Ops) -> RankedOps:
    """Return the ops alone, their shares those among all time."""
    return _rank_table(ops, ops.table)


def sort_by_self_time(table: OpTable) -> OpTable:
    """Largest self time first, then by name."""
    return table.take(_order_by_self_time(table))


def _order_by_self_time(table: OpTable) -> Int64s:
    self_ps, names = table.self_ps.tolist(), table.name
    return np.array(sorted(range(len(table)), key=lambda row: (-self_ps[row], names[row])), np.int64)


def _rank_table(ops: Ops, table: OpTable) -> RankedOps:
    idle = len(ops.table)
    order = _order_by_self_time(table)
    table = table.take(order)
    is_idle = order == idle
    share = _divide_share(table.self_ps, ops.shared_ps)
    busy = np.where(is_idle, np.nan, _divide_share(table.self_ps, ops.op_ps))
    running = np.where(is_idle, np.nan, np.cumsum(np.where(is_idle, 0.0, busy)))
    return RankedOps(table, is_idle, share, np.cumsum(share), busy, running, order)


def _divide_share(part: Int64s, total: int) -> Float64s:
    return part / float(total) if total > 0 else np.full(len(part), np.nan)


_TO_HOST: Final = (":XlaSendToHost", ":XlaRecvFromHost")
"""Suffixes of the provenance of ops that hand over to the host what XLA did not compile."""

_REPLICA_GROUPS: Final = compile_late(
    r"\breplica_groups=(\{\s*(?:\{[\d,\s]*\},?\s*)*\}|\[[\d,]*\]<=\[[\d,]*\](?:T\([\d,]*\))?|[^\s,]+)"
)

_CONTAINERS: Final = ("call", "conditional", "while", "megacore fusion")


def is_container(table: OpTable) -> Bools:
    """Mark ops whose work is that of ops within them."""
    return np.array([category in _CONTAINERS for category in table.category], bool)


def is_rematerialized(table: OpTable) -> Bools:
    """Mark ops that recompute values to save memory: those that XLA names so, and those in a computation marked for
    repetition."""
    marked = [
        ".remat" in text.partition("=")[0] or "/rematted_computation/" in provenance
        for text, provenance in zip(table.long_name, table.provenance, strict=True)
    ]
    return np.array(marked, bool)


def is_outside_compilation(table: OpTable) -> Bools:
    """Mark ops that serve what runs on the host because XLA did not compile it."""
    marked = [
        provenance.endswith(_TO_HOST) or ("send-done" in text and "is_host_transfer=true" in text)
        for provenance, text in zip(table.provenance, table.long_name, strict=True)
    ]
    return np.array(marked, bool)


def parse_replica_groups(long_names: Sequence[str]) -> list[str | None]:
    """Return the groups of devices of collective ops, as their texts have them; None if there are none."""
    matches = (_REPLICA_GROUPS.search(text) if "replica_groups=" in text else None for text in long_names)
    return [match[1] if match else None for match in matches]


def parse_group_size(groups: str) -> int | None:
    """Return the number of devices in each group; None if they differ, or it is unknown."""
    if groups.startswith("["):
        listed = re.match(r"\[(\d{1,9}),(\d{1,9})\]", groups)
        return int(listed[2]) if listed else None
    counts = {
        len([device for device in group.split(",") if device.strip()])
        for group in re.findall(r"\{([\d,\s]*)\}", groups)
    }
    return counts.pop() if len(counts) == 1 and 0 not in counts else None


def measure_eager_percent(table: OpTable) -> float | None:
    """Self time of ops executed eagerly, in percent of all; None if there is none."""
    return _measure_percent(table, table.is_eager)


def measure_outside_compilation_percent(table: OpTable) -> float | None:
    """Self time of device ops that serve the host, in percent of all; None if there is none."""
    return _measure_percent(table, is_outside_compilation(table))


def _measure_percent(table: OpTable, chosen: Bools) -> float | None:
    total = int(table.self_ps.sum())
    return 100.0 * int(table.self_ps[chosen].sum()) / total if total else None
