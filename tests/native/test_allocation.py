"""Every allocation of the core fails once: each time an error or the right tables, and no block is left behind."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from gate import rounds
from small_cuts import cut_small
from trace_builder import Metadata, Wire, aggregated, event, len_field, line, plane, ref, stat, u64, xspace

import fastprof
from fastprof._native import xspace as xspace_module
from fastprof._native.xspace import Memory
from fastprof.errors import FastprofError, MemoryLimitError
from fastprof.tables import table_set
from fastprof.tables.table_set import TABLES

STRIDE = rounds(1, 13)
"""From one allocation that fails to the next."""
NOT_UTF8 = Wire(after=len_field(2, b"\xff\xfe"))


def host(number: int, damaged: bool) -> bytes:
    """All that takes memory: texts, bytes, stats without names, merged planes, lines to sort, and faults."""
    events: list[Any] = [
        event(
            "step",
            10 * i,
            8,
            {"i": i, "s": f"text {number} {i}", "b": b"raw", "d": 0.5, "r": ref("shared"), "u": u64(i)},
        )
        for i in range(2)
    ]
    events += [event("step", 3, 2, [stat(77, 1), stat(78, "x")]), aggregated("sum", 3, 9), event(99, 12, 1)]
    metadata = [Metadata("step", 1, "Step", b"raw", {"f": 2.5, "t": "own text"}, (1, 300))]
    wire = NOT_UTF8 if damaged else Wire()
    if damaged:
        events.insert(2, b"\x0e\x01")
    twins = [
        plane(
            "/host:CPU",
            [line("main", events, id=1, display_name="Main"), line("next", events[:2])],
            stats={"n": number},
        )
        for _ in range(2)
    ]
    other = plane("/device:TPU:0", [line("ops", [event("op")])], event_metadata=[*metadata, Metadata("op", wire=wire)])
    return xspace(*twins, other, hostnames=[f"vm{number}"], errors=["an error"], warnings=["a warning"])


def whole(profile: fastprof.Profile) -> dict[str, pa.Table]:
    """Everything that is decoded from a profile."""
    tables = profile.read(*TABLES)
    chosen = profile.select(planes="CPU", lines="main", names="step", time_ps=(5, 30))
    tables.update(
        {f"selected {name}": table for name, table in chosen.read("events", "event_stats", "nesting").items()}
    )
    tables["wide"] = profile.event_table(["event_id"], ["i", "s", "b", "d", "r", "t"])
    return tables


@pytest.fixture
def limited(monkeypatch: pytest.MonkeyPatch) -> Callable[[], Memory]:
    """limited() gives the memory that the next profile allocates from."""

    def fresh() -> Memory:
        memory = Memory()
        monkeypatch.setattr(table_set, "Memory", lambda: memory)
        return memory

    return fresh


def live(memory: Memory) -> int:
    if memory.live:
        gc.collect()
    return memory.live


def sweep(limited: Callable[[], Memory], attempt: Callable[[Memory], int]) -> int:
    """Attempts with ever more allocations, until there are enough; how many there were. All blocks come back.
    ``attempt`` returns how many more the next one may have, 0 if these were enough."""
    failures, more = 0, 1
    while more:
        memory = limited()
        memory.fail_after(failures)
        more = attempt(memory)
        assert live(memory) == 0, f"after allocation {failures} failed"
        failures += more
    return failures


def is_right(tables: dict[str, pa.Table], expected: dict[str, pa.Table]) -> bool:
    return all(name == "import_log" or tables[name].equals(expected[name]) for name in expected)


@pytest.mark.parametrize(
    ("mode", "threads", "step"), [("raise", 1, 1), ("raise", 2, 5), ("skip", 1, 5), ("salvage", 2, 5)]
)
def test_failing_each_allocation_of_a_load(
    mode: str, threads: int, step: int, limited: Callable[[], Memory], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error that says so, or all tables; where on_error allows it, a host may be left out, as the log says.
    ``step``: once a session is open, mode "skip" reads it as "raise" does, and two threads allocate in an order that
    changes from run to run; some of the allocations are enough there."""
    cut_small(monkeypatch, segment_bytes=100, block_bytes=200)
    session = [host(number, mode == "salvage") for number in range(2)]
    limited()
    expected = whole(fastprof.load(session, on_error=mode))
    assert expected["events"].num_rows > 20 and expected["selected events"].num_rows > 5

    def attempt(_: Memory) -> int:
        more = STRIDE
        try:
            profile = fastprof.load(session, on_error=mode, threads=threads)
            if len(profile.sources) == 2:
                more = step * STRIDE
            tables = whole(profile)
        except FastprofError as error:
            assert isinstance(error, MemoryLimitError) and isinstance(error, MemoryError)
            assert error.message.startswith("out of memory")
            return more
        if len(profile.sources) < 2:
            left_out = [row for row in tables["import_log"].to_pylist() if row["code"] == "skipped_host"]
            assert mode != "raise" and "out of memory" in left_out[0]["example"]
            return more
        assert is_right(tables, expected)
        return 0

    assert sweep(limited, attempt) > 200


def test_a_profile_that_ran_out_of_memory_is_right_once_there_is_some(
    limited: Callable[[], Memory], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a read learnt before it failed is complete and right."""
    cut_small(monkeypatch, segment_bytes=100, block_bytes=200)
    session = [host(number, False) for number in range(2)]
    limited()
    expected = whole(fastprof.load(session))

    def attempt(memory: Memory) -> int:
        try:
            profile = fastprof.load(session, threads=1)
        except MemoryLimitError:
            return 1
        try:
            whole(profile)
        except MemoryLimitError:
            memory.fail_after(-1)
            assert is_right(whole(profile), expected)
            return rounds(3, 9)
        return 0

    assert sweep(limited, attempt) > 200


@pytest.mark.parametrize("kind", ["Pool", "Scanner", "XSpace", "Sink"])
def test_blocks_come_back_from_a_cycle_of_garbage(kind: str) -> None:
    """Whatever the garbage collector takes apart first: an exception that is kept holds frames, and they all this."""
    memory = Memory()
    data = xspace(plane("p"))
    scanner = xspace_module.Scanner(memory, "path")
    scanner.push(data)
    made: dict[str, tuple[Any, ...]] = {
        "Pool": (memory,), "Scanner": (memory, "path"), "XSpace": (scanner, data), "Sink": (memory, {}, {}),
    }  # fmt: skip

    one = getattr(xspace_module, kind)(*made[kind])
    if kind == "Pool":
        one.add(b"text")
    elif kind == "Scanner":
        one.push(data)
    cycle = [one, made[kind]]
    cycle.append(cycle)
    assert memory.live > 0
    del one, scanner, made, cycle
    gc.collect()
    assert memory.live == 0
