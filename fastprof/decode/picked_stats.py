"""Stats that are picked by their name: one column a stat, from blocks that are filled side by side.

A block's picks come in columns of their own, which are used again for the next block. Where they go is known once all
blocks before are there: then they are copied, while others go on. How many there will be is guessed from the block that
a column begins with, since memory that is never written costs nothing; where the guess was too low, another column
follows.
"""

from __future__ import annotations

import threading

import numpy as np
import numpy.typing as npt

from fastprof._native.xspace import Memory, Picks, Sink
from fastprof.decode.text_pools import MergedTexts
from fastprof.schema.array_types import Int32s, Int64s
from fastprof.schema.value_classes import dataclass

Columns = tuple[Int32s, npt.NDArray[np.uint8], Int64s]
"""Rows, ascending, each once; what the values are; the values."""


@dataclass(slots=True)
class _Stretch:
    columns: Columns
    count: int = 0

    @property
    def room(self) -> int:
        return len(self.columns[0]) - self.count

    def written(self) -> Columns:
        """The columns without what was never written of them, which goes back to the system."""
        for column in self.columns:
            column.resize(self.count, refcheck=False)
        return self.columns


class PickedStats:
    """``stat_count`` stats of ``rows`` events; each block adds some."""

    def __init__(self, stat_count: int, rows: int, texts: MergedTexts) -> None:
        self.own_numbers: list[Int32s | None] = []
        """What the own texts of each block are called among all."""
        self._stat_count = stat_count
        self._to_come = rows
        self._texts = texts
        self._stretches: list[list[_Stretch]] = [[] for _ in range(stat_count)]
        self._waiting: dict[int, tuple[int, Sink]] = {}
        self._unused: list[Picks] = []
        self._lock = threading.Lock()

    def unused(self, memory: Memory) -> Picks:
        """Columns for a block to write into."""
        with self._lock:
            for i, picks in enumerate(self._unused):
                if picks.memory is memory:
                    return self._unused.pop(i)
        return Picks(memory, self._stat_count)

    def add(self, number: int, rows: int, sink: Sink) -> None:
        """Takes the picks of block ``number``, which has ``rows`` events; blocks may come in any order."""
        places = []
        with self._lock:
            self._waiting[number] = (rows, sink)
            while (following := len(self.own_numbers)) in self._waiting:
                places.append(self._place(*self._waiting.pop(following)))
        for picks, own_numbers, stretches in places:
            for stat, (columns, at) in stretches.items():
                picks.copy(stat, at, *columns, own_numbers, self._texts.base)
            picks.clear()
            with self._lock:
                self._unused.append(picks)

    def _place(self, rows: int, sink: Sink) -> tuple[Picks, Int32s | None, dict[int, tuple[Columns, int]]]:
        """Where the picks of the next block go, by stat."""
        assert sink.picks is not None
        self._to_come -= rows
        self.own_numbers.append(self._texts.add(sink))
        places = {}
        for stat, count in enumerate(sink.picks.counts()):
            if not count:
                continue
            stretches = self._stretches[stat]
            if not stretches or stretches[-1].room < count:
                stretches.append(self._stretch(count, rows))
            places[stat] = (stretches[-1].columns, stretches[-1].count)
            stretches[-1].count += count
        return sink.picks, self.own_numbers[-1], places

    def _stretch(self, count: int, rows: int) -> _Stretch:
        """Room for what ``rows`` events have, and for what those to come have if they are alike."""
        likely = min(self._to_come, self._to_come * count * 9 // (rows * 8))
        try:
            return _Stretch(_empty(count + likely))
        except MemoryError:
            return _Stretch(_empty(count))

    def columns(self) -> list[Columns]:
        """All values by stat, once all blocks are there."""
        assert not self._waiting
        return [_joined(stretches) for stretches in self._stretches]


def _empty(count: int) -> Columns:
    return np.empty(count, np.int32), np.empty(count, np.uint8), np.empty(count, np.int64)


def _joined(stretches: list[_Stretch]) -> Columns:
    parts = [one.written() for one in stretches] or [_empty(0)]
    if len(parts) == 1:
        return parts[0]
    rows, kinds, values = zip(*parts, strict=True)
    return np.concatenate(rows), np.concatenate(kinds), np.concatenate(values)
