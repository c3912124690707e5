"""One host as XProf's trace viewers take it: its events, their stats, XProf's additions to them, and the derived lines.

XProf adds groups, names of steps, flows, and regions of threads, or nothing if it takes the capture for grouped
already. It joins the ends of a flow in several processes, and ids of launches that were not recorded as unsigned
integers are 0. Stats are lists of values with a key each, as the C writer takes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fastprof._native import records
from fastprof._native.grouping import parents
from fastprof._native.xprof_events import NamedValues
from fastprof.decode.decoder import Decoded
from fastprof.decode.plane_kinds import is_gpu_plane
from fastprof.decode.selection import match_texts
from fastprof.derive.host import Host
from fastprof.derive.steps.event_graph import CODES, find_pool_regions, find_region_marks, is_any_type
from fastprof.derive.timeline.derived_lines import NEEDS, derive_timeline
from fastprof.derive.timeline.derived_track import Arg
from fastprof.derive.timeline.event_groups import EventGroups, read_event_groups
from fastprof.derive.timeline.flows import (
    CONTEXTS,
    LAUNCHES,
    RUN_ID_BITS,
    FlowEnds,
    find_correlated,
    make_flow_ends,
    read_flow_keys,
)
from fastprof.derive.timeline.host_timeline import (
    get_tid,
    is_grouped,
    number_names,
    number_shown_names,
    number_stream_tids,
)
from fastprof.schema.columns import Bools, Int32s, Int64s, UInt64s, find_group_bounds, find_rows_within
from fastprof.schema.value_classes import dataclass
from fastprof.tables.host_events import HostEvents, Line, Plane
from fastprof.tables.host_reader import read_host
from fastprof.tables.table_set import TableSet

REGION = "ThreadpoolListener::Region"
_MASKED: Final = tuple(CODES[n] for n in ("DoEnqueueProgram", "CompleteCallbacks", "DoEnqueueContinuationProgram"))
"""Events whose run_id XProf shows with fewer bits."""


@dataclass(frozen=True, slots=True)
class Regions:
    """Events that XProf adds, called ``REGION``, without stats. ``line``: number of each one's line in ``lines`` of the
    host's events; ``group``: -1 if there is none."""

    line: Int64s
    start_ps: Int64s
    duration_ps: Int64s
    group: Int32s


@dataclass(frozen=True, slots=True)
class Preprocessed(EventGroups):
    """Rows are those of the host's events.

    ``grouped``    XProf takes the capture for grouped, and adds nothing
    ``run_rows``, ``run_ids``      run_id as XProf shows it, in place of the event's own
    ``flow``       the flow of each event that gets one, in place of the event's own; rows ascend
    ``regions``    events that are added
    """

    grouped: bool
    run_rows: Int32s
    run_ids: Int64s
    flow: FlowEnds
    regions: Regions


def preprocess(host: Host) -> Preprocessed:
    """Preprocess a host that was read with ``derived_lines.NEEDS``."""
    groups = read_event_groups(host)
    own = {field.name: getattr(groups, field.name) for field in fields(groups)}
    if is_grouped(host.raw):
        rows, times, bits = np.zeros(0, np.int32), np.zeros(0, np.int64), np.zeros(0, np.uint8)
        flow, added = FlowEnds(rows, bits, bits, times), Regions(times, times, times, rows)
        return Preprocessed(**own, grouped=True, run_rows=rows, run_ids=times, flow=flow, regions=added)
    run_rows, run_ids = host.raw.ints("run_id")
    masked = is_any_type(host.forest.types[run_rows], _MASKED)
    return Preprocessed(
        **own,
        grouped=False,
        run_rows=run_rows[masked],
        run_ids=run_ids[masked] & RUN_ID_BITS,
        flow=_pick_shown(_list_flow_ends(host)),
        regions=_list_regions(host),
    )


def _list_flow_ends(host: Host) -> FlowEnds:
    """List flow ends as XProf reads them: ids that are not recorded as uint64 are 0, and processes are one."""
    keys = []
    for key in read_flow_keys(host):
        if key.space == LAUNCHES:
            stat = host.raw.stat("correlation_id")
            key = find_correlated(host.raw, stat.rows, np.where(stat.kind == records.UINT64, stat.value, 0))
        elif key.space == CONTEXTS:
            key = replace(key, parts=(key.parts[0], np.zeros_like(key.parts[1])))
        keys.append(key)
    return make_flow_ends(keys)


