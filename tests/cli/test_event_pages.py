"""fastprof events: percentiles, any order, lengths, and pages, on a capture."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from trace_builder import event, line, plane, xspace

import fastprof
from fastprof.cli.main import main
from fastprof.profile import event_page

US = 1_000_000
EVENTS = [
    event("step", 0, 9000 * US), event("matmul", 10 * US, 2500 * US), event("copy", 2600 * US, 500 * US),
    event("matmul", 3200 * US, 1500 * US), event("matmul", 5000 * US, 3000 * US), event("agg", 8500 * US, 40 * US),
]  # fmt: skip


class Ran:
    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err


@pytest.fixture
def ask(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    path = tmp_path / "a.xplane.pb"
    path.write_bytes(xspace(plane("/host:CPU", [line("main", EVENTS, id=1)])))

    def run(*words: str) -> Ran:
        code = main(["events", str(path), *words])
        return Ran(code, *capsys.readouterr())

    return run


def test_percentiles_are_recorded_durations(ask: Callable[..., Ran]) -> None:
    assert ask("--percentiles", "50,100,50", "--format", "csv", "--name", "m|c").out == (
        "name,count,total_ps,self_ps,mean_ps,min_ps,max_ps,p50_ps,p100_ps\n"
        "matmul,3,7000000000,7000000000,2333333333,1500000000,3000000000,2500000000,3000000000\n"
        "copy,1,500000000,500000000,500000000,500000000,500000000,500000000,500000000\n"
    )
    ran = ask("--percentiles", "0")
    assert (ran.code, "'0' is not a list of integers from 1 to 100" in ran.err) == (2, True)


def test_sums_are_sorted_by_any_column(ask: Callable[..., Ran]) -> None:
    def names(*words: str) -> list[str]:
        rows = json.loads(ask("--format", "json", *words).out)["rows"]
        return [row["name"] for row in rows]

    assert names("--sort", "max_ps", "--offset", "1")[:2] == ["matmul", "copy"]
    assert names("--sort", "count:asc")[-1] == "matmul"
    assert names("--sort", "name:asc")[0] == "agg"
    ran = ask("--sort", "mx_ps")
    assert (ran.code, ran.out) == (2, "") and "no column 'mx_ps' to sort by" in ran.err and "max_ps" in ran.err


def test_events_are_listed_by_length_page_by_page(ask: Callable[..., Ran]) -> None:
    def listed(*words: str) -> list[tuple[str, int]]:
        ran = ask("--list", "--columns", "name,duration_ps", "--format", "json", *words)
        return [(row["name"], row["duration_ps"]) for row in json.loads(ran.out)["rows"]]

    every = listed("--sort", "duration_ps")
    assert [duration for _, duration in every] == sorted((duration for _, duration in listed()), reverse=True)
    assert listed("--sort", "duration_ps", "--limit", "2", "--offset", "1") == every[1:3]
    assert listed("--sort", "duration_ps:asc", "--limit", "all") == sorted(every, key=lambda row: row[1])
    assert listed("--offset", "2") == listed()[2:]
    between = listed("--min-duration", "500us", "--max-duration", "2500us")
    assert between == [row for row in listed() if 500_000_000 <= row[1] <= 2_500_000_000] and between
    ran = ask("--list", "--sort", "duration_ps", "--limit", "1")
    assert ran.err == f"fastprof: showing 1 of {len(every)} events; --limit all shows the others\n"
    assert ask("--min-duration", "1us").code == 2
    ran = ask("--list", "--min-duration", "300")
    assert ran.code == 2 and "'300' has no unit; write ps, ns, us, ms or s, as in 300us" in ran.err


def test_an_empty_page_says_why_and_a_later_one_keeps_the_total(ask: Callable[..., Ran]) -> None:
    assert ask("--list", "--offset", "1000").err == "fastprof: no rows after the first 1,000: there are 6\n"
    assert ask("--offset", "100").err == "fastprof: no rows after the first 100: there are 4\n"
    assert ask("--list", "--min-duration", "2s", "--max-duration", "1s").err == "fastprof: no event has this duration\n"
    assert ask("--offset", "3").err == "fastprof: showing 1 of 4 names after the first 3\n"
    for words, table in ((("--offset", "3"), "event_summary"), (("--list", "--offset", "5"), "events")):
        shown = json.loads(ask(*words, "--brief").out)["tables"][table]
        assert shown["total"] == (4 if table == "event_summary" else 6) and len(shown["rows"]) == 1


def test_suggested_names_are_short(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    long = [event(f"%fusion.{number} = " + "f32[8,128] " * 40, number * 100, 50) for number in range(9)]
    (tmp_path / "a.xplane.pb").write_bytes(xspace(plane("/host:CPU", [line("main", long, id=1)])))
    assert main(["events", str(tmp_path), "--name", "zzzz"]) == 0
    note = capsys.readouterr().err
    assert "no event matches 'zzzz'; available: %fusion.0 = " in note and len(note) < 500


def test_a_page_of_many_events_equals_all_events_sorted(tmp_path: Path) -> None:
    events = [event("e", at * 100, (at * 7919) % 97) for at in range(3000)]
    (tmp_path / "a.xplane.pb").write_bytes(xspace(plane("/host:CPU", [line("main", events, id=1)])))
    profile = fastprof.load(tmp_path)
    whole = profile.event_table(["start_ps", "duration_ps"]).to_pylist()
    wanted = sorted(whole, key=lambda row: -row["duration_ps"])[40:60]
    page = event_page.list_events(profile, columns=["start_ps", "duration_ps"], sort="duration_ps", offset=40, limit=20)
    assert (page.rows.to_pylist(), page.total) == (wanted, 3000)
