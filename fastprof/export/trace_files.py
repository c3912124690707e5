"""Trace files of a session, for other viewers: Chrome's JSON and Perfetto's protobuf, streamed, with derived tracks,
step names, groups, flows and counters beside the events."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from fastprof._native import records
from fastprof._native.trace_writers import Batch, JsonWriter, Kinds, PerfettoWriter
from fastprof._version import __version__
from fastprof.decode.array_memory import adopt_thread
from fastprof.decode.decoder import Request
from fastprof.decode.selection import Selection, match_texts
from fastprof.decode.text_pools import TextTable
from fastprof.derive.host import Host
from fastprof.derive.timeline.counter_tracks import Series, list_counter_tracks, list_stream_counters
from fastprof.derive.timeline.derived_lines import NEEDS, derive_timeline
from fastprof.derive.timeline.derived_track import Arg, DerivedTimeline
from fastprof.derive.timeline.event_groups import EventGroups, StepBand, list_step_bands, read_event_groups
from fastprof.derive.timeline.flows import SHOWN_KINDS, pair_flows
from fastprof.derive.timeline.host_timeline import COUNTER, STEPS, Track, list_processes, list_raw_tracks
from fastprof.export.trace_batches import (
    ALL,
    BATCH_ROWS,
    FlowBatch,
    HostNames,
    RawBatches,
    Renamed,
    SharedStats,
    StatBatch,
    Titled,
    add_title,
    join_texts,
    list_host_tracks,
    list_selected_ids,
    slice_events,
)
from fastprof.schema.columns import Int32s, Int64s, count_bounds, expand_ranges, find_equal, number_distinct_rows
from fastprof.schema.value_classes import dataclass
from fastprof.tables.host_clocks import Offset, Offsets, align_clocks, make_host_clocks
from fastprof.tables.host_reader import read_host, read_host_lines
from fastprof.tables.table_set import TableSet

_COUNTER_RANK = -1
_STEPS, _STEPS_TID = "Steps", 0


@dataclass(frozen=True, slots=True)
class FileCounter:
    """A counter of the file."""

    track: Titled
    time_ps: Int64s
    values: npt.NDArray[Any]
    is_bytes: bool


class DerivedTracks:
    """Make the counters of capture ``number``: ``entire`` has all of its events, ``chosen`` the selected ones."""

    def __init__(self, entire: TableSet, chosen: TableSet, number: int) -> None:
        host = Host(read_host(entire, number, NEEDS.planes, NEEDS.stats, NEEDS.metadata_stats), entire.session.workers)
        self._entire, self._number = entire, number
        self._pool = entire.session.index.names.stats
        self._chosen = chosen.selection
        self._window = self._chosen.window(host.name)
        self._pairs = pair_flows(host)
        self._timeline = _add_step_track(derive_timeline(host), list_step_bands(host))
        groups = read_event_groups(host)
        ids = _get_event_ids(entire, number, host)
        self.added = _make_group_stats(groups, ids, self._pool)
        self.step_names = groups.step_names
        self._step_ids = ids[groups.step_rows]
        self._producers, self._consumers = ids[self._pairs.producer], ids[self._pairs.consumer]
        self._rows = self._chosen_rows()
        shown = np.zeros(len(self._timeline.tracks), bool)
        for place, track in enumerate(self._timeline.tracks):
            shown[place] = self._rows[track.first : track.last].any()
        self._shown = np.flatnonzero(shown)
        self.tracks = [add_title(self._timeline.tracks[place]) for place in self._shown.tolist()]
        series = [*list_counter_tracks(entire, number), *list_stream_counters(host.raw, list_processes(host.raw))]
        self.counters = [counter for counter in map(self._counted, series) if counter is not None]

    # ---- events of the capture

    @property
    def names(self) -> list[str]:
        """Names to go with those of the capture: of steps, and of kinds of flows."""
        return [*self.step_names, *SHOWN_KINDS]

    def renamed(self, more_at: int) -> Renamed:
        """Return events that are called as their step; ``more_at``: the number of the first of ``names``."""
        names = more_at + np.arange(len(self.step_names))
        order = np.argsort(self._step_ids, kind="stable")
        return Renamed(self._step_ids[order], names[order].astype(np.int32))

    def flow_ends(self, more_at: int, first: int, chosen: Int64s | None) -> FlowBatch:
        """Return the flows whose ends are both ``chosen`` (ids, ascending; None: all are), numbered from ``first``
        on."""
        keep = np.ones(len(self._producers), bool)
        if chosen is not None:
            keep = find_equal(chosen, self._producers)[0] & find_equal(chosen, self._consumers)[0]
        producers, consumers = self._producers[keep], self._consumers[keep]
        number = first + np.arange(len(producers), dtype=np.int64)
        kind = (more_at + len(self.step_names) + self._pairs.kind[keep].astype(np.int64)).astype(np.int32)
        event = np.concatenate([consumers, producers])
        order = np.argsort(event, kind="stable")
        out = np.repeat(np.array([0, 1], np.uint8), len(producers))
        return FlowBatch(event[order], np.tile(number, 2)[order], out[order], np.tile(kind, 2)[order])

    # ---- derived tracks

    def _chosen_rows(self) -> npt.NDArray[np.bool_]:
        """Return whether derived events are selected, by names of plane, track and event, and their times."""
        timeline, selection = self._timeline, self._chosen
        keep = np.ones(len(timeline), bool)
        planes = match_texts([track.process.plane.name for track in timeline.tracks], selection.planes)
        lines = match_texts([track.name for track in timeline.tracks], selection.lines)
        for track, plane, line in zip(timeline.tracks, planes, lines, strict=True):
            keep[track.first : track.last] = plane and line
        if selection.names:
            keep &= np.array([*match_texts(timeline.names, selection.names), False], bool)[timeline.name]
        if self._window is not None:
            first, last = self._window
            start, duration = timeline.start_ps, timeline.duration_ps
            keep &= (start < last) & ((start >= first) | (start + np.maximum(duration, 0) > first))
        return keep

    def batches(self, first_track: int, shared: SharedStats, name_base: int, clock: Offset) -> Iterator[Batch]:
        """Yield the events of ``tracks``, which writers know by the numbers from ``first_track`` on, by ``clock``."""
        timeline = self._timeline
        track = np.full(len(timeline), -1, np.int32)
        for number, place in enumerate(self._shown.tolist()):
            at = timeline.tracks[place]
            track[at.first : at.last] = first_track + number
        track[~self._rows] = -1
        kind, kinds = _find_kinds(timeline, shared, name_base)
        grouped = np.flatnonzero(timeline.group >= 0)
        groups = _make_stats(self._pool.add("group_id"), grouped, integers=timeline.group[grouped])
        own = _join_stats([groups, *(_make_arg(arg, self._pool) for arg in timeline.args)])
        del grouped, groups
        none, texts, lasting = StatBatch(), join_texts(self._pool.array()), len(self._pool)
        event = np.arange(len(timeline), dtype=np.int64)
        for first in range(0, len(timeline), BATCH_ROWS):
            rows = slice(first, first + BATCH_ROWS)
            stats = StatBatch(*slice_events(own, first, first + BATCH_ROWS - 1))
            times = clock.moved(timeline.start_ps[rows], timeline.duration_ps[rows])
            yield Batch(
                event[rows], *times, track[rows], kind[rows], kinds,
                stats.event, stats.native(), none.event, none.native(), texts, lasting,
                Renamed(), FlowBatch(),
            )  # fmt: skip

    @property
    def name_count(self) -> int:
        return len(self._timeline.names)

    # ---- counters

    def _counted(self, series: Series) -> FileCounter | None:
        """Return the values of a counter that are selected; None: there are none."""
        plane = series.process.plane
        if not (
            match_texts([plane.name], self._chosen.planes)[0] and match_texts([series.title], self._chosen.lines)[0]
        ):
            return None
        if not match_texts([series.title], self._chosen.names)[0]:
            return None
        keep = np.isfinite(series.value)
        if self._window is not None:
            keep &= (series.time_ps >= self._window[0]) & (series.time_ps < self._window[1])
        if not keep.any():
            return None
        values = series.value[keep]
        if values.dtype != np.int64 and (np.abs(values) < 2**53).all() and (values == np.trunc(values)).all():
            values = values.astype(np.int64)
        track = Titled(plane.plane_id, 0, series.title, _COUNTER_RANK)
        return FileCounter(track, np.ascontiguousarray(series.time_ps[keep], np.int64), values, series.unit == "bytes")


def _get_event_ids(entire: TableSet, number: int, host: Host) -> Int64s:
    """Return the event_id of each row of a host, in the order in which it was read."""
    index = entire.session.index
    if index.captures[number].capture.salvage:  # some events of a line may not be there
        events = entire.decode(Request(("event_id", "start_ps"))).events
        timed: Int64s = np.asarray(events["event_id"])[~np.asarray(events["start_ps"].is_null())]
        return timed
    lines = host.raw.lines
    counts = [line.last - line.first for line in lines]
    of_line = np.array([line.line_id for line in lines], np.int64)
    before = index.lines["first_event_id"][of_line] - np.array([line.first for line in lines], np.int64)
    ids: Int64s = np.arange(sum(counts), dtype=np.int64) + np.repeat(before, counts)
    return ids


def _add_step_track(timeline: DerivedTimeline, bands: list[StepBand]) -> DerivedTimeline:
    """Return the steps of the host as a further track, before its threads. XProf shows steps of devices alone."""
    threads = next((process for process in timeline.processes if process.plane.kind == "CPU"), None)
    band = next((row for row in bands if row.process is None), None)
    if threads is None or band is None:
        return timeline
    first, last = len(timeline), len(timeline) + len(band)
    none = np.full(len(band), -1, np.int32)
    track = Track(len(timeline.tracks), threads, _STEPS_TID, _STEPS, STEPS, first, last)
    return replace(
        timeline,
        tracks=[*timeline.tracks, track],
        start_ps=np.append(timeline.start_ps, band.start_ps),
        duration_ps=np.append(timeline.duration_ps, band.duration_ps),
        name=np.append(timeline.name, len(timeline.names) + band.name).astype(np.int32),
        names=[*timeline.names, *band.names.to_pylist()],
        group=np.append(timeline.group, band.group),
        long_name=np.append(timeline.long_name, none),
        meta=np.append(timeline.meta, none),
    )


def _make_group_stats(groups: EventGroups, ids: Int64s, pool: TextTable) -> StatBatch:
    """Return what is added to events: their group, whether they are eager, the name of their step."""
    parts = []
    for name, values in (("group_id", groups.group_id), ("is_eager", groups.is_eager)):
        rows = np.flatnonzero(values >= 0)
        parts.append(_make_stats(pool.add(name), ids[rows], integers=values[rows]))
    parts.append(
        _make_stats(pool.add("step_name"), ids[groups.step_rows], texts=_number_texts(groups.step_names, pool))
    )
    return _join_stats(parts)


def _make_arg(arg: Arg, pool: TextTable) -> StatBatch:
    name = pool.add(arg.name)
    if isinstance(arg.values, list):
        return _make_stats(name, arg.rows, texts=_number_texts(arg.values, pool))
    if arg.values.dtype.kind == "f":
        return _make_stats(name, arg.rows, doubles=arg.values)
    return _make_stats(name, arg.rows, integers=arg.values)


def _number_texts(texts: Sequence[str], pool: TextTable) -> Int32s:
    """Return the numbers of texts in the pool."""
    numbers = {text: pool.add(text) for text in dict.fromkeys(texts)}
    return np.array([numbers[text] for text in texts], np.int32)


def _make_stats(
    name: int,
    event: npt.NDArray[Any],
    *,
    integers: npt.NDArray[Any] | None = None,
    doubles: npt.NDArray[Any] | None = None,
    texts: Int32s | None = None,
) -> StatBatch:
    """Return a stat of events, with values of one kind."""
    count = len(event)
    kind = records.STR if texts is not None else records.DOUBLE if doubles is not None else records.INT64
    if integers is not None and integers.dtype.kind == "u":
        kind = records.UINT64
    return StatBatch(
        np.ascontiguousarray(event, np.int64),
        np.full(count, name, np.int32),
        np.full(count, kind, np.uint8),
        np.zeros(count, np.int64) if integers is None else integers.astype(np.int64),
        np.zeros(count, np.float64) if doubles is None else doubles.astype(np.float64),
        np.full(count, -1, np.int32) if texts is None else texts,
    )


def _join_stats(parts: list[StatBatch]) -> StatBatch:
    """Return the stats in the order of events."""
    columns = StatBatch(*map(np.concatenate, zip(*parts, strict=True)))
    if (columns.event[1:] >= columns.event[:-1]).all():
        return columns
    return columns.taken(np.argsort(columns.event, kind="stable"))


def _find_kinds(timeline: DerivedTimeline, shared: SharedStats, name_base: int) -> tuple[Int32s, Kinds]:
    """Return the kind of each event: its name, its long name, and the metadata whose stats it shows; and what kinds
    share."""
    columns = (timeline.name, timeline.long_name, timeline.meta)
    first_rows, kind = number_distinct_rows(columns)
    name, long_name, meta = (column[first_rows] for column in columns)
    counts = np.where(meta >= 0, shared.first[meta + 1] - shared.first[meta], 0)
    first = count_bounds(counts)
    _, rows = expand_ranges(shared.first[np.maximum(meta, 0)], counts)
    stats = shared.columns.taken(rows)
    shared_by_kind = Kinds(name, long_name, join_texts(timeline.names), name_base, stats.native(), first)
    return kind, shared_by_kind


CHROME, PERFETTO = "chrome", "perfetto"
_PS_IN_NS, _PS_IN_US = 1000, 10**6
_MOST_APART_PS = 2**62
Writer = JsonWriter | PerfettoWriter


class TraceFile:
    """The selected events of a session as a file in a form. ``derived``: with tracks that XProf derives, steps, flows
    and counters, for which the events of a host are read whole. ``stats``: one of trace_batches.STATS. ``offsets``: of
    clocks that are known better than by when hosts recorded to have started.

    Once ``chunks`` has ended, ``events`` says how many events of the capture were written, ``untimed`` how many were
    left out since they have no start.
    """

    def __init__(
        self, tables: TableSet, form: str, derived: bool = True, stats: str = ALL, offsets: Offsets | None = None
    ) -> None:
        self.tables = tables
        self.form = form
        self.derived = derived
        self.stats = stats
        self.events = self.untimed = 0
        session = tables.session
        selected = tables.selection.hosts
        self._numbers = [i for i, host in enumerate(session.hosts) if selected is None or host in selected]
        self._shifts, self._start_unix_ns = self._aligned(offsets)
        unmoved, known = Offset("", 0), offsets or {}
        self._clocks = {number: known.get(session.hosts[number], unmoved) for number in self._numbers}
        self._names = self._flows = 0
        self._pids: set[int] = set()

    def chunks(self) -> Iterator[bytes]:
        """Yield the file, in pieces of some megabytes."""
        yield from (self._chrome() if self.form == CHROME else self._perfetto())

    def _chrome(self) -> Iterator[bytes]:
        session = self.tables.session
        hosts = [
            {
                "host": session.hosts[number],
                "start_unix_ns": _format_number(session.index.captures[number].environment.start_unix_ns),
                "shift_ps": str(self._shifts[number]),
                **self._drift_of(number),
            }
            for number in self._numbers
        ]
        metadata = {"highres-ticks": True, "fastprof": __version__, "hosts": hosts}
        head = json.dumps({"displayTimeUnit": "ns", "metadata": metadata, "traceEvents": []})
        yield head.removesuffix("]}").encode() + b"\n"
        between = b""
        for piece in self._pieces(JsonWriter()):
            if piece:
                yield between + piece[:-2]  # each object is followed by a comma and the end of a line
                between = b",\n"
        yield b"\n]}\n"

    def _perfetto(self) -> Iterator[bytes]:
        lowest = self._first_ps()
        early = -(lowest // _PS_IN_US) * _PS_IN_US if lowest < 0 else 0  # times of Perfetto are 0 or more
        self._shifts = {number: shift + early for number, shift in self._shifts.items()}
        start = 0 if self._start_unix_ns is None else self._start_unix_ns - early // _PS_IN_NS
        writer = PerfettoWriter()
        yield writer.begin(start if 0 < start < 2**63 else 0)
        yield from (piece for piece in self._pieces(writer) if piece)

    # ---- hosts

    def _aligned(self, offsets: Offsets | None) -> tuple[dict[int, int], int | None]:
        """Return the offsets, in ps, by which hosts count from one start, and that start in Unix ns."""
        session = self.tables.session
        numbers = self._numbers if not offsets else range(len(session.hosts))  # references may not be selected
        clock = make_host_clocks([session.index.captures[number].environment.start_unix_ns for number in numbers])
        if offsets:
            clock = align_clocks(clock, session.hosts, offsets)
        shifts = dict(zip(numbers, clock.offsets_ps, strict=True))
        return {number: shifts[number] for number in self._numbers}, clock.start_unix_ns

    def _drift_of(self, number: int) -> dict[str, Any]:
        """Return what more moves times than shift_ps, which holds at drift_from_ps; nothing: no drift is known."""
        clock = self._clocks[number]
        return {"drift_ppm": clock.drift * 1e6, "drift_from_ps": str(clock.at_ps)} if clock.drift else {}

    def _first_ps(self) -> int:
        """No event of the session is earlier than this, or 0."""
        index = self.tables.session.index
        index.ensure(records.EVENTS, self.tables.wanted.pieces())
        first = 0
        for number in self._numbers:
            part = index.captures[number]
            segments = part.known.segments
            timed = segments[segments["aggregated_count"] < segments["event_count"]]
            if len(timed):
                start = part.pieces["base_ps"][timed["piece"]].astype(np.float64) + timed["min_start"]
                slack = 0 if abs(start.min()) < 2**52 else 2**12  # a float is near enough to what it stands for
                earliest = np.array([int(start.min()) - slack], np.int64)
                at, _ = self._clocks[number].moved(earliest, np.zeros(1, np.int64))
                first = min(first, int(at[0]) + self._shifts[number])
        return max(first, -_MOST_APART_PS)

    # ---- events

    def _pieces(self, writer: Writer) -> Iterator[bytes]:
        for number in self._numbers:
            yield from self._host_pieces(writer, number)
        yield writer.end()

    def _host_pieces(self, writer: Writer, number: int) -> Iterator[bytes]:
        session = self.tables.session
        chosen = TableSet(session, self.tables.selection.narrowed(hosts=session.hosts[number]))
        entire = TableSet(session, Selection(hosts=(session.hosts[number],)))
        lines = read_host_lines(entire, number)
        processes = list_processes(lines)
        raw = list_raw_tracks(lines, processes)
        derived = DerivedTracks(entire, chosen, number) if self.derived else None
        shared = SharedStats(chosen, number, self.stats == ALL)
        tracks = [add_title(track) for track in raw]
        if derived is not None:
            tracks += [*derived.tracks, *(counted.track for counted in derived.counters)]
        shown = list_host_tracks(processes, tracks, self._pids, self.form == PERFETTO)
        yield writer.host(*shown, self._shifts[number])
        if derived is not None:
            yield from self._derived_pieces(writer, derived, len(raw), shared, self._clocks[number])
        names = HostNames(chosen, number, [] if derived is None else derived.names)
        kinds = Kinds(
            names.name, names.long_name, join_texts(names.array), self._names, shared.columns.native(), shared.first
        )
        self._names += len(names)
        of_line = np.full(len(session.index.lines), -1, np.int32)
        for place, track in enumerate(raw):
            if track.line is not None and (derived is None or track.kind != COUNTER):
                of_line[track.line.line_id] = place
        batches = RawBatches(chosen, of_line, kinds, self.stats, self._clocks[number])
        if derived is not None:
            batches.added, batches.renamed = derived.added, derived.renamed(names.more_at)
            selection = chosen.selection
            filtered = selection.filters_events or bool(selection.planes or selection.lines)
            batches.flows = derived.flow_ends(
                names.more_at, self._flows, list_selected_ids(chosen) if filtered else None
            )
            self._flows += len(batches.flows.event) // 2
        yield from _format_batches(batches, writer.events, session.workers.report)
        self.events += batches.events
        self.untimed += batches.untimed

    def _derived_pieces(
        self, writer: Writer, derived: DerivedTracks, first: int, shared: SharedStats, clock: Offset
    ) -> Iterator[bytes]:
        """Counters, and derived tracks."""
        for place, counted in enumerate(derived.counters):
            is_double = counted.values.dtype.kind == "f"
            time_ps, _ = clock.moved(counted.time_ps, np.zeros_like(counted.time_ps))
            yield writer.counter(
                first + len(derived.tracks) + place, time_ps, counted.values, is_double, counted.is_bytes
            )
        for batch in derived.batches(first, shared, self._names, clock):
            yield writer.events(batch)
        self._names += derived.name_count


def _format_batches(
    batches: RawBatches, write: Callable[[Batch], bytes], report: Callable[[str, int, int], None]
) -> Iterator[bytes]:
    """While one batch is formatted, the one before is the caller's to write, and the next is decoded."""
    writing: Future[bytes] | None = None
    with ThreadPoolExecutor(1, thread_name_prefix="fastprof", initializer=adopt_thread) as pool:
        for share in batches.shares():
            batch = batches.batch(batches.decode(share))
            written = b"" if writing is None else writing.result()
            writing = pool.submit(write, batch)
            yield written
            report("writing", batches.events, batches.total)
        if writing is not None:
            yield writing.result()


def _format_number(number: int | None) -> str | None:
    return None if number is None else str(number)
