"""Allocations and frees of one host as its allocators recorded them: columns by allocator, in the order of time.

Allocators record an event MemoryAllocation or MemoryDeallocation on the thread that asked, with how much memory is in
use and free right after it. TensorFlow's BFC allocator (``bytes_allocated`` is what is in use, ``bytes_available`` the
rest of its limit) and those of TPUs do.

PyTorch's caching allocators are recorded as instants ``[memory]``, which Kineto writes with profile_memory. Each has
``Bytes``, below 0 for a free, the address, the device, and what the allocator holds after it. Unlike other allocators,
what is "free" is not what the device has left but what the allocator keeps for later: Total Reserved less Total
Allocated. What it may use is all of the device. ``[OutOfMemory]`` does not count: that memory was not given.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from fastprof._native import records
from fastprof._native.grouping import parents
from fastprof._native.memory_kernels import stat_beside
from fastprof.decode.workers import Workers
from fastprof.derive.devices import op_names
from fastprof.errors import CaptureError
from fastprof.schema.columns import (
    Bools,
    Int32s,
    Int64s,
    add_exactly,
    count_bounds,
    find_first_rows,
    number_distinct_rows,
    number_keys,
    number_values,
    sort_rows,
)
from fastprof.tables.host_events import HOST_THREADS, HostEvents, KeptValues, Stat, join_stat
from fastprof.wording.patterns import compile_late

_NO_NAME = ("", "(null)")
"""Texts that profilers write for a missing text."""
_NUMBER = compile_late(r"(?<![A-Z0-9])[0-9]+(?![0-9A-Za-z])", re.ASCII)
"""Pattern of a number at the end of a word, as in layer_12 and layer12; not those in Conv2D and ConcatV2."""


class SiteNames(NamedTuple):
    """Names for display, by site; None if unknown."""

    op_name: list[str | None]
    region_type: list[str | None]
    data_type: list[str | None]
    shape: list[str | None]


@dataclass(frozen=True, eq=False)
class Sites:
    """Distinct sites, by number: texts and numbers of data types as recorded, or None."""

    op: list[str | None]
    region: list[str | None]
    shape: list[str | None]
    data_type: list[int | None]

    def __len__(self) -> int:
        return len(self.op)

    @cached_property
    def names(self) -> SiteNames:
        types = {number: format_data_type(number) for number in set(self.data_type) - {None, INVALID}}
        named: list[str | None] = [None if number is None else types.get(number) for number in self.data_type]
        return SiteNames(_make_names(self.op), _make_names(self.region), named, _make_names(self.shape))

    @cached_property
    def _ops(self) -> tuple[list[str | None], Int32s]:
        place: dict[str | None, int] = {}
        number = [place.setdefault(name, len(place)) for name in self.names.op_name]
        return list(place), np.array(number, np.int32)

    @property
    def op_names(self) -> list[str | None]:
        """Distinct names of ops; None, if it is among them, stands for unknown ops."""
        return self._ops[0]

    @cached_property
    def like_names(self) -> list[str | None]:
        """Names of ``op_names``, with numbers at the ends of words replaced by *."""
        return [None if name is None else _NUMBER.sub("*", name) for name in self.op_names]

    @property
    def op_number(self) -> Int32s:
        """Place of each site's op in ``op_names``."""
        return self._ops[1]


def _make_names(texts: Sequence[str | None]) -> list[str | None]:
    return [None if text in _NO_NAME else text for text in texts]


INVALID = 0
_NAMES = {
    INVALID: "INVALID",
    1: "float",
    2: "double",
    3: "int32",
    4: "uint8",
    5: "int16",
    6: "int8",
    7: "string",
    8: "complex64",
    9: "int64",
    10: "bool",
    11: "qint8",
    12: "quint8",
    13: "qint32",
    14: "bfloat16",
    15: "qint16",
    16: "quint16",
    17: "uint16",
    18: "complex128",
    19: "half",
    20: "resource",
    21: "variant",
    22: "uint32",
    23: "uint64",
    24: "float8_e5m2",
    25: "float8_e4m3fn",
    26: "float8_e4m3fnuz",
    27: "float8_e4m3b11fnuz",
    28: "float8_e5m2fnuz",
    29: "int4",
    30: "uint4",
}
_REFERENCE = 100
"""Offset of references: a larger number is a reference to the type of the number minus this."""


