"""What is kept of one host's memory, and what is computed of it: all that tables and remarks are made from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fastprof.decode.workers import Workers
from fastprof.derive.memory import fragmentation as chunks
from fastprof.derive.memory.fragmentation import Fragmentation
from fastprof.derive.memory.lifetimes import OpLifetimes, by_op, lifetime_ps
from fastprof.derive.memory.live_groups import LiveGroups, live_groups
from fastprof.derive.memory.live_set import HELD_BEFORE_FREED_LATER, HELD_THROUGHOUT, LiveSets, live_sets
from fastprof.derive.memory.matching import Matches, allocating_site, breaks, matches, moved_bytes
from fastprof.derive.memory.memory_events import FREE, HEAP, STACK, MemoryEvents, first_of_most, peaks, snapshots_at
from fastprof.derive.memory.module_runs import ModuleRuns
from fastprof.derive.memory.request_fits import Fits, request_fits
from fastprof.derive.memory.step_windows import Growth, StepRows, growth, step_of, step_rows
from fastprof.derive.ops.tables import sums_by
from fastprof.derive.steps.database import StepDatabase
from fastprof.errors import CaptureError
from fastprof.schema.array_types import Bools, Int64s

US = 1_000_000


@dataclass(frozen=True, slots=True, eq=False)
class MemorySteps:
    """The steps of a host, in order of their begin: numbers of their groups, and when they were."""

    number: Int64s
    start_ps: Int64s
    end_ps: Int64s

    @classmethod
    def none(cls) -> MemorySteps:
        return cls(*(np.zeros(0, np.int64) for _ in range(3)))

    @classmethod
    def of(cls, database: StepDatabase) -> MemorySteps:
        """On each step's first core that took part."""
        rows = np.flatnonzero(database.present.any(axis=1))
        if not len(rows):
            return cls.none()
        core = database.present[rows].argmax(axis=1)
        start, duration = database.begin_ps[rows, core], database.duration_ps[rows, core]
        order = np.lexsort((rows, start))
        start, duration = start[order], duration[order]
        return cls(database.step[rows][order], start, added(start, duration))

    def __len__(self) -> int:
        return len(self.number)

    def at(self, time_ps: Int64s) -> tuple[Int64s, Bools]:
        """The step at each time, and whether there is one."""
        place = step_of(self.start_ps, self.end_ps, time_ps)
        known = place >= 0
        number: Int64s = np.append(self.number, 0).take(place, mode="wrap")
        return number, known


@dataclass(frozen=True, slots=True, eq=False)
class HostMemory:
    """What is kept of one host. ``hardware``: GPU, TPU or CPU_ONLY; ``begin_ps``, ``end_ps``: from when to when it was
    captured; ``modules``: runs of programs; ``threads``: how many may compute; ``chosen``: ``steps`` are the chosen
    ones, and only what happened within them is reported, though ``events`` has all."""

    host: str
    hardware: str
    has_host_plane: bool
    begin_ps: int
    end_ps: int
    events: MemoryEvents
    steps: MemorySteps
    modules: ModuleRuns
    threads: int = 1
    chosen: bool = False

    @property
    def names(self) -> list[str]:
        """Of allocators, as people see them: those that are numbers of devices say so."""
        kind = "device" if self.hardware == "CPU_ONLY" else self.hardware
        return [f"{kind} {name}" if name.isdigit() else name for name in self.events.allocators]

    def step_of_events(self) -> tuple[Int64s, Bools]:
        """[n] the step at the time of each event, and whether there is one."""
        return self.steps.at(self.events.start_ps)

    def chosen_events(self) -> MemoryEvents:
        """Those within the chosen steps."""
        return self.events.only(self.step_of_events()[1]) if self.chosen else self.events


