"""``trace_viewer@``: the window that XProf's streaming trace viewer shows, host after host.

XProf's tracks are the slices of one tid, the points of one counter, and asynchronous events of one name. Names of more
than 32 letters are stored elsewhere: if names distinguish events, these have none. Long names of events that are shown
under a shorter one are stack frames, numbered as in XProf, by a hash of the text. Values of counters are the stats of
events of counter lines, and of their metadata."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import field
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fastprof._native import records
from fastprof._native.visibility import Traced
from fastprof._native.xprof_events import Drawn, Marks, NamedValues, Writer, gnu_hash
from fastprof.decode.decoder import Decoded, Request
from fastprof.derive.timeline.host_timeline import Process, list_processes
from fastprof.errors import UsageError
from fastprof.schema.columns import (
    Bools,
    Int32s,
    Int64s,
    UInt8s,
    UInt64s,
    count_bounds,
    expand_ranges,
    find_group_bounds,
    number_values,
    sort_rows,
)
from fastprof.schema.value_classes import dataclass
from fastprof.tables.host_events import COUNTER_LINE, Line
from fastprof.tables.table_set import TableSet
from fastprof.xprof.trace.trace_host import (
    FRAME_STATS,
    HIDDEN_STATS,
    STATS,
    Texts,
    TraceHost,
    get_indices,
    get_texts,
    get_title,
    keep_lines,
    list_hosts,
    note_cut,
    number_lines,
    view_int64,
    write_names,
)

_PERCENT_AND_RATES: Final = ("(util %)", " (MB/sec)")
"""Ends of stat names whose values XProf shows with two decimals."""
_AS_IT_IS, _TWO_DECIMALS = 0, 1
_SHOWN: Final = (records.INT64, records.UINT64, records.DOUBLE, records.STR, records.REF)
_HIDDEN: Final = HIDDEN_STATS | {"group_id", "flow", "_a"}
_LONG_NAME: Final = "long_name"
_Columns = tuple[npt.NDArray[Any], ...]
"""Columns by value: the number of its event, the number of its stat's name, kind, bits of the number, number of the
text."""


class CounterPoints:
    """Values of all counters of a host, which are read when the first is needed."""

    def __init__(self, trace: TraceHost) -> None:
        self._trace = trace
        lines = [line for line in trace.raw.lines if line.name == COUNTER_LINE]
        parts = [np.arange(line.first, line.last) for line in lines]
        self._rows: Int64s = np.concatenate(parts or [np.zeros(0, np.int64)])
        self._read([line.line_id for line in lines])

    def _read(self, line_ids: list[int]) -> None:
        """Read values. Each event has its full name if another is displayed, the stats of its metadata, then its
        own."""
        tables = self._trace.tables
        selection = tables.selection.narrowed([self._trace.raw.host], lines=f"^{COUNTER_LINE}$")
        decoder = tables.decoder(Request(("event_id", "line_id", "start_ps"), STATS), selection)
        decoded = decoder.decode(list(decoder.blocks()), stage=None)
        timed = np.asarray(decoded.events["start_ps"].is_valid())
        mine = np.flatnonzero(timed & np.isin(np.asarray(decoded.events["line_id"]), line_ids))
        self._names = [name or "" for name in decoder.stat_names.to_pylist()]
        own = _read_points(decoded, mine)
        self._pools: list[Any] = [decoded.texts]
        self._take([*self._of_metadata(), own])
        self._texts: Texts = get_texts(pa.concat_arrays([pool.cast(pa.large_string()) for pool in self._pools]))

    def _of_metadata(self) -> tuple[_Columns, _Columns]:
        """Return full names, and the stats of metadata."""
        trace = self._trace
        metas, which = number_values(trace.raw.meta[self._rows])
        owner, stats = trace.tables.session.metadata_stats(trace.number)
        having = np.flatnonzero(np.isin(owner, metas[metas >= 0]))
        having = having[np.argsort(owner[having], kind="stable")]
        first, last = (np.searchsorted(owner[having], metas, side) for side in ("left", "right"))
        at, span = expand_ranges(first[which], (last - first)[which])
        span = having[span]
        used, number = number_values(stats.stat[span])
        pool = trace.tables.session.index.names.stats.array()
        stat = np.where(used >= 0, len(self._names) + np.arange(len(used)), -1)[number]
        self._names += [pool[name].as_py() if name >= 0 else "" for name in used.tolist()]
        value = np.where(stats.kind == records.DOUBLE, stats.double_value.view(np.int64), stats.int_value)
        text = self._add_texts(pool) + stats.text[span]
        return self._long_names(metas, which), (at, stat, stats.kind[span], value[span], text)

    def _long_names(self, metas: Int32s, which: npt.NDArray[np.intp]) -> _Columns:
        raw, shown = self._trace.raw, self._trace.display_names
        long = [raw.names[meta] if meta >= 0 and shown[meta] else "" for meta in metas.tolist()]
        at = np.flatnonzero(np.array([bool(name) for name in long], np.bool_)[which])
        stat, nothing = np.full(len(at), len(self._names), np.int64), np.zeros(len(at), np.int64)
        self._names.append(_LONG_NAME)
        text = self._add_texts(pa.array(long, pa.large_string())) + which[at]
        return at, stat, np.full(len(at), records.STR, np.uint8), nothing, text

    def _add_texts(self, texts: Any) -> int:
        """Add texts, and return the number of the first of them."""
        self._pools.append(texts)
        return sum(map(len, self._pools[:-1]))

    def _take(self, parts: list[_Columns]) -> None:
        """Keep the values by event, in the order of the parts, without those of hidden stats."""
        row, stat, kind, value, text = (np.concatenate(columns) for columns in zip(*parts, strict=True))
        shown = np.array([*(name not in _HIDDEN for name in self._names), True], np.bool_)[stat]
        keep = np.flatnonzero(shown & np.isin(kind, _SHOWN))
        keep = keep[np.argsort(row[keep], kind="stable")]
        self._bounds: Int64s = find_group_bounds(row[keep], len(self._rows)).astype(np.int64)
        self._stat, self._kind, self._value = stat[keep], kind[keep].astype(np.uint8), value[keep].astype(np.int64)
        self._text: Int32s = text[keep].astype(np.int32)
        rounded = (name.endswith(_PERCENT_AND_RATES) for name in self._names)
        decimals = (_TWO_DECIMALS if is_rounded else _AS_IT_IS for is_rounded in rounded)
        self._decimals = np.array([*decimals, _AS_IT_IS], np.int32)

    def of_rows(self, rows: Int64s) -> tuple[str, NamedValues]:
        """Return the name of the first stat of the first of these rows of counters, and the values of each."""
        place = np.searchsorted(self._rows, rows)
        first, count = self._bounds[place], self._bounds[place + 1] - self._bounds[place]
        bounds = count_bounds(count)
        _, at = expand_ranges(first, count)
        stat = int(self._stat[first[0]]) if len(rows) and count[0] else -1
        name = self._names[stat] if stat >= 0 else ""
        key = self._decimals[self._stat[at]]
        return name, NamedValues(bounds, key, self._kind[at], self._value[at], None, self._text[at], self._texts)


def _read_points(decoded: Decoded, mine: npt.NDArray[np.intp]) -> _Columns:
    stats = decoded.stats
    event_id, events = view_int64(stats["event_id"]), view_int64(decoded.events["event_id"])[mine]
    at = np.searchsorted(events, event_id)
    keep = np.flatnonzero(np.append(events, -1)[at] == event_id)
    kind = get_indices(stats["kind"]).view(np.uint8)[keep]
    real = np.frombuffer(stats["double_value"].buffers()[1] or b"", np.float64)[keep]
    value = np.where(kind == records.DOUBLE, real.view(np.int64), view_int64(stats["int_value"])[keep])
    return at[keep], get_indices(stats["stat"])[keep], kind, value, get_indices(stats["str_value"])[keep]


_NAME_BYTES: Final = 32
SLICES, FLIGHTS, COUNTERS = range(3)


@dataclass(slots=True)
class ShownProcess:
    """Process in the viewer. ``titles``: names of its tracks of slices, by tid."""

    pid: int
    name: str
    titles: dict[int, str]
    is_tpu: bool


@dataclass(frozen=True, slots=True)
class TrackKey:
    """Key of a track. Keys order events of several tracks that start and end together: slices by tid, then counters and
    asynchronous events by name."""

    pid: int
    kind: int
    tid: int
    name: str

    @property
    def order(self) -> tuple[int, bool, int, bytes]:
        return self.pid, self.kind != SLICES, self.tid, self.name.encode()


@dataclass(slots=True)
class StreamedTracks:
    """Tracks of a host. ``rows``: of the trace, by track, then start, longer first; ``bounds``: where each track
    begins, and the end."""

    processes: list[ShownProcess]
    keys: list[TrackKey]
    rows: Int64s
    bounds: Int64s


def find_tracks(trace: TraceHost) -> StreamedTracks:
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
    rows = _keep_derived_order(trace, _sort_by_time(trace, rows, track), track)
    return StreamedTracks(processes, keys, rows, find_group_bounds(track, len(keys)))


class _Building:
    """Builder of tracks. ``track``: number of each row's track in ``keys``, or -1 if it is not shown."""

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
        processes: dict[int, ShownProcess] = {}
        line_track: dict[int, int] = {}
        for process in list_processes(self.trace.raw):
            lines = keep_lines(self.trace, process.plane) if process.shown else []
            if lines:
                shown = processes.setdefault(process.pid, ShownProcess(process.pid, "", {}, False))
                shown.name, shown.is_tpu = process.name, shown.is_tpu or process.plane.kind in ("TPU", "SPARSECORE")
                self._add_lines(shown, process, lines, line_track)
        of_line = [line_track.get(number, -1) for number in self.trace.ready.regions.line.tolist()]
        self.track[self.trace.first_region : self.trace.first_derived] = of_line
        for track in self.trace.derived.tracks:
            if track.process.pid in processes:
                processes[track.process.pid].titles[track.tid] = track.name
                first = self.trace.first_derived
                number = self._number(TrackKey(track.process.pid, SLICES, track.tid, ""))
                self.track[first + track.first : first + track.last] = number
        return [processes[pid] for pid in sorted(processes)]

    def _add_lines(self, shown: ShownProcess, process: Process, lines: list[Line], line_track: dict[int, int]) -> None:
        tids = number_lines(self.trace, process.plane)
        for line in lines:
            if line.first == line.last:
                continue
            if line.name == COUNTER_LINE:
                self._add_counters(shown.pid, np.arange(line.first, line.last))
                continue
            tid = tids[line.number]
            shown.titles[tid] = get_title(line)
            number = line_track[line.number] = self._number(TrackKey(shown.pid, SLICES, tid, ""))
            self.track[line.first : line.last] = number
            flights = np.flatnonzero(self._async[line.first : line.last])
            if len(flights):
                self._add_flights(shown.pid, line.first + flights)

    def _add_flights(self, pid: int, rows: Int64s) -> None:
        names, which = number_values(self.trace.name[rows])
        texts = [self.trace.names[name] for name in names.tolist()]
        self._add_named(pid, FLIGHTS, rows, [text if is_kept_name(text) else "" for text in texts], which)

    def _add_counters(self, pid: int, rows: Int64s) -> None:
        """Add counters, which have the names of their metadata, whatever name is displayed."""
        names = self.trace.raw.names
        metas, which = number_values(self.trace.raw.meta[rows])
        self._add_named(pid, COUNTERS, rows, [names[meta] if meta >= 0 else "" for meta in metas.tolist()], which)

    def _add_named(self, pid: int, kind: int, rows: Int64s, texts: Sequence[str], which: npt.NDArray[np.intp]) -> None:
        """Add rows to tracks of these names. ``which``: the number of each row's name in ``texts``."""
        numbers = [self._number(TrackKey(pid, kind, 0, text)) for text in texts]
        self.track[rows] = np.array(numbers, np.int32)[which]

    def _number(self, key: TrackKey) -> int:
        if key not in self._numbers:
            self._numbers[key] = len(self.keys)
            self.keys.append(key)
        return self._numbers[key]


