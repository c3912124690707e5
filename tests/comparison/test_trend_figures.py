"""Figures over many runs: ``fastprof trends --figure``, what it keeps, what it publishes, and what the page gets."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.ipc
import pytest
from paired_runs import Plan

import fastprof
from fastprof.cli.main import main
from fastprof.errors import UsageError
from fastprof.profile import batch
from fastprof.profile.batch import RunFigures, list_changes, make_figures_table
from fastprof.render.figure_feeds import write_json_lines, write_prometheus
from fastprof.viewer import run_list
from fastprof.viewer.cache_folder import CacheFolder
from tests.viewer.served import Served

FAST = Plan(steps=8, chips=1)
SLOW = FAST.changed("fusion.3", time_us=3200)
P50 = "steps.step_time_p50_ps"


def name_run(day: int) -> str:
    return f"2026_11_{day:02}_10_00_00"


def write(logs: Path, day: int, plan: Plan) -> Path:
    path = logs / "plugins" / "profile" / name_run(day) / "host0.xplane.pb"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(replace(plan, seed=day).captures()[0])
    return path


@pytest.fixture
def logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Nine runs; steps are 1 ms longer from the sixth on."""
    monkeypatch.setenv("FASTPROF_CACHE", str(tmp_path / "cache"))
    for day in range(1, 10):
        write(tmp_path / "logs", day, FAST if day < 6 else SLOW)
    return tmp_path / "logs"


def show(capsys: pytest.CaptureFixture[str], *args: object) -> str:
    assert main(["trends", *map(str, args)]) == 0
    return capsys.readouterr().out


def rows_of(capsys: pytest.CaptureFixture[str], *args: object) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(show(capsys, *args, "--format", "json"))["rows"]
    return rows


