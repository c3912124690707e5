"""Routes of the timeline: what there is to show, tiles of it, and names."""

from __future__ import annotations

from functools import partial
from typing import Final

import numpy as np
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from fastprof._version import __version__
from fastprof.schema.array_types import Int64s
from fastprof.viewer.answers import FOREVER, answer, body, json_answer
from fastprof.viewer.query import Query
from fastprof.viewer.request_error import RequestError
from fastprof.viewer.server_state import Asked, ServerState
from fastprof.viewer.snapshot import Snapshot, shortened
from fastprof.viewer.store import COARSEST, TilePart, tile
from fastprof.viewer.timeline_document import timeline_document
from fastprof.viewer.viewed_run import ViewedRun

_LONG_POLL_S = 2.0
"""A page that has seen all there is waits so long for more."""
_BYTES: Final = "application/octet-stream"
_MOST_NAMES: Final = 10_000
_MOST_LANES: Final = 4096


def routes(state: ServerState) -> list[Route]:
    async def timeline(request: Request) -> Response:
        run = await state.quick.run(lambda: Asked(state, request).run)
        after = Query(request).given("after")
        await run.changes.until(lambda: run.snapshot.key != after or run.is_over, _LONG_POLL_S)
        return await state.quick.run(partial(_timeline_answer, run, request))

    return [
        Route("/api/runs", state.route(_runs)),
        Route("/api/timeline", timeline),
        Route("/api/tiles/{key}/{level}/{index}", state.route(_tile)),
        Route("/api/names", state.route(_names)),
    ]


def _runs(asked: Asked) -> Response:
    runs = asked.state.runs
    return json_answer(asked.request, {"runs": runs.listed(), "version": __version__, "title": runs.title})


# ---- the timeline


def _timeline_answer(run: ViewedRun, request: Request) -> Response:
    return json_answer(request, timeline_document(run))


# ---- tiles


def _tile(asked: Asked) -> Response:
    path = asked.request.path_params
    seen = asked.run.issued(path["key"])
    level = _path_number("level", path["level"], COARSEST)
    index = _path_number("index", path["index"], 2**53)
    tracks = asked.query.given("tracks")
    lanes = asked.query.whole("lanes", 0, least=0, most=_MOST_LANES) or None
    key = (seen.key, level, index, tracks, lanes)
    found = asked.state.tiles.get(key)
    if found is None:
        found = body(_tile_bytes(seen, level, index, asked.query.numbers("tracks"), lanes), _BYTES, key)
    told = answer(asked.request, found, FOREVER)
    asked.state.tiles.keep(key, found)
    return told


def _path_number(name: str, text: str, most: int) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= 20 and int(text) <= most):
        raise RequestError(400, f"the {name} of a tile is a whole number from 0 to {most}")
    return int(text)


def _tile_bytes(seen: Snapshot, level: int, index: int, tracks: Int64s | None, lanes: int | None) -> bytes:
    """A tile of these tracks, None: of all; of each at most so many lanes."""
    parts = []
    for host, local in seen.split(tracks):
        parts.append(TilePart(host.store, local, local + seen.track_id(host, 0), -host.shift_ps, lanes))
    return tile(parts, level, index)


# ---- names


def _names(asked: Asked) -> Response:
    host = asked.run.snapshot.host(asked.query.given("host"))
    ids = asked.query.numbers("ids")
    if ids is None:
        raise RequestError(400, "the argument ids is missing")
    if len(ids) > _MOST_NAMES:
        raise RequestError(400, f"at most {_MOST_NAMES:,} names are told at a time")
    known = ids[ids < host.store.name_count]
    names = {str(number): shortened(host.store.name(number)) for number in np.unique(known).tolist()}
    return json_answer(asked.request, {"names": names})
