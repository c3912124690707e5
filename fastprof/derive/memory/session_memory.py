"""The memory of a session's hosts: the state of each host when its events are spilled, the numbers and remarks of all
after one look at each, and their tables. Tables with a row for each event are made host by host, and of many events in
a temporary file."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from fastprof.derive.memory.host_memory import (
    HostMemory,
    HostMemoryRows,
    HostOutline,
    MemoryFigures,
    StoredMemoryRows,
    build_table,
)
from fastprof.derive.memory.memory_remarks import EventlessHost, HostCases, MemoryRemarks, Remark, explain_none
from fastprof.derive.memory.memory_tables import HOST_TABLES, HostTable
from fastprof.schema.columns import Int64s, sort_rows
from fastprof.tables.host_spill import MadeTogether, SetAside, Stored, StoredByName, StoredTable


class MemoryOptions(NamedTuple):
    """Options, as MemoryFigures takes them."""

    at_ps: int | None
    short_lived_us: int
    request_bytes: int | None


class MemoryTotals(NamedTuple):
    """Totals of a host. ``peaks``: by allocator, to rank them, less than any if it has none; ``snapshots``: rows of
    that table; ``counts``: sums of columns of the table of allocators, and of short-lived allocations; ``cases``: for
    remarks."""

    peaks: Int64s
    snapshots: int
    counts: dict[str, int]
    cases: HostCases


COUNTS: Final = ("snapshot_count", "allocation_count", "free_count", "held_at_end_count", "replaced_count")
SHORT_LIVED: Final = ("short_lived_count", "short_lived_bytes")


class HostMemoryState(SetAside[HostMemory]):
    """Memory of a host, which may be spilled. ``event_count``, ``module_count``: of the capture, whatever is chosen."""

    def __init__(self, memory: HostMemory, options: MemoryOptions) -> None:
        self._options = options
        self.event_count, self.module_count = len(memory.events), len(memory.modules)
        self._figures: MemoryFigures | None = None
        self._allocators: StoredMemoryRows | None = None
        self._about: HostOutline | None = memory.about
        self._totals: MemoryTotals | None = None
        self._summary: Stored[tuple[HostOutline, MemoryTotals | None]] | None = None
        self._rows: StoredByName[StoredMemoryRows | None] | None = None
        super().__init__(memory, is_large=self.event_count + self.module_count > 0)

    def figures(self) -> MemoryFigures:
        """Compute the figures, once for as long as the events are in memory."""
        with self._guard:
            if self._figures is not None:
                return self._figures
            figures = MemoryFigures(self.value(), *self._options)
            if self.in_memory:
                self._figures = figures
            return figures

    @property
    def about(self) -> HostOutline:
        with self._guard:
            return self._recall() if self._about is None else self._about

    @property
    def totals(self) -> MemoryTotals:
        with self._guard:
            if self._about is None:
                self._recall()
            if self._totals is None:
                figures, table = self.figures(), HOST_TABLES["allocators"]
                self._allocators = _drop_events(table, table.rows(figures))
                assert self._allocators is not None
                self._totals = _sum_totals(figures, self._allocators)
            return self._totals

    def _recall(self) -> HostOutline:
        assert self._summary is not None
        self._about, self._totals = self._summary.value()
        return self._about

    def rows(self, table: HostTable) -> HostMemoryRows | StoredMemoryRows | None:
        """Return the rows of a table that is not large, or None if the host has none."""
        with self._guard:
            if self._rows is not None:
                return self._rows.value(table.schema.name)
            if table.schema.name == "allocators" and self._allocators is not None:
                return self._allocators
            return table.rows(self.figures())

    def summarize(self) -> None:
        try:
            if self.event_count and self._rows is None:
                _ = self.totals
                small = {name: table for name, table in HOST_TABLES.items() if not table.is_large}
                self._rows = StoredByName(
                    {name: _drop_events(table, self.rows(table)) for name, table in small.items()}
                )
            self._summary = Stored((self.about, self._totals))
            self._about = self._totals = None
        finally:
            self._figures = self._allocators = None


def _drop_events(table: HostTable, rows: HostMemoryRows | StoredMemoryRows | None) -> StoredMemoryRows | None:
    return StoredMemoryRows.of(table.schema, rows) if isinstance(rows, HostMemoryRows) else rows


def _sum_totals(host: MemoryFigures, allocators: StoredMemoryRows) -> MemoryTotals:
    peaks = np.where(host.peak >= 0, host.events.ranked_in_use[host.peak], np.iinfo(np.int64).min)
    counts = {name: sum(allocators.amounts(name).tolist()) for name in COUNTS}
    counts |= {name: sum(getattr(host.ops, name).tolist()) for name in SHORT_LIVED}
    return MemoryTotals(
        peaks, len(host.events) if host.shown is None else int(host.shown.sum()), counts, HostCases(host)
    )


class SessionMemory:
    """Totals of a session. ``places``: places of the hosts with events. Of these: ``snapshots``: rows of that table;
    ``bounds``: where the allocators of each host begin among all, and the end; ``rank``: place of each allocator,
    largest peak first; ``event_count``: of all; ``counts``: sums of columns of the table of allocators, and of
    short-lived allocations. ``any_chosen``: whether only some steps of any host are reported."""

    def __init__(self, kept: Iterable[HostMemoryState], at_ps: int | None) -> None:
        places, snapshots, allocators, peaks = (array("q") for _ in range(4))
        self.event_count, self.any_chosen = 0, False
        self.counts = Counter[str]()
        self._remarks, self._lacking = MemoryRemarks(at_ps), set[EventlessHost]()
        for place, host in enumerate(kept):
            about = host.about
            self.any_chosen |= about.chosen
            if not host.event_count:
                self._lacking.add(EventlessHost(about.of_torch, about.of_runs, about.hardware, about.has_host_plane))
                continue
            totals = host.totals
            places.append(place)
            snapshots.append(totals.snapshots)
            allocators.append(len(totals.peaks))
            peaks.extend(totals.peaks.tolist())
            self.event_count += host.event_count
            self.counts.update(totals.counts)
            self._remarks.add(about, totals.cases)
        self.places: list[int] = places.tolist()
        self.snapshots = np.array(snapshots, np.int64)
        self.bounds = np.append(0, np.cumsum(np.array(allocators, np.int64)))
        self.rank = _rank_peaks(np.array(peaks, np.int64))

    def remarks(self, hosts: Sequence[HostMemoryState]) -> list[Remark]:
        """List the remarks. ``hosts``: those with events."""
        if not len(hosts):
            return [explain_none(self._lacking)]
        return list(self._remarks.all(lambda place: (hosts[place].about.host, hosts[place].totals.cases.leaks)))

    def largest(self, hosts: Sequence[HostMemoryState]) -> tuple[HostMemoryState, pa.Table] | None:
        """Return the host of the allocator with the largest peak, and its row in the table of allocators, or None."""
        first = np.flatnonzero(self.rank == 0)
        if not len(first):
            return None
        place = int(np.searchsorted(self.bounds, first[0], "right")) - 1
        host, allocators = hosts[place], HOST_TABLES["allocators"]
        rows = host.rows(allocators)
        assert rows is not None
        return host, build_table(allocators.schema, [rows]).slice(int(first[0] - self.bounds[place]), 1)


def _rank_peaks(peaks: Int64s) -> Int64s:
    rank = np.empty(len(peaks), np.int64)
    rank[np.argsort(~peaks, kind="stable")] = np.arange(len(peaks))
    return rank


_MANY: Final = 1 << 18
"""Bound of events of several hosts from whose figures large tables are made in memory."""


def make_tables(hosts: Sequence[HostMemoryState], every: SessionMemory) -> dict[str, Callable[[], pa.Table]]:
    """Return a function for every table, in the order of TABLES. ``hosts``: those with events; ``every``: of these."""
    large = _SpilledTables(hosts, every.event_count)
    return {
        name: partial(large.table, table) if table.is_large else partial(_make_table, table, hosts, every)
        for name, table in HOST_TABLES.items()
    }


def _make_table(host_table: HostTable, hosts: Sequence[HostMemoryState], every: SessionMemory) -> pa.Table:
    """Make a table. Rows are by allocator, largest peak first, in their order; or largest first, equal ones by
    allocator."""
    rows = [some for host in hosts if (some := host.rows(host_table)) is not None]
    if not rows:
        return host_table.schema.empty()
    if host_table.in_time:
        before = (np.cumsum(every.snapshots) - every.snapshots).tolist()
        return build_table(host_table.schema, [some.following(first) for some, first in zip(rows, before, strict=True)])
    rank = np.concatenate(
        [every.rank[some.allocator + first] for some, first in zip(rows, every.bounds[:-1], strict=True)]
    )
    if host_table.by is None:
        return build_table(host_table.schema, rows, np.argsort(rank, kind="stable"))
    sizes = np.concatenate([some.amounts(host_table.by) for some in rows])
    return build_table(host_table.schema, rows, sort_rows(~sizes, rank))


class _SpilledTables:
    """Large tables. All are made at the first use of one, because each host's figures take longer than its rows."""

    def __init__(self, hosts: Sequence[HostMemoryState], event_count: int) -> None:
        self._hosts, self._event_count = hosts, event_count
        wanted = [table for table in HOST_TABLES.values() if table.is_large]
        self._of_many = MadeTogether(partial(_spill_tables, hosts, wanted))

    def table(self, host_table: HostTable) -> pa.Table:
        hosts = self._hosts
        if len(hosts) < 2 or self._event_count <= _MANY:
            return build_table(host_table.schema, [_make_rows(host_table, host.figures()) for host in hosts])
        return self._of_many.table(host_table.schema.name)


def _make_rows(host_table: HostTable, figures: MemoryFigures) -> HostMemoryRows:
    rows = host_table.rows(figures)
    assert rows is not None
    return rows


def _spill_tables(hosts: Sequence[HostMemoryState], wanted: Sequence[HostTable]) -> dict[str, pa.Table]:
    texts = _list_texts(hosts)
    made = {table.schema.name: StoredTable() for table in wanted}
    for host in hosts:
        figures = host.figures()
        for table in wanted:
            schema = table.schema
            made[schema.name].append(build_table(schema, [_make_rows(table, figures)], texts=texts))
    return {name: stored.table() for name, stored in made.items()}


def _list_texts(hosts: Sequence[HostMemoryState]) -> dict[str, list[list[str | None]]]:
    """List the texts of all hosts by column, from the table of live memory, which has all of them."""
    active = HOST_TABLES["active"]
    texts = [column for column in active.schema.columns if pa.types.is_dictionary(column.type)]
    distinct: dict[str, dict[str | None, None]] = {column.name: {} for column in texts}
    for host in hosts:
        if (rows := host.rows(active)) is not None:
            for column in texts:
                distinct[column.name].update(dict.fromkeys(rows.column(column).values))
    return {name: [list(some)] for name, some in distinct.items()}
