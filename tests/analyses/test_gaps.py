"""Gaps: what devices do with their time, and why they do not compute."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from flight_spaces import AG_DONE, AG_START, AR, FUSION, LOAD_DONE, LOAD_START, core
from gate import few, rounds, typical_captures
from random_spaces import random_space
from reports import figures, notices, rows, session_of
from step_captures import HOST, US, in_order, ran, spaces, step
from trace_builder import Event, Plane, line, plane
from xla_spaces import gpu_capture, tpu_capture

import fastprof
from fastprof.derive.causes.time_by_cause import SessionBudget
from fastprof.derive.ops.device_time import KINDS
from fastprof.render.report_text import lines
from fastprof.render.table_forms import Look

CAUSES = ("device", "cause", "kind", "time_ps", "event")


def threads(**lines: list[Event]) -> Plane:
    return plane(HOST, [line(name, in_order(events)) for name, events in lines.items()])


def gpu(kernels: list[Event], ordinal: int = 0) -> Plane:
    return plane(f"/device:GPU:{ordinal}", [line("stream 1", in_order(kernels))], id=ordinal + 10)


def gaps(*planes: Plane, **params: Any) -> fastprof.Report:
    return session_of(spaces(*planes)).report("gaps", **params)


def in_us(found: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Rows with times in microseconds."""
    return [tuple(one // US if isinstance(one, int) and one >= US else one for one in row) for row in found]


def launched(name: str, start_us: float, duration_us: float, number: int) -> Event:
    return ran(name, start_us, duration_us, correlation_id=number)


# ---- causes


def test_input_in_a_step_is_named_after_the_annotation() -> None:
    host = threads(python=[
        step(0, 0, 100), ran("load_batch", 5, 60), launched("cudaLaunchKernel", 70, 5, 1),
        step(1, 100, 100), ran("load_batch", 105, 60), launched("cudaLaunchKernel", 170, 5, 2),
    ])  # fmt: skip
    report = gaps(host, gpu([launched("k", 80, 15, 1), launched("k", 180, 15, 2)]))
    assert in_us(rows(report, "by_cause", *CAUSES)) == [
        ("/device:GPU:0", "input", "idle", 120, "load_batch"),
        ("/device:GPU:0", "python", "idle", 30, None),
        ("/device:GPU:0", "launch", "idle", 20, "cudaLaunchKernel"),
    ]
    assert in_us(rows(report, "by_step", "step", "cause", "time_ps")) == [
        (0, "input", 60), (0, "python", 15), (0, None, 15), (0, "launch", 10), (1, None, 15),
        (None, "input", 60), (None, "python", 15), (None, "launch", 10),
    ]  # fmt: skip
    assert in_us(rows(report, "gaps", "start_ps", "duration_ps", "cause", "thread", "before_op", "after_op"))[:2] == [
        (5, 60, "input", "python", None, "k"),
        (105, 60, "input", "python", "k", "k"),
    ]


def test_time_after_the_launch_is_not_the_hosts() -> None:
    """A kernel that is launched in time follows soon, or waits for something else. One whose launch comes before all
    that are recorded was launched before: numbers of launches count up."""
    host = threads(python=[launched("cudaLaunchKernel", 0, 5, 2), launched("cudaLaunchKernel", 20, 5, 3),
                           ran("load_batch", 25, 115), launched("cudaLaunchKernel", 140, 20, 4)])  # fmt: skip
    kernels = [launched("a", 0, 5, 7), launched("b", 10, 10, 1), launched("c", 50, 10, 2), launched("d", 91, 40, 3),
               launched("e", 180, 10, 4)]  # fmt: skip
    report = gaps(host, gpu(kernels))
    assert in_us(rows(report, "gaps", "start_ps", "duration_ps", "cause", "event")) == [
        (140, 40, "launch", "cudaLaunchKernel"), (60, 31, "queue", "d"), (20, 30, "between_kernels", "c"),
        (131, 9, "input", "load_batch"), (5, 5, "between_kernels", "b"),
    ]  # fmt: skip


def test_what_a_surer_event_encloses_is_not_judged_by_words() -> None:
    host = threads(python=[
        ran("$app.py:3 main", 0, 100), ran("backend_compile", 10, 32), ran("$io.py:8 read", 12, 20),
        ran("$app.py:9 load_batch", 50, 30), ran("$builtins len", 60, 10), ran("PjitFunction(f)", 75, 5),
    ])  # fmt: skip
    report = gaps(host, gpu([ran("k", 0, 1), ran("k", 99, 1)]))
    assert in_us(rows(report, "by_cause", *CAUSES)) == [
        ("/device:GPU:0", "python", "idle", 36, "$app.py:3 main"),
        ("/device:GPU:0", "compilation", "idle", 32, "backend_compile"),
        ("/device:GPU:0", "input", "idle", 30, "$app.py:9 load_batch"),
    ]


def test_a_thread_that_the_driver_waits_for_explains_the_gap() -> None:
    host = threads(
        python=[ran("PjitFunction(f)", 0, 10), ran("$api.py:3 block_until_ready", 10, 90)],
        py_xla_execute=[
            ran("PjRtStreamExecutorLoadedExecutable::Execute", 5, 50),
            ran("Build buffer allocations", 10, 30),
        ],
        tf_data_pool=[ran("Iterator::Root", 0, 100)],
    )
    report = gaps(host, gpu([ran("k", 0, 5), ran("k", 60, 40)]))
    assert in_us(rows(report, "by_cause", *CAUSES)) == [
        ("/device:GPU:0", "memory_pressure", "idle", 30, "Build buffer allocations"),
        ("/device:GPU:0", "launch", "idle", 20, "PjRtStreamExecutorLoadedExecutable::Execute"),
        ("/device:GPU:0", "idle", "idle", 5, "$api.py:3 block_until_ready"),  # nobody waits for the pipeline
    ]


def test_prefetching_explains_nothing_while_python_runs() -> None:
    host = threads(
        python=[ran("$app.py:3 postprocess", 0, 100)], tf_data_pool=[ran("Iterator::Root::Prefetch", 0, 100)]
    )
    report = gaps(host, gpu([ran("k", 0, 5), ran("k", 60, 40)]))
    assert in_us(rows(report, "by_cause", *CAUSES)) == [
        ("/device:GPU:0", "python", "idle", 55, "$app.py:3 postprocess")
    ]


def test_a_device_that_waits_while_another_works_waits_for_it_if_they_exchange_data() -> None:
    joined = ran("ncclDevKernel_AllReduce_Sum_f32", 95, 5)
    report = gaps(threads(python=[]), gpu([ran("k", 0, 5), joined]), gpu([ran("k", 0, 90), joined], 1))
    assert in_us(rows(report, "by_cause", *CAUSES)) == [
        ("/device:GPU:0", "straggler", "idle", 85, None),
        ("/device:GPU:0", "communication", "communication", 5, "ncclDevKernel_AllReduce_Sum_f32"),
        ("/device:GPU:0", "idle", "idle", 5, None),
        ("/device:GPU:1", "communication", "communication", 5, "ncclDevKernel_AllReduce_Sum_f32"),
        ("/device:GPU:1", "idle", "idle", 5, None),
    ]
    alone = gaps(threads(python=[]), gpu([ran("k", 0, 5), ran("k", 95, 5)]), gpu([ran("k", 0, 50)], 1))
    assert in_us(rows(alone, "by_cause", *CAUSES)) == [
        ("/device:GPU:0", "idle", "idle", 90, None),
        ("/device:GPU:1", "idle", "idle", 50, None),
    ]


def test_next_is_named_after_the_function_that_makes_the_element() -> None:
    host = threads(python=[
        ran("$builtins next", 5, 60), ran("$train.py:18 batches", 6, 58), ran("$data.py:7 decode", 8, 50),
        ran("$time sleep", 9, 45), launched("cudaLaunchKernel", 70, 5, 1),
    ])  # fmt: skip
    report = gaps(host, gpu([ran("k", 0, 5), launched("k", 71, 15, 1)]))
    assert in_us(rows(report, "by_cause", *CAUSES))[0] == ("/device:GPU:0", "input", "idle", 60, "$data.py:7 decode")


def test_what_the_profiler_loads_and_saves_is_not_in_the_run() -> None:
    stops = [ran("$profiler.py:193 stop_trace", 50, 900), ran("$json.py:9 load", 800, 100)]
    report = gaps(threads(python=[launched("cudaLaunchKernel", 0, 5, 1), *stops]), gpu([launched("k", 5, 40, 1)]))
    assert in_us(rows(report, "devices", "window_ps", "compute_ps")) == [(40, 40)]
    around = [ran("$contextlib.py:139 __exit__", 48, 910), ran("$builtins next", 49, 905), *stops]
    report = gaps(threads(python=[launched("cudaLaunchKernel", 0, 5, 1), *around]), gpu([launched("k", 5, 40, 1)]))
    assert in_us(rows(report, "devices", "window_ps", "compute_ps")) == [(40, 40)]
    loads = [ran("load_batch", 50, 20), ran("$profiler.py:193 stop_trace", 80, 900)]
    report = gaps(threads(python=[launched("cudaLaunchKernel", 0, 5, 1), *loads]), gpu([launched("k", 5, 40, 1)]))
    assert in_us(rows(report, "devices", "window_ps", "compute_ps")) == [(65, 40)]


def test_a_run_ends_before_its_profiler_stops(captures: Path) -> None:
    report = fastprof.load(captures / "xspace" / "gpu-mi300x-jax-conv-minimal-legacy").report("gaps")
    events = [row["event"] or "" for row in report.tables["by_cause"].to_pylist()]
    assert not [event for event in events if "stop_trace" in event]
    assert set(report.tables["devices"]["window_ps"].to_pylist()) == {31_138_587_000}  # it stops for 6.3 s


def test_copies_and_collectives_are_their_own_cause() -> None:
    ops = [(LOAD_START, 0, 1), (FUSION, 1, 3), (LOAD_DONE, 4, 6), (AR, 10, 5), (FUSION, 15, 5), (AG_START, 20, 1),
           (FUSION, 21, 2), (AG_DONE, 27, 3)]  # fmt: skip
    report = gaps(core(0, ops))
    times = ("window_ps", *(f"{kind}_ps" for kind in KINDS))
    assert in_us(rows(report, "devices", *times)) == [(30, 10, 13, 7, 0, 0)]
    assert in_us(rows(report, "by_cause", *CAUSES)) == [
        ("/device:TPU:0", "communication", "communication", 13, "all-gather-start.3"),
        ("/device:TPU:0", "transfer", "copy", 7, "copy-start"),
    ]


def test_infeed_is_input_and_host_sends_are_callbacks() -> None:
    infeed = "%infeed.1 = (f32[8]{0}, token[]) infeed(token[] %t)"
    send = "%send-done.2 = token[] send-done((f32[8]{0}, u32[], token[]) %send.2), is_host_transfer=true"
    categories = {FUSION: "loop fusion", infeed: "infeed", send: "host send-done"}
    report = gaps(core(0, [(infeed, 0, 4), (FUSION, 4, 4), (send, 8, 2), (FUSION, 10, 1)], categories=categories))
    assert in_us(rows(report, "by_cause", *CAUSES)) == [
        ("/device:TPU:0", "input", "wait", 4, "infeed.1"),
        ("/device:TPU:0", "callback", "wait", 2, "send-done.2"),
    ]


def test_threads_that_run_ops_are_one_device() -> None:
    host = threads(
        python=[step(0, 0, 100), ran("$app.py:1 next", 10, 40), ran("PjitFunction(f)", 50, 10)],
        pool=[ran("dot.1", 60, 20, hlo_op="dot.1", hlo_module="f")],
        other=[ran("dot.2", 70, 25, hlo_op="dot.2", hlo_module="f")],
    )
    report = gaps(host)
    assert in_us(rows(report, "devices", "device", "window_ps", "compute_ps", "idle_ps")) == [("CPU", 100, 35, 65)]
    assert in_us(rows(report, "by_cause", "cause", "time_ps", "event")) == [
        ("input", 40, "$app.py:1 next"), ("python", 15, None), ("launch", 10, "PjitFunction(f)"),
    ]  # fmt: skip


def test_ops_of_input_pipelines_are_no_compute() -> None:
    host = threads(
        python=[step(0, 0, 100), ran("TFE_Py_Execute", 0, 50), ran("EagerLocalExecute: IteratorGetNext", 0, 40)],
        tf_Compute=[ran("ExecutorState::Process", 50, 50), ran("a/MatMul:MatMul", 60, 30),
                    ran("IteratorGetNext:IteratorGetNext", 90, 10)],
        tf_data_private_threadpool=[ran("ParseExample/Parse:ParseExampleV2", 0, 100)],
    )  # fmt: skip
    report = gaps(host)
    assert in_us(rows(report, "devices", "device", "compute_ps", "idle_ps")) == [("CPU", 30, 70)]
    assert in_us(rows(report, "by_cause", "cause", "time_ps", "event")) == [
        ("input", 60, "EagerLocalExecute: IteratorGetNext"), ("launch", 10, "ExecutorState::Process"),
    ]  # fmt: skip


def test_a_program_that_runs_on_threads_computes_between_its_ops_too() -> None:
    host = threads(
        python=[ran("$api.py:3 block_until_ready", 0, 100)],
        tf_XLAEigen=[ran("ThunkExecutor::Execute", 0, 80), ran("dot.1", 10, 20, hlo_op="dot.1"),
                     ran("dot.2", 85, 15, hlo_op="dot.2")],
    )  # fmt: skip
    assert in_us(rows(gaps(host), "devices", "compute_ps", "idle_ps")) == [(95, 5)]


def test_a_thread_that_goes_on_when_the_program_is_complete_computes_no_more() -> None:
    host = threads(
        python=[ran("$api.py:3 block_until_ready", 0, 100)],
        py_xla=[ran("ThunkExecutor::Execute", 0, 20), ran("ThunkExecutor::Execute (wait for completion)", 20, 40)],
        tf_XLAEigen=[ran("ThunkExecutor::Execute", 30, 60), ran("dot.1", 32, 10, hlo_op="dot.1")],
    )
    assert in_us(rows(gaps(host), "devices", "compute_ps", "idle_ps")) == [(60, 0)]


def test_a_callback_of_a_program_on_threads_is_no_compute() -> None:
    host = threads(
        python=[ran("PjitFunction(f)", 0, 100), ran("dot.1", 0, 20, hlo_op="dot.1"),
                ran("pure_callback.1", 20, 80, hlo_op="pure_callback.1")],
        tf_XLAEigen=[ran("ThunkExecutor::Execute", 0, 100)],
    )  # fmt: skip
    report = gaps(host)
    assert in_us(rows(report, "devices", "compute_ps", "wait_ps", "idle_ps")) == [(20, 80, 0)]
    assert in_us(rows(report, "by_cause", *CAUSES)) == [("CPU", "callback", "wait", 80, "pure_callback.1")]


def test_eager_ops_are_the_kernels_in_their_calls() -> None:
    host = threads(python=[
        step(0, 0, 100), ran("EagerLocalExecute: MatMul", 0, 30), ran("KernelAndDeviceFunc::Run", 10, 20),
        ran("EagerLocalExecute: IteratorGetNext", 30, 40), ran("KernelAndDeviceFunc::Run", 35, 30),
        ran("EagerLocalExecute: MatMul", 80, 20), ran("KernelAndDeviceFunc::Run", 90, 10),
    ])  # fmt: skip
    report = gaps(host)
    assert in_us(rows(report, "devices", "compute_ps", "idle_ps")) == [(30, 70)]
    assert in_us(rows(report, "by_cause", "cause", "time_ps")) == [("input", 40), ("launch", 20), ("python", 10)]


def test_a_call_that_compiles_is_compilation_to_its_end() -> None:
    host = threads(
        python=[ran("PjitFunction(f)", 0, 50), ran("backend_compile", 30, 10), ran("PjitFunction(f)", 50, 20)]
    )
    report = gaps(host, gpu([ran("k", 0, 1), ran("k", 99, 1)]))
    assert in_us(rows(report, "by_cause", "cause", "time_ps", "event"))[:2] == [
        ("compilation", 49, "PjitFunction(f)"), ("idle", 29, None),
    ]  # fmt: skip


def test_an_op_without_a_launch_runs_on_the_host() -> None:
    host = threads(
        python=[ran("EagerExecute", 0, 100)],
        tf_Compute=[ran("tokens/Unique:Unique", 5, 60), ran("a/MatMul:MatMul", 70, 20),
                    launched("cuLaunchKernel", 75, 5, 1)],
    )  # fmt: skip
    report = gaps(host, gpu([ran("k", 0, 5), launched("k", 95, 5, 1)]))
    assert in_us(rows(report, "by_cause", "cause", "time_ps", "event")) == [
        ("host_compute", 60, "tokens/Unique:Unique"), ("launch", 30, "cuLaunchKernel"),
    ]  # fmt: skip


def test_copies_on_a_thread_of_the_framework_explain_what_python_does_not() -> None:
    host = threads(
        python=[step(0, 0, 100), ran("PjitFunction(f)", 0, 5)], tf_pjrt_thread_pool=[ran("H2D Dispatch", 10, 60)]
    )
    report = gaps(host, gpu([ran("k", 0, 5), ran("k", 95, 5)]))
    assert in_us(rows(report, "by_cause", "cause", "time_ps", "event"))[0] == ("transfer", 60, "H2D Dispatch")


def test_a_host_that_waits_for_a_silent_device_says_so() -> None:
    host = threads(python=[launched("cudaLaunchKernel", 0, 5, 1), ran("$api.py:3 block_until_ready", 5, 80),
                           launched("cudaLaunchKernel", 85, 5, 2)])  # fmt: skip
    report = gaps(host, gpu([launched("k", 5, 5, 1), launched("k", 90, 10, 2)]))
    assert in_us(rows(report, "by_cause", "cause", "time_ps", "event")) == [
        ("idle", 75, "$api.py:3 block_until_ready"), ("launch", 5, "cudaLaunchKernel"),
    ]  # fmt: skip
    assert any("waits for devices without records" in text for text in notices(report))


def test_a_program_without_devices_has_no_gaps() -> None:
    report = gaps(threads(python=[ran("$app.py:3 main", 0, 100)]))
    assert report.scalars["idle_share"].value is None
    assert notices(report) == ["No device work is recorded: neither devices nor host threads have ops."]


def test_devices_that_ran_nothing_are_counted() -> None:
    report = gaps(threads(python=[]), gpu([ran("k", 0, 5)]), gpu([], 1))
    known = figures(report)
    assert (known["device_count"], known["used_device_count"], known["unused_device_count"]) == (2, 1, 1)
    assert notices(report) == ["1 device of the capture ran nothing and is left out."]


# ---- sums


def add_up(report: fastprof.Report) -> None:
    """All that adds up to the picosecond; nothing does if no device work is recorded."""
    values = figures(report)
    if not values["used_device_count"]:
        assert values["window_ps"] is None and report.scalars["window_ps"].reason
        assert not any(table.num_rows for table in report.tables.values())
        return
    assert sum(values[f"{kind}_ps"] for kind in KINDS) == values["window_ps"] == values["busy_ps"] + values["idle_ps"]
    budget = report.answer.detail_as(SessionBudget).budget()
    assert int(budget.time_ps.sum()) == values["window_ps"]
    devices = report.tables["devices"].to_pylist()
    assert sum(one["window_ps"] for one in devices) == values["window_ps"]
    for one in devices:
        here = {"host": one["host"], "device": one["device"]}
        lost = one["window_ps"] - one["compute_ps"]
        assert sum(time for (time,) in rows(report, "by_cause", "time_ps", **here)) == lost
        assert sum(time for (time,) in rows(report, "by_step", "time_ps", **here)) == one["window_ps"]
        idle = sum(time for (time,) in rows(report, "by_cause", "time_ps", kind="idle", **here))
        assert idle == one["idle_ps"]


@typical_captures
def test_everything_adds_up_on_real_captures(capture: Path) -> None:
    add_up(fastprof.load(capture.parent).report("gaps"))


def test_everything_adds_up_on_random_programs() -> None:
    for seed in range(rounds(12, 4)):
        add_up(session_of(tpu_capture(seed)).report("gaps"))
        add_up(session_of(gpu_capture(seed)).report("gaps"))


@pytest.mark.parametrize("capture_of", [tpu_capture, gpu_capture])
def test_the_diagnosis_is_the_same_if_only_its_own_rows_are_kept(capture_of: Callable[[int], bytes]) -> None:
    """Without the tables of gaps, hosts keep the time of several devices as one."""
    captures = [*map(capture_of, range(3))]
    every = session_of(*captures).reports("diagnosis", "gaps")
    alone, together = session_of(*captures).report("diagnosis"), every["diagnosis"]
    assert {name: table.to_pylist() for name, table in alone.tables.items()} == {
        name: table.to_pylist() for name, table in together.tables.items()
    }
    assert figures(alone) == figures(together) and notices(alone) == notices(together)
    of_gaps = alone.answer.after["gaps"], every["gaps"].answer
    budgets = [one.detail_as(SessionBudget) for one in of_gaps]
    assert len(budgets[0].budget()) < len(budgets[1].budget())
    assert budgets[0].budget().time_ps.sum() == budgets[1].budget().time_ps.sum()
    assert budgets[0].between_steps_ps == budgets[1].between_steps_ps


@pytest.mark.parametrize("seed", few(range(0, 60, 3), 8))
def test_random_captures_add_up_or_are_refused(seed: int) -> None:
    try:
        report = session_of(random_space(seed, well_written=True)).report("gaps")
    except fastprof.CaptureError:
        return
    add_up(report)


def test_chosen_steps_have_their_own_time() -> None:
    host = threads(python=[step(0, 0, 100), ran("load_batch", 5, 60), launched("cudaLaunchKernel", 70, 5, 1),
                           step(1, 100, 100), launched("cudaLaunchKernel", 170, 5, 2)])  # fmt: skip
    profile = session_of(spaces(host, gpu([launched("k", 80, 15, 1), launched("k", 180, 15, 2)])))
    reports = [profile.select(steps=(number, number + 1)).report("gaps") for number in range(2)]
    for report in reports:
        add_up(report)
    assert [in_us(rows(report, "by_step", "step", "cause", "time_ps")) for report in reports] == [
        [(0, "python", 75), (0, None, 15), (0, "launch", 10)], [(1, None, 15)],
    ]  # fmt: skip


def test_the_window_begins_with_what_the_host_does_before_the_first_work() -> None:
    """A program that is compiled, and data that are loaded, before anything runs on a device."""
    host = threads(python=[
        ran("load_batch", 10, 20), ran("PjitFunction(f)", 30, 65), ran("backend_compile", 35, 50),
        launched("cudaLaunchKernel", 90, 5, 1), ran("cleaning", 120, 30),
    ])  # fmt: skip
    report = gaps(host, gpu([launched("k", 100, 10, 1)]))
    assert figures(report)["window_ps"] == 100 * US
    assert in_us(rows(report, "by_cause", *CAUSES)) == [
        ("/device:GPU:0", "compilation", "idle", 60, "backend_compile"),
        ("/device:GPU:0", "input", "idle", 20, "load_batch"),
        ("/device:GPU:0", "launch", "idle", 10, "cudaLaunchKernel"),
    ]


def test_the_thread_on_which_a_program_asks_for_an_element_makes_it_wait_for_input() -> None:
    """A function of TensorFlow waits for its iterator on a thread of tf.data; others fill buffers ahead of it."""
    asks = [ran("IteratorGetNextOp::DoCompute", 20, 60), ran("Iterator::Root", 21, 58)]
    lines = {"python": [ran("EagerLocalExecute: __inference_f_1", 0, 100), launched("cudaLaunchKernel", 90, 5, 1)]}
    for name, cause in (("tf_data_iterator_get_next/7", "input"), ("tf_data_private_threadpool/7", "launch")):
        report = gaps(threads(**lines, **{name: asks}), gpu([launched("j", 0, 10, 2), launched("k", 100, 10, 1)]))
        by_cause = {row[0]: row[1] // US for row in rows(report, "by_cause", "cause", "time_ps")}
        assert max(by_cause, key=lambda one: by_cause[one]) == cause, (name, by_cause)


@pytest.mark.parametrize("width", [48, 60, 80, 100, 200])
def test_no_width_hides_how_long_a_gap_is_or_why(width: int) -> None:
    """Names of kernels and threads are long; what they say least about comes last."""
    names = ["a_long_name_of_a_kernel_" * 4, "another_long_name_" * 5]
    host = threads(python=[
        step(0, 0, 100), ran("load_batch_of_the_training_data", 5, 60), launched("cudaLaunchKernel", 70, 5, 1),
        step(1, 100, 100), ran("load_batch_of_the_training_data", 105, 60), launched("cudaLaunchKernel", 170, 5, 2),
    ])  # fmt: skip
    kernels = [launched(names[0], 80, 15, 1), launched(names[1], 180, 15, 2)]
    text = "\n".join(lines(gaps(host, gpu(kernels)).answer, Look(width)))
    for title in ("Causes", "Longest gaps", "Steps"):
        section = text.split(f"\n{title}\n")[1].split("\n\n")[0]
        assert "cause" in section, title
        assert "input" in section and "(µs)" in section, title
        assert max(map(len, section.splitlines())) <= width
