"""The hive layout: a folder a table, a folder a run if there are several, a folder a host, one file; events in row
groups, streamed.

Progress is one stage for the entire export: events read, once for `events` and `event_stats` together and twice for
`nesting`. If there are no events to read, tables are counted.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

import numpy as np
import pyarrow as pa

from fastprof._native import records
from fastprof._version import __version__
from fastprof.decode.request import EVENT_COLUMNS, STAT_COLUMNS, Request
from fastprof.decode.workers import Workers
from fastprof.errors import UsageError
from fastprof.export.host_names import note_shortened, shortened
from fastprof.export.writers import Writer
from fastprof.schema.tables import VERSION
from fastprof.tables.nesting_stream import PASSES, nesting_stream
from fastprof.tables.table_set import TABLES, TableSet
from fastprof.tables.tables_of_runs import FirstIds, TablesOfRuns
from fastprof.wording.patterns import pattern_of

ROW_GROUP = 1 << 20
EVENT_TABLES = ("events", "event_stats")
"""Decoded together, in one pass."""
ABOUT = "session.json"
"""The file that lists all sources, in the folder of the tables."""


def export_tables(tables: TableSet | TablesOfRuns, out: Path, chosen: Sequence[str], writer: type[Writer]) -> None:
    """Write each table of each selected host under ``out``, run by run. Raises UsageError if no host is selected."""
    runs = _runs_of(tables)
    hosts = sum(len(run.hosts) for run in runs)
    if not hosts:
        raise UsageError("nothing to export: no host is selected")
    for run in runs:
        _index(run.tables, chosen)
    passes = any(name in EVENT_TABLES for name in chosen) + PASSES * ("nesting" in chosen)
    events = sum(_event_count(run.tables) for run in runs)
    tally = _Tally(tables.workers, passes * events, hosts * len(chosen))
    for run in runs:
        _note_names(run)
        for host in run.hosts:
            _Host(run, host, out, writer).export(chosen, tally)
        if "import_log" in chosen:  # it comes last: the other tables of any host add to it
            for host in run.hosts:
                _Host(run, host, out, writer).export_log(tally)
    (out / ABOUT).write_text(_about(runs), encoding="utf-8")


def recorded_tables(tables: TableSet | TablesOfRuns) -> list[str]:
    """The names of the tables that are read from the captures of any run."""
    names = {name for run in _runs_of(tables) for name in run.tables.recorded()}
    return [name for name in TABLES if name in names]


class _Run(NamedTuple):
    """A run to export. ``name`` and ``ids``: None if the session is this run alone; ``hosts``: the selected ones."""

    name: str | None
    tables: TableSet
    ids: FirstIds | None
    hosts: list[str]


def _runs_of(tables: TableSet | TablesOfRuns) -> list[_Run]:
    if isinstance(tables, TablesOfRuns):
        return [_Run(name, one, tables.ids, one.selected_hosts()) for name, one in tables.runs.items()]
    return [_Run(None, tables, None, tables.selected_hosts())]


def _note_names(run: _Run) -> None:
    for capture in run.tables.session.captures:
        if capture.host in run.hosts and _short(capture.host) != capture.host:
            note_shortened(capture, f"host={_folder_value(capture.host)}")


def _about(runs: Sequence[_Run]) -> str:
    """Where all of the export comes from; each file has the source of its own host."""
    starts = [run.tables.session.start_unix_ns() for run in runs]
    captures = [capture for run in runs for capture in run.tables.session.captures if capture.host in run.hosts]
    about = {
        "fastprof.schema_version": VERSION,
        "fastprof.version": __version__,
        "session_start_unix_ns": min((start for start in starts if start is not None), default=None),
        "sources": [{name: getattr(capture, name) for name in _OF_SOURCE} for capture in captures],
    }
    return json.dumps(about, indent=1, ensure_ascii=False) + "\n"


_NULL = pattern_of("(?:_|%(?:25)*5F)_HIVE_DEFAULT_PARTITION__")
_OF_SOURCE = ("run", "host", "path", "size_bytes")


def _index(tables: TableSet, chosen: Sequence[str]) -> None:
    """Index all hosts as deep as the tables need, so that the export is one stage after this one."""
    index = tables.session.index
    depths = {"events": records.EVENTS, "event_stats": records.STATS, "nesting": tables.nesting_request().depth}
    if "import_log" in chosen:  # which lists faults of everything
        index.ensure(records.STATS)
    else:
        index.ensure(max(depths.get(name, records.HOP) for name in chosen), tables.wanted.pieces())


def _event_count(tables: TableSet) -> int:
    """The events of the selected lines."""
    return int(tables.session.index.lines["event_count"][tables.wanted.lines()].sum())


class _Tally:
    """Progress of an export: of ``events`` to read, or of ``tables`` if there are no events."""

    def __init__(self, workers: Workers, events: int, tables: int) -> None:
        self._workers = workers
        self._events, self._tables = events, tables
        self._done = self._end = self._written = 0

    def begin(self, events: int) -> None:
        """A pass over ``events`` events begins."""
        self._end = self._done + events

    def passed(self, events: int) -> None:
        """This number of events of the pass has been read."""
        self._done = min(self._done + events, self._end)
        self._report()

    def wrote(self, tables: int) -> None:
        """Tables are complete, and with them the pass."""
        self._done = self._end
        self._written += tables
        self._report()

    def _report(self) -> None:
        if self._events:
            self._workers.report("exporting", self._done, self._events)
        else:
            self._workers.report("exporting", self._written, self._tables)


class _Host:
    """One host's files."""

    def __init__(self, run: _Run, host: str, out: Path, kind: type[Writer]) -> None:
        self.run = run
        self.tables = TableSet(run.tables.session, run.tables.selection.narrowed(hosts=host))
        self.out = out
        self.host = host
        self.kind = kind
        self.keys = ("host",) if run.name is None else ("run", "host")

    def path(self, table: str) -> Path:
        """The file of a table; the keys of its folders are not columns of the file."""
        values = {"run": _folder_value(self.run.name or ""), "host": _folder_value(self.host)}
        folder = self.out.joinpath(table, *(f"{key}={values[key]}" for key in self.keys))
        folder.mkdir(parents=True, exist_ok=True)
        return folder / f"part-0.{self.kind.suffix}"

    def without_keys(self, rows: pa.Table) -> pa.Table:
        """The rows as the file has them: without the keys of its folders, with ids that are unique over all runs."""
        rows = rows.drop_columns([name for name in self.keys if name in rows.column_names])
        run = self.run
        return rows if run.name is None or run.ids is None else run.ids.renumbered(rows, run.name)

    def export(self, chosen: Sequence[str], tally: _Tally) -> None:
        """All tables but import_log."""
        events = _event_count(self.tables)
        streamed = [name for name in chosen if name in EVENT_TABLES]
        if streamed:
            tally.begin(events)
            self._stream(streamed, tally)
            tally.wrote(len(streamed))
        if "nesting" in chosen:
            tally.begin(PASSES * events)
            self._write("nesting", nesting_stream(self.tables, ROW_GROUP, tally.passed))
            tally.wrote(1)
        for name in chosen:
            if name not in (*EVENT_TABLES, "nesting", "import_log"):
                self._write(name, iter([self.tables[name]]))
                tally.wrote(1)

    def export_log(self, tally: _Tally) -> None:
        self._write("import_log", iter([self._log_rows()]))
        tally.wrote(1)

    def _log_rows(self) -> pa.Table:
        """Rows of this host's file; the first host also gets rows of no host, such as files that were left out."""
        session, hosts = self.tables.session, self.run.hosts
        owner: dict[str | None, str] = {capture.path: "" for capture in session.captures}
        for capture in reversed(session.captures):
            if capture.host in hosts:
                owner[capture.path] = capture.host
        table = self.tables["import_log"]
        mine = [owner.get(path, hosts[0]) == self.host for path in table["path"].to_pylist()]
        return table.filter(pa.array(mine, pa.bool_()))

    def _write(self, name: str, parts: Iterator[pa.Table]) -> None:
        with _Output(self, name) as output:
            for part in parts:
                output.write(part)

    def _stream(self, names: Sequence[str], tally: _Tally) -> None:
        """Events and their stats, decoded once: while one share is written, the next is being decoded."""
        request = Request(
            tuple(c for c in EVENT_COLUMNS if c not in self.keys) if "events" in names else (),
            STAT_COLUMNS if "event_stats" in names else (),
        )
        decoder = self.tables.decoder(request)
        with ExitStack() as open_files:
            outputs = {name: open_files.enter_context(_Output(self, name)) for name in names}
            pool = open_files.enter_context(ThreadPoolExecutor(len(outputs)))
            writing: list[Future[None]] = []
            read = 0
            for share in decoder.shares(ROW_GROUP):
                decoded = decoder.decode(share, None)
                for future in writing:
                    future.result()
                tally.passed(read)
                read = sum(block.events for block in share)
                arrays: dict[str, Mapping[str, pa.Array]] = {"events": decoded.events, "event_stats": decoded.stats}
                del decoded
                writing = [
                    pool.submit(output.write, self.tables.table(TABLES[name], arrays[name]))
                    for name, output in outputs.items()
                ]
                del arrays
            for future in writing:
                future.result()


