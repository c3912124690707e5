"""Events of a host for trace files, batch by batch in bounded memory, with their names, stats and flows; and the
processes and tracks of those files: XProf's names, with ids that are unique where XProf's are not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from fastprof._native import records
from fastprof._native.trace_writers import Batch, Kinds, Stats, Texts
from fastprof.decode.decoder import Decoded, Request, Share
from fastprof.derive.timeline.host_timeline import Process, Track
from fastprof.schema.columns import Int32s, Int64s, find_group_bounds, find_rows_within, find_runs, sort_rows
from fastprof.schema.value_classes import dataclass
from fastprof.tables.host_clocks import Offset
from fastprof.tables.table_set import TableSet

TRACK = np.dtype([("pid", "i8"), ("tid", "i8"), ("sort", "i8"), ("process", "i8"), ("name", "i4"), ("told", "i4")])
"""The struct of csrc/formats/trace_batch.h; a test compares their sizes."""

_TIDS, _ROOM = 2**32, 2**24
_SPARE_PID = 1 << 28
_MOST_PID = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Titled:
    """A track of a file: the plane_id of its plane, its id and name; ``sort``: its rank among its siblings."""

    plane_id: int
    tid: int
    name: str
    sort: int


def add_title(track: Track) -> Titled:
    return Titled(track.process.plane.plane_id, track.tid, track.name, track.tid)


def list_host_tracks(
    processes: Sequence[Process], tracks: Sequence[Titled], taken: set[int], ranked: bool
) -> tuple[npt.NDArray[Any], npt.NDArray[Any], Texts, int, int]:
    """Return what the ``host`` of a writer takes: processes, tracks in their order, all names, the first unused tid and
    the end of those.

    Every process has a pid that is not ``taken``, and every track of a process a tid of its own. ``ranked``: tracks are
    sorted by their rank in the process, which is a small number, instead of XProf's sort index.
    """
    owners = np.zeros(len(processes), TRACK)
    place = {process.plane.plane_id: number for number, process in enumerate(processes)}
    owners["pid"] = [_find_free_pid(process.pid, taken) for process in processes]
    owners["sort"] = [process.pid for process in processes]
    owners["name"] = np.arange(len(processes))
    rows = np.zeros(len(tracks), TRACK)
    rows["process"] = [place[track.plane_id] for track in tracks]
    rows["pid"] = owners["pid"][rows["process"]]
    rows["sort"] = [track.tid for track in tracks]
    if ranked and len(rows):
        rows["sort"] = _rank_tracks(rows["process"], rows["sort"])
    rows["name"] = len(processes) + np.arange(len(tracks))
    tids = [track.tid for track in tracks]
    known = np.unique(np.array([*tids, 0], np.int64))
    if known[-1] < _TIDS - _ROOM:
        first, last = int(known[-1]) + 1, _TIDS
    else:
        gaps = np.diff(np.append(known, _TIDS))
        widest = int(gaps.argmax())
        first, last = int(known[widest]) + 1, int(known[widest] + gaps[widest])
    rows["tid"], first = _assign_tids(rows["process"], tids, first)
    names = [process.name for process in processes] + [track.name for track in tracks]
    return owners, rows, join_texts(names), first, last


def join_texts(texts: Sequence[str] | pa.Array) -> Texts:
    """Return texts as the writers take them."""
    array = texts if isinstance(texts, pa.Array) else pa.array(texts, pa.large_string())
    if not len(array):
        return Texts(np.zeros(1, np.int64), b"")
    _, offsets, data = array.buffers()
    wide = pa.types.is_large_string(array.type)
    places = np.frombuffer(offsets, np.int64 if wide else np.int32)[array.offset : array.offset + len(array) + 1]
    return Texts(np.ascontiguousarray(places, np.int64), b"" if data is None else data)


def _find_free_pid(pid: int, taken: set[int]) -> int:
    if pid in taken or pid > _MOST_PID:
        pid = _SPARE_PID
        while pid in taken:
            pid += 1
    taken.add(pid)
    return pid


def _rank_tracks(process: npt.NDArray[np.int64], sort: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the place of each among those of its process, from 1."""
    order = sort_rows(process, sort)
    starts = find_runs(process[order])
    counts = np.diff(np.append(starts, len(order)))
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.arange(len(order)) - np.repeat(starts, counts) + 1
    return ranks


