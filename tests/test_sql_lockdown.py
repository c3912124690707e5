"""SQL reaches nothing outside of its tables, and what would exhaust the machine is stopped."""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds
import pytest

import fastprof
from fastprof.cli.main import main
from fastprof.profile import sql, sql_tables
from fastprof.profile.sql import collect_table, query_profile, query_tables

SECRET = "the text of a private file"
REFUSED = [
    # files and the network
    "select * from read_csv('{file}')",
    "select * from read_csv_auto('{file}')",
    "select * from read_text('{file}')",
    "select * from read_blob('{file}')",
    "select * from read_json('{file}')",
    "select * from read_parquet('{file}')",
    "select * from parquet_metadata('{file}')",
    "select * from sniff_csv('{file}')",
    "select * from glob('{folder}/*')",
    "select * from '{file}'",
    'select * from "{file}"',
    "from '{file}' select 1",
    "select * from main.'{file}'",
    "describe select * from '{file}'",
    "summarize select * from read_text('{file}')",
    "select (select content from read_text('{file}'))",
    "with t as (select * from read_text('{file}')) select * from t",
    "select * from events where name in (select content from read_text('{file}'))",
    "select * from 'https://localhost/data.parquet'",
    "select * from read_csv('s3://bucket/data.csv')",
    "copy events to '{folder}/out.csv'",
    "copy (select 1) to '{folder}/out.parquet' (format parquet)",
    "copy events from '{file}'",
    "export database '{folder}/out'",
    "import database '{folder}'",
    "explain analyze copy events to '{folder}/out.csv'",
    "explain (analyze) copy events to '{folder}/out.csv'",
    "/* select */ copy events to '{folder}/out.csv' -- select",
    "attach '{folder}/out.db'",
    "attach ':memory:' as other",
    "create secret s (type s3, key_id 'a')",
    # names that the check takes for common table expressions
    """select * from '{file}' where 1 in (with "{file}" as (select 1 as a) select a from "{file}")""",
    "select * from python_object where 1 in (with python_object as (select 1 as a) select a from python_object)",
    # extensions and settings
    "install httpfs",
    "load httpfs",
    "force install httpfs from 'http://localhost'",
    "update extensions",
    "set enable_external_access = true",
    "set lock_configuration = false",
    "reset memory_limit",
    "pragma enable_profiling",
    "pragma database_list",
    "call pragma_version()",
    "select current_setting('secret_directory')",
    "select * from duckdb_settings()",
    "select * from duckdb_secrets()",
    "select * from duckdb_extensions()",
    "select getenv('HOME')",
    "select * from pg_catalog.pg_settings",
    "select * from information_schema.tables",
    # other statements
    "create table t (a int)",
    "create view v as select 1",
    "create macro f() as 1",
    "create temp table t as select * from events",
    "insert into events values (1)",
    "update events set name = ''",
    "delete from events",
    "drop view events",
    "with t as (insert into events select * from events returning *) select * from t",
    "with t as (delete from events returning *) select * from t",
    "prepare p as select 1",
    "execute p",
    "begin",
    "checkpoint",
    "vacuum",
    "use main",
    "select 1; select 2",
    "select 1; copy events to '{folder}/out.csv'",
    "select 1 /* ; */ ; -- \n copy events to '{folder}/out.csv'",
    "; ; attach '{folder}/out.db' ;",
    # statements behind EXPLAIN, comments and texts
    "explain (/*) select 1 from events --*/ analyze) create or replace macro upper(x) as 'poisoned'",
    "explain (/*) select 1 --*/ analyze) create table leak as select 42 as a",
    "explain (/*) select 1 --*/ format json) select * from duckdb_settings()",
    "explain /*) select 1 --*/ create view lines as select 42",
    "explain (format json, analyze) create sequence s",
    "explain explain select 1",
    "explain analyze create macro f() as 1",
    "select 1 /* /* */ ; */ ; create table t (a int)",
    "select 1 -- \r ; select 2",
    "select e'\\' , '; select 2; select ''",
    "select $a$ ; $b$",
    "-- \r ",
    "select '\ud800'",
    "select 1 as a \0; select 2",
    # a name with a schema is a table
    'with "pg_catalog.pg_settings" as (select 1) from pg_catalog.pg_settings',
    "with pg_settings as (select 1) from pg_catalog.pg_settings",
    "with leak as (select 1) from main.leak",
    "with duckdb_settings as (from duckdb_settings) from duckdb_settings",
    "select 1 from duckdb_columns where 1 in (with duckdb_columns as (select 1) from duckdb_columns)",
    # text as SQL, and objects of Python
    "select * from query('select 1')",
    "select * from query_table('events')",
    "select * from query_table(['events', 'lines'])",
    "select * from json_execute_serialized_sql(json_serialize_sql('select 1'))",
    "select * from python_object",
    "select * from SECRET",
    "select * from python_map_function(1, 2)",
    "select * from arrow_scan(1, 2, 3)",
    "select * from pandas_scan(1)",
    "select * from seq_scan('events')",
]
RUNAWAY = [
    "with recursive t as (select 1 as i union all select i + 1 from t) select count(*) from t",
    "with recursive t as (select 1 as i union all select i from t) select * from t",
    "with recursive t as (select 'aaaaaaaa' as s union all select s || s from t) select max(length(s)) from t",
    "select count(*) from range(1000000000000)",
    "select * from range(1000000000000)",
    "select list(range) from range(1000000000000)",
    "select string_agg(range::varchar) from range(1000000000000)",
    "select * from range(1000000000000) order by random()",
    "select count(*) from range(1000000) a, range(1000000) b where a.range + b.range = 1",
    "select count(distinct hash(a.range, b.range)) from range(1000000) a, range(1000000) b",
    "select count(*) from generate_series(timestamp '1000-01-01', timestamp '9000-01-01', interval 1 microsecond)",
    "select repeat('abcdefgh', 1000000000)",
    "select repeat('a', 9000) || repeat('b', 1e9::bigint)",
    "select rpad('a', 2000000000, 'b')",
    "select lpad('a', 2000000000, 'b')",
    "select bitstring('1', 2000000000)",
    "select range(100000000)",
    "select generate_series(timestamp '1000-01-01', timestamp '9000-01-01', interval 1 microsecond)",
    "select list_resize([1], 1000000000)",
    "select format('{{:>2000000000}}', 'a')",
    "select format('{{:>{{}}}}', 'a', 2000000000)",
    "select printf('%2000000000d', 1)",
    "select printf('%*d', 2000000000, 1)",
    "select list_transform(l, lambda x: l) from (select range(10000) as l), range(100000)",
    "select replace(replace(replace(s, 'a', s), 'a', s), 'a', s) from (select repeat('a', 1000) as s from range(2048))",
    "with a as (" * 9,
    "with a as (" * 9 + "select 1",
    "with a as (" * 9 + "select 1" + ") select 1" * 9,
    "select " + "(" * 20_000 + "1" + ")" * 20_000,
    "select " + "not " * 20_000 + "true",
    "select '" + "a" * (1 << 20) + "'",
]
python_object = "an object that a query must not see"