def _pick_shown(ends: FlowEnds) -> FlowEnds:
    """Return the flow of each event that XProf shows, the last: the one that it consumes, else the one that it
    produces."""
    order = np.argsort(ends.rows, kind="stable")
    rows = ends.rows[order]
    return ends.take(order[np.append(rows[1:] != rows[:-1], True)] if len(rows) else order)


def _list_regions(host: Host) -> Regions:
    """List regions, which have the group of the event that includes them."""
    events = host.raw
    begun, begins, duration = find_region_marks(events)
    lines = events.used_lines
    firsts = np.array([line.first for line in lines], np.int64)
    numbers = np.array([line.number for line in lines], np.int64)
    place = np.searchsorted(firsts, begins) if len(begun) else begun
    above = _find_enclosing(host, begun, np.unique(place), lines) if len(begun) else begun
    group = np.where(above >= 0, host.groups.group_id[above], -1).astype(np.int32) if len(begun) else above
    return Regions(numbers[place], events.start_ps[begun], duration, group.astype(np.int32))


def _find_enclosing(host: Host, begun: Int64s, places: Int64s, lines: list[Line]) -> Int64s:
    """Return the event that includes each region, or -1: the one that includes its mark, since regions let through."""
    events = host.raw
    parent = np.full(len(events), -1, np.int32)
    apart = np.zeros(len(events), np.uint8)
    rows, values = events.ints("_a")
    apart[rows[values != 0]] = 1
    bounds = np.array([(lines[place].first, lines[place].last) for place in places.tolist()], np.int64)
    parents(events.start_ps, events.duration_ps, apart, find_pool_regions(events), bounds, parent)
    return parent[begun].astype(np.int64)


Texts = tuple[npt.NDArray[np.int64], pa.Buffer | bytes]
"""Texts as C takes them: offsets and bytes."""

FRAME_STATS: Final = ("long_name", "hlo_text")
"""Stats whose texts become stack frames in the streaming form."""
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


def list_hosts(tables: TableSet) -> list[int]:
    """Return the numbers of the selected hosts."""
    chosen = tables.selection.hosts
    return [number for number, host in enumerate(tables.session.hosts) if chosen is None or host in chosen]


def keep_lines(trace: TraceHost, plane: Plane) -> list[Line]:
    """Return the lines of a plane; if XProf derives others from them, it drops those without events."""
    derives = plane.kind in _DERIVED_FROM and not trace.ready.grouped
    return [line for line in plane.lines if line.last > line.first or not derives]


def number_lines(trace: TraceHost, plane: Plane) -> dict[int, int]:
    """Return the tid of each line, by its number. Streams of GPUs are renumbered if lines are derived from them."""
    renumbered = is_gpu_plane(plane.name) and not trace.ready.grouped
    tids = number_stream_tids(plane) if renumbered else {}
    return {line.number: tids.get(line.number, get_tid(line)) for line in plane.lines}


def write_names(
    text: Callable[[bytes], bytes], pid: int, process: str, titles: Mapping[int, str], *, streamed: bool
) -> bytes:
    """Write the names of a process and of its tracks, in the order of tids. ``text``: encodes a text as JSON. The
    streaming form also has the number of tracks, and empty names."""
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
    """Add a row to import_log if texts were cut."""
    if count:
        text = (
            f"texts of more than {max_text:,} bytes, which events repeat, are cut in the trace, and metadata with more "
            "stats than that is shortened: --max-text 0 (max_text=0) writes them in full"
        )
        trace.raw.note("notice", "cut_texts", text, count)


def get_title(line: Line) -> str:
    return line.display_name or line.name


def _select_whole_lines(tables: TableSet) -> TableSet:
    """Select all lines and names of the same hosts, planes and times."""
    selection = tables.selection
    if not (selection.names or selection.lines):
        return tables
    return TableSet(tables.session, replace(selection, names=(), lines=()))