def _assign_tids(process: npt.NDArray[np.int64], tids: Sequence[int], spare: int) -> tuple[list[int], int]:
    """Return the ids, each the first time that a process has it, else one that is spare; and the next of these."""
    met: set[tuple[int, int]] = set()
    own = []
    for owner, tid in zip(process.tolist(), tids, strict=True):
        if (owner, tid) in met:
            own.append(spare)
            spare += 1
        else:
            met.add((owner, tid))
            own.append(tid)
    return own, spare


ALL, OF_EVENTS, NONE = "all", "event", "none"
STATS = (ALL, OF_EVENTS, NONE)
"""Which stats become arguments: those of events and of their metadata, those of events, none."""

BATCH_ROWS = 1 << 17
_STAT_COLUMNS = ("event_id", "stat", "kind", "int_value", "double_value", "str_value")


_NO_INT64S, _NO_INT32S, _NO_BYTES = np.zeros(0, np.int64), np.zeros(0, np.int32), np.zeros(0, np.uint8)


class StatBatch(NamedTuple):
    """Stats of events. ``event``: ids, ascending. ``name``, ``text``: numbers of texts of the session."""

    event: Int64s = _NO_INT64S
    name: Int32s = _NO_INT32S
    kind: npt.NDArray[np.uint8] = _NO_BYTES
    int_value: Int64s = _NO_INT64S
    double_value: npt.NDArray[np.float64] = np.zeros(0, np.float64)
    text: Int32s = _NO_INT32S

    def taken(self, rows: slice | Int64s) -> StatBatch:
        """These rows, in this order."""
        return StatBatch._make(column[rows] for column in self)

    def native(self) -> Stats:
        return Stats(*self[1:])


class FlowBatch(NamedTuple):
    """Ends of flows. ``event``: ids, ascending. ``number``: the same for both ends of a flow. ``out``: 1 where the flow
    starts. ``kind``: numbers of names."""

    event: Int64s = _NO_INT64S
    number: Int64s = _NO_INT64S
    out: npt.NDArray[np.uint8] = _NO_BYTES
    kind: Int32s = _NO_INT32S


class Renamed(NamedTuple):
    """Events whose names differ from those of their metadata: ids, ascending, and numbers of names."""

    event: Int64s = _NO_INT64S
    name: Int32s = _NO_INT32S


def slice_events(columns: StatBatch | FlowBatch | Renamed, first: int, last: int) -> tuple[Any, ...]:
    """Return the rows of the events from ``first`` to ``last``."""
    rows = find_rows_within(columns.event, first, last + 1)
    return tuple(column[rows] for column in columns)


class HostNames:
    """What events of a host are called, by row of the capture's event metadata: numbers of ``texts``."""

    def __init__(self, tables: TableSet, number: int, more: list[str]) -> None:
        """``more``: names that follow those of the capture, from number ``more_at`` on."""
        session = tables.session
        metas = session.captures[number].metas
        names = session.index.names.meta_names[number]
        known = session.index.names.event_names.cast(pa.large_string())
        rows = np.flatnonzero(metas["display_length"] > 0) if len(metas) else np.zeros(0, np.intp)
        shown = session.captures[number].texts(metas[rows], b"XEventMetadata.display_name", "display_")
        self.more_at = len(known) + len(rows)
        self.array = pa.concat_arrays([known, pa.array([*shown, *more], pa.large_string())])
        self.name = np.ascontiguousarray(names, np.int32).copy()
        self.long_name = np.full(len(names), -1, np.int32)
        self.long_name[rows] = names[rows]
        self.name[rows] = len(known) + np.arange(len(rows))

    def __len__(self) -> int:
        return len(self.array)


