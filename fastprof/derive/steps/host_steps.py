"""Steps of one host: from its threads if it has no devices, else from its GPUs or TPU cores; their extents, their
periods, and the time between steps.

A step lasts until the next one begins, so that loading between steps is part of the step time. A period begins with the
first work that a device runs for the step, if it is known what work belongs to the step, else with the marker. Each
device has its own periods, and the slowest device counts for the host.

    markers      |-7-|  |-8-|  |-9-|
    device            |==7==|   |==8==|  |==9==|
    periods           |----7----|---8----|--9--|       the last one lasts as long as its own work: an extent

The next step is not recorded after the last one, nor where step numbers jump, as between two cycles of a profiler.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from operator import attrgetter
from types import SimpleNamespace
from typing import Final

import numpy as np

from fastprof.decode.workers import Workers
from fastprof.derive.devices.run_environment import CPU
from fastprof.derive.steps import device_steps, step_events, tpu_steps
from fastprof.derive.steps.device_steps import PlaneSteps
from fastprof.derive.steps.grouping import Groups, find_step_markers
from fastprof.derive.steps.host_causes import INPUT, HostReasons, merge_reason_types, repeat_in_spans, shows_input
from fastprof.derive.steps.step_database import (
    GENERIC_CORE,
    IDLE,
    NO_HOSTNAME,
    OWN_CATEGORIES,
    TYPES,
    Collectives,
    Cores,
    EventType,
    Markers,
    StepDatabase,
    TypedEvents,
    make_blank_database,
    make_empty_database,
    select_longest_markers,
    sum_time_by_type,
)
from fastprof.derive.steps.step_events import GpuStepEvents, HostStepEvents
from fastprof.derive.steps.step_figures import (
    CATEGORY_COLUMNS,
    OTHER,
    break_down_cores,
    fit_parts,
    show_devices,
    sum_own_categories,
)
from fastprof.derive.steps.step_figures import (
    INPUT as INPUT_CATEGORY,
)
from fastprof.derive.steps.step_source import MARKERS, StepSource, number_steps
from fastprof.derive.steps.tpu_steps import INFEEDS, sum_times_in_spans
from fastprof.errors import CaptureError
from fastprof.schema.columns import (
    Bools,
    Int32s,
    Int64s,
    add_durations,
    contain_any_time,
    find_last_started,
    merge_spans,
)
from fastprof.schema.tables import Count, Picoseconds, Share, TableSchema, Text
from fastprof.schema.value_classes import dataclass
from fastprof.tables.host_events import HostEvents
from fastprof.wording.patterns import compile_late

STATS: Final = (*step_events.HOST_STATS, *step_events.GPU_STATS, *tpu_steps.STATS, *device_steps.EXECUTION_STATS)
METADATA_STATS: Final = tpu_steps.METADATA_STATS
"""What is read for steps beyond what grouping reads."""


StepNames = Callable[[Int32s], tuple[list[str], Bools]]
"""Returns the names of the steps of groups, and which of these the capture numbers."""

MOST_WITHOUT_ENDS: Final = 5
"""Number of steps beyond which the first and the last count as incomplete, but for those of PyTorch's profiler: it
begins and ends with a step."""


@dataclass(frozen=True, slots=True)
class HostSteps:
    """Steps of one host. ``groups``: number of its groups of events; ``unfit``: step markers that make no step, since
    nothing was computed in them; ``module_executions``: runs of compiled programs; ``vetoed``: whether grouping was
    given up; ``outside``: on a host without devices, runs of compiled programs during no step; ``missed``: a sentence
    if the host lacks the requested steps. ``source``, ``why``: what the steps are made from, as ``step_source`` has it;
    ``kinds``: which of several kinds of markers make them, or "" if there is one; ``marked``: the steps of XProf, or
    None if they are these."""

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


def make_host_steps(
    source: StepSource,
    hardware: str,
    cores: Callable[[Groups], tpu_steps.TpuStepEvents],
    *,
    together: bool = False,
) -> HostSteps:
    """Return the steps of a host with the time of their extents, TPUs before GPUs. Spans of a source have no times by
    type: `periods` divides the time from step to step. ``cores``: the step events of TPU cores; ``together``: these
    share the longest extent of a step, as in XProf."""
    groups = source.groups
    events = groups.events
    hostname = events.capture.hostnames[0] if events.capture.hostnames else NO_HOSTNAME
    unfit = 0

    tpus, gpus = bool(events.planes_of("TPU")), bool(events.planes_of("GPU"))
    if tpus:
        database, unfit = tpu_steps.make_tpu_steps(
            events.host, hostname, cores(groups), groups, source.on_threads, together=together
        )
    elif source.spans is not None:
        database = make_span_steps(
            "GPU" if gpus else "CPU_ONLY", events.host, hostname, source.spans, groups.step_names
        )
    elif gpus:
        kernels = step_events.collect_gpu_step_events(events, groups)
        database, unfit = make_gpu_steps(events.host, hostname, kernels, groups.step_names)
    elif (threads := source.on_threads()) is None:
        database = make_empty_database(hardware, [events.host], make_generic_core(hostname))
    else:
        database, unfit = make_thread_steps(events.host, hostname, threads, groups)
    database = number_steps(database, source)
    if source.entire:
        database = replace(database, complete=np.ones(len(database), np.bool_))
    if not tpus:
        planes = events.planes_of("GPU")
        device = CPU if not planes else planes[0].name if len(planes) == 1 else None
        database = replace(database, cores=replace(database.cores, device=[device]))
    return HostSteps(
        host=events.host,
        hostname=hostname,
        number=events.number,
        accelerated=tpus or gpus,
        database=database,
        groups=groups.count,
        unfit=unfit,
        module_executions=device_steps.count_execution_steps(events),
        vetoed=groups.vetoed,
        source=source.source,
        why=source.why,
        kinds=source.kinds,
        outside=0
        if tpus or gpus
        else device_steps.count_executions_outside(events, database.begin_ps, database.duration_ps),
    )


def make_generic_core(hostname: str) -> Cores:
    """Return the core of a host whose cores are not distinguished."""
    core_id = np.array([GENERIC_CORE], np.int64)
    none = np.zeros(1, np.int32)
    yes = np.ones(1, np.bool_)
    return Cores(core_id, core_id, none, [hostname], [hostname], ~yes, yes, [None], yes)


def make_span_steps(hardware: str, host: str, hostname: str, spans: Markers, step_names: StepNames) -> StepDatabase:
    """Return the steps that spans of time make, without their times by type."""
    spans = select_longest_markers(spans)
    cores = make_empty_database(hardware, [host], make_generic_core(hostname)).cores
    return _make_one_core_steps(hardware, host, cores, spans, step_names)


def make_thread_steps(host: str, hostname: str, threads: HostStepEvents, groups: Groups) -> tuple[StepDatabase, int]:
    """Return the steps of a host without devices, and how many markers are of none."""
    blank = make_empty_database("CPU_ONLY", [host], make_generic_core(hostname))
    database, _, unfit = _make_event_steps(blank, threads, (EventType.HOST_COMPUTE,), groups.count, groups.step_names)
    named = threads.named[database.step].tolist()
    names = [label if has_name else "" for label, has_name in zip(database.label, named, strict=True)]
    return replace(database, name=names), unfit


def make_gpu_steps(host: str, hostname: str, kernels: GpuStepEvents, step_names: StepNames) -> tuple[StepDatabase, int]:
    """Return the steps of the GPUs of a host, and the number of markers that make no step."""
    blank, events = make_empty_database("GPU", [host], make_generic_core(hostname)), kernels.events
    needs = (EventType.DEVICE_COMPUTE_16, EventType.DEVICE_COMPUTE_32)
    database, total, unfit = _make_event_steps(blank, kernels, needs, kernels.group_count, step_names)
    slot = np.full(kernels.group_count + 1, -1, np.int64)
    slot[database.step] = np.arange(len(database))
    rows = kernels.moves.row
    rows = rows[(events.type[rows] == EventType.DEVICE_COLLECTIVES) & (slot[events.group[rows]] >= 0)]
    database = replace(
        database,
        collectives=make_gpu_collectives(events, rows, slot[events.group[rows]], kernels.lines, kernels.line_plane),
        compute_16bit_ps=int(total[EventType.DEVICE_COMPUTE_16]),
        compute_32bit_ps=int(total[EventType.DEVICE_COMPUTE_32]),
    )
    return database, unfit


def make_gpu_collectives(events: TypedEvents, rows: Int64s, step: Int64s, lines: Int64s, plane: Int64s) -> Collectives:
    """Return collectives of GPUs, which are events in ``rows``. ``step``: place of the step of each; ``lines``: events
    at which lines begin, and the end of the last; ``plane``: by line, the recorded id of its plane."""
    begin, none = events.start_ps[rows], np.zeros(len(rows), np.int64)
    planes = plane[find_last_started(lines, rows)]
    return Collectives(step, planes, none, begin, begin + events.duration_ps[rows], none)


def _make_event_steps(
    blank: StepDatabase,
    seen: HostStepEvents | GpuStepEvents,
    needs: tuple[int, ...],
    count: int,
    step_names: StepNames,
) -> tuple[StepDatabase, Int64s, int]:
    """Return the steps: those of ``count`` groups with a marker and an event of one of the types that a step ``needs``.
    Then the time by type of all groups with a marker, and how many of these are not steps."""
    spans = select_longest_markers(seen.markers)
    events = seen.events
    if len(spans) < count:  # else each group has its own number
        slot = np.full(count + 1, -1, np.int32)
        slot[spans.group] = np.arange(len(spans), dtype=np.int32)
        events = replace(events, group=slot[events.group])
    time = sum_time_by_type(events, seen.lines, spans.start_ps, spans.duration_ps)
    fit: Bools = np.asarray(time.seen[:, list(needs)].any(axis=1))
    spans = spans[fit]
    database = _make_one_core_steps(blank.hardware, blank.hosts[0], blank.cores, spans, step_names)
    database = replace(database, type_ps=time.within_ps[fit].reshape(len(spans), 1, len(TYPES)))
    return database, time.total_ps.sum(axis=0), len(fit) - len(spans)


def _make_one_core_steps(hardware: str, host: str, cores: Cores, spans: Markers, step_names: StepNames) -> StepDatabase:
    """Return steps of the one core of a host, without their times by type."""
    n = len(spans)
    begin, duration = spans.start_ps.reshape(n, 1), spans.duration_ps.reshape(n, 1)
    labels, numbered = step_names(spans.group)
    complete = np.ones(n, np.bool_)
    if n > MOST_WITHOUT_ENDS:
        complete[[0, -1]] = False
    return replace(
        make_blank_database(hardware, host, cores, spans.group.astype(np.int64), labels, []),
        name=labels if hardware == "CPU_ONLY" else [""] * n,
        numbered=numbered,
        complete=complete,
        present=np.ones((n, 1), np.bool_),
        begin_ps=begin,
        duration_ps=duration,
        extent_begin_ps=begin,
        extent_ps=duration,
    )


_SEAMLESS: Final = 100
"""Markers follow each other if the usual pause between them is less than the period divided by this: then the end of
the last marker is the end of its period."""


@dataclass(frozen=True, slots=True)
class Periods:
    """Periods of the steps of a host, in the order of its step database.

    ``devices``: planes that have periods of their own, in the order of columns; empty if one column is for all devices.
    """

    step: Int64s  # [n] group
    devices: tuple[str, ...]
    begin_ps: Int64s  # [n, d]
    end_ps: Int64s  # [n, d]; of the extent where the next step is not recorded
    is_followed: Bools  # [n] the next step is recorded
    is_ended: Bools  # [n] the end of the period is recorded
    is_cut: Bools  # [n] steps after it are not recorded: step numbers jump

    def of_device(self, name: str) -> tuple[Int64s, Int64s]:
        """Return begins and ends [n] of the periods of a device; those of the slowest device if it has none."""
        if name in self.devices:
            column = self.devices.index(name)
            return self.begin_ps[:, column], self.end_ps[:, column]
        return self.slowest()

    def and_spans(self, spans: tuple[Int64s, Int64s]) -> tuple[Int64s, Int64s]:
        """Return begins and ends of all periods and of these spans."""
        return np.append(spans[0], self.begin_ps), np.append(spans[1], self.end_ps)

    def slowest(self) -> tuple[Int64s, Int64s]:
        """Return begins and ends [n] of the periods of the device with the longest period of each step."""
        rows = np.arange(len(self.step))
        column = (self.end_ps - self.begin_ps).argmax(axis=1) if self.begin_ps.size else np.zeros(len(rows), np.int64)
        return self.begin_ps[rows, column], self.end_ps[rows, column]

    def among(self, step: Int64s, some: Bools) -> Periods:
        """Return the periods of more steps: ``some`` have these; the others ran on no core and last no time."""
        times = np.zeros((2, len(step), self.begin_ps.shape[1]), np.int64)
        marks = np.zeros((3, len(step)), np.bool_)
        times[:, some] = self.begin_ps, self.end_ps
        marks[:, some] = self.is_followed, self.is_ended, self.is_cut
        return Periods(step, self.devices, *times, *marks)


def find_periods(steps: HostSteps, source: StepSource) -> Periods:
    """Return the periods of steps that have their extents. CaptureError: 64 bits cannot count their times."""
    database = steps.database
    if not len(database):
        return Periods(database.step, (), *np.zeros((2, 0, 1), np.int64), *np.zeros((3, 0), np.bool_))
    somewhere: Bools = np.asarray(database.present.any(axis=1))
    if database.is_tpu and not somewhere.all():
        periods = find_periods(replace(steps, database=database.chosen(somewhere)), source)
        return periods.among(database.step, somewhere)
    devices, begin, end = _find_extents(database, source)
    order = np.argsort(begin.min(axis=1), kind="stable")
    cut = np.zeros(len(order), np.bool_)
    if len(order) > 2 and database.numbered.all():  # whether numbers jump by another amount than usual
        by = np.diff(database.number[order])
        amounts, often = np.unique(by, return_counts=True)
        cut[:-1] = by != amounts[often.argmax()]
    followed = ~cut
    followed[-1] = False
    serves = any(_REQUESTS.match(name) for name in source.groups.events.names)
    if serves:  # the time between steps may be time without requests
        followed = np.zeros_like(followed)
    if not followed.any() and not database.is_tpu:
        devices, begin, end = (), *_get_marked_extents(database)
    begin, end = np.maximum.accumulate(begin[order], axis=0), end[order]
    end = np.maximum(end, begin)
    if int(end.max()) - int(begin.min()) >= 2**63:
        raise CaptureError("the steps span more than 64 bits of picoseconds can count")
    pause = np.maximum(begin[1:] - end[:-1], 0).max(axis=1)[followed[:-1]]
    usual = np.median((begin[1:] - begin[:-1]).max(axis=1)[followed[:-1]]) if len(pause) else 0
    seamless = len(pause) > 0 and float(np.median(pause)) * _SEAMLESS <= usual
    ended = followed.copy()
    ended[-1] = seamless
    if serves:
        ended = np.ones_like(ended)
    until = np.where(followed[:, np.newaxis], np.append(begin[1:], end[-1:], axis=0), end)
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    return Periods(database.step, devices, begin[place], until[place], followed[place], ended[place], cut[place])


def _find_extents(database: StepDatabase, source: StepSource) -> tuple[tuple[str, ...], Int64s, Int64s]:
    """Return devices, and begins and ends [n, d] of what each device did for the steps, if that is known."""
    if database.is_tpu:
        some = database.present.any(axis=0)
        if not some.any():
            return (), *np.zeros((2, len(database), 1), np.int64)
        there = database.present[:, some]
        devices = [database.cores.device[core] or "" for core in np.flatnonzero(some).tolist()]
        begin, end = database.begin_ps[:, some], add_durations(database.begin_ps, database.duration_ps)[:, some]
        none = np.iinfo(np.int64).max
        first = np.where(there, begin, none).min(axis=1, keepdims=True, initial=none)
        return tuple(devices), np.where(there, begin, first), np.where(there, end, first)
    marked = _get_marked_extents(database)
    if database.hardware != "GPU":
        return (), *marked
    names = {plane.number: plane.name for plane in source.groups.events.planes_of("GPU")}
    own = {
        names[number]: steps for number, steps in source.groups.device_steps.items() if number in names and len(steps)
    }
    columns = [
        _find_device_extents(database, steps, marked, has_spans=source.spans is not None) for steps in own.values()
    ]
    if not columns:
        return (), *marked
    begin, end = (np.stack(parts, axis=1) for parts in zip(*columns, strict=True))
    return tuple(own), begin, end


def _get_marked_extents(database: StepDatabase) -> tuple[Int64s, Int64s]:
    """Return begins and ends [n, 1] of the extents of a host without TPUs."""
    return database.begin_ps[:, :1], add_durations(database.begin_ps, database.duration_ps)[:, :1]


def _find_device_extents(
    database: StepDatabase, steps: PlaneSteps, marked: tuple[Int64s, Int64s], *, has_spans: bool
) -> tuple[Int64s, Int64s]:
    """Return from when to when [n] a GPU worked for each step, or its extent if it did nothing. A step whose marker
    spans it ends with it, or with its work if that is later."""
    first, last = np.full(len(database), np.iinfo(np.int64).max), np.full(len(database), np.iinfo(np.int64).min)
    place = np.minimum(np.searchsorted(database.step, steps.group_id), len(database) - 1)
    mine = (database.step[place] == steps.group_id) & (steps.duration_ps >= 0)
    np.minimum.at(first, place[mine], steps.start_ps[mine])
    np.maximum.at(last, place[mine], add_durations(steps.start_ps[mine], steps.duration_ps[mine]))
    worked = first <= last
    begin = np.where(worked, first, marked[0][:, 0])
    end = np.where(worked, last, marked[1][:, 0])
    return begin, np.maximum(end, marked[1][:, 0]) if has_spans else end


_REQUESTS: Final = compile_late(r"execute_context_\d|execute_new_\d|step\[\w+ bs=|_forward_step \d")
"""How engines that serve requests call their executions: vLLM, SGLang and TensorRT-LLM."""


# ---- what happens in them


def collect_named_work(source: StepSource) -> TypedEvents:
    """Return what threads of a host do in steps, by the names of events, as events of no group: where no op is recorded
    as such."""
    seen = source.on_threads()
    if seen is None:
        none = np.zeros(0, np.int64)
        return TypedEvents(none.astype(np.int32), none.astype(np.uint8), none, none)
    lasts = (seen.events.duration_ps > 0) & (seen.events.type < len(TYPES))
    some = seen.events[lasts]
    return replace(some, group=np.full(len(some), -1, np.int32))


@dataclass(frozen=True, slots=True)
class HostTimes:
    """Activity that divides the time of a host. ``busy``: work that its threads run as a device, None if it has some;
    ``reasons``: causes that its threads name."""

    busy: TypedEvents | None
    reasons: HostReasons

    def divide(self, events: HostEvents, spans: Markers) -> tuple[Int64s, Collectives]:
        """Return [n, 18] the time of spans, whose groups are 0 to n - 1, by type of event, and collectives of GPUs."""
        (said, of_said), collectives = self.reasons.within(spans), Collectives.none()
        if self.busy is None:
            gpus = step_events.collect_gpu_times(events, spans)
            ran, lines = gpus.events, gpus.lines
            rows = np.flatnonzero(ran.type == EventType.DEVICE_COLLECTIVES)
            collectives = make_gpu_collectives(ran, rows, ran.group[rows].astype(np.int64), lines, gpus.plane)
        else:
            ran = repeat_in_spans(self.busy, spans)
            lines = np.array([0, len(ran)], np.int64)
        both = TypedEvents.joined([ran, said])
        lines = np.concatenate([lines, lines[-1] + of_said[1:]])
        times = sum_time_by_type(both, lines, spans.start_ps, spans.duration_ps)
        return merge_reason_types(times.within_ps), collectives


def extend_to_periods(
    steps: HostSteps, source: StepSource, periods: Periods, times: HostTimes, workers: Workers
) -> HostSteps:
    """Return steps whose times are those of their periods."""
    database, events = steps.database, source.groups.events
    if not len(database):
        return steps
    complete = database.complete & periods.is_ended
    database = replace(
        database,
        complete=complete if complete.any() else database.complete,
        has_period=~periods.is_cut,
        is_bound=not complete.any(),
    )
    if database.is_tpu:
        made = _extend_tpu_steps(database, periods, events, workers)
        return replace(steps, database=_attribute_input(made, source, times.reasons))
    begin, end = periods.slowest()
    alone = ~periods.is_followed
    begin, end = begin.copy(), end.copy()
    begin[alone] = database.extent_begin_ps[alone, 0]
    end[alone] = add_durations(database.extent_begin_ps, database.extent_ps)[alone, 0]
    spans = Markers(np.arange(len(database), dtype=np.int32), begin, end - begin)
    type_ps, collectives = times.divide(events, spans)
    made = replace(
        database,
        begin_ps=begin.reshape(-1, 1),
        duration_ps=(end - begin).reshape(-1, 1),
        type_ps=type_ps.reshape(len(database), 1, len(TYPES)),
        collectives=collectives,
    )
    return replace(steps, database=made)


def mark_unknown_times(steps: HostSteps, events: HostEvents, lost_calls: Int64s | None) -> HostSteps:
    """Mark steps whose device work is not fully recorded, and cores whose records would not show input. TPUs record
    both. ``events``: all of the host; ``lost_calls``: ascending times of calls without records of device work, or
    None."""
    database = steps.database
    if database.is_tpu or not len(database):
        return steps
    if lost_calls is not None:
        end = add_durations(database.begin_ps, database.duration_ps)
        lost = database.present & contain_any_time(database.begin_ps, end, lost_calls)
        database = replace(database, lost=lost)
    if not sum_own_categories(database.type_ps)[..., INPUT_CATEGORY].any() and not shows_input(events):
        database = replace(database, cores=replace(database.cores, shows_input=np.zeros(len(database.cores), np.bool_)))
    return replace(steps, database=database)


def select_steps(database: StepDatabase, chosen: Bools) -> StepDatabase:
    """Return the chosen steps. If none of them is complete, all count for means: they are what was asked for."""
    some = database.chosen(chosen)
    return some if some.complete.any() else replace(some, complete=np.ones(len(some), np.bool_))


def _extend_tpu_steps(database: StepDatabase, periods: Periods, events: HostEvents, workers: Workers) -> StepDatabase:
    """Return steps with the time until the next step: ops in it count by their category, the rest is idle time."""
    begin, end = (np.zeros_like(database.begin_ps) for _ in range(2))
    columns = [core for core, name in enumerate(database.cores.device) if name in periods.devices]
    for core in columns:
        begin[:, core], end[:, core] = periods.of_device(str(database.cores.device[core]))
    period = np.where(database.present, end - begin, 0)
    pauses = np.maximum(period - database.extent_ps, 0)
    if not pauses.any():
        return replace(database, duration_ps=period)
    spans = []
    for core in range(len(database.cores)):
        rows = np.flatnonzero(pauses[:, core] > 0)
        start = add_durations(database.extent_begin_ps[rows, core], database.extent_ps[rows, core])
        spans.append(Markers(rows.astype(np.int32), start, pauses[rows, core]))
    more = sum_times_in_spans(events, database, spans, workers)
    more[:, :, 0] += np.maximum(pauses - more.sum(axis=2), 0)
    known = database.knows_categories
    return replace(
        database,
        duration_ps=period,
        category_ps=database.category_ps + np.where(known[:, :, np.newaxis], more, 0),
    )


def _attribute_input(database: StepDatabase, source: StepSource, reasons: HostReasons) -> StepDatabase:
    """Return TPU steps whose idle time counts as input as far as the host loads input between the markers of a step and
    the next: where no op waits for input, at most all of the idle time. Clocks of host and device differ, so
    that only durations are compared."""
    if database.infeed_ps.any() or any(name in INFEEDS for name in database.categories):
        return database
    begin, end = find_step_markers(source.groups.events, source.groups, database.step)
    known = begin < end
    if not known.all():
        return database
    order = np.argsort(begin, kind="stable")
    until = np.append(begin[order][1:], end[order][-1:])
    spans = Markers(order.astype(np.int32), begin[order], np.maximum(until - begin[order], 0))
    said, _ = reasons.within(spans)
    said = said[said.type == INPUT]
    first, last = np.zeros((2, len(database)), np.int64)
    first[spans.group], last[spans.group] = spans.start_ps, add_durations(spans.start_ps, spans.duration_ps)
    until = np.minimum(add_durations(said.start_ps, said.duration_ps), last[said.group])
    loaded = np.zeros(len(database), np.int64)
    np.add.at(loaded, said.group, np.maximum(until - np.maximum(said.start_ps, first[said.group]), 0))
    idle = np.where(database.present & ~database.cores.sparse, database.category(IDLE), 0)
    return replace(database, infeed_ps=np.minimum(idle, loaded[:, np.newaxis]))


BETWEEN_STEPS: Final = TableSchema(
    "between_steps",
    "a core of a host, in the time between its steps",
    (
        Text("host", "host, named after its capture file", lambda rows: [rows.host] * len(rows.core_id)),
        Count("core_id", "core id on its host; on a host without TPUs 1, for all of its devices"),
        Count("gap_count", "number of gaps between steps, in which no core of the host is in a step"),
        Picoseconds("time_ps", "time in these gaps"),
        Picoseconds("longest_ps", "longest gap"),
        Picoseconds("longest_start_ps", "start of the longest gap, from the start of the host's capture"),
        Text("longest_before", "name of the step that begins after the longest gap", attrgetter("longest_before")),
        Share("share", "time_ps / time from the start of the host's first step to the end of its last"),
        *CATEGORY_COLUMNS,
    ),
    derived=True,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class BetweenSteps:
    """``begin_ps``, ``duration_ps``: pauses between steps of a host, in order; ``longest_before``: the name of the step
    that begins after the longest. ``span_ps``: from the begin of the first step to the end of the last.
    ``core_id``: [c] ids of cores on the host; ``times_ps``: [c, k] time in the pauses by category; ``has_devices``: [c]
    whether device work is recorded in steps or pauses; ``shows_input``: [c] as in Cores."""

    begin_ps: Int64s
    duration_ps: Int64s
    longest_before: str
    span_ps: int
    core_id: Int64s
    times_ps: Int64s
    has_devices: Bools
    shows_input: Bools

    @property
    def time_ps(self) -> int:
        return int(self.duration_ps.sum())

    def rows(self, host: str) -> SimpleNamespace:
        """Return a row for each core; none if no pause lies between steps."""
        n = len(self.core_id) if len(self.begin_ps) else 0
        longest = int(self.duration_ps.argmax()) if n else 0
        values = {
            "gap_count": len(self.begin_ps),
            "time_ps": self.time_ps,
            "longest_ps": int(self.duration_ps[longest]) if n else 0,
            "longest_start_ps": int(self.begin_ps[longest]) if n else 0,
            "share": self.time_ps / max(self.span_ps, 1),
        }
        columns = {name: np.full(n, value) for name, value in values.items()}
        before = [self.longest_before] * n
        of_cores = {name: getattr(self, name)[:n] for name in ("core_id", "times_ps", "has_devices", "shows_input")}
        of_cores["lost"] = np.zeros(n, np.bool_)
        return SimpleNamespace(host=host, longest_before=before, **of_cores, **columns)


def measure_between_steps(
    database: StepDatabase, extents: StepDatabase, chosen: Bools, events: HostEvents, times: HostTimes | None
) -> BetweenSteps:
    """Return the time between the steps of a host; on several cores a pause is where none is in a step.

    ``database``: steps with the times of their periods; ``extents``: those of their extents; ``chosen``: the steps
    whose periods hold the pauses that count. ``times``: None on TPUs.
    """
    there = database.present
    counted = there & chosen[:, np.newaxis]
    begin, duration, span = extents.begin_ps[counted], extents.duration_ps[counted], 0
    if len(begin):
        span = int(add_durations(begin, np.maximum(duration, 0)).max()) - int(begin.min())
    if span >= 2**63:
        raise CaptureError("the steps span more than 64 bits of picoseconds can count")
    begins, ends = merge_spans(extents.begin_ps[there], extents.duration_ps[there])
    core_id = database.cores.local_id[there.any(axis=0)]
    start, pause = ends[:-1], begins[1:] - ends[:-1]
    first = np.where(there, extents.begin_ps, np.iinfo(np.int64).max).min(axis=1, initial=np.iinfo(np.int64).max)
    order = np.argsort(first, kind="stable")
    place = np.searchsorted(first[order], start + pause)
    counts = (pause > 0) & (place < len(order))  # a pause after the last begin is within the last step
    counts[counts] = chosen[order[place[counts] - 1]]
    start, pause, before = start[counts], pause[counts], order[place[counts]]
    label = database.label[int(before[int(pause.argmax())])] if len(pause) else ""
    database, extents, there = database.chosen(chosen), extents.chosen(chosen), there[chosen]
    spent = np.zeros((len(core_id), len(OWN_CATEGORIES)), np.int64)
    if len(start) and times is None:
        of_cores = _sum_tpu_categories(database) - _sum_tpu_categories(extents)
        some = np.isin(database.cores.local_id, core_id)
        spent = fit_parts(np.maximum(of_cores[some], 0), np.full(len(core_id), pause.sum()))
    elif len(start) and times is not None:
        spans = Markers(np.arange(len(start), dtype=np.int32), start, pause)
        type_ps, _ = times.divide(events, spans)
        spent = sum_own_categories(type_ps).sum(axis=0, keepdims=True)
    if len(start):
        spent[:, OTHER] += int(pause.sum()) - spent.sum(axis=1)
    of_rows = np.isin(database.cores.local_id, core_id)
    has_devices = show_devices(break_down_cores(database).sum(axis=0)[of_rows]) | show_devices(spent)
    shows_input = database.cores.shows_input[of_rows] | (spent[:, INPUT_CATEGORY] > 0)
    return BetweenSteps(start, pause, label, span, core_id, spent, has_devices, shows_input)


def _sum_tpu_categories(database: StepDatabase) -> Int64s:
    """Return [c, k] the time of all steps on TPU cores by category."""
    names = ("duration_ps", "category_ps", "infeed_ps", "sparse_busy_ps")
    total: Int64s = break_down_cores(
        replace(database, **{name: getattr(database, name).sum(axis=0, keepdims=True) for name in names})
    )[0]
    return total