def is_kept_name(name: str) -> bool:
    """Return whether XProf stores the name with the event."""
    return len(name.encode()) <= _NAME_BYTES


# ---- order


def _sort_by_time(trace: TraceHost, rows: Int64s, track: npt.NDArray[Any]) -> Int64s:
    """Sort the rows of each track by start, longer first, equal ones as they come. Tracks are usually in order, or have
    few rows that are not: sorting takes about as long as merging the runs that they consist of."""
    start, duration = trace.start[rows], trace.duration[rows]
    same = track[1:] == track[:-1]
    backwards = same & ~_is_in_order(start, duration)
    if not backwards.any():
        return rows
    order = np.arange(len(rows))
    for number in np.unique(track[1:][backwards]).tolist():
        first, last = np.searchsorted(track, [number, number + 1]).tolist()
        order[first:last] = first + np.argsort(start[first:last], kind="stable")
    start, duration = start[order], duration[order]
    again = np.append(False, same & (start[1:] == start[:-1]))
    run = np.cumsum(~again)  # of rows of a track that start together
    mixed = np.zeros(len(rows) + 1, np.bool_)
    mixed[run[1:][again[1:] & (duration[1:] > duration[:-1])]] = True
    part = np.flatnonzero(mixed[run])
    order[part] = order[part][sort_rows(run[part], ~duration[part])]
    return rows[order]


