"""Tables and streams of batches seen alike: a schema, then blocks of few enough rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeAlias

import pyarrow as pa

Data: TypeAlias = pa.Table | Iterable[pa.RecordBatch]

BLOCK_ROWS = 4_096
"""Rows turned into text at a time: names can be kilobytes long, and one text must stay small in memory."""


def blocks(data: Data, rows: int = BLOCK_ROWS) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    """The schema of ``data`` and its rows, at most ``rows`` at a time.

    The schema of a stream is that of its first batch, so a stream must yield at least one, which may
    be empty; else ValueError.
    """
    if isinstance(data, pa.Table):
        return data.schema, iter(data.to_batches(max_chunksize=rows))
    batches: Iterator[pa.RecordBatch] = iter(data)
    first = next(batches, None)
    if first is None:
        raise ValueError("a stream of no batches has no schema; it must yield one empty batch at least")
    return first.schema, _sliced(first, batches, rows)


def _sliced(first: pa.RecordBatch, rest: Iterator[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    batch: pa.RecordBatch | None = first
    try:
        while batch is not None:
            for start in range(0, batch.num_rows, rows):
                yield batch.slice(start, rows)
            batch = next(rest, None)
    finally:
        close = getattr(rest, "close", None)  # a generator left half read lets go of its threads and files
        if close is not None:
            close()


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
