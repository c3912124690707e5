"""Values over time: recorded counters, memory in use by allocator, launched kernels in each stream's queue, and copy
bandwidth."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from fastprof._native import records
from fastprof.decode.plane_kinds import find_device_of_plane
from fastprof.derive.memory.memory_events import HEAP, STACK, read_memory_events
from fastprof.derive.memory.memory_events import STATS as MEMORY_STATS
from fastprof.derive.ops.stream_events import GpuStreams, count_queued, read_streams, select_copies
from fastprof.derive.ops.stream_events import StreamSeries as Points
from fastprof.derive.timeline.host_timeline import Process, list_processes
from fastprof.schema.columns import Int64s, find_group_bounds, find_rows_within, number_values, sort_rows
from fastprof.schema.value_classes import dataclass
from fastprof.tables.host_events import COUNTER_LINE, HOST_THREADS, HostEvents, Plane
from fastprof.tables.host_reader import read_host, read_host_lines
from fastprof.tables.table_set import TableSet
from fastprof.wording.patterns import compile_late

_LINES: Final = rf"^{COUNTER_LINE}$"
_THREADS: Final = rf"^{HOST_THREADS}$"
_NUMBERS: Final = (records.INT64, records.UINT64, records.DOUBLE)
_UNITS: Final = {
    "(util %)": "%",
    "(MB/sec)": "MB/s",
    "_percent": "%",
    "_bytes": "bytes",
    "_mhz": "MHz",
    "_mw": "mW",
    "_c": "°C",
}
_BRACKETED: Final = compile_late(r"\[([^][]{1,16})\]$")
"""The unit in a name of XPU's scope profiler: ``GpuTime [ns]``."""
_UNIT_OF_STAT: Final = {"% util": "%", "fills": "", "spills": ""}
"""Stats of hardware units, which say what a value is: the event has the name of the counter."""


@dataclass(frozen=True, slots=True, eq=False)
class Series:
    """``time_ps`` ascends. ``value``: int64 or float64. ``unit``: "": unknown."""

    process: Process
    name: str
    unit: str
    time_ps: Int64s
    value: npt.NDArray[Any]

    def __len__(self) -> int:
        return len(self.time_ps)

    @property
    def title(self) -> str:
        """The name with the unit, unless the name states it, for trace files, which have no other place for units."""
        stated = self.unit in ("", "bytes") or _guess_unit(self.name) == self.unit
        return self.name if stated else f"{self.name} ({self.unit})"


def list_counter_tracks(tables: TableSet, number: int, processes: Sequence[Process] | None = None) -> list[Series]:
    """Of capture ``number`` of the session: what its counter lines count, and of each allocator the bytes in use.

    ``processes``: those of the host, None: as the whole capture has them."""
    known = list_processes(read_host_lines(tables, number)) if processes is None else processes
    by_plane = {_identify_plane(process.plane): process for process in known}
    return [*_list_counters(tables, number, by_plane), *_list_memory_series(tables, number, by_plane)]


_ByPlane = dict[tuple[str, int], Process]


def _identify_plane(plane: Plane) -> tuple[str, int]:
    """Identify a plane among those of its host, however many of them are read."""
    return plane.name, plane.xplane_id


# ---- counter lines


def _list_counters(tables: TableSet, number: int, by_plane: _ByPlane) -> Iterator[Series]:
    """List counters. An event of a counter line records its value in a stat, which usually has the name of the event. A
    value holds until the next of that name."""
    host = tables.session.hosts[number]
    chosen = TableSet(tables.session, tables.selection.narrowed([host], lines=_LINES))
    if not chosen["lines"].num_rows:
        return
    events = read_host(chosen, number, (), tuple(chosen.stat_names()), ())
    for plane in events.planes:
        process = by_plane.get(_identify_plane(plane))
        if process is not None:
            taken: set[str] = set()
            for stat in sorted(events.stats, key=lambda name: name not in _UNIT_OF_STAT):
                yield from _list_stat_series(events, plane, process, stat, taken)


