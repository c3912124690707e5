"""Reports as JSON by column: the same values as by row, and only what is asked for."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from fastprof.analyses.contract import AnalysisReport, LazyTables, Notice
from fastprof.errors import UsageError
from fastprof.render import report_json
from fastprof.render.report_json import ReportPart, write_columns


def report() -> AnalysisReport:
    ops = pa.table(
        {
            "name": pa.array(["a", "b", "a", None]),
            "kind": pa.array(["x", "x", "x", "y"]).dictionary_encode().slice(0, 4),
            "self_ps": pa.array([1, None, 2**62, 4]),
            "rate": pa.array([0.5, float("nan"), float("inf"), None]),
            "is_feed": pa.array([True, False, None, True]),
            "sizes": pa.array([[1, 2], [], None, [3]]),
        }
    )
    return AnalysisReport("sample", {"ops": ops, "none": ops.slice(0, 0)}, {}, (Notice("info", "é"),))


def document(report: AnalysisReport, **part: Any) -> dict[str, Any]:
    read: dict[str, Any] = json.loads(b"".join(write_columns(report, ReportPart(**part))).decode("ascii"))
    return read


def values(column: dict[str, Any]) -> list[Any]:
    if "texts" not in column:
        return list(column["values"])
    return [None if code < 0 else column["texts"][code] for code in column["codes"]]


def test_columns_hold_what_rows_do() -> None:
    found = report()
    by_row = json.loads(b"".join(report_json.chunks(found)))
    by_column = document(found)
    assert {key: by_column[key] for key in by_row if key != "tables"} == {
        key: by_row[key] for key in by_row if key != "tables"
    }
    for name, table in by_row["tables"].items():
        columns = {column["name"]: values(column) for column in by_column["tables"][name]["columns"]}
        assert columns == {
            column["name"]: [row[column["name"]] for row in table["rows"]] for column in table["columns"]
        }


def test_texts_are_written_once() -> None:
    (name, *_) = document(report())["tables"]["ops"]["columns"]
    assert (name["texts"], name["codes"]) == (["a", "b"], [0, 1, 0, -1])


def test_only_the_tables_columns_and_rows_asked_for_are_there() -> None:
    parsed = document(report(), tables=("ops",), columns={"ops": ("self_ps", "name")}, first=1, rows=2)
    ops = parsed["tables"].pop("ops")
    assert parsed["tables"] == {}
    assert (ops["length"], ops["first"], ops["of"]) == (2, 1, 4)
    assert [column["name"] for column in ops["columns"]] == ["name", "self_ps"]
    assert [values(column) for column in ops["columns"]] == [["b", "a"], [None, 2**62]]


def test_rows_beyond_the_last_are_none() -> None:
    ops = document(report(), tables=("ops",), first=10, rows=5)["tables"]["ops"]
    assert (ops["length"], ops["of"]) == (0, 4)


def test_tables_that_are_not_asked_for_are_not_made() -> None:
    def late() -> pa.Table:
        raise AssertionError("the table was made")

    found = AnalysisReport("sample", LazyTables({"ops": report().tables["ops"], "late": late}), {}, ())
    assert list(document(found, tables=("ops",))["tables"]) == ["ops"]


def test_long_texts_are_cut() -> None:
    report = AnalysisReport("sample", {"t": pa.table({"text": ["x" * 50, "y"]})}, {}, ())
    assert document(report, letters=10)["tables"]["t"]["columns"][0]["texts"] == ["x" * 10 + "…", "y"]


@pytest.mark.parametrize(
    "part", [{"tables": ("nothing",)}, {"columns": {"ops": ("nothing",)}}, {"columns": {"no": ()}}]
)
def test_what_is_not_there_is_named(part: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="there are "):
        document(report(), **part)


@pytest.mark.parametrize("most", [1, 700, 2_000, 20_000, 10**9])
def test_a_part_of_few_bytes_goes_on_where_it_ended(most: int) -> None:
    """Each table in turn, as the page does: all rows come once, and no answer is larger."""
    rows = pa.table({"number": pa.array(range(1000)), "name": pa.array([f"op {at % 7}" for at in range(1000)])})
    found = AnalysisReport("sample", {"ops": rows, "few": rows.slice(0, 3), "none": rows.slice(0, 0)}, {}, ())
    described = len(b"".join(write_columns(found, ReportPart(rows=0))))
    first = b"".join(write_columns(found, ReportPart(most_bytes=most)))
    assert len(first) <= described + max(most, 20)
    tables = json.loads(first)["tables"]
    assert tables["ops"]["length"] >= 1 and (most < 10**9 or tables["ops"]["length"] == 1000)
    for name, table in tables.items():
        names = values(table["columns"][1])
        while len(names) < table["of"] and len(names) < 50:
            data = b"".join(write_columns(found, ReportPart(tables=(name,), first=len(names), most_bytes=most)))
            assert len(data) <= described + max(most, 20)
            part = json.loads(data)["tables"][name]
            assert part["first"] == len(names) and part["length"] >= 1
            names += values(part["columns"][1])
        assert names == found.tables[name]["name"].to_pylist()[: len(names)]


def test_little_more_than_what_fits_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    written, write = [], report_json._write_table
    monkeypatch.setattr(
        report_json, "_write_table", lambda name, table, part: written.append(part.rows) or write(name, table, part)
    )
    rows = pa.table({"number": pa.array(range(10**6)), "other": pa.array(range(10**6))})
    found = AnalysisReport("sample", {"ops": rows}, {}, ())
    assert len(b"".join(write_columns(found, ReportPart(most_bytes=40_000)))) < 41_000
    assert written[0] == 10_000 and len(written) <= 4
