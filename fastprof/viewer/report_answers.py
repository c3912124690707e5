"""Answers about the analyses: which there are, and their reports as JSON, CSV, drawings and XProf's pages."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from starlette.responses import Response

from fastprof.analyses import parameters, runner
from fastprof.analyses.content import why_empty
from fastprof.errors import UsageError
from fastprof.viewer.answers import answer, body
from fastprof.viewer.query import RequestError
from fastprof.viewer.server_state import Call
from fastprof.wording.amounts import Steps, step_range

if TYPE_CHECKING:
    from fastprof.profile.report import Report

_OWN = ("run", "version", "host", "steps", "shape", "tables", "columns", "first", "rows", "limit", "bom")
"""Arguments that are not the analysis's."""
_MOST_ROWS = 2**31 - 1


def analyses(_call: Call) -> Any:
    from fastprof.viewer.analysis_list import listed

    return listed()


def empty(call: Call) -> Any:
    """Why pages have nothing to show of the run, by name, as far as it is known; null: the page is not of such runs."""
    return {**call.run.declared_empty, **call.run.empty_reports}


def analysed(call: Call) -> Any:
    """How many hosts the reports that are being computed have read, and of how many."""
    done, total = call.run.analysed
    return {"done": done, "total": total}


def svg(call: Call) -> Response:
    return _rendered(call, "image/svg+xml", lambda report: [report.to_svg().encode()])


def xprof(call: Call) -> Response:
    return _rendered(call, "application/json", lambda report: [report.to_xprof().encode("ascii")])


def as_json(call: Call) -> Response:
    return _rendered(call, "application/json", lambda report: _json(call, report))


def csv(call: Call) -> Response:
    """A table as a file to save."""
    path = call.request.path_params
    saved = f'attachment; filename="{_analysis(path["name"])}.{path["table"]}.csv"'
    disposition = {"content-disposition": saved}
    return _rendered(call, "text/csv; charset=utf-8", lambda report: _csv(path["table"], report), disposition)


def _rendered(
    call: Call,
    media_type: str,
    render: Callable[[Report], Iterable[bytes]],
    headers: Mapping[str, str] | None = None,
) -> Response:
    """The rendered report of the request, from those kept if it is there."""
    key = (call.run.identity, call.request.url.path, call.request.url.query)
    found = call.state.documents.get(key)
    if found is None:
        found = body(b"".join(render(_report(call))), media_type, version=call.run.version)
    response = answer(call.request, found, **(headers or {}))
    call.state.documents.keep(key, found)
    return response


def _report(call: Call) -> Report:
    """Each report is computed once, however many requests there are, and kept while there is room."""
    name, run = _analysis(call.request.path_params["name"]), call.run
    params = _params(name, {key: value for key, value in call.items() if key not in _OWN})
    hosts, steps = tuple(dict.fromkeys(call.all("host"))), _steps(call.given("steps"))

    def compute() -> Report:  # of a profile of its own, which does not keep it
        with run.analysing():
            chosen = run.profile.select(hosts=hosts or None, steps=steps)
            report = chosen.reports_together(name, **params)[name]
        reason = None if hosts or steps or params else why_empty(report.answer)
        if reason is not None and report.answer.inapplicable is None:
            run.empty_reports[name] = reason
        return report

    return call.state.reports.of((run.identity, name, hosts, tuple(sorted(params.items())), steps), compute)


def _analysis(name: str) -> str:
    """The name as methods have it. UsageError: there is no such analysis."""
    found = name.replace("-", "_")
    runner.module(found)
    return found


def _steps(text: str | None) -> Steps | None:
    """``3:5``. UsageError: these are no steps."""
    if text is None or not text.strip():
        return None
    try:
        return step_range(text)
    except ValueError as error:
        raise UsageError(f"steps: {error}") from None


def _params(name: str, given: Mapping[str, str]) -> dict[str, Any]:
    """The parameters of an analysis, read from texts. UsageError: an unknown parameter, or a value it does not take."""
    fields = {field.name: field for field in runner.fields_of([name])}
    params = {}
    for key, text in given.items():
        field = fields.get(key.replace("-", "_"))
        if field is None:
            known = f"there are: {', '.join(fields)}" if fields else "there are none"
            raise UsageError(f"{name} has no parameter {key!r}; {known}")
        try:
            params[field.name] = parameters.of_text(field, text)
        except ValueError as error:
            raise UsageError(f"{field.name}: {error}") from None
    return params


def _json(call: Call, report: Report) -> Iterable[bytes]:
    from fastprof.render import report_columns, report_json

    if call.choice("shape", ("rows", "columns"), "rows") == "rows":
        limit = call.whole("limit", -1, least=-1, most=_MOST_ROWS)
        return report_json.chunks(report.answer, None if limit < 0 else limit)
    tables, columns = call.given("tables"), call.given("columns")
    rows = call.whole("rows", -1, least=-1, most=_MOST_ROWS)
    part = report_columns.Part(
        tables=None if tables is None else tables.split(","),
        columns={} if columns is None else _by_table(columns.split(",")),
        first=call.whole("first", 0, least=0, most=_MOST_ROWS),
        rows=None if rows < 0 else rows,
    )
    return report_columns.chunks(report.answer, part)


def _by_table(names: Iterable[str]) -> dict[str, list[str]]:
    """``ops.name`` is the column name of the table ops."""
    columns: dict[str, list[str]] = {}
    for name in names:
        table, _, column = name.partition(".")
        columns.setdefault(table, []).append(column)
    return columns


def _csv(table: str, report: Report) -> Iterable[bytes]:
    from fastprof.render.look import Look
    from fastprof.render.table_forms import chunks

    if table not in report.tables:
        raise RequestError(404, f"{report.analysis} has no table {table!r}; there are: {', '.join(report.tables)}")
    return chunks("csv", report.tables[table], name=table, look=Look(file=True))
