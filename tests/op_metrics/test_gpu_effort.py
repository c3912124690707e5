"""The stats of a GPU's events are looked up beside them, without a look at those of the host's other GPUs."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from fastprof._native import records
from fastprof.derive.ops import gpu_attribution
from fastprof.tables.host_events import Stat

ENDLESS = 1 << 60
"""Events of a host: no array is as long."""


class Events(SimpleNamespace):
    def __len__(self) -> int:
        return ENDLESS


def events_with(**stats: Stat) -> Any:
    return Events(ints=lambda name: (stats[name].rows, stats[name].value), stat=stats.__getitem__)


def test_a_stat_is_reported_the_events_that_have_it() -> None:
    stat = Stat(np.array([2, 5, 9], np.int32), np.full(3, records.INT64, np.uint8), np.array([20, 50, 90]))
    events = events_with(flops=stat)
    for rows, values in (([0, 2, 3, 5], [0, 20, 0, 50]), ([9, 10], [90, 0]), ([], []), ([7], [0])):
        assert gpu_attribution._read_recorded(events, "flops", np.array(rows, np.int64)).tolist() == values
    none = events_with(flops=Stat(stat.rows[:0], stat.kind[:0], stat.value[:0]))
    assert gpu_attribution._read_recorded(none, "flops", np.array([3, 4])).tolist() == [0, 0]


def test_energy_is_that_of_the_events_that_record_it() -> None:
    joules = np.array([1.5, np.nan, 4.0])
    stat = Stat(np.array([2, 5, 9], np.int32), np.full(3, records.DOUBLE, np.uint8), joules.view(np.int64))
    rows, op = np.array([1, 2, 5, 9]), np.array([0, 0, 1, 1])
    assert gpu_attribution._sum_energy(events_with(vdd_energy_j=stat), rows, op, 2).tolist() == [1.5, 4.0]
