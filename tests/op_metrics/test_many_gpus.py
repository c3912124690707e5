"""Ops of captures with many devices, where each runs its own ops in its own step: work is that of events and
devices, not steps times devices. Counted in rows and in lookups."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from flight_spaces import gpu
from step_captures import US, host, spaces, step
from trace_builder import event

import fastprof
from fastprof.derive.ops import roofline_tables
from fastprof.derive.ops.gpu_ops import GpuOpEvents
from fastprof.derive.ops.op_table import OpTable

GPUS = 60


def a_step_each(count: int) -> bytes:
    """Each GPU runs two kernels that no other runs, in a step in which no other runs."""
    planes, launches = [], []
    for k in range(count):
        at = 10 * US * k
        launches += [step(k, 10 * k, 9), event("launch", at + US, US, {"correlation_id": k + 1})]
        known = {"correlation_id": k + 1, "hlo_module": "m"}
        kernels = [
            event(f"{name}_{k}", at + begin * US, 2 * US, {**known, "hlo_op": f"{name}.{k}"})
            for name, begin in (("fusion", 2), ("dot", 5))
        ]
        planes.append(gpu(k, kernels))
    return spaces(host(launches), *planes)


def test_a_device_has_rows_for_its_own_steps_only(monkeypatch: pytest.MonkeyPatch) -> None:
    rows: list[int] = []

    def counted(tables: list[OpTable], *rest: Any) -> OpTable:
        if sys._getframe(1).f_code.co_name == "_sum_parts":
            rows.append(sum(map(len, tables)))
        return merged(tables, *rest)

    merged = roofline_tables.merge_tables
    monkeypatch.setattr(roofline_tables, "merge_tables", counted)
    totals = fastprof.load(a_step_each(GPUS)).roofline().tables["totals"].to_pylist()
    assert rows == [GPUS, GPUS]  # of feeds and of other ops
    steps = [row["total_ps"] for row in totals if row["scope"] == "step"]
    assert steps == [GPUS * 10 * US] * (GPUS - 1) + [GPUS * 5 * US]  # what follows the last is not recorded
    assert totals[1]["total_ps"] == sum(steps) // GPUS


def test_the_cost_of_an_op_is_looked_up_by_the_devices_that_ran_it(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_up: list[int] = []

    def counted(self: GpuOpEvents, number: int) -> object:
        looked_up.append(number)
        return cost(self, number)

    cost = GpuOpEvents.device_cost
    monkeypatch.setattr(GpuOpEvents, "device_cost", counted)
    ops = fastprof.load(a_step_each(GPUS)).op_stats()
    assert sorted(looked_up) == list(range(2 * GPUS)) and ops.tables
