"""A dataset read back: rows, ids, hosts, sort order, schemas, sizes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from equal_reports import DEMO
from exported import DEFAULT_TABLES, START_NS, log_rows, plain, put_run
from gate import few, rounds
from small_cuts import cut_small
from trace_builder import event, line, plane, xspace

import fastprof
from fastprof.export import dataset_files, hive
from fastprof.tables.table_set import TABLES

EVERY = tuple(TABLES)


def read(out: Path, table: str, run: str | None = None) -> pa.Table:
    rows = ds.dataset(out / table).to_table()
    return rows if run is None else rows.filter(pc.equal(rows["run"], run))


def names(out: Path) -> list[str]:
    return sorted(path.relative_to(out).as_posix() for path in out.rglob("*") if path.is_file())


def check_run(out: Path, run: str, captures: dict[str, Path], tables: tuple[str, ...] = EVERY) -> None:
    """Each host's rows are those of its capture loaded alone."""
    for table in tables:
        rows = read(out, table, run)
        assert rows.column_names[:2] == ["run", "host"]
        for host, path in captures.items():
            expected = plain(fastprof.load(path).tables[table])
            columns = [name for name in expected.column_names if name not in ("run", "host")]
            written = plain(rows.filter(pc.equal(rows["host"], host)).select(columns))
            if table == "import_log":
                assert log_rows(written) == log_rows(expected)
            else:
                assert written.equals(expected.select(columns)), (table, host)
        assert set(rows["host"].to_pylist()) <= {*captures}


