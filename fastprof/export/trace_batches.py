"""Events of a host for trace files: read batch by batch, in bounded memory, with their names, stats and flows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from fastprof._native import records
from fastprof._native.trace_writers import Batch, Kinds, Stats, Texts
from fastprof.decode.decoder import Share
from fastprof.decode.request import Decoded, Request
from fastprof.export.trace_tracks import texts_of
from fastprof.schema.array_types import Int32s, Int64s
from fastprof.tables.host_clocks import Offset
from fastprof.tables.table_set import TableSet

ALL, OF_EVENTS, NONE = "all", "event", "none"
STATS = (ALL, OF_EVENTS, NONE)
"""Which stats become arguments: those of events and of their metadata, those of events, none."""

BATCH_ROWS = 1 << 17
_STAT_COLUMNS = ("event_id", "stat", "kind", "int_value", "double_value", "str_value")


_NO_INT64S, _NO_INT32S, _NO_BYTES = np.zeros(0, np.int64), np.zeros(0, np.int32), np.zeros(0, np.uint8)


class StatColumns(NamedTuple):
    """Stats of events. ``event``: ids, ascending. ``name``, ``text``: numbers of texts of the session."""

    event: Int64s = _NO_INT64S
    name: Int32s = _NO_INT32S
    kind: npt.NDArray[np.uint8] = _NO_BYTES
    int_value: Int64s = _NO_INT64S
    double_value: npt.NDArray[np.float64] = np.zeros(0, np.float64)
    text: Int32s = _NO_INT32S

    def taken(self, rows: slice | Int64s) -> StatColumns:
        """These rows, in this order."""
        return StatColumns._make(column[rows] for column in self)

    def native(self) -> Stats:
        return Stats(*self[1:])


class FlowEnds(NamedTuple):
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


def between(columns: StatColumns | FlowEnds | Renamed, first: int, last: int) -> tuple[Any, ...]:
    """The rows of the events from ``first`` to ``last``."""
    rows = slice(*np.searchsorted(columns.event, [first, last + 1]).tolist())
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
        self.columns = StatColumns()
        if not wanted:
            return
        owner, stats = session.metadata_stats(number)
        order = np.argsort(owner, kind="stable")
        self.first = np.searchsorted(owner[order], np.arange(count + 1)).astype(np.int64)
        stats = stats.taken(order)
        text = np.where(np.isin(stats.kind, (records.STR, records.REF)), stats.text, -1).astype(np.int32)
        self.columns = StatColumns(
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
        self.added = StatColumns()
        self.renamed = Renamed()
        self.flows = FlowEnds()
        self.untimed = self.events = 0
        columns = ("event_id", "line_id", "start_ps", "duration_ps")
        self._decoder = tables.decoder(Request(columns, _STAT_COLUMNS if self._with_stats else (), metas=True))
        self.total = int(tables.session.index.lines["event_count"][tables.wanted.lines()].sum())
        """Events of the selected lines, chosen or not."""
        pool = tables.session.index.names.stats
        self._lasting = len(pool)
        self._texts = texts_of(pool.array())
        self._stat_numbers = np.zeros(0, np.int32)
        if self._with_stats:
            self._stat_numbers = pc.index_in(self._decoder.stat_names, value_set=pool.array()).to_numpy()

    def shares(self) -> Iterator[Share]:
        return self._decoder.shares(BATCH_ROWS)

    def decode(self, share: Share) -> Decoded:
        return self._decoder.decode(share, None, fixed_types=True)

    def batch(self, decoded: Decoded) -> Batch:
        event_id = _values(decoded.events["event_id"], np.int64)
        start = decoded.events["start_ps"]
        track = self._track_of_line[_values(decoded.events["line_id"], np.int32)]
        if start.null_count:
            track[np.asarray(start.is_null())] = -1
            self.untimed += start.null_count
        self.events += int((track >= 0).sum())
        own = self._own_stats(decoded)
        bounds = (int(event_id[0]), int(event_id[-1])) if len(event_id) else (0, -1)
        added = StatColumns(*between(self.added, *bounds))
        times = _values(start, np.int64), _values(decoded.events["duration_ps"], np.int64)
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
            self._texts_of(decoded),
            self._lasting,
            between(self.renamed, *bounds),
            between(self.flows, *bounds),
        )

    def _own_stats(self, decoded: Decoded) -> StatColumns:
        if not decoded.stat_rows:
            return StatColumns()
        stats = decoded.stats
        return StatColumns(
            _values(stats["event_id"], np.int64),
            np.take(self._stat_numbers, _values(stats["stat"], np.int32)).astype(np.int32, copy=False),
            _values(stats["kind"], np.uint8),
            _values(stats["int_value"], np.int64),
            _values(stats["double_value"], np.float64),
            _values(stats["str_value"], np.int32),
        )

    def _texts_of(self, decoded: Decoded) -> Texts:
        return texts_of(decoded.texts) if len(decoded.texts) > self._lasting else self._texts


def _values(array: pa.Array, kind: Any) -> npt.NDArray[Any]:
    """The values of an array whether they count or not, of a dictionary the indices."""
    if not len(array):
        return np.zeros(0, kind)
    return np.frombuffer(array.buffers()[1], kind)[array.offset : array.offset + len(array)]


def selected_ids(tables: TableSet) -> Int64s:
    """The ids of the selected events of a host, ascending."""
    return np.asarray(tables.decode(Request(("event_id",))).events["event_id"])
