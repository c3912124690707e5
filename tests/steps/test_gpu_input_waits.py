"""Steps of GPUs: time in which they stand still while the host waits for input."""

from __future__ import annotations

import json

import pytest
from step_captures import HOST, found, in_order, pod_viewer, ran, rows, shown, spaces, step
from test_gpu_steps import gpu
from trace_builder import Event, line, plane

import fastprof
from fastprof.derive.steps.step_alignment import SessionSteps
from fastprof.xprof.steps import get_shown_steps


def capture(*waits: Event, kernels: tuple[Event, ...] = ()) -> bytes:
    """A step of 1,000 us on the host; a GPU that works from 20 to 220 us and from 600 to 900, and nothing between."""
    launches = [ran("launch", 5, 5, correlation_id=1), ran("launch", 12, 5, correlation_id=2)]
    own = [ran("gemm", 20, 200, correlation_id=1), ran("gemm", 600, 300, correlation_id=2), *kernels]
    main = plane(HOST, [line("main", in_order([step(0, 0, 1000), *launches, *waits]))])
    return spaces(main, gpu(0, own))


def wait(at: float, length: float) -> Event:
    return ran("IteratorGetNextOp::DoCompute", at, length, id=7, iter_num=0)


def test_it_counts_as_input_what_the_gpu_stands_still_meanwhile() -> None:
    database = found(capture(wait(300, 400)))
    expected = {"device_compute_32": 500.0, "host_wait_input": 300.0, "unknown_time": 80.0}
    assert rows(database) == [(0, 1, 20.0, 880.0, expected)]


def test_xprof_does_not_look_at_the_host() -> None:
    database = shown(capture(wait(300, 400)))
    assert rows(database) == [(0, 1, 20.0, 880.0, {"device_compute_32": 500.0, "unknown_time": 380.0})]


def test_all_that_a_gpu_does_goes_before() -> None:
    """Collectives too, which waiting would go before if it were one more event of the GPU."""
    collective = ran("ncclKernel_AllReduce", 350, 100, correlation_id=2)
    database = found(capture(wait(300, 400), kernels=(collective,)))
    (times,) = [row[4] for row in rows(database)]
    assert (times["device_collectives"], times["host_wait_input"], times["unknown_time"]) == (100.0, 200.0, 80.0)


def test_waits_of_several_threads_count_once_and_only_within_the_step() -> None:
    database = found(capture(wait(2, 8), wait(250, 100), wait(300, 100), wait(950, 40)))
    (times,) = [row[4] for row in rows(database)]
    assert (times["host_wait_input"], times["unknown_time"]) == (150.0, 230.0)


def test_what_hands_on_the_input_does_not_wait_for_it() -> None:
    """The rest of the step may run inside of it."""
    sends = [ran(f"IteratorGetNext/_{k}:{op}", 230 + 50 * k, 40) for k, op in enumerate(("_Send", "_Recv", "Identity"))]
    assert rows(found(capture(*sends))) == [(0, 1, 20.0, 880.0, {"device_compute_32": 500.0, "unknown_time": 380.0})]
    op = ran("IteratorGetNext_4:IteratorGetNext", 400, 100)
    (times,) = [row[4] for row in rows(found(capture(*sends, op)))]
    assert times["host_wait_input"] == 100.0


def test_a_gpu_that_is_kept_busy_waits_for_nothing() -> None:
    report = pod_viewer(capture(wait(30, 100)))
    database = report.after["steps"].detail_as(SessionSteps).database
    assert rows(database) == [(0, 1, 20.0, 880.0, {"device_compute_32": 500.0, "unknown_time": 380.0})]
    assert rows(get_shown_steps(report)) == rows(database)


def test_reports_say_it_and_xprofs_pages_do_not() -> None:
    profile = fastprof.load(capture(wait(300, 400)))
    for name in ("overview", "input_pipeline"):
        report = profile.report(name)
        assert report.scalars["input_percent"].value == pytest.approx(100 * 300 / 880)
        words = report.tables["verdicts"]["statement"][0].as_py() if name == "overview" else report.notices[0].text
        assert "HIGHLY input-bound" in words
        assert "HIGHLY" not in json.dumps(json.loads(report.to_xprof()))
