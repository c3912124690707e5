"""The tables of the memory profile about events of allocators: each column, and how it follows from the events."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from fastprof.derive.memory import matching
from fastprof.derive.memory.fragmentation import ANSWERS
from fastprof.derive.memory.host_memory import MemoryFigures, tightest
from fastprof.derive.memory.memory_events import FREE, REQUESTED, highest_fragmentation
from fastprof.derive.memory.op_memory import lifetime_ps
from fastprof.derive.memory.over_time import Stretches
from fastprof.derive.memory.table_rows import (
    FIRST_SNAPSHOT,
    MOMENT,
    NONE,
    SIZED,
    STEP,
    WHAT,
    WHOSE,
    Numbers,
    Rows,
    Texts,
    fragmentation,
    known,
    not_negative,
    recorded,
)
from fastprof.schema.column_kinds import Bytes, Count, Number, Picoseconds, Text
from fastprof.schema.tables import Formula, resting_on

MOMENTS: Final = ("peak", "most fragmented", "tightest", "at")
ACTIVITIES: Final = ("free", "allocation")
_BOUND = "null: not recorded, or records contradict each other"


def _of_chunks(name: str) -> Formula:
    """What is known of free chunks after each row's event."""
    return lambda rows: not_negative(getattr(rows.host.fragmentation, name)[rows.at])


def _requested(rows: Rows) -> Numbers:
    """The requested size; of a free that does not record it, that of its allocation."""
    events, partner = rows.events, rows.host.matches.partner
    sizes, has = events.requested_bytes, events.has(REQUESTED)
    lacking = np.flatnonzero(~has & ~events.is_allocation & (partner >= 0))
    if len(lacking):
        sizes, has, other = sizes.copy(), has.copy(), partner[lacking]
        sizes[lacking], has[lacking] = sizes[other], has[other]
    return known(sizes[rows.at], has[rows.at])


_ALLOCATION = Bytes("allocation_bytes", "size of the allocation; of a free without a recorded size, the size of the "
                    "freed allocation, or the decrease of the heap; null: unknown",
                    lambda rows: not_negative(matching.moved_bytes(rows.events)[rows.at]))  # fmt: skip
_REQUESTED = Bytes("requested_bytes", f"requested size, before the allocator rounds it up; {NONE}", _requested)
_ADDRESS = Count("address", "address, uint64 as two's complement; null: not recorded", recorded("address"))
_CHUNKS = (
    Bytes("free_bytes", f"free memory up to the allocator's limit (bytes_available); {NONE}", recorded("free_bytes")),
    Number("fragmentation", "fragmentation from 0 to 1, as the allocator records it: 1 - largest free chunk / free "
           f"memory in the regions that the allocator has taken from the device; {NONE}", fragmentation),
    Bytes("largest_free_least_bytes", f"lower bound of the size of the largest free chunk; {_BOUND}",
          _of_chunks("largest_free_low")),
    Bytes("largest_free_bytes", "upper bound of the size of the largest free chunk: (1 - fragmentation) of the free "
          f"memory that the allocator has taken from the device, allowing for rounding of the last digit; {_BOUND}",
          _of_chunks("largest_free_high")),
    Bytes("next_largest_bytes", "largest requested size of the allocations that follow in the capture; failed requests "
          "are not recorded; null: no allocation follows",
          lambda rows: known(rows.host.fragmentation.next_largest_bytes[rows.at], _next(rows) >= 0)),
)  # fmt: skip
_TOO_SMALL = resting_on(
    SIZED,
    Bytes("too_small_least_bytes", "lower bound of the free memory in chunks smaller than next_largest_bytes: all free "
          "memory taken from the device if largest_free_bytes is smaller, else the chunks known from their frees; 0: "
          f"no allocation follows; {_BOUND}", _of_chunks("too_small_least")),
    Bytes("too_small_most_bytes", "upper bound of the free memory in chunks smaller than next_largest_bytes: all free "
          f"memory taken from the device, minus the largest chunk if that is large enough; {_BOUND}",
          _of_chunks("too_small_most")),
)  # fmt: skip


# ---- fragmentation


def _next(rows: Rows) -> Any:
    """The largest allocation that follows each moment, -1: none."""
    return rows.host.fragmentation.next_largest[rows.at]


def _next_op(rows: Rows) -> Texts:
    sites, following = rows.events.sites, _next(rows)
    return Texts(sites.op_names, np.where(following >= 0, sites.op_number[rows.events.site[following]], -1))


def _request_fits(rows: Rows) -> Texts:
    fits = rows.host.fits
    return Texts(ANSWERS, np.full(len(rows.at), -1) if fits is None else fits.answer[rows.at])


