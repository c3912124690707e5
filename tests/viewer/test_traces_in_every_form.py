"""Real traces go through every analysis, every form of reports, exports and the viewer.

The smallest of each format; with FASTPROF_EVERY_TRACE in the environment, all of them.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from gate import few
from served import Served

import fastprof
from fastprof.analyses import ANALYSES
from fastprof.cli.main import main
from fastprof.xprof.report_xprof import NO_PAGE

CAPTURES = Path(__file__).resolve().parents[3] / "shared" / "captures"
PATTERNS = {
    "browser": "chrome/browser/*.json", "PyTorch": "chrome/kineto/a*.json.gz", "integers": "chrome/kineto/l*.json.gz",
    "XProf": "xspace/cpu-jax-train/*.trace.json.gz", "timeline": "tf1/timeline-*.json", "on a GPU": "chrome/tf1/*.json",
    "RunMetadata": "tf1/run_metadata.pb", "tfprof": "tf1/profile_8", "riegeli": "riegeli/*.xplane.riegeli",
}  # fmt: skip
"""By format, its captures."""
EVERY = ("chrome/*/*.json*", "tf1/timeline-*.json", "tf1/run_metadata.pb", "tf1/profile_8", "riegeli/*.xplane.riegeli")


def traces() -> list[Path]:
    if "FASTPROF_EVERY_TRACE" in os.environ:
        return sorted(path for pattern in EVERY for path in CAPTURES.glob(pattern))
    of_formats = (list(CAPTURES.glob(pattern)) for pattern in PATTERNS.values())
    return [min(paths, key=lambda path: (path.stat().st_size, path.name)) for paths in of_formats if paths]


each_trace = pytest.mark.parametrize("path", traces(), ids=lambda path: path.name)
some_traces = pytest.mark.parametrize("path", few(traces(), 4), ids=lambda path: path.name)
pytestmark = pytest.mark.captures


@each_trace
@pytest.mark.parametrize("verb", ["info", "events", "report"])
def test_verbs(path: Path, verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([verb, str(path)]) == 0
    assert capsys.readouterr().out.strip()


@pytest.mark.parametrize("verb", few(["info", "events", "report"], 4))
def test_a_graph_has_verbs_and_a_table(verb: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = CAPTURES / "tf1" / "graph.pb"
    assert main([verb, str(path)]) == 0
    assert capsys.readouterr().out.strip()
    assert main(["export", str(path), "-o", str(tmp_path / "tables"), "-q"]) == 0
    assert pq.read_table(tmp_path / "tables" / "graph_nodes").num_rows == fastprof.load(path).graph_nodes.num_rows > 0


@some_traces
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


@some_traces
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
