"""Where the events of a session are: its planes and lines, numbered, and the segments of their events.

Numbers never depend on a selection: planes are numbered by host, lines by plane, events by line, each in the order
of first appearance (events by start), over the whole session. So every line's header is read, and its events are
counted by hopping over them; only lines that are asked for are looked into. Of captures in stores the bytes of other
lines are not fetched until event ids or counts are needed: only their fields before the events are read.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fastprof._native import records
from fastprof.decode.import_log import ImportLog
from fastprof.decode.span_stats import CaptureTexts, TaskEnvironment, read_task_environment
from fastprof.decode.text_pools import TextTable
from fastprof.decode.workers import Workers, group_sizes
from fastprof.decode.xspace_capture import Capture, Kinds
from fastprof.schema.columns import (
    Bools,
    Int32s,
    Int64s,
    Records,
    count_bounds,
    find_runs,
    invert_order,
    sort_rows,
    sum_by,
)
from fastprof.schema.value_classes import dataclass

UNIX_NS = 10**18
"""Line timestamps past this, September 2001, are in Unix time: no profile lasts so long."""

_TASK_BYTES = 16 << 20
_LAST_PS = 2**63 - 1
_LARGEST_NS = _LAST_PS // 1000
_SAFE_PS = 2**62
"""Sums of two times below this surely fit 64 bits."""

LINE = np.dtype(
    [("plane_id", "i8"), ("xline_id", "i8"), ("timestamp_ns", "i8"), ("duration_ps", "i8"), ("display_id", "i8")]
    + [("base_ps", "i8"), ("event_count", "i8"), ("first_event_id", "i8"), ("slack_ps", "i8")]
)


@dataclass(frozen=True, slots=True)
class KnownEvents:
    """What an index knows of the events of a capture. It never changes: an index that learns more publishes another.

    ``depth``     how deep each piece was indexed, ``least_depth`` the least of these
    ``segments``  of the indexed pieces, by line, then place; their events are numbered
    ``kinds``     by row of stat metadata, a bit for each kind of value that it was met with
    """

    depth: npt.NDArray[np.int8]
    least_depth: int
    segments: Records
    kinds: Kinds


class CaptureIndex:
    """One capture's share: its pieces are numbered in place, once; ``known`` grows by being replaced. ``lock`` is held
    by who indexes the capture, never by who reads it."""

    def __init__(self, capture: Capture, plane_base: int) -> None:
        self.capture = capture
        self.pieces = capture.pieces
        self.plane_base = plane_base
        self.lock = threading.RLock()
        self.environment: TaskEnvironment = read_task_environment(capture)
        depth = np.full(len(self.pieces), records.NOTHING, np.int8)
        self.least_depth = records.HEAD if capture.source.is_fetched and not capture.salvage else records.HOP
        """How deep all lines are indexed, wanted or not."""
        kinds = np.zeros(len(capture.stats.metas), np.uint8)
        self.known = KnownEvents(depth, _get_least(depth), np.zeros(0, records.SEGMENT), kinds)

    def lacks(self, depth: int, wanted: Bools | None) -> bool:
        """Return whether pieces are indexed less deep than that; those that are not wanted (None: all are) need a
        header."""
        known = self.known
        if known.least_depth >= depth:
            return False
        if self.capture.salvage:
            depth = records.STATS
        needed = depth if wanted is None or self.capture.salvage else np.where(wanted, depth, self.least_depth)
        return bool((known.depth < needed).any())

    def index_tasks(self, wanted: Bools, depth: int, segment_bytes: int) -> list[Callable[[], Any]]:
        """Return the tasks, which may run in parallel, that index the wanted pieces to ``depth``."""
        if self.capture.salvage:
            depth = records.STATS
        rows = np.flatnonzero(wanted & (self.known.depth < depth))
        if depth == records.HEAD:
            return [partial(self._read_head, row, segment_bytes) for row in rows.tolist()]
        tasks: list[Callable[[], Any]] = []
        for run in np.split(rows, np.flatnonzero(np.diff(rows) != 1) + 1) if len(rows) else ():
            last_piece = self.pieces[run[-1]]
            self.capture.source.expect(
                int(self.pieces["offset"][run[0]]), int(last_piece["offset"] + last_piece["length"])
            )
            for first, last in group_sizes(self.pieces["length"][run].tolist(), _TASK_BYTES):
                tasks.append(partial(self._index, int(run[first]), int(run[last - 1]) + 1, depth, segment_bytes))
        return tasks

    def _index(self, first: int, last: int, depth: int, segment_bytes: int) -> tuple[int, int, int, Any]:
        """Index pieces first..last, splitting large ones into resumable chunks."""
        pieces = self.pieces
        self.capture.source.check_unchanged()
        ranges = []
        if last - first > 1:
            ranges.append(self.capture.xspace.index(pieces, first, last, depth, segment_bytes))
            return first, last, depth, ranges
        at, end = int(pieces["offset"][first]), int(pieces["offset"][first] + pieces["length"][first])
        while True:
            ranges.append(
                self.capture.xspace.index(pieces, first, last, depth, segment_bytes, start=at, budget=_TASK_BYTES)
            )
            stopped = ranges[-1][4]
            if stopped >= end:
                return first, last, depth, ranges
            at = stopped

    def _read_head(self, row: int, segment_bytes: int) -> tuple[int, int, int, Any]:
        """Read the fields of a piece before its first event. Writers put all but its duration and what it is displayed
        as there; without any, it is read to its end."""
        piece = self.pieces[row]
        at, end = int(piece["offset"]), int(piece["offset"] + piece["length"])
        while at < end and not self.pieces["event_count"][row]:
            at = self.capture.xspace.index(self.pieces, row, row + 1, records.HOP, segment_bytes, start=at, budget=1)[4]
        named = self.pieces[row]
        if at >= end or not (named["id"] or named["timestamp_ns"] or named["name_length"]):
            return self._index(row, row + 1, records.HOP, segment_bytes)
        self.pieces["event_count"][row] = 0
        return row, row + 1, records.HEAD, []

    def learnt(self, indexed: Sequence[tuple[int, int, int, Any]], log: ImportLog) -> KnownEvents:
        """Return the known events and those that tasks have indexed; the latter are not numbered yet."""
        unknown = [np.frombuffer(part[1], records.UNKNOWN_STAT) for *_, parts in indexed for part in parts]
        rows, met = self.capture.declare(np.concatenate([np.zeros(0, records.UNKNOWN_STAT), *unknown]))
        known = self.known
        kinds = np.zeros(len(self.capture.stats.metas), np.uint8)
        kinds[: len(known.kinds)] = known.kinds
        kinds[rows] |= met
        depths, replaced = known.depth.copy(), np.zeros(len(self.pieces), bool)
        fresh = []
        for first, last, depth, ranges in indexed:
            depths[first:last] = depth
            replaced[first:last] = True
            for segments, _, kinds_met, faults, _ in ranges:
                fresh.append(np.frombuffer(segments, records.SEGMENT))
                log.add_faults(faults, self.capture.path)
                kinds[: len(kinds_met)] |= np.frombuffer(kinds_met, np.uint8)
        kept = known.segments[~replaced[known.segments["piece"]]]
        for segments in fresh:
            self._note_overflow(segments, log)
        return KnownEvents(depths, _get_least(depths), np.concatenate([kept, *fresh]), kinds)

    def _note_overflow(self, segments: Records, log: ImportLog) -> None:
        """Log segments of a line with times that 64 bits cannot hold."""
        timed = segments[segments["aggregated_count"] < segments["event_count"]]
        base = self.pieces["base_ps"][timed["piece"]]
        latest, earliest = _LAST_PS - np.maximum(base, 0), -_LAST_PS - 1 - np.minimum(base, 0)
        starts = (timed["max_start"] > latest) | (timed["min_start"] < earliest)
        ends = (timed["max_end"] > latest) | (timed["max_end"] == _LAST_PS)
        texts = (
            (starts, "time_overflow", "events of a line start beyond 64 bits of picoseconds: their start is unknown"),
            (
                ends & ~starts,
                "late_end",
                "events of a line end beyond 64 bits of picoseconds: sums stop at their limit",
            ),
        )
        for rows, code, text in texts:
            offsets = timed["offset"][rows].tolist()
            log.add_faults([(code, text, "XLine.events", 1, offset) for offset in offsets], self.capture.path)


def _get_least(depth: npt.NDArray[np.int8]) -> int:
    return int(depth.min(initial=records.STATS))


class SessionNames:
    """The names of events and the texts of stats of a session, each once.

    ``meta_names[i]``: the name of each event metadata of capture i, as a number in ``events``. ``texts[i]``: the texts
    of its stat metadata, as numbers in ``stats``.
    """

    def __init__(self, captures: Sequence[Capture]) -> None:
        memory = captures[0].memory
        self.events = TextTable(memory)
        self.stats = TextTable(memory)
        self.meta_names: list[Int32s] = []
        self.texts: list[CaptureTexts] = []
        for capture in captures:
            metas = capture.metas
            self.meta_names.append(
                capture.intern(metas["name_offset"], metas["name_length"], b"XEventMetadata.name", self.events)
            )
            self.texts.append(CaptureTexts(capture, self.stats))

    @cached_property
    def event_names(self) -> pa.Array:
        return self.events.array()


class Index:
    """The planes, lines and segments of a session. ``ensure`` before anything else is read.

    Threads may share it. What is published never changes; a lock is held only where it is made: of a capture while its
    events are indexed, of all captures while the lines of the session are numbered.
    """

    def __init__(self, captures: Sequence[Capture], workers: Workers, log: ImportLog) -> None:
        self.workers = workers
        self.log = log
        self.captures: list[CaptureIndex] = []
        planes = 0
        for capture in captures:
            self.captures.append(CaptureIndex(capture, planes))
            planes += len(capture.plane_keys)
        self.plane_count = planes
        self.of_host: dict[str, list[int]] = {}
        """The numbers of the captures of each host, by its name."""
        for number, capture in enumerate(captures):
            self.of_host.setdefault(capture.host, []).append(number)
        self.line_names: list[str] = []
        self.line_display_names: list[str] = []
        self._lines: Records | None = None
        self._is_counted = False
        """True once lines have event counts, and events have ids."""
        self._lock = threading.Lock()
        self._names: SessionNames | None = None
        self._dictionaries: dict[str, pa.Array] = {}

    def ensure(self, depth: int, wanted: Mapping[int, Bools] | None = None) -> None:
        """Learn so much about the wanted pieces of each capture (None: all), and the headers of all. ``wanted``: by
        number of the capture; of others nothing is."""
        if self._lines is None:
            numbers = list(range(len(self.captures)))
        else:
            chosen = range(len(self.captures)) if wanted is None else sorted(wanted)
            numbers = [i for i in chosen if self.captures[i].lacks(depth, None if wanted is None else wanted[i])]
            if not numbers:
                return
        with ExitStack() as held:
            for i in numbers:  # in the order of captures, as every thread takes them
                held.enter_context(self.captures[i].lock)
            self._learn(numbers, depth, wanted)

    def count_events(self) -> None:
        """Learn how many events all lines have, which numbers the events of the session."""
        if self._is_counted:
            return
        with ExitStack() as held:
            for part in self.captures:
                held.enter_context(part.lock)
            self._learn(list(range(len(self.captures))), records.HOP, None)
            if self._is_counted:
                return
            lines = self.headers.copy()
            base = 0
            for part in self.captures:
                pieces = part.pieces
                count = int(pieces["line_id"].max(initial=base - 1)) + 1 - base
                share = lines[base : base + count]
                self._sum_pieces(share, pieces, pieces["line_id"] - base)
                base += count
            lines["first_event_id"] = count_bounds(lines["event_count"])[:-1]
            self._set_labels(lines)
            for part in self.captures:
                part.known = _number_events(part.pieces, lines, part.known)
            self._lines = lines
            with self._lock:
                self._dictionaries = {}
            self._is_counted = True

    def _sum_pieces(self, lines: Records, pieces: Records, line_of_piece: Int64s) -> None:
        """Set what lines have of all their pieces."""
        for name in ("duration_ps", "display_id"):  # of the first piece that has one
            stated = np.flatnonzero(pieces[name])[::-1]
            lines[name][line_of_piece[stated]] = pieces[name][stated]
        lines["event_count"] = sum_by(line_of_piece, pieces["event_count"], len(lines), "events")

    def _learn(self, numbers: list[int], depth: int, wanted: Mapping[int, Bools] | None) -> None:
        tasks: list[Callable[[], Any]] = []
        owners: list[CaptureIndex] = []
        for i in numbers:
            part = self.captures[i]
            everything = np.ones(len(part.pieces), bool)
            mine = everything if wanted is None else wanted.get(i, ~everything)
            size = int(part.pieces["length"].sum())
            segment_bytes = max(1 << 18, min(4 << 20, size // (8 * self.workers.threads)))
            share = part.index_tasks(mine, depth, segment_bytes)
            share += part.index_tasks(everything & ~mine, part.least_depth, segment_bytes)
            tasks += share
            owners += [part] * len(share)
        sources: dict[CaptureIndex, list[tuple[int, int, int, Any]]] = {}
        for owner, result in zip(owners, self.workers.run("indexing", tasks), strict=True):
            sources.setdefault(owner, []).append(result)
        learnt = {}
        for part, results in sources.items():
            learnt[part] = part.learnt(results, self.log)
        if self._lines is None:
            lines = self._number_lines()
            self._is_counted = all(known.least_depth >= records.HOP for known in learnt.values())
        else:
            lines = self._lines
        for part, known in learnt.items():
            part.known = _number_events(part.pieces, lines, known)
        self._lines = lines

    @property
    def lines(self) -> Records:
        """A row a line (LINE), once ``ensure`` has been called."""
        self.count_events()
        return self.headers

    @property
    def headers(self) -> Records:
        """Rows of ``lines``, which need not have counts, ids of events, and durations yet."""
        assert self._lines is not None
        return self._lines

    def ensure_lines(self) -> None:
        """Learn the headers of all lines, which number them."""
        if self._lines is None:
            self.ensure(records.HOP, {})

    @property
    def names(self) -> SessionNames:
        """Names of events and stats, read when they are first asked for."""
        with self._lock:
            if self._names is None:
                self._names = SessionNames([part.capture for part in self.captures])
            return self._names

    def dictionaries(self) -> dict[str, pa.Array]:
        """Return the dictionaries of the columns host, plane, line and name. The pieces have their numbers in the first
        three."""
        names = self.names.event_names
        with self._lock:
            if not self._dictionaries:
                memory = self.captures[0].capture.memory
                hosts, planes, lines = TextTable(memory), TextTable(memory), TextTable(memory)
                line_index = np.array(
                    [lines.add(text) for text in get_line_labels(self.line_names, self.line_display_names)], np.int32
                )
                for part in self.captures:
                    part.pieces["host"] = hosts.add(part.capture.host)
                    plane_index = np.array([planes.add(name) for name, _ in part.capture.plane_keys], np.int32)
                    if len(part.pieces):
                        part.pieces["plane"] = plane_index[part.pieces["plane_id"] - part.plane_base]
                        part.pieces["line"] = line_index[part.pieces["line_id"]]
                labels = {"host": hosts.array(), "plane": planes.array(), "line": lines.array()}
                self._dictionaries = labels | {"name": names}
            return self._dictionaries

    # ---- lines

    def _number_lines(self) -> Records:
        shares = []
        count = 0
        for part in self.captures:
            share = self._lines_of(part, count)
            self._set_times(part)
            pieces = part.pieces[::-1]  # of several pieces of a line, the first is assigned last
            share["base_ps"][pieces["line_id"] - count] = pieces["base_ps"]
            shares.append(share)
            count += len(share)
        lines = np.concatenate(shares) if shares else np.zeros(0, LINE)
        lines["first_event_id"] = count_bounds(lines["event_count"])[:-1]
        self._set_labels(lines)
        return lines

    def _lines_of(self, part: CaptureIndex, base: int) -> Records:
        """Pieces of equal plane and id are one line."""
        pieces = part.pieces
        planes = part.capture.plane_of_part[pieces["part"]] if len(pieces) else np.zeros(0, np.int64)
        order = sort_rows(planes, pieces["id"])
        runs = find_runs(planes[order], pieces["id"][order])
        firsts = order[runs]
        by_appearance = sort_rows(planes[firsts], firsts)
        line_of_piece = np.empty(len(pieces), np.int64)
        line_of_piece[order] = np.repeat(invert_order(by_appearance), np.diff(np.append(runs, len(pieces))))
        pieces["line_id"] = base + line_of_piece
        pieces["plane_id"] = part.plane_base + planes
        lines = np.zeros(len(firsts), LINE)
        first = firsts[by_appearance]
        lines["plane_id"], lines["xline_id"] = part.plane_base + planes[first], pieces["id"][first]
        lines["timestamp_ns"] = pieces["timestamp_ns"][first]
        lines["slack_ps"] = part.environment.slack_ps
        self._sum_pieces(lines, pieces, line_of_piece)
        merged = len(pieces) - len(lines)
        if part.environment.zero_ns is not None:  # what another format calls a line may be of several pieces
            lines["timestamp_ns"] = part.environment.zero_ns
        elif merged:
            text = "lines of equal id in a plane are read as one"
            self.log.add("info", "merged_lines", text, part.capture.path, merged)
        return lines

    def _set_times(self, part: CaptureIndex) -> None:
        """base_ps of each piece; Unix times are counted from the host's start."""
        pieces, path = part.pieces, part.capture.path
        stamps = pieces["timestamp_ns"].copy()
        unix = stamps > UNIX_NS
        if part.environment.zero_ns is not None:
            stamps -= part.environment.zero_ns
        elif unix.any():
            start = part.environment.start_unix_ns
            if start is None or start <= UNIX_NS:
                start = int(stamps[unix].min())
                part.environment = TaskEnvironment(start, part.environment.stop_unix_ns, part.environment.stats)
            stamps[unix] -= start
            text = f"lines in Unix time are counted from {start} ns, the start of profiling on the host"
            self.log.add("info", "unix_time", text, path, int(unix.sum()))
        timeless = (stamps > _LARGEST_NS) | (stamps < -_LARGEST_NS)
        pieces["timeless"] = timeless
        pieces["base_ps"] = np.where(timeless, 0, stamps) * 1000
        if timeless.any():
            text = "the timestamp of a line does not fit 64 bits in picoseconds; its events have no start"
            self.log.add("data_loss", "time_overflow", text, path, int(timeless.sum()))

    def _set_labels(self, lines: Records) -> None:
        """Take the names of lines, and their display names, from the first piece that has one."""
        line_names, display_names = [""] * len(lines), [""] * len(lines)
        for part in self.captures:
            for prefix, names in (("name_", line_names), ("display_", display_names)):
                what = b"XLine.name" if prefix == "name_" else b"XLine.display_name"
                texts = part.capture.texts(part.pieces, what, prefix)
                for line, text in zip(part.pieces["line_id"].tolist(), texts, strict=True):
                    names[line] = names[line] or text
        self.line_names, self.line_display_names = line_names, display_names


