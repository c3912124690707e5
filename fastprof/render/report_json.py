"""Reports as JSON: figures with unit and definition, notices, and tables with descriptions of their columns.

    {"analysis": "overview", "fastprof_version": "…", "schema_version": "3",
     "scalars": {
    "step_time_ps": {"value": 7000000000, "unit": "ps", "definition": "…", "reason": null},
     …},
     "notices": [
    {"severity": "recommendation", "text": "…"},
     …],
     "tables": {
    "ops": {"table": "ops", "columns": […], "rows": […]},
     …}}

The shape is stable: names stay, and an unknown value is null with a reason. Tables are written as in as_json.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from fastprof._version import __version__
from fastprof.render import as_json
from fastprof.schema.tables import VERSION
from fastprof.wording.json_values import format_json, json_quote

if TYPE_CHECKING:
    from fastprof.analyses.contract import AnalysisReport, Scalar


def chunks(report: AnalysisReport, limit: int | None = None) -> Iterator[bytes]:
    """The document of one report, ended by a newline; at most ``limit`` rows of each table."""
    yield from _write_document(report, limit)
    yield b"\n"


def several(reports: Mapping[str, AnalysisReport], limit: int | None = None) -> Iterator[bytes]:
    """One document of several reports, by name."""
    lead = b"{"
    for name, report in reports.items():
        yield lead + f"{json_quote(name)}: ".encode("ascii")
        yield from _write_document(report, limit)
        lead = b",\n"
    yield b"}\n" if reports else b"{}\n"


def _write_document(report: AnalysisReport, limit: int | None) -> Iterator[bytes]:
    yield (write_head(report) + ',\n "tables": {').encode("ascii")
    lead = "\n"
    for name, table in report.tables.items():
        yield f"{lead}{json_quote(name)}: ".encode("ascii")
        yield from as_json.write_table(name, table if limit is None else table.slice(0, limit))
        lead = ",\n"
    yield b"}}"


def write_head(report: AnalysisReport) -> str:
    """The document up to its tables, with its opening brace."""
    names = (("analysis", report.analysis), ("fastprof_version", __version__), ("schema_version", VERSION))
    pieces = [", ".join(f"{json_quote(key)}: {json_quote(value)}" for key, value in names)]
    scalars = [
        f"{json_quote(name)}: {format_json(_describe_scalar(scalar))}" for name, scalar in report.scalars.items()
    ]
    pieces.append(' "scalars": {\n' + ",\n".join(scalars) + "}")
    notices = [format_json({"severity": notice.severity, "text": notice.text}) for notice in report.notices]
    pieces.append(' "notices": [\n' + ",\n".join(notices) + "]")
    return "{" + ",\n".join(pieces)


def _describe_scalar(scalar: Scalar) -> dict[str, object]:
    return {"value": scalar.value, "unit": scalar.unit, "definition": scalar.definition, "reason": scalar.reason}
