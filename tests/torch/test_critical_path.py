"""Critical paths equal HolisticTraceAnalysis's on real captures, a slow model on random ones, and known causes."""

from __future__ import annotations

import json
import random
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import slow_critical_path as slow
from gate import rounds
from hta_answers import answers

import fastprof
from fastprof.analyses.contract import AnalysisReport

CAPTURES = Path(__file__).resolve().parents[3] / "shared" / "captures"
GOLDENS = CAPTURES.parent / "conformance" / "hta"
SESSIONS = {
    "alexnet": ("alexnet", "[param|pytorch.model.alex_net|0|0|0|measure|forward]", 1),
    "h100_qwen-exact": ("h100_qwen", "ProfilerStep", 0),
}
MICRO = 1_000_000
BOUND = {
    "cpu_bound": ("host",), "gpu_compute_bound": ("kernel", "copy"), "gpu_communication_bound": ("collective",),
    "gpu_kernel_kernel_overhead": ("break",), "gpu_kernel_launch_overhead": ("launch",),
}  # fmt: skip


@pytest.mark.captures
@pytest.mark.parametrize("session", SESSIONS)
def test_the_path_is_as_long_as_that_of_hta(session: str) -> None:
    name, annotation, instance = SESSIONS[session]
    capture = CAPTURES / "chrome" / "kineto" / f"{name}.json.gz"
    report = fastprof.load(capture).critical_path(annotation=annotation, instance=instance)
    kinds = dict(zip(*(report.tables["kinds"][key].to_pylist() for key in ("kind", "time_ps")), strict=True))
    theirs: Counter[str] = Counter()
    for row in answers(GOLDENS / session, "critical_path_breakdown"):
        theirs[row["bound_by"]] += float(row["duration"])  # type: ignore[assignment]
    for bound, ours in BOUND.items():
        assert sum(kinds.get(kind, 0) for kind in ours) / MICRO == pytest.approx(theirs[bound], abs=0.01), bound
    assert report.scalars["path_ps"].value / MICRO == pytest.approx(sum(theirs.values()), abs=0.01)


@pytest.mark.captures
@pytest.mark.parametrize("session", SESSIONS)
def test_the_slow_model_has_the_edges_of_hta(session: str) -> None:
    """So what random documents are compared with is right."""
    name, annotation, instance = SESSIONS[session]
    ours = slow.edges(slow.read(CAPTURES / "chrome" / "kineto" / f"{name}.json.gz"), annotation, instance, queues=True)
    theirs = {}
    for row in answers(GOLDENS / session, "critical_path_edges"):
        (begin, at_begin), (end, at_end) = ((int(row[f"{x}_event"]), row[f"{x}_is_start"]) for x in ("begin", "end"))
        theirs[begin, at_begin == "True", end, at_end == "True"] = max(float(row["weight"]), 0.0)
    assert len(ours) == len(theirs)
    for begin, end, weight in ours:
        assert weight / MICRO == pytest.approx(theirs[begin + end], abs=0.01)


def event(cat: str, name: str, ts: int, dur: int, tid: int = 1, **args: Any) -> dict[str, Any]:
    pid = 0 if "stream" in args else 7
    tid = args.get("stream", tid)
    return {"ph": "X", "cat": cat, "name": name, "ts": ts, "dur": dur, "pid": pid, "tid": tid, "args": args}


def op(name: str, ts: int, dur: int, tid: int = 1) -> dict[str, Any]:
    return event("cpu_op", name, ts, dur, tid)


def call(name: str, ts: int, dur: int, number: int, tid: int = 1) -> dict[str, Any]:
    return event("cuda_runtime", name, ts, dur, tid, correlation=number)


def kernel(name: str, ts: int, dur: int, number: int, stream: int = 7) -> dict[str, Any]:
    return event("kernel", name, ts, dur, correlation=number, stream=stream, device=0)


def wait(kind: str, ts: int, dur: int, number: int, stream: int = 7, **args: int) -> dict[str, Any]:
    return event("cuda_sync", kind, ts, dur, correlation=number, stream=stream, device=0, cuda_sync_kind=kind, **args)


def step(ts: int, dur: int, number: int = 1) -> dict[str, Any]:
    return event("user_annotation", f"ProfilerStep#{number}", ts, dur)


def report_of(folder: Path, events: list[dict[str, Any]], **params: Any) -> AnalysisReport:
    path = folder / "trace.json"
    path.write_text(json.dumps({"traceEvents": events}))
    return fastprof.load(path).critical_path(**params)


