"""What is known of the memory of many hosts after one look at each: numbers, and what to say of them."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa

from fastprof.derive.memory.kept_memory import KeptMemory
from fastprof.derive.memory.memory_remarks import Lacking, Remark, Remarks, none_there
from fastprof.derive.memory.memory_tables import HOST_TABLES
from fastprof.derive.memory.table_rows import table
from fastprof.schema.array_types import Int64s


class MemoryOfHosts:
    """``places``: of the hosts with events among all. Of these: ``snapshots``: rows of that table; ``bounds``: where
    the allocators of each begin among those of all, and the end; ``rank``: by allocator, its place, largest peak first;
    ``event_count``: of all; ``counts``: sums of columns of the table of allocators, and of what is short-lived.
    ``any_chosen``: whether only some steps of any host are reported."""

    def __init__(self, kept: Iterable[KeptMemory], at_ps: int | None) -> None:
        places, snapshots, allocators, peaks = (array("q") for _ in range(4))
        self.event_count, self.any_chosen = 0, False
        self.counts = Counter[str]()
        self._remarks, self._lacking = Remarks(at_ps), set[Lacking]()
        for place, host in enumerate(kept):
            about = host.about
            self.any_chosen |= about.chosen
            if not host.event_count:
                self._lacking.add(Lacking(about.of_torch, about.of_runs, about.hardware, about.has_host_plane))
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
        self.rank = _ranks(np.array(peaks, np.int64))

    def remarks(self, hosts: Sequence[KeptMemory]) -> list[Remark]:
        """``hosts``: those with events."""
        if not len(hosts):
            return [none_there(self._lacking)]
        return list(self._remarks.all(lambda place: (hosts[place].about.host, hosts[place].totals.cases.leaks)))

    def largest(self, hosts: Sequence[KeptMemory]) -> tuple[KeptMemory, pa.Table] | None:
        """The allocator with the largest peak: its host, and its row in the table of allocators. None: there is
        none."""
        first = np.flatnonzero(self.rank == 0)
        if not len(first):
            return None
        place = int(np.searchsorted(self.bounds, first[0], "right")) - 1
        host, allocators = hosts[place], HOST_TABLES["allocators"]
        rows = host.rows(allocators)
        assert rows is not None
        return host, table(allocators.schema, [rows]).slice(int(first[0] - self.bounds[place]), 1)


def _ranks(peaks: Int64s) -> Int64s:
    rank = np.empty(len(peaks), np.int64)
    rank[np.argsort(~peaks, kind="stable")] = np.arange(len(peaks))
    return rank