@pytest.fixture(scope="module")
def profile() -> fastprof.Profile:
    return fastprof.load("demo/pod")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "private.csv").write_text(SECRET)
    return tmp_path


@pytest.mark.parametrize("query", REFUSED)
def test_a_query_only_reads_its_tables(query: str, profile: fastprof.Profile, folder: Path) -> None:
    before = dict(os.environ)
    with pytest.raises(fastprof.UsageError) as refused:
        profile.sql(query.format(file=folder / "private.csv", folder=folder))
    assert SECRET not in str(refused.value)
    assert [path.name for path in folder.iterdir()] == ["private.csv"]
    assert dict(os.environ) == before


@pytest.mark.parametrize("query", RUNAWAY, ids=lambda query: query[:60])
def test_a_query_is_stopped(query: str, profile: fastprof.Profile) -> None:
    memory = 64 << 20
    answer = query_profile(profile, query.format(), memory=memory, timeout=0.3, is_confined=True)
    with pytest.raises((fastprof.UsageError, fastprof.MemoryLimitError)):
        collect_table(answer, memory)
    assert profile.sql("select 42 as a").to_pylist() == [{"a": 42}]


def test_the_limit_of_the_process_is_restored(profile: fastprof.Profile) -> None:
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_AS)
    answer = query_profile(profile, "select 1 as a", is_confined=True)
    assert collect_table(answer, 1 << 20).to_pylist() == [{"a": 1}]
    assert resource.getrlimit(resource.RLIMIT_AS) == before


