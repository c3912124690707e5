"""Answers about runs: which there are and which is opened, captures that the page begins, and reports of the analyses
as JSON, CSV, drawings and XProf's pages."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from starlette.responses import Response, StreamingResponse

from fastprof._version import __version__
from fastprof.analyses import ANALYSES, parameters, runner
from fastprof.analyses.runner import explain_empty
from fastprof.errors import UsageError
from fastprof.viewer.answers import make_answer, make_body
from fastprof.viewer.page_capture import PageCapture, RollingCapture
from fastprof.viewer.query import RequestError
from fastprof.viewer.server_state import ApiCall
from fastprof.wording.amounts import parse_step_range

if TYPE_CHECKING:
    from fastprof.analyses.compare import RunFacts
    from fastprof.profile.report import Report
    from fastprof.viewer.viewed_run import ViewedRun


_USUAL_RUNS: Final = 200
_MOST_RUNS: Final = 10_000


def answer_runs(call: ApiCall) -> Any:
    """Answer with the newest runs, or those whose names contain ``q``, as they are now, and how many there are. A
    request that names a version is refused once that is gone, as any other."""
    shown = call.state.runs
    if call.given("version") is not None:
        assert call.run
    first, most = call.whole("first", 0, least=0), call.whole("limit", _USUAL_RUNS, least=0, most=_MOST_RUNS)
    listed = shown.listed(call.given("q") or "", first, most, call.given("run"))
    return {
        "runs": listed.rows,
        "count": listed.count,
        "directory": shown.directory is not None,
        "title": shown.title,
        "captures": call.state.capture is not None,
        "fastprof": __version__,
    }


def answer_trends(call: ApiCall) -> Any:
    """Answer with a row for each of the newest runs, the change points of their columns, and ``pending``, the number
    still to be computed."""
    from fastprof.profile.batch import make_changes_table, make_trends_table
    from fastprof.render.as_json import describe_column

    rows, pending = call.state.runs.trends(call.whole("limit", _USUAL_RUNS, least=1, most=_MOST_RUNS))
    tables = {"trends": make_trends_table(rows), "changes": make_changes_table(rows)}
    shown = {
        name: {
            "table": name,
            "columns": [describe_column(field.name, field) for field in table.schema],
            "rows": table.to_pylist(),
        }
        for name, table in tables.items()
    }
    return {"pending": pending, **shown}


def answer_open(call: ApiCall) -> Any:
    """Open the run of that name, or the one that is shown first, as it is now, and answer with its name and version,
    which other addresses take. Without a run: why there is none yet."""
    opened = call.state.runs.opened(call.given("run"))
    return {"run": opened.name, "version": opened.version, "hosts": opened.hosts, "notice": opened.notice}


_HEADER: Final = "x-fastprof"
"""Pages of other origins may not send it unless this server allows that, which it never does."""
_LONGEST_MS: Final = 600_000
_LEAST_EVERY_MS: Final = 1000
_LONGEST_EVERY_MS: Final = 86_400_000
_KEPT: Final = 10
_MOST_KEPT: Final = 1000


def answer_capture_state(call: ApiCall) -> Any:
    return _get_page_capture(call).state()


def begin_or_stop_capture(call: ApiCall) -> Any:
    """Begin a capture, or repeated ones with ``every_ms``; with ``stop=1``, end the one that goes on. RequestError: see
    ``PageCapture.start``."""
    from fastprof.inputs.profiler_client.service_messages import CaptureOptions

    capture = _get_page_capture(call)
    if _HEADER not in call.request.headers:
        raise RequestError(403, f"a request that captures has the header {_HEADER}")
    if call.given("stop") is not None:
        capture.stop()
        return capture.state()
    options = CaptureOptions(
        call.whole("duration_ms", 2000, least=1, most=_LONGEST_MS),
        call.whole("host_level", 2, least=0, most=3),
        call.whole("device_level", 1, least=0, most=1),
        call.whole("python_level", 0, least=0, most=1),
    )
    rolling = None
    if call.given("every_ms") is not None:
        every_ms = call.whole("every_ms", 0, least=_LEAST_EVERY_MS, most=_LONGEST_EVERY_MS)
        rolling = RollingCapture(every_ms, call.whole("keep", _KEPT, least=1, most=_MOST_KEPT))
    elif call.given("keep") is not None:
        raise RequestError(400, "keep is for repeated captures: with every_ms")
    capture.start(call.all("address"), options, rolling)
    return capture.state()


def _get_page_capture(call: ApiCall) -> PageCapture:
    capture = call.state.capture
    if capture is None:
        raise RequestError(404, "this server takes no captures; start it with --capture ADDRESS")
    return capture


_OWN = ("run", "version", "host", "steps", "shape", "tables", "columns", "first", "rows", "bytes", "limit", "bom")
"""Arguments that are not the analysis's."""
_MOST_ROWS = 2**31 - 1


