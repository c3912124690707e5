"""What holds of every report on input pipelines, whatever the events: sums, orders, and a drawing that is XML."""

from __future__ import annotations

from collections import Counter
from typing import Any
from xml.etree import ElementTree

import pytest
from gate import few
from pipeline_spaces import capture_of, pipeline_threads

import fastprof

Row = dict[str, Any]


def tables_of(report: fastprof.Report) -> dict[str, list[Row]]:
    return {name: table.to_pylist() for name, table in report.tables.items()}


def summed(rows: list[Row], column: str, *keys: str) -> Counter[Any]:
    counts: Counter[Any] = Counter()
    for row in rows:
        counts[tuple(row[key] for key in keys)] += row[column]
    return +counts


@pytest.mark.parametrize("seed", few(range(60), 12))
def test_a_report_adds_up(seed: int) -> None:
    report = fastprof.load(capture_of(pipeline_threads(seed))).tf_data(slow_call_us=0)
    tables = tables_of(report)
    calls, iterators, parts = tables["calls"], tables["iterators"], tables["call_iterators"]
    total = summed(calls, "duration_ps", "pipeline")
    assert summed(tables["pipelines"], "total_ps", "pipeline") == total
    assert summed(iterators, "critical_ps", "pipeline") == total
    assert summed(parts, "critical_ps", "pipeline", "rank") == summed(calls, "duration_ps", "pipeline", "rank")
    of_iterator = summed(iterators, "critical_ps", "pipeline", "iterator_id", "name")
    assert summed(parts, "critical_ps", "pipeline", "iterator_id", "name") == of_iterator
    assert summed(tables["self_time"], "time_ps", "pipeline", "iterator_id", "name") == of_iterator
    slowest = {(row["pipeline"],): row["duration_ps"] for row in calls if row["rank"] == 0 and row["duration_ps"]}
    assert summed(tables["critical_path"], "duration_ps", "pipeline") == slowest
    for row in tables["what_if"]:
        assert row["then_ps"] is None or 0 <= row["then_ps"] <= row["now_ps"]
        assert row["saved_ps"] == (None if row["then_ps"] is None else row["now_ps"] - row["then_ps"])
    assert {row["pipeline"]: row["bottleneck_id"] for row in tables["pipelines"] if row["bottleneck_id"]} == {
        row["pipeline"]: row["iterator_id"] for row in iterators if row["is_bottleneck"]
    }
    assert report.to_text(limit="all")
    ElementTree.fromstring(report.to_svg())


@pytest.mark.parametrize("seed", few(range(60, 90), 8))
def test_several_hosts_are_reported_as_each_alone(seed: int) -> None:
    captures = [capture_of(pipeline_threads(seed + offset)) for offset in (0, 1000)]
    together = fastprof.load(captures)
    both = tables_of(together.tf_data())
    for host, capture in zip(together.hosts["host"].to_pylist(), captures, strict=True):
        alone = tables_of(fastprof.load(capture).tf_data())
        for name, rows in both.items():
            mine = [{**row, "host": None} for row in rows if row["host"] == host]
            own = [{**row, "host": None} for row in alone[name]]
            assert mine == own, name
