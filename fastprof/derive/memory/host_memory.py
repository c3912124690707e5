"""The recorded memory of one host, and the figures computed from it, from which tables and remarks are made."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from operator import attrgetter
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fastprof.decode.workers import Workers
from fastprof.derive.memory.allocation_history import (
    OpGrowth,
    OpLifetimes,
    StepRows,
    find_allocating_sites,
    find_breaks,
    find_steps,
    get_matches,
    get_moved_bytes,
    list_step_rows,
    measure_lifetimes,
)
from fastprof.derive.memory.heap_state import (
    HELD_BEFORE_FREED_LATER,
    HELD_THROUGHOUT,
    FreeChunks,
    LiveGroups,
    LiveSets,
    RequestFits,
    find_live_sets,
)
from fastprof.derive.memory.memory_events import (
    FREE,
    HEAP,
    NUMBERS,
    STACK,
    MemoryEvents,
    find_first_largest,
    find_peaks,
    find_snapshots_at,
)
from fastprof.derive.steps.step_database import StepDatabase
from fastprof.schema.columns import Bools, Int32s, Int64s, add_exactly, join_parts, number_values, sort_rows, sum_by
from fastprof.schema.tables import Column, Formula, Need, TableSchema, Text
from fastprof.schema.value_classes import dataclass
from fastprof.tables.host_events import HostEvents

US = 1_000_000
_MODULE_LINE = "XLA Modules"
_DEVICE = "/device:"
_AMOUNTS = "times or sizes of memory"


@dataclass(frozen=True, slots=True)
class ModuleRuns:
    """Program runs on TPUs, by plane, line and time. ``name``, ``plane``: numbers of ``names`` and ``planes``;
    ``offset_ps``: start within the line, as recorded; ``start_ps``: since the start of the capture; ``planes``: names
    without /device:."""

    name: Int32s
    plane: Int32s
    offset_ps: Int64s
    start_ps: Int64s
    duration_ps: Int64s
    names: list[str]
    planes: list[str]

    def __len__(self) -> int:
        return len(self.name)

    def at(self, plane: str, time_ps: int) -> tuple[str, int] | None:
        """Return the program that ran on a plane at a time, the last to begin, or else the next one; and its start.
        None: there is neither."""
        mine = self.plane == (self.planes.index(plane) if plane in self.planes else -1)
        running = np.flatnonzero(mine & (self.start_ps <= time_ps) & (time_ps < self.start_ps + self.duration_ps))
        to_come = np.flatnonzero(mine & (self.start_ps > time_ps))
        if not len(running) + len(to_come):
            return None
        start = self.start_ps
        row = running[start[running].argmax()] if len(running) else to_come[start[to_come].argmin()]
        return self.names[self.name[row]], int(start[row])


def list_module_runs(events: HostEvents) -> ModuleRuns:
    """List all events of the module lines of a host's TPUs, SparseCores among them."""
    planes = [plane for plane in events.planes if plane.name.startswith(f"{_DEVICE}TPU:")]
    lines = [(i, line) for i, plane in enumerate(planes) for line in plane.lines if line.name == _MODULE_LINE]
    counts = [line.last - line.first for _, line in lines]
    rows = join_parts(np.arange(line.first, line.last) for _, line in lines)
    base = np.repeat(np.array([line.base_ps for _, line in lines], np.int64), counts)
    metas, name = number_values(events.meta[rows])
    return ModuleRuns(
        name.astype(np.int32),
        np.repeat(np.array([i for i, _ in lines], np.int32), counts),
        events.start_ps[rows] - base,
        events.start_ps[rows],
        events.duration_ps[rows],
        [events.names[meta] for meta in metas.tolist()],
        [plane.name.removeprefix(_DEVICE) for plane in planes],
    )