def answer_analyses(_call: ApiCall) -> Any:
    from fastprof.viewer.analysis_list import list_analyses

    return list_analyses()


def answer_empty_pages(call: ApiCall) -> Any:
    """Answer with why pages of the run have nothing to show, by name, as far as it is known; null if the page does not
    apply to such runs."""
    return {**call.run.declared_empty, **call.run.empty_reports}


def answer_progress(call: ApiCall) -> Any:
    """Answer with the number of hosts that the reports in progress have read, and the total."""
    done, total = call.run.analysed
    return {"done": done, "total": total}


def answer_svg(call: ApiCall) -> Response:
    return _render_report(call, "image/svg+xml", lambda report: [report.to_svg().encode()])


def answer_xprof(call: ApiCall) -> Response:
    return _render_report(call, "application/json", lambda report: [report.to_xprof().encode("ascii")])


def answer_json(call: ApiCall) -> Response:
    return _render_report(call, "application/json", lambda report: _write_json(call, report))


def answer_comparison(call: ApiCall) -> Response:
    """Answer with the report of the run and the one that ``base`` names, as JSON. Each run is measured once.
    RequestError 400: they are one run."""
    from fastprof.analyses.compare import compare_runs
    from fastprof.profile.comparison import measure_run_facts
    from fastprof.profile.report import Report

    new, base = call.run, call.state.runs.run(call.text("base"), may_open=False)
    if base.name == new.name:
        raise RequestError(400, f"base: {base.name[:200]!r} is the run itself; name another one")

    def measure(run: ViewedRun) -> RunFacts:
        with run.analysing():
            return replace(measure_run_facts(run.profile.select()), choice="")  # users choose both on the page

    def compute() -> Report:
        first, second = (call.state.facts.of(run.identity, partial(measure, run)) for run in (base, new))
        return Report(compare_runs(first, second))

    report = call.state.reports.of((new.identity, "compare", base.identity), compute)
    body = make_body(b"".join(_write_json(call, report)), "application/json", version=new.version)
    return make_answer(call.request, body)


def answer_csv(call: ApiCall) -> Response:
    """Answer with a table as a file to save."""
    path = call.request.path_params
    saved = f'attachment; filename="{_get_analysis_name(path["name"])}.{path["table"]}.csv"'
    disposition = {"content-disposition": saved}
    return _render_report(
        call, "text/csv; charset=utf-8", lambda report: _write_csv(path["table"], report), disposition
    )


def answer_save(call: ApiCall) -> Response:
    """Answer with the run as a file, written while it is sent: a report, or a trace for Perfetto."""
    name = call.request.path_params["file"]
    if name not in _FILES:
        raise RequestError(404, f"a run is saved as {', '.join(_FILES)}, not {name[:60]!r}")
    media_type, write = _FILES[name]
    headers = {"content-disposition": "attachment", "cache-control": "no-store"}  # the page names the file
    if call.request.method == "HEAD":
        return Response(headers=headers, media_type=media_type)
    chunks = write(call)
    first = next(chunks, b"")  # what cannot be read is an error before the file begins
    return StreamingResponse(chain((first,), chunks), headers=headers, media_type=media_type)


def _write_html(call: ApiCall) -> Iterator[bytes]:
    from fastprof.viewer.html_report import write_html_report

    run, title = call.run, call.state.runs.title
    with run.analysing():
        profile = run.profile.select()
        reports = {name: report.answer for name, report in profile.reports_together(*ANALYSES).items()}
    title = title if run.name in ("", title) else f"{title} · {run.name}"
    yield from write_html_report(profile, reports, title=title)


def _write_perfetto(call: ApiCall) -> Iterator[bytes]:
    from fastprof.profile import trace_out

    return trace_out.Trace(call.run.profile.select().table_set, "perfetto").chunks()


_FILES: Final = {
    "report.html": ("text/html; charset=utf-8", _write_html),
    "trace.pftrace": ("application/octet-stream", _write_perfetto),
}


