"""Routes of the analyses: which there are, and their reports as JSON, CSV, drawings and XProf's pages."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from starlette.responses import Response
from starlette.routing import Route

from fastprof.viewer.answers import Body, answer, body, json_answer
from fastprof.viewer.report_requests import KeptReports, known_analysis, params_of, steps_of
from fastprof.viewer.request_error import RequestError
from fastprof.viewer.server_state import Asked, ServerState

if TYPE_CHECKING:
    from fastprof.profile.report import Report

_OWN = ("run", "host", "steps", "shape", "tables", "columns", "first", "rows", "limit", "bom")
"""Arguments that are not the analysis's."""
_MOST_ROWS = 2**31 - 1


def routes(state: ServerState) -> list[Route]:
    kept = KeptReports()

    def of(render: Callable[[Asked, Report], Body]) -> Any:
        def answered(asked: Asked) -> Response:
            key = (asked.run.identity, asked.request.url.path, asked.request.url.query)
            found = state.documents.get(key)
            if found is None:
                found = render(asked, _report(asked, kept))
            told = answer(asked.request, found, **_headers(asked))
            state.documents.keep(key, found)
            return told

        return state.route(answered, state.slow)

    return [
        Route("/api/analyses", state.route(_analyses)),
        Route("/api/report/{name}.svg", of(_svg)),
        Route("/api/report/{name}/xprof", of(_xprof)),
        Route("/api/report/{name}/{table}.csv", of(_csv)),
        Route("/api/report/{name}", of(_json)),
    ]


def _analyses(asked: Asked) -> Response:
    from fastprof.viewer.analysis_list import listed

    return json_answer(asked.request, listed())


def _report(asked: Asked, kept: KeptReports) -> Report:
    name = known_analysis(asked.request.path_params["name"])
    given = {key: asked.query.text(key) for key in asked.query.names() if key not in _OWN and asked.query.given(key)}
    run = asked.run
    hosts = tuple(dict.fromkeys(asked.query.all("host")))
    return kept.of(run, name, hosts, params_of(name, given), steps_of(asked.query.given("steps")))


def _rendered(pieces: Iterable[bytes], media_type: str) -> Body:
    return body(b"".join(pieces), media_type)


def _json(asked: Asked, report: Report) -> Body:
    from fastprof.render import report_columns, report_json

    query = asked.query
    if query.choice("shape", ("rows", "columns"), "rows") == "rows":
        limit = query.whole("limit", -1, least=-1, most=_MOST_ROWS)
        return _rendered(report_json.chunks(report.answer, None if limit < 0 else limit), "application/json")
    tables, columns = query.given("tables"), query.given("columns")
    rows = query.whole("rows", -1, least=-1, most=_MOST_ROWS)
    part = report_columns.Part(
        tables=None if tables is None else tables.split(","),
        columns={} if columns is None else _by_table(columns.split(",")),
        first=query.whole("first", 0, least=0, most=_MOST_ROWS),
        rows=None if rows < 0 else rows,
    )
    return _rendered(report_columns.chunks(report.answer, part), "application/json")


def _by_table(names: Iterable[str]) -> dict[str, list[str]]:
    """``ops.name`` is the column name of the table ops."""
    found: dict[str, list[str]] = {}
    for name in names:
        table, _, column = name.partition(".")
        found.setdefault(table, []).append(column)
    return found


def _csv(asked: Asked, report: Report) -> Body:
    from fastprof.render.look import Look
    from fastprof.render.table_forms import chunks

    name = asked.request.path_params["table"]
    if name not in report.tables:
        raise RequestError(404, f"{report.analysis} has no table {name!r}; there are: {', '.join(report.tables)}")
    pieces = chunks("csv", report.tables[name], name=name, look=Look(file=True))
    return _rendered(pieces, "text/csv; charset=utf-8")


def _headers(asked: Asked) -> dict[str, str]:
    """A table is a file to save."""
    path = asked.request.path_params
    if "table" not in path:
        return {}
    return {"content-disposition": f'attachment; filename="{known_analysis(path["name"])}.{path["table"]}.csv"'}


def _svg(_asked: Asked, report: Report) -> Body:
    return _rendered([report.to_svg().encode()], "image/svg+xml")


def _xprof(_asked: Asked, report: Report) -> Body:
    return _rendered([report.to_xprof().encode("ascii")], "application/json")