@dataclass(frozen=True, slots=True, eq=False)
class MemorySteps:
    """Steps of a host, in order of their begin: their numbers and times."""

    number: Int64s
    start_ps: Int64s
    end_ps: Int64s

    @classmethod
    def none(cls) -> MemorySteps:
        return cls(*(np.zeros(0, np.int64) for _ in range(3)))

    @classmethod
    def of(cls, database: StepDatabase) -> MemorySteps:
        """Take the times of each step on the first core that took part."""
        rows = np.flatnonzero(database.present.any(axis=1))
        if not len(rows):
            return cls.none()
        core = database.present[rows].argmax(axis=1)
        start, duration = database.begin_ps[rows, core], database.duration_ps[rows, core]
        order = sort_rows(start, rows)
        start, duration = start[order], duration[order]
        return cls(database.number[rows][order], start, add_exactly(start, duration, _AMOUNTS))

    def __len__(self) -> int:
        return len(self.number)

    def at(self, time_ps: Int64s) -> tuple[Int64s, Bools]:
        """Return the step at each time, and whether there is one."""
        place = find_steps(self.start_ps, self.end_ps, time_ps)
        known = place >= 0
        number: Int64s = np.append(self.number, 0).take(place, mode="wrap")
        return number, known


@dataclass(frozen=True, slots=True, eq=False)
class HostOutline:
    """The small part of a host's state. ``hardware``: GPU, TPU or CPU_ONLY; ``begin_ps``, ``end_ps``: of the capture;
    ``threads``: how many may compute; ``chosen``: only events within ``steps`` are reported, though all are there;
    ``of_torch``: PyTorch's profiler recorded it; ``of_runs``: TensorFlow 1 did; ``device_bytes``: memory of the devices
    of its allocators, by name."""

    host: str
    hardware: str
    has_host_plane: bool
    begin_ps: int
    end_ps: int
    steps: MemorySteps
    threads: int = 1
    chosen: bool = False
    of_torch: bool = False
    of_runs: bool = False
    device_bytes: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class HostMemory:
    """The recorded memory of a host. ``modules``: runs of programs."""

    about: HostOutline
    events: MemoryEvents
    modules: ModuleRuns

    def limits(self) -> tuple[Bools, Int64s]:
        """Return whether the limit of each event's allocator is known, and what it may use. Free memory of PyTorch's
        allocators is only what they have reserved of the device."""
        events = self.events
        if not self.about.of_torch:
            return events.has(FREE), events.in_use_bytes + events.free_bytes
        sizes = np.array([self.about.device_bytes.get(name, 0) for name in events.allocators] or [0], np.int64)
        limit = sizes[events.allocator]
        return limit > 0, limit

    @property
    def names(self) -> list[str]:
        """Names of allocators for display: numbers are those of devices."""
        kind = "device" if self.about.hardware == "CPU_ONLY" else self.about.hardware
        return [f"{kind} {name}" if name.isdigit() else name for name in self.events.allocators]

    def step_of_events(self) -> tuple[Int64s, Bools]:
        """Return the step at the time of each event, and whether there is one."""
        return self.about.steps.at(self.events.start_ps)

    def chosen_events(self) -> MemoryEvents:
        """Return the events within the chosen steps."""
        return self.events.only(self.step_of_events()[1]) if self.about.chosen else self.events


