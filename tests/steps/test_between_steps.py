"""Time between the steps of a host."""

from __future__ import annotations

from typing import Any

import pytest
from step_captures import US, host, in_order, ran, spaces, step, tpu
from trace_builder import Plane, event, line, plane, xspace

import fastprof


def rows(*planes: Plane, **params: Any) -> list[tuple[Any, ...]]:
    names = ("core_id", "gap_count", "time_ps", "longest_ps", "longest_start_ps")
    report = fastprof.load(spaces(*planes)).report("steps", **params)
    listed = []
    for row in report.tables["between_steps"].to_pylist():
        times = {name: value // US for name, value in list(row.items())[8:] if value}
        listed.append((*(row[name] // US if name.endswith("_ps") else row[name] for name in names), times))
    assert report.scalars["between_steps_ps"].value == (listed[0][2] * US if listed else 0)
    return listed


def test_time_between_steps_has_the_categories_of_steps() -> None:
    main = []
    for k in range(3):
        main += [step(k, 100 * k, 60), ran("op:Op", 100 * k, 60), ran("metric:Mean", 100 * k + 70, 10 + 5 * k)]
    assert rows(host(in_order(main))) == [(1, 2, 80, 40, 60, {"host_compute_ps": 25, "all_others_ps": 55})]


def test_ops_of_tpus_count_as_far_as_they_lie_between_steps() -> None:
    ops = [
        ("f", "fusion", 0, 60),
        ("over", "fusion", 90, 30),  # 20 µs of it are after the step
        ("while", "while", 120, 70),
        ("ag", "all-gather", 130, 40),
        ("late", "copy-done", 195, 30),  # 5 µs before the next step
    ]
    first = tpu(0, [ran("0", 0, 100), ran("1", 200, 100)], ops)
    second = tpu(1, [ran("0", 0, 100), ran("1", 200, 100)], [("f", "fusion", 0, 60), ("g", "fusion", 210, 60)])
    by_category = {"device_compute_ps": 50, "device_collectives_ps": 40, "all_others_ps": 5, "copies_ps": 5}
    assert rows(first, second) == [
        (2, 1, 100, 100, 100, by_category),
        (3, 1, 100, 100, 100, {"all_others_ps": 100}),
    ]


def test_the_share_is_of_the_time_from_the_first_step_to_the_last() -> None:
    main = [one for k in range(3) for one in (step(k, 100 * k, 60), ran("op:Op", 100 * k, 60))]
    report = fastprof.load(spaces(host(main))).steps()
    assert report.scalars["between_steps_share"].value == 80 / 260


def test_steps_that_lie_further_apart_than_64_bits_count_are_an_error() -> None:
    lines = []
    for k in range(3):
        events = [event("train", 0, 2**55, {"_r": 1, "step_num": k}), event("op:Op", 0, 2**54)]
        lines.append(line(f"python/{k}", events, timestamp_ns=(k - 1) * 2**53))
    with pytest.raises(fastprof.CaptureError, match="span more than 64 bits"):
        fastprof.load(xspace(plane("/host:CPU", lines))).steps(steps_from="markers")


def test_kernels_between_steps_compute() -> None:
    main, kernels = [], []
    for k in range(3):
        main += [step(k, 100 * k, 90), ran("cuLaunchKernel", 100 * k + 5, 2, correlation_id=2 * k + 1)]
        kernels += [ran("gemm", 100 * k + 20, 50, correlation_id=2 * k + 1)]
    runs = [ran("jit_f", 100 * k, 50, correlation_id=k + 1, hlo_module="jit_f", hlo_op="gemm") for k in range(3)]
    runs += [ran("small", 100 * k + 60, 10, correlation_id=10 + k, hlo_module="jit_g", hlo_op="s") for k in range(3)]
    device = plane("/device:GPU:0", [line("Stream #1", in_order(runs))])
    assert rows(device) == [(1, 2, 100, 50, 50, {"device_compute_ps": 20, "all_others_ps": 80})]
    assert rows(host(main), plane("/device:GPU:0", [line("Stream #1", kernels)])) == [
        (1, 2, 100, 50, 70, {"all_others_ps": 100})
    ]


def test_steps_that_follow_each_other_have_no_time_between() -> None:
    main = [one for k in range(3) for one in (step(k, 100 * k, 100), ran("op:Op", 100 * k, 60))]
    assert rows(host(in_order(main))) == []


def test_between_executions_a_tpu_is_idle() -> None:
    runs = [ran("jit_f(1)", 100 * k, 60) for k in range(3)]
    ops = [("f", "fusion", 100 * k, 60) for k in range(3)]
    assert rows(tpu(0, [], ops, lines=[line("XLA Modules", runs, id=2)])) == [(2, 2, 80, 40, 60, {"all_others_ps": 80})]