def _list_stat_series(
    events: HostEvents, plane: Plane, process: Process, stat: str, taken: set[str]
) -> Iterator[Series]:
    """Return the values of one stat by the name of their events. ``taken``: names that other stats of the plane
    have."""
    recorded = events.stat(stat).of_kinds(_NUMBERS)
    here = find_rows_within(recorded.rows, plane.first, plane.last)
    rows = recorded.rows[here]
    values = recorded.numbers[here] if (recorded.kind[here] == records.DOUBLE).any() else recorded.value[here]
    metas, place = number_values(events.meta[rows])
    names = [events.names[meta] for meta in metas.tolist()]
    titles = {name: number for number, name in enumerate(dict.fromkeys(names))}
    title = np.array([titles[name] for name in names], np.int64)[place] if names else place
    order = sort_rows(title, events.start_ps[rows])
    bounds = find_group_bounds(title[order], len(titles)).tolist()
    for name, first, last in zip(titles, bounds[:-1], bounds[1:], strict=True):
        mine = order[first:last]
        is_unit = stat in _UNIT_OF_STAT and name not in taken
        shown = name if is_unit or (name == stat and name not in taken) else f"{name} {stat}"
        taken.add(shown)
        unit = _UNIT_OF_STAT[stat] if is_unit else _guess_unit(shown)
        yield Series(process, shown, unit, events.start_ps[rows[mine]], values[mine])


def _guess_unit(name: str) -> str:
    bracketed = _BRACKETED.search(name)
    return bracketed[1] if bracketed else next((unit for end, unit in _UNITS.items() if name.endswith(end)), "")


# ---- memory


def _list_memory_series(tables: TableSet, number: int, by_plane: _ByPlane) -> Iterator[Series]:
    """Yield bytes in use of each allocator after each allocation and free that records them."""
    events = read_host(tables, number, (_THREADS,), MEMORY_STATS, ())
    memory = read_memory_events(events)
    threads = next((process for (name, _), process in by_plane.items() if name == HOST_THREADS), None)
    if threads is None:
        return
    known = memory.has(STACK | HEAP)
    for place, allocator in enumerate(memory.allocators):
        here = memory.of_allocator(place)
        recorded = known[here]
        if recorded.any():
            times, used = memory.start_ps[here][recorded], memory.in_use_bytes[here][recorded]
            process = _find_device(allocator, by_plane) or threads
            yield Series(process, f"memory in use: {allocator}", "bytes", times, used)


def _find_device(allocator: str, by_plane: _ByPlane) -> Process | None:
    """Return the device whose memory an allocator called ``GPU_4_bfc``, or by the number of its device, has, or None if
    the host's, or of a device that the capture does not have."""
    match = _OF_DEVICE.fullmatch(allocator)
    if match is None:
        return None
    kinds = (match["kind"].upper(),) if match["kind"] else ("GPU", "TPU")
    wanted = [(kind, int(match["number"])) for kind in kinds]
    return next((process for (name, _), process in by_plane.items() if find_device_of_plane(name) in wanted), None)


_OF_DEVICE: Final = compile_late(r"(?:(?P<kind>GPU|TPU)_)?(?P<number>[0-9]{1,9})(?:_bfc)?", re.ASCII | re.IGNORECASE)


def list_stream_counters(events: HostEvents, processes: Sequence[Process]) -> list[Series]:
    """Return the queue of each stream, and the bandwidth of each kind of copies of a GPU. ``processes``: those of the
    host."""
    streams = read_streams(events)
    process_of = {process.plane.number: process for process in processes}
    return [*_list_queues(streams, process_of), *_list_bandwidths(events, streams, process_of)]


def _list_queues(streams: GpuStreams, process_of: dict[int, Process]) -> Iterator[Series]:
    series = count_queued(streams.events)
    for stream in np.unique(series.of).tolist():
        line, part = streams.lines[stream], series.part(stream)
        last = _keep_last_of_times(series, part)
        length = series.value[part][last].astype(np.int64)
        yield Series(
            process_of[line.plane.number], f"queue length: {line.name.strip()}", "", series.time_ps[part][last], length
        )


def _list_bandwidths(events: HostEvents, streams: GpuStreams, process_of: dict[int, Process]) -> Iterator[Series]:
    for plane, mine in streams.of_planes():
        copies = select_copies(events, mine)
        series = copies.bandwidths()
        for number, kind in enumerate(copies.kinds):
            if np.isfinite(copies.gbps[copies.of == number]).any():
                part = series.part(number)
                last = _keep_last_of_times(series, part)
                times, gbps = series.time_ps[part][last], series.value[part][last]
                yield Series(process_of[plane], f"bandwidth: {kind}", "GB/s", times, gbps)


def _keep_last_of_times(series: Points, part: slice) -> npt.NDArray[Any]:
    """Return the last point of each time, which has the value that holds from then on."""
    return np.flatnonzero(np.append(np.diff(series.time_ps[part]) != 0, True))
