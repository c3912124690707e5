"""The hive layout: a folder a table, a folder a run if there are several, a folder a host, one file; events in row
groups, streamed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol
from urllib.parse import quote

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fastprof._native import records
from fastprof._version import __version__
from fastprof.decode.array_memory import adopt_thread
from fastprof.decode.decoder import EVENT_COLUMNS, STAT_COLUMNS, Request
from fastprof.decode.import_log import ImportLog
from fastprof.decode.workers import Workers
from fastprof.errors import UsageError
from fastprof.export.host_names import log_shortened, shorten_path_part
from fastprof.export.writers import Writer
from fastprof.schema.tables import VERSION
from fastprof.tables.nesting_stream import PASSES, stream_nesting
from fastprof.tables.table_set import TABLES, TableSet
from fastprof.tables.tables_of_runs import FirstIds, TablesOfRuns, renumber_ids
from fastprof.wording.patterns import compile_late

ROW_GROUP = 1 << 20
"""Rows of a Parquet row group, at most."""
EVENT_TABLES: Final = ("events", "event_stats")
"""Decoded together, in one pass."""
_NULL: Final = compile_late("(?:_|%(?:25)*5F)_HIVE_DEFAULT_PARTITION__")


class Tally(Protocol):
    """Hears how far the files of a host are."""

    def begin(self, events: int) -> None:
        """A pass over ``events`` events begins."""

    def passed(self, events: int) -> None:
        """This number of events of the pass has been read."""

    def wrote(self, tables: int) -> None:
        """Tables are complete, and with them the pass."""


class Rows(Protocol):
    """Receives rows of a table."""

    def write(self, rows: pa.Table, /) -> None: ...


class HostSink(Protocol):
    """Receives the tables of a host. ``keys``: columns that are not decoded, because it knows them."""

    @property
    def keys(self) -> tuple[str, ...]: ...

    def open(self, table: str, empty: Callable[[], pa.Table] | None = None) -> AbstractContextManager[Rows]:
        """Open a table for rows. ``empty``: makes the table if there are none; None: there are some."""


class HostFolder:
    """Where the files of a host are, and what they have of its session. ``out``: a folder that exists. ``run``: None
    if the session is one run. ``first_id``: what is added to ids, as of ``renumber_ids``; ``about``: metadata."""

    def __init__(
        self,
        out: Path,
        kind: type[Writer],
        run: str | None,
        host: str,
        first_id: Callable[[str], int] | None = None,
        about: Mapping[str, str] | None = None,
    ) -> None:
        self.out = out
        self.kind = kind
        self.host = host
        self._first_id = first_id
        self._about = about
        keys = {"host": host} if run is None else {"run": run, "host": host}
        self.keys = tuple(keys)
        self._below = [f"{key}={encode_folder_value(value)}" for key, value in keys.items()]

    def of_table(self, table: str) -> Path:
        """Return the folder of a table; the folder that holds it exists."""
        folder = self.out
        for name in (table, *self._below[:-1]):  # not those above: who gave ``out`` may have deleted it
            folder /= name
            folder.mkdir(exist_ok=True)
        return folder / self._below[-1]

    def new_file(self, table: str) -> Path:
        folder = self.of_table(table)
        folder.mkdir(exist_ok=True)
        return folder / f"part-0.{self.kind.suffix}"

    def as_written(self, rows: pa.Table) -> pa.Table:
        """Return the rows as the file has them: without the keys of its folders, with ids of the session."""
        rows = rows.drop_columns([name for name in self.keys if name in rows.column_names])
        if self._about is not None:
            about = {name.encode(): text.encode() for name, text in self._about.items()}
            rows = rows.replace_schema_metadata((rows.schema.metadata or {}) | about)
        return rows if self._first_id is None else renumber_ids(rows, self._first_id)

    def open(self, table: str, empty: Callable[[], pa.Table] | None = None) -> _Output:
        return _Output(self, table, empty)


def index_for(tables: TableSet, chosen: Sequence[str]) -> None:
    """Index the selected hosts as deep as the tables need, so that the export is one stage after this one."""
    index = tables.session.index
    depths = {"events": records.EVENTS, "event_stats": records.STATS, "nesting": tables.nesting_request().depth}
    if "import_log" in chosen:  # which lists faults of everything
        index.ensure(records.STATS)
    else:
        index.ensure(max(depths.get(name, records.HOP) for name in chosen), tables.wanted.pieces())


def event_count(tables: TableSet) -> int:
    """Return the events of the selected lines."""
    return int(tables.session.index.lines["event_count"][tables.wanted.lines()].sum())


def write_parts(
    sink: HostSink, table: str, parts: Iterable[pa.Table], empty: Callable[[], pa.Table] | None = None
) -> None:
    """Write a table; ``empty`` as of ``HostSink.open``."""
    with sink.open(table, empty) as output:
        for part in parts:
            output.write(part)


def write_host(tables: TableSet, folder: HostSink, chosen: Sequence[str], tally: Tally) -> None:
    """All tables of a host but import_log. ``tables``: of this host."""
    events = event_count(tables)
    streamed = [name for name in chosen if name in EVENT_TABLES]
    if streamed:
        tally.begin(events)
        _write_events(tables, folder, streamed, tally)
        tally.wrote(len(streamed))
    if "nesting" in chosen:
        tally.begin(PASSES * events)
        parts = stream_nesting(tables, ROW_GROUP, tally.passed)
        write_parts(folder, "nesting", parts, partial(_make_empty_table, tables, "nesting"))
        tally.wrote(1)
    for name in chosen:
        if name not in (*EVENT_TABLES, "nesting", "import_log"):
            write_parts(folder, name, [tables[name]])
            tally.wrote(1)


def _make_empty_table(tables: TableSet, name: str) -> pa.Table:
    empty = TABLES[name].arrow().empty_table()
    return tables.table(TABLES[name], dict(zip(empty.column_names, empty.columns, strict=True)))


def _write_events(tables: TableSet, folder: HostSink, names: Sequence[str], tally: Tally) -> None:
    """Events and their stats, decoded once: while one share is written, the next is being decoded."""
    request = Request(
        tuple(c for c in EVENT_COLUMNS if c not in folder.keys) if "events" in names else (),
        STAT_COLUMNS if "event_stats" in names else (),
    )
    decoder = tables.decoder(request)
    with ExitStack() as open_files:
        outputs = {
            name: open_files.enter_context(folder.open(name, partial(_make_empty_table, tables, name)))
            for name in names
        }
        pool = open_files.enter_context(ThreadPoolExecutor(len(outputs), initializer=adopt_thread))
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
                pool.submit(output.write, tables.table(TABLES[name], arrays[name])) for name, output in outputs.items()
            ]
            del arrays
        for future in writing:
            future.result()


def encode_folder_value(name: str) -> str:
    """Return the name, shortened and URL-encoded, as a partition key has it. What readers take for null is encoded
    twice, because they decode it first; so is what that would be mistaken for."""
    name = encode_short_value(name)
    if _NULL.fullmatch(name):
        name = ("%5F" if name[0] == "_" else "%25") + name[1:]
    return quote(name, safe="")


def encode_short_value(name: str) -> str:
    return shorten_path_part(name, lambda text: len(quote(text, safe="")))


class _Output:
    """One file, opened with its first rows; written empty if there are none."""

    def __init__(self, folder: HostFolder, table: str, empty: Callable[[], pa.Table] | None) -> None:
        self.folder = folder
        self.path = folder.new_file(table)
        self.empty = empty
        self.writer: Writer | None = None
        self.schema: pa.Schema | None = None

    def __enter__(self) -> _Output:
        return self

    def write(self, rows: pa.Table) -> None:
        rows = drop_unused_texts(self.folder.as_written(rows))
        if self.writer is None or self.schema is None:
            self.schema = rows.schema
            self.writer = self.folder.kind(self.path, rows.schema)
        self.writer.write(rows.cast(self.schema) if rows.schema != self.schema else rows)

    def __exit__(self, error: type[BaseException] | None, *rest: object) -> None:
        if error is not None:
            with suppress(OSError, pa.ArrowException):  # the first error is the one that counts
                self._close()
            return
        if self.writer is None and self.empty is not None:
            self.write(self.empty())
        self._close()

    def _close(self) -> None:
        if self.writer is not None:
            self.writer.close()


def drop_unused_texts(table: pa.Table) -> pa.Table:
    """Return the table with its dictionaries cut down to the texts that occur, in the order in which they do, and int32
    indices: a file has one schema, and the same bytes whichever hosts the session has besides."""
    columns, fields = [], []
    for column, field in zip(table.columns, table.schema, strict=True):
        if pa.types.is_dictionary(field.type):
            chunks = [_compact_dictionary(chunk) for chunk in column.chunks]
            column = pa.chunked_array(chunks or [_compact_dictionary(column.combine_chunks())])
            field = field.with_type(column.type)
        columns.append(column)
        fields.append(field)
    return pa.table(columns, schema=pa.schema(fields, table.schema.metadata))


def _compact_dictionary(array: pa.DictionaryArray) -> pa.DictionaryArray:
    texts = array.dictionary
    if not len(array):
        return pa.DictionaryArray.from_arrays(pa.array([], pa.int32()), texts.slice(0, 0))
    valid = None if not array.null_count else np.asarray(array.is_valid())
    numbers = np.asarray(array.indices.fill_null(0)).astype(np.int32)
    occurring = _order_by_first_use(numbers if valid is None else numbers[valid], len(texts))
    place = np.zeros(max(len(texts), 1), np.int32)
    place[occurring] = np.arange(len(occurring), dtype=np.int32)
    indices = pa.array(place[numbers], mask=None if valid is None else ~valid)
    return pa.DictionaryArray.from_arrays(indices, texts.take(pa.array(occurring)), safe=False)


def _order_by_first_use(numbers: npt.NDArray[np.int32], count: int) -> npt.NDArray[np.int64]:
    """Return the numbers that occur, all below ``count``, by their first place."""
    first = np.full(count, -1, np.int64)
    first[numbers[::-1]] = np.arange(len(numbers) - 1, -1, -1)  # of several places of a number, the last one stays
    there = np.flatnonzero(first >= 0)
    return there[np.argsort(first[there])]


ABOUT = "session.json"
"""The file that lists all sources, in the folder of the tables."""


def export_tables(tables: TableSet | TablesOfRuns, out: Path, chosen: Sequence[str], writer: type[Writer]) -> None:
    """Write each table of each selected host under ``out``, run by run. Raises UsageError if no host is selected."""
    runs = _list_runs(tables)
    hosts = sum(len(run.hosts) for run in runs)
    check_any_hosts(hosts)
    for run in runs:
        index_for(run.tables, chosen)
    passes = any(name in EVENT_TABLES for name in chosen) + PASSES * ("nesting" in chosen)
    events = sum(event_count(run.tables) for run in runs)
    tally = ExportTally(tables.workers, passes * events, hosts * len(chosen))
    for run in runs:
        for capture in run.tables.session.captures:
            if capture.host in run.hosts:
                log_folder_name(capture.log, capture.path, capture.host)
        for host in run.hosts:
            write_host(run.of_host(host), run.folder(host, out, writer), chosen, tally)
        if "import_log" in chosen:  # it comes last: the other tables of any host add to it
            for host in run.hosts:
                table, recorded = run.of_host(host)["import_log"], run.tables.session.captures
                owners = find_log_owners(table, [(capture.path, capture.host) for capture in recorded], run.hosts)
                log_rows = table.filter(pa.array([owner == host for owner in owners], pa.bool_()))
                write_parts(run.folder(host, out, writer), "import_log", [log_rows])
                tally.wrote(1)
    starts = [run.tables.session.start_unix_ns() for run in runs]
    captures = [capture for run in runs for capture in run.tables.session.captures if capture.host in run.hosts]
    write_sources(out, starts, [{name: getattr(capture, name) for name in OF_SOURCE} for capture in captures])


def check_any_hosts(hosts: int) -> None:
    if not hosts:
        raise UsageError("nothing to export: no host is selected")


def list_recorded_tables(tables: TableSet | TablesOfRuns) -> list[str]:
    """Return the names of the tables that are read from the captures of any run."""
    names = {name for run in _list_runs(tables) for name in run.tables.recorded()}
    return [name for name in TABLES if name in names]


class _ExportedRun(NamedTuple):
    """A run to export. ``name`` and ``ids``: None if the session is this run alone; ``hosts``: the selected ones."""

    name: str | None
    tables: TableSet
    ids: FirstIds | None
    hosts: list[str]

    def of_host(self, host: str) -> TableSet:
        return TableSet(self.tables.session, self.tables.selection.narrowed(hosts=host))

    def folder(self, host: str, out: Path, writer: type[Writer]) -> HostFolder:
        first = None if self.name is None or self.ids is None else partial(self.ids.first, self.name)
        return HostFolder(out, writer, self.name, host, first)


def _list_runs(tables: TableSet | TablesOfRuns) -> list[_ExportedRun]:
    if isinstance(tables, TablesOfRuns):
        return [_ExportedRun(name, run, tables.ids, run.selected_hosts()) for name, run in tables.runs.items()]
    return [_ExportedRun(None, tables, None, tables.selected_hosts())]


def log_folder_name(log: ImportLog, path: str, host: str) -> None:
    """A row of import_log if the folder of a host has another name."""
    if encode_short_value(host) != host:
        log_shortened(log, path, f"host={encode_folder_value(host)}")


OF_SOURCE = ("run", "host", "path", "size_bytes")


def write_sources(out: Path, starts: Iterable[int | None], sources: Sequence[Mapping[str, Any]]) -> None:
    """Where all of the export comes from; each file has the source of its own host. ``starts``: of its runs;
    ``sources``: of each capture, what ``OF_SOURCE`` names."""
    about = {
        "fastprof.schema_version": VERSION,
        "fastprof.version": __version__,
        "session_start_unix_ns": min((start for start in starts if start is not None), default=None),
        "sources": sources,
    }
    (out / ABOUT).write_text(json.dumps(about, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def find_log_owners(log: pa.Table, files: Sequence[tuple[str, str]], hosts: Sequence[str]) -> list[str]:
    """Whose file a row of import_log is in: the first one of ``hosts`` also gets rows of no host, such as files that
    were left out. ``files``: the path and host of each capture."""
    owner: dict[str | None, str] = {path: "" for path, _ in files}
    wanted = set(hosts)
    for path, host in reversed(files):
        if host in wanted:
            owner[path] = host
    return [owner.get(path, hosts[0]) for path in log["path"].to_pylist()]


class NoTally:
    """Report nothing: nobody follows the export."""

    def begin(self, events: int) -> None: ...
    def passed(self, events: int) -> None: ...
    def wrote(self, tables: int) -> None: ...


class ExportTally:
    """Progress of an export: of ``events`` to read, or of ``tables`` if there are no events."""

    def __init__(self, workers: Workers, events: int, tables: int) -> None:
        self._workers = workers
        self._events, self._tables = events, tables
        self._done = self._end = self._written = 0

    def begin(self, events: int) -> None:
        self._end = self._done + events

    def passed(self, events: int) -> None:
        self._done = min(self._done + events, self._end)
        self._report()

    def wrote(self, tables: int) -> None:
        self._done = self._end
        self._written += tables
        self._report()

    def _report(self) -> None:
        if self._events:
            self._workers.report("exporting", self._done, self._events)
        else:
            self._workers.report("exporting", self._written, self._tables)
