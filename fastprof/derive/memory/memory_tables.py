"""The tables of the memory profile: each column, and how it follows from what is computed of each host."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from types import SimpleNamespace
from typing import Any, Final

import numpy as np
import pyarrow as pa

from fastprof.derive.memory import alive, matching, snapshot_tables
from fastprof.derive.memory.host_memory import MemoryFigures, held_before
from fastprof.derive.memory.memory_events import ALLOCATION, added, first_of_most, highest_fragmentation
from fastprof.derive.memory.table_rows import (
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
    recorded,
)
from fastprof.derive.ops.tables import sums_by
from fastprof.schema.array_types import Int64s
from fastprof.schema.column_kinds import Bytes, Count, Flag, Kind, Number, Picoseconds, Share, Text
from fastprof.schema.tables import Formula, TableSchema, resting_on

# ---- allocators


class _Allocators(Rows):
    """A row for each allocator; ``at``: its peak."""

    @cached_property
    def held(self) -> Any:
        """[n] allocations that the capture does not free."""
        return (self.host.matches.fate == matching.HELD_AT_END) & self.events.is_allocation

    def held_bytes(self) -> Numbers:
        held = self.host.within(self.held)
        sizes, count = self.events.allocation_bytes[held], len(self.allocator)
        unsized = self.host.counts(self.held & ~self.events.has(ALLOCATION)) > 0
        return known(sums_by(self.host.allocator[held], sizes, count, "the sizes of allocations"), ~unsized)

    @property
    def peak(self) -> Numbers:
        return self.in_use(self.at)

    def at_peak(self, values: Numbers, which: Any = True) -> Numbers:
        """Values by allocator, null if its peak is unknown."""
        return known(values, ~np.ma.getmaskarray(self.peak) & which)

    def peak_step(self) -> Numbers:
        return self.at_peak(*self.host.about.steps.at(self.host.peak_ps))

    def wasted(self) -> Numbers:
        return self.at_peak(*alive.wasted_by_allocator(self.host.active.rows, len(self.allocator)))

    def capacity(self) -> Numbers:
        """What it may use at its peak."""
        return self.at_peak(self.host.limit_bytes[self.at], self.host.limit_known[self.at])

    def reserved(self) -> Numbers:
        """What PyTorch's allocator keeps of the device at its peak."""
        free = recorded("free_bytes")(self)
        kept = added(self.peak, free, "peak and free memory of an allocator")
        return known(kept, np.full(len(self.at), self.host.about.of_torch) & ~np.ma.getmaskarray(kept))

    @property
    def longest(self) -> Int64s:
        """The events with the largest lifetime peaks."""
        return first_of_most(self.events.lifetime_peak_bytes, self.events.bounds)

    @cached_property
    def most_fragmented(self) -> Int64s:
        return highest_fragmentation(self.events, self.host.shown)


def _with_fate(fate: int) -> Formula:
    return lambda rows: rows.host.counts(rows.host.matches.fate == fate)


_ALLOCATORS = (
    *WHOSE,
    Count("snapshot_count", "allocations and frees within the capture, each with the state of the allocator after it",
          lambda rows: rows.host.counts(np.ones(len(rows.events), np.bool_))),
    Count("allocation_count", "allocations in the capture", lambda rows: rows.host.counts(rows.events.is_allocation)),
    Count("free_count", "frees in the capture", lambda rows: rows.host.counts(~rows.events.is_allocation)),
    Count("held_before_count", "frees of memory that was allocated before the capture",
          _with_fate(matching.HELD_BEFORE)),
    Count("replaced_count", "allocations without a recorded free, whose address was allocated again: the free is "
          "missing in the capture", _with_fate(matching.REPLACED)),
    Count("held_at_end_count", "allocations that were not freed within the capture",
          lambda rows: rows.host.counts(rows.held)),
    Bytes("held_at_end_bytes", "sum of the sizes of the allocations that were not freed within the capture; null: the "
          "size of one is not recorded", lambda rows: rows.held_bytes()),
    Bytes("peak_bytes", "most memory in use, stack and heap, after any snapshot; null: not recorded",
          lambda rows: rows.peak),
    Picoseconds("peak_ps", f"first time of peak_bytes, {MOMENT}; null: peak_bytes is unknown",
                lambda rows: rows.at_peak(rows.host.peak_ps)),
    Count("peak_step", f"step at the time of the peak; {STEP}, or the peak is unknown", lambda rows: rows.peak_step()),
    Bytes("stack_at_peak_bytes", f"stack memory at the peak (bytes_reserved); {NONE}", recorded("stack_bytes")),
    Bytes("heap_at_peak_bytes", f"heap memory at the peak (bytes_allocated); {NONE}", recorded("heap_bytes")),
    Bytes("free_at_peak_bytes", f"free memory at the peak (bytes_available); {NONE}", recorded("free_bytes")),
    Bytes("held_before_at_peak_bytes", "memory in use at the peak that was allocated before the capture; null: not "
          "known", lambda rows: rows.at_peak(held_before(rows.host))),
    Bytes("wasted_at_peak_bytes", "memory in use at the peak beyond the requested sizes, as far as recorded; null: no "
          "requested size of an allocation alive at the peak is recorded", lambda rows: rows.wasted()),
    Number("fragmentation_at_peak", f"fragmentation at the peak; {NONE}", fragmentation),
    Bytes("capacity_bytes", "memory that the allocator may use: in use and free at the peak; of PyTorch's, which take "
          f"more as it is needed, all memory of the device; {NONE}", lambda rows: rows.capacity()),
    Bytes("reserved_at_peak_bytes", "memory of the device that PyTorch's allocator keeps at the peak, in use and free; "
          "null: not recorded, or not PyTorch's", lambda rows: rows.reserved()),
    Bytes("lifetime_peak_bytes", "most memory in use since the process began, as the allocator counts it "
          f"(peak_bytes_in_use): on TPUs the heap alone, without the stack; {NONE}",
          recorded("lifetime_peak_bytes", lambda rows: rows.longest)),
    Number("highest_fragmentation", f"highest fragmentation after any snapshot; {NONE}",
           lambda rows: fragmentation(rows, rows.most_fragmented)),
    Picoseconds("highest_fragmentation_ps", f"first time of the highest fragmentation, {MOMENT}; {NONE}",
                lambda rows: known(rows.events.start_ps[rows.most_fragmented], rows.most_fragmented >= 0)),
)  # fmt: skip


