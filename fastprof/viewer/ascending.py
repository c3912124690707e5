"""Numbers in order, each once: np.unique takes tens of times as long where they are many and in order already."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fastprof.schema.array_types import Int64s


def ascending(numbers: npt.ArrayLike) -> Int64s:
    """The same numbers, ascending, each once."""
    found: Int64s = np.asarray(numbers, np.int64)
    steps = np.diff(found)
    if (steps < 0).any():
        found = np.sort(found)
        steps = np.diff(found)
    return found if (steps > 0).all() else found[np.append(True, steps > 0)]
