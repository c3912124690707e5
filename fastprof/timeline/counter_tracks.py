"""Values over time: counters of a capture, and memory that its allocators have in use."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from fastprof._native import records
from fastprof.host_events import HOST_THREADS, HostEvents, read_host
from fastprof.memory.memory_events import HEAP, STACK, memory_events
from fastprof.memory.memory_events import STATS as MEMORY_STATS
from fastprof.table_set import TableSet
from fastprof.timeline.track_order import COUNTER_LINE, Process, processes_of

Int64s = npt.NDArray[np.int64]
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


@dataclass(frozen=True, slots=True, eq=False)
class Series:
    """``time_ps`` ascends. ``value``: int64 or float64. ``unit``: "" where it is not known."""

    process: Process
    name: str
    unit: str
    time_ps: Int64s
    value: npt.NDArray[Any]

    def __len__(self) -> int:
        return len(self.time_ps)


def counter_tracks(tables: TableSet, number: int) -> list[Series]:
    """Of capture ``number`` of the session: what its counter lines count, and of each allocator the bytes in use."""
    return [*_counters(tables, number), *_memory(tables, number)]


# ---- counter lines


def _counters(tables: TableSet, number: int) -> Iterator[Series]:
    """An event of a counter line tells a value by a stat, which most often is called as the event."""
    host = tables.session.hosts[number]
    chosen = TableSet(tables.session, tables.selection.narrowed([host], lines=_LINES))
    if not chosen["lines"].num_rows:
        return
    events = read_host(chosen, number, (), tuple(chosen.stat_names()), ())
    processes = {process.plane.number: process for process in processes_of(events)}
    for plane in events.planes:
        for stat in events.stat_names:
            if plane.number in processes:
                yield from _of_stat(events, processes[plane.number], stat)


def _of_stat(events: HostEvents, process: Process, stat: str) -> Iterator[Series]:
    """The values of one stat by the name of their events."""
    found = events.stat(stat).of_kinds(_NUMBERS)
    here = slice(*np.searchsorted(found.rows, [process.plane.first, process.plane.last]))
    rows = found.rows[here]
    values = found.numbers[here] if (found.kind[here] == records.DOUBLE).any() else found.value[here]
    metas, place = np.unique(events.meta[rows], return_inverse=True)
    names = [events.names[meta] for meta in metas.tolist()]
    titles = {name: number for number, name in enumerate(dict.fromkeys(names))}
    title = np.array([titles[name] for name in names], np.int64)[place] if names else place
    order = np.lexsort((events.start_ps[rows], title))
    bounds = np.searchsorted(title[order], np.arange(len(titles) + 1)).tolist()
    for name, first, last in zip(titles, bounds[:-1], bounds[1:], strict=True):
        mine = order[first:last]
        shown = name if name == stat else f"{name} {stat}"
        yield Series(process, shown, _unit(shown), events.start_ps[rows[mine]], values[mine])


def _unit(name: str) -> str:
    return next((unit for end, unit in _UNITS.items() if name.endswith(end)), "")


# ---- memory


def _memory(tables: TableSet, number: int) -> Iterator[Series]:
    """Bytes in use of each allocator after each allocation and free that tells them."""
    events = read_host(tables, number, (_THREADS,), MEMORY_STATS, ())
    found = memory_events(events)
    process = next((one for one in processes_of(events) if one.plane.name == HOST_THREADS), None)
    if process is None:
        return
    known = found.has(STACK | HEAP)
    for place, allocator in enumerate(found.allocators):
        here = found.of_allocator(place)
        told = known[here]
        if told.any():
            times, used = found.start_ps[here][told], found.in_use_bytes[here][told]
            yield Series(process, f"memory in use: {allocator}", "bytes", times, used)
