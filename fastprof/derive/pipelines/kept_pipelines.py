"""What is kept of one host's pipelines: all that sentences, figures and small tables need, and its calls, which are set
aside."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

import numpy as np
import pyarrow as pa

from fastprof.derive.pipelines.pipeline_tables import LARGE, TABLES, HostPipelines, rows_of_host
from fastprof.tables.set_aside import MadeTogether, SetAside, Stored, StoredTable

_MANY: Final = 1 << 16
"""Records of calls of several hosts whose large tables are in memory."""


class KeptPipelinesOfHost(SetAside[HostPipelines]):
    """``event_count``: events of iterators; ``unidentified``: those without an id; ``chosen``: only some steps are
    selected."""

    def __init__(self, found: HostPipelines, event_count: int, unidentified: int, *, chosen: bool) -> None:
        self.event_count, self.unidentified, self.chosen = event_count, unidentified, chosen
        self.record_count = len(found.reading.records)
        self._summary: HostPipelines | None = None
        self._tables: Stored[dict[str, pa.Table]] | None = None
        super().__init__(found, is_large=self.record_count > 0)

    def pipelines(self) -> HostPipelines:
        """Those of the host, without its calls if they are set aside."""
        with self._guard:
            return self.value() if self._summary is None else self._summary

    def table(self, name: str) -> pa.Table:
        """The host's rows of a table that is not large."""
        with self._guard:
            stored = self._tables
        return _table(self.value(), name) if stored is None else stored.value()[name]

    def summarize(self) -> None:
        if self._summary is None:
            found = self.value()
            self._tables = Stored({name: _table(found, name) for name in TABLES if name not in LARGE})
            self._summary = found.without_calls()


def _table(host: HostPipelines, name: str) -> pa.Table:
    rows = rows_of_host(host)[name]
    return TABLES[name].of(rows) if len(rows.pipeline) else TABLES[name].empty()


def tables(hosts: Sequence[KeptPipelinesOfHost]) -> dict[str, pa.Table | Callable[[], pa.Table]]:
    """All of TABLES: those with rows by call as functions that make them."""
    some = [host for host in hosts if len(host.pipelines().reading.pipelines)]
    large = _LargeTables(some)
    found: dict[str, Any] = {
        name: partial(large.table, name) if name in LARGE else _joined(name, [host.table(name) for host in some])
        for name in TABLES
    }
    order = np.argsort(-np.asarray(found["bottlenecks"]["total_ps"]), kind="stable")
    if len(order) > 1:  # it would import pyarrow.compute
        found["bottlenecks"] = found["bottlenecks"].take(pa.array(order))
    if len(hosts) > 1:
        saved = found["what_if"]["saved_ps"].fill_null(-1)
        found["what_if"] = found["what_if"].take(pa.array(np.argsort(-np.asarray(saved), kind="stable")))
    return found


def _joined(name: str, parts: Sequence[pa.Table]) -> pa.Table:
    some = [part for part in parts if part.num_rows]
    return pa.concat_tables(some).unify_dictionaries().combine_chunks() if some else TABLES[name].empty()


class _LargeTables:
    """Of many records, all of them are made at the first use of one, host by host, and are in a temporary file."""

    def __init__(self, hosts: Sequence[KeptPipelinesOfHost]) -> None:
        self._hosts = hosts
        self._of_many = MadeTogether(partial(_spilled, hosts))

    def table(self, name: str) -> pa.Table:
        hosts = self._hosts
        if len(hosts) < 2 or sum(host.record_count for host in hosts) <= _MANY:
            return _joined(name, [_table(host.value(), name) for host in hosts])
        return self._of_many.table(name)


def _spilled(hosts: Sequence[KeptPipelinesOfHost]) -> dict[str, pa.Table]:
    made = {name: StoredTable() for name in LARGE}
    for host in hosts:
        found = host.value()
        for name in LARGE:
            made[name].append(_table(found, name))
    return {name: one.table() if len(one) else TABLES[name].empty() for name, one in made.items()}