FRAGMENTED = (
    *WHOSE,
    Text("moment", "peak: most memory in use; most fragmented: highest fragmentation; tightest: most free memory in "
         "chunks too small for the largest allocation that follows; at: the time given by --at",
         lambda rows: Texts(MOMENTS, rows.found)),
    Picoseconds("start_ps", f"time of the snapshot, {MOMENT}", lambda rows: np.where(
        rows.found == 0, rows.host.peak_ps[rows.allocator], rows.events.start_ps[rows.at])),
    *_CHUNKS,
    Text("request_fits", "whether a request of the size given by --request fits at this moment, with the values of the "
         "column fits of the table request; null: --request is not given", _request_fits),
    Text("next_largest_op", "op of the largest allocation that follows; null: not recorded, or no allocation follows",
         _next_op),
    Picoseconds("next_largest_ps", f"time of the largest allocation that follows, {MOMENT}; null: no allocation "
                "follows", lambda rows: known(rows.events.start_ps[_next(rows)], _next(rows) >= 0)),
    *_TOO_SMALL,
    Bytes("taken_least_bytes", "lower bound of the memory that the allocator has taken from the device so far, in use "
          f"and free, by its events; {_BOUND}", _of_chunks("taken_low")),
    Bytes("taken_most_bytes", "upper bound of the memory that the allocator has taken from the device so far, in use "
          f"and free, by its events; {_BOUND}", _of_chunks("taken_high")),
    Bytes("known_free_bytes", "free memory in chunks that are known from their frees",
          lambda rows: rows.host.fragmentation.known_free_bytes[rows.at]),
    Count("known_free_chunks", "chunks of free memory that are known from their frees, adjacent ones joined",
          lambda rows: rows.host.fragmentation.known_free_chunks[rows.at]),
)  # fmt: skip


def moments(host: MemoryFigures) -> Rows:
    """The moments of each allocator, as far as it has them. ``found``: which moment each is."""
    events, none = host.events, np.full(len(host.peak), -1, np.int64)
    at = none if host.at is None else host.at
    each = np.stack([host.peak, highest_fragmentation(events, host.shown), tightest(host), at], axis=1)
    allocator, moment = np.nonzero((each >= 0) & events.has(FREE)[each])
    return Rows(host, allocator.astype(np.int32), each[allocator, moment], found=moment)


REQUEST = (
    *WHOSE,
    Text("fits", "yes: a free chunk is large enough; no: no free chunk is large enough, or all free memory is less; if "
         "the device has it: the allocator can take enough memory from the device; not known: the size is between the "
         "bounds of the largest chunk, or of the memory that the allocator may take",
         lambda rows: Texts(ANSWERS, rows.found.answer[rows.found.first])),
    Picoseconds("start_ps", f"time of the first snapshot with this answer, {MOMENT}"),
    Picoseconds("duration_ps", "time up to the next snapshot with another answer or outside the selected steps, else "
                "up to the last snapshot", lambda rows: rows.found.end_ps - rows.found.start_ps),
    Count("snapshot_count", "snapshots in the stretch"),
    Bytes("least_free_bytes", f"least free memory during the stretch; {NONE}"),
    Bytes("most_free_bytes", f"most free memory during the stretch; {NONE}"),
    Bytes("largest_free_least_bytes", "lower bound of the largest free chunk over the stretch; null: unknown"),
    Bytes("largest_free_most_bytes", "upper bound of the largest free chunk over the stretch; null: unknown"),
)  # fmt: skip


# ---- over time


def _start_ps(rows: Rows) -> Any:
    return rows.events.start_ps[rows.found.rows[rows.found.first]]


def _last(rows: Rows) -> Any:
    """The last snapshot of each stretch."""
    return rows.found.rows[rows.found.end - 1]