def test_a_query_leaves_nothing_to_the_next(profile: fastprof.Profile) -> None:
    """Should a statement get past the check, it has a database of its own."""
    with sql._connect(1 << 30, 1) as connection:
        connection.execute("create macro upper(x) as 'poisoned'; create table leak as select 1; set variable x = 1")
    assert profile.sql("select upper('a') as a").to_pylist() == [{"a": "A"}]
    with sql._connect(1 << 30, 1) as connection:
        assert connection.execute("select * from duckdb_tables() where not internal").fetchall() == []


EXPLODING = [
    "with " + ", ".join(f"a{i} as (select 1)" for i in range(60)) + " select 1",
    "with t0 as (select 1 as a), "
    + ", ".join(f"t{i} as not materialized (select * from t{i - 1} a, t{i - 1} b)" for i in range(1, 30))
    + " select count(*) from t29",
    "select 1 + 1 as a0, " + ", ".join(f"a{i - 1} + a{i - 1} as a{i}" for i in range(1, 30)),
    "select 'x' || 'x' as a0, " + ", ".join(f"a{i - 1} || a{i - 1} as a{i}" for i in range(1, 40)),
    "select a from " + "(select a + a as a from " * 30 + "(select 1 as a)" + " where a > 0)" * 30,
    "select length(" + " || ".join(["repeat(repeat('x', 10000), 10000)"] * 30) + ")",
    "select length(" + " || ".join(["repeat('x', 10000)"] * 30) + " || repeat(repeat('x', 10000), length('xxxxxx')))",
    "select levenshtein(repeat('a', 10000), repeat('b', 10000))",
    "select replace(repeat('a', 1000), 'a', repeat('b', 10000) || repeat('b', 10000))",
    "select len(range(d, d + to_years(1000), to_microseconds(1))) from (select now() as d)",
    "select list_sum(list_transform(range(10000), lambda x: list_sum(list_transform(range(10000), lambda y: x + y))))",
    "select list_reduce(list_transform(range(60), lambda x: 'aaaaaaaa'), lambda a, b: a || a)",
    "select repeat('a', 10000 * 1000000)",
    "select equi_width_bins(0, 1000000000, 1000000000, true)",
    "select * from events where " + " or ".join(f"duration_ps = {i}" for i in range(6000)),
    "select " + "abs(" * 250 + "1" + ")" * 250,
    "select x" + ".a" * 5000 + " from (select 1 as x)",
    "select " + ", ".join(["1"] * 30_000),
    "select " + ",".join(["1"] * 60_000),
    "select (1",
    "select 1)",
    "select (1]",
    "select ']",
]


@pytest.mark.parametrize("query", EXPLODING, ids=lambda query: query[:60])
def test_a_query_that_grows_is_not_run(query: str, profile: fastprof.Profile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sql, "_write_odd_values", None)  # the next step would fail
    with pytest.raises(fastprof.UsageError, match=r"too large|too many|too deeply|not valid SQL: ('|unterminated)"):
        profile.sql(query)