def steps_of(report: AnalysisReport) -> list[tuple[str, str, float, float]]:
    """Kind, name, begin and duration in microseconds of each step of the path that lasts."""
    rows = report.tables["path"].to_pylist()
    return [
        (row["kind"], row["name"], row["start_ps"] / MICRO, row["time_ps"] / MICRO) for row in rows if row["time_ps"]
    ]


def test_a_gpu_that_is_slower_than_its_host_is_the_path(tmp_path: Path) -> None:
    """
    host    | mul       |   | add       |       | synchronise        |
              | launch |      | launch |
    GPU                 | mul_kernel     | add_kernel          |
    """
    trace = [
        step(100, 100),
        op("aten::mul", 100, 20), call("cudaLaunchKernel", 104, 10, 1), kernel("mul_kernel", 120, 30, 1),
        op("aten::add", 125, 20), call("cudaLaunchKernel", 127, 10, 2), kernel("add_kernel", 152, 30, 2),
        call("cudaDeviceSynchronize", 150, 35, 3), wait("Context Sync", 151, 33, 3, stream=4294967295),
    ]  # fmt: skip
    report = report_of(tmp_path, trace)
    assert steps_of(report) == [
        ("host", "aten::mul", 0, 4),
        ("launch", "mul_kernel", 4, 16),
        ("kernel", "mul_kernel", 20, 30),
        ("break", "add_kernel", 50, 2),
        ("kernel", "add_kernel", 52, 30),
    ]
    assert report.scalars["path_ps"].value == 82 * MICRO
    assert report.scalars["path_share"].value == 0.82
    assert report.scalars["longest"].value == "mul_kernel"
    assert not report.notices
    window = report.tables["windows"].to_pylist()[0]
    assert (window["window"], window["instance"], window["of"]) == ("ProfilerStep#1", 0, 1)
    assert (window["host_ps"], window["device_ps"], window["cut"]) == (4 * MICRO, 60 * MICRO, 0)


def test_a_host_that_is_slower_than_its_gpu_is_the_path(tmp_path: Path) -> None:
    trace = [
        step(100, 100),
        op("aten::mul", 100, 50), call("cudaLaunchKernel", 110, 10, 1), kernel("mul_kernel", 121, 3, 1),
        op("aten::add", 160, 40), call("cudaLaunchKernel", 170, 10, 2), kernel("add_kernel", 181, 3, 2),
    ]  # fmt: skip
    report = report_of(tmp_path, trace)
    assert report.scalars["host_share"].value == 1.0
    assert [row[:2] for row in steps_of(report)] == [
        ("host", "aten::mul"), ("host", "cudaLaunchKernel"), ("host", "aten::mul"),
        ("host", "aten::add"), ("host", "cudaLaunchKernel"), ("host", "aten::add"),
    ]  # fmt: skip
    assert [notice.text.split(":")[0] for notice in report.notices] == ["The path is approximate"]


def test_a_stream_waits_for_an_event_of_another(tmp_path: Path) -> None:
    trace = [
        step(100, 100),
        call("cudaLaunchKernel", 100, 5, 1), kernel("long_kernel", 106, 60, 1, stream=7),
        call("cudaEventRecord", 106, 1, 2),
        call("cudaStreamWaitEvent", 108, 2, 3),
        wait("Stream Wait Event", 108, 2, 3, 20, wait_on_stream=7, wait_on_cuda_event_record_corr_id=2),
        call("cudaLaunchKernel", 111, 5, 4), kernel("late_kernel", 170, 10, 4, stream=20),
    ]  # fmt: skip
    path = report_of(tmp_path, trace).tables["path"].to_pylist()
    assert [(row["kind"], row["name"]) for row in path] == [
        ("launch", "long_kernel"), ("kernel", "long_kernel"), ("wait", "late_kernel"), ("kernel", "late_kernel"),
    ]  # fmt: skip


