"""Executions of TPUs by the clock of their device, which the clock of their line does not follow."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
import pytest
from gate import few
from step_captures import US, found, in_order, ran, rows, spaces, tpu
from trace_builder import Event, line, plane

import fastprof
from fastprof.derive.steps.device_steps import ProgramExecutions, find_executions
from fastprof.derive.steps.tpu_steps import STATS
from fastprof.tables.host_reader import read_host

CATEGORIES = (
    "device_compute_ps", "device_to_device_ps", "device_collectives_ps", "host_compute_ps", "kernel_launch_ps",
    "input_ps", "output_ps", "compilation_ps", "all_others_ps", "copies_ps",
)  # fmt: skip


def on_both(name: str, at: float, took: float, device_at: float, device_took: float) -> Event:
    times = {"device_offset_ps": round(device_at * US), "device_duration_ps": round(device_took * US)}
    return ran(name, at, took, **times)


def on_device(runs: list[Event], ops: list[Event]) -> list[tuple[float, float]]:
    """Begin and end of each execution, in microseconds."""
    capture = spaces(plane("/device:TPU:0", [line("XLA Modules", runs, id=2), line("XLA Ops", in_order(ops), id=3)]))
    (one,) = find_executions(read_host(fastprof.load(capture).table_set, 0, (), STATS, ()))
    return microseconds(one)


def microseconds(one: ProgramExecutions) -> list[tuple[float, float]]:
    begin, end = one.on_device
    return [(a / US, b / US) for a, b in zip(begin.tolist(), end.tolist(), strict=True)]


def test_an_execution_keeps_the_time_before_its_first_op_and_after_its_last() -> None:
    """On the line, the op of the first execution takes 60 µs longer than on the device."""
    runs = [ran("jit_f", 100, 100), ran("jit_f", 210, 40)]
    ops = [on_both("op", 110, 80, 10, 20), on_both("op", 215, 30, 55, 30)]
    assert on_device(runs, ops) == [(0, 40), (50, 90)]


def test_an_execution_begins_when_the_work_before_is_done_and_ends_before_the_next() -> None:
    """Between the ops lie 110 µs by the line, and 20 µs by the device."""
    runs = [ran("jit_f", 100, 130), ran("jit_f", 240, 100)]
    ops = [on_both("op", 110, 80, 10, 20), on_both("op", 300, 30, 50, 30)]
    assert on_device(runs, ops) == [(0, 30), (30, 90)]


def test_an_execution_without_such_ops_keeps_its_distance_from_the_ops_before_it() -> None:
    runs = [ran("jit_g", 60, 10), ran("jit_f", 100, 100), ran("jit_g", 210, 10), ran("jit_f", 230, 30)]
    ops = [on_both("op", 110, 80, 10, 20), ran("op", 212, 4), on_both("op", 232, 28, 57, 28)]
    assert on_device(runs, ops) == [(-40, -30), (0, 40), (50, 55), (55, 85)]


def test_an_execution_that_records_the_time_of_the_device_has_that() -> None:
    runs = [on_both("jit_f", 100, 100, 3, 50), ran("jit_f", 210, 40)]
    ops = [on_both("op", 110, 80, 10, 20), on_both("op", 215, 30, 65, 30)]
    assert on_device(runs, ops) == [(3, 53), (60, 100)]


def test_without_times_of_the_device_those_of_the_line_count() -> None:
    assert on_device([ran("jit_f", 100, 100)], [ran("op", 110, 80)]) == [(100, 200)]


@pytest.mark.parametrize("seed", few(range(30), 8))
def test_executions_of_a_device_never_overlap_however_fast_the_clock_of_the_line_runs(seed: int) -> None:
    """The times of the device, and pieces of the line at speeds of a fifth to five times."""
    rng = np.random.default_rng(seed)
    marks = np.cumsum(rng.integers(1, 30, 4 * 12))  # of each execution: begin, begin and end of its op, end
    by_line = 1000 + np.cumsum(np.maximum(np.diff(marks, prepend=0) * rng.choice((0.2, 1, 5), len(marks)), 1))
    runs, ops = [], []
    for (begin, op, op_end, end), (_, own, own_end, _) in zip(
        by_line.reshape(-1, 4).tolist(), marks.reshape(-1, 4).tolist(), strict=True
    ):
        runs.append(ran("jit_f", begin, end - begin))
        if rng.random() < 0.8:
            ops.append(on_both("op", op, op_end - op, own, own_end - own))
    spans = on_device(runs, ops)
    assert all(begin <= end for begin, end in spans)
    assert all(end <= following for (_, end), (following, _) in pairwise(spans))
    work = [(one.stats["device_offset_ps"] / US, one.stats["device_duration_ps"] / US) for one in ops]
    held = [any(begin <= at and at + took <= end for begin, end in spans) for at, took in work]
    assert all(held)


def test_steps_hold_their_ops_when_the_clock_of_the_line_is_stretched() -> None:
    stats = {"device_offset_ps": 10 * US, "device_duration_ps": 20 * US}
    runs = line("XLA Modules", [ran("jit_f(1)", 100, 100)], id=2)
    core = tpu(0, [], [("f", "fusion", 110, 80)], stats={"f": stats}, lines=[runs])
    assert rows(found(spaces(core), steps_from="modules")) == [(0, 2, 0.0, 40.0, {"IDLE": 20.0, "fusion": 20.0})]


# ---- a real capture, against its raw events


def raw(profile: Any) -> dict[str, tuple[list[tuple[int, int]], list[tuple[int, int, int]]]]:
    """By device: begin and end of the executions of jit_f by the line; start by the line, begin and end by the device
    of each op."""
    events, stats = profile.tables["events"], profile.tables["event_stats"]
    clock = {
        (row["event_id"], row["stat"]): row["int_value"]
        for row in stats.select(["event_id", "stat", "int_value"]).to_pylist()
        if row["stat"] in ("device_offset_ps", "device_duration_ps")
    }
    spans: Any = defaultdict(lambda: ([], []))
    for row in events.select(["event_id", "plane", "line", "name", "start_ps", "duration_ps"]).to_pylist():
        runs, ops = spans[row["plane"]]
        if row["line"] == "XLA Modules" and row["name"].startswith("jit_f("):
            runs.append((row["start_ps"], row["start_ps"] + row["duration_ps"]))
        elif row["line"] == "XLA Ops":
            at, took = (clock[row["event_id"], name] for name in ("device_offset_ps", "device_duration_ps"))
            ops.append((row["start_ps"], at, at + took))
    return {name: both for name, both in spans.items() if both[0]}


@pytest.mark.captures
def test_steps_of_a_real_capture_last_as_long_as_their_ops_on_the_device(captures: Path) -> None:
    profile = fastprof.load(captures / "xspace" / "tpu-v6e-jax-inference")
    report = profile.report("steps")
    listed = report.tables["steps"].to_pylist()
    slowest = [0] * 100
    for device, (runs, ops) in raw(profile).items():
        steps = sorted((row for row in listed if row["device"] == device), key=lambda row: row["start_ps"])
        hulls = []
        for begin, end in runs:
            mine = [(first, last) for start, first, last in ops if begin <= start < end]
            hulls.append((min(first for first, _ in mine), max(last for _, last in mine)))
        spans = [(row["start_ps"], row["start_ps"] + row["duration_ps"]) for row in steps]
        assert len(spans) == 100 and all(end <= begin for (_, end), (begin, _) in pairwise(spans))
        for (begin, end), (first, last), row in zip(spans, hulls, steps, strict=True):
            assert begin <= first <= last <= end
            assert row["duration_ps"] - (last - first) < 1_000_000  # a microsecond: the executions have no more
            assert sum(row[name] for name in CATEGORIES) == row["period_ps"]
            assert row["all_others_ps"] < 1_000_000 + row["period_ps"] - row["duration_ps"]
        # both clocks agree about all of them together
        assert mean(row["duration_ps"] for row in steps) == pytest.approx((runs[-1][1] - runs[0][0]) / 100, rel=1e-4)
        slowest = [max(a, row["period_ps"]) for a, row in zip(slowest, steps, strict=True)]
    assert report.scalars["step_time_mean_ps"].value == mean(slowest)
    assert 784e9 < min(slowest) <= max(slowest) < 785e9  # as the line has them, some take 982 ms
    figure = fastprof.load(captures / "xspace" / "tpu-v6e-jax-inference").report("overview").scalars
    assert figure["step_time_mean_ps"].value == mean(slowest)


@pytest.mark.captures
def test_stragglers_of_a_real_capture_have_the_category_of_their_excess(captures: Path) -> None:
    tables = fastprof.load(captures / "xspace" / "tpu-v6e-jax-inference").report("steps").tables
    by_step = defaultdict(list)
    for row in tables["steps"].to_pylist():
        by_step[row["step"]].append(row)
    named = []
    for row in tables["stragglers"].to_pylist():
        cores = by_step[row["step"]]
        (own,) = (core for core in cores if core["core_id"] == row["core_id"])
        beyond = {name: own[name] - sorted(core[name] for core in cores)[1] for name in CATEGORIES}
        half = {name for name, time in beyond.items() if 2 * time >= row["excess_ps"]}
        if row["category"] is None:
            assert not half and row["category_excess_ps"] == 0
        else:
            assert f"{row['category']}_ps" in half
            assert row["category_excess_ps"] == beyond[f"{row['category']}_ps"]
        named.append(row["category"])
    assert len(named) == 100 and named.count("copies") > 90
