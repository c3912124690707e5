"""Steps as bands over a timeline: those of the host, and those of each device that has some."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fastprof.derive.host import Host
from fastprof.derive.timeline.event_groups import GroupTitles
from fastprof.derive.timeline.track_order import Process, processes_of
from fastprof.schema.array_types import Int32s, Int64s
from fastprof.schema.value_classes import dataclass


@dataclass(frozen=True, slots=True)
class StepBand:
    """Steps of a device, or of the host if ``process`` is None, in order of time. ``group``: the number of the
    group, equal on all bands of the host; ``name``: places in ``names``."""

    process: Process | None
    start_ps: Int64s
    duration_ps: Int64s
    group: Int32s
    name: Int32s
    names: list[str]

    def __len__(self) -> int:
        return len(self.start_ps)


def step_bands(host: Host) -> list[StepBand]:
    """The host's band has the events that steps begin with, of those in each other the outermost."""
    groups = host.groups
    known = np.flatnonzero(groups.root_rows >= 0).astype(np.int32)
    if len(known):
        rows = groups.root_rows[known]
    else:  # a capture that was grouped before records which events have the names of steps
        on_host = _on_host(host, groups.step_rows)
        rows, known = groups.step_rows[on_host], groups.step_groups[on_host].astype(np.int32)
    start, duration = host.raw.start_ps[rows], host.raw.duration_ps[rows]
    order = np.lexsort((-duration, start))
    start, duration, known = start[order], duration[order], known[order]
    end = start + duration
    outer = np.ones(len(start), bool)
    outer[1:] = end[1:] > np.maximum.accumulate(end)[:-1]
    titles = GroupTitles(host, [known, *(steps.group_id for steps in groups.device_steps.values())], steps=True)
    bands = [_band(titles, None, start[outer], duration[outer], known[outer])]
    for process in processes_of(host.raw):
        steps = groups.device_steps.get(process.plane.number)
        if steps is not None:
            bands.append(_band(titles, process, steps.start_ps, steps.duration_ps, steps.group_id))
    return [band for band in bands if len(band)]


def _on_host(host: Host, rows: Int32s) -> npt.NDArray[np.bool_]:
    found = np.zeros(len(rows), bool)
    for plane in host.raw.planes:
        if plane.kind == "CPU":
            found |= (rows >= plane.first) & (rows < plane.last)
    return found


def _band(titles: GroupTitles, process: Process | None, start: Int64s, duration: Int64s, group: Int32s) -> StepBand:
    numbers, place = np.unique(group, return_inverse=True)
    return StepBand(process, start, duration, group, place.reshape(-1).astype(np.int32), titles.of(numbers))
