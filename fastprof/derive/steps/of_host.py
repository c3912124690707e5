"""The steps of one host: from its threads where it has no devices, else from its GPUs or TPU cores."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

import numpy as np

from fastprof.decode.workers import Workers
from fastprof.derive.devices.device_count import CPU
from fastprof.derive.steps import executions, gpu_step_events, host_step_events, tpu_steps
from fastprof.derive.steps.database import (
    GENERIC_CORE,
    NO_HOSTNAME,
    Collectives,
    Cores,
    StepDatabase,
    blank_database,
    empty_database,
)
from fastprof.derive.steps.gpu_step_events import GpuStepEvents
from fastprof.derive.steps.grouping import Groups
from fastprof.derive.steps.host_step_events import HostStepEvents
from fastprof.derive.steps.step_numbers import with_numbers
from fastprof.derive.steps.step_source import MARKERS, MODULES, StepSource
from fastprof.derive.steps.step_time import TYPES, EventType, Markers, TypedEvents, longest, time_by_type
from fastprof.schema.array_types import Bools, Int32s, Int64s
from fastprof.schema.value_classes import dataclass
from fastprof.tables.host_events import HostEvents

STATS: Final = (*host_step_events.STATS, *gpu_step_events.STATS, *tpu_steps.STATS, *executions.STATS)
METADATA_STATS: Final = tpu_steps.METADATA_STATS
"""What is read for steps beyond what grouping reads."""


StepNames = Callable[[Int32s], tuple[list[str], Bools]]
"""For groups, the names of their steps, and which of these the capture numbers."""

MOST_WITHOUT_ENDS: Final = 5
"""Of more steps than this, the first and the last count as incomplete, but for those of PyTorch's profiler: it begins
and ends with a step."""


@dataclass(frozen=True, slots=True)
class HostSteps:
    """The steps of one host. ``groups``: the number of its groups of events; ``unfit``: step markers that make no
    step, since nothing was computed in them; ``module_executions``: runs of compiled programs; ``vetoed``: whether
    grouping was given up; ``outside``: on a host without devices, runs of compiled programs during no step;
    ``missed``: a sentence, where the host lacks the requested steps. ``source``, ``why``: what the steps
    are made from, as ``step_source`` has it; ``kinds``: which of several kinds of markers make them, "": there is one;
    ``marked``: those that XProf has, None: the same."""

    host: str
    hostname: str
    number: int
    accelerated: bool
    database: StepDatabase
    groups: int
    unfit: int
    module_executions: int
    vetoed: bool
    outside: int
    missed: str | None = None
    source: str = MARKERS
    why: str = ""
    kinds: str = ""
    marked: HostSteps | None = None

    @property
    def as_xprof(self) -> HostSteps:
        return self.marked or self


def steps_of_host(source: StepSource, hardware: str, workers: Workers | None = None) -> HostSteps:
    """Return the steps of a host with the time of their extents, TPUs before GPUs. Spans of a source have no times by
    type: `periods` divides the time from step to step."""
    groups = source.groups
    events = groups.events
    hostname = events.capture.hostnames[0] if events.capture.hostnames else NO_HOSTNAME
    unfit = 0

    tpus, gpus = bool(events.planes_of("TPU")), bool(events.planes_of("GPU"))
    if tpus:
        cores = tpu_steps.tpu_step_events(events, groups, workers or Workers(1))
        database, unfit = tpu_steps.of_tpus(
            events.host, hostname, cores, groups, source.on_threads, together=source.source != MODULES
        )
    elif source.spans is not None:
        database = of_spans("GPU" if gpus else "CPU_ONLY", events.host, hostname, source.spans, groups.step_names)
    elif gpus:
        kernels = gpu_step_events.gpu_step_events(events, groups)
        database, unfit = of_gpus(events.host, hostname, kernels, groups.step_names)
    elif (threads := source.on_threads()) is None:
        database = empty_database(hardware, [events.host], one_core(hostname))
    else:
        database, unfit = of_threads(events.host, hostname, threads, groups)
    database = with_numbers(database, source)
    if source.entire:
        database = replace(database, complete=np.ones(len(database), np.bool_))
    if not tpus:
        database = replace(database, cores=replace(database.cores, device=[_device(events)]))
    return HostSteps(
        host=events.host,
        hostname=hostname,
        number=events.number,
        accelerated=tpus or gpus,
        database=database,
        groups=groups.count,
        unfit=unfit,
        module_executions=executions.count(events),
        vetoed=groups.vetoed,
        source=source.source,
        why=source.why,
        kinds=source.kinds,
        outside=0 if tpus or gpus else executions.count_outside(events, database.begin_ps, database.duration_ps),
    )


def _device(events: HostEvents) -> str | None:
    """That of the one core of a host without TPUs."""
    gpus = events.planes_of("GPU")
    return (gpus[0].name if len(gpus) == 1 else None) if gpus else CPU


def one_core(hostname: str) -> Cores:
    """The core of a host whose cores are not distinguished."""
    one = np.array([GENERIC_CORE], np.int64)
    none = np.zeros(1, np.int32)
    return Cores(one, one, none, [hostname], [hostname], none.astype(np.bool_), np.ones(1, np.bool_), [None])


def of_spans(hardware: str, host: str, hostname: str, spans: Markers, step_names: StepNames) -> StepDatabase:
    """Return the steps that spans of time make, without their times by type."""
    spans = longest(spans)
    cores = empty_database(hardware, [host], one_core(hostname)).cores
    return _on_one_core(hardware, host, cores, spans, step_names)


def of_threads(host: str, hostname: str, threads: HostStepEvents, groups: Groups) -> tuple[StepDatabase, int]:
    """The steps of a host without devices, and how many markers are of none."""
    blank = empty_database("CPU_ONLY", [host], one_core(hostname))
    database, _, unfit = _of_events(blank, threads, (EventType.HOST_COMPUTE,), groups.count, groups.step_names)
    named = threads.named[database.step].tolist()
    names = [label if has_name else "" for label, has_name in zip(database.label, named, strict=True)]
    return replace(database, name=names), unfit


def of_gpus(host: str, hostname: str, kernels: GpuStepEvents, step_names: StepNames) -> tuple[StepDatabase, int]:
    """The steps of the GPUs of a host, and the number of markers that make no step."""
    blank, events = empty_database("GPU", [host], one_core(hostname)), kernels.events
    needs = (EventType.DEVICE_COMPUTE_16, EventType.DEVICE_COMPUTE_32)
    database, total, unfit = _of_events(blank, kernels, needs, kernels.group_count, step_names)
    slot = np.full(kernels.group_count + 1, -1, np.int64)
    slot[database.step] = np.arange(len(database))
    rows = kernels.moves.row
    rows = rows[(events.type[rows] == EventType.DEVICE_COLLECTIVES) & (slot[events.group[rows]] >= 0)]
    database = replace(
        database,
        collectives=gpu_collectives(events, rows, slot[events.group[rows]], kernels.lines, kernels.line_plane),
        compute_16bit_ps=int(total[EventType.DEVICE_COMPUTE_16]),
        compute_32bit_ps=int(total[EventType.DEVICE_COMPUTE_32]),
    )
    return database, unfit


def gpu_collectives(events: TypedEvents, rows: Int64s, step: Int64s, lines: Int64s, plane: Int64s) -> Collectives:
    """Return collectives of GPUs, which are events in ``rows``. ``step``: place of the step of each; ``lines``: events
    at which lines begin, and the end of the last; ``plane``: by line, the recorded id of its plane."""
    begin, none = events.start_ps[rows], np.zeros(len(rows), np.int64)
    planes = plane[np.searchsorted(lines, rows, side="right") - 1]
    return Collectives(step, planes, none, begin, begin + events.duration_ps[rows], none)


def _of_events(
    blank: StepDatabase,
    seen: HostStepEvents | GpuStepEvents,
    needs: tuple[int, ...],
    count: int,
    step_names: StepNames,
) -> tuple[StepDatabase, Int64s, int]:
    """The steps: those of ``count`` groups with a marker and an event of one of the types that a step ``needs``. Then
    the time by type of all groups with a marker, and how many of these are not steps."""
    spans = longest(seen.markers)
    events = seen.events
    if len(spans) < count:  # else each group has its own number
        slot = np.full(count + 1, -1, np.int32)
        slot[spans.group] = np.arange(len(spans), dtype=np.int32)
        events = replace(events, group=slot[events.group])
    time = time_by_type(events, seen.lines, spans.start_ps, spans.duration_ps)
    fit: Bools = np.asarray(time.seen[:, list(needs)].any(axis=1))
    spans = spans[fit]
    database = _on_one_core(blank.hardware, blank.hosts[0], blank.cores, spans, step_names)
    database = replace(database, type_ps=time.within_ps[fit].reshape(len(spans), 1, len(TYPES)))
    return database, time.total_ps.sum(axis=0), len(fit) - len(spans)


def _on_one_core(hardware: str, host: str, cores: Cores, spans: Markers, step_names: StepNames) -> StepDatabase:
    """Return steps of the one core of a host, without their times by type."""
    n = len(spans)
    begin, duration = spans.start_ps.reshape(n, 1), spans.duration_ps.reshape(n, 1)
    labels, numbered = step_names(spans.group)
    complete = np.ones(n, np.bool_)
    if n > MOST_WITHOUT_ENDS:
        complete[[0, -1]] = False
    return replace(
        blank_database(hardware, host, cores, spans.group.astype(np.int64), labels, []),
        name=labels if hardware == "CPU_ONLY" else [""] * n,
        numbered=numbered,
        complete=complete,
        present=np.ones((n, 1), np.bool_),
        begin_ps=begin,
        duration_ps=duration,
        extent_begin_ps=begin,
        extent_ps=duration,
    )
