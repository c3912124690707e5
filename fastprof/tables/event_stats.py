"""Values of one stat, by row of events or of event metadata."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from fastprof._native import records
from fastprof.schema.array_types import Int32s, Int64s
from fastprof.schema.value_classes import dataclass


@dataclass(frozen=True, slots=True)
class Stat:
    """Values of one stat, at most one a row: the first. ``kind`` says what ``value`` is: an integer (uint64 as two's
    complement), the bits of a double, or the number of a text. ``rows`` ascend."""

    rows: Int32s
    kind: npt.NDArray[np.uint8]
    value: Int64s

    def __len__(self) -> int:
        return len(self.rows)

    def of_kinds(self, kinds: Sequence[int]) -> Stat:
        wanted = np.zeros(256, bool)
        wanted[list(kinds)] = True
        if len(self) and self.kind.min() == self.kind.max():
            return self if wanted[self.kind[0]] else Stat(self.rows[:0], self.kind[:0], self.value[:0])
        keep = wanted[self.kind]
        return self if keep.all() else Stat(self.rows[keep], self.kind[keep], self.value[keep])

    def at(self, rows: npt.NDArray[np.integer]) -> Stat:
        """The value of each of these rows, in any order; of kind NONE if the row has none."""
        if not len(self):
            return Stat(
                rows.astype(np.int32), np.full(len(rows), records.NONE, np.uint8), np.zeros(len(rows), np.int64)
            )
        wanted = rows.astype(self.rows.dtype)
        place = np.minimum(np.searchsorted(self.rows, wanted), len(self) - 1)
        kind = np.where(self.rows[place] == wanted, self.kind[place], np.uint8(records.NONE))
        return Stat(wanted, kind, self.value[place])

    @property
    def numbers(self) -> npt.NDArray[np.float64]:
        """Values of numeric kinds as doubles; NaN where it is a text."""
        values = np.where(self.kind == records.DOUBLE, self.value.view(np.float64), np.nan)
        values = np.where(self.kind == records.INT64, self.value.astype(np.float64), values)
        return np.where(self.kind == records.UINT64, self.value.view(np.uint64).astype(np.float64), values)


EMPTY = Stat(np.zeros(0, np.int32), np.zeros(0, np.uint8), np.zeros(0, np.int64))