def _folder_value(name: str) -> str:
    """The name, shortened and URL-encoded, as a partition key has it. What readers take for null is encoded twice,
    because they decode it first; so is what that would be mistaken for."""
    name = _short(name)
    if _NULL.fullmatch(name):
        name = ("%5F" if name[0] == "_" else "%25") + name[1:]
    return quote(name, safe="")


def _short(name: str) -> str:
    return shortened(name, lambda one: len(quote(one, safe="")))


class _Output:
    """One file, opened with its first rows; written empty if there are none."""

    def __init__(self, host: _Host, table: str) -> None:
        self.table = table
        self.path = host.path(table)
        self.host = host
        self.kind = host.kind
        self.tables = host.tables
        self.writer: Writer | None = None
        self.schema: pa.Schema | None = None

    def __enter__(self) -> _Output:
        return self

    def write(self, rows: pa.Table) -> None:
        rows = with_used_texts(self.host.without_keys(rows))
        if self.writer is None or self.schema is None:
            self.schema = rows.schema
            self.writer = self.kind(self.path, rows.schema)
        self.writer.write(rows.cast(self.schema) if rows.schema != self.schema else rows)

    def __exit__(self, error: type[BaseException] | None, *rest: object) -> None:
        if error is not None:
            with suppress(OSError, pa.ArrowException):  # the first error is the one that counts
                self._close()
            return
        if self.writer is None:
            empty = TABLES[self.table].arrow().empty_table()
            self.write(self.tables.table(TABLES[self.table], dict(zip(empty.column_names, empty.columns, strict=True))))
        self._close()

    def _close(self) -> None:
        if self.writer is not None:
            self.writer.close()


