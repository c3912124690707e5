"""Copies and fills of a GPU: their kinds, bytes and bandwidths."""

from __future__ import annotations

from typing import Final

import numpy as np

from fastprof.derive.ops.kernel_names import num_bytes
from fastprof.derive.ops.streams.stream_events import COPY, StreamEvents
from fastprof.derive.ops.streams.stream_queues import Series, bandwidths
from fastprof.schema.array_types import Float64s, Int64s
from fastprof.schema.value_classes import dataclass
from fastprof.tables.host_events import HostEvents, beside

STATS: Final = ("memcpy_details", "bytes", "memory bandwidth (GB/s)")
_PREFIX: Final = 11
"""Of the name of a copy, what names its kind: ``Memcpy HtoD``."""
_MOST_BYTES: Final = 1 << 50
"""A larger copy is damage: sums of others fit 64 bits."""


@dataclass(frozen=True, slots=True, eq=False)
class Copies:
    """By copy. ``of``: its place in ``kinds``; ``size``: bytes, -1: not recorded; ``gbps``: gigabytes a second, NaN:
    unknown."""

    kinds: list[str]
    events: StreamEvents
    of: Int64s
    size: Int64s
    gbps: Float64s

    def bandwidths(self) -> Series:
        """By place in ``kinds``, the sum of bandwidths of copies that run at once; unknown ones count as 0."""
        known = np.nan_to_num(self.gbps, nan=0.0, posinf=0.0)
        return bandwidths(self.of, self.events.start_ps, self.events.end_ps, known)


def copies_of(events: HostEvents, mine: StreamEvents) -> Copies:
    """Those among the events of a GPU. Reads STATS."""
    copies = mine[mine.kind == COPY]
    names = [_kind_of_copy(events.names[meta]) for meta in events.meta[copies.row].tolist()]
    kinds = sorted(set(names))
    of = np.array([kinds.index(name) for name in names], np.int64)
    size = bytes_of(events, copies.row)
    return Copies(kinds, copies, of, size, gbps_of(events, copies.row, size, copies.end_ps - copies.start_ps))


def _kind_of_copy(name: str) -> str:
    return name[:_PREFIX].rstrip() if name.startswith("Memcpy") else "Memset" if name.startswith("Memset") else name


def bytes_of(events: HostEvents, rows: Int64s) -> Int64s:
    """Bytes of copies, from their details; -1: not recorded."""
    has, size = beside(rows, *events.ints("bytes"))
    found = np.where(has & (size >= 0), size, -1)
    at, texts = events.texts("memcpy_details")
    detailed, number = beside(rows, at, texts)
    for place in np.flatnonzero(detailed & ~has).tolist():
        found[place] = min(num_bytes(events.text(int(number[place]))) or -1, _MOST_BYTES + 1)
    found[found > _MOST_BYTES] = -1
    return found


def gbps_of(events: HostEvents, rows: Int64s, size: Int64s, duration: Int64s) -> Float64s:
    """The recorded bandwidth of copies in gigabytes a second, else bytes / duration; NaN: neither is known."""
    stat = events.stat("memory bandwidth (GB/s)").at(rows)
    computed = np.where((size >= 0) & (duration > 0), size * 1000 / np.maximum(duration, 1), np.nan)
    return np.where(np.isnan(stat.numbers), computed, stat.numbers)