def test_instances_are_counted_by_time_and_the_median_lasts_in_the_middle(tmp_path: Path) -> None:
    trace = []
    for number, (ts, dur) in enumerate([(0, 10), (100, 30), (200, 20)]):
        trace += [
            step(ts, dur, number),
            op("aten::mul", ts + 1, dur - 2),
            call("cudaLaunchKernel", ts + 2, 1, number + 1),
        ]
        trace += [kernel("mul_kernel", ts + 4, 1, number + 1)]
    windows = [report_of(tmp_path, trace, instance=i).tables["windows"].to_pylist()[0] for i in (-1, 0, 1, 2)]
    assert [row["window"] for row in windows] == [f"ProfilerStep#{i}" for i in (2, 0, 1, 2)]
    missing = report_of(tmp_path, trace, annotation="backward")
    assert missing.tables["windows"].num_rows == 0
    assert [notice.text for notice in missing.notices] == [
        "No critical path on some hosts: they have no annotation whose name contains 'backward'."
    ]
    assert "number 3" in report_of(tmp_path, trace, annotation="Step", instance=3).notices[0].text


def random_trace(chance: random.Random) -> list[dict[str, Any]]:
    """Two threads with nested ops that launch on three streams, record events and wait. No two times are equal."""
    found, clock, number = [step(0, 1_000_000)], 10, 0
    free = {7: 0, 20: 0, 21: 0}
    recorded: list[tuple[int, int]] = []
    taken: set[int] = set()

    def unused(time: int) -> int:
        while time in taken:
            time += 1
        taken.add(time)
        return time

    for _ in range(chance.randrange(2, 40)):
        thread = chance.randrange(2)
        outer = begin = unused(clock + chance.randrange(1, 30))
        for _ in range(chance.randrange(0, 4)):
            number += 1
            begin = unused(begin + chance.randrange(2, 20))
            end, stream = unused(begin + chance.randrange(2, 15)), chance.choice(list(free))
            what = chance.randrange(8)
            if what < 4:
                found.append(call("cudaLaunchKernel", begin, end - begin, number, thread))
                start = unused(max(free[stream], begin) + chance.randrange(1, 25))
                free[stream] = unused(start + chance.randrange(1, 60))
                found.append(kernel(f"k{number}", start, free[stream] - start, number, stream))
            elif what == 4:
                found.append(call("cudaEventRecord", begin, end - begin, number, thread))
                recorded.append((number, stream))
            elif what == 5 and recorded:
                record, on = chance.choice(recorded)
                found.append(call("cudaStreamWaitEvent", begin, end - begin, number, thread))
                named = {"wait_on_stream": on, "wait_on_cuda_event_record_corr_id": record}
                if on != stream:
                    found.append(wait("Stream Wait Event", begin, 1, number, stream, **named))
                    begun = [one for one in found if one["cat"] == "kernel" and one["args"]["stream"] == on]
                    free[stream] = max(free[stream], *(one["ts"] + one["dur"] for one in begun), 0)
            elif what == 6:
                end = unused(max([end, free[stream] + 3]))
                found.append(call("cudaStreamSynchronize", begin, end - begin, number, thread))
                found.append(wait("Stream Sync", begin + 1, max(end - begin - 2, 1), number, stream))
            elif what == 7:
                end = unused(max([end, *(time + 3 for time in free.values())]))
                found.append(call("cudaDeviceSynchronize", begin, end - begin, number, thread))
                found.append(wait("Context Sync", begin + 1, max(end - begin - 2, 1), number, 4294967295))
            begin = end
        clock = unused(begin + chance.randrange(1, 20))
        found.append(op(f"aten::op{chance.randrange(5)}", outer, clock - outer, thread))
    return found


def test_random_traces_have_the_paths_of_the_slow_model(tmp_path: Path) -> None:
    lengths = []
    for seed in range(rounds(250, 20)):
        trace = random_trace(random.Random(seed))
        report = report_of(tmp_path, trace)
        if not any(one["cat"] == "kernel" for one in trace):
            continue
        expected = slow.longest(slow.edges(slow.read(tmp_path / "trace.json"), "ProfilerStep", 0))
        window = report.tables["windows"].to_pylist()[0]
        assert (window["path_ps"], window["cut"]) == (expected, 0), seed
        path = report.tables["path"].to_pylist()
        assert sum(row["time_ps"] for row in path) == expected
        assert all(
            a["start_ps"] + a["time_ps"] <= b["start_ps"]
            for a, b in pairwise(path)
            if a["kind"] in ("kernel", "launch", "break")
        )
        lengths.append(expected)
    assert len(set(lengths)) > rounds(100, 8)


def test_a_capture_without_gpus_has_no_path(tmp_path: Path) -> None:
    report = report_of(tmp_path, [step(0, 50), op("aten::mul", 1, 30)])
    assert report.scalars["path_ps"].value is None
    assert [notice.text for notice in report.notices] == ["No critical path: the capture has no GPU planes."]


