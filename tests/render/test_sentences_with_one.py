"""Sentences of amounts: one has no average, and no share is said twice."""

from __future__ import annotations

import pyarrow as pa
import pytest

from fastprof.analyses.findings.idle_findings import _format_each
from fastprof.render.report_text import list_paragraphs
from fastprof.render.table_forms import Look


def test_one_wait_has_no_average() -> None:
    assert _format_each(1, "wait", "waits", 463_300_000_000) == "1 wait of 463.3 ms"
    assert _format_each(2, "wait", "waits", 463_300_000_000) == "2 waits of 231.6 ms on average"


@pytest.mark.parametrize(
    ("rest", "expected"),
    [(0.9781, "idle: 97.8 %"), (0.991, "idle: 97.8 %, 99.1 % without start-up"), (None, "idle: 97.8 %")],
)
def test_a_share_without_start_up_is_said_if_it_differs(rest: float | None, expected: str) -> None:
    unit = {"unit": "share"}
    schema = pa.schema([
        pa.field("title", pa.string()),
        pa.field("share", pa.float64(), metadata=unit),
        pa.field("rest_share", pa.float64(), metadata=unit),
    ])  # fmt: skip
    table = pa.Table.from_pylist([{"title": "idle", "share": 0.978, "rest_share": rest}], schema)
    assert next(list_paragraphs(table, Look()))[0] == expected
