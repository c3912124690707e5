"""The tables of the memory profile: each column, and how it is computed from the figures of each host and the events of
its allocators."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from types import SimpleNamespace
from typing import Any, Final

import numpy as np
import pyarrow as pa

from fastprof.derive.memory import allocation_history, heap_state
from fastprof.derive.memory.allocation_history import TimeIntervals, measure_lifetimes
from fastprof.derive.memory.heap_state import ANSWERS
from fastprof.derive.memory.host_memory import (
    FIRST_SNAPSHOT,
    MOMENT,
    NONE,
    SIZED,
    STEP,
    WHAT,
    WHOSE,
    HostMemoryRows,
    MemoryFigures,
    Numbers,
    TextCells,
    find_tightest,
    get_fragmentation,
    make_recorded_formula,
    mask_negative,
    mask_unknown,
    measure_held_before,
)
from fastprof.derive.memory.memory_events import (
    ALLOCATION,
    FREE,
    REQUESTED,
    find_first_largest,
    find_highest_fragmentation,
)
from fastprof.schema.columns import Int64s, add_exactly, sum_by
from fastprof.schema.tables import (
    Bytes,
    Count,
    Flag,
    Formula,
    Kind,
    Number,
    Picoseconds,
    Share,
    TableSchema,
    Text,
    resting_on,
)

MOMENTS: Final = ("peak", "most fragmented", "tightest", "at")
ACTIVITIES: Final = ("free", "allocation")
_BOUND = "null: not recorded, or records contradict each other"


def _make_chunk_formula(name: str) -> Formula:
    """Make the formula of a figure of free chunks after each row's event."""
    return lambda rows: mask_negative(getattr(rows.host.fragmentation, name)[rows.at])


def _get_requested(rows: HostMemoryRows) -> Numbers:
    """Return the requested sizes; a free that does not record its size has that of its allocation."""
    events, partner = rows.events, rows.host.matches.partner
    sizes, has = events.requested_bytes, events.has(REQUESTED)
    lacking = np.flatnonzero(~has & ~events.is_allocation & (partner >= 0))
    if len(lacking):
        sizes, has, other = sizes.copy(), has.copy(), partner[lacking]
        sizes[lacking], has[lacking] = sizes[other], has[other]
    return mask_unknown(sizes[rows.at], has[rows.at])


_ALLOCATION = Bytes("allocation_bytes", "allocation size; for a free without a recorded size, the size of the freed "
                    "allocation, or the decrease of the heap; null: unknown",
                    lambda rows: mask_negative(allocation_history.get_moved_bytes(rows.events)[rows.at]))  # fmt: skip
_REQUESTED = Bytes("requested_bytes", f"requested size, before the allocator rounds it up; {NONE}", _get_requested)
_ADDRESS = Count("address", "address, uint64 as two's complement; null: not recorded", make_recorded_formula("address"))
_CHUNKS = (
    Bytes("free_bytes", f"free memory up to the allocator's limit (bytes_available); {NONE}",
          make_recorded_formula("free_bytes")),
    Number("fragmentation", "fragmentation from 0 to 1, as the allocator records it: 1 - largest free chunk / free "
           f"memory in the regions that the allocator has taken from the device; {NONE}", get_fragmentation),
    Bytes("largest_free_least_bytes", f"lower bound of the size of the largest free chunk; {_BOUND}",
          _make_chunk_formula("largest_free_low")),
    Bytes("largest_free_bytes", "upper bound of the size of the largest free chunk: (1 - fragmentation) of the free "
          f"memory that the allocator has taken from the device, allowing for rounding of the last digit; {_BOUND}",
          _make_chunk_formula("largest_free_high")),
    Bytes("next_largest_bytes", "largest requested size of the allocations that follow in the capture; failed requests "
          "are not recorded; null: no allocation follows",
          lambda rows: mask_unknown(rows.host.fragmentation.next_largest_bytes[rows.at], _get_next(rows) >= 0)),
)  # fmt: skip
_TOO_SMALL = resting_on(
    SIZED,
    Bytes("too_small_least_bytes", "lower bound of the free memory in chunks smaller than next_largest_bytes: all free "
          "memory taken from the device if largest_free_bytes is smaller, else the chunks known from their frees; 0: "
          f"no allocation follows; {_BOUND}", _make_chunk_formula("too_small_least")),
    Bytes("too_small_most_bytes", "upper bound of the free memory in chunks smaller than next_largest_bytes: all free "
          f"memory taken from the device, minus the largest chunk if that is large enough; {_BOUND}",
          _make_chunk_formula("too_small_most")),
)  # fmt: skip


