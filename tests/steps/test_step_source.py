"""Sources of steps if nobody says it, and that what pools run for a step belongs to it."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pytest
from effort import takes_less
from gate import typical_captures
from step_captures import US, found, host, in_order, ran, rows, shown, spaces, step, times, tpu
from trace_builder import Event, Plane, event, line, plane

import fastprof
from fastprof.analyses.contract import AnalysisReport


def op(at: float, run: int, duration: float = 10, name: str = "dot", module: str = "jit_f") -> Event:
    return ran(name, at, duration, hlo_module=module, hlo_op=name, run_id=run)


def report(*planes: Plane, **params: Any) -> AnalysisReport:
    return fastprof.load(spaces(*planes)).report("steps", **params)._answer


def source(report: AnalysisReport) -> Any:
    return report.scalars["steps_source"].value


LAUNCH = "TfrtCpuExecutable::Execute"


def blocking(count: int) -> list[list[Event]]:
    """Steps of 100 us that each launch a run of 60 us on a pool of two threads and wait for it, in 5 us of Python."""
    main, first, second = [], [], []
    for k in range(count):
        at = 100.0 * k
        main += [step(k, at, 95), ran(LAUNCH, at + 5, 10), ran("$api.py:1 block_until_ready", at + 15, 75)]
        first += [ran("ThunkExecutor::Execute", at + 20, 60), op(at + 20, 7 + k, 20), op(at + 50, 7 + k, 30)]
        second += [ran("ThunkExecutor::Execute (wait for completion)", at + 20, 60), op(at + 40, 7 + k, 5, "add")]
    return [main, first, second]


def test_what_pools_run_in_the_time_of_a_step_belongs_to_it() -> None:
    """A program computes from its begin to its end; frames of Python, launches and threads that wait do not."""
    capture = spaces(host(*blocking(3)))
    assert rows(found(capture)) == [
        (k, 1, 100.0 * k, length, {"unknown_time": length - 60, "host_compute": 60.0})
        for k, length in enumerate((100.0, 100.0, 95.0))
    ]
    assert source(report(host(*blocking(3)))) == "markers"


def test_a_sleep_in_an_annotation_does_not_compute() -> None:
    main = [
        event
        for k in range(3)
        for event in (step(k, 100 * k, 95), ran("prepare", 100 * k, 50), ran(LAUNCH, 100 * k + 50, 5))
    ]
    pool = [op(100 * k + 60, k, 30) for k in range(3)]
    assert [row[4] for row in rows(found(spaces(host(main, pool))))] == [
        {"unknown_time": other, "host_compute": 30.0, "host_wait_input": 50.0} for other in (20.0, 20.0, 15.0)
    ]


def test_events_that_last_no_time_do_not_begin_any() -> None:
    """XProf counts the time from such an event to the end of the next of its type as that type."""
    main = [step(0, 0, 100), ran("op", 60, 10), event("mark", 20 * US, 0)]
    capture = spaces(host(main))
    assert rows(found(capture)) == [(0, 1, 0.0, 100.0, {"unknown_time": 90.0, "host_compute": 10.0})]
    assert times(shown(capture), 0, 0) == {"unknown_time": 50.0, "host_compute": 50.0}


def test_what_runs_over_the_end_of_a_step_counts_in_both() -> None:
    main = [step(0, 0, 100), ran(LAUNCH, 1, 2), step(1, 100, 100), ran(LAUNCH, 101, 2)]
    pool = [ran("ThunkExecutor::Execute", 10, 120), op(20, 1, 60), op(140, 2, 40)]
    assert [row[4] for row in rows(found(spaces(host(main, pool))))] == [
        {"unknown_time": 10.0, "host_compute": 90.0},
        {"unknown_time": 30.0, "host_compute": 70.0},
    ]


def dispatching(count: int, *, before: int = 0) -> Plane:
    """Steps of 4 us that launch a run each; runs, ``before`` more of them that were launched before, take 90 us of
    each 100 us, from 50 us on."""
    main = [one for k in range(count) for one in (step(k, 5 * k, 4), ran(LAUNCH, 5 * k + 1, 2))]
    pool = [op(50 + 100 * k, 1000 + k, 90) for k in range(before + count)]
    return host(main, pool)


def test_markers_that_only_hold_the_dispatch_are_extended_to_what_they_launched() -> None:
    space = dispatching(3)
    assert rows(found(spaces(space))) == [
        (0, 1, 0.0, 140.0, {"unknown_time": 50.0, "host_compute": 90.0}),
        (1, 1, 140.0, 100.0, {"unknown_time": 10.0, "host_compute": 90.0}),
        (2, 1, 240.0, 100.0, {"unknown_time": 10.0, "host_compute": 90.0}),
    ]
    answer = report(space)
    assert source(answer) == "launched"
    assert [one.text for one in answer.notices] == [
        "Steps are markers and what they launched: each lasts until the work launched in its marker ends."
    ]


def test_runs_that_were_launched_before_the_capture_make_no_step_longer() -> None:
    """The first step lasts until its own run is done; the run before it computes in its time."""
    database = found(spaces(dispatching(2, before=1)))
    assert database.label == ["train 0", "train 1"]
    assert [row[2:4] for row in rows(database)] == [(0.0, 240.0), (240.0, 100.0)]
    assert [row[4]["host_compute"] for row in rows(database)] == [180.0, 90.0]


def test_xprof_and_markers_have_the_markers_only() -> None:
    capture = spaces(dispatching(3))
    marked = found(capture, steps_from="markers")
    assert [row[2:4] for row in rows(marked)] == [(5.0 * k, 4.0) for k in range(3)]
    assert rows(shown(capture)) == rows(marked)
    late = [one.text[:45] for one in report(dispatching(3), steps_from="markers").notices]
    assert late == ["3 of 3 program executions run outside of all "]


def test_where_launches_do_not_fit_the_runs_executions_are_the_steps() -> None:
    """A run cannot begin before it is launched."""
    main = [one for k in range(3) for one in (step(k, 500 + 5 * k, 4), ran(LAUNCH, 500 + 5 * k + 1, 2))]
    pool = [op(100 * k, k, 90) for k in range(3)]
    answer = report(host(main, pool))
    assert source(answer) == "modules"
    assert [row["start_ps"] // US for row in answer.tables["steps"].to_pylist()] == [0, 100, 200]
    assert "the markers only enclose the dispatch, and no work can be assigned to them" in answer.notices[-2].text


def cores(late: float = 5) -> list[Plane]:
    def core(ordinal: int, late: float) -> Plane:
        runs = [ran("jit_f(1)", late + 100 * k, 90) for k in range(3)]
        runs.append(ran("jit_small(2)", late + 300, 10))
        ops = [("f", "fusion", late + 100 * k + 10, 20 + 10 * k) for k in range(3)]
        ops += [("g", "all-reduce", late + 100 * k + 60, 35) for k in range(3)]
        return tpu(ordinal, [], [*ops, ("s", "fusion", late + 300, 10)], lines=[line("XLA Modules", runs, id=2)])

    return [core(0, 0), core(1, late)]


def test_without_markers_executions_of_the_main_program_are_steps_with_their_exact_idle_time() -> None:
    answer = report(*cores())
    assert source(answer) == "modules"
    assert rows(found(spaces(*cores()))) == [
        (k, core, late + 100.0 * k, lasts, {"IDLE": lasts - 55 - 10 * k, "fusion": 20.0 + 10 * k, "all-reduce": 35.0})
        for k, lasts in enumerate((100.0, 100.0, 95.0))
        for core, late in ((2, 0.0), (3, 5.0))
    ]
    assert [one.text for one in answer.notices] == [
        "Steps are inferred (likely): each execution of jit_f(1), the program with the most time, is a step.",
        "Step 2 may be cut off by the recording: averages leave it out.",
    ]


def core_of(ordinal: int, runs: dict[str, tuple[int, ...]], lasts: int) -> Plane:
    """A core with executions of programs, which begin at these times, and an op in each."""
    began = sorted((at, name) for name, times in runs.items() for at in times)
    ops = [("f", "fusion", at, lasts) for at, _ in began]
    return tpu(ordinal, [], ops, lines=[line("XLA Modules", [ran(name, at, lasts) for at, name in began], id=2)])


def test_time_between_cores_of_the_only_step_is_not_between_steps() -> None:
    answer = report(*(core_of(at, {"jit_f(1)": (100 * at,)}, 50) for at in (0, 1)))
    assert answer.scalars["step_count"].value == 1 and answer.scalars["between_steps_ps"].value == 0


def test_programs_of_the_function_with_most_time_are_steps_together() -> None:
    """It was compiled for another shape. Lambdas have a name together, but are different functions."""
    for name, starts in (("jit_f", [0, 100, 200, 300]), ("jit__lambda_", [100, 200, 300])):
        runs = {f"{name}(1)": (0,), f"{name}(2)": (100, 200, 300), "jit_g(3)": (400,)}
        answer = report(core_of(0, runs, 90))
        assert [row["start_ps"] // US for row in answer.tables["steps"].to_pylist()] == starts
    answer = report(core_of(0, {"jit_f(1)": (0,), "jit_f(2)": (100, 200, 300)}, 90))
    assert "each execution of jit_f(2) and of 1 other program of its function is a step" in answer.notices[0].text


def test_ops_that_overlap_take_no_more_than_their_step() -> None:
    """The rest of such ops is taken from the category with most time, and said."""
    core = tpu(0, [ran("0", 0, 100, _ct=1, _c=5)], [("f", "fusion", 0, 80), ("g", "all-reduce", 40, 80)])
    answer = report(host([step(0, 0, 100), ran("enqueue", 1, 1, _pt=1, _p=5)]), core)
    (row,) = answer.tables["steps"].to_pylist()
    named = {name: row[name] // US for name in ("duration_ps", "device_compute_ps", "device_collectives_ps")}
    assert named["device_compute_ps"] + named["device_collectives_ps"] + row["all_others_ps"] == named["duration_ps"]
    assert [one.text[:42] for one in answer.notices] == ["Ops of 1 steps on cores add up to more tha"]


def test_an_annotation_that_repeats_makes_steps() -> None:
    """Of those that cover about the same time, the one that occurs most often; the profiler's own time is none."""
    main = [ran("epoch", 0, 300)]
    for k in range(3):
        main += [ran("batch 1", 100 * k, 99), ran("forward", 100 * k + 10, 40), ran("op:MatMul", 100 * k + 20, 20)]
    main.append(ran("$profiler.py:271 stop_trace", 300, 5000))
    answer = report(host(in_order(main)))
    assert source(answer) == "annotations"
    kept = [(row["name"], row["duration_ps"] // US, row["host_compute_ps"] // US, row["all_others_ps"] // US)
            for row in answer.tables["steps"].to_pylist()]  # fmt: skip
    assert kept == [("batch 1", 99, 20, other) for other in (80, 80, 79)]


def test_effort_for_annotations_grows_with_their_number() -> None:
    def of(count: int) -> fastprof.Profile:
        names = ["annotation " + "".join(chr(97 + int(digit)) for digit in str(n)) for n in range(count)]
        main: list[Event] = []
        for at, name in enumerate(names * 3):
            main += [ran(name, 10 * at, 9), ran("EagerExecute: MatMul", 10 * at + 1, 5)]
        return fastprof.load(spaces(host(main)))

    def search(profile: fastprof.Profile) -> None:
        assert profile.select().report("steps", steps_from="annotations").scalars["step_count"].value == 0

    small, large = of(1_000), of(8_000)
    assert takes_less(lambda: search(large), 20, lambda: search(small))


@pytest.mark.parametrize("count", [1, 2])
def test_what_occurs_less_than_three_times_does_not_repeat(count: int) -> None:
    answer = report(host([ran("batch", 100 * k, 99) for k in range(count)]))
    assert source(answer) is None
    assert answer.scalars["step_count"].value == 0


def test_annotations_on_a_host_with_gpus_have_what_they_launch() -> None:
    main, kernels = [], []
    for k in range(3):
        main += [ran("batch", 100 * k, 90), ran("cuLaunchKernel", 100 * k + 5, 2, correlation_id=k + 1)]
        kernels += [ran(f"k{k}", 100 * k + 20, 50, correlation_id=k + 1)]
    answer = report(host(main), plane("/device:GPU:0", [line("Stream #1", kernels)]))
    assert source(answer) == "annotations"
    kept = [(row["name"], row["start_ps"] // US, row["device_compute_ps"] // US)
            for row in answer.tables["steps"].to_pylist()]  # fmt: skip
    assert kept == [("batch", 20 + 100 * k, 50) for k in range(3)]


def test_the_pattern_of_kernels_that_repeats_makes_steps() -> None:
    """It begins after the longest pause, and has no part of a period at the ends of the capture."""
    names = ["tail", *["a", "b", "a", "c", "tail"] * 4, "a", "b"]
    at, kernels = 0, []
    for number, name in enumerate(names):
        kernels.append(ran(name, at, 5, correlation_id=number + 1))
        at += 50 if name == "tail" else 6
    answer = report(plane("/device:GPU:0", [line("Stream #1", kernels)]))
    assert source(answer) == "launches"
    kept = [(row["start_ps"] // US, row["duration_ps"] // US, row["device_compute_ps"] // US)
            for row in answer.tables["steps"].to_pylist()]  # fmt: skip
    assert kept == [(50 + 74 * k, 29, 25) for k in range(4)]


def test_calls_that_repeat_on_a_host_make_steps() -> None:
    calls = ["EagerExecute: MatMul", "EagerExecute: Add", "EagerExecute: Relu"]
    main = [ran(name, 100 * k + 20 * i, 15) for k in range(4) for i, name in enumerate(calls)]
    answer = report(host(main))
    assert source(answer) == "launches"
    assert [row["start_ps"] // US for row in answer.tables["steps"].to_pylist()] == [0, 100, 200, 300]


def test_what_is_launched_in_no_order_makes_no_steps() -> None:
    draw = random.Random(5)
    names = [f"EagerExecute: Op{draw.randrange(6)}" for _ in range(60)]
    assert source(report(host([ran(name, 10 * k, 5) for k, name in enumerate(names)]))) is None


def test_an_execution_or_two_serve_where_nothing_else_repeats() -> None:
    assert source(report(host([op(0, 1), op(50, 2)]))) == "modules"


def test_chosen_steps_are_those_of_the_table() -> None:
    """Also of analyses that have no steps of their own."""
    profile = fastprof.load(spaces(*cores()))
    assert profile.select(steps=1).steps().tables["steps"]["start_ps"].to_pylist() == [100 * US, 105 * US]
    assert not [one for one in profile.select(steps=(1, 3)).hlo_stats().notices if one.text.startswith("No step")]
    pooled = fastprof.load(spaces(dispatching(3))).select(steps=2)
    assert pooled.steps().scalars["step_time_mean_ps"].value == 100 * US


# ---- real captures


def test_equal_steps_of_a_jax_program_have_equal_breakdowns(captures: Path) -> None:
    """Its markers only hold the dispatch."""
    answer = fastprof.load(captures / "xspace" / "cpu-jax-train").steps()
    assert answer.scalars["steps_source"].value == "launched"
    table = answer.tables["steps"].filter(answer.tables["steps"]["complete"])
    duration, compute = (table[name].to_numpy() for name in ("duration_ps", "host_compute_ps"))
    assert (duration > 200 * US).all() and (duration < 500 * US).all()
    shares = compute / duration
    assert np.ptp(shares) < 0.1 and shares.min() > 0.85


@typical_captures
@pytest.mark.parametrize("steps_from", ["auto", "markers", "modules"])
def test_categories_add_up_to_the_step_on_every_capture(capture: Path, steps_from: Any) -> None:
    answer = fastprof.load(capture).steps(steps_from=steps_from)
    table = answer.tables["steps"]
    times = ("start_ps", "duration_ps", "period_ps")
    parts = np.stack(
        [
            pc.fill_null(table[name], 0).to_numpy()
            for name in table.schema.names
            if name.endswith("_ps") and name not in times
        ]
    )
    assert (parts >= 0).all()
    wanted = pc.coalesce(table["period_ps"], table["duration_ps"])
    assert parts.sum(axis=0).tolist() == wanted.to_pylist()
    kinds = answer.tables["breakdown"]
    shares = kinds["share"].to_numpy(zero_copy_only=False)
    assert not (shares > 1).any()


def test_reports_on_steps_say_how_they_are_inferred() -> None:
    profile = fastprof.load(Path(__file__).parents[1] / "reported" / "i64-vllm.json.gz")
    text = "Steps are inferred (possible): each repeat of a pattern of launches is a step."
    for report in profile.reports("steps", "overview", "diagnosis", "input_pipeline", "communication", "gaps").values():
        assert [one.text for one in report.notices].count(text) == 1, report.analysis
    assert text not in [one.text for one in profile.kernel_stats().notices]
