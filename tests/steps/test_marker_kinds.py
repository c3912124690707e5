"""Markers of several kinds: one makes the steps, and reports say which."""

from __future__ import annotations

import json

from reports import rows, session_of
from step_captures import HOST, ran, spaces, step
from test_gpu_steps import gpu
from trace_builder import Event, Plane, line, plane


def eager(at: float) -> list[Event]:
    """A kernel that runs by itself, which TensorFlow marks."""
    return [ran("EagerKernelExecute", at, 5, _r=1), ran("op:Mul", at, 5)]


def training() -> list[Event]:
    """Four training steps of 60 µs, and two eager kernels of 5 µs after each."""
    events = []
    for k in range(4):
        events += [step(k, 100 * k, 60), ran("f:MatMul", 100 * k, 60), *eager(100 * k + 70), *eager(100 * k + 80)]
    return events


def host(events: list[Event]) -> Plane:
    return plane(HOST, [line("python", events)])


def test_steps_that_the_program_numbers_make_the_steps() -> None:
    report = session_of(spaces(host(training()))).report("steps")
    assert rows(report, "steps", "name") == [("train 0",), ("train 1",), ("train 2",), ("train 3",)]
    assert "vm: markers called train make the steps; others are left out: 8 called EagerKernelExecute." in [
        notice.text for notice in report.notices
    ]
    assert report.scalars["between_steps_ps"].value == 3 * 40_000_000


def test_their_numbers_are_those_of_the_groups() -> None:
    profile = session_of(spaces(host(training())))
    numbers = [number for (number,) in rows(profile.report("steps"), "steps", "step")]
    every = rows(profile.report("steps", steps_from="markers"), "steps", "step", "name")
    assert [number for number, name in every if name.startswith("train")] == numbers
    assert len(every) == 12
    chosen = profile.select(steps=(numbers[1], numbers[2])).report("steps")
    assert rows(chosen, "steps", "name") == [("train 1",)]


def test_of_kinds_that_are_numbered_alike_the_one_with_most_time_makes_them() -> None:
    events = []
    for k in range(3):
        events += [step(k, 100 * k, 50), ran("f:MatMul", 100 * k, 50)]
        events += [step(k, 100 * k + 60, 30, name="test"), ran("g:MatMul", 100 * k + 60, 30)]
    report = session_of(spaces(host(events))).report("steps")
    assert rows(report, "steps", "name") == [("train 0",), ("train 1",), ("train 2",)]


def test_names_that_never_repeat_are_no_kinds() -> None:
    events = []
    for k, name in enumerate(("load", "warm up", "measure")):
        events += [ran(name, 100 * k, 50, _r=1), ran("f:MatMul", 100 * k, 50)]
    report = session_of(spaces(host(events))).report("steps", steps_from="markers")
    auto = session_of(spaces(host(events))).report("steps")
    assert rows(auto, "steps", "name") == rows(report, "steps", "name")


def test_steps_of_gpus_are_of_one_kind_and_xprof_has_all() -> None:
    main, kernels = [], []
    for k in range(3):
        main += [step(k, 100 * k, 60), ran("cuLaunchKernel", 100 * k + 1, 1, correlation_id=2 * k + 1)]
        main += [ran("EagerKernelExecute", 100 * k + 70, 9, _r=1),
                 ran("cuLaunchKernel", 100 * k + 71, 1, correlation_id=2 * k + 2)]  # fmt: skip
        kernels += [ran("gemm", 100 * k + 5, 50, correlation_id=2 * k + 1),
                    ran("add", 100 * k + 80, 10, correlation_id=2 * k + 2)]  # fmt: skip
    profile = session_of(spaces(host(main), gpu(0, kernels)))
    report = profile.report("steps")
    assert rows(report, "steps", "name") == [("train 0",), ("train 1",), ("train 2",)]
    answer = json.loads(profile.report("pod_viewer").to_xprof())
    assert len(answer["podStatsSequence"]["podStatsMap"]) == 6
