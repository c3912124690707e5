"""One host's events as NumPy columns, with the requested stats and what analyses share of them: what they compute
on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import field, replace
from functools import cached_property, wraps
from typing import TYPE_CHECKING, Any, Concatenate, Final, ParamSpec, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fastprof._native import records
from fastprof.decode.index import CaptureIndex
from fastprof.decode.xspace_capture import Capture
from fastprof.schema.columns import Bools, Int32s, Int64s, Numbers, find_equal, find_last_started, find_rows_within
from fastprof.schema.value_classes import dataclass

if TYPE_CHECKING:
    from fastprof.hlo.programs import Program
    from fastprof.tables.flows import Arrows


KeptValues = dict[tuple[object, ...], Any]
"""Results by function and arguments; only ``compute_once`` reads and writes them."""

E = TypeVar("E")
P = ParamSpec("P")
T = TypeVar("T")


def compute_once(compute: Callable[Concatenate[E, P], T]) -> Callable[Concatenate[E, P], T]:
    """Return a function of events, whose values it keeps in their attribute ``kept``: called once for the same events
    and arguments, which must be hashable and are given by position. All callers share the value: nobody changes it."""

    @wraps(compute)
    def lookup(events: E, /, *args: P.args, **named: P.kwargs) -> T:
        assert not named, "arguments are given by position"
        kept: KeptValues = events.kept  # type: ignore[attr-defined]
        key = (compute, *args)
        if key not in kept:
            kept[key] = compute(events, *args, **named)
        value: T = kept[key]
        return value

    return lookup


@dataclass(frozen=True, slots=True)
class Stat:
    """Values of one stat, at most one a row: the first. ``kind`` says what ``value`` is: an integer (uint64 as two's
    complement), the bits of a double, or the number of a text. ``rows`` ascend."""

    rows: Int32s
    kind: npt.NDArray[np.uint8]
    value: Int64s

    def __len__(self) -> int:
        return len(self.rows)

    def of_kinds(self, kinds: Sequence[int]) -> Stat:
        wanted = np.zeros(256, bool)
        wanted[list(kinds)] = True
        if len(self) and self.kind.min() == self.kind.max():
            return self if wanted[self.kind[0]] else Stat(self.rows[:0], self.kind[:0], self.value[:0])
        keep = wanted[self.kind]
        return self if keep.all() else Stat(self.rows[keep], self.kind[keep], self.value[keep])

    def at(self, rows: npt.NDArray[np.integer]) -> Stat:
        """Return the value of each of these rows, in any order; of kind NONE if the row has none."""
        if not len(self):
            return Stat(
                rows.astype(np.int32), np.full(len(rows), records.NONE, np.uint8), np.zeros(len(rows), np.int64)
            )
        wanted = rows.astype(self.rows.dtype)
        has, place = find_equal(self.rows, wanted)
        kind = np.where(has, self.kind[place], np.uint8(records.NONE))
        return Stat(wanted, kind, self.value[place])

    @property
    def numbers(self) -> npt.NDArray[np.float64]:
        """Values of numeric kinds as doubles; NaN where it is a text."""
        values = np.where(self.kind == records.DOUBLE, self.value.view(np.float64), np.nan)
        values = np.where(self.kind == records.INT64, self.value.astype(np.float64), values)
        return np.where(self.kind == records.UINT64, self.value.view(np.uint64).astype(np.float64), values)


EMPTY = Stat(np.zeros(0, np.int32), np.zeros(0, np.uint8), np.zeros(0, np.int64))


HOST_THREADS = "/host:CPU"
COUNTER_LINE = "_counters_"
"""The line of a plane whose events are values of counters, each in a stat."""
STEP_LINES: Final = ("Steps", "Sparse Core Steps")
MODULE_LINES: Final = ("XLA Modules", "Sparse Core Modules")
"""The lines of steps and of program executions, on TPUs and SparseCores."""
CATEGORY = "cat"
"""The stat of event metadata in which traces of Chrome's form have an event's category. It is read where it is."""
FIRST_DERIVED: Final = 0xDEADBEEF
"""The id, in its low 32 bits, of the first line that XProf derives from others: of a GPU its steps."""
INTEGER_KINDS: Final = (records.INT64, records.UINT64)
TEXT_KINDS: Final = (records.STR, records.REF)
"""Kinds of stat values that are integers, and those that are texts."""


@dataclass(slots=True, eq=False)
class Plane:
    """An XPlane of the host. ``kind``: CPU for the host's threads, GPU, TPU, SPARSECORE, CUSTOM, CHIP, or None."""

    number: int
    plane_id: int
    name: str
    kind: str | None
    ordinal: int | None
    xplane_id: int
    stats: dict[str, Any] = field(default_factory=dict)
    lines: list[Line] = field(default_factory=list)

    @property
    def first(self) -> int:
        return self.lines[0].first if self.lines else 0

    @property
    def last(self) -> int:
        return self.lines[-1].last if self.lines else 0


