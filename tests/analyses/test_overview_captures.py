"""Overview and input pipeline of whole captures: small ones with known answers, and ones that hold hardly anything."""

from __future__ import annotations

import json
from typing import Any

import pytest
from step_captures import US, core_details, host, ran, spaces, sparse_core, step, tpu
from trace_builder import Event, Plane, event, line, plane

import fastprof

OVERVIEW, INPUT = "overview", "input_pipeline"


def values(space: bytes, name: str = OVERVIEW) -> dict[str, Any]:
    return {key: scalar.value for key, scalar in fastprof.load(space).report(name).scalars.items()}


def page(space: bytes, name: str) -> list[Any]:
    page: list[Any] = json.loads(fastprof.load(space).report(name).to_xprof())
    return page


def gpu(*kernels: Event) -> Plane:
    return plane("/device:GPU:0", [line("Stream #1", kernels, id=1)], id=2)


def training(steps: int, *, input_us: float = 0) -> bytes:
    """Steps of 1 ms on the host, with input in each."""
    events = [step(number, 1000 * number, 1000) for number in range(steps)]
    events += [ran("MatMul:MatMul", 1000 * number + 300, 500) for number in range(steps)]
    if input_us:
        events += [ran("IteratorGetNext:IteratorGetNext", 1000 * number + 10, input_us) for number in range(steps)]
    return spaces(host(events))


@pytest.mark.parametrize(
    ("input_us", "verdict", "word"),
    [(200, "high", "HIGHLY"), (199, "moderate", "MODERATELY"), (50, "moderate", "MODERATELY"), (49, "none", None)],
)
def test_input_is_judged_where_the_threshold_is_met(input_us: float, verdict: str, word: str | None) -> None:
    report = fastprof.load(training(4, input_us=input_us)).report(INPUT)
    assert report.scalars["input_percent"].value == pytest.approx(input_us / 10)
    assert report.scalars["input_verdict"].value == verdict
    bound = [notice.text for notice in report.notices if "input-bound" in notice.text]
    assert len(bound) == (word is not None) and (word or "") in "".join(bound)


def test_other_time_is_judged_as_such_and_not_as_input() -> None:
    """A step of 1 ms: half computes and 4.9 % waits for input; XProf calls it potentially input-bound."""
    report = fastprof.load(training(4, input_us=49)).report(OVERVIEW)
    verdicts = {row["aspect"]: (row["verdict"], row["look_at"]) for row in report.tables["verdicts"].to_pylist()}
    assert verdicts["waiting for input"] == ("none", None)
    assert verdicts["all other time"] == ("high", "host")
    assert "POTENTIALLY" in page(training(4, input_us=49), OVERVIEW)[3]["p"]["statement"]


def test_of_eight_steps_six_count_and_the_page_shows_these() -> None:
    profile = fastprof.load(training(8))
    assert profile.report(INPUT).tables["steps"]["complete"].to_pylist() == [False, *[True] * 6, False]
    assert profile.report(OVERVIEW).scalars["incomplete_step_count"].value == 2
    names = [row["c"][0]["v"] for row in page(training(8), OVERVIEW)[1]["rows"]]
    assert names == [f"train {number}" for number in range(1, 7)]


def tpu_training(wait_us: float) -> bytes:
    """A step of 900 us on one core, busy for 300 us, while the host waits for input."""
    threads = host([step(0, 0, 950, _pt=14, _p=5), ran("IteratorGetNext:IteratorGetNext", 20, wait_us)])
    marker = event("0", 10 * US, 900 * US, {"_ct": 14, "_c": 5})
    return spaces(threads, tpu(0, [marker], [("fusion", "loop fusion", 100, 300)]))


def test_input_that_the_host_waits_for_explains_idle_time_of_tpus() -> None:
    profile = fastprof.load(tpu_training(200))
    breakdown = profile.report(INPUT).tables["breakdown"].to_pylist()
    times = {row["category"]: row["mean_ps"] / US for row in breakdown}
    assert times["compute"] == 300
    assert times["input"] == pytest.approx(200)
    assert times["idle"] == pytest.approx(400)
    assert profile.report(INPUT).notices[0].text.startswith("Your program is HIGHLY input-bound because 22.2 %")
    assert profile.report(OVERVIEW).tables["verdicts"]["statement"][0].as_py().startswith("Your program is HIGHLY")


