"""SQL about sessions and exported runs: the rows are those of the tables, and errors say what is wrong."""

from __future__ import annotations

import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from gate import few
from trace_builder import event, line, plane, xspace

import fastprof
from fastprof.analyses import ANALYSES
from fastprof.profile import sql_tables
from fastprof.profile.sql import collect_table, query_profile, query_tables
from fastprof.tables.table_set import TABLES

BOTH = ["demo/pod", "demo/logdir"]


@pytest.fixture(scope="module")
def pod() -> fastprof.Profile:
    return fastprof.load("demo/pod")


@pytest.fixture(scope="module")
def xla() -> fastprof.Profile:
    return fastprof.load("demo/xla")


@pytest.mark.parametrize("path", ["demo/xla", BOTH])
def test_each_table_of_a_capture_is_there(path: str | list[str]) -> None:
    profile = fastprof.load(path)
    for name in TABLES:
        rows = profile.sql(f"select * from {name}")
        table = profile.tables[name]
        assert rows.column_names == table.column_names
        assert sorted(map(repr, rows.to_pylist())) == sorted(map(repr, table.to_pylist())), name


@pytest.mark.parametrize("path", ["demo/pod", BOTH])
def test_each_table_of_a_report_is_there(path: str | list[str]) -> None:
    profile = fastprof.load(path)
    for name in few(["steps", "overview", "op_stats", "memory_viewer", "communication"], 2):
        report = profile.report(name)
        for table, rows in report.tables.items():
            answer = profile.sql(f"select * from {name}.{table}")
            assert answer.column_names == rows.column_names
            assert sorted(map(repr, answer.to_pylist())) == sorted(map(repr, rows.to_pylist())), (name, table)


def test_every_table_of_every_report_can_be_queried(pod: fastprof.Profile) -> None:
    listed = [name for name in sql_tables.ProfileTables(pod) if "." in name]
    assert {name.partition(".")[0] for name in listed} == set(ANALYSES)
    for name in ANALYSES:
        of_report = [table for table in listed if table.startswith(f"{name}.")]
        counts = pod.sql(" union all ".join(f"select count(*) as rows from {table}" for table in of_report))
        assert counts.num_rows == len(of_report) and min(counts["rows"].to_pylist()) >= 0


def test_figures_and_notices_are_tables(pod: fastprof.Profile) -> None:
    report = pod.overview()
    rows = {row["name"]: row for row in pod.sql("from overview.figures").to_pylist()}
    assert list(rows) == list(report.scalars)
    for name, figure in report.scalars.items():
        known = next(
            (rows[name][kind] for kind in ("int_value", "text", "value") if rows[name][kind] is not None), None
        )
        assert (known, rows[name]["unit"], rows[name]["reason"]) == (figure.value, figure.unit, figure.reason)
    notices = pod.sql("from overview.notices").to_pylist()
    assert [(row["severity"], row["text"]) for row in notices] == [(n.severity, n.text) for n in report.notices]


def test_figures_of_several_runs_name_their_run() -> None:
    rows = fastprof.load(BOTH).sql("select run, int_value from steps.figures where name = 'step_count' order by run")
    assert rows.column_names == ["run", "int_value"]
    assert rows.num_rows == 2


@pytest.mark.parametrize(
    ("query", "rows"),
    [
        ("select count(*) as n from events", [{"n": 576}]),
        ("with events as (select 1 as a) select * from events", [{"a": 1}]),
        ("with e as (from events) select count(*) as n from e a join e b using (event_id)", [{"n": 576}]),
        ("select count(*) as n from Events, (select max(event_id) as m from EVENTS) where event_id < m", [{"n": 575}]),
        ("select count(*) as n from events where event_id in (select parent_id from nesting)", None),
        ("select (select count(*) from hosts) as n", [{"n": 2}]),
        ('select count(*) as n from "main"."events"', [{"n": 576}]),
        ("values (1), (2)", [{"col0": 1}, {"col0": 2}]),
        ("from range(2) select range as i", [{"i": 0}, {"i": 1}]),
        ("select 1.5 as a, 3::hugeint as b, [1, 2] as c", [{"a": 1.5, "b": 3, "c": [1, 2]}]),
        ("select {'d': 'e'} as f", [{"f": {"d": "e"}}]),
        ("-- a comment\nselect 1 as a; -- another", [{"a": 1}]),
        ("/* a */ explain select 1 as a", None),
        ("pivot (select host, plane_id from events) on host in ('host0') using count(*) order by 1 limit 1", None),
    ],
)  # fmt: skip
def test_queries(query: str, rows: list[dict[str, object]] | None, pod: fastprof.Profile) -> None:
    answer = pod.sql(query).to_pylist()
    assert answer if rows is None else answer == rows


