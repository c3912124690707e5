"""How much of each step its input pipelines take: calls within the step, which it waits for, and calls that run ahead.

Times are exact: calls are cut to the step, and what several of them cover at a time counts once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from fastprof.derive.ops.tables import exact_sum
from fastprof.derive.steps.stretches import filled, union
from fastprof.schema.array_types import Int64s
from fastprof.schema.value_classes import dataclass

if TYPE_CHECKING:
    from fastprof.derive.pipelines.reading import Calls
    from fastprof.derive.steps.database import StepDatabase


MOST_PAIRS: Final = 1 << 19
"""Pipelines times steps beyond which calls that run ahead are not looked for in each step."""
_LEAST: Final = 64  # steps that a pipeline counts for: each takes its own look


@dataclass(frozen=True, slots=True)
class Steps:
    """The steps of a host: the group of events of each, ascending, its number, time and name. ``of_devices``: they come
    from the events of devices."""

    group: Int64s
    number: Int64s
    begin_ps: Int64s
    duration_ps: Int64s
    label: list[str]
    of_devices: bool = False


@dataclass(frozen=True, slots=True)
class StepWaits:
    """By step, then pipeline, if a call is of the step or runs in it. ``step``: row of Steps. ``ahead_ps``: -1
    throughout unless ``ahead_known``: there are too many steps and pipelines."""

    step: Int64s
    pipeline: Int64s
    count: Int64s
    wait_ps: Int64s
    ahead_ps: Int64s
    ahead_known: bool = True


def no_steps(*, of_devices: bool = False) -> Steps:
    none = np.zeros(0, np.int64)
    return Steps(none, none, none, none, [], of_devices)


def steps_of(database: StepDatabase) -> Steps:
    """When each step ran on the first core that took part in it."""
    rows = np.arange(len(database))
    if not len(rows) or not database.present.shape[1]:
        return no_steps()
    core = database.present.argmax(axis=1)
    begin, duration = database.begin_ps[rows, core], database.duration_ps[rows, core]
    of_devices = database.hardware != "CPU_ONLY"
    return Steps(database.step, database.number, begin, duration, database.label, of_devices)


def step_waits(calls: Calls, steps: Steps) -> StepWaits:
    pipelines = int(calls.pipeline.max(initial=-1)) + 1
    step = _step_of(calls, steps)
    key = step * max(pipelines, 1) + calls.pipeline
    waits, of_pair, count = np.unique(key[step >= 0], return_inverse=True, return_counts=True)
    wait_ps = _covered(calls, steps, step, of_pair, waits // max(pipelines, 1))
    ahead = _ahead(calls, steps, pipelines)
    if ahead is None:
        return StepWaits(waits // pipelines, waits % pipelines, count, wait_ps, np.full(len(waits), -1), False)
    keys = np.union1d(waits, ahead[0])
    filled_in = np.zeros((3, len(keys)), np.int64)
    at = np.searchsorted(keys, waits)
    filled_in[0, at], filled_in[1, at] = count, wait_ps
    filled_in[2, np.searchsorted(keys, ahead[0])] = ahead[1]
    return StepWaits(keys // max(pipelines, 1), keys % max(pipelines, 1), *filled_in)


def waited(calls: Calls, steps: Steps) -> Int64s:
    """The time of each step in which it waits for a call of any pipeline."""
    step = _step_of(calls, steps)
    waits = np.zeros(len(steps.group), np.int64)
    some, of_step = np.unique(step[step >= 0], return_inverse=True)
    waits[some] = _covered(calls, steps, step, of_step, some)
    return waits


def outside(calls: Calls, steps: Steps) -> npt.NDArray[np.bool_]:
    """Whether each call overlaps no step at all."""
    stretches = union(steps.begin_ps, steps.duration_ps)
    return np.asarray(filled(stretches, calls.start_ps, calls.duration_ps) == 0)


def _step_of(calls: Calls, steps: Steps) -> Int64s:
    """The step whose group each call is of; -1: none."""
    if not len(steps.group):
        return np.full(len(calls.group_id), -1, np.int64)
    place = np.minimum(np.searchsorted(steps.group, calls.group_id), len(steps.group) - 1)
    return np.where(steps.group[place] == calls.group_id, place, -1)


def _covered(calls: Calls, steps: Steps, step: Int64s, of_set: Int64s, step_of_set: Int64s) -> Int64s:
    """How much of its step each set of calls covers: on a clock that runs through the sets' steps one after another.
    ``of_set``: the set of each call that has a ``step``."""
    rows = np.flatnonzero(step >= 0)
    at = step[rows]
    duration = np.maximum(steps.duration_ps[step_of_set], 0)
    exact_sum(duration, "the durations of steps")
    base = np.concatenate([[0], np.cumsum(duration)])[:-1]
    length = np.maximum(steps.duration_ps[at], 0)
    begin = np.clip(calls.start_ps[rows] - steps.begin_ps[at], 0, length)
    end = np.clip(calls.start_ps[rows] + calls.duration_ps[rows] - steps.begin_ps[at], 0, length)
    return filled(union(base[of_set] + begin, end - begin), base, duration)


def _ahead(calls: Calls, steps: Steps, pipelines: int) -> tuple[Int64s, Int64s] | None:
    """Pairs of a step and a pipeline as step * pipelines + pipeline, ascending, and the time in which calls of no group
    run during it; None: too many pairs."""
    rows = np.flatnonzero(calls.group_id < 0)
    keys, times = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    if not len(steps.group):
        return keys[0], times[0]
    of_none = np.unique(calls.pipeline[rows])
    if len(of_none) * max(len(steps.group), _LEAST) > MOST_PAIRS:
        return None
    bounds = np.searchsorted(calls.pipeline[rows], np.append(of_none, pipelines))
    for pipeline, first, last in zip(of_none.tolist(), bounds[:-1], bounds[1:], strict=True):
        here = rows[first:last]
        stretches = union(calls.start_ps[here], calls.duration_ps[here])
        time = filled(stretches, steps.begin_ps, np.maximum(steps.duration_ps, 0))
        some = np.flatnonzero(time)
        keys.append(some * pipelines + pipeline)
        times.append(time[some])
    key, time = np.concatenate(keys), np.concatenate(times)
    order = np.argsort(key, kind="stable")
    return key[order], time[order]
