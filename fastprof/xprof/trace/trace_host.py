"""One host as XProf's trace viewers take it: its events, what XProf adds to them, and the lines that it derives."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fastprof.decode.plane_kinds import is_gpu_plane
from fastprof.decode.selection import matching
from fastprof.derive.host import Host
from fastprof.derive.timeline.derived_lines import NEEDS, derived_timeline
from fastprof.derive.timeline.host_timeline import numbers_of, shown_names
from fastprof.derive.timeline.track_order import stream_tids, tid_of
from fastprof.schema.array_types import Bools, Int32s, Int64s, UInt64s
from fastprof.tables.host_events import HostEvents, Line, Plane
from fastprof.tables.host_reader import read_host
from fastprof.tables.table_set import TableSet
from fastprof.xprof.trace.preprocessing import REGION, preprocessed

Texts = tuple[npt.NDArray[np.int64], pa.Buffer | bytes]
"""Texts as C takes them: offsets and bytes."""

FRAME_STATS: Final = ("long_name", "hlo_text")
"""Stats whose texts become frames of a stack in the streaming form."""
_INTERNAL: Final = frozenset({
    "MemoryAllocation", "MemoryDeallocation", "PrefetchProduce", "PrefetchConsume", "ParallelInterleaveProduce",
    "ParallelInterleaveConsume", "ParallelInterleaveInitializeInput", "ParallelMapProduce", "ParallelMapConsume",
    "MapAndBatchProduce", "MapAndBatchConsume", "ParseExampleProduce", "ParseExampleConsume",
})  # fmt: skip
"""Events that XProf's trace viewers leave out."""
TPUS: Final = "/device:TPU:"
CUSTOM: Final = "/device:CUSTOM:"
_DIRECTION_BITS, _NUMBER_BITS = 2, 56


_DERIVED_FROM: Final = ("GPU", "TPU")


def chosen_hosts(tables: TableSet) -> list[int]:
    """The numbers of the selected hosts."""
    chosen = tables.selection.hosts
    return [number for number, host in enumerate(tables.session.hosts) if chosen is None or host in chosen]


def kept_lines(trace: TraceHost, plane: Plane) -> list[Line]:
    """The lines of a plane; if XProf derives others from them, it drops those without events."""
    derives = plane.kind in _DERIVED_FROM and not trace.ready.grouped
    return [line for line in plane.lines if line.last > line.first or not derives]


def line_tids(trace: TraceHost, plane: Plane) -> dict[int, int]:
    """The tid of each line, by its number. Streams of GPUs are renumbered if lines are derived from them."""
    renumbered = is_gpu_plane(plane.name) and not trace.ready.grouped
    tids = stream_tids(plane) if renumbered else {}
    return {line.number: tids.get(line.number, tid_of(line)) for line in plane.lines}


def process_names(
    text: Callable[[bytes], bytes], pid: int, process: str, titles: Mapping[int, str], *, streamed: bool
) -> bytes:
    """The names of a process and of its tracks, in the order of tids. ``text``: a text as JSON. The streaming form also
    has the number of tracks, and names that are empty."""
    more = b',"thread_count":%d' % len(titles) if streamed else b""
    written = [
        b'{"args":{"name":%s},"name":"process_name","ph":"M","pid":%d%s},\n' % (text(process.encode()), pid, more),
        b'{"args":{"sort_index":%d},"name":"process_sort_index","ph":"M","pid":%d},\n' % (pid, pid),
    ]
    for tid, name in sorted(titles.items()):
        where = b'"ph":"M","pid":%d,"tid":%d},\n' % (pid, tid)
        if name or streamed:
            written.append(b'{"args":{"name":%s},"name":"thread_name",' % text(name.encode()) + where)
        written.append(b'{"args":{"sort_index":%d},"name":"thread_sort_index",' % tid + where)
    return b"".join(written)


def note_cut(trace: TraceHost, count: int, max_text: int) -> None:
    """A row of import_log, if texts were cut."""
    if count:
        text = (
            f"texts of more than {max_text:,} bytes, which events repeat, are cut in the trace, and metadata with more "
            "stats than that is shortened: --max-text 0 (max_text=0) writes them in full"
        )
        trace.raw.note("notice", "cut_texts", text, count)


def title(line: Line) -> str:
    return line.display_name or line.name


def _of_whole_lines(tables: TableSet) -> TableSet:
    """All lines and names; the same hosts, planes and times."""
    selection = tables.selection
    if not (selection.names or selection.lines):
        return tables
    return TableSet(tables.session, replace(selection, names=(), lines=()))


def arrow_texts(texts: Any) -> Texts:
    """Texts, an Arrow array or a list of them, as C takes them."""
    array = texts if isinstance(texts, pa.Array) else pa.array(texts, pa.large_string())
    offsets = array.buffers()[1]
    narrow = pa.types.is_string(array.type)
    found: npt.NDArray[Any] = np.zeros(1, np.int64)
    if offsets:
        found = np.frombuffer(offsets, np.int32 if narrow else np.int64)
    return found[array.offset : array.offset + len(array) + 1].astype(np.int64), array.buffers()[2] or b""