@dataclass(slots=True, eq=False)
class Line:
    """An XLine: rows ``first`` to ``last`` of the columns, in order of time, longer first. ``base_ps``: the time that
    its events count from in the file; of a line in several pieces, the first one's. ``display_id`` 0 and no
    ``display_name``: the capture says none. ``event_count``: in the capture, of ids from ``first_event_id``.
    ``is_derived``: a profiler made the line from others."""

    number: int
    line_id: int
    xline_id: int
    name: str
    plane: Plane
    first: int
    last: int
    base_ps: int
    display_id: int = 0
    display_name: str = ""
    first_event_id: int = 0
    event_count: int = 0
    is_derived: bool = False


class HostEvents:
    """The events of one host that have a start, ordered by line, then start, longer first.

    ``meta``         int32: row in the capture's event metadata, -1 where there is none
    ``start_ps``, ``duration_ps``  int64
    ``stats``        by name, those that were requested; some may be on no event
    ``names``, ``display_names``   by row of metadata; one more at the end, empty, for -1
    ``meta_plane``   by row of metadata: the number of its plane
    """

    def __init__(self, number: int, planes: list[Plane], columns: dict[str, Any], source: EventSource) -> None:
        self.host = source.capture.host
        self.number = number
        self.planes = planes
        self.lines = sorted((line for plane in planes for line in plane.lines), key=lambda line: line.number)
        self.meta: Int32s = columns["meta"]
        self.start_ps: Int64s = columns["start_ps"]
        self.duration_ps: Int64s = columns["duration_ps"]
        self.stats: dict[str, Stat] = columns["stats"]
        self._integers: dict[str, Stat] = {}
        self.kept: KeptValues = {}
        self.untimed: dict[int, int] = {}
        """The number of events without a start, such as aggregated ones, by line_id: they are left out."""
        self.impossible: tuple[Any, ...] = ()
        """Events that were left out because others contradict them, see derive/ops/record_checks.py."""
        self._source = source

    def __len__(self) -> int:
        return len(self.meta)

    # ---- of the capture

    @property
    def capture(self) -> Capture:
        return self._source.capture

    @property
    def transcribed_from(self) -> str | None:
        """The format of the file that the capture was made from; None: it is an XSpace."""
        return self._source.transcribed_from

    @property
    def start_unix_ns(self) -> int | None:
        """When profiling began, in Unix nanoseconds; None: not recorded."""
        return self._source.start_unix_ns

    @property
    def slack_ps(self) -> int:
        """What an event may end later than the event that it lies in, as times of traces are rounded."""
        return self._source.slack_ps

    @property
    def names(self) -> list[str]:
        return self._source.names

    @cached_property
    def recorded_names(self) -> list[str]:
        """Names that occur: a capture may list names without any event."""
        used = np.zeros(len(self.names), np.bool_)
        used[self.meta] = True
        return [self.names[meta] for meta in np.flatnonzero(used).tolist()]

    @property
    def display_names(self) -> list[str]:
        return self._source.display_names

    @cached_property
    def meta_plane(self) -> Int32s:
        place = np.full(len(self.capture.plane_keys), -1, np.int32)
        place[[plane.plane_id - self._source.plane_base for plane in self.planes]] = np.arange(len(self.planes))
        plane: Int32s = place[self.capture.plane_of_part[self.capture.metas["part"]]]
        return plane

    # ---- planes

    @cached_property
    def _plane_by_name(self) -> dict[str, Plane]:
        return {plane.name: plane for plane in reversed(self.planes)}

    def plane_named(self, name: str) -> Plane | None:
        """Return the first of that name."""
        return self._plane_by_name.get(name)

    @property
    def used_lines(self) -> list[Line]:
        """The lines that have events, in order of rows."""
        return [line for line in self.lines if line.last > line.first]

    def planes_of(self, kind: str) -> list[Plane]:
        return [plane for plane in self.planes if plane.kind == kind]

    @property
    def plane_names(self) -> list[str]:
        """The names of all planes of the capture, chosen or not."""
        return [name for name, _ in self.capture.plane_keys]

    def planes_without(self, stat: str) -> list[str]:
        """Return the names of all planes of the capture, chosen or not, that do not declare a stat."""
        keys = zip(self.capture.plane_keys, self.capture.declares(stat).tolist(), strict=True)
        return [name for (name, _), declared in keys if not declared]

    @property
    def programs(self) -> Sequence[Program]:
        """The compiled programs of the capture and of files beside it; none unless ``hlo.METADATA_STATS`` were read."""
        return self._source.programs

    def note(self, severity: str, code: str, text: str, count: int = 1) -> None:
        """A row of import_log, about what cannot be used of the capture."""
        self.capture.log.add(severity, code, text, self.capture.path, count)

    # ---- stats

    def stat(self, name: str) -> Stat:
        """Return the events' own stats of a name. KeyError: it was not requested."""
        return self.stats[name]

    def replace_stat(self, name: str, stat: Stat) -> None:
        """Set a stat before anything is computed of it."""
        self.stats[name] = stat
        self._integers.pop(name, None)

    def ints(self, name: str) -> tuple[Int32s, Int64s]:
        stat = self._integers.get(name)
        if stat is None:
            stat = self._integers[name] = self.stat(name).of_kinds(INTEGER_KINDS)
        return stat.rows, stat.value

    def texts(self, name: str) -> tuple[Int32s, Int64s]:
        """Return rows, and the number of each text."""
        stat = self.stat(name).of_kinds(TEXT_KINDS)
        return stat.rows, stat.value

    def text(self, number: int) -> str:
        return str(self._source.texts[number].as_py())

    def recorded_arrows(self) -> tuple[Int32s, Int32s]:
        """Return rows of events, and of those that they led to, as the table flows has them; not of lines that are here
        only in part."""
        pairs = [
            (arrow.from_event_id, arrow.from_line_id, arrow.to_event_id, arrow.to_line_id)
            for arrow in self._source.arrows()
        ]
        if not pairs:
            return np.zeros(0, np.int32), np.zeros(0, np.int32)
        begin, begin_line, end, end_line = (np.concatenate(column) for column in zip(*pairs, strict=True))
        begins, ends = self._rows_of(begin, begin_line), self._rows_of(end, end_line)
        known = (begins >= 0) & (ends >= 0)
        return begins[known], ends[known]

    def _rows_of(self, event_id: Int64s, line_id: Int32s) -> Int32s:
        """Return the rows of events by their ids and lines, or -1."""
        rows = np.full(len(event_id), -1, np.int32)
        for line in self.lines:
            here = np.flatnonzero((line_id == line.line_id) & (event_id >= 0))
            if len(here) and line.last - line.first + self.untimed.get(line.line_id, 0) == line.event_count:
                rows[here] = line.first + event_id[here] - line.first_event_id
        return rows

    def all_texts(self, numbers: npt.NDArray[Any]) -> list[str]:
        """Return the texts of several numbers."""
        texts = self._source.texts
        return [texts[number].as_py() for number in numbers.tolist()]

    def dense(self, name: str, default: int = 0) -> Int64s:
        """Return an integer stat of every row."""
        rows, values = self.ints(name)
        column = np.full(len(self), default, np.int64)
        column[rows] = values
        return column

    def meta_stat(self, name: str) -> Stat:
        """Return a stat of event metadata: ``rows`` are its rows, ``meta_bytes`` has the bytes."""
        self._source.metadata_numbers[name]
        return self._source.meta_stats.get(name, EMPTY)

    @cached_property
    def categories(self) -> list[str]:
        """Categories in lower case by row of metadata, as traces of Chrome's form record them, else ""; one more at the
        end, for -1."""
        texts = [""] * len(self.names)
        if CATEGORY in self._source.metadata_numbers:
            stat = self.meta_stat(CATEGORY).of_kinds(TEXT_KINDS)
            for row, text in zip(stat.rows.tolist(), self.all_texts(stat.value), strict=True):
                texts[row] = text.lower()
        return texts

    def meta_bytes(self, name: str, rows: Iterable[int]) -> dict[int, bytes]:
        """Return a stat of event metadata of kind bytes, by row of metadata; of these rows, those that have it."""
        self._source.metadata_numbers[name]
        known = self._source.meta_places.get(name, {})
        places = {row: known[row] for row in rows if row in known}
        return dict(zip(places, self._source.capture.copies(list(places.values())), strict=True))

    # ---- others of the same host

    def subset(self, keep: npt.NDArray[np.bool_]) -> HostEvents:
        """These rows only."""
        before = np.concatenate([np.zeros(1, np.int32), np.cumsum(keep, dtype=np.int32)])
        columns = {"meta": self.meta[keep], "start_ps": self.start_ps[keep], "duration_ps": self.duration_ps[keep]}
        stats = {}
        for name, stat in self.stats.items():
            mine = keep[stat.rows]
            stats[name] = Stat(before[stat.rows[mine]], stat.kind[mine], stat.value[mine])
        planes = [replace(plane, lines=[]) for plane in self.planes]
        for line in self.lines:
            plane = planes[line.plane.number]
            first, last = before[[line.first, line.last]].tolist()
            plane.lines.append(replace(line, plane=plane, first=first, last=last))
        return HostEvents(self.number, planes, columns | {"stats": stats}, self._source)