def test_launches_that_contradict_each_other_are_cut(tmp_path: Path) -> None:
    """Clocks that differ: each stream's kernel ends after the event is recorded that the other one waits for."""
    trace = [step(0, 1000)]
    for number, (mine, other) in enumerate([(7, 20), (20, 7)]):
        base = 10 * number
        trace += [
            call("cudaEventRecord", 500 + base, 1, 10 + number),
            call("cudaStreamWaitEvent", 100 + base, 2, 20 + number),
            wait("Stream Wait Event", 100 + base, 2, 20 + number, mine,
                 wait_on_stream=other, wait_on_cuda_event_record_corr_id=10 + (1 - number)),
            call("cudaLaunchKernel", 200 + base, 3, 30 + number), kernel(f"k{mine}", 210 + base, 50, 30 + number, mine),
        ]  # fmt: skip
    report = report_of(tmp_path, trace)
    window = report.tables["windows"].to_pylist()[0]
    assert window["cut"] >= 1
    assert window["path_ps"] > 0


ENGINE = "autograd::engine::evaluate_function: "


def training(waits: dict[str, Any] | None, name: str = "aten::linear") -> list[dict[str, Any]]:
    """Forward on thread 1 from 10 to 60, backward on threads 2 and 3 to 170 and 190, the optimizer on 1 from 200 to
    230. ``waits``: arguments of the op that is forward and of its backward op."""
    with_args = waits or {}
    return [
        step(0, 300),
        event("cpu_op", name, 10, 50, 1, **with_args), call("cudaLaunchKernel", 20, 5, 1), kernel("k", 26, 3, 1),
        event("cpu_op", f"{ENGINE}AddmmBackward0", 70, 100, 2, **with_args), op("aten::mm", 80, 40, 2),
        op(f"{ENGINE}AddmmBackward0", 75, 50, 3), op(f"{ENGINE}MulBackward0", 130, 60, 3),
        op("aten::add_", 200, 30),
    ]  # fmt: skip


def path_us(folder: Path, trace: list[dict[str, Any]]) -> float:
    length: int = report_of(folder, trace).scalars["path_ps"].value
    return length / MICRO


def test_the_optimizer_waits_for_the_backward_pass_and_that_for_the_forward_pass(tmp_path: Path) -> None:
    """The longer of both threads of the backward pass counts: 50 + 60 us on thread 3."""
    found = report_of(tmp_path, training({"Sequence number": 7}))
    assert [(row["name"], row["line"]) for row in found.tables["path"].to_pylist() if row["time_ps"]] == [
        ("aten::linear", "1"), ("cudaLaunchKernel", "1"), ("aten::linear", "1"),
        (f"{ENGINE}AddmmBackward0", "3"), (f"{ENGINE}MulBackward0", "3"), ("aten::add_", "1"),
    ]  # fmt: skip
    assert found.scalars["path_ps"].value == (50 + 110 + 30) * MICRO


def test_an_arrow_a_name_or_being_the_only_one_shows_which_thread_waits(tmp_path: Path) -> None:
    arrow = [{"ph": ph, "cat": "fwdbwd", "name": "fwdbwd", "id": 1, "pid": 7, "tid": tid, "ts": ts, "bp": "e"}
             for ph, tid, ts in (("s", 1, 10), ("f", 2, 70))]  # fmt: skip
    beside = [op("aten::copy_", 240, 50, 4)]
    assert path_us(tmp_path, training(None) + arrow + beside) == 190
    assert path_us(tmp_path, training(None, "model.forward") + beside) == 190
    assert path_us(tmp_path, training(None)) == 190


def test_a_thread_that_is_not_known_to_wait_does_not(tmp_path: Path) -> None:
    """Of two threads beside those of the backward pass either may."""
    beside = [op("aten::copy_", 62, 5, 4), op("aten::copy_", 240, 50, 4)]
    assert path_us(tmp_path, training(None) + beside) == 110
    assert path_us(tmp_path, training({"Sequence number": 7}) + beside) == 190


def test_ops_that_overlap_the_backward_pass_do_not_wait_for_it(tmp_path: Path) -> None:
    """The main thread computes from 100 to 160 beside thread 3, which takes longer until both have ended."""
    trace = [*training({"Sequence number": 7}), op("aten::mul", 100, 60)]
    assert path_us(tmp_path, trace) == 190