class TraceHost:
    """The rows of ``raw``, then the regions of thread pools that XProf adds to its lines, then the derived rows.

    ``start``, ``duration``: uint64, as XProf counts. ``name``: int32 into ``names``. ``group``: int32, -1: none.
    ``flow``: uint64 as the stat of that name is packed, 0: none. ``drawn``: which rows are events that XProf draws, of
    those that are selected. Names and lines are selected last, so that what is derived is that of whole lines;
    ``tables`` has all of them.
    """

    def __init__(self, tables: TableSet, number: int) -> None:
        stats = (*NEEDS.stats, *FRAME_STATS)
        metadata = (*NEEDS.metadata_stats, *FRAME_STATS)
        self.chosen = tables
        tables = self.tables = _of_whole_lines(tables)
        self.number = number
        self.host = Host(read_host(tables, number, NEEDS.planes, stats, metadata), tables.session.workers)
        self.raw: HostEvents = self.host.raw
        self.ready = preprocessed(self.host)
        self.derived = derived_timeline(self.host)
        self.region_count = len(self.ready.regions.line)
        self._name_rows()
        self._time_rows()
        self.group = self._groups()
        self.flow = self._flows()
        self.drawn = self._drawn()

    def __len__(self) -> int:
        return len(self.start)

    @property
    def first_region(self) -> int:
        return len(self.raw)

    @property
    def first_derived(self) -> int:
        return len(self.raw) + self.region_count

    # ---- names

    def _name_rows(self) -> None:
        of_meta, names = shown_names(self.raw)
        pool = {name: number for number, name in enumerate(names)}
        of_meta = of_meta.copy()
        self.display_names = [*self.raw.display_names]
        for row, text in self.derived.display_names.items():
            self.display_names[row] = text
            of_meta[row] = pool.setdefault(text, len(pool))
        name = np.take(of_meta, self.raw.meta, mode="wrap")
        rows, texts = self.step_names()
        name[rows] = numbers_of(texts, pool)
        regions = np.full(self.region_count, pool.setdefault(REGION, len(pool)), np.int32)
        derived = numbers_of(self.derived.names, pool)[self.derived.name] if len(self.derived) else self.derived.name
        self.name: Int32s = np.concatenate([name, regions, derived]).astype(np.int32, copy=False)
        self.names = list(pool)

    def step_names(self) -> tuple[Int64s, list[str]]:
        """Rows of ``raw`` that are shown under the name of their step, and that name."""
        own, numbers = self.raw.texts("step_name")
        texts = self.raw.all_texts(numbers)
        rows = np.concatenate([own.astype(np.int64), self.ready.step_rows.astype(np.int64)])
        return rows, [*texts, *self.ready.step_names]

    # ---- times

    def _time_rows(self) -> None:
        regions, steps = self.ready.regions, self.ready.steps
        duration = self.raw.duration_ps
        if len(steps.rows):
            duration = duration.copy()
            duration[steps.rows] = steps.duration_ps
        start = np.concatenate([self.raw.start_ps, regions.start_ps, self.derived.start_ps])
        duration = np.concatenate([duration, regions.duration_ps, self.derived.duration_ps])
        self.start: UInt64s = start.view(np.uint64)
        self.duration: UInt64s = duration.view(np.uint64)

    # ---- groups and flows

    def _groups(self) -> Int32s:
        group = np.full(len(self.raw), -1, np.int32)
        rows, values = self.raw.ints("group_id")
        group[rows] = values.astype(np.int32)
        if len(self.ready.group_id):
            group = np.where(self.ready.group_id >= 0, self.ready.group_id, group)
        return np.concatenate([group, self.ready.regions.group, self.derived.group]).astype(np.int32, copy=False)

    def _flows(self) -> UInt64s:
        """Numbered from 1 on each host: XProf numbers them at random."""
        found = np.zeros(len(self), np.uint64)
        rows, values = self.raw.ints("flow")
        found[rows] = values.view(np.uint64)
        flows = self.ready.flow
        number = (flows.number + 1 + ((self.number + 1) << 32)).astype(np.uint64) << np.uint64(_DIRECTION_BITS)
        category = flows.kind.astype(np.uint64) << np.uint64(_DIRECTION_BITS + _NUMBER_BITS)
        found[flows.rows] = number | category | flows.direction.astype(np.uint64)
        return found

    # ---- what is drawn

    def _drawn(self) -> Bools:
        internal = np.array([name in _INTERNAL for name in self.raw.names], np.bool_)
        drawn = np.ones(len(self), np.bool_)
        if internal.any():
            drawn[: len(self.raw)] = ~np.take(internal, self.raw.meta, mode="wrap")
        drawn[self.ready.steps.removed] = False
        if self.chosen.selection.names:
            drawn &= self._named()
        if self.chosen.selection.lines:
            drawn &= self._on_chosen_lines()
        return drawn

    def _named(self) -> Bools:
        """Which rows are selected by name: those of the capture by that of their metadata."""
        patterns = self.chosen.selection.names
        by_meta = np.array([*matching(self.raw.names, patterns), *matching([""], patterns)], np.bool_)
        added = np.array([*matching(self.names, patterns), False], np.bool_)
        return np.concatenate([by_meta[self.raw.meta], added[self.name[len(self.raw) :]]])

    def _on_chosen_lines(self) -> Bools:
        lines = self.chosen.wanted.lines()
        of_line = np.array([lines[line.line_id] for line in self.raw.lines], np.bool_)
        raw = np.repeat(of_line, [line.last - line.first for line in self.raw.lines])
        tracks = self.derived.tracks
        of_track = np.array(matching([track.name for track in tracks], self.chosen.selection.lines), np.bool_)
        derived = np.repeat(of_track, [track.last - track.first for track in tracks])
        return np.concatenate([raw, of_line[self.ready.regions.line], derived])

    def long_names(self) -> list[str]:
        """The full name beside the displayed one, by row of metadata; "": there is only one."""
        pairs = zip(self.raw.names, self.display_names, strict=True)
        return [name if shown else "" for name, shown in pairs]

    def metadata_texts(self, numbers: Int64s) -> list[str]:
        """Texts of stats of metadata."""
        texts = self.tables.session.index.names.stats.array()
        return [texts[number].as_py() for number in np.unique(numbers).tolist() if number >= 0]
