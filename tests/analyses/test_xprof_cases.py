"""Captures on which XProf does what one would not expect, and what its pages say of them.

Expected values are XProf 2.24.2's.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from step_captures import US, core_details, host, in_order, ran, spaces, step, tpu
from trace_builder import Event, Metadata, Plane, event, line, plane, task_environment, u64

import fastprof

DERIVED = 0xDEADBEEF - (1 << 32)
"""The id of a line of steps that a profiler derived."""

# ---- captures whose groups are recorded, and when they are believed


def launch(number: int, at_us: float, **stats: Any) -> Event:
    return ran("cudaLaunchKernel", at_us, 1, correlation_id=number, **stats)


def gpu(*kernels: Event, ordinal: int = 0, steps: Sequence[Event] | None = None) -> Plane:
    """``steps``: the line of them that a profiler derived."""
    lines = [line("Stream #1", kernels, id=1)]
    if steps is not None:
        lines.append(line("Steps", steps, id=DERIVED))
    return plane(f"/device:GPU:{ordinal}", lines, id=ordinal + 2)


def recorded(*more: Plane, steps_of_host: int | None = 7, steps_of_gpu: int | None = 7) -> bytes:
    """Two steps, numbered on from a group on the host's plane and on the GPU's; None: that plane says nothing."""

    def group(first: int | None, number: int) -> dict[str, int]:
        return {} if first is None else {"group_id": first + number}

    threads, kernels, shown = [], [], []
    for i in range(2):
        threads += [step(i + 40, 100 * i, 90, **group(steps_of_host, i))]
        threads += [launch(i + 1, 100 * i + 5, **group(steps_of_host, i))]
        kernels.append(ran("kernel", 100 * i + 10, 50, correlation_id=i + 1, **group(steps_of_gpu, i)))
        shown.append(ran(str(i), 100 * i + 10, 50, **group(steps_of_gpu, i)))
    device = gpu(*kernels, steps=None if steps_of_gpu is None else shown)
    return spaces(host(threads), device, *more)


def page(capture: bytes | list[bytes], analysis: str) -> Any:
    return json.loads(fastprof.load(capture).report(analysis).to_xprof())


def steps_of(capture: bytes) -> list[int]:
    return [one["stepNum"] for one in page(capture, "pod_viewer")["podStatsSequence"]["podStatsMap"]]


def test_groups_are_believed_where_all_planes_of_hosts_and_devices_declare_them() -> None:
    assert steps_of(recorded()) == [7, 8]
    assert steps_of(recorded(task_environment(1), plane("/host:ROCTRACER"), plane("anything"))) == [7, 8]


@pytest.mark.parametrize(
    "name", ["/device:GPU:1", "/host:metadata", "/host:CUPTI", "/host:CPU 2", "#Chip 0", "/custom:x"]
)
def test_one_plane_that_does_not_declare_groups_has_all_grouped_again(name: str) -> None:
    assert steps_of(recorded(plane(name, id=9))) == [0, 1]


def test_groups_that_only_the_host_or_only_the_device_records_are_rebuilt() -> None:
    assert steps_of(recorded(steps_of_gpu=None)) == [0, 1]
    assert steps_of(recorded(steps_of_host=None)) == [0, 1]


def test_what_is_grouped_again_and_gets_no_group_stays_in_its_own() -> None:
    """The second GPU declares no groups, and nothing leads to the first."""
    kernels = [ran("kernel", 100 * i, 50, correlation_id=i, group_id=i + 7) for i in range(2)]
    assert steps_of(spaces(gpu(*kernels), gpu(ran("other", 0, 1), ordinal=1))) == [7, 8]


# ---- GPUs


def test_kernels_count_in_the_steps_of_their_own_gpu_only() -> None:
    """The second GPU ran a 16-bit kernel in group 0 but shows no step of it: it is as if it had run nothing."""
    here = gpu(ran("k", 10, 50, correlation_id=1, group_id=0), steps=[ran("0", 10, 50, group_id=0)])
    there = gpu(ran("k_fp16", 10, 50, correlation_id=2, group_id=0), ordinal=1, steps=[])
    properties = page(spaces(host([step(0, 0, 90, group_id=0)]), here, there), "overview")[0]["p"]
    assert properties["device_compute_16bit_percent"] == "0.0%"
    assert properties["device_compute_32bit_percent"] == "100.0%"


# ---- TPUs

FUSION = ("fusion", "loop fusion", 10.0, 20.0)


def modules(*runs: Event) -> Any:
    return line("XLA Modules", runs, id=2)


def test_a_core_that_marks_no_step_takes_no_part_in_those_of_others() -> None:
    """Its ops have the group of their module, 0 as well: in lock step, modules number what steps number elsewhere."""
    marked = tpu(0, [ran("0", 0, 100)], [FUSION])
    unmarked = tpu(1, [], [FUSION], lines=[modules(ran("jit_f(1)", 0, 100, run_id=1))])
    steps = page(spaces(marked, unmarked), "pod_viewer")["podStatsSequence"]["podStatsMap"]
    assert [list(one["podStatsPerCore"]) for one in steps] == [["2"]]


def test_a_step_that_no_group_of_the_host_reaches_is_none_where_another_is_reached() -> None:
    """The host launches the first program only. XProf takes the second step out, and then the device was observed from
    the start of the first step (0) to the end of the last op (130): 40 of these 130 us were spent in ops."""
    enqueue = ran("DoEnqueueProgram", 1, 1, run_id=1, queue_id=0, device_ordinal=0)
    marks = [ran("0", 0, 100, run_id=1, queue_id=0), ran("1", 100, 100, run_id=2, queue_id=0)]
    runs = [ran("jit_f(1)", 1, 90, run_id=1, queue_id=0), ran("jit_f(1)", 101, 90, run_id=2, queue_id=0)]
    device = tpu(0, marks, [FUSION, ("fusion", "loop fusion", 110, 20)], lines=[modules(*runs)])
    capture = spaces(host([step(5, 0, 95), enqueue]), device)
    assert steps_of(capture) == [0]
    idle = [row["c"] for row in page(capture, "op_stats")[0]["rows"] if row["c"][3]["v"] == "IDLE"]
    assert idle[0][5]["v"] == 130 - 40
    assert page(capture, "overview")[0]["p"]["device_idle_time_percent"] == "69.2%"


def test_a_sparse_core_that_is_described_leaves_no_room_for_those_of_the_first_kind() -> None:
    """Even where there are no steps at all."""
    sparse = plane("/device:TPU:0 SparseCore 0", id=20, stats={"core_details": core_details(0)})
    table = page(spaces(tpu(0, [], [FUSION]), sparse), "input_pipeline")[1]
    assert "scv0ComputeTimeMs" not in [column["id"] for column in table["cols"]]
    assert "scv0_compute_ms_average" not in table["p"]
    table = page(spaces(tpu(0, [], [FUSION])), "input_pipeline")[1]
    assert "scv0ComputeTimeMs" in [column["id"] for column in table["cols"]]


def test_active_times_are_left_out_where_no_core_worked() -> None:
    """In the step the core only waited for input."""
    answer = page(spaces(tpu(0, [ran("0", 0, 100)], [("infeed", "infeed", 10, 20)])), "overview")
    assert "active_steptime_ms_average" not in answer[0]["p"]
    assert answer[1]["p"]["active_steptime_ms_average"] == "0.00"
    assert answer[2]["p"]["device_type"] == ""


def test_work_of_custom_calls_is_cut_to_32_bits() -> None:
    """A custom call of 2^31 operations is idle time to XProf, with confidence."""
    metadata = Metadata("call", stats={"hlo_category": "custom-call", "flops": u64(1 << 31)})
    device = plane(
        "/device:TPU:0", [line("XLA Ops", in_order([event("call", 0, 100 * US)]))], event_metadata=[metadata]
    )
    report = fastprof.load(spaces(device)).report("overview")
    assert json.loads(report.to_xprof())[0]["p"]["device_duty_cycle_high_confidence_percent"] == "0.0%"
    assert report.scalars["duty_cycle_sure_percent"].value == 100.0


# ---- hosts


def test_a_region_of_a_thread_pool_leads_to_nothing_that_lies_in_it() -> None:
    """The step schedules a task. The mark of its start belongs to the step, what the thread ran then does not: regions
    are linked to nothing. The 5 us are those from mark to mark: what lasts no time goes on to what comes next."""
    main = [step(3, 0, 1000), ran("ThreadpoolListener::Record", 5, 0, _pt=15, _p=1)]
    start, stop = (f"ThreadpoolListener::{what}Region" for what in ("Start", "Stop"))
    worker = [ran(start, 10, 0, _ct=15, _c=1), ran("MatMul:MatMul", 12, 50), ran(stop, 70, 0)]
    cores = page(spaces(host(main, worker)), "pod_viewer")["podStatsSequence"]["podStatsMap"]
    assert [one["podStatsPerCore"]["1"]["stepBreakdownUs"]["4"] for one in cores] == [5.0]