def test_duty_and_active_times_of_a_tensor_core_and_its_sparse_core() -> None:
    marker = event("0", 10 * US, 900 * US)
    core = tpu(0, [marker], [("fusion", "loop fusion", 100, 300), ("done", "async-done", 500, 100)])
    sparse = sparse_core(0, [("gather", "gather fusion", 110, 200)])
    sparse = plane(str(sparse.name), sparse.lines, id=20, event_metadata=sparse.event_metadata,
                   stats={"core_details": core_details(0)})  # fmt: skip
    space = spaces(host([ran("x", 0, 1)]), core, sparse)
    found = values(space)
    assert found["busy_ps"] == 300 * US
    assert found["idle_ps"] == 200 * US
    p = page(space, OVERVIEW)[0]["p"]
    assert (p["tc_active_ms_average"], p["sc_active_ms_average"], p["active_steptime_ms_average"]) == (
        "0.30", "0.20", "0.30",
    )  # fmt: skip
    assert p["device_duty_cycle_percent"] == "60.0%"


def test_enqueuing_says_how_much_other_work_there_is_for_input() -> None:
    thread = [ran("q:InfeedEnqueue", 2000 * number, 60) for number in range(3)]
    p = page(spaces(host(thread), tpu(0, [], [])), INPUT)[2]["p"]
    assert (p["enqueue_us"], p["unclassified_nonequeue_us"]) == ("180.000", "5820.000")


def test_gpus_report_kernels_precision_and_placement() -> None:
    kernels = [
        event("volta_h884gemm", 0, 20 * US, {"correlation_id": 1, "shape": "(half[4])", "kernel_details": "regs:8"}),
        event("sgemm", 30 * US, 60 * US, {"correlation_id": 2, "tf_op": "model/MatMul:MatMul", "kernel_details": ":"}),
    ]
    launches = [ran("launch", 0, 1, correlation_id=1), ran("launch", 2, 1, correlation_id=2)]
    report = fastprof.load(spaces(host([step(0, 0, 200), *launches]), gpu(*kernels))).report(OVERVIEW)
    assert report.scalars["device_count"].value == 1
    assert report.scalars["duty_cycle_percent"].value == pytest.approx(100 * 80 / 90)
    assert report.scalars["compute_16bit_percent"].value == pytest.approx(25)
    assert [row["name"] for row in report.tables["top_ops"].to_pylist()] == ["model/MatMul", "volta_h884gemm"]
    assert report.tables["top_ops"]["could_use_tensor_cores"].to_pylist() == [True, None]


HARDLY_ANYTHING = {
    "a host without threads": spaces(plane("/host:CPU")),
    "a host without a name": spaces(plane("/host:CPU", [line("t", [event("x", 0, 5)])]), hostnames=()),
    "a TPU without lines": spaces(plane("/device:TPU:0")),
    "a TPU without ops": spaces(plane("/device:TPU:0", [line("Steps", [event("0", 0, 0)]), line("XLA Ops", [])])),
    "a GPU without lines": spaces(plane("/device:GPU:0")),
    "negative durations": spaces(
        host([event("train", 10, -5, {"_r": 1}), event("q:InfeedEnqueue", 5, -50)]),
        plane("/device:TPU:0", [line("XLA Ops", [event("f", 10, -5), event("g", 0, 0)])]),
        plane("/device:GPU:0", [line("s", [event("k", 10, -5)])]),
    ),
    "texts where numbers belong": spaces(
        plane("/host:CPU", [line("t", [event("f", 0, 5, {"tf_function_call": 7, "tracing_count": "many"})])],
              stats={"matrix_unit_utilization_percent": "all of it", "hbm_utilization_percent": b"\xff"}),
        plane("/device:TPU:0", [line("XLA Ops", [event("f", 0, 5, {"flops": "a lot", "uses_ici": 0.5})])],
              stats={"core_details": b"\xff\xff", "device_type_string": 5}),
    ),
}  # fmt: skip


@pytest.mark.parametrize("analysis", [OVERVIEW, INPUT])
@pytest.mark.parametrize("what", HARDLY_ANYTHING)
def test_a_capture_with_hardly_anything_in_it_gives_a_report(what: str, analysis: str) -> None:
    report = fastprof.load(HARDLY_ANYTHING[what]).report(analysis)
    for scalar in report.scalars.values():
        assert (scalar.value is None) == (scalar.reason is not None), scalar.name
    assert report.to_text()
    assert json.loads(report.to_xprof())
