"""Reports of several runs in the forms that pipelines read: JUnit XML, SARIF 2.1.0, Markdown, HTML."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from html import escape as escape_html
from pathlib import Path
from typing import Final
from urllib.parse import quote
from xml.etree import ElementTree

from fastprof._version import __version__
from fastprof.analyses.check import FAILED, PASSED, STATES
from fastprof.analyses.compare import RunFacts
from fastprof.analyses.contract import AnalysisReport
from fastprof.render.report_html import render_html
from fastprof.wording.quantities import format_measure
from fastprof.wording.screen import escape_text

_SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"


def write_junit(report: AnalysisReport) -> str:
    """Return the conditions as test cases of one suite; one that cannot be judged is an error."""
    rows = report.tables["conditions"].to_pylist()
    counts = {
        "tests": len(rows),
        "failures": sum(row["state"] == FAILED for row in rows),
        "errors": sum(row["state"] not in (FAILED, PASSED) for row in rows),
    }
    attributes = {"name": "fastprof check", **{name: str(count) for name, count in counts.items()}}
    suite = ElementTree.Element("testsuite", attributes)
    for row in rows:
        case = ElementTree.SubElement(suite, "testcase", classname="fastprof.check", name=escape_text(row["condition"]))
        if row["state"] != PASSED:
            kind = "failure" if row["state"] == FAILED else "error"
            ElementTree.SubElement(case, kind, message=escape_text(row["reason"]), type=row["state"])
    return ElementTree.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"


def write_sarif(report: AnalysisReport) -> str:
    """Return the conditions that failed or cannot be judged as results of a SARIF log, at the capture of the run."""
    sources = report.detail.sources if isinstance(report.detail, RunFacts) else ()
    location = {"artifactLocation": {"uri": _make_uri(next(iter(sources), ""))}, "region": {"startLine": 1}}
    rows = report.tables["conditions"].to_pylist()
    rules = [{"id": row["figure"], "shortDescription": {"text": row["figure"]}} for row in rows]
    results = [
        {
            "ruleId": row["figure"],
            "level": "error" if row["state"] == FAILED else "warning",
            "message": {"text": f"{row['condition']}: {row['reason']}"},
            "locations": [{"physicalLocation": location}],
        }
        for row in rows
        if row["state"] != PASSED
    ]
    driver = {"name": "fastprof", "version": __version__, "rules": list({rule["id"]: rule for rule in rules}.values())}
    log = {"$schema": _SCHEMA, "version": "2.1.0", "runs": [{"tool": {"driver": driver}, "results": results}]}
    return json.dumps(log, indent=1) + "\n"


def _make_uri(path: str) -> str:
    """Return the path of a capture as a URI, relative to the working directory if it lies below: code scanning matches
    it with files of the repository."""
    if "://" in path:
        return quote(path, safe="/:")
    absolute = Path(os.path.normpath(Path.cwd() / path))
    return quote(str(absolute.relative_to(Path.cwd()))) if absolute.is_relative_to(Path.cwd()) else absolute.as_uri()


def write_conditions(report: AnalysisReport) -> str:
    """Return headline and conditions of a check as Markdown, for a comment on a pull request."""
    lines = [*_write_head(report), ""]
    lines += ["| fails if | | base | new | change | why |", "|---|---|---:|---:|---:|---|"]
    for row in report.tables["conditions"].to_pylist():
        change = "" if row["change_share"] is None else f"{row['change_share']:+.1%}"
        known = (row[side] for side in ("base", "new"))
        values = ["" if value is None else _escape(format_measure(value, row["unit"])) for value in known]
        mark = {PASSED: "✅", FAILED: "❌"}.get(row["state"], "❔")
        cells = (
            f"`{row['condition']}`".replace("|", "\\|"),
            f"{mark} {STATES[row['state']]}",
            *values,
            change,
            _escape(row["reason"] or ""),
        )
        lines.append(f"| {' | '.join(cells)} |")
    lines += _write_notices(report)
    return "\n".join(lines) + "\n"


def write_changes(report: AnalysisReport) -> str:
    """Return headline, differences and largest changes of a comparison as Markdown."""
    lines = [*_write_head(report), ""]
    differences = report.tables["environment"].to_pylist()
    if differences:
        lines += ["| differs | base | new |", "|---|---|---|"]
        lines += [f"| {' | '.join(_escape(row[name]) for name in ('what', 'base', 'new'))} |" for row in differences]
        lines.append("")
    lines += ["| what changed | base | new | change | share of the total change |", "|---|---:|---:|---:|---:|"]
    for row in report.tables["changes"].slice(0, _MOST_CHANGES).to_pylist():
        times = [format_measure(row[name], "ps") for name in ("base_ps", "new_ps", "change_ps")]
        share = "" if row["share"] is None else format_measure(row["share"], "share")
        lines.append(f"| {' | '.join((_escape(row['title']), *times, share))} |")
    lines += _write_notices(report)
    return "\n".join(lines) + "\n"


def write_page(report: AnalysisReport) -> str:
    """Return a report as an HTML document."""
    title = escape_html(f"{report.analysis} · fastprof")
    head = f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title>'
    return f"{head}<body>{render_html(report)}</body></html>\n"


_MOST_CHANGES: Final = 20


def _write_head(report: AnalysisReport) -> list[str]:
    """Return the headline and the names of the runs."""
    names = {name: report.scalars[f"{name}_run"].value for name in ("base", "new")}
    known = " → ".join(f"{name}: {_escape(str(value))}" for name, value in names.items() if value is not None)
    return [f"**{_escape(str(report.scalars['headline'].value))}**", "", known]


def _write_notices(report: AnalysisReport) -> list[str]:
    """Return the notices as a list after a table."""
    texts = [f"- {_escape(notice.text)}" for notice in report.notices]
    return ["", *texts] if texts else []


def _escape(text: str) -> str:
    """Return text that Markdown shows as it is."""
    return "".join(f"\\{character}" if character in "\\`*_|<>[]#" else character for character in escape_text(text))


FORMS: Final[Mapping[str, Mapping[str, Callable[[AnalysisReport], str]]]] = {
    "check": {"junit": write_junit, "sarif": write_sarif, "markdown": write_conditions, "html": write_page},
    "compare": {"markdown": write_changes, "html": write_page},
}
"""Writers by analysis and format."""
