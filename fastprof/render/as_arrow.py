"""Arrow IPC: the stream format for pipes, the file format, which allows random access, for files.

The file format has one dictionary per column. If dictionaries of batches differ, values are collected in one growing
dictionary, and additions are written as deltas. Batches of a table share a dictionary, so no deltas are needed.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from fastprof.render.rows import ANY_BYTES, Data, split_rows

if TYPE_CHECKING:
    from typing_extensions import Buffer

_BATCH_ROWS = 1 << 20


def chunks(data: Data, *, file: bool = False) -> Iterator[bytes]:
    """Yield the bytes of an IPC stream, or of an IPC file, a batch at a time."""
    shared = isinstance(data, pa.Table)
    if isinstance(data, pa.Table):
        data = data.unify_dictionaries()
    schema, batches = split_rows(data, _BATCH_ROWS, ANY_BYTES)
    if not shared:
        kind = _GrowingDictionary if file else _AnyDictionary
        dictionaries = {
            position: kind(field.type) for position, field in enumerate(schema) if pa.types.is_dictionary(field.type)
        }
        for position, dictionary in dictionaries.items():
            schema = schema.set(position, schema.field(position).with_type(dictionary.type))
        batches = _unify_batches(schema, batches, dictionaries)
    sink = _Sink()
    open_writer = pa.ipc.new_file if file else pa.ipc.new_stream
    with open_writer(sink, schema, options=pa.ipc.IpcWriteOptions(emit_dictionary_deltas=file)) as writer:
        for batch in batches:
            writer.write_batch(batch)
            yield sink.taken()
    yield sink.taken()


class _Sink(io.RawIOBase):
    """Sink of pyarrow's writer that keeps the bytes until ``taken`` returns them."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._position = 0

    def writable(self) -> bool:
        return True

    def write(self, piece: Buffer) -> int:
        self._pieces.append(bytes(piece))
        self._position += len(self._pieces[-1])
        return len(self._pieces[-1])

    def tell(self) -> int:
        return self._position

    def taken(self) -> bytes:
        pieces = b"".join(self._pieces)
        self._pieces.clear()
        return pieces


class _AnyDictionary:
    """Dictionary per batch. All indices become int32, because their widths may differ between batches."""

    def __init__(self, kind: pa.DictionaryType) -> None:
        self.type = pa.dictionary(pa.int32(), kind.value_type)

    def moved(self, array: pa.DictionaryArray) -> pa.DictionaryArray:
        return pa.DictionaryArray.from_arrays(array.indices.cast(pa.int32()), array.dictionary)


class _GrowingDictionary(_AnyDictionary):
    """Single dictionary for a column of many batches."""

    def __init__(self, kind: pa.DictionaryType) -> None:
        super().__init__(kind)
        self._values = pa.array([], kind.value_type)
        self._last: pa.Array | None = None
        self._places: pa.Array | None = None

    def moved(self, array: pa.DictionaryArray) -> pa.DictionaryArray:
        dictionary = array.dictionary
        if self._last is None or not dictionary.equals(self._last):
            self._last, self._places = dictionary, self._grow(dictionary)
        indices = array.indices.cast(pa.int32())
        if self._places is not None:
            indices = self._places.take(indices)
        return pa.DictionaryArray.from_arrays(indices, self._values)

    def _grow(self, dictionary: pa.Array) -> pa.Array | None:
        """Add new values. Return the map from old to new indices, or None if they are equal."""
        if len(self._values) == 0 and dictionary.null_count == 0:
            # The format cannot replace an empty dictionary by one with values, so it starts with an unused value.
            self._values = dictionary if len(dictionary) else pa.array([""], dictionary.type)
            return None
        fresh = dictionary.filter(pc.invert(pc.is_in(dictionary, value_set=self._values))).unique()
        self._values = pa.concat_arrays([self._values, fresh.drop_null()])
        return pc.index_in(dictionary, value_set=self._values, skip_nulls=True)


def _unify_batches(
    schema: pa.Schema, batches: Iterator[pa.RecordBatch], dictionaries: Mapping[int, _AnyDictionary]
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        columns = list(batch.columns)
        for position, dictionary in dictionaries.items():
            columns[position] = dictionary.moved(columns[position])
        yield pa.RecordBatch.from_arrays(columns, schema=schema)
