"""Steps of captures without markers: each execution of a compiled program is one.

An execution is an event of the line XLA Modules of a TPU; on a GPU, the kernels of one module up to the one that it
began with, or to one of another module; on a host, the ops of one run. The first execution of a module on one device
and the first of it on another are the same step, and so on with the second; steps are numbered in the order in which
they begin.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from fastprof._native import records
from fastprof.derive.steps.device_steps import DeviceSteps, is_derived
from fastprof.derive.steps.grouping import Groups, known_names
from fastprof.derive.steps.host_step_events import HostStepEvents
from fastprof.derive.steps.step_time import EventType, TypedEvents
from fastprof.derive.steps.stretches import union
from fastprof.schema.array_types import Bools, Int32s, Int64s
from fastprof.schema.time_sums import ends_of
from fastprof.tables.host_events import HOST_THREADS, HostEvents, Plane

STATS: Final = ("hlo_module", "hlo_op", "run_id")
_MODULE_LINE: Final = "XLA Modules"


@dataclass(frozen=True, slots=True)
class _Executions:
    """Of one plane. ``rows`` are events of executions, ``of`` the execution of each; ``module`` names executions."""

    plane: Plane
    rows: Int64s
    of: Int64s
    begin_ps: Int64s
    end_ps: Int64s
    module: list[str]


def count(events: HostEvents) -> int:
    """How many steps the executions make: of each module, those of the device that ran it most often."""
    most: Counter[str] = Counter()
    if tpus := events.planes_of("TPU"):
        for plane in tpus:
            most |= Counter(_names(events, _modules(events, plane)))
    else:
        for one in _found(events):
            most |= Counter(one.module)
    return most.total()


def count_outside(events: HostEvents, begin_ps: Int64s, duration_ps: Int64s) -> int:
    """How many executions on a host without devices run while none of these steps does."""
    begins, ends = union(begin_ps.ravel(), duration_ps.ravel())
    outside = 0
    for one in _found(events):
        first = np.searchsorted(ends, one.begin_ps, side="right")  # the first stretch that ends after its begin
        meets = first < len(begins)
        meets[meets] = begins[first[meets]] < one.end_ps[meets]
        outside += int((~meets).sum())
    return outside


def grouped_by_execution(events: HostEvents, groups: Groups) -> Groups:
    """Groups that are the executions, in place of those that markers make."""
    found = _found(events)
    number = _numbers(found)
    group_id = np.full(len(events), -1, np.int32)
    names = {place: module for (module, _), place in number.items()}
    steps = {}
    for one in found:
        group = np.array([number[key] for key in _keys(one)], np.int32)
        group_id[one.rows] = group[one.of]
        order = np.argsort(one.begin_ps, kind="stable")
        begin, duration = one.begin_ps[order], (one.end_ps - one.begin_ps)[order]
        steps[one.plane.number] = DeviceSteps(group[order], begin, duration, begin, duration)
    none = np.zeros(0, np.int32)
    return replace(
        groups,
        group_id=group_id,
        count=len(number),
        root_rows=np.full(len(number), -1, np.int32),
        step_rows=none,
        step_groups=none,
        relations=np.zeros((0, 2), np.int32),
        device_steps=steps,
        vetoed=False,
        _naming=known_names(names),
    )


def on_threads(events: HostEvents, groups: Groups) -> HostStepEvents | None:
    """Of such groups of a host without devices, the events of its steps: ops, which compute."""
    plane = events.plane_named(HOST_THREADS)
    if plane is None or plane.number not in groups.device_steps:
        return None
    steps = groups.device_steps[plane.number]
    rows = np.flatnonzero(groups.group_id >= 0)
    typed = TypedEvents(
        groups.group_id[rows],
        np.full(len(rows), EventType.HOST_COMPUTE, np.uint8),
        events.start_ps[rows],
        events.duration_ps[rows],
    )
    return HostStepEvents(steps.markers, typed, None, np.ones(groups.count, np.bool_))


def _keys(found: _Executions) -> list[tuple[str, int]]:
    """The module of each execution, and which of that module's executions on the plane it is, in order of time."""
    keys: list[tuple[str, int]] = [("", 0)] * len(found.module)
    seen: dict[str, int] = {}
    for place in np.argsort(found.begin_ps, kind="stable").tolist():
        module = found.module[place]
        keys[place] = (module, seen.get(module, 0))
        seen[module] = keys[place][1] + 1
    return keys


def _numbers(found: list[_Executions]) -> dict[tuple[str, int], int]:
    begin: dict[tuple[str, int], int] = {}
    for one in found:
        for key, start in zip(_keys(one), one.begin_ps.tolist(), strict=True):
            begin[key] = min(start, begin.get(key, start))
    return {key: place for place, key in enumerate(sorted(begin, key=lambda key: (begin[key], key)))}


