"""Annotations: time by name and step, what devices do meanwhile, and scopes in op names."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gate import few, typical_captures
from trace_builder import Event, event, line, plane, ref, xspace

import fastprof
from fastprof.derive.causes.annotation_times import merge_spans_by_key

DEMO = Path(__file__).resolve().parents[2] / "demo"
TIMES = ("name", "threads", "count", "total_ps", "self_ps", "mean_ps", "min_ps", "max_ps", "elapsed_ps")
DEVICES = ("device_compute_ps", "device_communication_ps", "device_copy_ps", "device_idle_ps")


def rows(report: fastprof.Report, table: str, *columns: str) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in columns) for row in report.tables[table].to_pylist()]


def kernel(name: str, start: int, duration: int, **stats: int) -> Event:
    return event(name, start, duration, {"kernel_details": ref("regs:1"), **stats})


def copied(start: int, duration: int) -> Event:
    return event("MemcpyD2H", start, duration, {"memcpy_details": ref("num_bytes:4")})


RUN = xspace(
    plane("/host:CPU", [
        line("python", [
            event("train", 0, 400, {"step_num": 0, "_r": 1}), event("load", 10, 100), event("forward", 150, 200),
            event("inner", 160, 50), event("PjitFunction(f)", 170, 20),
            event("cuLaunchKernel", 171, 2, {"correlation_id": 1}),
            event("train", 400, 400, {"step_num": 1, "_r": 1}), event("load", 410, 300),
            event("cuLaunchKernel", 720, 2, {"correlation_id": 2}),
            event("after", 900, 100), event("after", 920, 30),
        ]),
        line("python", [event("load", 50, 100)], id=77),
    ]),
    plane("/device:GPU:0", [line("Stream #1", [
        kernel("a", 180, 100, correlation_id=1), kernel("b", 730, 50, correlation_id=2), copied(280, 20),
        kernel("ncclDevKernel_AllReduce_Sum", 300, 20),
    ])]),
    plane("/device:GPU:1", [line("Stream #1", [kernel("a", 200, 1000)])]),
)  # fmt: skip


def test_annotations_by_name() -> None:
    report = fastprof.load(RUN).annotations()
    assert rows(report, "annotations", *TIMES) == [
        ("train", 1, 2, 800, 200, 400, 400, 400, 800),
        ("load", 2, 3, 500, 500, 166, 100, 300, 440),
        ("forward", 1, 1, 200, 150, 200, 200, 200, 200),
        ("after", 1, 2, 100, 100, 65, 30, 100, 100),
        ("inner", 1, 1, 50, 50, 50, 50, 50, 50),
    ]
    assert rows(report, "annotations", "name", "share")[0] == ("train", 800 / 1200)
    values = {name: one.value for name, one in report.scalars.items()}
    assert values == {
        "annotation_count": 5, "occurrences": 9, "annotated_ps": 1000, "longest": "train", "longest_ps": 800,
        "longest_share": 800 / 1200, "scope_count": 0,
    }  # fmt: skip


def test_shares_are_of_the_run_not_of_how_long_the_profiler_recorded(tmp_path: Path) -> None:
    step = {"cat": "user_annotation", "pid": 1, "tid": 1, "dur": 100}
    events = [
        {"cat": "Trace", "name": "PyTorch Profiler (0)", "pid": "Spans", "tid": "Profiler", "ts": 0, "dur": 5000},
        step | {"name": "ProfilerStep#1", "ts": 1000}, step | {"name": "ProfilerStep#2", "ts": 1300},
        step | {"name": "forward", "ts": 1000, "dur": 40},
    ]  # fmt: skip
    path = tmp_path / "rank0.json"
    path.write_text(json.dumps({"traceEvents": [{"ph": "X", **one} for one in events]}))
    rows = fastprof.load(path).annotations().tables["annotations"].to_pylist()
    assert {row["name"]: row["share"] for row in rows} == {
        "ProfilerStep#1": 0.25, "ProfilerStep#2": 0.25, "forward": 0.1,
    }  # fmt: skip


def test_what_devices_do_meanwhile() -> None:
    """Summed over two GPUs; the second computes from 200 on."""
    report = fastprof.load(RUN).annotations()
    assert rows(report, "annotations", "name", *DEVICES) == [
        ("train", 150 + 600, 20, 20, 810),
        ("load", 300, 0, 0, 580),
        ("forward", 100 + 150, 20, 20, 110),
        ("after", 100, 0, 0, 100),
        ("inner", 30 + 10, 0, 0, 60),
    ]
    hidden = dict(rows(report, "annotations", "name", "hidden_share"))
    assert hidden == {"train": 750 / 1600, "load": 300 / 880, "forward": 250 / 400, "after": 0.5, "inner": 0.4}


def test_the_share_of_an_annotation_on_many_threads_is_that_of_the_time() -> None:
    threads = [line(f"python/{k}", [event("load", 10 * k, 80), event("f", 0, 200)]) for k in range(5)]
    report = fastprof.load(xspace(plane("/host:CPU", threads))).annotations()
    assert rows(report, "annotations", "name", "total_ps", "elapsed_ps", "share") == [
        ("f", 1000, 200, 1.0), ("load", 400, 120, 0.6),
    ]  # fmt: skip
    assert (report.scalars["longest"].value, report.scalars["longest_share"].value) == ("f", 1.0)


def test_times_that_do_not_add_up_in_64_bits_are_an_error() -> None:
    half = 2**62
    threads = [line(f"python/{k}", [event("load", 0, half)]) for k in range(2)]
    with pytest.raises(fastprof.CaptureError, match="durations of annotations do not add up in 64 bits"):
        fastprof.load(xspace(plane("/host:CPU", threads))).annotations()
    gpus = [plane(f"/device:GPU:{k}", [line("Stream #1", [kernel("k", 0, 5)])], id=k + 2) for k in range(2)]
    one = plane("/host:CPU", threads[:1])
    with pytest.raises(fastprof.CaptureError, match="durations of annotations do not add up in 64 bits"):
        fastprof.load(xspace(one, *gpus)).annotations()


def test_annotations_by_step() -> None:
    report = fastprof.load(RUN).annotations(steps_from="markers")
    found = rows(report, "steps", "step", "name", "count", "total_ps", "self_ps")
    assert found == [
        (0, "train", 1, 400, 100), (0, "load", 1, 100, 100), (0, "forward", 1, 200, 150), (0, "inner", 1, 50, 50),
        (1, "train", 1, 400, 100), (1, "load", 1, 300, 300),
        (None, "load", 1, 100, 100), (None, "after", 2, 100, 100),
    ]  # fmt: skip


def test_threads_that_run_ops_are_a_device() -> None:
    data = xspace(plane("/host:CPU", [
        line("python", [event("PjitFunction(f)", 0, 5), event("load", 10, 100)]),
        line("tf_XLAEigen/1", [event("dot", 50, 20, {"hlo_op": ref("dot")}), event("a:Mul", 60, 30)]),
        line("tf_XLAEigen/2", [event("dot", 60, 30, {"hlo_op": ref("dot")})]),
        line("tf_data_private_threadpool/3", [event("m:Decode", 95, 10)]),
    ]))  # fmt: skip
    report = fastprof.load(data).annotations()
    assert rows(report, "annotations", "name", *DEVICES) == [("load", 40, None, None, 60)]


def test_a_host_without_devices_has_none_to_compare_with() -> None:
    data = xspace(plane("/host:CPU", [line("python", [event("load", 10, 100)])]))
    report = fastprof.load(data).annotations()
    assert rows(report, "annotations", "name", "hidden_share", *DEVICES) == [("load", None, None, None, None, None)]


def test_a_capture_without_annotations_says_how_to_write_them() -> None:
    report = fastprof.load(xspace(plane("/host:CPU", [line("python", [event("PjitFunction(f)", 0, 5)])]))).annotations()
    assert "jax.profiler.TraceAnnotation" in report.notices[0].text
    assert [table.num_rows for table in report.tables.values()] == [0, 0, 0, 0]
    assert report.scalars["longest"].value is None


def test_scopes_of_ops() -> None:
    profile = fastprof.load(DEMO / "xla")
    scopes = profile.op_profile().tables["scopes"].to_pylist()
    found = profile.annotations().tables["scopes"].to_pylist()
    assert {row["path"]: (row["device_ps"], row["ops"]) for row in found} == {
        row["path"]: (row["self_ps"], row["ops"])
        for row in scopes if row["children"] and row["depth"] and not row["path"].startswith("(no scope)")
    }  # fmt: skip
    assert found
    for row in found:
        above = row["path"].rpartition("/")[0]
        assert row["node"] == found.index(row)
        assert (found[row["parent"]]["path"] == above) if row["parent"] is not None else row["depth"] == 0


@pytest.mark.parametrize("seed", few(range(30), 8))
def test_random_annotations_agree_with_a_walk_over_time(seed: int) -> None:
    random_ = random.Random(seed)
    threads = [_nest(random_, 0, 60, 4) for _ in range(3)]
    kernels = [kernel("k", random_.randint(0, 50), random_.randint(1, 20)) for _ in range(4)]
    data = xspace(
        plane("/host:CPU", [line("python", made, id=number + 1) for number, made in enumerate(threads)]),
        plane("/device:GPU:0", [line("Stream #1", kernels)]),
    )
    total: Counter[str] = Counter()
    own: Counter[str] = Counter()
    elapsed: Counter[str] = Counter()
    compute: Counter[str] = Counter()
    for time in range(80):
        last = [[str(one.name) for one in made if one.offset_ps <= time < one.offset_ps + one.duration_ps]
                for made in threads]  # fmt: skip
        total.update(name for names in last for name in set(names))
        own.update(names[-1] for names in last if names)
        every = {name for names in last for name in names}
        elapsed.update(every)
        if any(one.offset_ps <= time < one.offset_ps + one.duration_ps for one in kernels):
            compute.update(every)
    found = {row["name"]: row for row in fastprof.load(data).annotations().tables["annotations"].to_pylist()}
    for column, expected in (
        ("total_ps", total),
        ("self_ps", own),
        ("elapsed_ps", elapsed),
        ("device_compute_ps", compute),
    ):
        assert {name: row[column] for name, row in found.items() if row[column]} == dict(expected), column


def _nest(random_: random.Random, start: int, end: int, depth: int) -> list[Event]:
    made: list[Event] = []
    while start < end and depth:
        first = random_.randint(start, end - 1)
        last = random_.randint(first + 1, end)
        made.append(event(random_.choice("abc"), first, last - first))
        made += _nest(random_, first, last, depth - 1)
        start = last
    return made


def test_unions_are_by_key() -> None:
    key = np.array([2, 1, 2, 1, 1, 2])
    start = np.array([0, 100, 5, 0, 20, 30])
    end = np.array([1000, 110, 7, 20, 25, 40])
    owner, (begins, ends) = merge_spans_by_key(key, start, end)
    assert list(zip(owner.tolist(), begins.tolist(), ends.tolist(), strict=True)) == [
        (1, 0, 25),
        (1, 100, 110),
        (2, 0, 1000),
    ]


@typical_captures
def test_sums_of_captures(capture: Path) -> None:
    report = fastprof.load(capture).annotations()
    every = report.tables["annotations"].to_pylist()
    by_step = report.tables["steps"].to_pylist()
    for row in every:
        mine = [one for one in by_step if one["name"] == row["name"]]
        for column in ("count", "self_ps"):
            assert sum(one[column] for one in mine) == row[column]
    for row in every + by_step:
        if row["device_idle_ps"] is not None:
            known = [row[name] for name in DEVICES if row[name] is not None]
            assert known and min(known) >= 0
            assert sum(known) % max(row["elapsed_ps"], 1) == 0
        assert row["self_ps"] <= row["total_ps"] and row["elapsed_ps"] <= row["total_ps"]
    assert sum(row["self_ps"] for row in every) == (report.scalars["annotated_ps"].value or 0)


@typical_captures
def test_no_share_of_an_annotation_is_more_than_all(capture: Path) -> None:
    report = fastprof.load(capture).report("annotations")
    for name in ("annotations", "steps"):
        for row in report.tables[name].to_pylist():
            assert 0 <= row["share"] <= 1
            assert row["hidden_share"] is None or 0 <= row["hidden_share"] <= 1