_MOST = "in the snapshot with the most memory in use"
TIMELINE = (
    *WHOSE,
    Picoseconds("start_ps", f"time of the first snapshot, {MOMENT}", _start_ps),
    Picoseconds("duration_ps", "time from the first snapshot of the stretch to the last",
                lambda rows: rows.events.start_ps[_last(rows)] - _start_ps(rows)),
    Count("snapshot_count", "snapshots in the stretch", lambda rows: rows.found.end - rows.found.first),
    Count(FIRST_SNAPSHOT, "row of the first snapshot in the table snapshots, from 0",
          lambda rows: rows.found.first + rows.before),
    Bytes("least_in_use_bytes", f"least memory in use during the stretch, stack and heap; {NONE}",
          lambda rows: known(rows.found.least_bytes, rows.found.is_known)),
    Bytes("most_in_use_bytes", f"most memory in use during the stretch, stack and heap; {NONE}",
          lambda rows: known(rows.host.in_use_bytes[rows.at], rows.found.is_known)),
    Bytes("last_in_use_bytes", f"memory in use after the last snapshot; {NONE}", lambda rows: rows.in_use(_last(rows))),
    Picoseconds("most_ps", f"first time of most_in_use_bytes, {MOMENT}", lambda rows: rows.events.start_ps[rows.at]),
    Bytes("stack_bytes", f"memory reserved for the stack, {_MOST}; {NONE}", recorded("stack_bytes")),
    Bytes("heap_bytes", f"memory allocated on the heap, {_MOST}; {NONE}", recorded("heap_bytes")),
    Bytes("free_bytes", f"free memory, {_MOST}; {NONE}", recorded("free_bytes")),
    Number("fragmentation", f"fragmentation from 0 to 1, {_MOST}; {NONE}", fragmentation),
)  # fmt: skip


def timeline(host: MemoryFigures) -> Rows:
    each = Stretches(host.events, host.shown)
    return Rows(host, each.allocator, each.most, found=each)


# ---- every event


SNAPSHOTS = (
    *WHOSE,
    Picoseconds("start_ps", f"time of the allocation or free, {MOMENT}", lambda rows: rows.events.start_ps[rows.at]),
    Count("step", f"step at the time of the allocation or free; {STEP}", lambda rows: rows.step(rows.at)),
    Text("activity", "allocation or free",
         lambda rows: Texts(ACTIVITIES, rows.events.is_allocation.view(np.uint8)[rows.at])),
    *WHAT,
    _REQUESTED,
    _ALLOCATION,
    _ADDRESS,
    Bytes("stack_bytes", f"stack memory after the allocation or free (bytes_reserved); {NONE}",
          recorded("stack_bytes")),
    Bytes("heap_bytes", f"heap memory after the allocation or free (bytes_allocated); {NONE}", recorded("heap_bytes")),
    Bytes("in_use_bytes", "stack_bytes + heap_bytes; null: neither is recorded", lambda rows: rows.in_use(rows.at)),
    *_CHUNKS,
    *_TOO_SMALL,
    Bytes("lifetime_peak_bytes", f"most memory in use since the process began (peak_bytes_in_use); {NONE}",
          recorded("lifetime_peak_bytes")),
)  # fmt: skip


def snapshots(host: MemoryFigures) -> Rows:
    at = slice(None) if host.shown is None else np.flatnonzero(host.shown)
    return Rows(host, host.allocator[at], at, host.site[at])


def _allocated(rows: Rows) -> Any:
    return rows.events.is_allocation[rows.at]


ALLOCATED = (
    *WHOSE,
    *WHAT,
    _ALLOCATION,
    _REQUESTED,
    _ADDRESS,
    Picoseconds("allocated_ps", f"time of the allocation, {MOMENT}; null: before the capture",
                lambda rows: known(rows.events.start_ps[rows.at], _allocated(rows))),
    Picoseconds("freed_ps", f"time of the free, {MOMENT}; null: not freed within the capture",
                lambda rows: known(rows.events.start_ps[rows.found], rows.found >= 0)),
    Picoseconds("lifetime_ps", "time from allocation to free; null: one of the two is not in the capture",
                lambda rows: not_negative(lifetime_ps(rows.events)[rows.at])),
    Count("allocated_step", f"step at the time of the allocation; {STEP}",
          lambda rows: rows.step(rows.at, _allocated(rows))),
    Count("freed_step", f"step at the time of the free; {STEP}", lambda rows: rows.step(rows.found, rows.found >= 0)),
    Text("fate", "freed; held at the end: not freed within the capture; free not recorded: the address was allocated "
         "again before any free; held before: allocated before the capture, known from its free; allocation not "
         "recorded: a free of memory that was already free; address unknown",
         lambda rows: Texts(matching.FATES, rows.host.matches.fate[rows.at])),
)  # fmt: skip


def allocations(host: MemoryFigures) -> Rows:
    """Allocations, and frees without one, where each begins or is met first; of chosen steps those that begin or end
    within them. ``found``: the free of each, -1: none."""
    events, partner = host.events, host.matches.partner
    at = np.flatnonzero(events.is_allocation | (partner < 0))
    if host.shown is not None:
        at = at[host.shown[at] | (host.shown[partner[at]] & (partner[at] >= 0))]
    freed_by = np.where(events.is_allocation[at], partner[at], at)
    return Rows(host, host.allocator[at], at, host.site[at], found=freed_by)