def format_data_type(number: int | None) -> str:
    """Return TensorFlow's name of the type, or "" if none is recorded. Only 32 bits of the number count."""
    if number is None:
        return ""
    number = (number + 2**31) % 2**32 - 2**31
    return f"{_format_plain_type(number - _REFERENCE)}_ref" if number > _REFERENCE else _format_plain_type(number)


def _format_plain_type(number: int) -> str:
    return _NAMES.get(number) or f"unknown dtype enum ({number})"


TORCH_EVENT: Final = "[memory]"
TORCH_STATS: Final = ("Bytes", "Addr", "Device Type", "Device Id", "Total Allocated", "Total Reserved", "Ev Idx")
_CPU: Final = 0
"""Device Type of the host's memory."""


def has_torch_memory(events: HostEvents) -> bool:
    """Return whether the host has allocations of PyTorch."""
    return TORCH_EVENT in events.names and op_names.is_kineto(events)


def find_torch_rows(events: HostEvents) -> tuple[Int32s, Bools]:
    """Return the rows of allocations and frees on the host's threads, and which of them are allocations."""
    plane = events.plane_named(HOST_THREADS)
    if plane is None or not has_torch_memory(events):
        return np.zeros(0, np.int32), np.zeros(0, np.bool_)
    named = np.array([name == TORCH_EVENT for name in events.names], np.bool_)
    rows = plane.first + np.flatnonzero(named[events.meta[plane.first : plane.last]])
    has, size = join_stat(rows, *events.ints("Bytes"))
    changes = has & (size != 0)
    return rows[changes].astype(np.int32), size[changes] > 0


def read_torch_allocators(events: HostEvents, rows: Int32s) -> tuple[list[str], Int32s]:
    """Return the names of allocators, CPU and GPU_0, sorted, and the number of each row's allocator."""
    _, kind = join_stat(rows, *events.ints("Device Type"))
    _, device = join_stat(rows, *events.ints("Device Id"))
    device = np.maximum(device, 0)
    first, number = number_distinct_rows([kind, device])
    places = zip(kind[first].tolist(), device[first].tolist(), strict=True)
    return _sort_names(["CPU" if kind == _CPU else f"GPU_{device}" for kind, device in places], number)


def _sort_names(keyed: list[str], number: npt.NDArray[np.integer[Any]]) -> tuple[list[str], Int32s]:
    """Return the distinct names, sorted, and the place of each row's. ``number``: place of each row in ``keyed``."""
    names = sorted(set(keyed))
    place = {name: i for i, name in enumerate(names)}
    return names, np.array([place[name] for name in keyed], np.int32)[number]


def read_device_sizes(events: HostEvents) -> dict[str, int]:
    """Return the memory of each allocator's GPU, if recorded. PyTorch counts the devices that it sees, ROCm's events
    all of the machine: if no plane has the number of an allocator, the place among planes counts."""
    recorded = [(plane.ordinal, plane.stats.get("memory_size")) for plane in events.planes_of("GPU")]
    sizes = {f"GPU_{number}": size for number, size in recorded}
    by_place = {f"GPU_{place}": size for place, (_, size) in enumerate(recorded)}
    return {name: size for name, size in (by_place | sizes).items() if isinstance(size, int) and size > 0}


def sort_torch_rows(events: HostEvents, rows: Int32s, allocator: Int32s) -> Int64s:
    """Sort by allocator, then time, then the profiler's number, because threads write instants with equal times."""
    _, place = join_stat(rows, *events.ints("Ev Idx"))
    order: Int64s = sort_rows(allocator, events.start_ps[rows], place)
    return order


