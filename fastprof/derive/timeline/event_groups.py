"""Event groups as viewers show them: their names, TPU step lines, and steps as bands over a timeline."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from fastprof._native.step_kernels import placed
from fastprof.derive.host import Host
from fastprof.derive.steps.device_steps import find_executions, find_grouping_line, read_device_times, spread_groups
from fastprof.derive.steps.event_graph import KERNEL_EXECUTE, TF_OP
from fastprof.derive.steps.grouping import Groups
from fastprof.derive.timeline.host_timeline import Process, is_grouped, list_processes
from fastprof.schema.columns import Int32s, Int64s, add_durations, find_present, join_values, number_values, sort_rows
from fastprof.schema.tables import make_texts
from fastprof.schema.value_classes import dataclass
from fastprof.tables.host_events import MODULE_LINES, STEP_LINES, HostEvents, Line

_IDLE, _OFFSET, _DURATION = "step_idle_time_ps", "device_offset_ps", "device_duration_ps"
_NAMES_AT_ONCE: Final = 1 << 16
_MOST_PIECES: Final = 16
"""Naming a few groups may take a pass over all events, so the number of pieces has a limit."""


def name_groups(groups: Groups, numbers: npt.NDArray[Any], *, steps: bool = False) -> pa.Array:
    """Return the names of groups as large strings. They are made in pieces, so that few are Python objects at a time.
    ``steps``: groups without a name have that of the TPU step line, else their number."""
    pieces, size = [make_texts([])], max(_NAMES_AT_ONCE, -(-len(numbers) // _MOST_PIECES))
    for first in range(0, len(numbers), size):
        piece = numbers[first : first + size]
        pieces.append(make_texts(groups.step_names(piece)[0] if steps else groups.names_of(piece)))
    return pa.concat_arrays(pieces)


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


def merge_steps(host: Host) -> MergedSteps:
    parts = []
    if not host.groups.vetoed:
        for plane in host.forest.tpu_planes:
            for line in plane.lines:
                if line.name in STEP_LINES and (host.groups.group_id[line.first : line.last] >= 0).any():
                    parts.append(_merge_line(host, line))
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


def _merge_line(host: Host, line: Line) -> MergedSteps:
    """Merge a line with steps of groups."""
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
        _IDLE: (kept, _find_idle_times(events, rows, first, known)),
        **_find_device_times(events, rows, first[known], last[known]),
    }
    return MergedSteps(removed, kept, groups[first[known]], end[known] - events.start_ps[kept], args)


def _find_idle_times(events: HostEvents, rows: Int64s, first: npt.NDArray[Any], known: npt.NDArray[np.bool_]) -> Int64s:
    """Return the idle time of each step. One that records none has that of the step before, as in XProf."""
    at, values = events.ints(_IDLE)
    has, _ = find_present(at, rows)
    sums = np.add.reduceat(join_values(at, values, rows, 0), first)
    if not has.any() or has[first[known]].all():
        return sums[known]
    carried, idle = 0, []
    for is_step, is_recorded, total in zip(known.tolist(), has[first].tolist(), sums.tolist(), strict=True):
        carried = 0 if not is_step else total if is_recorded else carried + total
        if is_step:
            idle.append(carried)
    return np.array(idle, np.int64)


def _find_device_times(
    events: HostEvents, rows: Int64s, first: npt.NDArray[Any], last: npt.NDArray[Any]
) -> dict[str, tuple[Int64s, Int64s]]:
    """Return device clock times of steps that are made of several, if the first of them records it."""
    several = last > first
    for name in (_OFFSET, _DURATION):
        has, _ = find_present(events.ints(name)[0], rows[first])
        several &= has
    kept = rows[first[several]]
    if not len(kept):
        return {_OFFSET: (kept, kept), _DURATION: (kept, kept)}
    start, duration = read_device_times(events, rows)
    begin = np.minimum.reduceat(start, first)
    end = np.maximum.reduceat(start + duration, first)
    return {_OFFSET: (kept, begin[several]), _DURATION: (kept, (end - begin)[several])}


@dataclass(frozen=True, slots=True)
class EventGroups:
    """Rows are those of the host's events.

    ``group_id``   int32 by row, -1: none
    ``is_eager``   int8 by row, -1: not known
    ``step_rows``, ``step_names``  events that are called by the name of their step
    ``steps``      the lines of steps of TPUs as they are shown
    """

    group_id: Int32s
    is_eager: npt.NDArray[np.int8]
    step_rows: Int32s
    step_names: list[str]
    steps: MergedSteps


def read_event_groups(host: Host) -> EventGroups:
    """Read the event groups of a host that was read with ``derived_lines.NEEDS``. A capture that is grouped already
    gets no other groups."""
    if is_grouped(host.raw):
        none, steps = np.full(len(host.raw), -1, np.int32), MergedSteps.none()
        return EventGroups(none, none.astype(np.int8), none[:0], [], steps)
    steps = merge_steps(host)
    return EventGroups(find_shown_groups(host), _mark_eager(host), *_list_step_names(host, steps), steps)


def read_group_ids(host: Host) -> Int32s:
    """Read only the ``group_id`` of ``read_event_groups``."""
    return np.full(len(host.raw), -1, np.int32) if is_grouped(host.raw) else find_shown_groups(host)


def find_shown_groups(host: Host) -> Int32s:
    """Return the group of each event, int32 by row, or -1 if there is none. Events of a TPU have that of the step they
    overlap, whatever the capture records; executions, if there are no steps, that of the one before if it ends as they
    begin."""
    events = host.raw
    group_id = host.groups.group_id
    if len(events.stat("group_id")):
        again = group_id.copy()
        spread_groups(events, host.forest.tpu_planes, again)
        group_id = np.where(again >= 0, again, group_id)
    for plane in host.forest.tpu_planes:
        line = find_grouping_line(plane)
        if line is not None and line.name in MODULE_LINES:
            here = slice(line.first, line.last)
            begin, duration = events.start_ps[here], events.duration_ps[here]
            end, group = begin + duration, group_id[here].copy()
            shown = np.empty(len(begin), np.int32)
            placed(begin, end, np.maximum.accumulate(end), group, begin, duration, True, shown)
            if (shown[shown >= 0] != group[shown >= 0]).any():
                group_id = group_id.copy() if group_id is host.groups.group_id else group_id
                group_id[here] = np.where(shown >= 0, shown, group)
    return group_id


def _list_step_names(host: Host, steps: MergedSteps) -> tuple[Int32s, list[str]]:
    """List step names of roots that users made, and of TPU steps."""
    groups = host.groups
    numbers, place = number_values(np.concatenate([groups.step_groups, steps.group]))
    names = groups.names_of(numbers)
    rows = np.concatenate([groups.step_rows, steps.rows])
    order = np.argsort(rows, kind="stable")
    return rows[order].astype(np.int32), [names[number] for number in place[order].tolist()]


def _mark_eager(host: Host) -> npt.NDArray[np.int8]:
    """Mark eager ops and kernels; on TPUs only those on lines that mark steps."""
    unknown = np.full(len(host.raw), -1, np.int8)
    if host.groups.vetoed:
        return unknown
    types = host.forest.types
    counts = (types == KERNEL_EXECUTE) | (types == TF_OP)
    for plane in host.forest.tpu_planes:
        line = find_grouping_line(plane)
        here = counts[plane.first : plane.last].copy()
        counts[plane.first : plane.last] = False
        if line is not None:
            counts[line.first : line.last] = here[line.first - plane.first : line.last - plane.first]
    return np.where(counts, host.groups.is_eager.astype(np.int8), unknown)


class GroupTitles:
    """Names of groups, looked up once for all of ``groups``. ``steps``: as in ``name_groups``."""

    def __init__(self, host: Host, groups: Iterable[npt.NDArray[Any]], *, steps: bool = False) -> None:
        self.numbers = np.unique(np.concatenate([np.zeros(0, np.int32), *groups]))
        self.titles = name_groups(host.groups, self.numbers, steps=steps)

    def of(self, groups: npt.NDArray[Any]) -> pa.Array:
        return self.titles.take(pa.array(np.searchsorted(self.numbers, groups)))


def find_name_overrides(host: Host) -> tuple[Int32s, pa.Array]:
    """Return the rows of root events that viewers show under the name of their step, ascending, and these names."""
    groups = host.groups
    order = np.argsort(groups.step_rows, kind="stable")
    numbers, place = number_values(groups.step_groups[order])
    names = name_groups(groups, numbers)
    named = np.asarray(pc.binary_length(names))[place] > 0
    return groups.step_rows[order][named], names.take(pa.array(place[named]))


@dataclass(frozen=True, slots=True)
class StepBand:
    """Steps of a device, or of the host if ``process`` is None, in order of time. ``group``: the number of the
    group, equal on all bands of the host; ``name``: places in ``names``, large strings."""

    process: Process | None
    start_ps: Int64s
    duration_ps: Int64s
    group: Int32s
    name: Int32s
    names: pa.Array

    def __len__(self) -> int:
        return len(self.start_ps)


def list_step_bands(host: Host) -> list[StepBand]:
    """Return the step bands of a host and of its devices. The host band has the outermost root events."""
    groups = host.groups
    known = np.flatnonzero(groups.root_rows >= 0).astype(np.int32)
    if len(known):
        rows = groups.root_rows[known]
    else:  # a capture that was grouped before records which events have the names of steps
        on_host = np.zeros(len(groups.step_rows), bool)
        for plane in host.raw.planes:
            if plane.kind == "CPU":
                on_host |= (groups.step_rows >= plane.first) & (groups.step_rows < plane.last)
        rows, known = groups.step_rows[on_host], groups.step_groups[on_host].astype(np.int32)
    start, duration = host.raw.start_ps[rows], host.raw.duration_ps[rows]
    order = sort_rows(start, -duration)
    start, duration, known = start[order], duration[order], known[order]
    end = start + duration
    outer = np.ones(len(start), bool)
    outer[1:] = end[1:] > np.maximum.accumulate(end)[:-1]
    titles = GroupTitles(host, [known, *(steps.group_id for steps in groups.device_steps.values())], steps=True)
    bands = [_make_band(titles, None, start[outer], duration[outer], known[outer])]
    for process in list_processes(host.raw):
        steps = groups.device_steps.get(process.plane.number)
        if steps is not None:
            bands.append(_make_band(titles, process, steps.start_ps, steps.duration_ps, steps.group_id))
    return [band for band in bands if len(band)]


def find_step_range(host: Host, bands: Sequence[StepBand]) -> tuple[int, int] | None:
    """Return the begin of the first step and the end of the last, or None if there are no steps. On a host without
    devices the work that the steps launched ends them."""
    if not bands:
        return None
    begin = min(int(band.start_ps.min()) for band in bands)
    end = max(int(add_durations(band.start_ps, np.maximum(band.duration_ps, 0)).max()) for band in bands)
    runs = [] if host.groups.device_steps else find_executions(host.raw)
    ends = [int(of_plane.end_ps[of_plane.begin_ps >= begin].max(initial=end)) for of_plane in runs]
    return begin, max(ends, default=end)


def _make_band(
    titles: GroupTitles, process: Process | None, start: Int64s, duration: Int64s, group: Int32s
) -> StepBand:
    numbers, place = number_values(group)
    return StepBand(process, start, duration, group, place.astype(np.int32), titles.of(numbers))