# ---- fragmentation


def _get_next(rows: HostMemoryRows) -> Any:
    """Return the largest allocation that follows each row's event, or -1."""
    return rows.host.fragmentation.next_largest[rows.at]


def _get_next_op(rows: HostMemoryRows) -> TextCells:
    sites, following = rows.events.sites, _get_next(rows)
    return TextCells(sites.op_names, np.where(following >= 0, sites.op_number[rows.events.site[following]], -1))


def _get_request_fits(rows: HostMemoryRows) -> TextCells:
    fits = rows.host.fits
    return TextCells(ANSWERS, np.full(len(rows.at), -1) if fits is None else fits.answer[rows.at])


FRAGMENTED = (
    *WHOSE,
    Text("moment", "peak: most memory in use; most fragmented: highest fragmentation; tightest: most free memory in "
         "chunks too small for the largest allocation that follows; at: the time given by --at",
         lambda rows: TextCells(MOMENTS, rows.values)),
    Picoseconds("start_ps", f"time of the snapshot, {MOMENT}", lambda rows: np.where(
        rows.values == 0, rows.host.peak_ps[rows.allocator], rows.events.start_ps[rows.at])),
    *_CHUNKS,
    Text("request_fits", "whether a request of the size given by --request fits at this time, with the values of the "
         "column fits of the request table; null: --request is not given", _get_request_fits),
    Text("next_largest_op", "op of the largest allocation that follows; null: not recorded, or no allocation follows",
         _get_next_op),
    Picoseconds("next_largest_ps", f"time of the largest allocation that follows, {MOMENT}; null: no allocation "
                "follows", lambda rows: mask_unknown(rows.events.start_ps[_get_next(rows)], _get_next(rows) >= 0)),
    *_TOO_SMALL,
    Bytes("taken_least_bytes", "lower bound of the memory that the allocator has taken from the device so far, in use "
          f"and free, by its events; {_BOUND}", _make_chunk_formula("taken_low")),
    Bytes("taken_most_bytes", "upper bound of the memory that the allocator has taken from the device so far, in use "
          f"and free, by its events; {_BOUND}", _make_chunk_formula("taken_high")),
    Bytes("known_free_bytes", "free memory in chunks that are known from their frees",
          lambda rows: rows.host.fragmentation.known_free_bytes[rows.at]),
    Count("known_free_chunks", "chunks of free memory that are known from their frees, adjacent ones joined",
          lambda rows: rows.host.fragmentation.known_free_chunks[rows.at]),
)  # fmt: skip


def list_moments(host: MemoryFigures) -> HostMemoryRows:
    """List the notable times of each allocator, as far as it has them. ``values``: the place of each in MOMENTS."""
    events, none = host.events, np.full(len(host.peak), -1, np.int64)
    at = none if host.at is None else host.at
    each = np.stack([host.peak, find_highest_fragmentation(events, host.shown), find_tightest(host), at], axis=1)
    allocator, moment = np.nonzero((each >= 0) & events.has(FREE)[each])
    return HostMemoryRows(host, allocator.astype(np.int32), each[allocator, moment], values=moment)