def read_torch_amounts(events: HostEvents, rows: Int32s) -> dict[str, tuple[Bools, Int64s]]:
    """Read columns of MemoryEvents: whether each row has the value, and the value."""
    has_size, size = join_stat(rows, *events.ints("Bytes"))
    has_total, total = join_stat(rows, *events.ints("Total Allocated"))
    has_reserved, reserved = join_stat(rows, *events.ints("Total Reserved"))
    kept = has_total & has_reserved & (reserved > 0)
    return {
        "address": join_stat(rows, *events.ints("Addr")),
        "allocation_bytes": (has_size, np.abs(size)),
        "heap_bytes": (has_total, total),
        "free_bytes": (kept, np.where(kept, reserved - total, 0)),
    }


def read_torch_sites(events: HostEvents, rows: Int32s) -> tuple[Int32s, Sites]:
    """Return the number of each row's site, the op around it on its thread, and the distinct sites."""
    ops = op_names.is_op(events)
    parent = np.full(len(events), -1, np.int32)
    plane = events.plane_named(HOST_THREADS)
    lines = [] if plane is None else [(line.first, line.last) for line in plane.lines]
    bounds = np.array(lines, np.int64).reshape(-1, 2)
    parents(events.start_ps, events.duration_ps, None, np.zeros((0, 3), np.int64), bounds, parent, events.slack_ps)
    above = parent[rows]
    while (further := (above >= 0) & ~ops[events.meta[above]]).any():
        above[further] = parent[above[further]]
    meta = np.where(above < 0, -1, events.meta[above])
    distinct, number = number_values(meta)
    names: list[str | None] = [None if name < 0 else events.names[name] for name in distinct.tolist()]
    nothing: list[str | None] = [None] * len(names)
    return number.astype(np.int32), Sites(names, nothing, nothing, [None] * len(names))


Bits = npt.NDArray[np.uint16]

ALLOCATION_EVENT, FREE_EVENT = "MemoryAllocation", "MemoryDeallocation"
EVENTS = (ALLOCATION_EVENT, FREE_EVENT, TORCH_EVENT)
ADDRESS, REQUESTED, ALLOCATION, STACK, HEAP, FREE, LIFETIME_PEAK, FRAGMENTATION, DATA_TYPE = (1 << i for i in range(9))
"""Bits of ``recorded`` and of ``unsigned``."""

NUMBERS = {
    "address": ("addr", ADDRESS),
    "requested_bytes": ("requested_bytes", REQUESTED),
    "allocation_bytes": ("allocation_bytes", ALLOCATION),
    "stack_bytes": ("bytes_reserved", STACK),
    "heap_bytes": ("bytes_allocated", HEAP),
    "free_bytes": ("bytes_available", FREE),
    "lifetime_peak_bytes": ("peak_bytes_in_use", LIFETIME_PEAK),
}
"""Stat and bit of each column."""
_ALLOCATOR = ("allocator_name", "device_ordinal", "index_on_host")
"""Stats with the name of the allocator; the first that the event has counts."""
_SITE = ("tf_op", "region_type", "shape", "data_type")
STATS = (*_ALLOCATOR, *(name for name, _ in NUMBERS.values()), "fragmentation", *_SITE, *TORCH_STATS)
"""Stats of events that are read; group_id comes from the groups of the host."""


_BY_EVENT = ("row", "line", "start_ps", "is_allocation", *NUMBERS, "fragmentation", "group", "recorded", "site")
"""Columns of MemoryEvents. The column ``unsigned`` may be None."""


