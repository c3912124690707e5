"""Runs in tables of Delta or Iceberg, by the libraries of these formats: a run is replaced in one transaction a table.

A run is first written as a dataset in a temporary folder, so that memory stays bounded whatever the library holds.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator, Sequence
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
