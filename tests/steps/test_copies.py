"""Copies of TPUs are not compute, in any table of steps; XProf's answers count them as such."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest
from gate import typical_captures
from reports import figures, record, rows, session_of
from step_captures import US, host, ran, spaces, tpu

import fastprof

OPS = [
    ("start", "copy-start", 0, 1),
    ("f", "fusion", 1, 9),
    ("done", "copy-done", 10, 60),
    ("ar", "all-reduce", 70, 10),
]
COPIES = ("copy-start", "copy-done", "slice-start", "dynamic-slice-done", "dynamic-update-slice-done")
CATEGORIES = (
    "device_compute_ps", "device_to_device_ps", "device_collectives_ps", "host_compute_ps", "kernel_launch_ps",
    "input_ps", "output_ps", "compilation_ps", "all_others_ps", "copies_ps",
)  # fmt: skip


def profile(**wait: float) -> fastprof.Profile:
    """Two cores. ``wait``: how much longer the second waits for its copy."""
    late = wait.get("late", 0)
    waits = [("start", "copy-start", 0, 1), ("done", "copy-done", 1, 60 + late), ("f", "fusion", 61 + late, 9)]
    cores = [tpu(0, [ran("0", 0, 100)], OPS), tpu(1, [ran("0", 0, 100)], waits)]
    return session_of(spaces(*cores))


def test_copies_have_a_category_of_their_own() -> None:
    found = rows(profile().report("steps"), "steps", "core_name", "device_compute_ps", "device_collectives_ps",
                 "copies_ps", "all_others_ps")  # fmt: skip
    assert found == [
        ("vm:0", 9 * US, 10 * US, 61 * US, 20 * US),
        ("vm:1", 9 * US, 0, 61 * US, 30 * US),
    ]


@pytest.mark.parametrize("category", COPIES)
def test_starting_and_awaiting_a_copy_is_a_copy(category: str) -> None:
    report = session_of(spaces(tpu(0, [ran("0", 0, 100)], [("f", "fusion", 0, 5), ("c", category, 5, 20)]))).report(
        "steps"
    )
    assert rows(report, "steps", "device_compute_ps", "copies_ps") == [(5 * US, 20 * US)]


COLLECTIVES = (
    "all-reduce", "all-reduce fusion", "all-gather", "all-gather-start", "all-gather-done", "reduce-scatter",
    "all-reduce-scatter fusion", "all-to-all", "ragged-all-to-all", "collective-permute", "collective-permute-done",
    "collective-broadcast",
)  # fmt: skip


@pytest.mark.parametrize("category", COLLECTIVES)
def test_whatever_devices_exchange_is_communication(category: str) -> None:
    found = session_of(spaces(tpu(0, [ran("0", 0, 100)], [("f", "fusion", 0, 5), ("c", category, 5, 20)])))
    names = ("device_compute_ps", "device_collectives_ps", "all_others_ps")
    assert rows(found.report("steps"), "steps", *names) == [(5 * US, 20 * US, 75 * US)]
    shares = dict(rows(found.report("input_pipeline"), "breakdown", "category", "mean_ps"))
    assert (shares["compute"], shares["collectives"]) == (5 * US, 20 * US)


def test_xprof_takes_only_some_collectives_for_such() -> None:
    ops = [("f", "fusion", 0, 5), ("g", "all-gather", 5, 20), ("r", "all-reduce", 30, 10)]
    answer = json.loads(session_of(spaces(tpu(0, [ran("0", 0, 100)], ops))).report("pod_viewer").to_xprof())
    times = answer["podStatsSequence"]["podStatsMap"][0]["podStatsPerCore"]["2"]["stepBreakdownUs"]
    assert (times["1"], times["3"], times["9"]) == (25, 10, 65)


def test_the_pod_viewer_names_copies_as_the_bottleneck() -> None:
    found = rows(profile().report("pod_viewer"), "cores", "core_name", "bottleneck", "bottleneck_share")
    assert found == [("vm:0", "Copies", 0.61), ("vm:1", "Copies", 0.61)]


def test_the_breakdown_of_the_input_pipeline_adds_up_with_copies() -> None:
    report = profile().report("input_pipeline")
    found = dict(rows(report, "breakdown", "category", "mean_ps"))
    assert found["copies"] == 61 * US
    assert sum(found.values()) == pytest.approx(figures(report)["step_time_shared_out_ps"])
    known = figures(report)
    assert known["compute_percent"] + known["idle_percent"] == pytest.approx(39)
    assert record(profile().report("overview"), "breakdown", category="copies")["mean_ps"] == 61 * US


def test_xprof_counts_copies_as_compute() -> None:
    answer: dict[str, Any] = json.loads(profile().report("pod_viewer").to_xprof())
    (step,) = answer["podStatsSequence"]["podStatsMap"]
    core = step["podStatsPerCore"]["2"]
    assert (core["bottleneck"], core["stepBreakdownUs"]["1"], len(core["stepBreakdownUs"])) == ("Device compute", 70, 9)


def test_copies_of_hosts_without_devices_are_unknown() -> None:
    report = session_of(spaces(host([ran("train", 0, 10, _r=1, step_num=1), ran("copy-done", 1, 5)]))).report("steps")
    assert set(report.tables["steps"]["copies_ps"].to_pylist()) == {None}


@typical_captures
def test_categories_of_a_capture_add_up_and_compute_holds_no_copies(capture: Path) -> None:
    report = fastprof.load(capture).report("steps")
    steps, kinds = report.tables["steps"], report.tables["breakdown"].to_pylist()
    total = {name: pc.sum(steps[name], min_count=0).as_py() for name in CATEGORIES}
    copies = sum(row["time_ps"] for row in kinds if row["kind"] in (*COPIES, "host_to_device"))
    assert total["copies_ps"] == copies
    is_tpu = any(row["kind"] == "IDLE" for row in kinds)
    if is_tpu:
        assert sum(total.values()) == pc.sum(pc.coalesce(steps["period_ps"], steps["duration_ps"])).as_py()
        assert total["device_compute_ps"] <= sum(
            row["time_ps"] for row in kinds if row["kind"] not in (*COPIES, "IDLE")
        )


@pytest.mark.captures
def test_the_capture_that_waits_for_copies_computes_little(captures: Path) -> None:
    known = fastprof.load(captures / "xspace" / "tpu-v6e-jax-inference")
    steps = known.report("steps").tables["steps"]
    total = {name: sum(steps[name].to_pylist()) for name in CATEGORIES}
    assert total["copies_ps"] > 0.9 * sum(total.values())
    assert total["device_compute_ps"] < 0.04 * sum(total.values())
    assert figures(known.report("input_pipeline"))["compute_percent"] < 5
    assert {row["bottleneck"] for row in known.report("pod_viewer").tables["cores"].to_pylist()} == {"Copies"}
