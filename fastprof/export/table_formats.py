"""Runs in tables of Delta or Iceberg, by the libraries of these formats: a run is replaced in one transaction a table.

A run is first written as a dataset in a temporary folder, so that memory stays bounded whatever the library holds.

Other engines get statements that define the tables of a dataset: text only, from the schemas of the tables.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from fastprof.errors import OutputError, UsageError
from fastprof.export.dataset import RUNS
from fastprof.export.new_files import make_temporary_folder
from fastprof.export.run_manifests import encode_document, name_manifest

_RUN: Final = "fastprof.run"
"""Property of a snapshot: the run that it adds."""


class TableFormat(Protocol):
    """Tables of one place."""

    def read_runs(self) -> list[dict[str, Any]]:
        """Return run, path and content of the runs that are there."""

    def replace_run(self, table: str, run: str, schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> None:
        """Put the rows of a run in place of those that the table has of it."""


class DeltaTables:
    """Delta tables below a URL or folder, one each, partitioned by run."""

    def __init__(self, url: str) -> None:
        self._url = url.rstrip("/")
        self._delta: Any = _import_library("deltalake", "delta")

    def read_runs(self) -> list[dict[str, Any]]:
        place = f"{self._url}/{RUNS.name}"
        if not self._delta.DeltaTable.is_deltatable(place):
            return []
        rows: pa.Table = self._delta.DeltaTable(place).to_pyarrow_table(columns=["run", "path", "content"])
        return list(rows.to_pylist())

    def replace_run(self, table: str, run: str, schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> None:
        place = f"{self._url}/{table}"
        there = self._delta.DeltaTable.is_deltatable(place)
        quoted = run.replace("'", "''")
        how = {"mode": "overwrite", "predicate": f"run = '{quoted}'", "schema_mode": "merge"} if there else {}
        self._delta.write_deltalake(
            place,
            pa.RecordBatchReader.from_batches(schema, batches),
            partition_by=["run"],
            commit_properties=self._delta.CommitProperties(custom_metadata={_RUN: run}),
            **how,
        )


class IcebergTables:
    """Iceberg tables of a namespace, partitioned by run; tables of reports have _ instead of a dot."""

    def __init__(self, name: str) -> None:
        catalog, dot, self._namespace = name.partition(".")
        if not (catalog and dot and self._namespace):
            raise UsageError(f"{name!r} is not an Iceberg namespace; write iceberg:CATALOG.NAMESPACE")
        self._iceberg: Any = _import_library("pyiceberg.expressions", "iceberg")
        self._catalog: Any = _import_library("pyiceberg.catalog", "iceberg").load_catalog(catalog)
        self._catalog.create_namespace_if_not_exists(self._namespace)

    def read_runs(self) -> list[dict[str, Any]]:
        name = (*self._namespace.split("."), RUNS.name)
        if not self._catalog.table_exists(name):
            return []
        rows: pa.Table = self._catalog.load_table(name).scan(selected_fields=("run", "path", "content")).to_arrow()
        return list(rows.to_pylist())

    def replace_run(self, table: str, run: str, schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> None:
        name = (*self._namespace.split("."), table.replace(".", "_"))
        if not self._catalog.table_exists(name):
            with self._catalog.create_table(name, schema).update_spec() as spec:
                spec.add_identity("run")
        there = self._catalog.load_table(name)
        with there.transaction() as change:
            with change.update_schema() as update:
                update.union_by_name(schema)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # there may be nothing to delete
                change.delete(self._iceberg.EqualTo("run", run), snapshot_properties={_RUN: run})
            for batch in batches:
                change.append(pa.Table.from_batches([batch], schema), snapshot_properties={_RUN: run})


_FORMATS: Final[dict[str, Callable[[str], TableFormat]]] = {"delta": DeltaTables, "iceberg": IcebergTables}


def write_to_tables(target: str, write: Callable[[Path], Sequence[str]]) -> None:
    """Put runs into the tables of ``target``, delta:URL or iceberg:CATALOG.NAMESPACE. ``write``: adds the runs to a
    dataset, and returns their ids. A run of the same name and place is replaced. UsageError: no such format, or its
    library is not installed. OutputError: the library refuses."""
    form, colon, place = target.partition(":")
    if form not in _FORMATS or not colon or not place:
        raise UsageError(f"--to takes delta:URL or iceberg:CATALOG.NAMESPACE, not {target!r}")
    with make_temporary_folder("fastprof-export") as folder:
        try:
            tables = _FORMATS[form](place)
            for known in tables.read_runs():  # so that ids of runs are those of a dataset that has them
                manifest = folder / name_manifest(known["run"])
                manifest.parent.mkdir(parents=True, exist_ok=True)
                manifest.write_bytes(encode_document(known | {"settings": None, "files": []}))
            for run in write(folder):
                _put_run(tables, folder, run)
        except (UsageError, OutputError):
            raise
        except Exception as error:  # whatever the libraries raise
            raise OutputError(f"{type(error).__name__}: {error}", path=target) from error


def _put_run(tables: TableFormat, folder: Path, run: str) -> None:
    """Put the tables of a run of a dataset; ``runs`` comes last."""
    files: dict[str, list[str]] = {}
    for file in json.loads((folder / name_manifest(run)).read_bytes())["files"]:
        files.setdefault(file["table"], []).append(file["name"])
    for table in sorted(files, key=lambda name: (name == RUNS.name, name)):
        schema = make_plain_schema(pq.read_schema(folder / files[table][0]))
        tables.replace_run(table, run, schema, _read_batches(folder, files[table], schema))


def _read_batches(folder: Path, names: Sequence[str], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield a batch a row group; an empty one if there are no rows."""
    for name in names:
        with pq.ParquetFile(folder / name) as file:
            for number in range(file.num_row_groups):
                rows = file.read_row_group(number).cast(schema, safe=False).combine_chunks()  # times lose nanoseconds
                yield from rows.to_batches()


