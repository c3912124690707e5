"""Slow steps, and what took longer in them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from step_captures import US, host, in_order, ran, spaces, step, tpu
from trace_builder import Event, Plane, line, plane, u64

import fastprof
from fastprof.analyses.contract import AnalysisReport
from fastprof.derive.causes.slow_steps import find_outliers, name_step


def report(*planes: Plane, **params: Any) -> AnalysisReport:
    return fastprof.load(spaces(*planes)).report("steps", **params)._answer


def rows(report: AnalysisReport) -> list[tuple[Any, ...]]:
    names = ("name", "duration_ps", "median_ps", "kind", "what", "time_ps", "usual_ps", "difference_ps")
    listed = report.tables["slow_steps"].select(list(names)).to_pylist()
    return [tuple(row[name] // US if name.endswith("_ps") else row[name] for name in names) for row in listed]


@pytest.mark.parametrize(
    ("durations", "expected"),
    [
        ([100, 100, 100], []),  # too few
        ([100, 100, 100, 110], []),  # no more than a tenth
        ([100, 100, 100, 111], [3]),
        ([90, 95, 100, 105, 110, 125], []),  # the median deviation is 5
        ([90, 95, 100, 105, 110, 126], [5]),
        ([100, 100, 200, 200], []),
    ],
)
def test_out_of_line_is_more_than_a_tenth_and_five_median_deviations(durations: list[int], expected: list[int]) -> None:
    found, _ = find_outliers(np.array(durations, np.int64))
    assert np.flatnonzero(found).tolist() == expected


def training(slow: int) -> Plane:
    """Eight steps of 90 us and 10 until the next; one writes a checkpoint for 60 us more: in 50 of them, a frame of
    Python sleeps."""
    main: list[Event] = []
    at = 0.0
    for k in range(8):
        late = 60 if k == slow else 0
        main += [step(k, at, 90 + late), ran("forward", at, 40), ran("a/mm:MatMul", at + 5, 30)]
        main += [ran("$train.py:7 update", at + 45, 30)]
        if late:
            main += [ran("checkpoint", at + 80, 60), ran("$<built-in> sleep", at + 85, 50)]
        at += 100 + late
    return host(in_order(main))


def test_what_takes_longer_is_named_by_kind() -> None:
    answer = report(training(3))
    assert rows(answer) == [
        ("train 3", 160, 100, "category", "not_training", 60, 0, 60),
        ("train 3", 160, 100, "annotation", "checkpoint", 60, 0, 60),
        ("train 3", 160, 100, "python", "$<built-in> sleep", 50, 0, 50),
    ]
    assert answer.scalars["slow_step_count"].value == 1
    assert answer.scalars["slow_step_excess_ps"].value == 60 * US
    assert [one.text for one in answer.notices] == [
        "1 outlier step. The worst, train 3, takes 160.0 µs instead of 100.0 µs: "
        "the annotation checkpoint takes 60.00 µs more than usual (evaluation, logging and saving).",
        "Steps 0, 7 may be cut off by the recording: averages leave them out.",
    ]


@pytest.mark.parametrize("function", ["_watch", "_record_by_time"])
def test_the_thread_and_functions_of_the_profiler_explain_nothing(function: str) -> None:
    """While fastprof ends the recording, its thread works, and so does what it has put around a call."""
    main: list[Event] = []
    for k in range(8):
        at, late = 100 * k + 60 * (k > 4), 60 * (k == 4)
        main += [step(k, at, 90 + late), ran("$own_profiler.py:417 __call__", at, 80 + late)]
        main += [ran("$train.py:7 update", at + 5, 30)]
    ends = [ran("$threading.py:9 run", 100, 800), ran(f"$own_profiler.py:282 {function}", 110, 780),
            ran("$own_profiler.py:300 _record_window", 450, 80), ran("$json.py:5 dump", 455, 70)]  # fmt: skip
    threads = plane("/host:CPU", [line("python", main), line("python", ends)])
    assert {row[3:5] for row in rows(report(threads))} == {("category", "host_compute")}
    calls = fastprof.load(spaces(threads)).report("python_time")
    assert calls.tables["functions"]["function"].to_pylist() == ["update"]


def test_a_step_of_pytorch_that_waits_for_input_says_so() -> None:
    """Its ops are no annotations, although nothing in their names says that they are ops."""
    path = Path(__file__).parents[1] / "planted" / "loops" / "torch_step_at_begin.pt.trace.json.gz"
    answer = fastprof.load(path).report("steps")._answer
    kinds = {row["what"]: row["kind"] for row in answer.tables["slow_steps"].to_pylist()}
    assert kinds == {
        "aten::addmm": "op",
        "<built-in function decompress>": "python",
        "input": "category",
        "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__": "annotation",
    }
    assert [one.text for one in answer.notices] == [
        "1 outlier step. The worst, ProfilerStep#5, takes 29.87 ms instead of "
        "25.76 ms: the annotation enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__ takes 4.083 ms more than "
        "usual (input)."
    ]


def test_what_often_takes_as_long_explains_nothing() -> None:
    """Two of the other five complete steps run the op as long as the slow one, which waits for input."""
    main, at = [], 0
    for k in range(8):
        computes, waits = {1: (60, 40), 3: (60, 40), 5: (60, 140)}.get(k, (10, 90))
        main += [
            step(k, at, computes + waits),
            ran("$data.py:3 load", at, waits),
            ran("a/mm:MatMul", at + waits, computes),
        ]
        at += computes + waits
    found = [row for row in rows(report(host(in_order(main)))) if row[3] != "category"]
    assert found == [("train 5", 200, 100, "python", "$data.py:3 load", 140, 90, 50)]


def test_a_step_whose_name_is_a_number_is_called_so() -> None:
    assert [name_step(name) for name in ("62", "train 62")] == ["step 62", "train 62"]


def test_of_several_hosts_the_step_furthest_out_of_line_is_named() -> None:
    hosts = [spaces(training(slow), hostnames=[f"vm{slow}"]) for slow in (3, 4, 5)]
    notices = [one.text for one in fastprof.load(hosts).report("steps")._answer.notices if "outlier step" in one.text]
    assert len(notices) == 2
    assert ": 1 outlier step. The worst, train 3" in notices[0]
    assert notices[1] == "2 other hosts have 2 outlier steps: table slow_steps."


def test_incomplete_steps_are_not_out_of_line() -> None:
    """The first and the last of more than five may be cut off."""
    assert rows(report(training(0))) == rows(report(training(7))) == []


def test_an_op_that_takes_longer_is_named_with_its_usual_time() -> None:
    kernels, main, at = [], [], 0
    for k in range(8):
        took = 70 if k == 4 else 30
        main += [step(k, at, took + 30), ran("cuLaunchKernel", at + 5, 2, correlation_id=2 * k + 1)]
        main += [ran("cuLaunchKernel", at + 8, 2, correlation_id=2 * k + 2)]
        kernels += [ran("gemm", at + 20, took, correlation_id=2 * k + 1)]
        kernels += [ran("relu", at + 20 + took, 10, correlation_id=2 * k + 2)]
        at += took + 30
    answer = report(host(main), plane("/device:GPU:0", [line("Stream #1", kernels)]))
    assert rows(answer) == [
        ("train 4", 100, 60, "category", "device_compute", 80, 40, 40),
        ("train 4", 100, 60, "op", "gemm", 70, 30, 40),
    ]


def test_what_devices_take_at_once_is_not_added_up() -> None:
    """The second device explains the step."""
    begins = [100 * k + 30 * (k > 4) for k in range(8)]
    main = [step(k, at, 90) for k, at in enumerate(begins)]
    kernels: tuple[list[Event], list[Event]] = ([], [])
    for number, on_device in enumerate(kernels):
        for k, at in enumerate(begins):
            took = 30 + (10 + 20 * number) * (k == 4)
            main.append(ran("cuLaunchKernel", at + 5 + 4 * number, 2, correlation_id=2 * k + number + 1))
            on_device.append(ran("gemm", at + 20, took, correlation_id=2 * k + number + 1))
    gpus = [plane(f"/device:GPU:{n}", [line("Stream #1", on_device)], id=n + 1) for n, on_device in enumerate(kernels)]
    (op,) = (row for row in rows(report(host(main), *gpus)) if row[3] == "op")
    assert op == ("train 4", 130, 100, "op", "gemm", 60, 30, 30)


def test_steps_of_different_names_are_compared_with_their_own() -> None:
    main = []
    for k in range(12):
        name, took = ("train", 50) if k % 2 else ("test", 150)
        main += [step(k, 200 * k, took, name), ran("op:Op", 200 * k, took)]
    assert rows(report(host(in_order(main)))) == []


@pytest.mark.parametrize("recorded", [["program_id"], ["hlo_module"], ["program_id", "hlo_module"]])
def test_steps_of_different_programs_are_not_compared(recorded: list[str]) -> None:
    """Three of 14 steps run a larger program; of its own program, step 9 is out of line."""
    took = [270 if k in (2, 6, 10) else 130 if k == 9 else 70 for k in range(14)]
    main, kernels, at = [], [], 0
    for k, length in enumerate(took):
        big = length == 270
        stats = {"program_id": u64(49 if big else 5), "hlo_module": "jit_big" if big else "jit_small"}
        stats = {name: stats[name] for name in recorded}
        main += [step(k, at, length + 30), ran("cuLaunchKernel", at + 5, 2, correlation_id=k)]
        kernels += [ran("gemm", at + 20, length, correlation_id=k, **stats)]
        at += length + 30
    answer = report(host(main), plane("/device:GPU:0", [line("Stream #1", kernels)]))
    assert {(row[0], row[1], row[2]) for row in rows(answer)} == {("train 9", 160, 100)}
    assert answer.scalars["slow_step_count"].value == 1


@pytest.mark.parametrize(("other", "expected"), [("jit_g(2)", set()), ("jit_f(1)", {"2", "6", "10"})])
def test_marked_steps_of_tpus_are_compared_by_the_executions_of_programs(other: str, expected: set[str]) -> None:
    marks, runs, ops, at = [], [], [], 0
    for k in range(12):
        name, took = (other, 250) if k % 4 == 2 else ("jit_f(1)", 100)
        marks.append(ran(str(k), at, took))
        runs.append(ran(name, at, took))
        ops.append(("a", "fusion", at, took))
        at += took + 10
    answer = report(tpu(0, marks, ops, lines=[line("XLA Modules", runs, id=2)]))
    assert {row[0] for row in rows(answer)} == expected


def test_time_of_an_event_counts_as_far_as_it_is_in_the_step() -> None:
    """On all threads; what encloses the steps does not differ, and waiting for the work is not named."""
    main, other = [ran("epoch", 0, 100_000)], []
    at = 0.0
    for k in range(80):
        took = 190 if k == 40 else 90
        main += [step(k, at, took), ran("op:Op", at, 20), ran("$api.py:1 block_until_ready", at + 20, took - 20)]
        if took > 90:
            other = [ran("compact", at - 50, 120)]
        at += took + 10
    answer = report(host(in_order(main), other))
    assert [row[3:] for row in rows(answer)] == [
        ("category", "all_others", 180, 80, 100),
        ("annotation", "compact", 70, 0, 70),
    ]


def test_steps_of_tpus_without_markers_are_compared_too() -> None:
    runs, ops, at = [], [], 0
    for k in range(6):
        late = 50 if k == 2 else 0
        runs.append(ran("jit_f(1)", at, 100 + late))
        ops += [("a", "fusion", at, 60), ("b", "all-reduce", at + 60, 30 + late)]
        at += 100 + late
    answer = report(tpu(0, [], ops, lines=[line("XLA Modules", runs, id=2)]))
    assert rows(answer) == [
        ("jit_f(1)", 150, 100, "category", "device_collectives", 80, 30, 50),
        ("jit_f(1)", 150, 100, "op", "b", 80, 30, 50),
    ]


def test_an_annotation_that_is_the_step_does_not_explain_it() -> None:
    main, kernels, at = [], [], 0
    for k in range(8):
        late = 60 if k == 4 else 0
        main += [ran("work", at, 90 + late), ran("cuLaunchKernel", at + 5, 2, correlation_id=k + 1)]
        kernels += [ran("gemm", at + 10, 70 + late, correlation_id=k + 1)]
        at += 100 + late
    answer = report(host(main), plane("/device:GPU:0", [line("Stream #1", kernels)]))
    assert answer.scalars["steps_source"].value == "annotations"
    assert {(row[3], row[4]) for row in rows(answer)} == {("category", "device_compute"), ("op", "gemm")}
