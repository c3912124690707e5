"""Columns of different lengths in one file, which is mapped: what is derived of a host, kept for next time."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fastprof.viewer.sealed_file import content_size

Column = npt.NDArray[Any] | list[str]

FORMAT = b"1"
_FORMAT_KEY = b"fastprof.facts"


def write_facts(path: Path, columns: Mapping[str, Column]) -> None:
    """Numbers as NumPy columns, texts as lists. The file is an Arrow IPC file of one row of lists."""
    arrays = {name: _as_row(column) for name, column in columns.items()}
    schema = pa.schema([(name, array.type) for name, array in arrays.items()], {_FORMAT_KEY: FORMAT})
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
        writer.write_batch(pa.RecordBatch.from_arrays(list(arrays.values()), schema=schema))


def _as_row(column: Column) -> pa.Array:
    if isinstance(column, list):
        values = pa.array([text.encode("utf-8", "replace") for text in column], pa.large_binary())
        values = values.cast(pa.large_string())
    else:
        values = pa.array(column)
    return pa.LargeListArray.from_arrays(pa.array([0, len(values)], pa.int64()), values)


class FactFile:
    """The columns of a file. ValueError where it is none, or one of another version."""

    def __init__(self, path: Path) -> None:
        try:
            file = pa.memory_map(str(path))
            reader = pa.ipc.open_file(pa.BufferReader(file.read_buffer(content_size(path))))
            if (reader.schema.metadata or {}).get(_FORMAT_KEY) != FORMAT:
                raise ValueError("facts of another version")
            batch = reader.get_batch(0)
        except pa.ArrowException as error:
            raise ValueError(f"no facts: {error}") from None
        self._columns = {name: batch.column(i).flatten() for i, name in enumerate(batch.schema.names)}

    def numbers(self, name: str) -> npt.NDArray[Any]:
        found: npt.NDArray[Any] = np.asarray(self._columns[name])
        return found

    def texts(self, name: str) -> list[str]:
        found: list[str] = self._columns[name].to_pylist()
        return found

    def column(self, name: str) -> pa.Array:
        return self._columns[name]
