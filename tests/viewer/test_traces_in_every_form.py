"""Every real trace goes through every analysis, every form of reports, exports and the viewer."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from served import Served

import fastprof
from fastprof.analyses import ANALYSES
from fastprof.cli.main import main
from fastprof.xprof.report_xprof import NO_PAGE

CAPTURES = Path(__file__).resolve().parents[3] / "shared" / "captures"
PATTERNS = ("chrome/*/*.json*", "tf1/timeline-*.json", "tf1/run_metadata.pb", "riegeli/*.xplane.riegeli")
TRACES = sorted(path for pattern in PATTERNS for path in CAPTURES.glob(pattern))
each_trace = pytest.mark.parametrize("path", TRACES, ids=lambda path: path.name)
pytestmark = pytest.mark.captures


@each_trace
def test_reports(path: Path) -> None:
    answers = fastprof.load(path).answers(tuple(ANALYSES), {}, "xprof")
    assert tuple(answers) == tuple(ANALYSES)
    for answer in answers.values():
        report = fastprof.Report(answer)
        assert report.to_text(limit="all").strip()
        tables = json.loads(report.to_json())["tables"]
        assert {name: len(table["rows"]) for name, table in tables.items()} == {
            name: table.num_rows for name, table in report.tables.items()
        }
        if report.analysis not in NO_PAGE:
            json.loads(report.to_xprof())


@each_trace
def test_exports(path: Path, tmp_path: Path) -> None:
    profile = fastprof.load(path)
    for form in ("parquet", "arrow", "csv"):
        assert main(["export", str(path), "-o", str(tmp_path / form), "--format", form, "-q"]) == 0
    assert pq.read_table(tmp_path / "parquet" / "events").num_rows == profile.events.num_rows
    for form in ("chrome", "perfetto", "xprof", "xprof-streaming"):
        assert main(["trace", str(path), "-o", str(tmp_path / f"trace-{form}"), "--format", form, "-q"]) == 0
    written = json.loads((tmp_path / "trace-chrome").read_bytes())["traceEvents"]
    assert sum(event["ph"] in "XiC" for event in written) >= profile.events.num_rows > 0
    assert main(["convert", str(path), "-o", str(tmp_path / "a.xplane.pb"), "-q"]) == 0
    again = fastprof.load(tmp_path / "a.xplane.pb").events
    columns = ["plane", "line", "name", "start_ps", "duration_ps"]
    assert again.select(columns) == profile.events.select(columns)


@each_trace
def test_the_viewer(path: Path) -> None:
    served = Served(path)
    timeline = served.timeline()
    assert sum(len(process["tracks"]["id"]) for process in timeline["processes"]) > 0
    assert len(served.tile(0).start) > 0
