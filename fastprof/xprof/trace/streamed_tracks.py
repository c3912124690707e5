"""Tracks of the streaming form: rows of a host in the order of tracks and time.

A track is what XProf keeps apart: the slices of one tid, the points of one counter, asynchronous events of one name.
Names of more than 32 letters are stored elsewhere: if names distinguish events, these have none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from fastprof.derive.timeline.track_order import Process, processes_of
from fastprof.schema.array_types import Bools, Int64s, UInt64s
from fastprof.schema.value_classes import dataclass
from fastprof.tables.host_events import COUNTER_LINE, Line
from fastprof.xprof.trace.trace_host import (
    TraceHost,
    kept_lines,
    line_tids,
    title,
)

_NAME_BYTES: Final = 32
SLICES, FLIGHTS, COUNTERS = range(3)


@dataclass(slots=True)
class ShownProcess:
    """``titles``: what its tracks of slices are called, by tid."""

    pid: int
    name: str
    titles: dict[int, str]
    is_tpu: bool


@dataclass(frozen=True, slots=True)
class TrackKey:
    """In the order that decides between events of several tracks that start and end together: slices by tid, then
    counters and asynchronous events by name."""

    pid: int
    kind: int
    tid: int
    name: str

    @property
    def order(self) -> tuple[int, bool, int, bytes]:
        return self.pid, self.kind != SLICES, self.tid, self.name.encode()


@dataclass(slots=True)
class StreamedTracks:
    """``rows``: of the trace, int64, by track, then start, longer first. ``bounds``: int64, one more than there are
    tracks."""

    processes: list[ShownProcess]
    keys: list[TrackKey]
    rows: Int64s
    bounds: Int64s


def streamed_tracks(trace: TraceHost) -> StreamedTracks:
    building = _Building(trace)
    processes = building.processes()
    order = sorted(range(len(building.keys)), key=lambda number: building.keys[number].order)
    keys = [building.keys[number] for number in order]
    place = np.full(len(order) + 1, -1, np.int64)
    place[order] = np.arange(len(order))
    track = place[building.track]
    track[~trace.drawn] = -1
    rows = np.flatnonzero(track >= 0)
    track = track[rows]
    if (track[1:] < track[:-1]).any():
        by_track = np.argsort(track, kind="stable")
        rows, track = rows[by_track], track[by_track]
    rows = _as_derived(trace, _by_time(trace, rows, track), track)
    return StreamedTracks(processes, keys, rows, np.searchsorted(track, np.arange(len(keys) + 1)))


class _Building:
    """``track``: int32, the number of each row's track in ``keys``, -1: it is not shown."""

    def __init__(self, trace: TraceHost) -> None:
        self.trace = trace
        self.track = np.full(len(trace), -1, np.int32)
        self.keys: list[TrackKey] = []
        self._numbers: dict[TrackKey, int] = {}
        rows, _ = trace.raw.ints("_a")
        self._async: Bools = np.zeros(len(trace), np.bool_)
        self._async[rows] = True
        self._async &= trace.flow != 0

    def processes(self) -> list[ShownProcess]:
        found: dict[int, ShownProcess] = {}
        line_track: dict[int, int] = {}
        for process in processes_of(self.trace.raw):
            lines = kept_lines(self.trace, process.plane) if process.shown else []
            if lines:
                one = found.setdefault(process.pid, ShownProcess(process.pid, "", {}, False))
                one.name, one.is_tpu = process.name, one.is_tpu or process.plane.kind in ("TPU", "SPARSECORE")
                self._add_lines(one, process, lines, line_track)
        self._add_regions(line_track)
        for track in self.trace.derived.tracks:
            if track.process.pid in found:
                found[track.process.pid].titles[track.tid] = track.name
                first = self.trace.first_derived
                number = self._number(TrackKey(track.process.pid, SLICES, track.tid, ""))
                self.track[first + track.first : first + track.last] = number
        return [found[pid] for pid in sorted(found)]

    def _add_lines(self, one: ShownProcess, process: Process, lines: list[Line], line_track: dict[int, int]) -> None:
        tids = line_tids(self.trace, process.plane)
        for line in lines:
            if line.first == line.last:
                continue
            if line.name == COUNTER_LINE:
                self._add_counters(one.pid, np.arange(line.first, line.last))
                continue
            tid = tids[line.number]
            one.titles[tid] = title(line)
            number = line_track[line.number] = self._number(TrackKey(one.pid, SLICES, tid, ""))
            self.track[line.first : line.last] = number
            flights = np.flatnonzero(self._async[line.first : line.last])
            if len(flights):
                self._add_flights(one.pid, line.first + flights)

    def _add_flights(self, pid: int, rows: Int64s) -> None:
        names, which = np.unique(self.trace.name[rows], return_inverse=True)
        texts = [self.trace.names[name] for name in names.tolist()]
        self._add_named(pid, FLIGHTS, rows, [text if is_kept(text) else "" for text in texts], which)

    def _add_counters(self, pid: int, rows: Int64s) -> None:
        """A counter has the name of its metadata, whatever name is displayed."""
        names = self.trace.raw.names
        metas, which = np.unique(self.trace.raw.meta[rows], return_inverse=True)
        self._add_named(pid, COUNTERS, rows, [names[meta] if meta >= 0 else "" for meta in metas.tolist()], which)

    def _add_named(self, pid: int, kind: int, rows: Int64s, texts: Sequence[str], which: npt.NDArray[np.intp]) -> None:
        """``which``: the number of each row's name in ``texts``."""
        numbers = [self._number(TrackKey(pid, kind, 0, text)) for text in texts]
        self.track[rows] = np.array(numbers, np.int32)[which]

    def _add_regions(self, line_track: dict[int, int]) -> None:
        of_line = [line_track.get(number, -1) for number in self.trace.ready.regions.line.tolist()]
        self.track[self.trace.first_region : self.trace.first_derived] = of_line

    def _number(self, key: TrackKey) -> int:
        if key not in self._numbers:
            self._numbers[key] = len(self.keys)
            self.keys.append(key)
        return self._numbers[key]


