"""What encloses each event on its line: found once, for groups, causes and pipelines."""

from __future__ import annotations

import numpy as np

from fastprof._native.grouping import parents
from fastprof.derive.steps.thread_pools import regions
from fastprof.schema.array_types import Int32s, UInt8s
from fastprof.tables.host_events import HostEvents, Plane
from fastprof.tables.once import once


@once
def enclosing(events: HostEvents) -> Int32s:
    """By row the event right around each, -1: none. Asynchronous events neither enclose nor are enclosed, nor do those
    of TPUs. What lies in a region of a thread pool lies in nothing that began before. Reads ``_a`` and ``_c``."""
    apart: UInt8s | None = None
    rows, values = events.ints("_a")
    if len(rows):
        apart = np.zeros(len(events), np.uint8)
        apart[rows[values != 0]] = 1
    for plane in tpu_planes(events):
        apart = np.zeros(len(events), np.uint8) if apart is None else apart
        apart[plane.first : plane.last] = 1
    parent = np.full(len(events), -1, np.int32)
    bounds = np.array([(line.first, line.last) for line in events.lines], np.int64).reshape(-1, 2)
    parents(events.start_ps, events.duration_ps, apart, regions(events), bounds, parent, events.slack_ps)
    parent.flags.writeable = False
    return parent


def tpu_planes(events: HostEvents) -> list[Plane]:
    return [plane for plane in events.planes if plane.name.startswith("/device:TPU:")]
