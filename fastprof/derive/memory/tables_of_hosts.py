"""The tables of the memory profile, of all hosts of a session. Those with a row for each event are made host by host;
of many events they are in a temporary file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa

from fastprof.derive.memory.host_memory import MemoryFigures
from fastprof.derive.memory.kept_memory import KeptMemory
from fastprof.derive.memory.memory_tables import HOST_TABLES, HostTable
from fastprof.derive.memory.table_rows import Rows, StoredRows, table
from fastprof.schema.array_types import Int64s
from fastprof.tables.set_aside import MadeTogether, StoredTable

_MANY: Final = 1 << 18
"""Events of several hosts with whose figures large tables are made in memory."""


def tables(hosts: Sequence[KeptMemory]) -> dict[str, Callable[[], pa.Table]]:
    """What makes every table, in the order of TABLES. ``hosts``: those with events."""
    ranks = _ranks(hosts)
    large = _LargeTables(hosts)
    return {
        name: partial(large.table, one) if one.is_large else partial(_table, one, hosts, ranks)
        for name, one in HOST_TABLES.items()
    }


def _ranks(hosts: Sequence[KeptMemory]) -> list[Int64s]:
    """The place of each allocator of each host among all of them, largest peak first."""
    if not hosts:
        return []
    of_hosts = [host.totals.peaks for host in hosts]
    peaks = np.concatenate(of_hosts)
    places = np.empty(len(peaks), np.int64)
    places[np.argsort(~peaks, kind="stable")] = np.arange(len(peaks))
    return np.split(places, np.cumsum([len(one) for one in of_hosts])[:-1])


def _table(one: HostTable, hosts: Sequence[KeptMemory], ranks: Sequence[Int64s]) -> pa.Table:
    """Rows by allocator, largest peak first, those of an allocator as they are; or largest first, equal ones by
    allocator."""
    rows = [some for host in hosts if (some := host.rows(one)) is not None]
    if not rows:
        return one.schema.empty()
    if one.in_time:
        return table(one.schema, list(_in_time(hosts, rows)))
    rank = np.concatenate([ranks[number][some.allocator] for number, some in enumerate(rows)])
    if one.by is None:
        return table(one.schema, rows, np.argsort(rank, kind="stable"))
    sizes = np.concatenate([some.amounts(one.by) for some in rows])
    return table(one.schema, rows, np.lexsort((rank, ~sizes)))


def _in_time(hosts: Sequence[KeptMemory], rows: Sequence[Rows | StoredRows]) -> Iterator[Rows | StoredRows]:
    before = 0
    for host, some in zip(hosts, rows, strict=True):
        yield some.following(before)
        before += host.totals.snapshots


class _LargeTables:
    """All of them are made at the first use of one, because each host's figures take longer than its rows."""

    def __init__(self, hosts: Sequence[KeptMemory]) -> None:
        self._hosts = hosts
        wanted = [one for one in HOST_TABLES.values() if one.is_large]
        self._of_many = MadeTogether(partial(_spilled, hosts, wanted))

    def table(self, one: HostTable) -> pa.Table:
        hosts = self._hosts
        if len(hosts) < 2 or sum(host.event_count for host in hosts) <= _MANY:
            return table(one.schema, [_rows(one, host.figures()) for host in hosts])
        return self._of_many.table(one.schema.name)


def _rows(one: HostTable, figures: MemoryFigures) -> Rows:
    rows = one.rows(figures)
    assert rows is not None
    return rows


def _spilled(hosts: Sequence[KeptMemory], wanted: Sequence[HostTable]) -> dict[str, pa.Table]:
    texts = _texts(hosts)
    made = {one.schema.name: StoredTable() for one in wanted}
    for host in hosts:
        figures = host.figures()
        for one in wanted:
            made[one.schema.name].append(table(one.schema, [_rows(one, figures)], texts=texts))
    return {name: one.table() for name, one in made.items()}


def _texts(hosts: Sequence[KeptMemory]) -> dict[str, list[Sequence[str | None]]]:
    """By column, the texts of all hosts, which the table of what is alive has too."""
    active = HOST_TABLES["active"]
    parts = [some for host in hosts if (some := host.rows(active)) is not None]
    texts = [column for column in active.schema.columns if pa.types.is_dictionary(column.type)]
    return {column.name: [some.column(column).values for some in parts] for column in texts}