def _keep_derived_order(trace: TraceHost, rows: Int64s, track: npt.NDArray[Any]) -> Int64s:
    """Keep derived rows of GPUs in the order in which they were derived, which is not always by length. XProf sorts
    only derived rows of TPUs once more."""
    derived = np.zeros(len(trace), np.bool_)
    for number in trace.derived.tracks:
        if number.process.plane.kind == "GPU":
            derived[trace.first_derived + number.first : trace.first_derived + number.last] = True
    part = np.flatnonzero(derived[rows])
    if not len(part):
        return rows
    mine = rows[part]
    order = sort_rows(track[part], trace.start[mine], trace.derived.made[mine - trace.first_derived])
    drawn = rows.copy()
    drawn[part] = mine[order]
    return drawn


def _is_in_order(start: UInt64s, duration: UInt64s) -> Bools:
    later: Bools = start[1:] > start[:-1]
    later |= (start[1:] == start[:-1]) & (duration[1:] <= duration[:-1])
    return later


_LEAST_BYTES: Final = 17
"""Size below which texts stay with their events."""
_MOST_BYTES: Final = 10_000
_CUT: Final = b"...<truncated>"
_MARK: Final = b"@@"
_PIECE_FRAMES: Final = 1000


class FrameTexts:
    """Stack frames of all hosts."""

    def __init__(self) -> None:
        self._texts: dict[int, bytes] = {}

    def add(self, trace: TraceHost, tracks: StreamedTracks) -> None:
        """Add the frames of all drawn events, visible or not."""
        drawn = np.zeros(len(trace), np.bool_)
        kinds = np.array([key.kind for key in tracks.keys], np.uint8)
        drawn[tracks.rows[np.repeat(kinds != COUNTERS, np.diff(tracks.bounds))]] = True
        metas = trace.raw.meta[drawn[: len(trace.raw)]]
        used = np.zeros(len(trace.raw.names), np.bool_)
        used[metas] = True
        used[-1] = False
        long = trace.long_names()
        for row in np.flatnonzero(used).tolist():
            self._add(long[row])
        derived = trace.derived
        names = derived.long_name[drawn[trace.first_derived :]]
        for name in np.unique(names[names >= 0]).tolist():
            self._add(derived.names[name])
        self._add_stats(trace, drawn, used)

    def _add_stats(self, trace: TraceHost, drawn: Bools, used: Bools) -> None:
        for name in FRAME_STATS:
            of_meta = trace.raw.meta_stat(name).of_kinds((records.STR, records.REF))
            numbers = of_meta.value[used[of_meta.rows]]
            rows, values = trace.raw.texts(name)
            for text in trace.raw.all_texts(np.unique(values[drawn[rows]])) + trace.metadata_texts(numbers):
                self._add(text, whole=True)

    def _add(self, text: str, whole: bool = False) -> None:
        data = text.encode()
        if not whole and len(data) > _MOST_BYTES:
            data = data[:_MOST_BYTES] + _CUT
        if len(data) >= _LEAST_BYTES:
            self._texts.setdefault(gnu_hash(_MARK + data), data)

    def pieces(self) -> Iterator[bytes]:
        written = []
        yield b'"stackFrames":{'
        for number, key in enumerate(sorted(self._texts), 1):
            text = json.dumps(self._texts[key].decode(errors="replace"), ensure_ascii=False)
            written.append(f'{"," if number > 1 else ""}"{number}":{{"name":{text}}}')
            if len(written) == _PIECE_FRAMES:
                yield "".join(written).encode()
                written = []
        yield "".join(written).encode() + b"}"


