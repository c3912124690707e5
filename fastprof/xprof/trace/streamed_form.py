"""``trace_viewer@``: what XProf's streaming trace viewer shows of a window, host after host."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import field
from typing import Final

import numpy as np
import numpy.typing as npt

from fastprof._native.visibility import Traced
from fastprof._native.xprof_events import Drawn, Marks, Writer
from fastprof.errors import UsageError
from fastprof.schema.array_types import UInt8s
from fastprof.schema.value_classes import dataclass
from fastprof.tables.table_set import TableSet
from fastprof.xprof.trace.counter_points import CounterPoints
from fastprof.xprof.trace.stack_frames import StackFrames
from fastprof.xprof.trace.streamed_tracks import (
    COUNTERS,
    FLIGHTS,
    SLICES,
    StreamedTracks,
    streamed_tracks,
)
from fastprof.xprof.trace.trace_host import (
    Texts,
    TraceHost,
    arrow_texts,
    chosen_hosts,
    note_cut,
    process_names,
)

_FEW_EVENTS: Final = 500_000
"""Hosts with fewer are shown whole."""
_MOST_SERIALS: Final = 256
"""XProf distinguishes this many events that start together; more are lost."""
_PS_IN_MS: Final = 1_000_000_000
_LAST: Final = 2**63 - 1
_PIECE: Final = 1 << 20
_HEAD: Final = (
    b'{"displayTimeUnit":"ns","metadata":{"highres-ticks":true},"codeLink":"","useNewBackend":false,"traceEvents":[\n'
)


@dataclass(frozen=True, slots=True)
class View:
    """See chunks.chunks. UsageError: a number makes no sense."""

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
        """In ps, of a trace that goes from ``first`` to ``last``."""
        begin = max(round(self.start_ms * _PS_IN_MS), first)
        end = min(round(self.end_ms * _PS_IN_MS), last) if self.end_ms else last
        return begin, max(begin, end)

    def resolution_ps(self, span_ps: int) -> int:
        return math.floor(span_ps / int(self.resolution) + 0.5) if int(self.resolution) else 0


@dataclass(slots=True)
class _Session:
    """What is known when all hosts are written."""

    shown: int = 0
    counters: int = 0
    first: int | None = None
    last: int | None = None
    has_tpus: bool = False
    frames: StackFrames = field(default_factory=StackFrames)


def chunks(tables: TableSet, view: View, max_text: int) -> Iterator[bytes]:
    session = _Session()
    yield _HEAD
    held = b""
    for number in chosen_hosts(tables):
        for piece in _Host(TraceHost(tables, number), view, session, max_text).pieces():
            yield held
            held = piece
    yield held.removesuffix(b",\n") + b"\n"
    yield from _tail(session, view)


def _tail(session: _Session, view: View) -> Iterator[bytes]:
    """What XProf writes first: it is known last."""
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
    def __init__(self, trace: TraceHost, view: View, session: _Session, max_text: int) -> None:
        self.trace = trace
        self.view = view
        self.session = session
        self.writer = Writer(max_text)
        self.max_text = max_text
        self.counters: CounterPoints | None = None
        self.tracks: StreamedTracks = streamed_tracks(trace)
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
        self.session.has_tpus |= any(one.is_tpu for one in self.tracks.processes)
        yield self._metadata()
        visible = self._visible()
        self.session.shown += int(np.count_nonzero(visible))
        rows = self.tracks.rows
        names: Texts = arrow_texts(self.trace.names)
        pid = np.array([key.pid for key in self.tracks.keys], np.uint32)
        tid = np.array([key.tid for key in self.tracks.keys], np.uint32)
        name = np.ascontiguousarray(self.trace.name[rows])
        self.drawn = Drawn(self.start, self.duration, name, names, self.tracks.bounds, pid, tid)
        slices = visible & np.repeat(self.points == 0, np.diff(self.tracks.bounds)).view(np.uint8)
        group = np.ascontiguousarray(self.trace.group[rows])
        yield from self._points(visible, group)
        yield from self._slices(Marks(slices, group, self.serial, self.flow))
        note_cut(self.trace, self.writer.cut, self.max_text)

    # ---- processes and tracks

    def _metadata(self) -> bytes:
        text = self.writer.text
        return b"".join(
            process_names(text, one.pid, one.name, one.titles, streamed=True) for one in self.tracks.processes
        )

    def _text(self, text: str) -> bytes:
        return self.writer.text(text.encode())

    # ---- what is visible

    def _visible(self) -> UInt8s:
        """And the serials, which distinguish events that start together. Points of counters are put in order with their
        durations, and then have none."""
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
        found = np.full(len(self.flow), -1, np.int32)
        having = np.flatnonzero(self.flow)
        ids = (self.flow[having] >> np.uint64(2)) & np.uint64(2**56 - 1)
        known, number = np.unique(ids, return_inverse=True)
        found[having] = number
        return found, len(known)

    def _hidden(self) -> UInt8s:
        """What XProf has lost, and on TPUs parts in the middle of a flow."""
        hidden = self.serial >= _MOST_SERIALS
        tpus = {one.pid for one in self.tracks.processes if one.is_tpu}
        if tpus and not self.view.full_dma:
            on_tpu = np.array([key.pid in tpus for key in self.tracks.keys], np.bool_)
            hidden |= np.repeat(on_tpu, np.diff(self.tracks.bounds)) & (self.flow & np.uint64(3) == 3)
        return hidden.view(np.uint8)

    def _bounds(self) -> tuple[int, int]:
        """The first start and the last end, without those before 0, which count as far off."""
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
        """Counters and asynchronous events."""
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
        stats = b',"event_stats":%s' % self._text(stat) if stat else b""
        head = b'{"pid":%d,"name":%s,"ph":"C"%s,"entries":[' % (key.pid, self._text(key.name), stats)
        points = self.writer.points(self.start[shown], values, len(shown))
        return head + points + b"]},\n"