def test_sums_of_times_are_integers(pod: fastprof.Profile) -> None:
    events = pod.events
    rows = pod.sql("select name, sum(duration_ps) as ps from events group by name order by name")
    assert rows.schema.field("ps").type == pa.int64()
    sums = events.group_by("name").aggregate([("duration_ps", "sum")])
    assert rows["ps"].to_pylist() == [
        row["duration_ps_sum"] for row in sorted(sums.to_pylist(), key=lambda r: r["name"])
    ]
    with pytest.raises(fastprof.UsageError, match="exceeds 64 bits"):
        pod.sql("select sum(9223372036854775807) from range(3)")


def test_decimals_are_the_nearest_numbers(pod: fastprof.Profile) -> None:
    rows = pod.sql("select i * 0.001 as x, [i * 0.001] as l from range(20000) t(i)")
    wanted = [float(f"{i // 1000}.{i % 1000:03}") for i in range(20000)]
    assert rows["x"].to_pylist() == wanted
    assert rows["l"].to_pylist() == [[x] for x in wanted]
    large = "select 0.3 as a, 12345678901234567890123456789.012345678 as b, [0.7, null] as c"
    assert pod.sql(large).to_pylist() == [{"a": 0.3, "b": 1.2345678901234568e28, "c": [0.7, None]}]


def test_integers_of_128_bits_are_exact_or_texts(pod: fastprof.Profile) -> None:
    most = "340282366920938463463374607431768211455"
    assert pod.sql(f"select {most}::uhugeint as a").to_pylist() == [{"a": most}]


@pytest.mark.parametrize("value", ["date '290000-01-01'", "'infinity'::timestamp", "[date '0044-01-01 (BC)']"])
def test_years_that_python_lacks_are_named(value: str, pod: fastprof.Profile) -> None:
    with pytest.raises(fastprof.UsageError, match="the column 'a' has times outside of the years 1 to 9999"):
        pod.sql(f"select {value} as a")
    last = pod.sql("select timestamp '9999-12-31 23:59:59.999999' as a, date '0001-01-01' as b").to_pylist()
    assert [str(value) for value in last[0].values()] == ["9999-12-31 23:59:59.999999", "0001-01-01"]


def test_parameters(pod: fastprof.Profile) -> None:
    query = "select count(*) as n from events where host = $host and duration_ps > $least"
    assert pod.sql(query, {"host": "host0", "least": 0}).to_pylist() == [{"n": 288}]
    assert pod.sql("select ? || ? as a", ["x", "'; drop"]).to_pylist() == [{"a": "x'; drop"}]
    with pytest.raises(fastprof.UsageError, match="least"):
        pod.sql(query, {"host": "host0"})


def test_a_selection_is_what_is_queried(pod: fastprof.Profile) -> None:
    chosen = pod.select(hosts="host1", names="all-reduce")
    rows = chosen.sql("select host, count(*) as n from events group by host").to_pylist()
    assert rows == [{"host": "host1", "n": chosen.event_table(["event_id"]).num_rows}]


def test_batches_have_one_schema(pod: fastprof.Profile) -> None:
    batches = list(pod.sql_batches("select range as i from range(300000)"))
    assert len(batches) > 2
    assert {batch.schema for batch in batches} == {pa.schema([("i", pa.int64())])}
    assert pc.sum(pa.Table.from_batches(batches)["i"]).as_py() == sum(range(300000))
    (empty,) = pod.sql_batches("select event_id from events where false")
    assert (empty.num_rows, empty.schema.names) == (0, ["event_id"])