class SharedStats:
    """The stats of a host's event metadata: those of row i are ``first[i]`` to ``first[i + 1]``."""

    def __init__(self, tables: TableSet, number: int, wanted: bool) -> None:
        session = tables.session
        count = len(session.captures[number].metas)
        self.first = np.zeros(count + 1, np.int64)
        self.columns = StatBatch()
        if not wanted:
            return
        owner, stats = session.metadata_stats(number)
        order = np.argsort(owner, kind="stable")
        self.first = find_group_bounds(owner[order], count).astype(np.int64)
        stats = stats.taken(order)
        text = np.where(np.isin(stats.kind, (records.STR, records.REF)), stats.text, -1).astype(np.int32)
        self.columns = StatBatch(
            owner[order], stats.stat.astype(np.int32), stats.kind, stats.int_value, stats.double_value, text
        )


class RawBatches:
    """The selected events of one host, in order, as batches; ``untimed`` of them have no start and are left out."""

    def __init__(self, tables: TableSet, track_of_line: Int32s, kinds: Kinds, stats: str, clock: Offset) -> None:
        """``tables``: of the host alone. ``track_of_line``: by line_id, -1: left out. ``clock``: the host's."""
        self._tables, self._clock = tables, clock
        self._track_of_line = track_of_line
        self._kinds = kinds
        self._with_stats = stats != NONE
        self.added = StatBatch()
        self.renamed = Renamed()
        self.flows = FlowBatch()
        self.untimed = self.events = 0
        columns = ("event_id", "line_id", "start_ps", "duration_ps")
        self._decoder = tables.decoder(Request(columns, _STAT_COLUMNS if self._with_stats else (), metas=True))
        self.total = int(tables.session.index.lines["event_count"][tables.wanted.lines()].sum())
        """Events of the selected lines, chosen or not."""
        pool = tables.session.index.names.stats
        self._lasting = len(pool)
        self._texts = join_texts(pool.array())
        self._stat_numbers = np.zeros(0, np.int32)
        if self._with_stats:
            self._stat_numbers = pc.index_in(self._decoder.stat_names, value_set=pool.array()).to_numpy()

    def shares(self) -> Iterator[Share]:
        return self._decoder.shares(BATCH_ROWS)

    def decode(self, share: Share) -> Decoded:
        return self._decoder.decode(share, None, fixed_types=True)

    def batch(self, decoded: Decoded) -> Batch:
        event_id = _get_values(decoded.events["event_id"], np.int64)
        start = decoded.events["start_ps"]
        track = self._track_of_line[_get_values(decoded.events["line_id"], np.int32)]
        if start.null_count:
            track[np.asarray(start.is_null())] = -1
            self.untimed += start.null_count
        self.events += int((track >= 0).sum())
        own = self._own_stats(decoded)
        bounds = (int(event_id[0]), int(event_id[-1])) if len(event_id) else (0, -1)
        added = StatBatch(*slice_events(self.added, *bounds))
        times = _get_values(start, np.int64), _get_values(decoded.events["duration_ps"], np.int64)
        return Batch(
            event_id,
            *self._clock.moved(*times),
            track,
            decoded.metas,
            self._kinds,
            own.event,
            own.native(),
            added.event,
            added.native(),
            join_texts(decoded.texts) if len(decoded.texts) > self._lasting else self._texts,
            self._lasting,
            slice_events(self.renamed, *bounds),
            slice_events(self.flows, *bounds),
        )

    def _own_stats(self, decoded: Decoded) -> StatBatch:
        if not decoded.stat_rows:
            return StatBatch()
        stats = decoded.stats
        return StatBatch(
            _get_values(stats["event_id"], np.int64),
            np.take(self._stat_numbers, _get_values(stats["stat"], np.int32)).astype(np.int32, copy=False),
            _get_values(stats["kind"], np.uint8),
            _get_values(stats["int_value"], np.int64),
            _get_values(stats["double_value"], np.float64),
            _get_values(stats["str_value"], np.int32),
        )


def _get_values(array: pa.Array, kind: Any) -> npt.NDArray[Any]:
    """Return the values of an array whether they count or not, of a dictionary the indices."""
    if not len(array):
        return np.zeros(0, kind)
    return np.frombuffer(array.buffers()[1], kind)[array.offset : array.offset + len(array)]


def list_selected_ids(tables: TableSet) -> Int64s:
    """Return the ids of the selected events of a host, ascending."""
    return np.asarray(tables.decode(Request(("event_id",))).events["event_id"])
