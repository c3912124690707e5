"""Sums of events by name, as tables of a selected range show them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from fastprof.schema.array_types import Int64s
from fastprof.schema.value_classes import dataclass

SUM: Final = np.dtype(
    [("total", "i8"), ("clipped", "i8"), ("least", "i8"), ("most", "i8")]
    + [("name", "u4"), ("longest", "u4"), ("count", "u8")]
)
_WIDE: Final = np.dtype([(field, "i8") for field in SUM.names or ()])
_LARGEST: Final = 2**63 - 1


@dataclass(frozen=True, slots=True, eq=False)
class NameSums:
    """Columns, a row a name, the most time in the range first. ``clipped_ps``: parts of durations in the range;
    ``longest``: the number of the longest event. Sums that do not fit 64 bits are the largest number."""

    name: Int64s
    count: Int64s
    total_ps: Int64s
    clipped_ps: Int64s
    min_ps: Int64s
    max_ps: Int64s
    longest: Int64s

    @property
    def events(self) -> int:
        return int(self.count.sum())

    def __len__(self) -> int:
        return len(self.name)


def merged(parts: Iterable[tuple[bytes, int, int]]) -> NameSums:
    """Sums of several parts: records, and the first numbers of their names and of their events."""
    found = [np.zeros(0, _WIDE)]
    for data, names, events in parts:
        records = np.frombuffer(data, SUM).astype(_WIDE)
        records["name"] += names
        records["longest"] += events
        found.append(records)
    sums = np.concatenate(found)
    sums = sums[np.lexsort((sums["longest"], -sums["most"], sums["name"]))]
    firsts = np.flatnonzero(np.diff(sums["name"], prepend=-1))
    if len(firsts) < len(sums):
        sums = _added(sums, firsts)
    sums = sums[np.lexsort((sums["name"], -sums["total"], -sums["clipped"]))]
    fields = ("name", "count", "total", "clipped", "least", "most", "longest")
    return NameSums(*(np.ascontiguousarray(sums[field]) for field in fields))


def _added(sums: npt.NDArray[Any], firsts: npt.NDArray[np.intp]) -> npt.NDArray[Any]:
    """Rows of one name as one; the first of them has the longest event."""
    out = sums[firsts]
    out["least"] = np.minimum.reduceat(sums["least"], firsts)
    out["count"] = np.add.reduceat(sums["count"], firsts)
    for field in ("total", "clipped"):
        near = np.add.reduceat(sums[field].astype(np.float64), firsts)
        out[field] = np.where(near >= 2.0**63, _LARGEST, np.add.reduceat(sums[field], firsts))
    return out
