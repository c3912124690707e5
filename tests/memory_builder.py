"""Allocators for tests that record what those of a program do: each call is an event."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from reports import session_of
from trace_builder import Event, Plane, Value, event, line, plane, xspace

import fastprof


@dataclass
class Pool:
    """``heap``, ``stack``: bytes in use at first; ``limit``: what it may use in all."""

    name: str = "GPU_0_bfc"
    heap: int = 0
    stack: int = 0
    limit: int = 1_000
    sizes: dict[int, int] = field(default_factory=dict)
    peak: int = 0

    def alloc(self, at_ps: int, address: int, size: int, op: str | None = None, **stats: Value) -> Event:
        self.heap += size
        self.sizes[address] = size
        recorded: dict[str, Value] = {"requested_bytes": size, "allocation_bytes": size, "addr": address, "tf_op": op}
        return self._event("MemoryAllocation", at_ps, {**recorded, **stats})

    def free(self, at_ps: int, address: int, size: int | None = None, **stats: Value) -> Event:
        """``size``: of what was allocated before the capture."""
        freed = self.sizes.pop(address) if size is None else size
        self.heap -= freed
        recorded: dict[str, Value] = {"requested_bytes": freed, "allocation_bytes": freed, "addr": address}
        return self._event("MemoryDeallocation", at_ps, {**recorded, **stats})

    def _event(self, name: str, at_ps: int, recorded: dict[str, Value]) -> Event:
        in_use = self.stack + self.heap
        self.peak = max(self.peak, in_use)
        state: dict[str, Value] = {
            "allocator_name": self.name,
            "bytes_reserved": self.stack,
            "bytes_allocated": self.heap,
            "bytes_available": self.limit - in_use,
            "fragmentation": 0,
            "peak_bytes_in_use": self.peak,
        }
        stats: dict[str | int, Value] = {
            key: value for key, value in {**state, **recorded}.items() if value is not None
        }
        return event(name, at_ps, 0, stats)


def threads(
    *lines: Sequence[Event], planes: Sequence[Plane] = (), base_ns: Sequence[int] = (), host: str = "vm"
) -> bytes:
    """A capture with these lines of host threads."""
    bases = [*base_ns, *[0] * (len(lines) - len(base_ns))]
    made = [
        line(f"thread {number}", sorted(events, key=_offset), timestamp_ns=base)
        for number, (events, base) in enumerate(zip(lines, bases, strict=True))
    ]
    return xspace(plane("/host:CPU", made), *planes, hostnames=[host])


def _offset(one: Event | bytes) -> int:
    assert isinstance(one, Event)
    return one.offset_ps or 0


def report_of(*captures: bytes, **params: Any) -> fastprof.Report:
    return session_of(*captures).report("memory_profile", **params)