# ---- what is alive


@dataclass(frozen=True, eq=False)
class _Alive(Rows):
    """``in_use_bytes``: by allocator."""

    in_use_bytes: Any = None

    def share(self) -> Numbers:
        total = self.found.total_bytes
        in_use = self.in_use_bytes[self.allocator]
        with np.errstate(divide="ignore", invalid="ignore"):
            share = total / in_use.astype(np.float64)
        return known(share, (total >= 0) & (in_use > 0) & (share >= 0) & (share <= 1))


def _counted(name: str) -> Formula:
    return lambda rows: known(getattr(rows.found, name), getattr(rows.found, name) > 0)


_WASTED = Bytes("wasted_bytes", "part of total_bytes beyond the requested sizes: allocators round requests up and do "
                "not always split large chunks; null: requested sizes are not recorded")  # fmt: skip
_USE = (
    Share("share", "total_bytes / memory in use at that time; null: no memory was in use, or total_bytes is null",
          lambda rows: rows.share()),
    Text("source", "recorded: allocated in the capture; held before: allocated before the capture and freed in it; "
         "held throughout: the rest of the memory in use; stack: reserved for the stack; not recorded: known only from "
         "its free, and not allocated before the capture", lambda rows: Texts(alive.SOURCES, rows.found.source)),
)  # fmt: skip
_ACTIVE = (
    *WHOSE,
    *WHAT,
    Bytes("allocation_bytes", "size of each allocation; null: not recorded, or single allocations are not known"),
    Bytes("requested_bytes", "requested size of each allocation; null: not recorded, or single allocations are not "
          "known"),
    Count("count", "number of these equal allocations; null: single allocations are not known", _counted("count")),
    Bytes("total_bytes", "sum of the sizes of these allocations; null: the size is not recorded, so the row with the "
          "rest contains the memory"),
    _WASTED,
    *_USE,
)  # fmt: skip
_ACTIVE_GROUPS = (
    *WHOSE,
    Text("op_names", "names of the ops, with * for numbers at the ends of words: layer_*/dropout_*; null: not recorded",
         lambda rows: Texts(rows.events.sites.like_names, np.append(rows.events.sites.op_number, -1)[rows.site])),
    WHAT[1],
    WHAT[2],
    Count("op_count", "distinct ops; null: no op is recorded", _counted("op_count")),
    Count("count", "allocations of the ops; null: single allocations are not known", _counted("count")),
    Bytes("total_bytes", "sum of the sizes of the allocations; null: one size is not recorded"),
    Bytes("requested_bytes", "sum of the requested sizes; null: one requested size is not recorded"),
    _WASTED,
    *_USE,
)  # fmt: skip


def _active(host: MemoryFigures, rows: Any, in_use_bytes: Int64s) -> Rows:
    """``rows``: LiveRows or LiveGroups."""
    return _Alive(host, rows.allocator, site=rows.site, found=rows, in_use_bytes=in_use_bytes)


def _at_peak(host: MemoryFigures, rows: Any) -> Rows:
    return _active(host, rows, host.active.in_use_bytes)


def _at(host: MemoryFigures) -> Rows | None:
    return None if host.active_at is None else _active(host, host.active_at.rows, host.active_at.in_use_bytes)


# ---- steps and ops


class _StepRows(Rows):
    """``at``: the peak of each; ``found``: the windows."""

    def of_step(self, name: str) -> Any:
        return getattr(self.host.about.steps, name)[self.host.windows.window]

    def growth(self) -> Numbers:
        return self.in_use(self.found.last_snapshot) - self.in_use(self.found.first_snapshot)


