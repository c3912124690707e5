"""Stats of chosen events as columns, with bits that say where they are recorded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from fastprof._native import records
from fastprof._native.memory_kernels import stat_beside
from fastprof.decode.workers import Workers
from fastprof.errors import CaptureError
from fastprof.schema.array_types import Int32s, Int64s
from fastprof.tables.host_events import HostEvents, Stat

Bits = npt.NDArray[np.uint16]

_DOUBLES = (records.DOUBLE, records.INT64, records.UINT64)
"""Kinds of a column of doubles, which integers become."""
NOT_THERE: Final = np.iinfo(np.int64).min
_SHARE = 1 << 17
"""Rows of a task."""


class StatReader:
    """Columns are asked for one by one and filled by ``run``. Row ``rows[i]``, ascending, is at ``place[i]`` of them.

    ``recorded``: the bits of the stats that each event has, in a kind that is read. ``odd``: those of values other than
    0 that are not an int64, of doubles: no double; and of stats in a kind that is not read."""

    def __init__(self, events: HostEvents, rows: Int32s, place: Int32s, workers: Workers) -> None:
        self._events = events
        self._rows = rows
        self._place = place
        self._workers = workers
        self._wanted: list[tuple[Stat, Sequence[int], Int64s, int]] = []
        self._sizes: list[tuple[str, Int64s, int]] = []
        self._doubles: list[tuple[npt.NDArray[np.float64], int]] = []
        self.recorded: Bits = np.zeros(len(rows), np.uint16)
        self.odd: Bits = np.zeros(len(rows), np.uint16)
        self.any_odd = False

    def texts(self, name: str) -> Int64s:
        """The numbers of texts, NOT_THERE where there is none; without a bit."""
        return self._column(self._events.stat(name), (records.STR, records.REF), NOT_THERE, 0)

    def integers(self, name: str, bit: int, default: int = 0) -> Int64s:
        """Integers; those beyond 63 bits are negative."""
        return self._column(self._events.stat(name), (records.INT64, records.UINT64), default, bit)

    def sizes(self, name: str, bit: int) -> Int64s:
        """Integers, 0 where there is none; ``run`` raises CaptureError where one is beyond 63 bits."""
        column = self.integers(name, bit)
        self._sizes.append((name, column, bit))
        return column

    def doubles(self, name: str, bit: int) -> npt.NDArray[np.float64]:
        """Numbers of any kind; NaN where there is none, or one that is not finite."""
        default = int(np.array(np.nan).view(np.int64))
        column: npt.NDArray[np.float64] = self._column(self._events.stat(name), _DOUBLES, default, bit).view(np.float64)
        self._doubles.append((column, bit))
        return column

    def _column(self, stat: Stat, kinds: Sequence[int], default: int, bit: int) -> Int64s:
        count = len(self._rows)
        column = np.full(count, default, np.int64) if default else np.zeros(count, np.int64)
        if len(stat):
            self._wanted.append((stat, kinds, column, bit))
        return column

    def run(self) -> None:
        """Fills the columns. Raises CaptureError: see ``sizes``."""
        shares = range(0, len(self._rows), _SHARE)
        tasks = [lambda first=first: self._fill(slice(first, first + _SHARE)) for first in shares]
        self.any_odd |= any(self._workers.run(None, tasks))
        self._wanted.clear()
        for name, column, bit in self._sizes:
            if self.any_odd and (((self.odd & bit) != 0) & (column < 0) & ((self.recorded & bit) != 0)).any():
                raise CaptureError(f"{name} of an event is beyond 63 bits")
        for numbers, bit in self._doubles:
            endless = np.isinf(numbers)
            if endless.any():
                numbers[endless] = np.nan
            none = np.isnan(numbers)
            if none.any():
                self.recorded[none] &= np.uint16(0xFFFF ^ bit)

    def _fill(self, share: slice) -> bool:
        """Whether there is anything odd. Shares have places of their own."""
        rows, place = self._rows[share], self._place[share]
        odd = False
        for stat, kinds, column, bit in self._wanted:
            stats = (stat.rows, stat.kind, stat.value)
            odd |= stat_beside(*stats, rows, place, kinds, column, self.recorded, self.odd, bit, kinds is _DOUBLES)
        return odd and bool(self.odd.any())
