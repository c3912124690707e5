"""The spread of times over complete steps: of steps, and of each kind of time on each core."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fastprof.derive.steps.database import StepDatabase
from fastprof.derive.steps.of_host import HostSteps
from fastprof.derive.steps.step_figures import core_breakdown, step_times
from fastprof.derive.steps.step_time import OWN_CATEGORIES
from fastprof.derive.steps.time_spread import spread
from fastprof.schema.array_types import Bools, Int64s


def step_summary(kept: Sequence[HostSteps], database: StepDatabase) -> list[dict[str, Any]]:
    """The spread of step times, then of each kind of time on each core."""
    times: list[tuple[str | None, int | None, str, Int64s]] = [(None, None, "step_time", longest_times(database))]
    for host in kept:
        own = host.database
        in_categories = core_breakdown(own)
        for core, core_id in enumerate(own.cores.id.tolist()):
            counts = own.present[:, core] & own.complete
            times.append((host.host, core_id, "step_time", own.duration_ps[counts, core]))
            by_category = zip(OWN_CATEGORIES, in_categories[counts, core].T, strict=True)
            times += [(host.host, core_id, one.name, values) for one, values in by_category if values.any()]
    return [
        {"host": host, "core_id": core_id, "quantity": quantity, **summary}
        for host, core_id, quantity, values in times
        if (summary := spread(values)) is not None
    ]


def longest_times(database: StepDatabase) -> Int64s:
    """Of each complete step, the time on the core that took longest."""
    dense = ~database.cores.sparse
    some = database.complete_steps().stretches()
    return np.concatenate([step_times(one)[one.present[:, dense].any(axis=1)] for one in some])


def cores_in_steps(database: StepDatabase) -> Bools:
    """[c] whether a core took part in any step."""
    took_part: Bools = np.any([some.present.any(axis=0) for some in database.stretches()], axis=0)
    return took_part