REQUEST = (
    *WHOSE,
    Text("fits", "yes: a free chunk is large enough; no: no free chunk is large enough, or total free memory is too "
                 "small; if "
         "the device has it: the allocator can take enough memory from the device; not known: the size is between the "
         "bounds of the largest chunk, or of the memory that the allocator may take",
         lambda rows: TextCells(ANSWERS, rows.values.answer[rows.values.first])),
    Picoseconds("start_ps", f"time of the first snapshot with this answer, {MOMENT}"),
    Picoseconds("duration_ps", "time up to the next snapshot with another answer or outside the selected steps, else "
                "up to the last snapshot", lambda rows: rows.values.end_ps - rows.values.start_ps),
    Count("snapshot_count", "snapshots in the interval"),
    Bytes("least_free_bytes", f"least free memory during the interval; {NONE}"),
    Bytes("most_free_bytes", f"most free memory during the interval; {NONE}"),
    Bytes("largest_free_least_bytes", "lower bound of the largest free chunk over the interval; null: unknown"),
    Bytes("largest_free_most_bytes", "upper bound of the largest free chunk over the interval; null: unknown"),
)  # fmt: skip


# ---- over time


def _get_start_ps(rows: HostMemoryRows) -> Any:
    return rows.events.start_ps[rows.values.rows[rows.values.first]]


def _get_last(rows: HostMemoryRows) -> Any:
    """Return the last snapshot of each interval."""
    return rows.values.rows[rows.values.end - 1]


_MOST = "in the snapshot with the most memory in use"
TIMELINE = (
    *WHOSE,
    Picoseconds("start_ps", f"time of the first snapshot, {MOMENT}", _get_start_ps),
    Picoseconds("duration_ps", "time from the first snapshot of the interval to the last",
                lambda rows: rows.events.start_ps[_get_last(rows)] - _get_start_ps(rows)),
    Count("snapshot_count", "snapshots in the interval", lambda rows: rows.values.end - rows.values.first),
    Count(FIRST_SNAPSHOT, "row of the first snapshot in the snapshots table, from 0",
          lambda rows: rows.values.first + rows.before),
    Bytes("least_in_use_bytes", f"least memory in use during the interval, stack and heap; {NONE}",
          lambda rows: mask_unknown(rows.values.least_bytes, rows.values.is_known)),
    Bytes("most_in_use_bytes", f"peak memory in use during the interval, stack and heap; {NONE}",
          lambda rows: mask_unknown(rows.host.in_use_bytes[rows.at], rows.values.is_known)),
    Bytes("last_in_use_bytes", f"memory in use after the last snapshot; {NONE}",
          lambda rows: rows.in_use(_get_last(rows))),
    Picoseconds("most_ps", f"first time of most_in_use_bytes, {MOMENT}", lambda rows: rows.events.start_ps[rows.at]),
    Bytes("stack_bytes", f"memory reserved for the stack, {_MOST}; {NONE}", make_recorded_formula("stack_bytes")),
    Bytes("heap_bytes", f"memory allocated on the heap, {_MOST}; {NONE}", make_recorded_formula("heap_bytes")),
    Bytes("free_bytes", f"free memory, {_MOST}; {NONE}", make_recorded_formula("free_bytes")),
    Number("fragmentation", f"fragmentation from 0 to 1, {_MOST}; {NONE}", get_fragmentation),
)  # fmt: skip


def list_timeline(host: MemoryFigures) -> HostMemoryRows:
    each = TimeIntervals(host.events, host.shown)
    return HostMemoryRows(host, each.allocator, each.most, values=each)


# ---- every event


SNAPSHOTS = (
    *WHOSE,
    Picoseconds("start_ps", f"time of the allocation or free, {MOMENT}", lambda rows: rows.events.start_ps[rows.at]),
    Count("step", f"step at the time of the allocation or free; {STEP}", lambda rows: rows.step(rows.at)),
    Text("activity", "allocation or free",
         lambda rows: TextCells(ACTIVITIES, rows.events.is_allocation.view(np.uint8)[rows.at])),
    *WHAT,
    _REQUESTED,
    _ALLOCATION,
    _ADDRESS,
    Bytes("stack_bytes", f"stack memory after the allocation or free (bytes_reserved); {NONE}",
          make_recorded_formula("stack_bytes")),
    Bytes("heap_bytes", f"heap memory after the allocation or free (bytes_allocated); {NONE}",
          make_recorded_formula("heap_bytes")),
    Bytes("in_use_bytes", "stack_bytes + heap_bytes; null: neither is recorded", lambda rows: rows.in_use(rows.at)),
    *_CHUNKS,
    *_TOO_SMALL,
    Bytes("lifetime_peak_bytes", f"peak memory in use since the process began (peak_bytes_in_use); {NONE}",
          make_recorded_formula("lifetime_peak_bytes")),
)  # fmt: skip


