"""Values of a stat beside rows of events."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

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
