"""Allocations of PyTorch's caching allocators, from the instants ``[memory]`` that Kineto writes with profile_memory.

Each has ``Bytes``, below 0 for a free, the address, the device, and what the allocator holds after it. Unlike other
allocators, what is "free" is not what the device has left but what the allocator keeps for later: Total Reserved less
Total Allocated. What it may use is all of the device. ``[OutOfMemory]`` does not count: that memory was not given.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from fastprof._native.grouping import parents
from fastprof.derive.devices import kineto_categories
from fastprof.derive.memory.sites import Sites
from fastprof.schema.array_types import Bools, Int32s, Int64s
from fastprof.tables.host_events import HOST_THREADS, HostEvents, beside

EVENT: Final = "[memory]"
STATS: Final = ("Bytes", "Addr", "Device Type", "Device Id", "Total Allocated", "Total Reserved", "Ev Idx")
_CPU: Final = 0
"""The Device Type of the host's memory."""


def has_torch_memory(events: HostEvents) -> bool:
    """Whether the host has such instants."""
    return EVENT in events.names and kineto_categories.is_kineto(events)


def rows_of_memory(events: HostEvents) -> tuple[Int32s, Bools]:
    """The rows of allocations and frees on the host's threads, and which of them are allocations."""
    plane = events.plane_named(HOST_THREADS)
    if plane is None or not has_torch_memory(events):
        return np.zeros(0, np.int32), np.zeros(0, np.bool_)
    named = np.array([name == EVENT for name in events.names], np.bool_)
    rows = plane.first + np.flatnonzero(named[events.meta[plane.first : plane.last]])
    has, size = beside(rows, *events.ints("Bytes"))
    changes = has & (size != 0)
    return rows[changes].astype(np.int32), size[changes] > 0


def allocators(events: HostEvents, rows: Int32s) -> tuple[list[str], Int32s]:
    """The names of allocators, CPU and GPU_0, sorted, and the number of each row's."""
    _, kind = beside(rows, *events.ints("Device Type"))
    _, device = beside(rows, *events.ints("Device Id"))
    keys, number = np.unique(np.stack([kind, np.maximum(device, 0)], axis=1), axis=0, return_inverse=True)
    found = ["CPU" if kind == _CPU else f"GPU_{device}" for kind, device in keys.tolist()]
    names = sorted(set(found))
    place = {name: i for i, name in enumerate(names)}
    return names, np.array([place[name] for name in found], np.int32)[number.reshape(-1)]


def device_sizes(events: HostEvents) -> dict[str, int]:
    """Return by allocator the memory of its GPU, if recorded. PyTorch counts the devices that it sees, ROCm's events
    all of the machine: if no plane has the number of an allocator, the place among planes counts."""
    recorded = [(plane.ordinal, plane.stats.get("memory_size")) for plane in events.planes_of("GPU")]
    sizes = {f"GPU_{number}": size for number, size in recorded}
    by_place = {f"GPU_{place}": size for place, (_, size) in enumerate(recorded)}
    return {name: size for name, size in (by_place | sizes).items() if isinstance(size, int) and size > 0}


def order_of_records(events: HostEvents, rows: Int32s, allocator: Int32s) -> Int64s:
    """By allocator, then time, then the number that the profiler gave: threads write instants of one moment."""
    _, place = beside(rows, *events.ints("Ev Idx"))
    order: Int64s = np.lexsort((place, events.start_ps[rows], allocator))
    return order


def amounts(events: HostEvents, rows: Int32s) -> dict[str, tuple[Bools, Int64s]]:
    """Columns of MemoryEvents: whether each row has the value, and the value."""
    has_size, size = beside(rows, *events.ints("Bytes"))
    has_total, total = beside(rows, *events.ints("Total Allocated"))
    has_reserved, reserved = beside(rows, *events.ints("Total Reserved"))
    kept = has_total & has_reserved & (reserved > 0)
    return {
        "address": beside(rows, *events.ints("Addr")),
        "allocation_bytes": (has_size, np.abs(size)),
        "heap_bytes": (has_total, total),
        "free_bytes": (kept, np.where(kept, reserved - total, 0)),
    }


def sites(events: HostEvents, rows: Int32s) -> tuple[Int32s, Sites]:
    """The number of each row's site, the op around it on its thread; and the distinct ones."""
    ops = kineto_categories.is_op(events)
    parent = np.full(len(events), -1, np.int32)
    plane = events.plane_named(HOST_THREADS)
    lines = [] if plane is None else [(line.first, line.last) for line in plane.lines]
    bounds = np.array(lines, np.int64).reshape(-1, 2)
    parents(events.start_ps, events.duration_ps, None, np.zeros((0, 3), np.int64), bounds, parent, events.slack_ps)
    above = parent[rows]
    while (further := (above >= 0) & ~ops[events.meta[above]]).any():
        above[further] = parent[above[further]]
    meta = np.where(above < 0, -1, events.meta[above])
    distinct, number = np.unique(meta, return_inverse=True)
    names: list[str | None] = [None if one < 0 else events.names[one] for one in distinct.tolist()]
    nothing: list[str | None] = [None] * len(names)
    return number.astype(np.int32), Sites(names, nothing, nothing, [None] * len(names))
