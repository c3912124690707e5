"""Duty cycle of TPU chips: what counts as work, what only waits, and how cores of a chip make one."""

from __future__ import annotations

import numpy as np
from trace_builder import Event, Line, Metadata, Plane, event, int_field, line, plane, u64, xspace

import fastprof
from fastprof.derive.ops import line_times
from fastprof.derive.ops.line_times import DutyCycle, measure_union
from fastprof.derive.steps.step_database import OFF_DUTY
from fastprof.tables.host_reader import read_host
from fastprof.xprof.pages.overview import is_32_bit_work


def found(*planes: Plane) -> tuple[DutyCycle, int, int]:
    """The duty cycle, and the sure times as XProf has them."""
    tables = fastprof.load(xspace(*planes))._tables
    events = read_host(tables, 0, (), line_times.EVENT_STATS, line_times.METADATA_STATS)
    workers = tables.session.workers
    counted = line_times.measure_duty_cycle(events, workers, is_32_bit_work)
    return line_times.measure_duty_cycle(events, workers), counted.sure_busy_ps, counted.sure_idle_ps


def tpu(*lines: Line, chip: int | None = None, name: str = "/device:TPU:0", meta: tuple[Metadata, ...] = ()) -> Plane:
    stats = {} if chip is None else {"core_details": int_field(4, chip)}
    return plane(name, lines, stats=stats, event_metadata=meta)


def op(name: str, category: str, **stats: int) -> Metadata:
    return Metadata(name, stats={"hlo_category": category, **{k: u64(v) for k, v in stats.items()}})


def ops(*events: Event, name: str = "XLA Ops") -> Line:
    return line(name, events)


FUSION = op("fusion", "loop fusion")
WAITS = tuple(op(category, category) for category in sorted(OFF_DUTY))


def test_a_gpu_is_busy_while_anything_runs_on_any_of_its_streams() -> None:
    gpu = plane(
        "/device:GPU:0",
        [
            line("Stream #1", [event("kernel", 100, 200), event("copy", 400, 50)]),
            line("Stream #2", [event("kernel", 200, 150)]),
            line("Steps", [event("0", 0, 9000)], id=0xDEADBEEF),
        ],
    )
    assert found(gpu, plane("/device:GPU:1", [line("Stream #1", [event("kernel", 0, 10)])])) == (
        DutyCycle(2, *[310, 50] * 2), 310, 50
    )  # fmt: skip


def test_a_host_without_devices_has_no_chips() -> None:
    assert found(plane("/host:CPU", [line("main", [event("step", 0, 100)])])) == (DutyCycle(), 0, 0)


def test_busy_is_the_time_of_ops_and_idle_the_rest_of_the_span_that_modules_extend() -> None:
    core = tpu(
        ops(event("fusion", 100, 300), event("fusion", 500, 100)),
        line("XLA Modules", [event("jit_f(1)", 50, 800)]),
        line("Steps", [event("0", 0, 5000)]),
        meta=(FUSION,),
    )
    assert found(core) == (DutyCycle(1, 400, 400, 400, 400), 400, 400)


def test_ops_that_only_wait_are_idle_time() -> None:
    waiting = [event(meta.name, 100 * number, 100) for number, meta in enumerate(WAITS, 1)]
    core = tpu(ops(event("fusion", 0, 100), *waiting), meta=(FUSION, *WAITS))
    assert len(WAITS) == 8
    assert found(core) == (DutyCycle(1, 100, 800, 100, 800), 100, 800)


def test_nested_ops_and_ops_of_cores_of_one_chip_count_once() -> None:
    cores = [
        tpu(ops(event("fusion", 0, 300), event("fusion", 100, 100)), chip=7, meta=(FUSION,)),
        tpu(ops(event("fusion", 200, 200)), chip=7, name="/device:TPU:1", meta=(FUSION,)),
        tpu(ops(event("fusion", 600, 50)), chip=8, name="/device:TPU:2", meta=(FUSION,)),
    ]
    assert found(*cores) == (DutyCycle(2, 400 + 50, 0, 400 + 50, 0), 400 + 50, 0)


