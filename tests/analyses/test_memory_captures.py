"""The memory profile of real captures and of allocators drawn by lot, against plain Python on their events."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import slow_memory as slow
from gate import few
from memory_builder import Pool, threads
from reports import rows
from trace_builder import Event

import fastprof


def drawn(seed: int, loses: bool = False) -> bytes:
    """Two allocators on three threads, with memory from before, equal times and frees without stats;
    ``loses``: and with events that are missing."""
    lot = random.Random(seed)
    pools = [Pool("GPU_0_bfc", heap=5_000, stack=lot.choice((0, 64)), limit=10**6), Pool("gpu_host_bfc", limit=10**5)]
    events: list[list[Event]] = [[], [], []]
    before = {-64 * n: 100 * n for n in range(1, 8)}
    now, mute = 0, lot.random() < 0.5
    for _ in range(lot.randrange(1, 120)):
        pool, now = lot.choice(pools), now + lot.choice((0, 1, 50))
        if before and pool is pools[0] and lot.random() < 0.1:
            made = pool.free(now, *before.popitem())
        elif pool.sizes and lot.random() < 0.5:
            hushed: dict[str, Any] = {"requested_bytes": None, "allocation_bytes": None} if mute else {}
            made = pool.free(now, lot.choice(sorted(pool.sizes)), **hushed)
        else:
            address = lot.choice([a for a in range(64, 64 * 60, 64) if a not in pool.sizes])
            made = pool.alloc(now, address, lot.choice((8, 16, 256)), lot.choice((None, "", "a/MatMul", "b", "(null)")))
        if not loses or lot.random() < 0.8:
            events[now % 3].append(made)  # those of one time on one thread, where they are in order
    return threads(*events)


def check(profile: fastprof.Profile, whole: bool = True) -> int:
    """Compares, and counts the allocators. ``whole``: no events are missing, so all that is alive is recorded."""
    report = profile.report("memory_profile")
    expected = {
        f"TPU {name}" if name.isdigit() else name: of_it for name, of_it in slow.events_by_allocator(profile).items()
    }
    assert {row[0]: row[1:] for row in rows(report, "allocators", *_ALLOCATORS)} == {
        name: _allocator(of_it) for name, of_it in expected.items()
    }
    for name, of_it in expected.items():
        mine = [row[1:] for row in rows(report, "snapshots", *_SNAPSHOTS) if row[0] == name]
        assert mine == [tuple(row[stat] for stat in _RECORDED) + (slow.in_use(row),) for row in of_it]
        mine = [row[1:] for row in rows(report, "allocations", *_ALLOCATIONS) if row[0] == name]
        assert mine == [_piece(of_it, piece) for piece in slow.pieces(of_it)]
        mine = [row[1:] for row in rows(report, "ops", *_OPS) if row[0] == name]
        assert sorted(mine, key=repr) == sorted(slow.by_op(of_it), key=repr)
        if whole:
            check_alive(report, name, of_it)
    return len(expected)


_ALLOCATORS = ("allocator", "snapshot_count", "allocation_count", "held_before_count", "held_at_end_count", "peak_ps",
               "peak_bytes", "lifetime_peak_bytes")  # fmt: skip
_SNAPSHOTS = ("allocator", "start_ps", "address", "stack_bytes", "heap_bytes", "free_bytes", "lifetime_peak_bytes",
              "in_use_bytes")  # fmt: skip
_RECORDED = ("start_ps", "addr", "bytes_reserved", "bytes_allocated", "bytes_available", "peak_bytes_in_use")
_ALLOCATIONS = ("allocator", "op_name", "address", "allocated_ps", "freed_ps", "lifetime_ps", "fate")
_OPS = ("allocator", "op_name", "count", "allocated_bytes", "lifetime_min_ps", "lifetime_max_ps")


def _allocator(of_it: list[dict[str, Any]]) -> tuple[Any, ...]:
    fates = Counter(piece.fate for piece in slow.pieces(of_it))
    top = of_it[slow.peak(of_it)]
    allocations = sum(row["name"] == slow.NAMES[0] for row in of_it)
    highest = max(row["peak_bytes_in_use"] for row in of_it)
    counts = (len(of_it), allocations, fates["held before"], fates["held at the end"])
    return *counts, top["start_ps"], slow.in_use(top), highest


def _piece(of_it: list[dict[str, Any]], piece: slow.Piece) -> tuple[Any, ...]:
    begin = of_it[piece.allocated] if piece.allocated >= 0 else None
    end = of_it[piece.freed] if piece.freed >= 0 else None
    times = (begin["start_ps"] if begin else None, end["start_ps"] if end else None)
    lifetime = end["start_ps"] - begin["start_ps"] if begin and end else None
    address = (begin or end or {})["addr"]
    return slow.op(begin) if begin else None, address, *times, lifetime, piece.fate


def check_alive(report: fastprof.Report, name: str, of_it: list[dict[str, Any]]) -> None:
    """Live allocations at the peak are what plain Python finds, and all of it is the memory in use."""
    top = slow.peak(of_it)
    columns = ("allocator", "op_name", "allocation_bytes", "source", "count", "total_bytes")
    mine = [row[1:] for row in rows(report, "active", *columns) if row[0] == name]
    assert sum(row[4] for row in mine) == slow.in_use(of_it[top])
    counts: Counter[tuple[Any, ...]] = Counter()
    for op, size, source, count, _ in mine:
        if count is not None:
            counts[op, size, source] += count
    recorded = slow.alive(of_it, top)
    unsized = any(row["allocation_bytes"] is None for row in of_it)
    assert {key: n for key, n in counts.items() if key[2] == "recorded"} == {
        key: n for key, n in recorded.items() if key[2] == "recorded"
    }
    assert unsized or counts == recorded


@pytest.mark.parametrize("seed", few(range(40), 12))
def test_allocators_drawn_by_lot_are_as_plain_python_finds_them(seed: int) -> None:
    assert check(fastprof.load(drawn(seed))) >= 1


@pytest.mark.parametrize("seed", few(range(20), 8))
def test_so_are_those_of_captures_that_lack_events(seed: int) -> None:
    check(fastprof.load(drawn(seed, loses=True)), whole=False)


def test_the_lot_draws_what_matters() -> None:
    fates = Counter[str]()
    for seed in range(20):
        for loses in (False, True):
            for of_it in slow.events_by_allocator(fastprof.load(drawn(seed, loses))).values():
                fates.update(piece.fate for piece in slow.pieces(of_it))
    assert len(fates) == 5 and min(fates.values()) >= 5


def test_real_captures_are_as_plain_python_finds_them(captures: Path) -> None:
    checked = sum(check(fastprof.load(path)) for path in sorted((captures / "xspace").rglob("*.xplane.pb")))
    assert checked >= 20


@pytest.mark.parametrize("seed", few(range(10), 4))
def test_what_is_alive_at_any_time_adds_up(seed: int) -> None:
    profile = fastprof.load(drawn(seed))
    for name, of_it in slow.events_by_allocator(profile).items():
        for place in range(0, len(of_it), 7):
            time_ps = of_it[place]["start_ps"]
            last = max(i for i, row in enumerate(of_it) if row["start_ps"] <= time_ps)
            report = profile.report("memory_profile", at=time_ps)
            totals = [row[1] for row in rows(report, "at", "allocator", "total_bytes") if row[0] == name]
            assert sum(totals) == slow.in_use(of_it[last])
