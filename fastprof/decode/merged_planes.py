"""Planes that stand in a file several times, as in files that were concatenated: their name tables as one.

The ids of the first part stay. In a later part, an id that stands for another name already becomes the id of that
name, or where there is none a new one, larger than all. Of metadata of equal id the first is kept.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from fastprof.schema.array_types import Int64s


def renumbered(ids: Int64s, planes: Int64s, names: Sequence[str]) -> Int64s:
    """The ids that metadata get, row by row in the order of parts; ``planes``: the plane of each row."""
    fresh = ids.copy()
    by_id: dict[int, dict[int, str]] = {}
    by_name: dict[int, dict[str, int]] = {}
    top: dict[int, int] = {}
    for row, (plane, number, name) in enumerate(zip(planes.tolist(), ids.tolist(), names, strict=True)):
        known, named = by_id.setdefault(plane, {}), by_name.setdefault(plane, {})
        if known.get(number, name) != name:
            number = named[name] if name in named else _after(top[plane], known)
            fresh[row] = number
        known.setdefault(number, name)
        named.setdefault(name, number)
        top[plane] = max(top.get(plane, number), number)
    return fresh


def _after(top: int, known: dict[int, str]) -> int:
    """An id that is not taken: the next one, or where ids end there, the largest that is free."""
    number = top + 1
    while number >= 2**63 or number in known:
        number = min(number, 2**63) - 1
    return number


def first_of_each(planes: Int64s, ids: Int64s) -> npt.NDArray[np.bool_]:
    """Which rows are the first of their plane and id."""
    order = np.lexsort((np.arange(len(ids)), ids, planes))
    later = (np.diff(planes[order]) == 0) & (np.diff(ids[order]) == 0)
    first = np.ones(len(ids), bool)
    first[order[1:][later]] = False
    return first