def list_snapshots(host: MemoryFigures) -> HostMemoryRows:
    at = slice(None) if host.shown is None else np.flatnonzero(host.shown)
    return HostMemoryRows(host, host.allocator[at], at, host.site[at])


def _is_allocation(rows: HostMemoryRows) -> Any:
    return rows.events.is_allocation[rows.at]


ALLOCATED = (
    *WHOSE,
    *WHAT,
    _ALLOCATION,
    _REQUESTED,
    _ADDRESS,
    Picoseconds("allocated_ps", f"time of the allocation, {MOMENT}; null: before the capture",
                lambda rows: mask_unknown(rows.events.start_ps[rows.at], _is_allocation(rows))),
    Picoseconds("freed_ps", f"time of the free, {MOMENT}; null: not freed within the capture",
                lambda rows: mask_unknown(rows.events.start_ps[rows.values], rows.values >= 0)),
    Picoseconds("lifetime_ps", "time from allocation to free; null: one of the two is not in the capture",
                lambda rows: mask_negative(measure_lifetimes(rows.events)[rows.at])),
    Count("allocated_step", f"step at the time of the allocation; {STEP}",
          lambda rows: rows.step(rows.at, _is_allocation(rows))),
    Count("freed_step", f"step at the time of the free; {STEP}", lambda rows: rows.step(rows.values, rows.values >= 0)),
    Text("fate", "freed; held at the end: not freed within the capture; free not recorded: the address was allocated "
         "again before any free; held before: allocated before the capture, known from its free; allocation not "
         "recorded: a free of memory that was already free; address unknown",
         lambda rows: TextCells(allocation_history.FATES, rows.host.matches.fate[rows.at])),
)  # fmt: skip


def list_allocations(host: MemoryFigures) -> HostMemoryRows:
    """List allocations, and frees without one, where each begins or is first seen; of chosen steps, those that begin or
    end within them. ``values``: the free of each, or -1."""
    events, partner = host.events, host.matches.partner
    at = np.flatnonzero(events.is_allocation | (partner < 0))
    if host.shown is not None:
        at = at[host.shown[at] | (host.shown[partner[at]] & (partner[at] >= 0))]
    freed_by = np.where(events.is_allocation[at], partner[at], at)
    return HostMemoryRows(host, host.allocator[at], at, host.site[at], values=freed_by)


# ---- allocators


class _AllocatorRows(HostMemoryRows):
    """A row for each allocator; ``at``: its peak."""

    @cached_property
    def held(self) -> Any:
        """Allocations [n] that the capture does not free."""
        return (self.host.matches.fate == allocation_history.HELD_AT_END) & self.events.is_allocation

    def held_bytes(self) -> Numbers:
        held = self.host.within(self.held)
        sizes, count = self.events.allocation_bytes[held], len(self.allocator)
        unsized = self.host.counts(self.held & ~self.events.has(ALLOCATION)) > 0
        return mask_unknown(sum_by(self.host.allocator[held], sizes, count, "the sizes of allocations"), ~unsized)

    @property
    def peak(self) -> Numbers:
        return self.in_use(self.at)

    def at_peak(self, values: Numbers, which: Any = True) -> Numbers:
        """Return values by allocator, null if its peak is unknown."""
        return mask_unknown(values, ~np.ma.getmaskarray(self.peak) & which)

    def peak_step(self) -> Numbers:
        return self.at_peak(*self.host.about.steps.at(self.host.peak_ps))

    def wasted(self) -> Numbers:
        return self.at_peak(*heap_state.measure_wasted(self.host.active.rows, len(self.allocator)))

    def capacity(self) -> Numbers:
        """Return what each allocator may use at its peak."""
        return self.at_peak(self.host.limit_bytes[self.at], self.host.limit_known[self.at])

    def reserved(self) -> Numbers:
        """Return what PyTorch's allocator has reserved of the device at its peak."""
        free = make_recorded_formula("free_bytes")(self)
        reserved = add_exactly(self.peak, free, "peak and free memory of an allocator")
        return mask_unknown(reserved, np.full(len(self.at), self.host.about.of_torch) & ~np.ma.getmaskarray(reserved))

    @property
    def longest(self) -> Int64s:
        """Events with the largest lifetime peaks."""
        return find_first_largest(self.events.lifetime_peak_bytes, self.events.bounds)

    @cached_property
    def most_fragmented(self) -> Int64s:
        return find_highest_fragmentation(self.events, self.host.shown)