def _render_report(
    call: ApiCall,
    media_type: str,
    render: Callable[[Report], Iterable[bytes]],
    headers: Mapping[str, str] | None = None,
) -> Response:
    """Return the rendered report of the request, from the cache if it is there."""
    key = (call.run.identity, call.request.url.path, call.request.url.query)
    body = call.state.documents.get(key)
    if body is None:
        body = make_body(b"".join(render(_get_report(call))), media_type, version=call.run.version)
    response = make_answer(call.request, body, **(headers or {}))
    call.state.documents.keep(key, body)
    return response


def _get_report(call: ApiCall) -> Report:
    """Return the report of the request, computed once, however many requests there are, and cached while there is
    room."""
    name, run = _get_analysis_name(call.request.path_params["name"]), call.run
    params = _parse_params(name, {key: value for key, value in call.items() if key not in _OWN})
    hosts, text = tuple(dict.fromkeys(call.all("host"))), call.given("steps") or ""
    try:
        steps = parse_step_range(text) if text.strip() else None
    except ValueError as error:
        raise UsageError(f"steps: {error}") from None

    def compute() -> Report:  # from a profile of its own, so that none keeps it
        beside = _FIRST_PAGE if name == _FIRST_PAGE[0] else (name,)
        with run.analysing():
            chosen = run.profile.select(hosts=hosts or None, steps=steps)
            reports = chosen.reports_together(*beside, **params)
        if (failure := reports[name].answer.failure) is not None:
            raise failure
        if not (hosts or steps or params):
            reasons = {key: explain_empty(report.answer) for key, report in reports.items()}
            applicable = {key for key, report in reports.items() if report.answer.inapplicable is None}
            run.empty_reports.update({key: why for key, why in reasons.items() if why and key in applicable})
        for key in beside[1:]:
            if reports[key].answer.failure is None:
                call.state.reports.of(make_key(key), lambda key=key: reports[key])  # type: ignore[misc]
        return reports[name]

    def make_key(name: str) -> Hashable:
        own = {field.name for field in runner.list_fields([name])}
        return run.identity, name, hosts, tuple(sorted((key, params[key]) for key in own & params.keys())), steps

    return call.state.reports.of(make_key(name), compute)


_FIRST_PAGE: Final = ("overview", "diagnosis", "gaps", "memory_profile", "roofline", "inference")
"""The first page, its other reports, and inference, which is listed if it has content. They are computed together,
because the others are prerequisites of the first."""


def _get_analysis_name(name: str) -> str:
    """Return the name as methods have it. UsageError: there is no such analysis."""
    plain = name.replace("-", "_")
    runner.get_analysis(plain)
    return plain


def _parse_params(name: str, given: Mapping[str, str]) -> dict[str, Any]:
    """Parse the parameters of an analysis. UsageError: an unknown parameter, or a value it does not take."""
    fields = {field.name: field for field in runner.list_fields([name])}
    params = {}
    for key, text in given.items():
        field = fields.get(key.replace("-", "_"))
        if field is None:
            known = f"there are: {', '.join(fields)}" if fields else "there are none"
            raise UsageError(f"{name} has no parameter {key!r}; {known}")
        try:
            params[field.name] = parameters.parse_param(field, text)
        except ValueError as error:
            raise UsageError(f"{field.name}: {error}") from None
    return params


def _write_json(call: ApiCall, report: Report) -> Iterable[bytes]:
    from fastprof.render import report_json

    if call.choice("shape", ("rows", "columns"), "rows") == "rows":
        limit = call.whole("limit", -1, least=-1, most=_MOST_ROWS)
        return report_json.chunks(report.answer, None if limit < 0 else limit)
    tables, columns = call.given("tables"), call.given("columns")
    by_table: dict[str, list[str]] = {}
    for name in () if columns is None else columns.split(","):  # ops.name is the column name of the table ops
        table, _, column = name.partition(".")
        by_table.setdefault(table, []).append(column)
    rows = call.whole("rows", -1, least=-1, most=_MOST_ROWS)
    part = report_json.ReportPart(
        tables=None if tables is None else tables.split(","),
        columns=by_table,
        first=call.whole("first", 0, least=0, most=_MOST_ROWS),
        rows=None if rows < 0 else rows,
        most_bytes=call.whole("bytes", _MOST_ROWS, least=1, most=_MOST_ROWS) if call.given("bytes") else None,
    )
    return report_json.write_columns(report.answer, part)


def _write_csv(table: str, report: Report) -> Iterable[bytes]:
    from fastprof.render.table_forms import Look, render_table

    if table not in report.tables:
        raise RequestError(404, f"{report.analysis} has no table {table!r}; there are: {', '.join(report.tables)}")
    return render_table("csv", report.tables[table], name=table, look=Look(file=True))
