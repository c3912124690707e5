"""The rows of a table that a Dataset shows: the pieces that they are in, and their batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import reduce
from operator import and_
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.fs as fs

from fastprof._native import records
from fastprof.decode.decoder import Decoder, Request, StatKinds
from fastprof.decode.index import CaptureIndex, Index, get_line_labels
from fastprof.decode.selection import Selection, Wanted
from fastprof.errors import UsageError
from fastprof.schema.capture_tables import RUN
from fastprof.schema.columns import Int64s
from fastprof.schema.tables import decode_dictionaries
from fastprof.tables.nesting_stream import stream_nesting
from fastprof.tables.table_set import BATCH_ROWS, TABLES, TableSet, explain_missing_table
from fastprof.tables.tables_of_runs import TablesOfRuns, make_run_array

Pieces = dict[str, ds.Expression]
"""The condition that holds for all rows of each piece of the table, by its name."""

FORMAT: Final = ds.IpcFileFormat()
_UNOPENED: Final = fs.LocalFileSystem()
_TRUE: Final = ds.scalar(True)


class Rows:
    """The rows of a table. ``schema``: of all columns."""

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema

    def pieces(self) -> Pieces:
        """Return the pieces that all rows are in."""
        raise NotImplementedError

    def of_piece(self, name: str) -> Iterator[pa.RecordBatch]:
        """Return all columns of a piece."""
        raise NotImplementedError

    def batches(self, columns: Sequence[str], condition: ds.Expression | None) -> Iterator[pa.RecordBatch]:
        """These columns of the rows, without pieces that the condition excludes."""
        raise NotImplementedError

    def _surviving(self, pieces: Pieces, condition: ds.Expression | None) -> list[str]:
        """Return the pieces that may have rows for which the condition is true. pyarrow decides: it is asked for the
        fragments of a Dataset of files that nobody opens."""
        if condition is None:
            return list(pieces)
        fragments = [FORMAT.make_fragment(name, _UNOPENED, condition_of) for name, condition_of in pieces.items()]
        every = ds.FileSystemDataset(fragments, self.schema, FORMAT, _UNOPENED)
        return [fragment.path for fragment in every.get_fragments(filter=condition)]

    def _all(self, **equal: Any) -> ds.Expression:
        """That columns have these values; of those that the table has."""
        known = [ds.field(name) == _type_value(value) for name, value in equal.items() if name in self.schema.names]
        return reduce(and_, known) if known else _TRUE

    def _as_batches(self, table: pa.Table, columns: Sequence[str]) -> list[pa.RecordBatch]:
        kept = pa.schema([self.schema.field(name) for name in columns])
        batches: list[pa.RecordBatch] = table.select(list(columns)).cast(kept).to_batches(max_chunksize=BATCH_ROWS)
        return batches


def _type_value(value: int | str) -> pa.Scalar:
    """Return a value with its type. Without one pyarrow tries to import dateutil, for each value again."""
    return pa.scalar(value, pa.string() if isinstance(value, str) else pa.int64())


def open_rows(tables: TableSet | TablesOfRuns, name: str, stats: Sequence[str], plain_texts: bool) -> Rows:
    """UsageError: no such table, or no such stat to stand beside the events."""
    if name not in TABLES:
        raise UsageError(explain_missing_table(name))
    if stats and name != "events":
        raise UsageError(f"stats are columns of events, not of {name}")
    rows = _RowsOfRuns(tables, name, stats) if isinstance(tables, TablesOfRuns) else _make_rows(tables, name, stats)
    if plain_texts:
        rows.schema = decode_dictionaries(rows.schema)
    return rows


def _make_rows(tables: TableSet, name: str, stats: Sequence[str], others: Sequence[TableSet] = ()) -> _RowsOfSession:
    if name == "events":
        return _EventRows(tables, tables.event_request(None, stats, others))
    of_events = {"event_stats": _StatRows, "nesting": _NestingRows}
    return of_events.get(name, _SmallRows)(tables, name)


class _RowsOfSession(Rows):
    """The rows of one run."""

    def __init__(self, tables: TableSet, name: str, beside: Sequence[pa.Field] = ()) -> None:
        super().__init__(pa.schema([*TABLES[name].arrow(), *beside]))
        self.tables = tables
        self.name = name


class _SmallRows(_RowsOfSession):
    """Any table but those of events: read host by host where its rows name their host, else at once."""

    def pieces(self) -> Pieces:
        if "host" not in self.schema.names:
            return {"": _TRUE}
        hosts = self.tables.session.hosts
        return {str(hosts.index(host)): self._all(host=host) for host in self.tables.selected_hosts()}

    def of_piece(self, name: str) -> Iterator[pa.RecordBatch]:
        return self._of([name], self.schema.names)

    def batches(self, columns: Sequence[str], condition: ds.Expression | None) -> Iterator[pa.RecordBatch]:
        return self._of(self._surviving(self.pieces(), condition), columns)

    def _of(self, pieces: Sequence[str], columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        session, selection = self.tables.session, self.tables.selection
        for piece in pieces:
            of_host = selection.narrowed(hosts=session.hosts[int(piece)]) if piece else selection
            yield from self._as_batches(TableSet(session, of_host)[self.name], columns)


class _LineRows(_RowsOfSession):
    """Rows of events. A piece is a plane; of those that are left, lines and their times are looked at."""

    def of_lines(self, selection: Selection, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Columns of the selected lines, which ``selection`` may list."""
        raise NotImplementedError

    def pieces(self) -> Pieces:
        names = [(part.capture.host, plane) for part in self._index.captures for plane, _ in part.capture.plane_keys]
        return {
            str(number): self._all(host=names[number][0], plane=names[number][1], plane_id=number)
            for number in np.flatnonzero(self.tables.wanted.planes()).tolist()
        }

    def of_piece(self, name: str) -> Iterator[pa.RecordBatch]:
        return self.of_lines(self._listed(self._lines_of([name])), self.schema.names)

    def batches(self, columns: Sequence[str], condition: ds.Expression | None) -> Iterator[pa.RecordBatch]:
        if condition is None:
            yield from self.of_lines(self.tables.selection, columns)
            return
        lines = self._lines_of(self._surviving(self.pieces(), condition))
        for conditions in (self._names_of, self._times_of):
            left = self._surviving(conditions(lines), condition) if len(lines) else []
            lines = np.array([int(name) for name in left], np.int64)
        if len(lines):
            yield from self.of_lines(self._listed(lines), columns)

    @property
    def _index(self) -> Index:
        return self.tables.session.index

    def _listed(self, lines: Int64s) -> Selection:
        return replace(self.tables.selection, line_ids=tuple(lines.tolist()))

    def _lines_of(self, planes: Sequence[str]) -> Int64s:
        """Return the selected lines of these planes that have events."""
        self._index.ensure_lines()
        rows = self._index.lines
        chosen = self.tables.wanted.lines() & (rows["event_count"] > 0)
        chosen &= np.isin(rows["plane_id"], np.array([int(plane) for plane in planes], np.int64))
        return np.flatnonzero(chosen)

    def _names_of(self, lines: Int64s) -> Pieces:
        names = get_line_labels(self._index.line_names, self._index.line_display_names)
        rows, event = self._index.lines[lines], ds.field("event_id")
        spans = zip(lines.tolist(), rows["first_event_id"].tolist(), rows["event_count"].tolist(), strict=True)
        return {
            str(line): self._all(line=names[line], line_id=line)
            & (event >= _type_value(first))
            & (event < _type_value(first + count))
            for line, first, count in spans
        }

    def _times_of(self, lines: Int64s) -> Pieces:
        """Return conditions on the times of the events of lines, none for lines with events that have no start."""
        bounds = dict.fromkeys(lines.tolist(), _TRUE)
        if "start_ps" in self.schema.names:
            self._index.ensure(records.EVENTS, Wanted(self._index, self._listed(lines)).pieces())
            start = ds.field("start_ps")
            for part in self._index.captures:
                for line, (first, last) in _find_start_bounds(part).items():
                    if line in bounds:
                        bounds[line] = (start >= _type_value(first)) & (start <= _type_value(last))
        return {str(line): times for line, times in bounds.items()}


