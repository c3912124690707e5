"""Ranks of a program of PyTorch: how many it has, and which of their collectives are one.

Traces of ranks count time from Unix epoch. Collectives of one kind and size belong together if they go on at once:
nobody is done before the last one has come. Their order shows nothing: ranks may begin to record at different ones.

    rank 0   |-all_to_all-|       |----all_to_all----|
    rank 1                           |--all_to_all---|      |-all_to_all-|
    met      |     alone      |   |      together    |      |    alone   |
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

import numpy as np

from fastprof.schema.array_types import Int32s, Int64s
from fastprof.tables.host_events import HostEvents

_ENVIRONMENT: Final = "Task Environment"
_MOST: Final = 1 << 24


def rank_count(events: HostEvents) -> int | None:
    """Of the program, as its process groups record it; None: not recorded."""
    return _recorded(events, "world_size", 1)


def rank_of(events: HostEvents) -> int | None:
    """The host's; None: not recorded."""
    return _recorded(events, "rank", 0)


def _recorded(events: HostEvents, name: str, least: int) -> int | None:
    plane = events.plane_named(_ENVIRONMENT)
    try:
        info = json.loads(str(plane.stats.get("distributedInfo")) if plane is not None else "null")
    except (ValueError, RecursionError):
        return None
    value = info.get(name) if isinstance(info, dict) else None
    return value if isinstance(value, int) and not isinstance(value, bool) and least <= value < _MOST else None


def zero_ns(events: HostEvents) -> int | None:
    """What times count from, in nanoseconds since Unix epoch; None: not recorded, or of no use."""
    plane = events.plane_named(_ENVIRONMENT)
    value = None if plane is None else plane.stats.get("zero_ns")
    return value if isinstance(value, int) and 0 <= value < 2**63 else None


def offsets_ps(zeros_ns: Sequence[int | None]) -> list[int] | None:
    """By how much the times of each host have to move to count from one moment; None: unknown, or more than a day."""
    known = [one for one in zeros_ns if one is not None]
    if len(known) < max(len(zeros_ns), 2) or max(known) - min(known) > 86_400 * 10**9:
        return None
    return [(one - min(known)) * 1000 for one in known]


def at_once(series: Int64s, device: Int32s, begin_ps: Int64s, end_ps: Int64s) -> Int64s:
    """A number for each occurrence, equal for those of a series that go on at once on different devices."""
    order = np.lexsort((end_ps, begin_ps, series)).tolist()
    number, count, members = np.zeros(len(order), np.int64), -1, set[int]()
    of, until = None, 0
    rows = zip(series[order].tolist(), device[order].tolist(), begin_ps[order].tolist(), end_ps[order].tolist(),
               strict=True)  # fmt: skip
    for place, (one, here, begin, end) in zip(order, rows, strict=True):  # a row is a collective of a device
        if one != of or begin > until or here in members:
            count, members, of, until = count + 1, set(), one, end
        members.add(here)
        until = min(until, end)
        number[place] = count
    return number
