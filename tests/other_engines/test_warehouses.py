"""Datasets in Polars, pandas, Spark, Delta and Iceberg, each run really (``make test-engines``)."""

from __future__ import annotations

import os
import shutil
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import fastprof
from fastprof.cli.main import main
from fastprof.tables.table_set import TABLES

DEMOS = ("demo/pod", "demo/logdir", "demo/xla")
EVERY = tuple(TABLES)


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three runs, with a table of reports."""
    folder = tmp_path_factory.mktemp("datasets") / "out"
    for path in DEMOS:
        fastprof.load(path).to_parquet(folder, tables=EVERY, reports=["op-stats"])
    return folder


def tables_of(out: Path) -> list[str]:
    return sorted(path.name for path in out.iterdir() if path.name != "_fastprof")


def count_hosts(rows: pa.Table) -> Counter[tuple[Any, ...]]:
    keys = [name for name in ("run", "host") if name in rows.column_names]
    return Counter(zip(*(rows[name].to_pylist() for name in keys), strict=True))


def expected(out: Path, table: str) -> Counter[tuple[Any, ...]]:
    return count_hosts(ds.dataset(out / table).to_table())


def test_what_is_expected_is_what_was_loaded(out: Path) -> None:
    for path in DEMOS:
        profile = fastprof.load(path)
        for table in EVERY:
            counts = expected(out, table)
            assert (
                sum(count for (run, _), count in counts.items() if run == profile.run) == profile.tables[table].num_rows
            )


def test_polars(out: Path) -> None:
    polars = pytest.importorskip("polars")
    for table in tables_of(out):
        rows = polars.scan_parquet(f"{out}/{table}/**/*.parquet").collect().to_arrow()
        assert count_hosts(rows) == expected(out, table), table
    events = polars.scan_parquet(f"{out}/events/**/*.parquet").filter(polars.col("host") == "host1").collect()
    assert len(events) == sum(count for (_, host), count in expected(out, "events").items() if host == "host1")


def test_pandas(out: Path) -> None:
    pandas = pytest.importorskip("pandas")
    for table in tables_of(out):
        frame = pandas.read_parquet(out / table)
        keys = [name for name in ("run", "host") if name in frame.columns]
        assert Counter(map(tuple, frame[keys].astype(str).to_numpy())) == expected(out, table), table


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    pytest.importorskip("pyspark")
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    session = builder.getOrCreate()
    yield session
    session.stop()


def test_spark(spark: Any, out: Path) -> None:
    for table in tables_of(out):
        frame = spark.read.parquet(str(out / table))
        keys = [name for name in ("run", "host") if name in frame.columns]
        counts = {tuple(row[:-1]): row[-1] for row in frame.groupBy(*keys).count().collect()}
        assert counts == expected(out, table), table


def test_spark_runs_the_statements(spark: Any, out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", "--ddl", "spark", "-o", str(out), "--tables", "events,lines,hosts"]) == 0
    for statement in filter(str.strip, capsys.readouterr().out.split(";")):
        spark.sql(statement)
    rows = spark.sql(
        "select run, host, count(*) from events join lines using (run, host, line_id) group by 1, 2"
    ).collect()
    assert {(row[0], row[1]): row[2] for row in rows} == expected(out, "events")
    (first,) = spark.sql("select date_format(min(start_time), 'yyyy-MM-dd') from events_at").collect()
    assert first[0] == "2026-11-21"
    assert spark.sql("select count(*), count(start_unix_ns) from runs").collect()[0] == (3, 1)


@pytest.mark.filterwarnings("ignore")
def test_delta(out: Path, tmp_path: Path) -> None:
    """Runs that are added twice are there once; a new column is merged."""
    delta = pytest.importorskip("deltalake")
    tables = ["--tables", ",".join(EVERY), "--reports", "op-stats", "--to", f"delta:{tmp_path}/tables", "-q"]
    for _ in range(2):
        for path in DEMOS:
            assert main(["export", path, *tables]) == 0
    for table in tables_of(out):
        rows = delta.DeltaTable(f"{tmp_path}/tables/{table}").to_pyarrow_table()
        assert count_hosts(rows) == expected(out, table), table
    history = delta.DeltaTable(f"{tmp_path}/tables/events").history()
    assert len(history) == 6 and all(entry["fastprof.run"] for entry in history)


@pytest.fixture
def catalog(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    pyiceberg = pytest.importorskip("pyiceberg.catalog")
    monkeypatch.setenv("PYICEBERG_CATALOG__LOCAL__TYPE", "sql")
    monkeypatch.setenv("PYICEBERG_CATALOG__LOCAL__URI", f"sqlite:///{tmp_path}/catalog.db")
    monkeypatch.setenv("PYICEBERG_CATALOG__LOCAL__WAREHOUSE", f"file://{tmp_path}/warehouse")
    properties = {"uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"file://{tmp_path}/warehouse"}
    return pyiceberg.load_catalog("local", type="sql", **properties)


@pytest.mark.filterwarnings("ignore")
def test_iceberg(out: Path, catalog: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyiceberg.catalog.load_catalog", lambda _: catalog)
    command = ["--tables", ",".join(EVERY), "--reports", "op-stats", "--to", "iceberg:local.fastprof", "-q"]
    for _ in range(2):
        for path in DEMOS:
            assert main(["export", path, *command]) == 0
    for table in tables_of(out):
        there = catalog.load_table(("fastprof", table.replace(".", "_")))
        assert count_hosts(there.scan().to_arrow()) == expected(out, table), table
    last = catalog.load_table(("fastprof", "events")).metadata.snapshots[-1].summary
    assert last is not None and last["fastprof.run"]


@pytest.mark.filterwarnings("ignore")
def test_iceberg_takes_the_files_as_they_are(tmp_path: Path, catalog: Any) -> None:
    """``add_files`` of flat files: hosts and runs are columns of the files."""
    flat = tmp_path / "flat"
    for path in DEMOS:
        fastprof.load(path).to_parquet(flat, tables=EVERY, flat=True)
    catalog.create_namespace("files")
    for table in ("events", "event_stats", "nesting", "lines", "planes", "hlo_instructions"):
        files = sorted(str(path) for path in (flat / table).rglob("*.parquet"))
        there = catalog.create_table(("files", table), pq.read_schema(files[0]))
        there.add_files([f"file://{file}" for file in files])
        assert count_hosts(there.scan().to_arrow()) == expected(flat, table), table
    host = catalog.load_table(("files", "events")).scan(row_filter="host = 'host1'").to_arrow()
    assert host.num_rows == expected(flat, "events")["2026_11_21_12_00_00", "host1"]


def test_places_that_make_no_sense(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for target, says in (
        ("delta", "--to takes delta:URL or iceberg:CATALOG.NAMESPACE, not 'delta'"),
        ("hudi:x", "--to takes delta:URL"),
        ("iceberg:x", "'x' is not an Iceberg namespace"),
    ):
        assert main(["export", "demo/pod", "--to", target]) == 2
        assert says in capsys.readouterr().err
    (tmp_path / "file").touch()
    pytest.importorskip("deltalake")
    assert main(["export", "demo/pod", "--to", f"delta:{tmp_path}/file/x"]) == 3
    shutil.rmtree(tmp_path)
