"""Whether reports are equal: tables with their types, figures with their reasons, notices, and what renderers take."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from fastprof.analyses import contract
from fastprof.render import report_json

DEMO = Path(__file__).resolve().parents[1] / "demo"
POD = str(DEMO / "pod")
XLA = str(DEMO / "xla")
TF_DATA = str(DEMO / "tf-data")


def check_equal(found: Mapping[str, contract.AnalysisReport], expected: Mapping[str, contract.AnalysisReport]) -> None:
    assert list(found) == list(expected)
    for name, report in found.items():
        other = expected[name]
        for table, rows in report.tables.items():
            assert rows.schema == other.tables[table].schema, (name, table)
            assert rows.equals(other.tables[table]), (name, table)
        assert report.scalars == other.scalars, name
        assert report.notices == other.notices, name
        assert b"".join(report_json.chunks(report)) == b"".join(report_json.chunks(other))


def of_others(reports: Mapping[str, contract.AnalysisReport], skipped: str) -> dict[str, contract.AnalysisReport]:
    """The reports without the remark that a host cannot be read."""
    text = f"{skipped}.xplane.pb cannot be read and is left out: table import_log."
    assert all(one.notices[0] == contract.Notice("warning", text) for one in reports.values())
    return {name: replace(one, notices=one.notices[1:]) for name, one in reports.items()}