def test_show_tables_lists_them_all(pod: fastprof.Profile) -> None:
    rows = pod.sql("show tables").to_pylist()
    assert {"events", "hlo_instructions", "op_stats.ops", "steps.figures"} <= {row["table"] for row in rows}
    events = next(row for row in rows if row["table"] == "events")
    assert events == {"table": "events", "row": TABLES["events"].row, "columns": TABLES["events"].names()}
    described = pod.sql("describe steps.steps").to_pylist()
    assert [row["column_name"] for row in described] == pod.steps().tables["steps"].column_names


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("select * from event", r"no table 'event'; there are: hosts, .*did you mean 'events'\?"),
        ("select * from opstats.ops", r"no table 'opstats.ops'.*did you mean 'op_stats.ops'\?"),
        ("select * from op_stats.opps", r"there are: op_stats.ops, op_stats.device_ops.*did you mean 'op_stats.ops'\?"),
        ("select nme from events", r"no column 'nme'.*there are: event_id.*did you mean 'name'\?"),
        (
            "select host from events e join planes p using (plane_id)",
            r"^several tables of the query have a column 'host': write e.host or p.host$",
        ),
        ("select name from op_stats.ops, events", r"have a column 'name': write ops\.\"name\" or events\.\"name\"$"),
        ("select e.durations from events e", r"no column 'durations'.*did you mean 'duration_ps'\?"),
        ("select * from events join lines using (line)", r"no column 'line'"),
        ("selct 1", 'not valid SQL: syntax error at or near "selct"'),
        ("select 1 +", "not valid SQL"),
        ("", "the query is empty"),
        ("-- nothing", "the query is empty"),
        ("select 1; select 2", "and this is 2 statements"),
        ("insert into events values (1)", "SUMMARIZE statement, not INSERT"),
        ("pivot events on host using count(*)", "PIVOT needs its columns"),
        ("show memory_limit", "SHOW TABLES lists all tables, DESCRIBE NAME the columns of one"),
        ("show databases", "SHOW TABLES lists all tables"),
        ("select count(*) from (show tables)", "SHOW TABLES lists all tables"),
        ("select sum(name) from events", "DuckDB cannot answer the query: No function matches"),
        ("select repeat('a', 100000)", r"repeat\(\) with 100000 would make a value that is too large"),
    ],
)
def test_errors_say_what_is_wrong(query: str, message: str, pod: fastprof.Profile) -> None:
    with pytest.raises(fastprof.UsageError, match=message) as error:
        pod.sql(query)
    assert "\n" not in str(error.value)


def test_limits_are_checked(pod: fastprof.Profile) -> None:
    for limits in ({"memory": 5}, {"memory": "2GiB"}, {"timeout": 0}, {"timeout": "60s"}):
        with pytest.raises(fastprof.UsageError, match="must be a number of"):
            pod.sql("select 1", **limits)  # type: ignore[arg-type]
    with pytest.raises(fastprof.UsageError, match="a query is a text, not int"):
        pod.sql(1)  # type: ignore[arg-type]
    with pytest.raises(fastprof.MemoryLimitError, match="select fewer rows"):
        pod.sql("select range from range(1000000)", memory=4 << 20)


def test_a_damaged_capture_is_its_own_error(tmp_path: Path) -> None:
    whole = xspace(plane("/host:CPU", [line("a", [event("work", i * 100, 50) for i in range(50)])]))
    (tmp_path / "cut.xplane.pb").write_bytes(whole[:-3] + b"\xff\xff\xff")
    with pytest.raises(fastprof.CaptureError, match=r"cut\.xplane\.pb"):
        fastprof.load(tmp_path / "cut.xplane.pb").sql("select count(duration_ps) from events")


def test_only_named_reports_are_computed(pod: fastprof.Profile) -> None:
    profile = pod.select(hosts="host0")
    profile.sql("select count(*) from events")
    assert not profile._reports
    profile.sql("select * from steps.steps s where s.step > 0")
    assert [name for name, _ in profile._reports] == ["steps"]


def test_a_profile_with_queries_behind_it_pickles(pod: fastprof.Profile) -> None:
    again = pickle.loads(pickle.dumps(pod))
    assert again.sql("select count(*) as n from events").to_pylist() == [{"n": 576}]


@pytest.mark.parametrize("is_confined", [False, True])
def test_queries_run_at_once(is_confined: bool, pod: fastprof.Profile) -> None:
    queries = [f"select {number} as a, count(*) as n from events, steps.steps where step = 1" for number in range(12)]

    def ask_once(query: str) -> list[dict[str, object]]:
        rows: list[dict[str, object]] = collect_table(
            query_profile(pod, query, is_confined=is_confined), 1 << 20
        ).to_pylist()
        return rows

    with ThreadPoolExecutor(4) as pool:
        answers = [rows[0]["a"] for rows in pool.map(ask_once, queries)]
    assert answers == list(range(12))


