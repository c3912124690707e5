"""What is kept of one host's pipelines: all that sentences, figures and small tables need, and its calls, which are set
aside."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from fastprof.derive.pipelines.pipeline_tables import LARGE, TABLES, HostPipelines, InSteps, rows_of_host
from fastprof.derive.pipelines.pipeline_verdicts import is_outside
from fastprof.tables.set_aside import MadeTogether, SetAside, Stored, StoredByName, StoredTable

_MANY: Final = 1 << 16
"""Records of calls of several hosts whose large tables are in memory."""


_NO_CALLS: Final = InSteps(0, 0, 0, has_calls=False, waits=False, outside=[], shares=[], ahead_known=True)


class PipelineTotals(NamedTuple):
    """Numbers of a host. ``pipelines``, ``iterators``, ``calls``, ``slow_calls``: how many; ``most_ps``: of a call;
    ``in_steps``: see InSteps; ``of_devices``: whether steps come from events of devices; ``predicted``, ``helps``:
    whether anything is predicted of a change, and any change helps; ``cores``: that predictions rest on; ``slow``: the
    pipelines with slow calls: whether all calls are outside of steps, the time of calls below 0, the number of the
    pipeline and of its calls."""

    pipelines: int
    iterators: int
    calls: int
    slow_calls: int
    most_ps: int
    in_steps: InSteps
    of_devices: bool
    predicted: bool
    helps: bool
    cores: list[int]
    slow: list[tuple[bool, int, int, int]]

    @classmethod
    def of(cls, host: HostPipelines) -> PipelineTotals:
        if not host.call_count:
            return cls(0, 0, 0, 0, 0, _NO_CALLS, False, False, False, [], [])
        calls, predicted = host.calls, bool((host.what_if.then_ps >= 0).any())
        return cls(
            len(host.reading.pipelines),
            len(host.reading.tree.iterator),
            host.call_count,
            int(calls.slow.sum()),
            int(calls.most_ps.max(initial=0)),
            host.in_steps,
            host.steps.of_devices,
            predicted,
            bool(host.what_if.helps.any()),
            [number for number in np.unique(host.what_if.cores).tolist() if number] if predicted else [],
            [
                (bool(is_outside(host, pipeline)), -int(calls.total_ps[pipeline]), pipeline, int(calls.count[pipeline]))
                for pipeline in np.flatnonzero(calls.slow).tolist()
            ],
        )


class KeptPipelinesOfHost(SetAside[HostPipelines]):
    """``event_count``: events of iterators; ``unidentified``: those without an id; ``chosen``: only some steps are
    selected."""

    def __init__(self, found: HostPipelines, event_count: int, unidentified: int, *, chosen: bool) -> None:
        self.event_count, self.unidentified, self.chosen = event_count, unidentified, chosen
        self.record_count = len(found.reading.records)
        self._totals: PipelineTotals | None = None
        self._summary: Stored[HostPipelines] | None = None
        self._tables: StoredByName[pa.Table] | None = None
        super().__init__(found, is_large=self.record_count > 0)

    @property
    def totals(self) -> PipelineTotals:
        with self._guard:
            if self._totals is None:
                self._totals = PipelineTotals.of(self.value())
            return self._totals

    def pipelines(self) -> HostPipelines:
        """Those of the host, without its calls if they are set aside."""
        with self._guard:
            return self.value() if self._summary is None else self._summary.value()

    def table(self, name: str) -> pa.Table:
        """The host's rows of a table that is not large."""
        with self._guard:
            stored = self._tables
        return _table(self.value(), name) if stored is None else stored.value(name)

    def summarize(self) -> None:
        if self._summary is None:
            found, _ = self.value(), self.totals
            self._tables = StoredByName({name: _table(found, name) for name in TABLES if name not in LARGE})
            self._summary = Stored(found.without_calls())


def _table(host: HostPipelines, name: str) -> pa.Table:
    rows = rows_of_host(host)[name]
    return TABLES[name].of(rows) if len(rows.pipeline) else TABLES[name].empty()


def tables(
    hosts: Sequence[KeptPipelinesOfHost], record_count: int, *, several: bool
) -> dict[str, Callable[[], pa.Table]]:
    """What makes each of TABLES. ``hosts``: those with pipelines; ``record_count``: of all; ``several``: whether there
    are other hosts, with pipelines or without."""
    large = _LargeTables(hosts, record_count)
    made: dict[str, Callable[[str], pa.Table]] = dict.fromkeys(LARGE, large.table)
    made["bottlenecks"] = partial(_largest_first, hosts, "total_ps")
    if several:
        made["what_if"] = partial(_largest_first, hosts, "saved_ps")
    return {name: partial(made.get(name, partial(_small, hosts)), name) for name in TABLES}


def _largest_first(hosts: Sequence[KeptPipelinesOfHost], amount: str, name: str) -> pa.Table:
    found = _small(hosts, name)
    if found.num_rows < 2:  # the rest would import pyarrow.compute
        return found
    amounts = found[amount].fill_null(-1) if found[amount].null_count else found[amount]
    return found.take(pa.array(np.argsort(-np.asarray(amounts), kind="stable")))


def _small(hosts: Sequence[KeptPipelinesOfHost], name: str) -> pa.Table:
    return _joined(name, [host.table(name) for host in hosts])


def _joined(name: str, parts: Sequence[pa.Table]) -> pa.Table:
    some = [part for part in parts if part.num_rows]
    return pa.concat_tables(some).unify_dictionaries().combine_chunks() if some else TABLES[name].empty()


class _LargeTables:
    """Of many records, all of them are made at the first use of one, host by host, and are in a temporary file."""

    def __init__(self, hosts: Sequence[KeptPipelinesOfHost], record_count: int) -> None:
        self._hosts, self._record_count = hosts, record_count
        self._of_many = MadeTogether(partial(_spilled, hosts))

    def table(self, name: str) -> pa.Table:
        hosts = self._hosts
        if len(hosts) < 2 or self._record_count <= _MANY:
            return _joined(name, [_table(host.value(), name) for host in hosts])
        return self._of_many.table(name)


def _spilled(hosts: Sequence[KeptPipelinesOfHost]) -> dict[str, pa.Table]:
    made = {name: StoredTable() for name in LARGE}
    for host in hosts:
        found = host.value()
        for name in LARGE:
            made[name].append(_table(found, name))
    return {name: one.table() if len(one) else TABLES[name].empty() for name, one in made.items()}