def get_texts(texts: Any) -> Texts:
    """Return texts, an Arrow array or a list, as C takes them."""
    array = texts if isinstance(texts, pa.Array) else pa.array(texts, pa.large_string())
    offsets = array.buffers()[1]
    narrow = pa.types.is_string(array.type)
    offset: npt.NDArray[Any] = np.zeros(1, np.int64)
    if offsets:
        offset = np.frombuffer(offsets, np.int32 if narrow else np.int64)
    return offset[array.offset : array.offset + len(array) + 1].astype(np.int64), array.buffers()[2] or b""


class TraceHost:
    """Rows of ``raw``, then the regions of thread pools that XProf adds to its lines, then the derived rows.

    ``start``, ``duration``: uint64, as XProf counts. ``name``: int32 into ``names``. ``group``: -1 if there is none.
    ``flow``: uint64 as the stat of that name is packed, or 0. ``drawn``: whether XProf draws the row, if it is
    selected. Names and lines are selected last, so that derived rows come from whole lines; ``tables`` has all of
    them."""

    def __init__(self, tables: TableSet, number: int) -> None:
        stats = (*NEEDS.stats, *FRAME_STATS)
        metadata = (*NEEDS.metadata_stats, *FRAME_STATS)
        self.chosen = tables
        tables = self.tables = _select_whole_lines(tables)
        self.number = number
        self.host = Host(read_host(tables, number, NEEDS.planes, stats, metadata), tables.session.workers)
        self.raw: HostEvents = self.host.raw
        self.ready = preprocess(self.host)
        self.derived = derive_timeline(self.host)
        self.region_count = len(self.ready.regions.line)
        self._name_rows()
        regions, steps = self.ready.regions, self.ready.steps
        duration = self.raw.duration_ps
        if len(steps.rows):
            duration = duration.copy()
            duration[steps.rows] = steps.duration_ps
        start = np.concatenate([self.raw.start_ps, regions.start_ps, self.derived.start_ps])
        duration = np.concatenate([duration, regions.duration_ps, self.derived.duration_ps])
        self.start: UInt64s = start.view(np.uint64)
        self.duration: UInt64s = duration.view(np.uint64)
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
        of_meta, names = number_shown_names(self.raw)
        pool = {name: number for number, name in enumerate(names)}
        of_meta = of_meta.copy()
        self.display_names = [*self.raw.display_names]
        for row, text in self.derived.display_names.items():
            self.display_names[row] = text
            of_meta[row] = pool.setdefault(text, len(pool))
        name = np.take(of_meta, self.raw.meta, mode="wrap")
        rows, texts = self.step_names()
        name[rows] = number_names(texts, pool)
        regions = np.full(self.region_count, pool.setdefault(REGION, len(pool)), np.int32)
        derived = number_names(self.derived.names, pool)[self.derived.name] if len(self.derived) else self.derived.name
        self.name: Int32s = np.concatenate([name, regions, derived]).astype(np.int32, copy=False)
        self.names = list(pool)

    def step_names(self) -> tuple[Int64s, list[str]]:
        """Return the rows of ``raw`` that are shown under the name of their step, and that name."""
        own, numbers = self.raw.texts("step_name")
        texts = self.raw.all_texts(numbers)
        rows = np.concatenate([own.astype(np.int64), self.ready.step_rows.astype(np.int64)])
        return rows, [*texts, *self.ready.step_names]

    # ---- groups and flows

    def _groups(self) -> Int32s:
        group = np.full(len(self.raw), -1, np.int32)
        rows, values = self.raw.ints("group_id")
        group[rows] = values.astype(np.int32)
        if len(self.ready.group_id):
            group = np.where(self.ready.group_id >= 0, self.ready.group_id, group)
        return np.concatenate([group, self.ready.regions.group, self.derived.group]).astype(np.int32, copy=False)

    def _flows(self) -> UInt64s:
        """Return flows, numbered from 1 on each host; XProf numbers them at random."""
        packed = np.zeros(len(self), np.uint64)
        rows, values = self.raw.ints("flow")
        packed[rows] = values.view(np.uint64)
        flows = self.ready.flow
        number = (flows.number + 1 + ((self.number + 1) << 32)).astype(np.uint64) << np.uint64(_DIRECTION_BITS)
        category = flows.kind.astype(np.uint64) << np.uint64(_DIRECTION_BITS + _NUMBER_BITS)
        packed[flows.rows] = number | category | flows.direction.astype(np.uint64)
        return packed

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
        """Return which rows are selected by name; rows of the capture count by the name of their metadata."""
        patterns = self.chosen.selection.names
        by_meta = np.array([*match_texts(self.raw.names, patterns), *match_texts([""], patterns)], np.bool_)
        added = np.array([*match_texts(self.names, patterns), False], np.bool_)
        return np.concatenate([by_meta[self.raw.meta], added[self.name[len(self.raw) :]]])

    def _on_chosen_lines(self) -> Bools:
        lines = self.chosen.wanted.lines()
        of_line = np.array([lines[line.line_id] for line in self.raw.lines], np.bool_)
        raw = np.repeat(of_line, [line.last - line.first for line in self.raw.lines])
        tracks = self.derived.tracks
        of_track = np.array(match_texts([track.name for track in tracks], self.chosen.selection.lines), np.bool_)
        derived = np.repeat(of_track, [track.last - track.first for track in tracks])
        return np.concatenate([raw, of_line[self.ready.regions.line], derived])

    def long_names(self) -> list[str]:
        """Return the full name beside the displayed one, by row of metadata, or "" if there is only one."""
        pairs = zip(self.raw.names, self.display_names, strict=True)
        return [name if shown else "" for name, shown in pairs]

    def metadata_texts(self, numbers: Int64s) -> list[str]:
        """Return texts of stats of metadata."""
        texts = self.tables.session.index.names.stats.array()
        return [texts[number].as_py() for number in np.unique(numbers).tolist() if number >= 0]


