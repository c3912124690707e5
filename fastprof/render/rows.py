"""Tables and streams of batches seen alike: a schema, then blocks of few enough rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

Data: TypeAlias = pa.Table | Iterable[pa.RecordBatch]

BLOCK_ROWS = 4_096
"""Rows turned into text at a time: names can be kilobytes long, and one text must stay small in memory."""
BLOCK_BYTES = 64 << 20
"""What the texts of a block may come to, but for those of a single row."""
ANY_BYTES = 2**63 - 1


def blocks(
    data: Data, rows: int = BLOCK_ROWS, most_bytes: int = BLOCK_BYTES
) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    """The schema of ``data`` and its rows, at most ``rows`` at a time, fewer where their texts might come to more than
    ``most_bytes``.

    The schema of a stream is that of its first batch, so a stream must yield at least one, which may
    be empty; else ValueError.
    """
    if isinstance(data, pa.Table):
        return data.schema, iter(data.to_batches(max_chunksize=_that_fit(data, rows, most_bytes)))
    batches: Iterator[pa.RecordBatch] = iter(data)
    first = next(batches, None)
    if first is None:
        raise ValueError("a stream of no batches has no schema; it must yield one empty batch at least")
    return first.schema, _sliced(first, batches, rows, most_bytes)


def _sliced(
    first: pa.RecordBatch, rest: Iterator[pa.RecordBatch], rows: int, most_bytes: int
) -> Iterator[pa.RecordBatch]:
    batch: pa.RecordBatch | None = first
    try:
        while batch is not None:
            size = _that_fit(batch, rows, most_bytes)
            for start in range(0, batch.num_rows, size):
                yield batch.slice(start, size)
            batch = next(rest, None)
    finally:
        close = getattr(rest, "close", None)  # a generator left half read lets go of its threads and files
        if close is not None:
            close()


def _that_fit(data: pa.Table | pa.RecordBatch, rows: int, most_bytes: int) -> int:
    """How many rows surely stay below so many bytes: every row might have the longest text of each column."""
    longest = sum(_longest(column) for column in data.columns)
    return max(1, min(rows, most_bytes // (longest + 1)))


def _longest(column: pa.Array | pa.ChunkedArray) -> int:
    """Bytes of the longest text of a column, also one of its dictionary that no row has; 0: it holds no texts."""
    if isinstance(column, pa.ChunkedArray):
        return max(map(_longest, column.chunks), default=0)
    if isinstance(column, pa.DictionaryArray):
        column = column.dictionary
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        return 0
    return pc.max(pc.binary_length(column)).as_py() or 0


def unique_names(schema: pa.Schema) -> list[str]:
    """The column names, repeated ones numbered: a stat may be called as a column is."""
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
