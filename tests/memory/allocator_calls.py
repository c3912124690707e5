"""Events of allocators as plain values: written as captures, read back as columns, and made up by chance."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from trace_builder import Value, event, line, plane, u64, xspace

import fastprof
from fastprof.derive.memory.memory_events import STATS, MemoryEvents, read_memory_events
from fastprof.tables.host_reader import read_host

OPS = ("", "(null)", "conv", "matmul", "relu")


@dataclass
class Call:
    """One event. None: the stat is not recorded."""

    is_allocation: bool
    start_ps: int
    address: int | None = 0
    size: int | None = None
    requested: int | None = None
    heap: int | None = None
    stack: int | None = None
    free: int | None = None
    fragmentation: float | None = None
    op: str | None = None
    allocator: str = "a"
    line: int = 0

    def stats(self) -> dict[str | int, Value]:
        recorded: dict[str | int, Any] = {
            "allocator_name": self.allocator,
            "addr": None if self.address is None or self.address < 2**63 else u64(self.address),
            "allocation_bytes": self.size,
            "requested_bytes": self.requested,
            "bytes_allocated": self.heap,
            "bytes_reserved": self.stack,
            "bytes_available": self.free,
            "fragmentation": self.fragmentation,
            "tf_op": self.op,
        }
        if self.address is not None and self.address < 2**63:
            recorded["addr"] = self.address
        return {name: value for name, value in recorded.items() if value is not None}


def alloc(start_ps: int, address: int | None, size: int | None, **rest: Any) -> Call:
    return Call(True, start_ps, address, size, **rest)


def free(start_ps: int, address: int | None, size: int | None = None, **rest: Any) -> Call:
    return Call(False, start_ps, address, size, **rest)


def capture(calls: Sequence[Call]) -> bytes:
    """The events by line, those of a line as they come."""
    lines = []
    for number in sorted({one.line for one in calls}):
        names = {True: "MemoryAllocation", False: "MemoryDeallocation"}
        events = [event(names[one.is_allocation], one.start_ps, 0, one.stats()) for one in calls if one.line == number]
        lines.append(line(f"thread {number}", events, id=number + 1))
    return xspace(plane("/host:CPU", lines))


def read(calls: Sequence[Call] | bytes) -> MemoryEvents:
    """The columns of the first host."""
    tables = fastprof.load(calls if isinstance(calls, bytes) else capture(calls)).table_set
    return read_memory_events(read_host(tables, 0, (), STATS, ()))


def in_order(calls: Sequence[Call]) -> list[Call]:
    """As the columns are: by allocator, then time, then line, then as they come."""
    return sorted(calls, key=lambda one: (one.allocator, one.start_ps, one.line))


def made_up(chance: random.Random, count: int = 40) -> list[Call]:
    """Events of two allocators on three lines, which keep a heap that is true but for events that are missing."""
    calls: list[Call] = []
    heap = {"a": 100, "b": 100}
    time = 0
    for _ in range(count):
        time += chance.choice((0, 1, 5))
        allocator = chance.choice("aab")
        size = chance.choice((8, 16, 16, 24))
        is_allocation = chance.random() < 0.55
        heap[allocator] += size if is_allocation else -size
        calls.append(
            Call(
                is_allocation,
                time,
                address=chance.choice((None, *range(8, 120, 8)))
                if chance.random() < 0.3
                else chance.randrange(8, 120, 8),
                size=size if is_allocation or chance.random() < 0.7 else None,
                requested=size - chance.choice((0, 0, 3)) if chance.random() < 0.8 else None,
                heap=heap[allocator] if chance.random() < 0.95 else None,
                stack=chance.choice((None, 0, 0, 7)),
                op=chance.choice((None, *OPS)),
                allocator=allocator,
                line=chance.randrange(3),
            )
        )
    return [one for one in calls if chance.random() < 0.95]