@pytest.mark.parametrize(("row_group", "group"), few([(4, 1), (4, 1 << 20), (1 << 20, 1), (1 << 20, 1 << 20)], 2))
def test_every_table_of_two_runs_reads_back(
    row_group: int, group: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ids begin at 0 on each host, in files of one host as in files of several."""
    monkeypatch.setattr(hive, "ROW_GROUP", row_group)
    monkeypatch.setattr(dataset_files, "LARGEST_GROUP", group)
    cut_small(monkeypatch)
    out, runs = tmp_path / "out", {"first run": ["vm0", "vm1", "010", "10"], "2": ["größer"]}
    for run, hosts in runs.items():
        folder = put_run(tmp_path / "plugins/profile" / run, hosts)
        fastprof.load(folder).to_parquet(out, tables=EVERY)
    with monkeypatch.context() as patch:
        patch.undo()
        for run, hosts in runs.items():
            folder = tmp_path / "plugins/profile" / run
            check_run(out, run, {host: folder / f"{host}.xplane.pb" for host in hosts})
    assert read(out, "hosts").schema.field("start_time").type == pa.timestamp("us", "UTC")
    starts = read(out, "hosts", "first run")["start_time"].cast(pa.int64())
    exact = read(out, "hosts", "first run")["start_unix_ns"].to_pylist()
    assert starts.to_pylist() == [moment // 1000 for moment in exact]
    assert sorted(exact) == [START_NS + number for number in range(4)]
    first = read(out, "runs", "first run")
    assert first["start_unix_ns"].to_pylist() == [START_NS]
    assert first["start_time"].cast(pa.int64()).to_pylist() == [START_NS // 1000]


def test_small_tables_are_a_file_a_run_and_empty_tables_too(tmp_path: Path) -> None:
    fastprof.load(put_run(tmp_path / "run", ["vm0", "vm1"])).to_parquet(tmp_path / "out", tables=EVERY)
    of_hosts = {f"{table}/run=run/host-00000-00001-0.parquet" for table in ("events", "event_stats", "nesting")}
    small = {f"{table}/run=run/part-0.parquet" for table in {*EVERY, "runs"} - {"events", "event_stats", "nesting"}}
    ours = {"_fastprof/format.json", "_fastprof/runs/run.json"}
    assert names(tmp_path / "out") == sorted(of_hosts | small | ours)
    assert read(tmp_path / "out", "hlo_costs").num_rows == 0
    idle = tmp_path / "idle.xplane.pb"
    idle.write_bytes(xspace(plane("p", [line("idle")])))
    fastprof.load(idle).to_parquet(tmp_path / "out", tables=["events", "lines"])
    assert "events/run=idle/part-0.parquet" in names(tmp_path / "out")
    assert read(tmp_path / "out", "events", "idle").num_rows == 0 and read(tmp_path / "out", "lines", "idle").num_rows


def test_a_row_group_has_one_host_and_is_sorted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Null starts, of aggregated events, come last on their line."""
    monkeypatch.setattr(hive, "ROW_GROUP", 8)
    cut_small(monkeypatch)
    fastprof.load(put_run(tmp_path / "run")).to_parquet(tmp_path / "out", tables=["events", "event_stats", "nesting"])
    for table, keys in (("events", ["line_id", "start_ps"]), ("event_stats", ["event_id"]), ("nesting", ["event_id"])):
        file = pq.ParquetFile(tmp_path / "out" / table / "run=run" / "host-00000-00001-0.parquet")
        assert file.num_row_groups > 2
        for number in range(file.num_row_groups):
            rows, group = file.read_row_group(number), file.metadata.row_group(number)
            assert rows["host"].unique().to_pylist() == [group.column(1).statistics.min]
            assert [rows.column_names[part.column_index] for part in group.sorting_columns] == keys
            values = [
                tuple((value is None, value or 0) for value in row.values()) for row in rows.select(keys).to_pylist()
            ]
            assert values == sorted(values), table
    nulls = pc.sum(pc.is_null(read(tmp_path / "out", "events")["start_ps"])).as_py()
    assert nulls == 2


def test_metadata_is_of_the_file_alone(tmp_path: Path) -> None:
    fastprof.load(put_run(tmp_path / "run", [f"vm{i}" for i in range(9)])).to_parquet(tmp_path / "out")
    about = pq.read_schema(tmp_path / "out/lines/run=run/part-0.parquet").metadata
    assert b"sources" not in about and about[b"fastprof.schema_version"]
    about = pq.read_schema(tmp_path / "out/events/run=run/host-00000-00008-0.parquet").metadata
    assert [source["host"] for source in json.loads(about[b"sources"])] == [f"vm{i}" for i in range(9)]


def test_the_runs_table_and_the_manifest(tmp_path: Path) -> None:
    run = put_run(tmp_path / "plugins/profile/r", ["vm0", "vm1"])
    out = tmp_path / "out"
    fastprof.load(run).to_parquet(out)
    row = plain(read(out, "runs").drop_columns("start_time")).to_pylist()[0]
    size = sum(path.stat().st_size for path in run.iterdir())
    assert (row["run"], row["name"], row["path"], row["hosts"], row["size_bytes"]) == ("r", "r", str(run), 2, size)
    manifest = json.loads((out / "_fastprof/runs/r.json").read_text())
    assert [host["host"] for host in manifest["hosts"]] == ["vm0", "vm1"]
    listed = {file["name"]: file for file in manifest["files"]}
    assert sorted(listed) == [name for name in names(out) if not name.startswith("_fastprof/")]
    for name, file in listed.items():
        assert file["bytes"] == (out / name).stat().st_size
        assert file["rows"] == pq.read_metadata(out / name).num_rows
    assert manifest["faults"] == [] and row["content"] == manifest["content"]


def test_flat_lists_and_maps_are_json(tmp_path: Path) -> None:
    fastprof.load(put_run(tmp_path / "run")).to_parquet(tmp_path / "out", flat=True, reports=["steps"])
    for table in DEFAULT_TABLES:
        assert not [field for field in read(tmp_path / "out", table).schema if pa.types.is_nested(field.type)]
    row = plain(read(tmp_path / "out", "hosts").drop_columns("start_time")).to_pylist()[1]
    assert json.loads(row["hostnames"]) == ["vm1"] and json.loads(row["task_environment"])["note"] == 'say "hi"'


def test_duckdb_reads_all_runs_and_reports(tmp_path: Path) -> None:
    out = tmp_path / "out"
    for name in ("pod", "logdir", "xla"):
        fastprof.load(DEMO / name).to_parquet(out, tables=EVERY, reports=["op-stats", "steps", "op-stats"])
    for table in EVERY:
        there = duckdb.sql(
            f"select run, count(*) from read_parquet('{out}/{table}/*/*.parquet') group by run"
        ).fetchall()
        expected = {}
        for name in ("pod", "logdir", "xla"):
            profile = fastprof.load(DEMO / name)
            expected[profile.run] = profile.tables[table].num_rows
        assert dict(there) == {run: count for run, count in expected.items() if count}, table
    at = duckdb.sql(
        f"""select count(*) from read_parquet('{out}/events/*/*.parquet') events
            join read_parquet('{out}/lines/*/*.parquet') lines using (run, host, line_id)"""
    ).fetchall()
    assert at == duckdb.sql(f"select count(*) from read_parquet('{out}/events/*/*.parquet')").fetchall()


def test_reports_are_tables(tmp_path: Path) -> None:
    profile = fastprof.load(DEMO / "pod")
    profile.to_parquet(tmp_path / "out", tables=["hosts"], reports=["op-stats", "overview"])
    report = profile.report("op_stats")
    for name, table in report.tables.items():
        written = read(tmp_path / "out", f"op_stats.{name}")
        assert written.column_names[:2] == ["run", "job"]
        assert plain(written.select(table.column_names)).equals(plain(table)), name
    figures = read(tmp_path / "out", "figures").to_pylist()
    assert {row["report"] for row in figures} == {"op_stats", "overview"}
    for row in figures:
        scalar = profile.report(row["report"]).scalars[row["figure"]]
        values = [row[name] for name in ("int_value", "double_value", "text_value") if row[name] is not None]
        assert (values or [None]) == [scalar.value] and (row["unit"], row["reason"]) == (scalar.unit, scalar.reason)
    notices = read(tmp_path / "out", "notices").to_pylist()
    assert [row["text"] for row in notices if row["report"] == "overview"] == [
        notice.text for notice in profile.report("overview").notices
    ]
    with pytest.raises(fastprof.UsageError, match=r"no report 'overvew'; .* did you mean 'overview'"):
        profile.to_parquet(tmp_path / "out", reports=["overvew"])


def test_jobs_of_a_run_are_kept_apart(tmp_path: Path) -> None:
    trace = (
        '{"distributedInfo": {"rank": 0, "world_size": %d}, "traceEvents": [{"ph": "X", "pid": 1, "tid": 1, "ts": 1,'
    )
    trace += ' "dur": 5, "name": "ProfilerStep#1", "cat": "user_annotation"}]}'
    for number, world in enumerate((1, 2)):
        (tmp_path / f"rank{number}.pt.trace.json").write_text(trace % world)
    profile = fastprof.load([tmp_path / "rank0.pt.trace.json", tmp_path / "rank1.pt.trace.json"], as_hosts=True)
    jobs = list(profile.report("overview").runs)
    profile.to_parquet(tmp_path / "out", reports=["overview"])
    figures = read(tmp_path / "out", "figures")
    assert set(figures["job"].to_pylist()) == ({*jobs} if len(jobs) > 1 else {None})


def test_many_small_hosts(tmp_path: Path) -> None:
    """The dataset has at most a file for two hosts, and 1.5 times the size of the captures."""
    count = rounds(128, 48)
    (source,) = (DEMO / "pod/plugins/profile").iterdir()
    (tmp_path / "pod").mkdir()
    for number in range(count):
        shutil.copy(source / f"host{number % 2}.xplane.pb", tmp_path / f"pod/host{number:03}.xplane.pb")
    fastprof.load(tmp_path / "pod").to_parquet(tmp_path / "out")
    sizes = [(tmp_path / "out" / name).stat().st_size for name in names(tmp_path / "out")]
    captures = sum(path.stat().st_size for path in (tmp_path / "pod").iterdir())
    assert len(sizes) <= count // 2
    assert sum(sizes) <= 1.5 * captures
    assert read(tmp_path / "out", "events")["host"].unique().to_pylist() == [f"host{i:03}" for i in range(count)]


def test_hosts_that_share_files() -> None:
    def sizes(*mebibytes: int) -> list[list[int]]:
        facts = [dataset_files.HostFacts(i, "", "", size << 20, None, "") for i, size in enumerate(mebibytes)]
        return [[host.size_bytes >> 20 for host in group] for group in dataset_files.group_hosts(facts)]

    assert sizes() == []
    assert sizes(5000, 1) == [[5000], [1]]
    assert sizes(*[10] * 64) == [[10] * 32, [10] * 32]
    assert sizes(300, 300, 300) == [[300, 300], [300]]
    assert [size for group in sizes(*range(1, 100)) for size in group] == [*range(1, 100)]
    assert max(map(sum, sizes(*[100] * 77))) == 500


def test_a_large_table_goes_on_in_another_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hive, "ROW_GROUP", 4)
    monkeypatch.setattr(dataset_files, "_LARGEST_FILE", 3000)
    cut_small(monkeypatch)
    fastprof.load(put_run(tmp_path / "run", ["vm0"])).to_parquet(tmp_path / "out", tables=["events"])
    parts = [name for name in names(tmp_path / "out") if name.startswith("events/")]
    assert parts[:2] == [f"events/run=run/host-00000-00000-{number}.parquet" for number in (0, 1)]
    check_run(tmp_path / "out", "run", {"vm0": tmp_path / "run/vm0.xplane.pb"}, ("events",))