_FEW_EVENTS: Final = 500_000
"""Number of events below which a host is shown whole."""
_MOST_SERIALS: Final = 256
"""Number of events that start together that XProf distinguishes; more are lost."""
_PS_IN_MS: Final = 1_000_000_000
_LAST: Final = 2**63 - 1
_PIECE: Final = 1 << 20
_HEAD: Final = (
    b'{"displayTimeUnit":"ns","metadata":{"highres-ticks":true},"codeLink":"","useNewBackend":false,"traceEvents":[\n'
)


@dataclass(frozen=True, slots=True)
class StreamedView:
    """View of a window; see trace_forms.write_trace. UsageError: a number makes no sense."""

    resolution: float
    start_ms: float
    end_ms: float
    full_dma: bool

    def __post_init__(self) -> None:
        for name in ("resolution", "start_ms", "end_ms"):
            value = getattr(self, name)
            if not math.isfinite(value) or not 0 <= value < 2**53:
                raise UsageError(f"{name} is a number, 0 or more, not {value!r}")
        if self.end_ms and self.end_ms < self.start_ms:
            raise UsageError("the window ends before it starts")

    def span(self, first: int, last: int) -> tuple[int, int]:
        """Return the window in ps, for a trace that goes from ``first`` to ``last``."""
        begin = max(round(self.start_ms * _PS_IN_MS), first)
        end = min(round(self.end_ms * _PS_IN_MS), last) if self.end_ms else last
        return begin, max(begin, end)

    def resolution_ps(self, span_ps: int) -> int:
        return math.floor(span_ps / int(self.resolution) + 0.5) if int(self.resolution) else 0


