"""A session in the JSON of XProf's trace viewers, in pieces: ``trace_viewer``, all events of a host with all of their
stats, as texts; or ``trace_viewer@``, see streamed_form."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from fastprof._native.xprof_events import Drawn, Writer
from fastprof.decode.decoder import Request
from fastprof.decode.plane_kinds import GPU_PLANES
from fastprof.derive.timeline.derived_track import Arg
from fastprof.derive.timeline.host_timeline import get_own_pid
from fastprof.errors import UsageError
from fastprof.tables.host_events import HOST_THREADS, Plane
from fastprof.tables.table_set import TableSet
from fastprof.xprof.trace import streamed_form
from fastprof.xprof.trace.streamed_form import StreamedView
from fastprof.xprof.trace.trace_host import (
    CUSTOM,
    STATS,
    TPUS,
    AddedColumns,
    MetadataValues,
    StatKeys,
    TraceHost,
    get_texts,
    get_title,
    keep_lines,
    list_hosts,
    make_no_values,
    note_cut,
    number_lines,
    read_stats,
    write_names,
)

_SHARE_ROWS: Final = 1 << 17
_PIECE: Final = 1 << 20
_HEAD: Final = b'{"displayTimeUnit":"ns","metadata":{"highres-ticks":true},\n"traceEvents":[\n'
_TAIL: Final = b"{}]}\n"
_ASYNC_LINE: Final = "Async XLA Ops"
Place = tuple[int, int]
_DEVICES, _THREADS = 1, 701
_MOST_NAMES: Final = 8


def write_whole_form(tables: TableSet, max_events: int, max_text: int) -> Iterator[bytes]:
    """Write the form with all events. UsageError: several hosts are selected, or none."""
    known, hosts = tables.session.hosts, list_hosts(tables)
    if len(hosts) != 1:
        problem = f"the form of XProf's trace_viewer takes one host, not {len(hosts)}"
        more = f" and {len(known) - _MOST_NAMES} more" if len(known) > _MOST_NAMES else ""
        raise UsageError(f"{problem}: choose one with --host (hosts=): {', '.join(known[:_MOST_NAMES])}{more}")
    return _Writing(tables, hosts[0], max_events, max_text).pieces()


class _Writing:
    def __init__(self, tables: TableSet, number: int, max_events: int, max_text: int) -> None:
        self.tables = tables
        self.number = number
        self.max_events = max_events
        self.writer = Writer(max_text)
        self.max_text = max_text

    def pieces(self) -> Iterator[bytes]:
        self.trace = TraceHost(self.tables, self.number)
        self.tables = self.trace.tables
        self._name_tracks()
        yield _HEAD
        text, processes = self.writer.text, sorted(self.titles.items())
        yield b"".join(write_names(text, pid, name, titles, streamed=False) for pid, (name, titles) in processes)
        self.kept = self._kept()
        self.names = get_texts(self.trace.names)
        metadata = MetadataValues(self.trace)
        of_host = self.tables.selection.narrowed([self.trace.raw.host])
        decoder = self.tables.decoder(Request(("event_id", "start_ps"), STATS), of_host)
        own_names = decoder.stat_names.to_pylist()
        added = self._added()
        names = [*own_names, *metadata.names.values(), *(arg.name for arg in (*added, *self.trace.derived.args))]
        self.keys = StatKeys([*(name for name in names if name is not None), "long_name", "group_id"])
        self.of_meta = metadata.values(self.trace.long_names(), self.keys)
        yield from self._raw_events(decoder, self.keys.numbers(own_names), AddedColumns(added, self.keys))
        yield from self._found_events()
        note_cut(self.trace, self.writer.cut, self.max_text)
        yield _TAIL

    # ---- processes and tracks

    def _name_tracks(self) -> None:
        """Find the pid and tid of each line, by its number, or 0 if it is not shown; and the names of tracks."""
        trace = self.trace
        lines = trace.raw.lines
        numbered = {line.line_id: place for place, line in enumerate(lines)}
        self.pid, self.tid = np.zeros(len(lines), np.uint32), np.zeros(len(lines), np.uint32)
        self.shown = np.zeros(len(lines), np.bool_)
        self.titles: dict[int, tuple[str, dict[int, str]]] = {}
        # Pids of the host's threads and of its devices: GPUs, else TPUs, else custom planes.
        pids: dict[Plane, int] = {}
        for names in (GPU_PLANES, TPUS, CUSTOM):
            if devices := [plane for plane in trace.raw.planes if re.match(names, plane.name)]:
                pids = {plane: get_own_pid(trace.raw, plane, _DEVICES) for plane in devices}
                break
        pids |= {plane: _THREADS for plane in trace.raw.planes if plane.name == HOST_THREADS}
        for plane, pid in pids.items():
            _, titles = self.titles.setdefault(pid, (plane.name, {}))
            tids = number_lines(trace, plane)
            for line in keep_lines(trace, plane):
                place = numbered[line.line_id]
                self.pid[place], self.tid[place] = pid, tids[line.number]
                self.shown[place] = get_title(line) != _ASYNC_LINE
                titles[tids[line.number]] = get_title(line)
        self.derived_pid: list[int] = []
        for track in trace.derived.tracks:
            self.derived_pid.append(pids.get(track.process.plane, 0))
            if track.process.plane in pids:
                self.titles[self.derived_pid[-1]][1][track.tid] = track.name

    # ---- which events

    def _kept(self) -> npt.NDArray[np.bool_]:
        """Return the earliest events, of those that are drawn on shown lines."""
        trace = self.trace
        kept = trace.drawn.copy()
        for place, line in enumerate(trace.raw.lines):
            if not self.shown[place]:
                kept[line.first : line.last] = False
        regions = trace.ready.regions.line
        kept[trace.first_region : trace.first_derived] = self.shown[regions]
        for pid, track in zip(self.derived_pid, trace.derived.tracks, strict=True):
            if pid not in self.titles:
                kept[trace.first_derived + track.first : trace.first_derived + track.last] = False
        rows = np.flatnonzero(kept)
        if len(rows) > self.max_events:
            late = np.argpartition(trace.start[rows], self.max_events)[self.max_events :]
            kept[rows[late]] = False
        return kept

    # ---- events

    def _added(self) -> list[Arg]:
        """Return the stats that XProf adds to the events of the capture."""
        trace = self.trace
        ready, count = trace.ready, len(trace.raw)
        group = np.flatnonzero(trace.group[:count] >= 0)
        eager = np.flatnonzero(ready.is_eager >= 0)
        flow = np.flatnonzero(trace.flow[:count])
        columns = [
            Arg("group_id", group, trace.group[:count][group].astype(np.int64)),
            Arg("is_eager", eager, ready.is_eager[eager].astype(np.int64)),
            Arg("flow", flow, trace.flow[:count][flow]),
            Arg("step_name", ready.step_rows, ready.step_names),
            Arg("run_id", ready.run_rows, ready.run_ids),
        ]
        return columns + [Arg(name, rows, values) for name, (rows, values) in ready.steps.args.items()]

    def _raw_events(self, decoder: Any, key_of_stat: npt.NDArray[np.int32], added: AddedColumns) -> Iterator[bytes]:
        raw, row = self.trace.raw, 0
        firsts = np.array([line.first for line in raw.lines] + [len(raw)], np.int64)
        for share in decoder.shares(_SHARE_ROWS):
            decoded = decoder.decode(share, stage=None)
            timed = np.arange(decoded.rows)
            if decoded.events["start_ps"].null_count:
                timed = np.flatnonzero(np.asarray(decoded.events["start_ps"].is_valid()))
            last = row + len(timed)
            if self.kept[row:last].any():
                lines = slice(int(np.searchsorted(firsts, row, side="right")) - 1, int(np.searchsorted(firsts, last)))
                bounds = np.clip(firsts[lines.start : lines.stop + 1], row, last) - row
                drawn = self._drawn(row, last, bounds, self.pid[lines], self.tid[lines])
                own = read_stats(decoded, key_of_stat, timed)
                yield from self._written(drawn, row, last, raw.meta[row:last], own, added.of_rows(row, last))
            row = last

    def _found_events(self) -> Iterator[bytes]:
        """Write the regions of thread pools, then the derived events."""
        trace = self.trace
        first, last = trace.first_region, len(trace)
        if first == last:
            return
        regions, derived = trace.ready.regions.line, trace.derived
        bounds = [*range(trace.region_count), *(trace.region_count + track.first for track in derived.tracks)]
        pid = np.array([*self.pid[regions].tolist(), *self.derived_pid], np.uint32)
        tid = np.array([*self.tid[regions].tolist(), *(track.tid for track in derived.tracks)], np.uint32)
        drawn = self._drawn(first, last, np.array([*bounds, last - first], np.int64), pid, tid)
        meta = np.concatenate([np.full(trace.region_count, -1, np.int32), derived.meta])
        row = trace.region_count + np.arange(len(derived))
        group = np.flatnonzero(trace.group[first:last] >= 0)
        flow = np.flatnonzero(trace.flow[first:last])
        long = np.flatnonzero(derived.long_name >= 0)
        long_texts = [derived.names[number] for number in derived.long_name[long].tolist()]
        columns = [
            Arg("long_name", row[long], long_texts),
            Arg("group_id", group, trace.group[first:last][group].astype(np.int64)),
            Arg("flow", flow, trace.flow[first:last][flow]),
            *(replace(arg, rows=arg.rows + trace.region_count) for arg in derived.args),
        ]
        added = AddedColumns(columns, self.keys).of_rows(0, last - first)
        yield from self._written(drawn, first, last, meta, make_no_values(last - first), added)

    def _drawn(self, first: int, last: int, tracks: Any, pid: Any, tid: Any) -> Drawn:
        trace = self.trace
        here = slice(first, last)
        return Drawn(trace.start[here], trace.duration[here], trace.name[here], self.names, tracks, pid, tid)

    def _written(self, drawn: Drawn, first: int, last: int, meta: Any, own: Any, added: Any) -> Iterator[bytes]:
        place: Place = (0, 0)
        kept = self.kept[first:last]
        while True:
            values = (self.of_meta, own, added)
            piece, place = self.writer.complete(drawn, kept, self.keys.texts, meta, *values, place, _PIECE)
            if not piece:
                return
            yield piece


FORMS: Final = ("xprof", "xprof-streaming")
DEFAULT_RESOLUTION: Final = 8000
"""Number of events in a row, at about a pixel each, that XProf's page requests."""
MOST_TEXT: Final = 10_000
"""Bytes beyond which a text that events repeat is cut, as XProf cuts long names. The forms have no other way to share a
text, so that a name of megabytes would take gigabytes."""
MOST_EVENTS: Final = 5_000_000
"""Number of events of a host, the earliest, that XProf shows at most in the form with all events."""