def _found(events: HostEvents) -> list[_Executions]:
    """The executions of each device; of the host where it has none."""
    if tpus := events.planes_of("TPU"):
        return [_on_tpu(events, plane) for plane in tpus]
    if gpus := events.planes_of("GPU"):
        return [_on_gpu(events, plane) for plane in gpus]
    plane = events.plane_named(HOST_THREADS)
    return [] if plane is None else [_on_host(events, plane)]


def _on_tpu(events: HostEvents, plane: Plane) -> _Executions:
    """Ops belong to the module that runs when they begin."""
    modules = _modules(events, plane)
    begin = events.start_ps[modules]
    end = ends_of(begin, events.duration_ps[modules])
    rows = np.concatenate(
        [np.arange(line.first, line.last) for line in plane.lines if line.name != _MODULE_LINE] or [_none()]
    )
    of = np.searchsorted(begin, events.start_ps[rows], side="right") - 1
    inside = (of >= 0) & (events.start_ps[rows] < end[of]) if len(begin) else np.zeros(len(rows), np.bool_)
    own = np.arange(len(modules))
    return _Executions(
        plane,
        np.concatenate([modules, rows[inside]]),
        np.concatenate([own, of[inside]]),
        begin,
        end,
        _names(events, modules),
    )


def _modules(events: HostEvents, plane: Plane) -> Int64s:
    """The rows of a TPU's executions, in order of time."""
    rows = [np.arange(line.first, line.last) for line in plane.lines if line.name == _MODULE_LINE]
    modules = np.concatenate(rows or [_none()])
    return modules[np.argsort(events.start_ps[modules], kind="stable")]


def _names(events: HostEvents, rows: Int64s) -> list[str]:
    names = events.names
    return [names[meta] for meta in events.meta[rows].tolist()]


def _on_gpu(events: HostEvents, plane: Plane) -> _Executions:
    """Kernels in order of time: an execution ends where another module's kernel comes, or the kernel that it began with
    comes again. (A module that begins inside of a loop seems to be executed at each turn of it.)"""
    stat = events.stat("hlo_module").of_kinds((records.STR, records.REF))
    here = _on_lines(plane, stat.rows)
    rows, module = stat.rows[here].astype(np.int64), stat.value[here]
    order = np.argsort(events.start_ps[rows], kind="stable")
    rows, module = rows[order], module[order]
    if not len(rows):
        return _hulls(events, plane, rows, rows, module)
    kernel = np.stack([_op(events, rows), events.meta[rows].astype(np.int64)], axis=1)
    changes = np.append(True, module[1:] != module[:-1])
    first = np.flatnonzero(changes)[np.cumsum(changes) - 1]
    begins = changes | (kernel == kernel[first]).all(axis=1)
    return _hulls(events, plane, rows, np.cumsum(begins).astype(np.int64) - 1, module)


def _op(events: HostEvents, rows: Int64s) -> Int64s:
    """The number of the text of each row's op, -1: none."""
    stat = events.stat("hlo_op").of_kinds((records.STR, records.REF))
    op = np.full(len(events), -1, np.int64)
    op[stat.rows] = stat.value
    return op[rows]


def _on_host(events: HostEvents, plane: Plane) -> _Executions:
    """Ops that record their module and their run belong to that run."""
    stat = events.stat("hlo_module").of_kinds((records.STR, records.REF))
    runs, run = events.ints("run_id")
    rows, at, beside = np.intersect1d(stat.rows, runs, assume_unique=True, return_indices=True)
    here = (rows >= plane.first) & (rows < plane.last)
    of_module, of_run = stat.value[at[here]], run[beside[here]]
    _, of = np.unique(np.stack([of_module, of_run], 1), axis=0, return_inverse=True)
    return _hulls(events, plane, rows[here].astype(np.int64), of.reshape(-1).astype(np.int64), of_module)


def _hulls(events: HostEvents, plane: Plane, rows: Int64s, of: Int64s, module: Int64s) -> _Executions:
    """Executions that last from the first of their events to the end of the last."""
    n = int(of.max(initial=-1)) + 1
    begin, end = np.full(n, np.iinfo(np.int64).max), np.full(n, np.iinfo(np.int64).min)
    np.minimum.at(begin, of, events.start_ps[rows])
    np.maximum.at(end, of, ends_of(events.start_ps[rows], events.duration_ps[rows]))
    number = np.zeros(n, np.int64)
    number[of] = module
    distinct, place = np.unique(number, return_inverse=True)
    names = events.all_texts(distinct)
    return _Executions(plane, rows, of, begin, end, [names[i] for i in place.tolist()])


def _on_lines(plane: Plane, rows: Int32s) -> Bools:
    here = np.zeros(len(rows), np.bool_)
    for line in plane.lines:
        if not is_derived(line):
            here |= (rows >= line.first) & (rows < line.last)
    return here


def _none() -> Int64s:
    return np.zeros(0, np.int64)
