"""Figures of steps, one value a step: how long it took, and what of that went where, across the cores that took part.

Off TPUs a step's times are means over the hosts that took part, each host's devices being one core of the step
database. On TPUs they follow the critical core, as steps/tpu_step_values.py says.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from fastprof.derive.steps import verdicts
from fastprof.derive.steps.database import IDLE, StepDatabase
from fastprof.derive.steps.time_types import CATEGORIES, HOST_TO_DEVICE, HOST_WAIT_INPUT, category_times
from fastprof.derive.steps.tpu_step_values import COLLECTIVES as COLLECTIVE_OPS
from fastprof.derive.steps.tpu_step_values import TpuStepValues
from fastprof.schema.array_types import Float64s, Int64s

COMPUTE, DEVICE_TO_DEVICE, COLLECTIVES, HOST_COMPUTE, LAUNCH, INPUT, OUTPUT, COMPILATION, OTHER = range(len(CATEGORIES))
"""The columns of GenericSteps.category_ps and of core_breakdown."""

PS_PER_MS: Final = 1e9


def step_times(db: StepDatabase) -> Int64s:
    """[n] time of each step in ps: of the core that took longest, SparseCores left out; 0 where none took part."""
    on_core = np.where(db.present & ~db.cores.sparse, db.duration_ps, 0)
    longest: Int64s = on_core.max(axis=1, initial=0)
    return longest


@dataclass(frozen=True, slots=True)
class GenericSteps:
    """Steps of GPUs or of CPUs: n of them, those that any of the cores took part in. Times in ps."""

    row: Int64s  # row of the step database
    step_ps: Float64s  # [n]
    type_ps: Float64s  # [n, 18] by event type

    def __len__(self) -> int:
        return len(self.row)

    @property
    def category_ps(self) -> Float64s:
        """[n, 9] by category of time_types.CATEGORIES."""
        return self.categories()

    @property
    def wait_input_ps(self) -> Float64s:
        """[n] part of the category input: the host waits for its input pipeline."""
        return self.type_ps[:, HOST_WAIT_INPUT]

    @property
    def to_device_ps(self) -> Float64s:
        """[n] part of the category input: copies to the device, and enqueuing of them."""
        return self.type_ps[:, HOST_TO_DEVICE]

    def categories(self, unit_ps: float = 1.0) -> Float64s:
        """[n, 9] by category, of types that are in this unit before they are added up."""
        of_types = self.type_ps / unit_ps
        times: Float64s = np.stack([of_types[:, list(one.types)].sum(axis=1) for one in CATEGORIES], axis=1)
        return times

    def bottleneck(self, uses_tf_data: bool) -> verdicts.Bottleneck:
        """The verdicts on these steps together."""
        total = self.category_ps.sum(axis=0)
        return verdicts.of_generic(
            step=float(self.step_ps.sum()),
            input=float(self.wait_input_ps.sum() + self.to_device_ps.sum()),
            output=float(total[OUTPUT]),
            compute=float(total[COMPUTE]),
            collectives=float(total[COLLECTIVES]),
            launch=float(total[LAUNCH]),
            other=float(total[OTHER]),
            tf_data=uses_tf_data,
        )


def generic_steps(db: StepDatabase, core_id: int | None = None) -> GenericSteps:
    """The steps of all cores, or of the one core of this id."""
    columns = np.arange(len(db.cores)) if core_id is None else np.flatnonzero(db.cores.id == core_id)
    present = db.present[:, columns]
    rows = np.flatnonzero(present.any(axis=1))
    present = present[rows]
    cores = np.maximum(present.sum(axis=1), 1).astype(np.float64)

    def mean(values: Int64s) -> Float64s:
        on = np.where(present if values.ndim == 2 else present[:, :, None], values, 0).sum(axis=1)
        result: Float64s = on / (cores if values.ndim == 2 else cores[:, None])
        return result

    return GenericSteps(rows, mean(db.duration_ps[rows][:, columns]), mean(db.type_ps[rows][:, columns]))


TPU_CATEGORIES: Final = (
    ("compute", "tc_compute_ms"),  # less the next
    ("collectives", "tc_collectives_ms"),
    ("input", "tc_infeed_ms"),
    ("output", "tc_outfeed_ms"),
    ("idle", "tc_idle_ms"),
    ("sparse_core_v0_compute", "scv0_compute_ms"),
    ("sparse_core_v0_input", "scv0_infeed_ms"),
)
"""What the time of a step on TPUs is divided into, and where TpuStepValues has it. They add up to its step_ms."""


def tpu_categories(steps: TpuStepValues) -> tuple[list[str], Float64s]:
    """Names of the categories, and times [n, k] in ps; the first SparseCores only where there are any."""
    times = {name: np.asarray(getattr(steps, column), np.float64) * PS_PER_MS for name, column in TPU_CATEGORIES}
    times["compute"] = times["compute"] - times["collectives"]
    found = {name: time for name, time in times.items() if time.any() or not name.startswith("sparse_core_v0")}
    return list(found), np.stack(list(found.values()), axis=1)


def longest_wait_cores(db: StepDatabase, steps: TpuStepValues) -> list[str | None]:
    """Of each step the core that waits longest for input, as host:ordinal; None: none waits, or it is not described."""
    cores = db.cores
    names = {
        core: name
        for core, name, known in zip(cores.id.tolist(), cores.name, cores.has_details.tolist(), strict=True)
        if known
    }
    waits = (steps.tc_infeed_ms > 0).tolist()
    return [names.get(core) if wait else None for core, wait in zip(steps.max_infeed_core.tolist(), waits, strict=True)]


def has_sparse_cores(db: StepDatabase) -> bool:
    """Whether any SparseCore took part in a step."""
    return bool((db.present & db.cores.sparse).any())


def tpu_verdict(steps: TpuStepValues, step_ms: Float64s | None = None) -> verdicts.Bottleneck:
    """The verdicts on steps of TPUs together. ``step_ms``: how long the steps are taken to be, if not as they were."""
    return verdicts.of_tpu(
        step=float((steps.step_ms if step_ms is None else step_ms).sum()),
        input=float(steps.tc_infeed_ms.sum() + steps.scv0_infeed_ms.sum()),
        output=float(steps.tc_outfeed_ms.sum()),
        idle=float(steps.tc_idle_ms.sum()),
        all_reduce_compute=float(steps.all_reduce_compute_ms.sum()),
        all_reduce_sync=float(steps.all_reduce_sync_ms.sum()),
        sparse_core=float(steps.scv0_compute_ms.sum()),
    )


_OP_CATEGORIES: Final = {
    INPUT: (
        "infeed", "host recv", "host recv-done", "sparsecorev0 infeed", "sparsecorev0 infeed wait",
        "sparsecorev0 infeed transform",
    ),
    OUTPUT: ("outfeed", "host send", "host send-done", "sparsecorev0 outfeed"),
    COLLECTIVES: COLLECTIVE_OPS,
    DEVICE_TO_DEVICE: ("send", "send-done", "recv", "recv-done", "megacore fusion", "async-done"),
    OTHER: (IDLE,),
}  # fmt: skip
"""Categories of TPU ops by category of step time; all other ops compute."""

_PLACE: Final = {op: place for place, ops in _OP_CATEGORIES.items() for op in ops}


def core_breakdown(database: StepDatabase) -> Int64s:
    """[n, c, 9]: time of each core by category, in the order of CATEGORIES, whatever the hardware. A SparseCore that
    does not mark its steps computes while it is busy."""
    if not database.is_tpu:
        return category_times(database.type_ps)
    times = np.zeros((*database.duration_ps.shape, len(CATEGORIES)), np.int64)
    for number, op in enumerate(database.categories):
        times[:, :, _PLACE.get(op, COMPUTE)] += database.category_ps[:, :, number]
    times[:, :, INPUT] += database.infeed_ps
    times[:, :, OTHER] -= database.infeed_ps
    busy = database.cores.sparse & ~database.knows_categories
    times[:, :, COMPUTE] = np.where(busy, database.sparse_busy_ps, times[:, :, COMPUTE])
    times[:, :, OTHER] = np.where(busy, database.duration_ps - database.sparse_busy_ps, times[:, :, OTHER])
    return times
