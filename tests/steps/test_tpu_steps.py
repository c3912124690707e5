"""Steps of TPUs: time by category of op, input that the host explains, SparseCores, values across cores."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from step_captures import HOST, US, Row, core_details, found, host, ran, rows, spaces, sparse_core, step, tpu
from trace_builder import Metadata, Plane, event, line, plane, u64

from fastprof.derive.steps import device_steps as details
from fastprof.derive.steps.step_figures import break_down_cores, compute_tpu_steps, measure_busy_time


def tpu_step(at: float, duration: float, context: int | None = None, **stats: Any) -> Any:
    consumed = {} if context is None else {"_ct": 1, "_c": context}
    return ran("0", at, duration, **consumed, **stats)


def one_core(wait_us: float) -> bytes:
    """A step of 900 microseconds with a fusion of 300, while the host waits for input in the same group."""
    main = [step(0, 0, 900), ran("enqueue", 1, 1, _pt=1, _p=5), ran("IteratorGetNext", 10, wait_us)]
    return spaces(host(main), tpu(0, [tpu_step(10, 900, 5)], [("fusion", "loop fusion", 100, 300)]))


def test_a_core_is_idle_where_no_op_fills_its_step() -> None:
    listed: list[Row] = rows(found(one_core(0)))
    assert listed == [(0, 2, 10.0, 900.0, {"IDLE": 600.0, "loop fusion": 300.0})]


def test_idle_time_is_input_as_far_as_the_host_waited_for_input() -> None:
    database = found(one_core(200))
    assert database.category("infeed").tolist() == [[200 * US]]
    assert database.category("IDLE").tolist() == [[400 * US]]
    assert database.category("infeed", fixed=False).tolist() == [[0]]
    values = compute_tpu_steps(database)
    assert (values.tc_compute_ms[0], values.tc_infeed_ms[0]) == (0.3, 0.2)
    assert values.infeed_percent_maximum[0] == pytest.approx(22.222, abs=1e-3)
    assert values.max_infeed_core.tolist() == [2]


def test_the_share_of_idle_time_is_cut_off_to_whole_picoseconds() -> None:
    database = found(one_core(20))
    assert database.category("infeed").tolist() == [[19_999_999]]
    assert database.category("IDLE").tolist() == [[580_000_001]]


def test_no_more_than_all_idle_time_is_input() -> None:
    main = [step(0, 0, 900), ran("enqueue", 1, 1, _pt=1, _p=5)]
    waits = [ran("IteratorGetNext", 10 + k, 880 - 2 * k) for k in range(3)]  # raw durations, overlapping or not
    database = found(spaces(host(main + waits), tpu(0, [tpu_step(10, 900, 5)], [("f", "copy", 100, 300)])))
    assert database.category("infeed").tolist() == [[600 * US]] and database.category("IDLE").tolist() == [[0]]


def test_a_device_that_records_its_infeed_is_believed() -> None:
    main = [step(0, 0, 900), ran("enqueue", 1, 1, _pt=1, _p=5), ran("IteratorGetNext", 10, 200)]
    ops = [("fusion", "loop fusion", 100, 300), ("infeed", "infeed", 500, 50)]
    database = found(spaces(host(main), tpu(0, [tpu_step(10, 900, 5)], ops)))
    assert rows(database)[0][4] == {"IDLE": 550.0, "infeed": 50.0, "loop fusion": 300.0}
    assert database.category("infeed").tolist() == [[50 * US]]


def test_time_of_ops_within_ops_is_their_own() -> None:
    ops = [("while", "while", 100, 400), ("a", "fusion", 110, 100), ("b", "fusion", 220, 30), ("c", "copy", 600, 10)]
    database = found(spaces(tpu(0, [tpu_step(0, 1000)], ops)))
    assert rows(database)[0][4] == {"IDLE": 590.0, "while": 270.0, "fusion": 130.0, "copy": 10.0}


def test_events_that_are_no_ops_only_enclose() -> None:
    """Without a symbol an event is not an op; its children keep their own time."""
    steps, ops = (
        line("Steps", [tpu_step(0, 100)], id=1),
        line("XLA Ops", [ran("region", 10, 50), ran("add", 20, 10)], id=3),
    )
    metadata = [
        Metadata("region", stats={"program_id": u64(1), "symbol_id": u64(0), "hlo_category": "call"}),
        Metadata("add", stats={"program_id": u64(1), "symbol_id": u64(5)}),
    ]
    core = plane("/device:TPU:0", [steps, ops], id=2, event_metadata=metadata)
    assert rows(found(spaces(core)))[0][4] == {"IDLE": 90.0, "": 10.0}


def test_times_are_those_of_the_devices_clock_where_it_is_reported() -> None:
    clock = {"device_offset_ps": 5000 * US, "device_duration_ps": 800 * US}
    ops = [("f", "fusion", 100, 300)]
    timed = {"f": {"device_offset_ps": 5100 * US, "device_duration_ps": 200 * US}}
    database = found(spaces(tpu(0, [tpu_step(0, 900, **clock)], ops, stats=timed)))
    assert rows(database) == [(0, 2, 5000.0, 800.0, {"IDLE": 600.0, "fusion": 200.0})]


def test_a_host_has_the_steps_that_all_of_its_cores_have() -> None:
    """Cores are numbered in lock step; each has the extents and periods of its own markers."""
    first = tpu(0, [tpu_step(100 * k, 90) for k in range(4)], [("f", "fusion", 100 * k + 10, 20) for k in range(4)])
    second = tpu(1, [tpu_step(100 * k, 95) for k in range(3)], [("f", "fusion", 100 * k + 10, 30) for k in range(3)])
    without = tpu(2, [], [("f", "fusion", 10, 5)])
    report_of = found(spaces(first, second, without))
    assert rows(report_of) == [
        (k, core, 100.0 * k, lasts, {"IDLE": lasts - busy, "fusion": busy})
        for k in range(3)
        for core, busy, last in ((2, 20.0, 90.0), (3, 30.0, 95.0))
        for lasts in (100.0 if k < 2 else last,)
    ]
    assert report_of.extent_ps[report_of.present].tolist() == [90 * US, 95 * US] * 3
    assert report_of.complete.tolist() == [True, True, False]
    assert report_of.cores.name == ["vm:0", "vm:1", "vm:2"]


def test_a_step_without_ops_is_none() -> None:
    core = tpu(0, [tpu_step(100 * k, 90) for k in range(2)], [("f", "fusion", 110, 20)])
    assert [row[0] for row in rows(found(spaces(core)))] == [1]


def test_modules_alone_make_groups_but_no_marked_steps() -> None:
    modules = line("XLA Modules", [ran("jit_f(1)", 100 * k, 90) for k in range(3)], id=2)
    core = tpu(0, [], [("f", "fusion", 100 * k + 10, 20) for k in range(3)], lines=[modules])
    assert len(found(spaces(core), steps_from="markers")) == 0


def with_sparse_core(*on_sparse: tuple[str, str, float, float]) -> Any:
    ops = [("f", "loop fusion", 100, 300), ("wait", "async-done", 500, 100)]
    return found(spaces(tpu(0, [tpu_step(10, 900)], ops), sparse_core(0, on_sparse)))


def test_a_sparse_core_is_busy_while_it_runs_ops() -> None:
    database = with_sparse_core(("sc", "fusion", 110, 200), ("sc2", "fusion", 200, 110), ("in", "infeed", 400, 50))
    assert database.cores.id.tolist() == [2, 1_000_020] and database.cores.sparse.tolist() == [False, True]
    assert database.sparse_busy_ps.tolist() == [[0, 200 * US]]
    values = compute_tpu_steps(database)
    assert (values.sc_compute_ms[0], values.sc_idle_ms[0], values.sc_step_ms[0]) == (0.2, 0.7, 0.9)
    # waiting for the SparseCore is not work of the TensorCore
    assert (values.tc_compute_ms[0], values.tc_active_ms[0], values.sc_active_ms[0], values.active_ms[0]) == (
        0.4,
        0.3,
        0.2,
        0.3,
    )
    assert values.tc_idle_ms[0] == pytest.approx(0.5)
    assert break_down_cores(database)[0, 1].tolist() == [200 * US, 0, 0, 0, 0, 0, 0, 0, 700 * US, 0, 0]


def test_a_sparse_core_that_waits_is_not_busy() -> None:
    waiting = ("async-done", "outfeed", "host send", "host recv-done", "megacore fusion")
    ops = [(f"w{k}", category, 100 + 10 * k, 10) for k, category in enumerate(waiting)]
    assert with_sparse_core(("sc", "fusion", 700, 5), *ops).sparse_busy_ps.tolist() == [[0, 5 * US]]


def test_nested_in_work_waiting_is_not_work() -> None:
    assert with_sparse_core(("sc", "fusion", 100, 50), ("w", "async-done", 110, 10)).sparse_busy_ps[0, 1] == 40 * US


def marking_sparse_core() -> Any:
    """The TensorCore's step lasts from 10 to 910, that of the SparseCore from 5 to 955."""
    ops = [
        ("sc", "fusion", 100, 200),
        ("in", "infeed", 400, 50),
        ("w", "async-done", 500, 60),
        ("late", "fusion", 950, 40),
    ]
    main = host([step(0, 0, 900), ran("enqueue", 1, 1, _pt=1, _p=5)])
    core = tpu(0, [tpu_step(10, 900, 5)], [("f", "loop fusion", 100, 300)])
    return found(spaces(main, core, sparse_core(0, ops, [tpu_step(5, 950, 5)])))


