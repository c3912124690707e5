"""Order of GPU events and host calls: an event begins after the call that launched it, and ends before a later call
returns that waits for the device.

    host   |launch|        |==wait for device==|
    GPU             |==kernel==|
"""

from __future__ import annotations

import re
from typing import Final

import numpy as np

from fastprof.derive.ops.launches import known_calls
from fastprof.schema.array_types import Int32s, Int64s
from fastprof.schema.time_sums import ends_of
from fastprof.tables.host_events import HostEvents
from fastprof.wording.patterns import pattern_of

_WAITS: Final = pattern_of(r"^(cuda|hip)DeviceSynchronize$|^cuCtxSynchronize$", re.ASCII)


def before_calls(events: HostEvents) -> tuple[Int32s, Int64s]:
    """Return the rows of GPUs with a known call, and by how much each begins before it: negative if after."""
    rows, calls = known_calls(events)
    return rows, events.start_ps[calls] - events.start_ps[rows]


def after_waits(events: HostEvents) -> tuple[Int32s, Int64s]:
    """Return the rows of a GPU that a later call waited for, and by how much each ends after that call returned:
    negative if before. Of several GPUs, calls do not record which they wait for."""
    rows, calls = known_calls(events)
    used = [plane for plane in events.planes_of("GPU") if plane.last > plane.first]
    metas = [meta for meta, name in enumerate(events.names) if _WAITS.search(name)] if len(used) == 1 else []
    waits = np.flatnonzero(np.isin(events.meta, metas)) if metas and len(rows) else rows[:0]
    if not len(waits):
        return rows[:0], np.zeros(0, np.int64)
    waits = waits[np.argsort(events.start_ps[waits], kind="stable")]
    place = np.searchsorted(events.start_ps[waits], events.start_ps[calls], side="right")
    waited = place < len(waits)
    rows, wait = rows[waited], waits[place[waited]]
    ends = ends_of(events.start_ps[rows], np.maximum(events.duration_ps[rows], 0))
    return rows, ends - ends_of(events.start_ps[wait], np.maximum(events.duration_ps[wait], 0))