def make_plain_schema(schema: pa.Schema) -> pa.Schema:
    """Return the schema as table formats know it: no dictionaries, times in microseconds, no metadata."""
    return pa.schema([pa.field(field.name, _make_plain_type(field.type), True) for field in schema])


def _make_plain_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_dictionary(kind):
        return kind.value_type
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", kind.tz)
    if pa.types.is_map(kind):
        return pa.map_(_make_plain_type(kind.key_type), _make_plain_type(kind.item_type))
    if pa.types.is_list(kind):
        return pa.list_(_make_plain_type(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, _make_plain_type(field.type), True) for field in kind])
    return kind


def _import_library(name: str, extra: str) -> Any:
    import importlib

    try:
        return importlib.import_module(name)
    except ImportError as error:
        text = f"{extra.capitalize()} tables need {name.partition('.')[0]}: pip install 'fastprof-arrow[{extra}]'"
        raise UsageError(text) from error


_BIGQUERY: Final = {"int": "INT64", "double": "FLOAT64", "bool": "BOOL", "string": "STRING", "binary": "BYTES"}
_SNOWFLAKE: Final = {"int": "BIGINT", "double": "DOUBLE", "bool": "BOOLEAN", "string": "VARCHAR", "binary": "BINARY"}
_HIVE: Final = {"int": "BIGINT", "double": "DOUBLE", "bool": "BOOLEAN", "string": "STRING", "binary": "BINARY"}
_EVENTS_AT: Final = (
    "SELECT events.*, {time} AS start_time FROM events "
    "JOIN hosts ON events.run = hosts.run AND events.host = hosts.host"
)
_TIMES: Final = {
    "bigquery": "TIMESTAMP_MICROS(DIV(hosts.start_unix_ns, 1000) + DIV(events.start_ps, 1000000))",
    "snowflake": "TO_TIMESTAMP_NTZ(hosts.start_unix_ns + FLOOR(events.start_ps / 1000), 9)",
    "athena": "from_unixtime_nanos(hosts.start_unix_ns + events.start_ps / 1000)",
    "spark": "timestamp_micros(hosts.start_unix_ns DIV 1000 + events.start_ps DIV 1000000)",
    "duckdb": "make_timestamp_ns(hosts.start_unix_ns + events.start_ps // 1000)",
}
"""When an event began, as calendar time."""


def write_ddl(dialect: str, out: str, schemas: Mapping[str, pa.Schema]) -> Iterator[str]:
    """Yield statements, each with a semicolon. ``out``: URL or path of the dataset; ``schemas``: by table. Tables of
    reports, such as ``op_stats.ops``, are called ``op_stats_ops``."""
    out = out.rstrip("/").replace("'", "''")
    if dialect == "snowflake":
        yield f"CREATE STAGE IF NOT EXISTS fastprof URL = '{out}/';"
    for table, schema in schemas.items():
        yield _DEFINE[dialect](table.replace(".", "_"), f"{out}/{table}", schema)
    if {"events", "hosts"} <= {*schemas}:
        yield f"CREATE OR REPLACE VIEW events_at AS {_EVENTS_AT.format(time=_TIMES[dialect])};"
    if dialect == "bigquery" and "events" in schemas:
        select = "SELECT * FROM events"
        yield f"CREATE OR REPLACE TABLE events_clustered CLUSTER BY run, host, name AS {select};"


