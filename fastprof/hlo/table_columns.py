"""Columns of tables built from several programs: texts by number, each distinct one once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from fastprof._native.xspace import Memory
from fastprof.decode.text_pools import TextTable, index_dtype
from fastprof.schema.array_types import Int32s, Int64s
from fastprof.schema.tables import Column, TableSchema

Mask: TypeAlias = npt.NDArray[np.bool_]

LETTERS = 1 << 30
"""Bytes that a column of lists of names may take."""
LONG_NAME = 1 << 10
"""Letters of a name in a column that takes more than a small part of ``LETTERS``."""
_SMALL_PART = 16
ABSENT = -1
"""The number of a text that is null."""


@dataclass(frozen=True, slots=True)
class Numbers:
    """Integers or flags; null where not ``valid`` (None: nowhere)."""

    values: npt.NDArray[Any]
    valid: Mask | None = None


@dataclass(frozen=True, slots=True)
class Lists:
    """``counts[i]`` of the values in row i, in order: numbers of texts or integers; null where not ``valid``."""

    counts: npt.NDArray[Any]
    values: npt.NDArray[Any]
    valid: Mask | None = None


Values: TypeAlias = Int32s | Numbers | Lists
"""A column of one program; plain integers are numbers of texts, ABSENT: null."""


class TableTexts:
    """The texts of a table."""

    def __init__(self) -> None:
        self._table = TextTable(Memory())

    def number(self, text: str | None) -> int:
        """ABSENT for the empty text."""
        return self._table.add(text) if text else ABSENT

    def all_numbers(self, texts: Sequence[str | None]) -> Int32s:
        return np.array([self.number(text) for text in texts], np.int32)

    def of_pool(self, offsets: bytes, data: bytes) -> Int32s:
        """The numbers of all texts of a pool; its first text is empty, and null here."""
        numbers = self._table.add_all(offsets, data).copy()
        numbers[:1] = ABSENT
        return numbers

    def array(self) -> pa.Array:
        return self._table.array()


def ranges(first: npt.NDArray[Any], count: npt.NDArray[Any]) -> Int64s:
    """The numbers first[i] to first[i] + count[i], for each i."""
    counts = count.astype(np.int64)
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    return np.arange(total) - np.repeat(ends - counts, counts) + np.repeat(first.astype(np.int64), counts)


def tables_of(schema: TableSchema, parts: Sequence[Mapping[str, Values]], texts: TableTexts) -> pa.Table:
    """One table of all parts, in order."""
    if not parts:
        return schema.arrow().empty_table()
    words = texts.array()
    columns = [_joined(column, [part[column.name] for part in parts], words) for column in schema.columns]
    fields = [column.field(array.type) for column, array in zip(schema.columns, columns, strict=True)]
    return pa.table(columns, schema=pa.schema(fields))


def _joined(column: Column, parts: Sequence[Any], words: pa.Array) -> pa.Array:
    if isinstance(parts[0], Lists):
        return _list_array(column, parts, words)
    if isinstance(parts[0], Numbers):
        values = np.concatenate([part.values for part in parts])
        return pa.array(values, column.type, mask=_nulls(parts, [len(part.values) for part in parts]))
    return _text_array(np.concatenate(parts), words)


def _nulls(parts: Sequence[Numbers | Lists], lengths: Sequence[int]) -> Mask | None:
    if all(part.valid is None for part in parts):
        return None
    masks = [np.ones(n, bool) if p.valid is None else p.valid for p, n in zip(parts, lengths, strict=True)]
    return ~np.concatenate(masks)


def _text_array(numbers: Int32s, words: pa.Array) -> pa.DictionaryArray:
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


def _fitting(words: pa.Array, numbers: npt.NDArray[Any]) -> pa.Array:
    """The texts as strings, long ones cut where the column would take much room: a damaged program of a few bytes can
    repeat a name of megabytes."""
    lengths = np.append(np.asarray(pc.binary_length(words), np.int64), 0)
    if lengths[numbers].sum() > LETTERS // _SMALL_PART:
        room = max(LETTERS // (4 * len(numbers)), 1)
        if np.minimum(lengths, 4 * LONG_NAME)[numbers].sum() <= LETTERS:
            room = max(room, LONG_NAME)
        words = pc.utf8_slice_codeunits(words, 0, min(room, LONG_NAME))
    return words if words.type == pa.string() else words.cast(pa.string())


def _list_array(column: Column, parts: Sequence[Lists], words: pa.Array) -> pa.ListArray:
    values = np.concatenate([part.values for part in parts])
    counts = np.concatenate([part.counts for part in parts]).astype(np.int64)
    offsets = np.zeros(len(counts) + 1, np.int32)
    np.cumsum(counts, out=offsets[1:])
    if pa.types.is_string(column.type.value_type):
        inner = _fitting(words, values).take(pa.array(np.where(values < 0, 0, values), mask=values < 0))
    else:
        inner = pa.array(values, column.type.value_type)
    nulls = _nulls(parts, [len(part.counts) for part in parts])
    return pa.ListArray.from_arrays(
        pa.array(offsets), inner, column.type, mask=None if nulls is None else pa.array(nulls)
    )
