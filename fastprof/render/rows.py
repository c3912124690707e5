"""Tables and streams of batches in one form: a schema, then blocks of rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

Data: TypeAlias = pa.Table | Iterable[pa.RecordBatch]

BLOCK_ROWS = 4_096
"""Rows per block of text: names can be kilobytes long, and a block must stay small in memory."""
BLOCK_BYTES = 64 << 20
"""Most bytes of strings in a block of several rows."""
ANY_BYTES = 2**63 - 1


def split_rows(
    data: Data, rows: int = BLOCK_ROWS, most_bytes: int = BLOCK_BYTES
) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    """Return the schema of ``data``, and its rows in blocks of at most ``rows``, fewer if strings might exceed
    ``most_bytes``.

    The schema of a stream is that of its first batch. A stream must yield at least one batch, which may be empty, else
    ValueError.
    """
    if isinstance(data, pa.Table):
        return data.schema, iter(data.to_batches(max_chunksize=_count_fitting(data, rows, most_bytes)))
    batches: Iterator[pa.RecordBatch] = iter(data)
    first = next(batches, None)
    if first is None:
        raise ValueError("a stream without batches has no schema; it must yield at least one empty batch")
    return first.schema, _slice_batches(first, batches, rows, most_bytes)


def _slice_batches(
    first: pa.RecordBatch, rest: Iterator[pa.RecordBatch], rows: int, most_bytes: int
) -> Iterator[pa.RecordBatch]:
    batch: pa.RecordBatch | None = first
    try:
        while batch is not None:
            size = _count_fitting(batch, rows, most_bytes)
            for start in range(0, batch.num_rows, size):
                yield batch.slice(start, size)
            batch = next(rest, None)
    finally:
        close = getattr(rest, "close", None)  # a partly read generator releases its threads and files
        if close is not None:
            close()


def _count_fitting(data: pa.Table | pa.RecordBatch, rows: int, most_bytes: int) -> int:
    """Return the number of rows that certainly stay below ``most_bytes``, even if each has the longest strings."""
    longest = sum(_measure_longest(column) for column in data.columns)
    return max(1, min(rows, most_bytes // (longest + 1)))


def _measure_longest(column: pa.Array | pa.ChunkedArray) -> int:
    """Return the bytes of the longest string of a column or of its dictionary; 0 if it is not a string column."""
    if isinstance(column, pa.ChunkedArray):
        return max(map(_measure_longest, column.chunks), default=0)
    if isinstance(column, pa.DictionaryArray):
        column = column.dictionary
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)) or not len(column):
        return 0
    ends = np.frombuffer(column.buffers()[1], np.int64 if pa.types.is_large_string(column.type) else np.int32)
    return int(np.diff(ends[column.offset : column.offset + len(column) + 1]).max())


def list_rows(data: pa.Table | pa.RecordBatch) -> list[tuple[Any, ...]]:
    """Return the rows as tuples of Python values; times of the calendar as texts, because datetime has no
    nanoseconds."""
    columns = (column.cast(pa.string()) if pa.types.is_timestamp(column.type) else column for column in data.columns)
    return list(zip(*(column.to_pylist() for column in columns), strict=True))


def number_names(schema: pa.Schema) -> list[str]:
    """Return the column names, with numbers for repeated ones: a stat may have the name of a column."""
    taken = set(schema.names)
    seen: set[str] = set()
    names = []
    for name in schema.names:
        unique, number = name, 2
        while unique in seen or (unique != name and unique in taken):
            unique, number = f"{name}_{number}", number + 1
        seen.add(unique)
        names.append(unique)
    return names
