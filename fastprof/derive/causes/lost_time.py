"""Idle time of GPUs in which work ran whose records are lost: nothing shows that the GPU idled.

A GPU runs work in the order of its launches, so the work of a lost launch lies between those launched before and after.

    launches     a   b x   c        x: its kernel is not recorded
    GPU          |=a=|=b=|   ?   |=c=|
"""

from __future__ import annotations

import numpy as np

from fastprof.derive.ops.device_time import IS_IDLE, DeviceTime
from fastprof.derive.ops.launches import launches
from fastprof.schema.array_types import Int64s, Records
from fastprof.tables.host_events import HostEvents

_FIRST, _LAST = np.iinfo(np.int64).min, np.iinfo(np.int64).max


def in_lost_time(events: HostEvents, device: DeviceTime, pieces: Records, cause: int, lost_ps: Int64s) -> Records:
    """Return the pieces with ``cause`` where they are idle time with lost work. ``lost_ps``: when work was launched
    that is not recorded, ascending."""
    if device.ran.plane.kind != "GPU" or not len(lost_ps) or not len(pieces):
        return pieces
    idle = np.flatnonzero(device.state == IS_IDLE)
    launched, called = _launched(events, device)
    place = np.searchsorted(launched, device.end_ps[idle])
    before = np.append(_FIRST, np.maximum.accumulate(called))[place]
    after = np.minimum(np.append(called, _LAST)[place], device.end_ps[idle])
    some = np.searchsorted(lost_ps, after) > np.searchsorted(lost_ps, before, side="right")
    begins, ends = device.start_ps[idle[some]], device.end_ps[idle[some]]
    at = np.searchsorted(begins, pieces["begin"], side="right") - 1
    within = (at >= 0) & (pieces["end"] <= np.append(ends, _FIRST)[at])
    pieces = pieces.copy()
    pieces["cause"][within], pieces["row"][within] = cause, -1
    return pieces


def _launched(events: HostEvents, device: DeviceTime) -> tuple[Int64s, Int64s]:
    """Return when each event of the GPU began, in order, and when the call that launched it did: if that is not
    recorded, when the event began."""
    own = device.ran.events
    order = np.argsort(own.start_ps, kind="stable")
    begun = own.start_ps[order]
    call = launches(events, own.rows[order].astype(np.int64)).row
    return begun, np.where(call >= 0, events.start_ps[call], begun)
