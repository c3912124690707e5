"""Records that contradict each other: what cannot have happened is named and does not count, lost time is not idle,
and absence is unknown, never 0."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from step_captures import host, ran, step
from trace_builder import line, plane, xspace

import fastprof
from fastprof.cli import main
from fastprof.derive.ops import record_checks

HERE = Path(__file__).parent
Trace = dict[str, Any]


def load(name: str) -> fastprof.Profile:
    return fastprof.load(next(HERE.glob(f"{name}.*")))


def changed(name: str, change: Callable[[list[dict[str, Any]]], list[dict[str, Any]]]) -> fastprof.Profile:
    """A case whose events are changed."""
    trace: Trace = json.loads(gzip.decompress((HERE / f"{name}.json.gz").read_bytes()))
    trace["traceEvents"] = change(trace["traceEvents"])
    return fastprof.load(json.dumps(trace).encode())


def without_wrong_end(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The events of i04-bogusdur that are right."""
    (wrong,) = [one for one in events if "bogus" in one["name"]]
    id_ = wrong["args"]["correlation"]
    return [one for one in events if one.get("args", {}).get("correlation") != id_ and one.get("id") != id_]


def of_gpu(one: dict[str, Any]) -> bool:
    return one.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")


def incomplete(profile: fastprof.Profile) -> str:
    """What diagnosis shows before its findings, which must be a notice there and in the overview, too."""
    report = profile.diagnosis()
    text = report.scalars["incomplete"].value
    if text is None:
        assert not [one for one in report.notices if one.severity == "warning"]
        return ""
    for one in (report, profile.overview()):
        warnings = [notice.text for notice in one.notices if notice.severity == "warning"]
        assert any(warning.startswith("Capture incomplete: ") for warning in warnings), one.analysis
    return str(text)


def log(profile: fastprof.Profile, code: str) -> list[tuple[int, str]]:
    rows = profile.import_log.to_pylist()
    return [(row["count"], row["example"]) for row in rows if row["code"] == code]


# ---- events that cannot have happened


def test_an_event_that_outlasts_later_ones_of_its_stream_does_not_count() -> None:
    profile = load("i04-bogusdur")
    found, kernels = profile.diagnosis().scalars, profile.kernel_stats().scalars
    assert (found["window_ps"].value, found["compute_share"].value) == (10_000_000_000, 0.4)
    assert (kernels["occurrences"].value, kernels["total_ps"].value) == (20, 4_000_000_000)
    assert "paged_attention_bogus" in incomplete(profile)
    ((count, text),) = log(profile, "impossible_time")
    assert count == 1
    assert "lasts 2.000 s, but 20 later events of its stream run meanwhile" in text


