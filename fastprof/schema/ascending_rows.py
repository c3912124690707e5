"""Rows of a table in ascending order: which of them lie in a range, and what values they have."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

S = TypeVar("S", bound=np.generic)


def rows_within(rows: npt.NDArray[Any], first: int, last: int) -> slice:
    """Return the place of the rows from ``first`` up to ``last``, which is left out. Bounds of another type than the
    rows would make numpy convert all of these."""
    limits = np.iinfo(rows.dtype)
    bounds = np.array([min(max(bound, limits.min), limits.max) for bound in (first, last)], rows.dtype)
    return slice(*np.searchsorted(rows, bounds).tolist())


def values_at(values: npt.NDArray[S], rows: npt.NDArray[Any]) -> npt.NDArray[S]:
    """Return the values of distinct rows: a view if each row follows the one before. numpy takes several times as long
    for rows of 32 bits as for those of 64."""
    if len(rows) and int(rows[-1]) - int(rows[0]) == len(rows) - 1:
        return values[rows[0] : rows[-1] + 1]
    return values[rows.astype(np.intp, copy=False)]
