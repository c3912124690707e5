"""The memory profile again, event by event in plain Python, from the table of events: slow, and easy to believe."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import fastprof

STATS = (
    "allocator_name", "device_ordinal", "index_on_host", "bytes_reserved", "bytes_allocated", "bytes_available",
    "fragmentation", "peak_bytes_in_use", "requested_bytes", "allocation_bytes", "addr", "tf_op", "shape",
)  # fmt: skip
NAMES = ["MemoryAllocation", "MemoryDeallocation"]


@dataclass
class Piece:
    """An allocation with its free; -1: there is none. Numbers are places in the rows of its allocator."""

    allocated: int
    freed: int
    fate: str


def events_by_allocator(profile: fastprof.Profile) -> dict[str, list[dict[str, Any]]]:
    """The events of a profile of one host, in order of time by allocator."""
    chosen = profile.select(planes=["/host:CPU"], names=NAMES)
    declared = set(profile.stat_metadata["name"].to_pylist())
    table = chosen.event_table(["name", "start_ps", "event_id"], [stat for stat in STATS if stat in declared])
    found: dict[str, list[dict[str, Any]]] = {}
    for row in sorted(table.to_pylist(), key=lambda row: (row["start_ps"], row["event_id"])):
        named = [row[stat] for stat in STATS[:3] if row.get(stat) is not None]
        found.setdefault(str(named[0]) if named else "", []).append(dict.fromkeys(STATS) | row)
    return found


def in_use(row: dict[str, Any]) -> int:
    return int(row["bytes_reserved"] or 0) + int(row["bytes_allocated"] or 0)


def peak(rows: list[dict[str, Any]]) -> int:
    """The first event after which most is in use."""
    return max(range(len(rows)), key=lambda i: (in_use(rows[i]), -i))


def pieces(rows: list[dict[str, Any]]) -> list[Piece]:
    """Every allocation and every free without one, in the order in which they are met."""
    found: list[Piece] = []
    held: dict[int, Piece] = {}
    seen = set()
    for i, row in enumerate(rows):
        address = row["addr"]
        if row["name"] == NAMES[0]:
            if address in held:
                held[address].fate = "free not recorded"
            held[address] = Piece(i, -1, "held at the end")
            found.append(held[address])
        elif address in held:
            piece = held.pop(address)
            piece.freed, piece.fate = i, "freed"
        else:
            found.append(Piece(-1, i, "allocation not recorded" if address in seen else "held before"))
        seen.add(address)
    return found


def op(row: dict[str, Any]) -> str | None:
    return None if row["tf_op"] in (None, "", "(null)") else row["tf_op"]


def alive(rows: list[dict[str, Any]], after: int) -> Counter[tuple[str | None, int, str]]:
    """Bytes and count, by op, size and source, of what is alive after an event, as far as events record it."""
    counts: Counter[tuple[str | None, int, str]] = Counter()
    for piece in pieces(rows):
        if piece.allocated >= 0:
            is_alive = piece.allocated <= after and (piece.freed < 0 or piece.freed > after)
            row, source = rows[piece.allocated], "recorded"
        else:
            is_alive = piece.freed > after and piece.fate == "held before"
            row, source = rows[piece.freed], "held before"
        if is_alive and row["allocation_bytes"] is not None:
            counts[op(row) if source == "recorded" else None, row["allocation_bytes"], source] += 1
    return counts


def by_op(rows: list[dict[str, Any]]) -> Iterator[tuple[str | None, int, int, int | None, int | None]]:
    """Op, allocations, bytes, shortest and longest lifetime."""
    ops: dict[str | None, list[Piece]] = {}
    for piece in pieces(rows):
        if piece.allocated >= 0:
            ops.setdefault(op(rows[piece.allocated]), []).append(piece)
    for name, of_op in ops.items():
        times = [rows[p.freed]["start_ps"] - rows[p.allocated]["start_ps"] for p in of_op if p.freed >= 0]
        size = sum(rows[p.allocated]["allocation_bytes"] or 0 for p in of_op)
        yield name, len(of_op), size, min(times, default=None), max(times, default=None)
