"""Hardware counters of the range profiler of CUPTI and the scope profiler of XPU, which PyTorch records as args of
ranges."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from fastprof._native import records
from fastprof.decode.plane_kinds import GPU_PLANES
from fastprof.tables.event_stats import Stat
from fastprof.tables.host_events import HostEvents

PROFILER_RANGE: Final = "profiler_range"
"""The stat of events that are ranges."""
COUNTER: Final = "counter of a range: "
"""How stats begin that ranges have only; the name of the counter follows."""
PLANES: Final = (GPU_PLANES,)
_NUMBERS: Final = (records.INT64, records.UINT64, records.DOUBLE)
_OTHERS: Final = frozenset(
    {PROFILER_RANGE, "device", "context", "stream", "correlation", "correlation_id", "external id", "cat", "queue"}
    | {"kernel_id"}
)
"""Args that are no counters."""


def add_range_counters(events: HostEvents, names: list[str], read: Callable[[tuple[str, ...]], list[Stat]]) -> None:
    """Add a stat for each counter. ``names``: all stats of the capture; ``read``: reads some of the events of GPUs."""
    lines = [line for line in events.lines if line.plane.kind == "GPU"]
    rows = np.concatenate(
        [np.zeros(0, np.int32), *(np.arange(line.first, line.last, dtype=np.int32) for line in lines)]
    )
    is_range = np.isin(rows, events.ints(PROFILER_RANGE)[0])
    chosen = tuple(name for name in names if name.lower() not in _OTHERS)
    for name, stat in zip(chosen, read(chosen), strict=True):
        values = stat.of_kinds(_NUMBERS)
        keep = is_range[values.rows]
        if keep.any():
            events.stats[COUNTER + name] = Stat(rows[values.rows[keep]], values.kind[keep], values.value[keep])
