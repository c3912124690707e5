"""Tables of reports from what each host has of them: columns of NumPy, joined and put in order, then made Arrow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fastprof.schema.tables import Column, TableSchema

Numbers = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Known:
    """Values, and which of them are known; the others are null."""

    values: Numbers
    known: npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Texts:
    """``values[at[i]]`` in row i; null where the value is None, or ``at`` is -1."""

    values: Sequence[str | None]
    at: Numbers


Part = Mapping[str, Numbers | Known | Texts]
"""The rows of one host: a column by name."""


def part(schema: TableSchema, rows: Any) -> Part:
    """The columns of one host's rows. One without a formula is the field of ``rows.found`` that has its name; where it
    may be null, it is where that is negative."""
    return {column.name: column.of(rows) if column.of else _field(column, rows.found) for column in schema.columns}


def _field(column: Column, found: Any) -> Numbers | Known:
    values: Numbers = getattr(found, column.name)
    return not_negative(values) if column.nullable else values


def not_negative(sizes: Numbers) -> Known:
    return Known(sizes, sizes >= 0)


def table(schema: TableSchema, parts: Sequence[Part], order: Numbers | None = None) -> pa.Table:
    """The rows of all parts, one after the other, then in this order."""
    if not parts:
        return schema.arrow().empty_table()
    arrays = [_column([part[column.name] for part in parts], order, column.type) for column in schema.columns]
    fields = [column.field(array.type) for column, array in zip(schema.columns, arrays, strict=True)]
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))


def values(parts: Sequence[Part], name: str) -> Numbers:
    """A column of numbers of all parts: what rows are put in order by."""
    found = [part[name] for part in parts]
    return _joined([_numbers(one) for one in found])


def _numbers(column: Numbers | Known | Texts) -> Numbers:
    assert not isinstance(column, Texts)
    return column.values if isinstance(column, Known) else column


def _column(pieces: Sequence[Numbers | Known | Texts], order: Numbers | None, kind: pa.DataType) -> pa.Array:
    if isinstance(pieces[0], Texts):
        return _texts([piece for piece in pieces if isinstance(piece, Texts)], order)
    found = _joined([_numbers(piece) for piece in pieces])
    if order is not None:
        found = found[order]
    if not isinstance(pieces[0], Known):
        return pa.array(found, kind)
    known = _joined([piece.known for piece in pieces if isinstance(piece, Known)])
    if order is not None:
        known = known[order]
    return pa.array(found, kind) if known.all() else pa.array(found, kind, mask=~known)


def _texts(pieces: Sequence[Texts], order: Numbers | None) -> pa.DictionaryArray:
    """Numbers of texts as narrow as they can be: there are few texts, and rows without end."""
    every: list[str | None] = []
    at = []
    for piece in pieces:
        at.append(np.where(piece.at < 0, -1, piece.at.astype(np.int64) + len(every)) if every else piece.at)
        every += piece.values
    place: dict[str, int] = {}
    number = [-1 if value is None else place.setdefault(value, len(place)) for value in [*every, None]]
    narrow = next(kind for kind in (np.int8, np.int16, np.int32) if len(place) <= np.iinfo(kind).max)
    rows: Numbers = np.array(number, narrow).take(_joined(at), mode="wrap")  # -1 is the None at the end
    if order is not None:
        rows = rows[order]
    unknown = rows < 0
    indices = pa.array(rows, mask=unknown) if unknown.any() else pa.array(rows)
    return pa.DictionaryArray.from_arrays(indices, pa.array(list(place), pa.string()), safe=False)


def _joined(pieces: Sequence[Numbers]) -> Numbers:
    return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)
