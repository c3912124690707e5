"""Values of stats beside rows of events, and distinct rows of columns of such values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from fastprof.derive.steps.event_graph import find_first_rows, number_keys
from fastprof.schema.columns import Bools, Int32s, Int64s

Numbers = npt.NDArray[np.integer[Any]]


def find_stat_places(at: Int32s, rows: Numbers) -> tuple[Bools, Int64s]:
    """Which of these events have a stat, and where theirs are. It looks at no other events: a host may have thousands
    of GPUs."""
    place = np.searchsorted(at, rows.astype(at.dtype))
    has = place < len(at)
    has[has] = at[place[has]] == rows[has]
    return has, place[has]


def join_stat_values(at: Int32s, values: npt.NDArray[Any], rows: Numbers, otherwise: float = -1) -> npt.NDArray[Any]:
    """The values of a stat that the events ``at`` have, beside ``rows``."""
    has, place = find_stat_places(at, rows)
    beside = np.full(len(rows), otherwise, values.dtype)
    beside[has] = values[place]
    return beside


def number_distinct_rows(columns: Sequence[Numbers]) -> tuple[Int64s, Int32s]:
    """Where each distinct row of the columns is first, in that order, and the number of each row among them."""
    keys = [column.astype(np.int64, copy=False) for column in columns]
    while len(keys) > 4:  # which can be numbered at once
        keys = [number_keys(keys[:4])[0].astype(np.int64), *keys[4:]]
    number, count = number_keys(keys)
    return find_first_rows(number, count), number


def number_distinct(values: Numbers) -> tuple[Numbers, Int32s]:
    """The distinct values as they are first met, and the place of each value among them."""
    first, number = number_distinct_rows([values])
    return values[first], number
