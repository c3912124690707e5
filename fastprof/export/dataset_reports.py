"""Tables, figures and notices of reports, as tables of a dataset.

op_stats.ops/run=RUN_ID/part-0.parquet     a table of a report, with columns run and job in front
figures, notices                           those of all reports
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

import pyarrow as pa

from fastprof.export.dataset_files import RunFiles, flatten_schema, flatten_table, repeat_text
from fastprof.export.hive import drop_unused_texts
from fastprof.schema.capture_tables import RUN
from fastprof.schema.tables import TEXT, Count, Number, String, TableSchema, Text

_JOB: Final = Text("job", "job of the report, if the run has several; null: it has one")
_REPORT: Final = Text("report", "analysis of the report")
FIGURES: Final = TableSchema("figures", "a figure of a report", (
    RUN, _JOB, _REPORT,
    Text("figure", "name of the figure"),
    Count("int_value", "value if it is an integer, or 0 or 1 if it is a boolean; null: another type, or unknown"),
    Number("double_value", "value if it is a float; null: another type, or unknown"),
    String("text_value", "value if it is text; null: another type, or unknown"),
    Text("unit", "unit of the value; null: a count, a boolean or text"),
    String("reason", "why the value is unknown; null: it is known, or no reason is recorded"),
))  # fmt: skip
NOTICES: Final = TableSchema("notices", "a notice of a report", (
    RUN, _JOB, _REPORT,
    Text("severity", "severity: recommendation, info, warning or error"),
    String("text", "sentence"),
))  # fmt: skip


class ReportOfJobs(Protocol):
    """A report. ``runs``: it, or the report of each job, by name."""

    @property
    def runs(self) -> Mapping[str, Any]: ...


class ReportsOfRun(Protocol):
    """Reports to export. ``tables``: the names of their tables, by analysis."""

    @property
    def tables(self) -> Mapping[str, Sequence[str]]: ...
    def compute(self) -> Mapping[str, ReportOfJobs]: ...


def list_report_tables(reports: ReportsOfRun) -> list[str]:
    """Return the tables that these reports make in a dataset."""
    tables = [f"{name}.{table}" for name, tables in reports.tables.items() for table in tables]
    return [*tables, FIGURES.name, NOTICES.name] if reports.tables else []


def make_report_tables(files: RunFiles, reports: Mapping[str, ReportOfJobs]) -> dict[str, pa.Table]:
    """Return the tables of reports by their names in the dataset."""
    tables: dict[str, list[pa.Table]] = {}
    figures: list[tuple[Any, ...]] = []
    notices: list[tuple[Any, ...]] = []
    for name, report in reports.items():
        for job, of_job in report.runs.items():
            label = job if len(report.runs) > 1 else None
            for table, rows in of_job.tables.items():
                tables.setdefault(f"{name}.{table}", []).append(_prepare(files, label, rows))
            for figure in of_job.scalars.values():
                text = figure.value if isinstance(figure.value, str) else None
                double = figure.value if isinstance(figure.value, float) else None
                integer = int(figure.value) if isinstance(figure.value, int) else None
                about = figure.unit, figure.reason
                figures.append((label, name, figure.name, integer, double, text, *about))
            notices += [(label, name, notice.severity, notice.text) for notice in of_job.notices]
    united = {name: drop_unused_texts(pa.concat_tables(parts).unify_dictionaries()) for name, parts in tables.items()}
    for schema, rows in ((FIGURES, figures), (NOTICES, notices)):
        columns = zip(*rows, strict=True) if rows else ((),) * (len(schema.columns) - 1)
        arrays = [pa.array(values, column.type) for values, column in zip(columns, schema.columns[1:], strict=True)]
        united[schema.name] = pa.Table.from_arrays([repeat_text(files.run, len(rows)), *arrays], schema=schema.arrow())
    return united


def make_report_schema(table: TableSchema, flat: bool) -> pa.Schema:
    """Return the schema of a table of a report in a dataset."""
    columns = [column.field() for column in table.columns if column.name not in (RUN.name, _JOB.name)]
    schema = pa.schema([RUN.field(), _JOB.field(), *columns])
    return flatten_schema(schema) if flat else schema


def _prepare(files: RunFiles, job: str | None, rows: pa.Table) -> pa.Table:
    rows = rows.drop_columns([name for name in (RUN.name, _JOB.name) if name in rows.column_names])
    rows = drop_unused_texts(flatten_table(rows) if files.flat else rows)
    jobs = pa.nulls(len(rows), TEXT) if job is None else repeat_text(job, len(rows))
    fields = [RUN.field(), _JOB.field(), *rows.schema]
    return pa.Table.from_arrays([repeat_text(files.run, len(rows)), jobs, *rows.columns], schema=pa.schema(fields))
