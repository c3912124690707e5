"""What costs the time: findings, how they are ordered, and the list of things that the capture does not record."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from trace_builder import Event, event, line, plane, xspace

import fastprof
from fastprof.analyses import diagnosis, runner
from fastprof.analyses.findings import step_findings
from fastprof.analyses.findings.advice import get_advice
from fastprof.analyses.findings.facts import Finding, collect_names, limit_to_run, rank_findings
from fastprof.analyses.findings.reports import PLACES, Steps
from fastprof.derive.causes.cause_names import CAUSES
from fastprof.derive.devices.op_names import FRAMEWORKS, JAX, PYTORCH, TENSORFLOW, TENSORFLOW_1
from fastprof.derive.steps.event_origin import STATS
from fastprof.tables.host_reader import read_host

MS = 1_000_000_000
KERNEL = {"kernel_details": "regs:32 grid:108,1,1 block:256,1,1 occ_pct:100.0"}


def steps_of(waiting: str, count: int = 10, *more: bytes) -> bytes:
    """A GPU that computes for 6 ms of each step of 10 ms, while the host does something for the first 4 ms. ``more``:
    other planes."""
    main, stream = [], []
    for step in range(count):
        start = step * 10 * MS
        main += [
            event("train", start, 10 * MS, {"_r": 1, "step_num": step}),
            event(waiting, start, 4 * MS),
            event("PjitFunction(step)", start + 4 * MS, MS // 100),
            event("cuLaunchKernelEx", start + 4 * MS, MS // 1000, {"correlation_id": step}),
        ]
        stream.append(event("loop_fusion", start + 4 * MS, 6 * MS, {"correlation_id": step, **KERNEL}))
    return xspace(
        plane("/host:CPU", [line("python", main, id=1)]),
        plane("/device:GPU:0", [line("Stream #13(Compute)", stream, id=13)], stats={"device_vendor": "Nvidia"}),
        *more,
    )


def test_a_device_that_only_copies_does_not_count() -> None:
    """The share of a cause is that of the devices that compute."""
    copies = [event("MemcpyH2D", 1 + 5 * MS, MS, {"memcpy_details": "kind_src:pinned kind_dst:device size:8"})]
    more = [plane("/device:GPU:1", [line("Stream #14", copies, id=14)]), plane("/device:GPU:2")]
    one, three = (fastprof.load(steps_of("load_batch", 10, *also)).report("diagnosis") for also in ([], more))
    (row,), (alone,) = (report.tables["findings"].to_pylist() for report in (three, one))
    assert {name: row[name] for name in row if name != "host"} == {name: alone[name] for name in row if name != "host"}
    counts = [three.scalars[f"{of}device_count"].value for of in ("", "used_", "computing_")]
    assert counts == [3, 2, 1]
    assert three.scalars["compute_share"].value == one.scalars["compute_share"].value
    assert three.scalars["headline"].value == f"1 of 3 GPUs computes; 1 only copies. {one.scalars['headline'].value}"


@pytest.mark.parametrize(
    ("calls", "headline"),
    [
        (
            [event("$train.py:20 main", 0, 100 * MS), event("$data.py:7 read_samples", MS, 90 * MS),
             event("$builtins sum", 2 * MS, 80 * MS)],
            "No device work is recorded: read_samples (data.py:7) takes 90.00 ms of the 100.0 ms on its thread. Make "
            "it faster, or record for longer.",
        ),
        (
            [event("$train.py:20 main", 0, 100 * MS), event("$threading.py:7 wait", MS, 90 * MS)],
            "No device work is recorded: device time is neither used nor lost.",
        ),
    ],
)  # fmt: skip
def test_the_function_that_takes_a_run_without_a_batch_is_named(calls: list[Event], headline: str) -> None:
    others = line("python", [event("$server.py:3 poll", 0, 10 * MS)], id=2)
    report = fastprof.load(xspace(plane("/host:CPU", [line("python", calls, id=1), others]))).report("diagnosis")
    assert report.scalars["headline"].value == headline


def test_short_kernels_that_take_longer_than_their_launches_are_not_too_short() -> None:
    """Eight V100; six of them run no kernel. A launch is one wait, however many ops of the host it takes."""
    path = Path(__file__).resolve().parents[3] / "shared" / "captures" / "xspace" / "gpu-v100x8-tf"
    if not path.exists():
        pytest.skip("no captures beside the project")
    report = fastprof.load(path).diagnosis()
    rows = {row["cause"]: row for row in report.tables["findings"].to_pylist()}
    assert report.scalars["headline"].value.startswith("2 of 8 GPUs compute; 1 only copies. GPUs idle, cause not ")
    assert "small_ops" not in rows
    assert rows["launch"]["detail"].startswith("1,330 kernels of 22.32 µs on average were launched; devices wait ")


@pytest.mark.parametrize(
    ("often", "title"),
    [(3, ", most for load_small (60 %)"), (17, ", most for load_small (89 %)"), (18, ": load_small")],
)
def test_a_title_names_what_takes_most_of_all_waits_not_of_the_longest(often: int, title: str) -> None:
    """One step waits 8 ms for one thing, each of the others 4 ms for another."""
    main, stream = [], []
    for step in range(often + 1):
        start, name, wait = step * 20 * MS, *(("load_small", 4 * MS) if step else ("load_large", 8 * MS))
        main += [
            event("train", start, 14 * MS, {"_r": 1, "step_num": step}),
            event(name, start, wait),
            event("cuLaunchKernelEx", start + wait, MS // 1000, {"correlation_id": step}),
        ]
        stream.append(event("loop_fusion", start + wait, 10 * MS, {"correlation_id": step, **KERNEL}))
    report = fastprof.load(
        xspace(
            plane("/host:CPU", [line("python", main, id=1)]),
            plane("/device:GPU:0", [line("Stream #13(Compute)", stream, id=13)], stats={"device_vendor": "Nvidia"}),
        )
    ).report("diagnosis")
    (row,) = (row for row in report.tables["findings"].to_pylist() if row["cause"] == "input")
    assert (row["cost_ps"], row["annotation"]) == ((8 + 4 * often) * MS, "load_small")
    assert row["title"] == f"The GPU waits for input{title}"


def test_time_that_a_device_waits_is_a_finding_of_what_the_host_did() -> None:
    report = fastprof.load(steps_of("load_batch")).report("diagnosis")
    (row,) = report.tables["findings"].to_pylist()
    assert {name: row[name] for name in ("rank", "cause", "cost_ps", "is_bound", "certainty", "annotation")} == {
        "rank": 1,
        "cause": "input",
        "cost_ps": 40 * MS,
        "is_bound": False,
        "certainty": "certain",
        "annotation": "load_batch",
    }
    assert row["share"] == pytest.approx(0.4)
    assert row["title"] == "The GPU waits for input: load_batch"
    assert row["evidence"] == "gaps.by_cause?cause=input"
    assert report.scalars["headline"].value == "The GPU waits for input: load_batch: 40.00 ms, 40.0 % of the run."
    assert report.scalars["window_ps"].value == 100 * MS
    assert report.scalars["compute_share"].value == pytest.approx(0.6)


@pytest.mark.parametrize(
    ("marked", "stats", "where"),
    [
        (10, {"_r": 1}, "100.0 % of it is between steps."),
        (20, {"_r": 1}, None),
        (10, {}, "100.0 % of it is between inferred steps."),
    ],
)
def test_idle_time_between_steps_is_said_to_be_there(marked: int, stats: dict[str, int], where: str | None) -> None:
    """Steps of 10 ms of work every 20 ms; nothing else is recorded."""
    main, stream = [], []
    for step in range(5):
        start = step * 20 * MS
        main.append(event(f"train {step}", start, marked * MS, stats and stats | {"step_num": step}))
        main.append(event("cuLaunchKernelEx", start, MS // 1000, {"correlation_id": step}))
        stream.append(event("loop_fusion", start, 10 * MS, {"correlation_id": step, **KERNEL}))
    threads = plane("/host:CPU", [line("python", main, id=1)])
    gpu = plane("/device:GPU:0", [line("Stream #13(Compute)", stream, id=13)], stats={"device_vendor": "Nvidia"})
    rows = fastprof.load(xspace(threads, gpu)).report("diagnosis").tables["findings"].to_pylist()
    (row,) = (row for row in rows if row["cause"] in ("idle", "silent", "python"))
    assert row["detail"] == where
    assert row["advice"].startswith("Programs often load the next batch between steps") is (where is not None)


def compiling(*steps: int) -> bytes:
    """Ten steps; these compile a program before the GPU gets work: in the time of the step before."""
    main, stream, now = [], [], 0
    for step in range(10):
        compiles = 30 * MS if step in steps else 0
        main += [
            event("train", now, compiles + 10 * MS, {"_r": 1, "step_num": step}),
            event("PjitFunction(fit)", now, compiles + MS),
            *(
                [event("PjitFunction(inner)", now + 1, MS), event("backend_compile", now + 2 * MS, 28 * MS)]
                * (step in steps)
            ),
            event("cuLaunchKernelEx", now + compiles, MS // 1000, {"correlation_id": step}),
        ]
        stream.append(event("loop_fusion", now + compiles, 10 * MS, {"correlation_id": step, **KERNEL}))
        now += compiles + 10 * MS
    return xspace(
        plane("/host:CPU", [line("python", main, id=1)]),
        plane("/device:GPU:0", [line("Stream #13(Compute)", stream, id=13)], stats={"device_vendor": "Nvidia"}),
    )


def test_compilation_in_the_first_step_only_is_not_sure_to_cost_a_longer_run() -> None:
    first, often = (fastprof.load(compiling(*steps)).report("diagnosis").tables["findings"].to_pylist()[0]
                    for steps in ((0,), (0, 4, 8)))  # fmt: skip
    assert (first["cause"], first["certainty"]) == ("compilation", "likely")
    assert first["detail"] == "1 compilation or trace, 1 of them of the function fit."
    assert first["advice"].startswith("One-time cost of the first step")
    assert (often["cause"], often["certainty"]) == ("compilation", "certain")
    assert often["detail"] == (
        "3 compilations or traces, 3 of them of the function fit. 2 of 10 steps spend time on it. fit was "
        "recompiled twice (steps 4, 8), taking 60.00 ms: an unknown change (the capture has no compiled program of the "
        "function)."
    )
    assert often["advice"].startswith("Define jitted functions once")
    assert "Record compiled programs (ProfileOptions.enable_hlo_proto = True" in often["advice"]


@pytest.mark.parametrize(
    ("frames", "source"),
    [(("$train.py:7 load_batch",), "train.py:7"), (("$a.py:7 load_batch", "$b.py:9 load_batch"), None), ((), None)],
)
def test_the_source_of_an_annotation_is_the_one_function_of_its_name(
    frames: tuple[str, ...], source: str | None
) -> None:
    seen = plane("/host:python", [line("python", [event(name, 0, 1) for name in frames], id=2)])
    report = fastprof.load(steps_of("load_batch") + xspace(seen)).report("diagnosis")
    assert report.tables["findings"].to_pylist()[0]["source"] == source


def test_who_has_recorded_python_is_not_advised_to_record_it() -> None:
    waiting = "$api.py:3154 block_until_ready"
    (row,) = fastprof.load(steps_of(waiting)).report("diagnosis").tables["findings"].to_pylist()
    assert row["cause"] == "idle"
    assert row["advice"].startswith("No recorded host thread or Python function explains it")


def test_every_cause_is_listed_with_its_cost_or_the_reason_why_it_is_unknown() -> None:
    rows = fastprof.load(steps_of("load_batch")).report("diagnosis").tables["examined"].to_pylist()
    assert sorted(row["cause"] for row in rows) == sorted(CAUSES)
    by_cause = {row["cause"]: row for row in rows}
    assert by_cause["input"]["cost_ps"] == 40 * MS
    assert by_cause["compilation"]["cost_ps"] == 0 and by_cause["compilation"]["reason"] is None
    padding = by_cause["padding"]
    assert padding["cost_ps"] is None and padding["reason"] == "the capture does not record programs"


RECORD_PYTHON = "Set ProfileOptions.python_tracer_level = 1."


def test_python_functions_below_a_call_of_tf_data_are_summed_by_self_time() -> None:
    pipeline = [
        event("PyFunc:PyFunc", 0, 10 * MS),
        event("$train.py:3 load", MS, 8 * MS),
        event("$train.py:9 decode", 2 * MS, 3 * MS),
        event("$train.py:9 decode", 5 * MS, 3 * MS),
    ]
    main = [event("$train.py:9 decode", 20 * MS, MS)]
    capture = xspace(plane("/host:CPU", [line("tf_data", pipeline, id=1), line("python", main, id=2)]))
    raw = read_host(fastprof.load(capture).table_set, 0, (), STATS, ())
    assert collect_names(raw).in_pipelines == {"$train.py:3 load": 2 * MS, "$train.py:9 decode": 6 * MS}


def test_hints_name_the_flags_of_what_recorded_the_run() -> None:
    capture = xspace(plane("/host:CPU", [line("python", [event("work", 0, 5 * MS)], id=1)]))
    hows = {}
    for verb in ("run", "record", "unknown"):
        rows = fastprof.load(capture).diagnosis(recorded_with=verb).tables["unrecorded"].to_pylist()
        hows[verb] = next(row["how"] for row in rows if row["what"] == "Python functions")
    assert hows["run"] == "Use fastprof run --python-level 1."
    assert hows["record"] == "Call fastprof.record(…, python_level=1)."
    assert "fastprof" not in hows["unknown"]


@pytest.mark.parametrize(
    ("options", "how"),
    [
        (None, RECORD_PYTHON),
        (bytes([2 << 3, 2]), f"{RECORD_PYTHON} python_tracer_level was 0."),
        (bytes([2 << 3, 2, 4 << 3, 1]), "python_tracer_level was 1: no Python function was called or left while"),
        (bytes([2 << 3]), RECORD_PYTHON),  # damaged
    ],
)
def test_hints_know_what_the_profiler_was_asked_for(options: bytes | None, how: str) -> None:
    more = [] if options is None else [plane("Task Environment", stats={"profile_options": options})]
    report = fastprof.load(steps_of("wait_for_nothing_known", 10, *more)).diagnosis()
    hints = {row["what"]: row["how"] for row in report.tables["unrecorded"].to_pylist()}
    assert hints["Python functions"].startswith(how)
    if options is None or len(options) < 4:
        assert hints["Python functions"] == how


@pytest.mark.parametrize(("python", "advised"), [(0, True), (1, False)])
def test_who_asked_for_everything_is_not_advised_to_record_more(python: int, advised: bool) -> None:
    """Only the device has recorded anything between 0 and 50 ms."""
    host = [event("PjitFunction(f)", 50 * MS, MS), event("cuLaunchKernelEx", 50 * MS, 1000, {"correlation_id": 1})]
    gpu = [event("k", 0, MS, KERNEL), event("k", 51 * MS, MS, {"correlation_id": 1, **KERNEL})]
    report = fastprof.load(
        xspace(
            plane("/host:CPU", [line("python", host, id=1)]),
            plane("/device:GPU:0", [line("Stream #13(Compute)", gpu, id=13)], stats={"device_vendor": "Nvidia"}),
            plane("Task Environment", stats={"profile_options": bytes([2 << 3, 2, 4 << 3, python])}),
        )
    ).diagnosis()
    row = next(row for row in report.tables["findings"].to_pylist() if row["cause"] == "idle")
    assert row["advice"].startswith("Record more of the host") == advised


def test_things_not_recorded_come_with_how_to_record_them() -> None:
    rows = fastprof.load(steps_of("load_batch")).report("diagnosis").tables["unrecorded"].to_pylist()
    assert {row["what"]: row["how"] for row in rows} == {
        "Python functions": RECORD_PYTHON,
        "allocations": "Record with host tracer level 2; the default allocator of GPUs and TPUs writes them.",
        "programs": "Set ProfileOptions.enable_hlo_proto = True, its default.",
    }


SERVES = " Host threads serve model requests: the report inference shows where their time goes."


@pytest.mark.parametrize(
    ("name", "stats", "more"),
    [
        ("work", {}, ""),
        ("SessionRun", {}, ""),
        ("SessionRun", {"model_id": "a:1"}, SERVES),
        ("BatchingSessionRun", {}, SERVES),
    ],
)
def test_a_capture_without_work_has_one_sentence_and_no_table_of_causes(
    name: str, stats: dict[str, Any], more: str
) -> None:
    capture = xspace(plane("/host:CPU", [line("main", [event(name, 0, 10, stats)])]))
    report = fastprof.load(capture).report("diagnosis")
    assert report.tables["findings"].num_rows == 0
    assert report.scalars["headline"].value == (
        f"No device work is recorded: device time is neither used nor lost.{more}"
    )
    assert set(report.tables["examined"]["cost_ps"].to_pylist()) == {None}
    assert "Checked causes" not in str(report)


def test_a_device_that_computes_all_the_time_has_no_finding() -> None:
    busy = [event("loop_fusion", step * 10 * MS, 10 * MS, {"correlation_id": step, **KERNEL}) for step in range(5)]
    space = xspace(plane("/device:GPU:0", [line("Stream #13(Compute)", busy, id=13)]))
    report = fastprof.load(space).report("diagnosis")
    assert report.tables["findings"].num_rows == 0
    headline = "No cause takes 1 % of the run or more; devices compute for 100.0 % of it."
    assert report.scalars["headline"].value == headline


def finding(cause: str, cost: int | None, certainty: str = "certain", is_bound: bool = False) -> Finding:
    return Finding(cause, cause, cost, certainty, "gaps.by_cause", "", is_bound)


def test_bounds_and_guesses_come_after_what_is_sure_to_save_as_much() -> None:
    every = [
        finding("bound", 100, is_bound=True),
        finding("possible", 100, "possible"),
        finding("sure", 90),
        finding("small", 9),
        finding("likely", 100, "likely"),
        finding("unknown", None),
    ]
    assert [one.cause for one in rank_findings(every, 1000)] == ["sure", "likely", "bound", "possible", "unknown"]


def test_no_finding_costs_more_than_the_run() -> None:
    assert limit_to_run(finding("slow_step", 6800), 1000).cost_ps == 1000
    assert limit_to_run(finding("slow_step", 800), 1000).cost_ps == 800
    assert limit_to_run(finding("slow_step", None), 1000).cost_ps is None


def test_at_most_seven_findings_are_shown() -> None:
    assert len(rank_findings([finding("cause", 50 + k) for k in range(20)], 1000)) == 7


@pytest.mark.parametrize("cause", [cause for cause in CAUSES if cause != "lost_records"])  # never a finding
def test_advice_names_no_other_framework(cause: str) -> None:
    words = {
        JAX: ("TensorFlow", "tf.function", "torch", "PyTorch", "Keras"),
        TENSORFLOW: ("jax", "JAX", "torch", "PyTorch"),
        PYTORCH: ("jax", "JAX", "TensorFlow", "tf.", "Keras"),
        TENSORFLOW_1: ("jax", "JAX", "torch", "PyTorch", "ProfilerOptions", "tracer level"),
    }
    for framework in FRAMEWORKS:
        text = get_advice(cause, framework, on_gpus=True)
        assert text.endswith(".")
        assert not [word for word in words.get(framework, ()) if word in text], (cause, framework)


def test_a_step_that_waits_for_what_other_steps_started_is_not_slow() -> None:
    """Markers that hold only the dispatch: the one that reads a result waits for the work of all."""
    long, short = (
        [Steps.slow_steps(*map({"duration_ps": duration_ps, "median_ps": 10}.get, Steps.slow_steps._fields))]
        for duration_ps in (5000, 80)
    )
    assert step_findings.is_waiting({3: Counter({None: 4000, "launch": 100})}, long, 3)
    assert not step_findings.is_waiting({3: Counter({None: 100, "python": 4000})}, long, 3)
    assert not step_findings.is_waiting({3: Counter({None: 4000})}, short, 3)


def test_findings_read_tables_columns_and_figures_that_exist() -> None:
    for names, (name, table) in PLACES.items():
        analysis = runner.get_analysis(name)
        known = analysis.TABLES[table].names() if table else analysis.SCALARS
        assert names._fields and set(names._fields) <= set(known), names
    assert {name for name, _ in PLACES.values()} == set(diagnosis.AFTER)