class MemoryFigures:
    """Figures of one host. Arrays [k] are by allocator, [n] by event; events are -1 if there is none.

    ``allocator``: [n]. ``in_use_bytes``, ``in_use_known``: [n]. ``site``: [n] what the memory is for, or -1. ``step``:
    [n] the step at the time of the event, and whether there is one. ``shown``: [n] events within the chosen steps, or
    None for all. ``peak``: [k] event of the first peak, at ``peak_ps``. ``active``: what is alive then, ``groups``: in
    groups. ``at``: [k] the events after which --at reports memory, ``active_at``: what is alive then. ``fits``: answers
    to --request. ``limit_known``, ``limit_bytes``: see HostMemory.limits."""

    def __init__(self, memory: HostMemory, at_ps: int | None, short_lived_us: int, request_bytes: int | None) -> None:
        """Compute the figures. ``at_ps``: a further time at which to report live memory, or None; ``request_bytes``:
        the size of a request that might have fitted, or None."""
        events, steps, workers = memory.events, memory.about.steps, Workers(memory.about.threads)
        self.memory = memory
        self.at = None if at_ps is None else find_snapshots_at(events, at_ps)
        short_ps = min(short_lived_us * US, 2**63 - 1)
        self.matches = get_matches(events)
        for compute in (get_moved_bytes, find_breaks, measure_lifetimes):  # several tasks need them
            compute(events)
        first: list[Callable[[], Any]] = [
            lambda: list_step_rows(events, steps.start_ps, steps.end_ps, short_ps),
            memory.step_of_events,
        ]
        self.windows: StepRows
        self.step: tuple[Int64s, Bools]
        self.windows, self.step = workers.run(None, first)
        self.shown = self.step[1] if memory.about.chosen else None
        self.peak: Int64s
        self.peak_ps: Int64s
        if memory.about.chosen:  # memory in use as the steps began counts too
            self.peak, begin = self.windows.highest, np.append(steps.start_ps, 0)[self.windows.highest_window]
            self.peak_ps = np.where(self.peak >= 0, np.maximum(events.start_ps[self.peak], begin), -1)
        else:
            self.peak = find_peaks(events)
            self.peak_ps = events.start_ps[self.peak]
        self.fragmentation: FreeChunks
        self.ops: OpLifetimes
        self.growth: OpGrowth
        self.active: LiveSets
        self.active_at: LiveSets | None
        self.site: Int32s
        tasks: list[Callable[[], Any]] = [
            lambda: FreeChunks(events, workers),
            lambda: OpLifetimes(events, short_ps, self.shown),
            lambda: OpGrowth(events, np.sort(steps.end_ps)),
            lambda: find_live_sets(events, self.peak),
            lambda: None if self.at is None else find_live_sets(events, self.at),
            lambda: find_allocating_sites(events),
        ]
        results = workers.run(None, tasks)
        self.fragmentation, self.ops, self.growth, self.active, self.active_at, self.site = results
        self.allocator, self.in_use_bytes = events.allocator, events.in_use_bytes
        self.in_use_known = events.has(STACK) | events.has(HEAP)
        self.limit_known, self.limit_bytes = memory.limits()
        self.groups = LiveGroups(self.active.rows, events.sites)
        size, chunks = request_bytes, self.fragmentation
        limits = (self.limit_known, self.limit_bytes - self.in_use_bytes)
        self.fits = None if size is None else RequestFits(events, chunks, size, limits, self.shown)

    @property
    def about(self) -> HostOutline:
        return self.memory.about

    @property
    def events(self) -> MemoryEvents:
        return self.memory.events

    def allocator_name(self, allocator: int) -> str:
        return self.memory.names[allocator] or "an allocator without a name"

    def op_name(self, number: int) -> str:
        """Return the name of an op. ``number``: in op_names, or -1."""
        name = self.events.sites.op_names[number] if number >= 0 else None
        return "an op that is not recorded" if name is None else name

    def within(self, which: Bools) -> Bools:
        """Return which marked events [n] are within the chosen steps."""
        return which if self.shown is None else which & self.shown

    def counts(self, which: Bools) -> Int64s:
        """Count the marked events of each allocator within the chosen steps."""
        return np.asarray(np.add.reduceat(self.within(which), self.events.bounds[:-1], dtype=np.int64))

    def at_peak(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return the values at each allocator's peak, 0 without one. ``values``: by event."""
        return np.asarray(values[self.peak] * (self.peak >= 0))


def find_tightest(host: MemoryFigures) -> Int64s:
    """Return, by allocator, the event after which most free memory is in chunks too small for the largest allocation
    that follows, or -1 if none is known."""
    chunk, bounds = host.fragmentation, host.events.bounds
    most, least = (
        column if host.shown is None else np.where(host.shown, column, -1)
        for column in (chunk.too_small_most, chunk.too_small_least)
    )
    tightest_most, tightest_least = find_first_largest(most, bounds), find_first_largest(least, bounds)
    some = (tightest_least >= 0) & (least[tightest_least] > 0)
    worst = np.where(some, tightest_least, tightest_most)
    return np.where((worst >= 0) & (most[worst] <= 0), -1, worst)


def find_kept_out(host: MemoryFigures) -> Bools:
    """Return the events after which enough was free for the largest allocation that follows, but no chunk was large
    enough. Allocators that take more from the device instead do not count."""
    chunk = host.fragmentation
    free, known = host.events.free_bytes, host.events.has(FREE) & (chunk.largest_free_high >= 0)
    wanted = chunk.next_largest_bytes
    known = host.within(known) & ~chunk.grows[host.allocator]
    return known & (wanted > 0) & (free >= wanted) & (chunk.largest_free_high < wanted) & (chunk.too_small_least >= 0)


def measure_held_before(host: MemoryFigures) -> Int64s:
    """Return, by allocator, what was in use at the peak and already before the capture."""
    rows = host.active.rows
    before = (rows.source == HELD_BEFORE_FREED_LATER) | (rows.source == HELD_THROUGHOUT)
    before &= rows.total_bytes >= 0
    return sum_by(rows.allocator[before], rows.total_bytes[before], len(host.peak), _AMOUNTS)


Numbers = npt.NDArray[Any]
"""Arrays, masked ones among them; masked values are null."""

SIZED: Final = Need("peak_bytes", "no size of an allocation is recorded")


class TextCells(NamedTuple):
    """Texts of rows: ``values[at[i]]`` in row i, null if the value is None, or ``at`` is -1."""

    values: Sequence[str | None]
    at: Numbers


def mask_unknown(values: Numbers, which: Numbers) -> Numbers:
    """Return the values, null unless marked."""
    return values if which.all() else np.ma.masked_array(values, ~which)


def mask_negative(sizes: Numbers) -> Numbers:
    return mask_unknown(sizes, sizes >= 0)


@dataclasses.dataclass(frozen=True, eq=False)
class HostMemoryRows:
    """Rows of one host. ``allocator``: number of each row's allocator; ``at``: its event, or -1; ``site``: what its
    memory is for, or -1; ``values``: object with the other columns; ``before``: number of snapshots of the hosts before
    this one."""

    host: MemoryFigures
    allocator: Numbers
    at: Any = None
    site: Any = None
    values: Any = None
    before: int = 0

    @property
    def events(self) -> MemoryEvents:
        return self.host.events

    def in_use(self, at: Any) -> Numbers:
        """Return memory in use after some events, null for -1."""
        return mask_unknown(self.host.in_use_bytes[at], self.host.in_use_known[at] & _is_some(at))

    def step(self, at: Any, which: Any = True) -> Numbers:
        """Return the step at the time of some events."""
        step, in_step = self.host.step
        return mask_unknown(step[at], in_step[at] & which)

    def following(self, before: int) -> HostMemoryRows:
        """Move the rows behind ``before`` snapshots of other hosts."""
        return replace(self, before=before)

    def amounts(self, name: str) -> Int64s:
        """Return the field of ``values`` with this name."""
        column: Int64s = getattr(self.values, name)
        return column

    def column(self, column: Column) -> Any:
        if column.of:
            return column.of(self)
        values: Numbers = getattr(self.values, column.name)
        return mask_negative(values) if column.nullable else values


class StoredMemoryRows(NamedTuple):
    """Rows of one host without its events: their columns, as formulas give them."""

    allocator: Numbers
    columns: Mapping[str, Any]

    @classmethod
    def of(cls, schema: TableSchema, rows: HostMemoryRows) -> StoredMemoryRows:
        return cls(rows.allocator, {column.name: rows.column(column) for column in schema.columns})

    def following(self, before: int) -> StoredMemoryRows:
        return self._replace(columns={**self.columns, FIRST_SNAPSHOT: self.columns[FIRST_SNAPSHOT] + before})

    def amounts(self, name: str) -> Int64s:
        column: Int64s = np.ma.getdata(self.columns[name])
        return column

    def column(self, column: Column) -> Any:
        return self.columns[column.name]


def make_recorded_formula(column: str, at: Formula = attrgetter("at")) -> Formula:
    """Make the formula of a figure of each row's event, null if the event does not record it. ``at``: the events."""
    bit = NUMBERS[column][1]

    def of(rows: HostMemoryRows) -> Numbers:
        events = at(rows)
        has = (rows.events.recorded[events] & bit) != 0
        return mask_unknown(getattr(rows.events, column)[events], has & _is_some(events))

    return of


def _is_some(at: Any) -> Any:
    """Return which events exist; -1 stands for none."""
    return isinstance(at, slice) or at >= 0


def get_fragmentation(rows: HostMemoryRows, at: Any = None) -> Numbers:
    """Return the fragmentation after the event of each row, or after other events ``at``."""
    at = rows.at if at is None else at
    numbers = rows.events.fragmentation[at]
    return mask_unknown(numbers, np.isfinite(numbers) & _is_some(at))


FIRST_SNAPSHOT: Final = "first_snapshot"
"""Name of the column that counts snapshots of the hosts before."""

MOMENT: Final = "from the start of the host's capture"

NONE: Final = "null: not recorded"

STEP: Final = "null: no step at that time"

WHOSE = (
    Text("host", "host, named after its capture file",
         lambda rows: TextCells([rows.host.about.host], np.zeros(len(rows.allocator), np.int32))),
    Text("allocator", "name of the allocator (allocator_name), or the number of the device (device_ordinal, "
         "index_on_host)", lambda rows: TextCells(rows.host.memory.names, rows.allocator)),
)  # fmt: skip

WHAT = (
    Text("op_name", f"op that requested the memory (tf_op); {NONE}",
         lambda rows: TextCells(rows.events.sites.names[0], rows.site)),
    Text("region_type", f"purpose of the memory, such as temp, output, persist/dynamic; {NONE}",
         lambda rows: TextCells(rows.events.sites.names.region_type, rows.site)),
    Text("data_type", f"tensor element type; {NONE}",
         lambda rows: TextCells(rows.events.sites.names.data_type, rows.site)),
    Text("shape", f"tensor shape; {NONE}", lambda rows: TextCells(rows.events.sites.names.shape, rows.site)),
)  # fmt: skip


def build_table(
    schema: TableSchema,
    parts: Sequence[HostMemoryRows | StoredMemoryRows],
    order: Numbers | None = None,
    texts: Mapping[str, Iterable[Sequence[str | None]]] = MappingProxyType({}),
) -> pa.Table:
    """Join the rows of all parts, one after the other, then in this order. A column without a formula is the field of
    ``rows.values`` that has its name; if it may be null, negative values are null. ``texts``: by column, texts that are
    numbered before those of the rows, so that tables with the same ones can follow one another."""
    if not parts:
        return schema.empty()
    arrays = [_build_column(column, parts, order, texts.get(column.name, ())) for column in schema.columns]
    fields = [column.field(array.type) for column, array in zip(schema.columns, arrays, strict=True)]
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))