def _count_with_fate(fate: int) -> Formula:
    return lambda rows: rows.host.counts(rows.host.matches.fate == fate)


_ALLOCATORS = (
    *WHOSE,
    Count("snapshot_count", "allocations and frees within the capture, each with the state of the allocator after it",
          lambda rows: rows.host.counts(np.ones(len(rows.events), np.bool_))),
    Count("allocation_count", "allocations in the capture", lambda rows: rows.host.counts(rows.events.is_allocation)),
    Count("free_count", "frees in the capture", lambda rows: rows.host.counts(~rows.events.is_allocation)),
    Count("held_before_count", "frees of memory that was allocated before the capture",
          _count_with_fate(allocation_history.HELD_BEFORE)),
    Count("replaced_count", "allocations without a recorded free, whose address was allocated again: the free is "
          "missing in the capture", _count_with_fate(allocation_history.REPLACED)),
    Count("held_at_end_count", "allocations that were not freed within the capture",
          lambda rows: rows.host.counts(rows.held)),
    Bytes("held_at_end_bytes", "sum of the sizes of the allocations that were not freed within the capture; null: the "
          "size of one is not recorded", lambda rows: rows.held_bytes()),
    Bytes("peak_bytes", "peak memory in use, stack and heap, after any snapshot; null: not recorded",
          lambda rows: rows.peak),
    Picoseconds("peak_ps", f"first time of peak_bytes, {MOMENT}; null: peak_bytes is unknown",
                lambda rows: rows.at_peak(rows.host.peak_ps)),
    Count("peak_step", f"step at the time of the peak; {STEP}, or the peak is unknown", lambda rows: rows.peak_step()),
    Bytes("stack_at_peak_bytes", f"stack memory at the peak (bytes_reserved); {NONE}",
          make_recorded_formula("stack_bytes")),
    Bytes("heap_at_peak_bytes", f"heap memory at the peak (bytes_allocated); {NONE}",
          make_recorded_formula("heap_bytes")),
    Bytes("free_at_peak_bytes", f"free memory at the peak (bytes_available); {NONE}",
          make_recorded_formula("free_bytes")),
    Bytes("held_before_at_peak_bytes", "memory in use at the peak that was allocated before the capture; null: "
          "unknown", lambda rows: rows.at_peak(measure_held_before(rows.host))),
    Bytes("wasted_at_peak_bytes", "memory in use at the peak beyond the requested sizes, as far as recorded; null: no "
          "requested size of an allocation alive at the peak is recorded", lambda rows: rows.wasted()),
    Number("fragmentation_at_peak", f"fragmentation at the peak; {NONE}", get_fragmentation),
    Bytes("capacity_bytes", f"memory that the allocator may use: in use and free at the peak; for PyTorch's "
          f"allocator, which grows on demand, all memory of the device; {NONE}", lambda rows: rows.capacity()),
    Bytes("reserved_at_peak_bytes", "device memory that PyTorch's allocator has reserved at the peak, in use and free; "
          "null: not recorded, or not PyTorch's", lambda rows: rows.reserved()),
    Bytes("lifetime_peak_bytes", "peak memory in use since the process began, as the allocator counts it "
          f"(peak_bytes_in_use): on TPUs the heap alone, without the stack; {NONE}",
          make_recorded_formula("lifetime_peak_bytes", lambda rows: rows.longest)),
    Number("highest_fragmentation", f"highest fragmentation after any snapshot; {NONE}",
           lambda rows: get_fragmentation(rows, rows.most_fragmented)),
    Picoseconds("highest_fragmentation_ps", f"first time of the highest fragmentation, {MOMENT}; {NONE}",
                lambda rows: mask_unknown(rows.events.start_ps[rows.most_fragmented], rows.most_fragmented >= 0)),
)  # fmt: skip


