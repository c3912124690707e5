"""Derived tracks: their events as columns, the names that deriving makes, runs of one name joined level by level, and
the timeline of a host made of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from fastprof._native.timeline_kernels import DerivedLine, time_order
from fastprof.derive.devices.op_names import Framework, parse_op_name
from fastprof.derive.steps.device_steps import sort_by_start
from fastprof.derive.timeline.host_timeline import EVENTS, HostTimeline, Process, Track, number_names
from fastprof.schema.columns import Int32s, Int64s, find_rows_within, number_values
from fastprof.schema.value_classes import dataclass
from fastprof.tables.host_events import HostEvents, Line, Plane

_SPACES = " \t\n\v\f\r"


def list_metas_by_plane(events: HostEvents) -> Callable[[Plane], npt.NDArray[np.intp]]:
    """Return a function that gives the rows of metadata of each plane, ascending."""
    order = np.argsort(events.meta_plane, kind="stable")
    planes = events.meta_plane[order]
    return lambda plane: order[find_rows_within(planes, plane.number, plane.number + 1)]


class PlaneNames:
    """Names of a plane. ``names``, ``displayed``: by number. ``metas``: the row of the capture's metadata, or -1 if
    there is none."""

    def __init__(self, events: HostEvents, metas: npt.NDArray[np.intp]) -> None:
        """``metas``: rows of metadata of the plane."""
        self.names: list[str] = []
        self.displayed: list[str] = []
        self.metas: list[int] = []
        self.renamed: dict[int, str] = {}
        """Display names that metadata of the capture gets, by row."""
        self._display_names = events.display_names
        self._rows: dict[str, int] = {}
        for row in metas[::-1].tolist():
            self._rows[events.names[row]] = row
        self._number: dict[str, int] = {}

    def number(self, name: str, displayed: str = "") -> int:
        """Return the number of a name. ``displayed``: how it is shown, unless another form is known already."""
        number = self._number.get(name)
        if number is None:
            row = self._rows.get(name, -1)
            number = self._number[name] = self._add(name, self._display_names[row] if row >= 0 else "", row)
        if displayed and not self.displayed[number]:
            self.displayed[number] = displayed
            if self.metas[number] >= 0:
                self.renamed[self.metas[number]] = displayed
        return number

    def numbers(self, names: Sequence[str]) -> list[int]:
        return [self.number(name) for name in names]

    def nameless(self, displayed: str) -> int:
        """Return the number of a new name that is empty, and so is no other's."""
        return self._add("", displayed, -1)

    def _add(self, name: str, displayed: str, row: int) -> int:
        self.names.append(name)
        self.displayed.append(displayed)
        self.metas.append(row)
        return len(self.names) - 1


def list_scopes(full_name: str) -> list[str]:
    """Return the scopes that an op of TensorFlow or JAX lies in, outermost first."""
    op = parse_op_name(full_name)
    return op.name.split("/")[:-1] if op.framework in (Framework.TENSORFLOW, Framework.JAX) else []


def get_displayed_op(full_name: str) -> str:
    """Return the op as trace viewers show it: its type."""
    op = parse_op_name(full_name)
    if op.framework is Framework.UNKNOWN:
        return op.name.rstrip(_SPACES)
    return "Iterator::" + op.name.split("::")[-1] if op.framework is Framework.TF_DATA else op.type


def number_op(names: PlaneNames, full_name: str) -> int:
    return names.number(full_name, get_displayed_op(full_name))


Lists = tuple[Int64s, Int64s]
"""Offsets of lists of numbers, and their values."""


@dataclass(frozen=True, slots=True)
class LevelSource:
    """Events that lines are derived from, in order. ``key``: int32, number of the lists of names, or -1 if there is
    none. ``scopes``: int32, the place of the ids of ranges in ``scope_lists``, or -1 if there is none, or None if no
    event has any."""

    start_ps: Int64s
    duration_ps: Int64s
    group: Int32s
    key: Int32s
    over_gaps: bool
    scopes: Int32s | None = None
    scope_lists: Lists | None = None

    def in_outermost(self) -> LevelSource:
        """Return the source with each event in the outermost of its ranges alone."""
        if self.scope_lists is None:
            return self
        offsets, values = self.scope_lists
        outermost = np.arange(len(offsets), dtype=np.int64), values[offsets[:-1]]
        return replace(self, scope_lists=outermost)


@dataclass(frozen=True, slots=True)
class Levels:
    """Derived events. ``closes``: by event of the source, whether all that was open ended there; ``deepest``: the
    derived event of its deepest level, or -1 if there is none."""

    start_ps: Int64s
    duration_ps: Int64s
    name: Int64s
    group: Int32s
    closes: npt.NDArray[np.uint8]
    deepest: Int64s


def make_lists(values: Sequence[Sequence[int]]) -> Lists:
    offsets = np.zeros(len(values) + 1, np.int64)
    offsets[1:] = np.cumsum([len(value) for value in values])
    return offsets, np.array([name for value in values for name in value], np.int64)


def make_singles(values: Int64s) -> Lists:
    """Make a list for each value, which has that one alone."""
    return np.arange(len(values) + 1, dtype=np.int64), np.ascontiguousarray(values)


