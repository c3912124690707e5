"""Reports that an export writes beside the tables of captures."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from fastprof.analyses import ANALYSES, runner
from fastprof.errors import UsageError
from fastprof.profile.report import Report
from fastprof.schema.tables import TableSchema
from fastprof.wording.spelling import suggest_name


def choose_reports(names: Sequence[str]) -> list[str]:
    """Return the names of analyses. UsageError: an unknown one."""
    wanted = {*ANALYSES} if "all" in names else {name.replace("-", "_") for name in names}
    for name in sorted(wanted - {*ANALYSES}):
        raise UsageError(f"no report {name!r}; there are: all, {', '.join(ANALYSES)}{suggest_name(name, ANALYSES)}")
    return [name for name in ANALYSES if name in wanted]


def list_report_schemas(names: Sequence[str]) -> dict[str, TableSchema]:
    """Return the tables of reports, by their names in a dataset. UsageError: an unknown report."""
    return {
        f"{name}.{table}": schema
        for name in choose_reports(names)
        for table, schema in runner.get_analysis(name).TABLES.items()
    }


class ExportedReports:
    """Reports by name, computed when they are written. ``tables``: the names of their tables, by analysis."""

    def __init__(self, names: Sequence[str], compute: Callable[..., Mapping[str, Report]]) -> None:
        """``names``: analyses or verbs, "all" for all; ``compute``: returns reports by name. UsageError: an unknown
        one."""
        self._compute = compute
        self.tables = {name: [*runner.get_analysis(name).TABLES] for name in choose_reports(names)}

    def compute(self) -> Mapping[str, Report]:
        return self._compute(*self.tables)