_DENSE: Final = 4
"""Rows lie close together if they are at least one of this many."""


def find_lines(lines: Iterable[Line], rows: Numbers) -> Int64s:
    """Return the place of the line of each row in ``lines``, which are in order of rows, or -1 before all of them."""
    return find_last_started(np.array([line.first for line in lines], np.int64), rows)


def find_line_starts(lines: Iterable[Line], rows: Numbers) -> Int64s:
    """Return the first row of the line of each row; ``lines`` are in order of rows, and hold all of them."""
    firsts = np.array([line.first for line in lines], np.int64)
    return firsts[find_last_started(firsts, rows)]


def join_stat(rows: npt.NDArray[Any], stat_rows: npt.NDArray[Any], values: Int64s) -> tuple[Bools, Int64s]:
    """Return whether each row has the stat, and its value, else 0. ``stat_rows`` ascend."""
    if not len(stat_rows) or not len(rows):
        return np.zeros(len(rows), bool), np.zeros(len(rows), np.int64)
    low, high = int(rows.min()), int(rows.max())
    if high - low < _DENSE * len(rows):  # a table by row is faster than a search for each
        some = find_rows_within(stat_rows, low, high + 1)
        is_same = some.stop - some.start == len(rows) and np.array_equal(stat_rows[some], rows)
        if is_same and (rows[1:] > rows[:-1]).all():  # no event has the stat twice
            return np.ones(len(rows), bool), values[some].copy()
        table, has = np.zeros(high - low + 1, values.dtype), np.zeros(high - low + 1, bool)
        there = np.subtract(stat_rows[some], low, dtype=np.int64)[::-1]
        table[there], has[there] = values[some][::-1], True  # the first of equals remains
        at = np.subtract(rows, low, dtype=np.int64)
        return has[at], table[at]
    has, place = find_equal(stat_rows, rows)
    return has, np.where(has, values[place], 0)


