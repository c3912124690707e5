"""Steps of a host without TPUs: one core stands for all it has, and time is told by type of event."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from fastprof.derive.steps.database import GENERIC_CORE, Collectives, Cores, StepDatabase, blank_database
from fastprof.derive.steps.gpu_step_events import TRANSFERS, GpuStepEvents
from fastprof.derive.steps.grouping import Groups
from fastprof.derive.steps.host_step_events import HostStepEvents
from fastprof.derive.steps.step_time import (
    Markers,
    TypedEvents,
    longest,
    time_by_type,
)
from fastprof.derive.steps.time_types import (
    DEVICE_COLLECTIVES,
    DEVICE_COMPUTE_16,
    DEVICE_COMPUTE_32,
    HOST_COMPUTE,
    TYPES,
)
from fastprof.schema.array_types import Bools, Int64s

MOST_WITHOUT_ENDS: Final = 5
"""Of more steps than this, the first and the last count as incomplete."""


@dataclass(frozen=True, slots=True)
class _Found:
    """The group and span of each step, its time by type, and time by type of all groups."""

    spans: Markers
    within_ps: Int64s
    seen: Bools
    total_ps: Int64s
    unfit: int  # groups with a marker that are no steps


def one_core(hostname: str) -> Cores:
    """What stands for a host whose cores are not told apart."""
    one = np.array([GENERIC_CORE], np.int64)
    none = np.zeros(1, np.int32)
    return Cores(one, one, none, [hostname], [hostname], none.astype(np.bool_), np.ones(1, np.bool_))


def of_threads(host: str, hostname: str, events: HostStepEvents, groups: Groups) -> tuple[StepDatabase, int]:
    """The steps of a host without devices, and how many markers are of none."""
    steps = _found(events.markers, events.events, groups.count, (HOST_COMPUTE,))
    database = _database("CPU_ONLY", host, hostname, steps, groups)
    named = events.named[steps.spans.group].tolist()
    names = [label if has_name else "" for label, has_name in zip(database.label, named, strict=True)]
    return replace(database, name=names), steps.unfit


def of_gpus(host: str, hostname: str, events: GpuStepEvents, groups: Groups) -> tuple[StepDatabase, int]:
    """The steps of the GPUs of a host, and how many markers are of none."""
    steps = _found(events.markers, events.events, groups.count, (DEVICE_COMPUTE_16, DEVICE_COMPUTE_32))
    database = _database("GPU", host, hostname, steps, groups)
    slot = np.full(groups.count + 1, -1, np.int64)
    slot[steps.spans.group] = np.arange(len(database))
    step = slot[events.events.group]
    database = replace(
        database,
        transfer_count=_transfers(events, step, np.ones(len(step), np.int64), len(database)),
        transfer_ps=_transfers(events, step, events.events.duration_ps, len(database)),
        transfer_bytes=_transfers(events, step, events.bytes, len(database)),
        collectives=_collectives(events, step),
        compute_16bit_ps=int(steps.total_ps[DEVICE_COMPUTE_16]),
        compute_32bit_ps=int(steps.total_ps[DEVICE_COMPUTE_32]),
    )
    return database, steps.unfit


def _found(markers: Markers, events: TypedEvents, count: int, needs: tuple[int, ...]) -> _Found:
    """The steps: groups with a marker in which one of the types occurs that a step ``needs``."""
    spans = longest(markers)
    slot = np.full(count + 1, -1, np.int32)
    slot[spans.group] = np.arange(len(spans), dtype=np.int32)
    time = time_by_type(replace(events, group=slot[events.group]), spans.start_ps, spans.duration_ps)
    fit: Bools = np.asarray(time.seen[:, list(needs)].any(axis=1))
    total = time.total_ps.sum(axis=0)
    return _Found(spans.where(fit), time.within_ps[fit], time.seen[fit], total, int((~fit).sum()))


def _database(hardware: str, host: str, hostname: str, found: _Found, groups: Groups) -> StepDatabase:
    n, group = len(found.spans), found.spans.group
    labels, told = groups.step_names(group)
    complete = np.ones(n, np.bool_)
    if n > MOST_WITHOUT_ENDS:
        complete[[0, -1]] = False
    return replace(
        blank_database(hardware, host, one_core(hostname), group.astype(np.int64), labels, []),
        told=told,
        complete=complete,
        present=np.ones((n, 1), np.bool_),
        begin_ps=found.spans.start_ps.reshape(n, 1),
        duration_ps=found.spans.duration_ps.reshape(n, 1),
        type_ps=found.within_ps.reshape(n, 1, len(TYPES)),
        type_key=found.seen.reshape(n, 1, len(TYPES)),
    )


def _transfers(events: GpuStepEvents, step: Int64s, value: Int64s, n: int) -> Int64s:
    """[n, 3]: a value of memory transfers, added up by step and kind."""
    total = np.zeros((n, len(TRANSFERS)), np.int64)
    for kind, type_ in enumerate(TRANSFERS):
        chosen = (events.events.type == type_) & (step >= 0)
        np.add.at(total[:, kind], step[chosen], value[chosen])
    return total


def _collectives(found: GpuStepEvents, step: Int64s) -> Collectives:
    events = found.events
    at = np.flatnonzero((events.type == DEVICE_COLLECTIVES) & (step >= 0))
    none = np.zeros(len(at), np.int64)
    begin = events.start_ps[at]
    return Collectives(step[at], found.plane_id[at], none, none, begin, begin + events.duration_ps[at], none)