def is_kept(name: str) -> bool:
    """Whether XProf keeps the name with the event."""
    return len(name.encode()) <= _NAME_BYTES


# ---- order


def _by_time(trace: TraceHost, rows: Int64s, track: npt.NDArray[Any]) -> Int64s:
    """The rows of each track by start, longer first, equal ones as they come. Tracks are in order as a rule, or have
    few rows that are not: it takes about as long as merging the runs that they are made of."""
    start, duration = trace.start[rows], trace.duration[rows]
    same = track[1:] == track[:-1]
    backwards = same & ~_in_order(start, duration)
    if not backwards.any():
        return rows
    order = np.arange(len(rows))
    for one in np.unique(track[1:][backwards]).tolist():
        first, last = np.searchsorted(track, [one, one + 1]).tolist()
        order[first:last] = first + np.argsort(start[first:last], kind="stable")
    start, duration = start[order], duration[order]
    again = np.append(False, same & (start[1:] == start[:-1]))
    run = np.cumsum(~again)  # of rows of a track that start together
    mixed = np.zeros(len(rows) + 1, np.bool_)
    mixed[run[1:][again[1:] & (duration[1:] > duration[:-1])]] = True
    part = np.flatnonzero(mixed[run])
    order[part] = order[part][np.lexsort((~duration[part], run[part]))]
    return rows[order]


def _as_derived(trace: TraceHost, rows: Int64s, track: npt.NDArray[Any]) -> Int64s:
    """What is derived of GPUs stays in the order in which it was derived, which is not always that of length: only what
    it derives of TPUs XProf sorts once more."""
    derived = np.zeros(len(trace), np.bool_)
    for one in trace.derived.tracks:
        if one.process.plane.kind == "GPU":
            derived[trace.first_derived + one.first : trace.first_derived + one.last] = True
    part = np.flatnonzero(derived[rows])
    if not len(part):
        return rows
    mine = rows[part]
    order = np.lexsort((trace.derived.made[mine - trace.first_derived], trace.start[mine], track[part]))
    found = rows.copy()
    found[part] = mine[order]
    return found


def _in_order(start: UInt64s, duration: UInt64s) -> Bools:
    later: Bools = start[1:] > start[:-1]
    later |= (start[1:] == start[:-1]) & (duration[1:] <= duration[:-1])
    return later