def derive_levels(
    source: LevelSource,
    names: Lists,
    closed: npt.NDArray[np.uint8] | None = None,
    *,
    close: bool = False,
    scoped: bool = False,
) -> Levels:
    """Return the line of these names by key. ``closed``: where what events lie in ends, so that they end, too.
    ``close``: whether events end in an orderly way after the last one. ``scoped``: whether ids of ranges keep events
    apart."""
    scopes = source.scopes if scoped else None
    line = DerivedLine(
        source.start_ps, source.duration_ps, source.group, source.key, names,
        scopes, source.scope_lists if scopes is not None else None, closed, source.over_gaps, close,
    )  # fmt: skip
    count, many = line.count(), len(source.start_ps)
    levels = Levels(
        np.empty(count, np.int64), np.empty(count, np.int64), np.empty(count, np.int64), np.empty(count, np.int32),
        np.empty(many, np.uint8), np.empty(many, np.int64),
    )  # fmt: skip
    line.fill(levels.start_ps, levels.duration_ps, levels.name, levels.group, levels.closes, levels.deepest)
    return levels


Values = npt.NDArray[Any] | list[str]


@dataclass(frozen=True, slots=True)
class Arg:
    """Values that some events show beside their name. ``rows`` ascend; ``values``: int64, uint64, float64 or strings.
    ``kinds``: the recorded kind of each value, if some were no integers and are 0, or None if all are as recorded."""

    name: str
    rows: npt.NDArray[np.signedinteger[Any]]
    values: Values
    kinds: npt.NDArray[np.uint8] | None = None


@dataclass(slots=True, eq=False)
class DerivedTimeline(HostTimeline):
    """The derived tracks. Rows are numbered from 0. ``group``: int32, or -1 if there is none. ``long_name``: int32, the
    name in ``names`` if another is displayed, else -1. ``meta``: int32, the row of the capture's metadata whose stats
    the event shows as well, or -1 if there is none. ``display_names``: display names of metadata rows of the capture
    whose derived name has one. ``made``: int64, in which order the events of a track were derived."""

    group: Int32s = field(default_factory=lambda: np.zeros(0, np.int32))
    long_name: Int32s = field(default_factory=lambda: np.zeros(0, np.int32))
    meta: Int32s = field(default_factory=lambda: np.zeros(0, np.int32))
    args: list[Arg] = field(default_factory=list)
    display_names: dict[int, str] = field(default_factory=dict)
    made: Int64s = field(default_factory=lambda: np.zeros(0, np.int64))


@dataclass(slots=True, eq=False)
class DerivedTrack:
    """A derived track. ``name``: int64 numbers in ``names``, else places in ``shown``, the strings of events that show
    one of their own. Events are in the order in which they were derived."""

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


def join_tracks(host: str, processes: list[Process], derived: Sequence[DerivedTrack]) -> DerivedTimeline:
    """Return the tracks that have events, as one timeline."""
    parts = sorted((track for track in derived if len(track)), key=lambda track: (track.process.number, track.tid))
    texts: dict[str, int] = {}
    tracks: list[Track] = []
    columns, args = [], []
    made = [np.zeros(0, np.int64)]
    first = 0
    for part in parts:
        last = first + len(part)
        tracks.append(Track(len(tracks), part.process, part.tid, part.title, part.kind, first, last))
        order = np.empty(len(part), np.int64)
        time_order(part.start_ps, part.duration_ps, order)  # they are nearly in order
        columns.append(_make_columns(part, order, texts))
        made.append(order)
        args += [_move_arg(arg, order, first) for arg in part.args]
        first = last
    times, numbers = np.zeros(0, np.int64), np.zeros(0, np.int32)
    nothing = (times, times, numbers, numbers, numbers, numbers)
    start, duration, name, group, long_name, meta = (
        np.concatenate(column) for column in zip(nothing, *columns, strict=True)
    )
    renamed = {row: text for part in parts for row, text in part.names.renamed.items()}
    return DerivedTimeline(
        host, processes, tracks, start, duration, name, list(texts), group, long_name, meta, args, renamed,
        np.concatenate(made),
    )  # fmt: skip


def _make_columns(part: DerivedTrack, order: Int64s, texts: dict[str, int]) -> tuple[npt.NDArray[Any], ...]:
    names = part.names
    used, name = number_values(part.name[order])
    displayed = [names.displayed[number] for number in used.tolist()]
    long = [names.names[number] for number in used.tolist()]
    pairs = list(zip(displayed, long, strict=True))
    shown = number_names([short or name for short, name in pairs], texts)[name]
    if part.shown is not None:
        shown = number_names(part.shown, texts)[order]
    long_name = np.array([texts.setdefault(name, len(texts)) if short else -1 for short, name in pairs], np.int32)
    meta = np.array([names.metas[number] for number in used.tolist()], np.int32)
    group = part.group[order]
    return part.start_ps[order], part.duration_ps[order], shown, group, long_name[name], meta[name]


def _move_arg(arg: Arg, order: Int64s, first: int) -> Arg:
    """Return the arg, of rows of the timeline."""
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    rows = place[arg.rows]
    by_row = np.argsort(rows)
    kinds = None if arg.kinds is None else arg.kinds[by_row]
    values = [arg.values[i] for i in by_row.tolist()] if isinstance(arg.values, list) else arg.values[by_row]
    return Arg(arg.name, first + rows[by_row], values, kinds)


def list_line_rows(lines: Iterable[Line]) -> Int64s:
    """Return the rows of lines, one line after the other."""
    return np.concatenate([np.arange(line.first, line.last) for line in lines] or [np.zeros(0, np.int64)])


def sort_by_time(events: HostEvents, rows: npt.NDArray[Any], duration_ps: Int64s | None = None) -> Int64s:
    """Return the rows by start, shorter first; equal ones in the order that std::sort leaves them in. ``duration_ps``:
    in place of those of the rows."""
    rows = np.asarray(rows, np.int64)
    duration = events.duration_ps[rows] if duration_ps is None else duration_ps
    ordered: Int64s = rows[sort_by_start(events.start_ps[rows], duration)]
    return ordered