@dataclass(frozen=True, eq=False)
class MemoryEvents:
    """Allocations and frees. Those of allocator a, ``allocators[a]``, are ``bounds[a]`` to ``bounds[a + 1]``, ordered
    by time, those of equal times as in the capture. Bytes are 0 where ``recorded`` says that they are not recorded.

    ``allocators``: names, sorted. ``lines``: names of the threads; ``line_base_ps``: start of each line. ``row``: row
    in the HostEvents. ``address``: the bits of an unsigned number. ``fragmentation``: NaN if it is not recorded.
    ``group``: -1 if there is none. ``unsigned``: bits of values other than 0 that were not written as what XProf reads
    them as, an int64 or, fragmentation, a double; None if there are none. ``site``: number in ``sites``."""

    host: str
    allocators: list[str]
    bounds: Int64s
    lines: list[str]
    line_base_ps: Int64s
    row: Int32s
    line: Int32s
    start_ps: Int64s
    is_allocation: npt.NDArray[np.bool_]
    address: Int64s
    requested_bytes: Int64s
    allocation_bytes: Int64s
    stack_bytes: Int64s
    heap_bytes: Int64s
    free_bytes: Int64s
    lifetime_peak_bytes: Int64s
    fragmentation: npt.NDArray[np.float64]
    group: Int32s
    recorded: Bits
    unsigned: Bits | None
    site: Int32s
    sites: Sites
    kept: KeptValues = field(default_factory=dict, repr=False)

    def __len__(self) -> int:
        return len(self.start_ps)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "kept": {}}

    def has(self, bit: int) -> npt.NDArray[np.bool_]:
        """Return whether each event has the stat of a bit."""
        has: npt.NDArray[np.bool_] = (self.recorded & bit) != 0
        return has

    def of_allocator(self, number: int) -> slice:
        return slice(int(self.bounds[number]), int(self.bounds[number + 1]))

    def in_groups(self, group_id: Int32s) -> MemoryEvents:
        """Set the groups of events. ``group_id``: group of each row of the HostEvents."""
        return replace(self, group=group_id[self.row])

    def only(self, chosen: npt.NDArray[np.bool_]) -> MemoryEvents:
        """Select events, and drop allocators that have none of them."""
        counts = np.add.reduceat(chosen, self.bounds[:-1], dtype=np.int64) if len(self) else np.zeros(0, np.int64)
        columns = {name: getattr(self, name)[chosen] for name in _BY_EVENT}
        return replace(
            self,
            allocators=[name for name, count in zip(self.allocators, counts.tolist(), strict=True) if count],
            bounds=count_bounds(counts[counts > 0]).astype(np.int64),
            unsigned=None if self.unsigned is None else self.unsigned[chosen],
            kept={},
            **columns,
        )

    @property
    def offset_ps(self) -> Int64s:
        """Times since the start of each event's line."""
        offset: Int64s = self.start_ps - self.line_base_ps[self.line]
        return offset

    @property
    def allocator(self) -> Int32s:
        """Number of each event's allocator."""
        return np.repeat(np.arange(len(self.allocators), dtype=np.int32), np.diff(self.bounds))

    @cached_property
    def in_use_bytes(self) -> Int64s:
        """Stack and heap right after each event. CaptureError: they exceed 64 bits."""
        if not self.stack_bytes.any():
            return self.heap_bytes
        return add_exactly(self.stack_bytes, self.heap_bytes, "bytes_reserved and bytes_allocated of an event")

    @cached_property
    def ranked_in_use(self) -> Int64s:
        """Column in_use_bytes to find maxima by: less than any other value if neither stack nor heap is recorded."""
        known = self.has(STACK | HEAP)
        return self.in_use_bytes if known.all() else np.where(known, self.in_use_bytes, np.iinfo(np.int64).min)


def read_memory_events(
    events: HostEvents, group_id: Int32s | None = None, workers: Workers | None = None
) -> MemoryEvents:
    """Read the events of the plane of the host's threads. ``group_id``: group of each row of ``events``, or -1; it may
    be given later, by ``in_groups``."""
    if has_torch_memory(events):
        return _read_torch_events(events, group_id)
    rows, is_allocation = _find_rows(events)
    start = events.start_ps[rows]
    names, allocator = _read_allocators(events, rows, workers or Workers(1))
    order = _sort_rows(start, allocator, len(names))
    place = np.empty(len(order), np.int32)
    place[order] = np.arange(len(order), dtype=np.int32)
    reader = StatReader(events, rows, place, workers or Workers(1))
    site_number, sites = _read_sites(events, reader)  # first: its columns are not kept
    numbers: dict[str, Any] = {
        column: (reader.integers if bit == ADDRESS else reader.sizes)(stat, bit)
        for column, (stat, bit) in NUMBERS.items()
    }
    fragmentation = reader.doubles("fragmentation", FRAGMENTATION)
    reader.run()
    lines, bases, line = _find_lines(events, rows)
    counts = np.bincount(allocator, minlength=len(names))
    return MemoryEvents(
        host=events.host,
        allocators=names,
        bounds=count_bounds(counts).astype(np.int64),
        lines=lines,
        line_base_ps=bases,
        row=rows[order],
        line=line[order],
        start_ps=start[order],
        is_allocation=is_allocation[order],
        fragmentation=fragmentation,
        group=np.full(len(rows), -1, np.int32) if group_id is None else group_id[rows[order]],
        recorded=reader.recorded,
        unsigned=reader.odd if reader.any_odd else None,
        site=site_number,
        sites=sites,
        **numbers,
    )


