"""Rows of ops that are alike are one row of the text, with their sums; data keep every row."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from fastprof.analyses import hlo_stats
from fastprof.analyses.contract import Alike, AnalysisReport, Section
from fastprof.render import report_json, report_text
from fastprof.render.table_forms import Look

PS = {"unit": "ps"}
OPS = Alike(("name", "op"), ("count", "self_ps", "share"))
SECTION = Section("Ops", "ops", bar="share", rows=3, alike=OPS)
SCHEMA = pa.schema(
    [
        pa.field("name", pa.string()),
        pa.field("op", pa.string()),
        pa.field("kind", pa.string()),
        pa.field("count", pa.int64()),
        pa.field("self_ps", pa.int64(), metadata=PS),
        pa.field("share", pa.float64(), metadata={"unit": "share"}),
        pa.field("rate", pa.float64(), metadata={"unit": "flop/s"}),
    ]
)
Row = tuple[str | None, str | None, str, int, int, float | None, float | None]


def ops(*rows: Row) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in rows], SCHEMA)


def op(name: str, self_ps: int, kind: str = "fusion", count: int = 2, rate: float | None = None) -> Row:
    return name, f"jit(f)/layer_{self_ps % 7}/mul", kind, count, self_ps, self_ps / 1_024, rate


def sizes(*rows: Row) -> list[int]:
    return report_text.merge_alike_rows(ops(*rows), OPS, "share")[1]


LAYERS = [op("while", 150, "while"), *(op(f"fusion.{number}", 100 - number) for number in range(5)), op("copy.1", 20)]


def test_the_largest_sum_comes_first_and_totals_stay() -> None:
    table, counts = report_text.merge_alike_rows(ops(*LAYERS), OPS, "share")
    assert table["name"].to_pylist() == ["fusion.0", "while", "copy.1"]
    assert counts == [5, 1, 1]
    assert table["self_ps"].to_pylist() == [490, 150, 20]
    assert table["count"].to_pylist() == [10, 2, 2]
    assert sum(table["self_ps"].to_pylist()) == sum(row[4] for row in LAYERS)
    assert table["share"].to_pylist() == pytest.approx([490 / 1_024, 150 / 1_024, 20 / 1_024])
    assert table.schema.equals(SCHEMA, check_metadata=True)


def test_rows_in_another_order_stay_in_it() -> None:
    rows = [op("while", 150, "while"), op("a.1", 10), op("fusion.1", 100), op("fusion.2", 95)]
    table, counts = report_text.merge_alike_rows(ops(*rows), OPS, "share")
    assert (table["name"].to_pylist(), counts) == (["while", "a.1", "fusion.1"], [1, 1, 2])


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        (op("fusion.12", 100), op("fusion.17", 90), True),
        (op("fusion.12", 100), op("fusion.17", 89), False),  # more than a tenth apart
        (op("fusion.12", 100), op("fusion.17", 100, count=3), False),
        (op("fusion.12", 100), op("fusion.17", 100, "loop fusion"), False),
        (op("fusion", 100), op("fusion.1", 100), True),  # the first one has no number
        (op("f/layer_3/mul", 100), op("f/layer_14/mul", 100), True),
        (op("f/layer3/mul", 100), op("f/layer14/mul", 100), True),
        (op("f/3/mul", 100), op("f/4/mul:Mul", 100), False),
        (op("f/dropout/mul", 100), op("f/dropout_1/mul", 100), False),  # two dropouts of a layer
        (op("gemm_128x64_nn", 100), op("gemm_64x128_nn", 100), False),
        (op("to_f32", 100), op("to_f16", 100), False),
        (op("a.1", 100, rate=10.0), op("a.2", 100, rate=9.5), True),
        (op("a.1", 100, rate=10.0), op("a.2", 100, rate=8.0), False),
        (op("a.1", 100, rate=10.0), op("a.2", 100), False),  # of one it is unknown
        (op("a.1", 100, rate=float("nan")), op("a.2", 100, rate=float("nan")), False),
        (op("a.1", 2**62), op("a.2", 2**62), False),  # their sum could not be written
        (op("a.1", 0), op("a.2", 0), True),
        ((None, None, "", 0, 0, None, None), (None, "x", "", 0, 0, None, None), False),
    ],
)
def test_what_is_alike(one: Row, other: Row, alike: bool) -> None:
    assert sizes(one, other) == ([2] if alike else [1, 1])


def report(table: pa.Table) -> AnalysisReport:
    return AnalysisReport(hlo_stats.NAME, {"ops": table}, {})


def shown(look: Look, limit: int | None = None, section: Section = SECTION) -> tuple[pa.Table, list[str]]:
    return report_text.select_rows(section, report(ops(*LAYERS, op("sort", 1, "sort"))), look, limit)


def test_the_text_says_that_a_row_is_a_sum() -> None:
    rows, notes = shown(Look())
    assert rows["name"].to_pylist() == ["fusion.0", "while", "copy.1"]
    assert rows.column_names[:3] == ["name", "sum of", "op"]
    assert rows["sum of"].to_pylist() == ["5 alike", "", ""]
    assert notes == [
        "showing 7 of 8 in 3 rows; --limit all shows the others",
        "Rows with similar names and values within 10 % are merged; summed: count, self, share; "
        "other columns show the first row; --limit all shows each",
    ]


def test_a_table_without_sums_says_so() -> None:
    rows, notes = shown(Look(), section=Section("Ops", "ops", ("name", "kind"), alike=Alike(("name",))))
    assert rows["rows"].to_pylist() == ["", "5 alike", "", ""]
    assert notes == [
        "Rows with similar names and values within 10 % are merged; other columns show the first row; "
        "--limit all shows each"
    ]


@pytest.mark.parametrize(("look", "limit"), [(Look(), report_text.ALL), (Look(width=None), 20)])
def test_all_rows_and_wide_rows_are_each_shown(look: Look, limit: int) -> None:
    rows, notes = shown(look, limit)
    assert rows.num_rows == 8
    assert "sum of" not in rows.column_names
    assert notes == []


def test_no_rows_are_shown_where_none_are_wanted() -> None:
    assert shown(Look(), limit=0)[1] == ["showing 0 of 8; --limit all shows the others"]


def test_no_width_leaves_out_what_says_that_it_is_a_sum(monkeypatch: pytest.MonkeyPatch) -> None:
    for by_worth in (False, True):
        monkeypatch.setattr(hlo_stats, "SECTIONS", (Section("Ops", "ops", bar="share", alike=OPS, by_worth=by_worth),))
        for cells in range(12, 100, 4):
            assert "5 alike" in "\n".join(report_text.lines(report(ops(*LAYERS)), Look(cells))), cells


def test_data_have_every_row() -> None:
    document = json.loads(b"".join(report_json.chunks(report(ops(*LAYERS)))))
    assert [row["name"] for row in document["tables"]["ops"]["rows"]] == [row[0] for row in LAYERS]


def test_the_cost_grows_with_the_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name with many different values is compared with the last few of them, not with all."""
    compared = []
    join = report_text._add_to_group
    monkeypatch.setattr(report_text, "_add_to_group", lambda *given: compared.append(1) or join(*given))  # type: ignore[func-returns-value]
    rows = [op(f"fusion.{number}", 2**number, count=2 ** (number % 30)) for number in range(40)] * 25
    sizes(*rows)
    assert len(compared) <= report_text._MOST_GROUPS * len(rows)
