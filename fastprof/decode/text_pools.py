"""Texts of captures as Arrow dictionaries: each distinct text once, for the whole session."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fastprof._native.xspace import Memory, Pool, Sink, XSpace
from fastprof.decode.import_log import Faults
from fastprof.schema.columns import Int32s
from fastprof.schema.tables import build_texts


def _number_texts(pool: Pool, offsets: bytes, data: bytes) -> Int32s:
    """Return the numbers in the pool of texts that are given as int64 offsets and bytes."""
    return np.frombuffer(pool.add_all(np.frombuffer(offsets, np.int64), data), np.int32)


class TextTable:
    """A pool that grows while texts are looked up, and becomes a dictionary. Threads may share it: numbers of texts
    never change."""

    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        self._pool = Pool(memory)
        self._lock = threading.Lock()

    def add(self, text: str) -> int:
        with self._lock:
            return int(self._pool.add(text.encode()))

    def add_all(self, offsets: bytes, data: bytes) -> Int32s:
        """Return the numbers of texts as Arrow has them: int64 offsets, and bytes."""
        with self._lock:
            return _number_texts(self._pool, offsets, data)

    def intern(self, xspace: XSpace, offsets: Any, lengths: Any, what: bytes) -> tuple[Int32s, Faults]:
        """Return the numbers of texts at places of a capture, -1 where the length is NO_TEXT; and the faults."""
        with self._lock:
            numbers, faults = xspace.intern(offsets, lengths, what, self._pool)
        return np.frombuffer(numbers, np.int32), faults

    def find(self, text: str) -> int:
        """Return the number of a text, or -1."""
        with self._lock:
            return int(self._pool.find(text.encode()))

    def buffers(self) -> tuple[bytes, bytes]:
        """Return the texts by now, as Arrow has them: int64 offsets, and bytes."""
        with self._lock:
            return self._pool.arrow_buffers()

    def array(self) -> pa.Array:
        return build_texts(*self.buffers())

    def __len__(self) -> int:
        with self._lock:
            return len(self._pool)


class MergedTexts:
    """The texts of the name tables, and behind them, from number ``base`` on, blocks' own texts, each once."""

    def __init__(self, memory: Memory, table: TextTable) -> None:
        self._pool = Pool(memory)
        _number_texts(self._pool, *table.buffers())
        self.base = len(self._pool)

    def add(self, sink: Sink) -> Int32s | None:
        """Return the numbers of a block's own texts, or None if it has none."""
        offsets, data = sink.texts()
        return _number_texts(self._pool, offsets, data) if len(offsets) > 8 else None

    def array(self) -> pa.Array:
        return build_texts(*self._pool.arrow_buffers())


def make_indices(size: int, count: int) -> npt.NDArray[Any]:
    """Zeroed indices, ``count`` of them, as narrow as a dictionary of ``size`` texts allows."""
    return np.zeros(count, get_index_dtype(size))


def get_index_dtype(size: int) -> Any:
    """Return the narrowest signed type that indexes a dictionary of ``size`` texts."""
    if size <= 1 << 7:
        return np.int8
    return np.int16 if size <= 1 << 15 else np.int32


def make_dictionary_array(
    indices: npt.NDArray[Any], texts: pa.Array, validity: npt.NDArray[np.uint8] | None = None, nulls: int = 0
) -> pa.Array:
    """Return indices and their texts as one Arrow array; nothing is copied."""
    index_type = pa.from_numpy_dtype(indices.dtype)
    buffers = [None if validity is None else pa.py_buffer(validity), pa.py_buffer(indices)]
    return pa.DictionaryArray.from_buffers(
        pa.dictionary(index_type, texts.type), len(indices), buffers, texts, null_count=nulls
    )
