"""Analyses, in process; the docstring of a benchmark is its title on the results page."""

from __future__ import annotations

import pytest
from captures import capture
from conftest import Timed

import fastprof

ON = pytest.mark.parametrize("on", ["host-10mb", "device-10mb"])


@ON
def bench_overview(timed: Timed, on: str) -> None:
    """overview"""
    path = capture(on).path
    assert timed(lambda: fastprof.load(path).report("overview")).tables["hosts"].num_rows == 1


@ON
def bench_op_stats(timed: Timed, on: str) -> None:
    """op stats"""
    path = capture(on).path
    assert timed(lambda: fastprof.load(path).report("op_stats")).tables["ops"].num_rows > 0


@ON
def bench_input_pipeline(timed: Timed, on: str) -> None:
    """input pipeline"""
    path = capture(on).path
    assert timed(lambda: fastprof.load(path).report("input_pipeline")).tables["input_time"].num_rows > 0


@ON
def bench_steps(timed: Timed, on: str) -> None:
    """steps"""
    path = capture(on).path
    assert timed(lambda: fastprof.load(path).report("steps")).scalars["step_count"].value is not None


@ON
def bench_all_reports(timed: Timed, on: str) -> None:
    """all reports at once"""
    path = capture(on).path
    assert "overview" in timed(lambda: fastprof.load(path).reports())
