"""Executions of compiled programs as steps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gate import few
from step_captures import HOST, found, in_order, ran, rows, spaces, step, tpu
from trace_builder import Event, line, plane

import fastprof
from fastprof.derive.steps.device_steps import EXECUTION_STATS, find_executions
from fastprof.derive.steps.tpu_steps import STATS as DEVICE_STATS
from fastprof.errors import UsageError
from fastprof.schema.columns import add_durations
from fastprof.tables.host_reader import read_host


def modules(capture: bytes) -> Any:
    return found(capture, steps_from="modules")


def test_each_module_on_a_tpu_is_a_step_that_lasts_until_its_work_on_the_core_is_done() -> None:
    def core(ordinal: int, late: float) -> Any:
        runs = [ran("jit_f(1)", late, 90), ran("jit_g(2)", late + 200, 50), ran("jit_f(1)", late + 300, 90)]
        ops = [("f", "fusion", late + 10, 20), ("f", "fusion", late + 210, 30), ("f", "fusion", late + 100, 5)]
        return tpu(ordinal, [], [*ops, ("f", "fusion", late + 389, 40)], lines=[line("XLA Modules", runs, id=2)])

    database = modules(spaces(core(0, 0), core(1, 5)))
    assert database.label == ["jit_f(1)", "jit_g(2)", "jit_f(1)"]
    assert rows(database) == [
        (0, 2, 0.0, 200.0, {"IDLE": 175.0, "fusion": 25.0}),
        (0, 3, 5.0, 200.0, {"IDLE": 175.0, "fusion": 25.0}),
        (1, 2, 200.0, 100.0, {"IDLE": 70.0, "fusion": 30.0}),
        (1, 3, 205.0, 100.0, {"IDLE": 70.0, "fusion": 30.0}),
        (2, 2, 300.0, 129.0, {"IDLE": 89.0, "fusion": 40.0}),
        (2, 3, 305.0, 129.0, {"IDLE": 89.0, "fusion": 40.0}),
    ]


@pytest.mark.parametrize("seed", few(range(20), 8))
def test_ops_on_tpus_belong_to_the_last_module_that_began_if_it_still_runs(seed: int) -> None:
    rng = np.random.default_rng(seed)
    at, took = np.sort(rng.integers(0, 60, 6)), rng.integers(0, 30, 6)
    runs = [ran(f"jit_{i}", int(at[i]), int(took[i])) for i in range(6)]
    threads = [in_order([ran("op", int(rng.integers(0, 99)), 1) for _ in range(count)]) for count in (0, 20, 30)]
    names = ("Framework Ops", "XLA Ops", "Async XLA Ops")
    lines = [line(name, events, id=i) for i, (name, events) in enumerate(zip(names, threads, strict=True))]
    capture = spaces(plane("/device:TPU:0", [*lines, line("XLA Modules", in_order(runs), id=9)]))
    events = read_host(fastprof.load(capture).table_set, 0, (), EXECUTION_STATS + DEVICE_STATS, ())
    (one,) = find_executions(events)
    *others, module_line = events.lines
    modules = range(module_line.first, module_line.last)
    start, end = events.start_ps.tolist(), add_durations(events.start_ps, events.duration_ps).tolist()
    wanted = []
    for row in (row for other in others for row in range(other.first, other.last)):
        begun = [number for number, module in enumerate(modules) if start[module] <= start[row]]
        if begun and start[row] < end[modules[begun[-1]]]:
            wanted.append((row, begun[-1]))
    pairs = list(zip(one.rows.tolist(), one.of.tolist(), strict=True))
    assert pairs[:6] == [(module, number) for number, module in enumerate(modules)]
    assert pairs[6:] == wanted


def kernel(op: str, module: str, at: float, duration: float = 5) -> Event:
    return ran(op, at, duration, correlation_id=int(at) + 1, hlo_module=module, hlo_op=op)


def on_gpu(*kernels: Event) -> bytes:
    copy = ran("MEMCPYHtoD", 3, 1, correlation_id=999)
    derived = line("XLA Modules", [kernel("never", "seen", 0)], id=0xDEADBEEF + 4)
    return spaces(plane("/device:GPU:0", [line("Stream #1", in_order([copy, *kernels])), derived]))


def test_kernels_on_a_gpu_are_of_one_execution_up_to_another_module_or_its_first_kernel() -> None:
    kernels = [
        kernel("a", "f", 0), kernel("b", "f", 10), kernel("b", "f", 20),
        kernel("a", "f", 30), kernel("b", "f", 40),
        kernel("c", "g", 50), kernel("c", "g", 60),
        kernel("b", "f", 70), kernel("a", "f", 80),
    ]  # fmt: skip
    database = modules(on_gpu(*kernels))
    assert [(row[0], row[2], row[3]) for row in rows(database)] == [
        (0, 0.0, 30.0), (1, 30.0, 20.0), (2, 50.0, 10.0), (3, 60.0, 10.0), (4, 70.0, 15.0),
    ]  # fmt: skip
    assert database.label == ["f", "f", "g", "g", "f"]
    assert rows(database)[0][4] == {"unknown_time": 15.0, "device_compute_32": 15.0}


def test_kernels_of_an_op_are_distinguished_from_a_new_execution_by_their_names() -> None:
    first = ran("prepare", 0, 5, correlation_id=1, hlo_module="f", hlo_op="dot")
    second = ran("gemm", 10, 5, correlation_id=2, hlo_module="f", hlo_op="dot")
    again = ran("prepare", 20, 5, correlation_id=3, hlo_module="f", hlo_op="dot")
    assert [row[2] for row in rows(modules(on_gpu(first, second, again)))] == [0.0, 20.0]


def test_ops_of_a_run_on_a_host_are_a_step() -> None:
    def op(at: float, run: int, name: str = "dot") -> Event:
        return ran(name, at, 10, hlo_module="jit_f", run_id=run)

    threads = [[op(0, 1), op(20, 1), op(100, 2)], [op(5, 1), op(130, 2), ran("other", 50, 10)]]
    lines = [line(f"thread {number}", events) for number, events in enumerate(threads)]
    database = modules(spaces(plane(HOST, lines)))
    assert rows(database) == [
        (0, 1, 0.0, 100.0, {"unknown_time": 75.0, "host_compute": 25.0}),
        (1, 1, 100.0, 40.0, {"unknown_time": 20.0, "host_compute": 20.0}),
    ]
    assert database.name == ["jit_f", "jit_f"]


def test_markers_do_not_count_then() -> None:
    main = [step(0, 0, 100), ran("op", 5, 5), ran("dot", 200, 10, hlo_module="jit_f", run_id=3)]
    assert rows(modules(spaces(plane(HOST, [line("main", main)])))) == [(0, 1, 200.0, 10.0, {"host_compute": 10.0})]


@pytest.mark.parametrize(("at", "warned"), [(200, True), (99, False), (10, False), (100, True)])
def test_executions_outside_of_the_markers_are_warned_of(at: float, warned: bool) -> None:
    """The program of a marker that only dispatches it runs later."""
    main = [step(0, 0, 100), ran("op", 5, 5), ran("dot", at, 10, hlo_module="jit_f", run_id=3)]
    space = spaces(plane(HOST, [line("main", sorted(main, key=lambda one: one.offset_ps or 0))]))
    notices = fastprof.load(space).steps(steps_from="markers").notices
    warnings = [notice.text for notice in notices if notice.severity == "warning"]
    assert [text.startswith("1 of 1 program executions") for text in warnings] == [True] * warned


@pytest.mark.parametrize("space", [on_gpu(), spaces(plane(HOST)), spaces(), spaces(tpu(0, [], []))])
def test_without_executions_there_are_no_steps(space: bytes) -> None:
    report = fastprof.load(space).report("steps", steps_from="modules")
    assert report.scalars["step_count"].value == 0
    assert report.scalars["slow_step_excess_ps"].reason == "no executions of compiled programs in this capture"


def test_what_steps_come_from_is_checked() -> None:
    with pytest.raises(UsageError, match="steps_from: '' is not one of auto, markers, loader, modules, "):
        fastprof.load(spaces(plane(HOST))).report("steps", steps_from="")
