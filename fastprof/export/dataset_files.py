"""The Parquet files of a run in a dataset: columns ``run`` and ``host`` in front, ids that begin at 0 on each host.

TABLE/run=RUN_ID/part-0.parquet                small tables: all hosts of the run
TABLE/run=RUN_ID/host-00000-00007-0.parquet    tables of events: hosts by number, each with row groups of its own
REPORT.TABLE/run=RUN_ID/part-0.parquet         a table of a report, with columns run and job in front
figures, notices                               those of all reports
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from hashlib import blake2b
from typing import Any, Final, Protocol

import numpy as np
import pyarrow as pa

from fastprof._native import records
from fastprof._version import __version__
from fastprof.export.destinations import Destination, Sink
from fastprof.export.hive import NoTally, Tally, drop_unused_texts, encode_folder_value, index_for, write_host
from fastprof.export.writers import CountedSink, ParquetWriter, format_nested
from fastprof.schema.capture_tables import HOST, RUN
from fastprof.schema.tables import TEXT, VERSION, Count, Kind, Number, String, TableSchema, Text
from fastprof.schema.value_classes import dataclass
from fastprof.tables.table_set import TABLES, OpenSession, TableSet
from fastprof.tables.tables_of_runs import NUMBERED, renumber_ids

BY_HOSTS: Final = ("events", "event_stats", "nesting")
"""Tables whose files are of some hosts."""
LARGEST_GROUP: Final = 512 << 20
"""Bytes of captures whose hosts share files, unless a host is larger."""
_LARGEST_FILE: Final = 384 << 20
"""Bytes after which a table goes on in another file."""
_MOST_BUFFERED: Final = 64 << 20
"""Bytes of captures whose rows of small tables are one row group."""
_KEYS: Final = (RUN, HOST)
_SORTED: Final = {"events": ("line_id", "start_ps"), "event_stats": ("event_id",), "nesting": ("event_id",)}
_TIME: Final = pa.timestamp("us", "UTC")
START_TIME: Final = Kind(_TIME)("start_time", "start of profiling, UTC; null: not recorded")


def make_schema(table: str, flat: bool = False) -> pa.Schema:
    """Return the schema of a capture table in a dataset. ``flat``: lists and maps are JSON text."""
    fields = [key.field() for key in _KEYS]
    for column in TABLES[table].columns:
        if column.name in (RUN.name, HOST.name):
            continue
        field = column.field()
        if column.name in NUMBERED:
            text = column.description.replace("in the session", "on its host").replace("of the session", "of its host")
            field = field.with_metadata({"description": text})
        fields.append(field)
    if table == "hosts":
        fields.append(START_TIME.field())
    return flatten_schema(pa.schema(fields)) if flat else pa.schema(fields)


def flatten_schema(schema: pa.Schema) -> pa.Schema:
    fields = [field.with_type(pa.string()) if pa.types.is_nested(field.type) else field for field in schema]
    return pa.schema(fields, schema.metadata)


def make_times(unix_ns: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return Unix times in ns as timestamps in µs, because Spark reads no others."""
    nanoseconds = pa.timestamp("ns", "UTC")
    return pa.chunked_array([chunk.view(nanoseconds).cast(_TIME, safe=False) for chunk in unix_ns.chunks], _TIME)


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A complete file, as the manifest lists it."""

    name: str
    table: str
    rows: int
    bytes: int
    digest: str


@dataclass(frozen=True, slots=True)
class HostFacts:
    """A host of a run. ``number``: in the session; ``digest``: of samples of its capture."""

    number: int
    host: str
    path: str
    size_bytes: int
    start_unix_ns: int | None
    digest: str


@dataclass(frozen=True, slots=True)
class RunFiles:
    """Where the files of a run are. ``suffix``: of their names, "" unless files of other content have these names."""

    destination: Destination
    run: str
    suffix: str = ""
    flat: bool = False

    def name_folder(self, table: str) -> str:
        return f"{table}/run={encode_folder_value(self.run)}/"

    def prepare(self, table: str, rows: pa.Table, host: str | Sequence[str]) -> pa.Table:
        """Return the rows as their file has them. ``host``: of all rows, or of each."""
        schema = make_schema(table, self.flat)
        if table == "hosts":
            rows = rows.append_column(START_TIME.name, make_times(rows["start_unix_ns"]))
        rows = drop_unused_texts(rows.select(schema.names[len(_KEYS) :]))
        hosts = repeat_text(host, len(rows)) if isinstance(host, str) else pa.array(host, TEXT)
        keys = [repeat_text(self.run, len(rows)), hosts]
        rows = flatten_table(rows) if self.flat else rows
        return pa.table([*keys, *rows.columns], names=schema.names).cast(schema)


def repeat_text(text: str, rows: int) -> pa.DictionaryArray:
    texts = pa.array([text] if rows else [], pa.string())
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int32)), texts)


def flatten_table(rows: pa.Table) -> pa.Table:
    for place, field in enumerate(rows.schema):
        if pa.types.is_nested(field.type):
            rows = rows.set_column(place, field.with_type(pa.string()), format_nested(rows[field.name]))
    return rows


class TableWriter:
    """Writes a table of a run: a row group a call of ``write``; a file is opened with its first rows. ``stem``: of the
    names of files, before their number; ``about``: metadata besides the versions."""

    def __init__(self, files: RunFiles, table: str, stem: str, about: Mapping[str, str] | None = None) -> None:
        self.files = files
        self.table = table
        self.written: list[WrittenFile] = []
        self._stem = stem
        self._about = about or {}
        self._open: _OpenFile | None = None
        self._number = 0

    def __enter__(self) -> TableWriter:
        return self

    @property
    def begun(self) -> bool:
        return self._number > 0

    def write(self, rows: pa.Table) -> None:
        """Write prepared rows."""
        if self._open is not None and self._open.sink.size >= _LARGEST_FILE:
            self._close(None, None, None)
        if self._open is None:
            folder = self.files.name_folder(self.table)
            name = f"{folder}{self._stem}{self._number}{self.files.suffix}.parquet"
            about = {"fastprof.schema_version": VERSION, "fastprof.version": __version__, **self._about}
            self._open = _OpenFile(self.files.destination, name, rows.schema.with_metadata(about), self.table)
            self._number += 1
        self._open.write(rows)

    def __exit__(self, *error: Any) -> None:
        self._close(*error)

    def _close(self, *error: Any) -> None:
        if self._open is not None:
            file, self._open = self._open, None
            if (written := file.close(*error)) is not None:
                self.written.append(written)


class _DigestSink(CountedSink):
    """Also computes the digest of the bytes."""

    def __init__(self, sink: Sink) -> None:
        super().__init__(sink.write)
        self.digest = blake2b(digest_size=16)
        self.is_closed = False

    def write(self, data: Any) -> int:
        self.digest.update(data)
        if not self.is_closed:
            return super().write(data)
        size = memoryview(data).nbytes
        self.size += size
        return size


class _OpenFile:
    def __init__(self, destination: Destination, name: str, schema: pa.Schema, table: str) -> None:
        self.name = name
        self.table = table
        self.schema = schema
        self.rows = 0
        with ExitStack() as stack:
            self.sink = _DigestSink(stack.enter_context(destination.open_writer(name)))
            self._writer = ParquetWriter(pa.PythonFile(self.sink, "w"), schema, _SORTED.get(table, ()))
            self._stack = stack.pop_all()

    def write(self, rows: pa.Table) -> None:
        self._writer.write(rows.replace_schema_metadata(self.schema.metadata))
        self.rows += rows.num_rows

    def close(self, *error: Any) -> WrittenFile | None:
        """Complete the file, or give it up because of an error."""
        try:
            if error[0] is not None:
                self._stack.__exit__(*error)
                return None
            with self._stack:
                self._writer.close()
        finally:
            self.sink.is_closed = True  # pyarrow closes a writer once more when it deletes it
        return WrittenFile(self.name, self.table, self.rows, self.sink.size, self.sink.digest.hexdigest())


# ---- hosts


def group_hosts(hosts: Sequence[HostFacts]) -> list[list[HostFacts]]:
    """Split hosts, in order, into groups that share files: as few as ``LARGEST_GROUP`` allows, of similar size."""
    total = sum(host.size_bytes for host in hosts)
    limit = total / max(1, -(-total // LARGEST_GROUP))
    groups: list[list[HostFacts]] = []
    size = 0.0
    for host in hosts:
        if not groups or (size and size + host.size_bytes / 2 > limit):
            groups.append([])
            size = 0
        groups[-1].append(host)
        size += host.size_bytes
    return groups


class OpenedHost(Protocol):
    """A host whose capture is open. ``tables``: of this host alone."""

    @property
    def name(self) -> str: ...
    @property
    def tables(self) -> TableSet: ...
    @property
    def before(self) -> Mapping[str, int]: ...


@dataclass(frozen=True, slots=True)
class HostTables:
    """A host of an open session. ``before``: how many ids of each kind the session has before those of the host."""

    name: str
    tables: TableSet
    before: Mapping[str, int]


def open_hosts(tables: TableSet, numbers: Iterable[int], chosen: Sequence[str]) -> Iterator[HostTables]:
    """Yield hosts of a session by their numbers."""
    index_for(tables, chosen)
    before = count_before(tables.session, "flows" in chosen)
    for number in numbers:
        name = tables.session.hosts[number]
        of_host = TableSet(tables.session, tables.selection.narrowed(hosts=name))
        yield HostTables(name, of_host, {kind: counts[number] for kind, counts in before.items()})


def count_before(session: OpenSession, flows: bool) -> dict[str, list[int]]:
    """Return how many planes, lines, events and flows there are before those of each capture."""
    index = session.index
    index.ensure(records.HOP)
    planes = [len(part.capture.plane_keys) for part in index.captures]
    owners = np.repeat(np.arange(len(planes)), planes)[index.lines["plane_id"]]
    events = np.bincount(owners, index.lines["event_count"], len(planes)).astype(np.int64)
    counts: dict[str, Any] = {
        "planes": planes,
        "lines": np.bincount(owners, minlength=len(planes)),
        "events": events,
        "flows": session.flow_ends() if flows else [0] * len(planes),
    }
    return {kind: np.append(0, np.cumsum(some))[:-1].tolist() for kind, some in counts.items()}


SmallRows = dict[str, pa.Table]
"""Prepared rows of a host, by table."""


def write_group(
    files: RunFiles,
    group: Sequence[HostFacts],
    hosts: Iterable[OpenedHost],
    chosen: Sequence[str],
    took: Callable[[str, SmallRows], None],
    tally: Tally | None = None,
) -> list[WrittenFile]:
    """Write the files that hosts share; ``took``: receives each host's rows of small tables. ``group``: all hosts that
    the files are named after; ``hosts``: those of them that can be read."""
    stem = f"host-{group[0].number:05}-{group[-1].number:05}-"
    sources = json.dumps([{"host": host.host, "path": host.path, "size_bytes": host.size_bytes} for host in group])
    with ExitStack() as stack:
        writers = {
            table: stack.enter_context(TableWriter(files, table, stem, {"sources": sources}))
            for table in BY_HOSTS
            if table in chosen
        }
        for host in hosts:
            rows = _HostRows(files, host, writers)
            write_host(host.tables, rows, chosen, tally or NoTally())
            took(host.name, rows.small)
    return [file for writer in writers.values() for file in writer.written]


class _HostRows:
    """Receives the rows of a host, as ``write_host`` gives them."""

    keys = ("run", "host")

    def __init__(self, files: RunFiles, host: OpenedHost, writers: Mapping[str, TableWriter]) -> None:
        self.small: SmallRows = {}
        self._files = files
        self._host = host
        self._writers = writers

    @contextmanager
    def open(self, table: str, empty: Callable[[], pa.Table] | None = None) -> Iterator[_PreparedRows]:  # noqa: ARG002
        yield _PreparedRows(self, table)

    def take(self, table: str, rows: pa.Table) -> None:
        rows = renumber_ids(rows, lambda kind: -self._host.before[kind])
        rows = self._files.prepare(table, rows, self._host.name)
        if table not in self._writers:
            self.small[table] = rows
        elif rows.num_rows:
            self._writers[table].write(rows)


@dataclass(frozen=True, slots=True)
class _PreparedRows:
    of_host: _HostRows
    table: str

    def write(self, rows: pa.Table) -> None:
        self.of_host.take(self.table, rows)


class SmallTables:
    """The tables with one file a run: rows of hosts are collected until their captures are large."""

    def __init__(self, files: RunFiles, tables: Sequence[str], stack: ExitStack) -> None:
        self._writers = {table: stack.enter_context(TableWriter(files, table, "part-")) for table in tables}
        self._rows: dict[str, list[pa.Table]] = {table: [] for table in tables}
        self._bytes = 0

    def add(self, rows: SmallRows, capture_bytes: int) -> None:
        for table, some in rows.items():
            self._rows[table].append(some)
        self._bytes += capture_bytes
        if self._bytes >= _MOST_BUFFERED:
            self._flush()

    def finish(self) -> list[WrittenFile]:
        """Write what is left; a table without rows gets an empty file."""
        self._flush(last=True)
        return [file for writer in self._writers.values() for file in writer.written]

    def _flush(self, last: bool = False) -> None:
        self._bytes = 0
        for table, some in self._rows.items():
            writer = self._writers[table]
            rows = pa.concat_tables(some or [make_schema(table, writer.files.flat).empty_table()])
            if rows.num_rows or (last and not writer.begun):
                writer.write(drop_unused_texts(rows.unify_dictionaries()))
            if last:
                writer.__exit__(None, None, None)
            some.clear()


_JOB: Final = Text("job", "job of the report, if the run has several; null: it has one")
_REPORT: Final = Text("report", "analysis of the report")
FIGURES: Final = TableSchema("figures", "a figure of a report", (
    RUN, _JOB, _REPORT,
    Text("figure", "name of the figure"),
    Count("int_value", "value if it is an integer, or 0 or 1 if it is a boolean; null: another type, or unknown"),
    Number("double_value", "value if it is a float; null: another type, or unknown"),
    String("text_value", "value if it is text; null: another type, or unknown"),
    Text("unit", "unit of the value; null: a count, a boolean or text"),
    String("reason", "why the value is unknown; null: it is known, or no reason is recorded"),
))  # fmt: skip
NOTICES: Final = TableSchema("notices", "a notice of a report", (
    RUN, _JOB, _REPORT,
    Text("severity", "severity: recommendation, info, warning or error"),
    String("text", "sentence"),
))  # fmt: skip


class ReportOfJobs(Protocol):
    """A report. ``runs``: it, or the report of each job, by name."""

    @property
    def runs(self) -> Mapping[str, Any]: ...


class ReportsOfRun(Protocol):
    """Reports to export. ``tables``: the names of their tables, by analysis."""

    @property
    def tables(self) -> Mapping[str, Sequence[str]]: ...
    def compute(self) -> Mapping[str, ReportOfJobs]: ...


def list_report_tables(reports: ReportsOfRun) -> list[str]:
    """Return the tables that these reports make in a dataset."""
    tables = [f"{name}.{table}" for name, tables in reports.tables.items() for table in tables]
    return [*tables, FIGURES.name, NOTICES.name] if reports.tables else []


def make_report_tables(files: RunFiles, reports: Mapping[str, ReportOfJobs]) -> dict[str, pa.Table]:
    """Return the tables of reports by their names in the dataset."""
    tables: dict[str, list[pa.Table]] = {}
    figures: list[tuple[Any, ...]] = []
    notices: list[tuple[Any, ...]] = []
    for name, report in reports.items():
        for job, of_job in report.runs.items():
            label = job if len(report.runs) > 1 else None
            for table, rows in of_job.tables.items():
                tables.setdefault(f"{name}.{table}", []).append(_prepare(files, label, rows))
            for figure in of_job.scalars.values():
                text = figure.value if isinstance(figure.value, str) else None
                double = figure.value if isinstance(figure.value, float) else None
                integer = int(figure.value) if isinstance(figure.value, int) else None
                about = figure.unit, figure.reason
                figures.append((label, name, figure.name, integer, double, text, *about))
            notices += [(label, name, notice.severity, notice.text) for notice in of_job.notices]
    united = {name: drop_unused_texts(pa.concat_tables(parts).unify_dictionaries()) for name, parts in tables.items()}
    for schema, rows in ((FIGURES, figures), (NOTICES, notices)):
        columns = zip(*rows, strict=True) if rows else ((),) * (len(schema.columns) - 1)
        arrays = [pa.array(values, column.type) for values, column in zip(columns, schema.columns[1:], strict=True)]
        united[schema.name] = pa.Table.from_arrays([repeat_text(files.run, len(rows)), *arrays], schema=schema.arrow())
    return united


def make_report_schema(table: TableSchema, flat: bool) -> pa.Schema:
    """Return the schema of a table of a report in a dataset."""
    columns = [column.field() for column in table.columns if column.name not in (RUN.name, _JOB.name)]
    schema = pa.schema([RUN.field(), _JOB.field(), *columns])
    return flatten_schema(schema) if flat else schema


def _prepare(files: RunFiles, job: str | None, rows: pa.Table) -> pa.Table:
    rows = rows.drop_columns([name for name in (RUN.name, _JOB.name) if name in rows.column_names])
    rows = drop_unused_texts(flatten_table(rows) if files.flat else rows)
    jobs = pa.nulls(len(rows), TEXT) if job is None else repeat_text(job, len(rows))
    fields = [RUN.field(), _JOB.field(), *rows.schema]
    return pa.Table.from_arrays([repeat_text(files.run, len(rows)), jobs, *rows.columns], schema=pa.schema(fields))