def test_what_makes_no_sense(tmp_path: Path) -> None:
    profile = fastprof.load(put_run(tmp_path / "run"))
    out: Any = tmp_path / "out"
    for how, says in (
        ({"layout": "path"}, "no layout 'path'; there are: dataset, paths; did you mean 'paths'"),
        ({"layout": "paths", "reports": ["steps"]}, "reports needs the layout dataset"),
        ({"tables": ["event"]}, "no table 'event'"),
        ({"tables": []}, "the list of tables is empty"),
    ):
        with pytest.raises(fastprof.UsageError, match=says):
            profile.to_parquet(out, **how)  # type: ignore[arg-type]
    with pytest.raises(fastprof.UsageError, match="use the layout paths"):
        fastprof.export.write(profile, out, layout="dataset", format="csv")
    with pytest.raises(fastprof.UsageError, match="no host is selected"):
        profile.select(hosts=[]).to_parquet(out)
    assert names(out) == []


def test_odd_names_of_runs_and_hosts(tmp_path: Path) -> None:
    """Columns have the names as they are; folders are URL-encoded; nothing is written elsewhere."""
    out = tmp_path / "out"
    space = xspace(plane("p", [line("l", [event("e", 0, 7)])]))
    runs = ["a b=c%2F", "größer", "..", "r" * 255]
    for number, run in enumerate(runs):
        folder = tmp_path / str(number) / "plugins/profile" / ("x" if run == ".." else run)
        folder.mkdir(parents=True)
        (folder / "vm=1 %.xplane.pb").write_bytes(space)
        fastprof.load(folder).to_parquet(out, tables=["events"])
    rows = read(out, "events")
    assert set(rows["host"].to_pylist()) == {"vm=1 %"}
    assert {run[:50] for run in rows["run"].to_pylist()} == {"a b=c%2F", "größer", "x", "r" * 50}
    assert len({name for name in names(out) if name.startswith("events/")}) == 4