# ---- what is alive


@dataclass(frozen=True, eq=False)
class _ActiveRows(HostMemoryRows):
    """Rows of live memory. ``in_use_bytes``: by allocator."""

    in_use_bytes: Any = None

    def share(self) -> Numbers:
        total = self.values.total_bytes
        in_use = self.in_use_bytes[self.allocator]
        with np.errstate(divide="ignore", invalid="ignore"):
            share = total / in_use.astype(np.float64)
        return mask_unknown(share, (total >= 0) & (in_use > 0) & (share >= 0) & (share <= 1))


def _make_count_formula(name: str) -> Formula:
    return lambda rows: mask_unknown(getattr(rows.values, name), getattr(rows.values, name) > 0)


_WASTED = Bytes("wasted_bytes", "part of total_bytes beyond the requested sizes: allocators round requests up and do "
                "not always split large chunks; null: requested sizes are not recorded")  # fmt: skip
_USE = (
    Share("share", "total_bytes / memory in use at that time; null: no memory was in use, or total_bytes is null",
          lambda rows: rows.share()),
    Text("source", "recorded: allocated in the capture; held before: allocated before the capture and freed in it; "
         "held throughout: the rest of the memory in use; stack: reserved for the stack; not recorded: known only from "
         "its free, and not allocated before the capture",
         lambda rows: TextCells(heap_state.SOURCES, rows.values.source)),
)  # fmt: skip
_ACTIVE = (
    *WHOSE,
    *WHAT,
    Bytes("allocation_bytes", "size of each allocation; null: not recorded, or single allocations are unknown"),
    Bytes("requested_bytes", "requested size of each allocation; null: not recorded, or single allocations are "
          "unknown"),
    Count("count", "number of these equal allocations; null: single allocations are unknown",
          _make_count_formula("count")),
    Bytes("total_bytes", "sum of the sizes of these allocations; null: the size is not recorded, so the row with the "
          "rest contains the memory"),
    _WASTED,
    *_USE,
)  # fmt: skip
_ACTIVE_GROUPS = (
    *WHOSE,
    Text("op_names", "names of the ops, with * for numbers at the ends of words: layer_*/dropout_*; null: not recorded",
         lambda rows: TextCells(rows.events.sites.like_names, np.append(rows.events.sites.op_number, -1)[rows.site])),
    WHAT[1],
    WHAT[2],
    Count("op_count", "distinct ops; null: no op is recorded", _make_count_formula("op_count")),
    Count("count", "allocations of the ops; null: single allocations are unknown", _make_count_formula("count")),
    Bytes("total_bytes", "sum of the sizes of the allocations; null: one size is not recorded"),
    Bytes("requested_bytes", "sum of the requested sizes; null: one requested size is not recorded"),
    _WASTED,
    *_USE,
)  # fmt: skip


def _list_active(host: MemoryFigures, rows: Any, in_use_bytes: Int64s) -> HostMemoryRows:
    """Make rows from LiveRows or LiveGroups."""
    return _ActiveRows(host, rows.allocator, site=rows.site, values=rows, in_use_bytes=in_use_bytes)


def _list_at_peak(host: MemoryFigures, rows: Any) -> HostMemoryRows:
    return _list_active(host, rows, host.active.in_use_bytes)


def _list_at_moment(host: MemoryFigures) -> HostMemoryRows | None:
    return None if host.active_at is None else _list_active(host, host.active_at.rows, host.active_at.in_use_bytes)


