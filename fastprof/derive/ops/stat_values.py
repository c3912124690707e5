"""Values of stats beside rows of events, and distinct rows of columns of such values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from fastprof.derive.steps.links import first_of, numbered
from fastprof.schema.array_types import Bools, Int32s, Int64s

Numbers = npt.NDArray[np.integer[Any]]


def stat_places(at: Int32s, rows: Numbers) -> tuple[Bools, Int64s]:
    """Which of these events have a stat, and where theirs are. It looks at no other events: a host may have thousands
    of GPUs."""
    place = np.searchsorted(at, rows.astype(at.dtype))
    has = place < len(at)
    has[has] = at[place[has]] == rows[has]
    return has, place[has]


def stat_beside(at: Int32s, values: npt.NDArray[Any], rows: Numbers, otherwise: float = -1) -> npt.NDArray[Any]:
    """The values of a stat that the events ``at`` have, beside ``rows``."""
    has, place = stat_places(at, rows)
    beside = np.full(len(rows), otherwise, values.dtype)
    beside[has] = values[place]
    return beside


def distinct_rows(columns: Sequence[Numbers]) -> tuple[Int64s, Int32s]:
    """Where each distinct row of the columns is first, in that order, and the number of each row among them."""
    keys = [column.astype(np.int64, copy=False) for column in columns]
    while len(keys) > 4:  # which can be numbered at once
        keys = [numbered(keys[:4])[0].astype(np.int64), *keys[4:]]
    number, count = numbered(keys)
    return first_of(number, count), number


def distinct(values: Numbers) -> tuple[Numbers, Int32s]:
    """The distinct values as they are first met, and the place of each value among them."""
    first, number = distinct_rows([values])
    return values[first], number
