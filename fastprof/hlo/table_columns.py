"""Columns of tables built from several programs: texts by number, each distinct one once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fastprof.decode.text_pools import index_dtype
from fastprof.schema.array_types import Bools, Int64s
from fastprof.schema.tables import Column

LETTERS = 1 << 30
"""Bytes that a column of lists of names may take."""
LONG_NAME = 1 << 10
"""Letters of a name in a column that takes more than a small part of ``LETTERS``."""
_SMALL_PART = 16
ABSENT = -1
"""The number of a text that is null."""


@dataclass(frozen=True, slots=True)
class Lists:
    """``counts[i]`` of the values in row i, in order: numbers of texts or integers."""

    counts: npt.NDArray[Any]
    values: npt.NDArray[Any]

    def __len__(self) -> int:
        return len(self.counts)


Values: TypeAlias = tuple[Any, Bools | None]
"""Of a column for one program: integers, flags, numbers of texts or ``Lists``; and where they are null."""


def ranges(first: npt.NDArray[Any], count: npt.NDArray[Any]) -> Int64s:
    """The numbers first[i] to first[i] + count[i], for each i."""
    counts = count.astype(np.int64)
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    return np.arange(total) - np.repeat(ends - counts, counts) + np.repeat(first.astype(np.int64), counts)


def joined(column: Column, parts: Sequence[Values], words: pa.Array) -> pa.Array:
    """The column of all parts, in order. ``words``: texts by number."""
    nulls = None if parts[0][1] is None else np.concatenate([null for _, null in parts])
    if isinstance(column.type, pa.ListType):
        return _lists(column, [values for values, _ in parts], nulls, words)
    values = np.concatenate([values for values, _ in parts])
    if isinstance(column.type, pa.DictionaryType):
        return _texts(values, words)
    return pa.array(values.astype(column.type.to_pandas_dtype(), copy=False), mask=nulls)


def _texts(numbers: npt.NDArray[Any], words: pa.Array) -> pa.DictionaryArray:
    """A dictionary of the texts that occur."""
    used = np.zeros(len(words) + 1, bool)
    used[numbers] = True  # nulls mark the last place
    used[-1] = False
    place = np.cumsum(used) - 1
    count = int(used.sum())
    indices = np.where(numbers < 0, 0, place[numbers]).astype(index_dtype(count))
    return pa.DictionaryArray.from_arrays(
        pa.array(indices, mask=numbers < 0), words.take(pa.array(np.flatnonzero(used)))
    )


def _lists(column: Column, parts: Sequence[Lists], nulls: Bools | None, words: pa.Array) -> pa.ListArray:
    values = np.concatenate([part.values for part in parts])
    counts = np.concatenate([part.counts for part in parts])
    offsets = np.append(np.int32(0), np.cumsum(counts, dtype=np.int32))
    if column.type.value_type == pa.string():
        inner = _fitting(words, values).take(pa.array(np.where(values < 0, 0, values), mask=values < 0))
    else:
        inner = pa.array(values, column.type.value_type)
    mask = None if nulls is None else pa.array(nulls)
    return pa.ListArray.from_arrays(pa.array(offsets), inner, column.type, mask=mask)


def _fitting(words: pa.Array, numbers: npt.NDArray[Any]) -> pa.Array:
    """The texts as strings, long ones cut where the column would take much room: a damaged program of a few bytes can
    repeat a name of megabytes."""
    import pyarrow.compute as pc  # few sessions show programs

    lengths = np.append(np.asarray(pc.binary_length(words), np.int64), 0)
    if lengths[numbers].sum() > LETTERS // _SMALL_PART:
        room = max(LETTERS // (4 * len(numbers)), 1)
        if np.minimum(lengths, 4 * LONG_NAME)[numbers].sum() <= LETTERS:
            room = max(room, LONG_NAME)
        words = pc.utf8_slice_codeunits(words, 0, min(room, LONG_NAME))
    return words if words.type == pa.string() else words.cast(pa.string())
