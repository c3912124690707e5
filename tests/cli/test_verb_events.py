"""fastprof events."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest


def test_sums_by_name(command: Callable[..., Any]) -> None:
    assert command("events", "usual") == (
        0,
        "count     total      self      mean       min       max  name\n"
        "    3  7.000 ms  7.000 ms  2.333 ms  1.500 ms  3.000 ms  matmul\n"
        "    1  500.0 µs  500.0 µs  500.0 µs  500.0 µs  500.0 µs  copy, async\n"
        "    1  40.00 µs  40.00 µs  40.00 µs  40.00 µs  40.00 µs  agg\n"
        "    1  9.000 ms  1.000 ns  9.000 ms  9.000 ms  9.000 ms  step\\x1b[31m\n"
        "    1  1.000 ns  1.000 ns  1.000 ns  1.000 ns  1.000 ns  été 中文\n",
        "",
    )


def test_a_limit_says_how_many_it_left_out(command: Callable[..., Any]) -> None:
    ran = command("events", "usual", "--limit", "2")
    assert ran.out == (
        "count  total (ms)  self (ms)  mean (ms)  min (ms)  max (ms)  name\n"
        "    3       7.000      7.000      2.333     1.500     3.000  matmul\n"
        "    1       0.500      0.500      0.500     0.500     0.500  copy, async\n"
    )
    assert ran.err == "fastprof: showing 2 of 5 names; --limit all shows the others\n"
    assert command("events", "usual", "--limit", "2", "-q").err == ""


def test_columns_without_room_are_reported(command: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "44")
    ran = command("events", "usual", "-v")
    assert "hidden" not in command("events", "usual").err
    assert ran.out.splitlines()[0] == "count     total      self  name"
    assert max(map(len, ran.out.splitlines())) <= 44
    assert ran.err == "fastprof: hidden columns: mean_ps, min_ps, max_ps; --wide shows all\n"
    assert command("events", "usual", "--wide").err == ""


def test_sums_as_csv(command: Callable[..., Any]) -> None:
    assert command("events", "usual", "--format", "csv", "--plane", "GPU").out == (
        "name,count,total_ps,self_ps,mean_ps,min_ps,max_ps\n"
        "matmul,3,7000000000,7000000000,2333333333,1500000000,3000000000\n"
        '"copy, async",1,500000000,500000000,500000000,500000000,500000000\n'
        "agg,1,40000000,40000000,40000000,40000000,40000000\n"
    )


def test_the_events_themselves(command: Callable[..., Any]) -> None:
    assert command("events", "usual", "--list", "--stats", "flops, shape", "--limit", "3") == (
        0,
        "host   plane          line       start (ms)  duration (ms)  name         flops  shape\n"
        "alpha  /device:GPU:0  Stream #7       1.000          2.500  matmul          10  f32[2]\n"
        "alpha  /device:GPU:0  Stream #7       4.000          0.500  copy, async\n"
        "alpha  /device:GPU:0  Stream #7       5.000          1.500  matmul          20\n",
        "fastprof: showing the first 3 events; --limit all shows the others\n",
    )


def test_other_forms_have_every_column_and_every_event(command: Callable[..., Any]) -> None:
    assert command("events", "usual", "--list", "--format", "csv", "--name", "agg|^été").out == (
        "host,plane,line,name,start_ps,duration_ps,num_occurrences\n"
        "alpha,/device:GPU:0,Stream #7,agg,,40000000,4\n"
        "alpha,/host:CPU,main,été 中文,0,1000,\n"
    )
    rows = json.loads(command("events", "usual", "--list", "--format", "json").out)["rows"]
    assert len(rows) == 7
    assert list(rows[0]) == ["host", "plane", "line", "name", "start_ps", "duration_ps", "num_occurrences"]


def test_columns_chosen(command: Callable[..., Any]) -> None:
    ran = command(
        "events",
        "usual",
        "--list",
        "--columns",
        "event_id,name",
        "--columns",
        "start_ps",
        "--format",
        "csv",
        "--limit",
        "1",
    )
    assert ran.out == "event_id,name,start_ps\n0,matmul,1000000000\n"


def test_a_limit_that_is_just_enough_says_nothing(command: Callable[..., Any]) -> None:
    assert command("events", "usual", "--list", "--limit", "7").err == ""
    assert command("events", "usual", "--list", "--limit", "all").err == ""
    assert command("events", "usual", "--limit", "5").err == ""
    ran = command("events", "usual", "--list", "--limit", "0", "--format", "csv")
    assert ran.out == "host,plane,line,name,start_ps,duration_ps,num_occurrences\n"


def test_time_and_repeated_filters(command: Callable[..., Any]) -> None:
    def names(*flags: str) -> list[str]:
        ran = command("events", "usual", "--list", "--format", "json", *flags)
        return [row["name"] for row in json.loads(ran.out)["rows"]]

    assert names("--time", "3.5ms:5ms") == ["copy, async", "step\x1b[31m"]
    assert names("--time=:0") == ["step\x1b[31m"]
    assert names("--name", "^copy", "--name", "agg") == ["copy, async", "agg"]
    assert names("--line", "main", "--host", "alpha") == ["step\x1b[31m", "été 中文"]


@pytest.mark.parametrize(
    ("flags", "note"),
    [
        (["--plane", "GPU:1"], "no plane matches 'GPU:1'; similar names: /device:GPU:0 (of 2)"),
        (["--plane", "TPU"], "no plane matches 'TPU'; similar names: /host:CPU, /device:GPU:0 (of 2)"),
        (["--plane", "xyz"], "no plane matches 'xyz'; available: /device:GPU:0, /host:CPU"),
        (["--line", "stream #7"], "no line matches 'stream #7'; similar names: Stream #7 (of 2)"),
        (["--name", "mat_mul"], "no event matches 'mat_mul'; similar names: matmul (of 5)"),
        (["--name", "agg", "--plane", "CPU"], "no event matches all filters"),
    ],
)
def test_nothing_matched(command: Callable[..., Any], flags: list[str], note: str) -> None:
    ran = command("events", "usual", "--format", "csv", *flags)
    assert (ran.code, ran.out.count("\n")) == (0, 1)
    assert ran.err == f"fastprof: {note}\n"
    assert command("events", "usual", "--list", *flags).err == f"fastprof: {note}\n"
    assert command("events", "usual", "-q", *flags).err == ""


def test_no_events_at_all(command: Callable[..., Any]) -> None:
    assert command("events", "empty").err == "fastprof: the session has no events\n"


def test_a_stat_that_nothing_has(command: Callable[..., Any]) -> None:
    ran = command("events", "usual", "--list", "--stats", "flop")
    assert ran.code == 0
    note = "fastprof: none of these events has the stat 'flop'; similar names: flops (of 2)\n"
    assert ran.err == note
    assert command("events", "usual", "--list", "--stats", "flop,flops,shape", "--limit", "1").err.endswith(note)
    assert "'shape'" not in command("events", "usual", "--list", "--stats", "shape", "--limit", "1", "--line", "7").err


def test_a_host_that_is_not_there(command: Callable[..., Any]) -> None:
    ran = command("events", "usual", "--host", "gamma")
    assert (ran.code, ran.out) == (3, "")
    assert ran.err == "fastprof: no host 'gamma'; there are alpha, beta\n"


def test_what_was_lost_is_said(command: Callable[..., Any]) -> None:
    fault = "logs/run1/alpha.xplane.pb: the event ends past its line (at byte 4,096) (3 times)"
    said = f"fastprof: data loss: {fault}\n"
    assert command("events", "salvaged", "--on-error", "salvage").err == said
    assert command("events", "salvaged", "--list").err == said
    assert command("events", "salvaged", "-q").err == ""


@pytest.mark.parametrize("what", [[], ["--list"]])
def test_arrow_to_a_file_and_to_a_pipe(command: Callable[..., Any], tmp_path: Path, what: list[str]) -> None:
    out = tmp_path / "events.arrow"
    ran = command("events", "usual", "-o", str(out), *what)
    assert (ran.code, ran.out, ran.err) == (0, "", f"fastprof: Wrote {out}\n")
    assert pa.ipc.open_file(out).read_all().column("name").to_pylist()[0] == "matmul"


def test_a_fault_on_the_way_leaves_what_was_written(command: Callable[..., Any], tmp_path: Path) -> None:
    ran = command("events", "breaks", "--list", "--format", "csv")
    assert (ran.code, ran.out.count("\n")) == (4, 8)
    assert ran.err.startswith("fastprof: breaks: the event ends past its line (at byte 1,234)\nfastprof: --on-error ")
    out = tmp_path / "x.csv"
    assert command("events", "breaks", "--list", "-o", str(out)).code == 4
    assert list(tmp_path.iterdir()) == []


def test_standard_input(command: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    import stand_in

    stream = io.TextIOWrapper(io.BytesIO(b"capture"))
    monkeypatch.setattr("sys.stdin", stream)
    assert command("events", "-").code == 0
    assert stand_in.calls[0]["path"] is stream.buffer
    assert command("events", "-", "-").code == 2
    monkeypatch.setattr("sys.stdin", None)
    ran = command("events", "-")
    assert (ran.code, ran.err) == (3, "fastprof: standard input is closed\n")