def with_used_texts(table: pa.Table) -> pa.Table:
    """The table with its dictionaries cut down to the texts that occur, and int32 indices: a file has one schema."""
    columns, fields = [], []
    for column, field in zip(table.columns, table.schema, strict=True):
        if pa.types.is_dictionary(field.type):
            chunks = [_compact(chunk) for chunk in column.chunks]
            column = pa.chunked_array(chunks or [_compact(column.combine_chunks())])
            field = field.with_type(column.type)
        columns.append(column)
        fields.append(field)
    return pa.table(columns, schema=pa.schema(fields, table.schema.metadata))


def _compact(array: pa.DictionaryArray) -> pa.DictionaryArray:
    texts = array.dictionary
    if not len(array):
        return pa.DictionaryArray.from_arrays(pa.array([], pa.int32()), texts.slice(0, 0))
    valid = None if not array.null_count else np.asarray(array.is_valid())
    numbers = np.asarray(array.indices.fill_null(0)).astype(np.int32)
    used = np.zeros(max(len(texts), 1), bool)
    used[numbers if valid is None else numbers[valid]] = True
    place = (np.cumsum(used) - 1).astype(np.int32)
    occurring = texts.take(pa.array(np.flatnonzero(used[: len(texts)])))
    indices = pa.array(place[numbers], mask=None if valid is None else ~valid)
    return pa.DictionaryArray.from_arrays(indices, occurring, safe=False)
