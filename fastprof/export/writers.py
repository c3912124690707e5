"""One file of one table: Parquet, Arrow IPC or CSV."""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from fastprof.schema.tables import decode_dictionaries
from fastprof.wording.cells import escape_formulas, is_text
from fastprof.wording.json_values import format_json

TIMES = ("event_id", "start_ps", "duration_ps", "self_time_ps", "parent_id", "metadata_id", "int_value")
ZSTD_LEVEL = 1


class Writer(Protocol):
    suffix: str

    def __init__(self, path: Path, schema: pa.Schema) -> None: ...

    def write(self, table: pa.Table) -> None: ...

    def close(self) -> None: ...


class CountedSink:
    """A file for pyarrow that passes bytes on and counts them."""

    closed = False

    def __init__(self, write: Callable[[Any], Any]) -> None:
        self._write = write
        self.size = 0

    def write(self, data: Any) -> int:
        size = memoryview(data).nbytes
        self._write(data)
        self.size += size
        return size

    def tell(self) -> int:
        return self.size

    def flush(self) -> None: ...

    def close(self) -> None: ...


class ParquetWriter:
    """zstd; text as dictionaries of any size, times and ids as differences; one row group a call of write."""

    suffix = "parquet"

    def __init__(self, path: Path | pa.NativeFile, schema: pa.Schema, sorted_by: Sequence[str] = ()) -> None:
        """``sorted_by``: columns by which the rows of each row group are sorted, ascending, nulls last."""
        texts = [f.name for f in schema if pa.types.is_dictionary(f.type) or pa.types.is_string(f.type)]
        times = {
            field.name: "DELTA_BINARY_PACKED"
            for field in schema
            if field.name in TIMES and pa.types.is_integer(field.type)
        }
        self._writer = pq.ParquetWriter(
            path,
            schema,
            compression="zstd",
            compression_level=ZSTD_LEVEL,
            use_dictionary=texts,
            column_encoding=times,
            dictionary_pagesize_limit=1 << 30,
            write_page_index=True,
            write_batch_size=1 << 16,
            sorting_columns=[pq.SortingColumn(schema.get_field_index(name)) for name in sorted_by] or None,
        )

    def write(self, table: pa.Table) -> None:
        self._writer.write_table(table, row_group_size=max(table.num_rows, 1))

    def close(self) -> None:
        self._writer.close()


class ArrowWriter:
    """An Arrow IPC file, zstd; dictionaries may grow from batch to batch, so they are written as plain text."""

    suffix = "arrow"

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self._schema = decode_dictionaries(schema)
        options = pa.ipc.IpcWriteOptions(compression="zstd")
        self._writer = pa.ipc.new_file(str(path), self._schema, options=options)

    def write(self, table: pa.Table) -> None:
        self._writer.write_table(table.cast(self._schema))

    def close(self) -> None:
        self._writer.close()


class CsvWriter:
    """CSV with a header; lists and maps as JSON, bytes as base64, nulls empty, texts as ``wording/cells.py``
    marks them."""

    suffix = "csv"

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self._schema = pa.schema(
            [pa.field(f.name, _get_csv_type(f.type), f.nullable) for f in decode_dictionaries(schema)]
        )
        self._writer = pa.csv.CSVWriter(str(path), self._schema)

    def write(self, table: pa.Table) -> None:
        columns = [_make_csv_column(column) for column in table.columns]
        self._writer.write_table(pa.table(columns, schema=self._schema))

    def close(self) -> None:
        self._writer.close()


def _get_csv_type(kind: pa.DataType) -> pa.DataType:
    return pa.string() if pa.types.is_nested(kind) or pa.types.is_large_binary(kind) else kind


def _make_csv_column(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if pa.types.is_dictionary(column.type):
        # Each text of the dictionary is escaped once.
        return pa.chunked_array(
            [escape_formulas(chunk.dictionary.cast(pa.large_string())).take(chunk.indices) for chunk in column.chunks],
            pa.large_string(),
        )
    if is_text(column.type):
        return escape_formulas(column)
    if pa.types.is_large_binary(column.type):
        encoded = [None if value is None else base64.b64encode(value).decode() for value in column.to_pylist()]
        return escape_formulas(pa.chunked_array([pa.array(encoded, pa.string())]))
    if pa.types.is_nested(column.type):
        return format_nested(column)
    return column


def format_nested(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return lists and maps as JSON."""

    def format_cell(value: Any) -> str | None:
        if value is None:
            return None
        return format_json(value, pairs=bool(value) and isinstance(value, list) and isinstance(value[0], tuple))

    return pa.chunked_array([pa.array([format_cell(value) for value in column.to_pylist()], pa.string())])


WRITERS: dict[str, type[Writer]] = {"parquet": ParquetWriter, "arrow": ArrowWriter, "csv": CsvWriter}
