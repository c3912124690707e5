"""A dataset that runs are added to: Parquet files that every engine reads, a manifest a run, written last.

    OUT/_fastprof/format.json, OUT/_fastprof/runs/RUN_ID.json
    OUT/TABLE/run=RUN_ID/…                 files as of ``dataset_files``
    OUT/runs/run=RUN_ID/part-0.parquet     the run itself

Files follow from the captures and the settings alone: adding a run again, or after a writer was killed, gives the same
bytes under the same names.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from itertools import takewhile
from typing import TYPE_CHECKING, Any, Final, Protocol

import pyarrow as pa

from fastprof._version import __version__
from fastprof.decode.workers import Progress
from fastprof.export.dataset_files import (
    BY_HOSTS,
    START_TIME,
    HostFacts,
    ReportsOfRun,
    RunFiles,
    SmallTables,
    TableWriter,
    WrittenFile,
    group_hosts,
    list_report_tables,
    make_report_tables,
    repeat_text,
)
from fastprof.export.destinations import open_destination
from fastprof.export.hive import check_any_hosts, find_log_owners
from fastprof.export.run_here import RunHere
from fastprof.export.run_manifests import RunContent, RunWriter, check_format, digest_values
from fastprof.schema.capture_tables import RUN, Nanoseconds
from fastprof.schema.tables import TEXT, VERSION, Bytes, Count, String, TableSchema
from fastprof.schema.value_classes import dataclass
from fastprof.tables.table_set import TABLES, TableSet

if TYPE_CHECKING:
    from fastprof.decode.import_log import ImportLog
    from fastprof.export.by_workers import RunOfWorkers
    from fastprof.tables.tables_of_runs import TablesOfRuns

RUNS: Final = TableSchema("runs", "a run of the dataset", (
    RUN,
    String("name", "name of the run when it was captured"),
    String("path", "folder that the captures were read from"),
    START_TIME,
    Nanoseconds("start_unix_ns", "start of profiling, Unix time; null: not recorded"),
    Count("hosts", "number of hosts"),
    Bytes("size_bytes", "size of the captures, decompressed"),
    String("content", "digest of the captures"),
    String("fastprof_version", "version of fastprof that wrote the files"),
    String("schema_version", "version of the schemas of the tables"),
))  # fmt: skip


class Exportable(Protocol):
    """A run to export: a Profile of one run."""

    @property
    def exported(self) -> TableSet | TablesOfRuns: ...
    @property
    def by_workers(self) -> Sequence[RunOfWorkers]: ...
    def exported_reports(self, names: Sequence[str]) -> ReportsOfRun: ...


class HostsOfRun(Protocol):
    """The hosts of a run, read here or by workers."""

    @property
    def name(self) -> str | None: ...
    @property
    def selected(self) -> str:
        """The selection of events, as text."""

    @property
    def log(self) -> ImportLog: ...
    def describe(self, recorded: bool) -> list[HostFacts]: ...
    def recorded(self) -> list[str]: ...
    def write(
        self, files: RunFiles, groups: Sequence[Sequence[HostFacts]], chosen: Sequence[str], small: SmallTables
    ) -> list[WrittenFile]: ...
    def read_log(self) -> pa.Table: ...


@dataclass(frozen=True, slots=True)
class AddedRun:
    """``is_new``: whether files were written; else the run was there."""

    run: str
    is_new: bool


def add_run(
    profile: Exportable,
    out: str | os.PathLike[str],
    *,
    tables: Sequence[str] | None = None,
    reports: Sequence[str] = (),
    replace: bool = False,
    flat: bool = False,
    progress: Progress | None = None,
) -> AddedRun:
    """Add a run to the dataset ``out``. UsageError: no host is selected. OutputError: ``out`` is not a dataset, is of a
    newer version, or has the run with other content or settings, unless ``replace``."""
    hosts_of_run = open_hosts_of_run(profile, progress)
    facts = hosts_of_run.describe(tables is None)
    check_any_hosts(len(facts))
    destination = open_destination(out)
    check_format(destination)
    names = hosts_of_run.recorded() if tables is None else tables
    chosen = [name for name in TABLES if name in names]
    of_run = profile.exported_reports(reports)
    settings = {"tables": chosen, "reports": [*of_run.tables], "selected": hosts_of_run.selected, "flat": flat}
    values = sorted([host.host, host.size_bytes, host.digest] for host in facts)
    content = RunContent(
        hosts_of_run.name or facts[0].host, find_path([host.path for host in facts]), digest_values(values), settings
    )
    writer = RunWriter(destination, content, [*chosen, *list_report_tables(of_run), RUNS.name], replace)
    if writer.files is None:
        return AddedRun(writer.run, False)
    files = write_tables(hosts_of_run, writer.files, facts, chosen)
    if of_run.tables:
        for table, rows in make_report_tables(writer.files, of_run.compute()).items():
            files += write_rows(writer.files, table, rows)
    files += write_rows(writer.files, RUNS.name, _make_runs_row(writer, facts))
    faults = [
        {name: getattr(row, name) for name in ("severity", "code", "path", "example", "count")}
        for row in hosts_of_run.log.rows()
        if row.severity in ("error", "data_loss")
    ]
    hosts = [{name: getattr(host, name) for name in HostFacts.__slots__} for host in facts]
    writer.commit(files, {"hosts": hosts, "faults": faults, "pyarrow": pa.__version__})
    return AddedRun(writer.run, True)


def open_hosts_of_run(profile: Exportable, progress: Progress | None) -> HostsOfRun:
    if runs := profile.by_workers:
        from fastprof.export.by_workers import RunByWorkers  # most sessions are read here

        return RunByWorkers(runs[0], progress)
    exported = profile.exported
    assert isinstance(exported, TableSet)
    return RunHere(exported, progress)


def find_path(captures: Sequence[str]) -> str:
    """Return the folder that the captures have in common, as an absolute path or a URL."""
    paths = [path if "://" in path else os.path.realpath(path) for path in captures]
    levels = zip(*(path.split("/")[:-1] for path in paths), strict=False)
    return "/".join(names[0] for names in takewhile(lambda names: len({*names}) == 1, levels)) or "/"


def write_tables(
    hosts_of_run: HostsOfRun, files: RunFiles, facts: Sequence[HostFacts], chosen: Sequence[str]
) -> list[WrittenFile]:
    """Write the tables of the captures."""
    with ExitStack() as stack:
        small = SmallTables(files, [name for name in chosen if name not in BY_HOSTS], stack)
        written = hosts_of_run.write(files, group_hosts(facts), chosen, small)
        if "import_log" in chosen:  # the other tables add to it
            log = hosts_of_run.read_log()
            owners = find_log_owners(log, [(host.path, host.host) for host in facts], [host.host for host in facts])
            small.add({"import_log": files.prepare("import_log", log, owners)}, 0)
        written += small.finish()
    empty = [name for name in BY_HOSTS if name in chosen and name not in {file.table for file in written}]
    with ExitStack() as stack:
        return written + SmallTables(files, empty, stack).finish()


def write_rows(files: RunFiles, table: str, rows: pa.Table) -> list[WrittenFile]:
    """Write a table that is not of hosts."""
    with TableWriter(files, table, "part-") as writer:
        writer.write(rows)
    return writer.written


def _make_runs_row(writer: RunWriter, facts: Sequence[HostFacts]) -> pa.Table:
    start = min((host.start_unix_ns for host in facts if host.start_unix_ns is not None), default=None)
    content = writer.content
    values: Mapping[str, Any] = {
        "run": repeat_text(writer.run, 1),
        "name": content.name,
        "path": content.path,
        "start_time": None if start is None else start // 1000,
        "start_unix_ns": start,
        "hosts": len(facts),
        "size_bytes": sum(host.size_bytes for host in facts),
        "content": content.content,
        "fastprof_version": __version__,
        "schema_version": VERSION,
    }
    arrays = [
        value if isinstance(value, pa.Array) else pa.array([value], column.type)
        for value, column in ((values[column.name], column) for column in RUNS.columns)
    ]
    schema = pa.schema([column.field(TEXT if column.type == TEXT else None) for column in RUNS.columns])
    return pa.Table.from_arrays(arrays, schema=schema)