def test_a_sparse_core_that_marks_its_steps_has_its_own_span_and_categories() -> None:
    database = marking_sparse_core()
    assert rows(database)[1] == (0, 1_000_020, 5.0, 950.0, {"IDLE": 695.0, "fusion": 240.0, "infeed": 50.0})
    assert database.sparse_busy_ps[0, 1] == 205 * US  # the last op goes on beyond the step
    values = compute_tpu_steps(database)
    assert values.sc_compute_ms.tolist() == [0.205] and values.sc_infeed_ms.tolist() == [0.05]
    assert values.sc_step_ms.tolist() == [0.95] and values.sc_idle_ms.tolist() == [0.695]


def test_the_step_of_a_core_is_as_long_as_its_own_mark() -> None:
    assert rows(marking_sparse_core())[0] == (0, 2, 10.0, 900.0, {"IDLE": 600.0, "loop fusion": 300.0})


def test_a_period_is_between_starts_of_one_core() -> None:
    """Cores begin their steps at other times: the start of one core is no end for another."""
    late = 30
    starts, lengths = (0, 100, 250), (95, 140, 90)
    cores = [
        tpu(
            number,
            [tpu_step(start + number * late, lasts) for start, lasts in zip(starts, lengths, strict=True)],
            [("f", "fusion", start + number * late + 10, 20) for start in starts],
        )
        for number in range(2)
    ]
    database = found(spaces(*cores))
    assert (database.duration_ps[:2] // US).tolist() == [[100, 100], [150, 150]]
    assert (database.extent_begin_ps // US).tolist() == [[0, 30], [100, 130], [250, 280]]


def test_a_step_that_a_sparse_core_does_not_mark_is_none() -> None:
    main = [one for k in range(3) for one in (step(k, 100 * k, 90), ran("enqueue", 100 * k, 1, _pt=1, _p=k))]
    steps = [tpu_step(100 * k, 90, k) for k in range(3)]
    core = tpu(0, steps, [("f", "fusion", 100 * k + 10, 20) for k in range(3)])
    marking = sparse_core(0, [("s", "fusion", 10, 5)], steps[:2])
    assert found(spaces(host(main), core, marking)).step.tolist() == [0, 1]


def test_a_core_whose_ops_add_up_to_more_than_its_step_computes_nothing() -> None:
    step_of = [tpu_step(0, 100)]
    cores = [tpu(0, step_of, [("f", "fusion", 10, 120)]), tpu(1, step_of, [("f", "fusion", 10, 50)])]
    database = found(spaces(*cores))
    assert database.category("IDLE").tolist() == [[0, 50 * US]]
    assert compute_tpu_steps(database).tc_compute_ms.tolist() == [0.0]


def test_a_sparse_core_is_busy_only_within_steps() -> None:
    database = with_sparse_core(("sc", "fusion", 0, 50), ("sc", "fusion", 900, 100))
    assert database.sparse_busy_ps.tolist() == [[0, 50 * US]]


def three_cores() -> Any:
    cores = [tpu(k, [tpu_step(0, 900)], [("f", "fusion", 10, busy)]) for k, busy in enumerate((100, 300, 350))]
    return found(spaces(*cores))


def test_values_of_a_step_are_folded_over_cores() -> None:
    values = compute_tpu_steps(three_cores())
    assert values.tc_compute_ms.tolist() == [0.1]  # the least
    assert values.tc_idle_ms.tolist() == [0.8] and values.step_ms.tolist() == [0.9]
    assert values.tc_active_ms.tolist() == [0.25]  # the mean
    assert values.max_infeed_core.tolist() == [0] and values.tc_infeed_ms.tolist() == [0.0]


def test_categories_of_ops_have_their_place_among_the_categories() -> None:
    ops = [
        ("a", "infeed", 0, 1), ("b", "host recv-done", 10, 2), ("c", "outfeed", 20, 4), ("d", "all-reduce", 30, 8),
        ("e", "send", 40, 16), ("f", "async-done", 60, 32), ("g", "convolution", 100, 64),
        ("h", "all-gather", 200, 128),
    ]  # fmt: skip
    database = found(spaces(tpu(0, [tpu_step(0, 1000)], ops)))
    assert (break_down_cores(database)[0, 0] // US).tolist() == [
        64,
        16 + 32,
        8 + 128,
        0,
        0,
        1 + 2,
        4,
        0,
        1000 - 255,
        0,
        0,
    ]
    values = compute_tpu_steps(database)
    assert (values.tc_infeed_ms[0], values.tc_outfeed_ms[0], values.host_transfer_ms[0]) == (0.001, 0.004, 0.002)
    assert measure_busy_time(database).tolist() == [[(8 + 16 + 64 + 128) * US]]


def test_waiting_for_the_first_kind_of_sparse_core_is_distinguished_from_transforming() -> None:
    ops = [("a", "sparsecorev0 infeed", 0, 50), ("b", "sparsecorev0 outfeed", 60, 20), ("c", "fusion", 100, 100)]
    values = compute_tpu_steps(found(spaces(tpu(0, [tpu_step(0, 1000)], ops))))
    assert values.scv0_compute_ms.tolist() == [0.03]
    only_waits = [("a", "sparsecorev0 infeed wait", 0, 50), ("c", "fusion", 100, 100)]
    database = found(spaces(tpu(0, [tpu_step(0, 1000)], only_waits)))
    assert compute_tpu_steps(database).scv0_compute_ms.tolist() == [0.05] and measure_busy_time(database).tolist() == [
        [100 * US]
    ]


def collective(core: int, duration: float) -> Plane:
    """An all-reduce of 10 microseconds on each core, and one that takes as long as is said."""
    stats: dict[str, Any] = {
        "ar": {"all_reduce_unique_id": 7, "all_reduce_id": 3},
        "ar2": {"all_reduce_unique_id": 8, "all_reduce_id": 4},
    }
    ops = [("ar", "all-reduce", 100, 10), ("ar2", "all-reduce", 200, duration)]
    return tpu(core, [tpu_step(0, 900)], ops, stats=stats)


def test_a_collective_takes_as_long_as_on_the_fastest_core_and_the_rest_is_waiting() -> None:
    database = found(spaces(collective(0, 30), collective(1, 50)))
    every = database.collectives
    assert every.core_id.tolist() == [2, 2, 3, 3] and every.unique_id.tolist() == [7, 8, 7, 8]
    assert every.begin_ps.tolist()[0] == 100 * US
    values = compute_tpu_steps(database)
    assert (values.all_reduce_compute_ms[0], values.all_reduce_sync_ms[0]) == (0.04, 0.02)
    assert values.step_ms[0] - values.tc_idle_ms[0] == pytest.approx(0.04)  # the least compute, with collectives


def test_details_of_a_core_are_read_from_its_plane() -> None:
    assert details.read_core_details({"core_details": core_details(3, "a host", 2)}) == details.CoreDetails(3, 2)
    assert details.read_core_details({}) is None
    assert details.read_core_details({"core_details": "text"}) is None
    for broken in (b"\x10", b"\x0a\x05ab", b"\x13\x01", b"\x10" + b"\xff" * 12):
        assert details.read_core_details({"core_details": broken}) is None
    every_kind = b"\x09" + b"12345678" + b"\x15" + b"1234" + b"\x10\x01\x10\x02"
    assert details.read_core_details({"core_details": every_kind}) == details.CoreDetails(2)


def test_a_core_that_is_not_described_is_called_by_its_host() -> None:
    core = tpu(0, [tpu_step(0, 100)], [("f", "fusion", 10, 20)], details=False)
    cores = found(spaces(core)).cores
    assert cores.name == ["vm"] and not cores.has_details.any()


def test_a_step_that_lasts_no_time_has_no_cores() -> None:
    core = tpu(0, [event("0", 50 * US, 0)], [("f", "fusion", 50, 0)])
    database = found(spaces(plane(HOST), core))
    assert rows(database) == [] and np.asarray(database.step).tolist() == [0]
    assert compute_tpu_steps(database).step_ms.tolist() == [0.0]
