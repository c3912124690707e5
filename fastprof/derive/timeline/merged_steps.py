"""Lines of steps of TPUs as XProf shows them: without steps of no group, and with those of a group that follow each
other as one."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from fastprof.derive.host import Host
from fastprof.derive.ops.stat_values import stat_beside, stat_places
from fastprof.derive.steps.device_steps import STEP_LINES, device_times
from fastprof.schema.array_types import Int32s, Int64s
from fastprof.schema.value_classes import dataclass
from fastprof.tables.host_events import HostEvents, Line

_IDLE, _OFFSET, _DURATION = "step_idle_time_ps", "device_offset_ps", "device_duration_ps"


@dataclass(frozen=True, slots=True)
class MergedSteps:
    """``removed``: rows that are not shown. ``rows``: those that are, with the ``group`` and ``duration_ps`` that they
    get. ``args``: stats that are set, by name: rows and int64 values."""

    removed: Int64s
    rows: Int64s
    group: Int32s
    duration_ps: Int64s
    args: dict[str, tuple[Int64s, Int64s]]

    @classmethod
    def none(cls) -> MergedSteps:
        rows = np.zeros(0, np.int64)
        return cls(rows, rows, np.zeros(0, np.int32), rows, {})


def merged_steps(host: Host) -> MergedSteps:
    parts = []
    if not host.groups.vetoed:
        for plane in host.forest.tpu_planes:
            for line in plane.lines:
                if line.name in STEP_LINES and (host.groups.group_id[line.first : line.last] >= 0).any():
                    parts.append(_of_line(host, line))
    if not parts:
        return MergedSteps.none()
    args = {}
    for name in (_IDLE, _OFFSET, _DURATION):
        rows, values = zip(*(part.args[name] for part in parts), strict=True)
        args[name] = np.concatenate(rows), np.concatenate(values)
    return MergedSteps(
        np.concatenate([part.removed for part in parts]), np.concatenate([part.rows for part in parts]),
        np.concatenate([part.group for part in parts]), np.concatenate([part.duration_ps for part in parts]), args,
    )  # fmt: skip


def _of_line(host: Host, line: Line) -> MergedSteps:
    """Of a line with steps of groups."""
    events = host.raw
    rows = np.arange(line.first, line.last)
    groups = host.groups.group_id[rows]
    fresh = np.append(True, groups[1:] != groups[:-1])
    first = np.flatnonzero(fresh)
    last = np.append(first[1:], len(rows)) - 1
    known = groups[first] >= 0
    end = events.start_ps[rows[last]] + events.duration_ps[rows[last]]
    kept = rows[first[known]]
    removed = np.setdiff1d(rows, kept)
    args = {
        _IDLE: (kept, _idle(events, rows, first, known)),
        **_on_device(events, rows, first[known], last[known]),
    }
    return MergedSteps(removed, kept, groups[first[known]], end[known] - events.start_ps[kept], args)


def _idle(events: HostEvents, rows: Int64s, first: npt.NDArray[Any], known: npt.NDArray[np.bool_]) -> Int64s:
    """The idle time of each step. One that records none has that of the step before, as in XProf."""
    at, values = events.ints(_IDLE)
    has, _ = stat_places(at, rows)
    sums = np.add.reduceat(stat_beside(at, values, rows, 0), first)
    if not has.any() or has[first[known]].all():
        return sums[known]
    carried, found = 0, []
    for is_step, is_recorded, total in zip(known.tolist(), has[first].tolist(), sums.tolist(), strict=True):
        carried = 0 if not is_step else total if is_recorded else carried + total
        if is_step:
            found.append(carried)
    return np.array(found, np.int64)


def _on_device(
    events: HostEvents, rows: Int64s, first: npt.NDArray[Any], last: npt.NDArray[Any]
) -> dict[str, tuple[Int64s, Int64s]]:
    """When steps that are made of several ran by the device's clock, if the first of them records it."""
    several = last > first
    for name in (_OFFSET, _DURATION):
        has, _ = stat_places(events.ints(name)[0], rows[first])
        several &= has
    kept = rows[first[several]]
    if not len(kept):
        return {_OFFSET: (kept, kept), _DURATION: (kept, kept)}
    start, duration = device_times(events, rows)
    begin = np.minimum.reduceat(start, first)
    end = np.maximum.reduceat(start + duration, first)
    return {_OFFSET: (kept, begin[several]), _DURATION: (kept, (end - begin)[several])}