def test_an_answer_may_be_left_unread(pod: fastprof.Profile) -> None:
    batches = pod.sql_batches("select range as i from range(10000000)")
    next(batches)
    batches.close()  # type: ignore[attr-defined]
    assert pod.sql("select 1 as a").to_pylist() == [{"a": 1}]


def test_duckdb_is_imported_when_a_query_needs_it() -> None:
    code = (
        "import sys, fastprof\np = fastprof.load('demo/pod')\nassert 'duckdb' not in sys.modules\n"
        "print(p.sql('select 1 as a').to_pylist(), 'fastprof.analyses.overview' in sys.modules)\n"
        "sys.modules['duckdb'] = None\n"
        "try: p.sql('select 1')\nexcept fastprof.UsageError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[{'a': 1}] False\nSQL needs DuckDB: pip install 'fastprof-arrow[sql]'\n"


def test_an_older_duckdb_is_named(pod: fastprof.Profile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(duckdb, "DuckDBPyRelation", object)
    monkeypatch.setattr(duckdb, "__version__", "1.4.0")
    with pytest.raises(fastprof.UsageError, match=r"SQL needs DuckDB 2 or newer, and 1\.4\.0 is installed"):
        pod.sql("select 1")


# ---- exported runs


def ask(folder: Path, query: str) -> list[dict[str, object]]:
    batches = query_tables(sql_tables.ExportedTables(str(folder)), query, None, 1 << 30, 60, 2)
    rows: list[dict[str, object]] = collect_table(batches, 1 << 30).to_pylist()
    return rows


def test_an_exported_run_is_queried(pod: fastprof.Profile, tmp_path: Path) -> None:
    pod.to_parquet(tmp_path / "out")
    assert sql_tables.is_export(str(tmp_path / "out"))
    assert not sql_tables.is_export("demo/pod")
    query = "select host, name, count(*) as n, sum(duration_ps) as ps from events group by all order by all"
    assert ask(tmp_path / "out", query) == pod.sql(query).to_pylist()
    joined = "select count(*) as n from events join lines using (run, host, line_id) where host = 'host1'"
    assert ask(tmp_path / "out", joined) == [{"n": 288}]


def test_exported_runs_are_queried_together(tmp_path: Path) -> None:
    both = fastprof.load(BOTH)
    both.to_parquet(tmp_path / "out")
    query = "select run, host, count(*) as n, sum(duration_ps) as ps from events group by all order by all"
    assert ask(tmp_path / "out", query) == both.sql(query).to_pylist()


def test_runs_and_hosts_may_be_named_in_the_files(pod: fastprof.Profile, tmp_path: Path) -> None:
    """The columns are in the files; runs may lack columns of other runs."""
    import pyarrow.parquet as pq

    (tmp_path / "_fastprof").mkdir()
    (tmp_path / "_fastprof" / "format.json").write_text("{}")
    for run, columns in (("r1", ["host", "name", "duration_ps"]), ("r2", ["host", "duration_ps", "event_id"])):
        for table in ("events", "steps.steps"):
            folder = tmp_path / table / f"run={run}"
            folder.mkdir(parents=True)
            rows = pod.events.select(columns) if table == "events" else pod.steps().tables["steps"]
            texts = pa.array([run] * rows.num_rows).dictionary_encode()
            pq.write_table(rows.add_column(0, "run", texts), folder / "host-0.parquet")
    assert sql_tables.is_export(str(tmp_path))
    query = (
        "select run, count(*) as n, count(name) as named, count(event_id) as ids from events group by run order by run"
    )
    assert ask(tmp_path, query) == [
        {"run": "r1", "n": 576, "named": 576, "ids": 0},
        {"run": "r2", "n": 576, "named": 0, "ids": 576},
    ]
    steps = pod.steps().tables["steps"].num_rows
    assert ask(tmp_path, "select count(*) as n from steps.steps where run = 'r2'") == [{"n": steps}]
    with pytest.raises(fastprof.UsageError, match="no table 'lines'; there are: events"):
        ask(tmp_path, "select * from lines")
    (tmp_path / "events" / "run=r1" / "host-0.parquet").write_bytes(b"PAR1 not a file PAR1")
    with pytest.raises(fastprof.UnreadableError, match="cannot read the exported files"):
        ask(tmp_path, query)
