"""Answers to SQL queries of the page, under the limits of the command line: rows as JSON, all rows as CSV, the tables
that there are."""

from __future__ import annotations

import time
from collections.abc import Hashable, Iterator, Mapping
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from starlette.responses import Response, StreamingResponse

from fastprof.errors import EngineError
from fastprof.profile import sql, sql_tables
from fastprof.render import as_json
from fastprof.render.table_forms import Look, render_table
from fastprof.viewer.answers import make_answer, make_body
from fastprof.viewer.query import RequestError
from fastprof.viewer.server_state import ApiCall

if TYPE_CHECKING:
    from fastprof.profile.profile import Profile
    from fastprof.profile.report import Report
    from fastprof.tables.table_set import TableSet
    from fastprof.tables.tables_of_runs import TablesOfRuns

_USUAL_ROWS: Final = 1_000
_MOST_ROWS: Final = 100_000
_HEADER: Final = "x-fastprof"
"""Pages of other origins may not send it unless this server allows that, which it never does."""


class _ViewedProfile:
    """The hosts of a request, as queries need them. Reports are those that the pages show."""

    has_runs = False

    def __init__(self, call: ApiCall) -> None:
        self._state, self._run = call.state, call.run
        self._hosts = tuple(dict.fromkeys(call.all("host")))
        self._profile: Profile = call.run.profile.select(hosts=self._hosts or None)
        self.threads = self._profile.threads
        self.sources = self._profile.sources

    @property
    def tables(self) -> Mapping[str, pa.Table]:
        return self._profile.tables

    @property
    def exported(self) -> TableSet | TablesOfRuns:
        return self._profile.exported

    @property
    def by_job(self) -> _ViewedProfile:
        return self

    def report(self, name: str, **params: Any) -> Report:
        key: Hashable = (self._run.identity, name, self._hosts, tuple(params.items()), None)
        return self._state.reports.of(key, lambda: self._profile.reports_together(name, **params)[name])


def answer_tables(_call: ApiCall) -> Any:
    """Answer with all tables: name, meaning of a row, names of columns. They are the same for all runs."""
    return {"tables": sql_tables.list_tables(sql_tables.ProfileTables(_NO_PROFILE)).to_pylist()}


class _NoProfile:
    """Profile whose tables are listed and not read."""

    has_runs = False


_NO_PROFILE: Final[Any] = _NoProfile()


def answer_query(call: ApiCall) -> Response:
    """Answer with the first rows, at most ``limit``, as a table; ``of`` counts all, and ``seconds`` says how long they
    took."""
    began = time.monotonic()
    most = call.whole("limit", _USUAL_ROWS, least=0, most=_MOST_ROWS)
    shown: list[pa.RecordBatch] = []
    count = size = 0
    with call.run.analysing():
        for batch in _run_query(call):
            part = batch.slice(0, max(0, most - count))
            size += part.nbytes
            if size > sql.MEMORY:
                raise RequestError(400, "the rows take too much memory; select fewer, or cut long texts")
            count += batch.num_rows
            if part.num_rows or not shown:
                shown.append(part)
    table = b"".join(as_json.write_table("sql", pa.Table.from_batches(shown)))
    facts = f'"of": {count}, "seconds": {time.monotonic() - began:.3f}'.encode()
    document = b'{"answer": ' + table + b", " + facts + b"}"
    return make_answer(call.request, make_body(document, "application/json", version=call.run.version))


def answer_query_as_csv(call: ApiCall) -> Response:
    """Answer with all rows as a file, written while it is sent."""
    batches = _run_query(call)
    first = next(batches)  # an error comes before the file begins
    rows = render_table("csv", chain((first,), batches), name="sql", look=Look(file=True))
    headers = {"content-disposition": 'attachment; filename="query.csv"', "cache-control": "no-store"}
    return StreamingResponse(rows, headers=headers, media_type="text/csv; charset=utf-8")


def _run_query(call: ApiCall) -> Iterator[pa.RecordBatch]:
    """Yield the answer to the query of a request. RequestError 403: it is not of the page; 503: another one does not
    stop."""
    if _HEADER not in call.request.headers:
        raise RequestError(403, f"a request with a query has the header {_HEADER}")
    try:
        yield from sql.query_profile(_ViewedProfile(call), call.text("query"), is_confined=True)
    except EngineError as error:
        raise RequestError(503, str(error)) from None