def _number_events(pieces: Records, lines: Records, known: KnownEvents) -> KnownEvents:
    """Sort the segments by line, then place, and number their events as if the lines were sorted."""
    line = pieces["line_id"][known.segments["piece"]]
    order = sort_rows(line, known.segments["offset"])
    segments, line = known.segments[order], line[order]
    if len(segments):
        before, runs = count_bounds(segments["event_count"])[:-1], find_runs(line)
        before -= np.repeat(before[runs], np.diff(np.append(runs, len(line))))
        segments["event_id"] = lines["first_event_id"][line] + before
    return replace(known, segments=segments)


def find_unsorted_lines(pieces: Records, segments: Records) -> Int64s:
    """Lines whose events do not come in order of time, or may not: ids, ascending."""
    if not len(segments):
        return np.zeros(0, np.int64)
    line = pieces["line_id"][segments["piece"]].astype(np.int64)
    base = pieces["base_ps"][segments["piece"]]
    timed = segments["aggregated_count"] < segments["event_count"]
    doubtful = (segments["flags"] & records.SORTED) == 0
    doubtful |= timed & _find_far_segments(pieces, segments)
    doubtful |= (pieces["timeless"][segments["piece"]] != 0) & timed
    same = line[1:] == line[:-1]
    first = _add_base(base, segments["first_start"])[1:]
    last = _add_base(base, segments["last_start"])[:-1]
    earlier = first < last
    earlier |= (first == last) & (segments["first_duration"][1:] > segments["last_duration"][:-1])
    doubtful[1:] |= same & earlier
    return np.unique(line[doubtful])


def may_lack_starts(pieces: Records, segments: Records) -> bool:
    """Return whether events of the segments have no start: aggregated ones, or times that do not fit."""
    large = _find_far_segments(pieces, segments) & (segments["aggregated_count"] < segments["event_count"])
    return bool(segments["aggregated_count"].any() or pieces["timeless"].any() or large.any())


def _find_far_segments(pieces: Records, segments: Records) -> Bools:
    """Segments with times so large that adding base and start may pass 64 bits."""
    base = pieces["base_ps"][segments["piece"]]
    far = np.zeros(len(segments), bool)
    for times in (base, segments["min_start"], segments["max_start"]):
        far |= np.abs(times.astype(np.float64)) > _SAFE_PS
    return far


def _add_base(base: Int64s, start: Int64s) -> Int64s:
    """Return sums for comparing; an aggregated event's INT64_MAX stays. Sums that wrap belong to doubtful segments."""
    aggregated = start == np.iinfo(np.int64).max
    return np.where(aggregated, start, base + start)


def get_line_labels(names: Sequence[str], display_names: Sequence[str]) -> list[str]:
    """Return the labels of lines in events: their name, or their display name if they have none."""
    return [name or shown for name, shown in zip(names, display_names, strict=True)]
