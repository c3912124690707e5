"""Rows as arrays, one a column: the base of small tables that functions hand to each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any, Self

import numpy as np

from fastprof.schema.value_classes import dataclass


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
        return cls(*map(_concatenated, columns)) if parts else cls.none()


def _concatenated(columns: Sequence[Any]) -> Any:
    first = columns[0]
    return type(first).joined(columns) if isinstance(first, ArrayRows) else np.concatenate(columns)
