"""Time in which no GPU of a host did anything, and the host waited for input.

GPUs record that they stood still, not why. Host threads that wait for input of the same step explain it: events that
host_step_events takes for waiting, except ops that pass the input on (``IteratorGetNext/_3:_Send``), as the rest of the
step may run inside these.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from fastprof.derive.steps.database import StepDatabase
from fastprof.derive.steps.gpu_step_events import GpuStepEvents
from fastprof.derive.steps.grouping import Groups
from fastprof.derive.steps.host_step_events import host_step_events
from fastprof.derive.steps.step_time import TypedEvents, time_by_type
from fastprof.derive.steps.time_types import DEVICE_COMPUTE_32, HOST_WAIT_INPUT, NO_TYPE, UNKNOWN_TIME
from fastprof.schema.array_types import Int64s
from fastprof.tables.host_events import HOST_THREADS, HostEvents, Plane

_STAGE: Final = "_ipl_stage_name"
_WAITS: Final = "iteratorgetnext"


def input_waits(database: StepDatabase, kernels: GpuStepEvents, events: HostEvents, groups: Groups) -> Int64s | None:
    """[n]: the unknown time of each step in which the host waited for input; None: it never did. ``kernels``: what the
    GPUs did."""
    waits = _waits(events, groups) if len(database) else None
    if waits is None:
        return None
    slot = np.full(groups.count + 1, -1, np.int32)
    slot[database.step] = np.arange(len(database), dtype=np.int32)
    busy = kernels.events
    both = _one_after_another(replace(busy, type=np.where(busy.type == NO_TYPE, NO_TYPE, DEVICE_COMPUTE_32)), waits)
    typed = replace(both, group=slot[both.group], type=both.type.astype(np.uint8))
    waited = time_by_type(typed, database.begin_ps[:, 0], database.duration_ps[:, 0]).within_ps[:, HOST_WAIT_INPUT]
    return np.minimum(waited, database.type_ps[:, 0, UNKNOWN_TIME]) if waited.any() else None


def with_input_waits(database: StepDatabase, waited: Int64s | None) -> StepDatabase:
    """The steps of a host's GPUs, with this part of their unknown time as waiting for input."""
    if waited is None:
        return database
    type_ps = database.type_ps.copy()
    type_ps[:, 0, HOST_WAIT_INPUT] += waited
    type_ps[:, 0, UNKNOWN_TIME] -= waited
    return replace(database, type_ps=type_ps)


def _waits(events: HostEvents, groups: Groups) -> TypedEvents | None:
    """Events of host threads that wait for input; None: there are none."""
    plane = events.plane_named(HOST_THREADS)
    if plane is None or not _may_wait(events, plane):
        return None
    found = host_step_events(events, groups)
    if found is None or found.events.lines is None:
        return None
    hands_on = np.array([_hands_on(name) for name in events.names], np.bool_)[events.meta[plane.first : plane.last]]
    rows = np.flatnonzero((found.events.type == HOST_WAIT_INPUT) & (found.events.group >= 0) & ~hands_on)
    if not len(rows):
        return None
    of_host = found.events
    lines = np.searchsorted(rows, found.events.lines).astype(np.int64)
    return TypedEvents(
        of_host.group[rows], of_host.type[rows], of_host.start_ps[rows], of_host.duration_ps[rows], lines
    )


def _may_wait(events: HostEvents, plane: Plane) -> bool:
    """Whether there is a name or a stage to look for at all: most captures of GPUs have none."""
    if len(events.stat(_STAGE)):
        return True
    waits = np.array([name[: len(_WAITS)].lower() == _WAITS for name in events.names], np.bool_)
    return bool(waits.any() and waits[events.meta[plane.first : plane.last]].any())


def _hands_on(name: str) -> bool:
    """Whether it is named after what waits for input, and does not wait itself: the op's type is another."""
    if name[: len(_WAITS)].lower() != _WAITS:
        return False
    of_type = name.rpartition(":")[2]
    return of_type != "DoCompute" and not of_type.lower().startswith(_WAITS)


def _one_after_another(first: TypedEvents, second: TypedEvents) -> TypedEvents:
    assert first.lines is not None and second.lines is not None
    return TypedEvents(
        np.concatenate([first.group, second.group]),
        np.concatenate([first.type, second.type]),
        np.concatenate([first.start_ps, second.start_ps]),
        np.concatenate([first.duration_ps, second.duration_ps]),
        np.concatenate([first.lines, second.lines[1:] + first.lines[-1]]),
    )
