"""Answers about the timeline: tiles, and names."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from starlette.responses import Response

from fastprof.viewer import store
from fastprof.viewer.answers import FOREVER, answer, body
from fastprof.viewer.query import RequestError, spelled
from fastprof.viewer.server_state import Call

_BYTES: Final = "application/octet-stream"
_MOST_NAMES: Final = 10_000
_MOST_LANES: Final = 4096


def tile(call: Call) -> Response:
    """A tile of these tracks, without any of all; of each at most that many lanes."""
    path = call.request.path_params
    seen = call.run.issued(path["key"])
    level = _path_number("level", path["level"], store.COARSEST)
    index = _path_number("index", path["index"], 2**53)
    lanes = call.whole("lanes", 0, least=0, most=_MOST_LANES) or None
    key = (seen.key, level, index, call.given("tracks"), lanes)
    found = call.state.tiles.get(key)
    if found is None:
        found = body(store.tile(seen.tile_parts(call.numbers("tracks"), lanes), level, index), _BYTES, key)
    response = answer(call.request, found, FOREVER)
    call.state.tiles.keep(key, found)
    return response


def lanes(call: Call) -> Any:
    """Which lanes have events in a window: ``all``, the tracks all of whose lanes do; ``some``: the lanes of others."""
    start, end = call.time("start_ps"), call.time("end_ps")
    seen = call.run.snapshot
    full: list[int] = []
    some: dict[str, str] = {}
    for host in seen.ready:
        track, lane = host.store.lanes_within(host.to_host(start), host.to_host(end))
        counts = np.bincount(track, minlength=len(host.store.tracks))
        entire = counts == np.array([one.lanes for one in host.store.tracks], np.int64)
        full += [seen.track_id(host, one) for one in np.flatnonzero(entire & (counts > 0)).tolist()]
        ends = np.cumsum(counts)
        for one in np.flatnonzero(~entire & (counts > 0)).tolist():
            some[str(seen.track_id(host, one))] = spelled(lane[ends[one] - counts[one] : ends[one]])
    return {"all": spelled(np.array(full, np.int64)), "some": some}


def _path_number(name: str, text: str, most: int) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= 20 and int(text) <= most):
        raise RequestError(400, f"the {name} of a tile is a whole number from 0 to {most}")
    return int(text)


def names(call: Call) -> Any:
    host = call.run.snapshot.host(call.given("host"))
    ids = call.numbers("ids")
    if ids is None:
        raise RequestError(400, "the argument ids is missing")
    if len(ids) > _MOST_NAMES:
        raise RequestError(400, f"a request takes at most {_MOST_NAMES:,} names")
    known = ids[ids < host.store.name_count]
    return {"names": {str(number): host.store.short_name(number) for number in known.tolist()}}
