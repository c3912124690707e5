"""The hive layout: a folder a table, a folder a run if there are several, a folder a host, one file; events in row
groups, streamed.

Progress is one stage for the entire export: events read, once for `events` and `event_stats` together and twice for
`nesting`. If there are no events to read, tables are counted.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from fastprof._version import __version__
from fastprof.decode.import_log import ImportLog
from fastprof.decode.workers import Workers
from fastprof.errors import UsageError
from fastprof.export.host_files import (
    EVENT_TABLES,
    HostFolder,
    event_count,
    folder_value,
    index_for,
    short_value,
    write_host,
)
from fastprof.export.host_names import note_shortened
from fastprof.export.writers import Writer
from fastprof.schema.tables import VERSION
from fastprof.tables.nesting_stream import PASSES
from fastprof.tables.table_set import TABLES, TableSet
from fastprof.tables.tables_of_runs import FirstIds, TablesOfRuns

ABOUT = "session.json"
"""The file that lists all sources, in the folder of the tables."""


def export_tables(tables: TableSet | TablesOfRuns, out: Path, chosen: Sequence[str], writer: type[Writer]) -> None:
    """Write each table of each selected host under ``out``, run by run. Raises UsageError if no host is selected."""
    runs = _runs_of(tables)
    hosts = sum(len(run.hosts) for run in runs)
    check_some(hosts)
    for run in runs:
        index_for(run.tables, chosen)
    passes = any(name in EVENT_TABLES for name in chosen) + PASSES * ("nesting" in chosen)
    events = sum(event_count(run.tables) for run in runs)
    tally = _Tally(tables.workers, passes * events, hosts * len(chosen))
    for run in runs:
        for capture in run.tables.session.captures:
            if capture.host in run.hosts:
                note_folder(capture.log, capture.path, capture.host)
        for host in run.hosts:
            write_host(run.of_host(host), run.folder(host, out, writer), chosen, tally)
        if "import_log" in chosen:  # it comes last: the other tables of any host add to it
            for host in run.hosts:
                run.folder(host, out, writer).write("import_log", [_log_rows(run, host)])
                tally.wrote(1)
    starts = [run.tables.session.start_unix_ns() for run in runs]
    captures = [capture for run in runs for capture in run.tables.session.captures if capture.host in run.hosts]
    write_about(out, starts, [{name: getattr(capture, name) for name in OF_SOURCE} for capture in captures])


def check_some(hosts: int) -> None:
    if not hosts:
        raise UsageError("nothing to export: no host is selected")


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

    def of_host(self, host: str) -> TableSet:
        return TableSet(self.tables.session, self.tables.selection.narrowed(hosts=host))

    def folder(self, host: str, out: Path, writer: type[Writer]) -> HostFolder:
        first = None if self.name is None or self.ids is None else partial(self.ids.first, self.name)
        return HostFolder(out, writer, self.name, host, first)


def _runs_of(tables: TableSet | TablesOfRuns) -> list[_Run]:
    if isinstance(tables, TablesOfRuns):
        return [_Run(name, one, tables.ids, one.selected_hosts()) for name, one in tables.runs.items()]
    return [_Run(None, tables, None, tables.selected_hosts())]


def note_folder(log: ImportLog, path: str, host: str) -> None:
    """A row of import_log if the folder of a host has another name."""
    if short_value(host) != host:
        note_shortened(log, path, f"host={folder_value(host)}")


OF_SOURCE = ("run", "host", "path", "size_bytes")


def write_about(out: Path, starts: Iterable[int | None], sources: Sequence[Mapping[str, Any]]) -> None:
    """Where all of the export comes from; each file has the source of its own host. ``starts``: of its runs;
    ``sources``: of each capture, what ``OF_SOURCE`` names."""
    about = {
        "fastprof.schema_version": VERSION,
        "fastprof.version": __version__,
        "session_start_unix_ns": min((start for start in starts if start is not None), default=None),
        "sources": sources,
    }
    (out / ABOUT).write_text(json.dumps(about, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def _log_rows(run: _Run, host: str) -> pa.Table:
    table, captures = run.of_host(host)["import_log"], run.tables.session.captures
    owners = log_owners(table, [(one.path, one.host) for one in captures], run.hosts)
    return table.filter(pa.array([owner == host for owner in owners], pa.bool_()))


def log_owners(log: pa.Table, files: Sequence[tuple[str, str]], hosts: Sequence[str]) -> list[str]:
    """Whose file a row of import_log is in: the first one of ``hosts`` also gets rows of no host, such as files that
    were left out. ``files``: the path and host of each capture."""
    owner: dict[str | None, str] = {path: "" for path, _ in files}
    wanted = set(hosts)
    for path, host in reversed(files):
        if host in wanted:
            owner[path] = host
    return [owner.get(path, hosts[0]) for path in log["path"].to_pylist()]


class NoTally:
    """Of an export that nobody follows."""

    def begin(self, events: int) -> None: ...
    def passed(self, events: int) -> None: ...
    def wrote(self, tables: int) -> None: ...


class _Tally:
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
