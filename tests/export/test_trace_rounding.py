"""Slices of Chrome's form in Perfetto, which takes start and duration to whole nanoseconds each by itself."""

from __future__ import annotations

import io
import math
import random
from collections.abc import Callable
from pathlib import Path

import pytest
from gate import rounds, typical_captures
from trace_builder import event, line, plane, xspace
from trace_readers import lost_in_perfetto, read_chrome

import fastprof
from fastprof.export.trace_files import CHROME, TraceFile

DEMO = Path(__file__).resolve().parent.parent.parent / "demo"
MADE = ("logdir", "memory", "pod", "serving", "tf-data", "xla")


def rounded(ns: float) -> int:
    """Halves away from zero, as the importer of today does."""
    return int(math.copysign(math.floor(abs(ns) + 0.5), ns))


HOURS = 4 * 3600 * 10**12
IMPORTERS = pytest.mark.parametrize("in_ns", [rounded, math.trunc])


def written(profile: fastprof.Profile) -> bytes:
    return b"".join(TraceFile(profile.table_set, CHROME, stats="none").chunks())


def of_line(spans: list[tuple[int, int]]) -> bytes:
    """``spans``: starts and durations in ps."""
    events = [event(f"e{i}", start, duration) for i, (start, duration) in enumerate(spans)]
    return written(fastprof.load(io.BytesIO(xspace(plane("/host:CPU", [line("t", events)])))))


def test_the_reader_drops_what_ends_later_once_rounded() -> None:
    head = '{"traceEvents":[{"ph":"X","pid":1,"tid":1,"ts":2000.075,"dur":518.113473,"name":"layer_0"},'
    inner = '{"ph":"X","pid":1,"tid":1,"ts":2373.685734,"dur":144.502739,"name":"mlp"}]}'
    assert lost_in_perfetto((head + inner).encode(), rounded) == ["mlp"]
    assert lost_in_perfetto((head + inner).encode(), math.trunc) == []


def test_slices_that_nest_only_in_picoseconds_have_rows_of_their_own() -> None:
    data = of_line([(2000075000, 518113473), (2373685734, 144502739), (2400000000, 1000)])
    assert lost_in_perfetto(data, rounded) == []
    rows = [one.row for one in read_chrome(data).slices]
    assert rows[0] != rows[1]


def test_neighbours_in_whole_nanoseconds_share_a_row() -> None:
    data = of_line([(i * 7000, 7000) for i in range(2000)])
    assert len({one.row for one in read_chrome(data).slices}) <= 2
    exact = of_line([(i * 8_000_000, 8_000_000) for i in range(100)])
    assert len({one.row for one in read_chrome(exact).slices}) == 1


@IMPORTERS
@pytest.mark.parametrize("base", [0, 10**12, HOURS])
@pytest.mark.parametrize("grid", [1, 500, 999])
def test_random_slices_are_all_kept(in_ns: Callable[[float], int], base: int, grid: int) -> None:
    dice = random.Random(base + grid)
    spans: list[tuple[int, int]] = []
    ends = [base]
    for _ in range(rounds(1500, 500)):
        start = dice.choice(ends[-6:]) if dice.random() < 0.7 else base + dice.randrange(400) * grid
        end = dice.choice(ends[-6:]) if dice.random() < 0.5 else start + dice.randrange(60) * grid
        spans.append((start, max(end - start, 0)))
        ends += [start, start + spans[-1][1]]
    data = of_line(spans)
    assert lost_in_perfetto(data, in_ns) == []
    assert read_chrome(data).nests()


@IMPORTERS
@pytest.mark.parametrize("name", MADE)
def test_no_slice_of_a_demo_is_lost(in_ns: Callable[[float], int], name: str) -> None:
    assert lost_in_perfetto(written(fastprof.load(DEMO / name)), in_ns) == []


@IMPORTERS
@typical_captures
def test_no_slice_of_a_real_capture_is_lost(capture: Path, in_ns: Callable[[float], int]) -> None:
    profile = fastprof.load(capture)
    if profile.events.num_rows > 30_000:
        pytest.skip("large")
    assert lost_in_perfetto(written(profile), in_ns) == []
