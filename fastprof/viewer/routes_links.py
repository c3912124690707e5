"""Routes of what lies over the tracks: flows between events, steps, and counters."""

from __future__ import annotations

from typing import Final

from starlette.responses import Response
from starlette.routing import Route

from fastprof.viewer.answers import json_answer
from fastprof.viewer.link_documents import MOST_FLOWS, MOST_WIDTH, counters_document, flows_document, steps_document
from fastprof.viewer.query import FIRST_PS, LAST_PS
from fastprof.viewer.server_state import Asked, ServerState

_USUAL_FLOWS: Final = 500
_USUAL_WIDTH: Final = 1000


def routes(state: ServerState) -> list[Route]:
    return [
        Route("/api/flows", state.route(_flows)),
        Route("/api/steps", state.route(_steps)),
        Route("/api/counters", state.route(_counters)),
    ]


def _flows(asked: Asked) -> Response:
    query = asked.query
    start, end = query.time("start_ps", FIRST_PS), query.time("end_ps", LAST_PS)
    limit = query.whole("limit", _USUAL_FLOWS, least=0, most=MOST_FLOWS)
    seen = asked.run.snapshot
    return json_answer(asked.request, flows_document(seen, start, end, query.numbers("tracks"), limit))


def _steps(asked: Asked) -> Response:
    return json_answer(asked.request, steps_document(asked.run))


def _counters(asked: Asked) -> Response:
    query = asked.query
    start, end = query.time("start_ps", FIRST_PS), query.time("end_ps", LAST_PS)
    width = query.whole("width", _USUAL_WIDTH, least=1, most=MOST_WIDTH)
    track = query.whole("track", least=0)
    return json_answer(asked.request, counters_document(asked.run, query.given("host"), track, start, end, width))
