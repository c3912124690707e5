"""The addresses of the server: who answers each, and in which threads."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from fastprof.viewer import event_answers, report_answers, search_answers, timeline_answers
from fastprof.viewer.answers import json_answer
from fastprof.viewer.page_files import page_file
from fastprof.viewer.server_state import Call, ServerState, endpoint
from fastprof.viewer.timeline_document import timeline_document

_LONG_POLL_S = 2.0
"""A page that has all there is waits this long for more."""
_QUICK = {
    "/api/runs": timeline_answers.runs,
    "/api/tiles/{key}/{level}/{index}": timeline_answers.tile,
    "/api/names": timeline_answers.names,
    "/api/event": event_answers.event,
    "/api/slice": event_answers.slice_sums,
    "/api/range": event_answers.range_sums,
    "/api/flows": event_answers.flows,
    "/api/steps": event_answers.steps,
    "/api/counters": event_answers.counters,
    "/api/analyses": report_answers.analyses,
    "/": lambda call: page_file(call.request, "index.html"),
    "/favicon.ico": lambda _call: Response(status_code=204),  # the page has its icon in itself
    "/static/{path:path}": lambda call: page_file(call.request, call.request.path_params["path"]),
}
_SEARCH = {"/api/search": search_answers.search, "/api/search/next": search_answers.next_hit}
_SLOW = {
    "/api/hlo": lambda call: _programs(call),
    "/api/report/{name}.svg": report_answers.svg,
    "/api/report/{name}/xprof": report_answers.xprof,
    "/api/report/{name}/{table}.csv": report_answers.csv,
    "/api/report/{name}": report_answers.as_json,
}


def routes(state: ServerState) -> list[Route]:
    async def timeline(request: Request) -> Response:
        call = Call(state, request)
        run = await state.quick.run(lambda: call.run)
        after = call.given("after")
        await run.changes.until(lambda: run.snapshot.key != after or run.is_over, _LONG_POLL_S)
        return await state.quick.run(lambda: json_answer(request, timeline_document(run)))

    pools = ((state.quick, _QUICK), (state.search, _SEARCH), (state.slow, _SLOW))
    found = [Route(path, endpoint(state, answer, pool)) for pool, answers in pools for path, answer in answers.items()]
    return [Route("/api/timeline", timeline), *found]


def _programs(call: Call) -> Any:
    from fastprof.viewer import hlo_answers  # late: the first picture does not wait for it

    return hlo_answers.answer(call)
