"""What the streams of GPUs do over time: how many launched kernels wait on each, and at what bandwidth copies run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from fastprof.derive.ops.streams.stream_copies import copies_of
from fastprof.derive.ops.streams.stream_events import Streams, streams_of
from fastprof.derive.ops.streams.stream_queues import Series as Points
from fastprof.derive.ops.streams.stream_queues import queue_lengths
from fastprof.derive.timeline.counter_tracks import Series
from fastprof.derive.timeline.track_order import Process
from fastprof.tables.host_events import HostEvents


def stream_counters(events: HostEvents, processes: Sequence[Process]) -> list[Series]:
    """The queue of each stream, and the bandwidth of each kind of copies of a GPU. ``processes``: those of the host."""
    streams = streams_of(events)
    process_of = {one.plane.number: one for one in processes}
    return [*_queues(streams, process_of), *_bandwidths(events, streams, process_of)]


def _queues(streams: Streams, process_of: dict[int, Process]) -> Iterator[Series]:
    series = queue_lengths(streams.events)
    for stream in np.unique(series.of).tolist():
        line, part = streams.lines[stream], series.part(stream)
        last = _last_of_times(series, part)
        length = series.value[part][last].astype(np.int64)
        yield Series(
            process_of[line.plane.number], f"queue length: {line.name.strip()}", "", series.time_ps[part][last], length
        )


def _bandwidths(events: HostEvents, streams: Streams, process_of: dict[int, Process]) -> Iterator[Series]:
    for plane, mine in streams.of_planes():
        copies = copies_of(events, mine)
        series = copies.bandwidths()
        for number, kind in enumerate(copies.kinds):
            if np.isfinite(copies.gbps[copies.of == number]).any():
                part = series.part(number)
                last = _last_of_times(series, part)
                times, gbps = series.time_ps[part][last], series.value[part][last]
                yield Series(process_of[plane], f"bandwidth: {kind}", "GB/s", times, gbps)


def _last_of_times(series: Points, part: slice) -> npt.NDArray[Any]:
    """The last point of each time, which has the value that holds from then on."""
    return np.flatnonzero(np.append(np.diff(series.time_ps[part]) != 0, True))