@dataclass(slots=True)
class _Session:
    """State that is known when all hosts are written."""

    shown: int = 0
    counters: int = 0
    first: int | None = None
    last: int | None = None
    has_tpus: bool = False
    frames: FrameTexts = field(default_factory=FrameTexts)


def write_streamed_form(tables: TableSet, view: StreamedView, max_text: int) -> Iterator[bytes]:
    session = _Session()
    yield _HEAD
    held = b""
    for number in list_hosts(tables):
        for piece in _Host(TraceHost(tables, number), view, session, max_text).pieces():
            yield held
            held = piece
    yield held.removesuffix(b",\n") + b"\n"
    # XProf writes these first; they are known last.
    details = b'{"name":"mpmd_pipeline_view","value":false}'
    if session.has_tpus:
        details += b',{"name":"full_dma","value":%s}' % str(view.full_dma).lower().encode()
    first, last = ((value or 0) / _PS_IN_MS for value in (session.first, session.last))
    yield b'],"details":[%s]' % details
    yield b',"returnedEventsSize":%d,"filteredByVisibility":true,' % session.shown
    yield f'"fullTimespan":[{first:.6g},{last:.6g}],'.encode()
    yield from session.frames.pieces()
    yield b',"showCounterMessage":"","totalCounterEvents":%d}\n' % session.counters