def _read_torch_events(events: HostEvents, group_id: Int32s | None) -> MemoryEvents:
    rows, is_allocation = find_torch_rows(events)
    names, allocator = read_torch_allocators(events, rows)
    order = sort_torch_rows(events, rows, allocator)
    rows, is_allocation = rows[order], is_allocation[order]
    known = read_torch_amounts(events, rows)
    recorded = np.zeros(len(rows), np.uint16)
    for column, (has, _) in known.items():
        recorded[has] |= NUMBERS[column][1]
    numbers: dict[str, Any] = {column: np.zeros(len(rows), np.int64) for column in NUMBERS}
    numbers |= {column: np.where(has, values, 0) for column, (has, values) in known.items()}
    site, sites = read_torch_sites(events, rows)
    ascending = np.argsort(rows)
    lines, bases, line = _find_lines(events, rows[ascending])
    of_row = np.empty(len(rows), np.int32)
    of_row[ascending] = line
    return MemoryEvents(
        host=events.host,
        allocators=names,
        bounds=count_bounds(np.bincount(allocator, minlength=len(names))).astype(np.int64),
        lines=lines,
        line_base_ps=bases,
        row=rows,
        line=of_row,
        start_ps=events.start_ps[rows],
        is_allocation=is_allocation,
        fragmentation=np.full(len(rows), np.nan),
        group=np.full(len(rows), -1, np.int32) if group_id is None else group_id[rows],
        recorded=recorded,
        unsigned=None,
        site=site,
        sites=sites,
        **numbers,
    )


def _find_rows(events: HostEvents) -> tuple[Int32s, npt.NDArray[np.bool_]]:
    """Return the rows of the events, ascending, and which of them are allocations."""
    plane = events.plane_named(HOST_THREADS)
    if plane is None or plane.first == plane.last:
        return np.zeros(0, np.int32), np.zeros(0, np.bool_)
    kind = np.zeros(len(events.names), np.uint8)
    kind[[i for i, name in enumerate(events.names) if name == FREE_EVENT]] = 1
    kind[[i for i, name in enumerate(events.names) if name == ALLOCATION_EVENT]] = 2
    kinds = kind[events.meta[plane.first : plane.last]]
    rows = np.flatnonzero(kinds)
    return (rows + plane.first).astype(np.int32), kinds[rows] == 2


def _sort_rows(start: Int64s, allocator: Int32s, count: int) -> Int64s:
    """Sort by allocator, then time, keeping the order of equal ones. Sorting is quick because each line is in order."""
    order: Int64s = np.argsort(start, kind="stable")
    if count > 1:
        narrow = allocator.astype(np.uint16) if count <= 1 << 16 else allocator
        order = order[np.argsort(narrow[order], kind="stable")]
    return order


def _find_lines(events: HostEvents, rows: Int32s) -> tuple[list[str], Int64s, Int32s]:
    """Return names and starts of the lines that hold any of the rows, which ascend, and the line of each row."""
    every = sorted((line for line in events.lines if line.first < line.last), key=lambda line: line.first)
    counts = np.diff(np.searchsorted(rows, [line.first for line in every]), append=len(rows))
    used = [(line, count) for line, count in zip(every, counts.tolist(), strict=True) if count]
    number = np.repeat(np.arange(len(used), dtype=np.int32), [count for _, count in used])
    return [line.name for line, _ in used], np.array([line.base_ps for line, _ in used], np.int64), number


