"""Findings say the specific thing: what another report knows of the same lost time."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import tf_gpu_runs
from planted_cases import HEALTHY, PLANTED
from reports import session_of

import fastprof
from fastprof import Report

CASES = {case.name: case for case in (*PLANTED, *HEALTHY)}


@cache
def reports(case: str) -> Mapping[str, Report]:
    return session_of(*CASES[case].run().captures.values()).reports("diagnosis", "input_pipeline")


def findings(case: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = reports(case)["diagnosis"].tables["findings"].to_pylist()
    return rows


@pytest.mark.parametrize(
    ("case", "detail"),
    [
        (
            "gpu_slow_iterator",
            "Map takes 98.8 % of the calls of the tf.data pipeline Host:0, 5.440 ms of each. With a prefetch after "
            "BatchV2, a batch would take 7.408 ms instead of 12.91 ms.",
        ),
        (
            "tpu_late_infeed",
            "Map takes 100.0 % of the calls of the tf.data pipeline Host:0, 5.325 ms of each. With Map in parallel by "
            "4, a batch would take 1.331 ms instead of 5.365 ms.",
        ),
        (
            "jax_changing_shapes",
            "8 compilations or traces, 8 of them of the function train_step. 8 of 8 steps spend time on it. "
            "train_step (called at train.py:29) was recompiled 8 times (steps 0 to 7), taking 791.6 ms: a new shape "
            "of x (f32[99,128], then f32[100,128], then f32[101,128] and 6 more).",
        ),
        (
            "jax_jit_in_loop",
            "8 compilations or traces, 8 of them of the function <lambda>. 8 of 8 steps spend time on it. <lambda> "
            "(called at train.py:24) was recompiled 7 times (steps 1 to 7), taking 313.4 ms: equal programs: likely "
            "the function, or a static argument, is a new object each time, as with jax.jit of a lambda or "
            "functools.partial in the loop.",
        ),
        (
            "tf_retracing",
            "8 compilations or traces, 8 of them of the function train_step. 8 calls of train_step traced it; since "
            "the program began it was traced 9 times. 8 of 8 steps spend time on it. train_step was retraced 8 "
            "times (steps 0 to 7), taking 805.7 ms: an unknown change (TensorFlow's profiler does not record the "
            "arguments).",
        ),
        (
            "gpu_copied_batches",
            "8 operations (copy host to device) move 228.9 MiB and take 40.00 ms; 40.00 ms of that is exposed.",
        ),
        (
            "gpu_late_launches",
            "640 kernels of 60.00 µs on average were launched; devices wait 40.99 µs for each.",
        ),
        (
            "gpu_allocated_each_step",
            "8 allocations take 8.941 GiB in total. Peak memory is 35.95 GiB of 37.25 GiB. Fragmentation of "
            "free memory is 71.0 %.",
        ),
        ("jax_slow_step", "In step 6, the op while.5 takes 27.34 ms instead of 3.878 ms."),
    ],
)
def test_the_first_finding_has_what_another_report_knows_of_it(case: str, detail: str) -> None:
    assert findings(case)[0]["detail"] == detail


def test_a_slow_iterator_brings_the_suggestion_of_its_report() -> None:
    assert findings("gpu_slow_iterator")[0]["advice"].startswith("Run it in parallel: num_parallel_calls=tf.data.")


def test_a_function_of_python_has_its_line_as_source() -> None:
    assert findings("jax_python_between")[0]["source"] == "train.py:21"


def test_steps_of_a_pod_that_only_start_differently_are_not_out_of_line() -> None:
    assert [row["cause"] for row in findings("tpu_all_reduce")] == ["communication"]


def test_who_has_memory_to_spare_is_not_advised_to_use_less() -> None:
    (capture,) = tf_gpu_runs.allocated_each_step(4_000_000_000).captures.values()
    row = session_of(capture).report("diagnosis").tables["findings"].to_pylist()[0]
    assert row["cause"] == "memory_pressure"
    assert row["advice"].startswith("Memory is not scarce, but allocating it takes time")
    assert findings("gpu_allocated_each_step")[0]["advice"].startswith("Use smaller batches")


def test_a_slow_step_is_explained_by_its_critical_path() -> None:
    """A thread beside it takes longer in that step, too, but is no explanation."""
    first = findings("gpu_long_step")[0]
    assert first["op"] is not None and "writer" not in (first["detail"] or "")


def test_the_time_of_a_slow_step_is_in_one_finding() -> None:
    slow, python = findings("torch_slow_step")
    assert slow["annotation"] == "train.py(14): log_weights"
    assert "log_weights" not in python["title"] and python["cost_ps"] < slow["cost_ps"] / 4


def test_advice_fits_a_loader_that_has_workers_and_a_queue() -> None:
    assert "num_workers > 0" not in findings("torch_slow_workers")[0]["advice"]
    assert findings("torch_slow_workers")[0]["advice"].startswith("The workers of the DataLoader")
    assert findings("jax_queued_batches")[0]["advice"].startswith("The queue fills more slowly")
    assert "num_workers > 0" in findings("torch_sleeping_loader")[0]["advice"]


@pytest.mark.parametrize(
    ("case", "first"),
    [
        ("jax_decoding_batches", "load_batch takes the largest part of it: make it faster, or hide it behind compute."),
        (
            "jax_sleeping_batches",
            "batches (train.py:18) takes the largest part of it: make it faster, or hide it behind compute.",
        ),
        (
            "jax_queued_batches",
            "The queue fills more slowly than steps consume it: let more threads or processes fill it",
        ),
    ],
)
def test_the_input_pipeline_names_what_the_diagnosis_does(case: str, first: str) -> None:
    [_, text] = [one.text for one in reports(case)["input_pipeline"].notices if one.severity == "recommendation"]
    assert text.startswith(first)
    [found] = [row for row in findings(case) if row["cause"] == "input"]
    assert found["advice"].startswith(first)


def test_no_advice_is_on_a_data_loader_that_did_not_run() -> None:
    report = fastprof.load(Path(__file__).parent / "loops" / "torch_annotated_compute.pt.trace.json.gz")
    texts = [one.text for one in report.input_pipeline().notices]
    texts += [row["advice"] for row in report.diagnosis().tables["findings"].to_pylist() if row["cause"] == "input"]
    assert sum(one.startswith("sample_trajectories (train.py:18) takes the largest part") for one in texts) == 2
    assert not any("DataLoader" in one for one in texts)
