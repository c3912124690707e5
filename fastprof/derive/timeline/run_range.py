"""When a traced program ran, in a trace of PyTorch's profiler: an event of the profiler's own lasts from its start to
its stop, often much longer, and a picture of all of it is mostly empty.

    profiler  |----------------- PyTorch Profiler (0) -----------------|
    threads              |-- ProfilerStep#1 --|-- ProfilerStep#2 --|
    GPU                     |--- kernels ---|    |---- kernels ---|
    run                  |-----------------------------------------|
"""

from __future__ import annotations

from typing import Final

import numpy as np

from fastprof.derive.devices.kineto_categories import is_kineto, is_of
from fastprof.derive.steps.device_steps import is_derived
from fastprof.derive.steps.profiler_steps import step_marks
from fastprof.schema.time_sums import ends_of
from fastprof.tables.host_events import HostEvents

_OF_PROFILER: Final = frozenset({"trace"})
"""The category of the profiler's own events."""


def run_range(events: HostEvents) -> tuple[int, int] | None:
    """From the first begin to the last end of the marked steps and of what devices ran; without either, of all events
    but the profiler's own. None: the trace is not PyTorch's, or nothing ran. Takes no stats."""
    if not is_kineto(events):
        return None
    lines = [line for plane in events.planes_of("GPU") for line in plane.lines if not is_derived(line)]
    rows = np.concatenate([step_marks(events), *(np.arange(line.first, line.last) for line in lines)]).astype(np.int64)
    if not len(rows):
        rows = np.flatnonzero(~is_of(events, _OF_PROFILER)[events.meta])
    if not len(rows):
        return None
    start = events.start_ps[rows]
    return int(start.min()), int(ends_of(start, np.maximum(events.duration_ps[rows], 0)).max())
