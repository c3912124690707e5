"""Times that 64 bits of picoseconds cannot hold: nothing wraps, and import_log says where they are."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from trace_builder import event, line, plane, xspace

import fastprof
from fastprof.cli.main import main
from fastprof.schema.columns import add_durations

LAST = 2**63 - 1
BASE_NS = 9 * 10**15


def saved(folder: Path, *events: object, timestamp_ns: int = 0) -> str:
    path = folder / "vm.xplane.pb"
    made = line("t", list(events), timestamp_ns=timestamp_ns)  # type: ignore[arg-type]
    path.write_bytes(xspace(plane("/host:CPU", [made])))
    return str(path)


def info(path: str, capsys: pytest.CaptureFixture[str]) -> dict[str, object]:
    assert main(["info", path, "--format", "json"]) == 0
    found: dict[str, object] = json.loads(capsys.readouterr().out)
    return found


def codes(path: str) -> list[tuple[str, str]]:
    p = fastprof.load(path)
    assert p.events.num_rows
    assert p.events.num_rows  # reading again adds no rows
    return [(row["code"], row["severity"]) for row in p.import_log.to_pylist()]


def test_an_end_beyond_64_bits_is_the_last_time(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = saved(tmp_path, event("a", 5, 7), event("b", LAST - 10, 100))
    text = json.dumps(info(path, capsys))
    assert str(LAST) in text and "-922337203685477" not in text
    assert codes(path) == [("late_end", "notice")]


def test_an_end_beyond_64_bits_on_a_line_that_starts_late(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = saved(tmp_path, event("a", 5, LAST - 6), timestamp_ns=BASE_NS)
    assert str(LAST) in json.dumps(info(path, capsys))
    assert codes(path) == [("late_end", "notice")]


def test_a_start_beyond_64_bits_is_unknown(tmp_path: Path) -> None:
    path = saved(tmp_path, event("a", 5, 7), event("b", LAST - 10, 1), timestamp_ns=BASE_NS)
    assert fastprof.load(path).events["start_ps"].to_pylist() == [BASE_NS * 1000 + 5, None]
    assert codes(path) == [("time_overflow", "data_loss")]


def test_times_that_fit_have_no_row(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = saved(tmp_path, event("a", 5, 7), event("b", LAST - 10, 9))
    assert str(LAST - 1) in json.dumps(info(path, capsys))
    assert codes(path) == []


def test_a_step_that_ends_beyond_64_bits_has_its_events_and_time(tmp_path: Path) -> None:
    steps = [
        event("train", at, long, {"_r": 1, "step_num": n}) for n, (at, long) in enumerate([(0, 9), (LAST - 9, 99)])
    ]
    path = saved(tmp_path, steps[0], event("work", 1, 2), steps[1], event("work", LAST - 8, 3))
    p = fastprof.load(path)
    assert p.select(steps=1).events["start_ps"].to_pylist() == [LAST - 9, LAST - 8]
    assert p.steps().tables["steps"]["host_compute_ps"].to_pylist() == [2, 3]


def test_ends_stop_at_both_limits() -> None:
    start, duration = np.array([1, LAST, -5, -LAST, 0]), np.array([2, 1, 3, -9, -LAST])
    assert add_durations(start, duration).tolist() == [3, LAST, -2, -LAST - 1, -LAST]


@pytest.mark.parametrize("least", [0, -LAST - 1])
def test_ends_of_many_events_stop_at_the_limits(least: int) -> None:
    rng = np.random.default_rng(5)
    edges = np.array([least, 0, 1, 10**15, LAST - 1, LAST])
    for small in (True, False):  # without and with sums beyond the limits
        start, duration = (rng.choice(edges[:4] if small else edges, 2000) for _ in range(2))
        wanted = [min(max(a + b, -LAST - 1), LAST) for a, b in zip(start.tolist(), duration.tolist(), strict=True)]
        assert add_durations(start, duration).tolist() == wanted