@pytest.mark.parametrize("until_us", [3_000, 60_000])
def test_several_wrong_ends_are_found_within_the_run_and_beyond(until_us: int) -> None:
    def change(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
        kernels = [one for one in without_wrong_end(events) if of_gpu(one)]
        kernels[2]["dur"] = kernels[7]["dur"] = until_us
        return without_wrong_end(events)

    profile = changed("i04-bogusdur", change)
    kernels = profile.kernel_stats().scalars
    assert kernels["occurrences"].value == 18
    assert "2 device events are impossible" in incomplete(profile)


def test_kernels_that_begin_before_the_one_before_them_ends_are_usual() -> None:
    def change(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
        for one in events:
            if of_gpu(one) and "bogus" not in one["name"]:
                one["dur"] += 500
        return without_wrong_end(events)

    profile = changed("i04-bogusdur", change)
    assert profile.kernel_stats().scalars["occurrences"].value == 20
    assert incomplete(profile) == ""


def test_a_collective_on_a_line_of_several_queues_counts() -> None:
    def change(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
        for one in events:
            if "bogus" in one["name"]:
                one |= {"name": "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgs)", "dur": 5_000}
        return events

    profile = changed("i04-bogusdur", change)
    assert profile.kernel_stats().scalars["occurrences"].value == 21
    assert incomplete(profile) == ""


def test_an_event_far_from_all_others_does_not_count() -> None:
    profile = load("x6-negoff")
    found = profile.diagnosis()
    assert found.scalars["window_ps"].value == 5_000_000_000
    assert "input" not in found.tables["findings"]["cause"].to_pylist()
    assert "idle" not in found.tables["findings"]["cause"].to_pylist()
    assert "late_kernel begins at -5.000 ms" in incomplete(profile)
    assert profile.kernel_stats().scalars["occurrences"].value == 15
    assert [count for count, _ in log(profile, "impossible_time")] == [1]


def test_an_event_far_after_all_others_does_not_count() -> None:
    def change(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
        kept = without_wrong_end(events)
        last = max((one for one in kept if of_gpu(one)), key=lambda one: one["ts"])
        last["ts"] += 7_000
        id_ = last["args"]["correlation"]
        return [
            one for one in kept if one.get("cat") != "cuda_runtime" or one["args"]["correlation"] != id_ or has_call
        ]

    has_call = True
    assert incomplete(changed("i04-bogusdur", change)) == ""
    has_call = False
    profile = changed("i04-bogusdur", change)
    assert "all other events of the host are from 0 ps to 10.00 ms" in incomplete(profile)
    assert profile.diagnosis().scalars["window_ps"].value == 10_000_000_000


@pytest.mark.parametrize(("name", "is_wrong"), [("", True), ("ncclDevKernel_AllReduce_Sum_f32_RING_LL", False)])
def test_a_last_kernel_far_longer_than_others_of_its_name_does_not_count(name: str, is_wrong: bool) -> None:
    """The last of 10 kernels of 0.1 ms lasts 2 s. A collective may wait so long for other hosts."""

    def change(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
        kept = without_wrong_end(events)
        last = max((one for one in kept if of_gpu(one)), key=lambda one: one["ts"])
        last["dur"] = 2_000_000
        for one in [one for one in kept if of_gpu(one) and one["name"] == last["name"]]:
            one["name"] = name or one["name"]
        return kept

    profile = changed("i04-bogusdur", change)
    window = profile.diagnosis().scalars["window_ps"].value
    assert isinstance(window, int)
    assert (window < 11 * 10**9) is is_wrong
    assert ("others of its name last 100.0 µs at most" in incomplete(profile)) is is_wrong


def test_kernels_whose_durations_are_all_0_are_recorded() -> None:
    def change(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [one | {"dur": 0} if of_gpu(one) else one for one in without_wrong_end(events)]

    profile = changed("i04-bogusdur", change)
    text = "All 20 recorded kernels have a duration of 0: device time is unknown"
    assert profile.diagnosis().scalars["headline"].value == f"{text}."
    assert profile.diagnosis().scalars["compute_share"].reason == text
    assert profile.kernel_stats().scalars["occurrences"].value == 20


def test_a_kernel_long_before_its_launch_does_not_count() -> None:
    def change(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
        kept = without_wrong_end(events)
        max((one for one in kept if of_gpu(one)), key=lambda one: one["ts"])["ts"] -= 4_500
        return kept

    profile = changed("i04-bogusdur", change)
    assert "but the call that launched it begins" in incomplete(profile)
    assert profile.kernel_stats().scalars["occurrences"].value == 19


def test_clocks_of_host_and_gpu_that_differ_are_named() -> None:
    def change(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
        for one in events:
            one["ts"] -= 800 if of_gpu(one) else 0
        return without_wrong_end(events)

    profile = changed("i04-bogusdur", change)
    assert "of 20 device events begin before the calls that launched them" in incomplete(profile)
    assert profile.kernel_stats().scalars["occurrences"].value == 20
    assert len(log(profile, "clocks_differ")) == 1


# ---- records that are lost


def test_the_time_of_lost_records_is_not_idle_time_with_a_cause() -> None:
    profile = load("i05-lostkernels")
    assert incomplete(profile).startswith("4 of 8 launches have no kernel (50 %); calls from 10.00 µs to 1.060 ms")
    found = profile.diagnosis()
    assert sum(row["share"] for row in found.tables["findings"].to_pylist()) < 0.25
    causes = {row["cause"]: row["cost_ps"] for row in found.tables["examined"].to_pylist()}
    assert causes["lost_records"] == 2_050_000_000
    assert found.scalars["compute_share"].value == pytest.approx(1.0 / 1.95)
    gaps = profile.gaps()
    assert gaps.scalars["compute_share"].value == found.scalars["compute_share"].value
    assert gaps.scalars["idle_share"].value == pytest.approx(0.95 / 1.95)
    (device,) = gaps.tables["devices"].select(["compute_share", "idle_share"]).to_pylist()
    assert device == {name: gaps.scalars[name].value for name in device}
    assert str(found.scalars["headline"].value).startswith("Capture incomplete: 4 of 8 launches")
    assert [count for count, _ in log(profile, "lost_records")] == [1]
    assert any("4 of 8 launches" in one.text for one in profile.kernel_stats().notices)


@pytest.mark.parametrize(("analysis", "table"), [("steps", "steps"), ("pod_viewer", "cores")])
def test_the_device_time_of_steps_with_lost_records_is_unknown(analysis: str, table: str) -> None:
    rows = load("i05-lostkernels").report(analysis).tables[table].to_pylist()
    assert [row["device_compute_ps"] for row in rows] == [None, None, 500_000_000, 500_000_000]
    assert [row["all_others_ps"] for row in rows] == [None, None, 500_000_000, 500_000_000]
    assert [row["host_compute_ps"] for row in rows] == [0, 0, 0, 0]
    assert [row["input_ps"] for row in rows] == [None] * 4  # neither Python nor a loader is recorded
    if analysis == "pod_viewer":
        assert [row["bottleneck"] for row in rows] == [None, None, "Device compute", "Device compute"]


def test_steps_with_lost_records_do_not_count_for_means_of_categories() -> None:
    rows = load("i05-lostkernels").steps().tables["step_summary"].to_pylist()
    counts = {(row["core_id"], row["quantity"]): (row["count"], row["mean_ps"]) for row in rows}
    assert counts[1, "step_time"][0] == 3
    assert counts[1, "device_compute"] == (1, 500_000_000.0)


def hip(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    for one in events:
        if one.get("cat") == "cuda_runtime":
            one["name"] = "hipModuleLaunchKernel"
    return events


def copies(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    for one in events:
        if one.get("cat") == "cuda_runtime":
            one["name"] = "cudaMemcpyAsync"
        if one.get("cat") == "kernel":
            one |= {"cat": "gpu_memcpy", "name": "Memcpy HtoD (Pageable -> Device)"}
    return events


@pytest.mark.parametrize(("change", "text"), [(hip, "4 of 8 launches have no kernel (50 %)"),
                                              (copies, "4 of 8 copies and sets have no record (50 %)")])  # fmt: skip
def test_calls_of_other_kinds_lose_records_too(change: Callable[[Any], Any], text: str) -> None:
    assert incomplete(changed("i05-lostkernels", change)).startswith(text)


def no_ids(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """As ROCm, whose kernels may record correlation 0."""
    lost = [one for one in events if one.get("cat") == "cuda_runtime"][:4]
    kernels = [one for one in events if of_gpu(one)]
    for one in kernels:
        one["args"]["correlation"] = 0
    return [one for one in events if one not in lost]


def captured(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Launches that a stream capture records for a graph start nothing."""
    calls = [one for one in events if one.get("cat") == "cuda_runtime"]
    begin, end = dict(calls[0]), dict(calls[3])
    begin |= {"name": "cudaStreamBeginCapture", "ts": calls[0]["ts"] - 2, "dur": 1, "args": {"correlation": 11}}
    end |= {"name": "cudaStreamEndCapture", "ts": calls[3]["ts"] + 5, "dur": 1, "args": {"correlation": 12}}
    return [*events, begin, end]


def nested(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Calls of the driver inside calls of the runtime have ids of their own."""
    calls = [one for one in events if one.get("cat") == "cuda_runtime"]
    inner = [
        one | {"cat": "cuda_driver", "name": "cuLaunchKernel", "ts": one["ts"] + 1, "dur": 1}
        | {"args": {"correlation": 5_000 + place}}
        for place, one in enumerate(calls)
    ]  # fmt: skip
    return [*(one for one in events if one not in calls[:4]), *inner[4:]]


@pytest.mark.parametrize("change", [no_ids, captured, nested])
def test_calls_that_start_nothing_of_their_own_lose_nothing(change: Callable[[Any], Any]) -> None:
    assert incomplete(changed("i05-lostkernels", change)) == ""


def unknown(profile: fastprof.Profile, text: str) -> None:
    """Nothing is 0, nothing is certain, and the reason is named."""
    found = profile.diagnosis()
    assert text in str(found.scalars["headline"].value)
    for report, names in (
        (found, ("window_ps", "compute_share", "used_device_count", "computing_device_count")),
        (profile.kernel_stats(), ("occurrences", "total_ps", "kernel_count")),
        (profile.gaps(), ("window_ps", "busy_ps", "idle_ps", "compute_share", "used_device_count")),
        (profile.overview(), ("window_ps", "compute_share")),
    ):
        for name in names:
            assert report.scalars[name].value is None, (report.analysis, name)
            assert text in str(report.scalars[name].reason), (report.analysis, name)
    texts = [one.text for one in (*profile.gaps().notices, *found.notices, *profile.kernel_stats().notices)]
    assert not any("ran anything" in one for one in (*texts, str(found.scalars["headline"].value)))
    assert any(text in row["what"] for row in found.tables["unrecorded"].to_pylist())


def test_launches_without_any_kernel_are_lost_records() -> None:
    profile = load("i36-nokernels")
    unknown(profile, "8 of 8 launches have no kernel (100 %): no activity of a device is recorded")
    assert incomplete(profile).startswith("8 of 8 launches")


def test_a_gpu_without_activity_was_not_recorded() -> None:
    profile = load("r04a-cpuonly")
    unknown(profile, "1 GPU is listed, but its activity was not recorded")
    (row,) = [row for row in profile.diagnosis().tables["unrecorded"].to_pylist() if "activity" in row["what"]]
    assert "ProfilerActivity.CUDA" in row["how"]


def test_an_error_of_the_profiler_is_the_reason() -> None:
    profile = load("x9-cuptierr")
    unknown(profile, "CUPTI_ERROR_INSUFFICIENT_PRIVILEGES: failed to enable CUPTI")
    assert len(log(profile, "profiler_error")) == 1


# ---- XSpace of JAX


def _kernels(count: int, first: int = 0) -> list[Any]:
    return [ran(f"fusion_{place}", 1_000 * place + 100, 200, correlation_id=place + 1) for place in range(first, count)]


def jax(kernels: list[Any], launches: int = 8, **recorded: Any) -> fastprof.Profile:
    calls = [ran("cuLaunchKernel", 1_000 * place + 10, 5, correlation_id=place + 1) for place in range(launches)]
    marks = [step(place, 1_000 * place, 1_000) for place in range(launches)]
    gpu = plane("/device:GPU:0", [line("Stream #1(Compute)", kernels)] if kernels else [])
    return fastprof.load(xspace(host(marks + calls), gpu, hostnames=["vm"], **recorded))


def test_kernels_of_jax_are_lost_as_well() -> None:
    assert incomplete(jax(_kernels(8))) == ""
    assert incomplete(jax(_kernels(8, first=2))).startswith("2 of 8 launches have no kernel (25 %)")
    unknown(jax([]), "8 of 8 launches have no kernel")


def test_an_event_of_jax_outlasts_its_stream() -> None:
    kernels = _kernels(8)
    kernels[1] = ran("fusion_1", 1_100, 3_000_000, correlation_id=2)
    profile = jax(kernels)
    assert incomplete(profile).startswith("1 device event is impossible and not counted: fusion_1")
    assert profile.diagnosis().scalars["window_ps"].value == 8_000_000_000
    assert profile.diagnosis().scalars["compute_share"].value == pytest.approx(0.175)


def test_dropped_records_are_named_although_others_are_there() -> None:
    profile = jax(_kernels(8), warnings=["CUPTI buffer overflow: 52,312 activity records were dropped"])
    assert "52,312 activity records were dropped" in incomplete(profile)
    assert incomplete(jax(_kernels(8), warnings=["the program has no name"])) == ""


# ---- what a call that waits returned before, buffers that are full, and GPUs that are not listed


def waiting(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The last call waits for the device until its last kernel ends."""
    kept = without_wrong_end(events)
    last = max((one for one in kept if of_gpu(one)), key=lambda one: one["ts"])
    call = next(one for one in kept if one.get("cat") == "cuda_runtime")
    wait = call | {"name": "cudaDeviceSynchronize", "ts": last["ts"] - 1, "args": {"correlation": 9_999}}
    wait["dur"] = last["dur"] + 5
    return [*kept, wait]


def test_a_kernel_that_ends_after_a_call_waited_for_it_does_not_count() -> None:
    def change(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
        kept = waiting(events)
        max((one for one in kept if of_gpu(one)), key=lambda one: one["ts"])["dur"] = 70_000
        return kept

    assert incomplete(changed("i04-bogusdur", waiting)) == ""
    profile = changed("i04-bogusdur", change)
    assert "a call that waited for it returned" in incomplete(profile)
    assert profile.kernel_stats().scalars["occurrences"].value == 19


def test_a_buffer_that_became_full_is_recognised() -> None:
    text = incomplete(jax(_kernels(5)))
    assert text.startswith(
        "3 of 8 launches have no kernel (37.5 %): nothing that was launched after 5.010 ms is recorded"
    )


def test_threads_that_launch_are_not_the_device_if_no_gpu_is_listed() -> None:
    trace: Trace = json.loads(gzip.decompress((HERE / "i36-nokernels.json.gz").read_bytes()))
    del trace["deviceProperties"]
    trace["traceEvents"] = [one for one in trace["traceEvents"] if one["pid"] != 0]
    unknown(fastprof.load(json.dumps(trace).encode()), "8 of 8 launches have no kernel (100 %)")


def test_a_trace_with_as_many_events_as_xprof_writes_is_incomplete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jax(_kernels(8)).to_trace(tmp_path / "t.trace.json.gz", format="xprof")
    trace = fastprof.load(tmp_path / "t.trace.json.gz")
    assert incomplete(trace) == ""
    monkeypatch.setattr(record_checks, "_MOST_IN_TRACE", sum(trace.tables["lines"]["event_count"].to_pylist()))
    assert "the most that XProf writes" in incomplete(fastprof.load(tmp_path / "t.trace.json.gz"))


def test_reports_of_devices_are_null_without_records() -> None:
    profile = load("i36-nokernels")
    for report, names in (
        (profile.streams(), ("stream_count", "launch_count", "idle_share")),
        (profile.communication(), ("exposed_ps", "hidden_ps", "recorded_ps", "used_device_count")),
        (profile.op_profile(), ("device_total_ps", "op_ps", "op_count")),
        (profile.op_stats(), ("device_total_ps", "device_op_ps", "device_idle_ps")),
    ):
        assert {name: report.scalars[name].value for name in names} == dict.fromkeys(names)
        assert all(report.scalars[name].reason for name in names)
        assert not any("nothing ran" in one.text or "no GPU planes" in one.text for one in report.notices)


def test_info_has_the_time_of_what_happened(capsys: pytest.CaptureFixture[str]) -> None:
    main.main(["info", str(HERE / "i04-bogusdur.json.gz")])
    text = " ".join(capsys.readouterr().out.split())
    assert "Time 10.00 ms, from 0 ps to 10.00 ms" in text
    assert "data_loss impossible_time" in text


def test_step_time_is_not_divided_without_records_of_devices() -> None:
    report = load("i36-nokernels").input_pipeline()
    assert report.scalars["compute_percent"].value is None
    assert (report.tables["breakdown"].num_rows, report.tables["step_breakdown"].num_rows) == (0, 0)
    assert any(one.text.startswith("Capture incomplete: 8 of 8 launches have no kernel") for one in report.notices)