STATS: Final = ("event_id", "stat", "kind", "int_value", "double_value", "str_value")
"""Columns of stats from which values are made."""
HIDDEN_STATS: Final = frozenset({"_pt", "_p", "_ct", "_c", "_r", "flops", "program_id", "symbol_id"})
_NO_TEXTS: Final[Texts] = (np.zeros(1, np.int64), b"")
_COLUMN = tuple[npt.NDArray[Any], npt.NDArray[Any], int, npt.NDArray[Any], npt.NDArray[Any]]


class StatKeys:
    """Names of stats, numbered in the order of their bytes, in which they are shown."""

    def __init__(self, names: Sequence[str]) -> None:
        shown = sorted(set(names) - HIDDEN_STATS)
        self._number = {name: number for number, name in enumerate(shown)}
        self.texts = get_texts(shown)

    def number(self, name: str) -> int:
        """Return the number of a name, or -1 if it is not shown."""
        return self._number.get(name, -1)

    def numbers(self, names: Sequence[str]) -> npt.NDArray[np.int32]:
        """Return the numbers of names; one more at the end is for stats without a name."""
        return np.array([*(self.number(name) for name in names), -1], np.int32)


class AddedColumns:
    """Columns of added values, to take ranges of rows from. XProf reads numbers of other kinds than int64 as 0."""

    def __init__(self, columns: Sequence[Arg], keys: StatKeys) -> None:
        self._texts: dict[str, int] = {}
        self._columns = [self._column(column, keys) for column in columns if len(column.rows)]
        self.texts = get_texts(list(self._texts))

    def _column(self, arg: Arg, keys: StatKeys) -> _COLUMN:
        nothing = np.zeros(len(arg.rows), np.int32)
        key = np.full(len(arg.rows), keys.number(arg.name), np.int32)
        if isinstance(arg.values, list):
            texts = np.array([self._texts.setdefault(text, len(self._texts)) for text in arg.values], np.int32)
            return arg.rows, key, records.STR, nothing.astype(np.int64), texts
        kind = {"f": records.DOUBLE, "u": records.UINT64}.get(arg.values.dtype.kind, records.INT64)
        values = arg.values.astype(np.int64) if kind == records.INT64 else arg.values.view(np.int64)
        if arg.kinds is not None:
            values = np.where(arg.kinds == records.INT64, values, 0)
        return arg.rows, key, kind, values, nothing

    def of_rows(self, first: int, last: int) -> NamedValues:
        """Return the values of rows ``first`` to ``last``, numbered from 0."""
        parts: list[tuple[npt.NDArray[Any], ...]] = []
        for rows, key, kind, value, text in self._columns:
            here = find_rows_within(rows, first, last)
            kinds = np.full(here.stop - here.start, kind, np.uint8)
            parts.append((rows[here] - first, key[here], kinds, value[here], text[here]))
        if not parts:
            return make_no_values(last - first)
        row, key, kinds, value, text = (np.concatenate(column) for column in zip(*parts, strict=True))
        return sort_by_row(row, last - first, key, kinds, value, text, self.texts)