def test_cores_that_are_not_described_are_chips_of_their_own() -> None:
    cores = [tpu(ops(event("fusion", 0, 100)), name=f"/device:TPU:{number}", meta=(FUSION,)) for number in range(2)]
    assert found(*cores) == (DutyCycle(2, 200, 0, 200, 0), 200, 0)


def test_ops_of_a_sparse_core_are_work_of_its_chip() -> None:
    core = tpu(ops(event("fusion", 100, 300), event("async-done", 500, 100)), chip=0, meta=(FUSION, *WAITS))
    sparse = plane(
        "/device:TPU:0 SparseCore 0",
        [line("Sparse Core Ops", [event("fusion", 110, 200), event("fusion", 500, 40), event("infeed", 560, 40)])],
        stats={"core_details": int_field(4, 0)},
        event_metadata=[FUSION, op("infeed", "infeed")],
    )
    assert found(core, sparse) == (DutyCycle(1, 340, 160, 340, 160), 340, 160)


def test_the_innermost_op_decides() -> None:
    core = tpu(
        ops(
            event("while", 0, 1000),
            event("infeed", 100, 100),
            event("fusion", 300, 100),
            event("infeed", 350, 20),
            event("infeed", 900, 100),
            event("infeed", 1000, 500),
            event("fusion", 1100, 50),
        ),
        meta=(op("while", "while"), op("infeed", "infeed"), FUSION),
    )
    assert found(core) == (DutyCycle(1, 1000 - 100 - 20 - 100 + 50, 1500 - 830, 830, 670), 830, 670)


def test_custom_calls_that_report_no_work_are_not_surely_busy() -> None:
    core = tpu(
        ops(
            event("call", 0, 100),
            event("call", 100, 100, stats={"flops": u64(5)}),
            event("call", 200, 100, stats={"uses_ici": 1}),
            event("counted", 300, 100),
            event("fusion", 400, 100),
            event("counted", 500, 100, stats={"model_flops": u64(0)}),
        ),
        meta=(op("call", "custom-call"), op("counted", "custom-call", model_flops=9), FUSION),
    )
    assert found(core) == (DutyCycle(1, 600, 0, 400, 200), 400, 200)


def test_to_xprof_work_that_is_negative_in_32_bits_is_none() -> None:
    """XProf 2.24.2: 2^31 - 1 and 2^32 + 5 operations are work, 2^31 and 2^32 are not, and no double is."""
    work = (2**31 - 1, 2**31, 2**32, 2**32 + 5, 1e12)
    calls = [event("call", 100 * i, 100, stats={"flops": one}) for i, one in enumerate(work)]
    core = tpu(ops(*calls), meta=(op("call", "custom-call"),))
    assert found(core) == (DutyCycle(1, 500, 0, 500, 0), 200, 300)


def test_custom_calls_of_sparse_cores_are_surely_busy() -> None:
    call = (op("call", "custom-call"),)
    core = tpu(ops(event("call", 0, 100)), chip=0, meta=call)
    sparse = plane(
        "/device:TPU:0 SparseCore 0",
        [line("Sparse Core Ops", [event("call", 50, 100)])],
        stats={"core_details": int_field(4, 0)},
        event_metadata=call,
    )
    assert found(core, sparse) == (DutyCycle(1, 150, 0, 100, 50), 100, 50)


def test_duty_cycles_of_hosts_add_up() -> None:
    first, second = DutyCycle(1, 2, 3, 4, 5), DutyCycle(10, 20, 30, 40, 50)
    assert first + second == DutyCycle(11, 22, 33, 44, 55)


def test_the_union_of_intervals_is_what_marking_each_picosecond_finds() -> None:
    random = np.random.default_rng(7)
    for _ in range(20):
        begin = random.integers(0, 200, 30)
        end = begin + random.integers(0, 20, 30)
        marked = np.zeros(300, bool)
        for first, last in zip(begin, end, strict=True):
            marked[first:last] = True
        assert measure_union(begin, end) == marked.sum()
    assert measure_union(np.zeros(0, np.int64), np.zeros(0, np.int64)) == 0
