"""Columns as NumPy arrays: their types, bundles of them, ranges of rows, and sums of times that stop at 64 bits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any, Self, TypeVar

import numpy as np
import numpy.typing as npt

from fastprof.schema.value_classes import dataclass

Bools = npt.NDArray[np.bool_]
Float64s = npt.NDArray[np.float64]
Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]
Objects = npt.NDArray[np.object_]
Records = npt.NDArray[np.void]
"""Structs in the layout of the native code."""
UInt16s = npt.NDArray[np.uint16]
UInt32s = npt.NDArray[np.uint32]
UInt64s = npt.NDArray[np.uint64]
UInt8s = npt.NDArray[np.uint8]
Flags = UInt8s | Bools
"""A byte each: the native code takes both."""


@dataclass(frozen=True, slots=True)
class ArrayRows:
    """The base of dataclasses whose fields are arrays, or rows themselves, with an element a row. The metadata ``none``
    of a field is its value without rows, if that is not an empty array of int64."""

    def __len__(self) -> int:
        return len(getattr(self, fields(self)[0].name))

    def __getitem__(self, rows: Any) -> Self:
        """Some rows, by a mask or by their numbers."""
        return type(self)(*(getattr(self, column.name)[rows] for column in fields(self)))

    @classmethod
    def none(cls) -> Self:
        return cls(*(column.metadata.get("none", np.zeros(0, np.int64)) for column in fields(cls)))

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """The rows of all parts, one after the other."""
        if len(parts) == 1:
            return parts[0]
        columns = ([getattr(part, column.name) for part in parts] for column in fields(cls))
        return cls(*map(_concatenate, columns)) if parts else cls.none()


def _concatenate(columns: Sequence[Any]) -> Any:
    first = columns[0]
    return type(first).joined(columns) if isinstance(first, ArrayRows) else np.concatenate(columns)


S = TypeVar("S", bound=np.generic)


def find_rows_within(rows: npt.NDArray[Any], first: int, last: int) -> slice:
    """Return the place of the rows from ``first`` up to ``last``, which is left out. Bounds of another type than the
    rows would make numpy convert all of these."""
    limits = np.iinfo(rows.dtype)
    bounds = np.array([min(max(bound, limits.min), limits.max) for bound in (first, last)], rows.dtype)
    return slice(*np.searchsorted(rows, bounds).tolist())


def take_rows(values: npt.NDArray[S], rows: npt.NDArray[Any]) -> npt.NDArray[S]:
    """Return the values of distinct rows: a view if each row follows the one before. numpy takes several times as long
    for rows of 32 bits as for those of 64."""
    if len(rows) and int(rows[-1]) - int(rows[0]) == len(rows) - 1:
        return values[rows[0] : rows[-1] + 1]
    return values[rows.astype(np.intp, copy=False)]


_LAST = 2**63 - 1
_FEW = 1000


def add_durations(start: Int64s, duration: Int64s) -> Int64s:
    """Where events end that have these starts and durations."""
    if np.size(start) > _FEW and np.min(start) >= 0 and np.min(duration) >= 0:
        ends: Int64s = start + duration
        if ends.min() >= 0:  # no sum is beyond the limit
            return ends
    most, least = _LAST - np.maximum(start, 0), -_LAST - 1 - np.minimum(start, 0)
    return np.asarray(start + np.clip(duration, least, most))
