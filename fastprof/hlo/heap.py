"""Heaps of compiled programs: how much is in use at each point of the program, and what is alive at the peak."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fastprof._native.memory_kernels import heap_trace
from fastprof.hlo.buffers import BufferAssignment
from fastprof.schema.array_types import Int32s, Int64s, Records


@dataclass(frozen=True, slots=True, eq=False)
class Heap:
    """One trace, followed from its first event to its last; csrc/kernels/heap_trace.h describes the columns. Parallel
    to ``rows``: ``start``, ``end``, ``held``, ``freed``, and ``root``, a place in ``rows``."""

    events: Records
    """Of the trace, records of BufferAssignment.events."""
    bytes: Int64s
    """In use before each event, and at the end."""
    unpadded: Int64s
    rows: Int64s
    """The buffers that the trace names, ascending rows of BufferAssignment.buffers: a plan may have many traces with
    few buffers each."""
    start: Int32s
    end: Int32s
    held: Int32s
    freed: Int32s
    root: Int32s
    owners: Int64s
    """Rows of buffers whose memory is in use at the peak, in the order of allocation."""
    shown: Int64s
    """The buffers in that memory."""
    peak_bytes: int
    peak_unpadded: int
    peak_event: int
    """The event after which ``peak_bytes`` are in use."""
    passed_over: int
    """Events that make no sense, such as a second free."""

    def places(self, buffers: npt.NDArray[np.integer[Any]]) -> Int64s:
        """The places of buffers in ``rows``; -1: the trace does not name them."""
        at = np.searchsorted(self.rows, buffers)
        places: Int64s = np.where(np.append(self.rows, -1)[at] == buffers, at, -1).astype(np.int64)
        return places

    def spans(self, buffers: npt.NDArray[np.integer[Any]]) -> tuple[Int64s, Int64s]:
        """``held`` and ``freed`` of buffers; -1: they own no memory of the heap."""
        at = self.places(buffers)
        return np.append(self.held, -1)[at].astype(np.int64), np.append(self.freed, -1)[at].astype(np.int64)


def heap_of(buffers: BufferAssignment, trace: int, unpadded: Int64s) -> Heap:
    """Follows a trace, a row of ``buffers.traces``. ``unpadded``: bytes by buffer. Events of buffers without allocation
    are ignored."""
    first, count = buffers.traces[["first_event", "event_count"]][trace].item()
    events = buffers.events[first : first + count]
    named = np.concatenate([events["buffer"], events["canonical"]])
    rows, places = _numbered(np.where(buffers.lies[named], named, np.int32(-1)), len(buffers.buffers))
    in_use, in_use_unpadded = (np.empty(count + 1, np.int64) for _ in range(2))
    start, end, held, freed, root = (np.empty(len(rows), np.int32) for _ in range(5))
    owners, shown = (np.empty(count, np.int32) for _ in range(2))
    peak = heap_trace(
        np.ascontiguousarray(events["kind"]), places[:count], places[count:], buffers.buffers["size"][rows],
        unpadded[rows], in_use, in_use_unpadded, start, end, held, freed, root, owners, shown,
    )  # fmt: skip
    alive = peak["alive"]
    return Heap(
        events, in_use, in_use_unpadded, rows, start, end, held, freed, root, rows[owners[:alive]], rows[shown[:alive]],
        peak["bytes"], peak["unpadded"], peak["event"], peak["passed_over"],
    )  # fmt: skip


def _numbered(rows: Int32s, count: int) -> tuple[Int64s, Int32s]:
    """The distinct ones of some rows of ``count``, ascending, and the place of each among them; -1 stays -1."""
    if count > 8 * len(rows):  # few of many: sorting is faster than marking all
        distinct, places = np.unique(rows, return_inverse=True)
        absent = int(len(distinct) > 0 and distinct[0] < 0)
        return distinct[absent:].astype(np.int64), (places - absent).astype(np.int32)
    there = np.zeros(count + 1, bool)  # -1 is the last of these
    there[rows] = True
    there[-1] = False
    number = np.cumsum(there, dtype=np.int32) - 1
    number[-1] = -1
    return np.flatnonzero(there), number[rows].astype(np.int32)
