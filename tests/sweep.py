"""Checks of all reports of a capture together: shares, costs of findings, and figures that several reports have."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow.compute as pc

import fastprof
from fastprof.analyses import ANALYSES, runner

ROUNDING = 1e-9
SHARES_OF_OTHERS = frozenset({"excess_share"})
"""Shares that are no part of what they are compared with."""

OF_EACH = "longest"
"""How figures begin of what takes longest in each report."""

Reports = Mapping[str, fastprof.Report]


def reports_of(profile: fastprof.Profile) -> Reports:
    return profile.reports(*ANALYSES)


def analyses_that_fail(reports: Reports) -> Iterator[str]:
    for name, report in reports.items():
        if report.answer.failure is not None:
            yield f"{name}: {report.answer.failure}"


def shares_above_one(reports: Reports) -> Iterator[str]:
    for name, report in reports.items():
        for figure, scalar in report.scalars.items():
            value = scalar.value
            if scalar.unit == "share" and isinstance(value, int | float) and not 0 <= value <= 1 + ROUNDING:
                yield f"{name}: {figure} is {value}"
        for title, table in report.tables.items():
            for field in table.schema:
                if (field.metadata or {}).get(b"unit") == b"share" and field.name not in SHARES_OF_OTHERS:
                    least, most = (value.as_py() for value in pc.min_max(table[field.name]).values())
                    if most is not None and (most > 1 + ROUNDING or least < -ROUNDING):
                        yield f"{name}.{title}.{field.name} reaches {most} and {least}"


def costs_beyond_the_run(reports: Reports) -> Iterator[str]:
    report = reports["diagnosis"]
    run_ps = report.scalars["window_ps"].value
    rows = report.tables["findings"].to_pylist()
    total = sum(row["cost_ps"] or 0 for row in rows if not row["is_bound"])
    if isinstance(run_ps, int) and total > run_ps:
        yield f"findings cost {total} of {run_ps}"
    examined = {row["cause"]: row["cost_ps"] for row in report.tables["examined"].to_pylist()}
    for row in rows:
        own = [one for one in rows if one["cause"] == row["cause"]]
        sure = sum(one["cost_ps"] or 0 for one in own if not one["is_bound"])
        cost = max([sure, *(one["cost_ps"] or 0 for one in own)])
        if examined[row["cause"]] != cost:
            yield f"{row['cause']} costs {cost}, and {examined[row['cause']]} among the causes that were examined"


def figures_that_differ(reports: Reports) -> Iterator[str]:
    """Figures with the name and definition, or with the name and label, of another report's figure equal it."""
    known: dict[tuple[str, str], tuple[str, object]] = {}
    for analysis, report in reports.items():
        for name, spec in runner.get_analysis(analysis).SCALARS.items():
            value = report.scalars[name].value
            for words in {spec.definition, spec.label} - {""} if not name.startswith(OF_EACH) else ():
                first, other = known.setdefault((name, words), (analysis, value))
                if None not in (value, other) and other != value:
                    yield f"{name} is {value} in {analysis} and {other} in {first}: {words}"


SAME = {
    ("overview", "diagnosis"): ("window_ps", "compute_share", "device_count", "framework", "headline"),
    ("overview", "steps"): ("step_count", "incomplete_step_count", "step_time_mean_ps", "step_time_p50_ps",
                            "step_time_max_ps", "slow_step_count", "slow_step_excess_ps"),
    ("input_pipeline", "steps"): ("step_count", "step_time_mean_ps", "step_time_p50_ps"),
    ("communication", "steps"): ("step_count",),
    ("pod_viewer", "steps"): ("step_count",),
    ("gaps", "communication"): ("device_count",),
    ("op_profile", "roofline"): ("lost_ps",),
    ("op_profile", "hlo_stats"): ("program_count", "unattributed_share"),
}  # fmt: skip
"""Figures that two reports have, whatever their words."""


def shared_figures_that_differ(reports: Reports) -> Iterator[str]:
    for (one, other), names in SAME.items():
        for name in names:
            first, second = (reports[report].scalars[name].value for report in (one, other))
            if None not in (first, second) and first != second:
                yield f"{name} is {first} in {one} and {second} in {other}"


def faults(profile: fastprof.Profile) -> list[str]:
    reports = reports_of(profile)
    checks = (
        analyses_that_fail, shares_above_one, costs_beyond_the_run, figures_that_differ, shared_figures_that_differ,
    )  # fmt: skip
    return [fault for check in checks for fault in check(reports)]