def test_a_row_is_a_figure_of_a_run_with_its_change_point(logs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = rows_of(capsys, logs, "--figure", "step_time_p50", "--figure", "gaps.idle_share")
    assert [row["run"] for row in rows] == 2 * [name_run(day) for day in range(9, 0, -1)]
    assert [row["figure"] for row in rows] == 9 * [P50] + 9 * ["gaps.idle_share"]
    median = [row["value"] for row in rows[:9]]
    report = fastprof.load(logs).report("steps")
    assert median[0] == report.scalars["step_time_p50_ps"].value and rows[0]["unit"] == "ps"
    (change,) = [row for row in rows[:9] if row["is_change_point"]]
    assert change["run"] == name_run(6)
    assert change["before"] == pytest.approx(sum(median[4:]) / 5) and change["after"] == pytest.approx(
        sum(median[:4]) / 4
    )
    assert change["change_share"] == pytest.approx(0.1, abs=0.01)
    assert all(row["change_share"] is None and row["before"] is None for row in rows[:9] if row is not change)
    assert fastprof.trends(logs, figures=["step_time_p50", "gaps.idle_share"]).to_pylist() == rows
    assert fastprof.trends(logs).column_names[:2] == ["run", "step_count"]


def test_people_read_the_latest_value_and_the_last_change(logs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = show(capsys, logs, "--figure", "step_time_p50", "--figure", "peak_memory", "--limit", "2")
    first, _, *table = text.splitlines()
    assert first == (
        f"step_time_p50: 10.96 ms in run {name_run(9)}; mean 10.95 ms since run {name_run(6)}, +10.0 % from 9.953 ms"
    )
    assert table[0].split() == ["run", "step_time_p50", "(ms)", "change", "(%)", "before", "(ms)", "after", "(ms)"]
    assert [line.split()[0] for line in table[1:3]] == [name_run(9), name_run(8)] and table[3] == ""
    assert table[4] == "peak_memory: unknown in 9 runs"
    assert "steps.step_time_max_ps: " in show(capsys, logs, "--figure", "steps.step_time_max_ps")
    assert show(capsys, logs, "--figure", "step_time_p50", "--limit", "0").splitlines() == [first, ""]
    (row, *_) = rows_of(capsys, logs, "--figure", "steps.steps_source")
    assert (row["value"], row["reason"]) == (None, "the figure is not a number")


def test_each_log_directory_is_a_series(logs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = tmp_path / "other"
    for day in (1, 2):
        write(other, day, SLOW)
    rows = rows_of(capsys, logs, other, "--figure", "step_time")
    assert [(row["logdir"], row["run"]) for row in rows[-3:]] == [
        (str(logs), name_run(1)), (str(other), name_run(2)), (str(other), name_run(1)),
    ]  # fmt: skip
    assert [row["run"] for row in rows if row["is_change_point"]] == [name_run(6)]
    text = show(capsys, logs, other, "--figure", "step_time", "--limit", "1")
    assert f"step_time in {other}: " in text and text.count(name_run(9)) == 2
    table = rows_of(capsys, logs, other, "--run", name_run(1))
    assert [row["logdir"] for row in table] == [str(logs), str(other)] and table[0]["step_count"] == 8


def test_tables_are_runs_and_figures(logs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for flags, columns in (
        ((), ["logdir", "run", "step_count"]),
        (("--figure", "step_time"), ["logdir", "run", "start_unix_ns"]),
    ):
        file = tmp_path / f"{len(flags)}.arrow"
        show(capsys, logs, "-o", file, *flags)
        with pa.ipc.open_file(file) as reader:
            table = reader.read_all()
        assert table.column_names[:3] == columns and table.num_rows == 9
    assert json.loads(show(capsys, logs, "--format", "json"))["table"] == "runs"
    assert json.loads(show(capsys, logs, "--format", "json", "--figure", "step_time"))["table"] == "figures"


def test_what_is_known_is_kept(logs: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    measured: list[tuple[str, tuple[str, ...]]] = []
    real = batch.measure_figures

    def counted(profile: fastprof.Profile, names: Sequence[str]) -> dict[str, dict[str, Any]]:
        measured.append((profile.run or "", tuple(names)))
        return real(profile, names)

    def measured_by(*flags: str) -> list[tuple[str, tuple[str, ...]]]:
        measured.clear()
        show(capsys, logs, *flags)
        return list(measured)

    monkeypatch.setattr(run_list, "measure_figures", counted)
    assert measured_by("--figure", "step_time_p50") == [(name_run(day), ("steps",)) for day in range(9, 0, -1)]
    assert measured_by("--figure", "step_time_p50") == measured_by("--figure", "steps.step_count") == []
    assert {names for _, names in measured_by("--figure", "step_time", "--figure", "device_idle")} == {("gaps",)}
    write(logs, 10, SLOW)
    assert measured_by("--figure", "device_idle", "--figure", "step_time") == [(name_run(10), ("gaps", "steps"))]
    write(logs, 3, SLOW)
    assert measured_by("--figure", "step_time") == [(name_run(3), ("steps",))]
    assert len(measured_by()) == 10
    assert measured_by("--figure", "diagnosis.finding_count", "--figure", "step_time") == []


def test_runs_that_cannot_be_read_have_a_reason(logs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(logs, 10, SLOW).write_bytes(b"no capture")
    assert main(["trends", str(logs), "--figure", "step_time_p50", "--format", "json"]) == 0
    printed = capsys.readouterr()
    broken, sound, *_ = json.loads(printed.out)["rows"]
    assert (broken["value"], broken["is_change_point"], sound["reason"]) == (None, None, None)
    assert "host0.xplane.pb" in broken["reason"] and f"fastprof: {name_run(10)}: " in printed.err
    assert main(["trends", str(logs), "--figure", "step_time_p50", "--run", name_run(10)]) == 4
    assert fastprof.trends(logs, figures="step_time_p50")["reason"][0].as_py() == broken["reason"]


def test_figures_that_do_not_exist_are_refused(logs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trends", str(logs), "--figure", "step_tim"]) == 2
    assert "no figure 'step_tim'; did you mean 'step_time'?" in capsys.readouterr().err
    assert main(["trends", str(logs), "--publish", "-"]) == 2
    assert "give --figure step_time_p50" in capsys.readouterr().err
    assert main(["trends", str(logs), "--figure", "step_time", "--publish", "x.txt"]) == 2
    assert "the name of the file ends in .jsonl or .prom, or is -" in capsys.readouterr().err
    with pytest.raises(UsageError, match=r"no figure 'steps.nothing'"):
        fastprof.trends(logs, figures=["steps.nothing"])


def test_figures_are_published(logs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = show(capsys, logs, "--figure", "step_time_p50", "--publish", "-", "--limit", "1").splitlines()
    assert len(lines) == 9
    first = json.loads(lines[0])
    assert {name: first[name] for name in ("logdir", "run", "figure", "unit")} == {
        "logdir": str(logs), "run": name_run(9), "figure": P50, "unit": "ps",
    }  # fmt: skip
    file = tmp_path / "figures.prom"
    show(capsys, logs, "--figure", "step_time_p50", "--figure", "peak_memory", "--publish", file)
    help_, kind, sample, *others = file.read_text().splitlines()
    assert help_ == f"# HELP fastprof_steps_step_time_p50_ps {P50} of fastprof, in ps"
    assert kind == "# TYPE fastprof_steps_step_time_p50_ps gauge" and len(others) == 8
    labels = f'{{logdir="{logs}",run="{name_run(9)}"}}'
    assert sample == f"fastprof_steps_step_time_p50_ps{labels} {first['value']}"
    assert main(["trends", str(logs), "--figure", "step_time_p50", "--publish", str(file)]) == 3
    assert "--force" in capsys.readouterr().err


def test_names_of_runs_are_escaped_and_unknown_values_left_out() -> None:
    known = {"gaps": {"start_unix_ns": 7, "problem": None, "figures": {"idle_share": (0.25, None)}}}
    runs = [RunFigures('C:\\logs "a"', "two\nlines", known), RunFigures("b", "gone", error="b: no such file")]
    table = make_figures_table(runs, ["device_idle"])
    assert b"".join(write_prometheus(table)).decode().splitlines()[2:] == [
        r'fastprof_gaps_idle_share{logdir="C:\\logs \"a\"",run="two\nlines"} 0.25'
    ]
    published = [json.loads(line) for line in write_json_lines(table)]
    assert published == [
        {"logdir": 'C:\\logs "a"', "run": "two\nlines", "start_unix_ns": 7, "figure": "gaps.idle_share",
         "value": 0.25, "unit": "share", "reason": None},
        {"logdir": "b", "run": "gone", "start_unix_ns": None, "figure": "gaps.idle_share",
         "value": None, "unit": "share", "reason": "b: no such file"},
    ]  # fmt: skip
    assert b"".join(write_prometheus(table.slice(1))) == b""


def test_a_log_directory_may_have_any_name(logs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    named = logs.rename(os.fsdecode(bytes(logs.parent) + b'/l\xff"gs'))
    rows = rows_of(capsys, named, "--figure", "step_time")
    assert rows[0]["logdir"].endswith('/l\\xff"gs') and rows_of(capsys, named)[0]["logdir"] == rows[0]["logdir"]
    assert fastprof.trends(named, figures="step_time").to_pylist() == rows


def test_runs_without_a_value_are_passed_over() -> None:
    values = [None, 12.1, None, 11.9, 12.0, 12.1, 10.0, 10.1, None, 9.9, 10.0, 10.1]
    (change,) = list_changes([(str(at), value) for at, value in enumerate(values)])
    assert change["run"] == "5" and change["after"] == pytest.approx(12.025)


def test_the_page_gets_change_points(logs: Path, tmp_path: Path) -> None:
    served = Served(str(logs), cache=CacheFolder(tmp_path / "cache"))
    while (answer := served.get("/api/trends"))["pending"]:
        time.sleep(0.005)
    median, *_ = [row for row in answer["changes"]["rows"] if row["column"] == "step_time_p50_ps"]
    assert median["run"] == name_run(6) and median["change_share"] == pytest.approx(0.1, abs=0.01)
    assert {row["column"] for row in answer["changes"]["rows"]} <= {one["name"] for one in answer["trends"]["columns"]}


def test_runs_say_when_their_step_time_changed(logs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trends", str(logs), "--format", "json"]) == 0
    shown = capsys.readouterr()
    shares = {row["run"]: row["step_time_change_share"] for row in json.loads(shown.out)["rows"]}
    assert {run for run, share in shares.items() if share is not None} == {name_run(6)}
    assert shares[name_run(6)] == pytest.approx(0.1, rel=0.1)
    assert f"step time changed at run {name_run(6)}: mean +10." in shown.err
    table = fastprof.trends(logs).to_pylist()
    assert {row["run"]: row["step_time_change_share"] for row in table} == shares
