"""Derived tracks: their events as columns, and how those of a host become one timeline."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import field
from typing import Any

import numpy as np
import numpy.typing as npt

from fastprof.derive.steps.device_steps import by_time
from fastprof.derive.timeline.host_timeline import HostTimeline, numbers_of
from fastprof.derive.timeline.plane_names import PlaneNames
from fastprof.derive.timeline.track_order import EVENTS, Process, Track
from fastprof.schema.array_types import Int32s, Int64s
from fastprof.schema.value_classes import dataclass
from fastprof.tables.host_events import HostEvents, Line

Values = npt.NDArray[Any] | list[str]


@dataclass(frozen=True, slots=True)
class Arg:
    """What some events show beside their name. ``rows`` ascend; ``values``: int64, uint64 or float64, or texts.
    ``kinds``: the recorded kind of each value, if some were no integers and are 0; None: all are as recorded."""

    name: str
    rows: npt.NDArray[np.signedinteger[Any]]
    values: Values
    kinds: npt.NDArray[np.uint8] | None = None


@dataclass(slots=True, eq=False)
class DerivedTimeline(HostTimeline):
    """The tracks that are derived; rows are numbered from 0. ``group``: int32, -1: none. ``long_name``: int32, the name
    in ``names`` if another is displayed, else -1. ``meta``: int32, the row of the capture's metadata whose stats the
    event shows as well, -1: none. ``display_names``: what metadata of the capture, by row, is displayed as for a name
    that is derived to be the same. ``made``: int64, in which order the events of a track were derived."""

    group: Int32s = field(default_factory=lambda: np.zeros(0, np.int32))
    long_name: Int32s = field(default_factory=lambda: np.zeros(0, np.int32))
    meta: Int32s = field(default_factory=lambda: np.zeros(0, np.int32))
    args: list[Arg] = field(default_factory=list)
    display_names: dict[int, str] = field(default_factory=dict)
    made: Int64s = field(default_factory=lambda: np.zeros(0, np.int64))


@dataclass(slots=True, eq=False)
class DerivedTrack:
    """``name``: int64 numbers in ``names``, else places in ``shown``, the texts of events that show one of their own.
    Events are in the order in which they were derived."""

    process: Process
    tid: int
    title: str
    names: PlaneNames
    start_ps: Int64s
    duration_ps: Int64s
    name: Int64s
    group: Int32s
    kind: str = EVENTS
    shown: list[str] | None = None
    args: list[Arg] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.start_ps)


def joined(host: str, processes: list[Process], found: Sequence[DerivedTrack]) -> DerivedTimeline:
    """The tracks that have events, as one timeline."""
    parts = sorted((one for one in found if len(one)), key=lambda one: (one.process.number, one.tid))
    texts: dict[str, int] = {}
    tracks: list[Track] = []
    columns, args = [], []
    made = [np.zeros(0, np.int64)]
    first = 0
    for part in parts:
        last = first + len(part)
        tracks.append(Track(len(tracks), part.process, part.tid, part.title, part.kind, first, last))
        order = np.lexsort((-part.duration_ps, part.start_ps))
        columns.append(_columns(part, order, texts))
        made.append(order)
        args += [_moved(arg, order, first) for arg in part.args]
        first = last
    start, duration, name, group, long_name, meta = (
        np.concatenate(column) for column in zip(_nothing(), *columns, strict=True)
    )
    renamed = {row: text for part in parts for row, text in part.names.renamed.items()}
    return DerivedTimeline(
        host, processes, tracks, start, duration, name, list(texts), group, long_name, meta, args, renamed,
        np.concatenate(made),
    )  # fmt: skip


def _nothing() -> tuple[npt.NDArray[Any], ...]:
    times, numbers = np.zeros(0, np.int64), np.zeros(0, np.int32)
    return times, times, numbers, numbers, numbers, numbers


def _columns(part: DerivedTrack, order: Int64s, texts: dict[str, int]) -> tuple[npt.NDArray[Any], ...]:
    names = part.names
    used, name = np.unique(part.name[order], return_inverse=True)
    displayed = [names.displayed[one] for one in used.tolist()]
    long = [names.names[one] for one in used.tolist()]
    pairs = list(zip(displayed, long, strict=True))
    shown = numbers_of([short or name for short, name in pairs], texts)[name]
    if part.shown is not None:
        shown = numbers_of(part.shown, texts)[order]
    long_name = np.array([texts.setdefault(name, len(texts)) if short else -1 for short, name in pairs], np.int32)
    meta = np.array([names.metas[one] for one in used.tolist()], np.int32)
    group = part.group[order]
    return part.start_ps[order], part.duration_ps[order], shown, group, long_name[name], meta[name]


def _moved(arg: Arg, order: Int64s, first: int) -> Arg:
    """The arg, of rows of the timeline."""
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    rows = place[arg.rows]
    by_row = np.argsort(rows)
    kinds = None if arg.kinds is None else arg.kinds[by_row]
    return Arg(arg.name, first + rows[by_row], _taken(arg.values, by_row), kinds)


def _taken(values: Values, order: Int64s) -> Values:
    return [values[i] for i in order.tolist()] if isinstance(values, list) else values[order]


def rows_of(lines: Iterable[Line]) -> Int64s:
    """The rows of lines, one line after the other."""
    return np.concatenate([np.arange(line.first, line.last) for line in lines] or [np.zeros(0, np.int64)])


def in_time_order(events: HostEvents, rows: npt.NDArray[Any], duration_ps: Int64s | None = None) -> Int64s:
    """The rows by start, shorter first; equal ones in the order that std::sort leaves them in. ``duration_ps``: in
    place of those of the rows."""
    rows = np.asarray(rows, np.int64)
    duration = events.duration_ps[rows] if duration_ps is None else duration_ps
    ordered: Int64s = rows[by_time(events.start_ps[rows], duration)]
    return ordered
