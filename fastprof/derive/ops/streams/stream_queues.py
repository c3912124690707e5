"""Queues of streams, launches and copies: how many kernels wait on a stream, how long after its call each begins, and
at what bandwidth copies run.

A queue grows where the host calls a launch, and shrinks where the kernel begins::

    host       | launch a | launch b | launch c |
    stream 7          |-- a --|-- b --|-- c --|
    queue      1      0  1    0  ...
"""

from __future__ import annotations

import numpy as np

from fastprof.derive.ops.streams.stream_events import StreamEvents
from fastprof.schema.array_types import Float64s, Int64s
from fastprof.schema.value_classes import dataclass


@dataclass(frozen=True, slots=True)
class Series:
    """Values that change at points of time, the points of one ``of`` together, in order of time."""

    of: Int64s
    time_ps: Int64s
    value: Float64s

    def part(self, number: int) -> slice:
        return slice(*np.searchsorted(self.of, [number, number + 1]).tolist())

    def lasted_ps(self, part: slice) -> Int64s:
        """How long each value of a part lasts; the last does not count."""
        return np.append(np.diff(self.time_ps[part]), 0).astype(np.int64)


def queue_lengths(events: StreamEvents) -> Series:
    """Return the number of kernels that are launched and have not begun, by stream, at each launch and each begin.
    Kernels that are not known to have been queued do not count. A launch comes before a begin of the same time."""
    stream = events.stream[events.queued].astype(np.int64)
    time = np.concatenate([events.call_ps[events.queued], events.start_ps[events.queued]])
    change = np.repeat([1, -1], [len(stream), len(stream)])
    of = np.concatenate([stream, stream])
    order = np.lexsort((-change, time, of))
    of, time, total = of[order], time[order], np.cumsum(change[order])
    return Series(of, time, total.astype(np.float64))  # each stream ends at 0, where the next begins


def bandwidths(of: Int64s, start: Int64s, end: Int64s, gbps: Float64s) -> Series:
    """The sum of the bandwidths of copies that run at once, by kind ``of`` copy. A copy without duration lasts a
    microsecond. One that begins as another ends does not run at once with it."""
    end = np.where(end == start, start + 1_000_000, end)
    time, change = np.concatenate([start, end]), np.concatenate([gbps, -gbps])
    running = np.repeat([1, -1], [len(start), len(end)])
    both = np.concatenate([of, of])
    order = np.lexsort((running, time, both))
    both, total = both[order], np.cumsum(change[order])
    total = np.where(np.cumsum(running[order]) > 0, total, 0.0)  # each kind ends at 0, where the next begins
    return Series(both, time[order], np.maximum(total, 0.0))


def launch_delays(events: StreamEvents) -> Int64s:
    """From the end of the call to the begin of what it launched, at least 0; of events whose call is known."""
    known = events.call >= 0
    delay: Int64s = np.maximum(events.start_ps[known] - events.call_end_ps[known], 0)
    return delay
