"""The addresses of the server: who answers each, and in which threads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from fastprof.viewer import (
    capture_answers,
    event_answers,
    report_answers,
    run_answers,
    search_answers,
    timeline_answers,
)
from fastprof.viewer.page_files import page_file
from fastprof.viewer.server_state import Call, ServerState, endpoint
from fastprof.viewer.timeline_document import timeline_document

_LONG_POLL_S = 2.0
"""A page that has all there is waits this long for more."""
_FRESH_S = 0.25
"""Answers from what was made of a run read no file of it: if it has many, they may miss a change for this long."""
_PAGE = {
    "/": lambda call: page_file(call.request, "index.html"),
    "/favicon.ico": lambda _call: Response(status_code=204),  # the page has its icon in itself
    "/static/{path:path}": lambda call: page_file(call.request, call.request.path_params["path"]),
    "/api/analyses": report_answers.analyses,
    "/api/capture": capture_answers.state,
}
_LISTING = {"/api/runs": run_answers.runs, "/api/trends": run_answers.trends}
_OPENING = {"/api/open": run_answers.opened}
_MADE = {
    "/api/tiles/{key}/{level}/{index}": timeline_answers.tile,
    "/api/analysed": report_answers.analysed,
    "/api/names": timeline_answers.names,
    "/api/lanes": timeline_answers.lanes,
    "/api/slice": event_answers.slice_sums,
    "/api/range": event_answers.range_sums,
    "/api/flows": event_answers.flows,
    "/api/steps": event_answers.steps,
    "/api/counters": event_answers.counters,
}
_SEARCH = {
    "/api/search": search_answers.search,
    "/api/search/hits": search_answers.hits,
    "/api/search/next": search_answers.next_hit,
}
_READ = {"/api/event": event_answers.event, "/api/event/text": event_answers.text}
_SLOW = {
    "/api/empty": report_answers.empty,
    "/api/hlo": lambda call: _programs(call),
    "/api/report/{name}.svg": report_answers.svg,
    "/api/report/{name}/xprof": report_answers.xprof,
    "/api/report/{name}/{table}.csv": report_answers.csv,
    "/api/report/{name}": report_answers.as_json,
}
_VIEWING = ("about", "rows", "row", "name", "find", "stacks", "advice", "save/{form}")


def routes(state: ServerState) -> list[Route]:
    async def timeline(request: Request) -> Response:
        def call() -> Call:
            return Call(state, request)

        run = await state.on_open_run(state.quick, call, lambda call: call.run)
        after = call().given("after")
        await run.changes.until(lambda: run.snapshot.key != after or run.is_over, _LONG_POLL_S)
        return await state.on_open_run(
            state.quick, call, lambda call: call.answered(lambda call: timeline_document(call.run))
        )

    groups = (
        (state.quick, 0.0, _PAGE),
        (state.quick, _FRESH_S, _MADE),
        (state.quick, 0.0, _READ),
        (state.search, _FRESH_S, _SEARCH),
        (state.slow, 0.0, _SLOW),
        (state.viewing, 0.0, {f"/api/tfprof/{path}": _tfprof(path) for path in _VIEWING}),
        (state.listing, 0.0, _LISTING),
        (state.opening, 0.0, _OPENING),
    )
    found = [
        Route(path, endpoint(state, answer, pool, fresh_s))
        for pool, fresh_s, answers in groups
        for path, answer in answers.items()
    ]
    beginning = endpoint(state, capture_answers.begun_or_stopped, state.quick)
    return [Route("/api/timeline", timeline), Route("/api/capture", beginning, methods=["POST"]), *found]


def _programs(call: Call) -> Any:
    from fastprof.viewer import hlo_answers  # late: the first picture does not wait for it

    return hlo_answers.answer(call)


def _tfprof(path: str) -> Callable[[Call], Any]:
    def answer(call: Call) -> Any:
        from fastprof.viewer import tfprof_answers  # late, as above

        return tfprof_answers.ANSWERS[path](call)

    return answer
