"""When a TPU ran compiled programs, by the clock of the device.

Ops may record their times by two clocks: that of their line, which timelines show, and that of the device. Executions
record only the first, so their times by the second follow from those of their ops:

    line      |·[op][op                 ]··|       the clock of a line may run at another speed for a while
    device    |·[op][op        ]··|                the times before the first op and after the last are kept

An execution does not begin before the ops of those before it are done, nor end after the next begins.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fastprof.derive.devices.device_events import not_negative
from fastprof.schema.array_types import Int64s
from fastprof.schema.time_sums import ends_of
from fastprof.tables.host_events import HostEvents, beside

_MOST, _LEAST = 2**63 - 1, -(2**63)


def spans_of_executions(
    events: HostEvents, begin: Int64s, end: Int64s, parts: Sequence[tuple[Int64s, Int64s]]
) -> tuple[Int64s, Int64s]:
    """Begin and end by the clock of the device of executions that last from ``begin`` to ``end`` by that of their line,
    in order of time; ``parts``: rows of events in them, and the execution of each. The same where no event has another.
    """
    rows, of = (np.concatenate(column) for column in zip(*parts, strict=True))
    (has_offset, offset), (has_length, length) = (
        map(np.concatenate, zip(*(beside(some, *events.ints(stat)) for some, _ in parts), strict=True))
        for stat in ("device_offset_ps", "device_duration_ps")
    )
    both = has_offset & has_length
    if not both.any():
        return begin, end
    rows, of, offset, length = rows[both], of[both], offset[both], not_negative(length[both])
    start = events.start_ps[rows]
    first, last = _hull(of, start, ends_of(start, events.duration_ps[rows]), len(begin))
    own, own_end = _hull(of, offset, ends_of(offset, length), len(begin))
    known = np.zeros(len(begin), np.bool_)
    known[of] = True
    before = np.maximum.accumulate(np.where(known, np.arange(len(begin)), -1))
    at = np.flatnonzero(known)[:1]
    shift = np.where(before >= 0, own_end[before] - last[before], own[at] - first[at])
    begins = ends_of(begin, np.where(known, own - first, shift))
    ends = ends_of(end, np.where(known, own_end - last, shift))
    done = np.maximum.accumulate(np.append(_LEAST, np.where(known, own_end, _LEAST)[:-1]))
    ahead = np.minimum.accumulate(np.where(known, own, _MOST)[::-1])[::-1]
    begins = np.maximum.accumulate(np.minimum(np.maximum(begins, done), ahead))
    ends = np.minimum(ends, np.append(begins[1:], _MOST))
    return begins, np.maximum(ends, np.where(known, own_end, begins))


def _hull(of: Int64s, begin: Int64s, end: Int64s, count: int) -> tuple[Int64s, Int64s]:
    """The first begin and the last end in each execution."""
    first, last = np.full(count, _MOST), np.full(count, _LEAST)
    np.minimum.at(first, of, begin)
    np.maximum.at(last, of, end)
    return first, last
