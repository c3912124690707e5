"""Exports read back as the tables that they were: layout, hosts, runs, filters, the log, progress, memory."""

from __future__ import annotations

import tracemalloc
from itertools import pairwise
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.dataset as ds
import pytest
from exported import DEFAULT_TABLES, START_NS, check_export, files, log_rows, plain, put_run, read_back
from gate import few, rounds, typical_captures
from random_spaces import random_space
from small_cuts import cut_small
from trace_builder import Line, Wire, event, len_field, line, plane, stat, task_environment, xspace

import fastprof
from fastprof.export import folders, hive
from fastprof.tables.table_set import TABLES

EVERY = tuple(TABLES)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return put_run(tmp_path / "run")


# ---- what is written --------------------------------------------------------------------------------


def test_a_folder_a_table_and_a_folder_a_host(run: Path, tmp_path: Path) -> None:
    out = folders.write(fastprof.load(run), tmp_path / "out")
    assert out == tmp_path / "out"
    assert files(out) == sorted(f"{table}/host={h}/part-0.parquet" for table in DEFAULT_TABLES for h in ("vm0", "vm1"))
    assert set(EVERY) - set(DEFAULT_TABLES) == {"nesting", "flows", "hlo_costs"}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "run"]


@pytest.mark.parametrize("row_group", [1, 5, 1 << 20])
@pytest.mark.parametrize("threads", [1, 2])
def test_every_table_reads_back(
    row_group: int, threads: int, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the row groups: events, stats and nesting go on over their seams."""
    profile = fastprof.load(run)
    monkeypatch.setattr(hive, "ROW_GROUP", row_group)
    cut_small(monkeypatch)
    folders.write(fastprof.load(run, threads=threads), tmp_path / "out", tables=EVERY)
    check_export(tmp_path / "out", profile)
    for name in ("events", "event_stats", "event_metadata", "plane_stats", "nesting", "hosts"):
        assert read_back(tmp_path / "out", name).num_rows > 1


@pytest.mark.parametrize("block", few(range(4), 1))
def test_random_captures_read_back(block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(block * 6, block * 6 + rounds(6, 2)):
        session = [random_space(2 * seed), random_space(2 * seed + 1, well_written=True)]
        session = [data + len_field(4, b"") for data in session]
        profile = fastprof.load(session)
        with monkeypatch.context() as patch:
            patch.setattr(hive, "ROW_GROUP", 4)
            cut_small(patch)
            folders.write(fastprof.load(session), tmp_path / str(seed), tables=EVERY)
        check_export(tmp_path / str(seed), profile)


@typical_captures
def test_real_captures_read_back(capture: Path, tmp_path: Path) -> None:
    profile = fastprof.load(capture)
    folders.write(fastprof.load(capture), tmp_path / "out", tables=EVERY)
    check_export(tmp_path / "out", profile)


def test_a_profile_writes_itself(run: Path, tmp_path: Path) -> None:
    profile = fastprof.load(run)
    profile.to_parquet(tmp_path / "out", tables=["lines", "nesting", "lines"], layout="paths")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["lines", "nesting", "session.json"]
    check_export(tmp_path / "out", profile, ["lines", "nesting"])
    with pytest.raises(fastprof.OutputError, match="already exists"):
        profile.to_parquet(str(tmp_path / "out"), layout="paths")
    profile.to_parquet(str(tmp_path / "out"), force=True, layout="paths")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == sorted([*DEFAULT_TABLES, "session.json"])


def test_duckdb_reads_it(run: Path, tmp_path: Path) -> None:
    out = folders.write(fastprof.load(run), tmp_path / "out", tables=EVERY)

    def ask(question: str, table: str) -> list[tuple[Any, ...]]:
        source = f"read_parquet('{out}/{table}/*/*.parquet', hive_partitioning = true)"
        return duckdb.sql(question.format(source)).fetchall()

    per_host = "select host, count(*) from {} group by host order by host"
    profile = fastprof.load(run)
    for name in EVERY:
        counts = [(h, profile.select(hosts=h).tables[name].num_rows) for h in ("vm0", "vm1")]
        if name != "import_log":
            assert ask(per_host, name) == [(h, n) for h, n in counts if n], name
    assert ask("select sum(duration_ps) from {} where name = 'step'", "events") == [(2 * 6 * 600,)]
    assert ask("select distinct str_value from {} where stat = 'host' order by all", "event_stats") == [
        ("h0",), ("h1",), ("日本語",),
    ]  # fmt: skip
    assert ask("select max(depth), sum(self_time_ps) from {}", "nesting") == [(2, 2 * (6 * 600 + 15 + 3))]


def test_a_capture_without_events_or_planes(tmp_path: Path) -> None:
    """All tables are there, with their columns and no rows."""
    for number, data in enumerate((len_field(4, "vm"), xspace(plane("p", [line("idle")]), hostnames=["vm"]))):
        out = folders.write(fastprof.load(data), tmp_path / str(number), tables=EVERY)
        assert files(out) == sorted(f"{name}/host=vm/part-0.parquet" for name in EVERY)
        check_export(out, fastprof.load(data))
        for name, table in TABLES.items():
            tables = read_back(out, name)
            assert set(tables.column_names) == {*table.names(), "host"}
            assert tables.num_rows == (name == "hosts" or (number == 1 and name in ("planes", "lines")))


def test_what_makes_no_sense(run: Path, tmp_path: Path) -> None:
    profile = fastprof.load(run)
    for wrong, says in (
        ({"format": "json"}, "no export format 'json'; there are: parquet, arrow, csv"),
        ({"tables": ["events", "event"]}, "no table 'event'; there are: hosts, planes"),
        ({"tables": []}, "nothing to export: the list of tables is empty"),
    ):
        with pytest.raises(fastprof.UsageError, match=says):
            folders.write(profile, tmp_path / "out", **wrong)  # type: ignore[arg-type]
    with pytest.raises(fastprof.UsageError, match="no host is selected"):
        folders.write(profile.select(hosts=[]), tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


# ---- hosts and runs ---------------------------------------------------------------------------------

ODD = (
    "a/b",
    "../../up",
    "..",
    ".",
    "50%",
    "%2F",
    "a b",
    "größer 日本語 🎉",
    "k=v",
    "a+b&c?d#e",
    "tab\tline\n",
    "\\",
    "'",
)


def test_hosts_of_odd_names(tmp_path: Path) -> None:
    """Each has one folder, nothing is written elsewhere, and readers get the name itself."""
    step = plane("p", [line("l", [event("e", 0, 7)])])
    profile = fastprof.load([xspace(step, hostnames=[name]) for name in (*ODD, "")])
    names = [*ODD, "unknown"]
    assert profile.hosts["host"].to_pylist() == names
    out = folders.write(profile, tmp_path / "out", tables=["events", "hosts"])
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    written = sorted(path.name for path in (out / "events").iterdir())
    assert len(written) == len(names) == len(files(out / "events"))
    assert "host=..%2F..%2Fup" in written and "host=50%25" in written
    for table in ("events", "hosts"):
        assert sorted(read_back(out, table)["host"].to_pylist()) == sorted(names)
    rows = duckdb.sql(f"select host from read_parquet('{out}/events/*/*.parquet', hive_partitioning = true)").fetchall()
    assert sorted(host for (host,) in rows) == sorted(names)


def test_numbered_hosts_have_folders_of_their_own(tmp_path: Path) -> None:
    places = [put_run(tmp_path / name, ["vm"]) for name in ("a", "b")]
    profile = fastprof.load([place / "vm.xplane.pb" for place in places])
    out = folders.write(profile, tmp_path / "out")
    assert sorted(path.name for path in (out / "events").iterdir()) == ["host=vm", "host=vm%232"]
    check_export(out, profile, DEFAULT_TABLES)


def test_several_runs_have_a_folder_each(tmp_path: Path) -> None:
    """Ids are those of the session, so that tables join over all runs."""
    places = [put_run(tmp_path / "plugins" / "profile" / run, hosts) for run, hosts in RUNS.items()]
    profile = fastprof.load(places)
    out = folders.write(profile, tmp_path / "out", tables=EVERY)
    assert [name for name in files(out) if name.startswith("lines")] == [
        "lines/run=2/host=vm/part-0.parquet",
        "lines/run=first%20run/host=vm/part-0.parquet",
        "lines/run=first%20run/host=vm2/part-0.parquet",
    ]
    for table in EVERY:
        names = [name for name in TABLES[table].names() if name not in ("run", "host")]
        of_host = table in ("hosts", "planes", "events")
        keys = ["run", "host"] if of_host else ["run"]
        rows = [
            tuple(map(repr, row.values()))
            for row in read_back(out, table, ("run", "host")).select(names + keys).to_pylist()
        ]
        whole = [
            tuple(map(repr, row.values())) for row in plain(profile.tables[table].select(names + keys)).to_pylist()
        ]
        assert sorted(rows) == sorted(whole), table
    pattern = f"{out}/lines/*/*/*.parquet"
    rows = duckdb.sql(f"select distinct run, host from read_parquet('{pattern}', hive_partitioning = true)").fetchall()
    assert {(str(run), host) for run, host in rows} == {(run, host) for run, hosts in RUNS.items() for host in hosts}
    narrow = folders.write(profile.select(runs="2"), tmp_path / "narrow", tables=["events"])
    assert files(narrow) == ["events/run=2/host=vm/part-0.parquet"]
    assert read_back(narrow, "events")["event_id"][0].as_py() == profile.select(runs="2").events["event_id"][0].as_py()
    folders.write(profile, out, force=True)


RUNS = {"first run": ["vm", "vm2"], "2": ["vm"]}


def test_runs_that_are_hosts_of_one_run_have_no_folder(tmp_path: Path) -> None:
    for name in ("one", "two"):
        put_run(tmp_path / "plugins" / "profile" / name, ["vm"])
    profile = fastprof.load(f"{tmp_path}/plugins/profile/*", as_hosts=True)
    out = folders.write(profile, tmp_path / "out", tables=["lines"])
    assert files(out) == ["lines/host=vm%232/part-0.parquet", "lines/host=vm/part-0.parquet"]


def test_an_export_of_several_runs_is_one_stage_of_progress(tmp_path: Path) -> None:
    places = [put_run(tmp_path / run, hosts) for run, hosts in RUNS.items()]
    seen: list[tuple[int, int]] = []
    folders.write(
        fastprof.load(places),
        tmp_path / "out",
        progress=lambda stage, done, total: seen.append((done, total)) if stage == "exporting" else None,
    )
    assert seen == sorted(seen) and {total for _, total in seen} == {78} and seen[-1][0] == 78


def test_one_run_keeps_its_name(tmp_path: Path) -> None:
    """If no folder names the run, the table of hosts does."""
    run = put_run(tmp_path / "plugins" / "profile" / "2026_01_02_03_04_05")
    out = folders.write(fastprof.load(tmp_path), tmp_path / "out")
    assert read_back(out, "hosts")["run"].to_pylist() == ["2026_01_02_03_04_05"] * 2
    assert read_back(out, "hosts")["path"].to_pylist() == [str(run / f"vm{n}.xplane.pb") for n in (0, 1)]


# ---- filters ----------------------------------------------------------------------------------------

CONDITIONS: dict[str, dict[str, Any]] = {
    "host": {"hosts": "vm1"},
    "plane": {"planes": "TPU"},
    "line": {"lines": "queue"},
    "name": {"names": r"^op\.[24]$|late"},
    "time": {"time_ps": (2100, 4151)},
    "all": {
        "hosts": ["vm0"],
        "planes": "CPU",
        "lines": ["main", "queue"],
        "names": "step|late|b",
        "time_ps": (0, 3000),
    },
    "nothing": {"names": "no event is called so"},
}


@pytest.mark.parametrize("case", CONDITIONS)
def test_a_selection_is_exported(case: str, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The events selected, with the ids and the nesting that they have in the whole."""
    chosen = fastprof.load(run).select(**CONDITIONS[case])
    monkeypatch.setattr(hive, "ROW_GROUP", 3)
    cut_small(monkeypatch)
    out = folders.write(fastprof.load(run).select(**CONDITIONS[case]), tmp_path / "out", tables=EVERY)
    hosts = {name.split("/")[1] for name in files(out)}
    assert hosts == {f"host={host}" for host in chosen.hosts["host"].to_pylist()}
    check_export(out, chosen, [name for name in EVERY if name != "import_log"])
    assert (chosen.events.num_rows == 0) == (case == "nothing")


# ---- the log ----------------------------------------------------------------------------------------


def test_rows_of_the_log_lie_with_their_host(tmp_path: Path) -> None:
    """Those of no host, such as files that were left out, lie with the first."""
    run = put_run(tmp_path / "run", ["b", "c"])
    twin = plane("p", [line("l", [event("e")], id=1), line("l", [event("e")], id=1)])
    (run / "c.xplane.pb").write_bytes(xspace(twin, twin, task_environment(START_NS)))
    (run / "a.xplane.pb").write_bytes(b"broken")
    profile = fastprof.load(run, on_error="skip")

    def codes(**selected: Any) -> list[tuple[str, str]]:
        out = folders.write(profile.select(**selected), tmp_path / "out", force=True)
        table = read_back(out, "import_log")
        rows = sorted(zip(table["host"].to_pylist(), table["code"].to_pylist(), strict=True))
        assert len(files(out / "import_log")) == len(profile.select(**selected).hosts)
        return rows

    assert codes() == [("b", "skipped_host"), ("c", "merged_lines"), ("c", "merged_planes")]
    assert codes(hosts="b") == [("b", "skipped_host")]
    assert codes(hosts="c") == [("c", "merged_lines"), ("c", "merged_planes"), ("c", "skipped_host")]
    check_export(folders.write(profile, tmp_path / "all"), profile, ["import_log"])


def test_what_an_export_meets_is_in_its_log(tmp_path: Path) -> None:
    """The log is written last, of whichever host: reading another table may add to it."""
    bad = xspace(plane("p", stats=[stat("x", "y", Wire(after=len_field(5, b"\xff")))]))
    profile = fastprof.load([xspace(plane("p")), bad], on_error="salvage")
    assert profile.remarks()["code"].to_pylist() == ["duplicate_host"]
    out = folders.write(profile, tmp_path / "out", tables=["import_log", "plane_stats"])
    assert [code for code, _, _ in log_rows(read_back(out, "import_log"))] == ["bad_utf8", "duplicate_host"]


# ---- progress ---------------------------------------------------------------------------------------

PROGRESS: dict[str, tuple[dict[str, Any], list[str] | None, int]] = {
    "all tables of a capture": ({}, None, 2 * 26),
    "events": ({}, ["events"], 2 * 26),
    "stats and lines": ({}, ["lines", "event_stats"], 2 * 26),
    "nesting is read twice": ({}, ["nesting"], 2 * 2 * 26),
    "both": ({}, ["nesting", "events", "hosts"], 3 * 2 * 26),
    "of one host": ({"hosts": "vm1"}, ["events"], 26),
    "of one line": ({"lines": "XLA"}, ["events"], 2),
    "some events of a line": ({"names": "step", "lines": "main"}, ["events", "nesting"], 3 * 2 * 18),
    "small tables": ({}, ["lines", "planes", "import_log"], 2 * 3),
    "no events": ({"lines": "idle"}, ["lines", "events"], 2 * 2),
}


@pytest.mark.parametrize("case", PROGRESS)
def test_progress_is_one_stage_over_all_hosts(
    case: str, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    selected, tables, total = PROGRESS[case]
    monkeypatch.setattr(hive, "ROW_GROUP", 4)
    cut_small(monkeypatch)
    calls: list[tuple[str, int, int]] = []
    profile = fastprof.load(run).select(**selected)
    folders.write(profile, tmp_path / "out", tables=tables, progress=lambda *now: calls.append(now))
    stages = [stage for stage, _, _ in calls]
    assert list(dict.fromkeys(stages)) == ["indexing", "exporting"]
    assert stages == sorted(stages, reverse=True)
    exporting = [(done, whole) for stage, done, whole in calls if stage == "exporting"]
    assert {whole for _, whole in exporting} == {total}
    done = [count for count, _ in exporting]
    assert done == sorted(done) and done[-1] == total
    assert len(set(done)) > 1
    if "names" not in selected:  # a row group a step; the line that has to be sorted is one
        assert max(after - before for before, after in pairwise([0, *done])) <= 7


def test_progress_is_reported_this_export_only(run: Path, tmp_path: Path) -> None:
    """Afterwards, and without a callable, the profile's own hears again."""
    own: list[str] = []
    profile = fastprof.load(run, progress=lambda stage, *_: own.append(stage))
    folders.write(profile, tmp_path / "a", progress=lambda *_: None)
    assert own == []
    folders.write(profile, tmp_path / "b", tables=["events"])
    assert set(own) == {"exporting"}


# ---- memory -----------------------------------------------------------------------------------------


def peak_of_export(data: bytes, out: Path, layout: str) -> int:
    profile = fastprof.load(data, threads=1)
    profile.lines  # noqa: B018 - what is known of the structure grows with the file, by little
    tracemalloc.start()
    profile.to_parquet(out, tables=["events", "event_stats", "nesting"], layout=layout)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


@pytest.mark.parametrize("layout", ["paths", "dataset"])
def test_memory_is_that_of_a_row_group(layout: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten times the events do not take ten times as much."""
    monkeypatch.setattr(hive, "ROW_GROUP", 1000)
    cut_small(monkeypatch, segment_bytes=1 << 12, block_bytes=1 << 13)
    body = plane("p", [line("l", [event("e", i, 1, {"a": i, "b": f"text {i % 9}"}) for i in range(500)])])
    events = body.lines[0]
    assert isinstance(events, Line)

    def lines(count: int) -> bytes:
        return xspace(plane("p", [Line("l", events.events, id=number) for number in range(count)]), hostnames=["vm"])

    few, many = lines(8), lines(80)
    assert fastprof.load(many).events.num_rows == 40_000
    small, large = peak_of_export(few, tmp_path / "few", layout), peak_of_export(many, tmp_path / "many", layout)
    assert large < 3 * small, (small, large)  # one share may be written while the next is decoded, or not yet
    assert ds.dataset(tmp_path / "many" / "nesting").count_rows() == 40_000


def test_of_traces_flows_are_written_and_no_empty_tables_of_programs(tmp_path: Path) -> None:
    event = '{"ph":"%s","name":"n","cat":"c","id":1,"pid":1,"tid":1,"ts":%d%s}'
    slice_ = event % ("X", 1, ',"dur":5')
    others = {name for name in DEFAULT_TABLES if not name.startswith(("hlo_", "tfprof_"))}
    for name, events, more in (
        ("plain", [slice_], set()),
        ("flow", [slice_, event % ("s", 2, ""), event % ("f", 4, ',"bp":"e"')], {"flows"}),
    ):
        out = folders.write(fastprof.load(f"[{','.join(events)}]".encode()), tmp_path / name)
        assert {path.split("/")[0] for path in files(out)} == others | more
    assert ds.dataset(out / "flows", partitioning="hive").to_table()["category"].to_pylist() == ["c"]
