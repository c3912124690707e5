"""Trace files of a session, for other viewers: Chrome's JSON and Perfetto's protobuf, streamed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np

from fastprof._native import records
from fastprof._native.trace_writers import Batch, JsonWriter, Kinds, PerfettoWriter
from fastprof._version import __version__
from fastprof.decode.selection import Selection
from fastprof.derive.timeline.track_order import COUNTER, processes_of, raw_tracks
from fastprof.export.trace_batches import ALL, HostNames, RawBatches, SharedStats, selected_ids
from fastprof.export.trace_derived import Derived
from fastprof.export.trace_tracks import host_tracks, texts_of, titled
from fastprof.tables.host_clocks import Offset, Offsets, by_reference, host_clocks
from fastprof.tables.host_reader import host_lines
from fastprof.tables.table_set import TableSet

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
        """The file, in pieces of some megabytes."""
        yield from (self._chrome() if self.form == CHROME else self._perfetto())

    def _chrome(self) -> Iterator[bytes]:
        metadata = {"highres-ticks": True, "fastprof": __version__, "hosts": self._hosts()}
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
        """What to add to the times of each host, in ps, so that they count from one start, and it in Unix ns."""
        session = self.tables.session
        numbers = self._numbers if not offsets else range(len(session.hosts))  # references may not be selected
        clock = host_clocks([session.index.captures[number].environment.start_unix_ns for number in numbers])
        if offsets:
            clock = by_reference(clock, session.hosts, offsets)
        shifts = dict(zip(numbers, clock.offsets_ps, strict=True))
        return {number: shifts[number] for number in self._numbers}, clock.start_unix_ns

    def _hosts(self) -> list[dict[str, Any]]:
        session = self.tables.session
        return [
            {
                "host": session.hosts[number],
                "start_unix_ns": _as_text(session.index.captures[number].environment.start_unix_ns),
                "shift_ps": str(self._shifts[number]),
                **self._drift_of(number),
            }
            for number in self._numbers
        ]

    def _drift_of(self, number: int) -> dict[str, Any]:
        """What more moves times than shift_ps, which holds at drift_from_ps; nothing: no drift is known."""
        one = self._clocks[number]
        return {"drift_ppm": one.drift * 1e6, "drift_from_ps": str(one.at_ps)} if one.drift else {}

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
        lines = host_lines(entire, number)
        processes = processes_of(lines)
        raw = raw_tracks(lines, processes)
        derived = Derived(entire, chosen, number) if self.derived else None
        shared = SharedStats(chosen, number, self.stats == ALL)
        tracks = [titled(track) for track in raw]
        if derived is not None:
            tracks += [*derived.tracks, *(counted.track for counted in derived.counters)]
        shown = host_tracks(processes, tracks, self._pids, self.form == PERFETTO)
        yield writer.host(*shown, self._shifts[number])
        if derived is not None:
            yield from self._derived_pieces(writer, derived, len(raw), shared, self._clocks[number])
        names = HostNames(chosen, number, [] if derived is None else derived.names)
        kinds = Kinds(
            names.name, names.long_name, texts_of(names.array), self._names, shared.columns.native(), shared.first
        )
        self._names += len(names)
        of_line = np.full(len(session.index.lines), -1, np.int32)
        for place, track in enumerate(raw):
            if track.line is not None and (derived is None or track.kind != COUNTER):
                of_line[track.line.line_id] = place
        batches = RawBatches(chosen, of_line, kinds, self.stats, self._clocks[number])
        if derived is not None:
            batches.added, batches.renamed = derived.added, derived.renamed(names.more_at)
            one = chosen.selection
            filtered = one.filters_events or bool(one.planes or one.lines)
            batches.flows = derived.flow_ends(names.more_at, self._flows, selected_ids(chosen) if filtered else None)
            self._flows += len(batches.flows.event) // 2
        yield from _formatted(batches, writer.events, session.workers.report)
        self.events += batches.events
        self.untimed += batches.untimed

    def _derived_pieces(
        self, writer: Writer, derived: Derived, first: int, shared: SharedStats, clock: Offset
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


def _formatted(
    batches: RawBatches, write: Callable[[Batch], bytes], report: Callable[[str, int, int], None]
) -> Iterator[bytes]:
    """While one batch is formatted, the one before is the caller's to write, and the next is decoded."""
    writing: Future[bytes] | None = None
    with ThreadPoolExecutor(1, thread_name_prefix="fastprof") as pool:
        for share in batches.shares():
            batch = batches.batch(batches.decode(share))
            written = b"" if writing is None else writing.result()
            writing = pool.submit(write, batch)
            yield written
            report("writing", batches.events, batches.total)
        if writing is not None:
            yield writing.result()


def _as_text(number: int | None) -> str | None:
    return None if number is None else str(number)
