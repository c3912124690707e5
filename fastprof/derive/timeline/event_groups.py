"""The groups of a host's events as viewers show them, and their names: those of its steps, batches and requests."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from fastprof._native.step_kernels import placed
from fastprof.derive.host import Host
from fastprof.derive.steps.device_steps import MODULE_LINES, grouping_line, spread
from fastprof.derive.steps.event_types import KERNEL_EXECUTE, TF_OP
from fastprof.derive.timeline.merged_steps import MergedSteps, merged_steps
from fastprof.derive.timeline.track_order import is_grouped
from fastprof.schema.array_types import Int32s
from fastprof.schema.value_classes import dataclass


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


def event_groups(host: Host) -> EventGroups:
    """Of a host that was read with ``derived_lines.NEEDS``. A capture that is grouped already gets no other groups."""
    if is_grouped(host.raw):
        none, steps = np.full(len(host.raw), -1, np.int32), MergedSteps.none()
        return EventGroups(none, none.astype(np.int8), none[:0], [], steps)
    steps = merged_steps(host)
    return EventGroups(shown_groups(host), _eager(host), *_step_names(host, steps), steps)


def group_ids(host: Host) -> Int32s:
    """Only the ``group_id`` of ``event_groups``."""
    return np.full(len(host.raw), -1, np.int32) if is_grouped(host.raw) else shown_groups(host)


def shown_groups(host: Host) -> Int32s:
    """The group of each event, int32 by row, -1: none. Events of a TPU have that of the step they overlap, whatever
    the capture records; executions, if there are no steps, that of the one before if it ends as they begin."""
    events = host.raw
    found = host.groups.group_id
    if len(events.stat("group_id")):
        again = found.copy()
        spread(events, host.forest.tpu_planes, again)
        found = np.where(again >= 0, again, found)
    for plane in host.forest.tpu_planes:
        line = grouping_line(plane)
        if line is not None and line.name in MODULE_LINES:
            here = slice(line.first, line.last)
            begin, duration = events.start_ps[here], events.duration_ps[here]
            end, group = begin + duration, found[here].copy()
            shown = np.empty(len(begin), np.int32)
            placed(begin, end, np.maximum.accumulate(end), group, begin, duration, True, shown)
            if (shown[shown >= 0] != group[shown >= 0]).any():
                found = found.copy() if found is host.groups.group_id else found
                found[here] = np.where(shown >= 0, shown, group)
    return found


def _step_names(host: Host, steps: MergedSteps) -> tuple[Int32s, list[str]]:
    """Roots that users made, and steps of TPUs."""
    groups = host.groups
    numbers, place = np.unique(np.concatenate([groups.step_groups, steps.group]), return_inverse=True)
    names = groups.names_of(numbers)
    rows = np.concatenate([groups.step_rows, steps.rows])
    order = np.argsort(rows, kind="stable")
    return rows[order].astype(np.int32), [names[one] for one in place[order].tolist()]


def _eager(host: Host) -> npt.NDArray[np.int8]:
    """Ops and kernels; on TPUs only those on lines that mark steps."""
    found = np.full(len(host.raw), -1, np.int8)
    if host.groups.vetoed:
        return found
    types = host.forest.types
    counts = (types == KERNEL_EXECUTE) | (types == TF_OP)
    for plane in host.forest.tpu_planes:
        line = grouping_line(plane)
        here = counts[plane.first : plane.last].copy()
        counts[plane.first : plane.last] = False
        if line is not None:
            counts[line.first : line.last] = here[line.first - plane.first : line.last - plane.first]
    return np.where(counts, host.groups.is_eager.astype(np.int8), found)


class GroupTitles:
    """What some groups are called. It takes as long for one as for many, so they are looked up once. ``steps``: those
    without a name by the line of steps of TPUs, else by their number."""

    def __init__(self, host: Host, groups: Iterable[npt.NDArray[Any]], *, steps: bool = False) -> None:
        self.numbers = np.unique(np.concatenate([np.zeros(0, np.int32), *groups]))
        names = host.groups.step_names if steps else host.groups.names_of
        found = names(self.numbers) if len(self.numbers) else []
        self.titles = found[0] if isinstance(found, tuple) else found

    def of(self, groups: npt.NDArray[Any]) -> list[str]:
        return [self.titles[place] for place in np.searchsorted(self.numbers, groups).tolist()]


def name_overrides(host: Host) -> tuple[Int32s, list[str]]:
    """Events that trace viewers call by the name of the step that they are the root of: rows, ascending, and names."""
    groups = host.groups
    order = np.argsort(groups.step_rows, kind="stable")
    numbers, place = np.unique(groups.step_groups[order], return_inverse=True)
    names = groups.names_of(numbers)
    titles = [names[one] for one in place.reshape(-1).tolist()]
    rows = groups.step_rows[order]
    named = np.array([bool(title) for title in titles], bool)
    return rows[named], [title for title in titles if title]
