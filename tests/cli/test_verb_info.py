"""fastprof info."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NamedTuple

import pyarrow as pa
import pytest

import fastprof

CARD = """\
Session  logs/run1
Run      run1
Size     2.385 MiB, 2 hosts
Events   7 on 3 lines of 3 planes
Time     9.000 ms, from -1.000 ms to 8.000 ms
Devices  1 GPU (AMD), 1 GPU

Hosts
  host        size  planes  events                  started (UTC)  profiled (s)
  alpha  2.384 MiB       2       6  2025-11-21 09:20:00.000000000         1.500
  beta     1,000 B       1       1

Planes
  host   plane          device  lines  events  first (ms)  span (ms)
  alpha  /device:GPU:0  GPU         1       4       1.000      5.500
  alpha  /host:CPU                  1       2      -1.000      9.000
  beta   /device:GPU:0  GPU         1       1       0.000      3.000

Lines
  host   plane          line       events  first (ms)  span (ms)
  alpha  /device:GPU:0  Stream #7       4       1.000      5.500
  alpha  /host:CPU      main            2      -1.000      9.000
  beta   /device:GPU:0  Stream #7       1       0.000      3.000

Warnings recorded by the profiler
  beta: dropped\\n12 events
"""

LOG = """
Import log
  data_loss bad_event, 3 times, first at byte 4,096 in alpha.xplane.pb
    the event ends past its line
"""


def test_the_card(command: Callable[..., Any]) -> None:
    assert command("info", "usual") == (0, CARD, "")


def test_what_was_met_while_reading_comes_last(command: Callable[..., Any]) -> None:
    assert command("info", "salvaged").out == CARD + LOG


def test_limit_holds_each_table(command: Callable[..., Any]) -> None:
    shown = command("info", "usual", "--limit", "1").out
    assert "  showing 1 of 2; --limit all shows the others\n\nPlanes" in shown
    assert "  showing 1 of 3; --limit all shows the others\n\nWarnings" in shown


def test_json_holds_all_of_it(command: Callable[..., Any]) -> None:
    read = json.loads(command("info", "salvaged", "--format", "json").out)
    assert read["summary"] == {
        "run": "run1",
        "hosts": 2,
        "planes": 3,
        "lines": 3,
        "events": 7,
        "size_bytes": 2_501_000,
        "first_start_ps": -1_000_000_000,
        "last_end_ps": 8_000_000_000,
        "devices": [{"type": "GPU", "kind": "AMD", "count": 1}, {"type": "GPU", "kind": None, "count": 1}],
    }
    assert [row["event_count"] for row in read["hosts"]["rows"]] == [6, 1]
    assert [row["first_start_ps"] for row in read["planes"]["rows"]] == [1_000_000_000, -1_000_000_000, 0]
    assert read["import_log"]["rows"][0]["code"] == "bad_event"
    assert all(column["description"] for name in ("hosts", "planes", "lines") for column in read[name]["columns"])


def test_csv_is_the_planes(command: Callable[..., Any]) -> None:
    assert command("info", "usual", "--format", "csv").out == (
        "plane_id,host,name,device_type,device_ordinal,line_count,"
        "device_kind,event_count,first_start_ps,last_end_ps\n"
        "0,alpha,/device:GPU:0,GPU,0,1,AMD,4,1000000000,6500000000\n"
        "1,alpha,/host:CPU,,,1,,2,-1000000000,8000000000\n"
        "2,beta,/device:GPU:0,GPU,0,1,,1,0,3000000000\n"
    )


def test_filters_hold_for_counts_and_times(command: Callable[..., Any]) -> None:
    shown = command("info", "usual", "--host", "beta").out
    assert "Events   1 on 1 line of 1 plane\n" in shown
    assert "Time     3.000 ms, from 0 ps to 3.000 ms\n" in shown
    read = json.loads(command("info", "usual", "--name", "^copy", "--format", "json").out)
    for table in ("planes", "lines"):
        assert [row["event_count"] for row in read[table]["rows"]] == [1, 0, 0]


def test_a_session_without_events(command: Callable[..., Any]) -> None:
    ran = command("info", "empty")
    assert ran.code == 0
    assert "Events   0 on 3 lines of 3 planes\nDevices" in ran.out


class Run(NamedTuple):
    name: str
    path: str
    hosts: list[str]


@pytest.fixture
def two_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [Run("2026_02", "logs/2026_02", ["a", "b"]), Run("2026_01", "logs/2026_01", ["a"])]
    monkeypatch.setattr(fastprof, "runs", lambda _path: found, raising=False)


@pytest.mark.usefixtures("two_runs")
def test_runs(command: Callable[..., Any]) -> None:
    assert command("info", "--runs", "logs") == (
        0,
        "run      hosts  path\n2026_02      2  logs/2026_02\n2026_01      1  logs/2026_01\n",
        "",
    )
    ran = command("info", "--runs", "logs", "--limit", "1")
    assert ran.out == "run      hosts  path\n2026_02      2  logs/2026_02\n"
    assert ran.err == "fastprof: showing 1 of 2 runs; --limit all shows the others\n"
    read = json.loads(command("info", "--runs", "logs", "--format", "json").out)
    assert read["rows"][0] == {"run": "2026_02", "hosts": ["a", "b"], "path": "logs/2026_02"}
    assert command("info", "--runs", "-").code == 2


def test_card_in_a_narrow_terminal_and_without_unicode() -> None:
    from stand_in import StandIn

    from fastprof.cli import session_summary
    from fastprof.cli.session_summary import gather_summary
    from fastprof.render.table_forms import Look
    from fastprof.wording.screen import measure_width

    facts = gather_summary(StandIn("salvaged"))  # type: ignore[arg-type]
    shown = list(session_summary.format_summary(facts, Look(width=72, encoding="ascii"), None))
    assert max(measure_width(line) for line in shown if "UTC" not in line and ":00." not in line) <= 72
    assert "\n".join(shown).isascii()
    assert isinstance(facts.planes, pa.Table)
