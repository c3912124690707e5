"""Tables in Spark: ``spark.dataSource.register(FastprofSource)``, then ``spark.read.format("fastprof").load(path)``.

A partition is a file, or a plane of one. Spark 4 shares what it pushes into a Python source between the queries of a
DataFrame, and then counts wrong: so nothing is pushed, and options narrow what is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa
from pyspark.errors import PySparkValueError
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from fastprof.engines.rows_of_files import FileRows, host_rows
from fastprof.errors import FastprofError, UsageError

_ON_ERROR = {"FAILFAST": "raise", "PERMISSIVE": "skip"}
_ROWS = 100_000
"""Most rows of a batch, so that its texts stay below the 2 GiB of Spark's strings."""


class FastprofSource(DataSource):  # type: ignore[misc]
    """Options: ``table`` (default: events), ``columns`` and ``hosts`` as A,B, ``run`` (default: the newest), ``mode``:
    FAILFAST, the default, raises at a damaged file, PERMISSIVE leaves it out. ``split``: "plane" makes a partition of
    each plane of ``events`` and ``event_stats``, which are then opened to see their planes; default: "file"."""

    @classmethod
    def name(cls) -> str:
        return "fastprof"

    def schema(self) -> StructType:
        return from_arrow_schema(_make_spark_schema(self._rows()[0].schema))

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002
        return _Reader(self._split(self._rows()))

    def _split(self, rows: Sequence[FileRows]) -> Sequence[FileRows]:
        split = self.options.get("split", "file").lower()
        try:
            if split not in ("file", "plane"):
                raise UsageError(f"split is file or plane, not {split}")
            return rows if split == "file" else [part for row in rows for part in row.by_plane()]
        except FastprofError as error:
            raise PySparkValueError(str(error)) from None

    def _rows(self) -> Sequence[FileRows]:
        options: Mapping[str, str] = self.options
        mode = options.get("mode", "FAILFAST").upper()
        try:
            if mode not in _ON_ERROR:
                raise UsageError(f"mode is FAILFAST or PERMISSIVE, not {mode}")
            return host_rows(
                options["path"],
                options.get("table", "events"),
                columns=_split_option(options, "columns"),
                run=options.get("run"),
                hosts=_split_option(options, "hosts"),
                on_error=_ON_ERROR[mode],
            )
        except FastprofError as error:
            raise PySparkValueError(str(error)) from None


class _Reader(DataSourceReader):  # type: ignore[misc]
    def __init__(self, rows: Sequence[FileRows]) -> None:
        self._rows = rows

    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(row) for row in self._rows]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        rows: FileRows = partition.value
        schema = _make_spark_schema(rows.schema)
        for batch in rows.batches():
            yield from pa.Table.from_batches([batch]).cast(schema).to_batches(max_chunksize=_ROWS)


def _split_option(options: Mapping[str, str], name: str) -> list[str] | None:
    return options[name].split(",") if name in options else None


def _make_spark_schema(schema: pa.Schema) -> pa.Schema:
    """Spark's strings and bytes have lengths of 32 bits."""
    short = {pa.large_string(): pa.string(), pa.large_binary(): pa.binary()}
    return pa.schema([pa.field(field.name, short.get(field.type, field.type)) for field in schema])
