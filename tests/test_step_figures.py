"""Figures of steps: how they are spread, and what a step is across cores and hosts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hand_made import MS, generic_db, tpu_db

from fastprof.derive.steps.step_figures import (
    COMPUTE,
    INPUT,
    OTHER,
    compute_step_times,
    compute_tpu_steps,
    find_longest_wait_cores,
    has_sparse_cores,
    judge_tpu_steps,
    make_generic_steps,
    split_tpu_categories,
)


def test_a_step_takes_as_long_as_on_its_slowest_core_sparse_cores_left_out() -> None:
    steps = [[{"step": 10, "fusion": 1}, {"step": 12, "fusion": 1}, {"step": 99, "busy": 50}]]
    db = tpu_db(steps, ids=(0, 1, 1_000_000), sparse=(1_000_000,))
    assert compute_step_times(db).tolist() == [12 * MS]
    assert has_sparse_cores(db)


def test_a_core_that_took_no_part_in_a_step_does_not_count() -> None:
    db = tpu_db([[{"step": 10, "fusion": 1}, {"step": 12, "fusion": 1}]], ids=(0, 1))
    absent = replace(db, present=np.array([[True, False]]))
    assert compute_step_times(absent).tolist() == [10 * MS]
    assert compute_step_times(replace(db, present=np.zeros((1, 2), bool))).tolist() == [0]


def test_steps_off_tpus_are_means_over_the_hosts_that_took_part() -> None:
    fast, slow = {"device_compute_32": 100}, {"device_compute_16": 60, "host_wait_input": 40, "unknown_time": 100}
    found = make_generic_steps(generic_db([[fast, slow], [{}, slow]], hosts=("a", "b")))
    assert found.row.tolist() == [0, 1]
    assert found.step_ps.tolist() == [150 * MS, 200 * MS]
    assert found.category_ps[:, COMPUTE].tolist() == [80 * MS, 60 * MS]
    assert found.category_ps[:, INPUT].tolist() == [20 * MS, 40 * MS]
    assert found.category_ps[:, OTHER].tolist() == [50 * MS, 100 * MS]
    assert found.wait_input_ps.tolist() == [20 * MS, 40 * MS]
    assert found.to_device_ps.tolist() == [0, 0]


def test_steps_of_one_core_leave_out_those_without_it() -> None:
    step = {"device_compute_32": 100}
    db = generic_db([[step, step], [{}, step]], hosts=("a", "b"))
    assert make_generic_steps(db, 1).row.tolist() == [0]
    assert make_generic_steps(db, 1001).row.tolist() == [0, 1]
    assert len(make_generic_steps(db, 7)) == 0


CORES = [{"step": 10, "infeed": 1, "fusion": 8}, {"step": 10, "infeed": 3, "outfeed": 1, "fusion": 4, "all-reduce": 2}]


def test_the_categories_of_tpu_steps_add_up_to_the_step() -> None:
    steps = compute_tpu_steps(tpu_db([CORES, CORES], ids=(0, 1)))
    names, times = split_tpu_categories(steps)
    assert times.shape == (2, len(names))
    assert times.sum(axis=1) == pytest.approx(steps.step_ms * MS)
    assert dict(zip(names, (times[0] / MS).tolist(), strict=True)) == pytest.approx(
        {"compute": 4, "collectives": 2, "input": 3, "output": 0.5, "idle": 0.5}
    )
    assert judge_tpu_steps(steps).input_percent == pytest.approx(30)


def test_the_core_that_waits_longest_has_a_name_where_it_waits_and_is_described() -> None:
    db = tpu_db([CORES, [{"step": 10, "fusion": 8}] * 2], ids=(0, 1))
    assert find_longest_wait_cores(db, compute_tpu_steps(db)) == ["host0:1", None]
    unknown = replace(db, cores=replace(db.cores, has_details=np.zeros(2, bool)))
    assert find_longest_wait_cores(unknown, compute_tpu_steps(unknown)) == [None, None]
    first = tpu_db([[{"step": 10, "infeed": 4, "fusion": 6}]])
    assert find_longest_wait_cores(first, compute_tpu_steps(first)) == ["host0:0"]
