"""Steps of GPUs."""

from __future__ import annotations

from typing import Any

import pytest
from step_captures import HOST, US, found, in_order, marked, ran, rows, shown, spaces, step
from trace_builder import Event, Plane, event, line, plane

from fastprof.derive.ops.gpu_kernels import parse_copy_bytes
from fastprof.derive.steps.step_database import EventType as Kind
from fastprof.derive.steps.step_events import classify_gpu_name

LAUNCHES = ((5, 10), (20, 10), (40, 10), (60, 10), (80, 10))


def gpu(ordinal: int, *streams: list[Event], id: int | None = None) -> Plane:
    lines = [line(f"Stream #{number}", in_order(events)) for number, events in enumerate(streams)]
    return plane(f"/device:GPU:{ordinal}", lines, id=ordinal if id is None else id)


def two_gpus(steps: int = 7) -> bytes:
    """Steps of 900 microseconds each 1,000; launches on the host, kernels and copies on two GPUs."""
    main, first, second = [], [], []
    for number in range(steps):
        at = 10 + 1000 * number
        main.append(step(number, at, 900))
        ids = [10 * number + k + 1 for k in range(5)]
        main += [ran("launch", at + b, d, correlation_id=c) for (b, d), c in zip(LAUNCHES, ids, strict=True)]
        first += [
            ran("volta_h884gemm", at + 100, 200, correlation_id=ids[0], shape="half[8,8]"),
            ran("MemcpyH2D", at + 150, 100, correlation_id=ids[1]),
            ran("MEMCPYHtoD", at + 460, 20, correlation_id=ids[1], memcpy_details="num_bytes:4096\nasync:1"),
            ran("volta_h884gemm", at + 350, 100, correlation_id=ids[2], shape="half[8,8]"),
            ran("ncclKernel_AllReduce", at + 500, 100, correlation_id=ids[3]),
        ]
        second.append(ran("kern_fp16", at + 90, 700, correlation_id=ids[4]))
    threads = plane(HOST, [line("main", in_order(main))])
    return spaces(threads, gpu(0, first), gpu(1, second))


def test_a_marked_step_is_the_longest_stretch_of_a_group_on_a_gpu() -> None:
    """All kernels of a group count, those of other GPUs too; here 16-bit ones cover all else."""
    database = marked(two_gpus())
    assert rows(database) == [(k, 1, 1000.0 * k + 100, 700.0, {"device_compute_16": 700.0}) for k in range(7)]
    assert database.name == [""] * 7 and database.label == [f"train {k}" for k in range(7)]
    assert database.complete_steps().step.tolist() == [1, 2, 3, 4, 5]
    assert (database.compute_16bit_ps, database.compute_32bit_ps) == (7 * 700 * US, 0)


def test_collectives_are_given_by_step() -> None:
    database = found(two_gpus())
    every = database.collectives
    assert every.step.tolist() == list(range(7)) and set(every.core_id.tolist()) == {0}
    assert (every.begin_ps[0], every.end_ps[0]) == (510 * US, 610 * US)
    last = database.complete_steps()
    assert last.collectives.step.tolist() == [0, 1, 2, 3, 4] and last.collectives.begin_ps[0] == 1510 * US


def test_host_events_do_not_count_where_there_is_a_gpu() -> None:
    launch, kernel = ran("launch", 5, 10, correlation_id=1), ran("gemm", 20, 30, correlation_id=1)
    main = plane(HOST, [line("main", [step(0, 0, 100), launch, ran("op", 40, 30)])])
    assert rows(found(spaces(main, gpu(0, [kernel])))) == [(0, 1, 20.0, 30.0, {"device_compute_32": 30.0})]


def loops() -> bytes:
    """An executor that runs four iterations on two threads, each launching a kernel, and another that runs one."""

    def iteration(at: float, id: int, number: int) -> Event:
        return ran("ExecutorState::Process", at, 40, id=id, iter_num=number)

    threads: list[list[Event]] = [[event("SessionRun", 0, 6000 * US, {"_r": 1})], []]
    kernels = []
    for number in range(4):
        for thread in range(2):
            at, correlation = 10 + 1000 * number + 20 * thread, 10 * number + thread + 1
            threads[thread] += [iteration(at, 7, number), ran("launch", at + 5, 10, correlation_id=correlation)]
            kernels.append(ran("gemm", 60 + 1000 * number + 240 * thread, 200, correlation_id=correlation))
    threads[0] += [iteration(4500, 8, 0), ran("launch", 4505, 10, correlation_id=99)]
    kernels.append(ran("gemm", 4560, 200, correlation_id=99))
    host = plane(HOST, [line(f"thread {i}", in_order(events)) for i, events in enumerate(threads)])
    return spaces(host, gpu(0, kernels))


def test_iterations_of_loops_are_steps_and_the_last_takes_in_what_has_none() -> None:
    listed = rows(marked(loops()))
    assert [row[0] for row in listed] == [0, 1, 2, 3]
    assert listed[0] == (0, 1, 60.0, 440.0, {"unknown_time": 40.0, "device_compute_32": 400.0})
    assert listed[3] == (3, 1, 3060.0, 1700.0, {"unknown_time": 1100.0, "device_compute_32": 600.0})