# ---- steps and ops


class _StepRows(HostMemoryRows):
    """Rows of steps. ``at``: the peak of each; ``values``: the windows."""

    def of_step(self, name: str) -> Any:
        return getattr(self.host.about.steps, name)[self.host.windows.window]

    def growth(self) -> Numbers:
        return self.in_use(self.values.last_snapshot) - self.in_use(self.values.first_snapshot)


_STEPS = (
    *WHOSE,
    Count("step", "step number, as in the steps analysis; if hosts number a step differently, the number on this "
          "host", lambda rows: rows.of_step("number")),
    Picoseconds("start_ps", f"step start, {MOMENT}", lambda rows: rows.of_step("start_ps")),
    Picoseconds("duration_ps", "step duration", lambda rows: rows.of_step("end_ps") - rows.of_step("start_ps")),
    Bytes("peak_bytes", "peak memory in use during the step, including memory allocated before it; null: unknown",
          lambda rows: rows.in_use(rows.at)),
    Picoseconds("peak_ps", f"first time of peak_bytes, {MOMENT}; null: peak_bytes is unknown",
                lambda rows: mask_unknown(
        np.maximum(rows.events.start_ps[rows.at], rows.of_step("start_ps")), rows.at >= 0)),
    Bytes("begin_bytes", "memory in use at the step start; null: no snapshot before the start",
          lambda rows: rows.in_use(rows.values.first_snapshot)),
    Bytes("end_bytes", "memory in use at the end of the step; null: no snapshot before the end",
          lambda rows: rows.in_use(rows.values.last_snapshot)),
    Bytes("growth_bytes", "end_bytes - begin_bytes; null: one of the two is unknown", lambda rows: rows.growth()),
    Count("allocation_count", "allocations in the step"),
    Count("free_count", "frees in the step"),
    *resting_on(
        SIZED,
        Bytes("allocated_bytes", "sum of the sizes of the allocations in the step; unrecorded sizes count as 0"),
        Bytes("freed_bytes", "sum of the sizes of the frees in the step; unrecorded sizes count as 0"),
        Bytes("short_lived_bytes", "part of allocated_bytes that was freed within short_lived_us"),
    ),
)  # fmt: skip


def _list_steps(host: MemoryFigures) -> HostMemoryRows:
    return _StepRows(host, host.windows.allocator, host.windows.rows.peak, values=host.windows.rows)


_OP = Text("op_name", WHAT[0].description, lambda rows: TextCells(rows.events.sites.op_names, rows.values.op))
_OPS = (
    *WHOSE,
    _OP,
    Count("count", "allocations of the op"),
    *resting_on(
        SIZED,
        Bytes("allocated_bytes", "sum of the sizes of the op's allocations; unrecorded sizes count as 0"),
        Bytes("requested_bytes", "sum of the requested sizes of the op's allocations; unrecorded sizes count as 0"),
        Bytes("largest_bytes", "size of the op's largest allocation; null: no size is recorded"),
    ),
    Count("held_at_end_count", "allocations of the op that were not freed within the capture"),
    *resting_on(
        SIZED,
        Bytes("held_at_end_bytes", "sum of the sizes of the op's allocations that were not freed within the capture"),
        Count("short_lived_count", "allocations of the op that were freed within short_lived_us"),
        Bytes("short_lived_bytes", "sum of the sizes of the op's allocations that were freed within short_lived_us"),
    ),
    Picoseconds("lifetime_min_ps", "shortest time from allocation to free; null: no allocation of the op was freed"),
    Picoseconds("lifetime_p50_ps", "median time from allocation to free, the shorter of two in the middle; null: no "
                "allocation of the op was freed"),
    Picoseconds("lifetime_max_ps", "longest time from allocation to free; null: no allocation of the op was freed"),
)  # fmt: skip
_GROWTH = (
    *WHOSE,
    _OP,
    Bytes("growth_bytes", "last_step_end_bytes - first_step_end_bytes"),
    Kind(pa.float64(), "bytes")("growth_per_step_bytes", "growth_bytes / (step_count - 1)"),
    Count("steps_grown", "steps at whose end the op holds more memory than at the end of the step before"),
    Count("step_count", "steps that are compared"),
    Bytes("first_step_end_bytes", "memory that the op allocated within the capture and holds at the end of the first "
          "step", lambda rows: rows.values.first_end_bytes),
    Bytes("last_step_end_bytes", "memory that the op allocated within the capture and holds at the end of the last "
          "step", lambda rows: rows.values.last_end_bytes),
    Flag("grows_steadily", "whether memory never falls between steps and rises in over half of them, as in a leak"),
)  # fmt: skip