def write_trace(
    tables: TableSet,
    form: str = "xprof",
    *,
    resolution: float = DEFAULT_RESOLUTION,
    start_ms: float = 0,
    end_ms: float = 0,
    full_dma: bool = False,
    max_events: int = MOST_EVENTS,
    max_text: int = MOST_TEXT,
) -> Iterator[bytes]:
    """Yield the bytes of one JSON document.

    ``form``: "xprof", all events of one host with their stats as texts; "xprof-streaming", a window of XProf's
    streaming viewer. ``resolution``: events that fit in a row of the window; 0 shows all, as for a host with fewer than
    500,000 events. ``start_ms``, ``end_ms``: the window; an end of 0 is that of the capture. ``full_dma``: show parts
    in the middle of a flow on TPUs too. ``max_events``: number of events in "xprof", the earliest. ``max_text``: bytes
    of a text that several events may repeat, or 0 for no limit; a row of import_log counts what is cut.

    Raise UsageError, before the first byte, if an argument makes no sense, or several hosts are selected for
    "xprof"."""
    if form not in FORMS:
        raise UsageError(f"form is one of {', '.join(FORMS)}, not {form!r}")
    if not isinstance(max_text, int) or max_text < 0:
        raise UsageError("max_text is a number of bytes, or 0 for no limit")
    if form == "xprof-streaming":
        return streamed_form.write_streamed_form(tables, StreamedView(resolution, start_ms, end_ms, full_dma), max_text)
    if not isinstance(max_events, int) or max_events < 1:
        raise UsageError("max_events is a number of events, 1 or more")
    return write_whole_form(tables, max_events, max_text)
