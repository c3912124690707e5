"""Sums of events by name, as tables of a selected range show them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from fastprof.schema.array_types import Int64s

SUM: Final = np.dtype(
    [("total", "i8"), ("clipped", "i8"), ("least", "i8"), ("most", "i8")]
    + [("name", "u4"), ("longest", "u4"), ("count", "u8")]
)
_LARGEST: Final = 2**63 - 1


@dataclass(frozen=True, slots=True, eq=False)
class NameSums:
    """Columns, a row a name, the most time in the range first. ``clipped_ps``: of durations what lies in the range;
    ``longest``: the number of the longest event. Sums that 64 bits cannot hold are the largest number."""

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
    """Sums of several parts: records, and what is added to numbers of names and of events."""
    found = []
    for data, names, events in parts:
        records = np.frombuffer(data, SUM)
        columns: dict[str, Any] = {field: records[field].astype(np.int64) for field in SUM.names or ()}
        columns["name"] += names
        columns["longest"] += events
        found.append(columns)
    columns = {
        field: np.concatenate([np.zeros(0, np.int64), *(one[field] for one in found)]) for field in SUM.names or ()
    }
    order = np.lexsort((columns["longest"], -columns["most"], columns["name"]))
    columns = {field: values[order] for field, values in columns.items()}
    name = columns["name"]
    firsts = np.flatnonzero(np.append(True, name[1:] != name[:-1])) if len(name) else np.zeros(0, np.intp)
    if len(firsts) < len(name):
        columns = _added(columns, firsts)
    order = np.lexsort((columns["name"], -columns["total"], -columns["clipped"]))
    fields = ("name", "count", "total", "clipped", "least", "most", "longest")
    return NameSums(*(columns[field][order] for field in fields))


def _added(columns: dict[str, Any], firsts: npt.NDArray[np.intp]) -> dict[str, Any]:
    """Rows of one name as one; the first of them has the longest event."""
    out = {"name": columns["name"][firsts], "longest": columns["longest"][firsts], "most": columns["most"][firsts]}
    out["least"] = np.minimum.reduceat(columns["least"], firsts)
    out["count"] = np.add.reduceat(columns["count"], firsts)
    for field in ("total", "clipped"):
        near = np.add.reduceat(columns[field].astype(np.float64), firsts)
        out[field] = np.where(near >= 2.0**63, _LARGEST, np.add.reduceat(columns[field], firsts))
    return out