@dataclass(frozen=True, slots=True, eq=False)
class MemoryFigures:
    """What is computed of one host. Arrays [k] are by allocator, [n] by event; ``peak``: -1 where the chosen steps have
    none; ``at``: the events after which --at reports memory, -1: none; ``shown``: events within
    the chosen steps, None: all."""

    memory: HostMemory
    matches: Matches
    allocator: npt.NDArray[np.int32]  # [n]
    in_use_bytes: Int64s  # [n]
    in_use_known: Bools  # [n]
    site: npt.NDArray[np.int32]  # [n] what the memory is for, -1: not known
    step: tuple[Int64s, Bools]  # [n] the step at the time of the event, and whether there is one
    shown: Bools | None  # [n]
    peak: Int64s  # [k] event of the first peak
    peak_ps: Int64s  # [k]
    active: LiveSets
    groups: LiveGroups  # of active
    at: Int64s | None  # [k]
    active_at: LiveSets | None
    fragmentation: Fragmentation
    ops: OpLifetimes
    windows: StepRows
    growth: Growth
    fits: Fits | None  # where a request was asked for

    @property
    def events(self) -> MemoryEvents:
        return self.memory.events

    def allocator_name(self, allocator: int, several: bool) -> str:
        """``several``: there are several hosts."""
        name = self.memory.names[allocator] or "an allocator without a name"
        return f"{name} of {self.memory.host}" if several else name

    def op_name(self, number: int) -> str:
        """``number``: in op_names, -1: none."""
        name = self.events.sites.op_names[number] if number >= 0 else None
        return "an op that is not recorded" if name is None else name

    def within(self, which: Bools) -> Bools:
        """[n] which of them are within the chosen steps."""
        return which if self.shown is None else which & self.shown

    def counts(self, which: Bools) -> Int64s:
        """[k] how many of the events are marked, within the chosen steps."""
        found: Int64s = np.add.reduceat(self.within(which), self.events.bounds[:-1], dtype=np.int64)
        return found

    def at_peak(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """[k] of values by event those of the peaks, 0 where there is none."""
        found: npt.NDArray[Any] = values[self.peak] * (self.peak >= 0)
        return found


def figures(
    memory: HostMemory, at_ps: int | None, short_lived_us: int, request_bytes: int | None = None
) -> MemoryFigures:
    """``at_ps``: a further time at which to report what is alive, None: only at peaks. ``request_bytes``: the size of a
    request that might have fitted."""
    events, steps, workers = memory.events, memory.steps, Workers(memory.threads)
    at = None if at_ps is None else snapshots_at(events, at_ps)
    short_ps = min(short_lived_us * US, 2**63 - 1)
    matched = matches(events)
    for needed in (moved_bytes, breaks, lifetime_ps):  # what several of the tasks need is computed before them
        needed(events)
    of_times: list[Callable[[], Any]] = [
        lambda: step_rows(events, steps.start_ps, steps.end_ps, short_ps),
        memory.step_of_events,
    ]
    of_steps, step = workers.run(None, of_times)
    shown = step[1] if memory.chosen else None
    peak, peak_ps = _peaks(memory, of_steps)
    tasks: list[Callable[[], Any]] = [
        lambda: chunks.fragmentation(events, workers),
        lambda: by_op(events, short_ps, shown),
        lambda: growth(events, np.sort(steps.end_ps)),
        lambda: live_sets(events, peak),
        lambda: None if at is None else live_sets(events, at),
        lambda: allocating_site(events),
    ]
    fragmentation, ops, grown, active, active_at, site = workers.run(None, tasks)
    return MemoryFigures(
        memory=memory,
        matches=matched,
        allocator=events.allocator,
        in_use_bytes=events.in_use_bytes,
        in_use_known=events.has(STACK) | events.has(HEAP),
        site=site,
        step=step,
        shown=shown,
        peak=peak,
        peak_ps=peak_ps,
        active=active,
        groups=live_groups(active.rows, events.sites),
        at=at,
        active_at=active_at,
        fragmentation=fragmentation,
        ops=ops,
        windows=of_steps,
        growth=grown,
        fits=None if request_bytes is None else request_fits(events, fragmentation, request_bytes, shown),
    )


def _peaks(memory: HostMemory, of_steps: StepRows) -> tuple[Int64s, Int64s]:
    """[k] the event of each allocator's first peak, and when that was: of chosen steps, what was in use as they began
    counts too."""
    events, steps = memory.events, memory.steps
    if not memory.chosen:
        peak = peaks(events)
        return peak, events.start_ps[peak]
    peak, some = of_steps.highest, of_steps.highest >= 0
    begin = np.append(steps.start_ps, 0)[of_steps.highest_window]
    return peak, np.where(some, np.maximum(events.start_ps[peak], begin), -1)


def tightest(found: MemoryFigures) -> Int64s:
    """[k] the event after which most free memory is in chunks too small for the largest allocation that follows, -1:
    none is, as far as known."""
    chunk = found.fragmentation
    most_told, least_told = (
        column if found.shown is None else np.where(found.shown, column, -1)
        for column in (chunk.too_small_most, chunk.too_small_least)
    )
    worst = first_of_most(most_told, found.events.bounds)
    least = first_of_most(least_told, found.events.bounds)
    some = (least >= 0) & (least_told[least] > 0)
    worst[some] = least[some]
    worst[(worst >= 0) & (most_told[worst] <= 0)] = -1
    return worst


def kept_out(found: MemoryFigures) -> Bools:
    """[n] moments when enough was free for the largest allocation that follows, and no chunk was large enough; not of
    allocators that take more from the device instead."""
    chunk = found.fragmentation
    free, known = found.events.free_bytes, found.events.has(FREE) & (chunk.largest_free_high >= 0)
    wanted = chunk.next_largest_bytes
    known = found.within(known) & ~chunk.grows[found.allocator]
    return known & (wanted > 0) & (free >= wanted) & (chunk.largest_free_high < wanted) & (chunk.too_small_least >= 0)


def held_before(found: MemoryFigures) -> Int64s:
    """[k] what was in use at the peak and already before the capture."""
    rows = found.active.rows
    before = (rows.source == HELD_BEFORE_FREED_LATER) | (rows.source == HELD_THROUGHOUT)
    before &= rows.total_bytes >= 0
    return sums_by(rows.allocator[before], rows.total_bytes[before], len(found.peak), "the sizes of allocations")


def added(one: Int64s, other: Int64s) -> Int64s:
    """Sums. CaptureError: one does not fit 64 bits."""
    total = one + other
    if (((one ^ total) & (other ^ total)) < 0).any():
        raise CaptureError("times or sizes of memory do not add up in 64 bits")
    return total
