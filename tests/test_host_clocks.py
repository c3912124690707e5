"""Hosts on one clock, and hosts whose start is not known, or damaged: they alone are apart."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from clock_pods import Pod, write_clocks
from trace_builder import event, line, plane, u64, xspace
from trace_readers import read_chrome, read_perfetto

import fastprof
from fastprof.errors import UsageError
from fastprof.profile.trace_out import Trace, describe_alignment
from fastprof.tables.host_clocks import HostClocks, Offset, align_clocks, make_host_clocks
from fastprof.wording.quantities import format_moment

START, WEEKS = 1_700_000_000_000_000_000, 60 * 86_400 * 10**9
US = 1_000_000


def host(name: str, start: object) -> bytes:
    stats = {} if start is None else {"profile_start_time": start}
    thread = plane("/host:CPU", [line("t", [event(name, US, US)])])
    return xspace(thread, plane("Task Environment", stats=stats), hostnames=[name])


def session(folder: Path, starts: list[object]) -> fastprof.Profile:
    for name, start in zip("abc", starts, strict=False):
        (folder / f"{name}.xplane.pb").write_bytes(host(name, start))
    return fastprof.load(folder)


def test_times_count_from_the_first_start() -> None:
    assert make_host_clocks([5, 3, 9]) == HostClocks([2000, 0, 6000], 3, [])
    assert make_host_clocks([5]) == HostClocks([0], 5, [])


def test_hosts_without_a_start_are_apart_if_others_have_one() -> None:
    assert make_host_clocks([5, None, 9]) == HostClocks([0, 0, 4000], 5, [1])
    assert make_host_clocks([None, None]) == HostClocks([0, 0], None, [])
    assert make_host_clocks([]) == HostClocks([], None, [])


@pytest.mark.parametrize("far", [0, 2**63 - 1, START - WEEKS, START + WEEKS])
def test_a_host_that_started_weeks_from_the_others_is_apart(far: int) -> None:
    assert make_host_clocks([START + 1, far, START]) == HostClocks([1000, 0, 0], None, [1])


@pytest.mark.parametrize("start", [u64(2**64 - 1), u64(2**63), -1])
def test_a_start_that_is_not_a_time_is_unknown_and_the_others_keep_theirs(start: object, tmp_path: Path) -> None:
    p = session(tmp_path, [START + 1000, start, START])
    assert p.hosts["start_unix_ns"].to_pylist() == [START + 1000, None, START]
    log = {row["code"]: (row["path"], row["count"]) for row in p.import_log.to_pylist()}
    path = str(tmp_path / "b.xplane.pb")
    assert log == {"time_overflow": (path, 1), "no_common_clock": (path, 1)}
    trace = json.loads(b"".join(Trace(p.table_set, "chrome").chunks()))
    shown = {one["name"]: one["ts"] for one in trace["traceEvents"] if one["ph"] == "X"}
    assert shown == {"a": 2, "b": 1, "c": 1}


def test_a_stop_that_is_not_a_time_is_unknown(tmp_path: Path) -> None:
    stats = {"profile_start_time": START, "profile_stop_time": u64(2**64 - 5)}
    path = tmp_path / "vm.xplane.pb"
    path.write_bytes(
        xspace(plane("/host:CPU", [line("t", [event("a", 0, 1)])]), plane("Task Environment", stats=stats))
    )
    p = fastprof.load(path)
    assert p.hosts.select(["start_unix_ns", "stop_unix_ns"]).to_pylist() == [
        {"start_unix_ns": START, "stop_unix_ns": None}
    ]
    assert [row["code"] for row in p.import_log.to_pylist()] == ["time_overflow"]


def test_hosts_are_put_where_their_references_are() -> None:
    clock = HostClocks([0, 5_000, 9_000, 1_000], 100, [])
    pairs = {"a": ("b", -20_400), "b": ("b", 0), "d": ("b", 7), "gone": ("b", 1), "c": ("gone", 2)}
    offsets = {host: Offset(*pair) for host, pair in pairs.items()}
    assert align_clocks(clock, ["a", "b", "c", "d"], offsets) == HostClocks([600, 21_000, 25_000, 21_007], 84, [])


@pytest.mark.parametrize("drift", [4e-5, -4e-5])
def test_a_drift_is_taken_away_to_the_nearest_picosecond(drift: float) -> None:
    rng = np.random.default_rng(7)
    at = 10**12
    start = np.concatenate([np.arange(at - 30_000, at + 30_000, 97), rng.integers(-(10**14), 10**15, 300)])
    duration = rng.integers(0, 10**12, len(start))
    moved, lasted = Offset("b", 0, at, drift).moved(start, duration)
    for times, found in ((start, moved), (start + duration, moved + lasted)):
        rest = [
            one - (at + Fraction(time - at) / (1 + Fraction(drift)))
            for time, one in zip(times.tolist(), found.tolist(), strict=True)
        ]
        assert max(abs(one) for one in rest) < 0.50001
    steps, _ = Offset("b", 0, at, drift).moved(np.arange(at - 10**5, at + 10**5), np.zeros(2 * 10**5, np.int64))
    assert set(np.diff(steps).tolist()) <= {0, 1, 2}  # later times are not earlier
    damaged = np.array([-(2**63), 2**63 - 1])
    assert [one.tolist() for one in Offset("b", 0, at, drift).moved(damaged, damaged)] == [damaged.tolist()] * 2
    assert Offset("b", 5).moved(start, duration) == (start, duration)


@pytest.mark.parametrize("form", ["json", "pftrace"])
def test_a_trace_without_drift_has_collectives_of_a_second_together(form: str, tmp_path: Path) -> None:
    """Clocks gain up to 200 microseconds a second on each other: steps are a second apart, and ends together."""
    write_clocks(tmp_path / "run", Pod(seed=5, hosts=2, steps=12, collectives=1, work_ps=1e12, drift_ppm=40))
    out = tmp_path / f"out.{form}"
    fastprof.load(tmp_path / "run").to_trace(out, align_clocks=True)
    shown = read_chrome(out.read_bytes()) if form == "json" else read_perfetto(out.read_bytes())
    ends = [one.start_ps + one.duration_ps for one in shown.slices if one.name == "all-reduce.0"]
    together = np.diff(np.sort(ends).reshape(12, -1)[:, [0, -1]], axis=1)
    assert together.max() < 30 * US


@pytest.mark.parametrize("form", ["json", "pftrace"])
def test_a_trace_is_aligned_by_collectives_on_request(form: str, tmp_path: Path) -> None:
    """Ends of a collective that hosts leave together, on clocks that are milliseconds apart."""
    write_clocks(tmp_path / "run", Pod(seed=3, hosts=3, steps=6, collectives=2))
    session = fastprof.load(tmp_path / "run")
    spread = {}
    for align in (False, True):
        out = tmp_path / f"{align}.{form}"
        session.to_trace(out, derived=False, align_clocks=align)
        shown = read_chrome(out.read_bytes()) if form == "json" else read_perfetto(out.read_bytes())
        ends = [one.start_ps + one.duration_ps for one in shown.slices if one.name == "all-reduce.1"]
        assert len(ends) == 18 and min(one.start_ps for one in shown.slices) >= 0
        together = np.sort(ends).reshape(6, 3)
        spread[align] = int((together[:, -1] - together[:, 0]).max())
    assert spread[True] < 15 * US < 500 * US < spread[False]


def test_a_note_says_how_exact_clocks_are_and_which_are_not_aligned(tmp_path: Path) -> None:
    write_clocks(tmp_path, Pod(seed=3, hosts=3, steps=6, collectives=2))
    session = fastprof.load(tmp_path)
    report = session.communication()
    rows = report.tables["clocks"].to_pylist()
    worst = max(rows, key=lambda row: row["error_ps"])
    error = format_moment(worst["error_ps"])
    text = f"clocks of 3 hosts are aligned, to a standard error of at most {error} ({worst['host']})"
    assert describe_alignment(report, ["host000", "host001", "host002"]) == text
    with_other = describe_alignment(report, ["host000", "host001", "host002", "other"])
    assert with_other == f"{text}; not that of other, because no collectives show how they differ"
    contradictory = fastprof.load(Path(__file__).resolve().parent.parent / "demo" / "pod")
    assert describe_alignment(contradictory.communication(), ["host0", "host1"]) == (
        "clocks are not aligned, because in some collectives, one host finished before another began, so hosts "
        "number collectives differently"
    )


def test_clocks_are_aligned_in_traces_for_other_viewers_only(tmp_path: Path) -> None:
    write_clocks(tmp_path, Pod(hosts=2, steps=3))
    with pytest.raises(UsageError, match="only in the formats chrome and perfetto"):
        fastprof.load(tmp_path).to_trace(tmp_path / "out.json", format="xprof", align_clocks=True)
