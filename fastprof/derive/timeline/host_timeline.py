"""What a trace viewer shows of a host: processes, their tracks, and the events of these, as columns."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from fastprof.derive.host import Host
from fastprof.derive.timeline.track_order import Process, Track, processes_of, raw_tracks
from fastprof.schema.array_types import Int32s, Int64s
from fastprof.schema.value_classes import dataclass
from fastprof.tables.host_events import HostEvents
from fastprof.tables.once import once


@dataclass(slots=True, eq=False)
class HostTimeline:
    """Columns by row. ``start_ps``, ``duration_ps``: int64. ``name``: int32, the place in ``names``; equal names have
    equal numbers. ``tracks`` name their rows; rows of a raw timeline are those of the host's events."""

    host: str
    processes: list[Process]
    tracks: list[Track]
    start_ps: Int64s
    duration_ps: Int64s
    name: Int32s
    names: list[str]

    def __len__(self) -> int:
        return len(self.start_ps)


def raw_timeline(host: Host) -> HostTimeline:
    """The lines of the capture. Takes no stats and no groups; rows are those of ``host.raw``."""
    events = host.raw
    processes = processes_of(events)
    of_meta, names = shown_names(events)
    name: Int32s = of_meta[events.meta]
    return HostTimeline(
        events.host, processes, raw_tracks(events, processes), events.start_ps, events.duration_ps, name, names
    )


@once
def shown_names(events: HostEvents) -> tuple[Int32s, list[str]]:
    """The number of the name of events of each row of metadata, the last for -1: no metadata; and the distinct names by
    number."""
    number: dict[str, int] = {}
    pairs = zip(events.display_names, events.names, strict=True)
    return numbers_of((shown or name for shown, name in pairs), number), list(number)


def numbers_of(names: Iterable[str], number: dict[str, int]) -> Int32s:
    """The number of each name; new ones are numbered in the order in which they come."""
    return np.array([number.setdefault(name, len(number)) for name in names], np.int32)
