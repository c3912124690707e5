"""Time of steps in which the host loads input or compiles while nothing computes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from gate import typical_captures
from reports import rows as rows_of
from reports import session_of
from step_captures import HOST, US, in_order, ran, spaces, step
from test_gpu_steps import gpu
from trace_builder import Event, Plane, line, plane

import fastprof


def threads(**lines: list[Event]) -> Plane:
    return plane(HOST, [line(name, in_order(events)) for name, events in lines.items()])


def categories(*planes: Plane, table: str = "steps", **params: Any) -> list[dict[str, int]]:
    """By row, the categories in microseconds that have time."""
    report = session_of(spaces(*planes)).report("steps", **params)
    return [
        {name.removesuffix("_ps"): value // US for name, value in row.items() if name in CATEGORIES and value}
        for row in report.tables[table].to_pylist()
    ]


CATEGORIES = (
    "device_compute_ps", "device_to_device_ps", "device_collectives_ps", "host_compute_ps", "kernel_launch_ps",
    "input_ps", "output_ps", "compilation_ps", "all_others_ps", "copies_ps",
)  # fmt: skip


def op(name: str, at: float, length: float, run: int) -> Event:
    """An instruction of a compiled program."""
    return ran(name, at, length, hlo_module="jit_f", hlo_op=name, run_id=run)


def test_annotations_that_load_data_are_input_where_no_op_runs() -> None:
    main, pool = [], []
    for k in range(4):
        main += [step(k, 100 * k, 100), ran("load_batch", 100 * k, 40), ran("PjitFunction(f)", 100 * k + 40, 5)]
        pool.append(op("dot", 100 * k + 30, 50, k))  # 10 µs of it while the next batch is loaded
    assert categories(threads(python=main, pool=pool)) == 4 * [{"host_compute": 50, "input": 30, "all_others": 20}]


@pytest.mark.parametrize(
    "name",
    ["$data_loader.py:10 __next__", "$train.py:3 read_records", "decode_images", "DataLoader", "preprocess"],
)  # fmt: skip
def test_names_of_frames_and_annotations_say_that_data_are_loaded(name: str) -> None:
    main = [one for k in range(4) for one in (step(k, 100 * k, 100), ran(name, 100 * k, 40))]
    pool = [op("dot", 100 * k + 50, 30, k) for k in range(4)]
    assert categories(threads(python=main, pool=pool)) == 4 * [{"host_compute": 30, "input": 40, "all_others": 30}]


def test_a_step_is_not_input_because_its_marker_names_a_batch() -> None:
    main = [one for k in range(4) for one in (step(k, 100 * k, 100, name="train_batch"), ran("work", 100 * k, 40))]
    pool = [op("dot", 100 * k + 50, 30, k) for k in range(4)]
    assert categories(threads(python=main, pool=pool)) == 4 * [{"host_compute": 30, "all_others": 70}]


def test_ops_of_tensorflow_go_before_what_loads_the_next_batch() -> None:
    main, executor = [], []
    for k in range(4):
        main += [step(k, 100 * k, 100), ran("load_batch", 100 * k, 40)]
        executor.append(ran("MatMul:MatMul", 100 * k + 30, 50, _ct=1, _c=k))
        main.append(ran("launch", 100 * k + 1, 1, _pt=1, _p=k))
    assert categories(threads(python=main, executor=executor)) == 4 * [
        {"host_compute": 50, "input": 30, "all_others": 20}
    ]


def test_tracing_and_compiling_are_compilation() -> None:
    main, pool = [], []
    for k in range(4):
        at = 100 * k
        main += [step(k, at, 100), ran("PjitFunction(f)", at, 60), ran("trace_to_jaxpr_dynamic", at + 5, 20),
                 ran("backend_compile", at + 25, 30)]  # fmt: skip
        pool.append(op("dot", at + 60, 30, k))
    assert categories(threads(python=main, pool=pool)) == 4 * [
        {"host_compute": 30, "compilation": 60, "all_others": 10}
    ]


def test_tensorflow_records_which_calls_trace() -> None:
    calls = ("traced-nonXla", "notTraced-nonXla", "notTraced-nonXla", "notTraced-nonXla")
    main = []
    for k, call in enumerate(calls):
        main += [step(k, 100 * k, 100), ran("f", 100 * k, 50, tf_function_call=call), ran("x:Mul", 100 * k + 50, 30)]
    first, *others = categories(threads(python=main))
    assert first == {"host_compute": 30, "compilation": 50, "all_others": 20}
    assert others == 3 * [others[0]] and "compilation" not in others[0]


def gpus(*said: Event) -> tuple[Plane, Plane]:
    """Two steps of 100 µs with one kernel of 50 each at their begin and one of 10 at their end."""
    main, kernels = [*said], []
    for k in range(2):
        main += [step(k, 100 * k, 99)]
        for n, (at, length) in enumerate(((0, 50), (90, 10))):
            main.append(ran("cuLaunchKernel", 100 * k + n, 1, correlation_id=4 * k + n + 1))
            kernels.append(ran("gemm", 100 * k + at, length, correlation_id=4 * k + n + 1))
    return plane(HOST, [line("python", in_order(main))]), gpu(0, kernels)


def test_idle_time_of_gpus_is_what_the_host_does_meanwhile() -> None:
    said = [ran("load_batch", 40, 30), ran("backend_compile", 155, 20)]
    assert categories(*gpus(*said)) == [
        {"device_compute": 60, "input": 20, "all_others": 20},
        {"device_compute": 60, "compilation": 20, "all_others": 20},
    ]
    answer = json.loads(session_of(spaces(*gpus(*said))).report("pod_viewer").to_xprof())
    of_steps = [one["podStatsPerCore"]["1"]["stepBreakdownUs"] for one in answer["podStatsSequence"]["podStatsMap"]]
    assert [(one["1"], one["6"], one["8"], one["9"]) for one in of_steps] == 2 * [(60, 0, 0, 40)]
    assert categories(*gpus(*said), steps_from="markers") == 2 * [{"device_compute": 60, "all_others": 40}]


def test_time_between_steps_is_divided_alike() -> None:
    main = []
    for k in range(3):
        main += [step(k, 100 * k, 60), ran("op:Op", 100 * k, 60), ran("load_batch", 100 * k + 60, 25)]
    assert categories(threads(python=main), table="between_steps") == [{"input": 50, "all_others": 30}]


@typical_captures
def test_xprofs_answers_do_not_change(capture: Path) -> None:
    profile = fastprof.load(capture)
    for name in ("overview", "input_pipeline", "pod_viewer"):
        own, as_marked = profile.report(name).to_xprof(), profile.report(name, steps_from="markers").to_xprof()
        assert own == as_marked


@typical_captures
def test_categories_add_up_to_each_step(capture: Path) -> None:
    report = fastprof.load(capture).report("steps")
    for row in report.tables["steps"].to_pylist():
        assert sum(row[name] or 0 for name in (*CATEGORIES, "host_to_host_ps")) == (
            row["period_ps"] or row["duration_ps"]
        )
    for row in report.tables["between_steps"].to_pylist():
        assert sum(row[name] or 0 for name in CATEGORIES) <= row["time_ps"]


def test_the_breakdown_of_the_overview_says_it() -> None:
    main, pool = [], []
    for k in range(4):
        main += [step(k, 100 * k, 100), ran("load_batch", 100 * k, 40), ran("backend_compile", 100 * k + 40, 10)]
        pool.append(op("dot", 100 * k + 50, 40, k))
    report = session_of(spaces(threads(python=main, pool=pool))).report("overview")
    found = {name: time // US for name, time in rows_of(report, "breakdown", "category", "mean_ps") if time}
    assert found == {"input": 40, "host_compute": 40, "compilation": 10, "all_others": 10}
    assert report.scalars["input_percent"].value == pytest.approx(40)
