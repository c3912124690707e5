"""Collectives as devices of several hosts have them, a row each time that one takes part."""

from __future__ import annotations

from dataclasses import field

import numpy as np

from fastprof.schema.array_types import Bools, Int32s, Int64s
from fastprof.schema.value_classes import dataclass


@dataclass(frozen=True, slots=True)
class Occurrences:
    """Rows of one device, op and step follow each other, by begin. ``device``: number among those of all hosts;
    ``op``: among the operations of all; ``step``: -1: none; ``size``: only of ranks of PyTorch, else empty;
    ``waited``: empty if none is."""

    host: Int32s
    device: Int32s
    op: Int32s
    team: Int32s
    step: Int64s
    begin_ps: Int64s
    end_ps: Int64s
    duration_ps: Int64s
    blocks: Bools
    size: Int64s
    waited: Bools = field(default_factory=lambda: np.zeros(0, np.bool_))

    def take(self, rows: Int64s | Bools | slice) -> Occurrences:
        columns = (getattr(self, name) for name in self.__slots__)
        return Occurrences(*(column[rows] if len(column) else column for column in columns))

    def __len__(self) -> int:
        return len(self.op)
