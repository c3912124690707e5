"""Routes of compiled programs: which there are, their text, and what is around an instruction."""

from __future__ import annotations

from starlette.responses import Response
from starlette.routing import Route

from fastprof.viewer.answers import json_answer
from fastprof.viewer.server_state import Asked, ServerState

_FORMS = ("short-txt", "long-txt")
_USUAL_WIDTH, _MOST_WIDTH = 2, 20


def routes(state: ServerState) -> list[Route]:
    return [Route("/api/hlo", state.route(_hlo, state.slow))]


def _hlo(asked: Asked) -> Response:
    from fastprof.viewer.hlo_answers import LINES, MOST_LINES, around, modules, text

    query, tables = asked.query, asked.run.tables
    host, module, instruction = query.given("host"), query.given("module"), query.given("instruction")
    if module is None:
        found = modules(tables, host)
    elif query.truth("around"):
        width = query.whole("width", _USUAL_WIDTH, least=1, most=_MOST_WIDTH)
        found = around(tables, host, module, query.text("instruction"), width)
    else:
        first = query.whole("first", -1, least=-1)
        lines = query.whole("lines", LINES, least=1, most=MOST_LINES)
        form, metadata = query.choice("form", _FORMS, _FORMS[0]), query.truth("metadata")
        found = text(tables, host, module, form, metadata, None if first < 0 else first, lines, instruction)
    return json_answer(asked.request, found)
