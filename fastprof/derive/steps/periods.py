"""Periods of steps: a step lasts until the next one begins, so that loading between steps is part of the step time.

A period begins with the first work that a device runs for the step, if it is known what work belongs to the step, else
with the marker. Each device has its own periods, and the slowest device counts for the host.

    markers      |-7-|  |-8-|  |-9-|
    device            |==7==|   |==8==|  |==9==|
    periods           |----7----|---8----|--9--|       the last one lasts as long as its own work: an extent

The next step is not recorded after the last one, nor where step numbers jump, as between two cycles of a profiler.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from fastprof.decode.workers import Workers
from fastprof.derive.steps import gpu_step_events
from fastprof.derive.steps.database import IDLE, Collectives, StepDatabase
from fastprof.derive.steps.device_steps import DeviceSteps
from fastprof.derive.steps.host_reasons import INPUT, HostReasons, counted, spread
from fastprof.derive.steps.marked_spans import markers
from fastprof.derive.steps.of_host import HostSteps, gpu_collectives
from fastprof.derive.steps.step_source import StepSource
from fastprof.derive.steps.step_time import TYPES, EventType, Markers, TypedEvents, time_by_type
from fastprof.derive.steps.tpu_steps import INFEEDS
from fastprof.derive.steps.tpu_stretches import times_in_spans
from fastprof.errors import CaptureError
from fastprof.schema.array_types import Bools, Int64s
from fastprof.schema.time_sums import ends_of
from fastprof.schema.value_classes import dataclass
from fastprof.tables.host_events import HostEvents
from fastprof.wording.patterns import pattern_of

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


def periods_of(steps: HostSteps, source: StepSource) -> Periods:
    """Return the periods of steps that have their extents. CaptureError: 64 bits cannot count their times."""
    database = steps.database
    if not len(database):
        return Periods(database.step, (), *np.zeros((2, 0, 1), np.int64), *np.zeros((3, 0), np.bool_))
    somewhere: Bools = np.asarray(database.present.any(axis=1))
    if database.is_tpu and not somewhere.all():
        found = periods_of(replace(steps, database=database.chosen(somewhere)), source)
        return found.among(database.step, somewhere)
    devices, begin, end = _extents(database, source)
    order = np.argsort(begin.min(axis=1), kind="stable")
    cut = np.append(_jumps(database.number[order], database.numbered[order]), False)
    followed = ~cut
    followed[-1] = False
    serves = _answers_requests(source.groups.events)
    if serves:
        followed = np.zeros_like(followed)
    if not followed.any() and not database.is_tpu:
        devices, begin, end = (), *_marked(database)
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


def _extents(database: StepDatabase, source: StepSource) -> tuple[tuple[str, ...], Int64s, Int64s]:
    """Return devices, and begins and ends [n, d] of what each device did for the steps, if that is known."""
    if database.is_tpu:
        some = database.present.any(axis=0)
        if not some.any():
            return (), *np.zeros((2, len(database), 1), np.int64)
        there = database.present[:, some]
        devices = [database.cores.device[core] or "" for core in np.flatnonzero(some).tolist()]
        begin, end = database.begin_ps[:, some], ends_of(database.begin_ps, database.duration_ps)[:, some]
        none = np.iinfo(np.int64).max
        first = np.where(there, begin, none).min(axis=1, keepdims=True, initial=none)
        return tuple(devices), np.where(there, begin, first), np.where(there, end, first)
    marked = _marked(database)
    if database.hardware != "GPU":
        return (), *marked
    names = {plane.number: plane.name for plane in source.groups.events.planes_of("GPU")}
    own = {names[one]: steps for one, steps in source.groups.device_steps.items() if one in names and len(steps)}
    columns = [_of_device(database, steps, marked, has_spans=source.spans is not None) for steps in own.values()]
    if not columns:
        return (), *marked
    begin, end = (np.stack(parts, axis=1) for parts in zip(*columns, strict=True))
    return tuple(own), begin, end


def _marked(database: StepDatabase) -> tuple[Int64s, Int64s]:
    """Return begins and ends [n, 1] of the extents of a host without TPUs."""
    return database.begin_ps[:, :1], ends_of(database.begin_ps, database.duration_ps)[:, :1]


def _of_device(
    database: StepDatabase, steps: DeviceSteps, marked: tuple[Int64s, Int64s], *, has_spans: bool
) -> tuple[Int64s, Int64s]:
    """Return from when to when [n] a GPU worked for each step, or its extent if it did nothing. A step whose marker
    spans it ends with it, or with its work if that is later."""
    first, last = np.full(len(database), np.iinfo(np.int64).max), np.full(len(database), np.iinfo(np.int64).min)
    place = np.minimum(np.searchsorted(database.step, steps.group_id), len(database) - 1)
    mine = (database.step[place] == steps.group_id) & (steps.duration_ps >= 0)
    np.minimum.at(first, place[mine], steps.start_ps[mine])
    np.maximum.at(last, place[mine], ends_of(steps.start_ps[mine], steps.duration_ps[mine]))
    worked = first <= last
    begin = np.where(worked, first, marked[0][:, 0])
    end = np.where(worked, last, marked[1][:, 0])
    return begin, np.maximum(end, marked[1][:, 0]) if has_spans else end


def _jumps(number: Int64s, numbered: Bools) -> Bools:
    """Return for each pair of neighbours whether their numbers differ by another amount than usual."""
    if len(number) < 3 or not numbered.all():
        return np.zeros(max(len(number) - 1, 0), np.bool_)
    by = np.diff(number)
    amounts, often = np.unique(by, return_counts=True)
    jumps: Bools = by != amounts[often.argmax()]
    return jumps


_REQUESTS: Final = pattern_of(r"execute_context_\d|execute_new_\d|step\[\w+ bs=|_forward_step \d")
"""How engines that serve requests call their executions: vLLM, SGLang and TensorRT-LLM."""


def _answers_requests(events: HostEvents) -> bool:
    """Return whether steps answer requests: then the time between them may be time without requests."""
    return any(_REQUESTS.match(name) for name in events.names)


# ---- what happens in them


def work_by_name(source: StepSource) -> TypedEvents:
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
            gpus = gpu_step_events.events_in_time(events, spans)
            ran, lines = gpus.events, gpus.lines
            rows = np.flatnonzero(ran.type == EventType.DEVICE_COLLECTIVES)
            collectives = gpu_collectives(ran, rows, ran.group[rows].astype(np.int64), lines, gpus.plane)
        else:
            ran = spread(self.busy, spans)
            lines = np.array([0, len(ran)], np.int64)
        both = TypedEvents.joined([ran, said])
        lines = np.concatenate([lines, lines[-1] + of_said[1:]])
        times = time_by_type(both, lines, spans.start_ps, spans.duration_ps)
        return counted(times.within_ps), collectives


def in_periods(steps: HostSteps, source: StepSource, periods: Periods, times: HostTimes, workers: Workers) -> HostSteps:
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
        made = _on_tpus(database, periods, events, workers)
        return replace(steps, database=_with_input(made, source, times.reasons))
    begin, end = periods.slowest()
    alone = ~periods.is_followed
    begin, end = begin.copy(), end.copy()
    begin[alone] = database.extent_begin_ps[alone, 0]
    end[alone] = ends_of(database.extent_begin_ps, database.extent_ps)[alone, 0]
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


def some_of(database: StepDatabase, chosen: Bools) -> StepDatabase:
    """Return the chosen steps. If none of them is complete, all count for means: they are what was asked for."""
    some = database.chosen(chosen)
    return some if some.complete.any() else replace(some, complete=np.ones(len(some), np.bool_))


def _on_tpus(database: StepDatabase, periods: Periods, events: HostEvents, workers: Workers) -> StepDatabase:
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
        start = ends_of(database.extent_begin_ps[rows, core], database.extent_ps[rows, core])
        spans.append(Markers(rows.astype(np.int32), start, pauses[rows, core]))
    more = times_in_spans(events, database, spans, workers)
    more[:, :, 0] += np.maximum(pauses - more.sum(axis=2), 0)
    known = database.knows_categories
    return replace(
        database,
        duration_ps=period,
        category_ps=database.category_ps + np.where(known[:, :, np.newaxis], more, 0),
    )


def _with_input(database: StepDatabase, source: StepSource, reasons: HostReasons) -> StepDatabase:
    """Return TPU steps whose idle time counts as input as far as the host loads input between the markers of a step and
    the next: where no op waits for input, at most all of the idle time. Clocks of host and device differ, so
    that only durations are compared."""
    if database.infeed_ps.any() or any(name in INFEEDS for name in database.categories):
        return database
    begin, end = markers(source.groups.events, source.groups, database.step)
    known = begin < end
    if not known.all():
        return database
    order = np.argsort(begin, kind="stable")
    until = np.append(begin[order][1:], end[order][-1:])
    spans = Markers(order.astype(np.int32), begin[order], np.maximum(until - begin[order], 0))
    said, _ = reasons.within(spans)
    said = said[said.type == INPUT]
    first, last = np.zeros((2, len(database)), np.int64)
    first[spans.group], last[spans.group] = spans.start_ps, ends_of(spans.start_ps, spans.duration_ps)
    until = np.minimum(ends_of(said.start_ps, said.duration_ps), last[said.group])
    loaded = np.zeros(len(database), np.int64)
    np.add.at(loaded, said.group, np.maximum(until - np.maximum(said.start_ps, first[said.group]), 0))
    idle = np.where(database.present & ~database.cores.sparse, database.category(IDLE), 0)
    return replace(database, infeed_ps=np.minimum(idle, loaded[:, np.newaxis]))