def _find_start_bounds(part: CaptureIndex) -> dict[int, tuple[int, int]]:
    """Return the first and the last start of each line of a capture that has been indexed, if all of its events have
    one."""
    segments = part.known.segments
    piece = part.pieces[segments["piece"]]
    lacking = (segments["aggregated_count"] > 0) | (piece["timeless"] != 0)
    rows = zip(*(column.tolist() for column in (
        piece["line_id"], piece["base_ps"], segments["min_start"], segments["max_start"], lacking
    )), strict=True)  # fmt: skip
    bounds: dict[int, tuple[int, int]] = {}
    unknown = set()
    for line, base, low, high, lacks in rows:
        first, last = base + low, base + high
        if lacks or first < -(2**63) or last >= 2**63:
            unknown.add(line)
        known = bounds.get(line, (first, last))
        bounds[line] = min(known[0], first), max(known[1], last)
    return {line: times for line, times in bounds.items() if line not in unknown}


class _EventRows(_LineRows):
    """Events, with stats beside them."""

    def __init__(self, tables: TableSet, request: Request) -> None:
        self._stats = request.wide
        decoder = tables.decoder(request) if self._stats else None  # types of stats follow from all of their values
        self.kinds = {} if decoder is None else decoder.possible_kinds()
        super().__init__(tables, "events", [] if decoder is None else self._fields(tables, decoder))

    def widen(self, kinds: StatKinds) -> None:
        """Give stats the types that they have if there are values of these kinds too."""
        if self._stats:
            decoder = self.tables.decoder(Request((), (), self._stats), self._listed(np.zeros(0, np.int64)))
            self.kinds = {name: set(kinds[name]) for name in self._stats}
            decoder.widen(self.kinds)
            self.schema = pa.schema([*TABLES["events"].arrow(), *self._fields(self.tables, decoder)])

    def _fields(self, tables: TableSet, decoder: Decoder) -> list[pa.Field]:
        return list(tables.table(TABLES["events"], {}, decoder.decode([], fixed_types=True).wide).schema)

    def of_lines(self, selection: Selection, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        wide = tuple(name for name in self._stats if name in columns)
        own = tuple(name for name in columns if name not in wide)
        decoder = self.tables.decoder(Request(own, (), wide), selection)
        decoder.widen({name: self.kinds[name] for name in wide})
        for batch in self.tables.batches(decoder.request, BATCH_ROWS, decoder):
            yield from self._as_batches(pa.Table.from_batches([batch]), columns)


class _StatRows(_LineRows):
    """Stats of events."""

    def of_lines(self, selection: Selection, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        needed = (*columns, "str_value") if "int_value" in columns else columns  # a ref without text is a number
        decoder: Decoder = self.tables.decoder(Request((), tuple(dict.fromkeys(needed))), selection)
        for share in decoder.shares(BATCH_ROWS):
            yield from self._as_batches(pa.table(decoder.decode(share, fixed_types=True).stats), columns)


class _NestingRows(_LineRows):
    """Events and their places among the events of their lines."""

    def of_lines(self, selection: Selection, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        for table in stream_nesting(TableSet(self.tables.session, selection), BATCH_ROWS, _ignore_progress):
            yield from self._as_batches(table, columns)


def _ignore_progress(_: int) -> None:
    """Progress of a pass, which readers of a Dataset do not ask for."""


class _RowsOfRuns(Rows):
    """The rows of several runs, with the run in front and ids that are unique over all runs. A piece is a run."""

    def __init__(self, tables: TablesOfRuns, name: str, stats: Sequence[str]) -> None:
        self._ids, self._names = tables.ids, list(tables.runs)
        self._of_run = [_make_rows(run, name, stats, list(tables.runs.values())) for run in tables.runs.values()]
        of_events = [rows for rows in self._of_run if isinstance(rows, _EventRows)]
        kinds = {stat: set().union(*(rows.kinds[stat] for rows in of_events)) for stat in stats}
        for rows in of_events:
            rows.widen(kinds)
        own = self._of_run[0].schema
        super().__init__(own if RUN.name in own.names else pa.schema([RUN.field(), *own]))

    def pieces(self) -> Pieces:
        return {str(number): ds.field(RUN.name) == _type_value(run) for number, run in enumerate(self._names)}

    def of_piece(self, name: str) -> Iterator[pa.RecordBatch]:
        return self._of(int(name), self.schema.names)

    def batches(self, columns: Sequence[str], condition: ds.Expression | None) -> Iterator[pa.RecordBatch]:
        for piece in self._surviving(self.pieces(), condition):
            yield from self._of(int(piece), columns)

    def _of(self, number: int, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        rows = self._of_run[number]
        known = rows.schema.names
        asked = [name for name in columns if name in known]
        for batch in rows.batches(asked or known[:1], None):
            table = self._ids.renumbered(pa.Table.from_batches([batch]), self._names[number])
            if RUN.name not in known:
                table = table.append_column(RUN.field(), make_run_array(self._names, number, len(batch), np.int32))
            yield from self._as_batches(table, columns)