def _list_growth(host: MemoryFigures) -> HostMemoryRows:
    some = host.growth.growth_bytes > 0
    grown = SimpleNamespace(**{name: column[some] for name, column in vars(host.growth).items()})
    return HostMemoryRows(host, grown.allocator, values=grown)


# ---- all tables


@dataclass(frozen=True, slots=True)
class HostTable:
    """Table of hosts. ``rows``: makes the rows of a host, or None if it has no such table; ``by``: the column whose
    largest values come first; ``in_time``: rows stay by host, allocator and time; ``is_large``: it may have a row for
    each event."""

    schema: TableSchema
    rows: Callable[[MemoryFigures], HostMemoryRows | None]
    by: str | None = None
    in_time: bool = False
    is_large: bool = False


def _list_fits(host: MemoryFigures) -> HostMemoryRows | None:
    return None if host.fits is None else HostMemoryRows(host, host.fits.allocator, values=host.fits)


_TABLES = (
    HostTable(TableSchema("allocators", "an allocator of a host, largest peak first", _ALLOCATORS, True),
              lambda host: _AllocatorRows(host, np.arange(len(host.peak), dtype=np.int32), host.peak)),
    HostTable(TableSchema("active_groups", "the memory of ops with similar names that was alive at the allocator's "
                          "peak, most memory first", _ACTIVE_GROUPS, True),
                          lambda host: _list_at_peak(host, host.groups)),
    HostTable(TableSchema("active", "equal allocations that were alive at the allocator's peak, most memory first",
                          _ACTIVE, True), lambda host: _list_at_peak(host, host.active.rows)),
    HostTable(TableSchema("at", "equal allocations that were alive at the time given by --at; empty without --at",
                          _ACTIVE, True), _list_at_moment),
    HostTable(TableSchema("steps", "a step in which an allocator of its host allocated or freed", _STEPS, True),
              _list_steps),
    HostTable(TableSchema("ops", "an op with the memory that it requested, most memory first", _OPS, True),
              lambda host: HostMemoryRows(host, host.ops.allocator, values=host.ops), "allocated_bytes"),
    HostTable(TableSchema("growth", "an op that holds more memory at the end of the last step than at the end of the "
                          "first, largest growth first", _GROWTH, True), _list_growth, "growth_bytes"),
    HostTable(TableSchema("fragmentation", "a point in time of an allocator, such as its peak", FRAGMENTED,
                          True), list_moments),
    HostTable(TableSchema("request", "a time during which a request of the size given by --request fits, does not fit, "
                          "or may fit; no rows without --request", REQUEST, True), _list_fits),
    HostTable(TableSchema("timeline", "a time interval of an allocator: one snapshot, or a thousandth of the time if "
                          "there are more than 1,000 snapshots", TIMELINE, True),
              list_timeline, in_time=True),
    HostTable(TableSchema("snapshots", "an allocation or a free, by allocator and time", SNAPSHOTS,
                          True), list_snapshots, in_time=True, is_large=True),
    HostTable(TableSchema("allocations", "a piece of memory from allocation to free, by allocator and time",
                          ALLOCATED, True), list_allocations, in_time=True, is_large=True),
)  # fmt: skip
HOST_TABLES: Final = {table.schema.name: table for table in _TABLES}
TABLES: Final = {name: table.schema for name, table in HOST_TABLES.items()}