_STEPS = (
    *WHOSE,
    Count("step", "number of the step, as in the analysis steps; if hosts number a step differently, the number on "
          "this host", lambda rows: rows.of_step("number")),
    Picoseconds("start_ps", f"start of the step, {MOMENT}", lambda rows: rows.of_step("start_ps")),
    Picoseconds("duration_ps", "duration of the step", lambda rows: rows.of_step("end_ps") - rows.of_step("start_ps")),
    Bytes("peak_bytes", "most memory in use during the step, including memory allocated before; null: unknown",
          lambda rows: rows.in_use(rows.at)),
    Picoseconds("peak_ps", f"first time of peak_bytes, {MOMENT}; null: peak_bytes is unknown", lambda rows: known(
        np.maximum(rows.events.start_ps[rows.at], rows.of_step("start_ps")), rows.at >= 0)),
    Bytes("begin_bytes", "memory in use at the start of the step; null: no snapshot before the start",
          lambda rows: rows.in_use(rows.found.first_snapshot)),
    Bytes("end_bytes", "memory in use at the end of the step; null: no snapshot before the end",
          lambda rows: rows.in_use(rows.found.last_snapshot)),
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


def _steps(host: MemoryFigures) -> Rows:
    return _StepRows(host, host.windows.allocator, host.windows.rows.peak, found=host.windows.rows)


_OP = Text("op_name", WHAT[0].description, lambda rows: Texts(rows.events.sites.op_names, rows.found.op))
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
          "step", lambda rows: rows.found.first_end_bytes),
    Bytes("last_step_end_bytes", "memory that the op allocated within the capture and holds at the end of the last "
          "step", lambda rows: rows.found.last_end_bytes),
    Flag("grows_steadily", "whether memory never falls between steps and rises in over half of them, as in a leak"),
)  # fmt: skip


def _growth(host: MemoryFigures) -> Rows:
    some = host.growth.growth_bytes > 0
    grown = SimpleNamespace(**{name: column[some] for name, column in vars(host.growth).items()})
    return Rows(host, grown.allocator, found=grown)


# ---- all tables


@dataclass(frozen=True, slots=True)
class HostTable:
    """``rows``: those of a host, None: it has no such table; ``by``: the column whose largest values come first;
    ``in_time``: rows stay by host, allocator and time; ``is_large``: it may have a row for each event."""

    schema: TableSchema
    rows: Callable[[MemoryFigures], Rows | None]
    by: str | None = None
    in_time: bool = False
    is_large: bool = False


def _fits(host: MemoryFigures) -> Rows | None:
    return None if host.fits is None else Rows(host, host.fits.allocator, found=host.fits)


_TABLES = (
    HostTable(TableSchema("allocators", "an allocator of a host, largest peak first", _ALLOCATORS, True),
              lambda host: _Allocators(host, np.arange(len(host.peak), dtype=np.int32), host.peak)),
    HostTable(TableSchema("active_groups", "the memory of ops with similar names that was alive at the allocator's "
                          "peak, most memory first", _ACTIVE_GROUPS, True), lambda host: _at_peak(host, host.groups)),
    HostTable(TableSchema("active", "equal allocations that were alive at the allocator's peak, most memory first",
                          _ACTIVE, True), lambda host: _at_peak(host, host.active.rows)),
    HostTable(TableSchema("at", "equal allocations that were alive at the time given by --at; empty without --at",
                          _ACTIVE, True), _at),
    HostTable(TableSchema("steps", "a step in which an allocator of its host allocated or freed", _STEPS, True),
              _steps),
    HostTable(TableSchema("ops", "an op with the memory that it requested, most memory first", _OPS, True),
              lambda host: Rows(host, host.ops.allocator, found=host.ops), "allocated_bytes"),
    HostTable(TableSchema("growth", "an op that holds more memory at the end of the last step than at the end of the "
                          "first, largest growth first", _GROWTH, True), _growth, "growth_bytes"),
    HostTable(TableSchema("fragmentation", "a moment of an allocator, such as its peak", snapshot_tables.FRAGMENTED,
                          True), snapshot_tables.moments),
    HostTable(TableSchema("request", "a time during which a request of the size given by --request fits, does not fit, "
                          "or may fit; no rows without --request", snapshot_tables.REQUEST, True), _fits),
    HostTable(TableSchema("timeline", "a stretch of time of an allocator: one snapshot, or a thousandth of the time if "
                          "there are more than 1,000 snapshots", snapshot_tables.TIMELINE, True),
              snapshot_tables.timeline, in_time=True),
    HostTable(TableSchema("snapshots", "an allocation or a free, by allocator and time", snapshot_tables.SNAPSHOTS,
                          True), snapshot_tables.snapshots, in_time=True, is_large=True),
    HostTable(TableSchema("allocations", "a piece of memory from allocation to free, by allocator and time",
                          snapshot_tables.ALLOCATED, True), snapshot_tables.allocations, in_time=True, is_large=True),
)  # fmt: skip
HOST_TABLES: Final = {one.schema.name: one for one in _TABLES}
TABLES: Final = {name: one.schema for name, one in HOST_TABLES.items()}
