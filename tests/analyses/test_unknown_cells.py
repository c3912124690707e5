"""Cells of tables that need records: without these a 0 is null, and the table says why once."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
from ablation import without_of_kineto

import fastprof
from fastprof.analyses.contract import AnalysisReport, Scalar
from fastprof.analyses.runner import clear_unknown_cells
from fastprof.schema.tables import REASON, Bytes, Need, Picoseconds, TableSchema, Text, resting_on

NCCL = Path(__file__).parents[1] / "reported" / "i17-comm-nccl.json.gz"
_NONE = "no kernel is recorded"


def report(
    schema: TableSchema, rows: list[dict[str, object]], count: int | None, reason: str | None = None
) -> AnalysisReport:
    table = pa.Table.from_pylist(rows, schema.arrow())
    figure = Scalar("kernel_count", count, None, "kernels", reason)
    return clear_unknown_cells(AnalysisReport("made", {"rows": table}, {"kernel_count": figure}), {"rows": schema})


def schema(need: Need) -> TableSchema:
    columns = (Text("kind", "kind"), Picoseconds("busy_ps", "busy"), Picoseconds("time_ps", "time"))
    return TableSchema("rows", "a row", (*columns, *resting_on(need, Bytes("size", "size"))), derived=True)


ROWS: list[dict[str, object]] = [
    {"kind": "a", "busy_ps": 5, "time_ps": 0, "size": 0},
    {"kind": "b", "busy_ps": 0, "time_ps": 0, "size": 0},
    {"kind": "b", "busy_ps": 0, "time_ps": 0, "size": 7},
]


def sizes(made: AnalysisReport) -> list[int | None]:
    found: list[int | None] = made.tables["rows"]["size"].to_pylist()
    return found


def test_cells_of_zero_are_null_if_the_figure_that_counts_their_records_is_0() -> None:
    of_kernels = schema(Need("kernel_count", _NONE))
    assert of_kernels["size"].nullable
    assert of_kernels["size"].description == "size; null: no kernel is recorded"
    assert sizes(report(of_kernels, ROWS, 3)) == [0, 0, 7]
    without = report(of_kernels, ROWS, 0)
    assert sizes(without) == [None, None, 7]
    assert without.tables["rows"].schema.field("size").metadata[REASON].decode() == _NONE
    assert without.tables["rows"]["time_ps"].to_pylist() == [0, 0, 0]
    unknown = report(of_kernels, ROWS, None, "the file is cut off")
    assert unknown.tables["rows"].schema.field("size").metadata[REASON].decode() == "the file is cut off"


def test_a_count_without_words_for_its_absence_may_be_0() -> None:
    of_known = schema(Need("kernel_count"))
    assert sizes(report(of_known, ROWS, 0)) == [0, 0, 7]
    assert sizes(report(of_known, ROWS, None, "nothing shows it")) == [None, None, 7]


def test_a_column_of_the_row_may_count_the_records() -> None:
    assert sizes(report(schema(Need("busy_ps", _NONE)), ROWS, None)) == [0, None, 7]


def test_only_some_rows_may_need_the_records() -> None:
    assert sizes(report(schema(Need("kernel_count", _NONE, ("kind", ("a",)))), ROWS, 0)) == [None, 0, 7]


def test_reports_of_a_trace_without_kernels_have_no_zeros_of_devices() -> None:
    profile = fastprof.load(dict(without_of_kineto(NCCL))["kernels"])
    op_stats, steps, input_pipeline = profile.op_stats(), profile.steps(), profile.input_pipeline()
    assert op_stats.tables["device_ops"].num_rows == 0
    assert op_stats.tables["hosts"]["device_op_ps"].to_pylist() == [None]
    assert profile.op_profile().tables["tree"]["self_ps"].to_pylist() == [None]
    assert steps.tables["steps"]["device_compute_ps"].to_pylist() == [None] * 4
    assert input_pipeline.scalars["compute_percent"].value is None
    assert "Unknown: device op (no op of a device is recorded)" in op_stats.to_text()
    [column] = [one for one in json.loads(op_stats.to_json())["tables"]["hosts"]["columns"]
                if one["name"] == "device_op_ps"]  # fmt: skip
    assert column["reason"] == "no op of a device is recorded"


def test_causes_that_nothing_would_show_cost_no_0() -> None:
    profile = fastprof.load(dict(without_of_kineto(NCCL))["launches"])
    examined = {row["cause"]: row for row in profile.diagnosis().tables["examined"].to_pylist()}
    assert examined["queue"]["cost_ps"] is None
    assert examined["queue"]["reason"] == "the capture has no launches of GPU work"


def test_input_is_unknown_in_each_step_if_nothing_would_show_it() -> None:
    report = fastprof.load(NCCL).input_pipeline()
    assert report.scalars["input_percent"].value is None
    assert report.tables["steps"]["input_ps"].to_pylist() == [None] * 4
    rows = report.tables["breakdown"].to_pylist()
    assert [row["mean_ps"] for row in rows if row["category"] == "input"] == [None]
    assert f"Unknown: input, input share ({report.scalars['input_percent'].reason})" in report.to_text(width=200)
