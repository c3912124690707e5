"""The tables that SQL queries of a session, or of exported runs, may name.

A table is a Dataset that is opened when DuckDB scans it: captures are decoded, reports computed and files read only for
tables that a query names. Tables of reports are called REPORT.TABLE; each report also has ``figures`` and ``notices``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any, Final, Protocol, TypeAlias

import pyarrow as pa
import pyarrow.dataset as ds

from fastprof.analyses import ANALYSES, runner
from fastprof.errors import FastprofError, UnreadableError
from fastprof.profile.report import Report
from fastprof.profile.table_dataset import TableDataset
from fastprof.schema.capture_tables import RUN
from fastprof.schema.tables import Kind, Number, String, TableSchema, Text, decode_dictionaries
from fastprof.schema.value_classes import dataclass
from fastprof.tables.table_set import TABLES, TableSet
from fastprof.tables.tables_of_runs import TablesOfRuns, stack_tables

_LARGE: Final = ("events", "event_stats", "nesting", "flows")
"""Tables that are decoded as they are scanned, unless they are in memory already."""
FIGURES: Final = TableSchema("figures", "a figure of the report", (
    String("name", "name of the figure"),
    Number("value", "value; null: a text, or unknown"),
    Kind(pa.int64())("int_value", "value, exact; null: not an integer"),
    String("text", "value; null: a number, or unknown"),
    Text("unit", "unit of the value; null: a count or a text"),
    String("definition", "how the figure is computed"),
    String("reason", "why the value is unknown; null: it is known"),
), derived=True)  # fmt: skip
NOTICES: Final = TableSchema("notices", "a sentence of the report", (
    Text("severity", "recommendation, info, warning or error"),
    String("text", "the sentence"),
), derived=True)  # fmt: skip
_TABLES: Final = TableSchema("tables", "a table", (
    String("table", "name of the table"),
    String("row", "meaning of a row; null: unknown"),
    Kind(pa.list_(pa.string()))("columns", "names of its columns"),
), derived=True)  # fmt: skip
_COLUMNS: Final = TableSchema("columns", "a column of a table", (
    String("table", "name of the table"),
    String("column", "name of the column"),
    String("type", "Arrow type"),
    String("unit", "unit of the values; null: none"),
    String("description", "meaning of the column; null: unknown"),
), derived=True)  # fmt: skip

Data: TypeAlias = pa.Table | ds.Dataset


class QueriedProfile(Protocol):
    """Profile as queries need it."""

    @property
    def has_runs(self) -> bool: ...

    @property
    def tables(self) -> Mapping[str, pa.Table]: ...

    @property
    def exported(self) -> TableSet | TablesOfRuns: ...

    @property
    def sources(self) -> list[str]: ...

    @property
    def by_job(self) -> QueriedProfile: ...

    @property
    def threads(self) -> int: ...

    def report(self, name: str, **params: Any) -> Report: ...


@dataclass(frozen=True, slots=True)
class SqlSource:
    """A table that a query may name. ``open_rows`` reads small tables and reports, and opens a Dataset of large ones;
    ``columns`` and ``row`` describe the table without reading it."""

    open_rows: Callable[[], Data]
    columns: pa.Schema
    row: str | None = None


class ScannedTable(ds.InMemoryDataset):  # type: ignore[misc]
    """A Dataset as DuckDB scans it. ``faults``: receives errors, which DuckDB only passes on as texts."""

    def __init__(self, rows: ds.Dataset, faults: list[FastprofError]) -> None:
        super().__init__(rows.schema.empty_table())
        self._rows, self._faults = rows, faults

    def scanner(self, columns: Any = None, filter: ds.Expression | None = None, **how: Any) -> Any:
        scan = self._rows.scanner(columns=columns, filter=filter, **how)
        return scan if isinstance(scan, ds.Scanner) else _WatchedScan(scan, self._faults)


class _WatchedScan:
    """A scanner whose errors are recorded."""

    def __init__(self, scan: Any, faults: list[FastprofError]) -> None:
        self._scan, self._faults = scan, faults
        self.projected_schema = scan.projected_schema
        self.dataset_schema = scan.dataset_schema

    def to_reader(self) -> pa.RecordBatchReader:
        def watch() -> Iterator[pa.RecordBatch]:
            try:
                yield from self._scan.to_batches()
            except FastprofError as error:
                self._faults.append(error)
                raise

        return pa.RecordBatchReader.from_batches(self.projected_schema, watch())


class ProfileTables(Mapping[str, SqlSource]):
    """Tables of a profile for queries, by lower-case name. An analysis is imported when a query names its tables."""

    def __init__(self, profile: QueriedProfile) -> None:
        self._profile = profile
        self._runs = (RUN.field(),) if profile.has_runs else ()

    def __getitem__(self, name: str) -> SqlSource:
        schema = _find_schema(name)
        if schema is None:
            raise KeyError(name)
        read = _open_report_table if "." in name else _open_table
        return SqlSource(partial(read, self._profile, name), _put_first(self._runs, schema.arrow()), schema.row)

    def __iter__(self) -> Iterator[str]:
        yield from TABLES
        for analysis in ANALYSES:
            yield from (f"{analysis}.{table}" for table in _list_report_tables(analysis))

    def __len__(self) -> int:
        return sum(1 for _ in self)


def _put_first(first: tuple[pa.Field, ...], schema: pa.Schema) -> pa.Schema:
    return pa.schema([*(field for field in first if field.name not in schema.names), *schema])


@cache
def _list_report_tables(analysis: str) -> dict[str, TableSchema]:
    own = dict(runner.get_analysis(analysis).TABLES)
    return own | {table.name: table for table in (FIGURES, NOTICES) if table.name not in own}


def _find_schema(name: str) -> TableSchema | None:
    """Return the schema of a table, or None without a table of this name."""
    analysis, dot, table = name.partition(".")
    if not dot:
        return TABLES.get(name)
    return _list_report_tables(analysis).get(table) if analysis in ANALYSES else None


def _open_table(profile: QueriedProfile, name: str) -> Data:
    """Return a table of the captures: in memory if it is small, or is there already."""
    if name in profile.exported.decoded() or name not in _LARGE:
        return profile.tables[name]
    return TableDataset(profile, name)


def _open_report_table(profile: QueriedProfile, name: str) -> pa.Table:
    analysis, _, table = name.partition(".")
    report = profile.report(analysis)
    if table in report.tables:
        return report.tables[table]
    if table == FIGURES.name:
        of_runs = {run: _make_figures(of_run) for run, of_run in report.runs.items()}
    else:
        of_runs = {
            run: pa.Table.from_pylist(
                [{"severity": notice.severity, "text": notice.text} for notice in of_run.notices], NOTICES.arrow()
            )
            for run, of_run in report.runs.items()
        }
    return stack_tables(of_runs) if profile.by_job.has_runs else next(iter(of_runs.values()))


def _make_figures(report: Report) -> pa.Table:
    figures = [
        {
            **{key: getattr(figure, key) for key in ("name", "unit", "definition", "reason")},
            "value": float(figure.value) if isinstance(figure.value, int | float) else None,
            "int_value": int(figure.value) if isinstance(figure.value, int) else None,
            "text": figure.value if isinstance(figure.value, str) else None,
        }
        for figure in report.scalars.values()
    ]
    return pa.Table.from_pylist(figures, FIGURES.arrow())


# ---- exported runs


def is_export(path: str) -> bool:
    """Return whether a path is a directory that ``fastprof export`` wrote as Parquet."""
    folder = Path(path)
    if not folder.is_dir():
        return False
    return (folder / "_fastprof" / "format.json").is_file() or any(
        (folder / table).is_dir() and next((folder / table).rglob("*.parquet"), None) for table in TABLES
    )


class ExportedTables(Mapping[str, SqlSource]):
    """Tables of an exported directory for queries, by lower-case name. A table's files are opened when a query names
    it. UnreadableError: a file cannot be read."""

    def __init__(self, path: str) -> None:
        folders = sorted(folder for folder in Path(path).iterdir() if folder.is_dir() and folder.name[0] not in "_.")
        self._folders = {folder.name.lower(): folder for folder in folders if next(folder.rglob("*.parquet"), None)}

    def __getitem__(self, name: str) -> SqlSource:
        rows = _open_folder(self._folders[name])
        known = _find_schema(name)
        described = {} if known is None else {field.name: field.metadata for field in known.arrow()}
        columns = pa.schema([field.with_metadata(described.get(field.name)) for field in rows.schema])
        return SqlSource(lambda: rows, columns, None if known is None else known.row)

    def __contains__(self, name: object) -> bool:
        return name in self._folders

    def __iter__(self) -> Iterator[str]:
        return iter(self._folders)

    def __len__(self) -> int:
        return len(self._folders)


def _open_folder(folder: Path) -> ds.Dataset:
    """Return the files of a table as one Dataset. Runs may have different columns; texts are plain, because their
    dictionaries differ. Runs and hosts are named in the files, or by folders only."""
    files = sorted(folder.rglob("*.parquet"))
    of_runs = {file.relative_to(folder).parts[0]: file for file in files}
    try:
        schemas = [ds.dataset(file, format="parquet").schema for file in of_runs.values()]
        schema = decode_dictionaries(
            pa.unify_schemas(list(map(decode_dictionaries, schemas)), promote_options="permissive")
        )
        keys = [part.partition("=")[0] for part in files[0].relative_to(folder).parts[:-1]]
        of_folders = pa.schema([(key, pa.string()) for key in keys if key not in schema.names])
        if not len(of_folders):
            return ds.dataset(files, schema, format="parquet")
        return ds.dataset(
            files,
            _put_first(tuple(of_folders), schema),
            format="parquet",
            partitioning=ds.partitioning(of_folders, flavor="hive"),
            partition_base_dir=str(folder),
        )
    except (OSError, pa.ArrowException) as error:
        raise UnreadableError(f"cannot read the exported files: {error}", path=str(folder)) from error


# ---- the list of tables


def list_tables(sources: Mapping[str, SqlSource]) -> pa.Table:
    """Return a row per table."""
    rows = [{"table": name, "row": source.row, "columns": source.columns.names} for name, source in sources.items()]
    return pa.Table.from_pylist(rows, _TABLES.arrow())


def list_columns(sources: Mapping[str, SqlSource]) -> pa.Table:
    """Return a row per column of all tables."""
    rows = [
        {
            "table": name,
            "column": field.name,
            "type": str(field.type.value_type if pa.types.is_dictionary(field.type) else field.type),
            "unit": (field.metadata or {}).get(b"unit"),
            "description": (field.metadata or {}).get(b"description"),
        }
        for name, source in sources.items()
        for field in source.columns
    ]
    return pa.Table.from_pylist(rows, _COLUMNS.arrow())
