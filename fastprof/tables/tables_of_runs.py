"""Tables of several runs: the rows of one run after those of the other, with the run in front."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from fastprof._native import records
from fastprof.decode.decoder import Decoded, Decoder, Request, StatKinds
from fastprof.decode.text_pools import get_index_dtype
from fastprof.decode.workers import Workers
from fastprof.errors import UsageError
from fastprof.schema.capture_tables import RUN
from fastprof.tables.event_summary import make_event_summary
from fastprof.tables.table_set import TABLES, OpenSession, TableSet, explain_missing_table

_START, _SOURCES = b"session_start_unix_ns", b"sources"


def stack_tables(parts: Mapping[str, pa.Table]) -> pa.Table:
    """Return the tables of several runs as one, with a chunk a run: numbers are not copied. Texts become one
    dictionary, with indices as narrow as it allows. A table that has the column ``run`` keeps it where it is."""
    names, tables = list(parts), list(parts.values())
    first = tables[0]
    fields, columns = [], []
    for place, field in enumerate(first.schema):
        typed = _unify_types([table.column(place) for table in tables])
        columns.append(typed)
        nullable = any(table.schema.field(place).nullable for table in tables)
        fields.append(pa.field(field.name, typed.type, nullable, field.metadata))
    if RUN.name not in first.column_names:
        column = pa.chunked_array(
            [make_run_array(names, number, table.num_rows) for number, table in enumerate(tables)]
        )
        columns.insert(0, column)
        fields.insert(0, RUN.field(column.type))
    return pa.Table.from_arrays(columns, schema=pa.schema(fields, merge_metadata([table.schema for table in tables])))


def make_run_array(names: Sequence[str], number: int, rows: int, index: Any = None) -> pa.DictionaryArray:
    """Return the column ``run`` of rows of run ``number``; ``index``: the type of its indices, else as narrow as
    fits."""
    indices = np.full(rows, number, index or get_index_dtype(len(names)))
    return pa.DictionaryArray.from_arrays(pa.array(indices), pa.array(names, pa.string()))


def _unify_types(columns: Sequence[pa.ChunkedArray]) -> pa.ChunkedArray:
    """Columns of one kind, one after the other. A column without values takes the type of the others."""
    valued = [column.type for column in columns if column.null_count < len(column)]
    kind = (valued or [columns[0].type])[0]
    if not pa.types.is_dictionary(kind):
        return pa.chunked_array([chunk for column in columns for chunk in _cast_chunks(column, kind)], kind)
    wide = pa.dictionary(pa.int32(), kind.value_type)
    together = pa.chunked_array([chunk for column in columns for chunk in _cast_chunks(column, wide)], wide)
    together = together.unify_dictionaries()
    texts = together.chunk(0).dictionary if together.num_chunks else pa.array([], kind.value_type)
    narrow = pa.from_numpy_dtype(get_index_dtype(len(texts)))
    chunks = [pa.DictionaryArray.from_arrays(chunk.indices.cast(narrow), texts) for chunk in together.chunks]
    return pa.chunked_array(chunks, pa.dictionary(narrow, kind.value_type))


def _cast_chunks(column: pa.ChunkedArray, kind: pa.DataType) -> list[pa.Array]:
    if column.type == kind:
        return list(column.chunks)
    if pa.types.is_dictionary(kind) and pa.types.is_dictionary(column.type):
        index = kind.index_type
        return [pa.DictionaryArray.from_arrays(chunk.indices.cast(index), chunk.dictionary) for chunk in column.chunks]
    if column.null_count == len(column):
        return [pa.nulls(len(column), kind)]
    return list(column.cast(kind).chunks)


def merge_metadata(schemas: Sequence[pa.Schema]) -> dict[bytes, bytes] | None:
    """Return the metadata of the tables: the sources of all, the start of the first."""
    known = [schema.metadata for schema in schemas if schema.metadata]
    if not known:
        return None
    starts = [int(metadata[_START]) for metadata in known if metadata.get(_START)]
    sources: list[Any] = [source for metadata in known for source in json.loads(metadata.get(_SOURCES) or b"[]")]
    together = dict(known[0])
    if _START in together:
        together[_START] = str(min(starts)).encode() if starts else b""
    if _SOURCES in together:
        together[_SOURCES] = json.dumps(sources).encode()
    return together


NUMBERED = {
    "plane_id": "planes", "line_id": "lines", "from_line_id": "lines", "to_line_id": "lines", "event_id": "events",
    "parent_id": "events", "from_event_id": "events", "to_event_id": "events", "flow": "flows",
}  # fmt: skip
"""Columns of ids, and what they number."""


EVENTS = TABLES["events"]


def renumber_ids(table: pa.Table, first: Callable[[str], int]) -> pa.Table:
    """Return the table with larger ids. ``first``: what is added to those of "planes", "lines", "events" or "flows"."""
    for place, column in enumerate(table.column_names):
        more = first(NUMBERED[column]) if column in NUMBERED else 0
        if more:
            import pyarrow.compute as pc  # sessions of one run do without it

            ids = pc.add_checked(table[column], pa.scalar(more, table.schema.field(column).type))
            table = table.set_column(place, table.schema.field(column), ids)
    return table


class FirstIds:
    """The ids of the first plane, line and event of each run, counted when a table needs them."""

    def __init__(self, sessions: Mapping[str, Callable[[], OpenSession]]) -> None:
        """``sessions``: what returns the session of each run."""
        self._sessions = sessions
        self._counts: dict[tuple[str, str], int] = {}

    def renumbered(self, table: pa.Table, run: str) -> pa.Table:
        """Return the table of a run with ids that are unique over all runs."""
        return renumber_ids(table, partial(self.first, run))

    def first(self, run: str, what: str) -> int:
        """Return how many "planes", "lines", "events" or "flows" the runs before it have."""
        before = 0
        for name in self._sessions:
            if name == run:
                break
            before += self._count(name, what)
        return before

    def _count(self, run: str, what: str) -> int:
        if (run, what) not in self._counts:
            session = self._sessions[run]()
            index = session.index
            if what == "planes":
                count = index.plane_count
            elif what == "lines":
                index.ensure_lines()
                count = len(index.lines)
            elif what == "flows":
                count = sum(session.flow_ends())
            else:
                index.ensure(records.HOP)
                count = int(index.lines["event_count"].sum())
            self._counts[run, what] = count
        return self._counts[run, what]


class TablesOfRuns(Mapping[str, pa.Table]):
    """Tables by name, of a selection of several runs. What is decoded is kept."""

    def __init__(self, runs: Mapping[str, TableSet], ids: FirstIds) -> None:
        self.runs = runs
        self.ids = ids
        self._tables: dict[str, pa.Table] = {}
        self._reading = threading.RLock()

    def __getitem__(self, name: str) -> pa.Table:
        if name not in TABLES:
            raise KeyError(explain_missing_table(name))
        return self.read(name)[name]

    def __iter__(self) -> Iterator[str]:
        return iter(TABLES)

    def __len__(self) -> int:
        return len(TABLES)

    def __contains__(self, name: object) -> bool:
        return name in TABLES

    def __repr__(self) -> str:
        return f"<fastprof tables of {len(self.runs)} runs: {', '.join(TABLES)}>"

    def read(self, *names: str) -> dict[str, pa.Table]:
        """Decode several tables, in one pass per run."""
        with self._reading:
            missing = [name for name in names if name not in self._tables]
            if missing:
                of_runs = {
                    run: TableSet(of_run.session, of_run.selection).read(*missing)  # so that it is kept once, here
                    for run, of_run in self.runs.items()
                }
                for name in missing:
                    self._tables[name] = self.stacked({run: tables.pop(name) for run, tables in of_runs.items()})
        return {name: self._tables[name] for name in names}

    def stacked(self, parts: Mapping[str, pa.Table]) -> pa.Table:
        """Return tables of the runs as one, with ids that are unique over all runs."""
        return stack_tables({run: self.ids.renumbered(table, run) for run, table in parts.items()})

    @property
    def workers(self) -> Workers:
        """The workers that all runs share."""
        return next(iter(self.runs.values())).workers

    def decoded(self) -> Mapping[str, pa.Table]:
        """Return the tables so far."""
        return self._tables

    # ---- events

    def event_table(self, columns: Sequence[str] | None, stats: Sequence[str]) -> pa.Table:
        """Return the event table of all runs; ``columns`` may name ``run``."""
        request = self._request(columns, stats)
        decoders = {run: tables.decoder(request) for run, tables in self.runs.items()}
        decoded = _decode_one_type(decoders)
        table = self.stacked(
            {run: tables.table(EVENTS, decoded[run].events, decoded[run].wide) for run, tables in self.runs.items()}
        )
        return table if columns is None else table.select([*columns, *stats])

    def batches(self, columns: Sequence[str] | None, stats: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
        """Record batches of about ``rows`` events, run by run, of one schema."""
        request = self._request(columns, stats)
        return self._batches(request, [RUN.name, *request.events] if columns is None else list(columns), rows)

    def _batches(self, request: Request, columns: list[str], rows: int) -> Iterator[pa.RecordBatch]:
        decoders = {run: tables.decoder(request) for run, tables in self.runs.items()} if request.wide else {}
        _widen_kinds(decoders, _unite_names([decoder.possible_kinds() for decoder in decoders.values()]))
        metadata = merge_metadata([tables.table(EVENTS, {}).schema for tables in self.runs.values()])
        last: pa.RecordBatch | None = None
        some = False
        for run, tables in self.runs.items():
            for batch in tables.batches(request, rows, decoders.pop(run, None)):
                last = self._batch(run, batch, [*columns, *request.wide], metadata)
                if last.num_rows:
                    some = True
                    yield last
        if not some and last is not None:
            yield last

    def _batch(
        self, run: str, batch: pa.RecordBatch, columns: list[str], metadata: dict[bytes, bytes] | None
    ) -> pa.RecordBatch:
        arrays = dict(zip(batch.schema.names, batch.columns, strict=True))
        if len(batch):
            table = self.ids.renumbered(pa.Table.from_batches([batch]), run)
            arrays = dict(zip(table.column_names, (column.chunk(0) for column in table.columns), strict=True))
        arrays[RUN.name] = make_run_array([run], 0, len(batch), np.int32)
        fields = {field.name: field for field in (*batch.schema, RUN.field())}
        schema = pa.schema([fields[name] for name in columns], metadata)
        return pa.RecordBatch.from_arrays([arrays[name] for name in columns], schema=schema)

    def _request(self, columns: Sequence[str] | None, stats: Sequence[str]) -> Request:
        first, *others = self.runs.values()
        if not isinstance(stats, str) and RUN.name in stats:
            raise UsageError(f"the stat {RUN.name!r} clashes with the column of that name; load one run")
        if columns is None or isinstance(columns, str):
            return first.event_request(columns, stats, others)
        own = [name for name in columns if name != RUN.name]
        if len(own) < len(columns) - 1:
            raise UsageError(f"a column is requested twice: {RUN.name}")
        return first.event_request(own, stats, others)

    def event_summary(self, percentiles: Sequence[int] = ()) -> pa.Table:
        return stack_tables({run: make_event_summary(tables, percentiles) for run, tables in self.runs.items()})

    def stat_names(self) -> list[str]:
        return sorted({name for tables in self.runs.values() for name in tables.stat_names()})


def _decode_one_type(decoders: Mapping[str, Decoder]) -> dict[str, Decoded]:
    """Return the events of each run. A stat has one type in all runs: that of the kinds of value that it has in any of
    them, and text if its doubles are exact in some runs only."""
    decoded = {run: _is_entire(decoder) for run, decoder in decoders.items()}
    for more in (set[int](), {records.STR}):
        met = {run: decoder.met_kinds() for run, decoder in decoders.items()}
        types: dict[str, set[str]] = {}
        for run, part in decoded.items():
            for stat, array in part.wide.items():
                if met[run][stat]:
                    kind = array.type.value_type if pa.types.is_dictionary(array.type) else array.type
                    types.setdefault(stat, set()).add(str(kind))
        kinds = {
            stat: kinds | more
            for stat, kinds in _unite_names(list(met.values())).items()
            if len(types.get(stat, ())) > 1
        }
        if not kinds:
            break
        _widen_kinds(decoders, kinds)
        decoded = {run: _is_entire(decoder) for run, decoder in decoders.items()}
    return decoded


def _is_entire(decoder: Decoder) -> Decoded:
    return decoder.decode(list(decoder.blocks()))


def _widen_kinds(decoders: Mapping[str, Decoder], kinds: StatKinds) -> None:
    for decoder in decoders.values():
        decoder.widen(kinds)


def _unite_names(of_runs: Sequence[StatKinds]) -> dict[str, set[int]]:
    return {stat: set().union(*(kinds[stat] for kinds in of_runs)) for stat in (of_runs[0] if of_runs else ())}