def _build_column(
    column: Column,
    parts: Sequence[HostMemoryRows | StoredMemoryRows],
    order: Numbers | None,
    texts: Iterable[Sequence[str | None]],
) -> pa.Array:
    pieces: list[Any] = [rows.column(column) for rows in parts]
    if isinstance(pieces[0], TextCells):
        return _join_texts(pieces, order, texts)
    values = pieces[0] if len(pieces) == 1 else np.ma.concatenate(pieces)  # type: ignore[no-untyped-call]
    return pa.array(values if order is None else values[order], column.type)


def _join_texts(
    pieces: Sequence[TextCells], order: Numbers | None, before: Iterable[Sequence[str | None]]
) -> pa.DictionaryArray:
    """Number texts in the narrowest type: there are few texts, and any number of rows."""
    place: dict[str, int] = {}
    numbers = [
        [-1 if value is None else place.setdefault(value, len(place)) for value in (*values, None)]
        for values in (*before, *(piece.values for piece in pieces))
    ][-len(pieces) :]
    narrow = np.min_scalar_type(-1 - len(place))  # signed
    rows = np.concatenate([  # of place -1, the None at the end
        np.array(number, narrow).take(piece.at, mode="wrap") for number, piece in zip(numbers, pieces, strict=True)
    ])  # fmt: skip
    rows = rows if order is None else rows[order]
    indices = pa.array(rows, mask=rows < 0 if (rows < 0).any() else None)
    return pa.DictionaryArray.from_arrays(indices, pa.array(list(place), pa.string()), safe=False)
