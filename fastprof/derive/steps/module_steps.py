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


def grouped_by_execution(groups: Groups, of_planes: Sequence[Executions]) -> Groups:
    """Groups that are executions, in place of those that markers make."""
    number = _numbers(of_planes)
    group_id = np.full(len(groups.events), -1, np.int32)
    steps = {}
    for one in of_planes:
        group = np.array([number[key] for key in _keys(one)], np.int32)
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
        count=len(number),
        root_rows=np.full(len(number), -1, np.int32),
        step_rows=none,
        step_groups=none,
        relations=np.zeros((0, 2), np.int32),
        device_steps=steps,
        vetoed=False,
        _naming=known_names({place: module for (module, _), place in number.items()}),
    )


def spans_of(groups: Groups, one: Executions) -> Markers:
    """When the steps of such groups were on one plane."""
    return groups.device_steps[one.plane.number].markers


def _keys(of_plane: Executions) -> list[tuple[str, int]]:
    """The module of each execution, and which of that module's executions on the plane it is, in order of time."""
    keys: list[tuple[str, int]] = [("", 0)] * len(of_plane.module)
    seen: dict[str, int] = {}
    for place in np.argsort(of_plane.begin_ps, kind="stable").tolist():
        module = of_plane.module[place]
        keys[place] = (module, seen.get(module, 0))
        seen[module] = keys[place][1] + 1
    return keys


def _numbers(of_planes: Sequence[Executions]) -> dict[tuple[str, int], int]:
    begin: dict[tuple[str, int], int] = {}
    for one in of_planes:
        for key, start in zip(_keys(one), one.begin_ps.tolist(), strict=True):
            begin[key] = min(start, begin.get(key, start))
    return {key: place for place, key in enumerate(sorted(begin, key=lambda key: (begin[key], key)))}
