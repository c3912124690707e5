"""Asynchronous ops are recorded in parts: one op starts what others update and another one ends.

The first operand of a part is the part before it: ``%copy-done.3 = f32[8] copy-done(%copy-start.3)``.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import numpy as np

from fastprof.hlo.shape_reader import read_expression
from fastprof.schema.array_types import Bools, Int64s

START, UPDATE, DONE = "-start", "-update", "-done"
PARTS: Final = (START, UPDATE, DONE)
"""The ends of opcodes of parts."""
ASYNC_LINE: Final = "Async XLA Ops"
"""The line on which a core records the time from start to end."""
_PLAIN: Final = ("send", "recv")
"""Ops that start something though their names have no ``-start``."""


@lru_cache(1 << 15)
def part_before(name: str, text: str) -> str:
    """The name of the op that starts what another one updates or ends: its operand, else made from its own name; "":
    it has neither."""
    read = read_expression(text) if text else None
    if read is not None and read.operands:
        return read.operands[0].name
    for ending in (DONE, UPDATE):
        before, found, serial = name.rpartition(ending)
        if found:
            return before + ("" if before in _PLAIN else START) + serial
    return ""


def before_each(key: Int64s, time: Int64s, begins: Bools) -> Int64s:
    """For each row that begins nothing the row that begins it: the latest of its key, unless another row that begins
    nothing is between them; -1: none."""
    order = np.lexsort((time, key))
    after, before = order[1:], order[:-1]
    pairs = ~begins[after] & begins[before] & (key[after] == key[before])
    found = np.full(len(key), -1, np.int64)
    found[after[pairs]] = before[pairs]
    return found
