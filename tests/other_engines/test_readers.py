"""Tables in Spark, Ray Data, Dask, Polars and DataFusion, each run really (``make test-engines``)."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import fastprof
from fastprof.engines import host_rows

POD = str(Path("demo/pod").absolute())
LARGEST = (
    "select host, name, sum(duration_ps) as total from events group by host, name order by total desc, host limit 5"
)


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    pytest.importorskip("pyspark")
    from pyspark.sql import SparkSession

    from fastprof.engines.spark import FastprofSource

    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    session = builder.config("spark.sql.python.filterPushdown.enabled", "true").getOrCreate()
    session.dataSource.register(FastprofSource)
    yield session
    session.stop()


def rows_of(table: str) -> list[dict[str, Any]]:
    return [row for rows in host_rows(POD, table) for row in rows.to_arrow().to_pylist()]


@pytest.mark.parametrize("table", ["events", "event_stats", "nesting", "planes", "lines", "hosts", "hlo_instructions"])
def test_spark_has_the_rows_of_each_file(spark: Any, table: str) -> None:
    frame = spark.read.format("fastprof").option("table", table).load(POD)
    found = [row.asDict(recursive=True) for row in frame.collect()]
    expected = rows_of(table)
    if table == "hosts":  # Arrow's maps are lists of pairs in Python
        expected = [{**row, "task_environment": dict(row["task_environment"])} for row in expected]
    assert found == expected


def test_spark_counts_what_is_there(spark: Any) -> None:
    """Conditions of one query must not stay in the next, nor reach the other side of a join: with filters that are
    pushed into a Python source, Spark 4.1 and 4.3 let them."""
    events = rows_of("events")
    frame = spark.read.format("fastprof").load(POD)
    of_host = frame.filter("host = 'host0'")
    expected = sum(row["host"] == "host0" for row in events)
    assert [frame.count(), of_host.count(), frame.count()] == [len(events), expected, len(events)]
    assert of_host.crossJoin(frame.select("event_id")).count() == expected * len(events)
    narrow = spark.read.format("fastprof").option("hosts", "host1").option("columns", "name,duration_ps").load(POD)
    assert narrow.columns == ["name", "duration_ps"]
    assert narrow.count() == len(events) - expected
    frame.createOrReplaceTempView("events")
    assert [row.asDict() for row in spark.sql(LARGEST).collect()] == largest(events)


@pytest.mark.parametrize("table", ["events", "event_stats"])
def test_spark_reads_a_plane_a_task(spark: Any, table: str) -> None:
    frame = spark.read.format("fastprof").option("table", table).option("split", "plane").load(POD)
    assert [row.asDict(recursive=True) for row in frame.collect()] == rows_of(table)
    assert frame.rdd.getNumPartitions() == sum(len(rows.by_plane()) for rows in host_rows(POD, table)) > 4
    for options, says in (
        ({"split": "line"}, "split is file or plane"),
        ({"split": "plane", "table": "lines"}, "lines"),
    ):
        with pytest.raises(Exception, match=says):
            spark.read.format("fastprof").options(**options).load(POD).count()


def test_spark_says_what_is_wrong(spark: Any, tmp_path: Path) -> None:
    with pytest.raises(Exception, match=r"no table 'event'; .* did you mean 'events'"):
        spark.read.format("fastprof").option("table", "event").load(POD)
    shutil.copytree(POD, tmp_path / "pod")
    (broken,) = tmp_path.glob("pod/**/host1.xplane.pb")
    broken.write_bytes(broken.read_bytes()[:-100])
    read = spark.read.format("fastprof")
    with pytest.raises(Exception, match=r"host1\.xplane\.pb"):
        read.load(str(tmp_path / "pod")).count()
    assert read.option("mode", "PERMISSIVE").load(str(tmp_path / "pod")).count() == 288


def largest(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    sums: dict[tuple[str, str], int] = {}
    for row in events:
        key = row["host"], row["name"]
        sums[key] = sums.get(key, 0) + row["duration_ps"]
    ordered = sorted(sums.items(), key=lambda item: (-item[1], item[0][0]))[:5]
    return [{"host": host, "name": name, "total": total} for (host, name), total in ordered]


@pytest.mark.filterwarnings("ignore")  # Ray warns of its own settings
def test_ray_data() -> None:
    ray = pytest.importorskip("ray")
    pytest.importorskip("ray.data")
    from fastprof.engines import ray_data

    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        for table in ("events", "event_stats", "flows"):
            found = ray_data.read(POD, table).take_all()
            assert sorted(map(str, found)) == sorted(map(str, rows_of(table)))
        sums = ray_data.read(POD, columns=["name", "duration_ps"]).groupby("name").sum("duration_ps").take_all()
        by_name: dict[str, int] = {}
        for row in rows_of("events"):
            by_name[row["name"]] = by_name.get(row["name"], 0) + row["duration_ps"]
        assert {row["name"]: row["sum(duration_ps)"] for row in sums} == by_name
    finally:
        ray.shutdown()


def test_dask_dataframe() -> None:
    dd = pytest.importorskip("dask.dataframe")
    pandas = pytest.importorskip("pandas")
    files = host_rows(POD, "events", columns=["host", "name", "duration_ps"])
    frame = dd.from_map(lambda rows: rows.to_arrow().to_pandas(types_mapper=pandas.ArrowDtype), files)
    total = frame.groupby("host")["duration_ps"].sum().compute().to_dict()
    events = rows_of("events")
    assert total == {host: sum(r["duration_ps"] for r in events if r["host"] == host) for host in ("host0", "host1")}


def test_polars_and_datafusion_read_datasets() -> None:
    polars, datafusion = pytest.importorskip("polars"), pytest.importorskip("datafusion")
    profile = fastprof.load(POD)
    events = profile.events.to_pylist()
    of_host = polars.scan_pyarrow_dataset(profile.dataset()).filter(polars.col("host") == "host1")
    expected = [row["duration_ps"] for row in events if row["host"] == "host1"]
    assert of_host.select(polars.len(), polars.col("duration_ps").sum()).collect().rows() == [(288, sum(expected))]
    context = datafusion.SessionContext()
    context.register_dataset("events", profile.dataset(plain_texts=True))
    assert context.sql(LARGEST).to_pylist() == largest(events)