@pytest.mark.parametrize(
    ("name", "type_"),
    [
        ("MEMCPYHtoD", Kind.HOST_TO_DEVICE),
        ("memcpydtoh async", Kind.DEVICE_TO_HOST),
        ("MemcpyDToD", Kind.DEVICE_TO_DEVICE),
        ("MemcpyHToH", Kind.HOST_TO_HOST),
        ("MemcpyH2D", Kind.HOST_TO_DEVICE),
        ("MemcpyD2H", Kind.DEVICE_TO_HOST),
        ("MemcpyP2P", Kind.DEVICE_TO_DEVICE),
        ("CopyHostToDevice", Kind.HOST_TO_DEVICE),
        ("CopyDeviceToHost", Kind.DEVICE_TO_HOST),
        ("CopyDeviceToDevice", Kind.DEVICE_TO_DEVICE),
        ("MEMCPYHtoD:x y", Kind.HOST_TO_DEVICE),
        ("Memset", Kind.DEVICE_COMPUTE_32),
        ("ncclDevKernel", Kind.DEVICE_COLLECTIVES),
        ("NCCL", Kind.DEVICE_COLLECTIVES),
        ("rcclKernel", Kind.DEVICE_COLLECTIVES),
        ("gemm_half", Kind.DEVICE_COMPUTE_16),
        ("gemm_fp16_32x", Kind.DEVICE_COMPUTE_16),
        ("gemm_bf16", Kind.DEVICE_COMPUTE_32),
        ("gemm_FP16", Kind.DEVICE_COMPUTE_32),
    ],
)
def test_what_a_kernel_counts_for_follows_from_its_name(name: str, type_: int) -> None:
    assert classify_gpu_name(name) == type_


@pytest.mark.parametrize(
    ("name", "type_"),
    [
        ("MEMCPYHtoD", Kind.HOST_TO_DEVICE),
        ("MemcpyHToH", Kind.DEVICE_COMPUTE_32),
        ("MemcpyH2D", Kind.DEVICE_COMPUTE_32),
        ("CopyHostToDevice", Kind.DEVICE_COMPUTE_32),
        ("MEMCPYHtoD:x y", Kind.DEVICE_COMPUTE_32),
        ("ncclDevKernel", Kind.DEVICE_COLLECTIVES),
        ("rcclKernel", Kind.DEVICE_COMPUTE_32),
        ("gemm_half", Kind.DEVICE_COMPUTE_16),
    ],
)
def test_to_xprof_some_copies_and_collectives_are_kernels(name: str, type_: int) -> None:
    main = plane(HOST, [line("main", [step(0, 0, 100), ran("launch", 5, 10, correlation_id=1)])])
    database = shown(spaces(main, gpu(0, [ran(name, 20, 30, correlation_id=1), ran("f", 60, 5, correlation_id=1)])))
    assert database.type_ps[0, 0, type_] == 30 * US + (5 * US if type_ == Kind.DEVICE_COMPUTE_32 else 0)


def test_steps_in_which_only_copies_ran_are_steps_to_xprof_alone() -> None:
    copy = ran("MemcpyD2H", 20, 30, correlation_id=1, memcpy_details="size:64 dest:0")
    main = plane(HOST, [line("main", [step(0, 0, 100), ran("launch", 5, 10, correlation_id=1)])])
    capture = spaces(main, gpu(0, [copy]))
    assert rows(found(capture)) == []
    assert rows(shown(capture)) == [(0, 1, 20.0, 30.0, {"device_compute_32": 30.0})]


@pytest.mark.parametrize(
    ("name", "shape", "type_"),
    [
        ("gemm", "half[2]", "device_compute_16"),
        ("gemm_half", "f32[2]", "device_compute_32"),
        ("gemm_half", "", "device_compute_16"),
        ("ncclKernel", "half[2]", "device_collectives"),
    ],
)
def test_a_shape_that_is_recorded_decides_on_kernels(name: str, shape: str, type_: str) -> None:
    compute = ran("gemm", 30, 10, correlation_id=1)
    kernel = ran(name, 10, 10, correlation_id=1, shape=shape)
    main = plane(HOST, [line("main", [step(0, 0, 100), ran("launch", 5, 2, correlation_id=1)])])
    ((_, _, _, _, spent),) = rows(found(spaces(main, gpu(0, [kernel, compute]))))
    assert spent[type_] == (20.0 if type_ == "device_compute_32" else 10.0)


@pytest.mark.parametrize(
    ("details", "size"),
    [
        ("num_bytes:4096\nasync:1", 4096),
        ("kind:H2D\nnum_bytes:7", 7),
        ("size:4 dest:6 async:1", 4),
        ("dest:6 size:12", 12),
        ("oversize:5", 0),
        ("size:x", 0),
        ("size:" + "9" * 30, 0),
        ("", 0),
    ],
)
def test_bytes_of_a_copy_are_read_from_its_details(details: str, size: int) -> None:
    assert parse_copy_bytes(details) == size


def recorded(group_of_step: Any) -> bytes:
    """A capture that its writer has grouped, with a line of steps of its own."""
    kernels = [ran("gemm", 10, 30, correlation_id=1, group_id=4), ran("lost", 50, 30, group_id=4)]
    steps = [ran("4", 5, 60, group_id=group_of_step)]
    lines = [
        line("Stream #1", kernels, id=7),
        line("Steps", steps, id=0xDEADBEEF),
        line("XLA Ops", kernels, id=0xDEADBEF4),
    ]
    return spaces(plane("/device:GPU:0", lines))


def test_a_capture_that_records_its_steps_is_believed() -> None:
    assert rows(marked(recorded(4))) == [(4, 1, 5.0, 60.0, {"unknown_time": 30.0, "device_compute_32": 30.0})]
    assert rows(found(recorded(4))) == [(4, 1, 5.0, 60.0, {"unknown_time": 15.0, "device_compute_32": 45.0})]
    assert len(found(recorded(5))) == 0
