"""What is kept of one host's memory: all that tables and remarks need of it, and its events, which are set aside."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from fastprof.derive.memory.host_memory import AboutHost, HostMemory, MemoryFigures
from fastprof.derive.memory.memory_cases import HostCases
from fastprof.derive.memory.memory_tables import HOST_TABLES, HostTable
from fastprof.derive.memory.table_rows import Rows, StoredRows
from fastprof.schema.array_types import Int64s
from fastprof.tables.set_aside import SetAside, Stored, StoredByName


class Options(NamedTuple):
    """As MemoryFigures takes them."""

    at_ps: int | None
    short_lived_us: int
    request_bytes: int | None


class Totals(NamedTuple):
    """``peaks``: by allocator, to rank them: less than any if it has none. ``snapshots``: rows of that table.
    ``counts``: sums of columns of the table of allocators, and of what is short-lived. ``cases``: for remarks."""

    peaks: Int64s
    snapshots: int
    counts: dict[str, int]
    cases: HostCases


COUNTS: Final = ("snapshot_count", "allocation_count", "free_count", "held_at_end_count", "replaced_count")
SHORT_LIVED: Final = ("short_lived_count", "short_lived_bytes")


class KeptMemory(SetAside[HostMemory]):
    """``event_count``, ``module_count``: of the capture, whatever is chosen."""

    def __init__(self, memory: HostMemory, options: Options) -> None:
        self._options = options
        self.event_count, self.module_count = len(memory.events), len(memory.modules)
        self._figures: MemoryFigures | None = None
        self._allocators: StoredRows | None = None
        self._about: AboutHost | None = memory.about
        self._totals: Totals | None = None
        self._summary: Stored[tuple[AboutHost, Totals | None]] | None = None
        self._rows: StoredByName[StoredRows | None] | None = None
        super().__init__(memory, is_large=self.event_count + self.module_count > 0)

    def figures(self) -> MemoryFigures:
        """Computed once for as long as the events are in memory."""
        with self._guard:
            if self._figures is not None:
                return self._figures
            figures = MemoryFigures(self.value(), *self._options)
            if self.in_memory:
                self._figures = figures
            return figures

    @property
    def about(self) -> AboutHost:
        with self._guard:
            return self._recall() if self._about is None else self._about

    @property
    def totals(self) -> Totals:
        with self._guard:
            if self._about is None:
                self._recall()
            if self._totals is None:
                figures, table = self.figures(), HOST_TABLES["allocators"]
                self._allocators = _without_events(table, table.rows(figures))
                assert self._allocators is not None
                self._totals = _totals(figures, self._allocators)
            return self._totals

    def _recall(self) -> AboutHost:
        assert self._summary is not None
        self._about, self._totals = self._summary.value()
        return self._about

    def rows(self, table: HostTable) -> Rows | StoredRows | None:
        """The rows of a table that is not large, None: the host has none."""
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
                small = {name: one for name, one in HOST_TABLES.items() if not one.is_large}
                self._rows = StoredByName({name: _without_events(one, self.rows(one)) for name, one in small.items()})
            self._summary = Stored((self.about, self._totals))
            self._about = self._totals = None
        finally:
            self._figures = self._allocators = None


def _without_events(table: HostTable, rows: Rows | StoredRows | None) -> StoredRows | None:
    return StoredRows.of(table.schema, rows) if isinstance(rows, Rows) else rows


def _totals(host: MemoryFigures, allocators: StoredRows) -> Totals:
    peaks = np.where(host.peak >= 0, host.events.ranked_in_use[host.peak], np.iinfo(np.int64).min)
    counts = {name: sum(allocators.amounts(name).tolist()) for name in COUNTS}
    counts |= {name: sum(getattr(host.ops, name).tolist()) for name in SHORT_LIVED}
    return Totals(peaks, len(host.events) if host.shown is None else int(host.shown.sum()), counts, HostCases(host))