class EventSource:
    """What the events of a host refer to, whichever of them are chosen."""

    def __init__(self, part: CaptureIndex, metadata: tuple[str, ...]) -> None:
        self.capture: Capture = part.capture
        self.plane_base = part.plane_base
        self.transcribed_from = part.environment.transcribed_from
        self.slack_ps = part.environment.slack_ps
        self.start_unix_ns = part.environment.start_unix_ns
        self.metadata_numbers = {name: i for i, name in enumerate(metadata)}
        self.texts = pa.array([], pa.string())
        self.meta_stats: dict[str, Stat] = {}
        self.meta_places: dict[str, dict[int, tuple[int, int]]] = {}
        self.programs: Sequence[Program] = ()
        self.arrows: Callable[[], list[Arrows]] = list
        """The arrows of flows that the capture records."""

    @cached_property
    def names(self) -> list[str]:
        return [*self.capture.texts(self.capture.metas, b"XEventMetadata.name", "name_"), ""]

    @cached_property
    def display_names(self) -> list[str]:
        return [*self.capture.texts(self.capture.metas, b"XEventMetadata.display_name", "display_"), ""]

    def add_metas(self, names: list[str], display_names: list[str]) -> int:
        """Add rows of metadata, and return the first."""
        first = len(self.names) - 1
        self.names = [*self.names[:-1], *names, ""]
        self.display_names = [*self.display_names[:-1], *display_names, ""]
        return first
