"""Periods: a step lasts until the next one begins, and all of that time is divided into categories. The period of the
last step is its extent."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import Any

import pytest
from causes.test_gap_attribution import capture as random_capture
from causes.test_gap_attribution import host_of
from equal_reports import DEMO, check_equal
from gate import few
from reports import records, session_of
from step_captures import HOST, US, in_order, ran, spaces, step, tpu
from steps.slow_periods import slow_periods
from test_gpu_steps import gpu
from trace_builder import Event, Plane, line, plane

import fastprof
from fastprof.analyses.contract import AnalysisReport
from fastprof.derive.steps.host_steps import find_periods
from fastprof.derive.steps.step_database import OWN_CATEGORIES
from fastprof.errors import UsageError

CATEGORIES = (*(f"{category.name}_ps" for category in OWN_CATEGORIES), "host_to_host_ps")
Row = tuple[float, float, float | None, dict[str, float]]
"""Start, extent and period in microseconds, and the categories that have time."""


def threads(*every: list[Event]) -> Plane:
    return plane(HOST, [line(f"thread {number}", in_order(events)) for number, events in enumerate(every)])


def steps(*planes: Plane, **params: Any) -> AnalysisReport:
    return session_of(spaces(*planes)).report("steps", **params).answer


def rows(report: AnalysisReport) -> list[Row]:
    return [
        (
            row["start_ps"] / US, row["duration_ps"] / US, row["period_ps"] and row["period_ps"] / US,
            {name.removesuffix("_ps"): row[name] / US for name in CATEGORIES if row[name]},
        )
        for row in records(report, "steps")
    ]  # fmt: skip


def op(at: float, length: float, name: str = "dot") -> Event:
    """An op of a compiled program, on a thread of a host without devices."""
    return ran(name, at, length, hlo_module="jit_f", hlo_op=name, run_id=int(at))


# ---- hosts without devices


@pytest.mark.parametrize(("marker", "extent"), [(30, 65), (0, 95), (30, 70)])
def test_loading_is_input_before_inside_and_after_the_marker(marker: int, extent: int) -> None:
    """Three times in 100 µs: 30 of loading, 10 of Python and 40 of computing."""
    main, pool = [], []
    for k in range(3):
        main += [ran("load_batch", 100 * k, 30), step(k, 100 * k + marker, extent)]
        main.append(ran("PjitFunction(f)", 100 * k + 35, 3))
        pool.append(op(100 * k + 40, 40))
    first, second, last = rows(steps(threads(main, pool)))
    spent = {"host_compute": 40, "input": 30, "all_others": 30}
    assert first == (marker, extent, 100, spent) and second == (100 + marker, extent, 100, spent)
    own_load = 30 - marker
    assert last[:3] == (200 + marker, extent, extent)
    assert last[3].get("input", 0) == own_load and sum(last[3].values()) == extent


def test_where_no_op_is_recorded_events_count_by_name() -> None:
    main = [
        one for k in range(3) for one in (step(k, 100 * k, 60), ran("work", 100 * k, 25), ran("tidy", 100 * k + 70, 5))
    ]
    assert rows(steps(threads(main))) == [
        (0, 60, 100, {"host_compute": 25, "all_others": 75}),
        (100, 60, 100, {"host_compute": 25, "all_others": 75}),
        (200, 60, 60, {"host_compute": 25, "all_others": 35}),
    ]


# ---- devices


def launched(kernels: list[list[tuple[int, int]]]) -> list[Plane]:
    """Markers of 8 µs that follow each other every 10; of each GPU when the kernel of each step begins and ends."""
    main, count = [], len(kernels)
    for k in range(len(kernels[0])):
        main.append(step(k, 10 * k, 8))
        main += [ran("launch", 10 * k + n, 1, correlation_id=count * k + n + 1) for n in range(count)]
    gpus = [
        gpu(n, [ran("gemm", at, end - at, correlation_id=count * k + n + 1) for k, (at, end) in enumerate(own)])
        for n, own in enumerate(kernels)
    ]
    return [threads(main), *gpus]


def test_a_period_on_a_gpu_begins_with_the_first_work_of_the_step() -> None:
    """The time of its launch does not matter."""
    assert rows(steps(*launched([[(50, 130), (150, 200), (260, 300)]]))) == [
        (50, 80, 100, {"device_compute": 80, "all_others": 20}),
        (150, 50, 110, {"device_compute": 50, "all_others": 60}),
        (260, 40, 40, {"device_compute": 40}),
    ]


def test_the_slowest_gpu_counts_and_what_any_gpu_computes() -> None:
    """The second begins its steps 120 µs apart."""
    found = rows(steps(*launched([[(0, 60), (100, 160), (200, 260)], [(0, 70), (120, 190), (240, 320)]])))
    assert [row[2:] for row in found] == [
        (120, {"device_compute": 90, "all_others": 30}),  # 0 to 70, and the first GPU from 100 to 120
        (120, {"device_compute": 110, "all_others": 10}),  # 120 to 190, 200 to 240
        (80, {"device_compute": 80}),
    ]


def test_kernels_of_other_steps_and_of_no_length_count_where_they_run() -> None:
    """A kernel of no length takes no time; one that the next step launched counts in the time in which it runs."""
    main = [step(k, 100 * k, 60) for k in range(3)]
    main += [ran("launch", 100 * k + 5, 1, correlation_id=k + 1) for k in range(3)]
    kernels = [ran("gemm", 100 * k + 10, 50, correlation_id=k + 1) for k in range(3)]
    other = [ran("stray", 70, 20), ran("mark", 95, 0)]
    assert [row[2:] for row in rows(steps(threads(main), gpu(0, kernels, other)))][:2] == [
        (100, {"device_compute": 70, "all_others": 30}),
        (100, {"device_compute": 50, "all_others": 50}),
    ]


def test_ops_between_steps_of_a_tpu_count_by_category() -> None:
    marks = [ran(str(k), 100 * k, 60) for k in range(3)]
    ops = [(f"f{k}", "fusion", 100 * k, 50) for k in range(3)]
    ops += [("ag", "all-gather", 70, 10), ("copy", "copy-start", 165, 15), ("late", "fusion", 185, 10)]
    assert rows(steps(tpu(0, marks, ops))) == [
        (0, 60, 100, {"device_compute": 50, "device_collectives": 10, "all_others": 40}),
        (100, 60, 100, {"device_compute": 60, "copies": 15, "all_others": 25}),
        (200, 60, 60, {"device_compute": 50, "all_others": 10}),
    ]


def test_a_tpu_step_on_no_core_follows_none() -> None:
    """An overlap of steps that is too short for any core gives such a step."""
    marks, ops = [ran(str(k), 100 * k, 60) for k in range(3)], [("f", "fusion", 100 * k, 50) for k in range(3)]
    host = host_of(session_of(spaces(tpu(0, marks, ops))))
    own = host.steps_from("auto")
    there = own.database.present.copy()
    there[0] = False
    made = find_periods(replace(own, database=replace(own.database, present=there)), host.source_of_steps("auto"))
    assert [(made.end_ps - made.begin_ps)[:, 0].tolist(), made.is_followed.tolist()] == [
        [0, 100 * US, 60 * US], [False, True, False],
    ]  # fmt: skip


# ---- the end of a period


def marked(*numbered: tuple[int, float, float]) -> Plane:
    """Steps by number, begin and length, with an op of half of that."""
    main = [one for number, at, length in numbered for one in (step(number, at, length), op(at, length / 2))]
    return threads(main)


def test_no_step_follows_where_numbers_jump() -> None:
    found = steps(marked((3, 0, 60), (4, 100, 60), (5, 200, 60), (10, 900, 60), (11, 1000, 60)))
    assert [row[2] for row in rows(found)] == [100, 100, None, 100, 60]
    assert [row["complete"] for row in records(found, "steps")] == [True, True, False, True, False]
    assert found.scalars["step_time_mean_ps"].value == 100 * US


def test_a_single_step_is_a_bound() -> None:
    found = steps(marked((0, 0, 60)))
    assert rows(found) == [(0, 60, 60, {"host_compute": 30, "all_others": 30})]
    assert found.scalars["step_time_is_bound"].value is True
    assert found.scalars["step_time_mean_ps"].value == 60 * US


@pytest.mark.parametrize(("pause", "complete"), [(0, True), (1, True), (5, False)])
def test_the_last_step_counts_where_markers_follow_each_other(pause: float, complete: bool) -> None:
    """The end of its marker is the begin of the next one, up to a hundredth of the period."""
    found = steps(marked(*((k, 100 * k, 100 - pause) for k in range(3))))
    assert [row["complete"] for row in records(found, "steps")] == [True, True, complete]
    assert found.scalars["step_time_is_bound"].value is False
    mean = (200 + (100 - pause)) / 3 if complete else 100
    assert found.scalars["step_time_mean_ps"].value == pytest.approx(mean * US)


def test_steps_that_serve_requests_keep_their_extents() -> None:
    """The time between them may be time without requests."""
    main = [
        one
        for k in range(3)
        for one in (step(k, 100 * k, 60), ran("execute_context_1(8)_generation_0(0)", 100 * k, 50))
    ]
    found = steps(threads(main, [op(100 * k, 30) for k in range(3)]))
    assert [row[:3] for row in rows(found)] == [(100 * k, 60, 60) for k in range(3)]
    assert [row["complete"] for row in records(found, "steps")] == [True] * 3


def test_pauses_are_part_of_the_period_and_shown_beside_it() -> None:
    main = [one for k in range(3) for one in (step(k, 100 * k, 60 - 20 * (k == 1)), ran("x:MatMul", 100 * k, 20))]
    main.append(ran("load_batch", 170, 25))
    (between,) = records(steps(threads(main)), "between_steps")
    names = ("gap_count", "time_ps", "longest_ps", "longest_before", "input_ps", "all_others_ps")
    assert tuple(between[name] for name in names) == (2, 100 * US, 60 * US, "train 2", 25 * US, 75 * US)


def test_markers_alone_have_extents() -> None:
    found = steps(marked((0, 0, 60), (1, 100, 60)), steps_from="markers")
    assert rows(found) == [(100 * k, 60, None, {"host_compute": 30, "all_others": 30}) for k in range(2)]


# ---- what makes the steps


def test_calls_of_an_iterator_of_tensorflow_make_steps() -> None:
    main = []
    for k in range(4):
        main += [ran("IteratorGetNextOp::DoCompute", 100 * k, 30), ran("mm:MatMul", 100 * k + 40, 50)]
    found = steps(threads(main))
    assert found.scalars["steps_source"].value == "loader"
    spent = {"host_compute": 50, "input": 30, "all_others": 20}
    assert [row[2:] for row in rows(found)][:3] == [(100, spent)] * 3


def test_the_end_of_the_data_is_no_step() -> None:
    """The call after which nothing computes."""
    main = [
        one
        for k in range(4)
        for one in (ran("IteratorGetNextOp::DoCompute", 100 * k, 30), ran("x:Mul", 100 * k + 40, 9))
    ]
    assert len(rows(steps(threads([*main, ran("IteratorGetNextOp::DoCompute", 400, 30)])))) == 4


def repeating_kernels(around: list[Event], correlation: int) -> list[Plane]:
    """Kernels of six layers. ``correlation``: of all of them; 0: each has its launch."""
    names = ("norm", "gemm", "relu") * 6
    ids = [correlation or n + 1 for n in range(len(names))]
    launches = [ran("cudaLaunchKernel", 10 + 2 * n, 1, correlation_id=one) for n, one in enumerate(dict.fromkeys(ids))]
    kernels = [ran(name, 100 + 10 * n, 8 if n % 3 < 2 else 5, correlation_id=ids[n]) for n, name in enumerate(names)]
    return [threads([*around, *launches]), gpu(0, kernels)]


@pytest.mark.parametrize(
    ("around", "correlation", "source"),
    [([], 0, "launches"), ([ran("forward", 5, 80)], 0, None), ([], 7, None)],
)
def test_layers_under_one_annotation_or_of_one_graph_are_no_steps(
    around: list[Event], correlation: int, source: str | None
) -> None:
    assert steps(*repeating_kernels(around, correlation)).scalars["steps_source"].value == source


@pytest.mark.parametrize(("inside", "source"), [(True, "annotations"), (False, "launches")])
def test_an_annotation_makes_steps_if_it_holds_the_work_of_its_thread(inside: bool, source: str) -> None:
    """The annotation covers a fifth of the time."""
    main = []
    for k in range(4):
        main += [ran("batch", 100 * k + 30, 20), ran("x:MatMul", 100 * k + (35 if inside else 60), 10)]
    assert steps(threads(main)).scalars["steps_source"].value == source


def test_steps_are_made_from_markers_or_annotations_of_a_name() -> None:
    main = []
    for k in range(3):
        main += [step(k, 100 * k, 60), ran("batch 1", 100 * k + 10, 40), ran("x:MatMul", 100 * k + 20, 20)]
        main += [step(k, 100 * k + 70, 20, name="eval"), ran("y:MatMul", 100 * k + 75, 10)]

    def of(name: str) -> tuple[Any, list[float], list[str]]:
        found = steps(threads(main), steps_from=name)
        source = found.scalars["steps_source"].value
        return source, [row[0] for row in rows(found)], [row["name"] for row in records(found, "steps")]

    assert of("eval") == ("markers", [70, 170, 270], ["eval 0", "eval 1", "eval 2"])
    assert of("train")[:2] == ("markers", [0, 100, 200])
    assert of("batch 1")[:2] == of("batch")[:2] == ("annotations", [10, 110, 210])
    with pytest.raises(UsageError, match=r"called 'predict' \(markers of this capture: train, eval\)"):
        of("predict")


# ---- of any capture


@pytest.mark.parametrize("seed", few(range(40), 12))
def test_categories_and_causes_add_up_to_the_periods(seed: int) -> None:
    """Categories do so on each core, causes on each device."""
    profile = session_of(random_capture(seed))
    for row in records(profile.report("steps"), "steps"):
        lasts = row["duration_ps"] if row["period_ps"] is None else row["period_ps"]
        times = [row[name] or 0 for name in CATEGORIES]  # input that nothing would show is null
        assert min(times) >= 0
        assert sum(times) == lasts if row["all_others_ps"] is not None else sum(times) <= lasts  # records are lost
    host = host_of(profile)
    periods = slow_periods(host)
    time: dict[Any, int] = defaultdict(int)
    for row in records(profile.report("gaps", top=0), "by_step"):
        time[row["device"], row["step"]] += row["time_ps"]
    database = host.steps_from("auto").database
    number = dict(zip(database.step.tolist(), database.number.tolist(), strict=True))
    for device in {device for device, _ in time}:
        own = {number[group]: end - begin for group, begin, end in periods.get(device, periods[""]) if end > begin}
        assert {step: time for (name, step), time in time.items() if name == device and step is not None} == own


@pytest.mark.parametrize("other", ["memory_profile", "communication", "annotations"])
@pytest.mark.parametrize("demo", ["memory", "tf-data", "xla"])
def test_reports_do_not_depend_on_the_order_of_analyses(demo: str, other: str) -> None:
    """An analysis that takes the periods of steps does not change the steps that another one takes."""
    one_way, other_way = (
        {name: report.answer for name, report in sorted(fastprof.load(str(DEMO / demo)).reports(*names).items())}
        for names in (("steps", other), (other, "steps"))
    )
    check_equal(one_way, other_way)
