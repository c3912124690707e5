"""Routes that find events by their names, over the whole session."""

from __future__ import annotations

from typing import Any

import numpy as np
from starlette.responses import Response
from starlette.routing import Route

from fastprof.schema.array_types import Bools
from fastprof.viewer.answers import json_answer
from fastprof.viewer.name_search import MODES, SUBSTRING, KeptMatches
from fastprof.viewer.query import FIRST_PS, LAST_PS
from fastprof.viewer.server_state import Asked, ServerState
from fastprof.viewer.snapshot import SeenHost, shortened

_MOST_ROWS = 200


def routes(state: ServerState) -> list[Route]:
    kept = KeptMatches()
    return [
        Route("/api/search", state.route(lambda asked: _search(asked, kept), state.search)),
        Route("/api/search/next", state.route(lambda asked: _next(asked, kept), state.search)),
    ]


def _wanted(asked: Asked, kept: KeptMatches, host: SeenHost) -> Bools:
    query = asked.query
    mode = query.choice("mode", MODES, SUBSTRING)
    place = (asked.run.identity, host.number, host.store.name_count)
    return kept.of(place, host.store.name_array, query.text("q"), mode, query.truth("case"))


def _search(asked: Asked, kept: KeptMatches) -> Response:
    """All events of matching names: how many, by name and by track."""
    seen = asked.run.snapshot
    tracks: dict[str, int] = {}
    rows: list[dict[str, Any]] = []
    names = 0
    for host in seen.ready:
        wanted = _wanted(asked, kept, host)
        if not wanted.any():
            continue
        counts = host.store.hits(wanted)
        for local in np.flatnonzero(counts).tolist():
            tracks[str(seen.track_id(host, local))] = int(counts[local])
        some, number = _by_name(host, wanted)
        names += number
        rows += some
    rows.sort(key=lambda row: (-int(row["total_ps"]), row["name"], row["host"]))
    found = {"events": sum(tracks.values()), "names": names, "rows": rows[:_MOST_ROWS], "tracks": tracks}
    return json_answer(asked.request, {**found, "more": max(names - _MOST_ROWS, 0)})


def _by_name(host: SeenHost, wanted: Bools) -> tuple[list[dict[str, Any]], int]:
    """A row for each name that has events, the most time first, at most so many; and how many there are."""
    sums = host.store.range_sums(None, FIRST_PS, LAST_PS)
    places = np.flatnonzero(wanted[sums.name])
    places = places[np.argsort(-sums.total_ps[places], kind="stable")]
    rows = [
        {
            "name": shortened(host.store.name(int(sums.name[place]))),
            "count": int(sums.count[place]),
            "total_ps": str(int(sums.total_ps[place])),
            "host": host.name,
            "at": int(sums.longest[place]),
        }
        for place in places[:_MOST_ROWS].tolist()
    ]
    return rows, len(places)


def _next(asked: Asked, kept: KeptMatches) -> Response:
    """The hit after, or before, a place: in the order of start, host, track, lane."""
    seen, query = asked.run.snapshot, asked.query
    forward = query.choice("direction", ("next", "previous"), "next") == "next"
    from_ps = query.time("from_ps", FIRST_PS if forward else LAST_PS)
    track, lane = query.whole("track", -1), query.whole("lane", -1)
    here = seen.place_of(track) if track >= 0 else None
    best: tuple[tuple[int, int], SeenHost, int] | None = None
    wanted_of: dict[int, Bools] = {}
    for host in seen.ready:
        wanted = wanted_of[host.number] = _wanted(asked, kept, host)
        if not wanted.any():
            continue
        found = _hit_of(host, wanted, from_ps, here, lane, forward)
        if found is None:
            continue
        rank = (host.to_session(host.store.event(found).start_ps), host.number)
        if best is None or (rank < best[0] if forward else rank > best[0]):
            best = rank, host, found
    if best is None:
        return json_answer(asked.request, {"hit": None, "number": None})
    (start, _), host, at = best
    number = sum(_before(one, wanted_of[one.number], host, at, start) for one in seen.ready)
    return json_answer(asked.request, {"hit": seen.ref(host, at), "number": number})


def _hit_of(
    host: SeenHost, wanted: Bools, from_ps: int, here: tuple[SeenHost, int] | None, lane: int, forward: bool
) -> int | None:
    """The nearest hit of one host past the place. Of other hosts than that of the place, those numbered lower come
    before it at equal times."""
    at_ps = host.to_host(from_ps)
    if here is not None and here[0].number == host.number:
        return host.store.next_hit(wanted, at_ps, here[1], lane, forward=forward)
    before = here is not None and host.number < here[0].number  # its hits of that time come before the place
    return host.store.next_hit(wanted, at_ps + before, forward=forward)


def _before(one: SeenHost, wanted: Bools, host: SeenHost, at: int, start: int) -> int:
    """How many hits of ``one`` come before that of ``host``."""
    if not wanted.any():
        return 0
    if one.number == host.number:
        return one.store.hit_number(wanted, at)
    at_ps = one.to_host(start) + (1 if one.number < host.number else 0)
    last = one.store.next_hit(wanted, at_ps, -1, -1, forward=False)
    return 0 if last is None else int(one.store.hit_number(wanted, last)) + 1
