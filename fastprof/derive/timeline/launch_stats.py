"""The line of launches that XProf derives for a GPU: of each step, from the first launch of a kernel to the last."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from fastprof.derive.host import Host
from fastprof.derive.ops.stat_values import stat_places
from fastprof.derive.steps.device_steps import is_derived
from fastprof.derive.timeline.derived_track import Arg, DerivedTrack, rows_of
from fastprof.derive.timeline.event_groups import GroupTitles
from fastprof.derive.timeline.plane_names import PlaneNames
from fastprof.derive.timeline.track_order import Process
from fastprof.schema.array_types import Int64s
from fastprof.tables.host_events import HOST_THREADS

TID: Final = 0xDEADBEF0
_DRIVER: Final = "cu"
_PS_PER_US: Final = 1e6


def launch_stats(host: Host, gpus: Sequence[Process], names: Mapping[int, PlaneNames]) -> list[DerivedTrack]:
    """Of the events of the host's threads, but not of the driver, that launched something on a GPU for a step. Which
    GPU is known by its place among those of the host."""
    device, value = host.raw.ints("device_id")
    ordered = sorted(gpus, key=lambda process: process.plane.number)
    rows = _launches(host)
    titles = GroupTitles(host, [host.groups.group_id[rows]])
    has, place = stat_places(device, rows)
    rows, number = rows[has], value[place]
    order = np.argsort(number, kind="stable")
    bounds = np.searchsorted(number[order], np.arange(len(ordered) + 1)).tolist()
    found = []
    for process, first, last in zip(ordered, bounds[:-1], bounds[1:], strict=True):
        if last > first:
            mine = rows[order[first:last]]
            found.append(_of_gpu(host, process, mine, names[process.plane.number], titles))
    return found


def _launches(host: Host) -> Int64s:
    """Launches that are of a step."""
    events = host.raw
    plane = events.plane_named(HOST_THREADS)
    if plane is None:
        return np.zeros(0, np.int64)
    rows = rows_of(line for line in plane.lines if not is_derived(line))
    has, _ = stat_places(events.ints("correlation_id")[0], rows)
    rows = rows[has]
    of_driver = np.array([name.startswith(_DRIVER) for name in events.names], bool)
    found: Int64s = rows[(host.groups.group_id[rows] >= 0) & ~of_driver[events.meta[rows]]]
    return found


def _of_gpu(host: Host, process: Process, rows: Int64s, names: PlaneNames, titles: GroupTitles) -> DerivedTrack:
    start, duration = host.raw.start_ps[rows], host.raw.duration_ps[rows]
    groups, group = np.unique(host.groups.group_id[rows], return_inverse=True)
    order = np.argsort(group, kind="stable")
    first = np.searchsorted(group[order], np.arange(len(groups)))
    begin = np.minimum.reduceat(start[order], first)
    end = np.maximum.reduceat((start + duration)[order], first)
    count = np.bincount(group)
    longest = np.maximum.reduceat(duration[order], first)
    mean = np.add.reduceat(duration[order], first) // count  # whole picoseconds, as XProf has it
    number = np.array(names.numbers([f"Launch Stats for {title}" for title in titles.of(groups)]), np.int64)
    every = np.arange(len(groups))
    args = [
        Arg("num_launches", every, count.astype(np.int64)),
        Arg("max_launch_time_us", every, longest / _PS_PER_US),
        Arg("avg_launch_time_us", every, mean / _PS_PER_US),
    ]
    columns = (begin, end - begin, number, groups.astype(np.int32))
    return DerivedTrack(process, TID, "Launch Stats", names, *columns, args=args)
