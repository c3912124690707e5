"""The memory of several hosts: only the last one's events are in memory, and large tables are in a file."""

from __future__ import annotations

import gc
import os
import pickle
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pytest
from memory_builder import Pool, threads
from reports import session_of

import fastprof
from fastprof.analyses.accumulation import LazyHostValues
from fastprof.derive.memory import session_memory
from fastprof.derive.memory.session_memory import HostMemoryState
from fastprof.tables import host_spill
from fastprof.tables.host_spill import SetAside, Stored

EVENTS = 1_500
LARGE = ("snapshots", "allocations")


def host(number: int, allocators: int = 1) -> bytes:
    """Of each four addresses one is freed; names of ops and allocators differ between hosts."""
    pools = [Pool(f"{number} of {place}", limit=10**9) for place in range(allocators)]
    events = []
    for at in range(EVENTS):
        pool = pools[at % allocators]
        freed = at % 4 == 3 and pool.sizes
        op = f"op {number} {at % (90 * number + 1)}"
        events.append(pool.free(at, min(pool.sizes)) if freed else pool.alloc(at, at * 64, 8 + at % 56, op))
    return threads(events, host=f"host{number}")


@pytest.fixture(scope="module")
def captures() -> list[bytes]:
    return [host(0), host(1, 3), host(2)]


@pytest.fixture
def report(captures: list[bytes], monkeypatch: pytest.MonkeyPatch) -> Iterator[fastprof.Report]:
    """Of hosts with enough events for large tables in a file, in batches of a few hundred rows."""
    monkeypatch.setattr(session_memory, "_MANY", EVENTS)
    monkeypatch.setattr(host_spill, "_BATCH", 400)
    yield session_of(*captures).report("memory_profile")


def kept(report: fastprof.Report) -> LazyHostValues[HostMemoryState]:
    return report._answer.detail_as(LazyHostValues)  # type: ignore[no-any-return]


def without_host(table: pa.Table) -> list[dict[str, Any]]:
    return table.drop_columns(["host"]).to_pylist()


def test_tables_of_hosts_are_those_of_each_host_one_after_the_other(
    captures: list[bytes], report: fastprof.Report
) -> None:
    alone = [session_of(capture).report("memory_profile") for capture in captures]
    for name in LARGE:
        assert without_host(report.tables[name]) == [row for one in alone for row in without_host(one.tables[name])]
        assert report.tables[name]["op_name"].num_chunks > 3
    names = [*dict.fromkeys(report.tables["snapshots"]["host"].to_pylist())]
    assert names == [about.about.host for about in kept(report)] and len(names) == 3
    before = [0, EVENTS, 2 * EVENTS]
    expected = [
        row | {"first_snapshot": row["first_snapshot"] + first}
        for first, one in zip(before, alone, strict=True)
        for row in without_host(one.tables["timeline"])
    ]
    assert without_host(report.tables["timeline"]) == expected


def test_only_the_last_host_is_in_memory_and_large_tables_are_in_a_file(report: fastprof.Report) -> None:
    assert [host.in_memory for host in kept(report)] == [False, False, True]
    for name in report.tables:
        if name not in LARGE:
            assert report.tables[name].num_rows >= 0
    before = pa.total_allocated_bytes()
    tables = [report.tables[name] for name in LARGE]
    gc.collect()
    assert sum(table.nbytes for table in tables) > 500_000
    assert pa.total_allocated_bytes() - before < 50_000


def test_tables_outlive_the_profile_and_travel(captures: list[bytes], report: fastprof.Report) -> None:
    again = pickle.loads(pickle.dumps(report._answer))
    tables = {name: report.tables[name] for name in LARGE}
    rows = {name: table.to_pylist() for name, table in tables.items()}
    del report
    gc.collect()
    assert [len(rows[name]) for name in LARGE] == [3 * EVENTS, tables["allocations"].num_rows]
    assert {name: table.to_pylist() for name, table in tables.items()} == rows
    assert {name: again.tables[name].to_pylist() for name in LARGE} == rows
    assert [host.value().events.address.tolist() for host in again.detail] == [
        host.value().events.address.tolist()
        for host in kept(session_of(*captures).report("memory_profile"))
    ]  # fmt: skip


def test_threads_that_look_at_once_share_a_table(report: fastprof.Report) -> None:
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda name: report.tables[name].to_pylist(), LARGE * 4))
    assert all(one == found[place % 2] for place, one in enumerate(found))
    assert [len(one) for one in found[:2]] == [report.tables[name].num_rows for name in LARGE]


class Numbers(SetAside[list[int]]):
    """A list, and its sum."""

    def summarize(self) -> None:
        self.sum = sum(self.value())


def test_a_value_is_set_aside_when_the_next_one_comes() -> None:
    first, second = Numbers([1, 2]), Numbers([3])
    small = Numbers([4], is_large=False)
    assert [one.in_memory for one in (first, second, small)] == [False, True, True]
    assert (first.sum, first.value(), second.value(), small.value()) == (3, [1, 2], [3], [4])
    arrived = pickle.loads(pickle.dumps([first, second, small]))
    assert [one.value() for one in arrived] == [[1, 2], [3], [4]] and arrived[1].sum == 3


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_fork_does_not_write_into_the_file_of_its_parent() -> None:
    before = Stored([1] * 100)
    child = os.fork()
    if not child:
        os._exit(0 if (Stored([2] * 1_000).value(), before.value()) == ([2] * 1_000, [1] * 100) else 1)
    after = Stored([3] * 1_000)
    assert os.waitpid(child, 0)[1] == 0
    assert (before.value(), after.value()) == ([1] * 100, [3] * 1_000)
