"""Time of devices by the kinds of kernels that run at once, and idle time of streams by what they waited for.

    stream 7   |--- compute ---|      |---- compute ----|
    stream 20        |---- collective ----|
    both       compute|  both  |  coll.| both|  compute |

A stream that is idle waits for the host if the call that launches its next kernel had not begun when the last one
ended; else for a kernel, if the break is so short that it is the time from one kernel to the next; else for something
else, such as an event of another stream.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from fastprof.derive.ops.streams.stream_events import COMMUNICATION, COMPUTE, KINDS, StreamEvents
from fastprof.derive.steps.stretches import filled, union
from fastprof.schema.array_types import Int64s, UInt8s
from fastprof.schema.value_classes import dataclass

HOST_WAIT, KERNEL_WAIT, OTHER = range(3)
WAITS: Final = ("host wait", "kernel wait", "other")


@dataclass(frozen=True, slots=True)
class DeviceTimes:
    """Of a device, picoseconds. ``window``: from its first begin to its last end; ``busy``: in which anything ran;
    ``kinds``: of each kind; ``hidden``: of collectives, in which something computed as well; ``sets``: by the kinds
    that ran at once, a bit each."""

    window: int
    busy: int
    kinds: tuple[int, ...]
    hidden: int
    sets: dict[int, int]


def device_times(start: Int64s, end: Int64s, kind: UInt8s) -> DeviceTimes:
    """Of the events of one device, at least one."""
    duration = end - start
    unions = [union(start[kind == one], duration[kind == one]) for one in range(len(KINDS))]
    of_kind = tuple(int((ends - begins).sum()) for begins, ends in unions)
    begins, ends = union(start, duration)
    collectives = unions[COMMUNICATION]
    hidden = int(filled(unions[COMPUTE], collectives[0], collectives[1] - collectives[0]).sum())
    window = int(end.max()) - int(start.min())
    return DeviceTimes(window, int((ends - begins).sum()), of_kind, hidden, _by_set(unions))


def _by_set(unions: list[tuple[Int64s, Int64s]]) -> dict[int, int]:
    """Time by the set of kinds that run: where a kind begins its bit is added, where it ends it is taken away."""
    time = np.concatenate([side for pair in unions for side in pair])
    change = np.concatenate(
        [np.full(len(pair[0]), sign << bit, np.int64) for bit, pair in enumerate(unions) for sign in (1, -1)]
    )
    order = np.argsort(time, kind="stable")
    running = np.cumsum(change[order])[:-1]
    lasted = np.diff(time[order])
    sums = {one: int(lasted[running == one].sum()) for one in range(1, 1 << len(unions))}
    return {one: total for one, total in sums.items() if total}


def set_name(kinds: int) -> str:
    """The kinds that run at once, in words."""
    return " and ".join(name for bit, name in enumerate(KINDS) if kinds >> bit & 1)


@dataclass(frozen=True, slots=True)
class Breaks:
    """Between two kernels of a stream. ``stream``: that of the kernels; ``idle_ps``: from the end of all before to the
    begin of the next, at least 0; ``wait``: what the stream waited for."""

    stream: Int64s
    idle_ps: Int64s
    wait: UInt8s


def breaks(events: StreamEvents, short_ps: int) -> Breaks:
    """``short_ps``: a shorter break is the time from one kernel to the next."""
    order = np.lexsort((events.start_ps, events.stream))
    stream, start, end = events.stream[order].astype(np.int64), events.start_ps[order], events.end_ps[order]
    same = stream[1:] == stream[:-1]
    before = _latest_end(stream, end)[:-1]
    idle = np.maximum(start[1:] - before, 0)
    call = events.call[order][1:]
    host = (call >= 0) & (events.call_ps[order][1:] > before)
    wait = np.where(host, HOST_WAIT, np.where(idle < short_ps, KERNEL_WAIT, OTHER)).astype(np.uint8)
    return Breaks(stream[1:][same], idle[same], wait[same])


def _latest_end(stream: Int64s, end: Int64s) -> Int64s:
    """By event, the latest end of its stream so far. Streams are in order."""
    found = end.copy()
    for part in np.split(found, np.flatnonzero(stream[1:] != stream[:-1]) + 1):
        np.maximum.accumulate(part, out=part)
    return found