def _define_bigquery(table: str, place: str, schema: pa.Schema) -> str:
    columns = _list_columns(schema, lambda field: f"`{field.name}` {_name_bigquery_type(field.type)}")
    options = f"format = 'PARQUET', uris = ['{place}/*'], enable_list_inference = TRUE"
    return f"CREATE OR REPLACE EXTERNAL TABLE `{table}` (\n{columns}\n)\nOPTIONS ({options});"


def _define_snowflake(table: str, place: str, schema: pa.Schema) -> str:
    def column(field: pa.Field) -> str:
        kind = "TIMESTAMP_NTZ" if pa.types.is_timestamp(field.type) else _find_plain_type(field.type, _SNOWFLAKE)
        if pa.types.is_nested(field.type):
            kind = "OBJECT" if pa.types.is_map(field.type) else "ARRAY"
        return f'"{field.name}" {kind} AS (value:"{field.name}"::{kind})'

    columns = _list_columns(schema, column)
    folder = place.rpartition("/")[2]
    return (
        f'CREATE OR REPLACE EXTERNAL TABLE "{table}" (\n{columns}\n)\nLOCATION = @fastprof/{folder}/\n'
        "AUTO_REFRESH = FALSE\nPATTERN = '.*[.]parquet'\nFILE_FORMAT = (TYPE = PARQUET);"
    )


def _define_athena(table: str, place: str, schema: pa.Schema) -> str:
    columns = _list_columns(schema, lambda field: f"`{field.name}` {_name_hive_type(field.type)}")
    return f"CREATE EXTERNAL TABLE IF NOT EXISTS `{table}` (\n{columns}\n)\nSTORED AS PARQUET\nLOCATION '{place}/';"


def _define_spark(table: str, place: str, schema: pa.Schema) -> str:
    columns = _list_columns(schema, lambda field: f"`{field.name}` {_name_hive_type(field.type)}")
    options = f"OPTIONS (path '{place}', recursiveFileLookup 'true')"
    return f"CREATE TABLE IF NOT EXISTS `{table}` (\n{columns}\n)\nUSING PARQUET\n{options};"


def _define_duckdb(table: str, place: str, schema: pa.Schema) -> str:  # noqa: ARG001
    files = f"read_parquet('{place}/*/*.parquet', union_by_name = true, hive_partitioning = false)"
    return f'CREATE OR REPLACE VIEW "{table}" AS SELECT * FROM {files};'


_DEFINE: Final[Mapping[str, Callable[[str, str, pa.Schema], str]]] = {
    "bigquery": _define_bigquery,
    "snowflake": _define_snowflake,
    "athena": _define_athena,
    "spark": _define_spark,
    "duckdb": _define_duckdb,
}


def _list_columns(schema: pa.Schema, define: Callable[[pa.Field], str]) -> str:
    return ",\n".join(f"  {define(field)}" for field in schema)


def _find_plain_type(kind: pa.DataType, names: Mapping[str, str]) -> str:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_integer(kind):
        return names["int"]
    if pa.types.is_floating(kind):
        return names["double"]
    if pa.types.is_boolean(kind):
        return names["bool"]
    if pa.types.is_timestamp(kind):
        return "TIMESTAMP"
    return names["binary"] if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) else names["string"]


def _name_bigquery_type(kind: pa.DataType) -> str:
    if pa.types.is_map(kind):
        key, item = _name_bigquery_type(kind.key_type), _name_bigquery_type(kind.item_type)
        return f"ARRAY<STRUCT<key {key}, value {item}>>"
    if pa.types.is_list(kind):
        return f"ARRAY<{_name_bigquery_type(kind.value_type)}>"
    if pa.types.is_struct(kind):
        return f"STRUCT<{', '.join(f'`{field.name}` {_name_bigquery_type(field.type)}' for field in kind)}>"
    return _find_plain_type(kind, _BIGQUERY)


def _name_hive_type(kind: pa.DataType) -> str:
    """Return the type of Athena and Spark. Integers of 32 bits are INT, as in the files: these engines do not widen
    them."""
    if pa.types.is_map(kind):
        return f"MAP<{_name_hive_type(kind.key_type)}, {_name_hive_type(kind.item_type)}>"
    if pa.types.is_list(kind):
        return f"ARRAY<{_name_hive_type(kind.value_type)}>"
    if pa.types.is_struct(kind):
        return f"STRUCT<{', '.join(f'`{field.name}`: {_name_hive_type(field.type)}' for field in kind)}>"
    return "INT" if pa.types.is_int32(kind) else _find_plain_type(kind, _HIVE)