def _read_allocators(events: HostEvents, rows: Int32s, workers: Workers) -> tuple[list[str], Int32s]:
    """Return the names of allocators, sorted, and the number of each event's allocator."""
    reader = StatReader(events, rows, np.arange(len(rows), dtype=np.int32), workers)
    there = [name for name in _ALLOCATOR if len(events.stat(name))]
    if not there:
        return [""] * bool(len(rows)), np.zeros(len(rows), np.int32)
    columns = [reader.texts(name) if name == _ALLOCATOR[0] else reader.integers(name, 0, NOT_THERE) for name in there]
    reader.run()
    number, count = number_keys(columns)
    first, keyed = find_first_rows(number, count), []
    for recorded in zip(*(column[first].tolist() for column in columns), strict=True):
        name, value = next(((name, at) for name, at in zip(there, recorded, strict=True) if at != NOT_THERE), (None, 0))
        keyed.append("" if name is None else events.text(value) if name == _ALLOCATOR[0] else str(value))
    return _sort_names(keyed, number)


def _read_sites(events: HostEvents, reader: StatReader) -> tuple[Int32s, Sites]:
    """Return the site of each event, and the distinct sites."""
    columns = [reader.texts(name) for name in _SITE[:3]] + [reader.integers(_SITE[3], DATA_TYPE, NOT_THERE)]
    reader.run()
    number, count = number_keys(columns)
    first = find_first_rows(number, count)
    op, region, shape = (_read_texts(events, column[first]) for column in columns[:3])
    types = [None if value == NOT_THERE else value for value in columns[3][first].tolist()]
    return number, Sites(op, region, shape, types)


def _read_texts(events: HostEvents, numbers: Int64s) -> list[str | None]:
    there = numbers != NOT_THERE
    texts: list[str | None] = [None] * len(numbers)
    for at, text in zip(np.flatnonzero(there).tolist(), events.all_texts(numbers[there]), strict=True):
        texts[at] = text
    return texts


def find_peaks(events: MemoryEvents) -> Int64s:
    """Return, by allocator, the first event after which most is in use, as far as known."""
    return find_first_largest(events.ranked_in_use, events.bounds)


def find_highest_fragmentation(events: MemoryEvents, shown: npt.NDArray[np.bool_] | None = None) -> Int64s:
    """Return, by allocator, the first event after which memory is most fragmented, or -1 if none is recorded.
    ``shown``: the events that count, or None for all."""
    if not len(events):
        return np.zeros(0, np.int64)
    recorded = events.has(FRAGMENTATION) if shown is None else events.has(FRAGMENTATION) & shown
    first = find_first_largest(np.where(recorded, events.fragmentation, -np.inf), events.bounds)
    return np.where(recorded[first], first, -1)


def find_first_largest(values: npt.NDArray[np.generic], bounds: Int64s) -> Int64s:
    """Return the first place of the largest value in each part."""
    if len(bounds) < 2:
        return np.zeros(0, np.int64)
    largest = np.maximum.reduceat(values, bounds[:-1])
    hits = np.flatnonzero(values == np.repeat(largest, np.diff(bounds)))
    return hits[np.searchsorted(hits, bounds[:-1])].astype(np.int64)


def count_before(events: MemoryEvents, time_ps: Int64s, *, at: bool, which: slice = slice(None)) -> Int64s:
    """Return, for [allocators, times], where the events before each time end; with ``at``, also those of that very
    time. ``which``: the allocators to count for."""
    low = np.repeat(events.bounds[:-1][which, None], len(time_ps), axis=1)
    high = np.repeat(events.bounds[1:][which, None], len(time_ps), axis=1)
    if not low.size:
        return low
    for _ in range(int((high - low).max()).bit_length()):
        middle = (low + high) // 2
        start = events.start_ps[np.minimum(middle, len(events) - 1)]
        before = (start <= time_ps if at else start < time_ps) & (middle < high)
        low = np.where(before, middle + 1, low)
        high = np.where(before, high, middle)
    return low


