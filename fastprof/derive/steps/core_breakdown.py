"""What each core spent a step on, in the nine categories that are shown, whatever the hardware."""

from __future__ import annotations

from typing import Final

import numpy as np

from fastprof.derive.steps.database import IDLE, StepDatabase
from fastprof.derive.steps.time_types import CATEGORIES, category_times
from fastprof.derive.steps.tpu_step_values import COLLECTIVES
from fastprof.schema.array_types import Int64s

_BY_NAME: Final = {category.name: place for place, category in enumerate(CATEGORIES)}
DEVICE_COMPUTE, INPUT, ALL_OTHERS = (_BY_NAME[name] for name in ("device_compute", "input", "all_others"))

_OP_CATEGORIES: Final = {
    "input": (
        "infeed", "host recv", "host recv-done", "sparsecorev0 infeed", "sparsecorev0 infeed wait",
        "sparsecorev0 infeed transform",
    ),
    "output": ("outfeed", "host send", "host send-done", "sparsecorev0 outfeed"),
    "device_collectives": COLLECTIVES,
    "device_to_device": ("send", "send-done", "recv", "recv-done", "megacore fusion", "async-done"),
    "all_others": (IDLE,),
}  # fmt: skip
"""Categories of TPU ops by category of step time; all other ops compute."""

_PLACE: Final = {op: _BY_NAME[name] for name, ops in _OP_CATEGORIES.items() for op in ops}


def core_breakdown(database: StepDatabase) -> Int64s:
    """[n, c, 9]: time by category, in the order of CATEGORIES. A SparseCore that does not mark its steps
    computes while it is busy."""
    if not database.is_tpu:
        return category_times(database.type_ps)
    times = np.zeros((*database.duration_ps.shape, len(CATEGORIES)), np.int64)
    for number, op in enumerate(database.categories):
        times[:, :, _PLACE.get(op, DEVICE_COMPUTE)] += database.category_ps[:, :, number]
    times[:, :, INPUT] += database.infeed_ps
    times[:, :, ALL_OTHERS] -= database.infeed_ps
    busy = database.cores.sparse & ~database.tells_categories
    times[:, :, DEVICE_COMPUTE] = np.where(busy, database.sparse_busy_ps, times[:, :, DEVICE_COMPUTE])
    times[:, :, ALL_OTHERS] = np.where(busy, database.duration_ps - database.sparse_busy_ps, times[:, :, ALL_OTHERS])
    return times
