"""What exposed communication costs a step, over all devices: a step is done when its last device is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fastprof.derive.communication.communication_tables import if_hidden, numbered_steps
from fastprof.derive.communication.host_communication import HostCommunication
from fastprof.derive.communication.meetings import Groups
from fastprof.schema.array_types import Int64s


@dataclass(frozen=True, slots=True)
class StepCosts:
    """Means over steps, rounded down. ``time_ps``, ``if_hidden_ps``: of the device of which it is most."""

    count: int
    time_ps: int
    exposed_ps: int
    if_hidden_ps: int

    @property
    def gain(self) -> float:
        return 1 - self.if_hidden_ps / self.time_ps if self.time_ps else 0.0


def step_costs(kept: Sequence[HostCommunication], groups: Groups) -> StepCosts | None:
    """Of the steps that have a number in the session. None: there are none."""
    step, sums = numbered_steps(kept, groups)
    if not len(step):
        return None
    distinct, place = np.unique(step, return_inverse=True)
    count = len(distinct)
    return StepCosts(
        count,
        _mean(_most(sums.duration_ps, place, count)),
        _mean(sums.exposed_ps),
        _mean(_most(if_hidden(sums), place, count)),
    )


def _most(values: Int64s, place: Int64s, count: int) -> Int64s:
    most = np.zeros(count, np.int64)
    np.maximum.at(most, place, values)
    return most


def _mean(values: Int64s) -> int:
    return int(sum(values.tolist()) // len(values))
