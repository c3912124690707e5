"""Answers about runs: which there are, and which is opened."""

from __future__ import annotations

from typing import Any, Final

from fastprof._version import __version__
from fastprof.viewer.server_state import Call

_USUAL_RUNS: Final = 200
_MOST_RUNS: Final = 10_000


def runs(call: Call) -> Any:
    """The newest runs, or those whose names contain ``q``, as they are now, and how many there are. A request that
    names a version is refused once that is gone, as any other."""
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


def trends(call: Call) -> Any:
    """A table with a row for each of the newest runs, and ``pending``, how many are still to be computed."""
    from fastprof.profile.trends import table
    from fastprof.render.as_json import described

    rows, pending = call.state.runs.trends(call.whole("limit", _USUAL_RUNS, least=1, most=_MOST_RUNS))
    found = table(rows)
    columns = [described(field.name, field) for field in found.schema]
    return {"pending": pending, "trends": {"table": "trends", "columns": columns, "rows": found.to_pylist()}}


def opened(call: Call) -> Any:
    """The run of that name, or the one that is shown first, opened as it is now: the other addresses take its name and
    version. Without a run: why there is none yet."""
    found = call.state.runs.opened(call.given("run"))
    return {"run": found.name, "version": found.version, "hosts": found.hosts, "notice": found.notice}