GROWN = [
    "select replace(replace(replace(replace(name, 'fusion', 'f'), 'copy', 'c'), '.', ''), '-', '') as a from events",
    "select repeat('=', (duration_ps / 1000)::int % 20) as a from events",
    "with a as (select name as n from events), b as (select n || '/' || n as n from a), c as (from b) "
    "select c.n, count(*) as k from c join b using (n) group by c.n order by k",
    "select list_transform(range(3), lambda i: i * duration_ps) as a from events",
    "select list_reduce([1, 2, 3], lambda a, b: a + b) as a",
    "select list_reduce(['a', 'b'], lambda a, b: a || ',' || b) as a",
    "with recursive t(i) as (select 1 union all select i + 1 from t where i < 9) select sum(i) as a from t",
    "select * from events where duration_ps in (" + ", ".join(map(str, range(5000))) + ")",
    "select " + " || ".join(["name"] * 100) + " as a from events",
    "select sum(i) as a from generate_series(1, 1000000) t(i)",
    "select lpad(name, 40, ' ') || rpad(printf('%8.2f', duration_ps / 1000), 10, ' ') as a from events",
]


@pytest.mark.parametrize("query", GROWN, ids=lambda query: query[:60])
def test_a_usual_query_is_not_too_large(query: str, profile: fastprof.Profile) -> None:
    assert profile.sql(query).num_columns > 0


def test_an_error_in_the_middle_leaves_no_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    query = "select case when range > 400000 then error('stop here') else range end as a from range(1000000)"
    assert main(["sql", "demo/pod", query, "-o", str(tmp_path / "a.parquet")]) == 2
    assert capsys.readouterr().err == "fastprof: DuckDB cannot answer the query: stop here\n"
    assert list(tmp_path.iterdir()) == []


COMMENTED = [
    "/* /* */ */ select 1 as a",
    "-- \r select 1 as a",
    "select 1 /* ; */ as a; -- ; ",
    "select/**/1/**/as/**/a;;",
    "select '--'::varchar = $$--$$ and e'\\'/*' = $x$'/*$x$ and 1 = 1 -- '",
    "explain (format json) select 1",
    "explain (analyze) select 1",
    "explain analyze select 1",
]


@pytest.mark.parametrize("query", COMMENTED)
def test_comments_are_no_part_of_a_query(query: str, profile: fastprof.Profile) -> None:
    values = list(profile.sql(query).to_pylist()[0].values())
    assert values[0] in (1, True) or "explain" in query


def test_duckdb_refuses_files_too(folder: Path) -> None:
    """Its own switches are set, should a query get past the check."""
    file = folder / "private.csv"
    with sql._connect(1 << 30, 1) as connection:
        for query in (f"from read_text('{file}')", f"copy (select 1) to '{folder}/out.csv'", f"attach '{folder}/a.db'"):
            with pytest.raises(duckdb.Error, match=r"disabled|locked"):
                connection.execute(query)
        with pytest.raises(duckdb.Error, match="locked"):
            connection.execute("set enable_external_access = true")
        with pytest.raises(duckdb.CatalogException):
            connection.execute("select * from python_object")
    assert [path.name for path in folder.iterdir()] == ["private.csv"]


def test_a_query_that_does_not_stop_holds_up_no_others(
    profile: fastprof.Profile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sql, "_GRACE", 0.0)
    rows = pa.table({"a": [1]})
    may_go_on, is_given_up = threading.Event(), threading.Event()

    class Slow(ds.InMemoryDataset):  # type: ignore[misc]
        def scanner(self, **how: object) -> object:
            may_go_on.wait(30)
            return super().scanner(**how)

    sources = {"slow": sql_tables.SqlSource(lambda: Slow(rows), rows.schema)}
    errors: list[str] = []

    def give_up(error: fastprof.FastprofError) -> None:
        errors.append(str(error))
        is_given_up.set()

    def ask_slowly() -> None:
        batches = query_tables(sources, "from slow", None, 1 << 30, 0.05, 1, is_confined=True, give_up=give_up)
        with suppress(fastprof.UsageError):
            collect_table(batches, 1 << 30)

    asking = threading.Thread(target=ask_slowly)
    asking.start()
    assert is_given_up.wait(30)
    assert errors[0] == "the query was stopped after 0.05 s; --timeout sets this limit"
    with pytest.raises(fastprof.EngineError, match="a query is still being stopped"):
        collect_table(query_profile(profile, "select 1", is_confined=True), 1 << 20)
    may_go_on.set()
    asking.join()
    assert collect_table(query_profile(profile, "select 1 as a", is_confined=True), 1 << 20).num_rows == 1