def find_snapshots_at(events: MemoryEvents, time_ps: int) -> Int64s:
    """Return, by allocator, the last event at or before a time, or -1."""
    ends = count_before(events, np.array([time_ps], np.int64), at=True)[:, 0]
    return np.where(ends > events.bounds[:-1], ends - 1, -1)


# ---- stats of chosen events as columns

_DOUBLES = (records.DOUBLE, records.INT64, records.UINT64)
"""Kinds of a column of doubles, to which integers are converted."""
NOT_THERE: Final = np.iinfo(np.int64).min
_SHARE = 1 << 17
"""Number of rows of a task."""


class StatReader:
    """Reader of columns, which are requested first and then filled by ``run``. Row ``rows[i]``, ascending, is at
    ``place[i]`` of them.

    ``recorded``: bits of the stats that each event has, in a kind that is read. ``odd``: bits of values other than 0
    that are not an int64 (for doubles, not a double), and of stats in a kind that is not read."""

    def __init__(self, events: HostEvents, rows: Int32s, place: Int32s, workers: Workers) -> None:
        self._events = events
        self._rows = rows
        self._place = place
        self._workers = workers
        self._wanted: list[tuple[Stat, Sequence[int], Int64s, int]] = []
        self._sizes: list[tuple[str, Int64s, int]] = []
        self._doubles: list[tuple[npt.NDArray[np.float64], int]] = []
        self.recorded: Bits = np.zeros(len(rows), np.uint16)
        self.odd: Bits = np.zeros(len(rows), np.uint16)
        self.any_odd = False

    def texts(self, name: str) -> Int64s:
        """Return the numbers of texts, NOT_THERE if missing; they have no bit."""
        return self._column(self._events.stat(name), (records.STR, records.REF), NOT_THERE, 0)

    def integers(self, name: str, bit: int, default: int = 0) -> Int64s:
        """Return integers; those beyond 63 bits are negative."""
        return self._column(self._events.stat(name), (records.INT64, records.UINT64), default, bit)

    def sizes(self, name: str, bit: int) -> Int64s:
        """Return integers, 0 if missing; ``run`` raises CaptureError if a value is beyond 63 bits."""
        column = self.integers(name, bit)
        self._sizes.append((name, column, bit))
        return column

    def doubles(self, name: str, bit: int) -> npt.NDArray[np.float64]:
        """Return numbers of any kind, or NaN if missing or not finite."""
        default = int(np.array(np.nan).view(np.int64))
        column: npt.NDArray[np.float64] = self._column(self._events.stat(name), _DOUBLES, default, bit).view(np.float64)
        self._doubles.append((column, bit))
        return column

    def _column(self, stat: Stat, kinds: Sequence[int], default: int, bit: int) -> Int64s:
        count = len(self._rows)
        column = np.full(count, default, np.int64) if default else np.zeros(count, np.int64)
        if len(stat):
            self._wanted.append((stat, kinds, column, bit))
        return column

    def run(self) -> None:
        """Fill the columns. Raise CaptureError: see ``sizes``."""
        shares = range(0, len(self._rows), _SHARE)
        tasks = [lambda first=first: self._fill(slice(first, first + _SHARE)) for first in shares]
        self.any_odd |= any(self._workers.run(None, tasks))
        self._wanted.clear()
        for name, column, bit in self._sizes:
            if self.any_odd and (((self.odd & bit) != 0) & (column < 0) & ((self.recorded & bit) != 0)).any():
                raise CaptureError(f"{name} of an event is beyond 63 bits")
        for numbers, bit in self._doubles:
            endless = np.isinf(numbers)
            if endless.any():
                numbers[endless] = np.nan
            none = np.isnan(numbers)
            if none.any():
                self.recorded[none] &= np.uint16(0xFFFF ^ bit)

    def _fill(self, share: slice) -> bool:
        """Return whether there is anything odd. Shares have places of their own."""
        rows, place = self._rows[share], self._place[share]
        odd = False
        for stat, kinds, column, bit in self._wanted:
            stats = (stat.rows, stat.kind, stat.value)
            odd |= stat_beside(*stats, rows, place, kinds, column, self.recorded, self.odd, bit, kinds is _DOUBLES)
        return odd and bool(self.odd.any())
