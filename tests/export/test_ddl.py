"""Statements for engines, held against parsers: each table, each column, integers as integers."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
import sqlglot
from sqlglot import exp

import fastprof
from fastprof.cli.main import main
from fastprof.export import dataset_files
from fastprof.tables.table_set import TABLES

DIALECTS = ("bigquery", "snowflake", "athena", "spark", "duckdb")
CAPTURED = [name for name, table in TABLES.items() if not table.derived]


def ddl(capsys: pytest.CaptureFixture[str], dialect: str, *flags: str, out: str = "s3://bucket/out") -> str:
    assert main(["export", "--ddl", dialect, "-o", out, *flags]) == 0
    return capsys.readouterr().out


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("flat", [(), ("--flat",)])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_statements_parse(dialect: str, flat: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    text = ddl(capsys, dialect, "--reports", "op-stats,steps", *flat)
    assert "FLOAT" not in text.replace("FLOAT64", "DOUBLE")
    created = {}
    for statement in sqlglot.parse(text, read=dialect):
        assert isinstance(statement, exp.Create), statement
        if statement.kind == "STAGE":
            continue
        table = statement.find(exp.Table)
        assert table is not None
        created[table.name] = statement
    views = {"events_at", *(["events_clustered"] if dialect == "bigquery" else [])}
    reports = {
        f"{name}_{table}" for name in ("op_stats", "steps") for table in fastprof.load("demo/pod").report(name).tables
    }
    assert {*created} == {*CAPTURED, "runs", "figures", "notices", *reports, *views}
    if dialect == "duckdb":
        return
    for name in CAPTURED:
        schema = dataset_files.make_schema(name, bool(flat))
        columns = {column.name: column.args["kind"] for column in created[name].find_all(exp.ColumnDef) if column.kind}
        assert {*schema.names} <= {*columns}, name
        for field in schema:
            if pa.types.is_integer(field.type):
                whole = exp.DataType.INTEGER_TYPES | {exp.DataType.Type.DECIMAL}
                assert columns[field.name].this in whole, (name, field.name, columns[field.name])


def test_views_of_duckdb_work(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "it's"
    for path in ("demo/logdir", "demo/xla"):
        fastprof.load(path).to_parquet(out, reports=["op-stats"])
    with duckdb.connect() as connection:
        connection.execute(ddl(capsys, "duckdb", "--reports", "op-stats", out=str(out)))
        profile = fastprof.load("demo/logdir")
        start = profile.hosts["start_unix_ns"][0].as_py()
        first = profile.events["start_ps"][0].as_py()
        query = "select epoch_ns(start_time) from events_at where run = ? order by event_id limit 1"
        assert connection.execute(query, [profile.run]).fetchall() == [(start + first // 1000,)]
        count = connection.execute("select count(*) from op_stats_ops where run = ?", [profile.run]).fetchall()
        assert count == [(len(profile.report("op_stats").tables["ops"]),)]


def test_flags_that_do_not_go_together(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", "demo/pod", "--ddl", "spark", "-o", "out"]) == 2
    assert "--ddl takes no SESSION" in capsys.readouterr().err
    assert main(["export", "--ddl", "spark", "-o", "out", "--reports", "step"]) == 2
    assert "no report 'step'" in capsys.readouterr().err
    assert main(["export", "-o", "out"]) == 2
    assert "give the SESSION" in capsys.readouterr().err
