"""Ops of several cores, devices or hosts as one table: figures add up, and the first text that is not empty counts."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from fastprof.derive.ops.tables import HBM, MemoryAccess, Ops, OpTable, exact_sum, least_by, sums_by
from fastprof.schema.array_types import Int32s, Int64s

K = TypeVar("K", bound=Hashable)

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


def combined(parts: Sequence[Ops], *, add_cores: bool = True) -> Ops:
    """The ops of all parts, one row for each (program_id, name) in the order in which they are met."""
    parts = [part for part in parts if part.parts]
    if len(parts) == 1 and is_distinct(parts[0].table):
        return parts[0]
    tables = [part.table for part in parts]
    row, keys = keyed_rows(tables)
    table = merged(tables, row, keys, add_cores=add_cores)
    children, parent = _children(parts, row)
    return Ops(
        table,
        **{name: exact_sum([getattr(part, name) for part in parts]) for name in _OPS_SUMMED},
        parts=sum(part.parts for part in parts),
        children=children,
        parent=parent,
    )


def combined_once(parts: Sequence[Ops], shared: dict[Any, Any]) -> Ops:
    """``combined``, if it was not yet made of the very same parts: analyses often keep the same ops of a host."""
    key = tuple(map(id, parts))
    if key not in shared:
        shared[key] = parts, combined(parts)  # who has the parts has their ids
    found: Ops = shared[key][1]
    return found


def is_distinct(table: OpTable) -> bool:
    """Whether no two ops of a table have the same program and name."""
    return len(set(zip(table.program_id.tolist(), table.name, strict=True))) == len(table)


def keyed_rows(tables: Sequence[OpTable]) -> tuple[Int64s, list[tuple[int, str]]]:
    """The row of each op of each table, in turn, if each (program_id, name) has one; and these keys. Hosts of a program
    mostly have the same ops in the same order: these are looked up once."""
    numbers: dict[tuple[int, str], int] = {}
    rows: list[Int64s] = []
    known: list[tuple[OpTable, Int64s]] = []
    for table in tables:
        row = next((row for other, row in known if _same_ops(table, other)), None)
        if row is None:
            keys = zip(table.program_id.tolist(), table.name, strict=True)
            row = np.fromiter((numbers.setdefault(key, len(numbers)) for key in keys), np.int64)
            known = [*known[-_REMEMBERED:], (table, row)]
        rows.append(row)
    return np.concatenate([*rows, np.zeros(0, np.int64)]), list(numbers)


def _same_ops(table: OpTable, other: OpTable) -> bool:
    return table.name == other.name and np.array_equal(table.program_id, other.program_id)


def _numbered(keys: Iterable[K]) -> tuple[Int64s, list[K]]:
    """The number of each key, as they are first met, and the distinct keys."""
    numbers: dict[K, int] = {}
    return np.fromiter((numbers.setdefault(key, len(numbers)) for key in keys), np.int64), list(numbers)


def merged(
    tables: Sequence[OpTable], row: Int64s, keys: Sequence[tuple[int, str]], *, add_cores: bool = True
) -> OpTable:
    """The tables' ops, one after the other, each added to its ``row``; rows have these keys."""
    count = len(keys)

    def column(name: str) -> npt.NDArray[Any]:
        return np.concatenate([getattr(table, name) for table in tables] or [np.empty(0, np.int64)])

    columns: dict[str, Any] = {name: sums_by(row, column(name), count) for name in _SUMMED}
    columns |= {name: np.bincount(row, column(name), count).astype(np.float64) for name in _WORK}
    ends = np.cumsum([len(table) for table in tables], dtype=np.int64)
    of_tables = np.split(row, ends[:-1])[: len(tables)]
    columns |= {name: _first_texts(of_tables, [getattr(table, name) for table in tables], count) for name in _TEXTS}
    columns |= _first_sources(of_tables, tables, count)
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
        min_ps=least_by(row, column("min_ps"), count),
        is_eager=np.bincount(row, column("is_eager"), count) > 0,
        cores=np.minimum(cores, 2**31 - 1),
        core_type=core_type,
        memory=merged_memory(tables, row),
        **sources,
        **columns,
    )


def _first_texts(rows: Sequence[Int64s], texts: Sequence[Sequence[str]], count: int) -> list[str]:
    """By row its first text that is not empty. ``rows``, ``texts``: of each table."""
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


def _first_sources(rows: Sequence[Int64s], tables: Sequence[OpTable], count: int) -> dict[str, Any]:
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


def merged_memory(tables: Sequence[OpTable], row: Int64s, *, others_to_hbm: bool = True) -> MemoryAccess:
    """The tables' memory accesses, one row for each (op, operation, space). ``others_to_hbm``: if only some of the ops
    that become one record where their bytes went, the bytes of the others count as HBM's."""
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
    keys, place = np.unique(np.stack([np.concatenate(owner), operation, space]), axis=1, return_inverse=True)
    total = np.bincount(place.reshape(-1), every, keys.shape[1]).astype(np.float64)
    return MemoryAccess(keys[0].astype(np.int32), keys[1].astype(np.uint8), keys[2], total)


def _children(parts: Sequence[Ops], row: Int64s) -> tuple[OpTable | None, Int32s | None]:
    """The children of all parts, under the rows that their parents went to."""
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
    place, keys = _numbered(zip(np.concatenate(parents).tolist(), programs, names, strict=True))
    table = merged(tables, place, [(program, name) for _, program, name in keys])
    return table, np.array([at for at, _, _ in keys], np.int32)
