"""Steps that no marker makes: each execution of a compiled program, or of the one that takes most time, is one.

The first execution of a module on one device and the first of it on another are the same step, and so on with the
second; steps are numbered in the order in which they begin. On each device a step lasts from the begin to the end of
its work there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from fastprof.derive.steps.device_steps import DeviceSteps
from fastprof.derive.steps.executions import Executions
from fastprof.derive.steps.grouping import Groups, known_names
from fastprof.derive.steps.step_time import Markers
from fastprof.schema.array_types import Int32s, Int64s


def grouped_by_execution(groups: Groups, of_planes: Sequence[Executions]) -> Groups:
    """Groups that are executions, in place of those that markers make."""
    of_each, modules = _numbers(of_planes)
    group_id = np.full(len(groups.events), -1, np.int32)
    steps = {}
    for one, group in zip(of_planes, of_each, strict=True):
        group_id[one.rows] = group[one.of]
        order = np.argsort(one.begin_ps, kind="stable")
        begin, end = one.on_device
        steps[one.plane.number] = DeviceSteps(
            group[order],
            one.begin_ps[order],
            (one.end_ps - one.begin_ps)[order],
            begin[order],
            (end - begin)[order],
        )
    none = np.zeros(0, np.int32)
    return replace(
        groups,
        group_id=group_id,
        count=len(modules),
        root_rows=np.full(len(modules), -1, np.int32),
        step_rows=none,
        step_groups=none,
        relations=np.zeros((0, 2), np.int32),
        device_steps=steps,
        vetoed=False,
        _naming=known_names(dict(enumerate(modules))),
    )


def spans_of(groups: Groups, one: Executions) -> Markers:
    """When the steps of such groups were on one plane."""
    return groups.device_steps[one.plane.number].markers


def _numbers(of_planes: Sequence[Executions]) -> tuple[list[Int32s], list[str]]:
    """The step of each execution on each plane, and the module of each step. Steps are numbered by when they begin on
    the first plane, those that begin at once by module, then by place."""
    modules = sorted({name for one in of_planes for name in one.modules})
    number_of = {name: number for number, name in enumerate(modules)}
    most = max((len(one.module) for one in of_planes), default=0)
    keys = [np.zeros(0, np.int64)]
    for one in of_planes:
        module = np.array([number_of[name] for name in one.modules], np.int64)[one.module]
        keys.append(module * most + _places(module, one.begin_ps))
    distinct, at = np.unique(np.concatenate(keys), return_inverse=True)
    begin = np.full(len(distinct), np.iinfo(np.int64).max)
    np.minimum.at(begin, at, np.concatenate([keys[0], *(one.begin_ps for one in of_planes)]))
    order = np.lexsort((distinct, begin))
    number = np.empty(len(order), np.int32)
    number[order] = np.arange(len(order), dtype=np.int32)
    bounds = np.cumsum([len(one.module) for one in of_planes])[:-1]
    names = [modules[key // most] for key in distinct[order].tolist()]
    return np.split(number[at], bounds) if len(of_planes) else [], names


def _places(module: Int64s, begin_ps: Int64s) -> Int64s:
    """Which of its module's executions on a plane each is, in order of time."""
    order = np.lexsort((begin_ps, module))
    ordered = module[order]
    place = np.empty(len(module), np.int64)
    place[order] = np.arange(len(module)) - np.searchsorted(ordered, ordered)
    return place