class _Host:
    def __init__(self, trace: TraceHost, view: StreamedView, session: _Session, max_text: int) -> None:
        self.trace = trace
        self.view = view
        self.session = session
        self.writer = Writer(max_text)
        self.max_text = max_text
        self.counters: CounterPoints | None = None
        self.tracks: StreamedTracks = find_tracks(trace)
        rows = self.tracks.rows
        self.start = np.ascontiguousarray(trace.start[rows])
        self.duration = np.ascontiguousarray(trace.duration[rows])
        self.flow = np.ascontiguousarray(trace.flow[rows])
        kinds = np.array([key.kind for key in self.tracks.keys], np.uint8)
        self.counting = np.repeat(kinds == COUNTERS, np.diff(self.tracks.bounds))
        self.flow[self.counting] = 0
        self.points: UInt8s = (kinds != SLICES).astype(np.uint8)
        self.serial = np.zeros(len(rows), np.uint32)

    def pieces(self) -> Iterator[bytes]:
        self.session.frames.add(self.trace, self.tracks)
        self.session.has_tpus |= any(process.is_tpu for process in self.tracks.processes)
        text = self.writer.text
        yield b"".join(
            write_names(text, process.pid, process.name, process.titles, streamed=True)
            for process in self.tracks.processes
        )
        visible = self._visible()
        self.session.shown += int(np.count_nonzero(visible))
        rows = self.tracks.rows
        names: Texts = get_texts(self.trace.names)
        pid = np.array([key.pid for key in self.tracks.keys], np.uint32)
        tid = np.array([key.tid for key in self.tracks.keys], np.uint32)
        name = np.ascontiguousarray(self.trace.name[rows])
        self.drawn = Drawn(self.start, self.duration, name, names, self.tracks.bounds, pid, tid)
        slices = visible & np.repeat(self.points == 0, np.diff(self.tracks.bounds)).view(np.uint8)
        group = np.ascontiguousarray(self.trace.group[rows])
        yield from self._points(visible, group)
        yield from self._slices(Marks(slices, group, self.serial, self.flow))
        note_cut(self.trace, self.writer.cut, self.max_text)

    # ---- what is visible

    def _visible(self) -> UInt8s:
        """Return which events are visible, and find the serials, which distinguish events that start together. Points
        of counters are sorted with their durations, and then have none."""
        count = len(self.start)
        flow, flow_count = self._flow_numbers()
        flow_end = (self.flow & np.uint64(3) == 1).astype(np.uint8)
        traced = Traced(self.start, self.duration, self.tracks.bounds, self.points, flow, flow_end, flow_count)
        order = np.zeros(count, np.int32)
        traced.order(order)
        traced.serials(order, self.serial)
        begin, end = self.view.span(*self._bounds())
        duration = np.where(self.counting, 0, self.duration).astype(np.uint64, copy=False)
        traced = Traced(self.start, duration, self.tracks.bounds, self.points, flow, flow_end, flow_count)
        resolution = 0 if count < _FEW_EVENTS else self.view.resolution_ps(end - begin)
        layer = None
        if resolution:
            layer = np.zeros(count, np.uint8)
            traced.layers(order, layer)
        visible = np.zeros(count, np.uint8)
        traced.visible(order, layer, self._hidden(), begin, end, resolution, visible)
        return visible

    def _flow_numbers(self) -> tuple[npt.NDArray[np.int32], int]:
        flows = np.full(len(self.flow), -1, np.int32)
        having = np.flatnonzero(self.flow)
        ids = (self.flow[having] >> np.uint64(2)) & np.uint64(2**56 - 1)
        known, number = number_values(ids)
        flows[having] = number
        return flows, len(known)

    def _hidden(self) -> UInt8s:
        """Mark events that XProf has lost, and on TPUs parts in the middle of a flow."""
        hidden = self.serial >= _MOST_SERIALS
        tpus = {process.pid for process in self.tracks.processes if process.is_tpu}
        if tpus and not self.view.full_dma:
            on_tpu = np.array([key.pid in tpus for key in self.tracks.keys], np.bool_)
            hidden |= np.repeat(on_tpu, np.diff(self.tracks.bounds)) & (self.flow & np.uint64(3) == 3)
        return hidden.view(np.uint8)

    def _bounds(self) -> tuple[int, int]:
        """Return the first start and the last end, without those before 0, which count as far off."""
        end = self.start + self.duration
        starts, ends = self.start[self.start <= _LAST], end[end <= _LAST]
        first = int(starts.min()) if len(starts) else 0
        last = int(ends.max()) if len(ends) else 0
        session = self.session
        if len(starts):
            session.first = first if session.first is None else min(session.first, first)
        if len(ends):
            session.last = last if session.last is None else max(session.last, last)
        return first, last

    # ---- events

    def _slices(self, marks: Marks) -> Iterator[bytes]:
        place = (0, 0)
        while True:
            piece, place = self.writer.drawn(self.drawn, marks, place, _PIECE)
            if not piece:
                return
            yield piece

    def _points(self, visible: UInt8s, group: npt.NDArray[np.int32]) -> Iterator[bytes]:
        """Write counters and asynchronous events."""
        bounds = self.tracks.bounds.tolist()
        marks = Marks(visible, group, self.serial, self.flow)
        for number, key in enumerate(self.tracks.keys):
            shown = int(np.count_nonzero(visible[bounds[number] : bounds[number + 1]]))
            if key.kind == FLIGHTS and shown:
                yield self.writer.flights(self.drawn, marks, number)
            if key.kind == COUNTERS and shown:
                self.session.counters += shown
                yield self._counter(number, visible)

    def _counter(self, number: int, visible: UInt8s) -> bytes:
        key = self.tracks.keys[number]
        first, last = self.tracks.bounds[number : number + 2].tolist()
        shown = first + np.flatnonzero(visible[first:last])
        self.counters = self.counters or CounterPoints(self.trace)
        stat, values = self.counters.of_rows(self.tracks.rows[shown])
        stats = b',"event_stats":%s' % self.writer.text(stat.encode()) if stat else b""
        name = self.writer.text(key.name.encode())
        head = b'{"pid":%d,"name":%s,"ph":"C"%s,"entries":[' % (key.pid, name, stats)
        points = self.writer.points(self.start[shown], values, len(shown))
        return head + points + b"]},\n"
