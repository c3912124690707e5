"""Values of stats beside rows of events, and distinct rows of columns of such values."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from fastprof.schema.columns import Bools, Int32s, Int64s, Numbers


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
