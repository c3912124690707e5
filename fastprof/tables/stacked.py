"""Tables of one shape as one table: the rows of one run after those of the other, with the run in front."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from fastprof.decode.text_pools import index_dtype
from fastprof.schema.capture_tables import RUN

_START, _SOURCES = b"session_start_unix_ns", b"sources"


def stacked(parts: Mapping[str, pa.Table]) -> pa.Table:
    """The tables of several runs as one, with a chunk a run: numbers are not copied. Texts become one dictionary, with
    indices as narrow as it allows. A table that has the column ``run`` keeps it where it is."""
    names, tables = list(parts), list(parts.values())
    first = tables[0]
    fields, columns = [], []
    for place, field in enumerate(first.schema):
        typed = _typed([table.column(place) for table in tables])
        columns.append(typed)
        nullable = any(table.schema.field(place).nullable for table in tables)
        fields.append(pa.field(field.name, typed.type, nullable, field.metadata))
    if RUN.name not in first.column_names:
        column = pa.chunked_array([run_array(names, number, table.num_rows) for number, table in enumerate(tables)])
        columns.insert(0, column)
        fields.insert(0, RUN.field(column.type))
    return pa.Table.from_arrays(columns, schema=pa.schema(fields, merged_metadata([table.schema for table in tables])))


def run_array(names: Sequence[str], number: int, rows: int, index: Any = None) -> pa.DictionaryArray:
    """The column ``run`` of rows of run ``number``; ``index``: the type of its indices, else as narrow as fits."""
    indices = np.full(rows, number, index or index_dtype(len(names)))
    return pa.DictionaryArray.from_arrays(pa.array(indices), pa.array(names, pa.string()))


def _typed(columns: Sequence[pa.ChunkedArray]) -> pa.ChunkedArray:
    """Columns of one kind, one after the other. A column without values takes the type of the others."""
    valued = [column.type for column in columns if column.null_count < len(column)]
    kind = (valued or [columns[0].type])[0]
    if not pa.types.is_dictionary(kind):
        return pa.chunked_array([chunk for column in columns for chunk in _chunks(column, kind)], kind)
    wide = pa.dictionary(pa.int32(), kind.value_type)
    together = pa.chunked_array([chunk for column in columns for chunk in _chunks(column, wide)], wide)
    together = together.unify_dictionaries()
    texts = together.chunk(0).dictionary if together.num_chunks else pa.array([], kind.value_type)
    narrow = pa.from_numpy_dtype(index_dtype(len(texts)))
    chunks = [pa.DictionaryArray.from_arrays(chunk.indices.cast(narrow), texts) for chunk in together.chunks]
    return pa.chunked_array(chunks, pa.dictionary(narrow, kind.value_type))


def _chunks(column: pa.ChunkedArray, kind: pa.DataType) -> list[pa.Array]:
    if column.type == kind:
        return list(column.chunks)
    if pa.types.is_dictionary(kind) and pa.types.is_dictionary(column.type):
        index = kind.index_type
        return [pa.DictionaryArray.from_arrays(one.indices.cast(index), one.dictionary) for one in column.chunks]
    if column.null_count == len(column):
        return [pa.nulls(len(column), kind)]
    return list(column.cast(kind).chunks)


def merged_metadata(schemas: Sequence[pa.Schema]) -> dict[bytes, bytes] | None:
    """What the tables say of where they come from: the sources of all, the start of the first."""
    known = [schema.metadata for schema in schemas if schema.metadata]
    if not known:
        return None
    starts = [int(one[_START]) for one in known if one.get(_START)]
    sources: list[Any] = [source for one in known for source in json.loads(one.get(_SOURCES) or b"[]")]
    together = dict(known[0])
    if _START in together:
        together[_START] = str(min(starts)).encode() if starts else b""
    if _SOURCES in together:
        together[_SOURCES] = json.dumps(sources).encode()
    return together
