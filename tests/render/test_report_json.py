"""Reports as JSON and as XProf's JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from types import ModuleType

import pyarrow as pa
import pytest
import sample_analysis

import fastprof
from fastprof.analyses.contract import AnalysisReport, Notice, make_scalars
from fastprof.render import report_json
from fastprof.xprof import report_xprof


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    with sample_analysis.registered():
        yield


def sample(values: dict[str, object] | None = None) -> AnalysisReport:
    unknown = (None, "not asked for")
    known = dict.fromkeys(sample_analysis.SCALARS, unknown) | (values or {})
    names = pa.table([pa.array(["a", "\u202e\x00"], pa.string())], schema=sample_analysis.TABLES["names"].arrow())
    figures = make_scalars(sample_analysis.SCALARS, known)  # type: ignore[arg-type]
    return AnalysisReport("sample_analysis", {"names": names}, figures, (Notice("info", "é"),))


def document(report: AnalysisReport, limit: int | None = None) -> str:
    return b"".join(report_json.chunks(report, limit)).decode("ascii")


def test_the_whole_document() -> None:
    parsed = document(sample({"event_count": 2**63 - 1, "mean_ps": 0.1}))
    assert json.loads(parsed) == {
        "analysis": "sample_analysis",
        "fastprof_version": fastprof.__version__,
        "schema_version": "4",
        "scalars": {
            "event_count": scalar(2**63 - 1, None, "events of all hosts"),
            "total_ps": scalar(None, "ps", "sum of durations", "not asked for"),
            "mean_ps": scalar(0.1, "ps", "total_ps / event_count"),
            "first_name": scalar(None, None, "the first name", "not asked for"),
            "loud": scalar(None, None, "whether it was to be loud", "not asked for"),
            "steps": scalar(None, None, "steps", "not asked for"),
        },
        "notices": [{"severity": "info", "text": "é"}],
        "tables": {
            "names": {
                "table": "names",
                "columns": [{"name": "name", "type": "string", "unit": None, "description": "name"}],
                "rows": [{"name": "a"}, {"name": "\u202e\x00"}],
            }
        },
    }


def scalar(value: object, unit: str | None, definition: str, reason: str | None = None) -> dict[str, object]:
    return {"value": value, "unit": unit, "definition": definition, "reason": reason}


def test_a_limit_counts_for_every_table() -> None:
    assert json.loads(document(sample(), 1))["tables"]["names"]["rows"] == [{"name": "a"}]


def test_several_are_one_object() -> None:
    text = b"".join(report_json.several({"one": sample(), "two": sample()}, 0))
    assert list(json.loads(text)) == ["one", "two"]
    assert json.loads(b"".join(report_json.several({}))) == {}


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("fastprof.xprof.pages.sample_analysis")
    module.answer = lambda report: [  # type: ignore[attr-defined]
        {"b": 1.0, "a": report.analysis}, (float("nan"), float("inf"), -0.0), {"c": [float("-inf"), 3, True, None]}
    ]  # fmt: skip
    monkeypatch.setitem(sys.modules, module.__name__, module)


@pytest.mark.usefixtures("page")
def test_xprof_has_sorted_keys_whole_floats_and_nulls_for_what_is_not_a_number() -> None:
    expected = '[{"a": "sample_analysis", "b": 1.0}, [null, null, -0.0], {"c": [null, 3, true, null]}]'
    assert report_xprof.get_text(sample()) == expected
    assert "".join(report_xprof.write_reports({"x": sample()})) == f'{{"x": {expected}}}'


def test_an_analysis_without_a_page_is_a_usage_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(report_xprof.NO_PAGE, "sample_analysis", "XProf counts no events")
    with pytest.raises(fastprof.UsageError, match="sample_analysis has no form xprof: XProf counts no events"):
        report_xprof.get_text(sample())
    assert "".join(report_xprof.write_reports({"sample_analysis": sample()})) == "{}"
