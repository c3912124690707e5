"""Decoding, in process; the docstring of a benchmark is its title on the results page."""

from __future__ import annotations

import gzip
import io

import pytest
from captures import Capture
from conftest import Timed
from fastprof_reader import NAME_AND_TIMES

import fastprof


def bench_load(timed: Timed, taken: Capture) -> None:
    """`load`: what it costs before a table is asked for"""
    timed(lambda: fastprof.load(taken.path))


@pytest.mark.parametrize("threads", [1, 2])
def bench_names(timed: Timed, taken: Capture, threads: int) -> None:
    """name, start, duration of every event"""
    table = timed(lambda: fastprof.load(taken.path, threads=threads).event_table(columns=NAME_AND_TIMES))
    assert table.num_rows == taken.events


@pytest.mark.parametrize("threads", [1, 2])
def bench_everything(timed: Timed, taken: Capture, threads: int) -> None:
    """every event and every stat"""
    tables = timed(lambda: fastprof.load(taken.path, threads=threads).read("events", "event_stats"))
    assert tables["event_stats"].num_rows == taken.stats


def bench_typed_columns(timed: Timed, taken: Capture) -> None:
    """name, start, duration and two stats as typed columns"""
    table = timed(lambda: fastprof.load(taken.path).event_table(columns=NAME_AND_TIMES, stats=["id", "_c"]))
    assert table.num_rows == taken.events


def bench_selection(timed: Timed, taken: Capture) -> None:
    """events of the lines of one thread pool"""
    table = timed(lambda: fastprof.load(taken.path).select(lines="^tf_Compute/").events)
    assert 0 < table.num_rows < taken.events


def bench_scan(timed: Timed, taken: Capture) -> None:
    """name, start, duration in batches"""

    def count() -> int:
        return sum(batch.num_rows for batch in fastprof.scan(taken.path, columns=NAME_AND_TIMES))

    assert timed(count) == taken.events


def bench_nesting(timed: Timed, taken: Capture) -> None:
    """`nesting`: depth, parent, self time of every event"""
    assert timed(lambda: fastprof.load(taken.path).nesting).num_rows == taken.events


def bench_summary(timed: Timed, taken: Capture) -> None:
    """`event_summary`: events by name, with self times"""
    assert timed(lambda: fastprof.load(taken.path).event_summary()).num_rows > 0


def bench_gzip_stream(timed: Timed, taken: Capture) -> None:
    """every event and every stat, from a gzip stream"""
    packed = gzip.compress(taken.path.read_bytes(), 1)
    tables = timed(lambda: fastprof.load(io.BytesIO(packed)).read("events", "event_stats"))
    assert tables["event_stats"].num_rows == taken.stats