def sort_by_row(
    row: npt.NDArray[Any],
    count: int,
    key: npt.NDArray[Any],
    kind: npt.NDArray[Any],
    value: npt.NDArray[Any],
    text: npt.NDArray[Any],
    texts: Texts,
) -> NamedValues:
    """Sort values by row, keeping the order of those of one row."""
    order = np.argsort(row, kind="stable")
    first = find_group_bounds(row[order], count)
    columns = (np.ascontiguousarray(column[order]) for column in (key, kind, value))
    key, kind, value = columns
    return NamedValues(first, key, kind, value, None, text[order].astype(np.int32), texts)


def make_no_values(count: int) -> NamedValues:
    nothing = np.zeros(0, np.int64)
    return NamedValues(
        np.zeros(count + 1, np.int64), np.zeros(0, np.int32), np.zeros(0, np.uint8), nothing, None,
        np.zeros(0, np.int32), _NO_TEXTS,
    )  # fmt: skip


def read_stats(decoded: Decoded, key_of_stat: npt.NDArray[np.int32], rows: npt.NDArray[np.intp]) -> NamedValues:
    """Read the recorded stats of these rows of a share."""
    stats = decoded.stats
    event_id = view_int64(stats["event_id"])
    events = view_int64(decoded.events["event_id"])
    first = np.searchsorted(event_id, np.append(events[rows], np.iinfo(np.int64).max))
    key = key_of_stat[get_indices(stats["stat"])]  # a stat without a name is -1, the last
    kind = get_indices(stats["kind"]).view(np.uint8)
    real = np.frombuffer(stats["double_value"].buffers()[1] or b"", np.float64)
    text = get_indices(stats["str_value"]).astype(np.int32, copy=False)
    return NamedValues(first, key, kind, view_int64(stats["int_value"]), real, text, get_texts(decoded.texts))


def view_int64(array: pa.Array) -> npt.NDArray[np.int64]:
    return np.frombuffer(array.buffers()[1] or b"", np.int64)[array.offset : array.offset + len(array)]


def get_indices(array: pa.Array) -> npt.NDArray[Any]:
    """Return the numbers of a dictionary array, arbitrary for nulls."""
    kind = array.type.index_type.to_pandas_dtype()
    return np.frombuffer(array.buffers()[1] or b"", kind)[array.offset : array.offset + len(array)]


class MetadataValues:
    """Stats of event metadata."""

    def __init__(self, trace: TraceHost) -> None:
        session = trace.tables.session
        self._owner, self._stats = session.metadata_stats(trace.number)
        self._texts = session.index.names.stats.array()
        used = np.unique(self._stats.stat)
        self.names: Mapping[int, str] = {
            int(number): self._texts[int(number)].as_py() for number in used.tolist() if number >= 0
        }

    def values(self, long_names: Sequence[str], keys: StatKeys) -> NamedValues:
        """Return values by row of metadata: its name if another is displayed, then its stats."""
        stats = self._stats
        number = np.full(max(self.names, default=-1) + 2, -1, np.int32)
        for stat, name in self.names.items():
            number[stat] = keys.number(name)
        long = [row for row, name in enumerate(long_names) if name]
        texts = pa.concat_arrays([
            self._texts.cast(pa.large_string()), pa.array([long_names[row] for row in long], pa.large_string())
        ])  # fmt: skip
        base = len(self._texts)
        is_double = stats.kind == records.DOUBLE
        value = np.where(is_double, stats.double_value.view(np.int64), stats.int_value)
        zeros = np.zeros(len(long), np.int64)
        return sort_by_row(
            np.concatenate([np.array(long, np.int64), self._owner]),
            len(long_names),
            np.concatenate([np.full(len(long), keys.number("long_name"), np.int32), number[stats.stat]]),
            np.concatenate([np.full(len(long), records.STR, np.uint8), stats.kind.astype(np.uint8)]),
            np.concatenate([zeros, value]),
            np.concatenate([np.arange(base, base + len(long)), stats.text]),
            get_texts(texts),
        )
