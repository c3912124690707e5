"""Reports on captures that a test made, and what tests read from them."""

from __future__ import annotations

from typing import Any

import fastprof


def session_of(*captures: bytes) -> fastprof.Profile:
    """All captures, read together."""
    return fastprof.load(captures[0] if len(captures) == 1 else list(captures))


def records(report: fastprof.Report, table: str, /, **where: Any) -> list[dict[str, Any]]:
    """The rows of a table, as dicts by column. ``where``: only those with these values."""
    return [row for row in report.tables[table].to_pylist() if all(row[key] == value for key, value in where.items())]


def record(report: fastprof.Report, table: str, /, **where: Any) -> dict[str, Any]:
    """The one row with these values."""
    matches = records(report, table, **where)
    assert len(matches) == 1, f"{len(matches)} rows of {table} where {where}"
    return matches[0]


def rows(report: fastprof.Report, table: str, /, *columns: str, **where: Any) -> list[tuple[Any, ...]]:
    """These columns of a table, as a tuple a row."""
    return [tuple(row[name] for name in columns) for row in records(report, table, **where)]


def column(report: fastprof.Report, table: str, name: str, /, **where: Any) -> list[Any]:
    return [row[name] for row in records(report, table, **where)]


def figures(report: fastprof.Report) -> dict[str, Any]:
    return {name: scalar.value for name, scalar in report.scalars.items()}


def notices(report: fastprof.Report, severity: str | None = None) -> list[str]:
    """The texts of notices, of this severity or of any."""
    return [notice.text for notice in report.notices if severity in (None, notice.severity)]


def data_table(table: dict[str, Any]) -> list[dict[str, Any]]:
    """The rows of one of XProf's tables, as dicts by column."""
    ids = [column["id"] for column in table["cols"]]
    return [dict(zip(ids, (cell["v"] for cell in row["c"]), strict=True)) for row in table["rows"]]
