"""The tables of the memory profile, of all hosts of a session. Those with a row for each event are made host by host;
of many events they are in a temporary file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa

from fastprof.derive.memory.host_memory import MemoryFigures
from fastprof.derive.memory.kept_memory import KeptMemory
from fastprof.derive.memory.memory_of_hosts import MemoryOfHosts
from fastprof.derive.memory.memory_tables import HOST_TABLES, HostTable
from fastprof.derive.memory.table_rows import Rows, table
from fastprof.tables.set_aside import MadeTogether, StoredTable

_MANY: Final = 1 << 18
"""Events of several hosts with whose figures large tables are made in memory."""


def tables(hosts: Sequence[KeptMemory], every: MemoryOfHosts) -> dict[str, Callable[[], pa.Table]]:
    """What makes every table, in the order of TABLES. ``hosts``: those with events; ``every``: of these."""
    large = _LargeTables(hosts, every.event_count)
    return {
        name: partial(large.table, one) if one.is_large else partial(_table, one, hosts, every)
        for name, one in HOST_TABLES.items()
    }


def _table(one: HostTable, hosts: Sequence[KeptMemory], every: MemoryOfHosts) -> pa.Table:
    """Rows by allocator, largest peak first, those of an allocator as they are; or largest first, equal ones by
    allocator."""
    rows = [some for host in hosts if (some := host.rows(one)) is not None]
    if not rows:
        return one.schema.empty()
    if one.in_time:
        before = (np.cumsum(every.snapshots) - every.snapshots).tolist()
        return table(one.schema, [some.following(first) for some, first in zip(rows, before, strict=True)])
    rank = np.concatenate(
        [every.rank[some.allocator + first] for some, first in zip(rows, every.bounds[:-1], strict=True)]
    )
    if one.by is None:
        return table(one.schema, rows, np.argsort(rank, kind="stable"))
    sizes = np.concatenate([some.amounts(one.by) for some in rows])
    return table(one.schema, rows, np.lexsort((rank, ~sizes)))


class _LargeTables:
    """All of them are made at the first use of one, because each host's figures take longer than its rows."""

    def __init__(self, hosts: Sequence[KeptMemory], event_count: int) -> None:
        self._hosts, self._event_count = hosts, event_count
        wanted = [one for one in HOST_TABLES.values() if one.is_large]
        self._of_many = MadeTogether(partial(_spilled, hosts, wanted))

    def table(self, one: HostTable) -> pa.Table:
        hosts = self._hosts
        if len(hosts) < 2 or self._event_count <= _MANY:
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


def _texts(hosts: Sequence[KeptMemory]) -> dict[str, list[list[str | None]]]:
    """By column, the texts of all hosts, which the table of what is alive has too."""
    active = HOST_TABLES["active"]
    texts = [column for column in active.schema.columns if pa.types.is_dictionary(column.type)]
    found: dict[str, dict[str | None, None]] = {column.name: {} for column in texts}
    for host in hosts:
        if (rows := host.rows(active)) is not None:
            for column in texts:
                found[column.name].update(dict.fromkeys(rows.column(column).values))
    return {name: [list(some)] for name, some in found.items()}
