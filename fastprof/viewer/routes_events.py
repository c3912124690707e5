"""Routes of single events and of ranges of time: details, and sums by name."""

from __future__ import annotations

from typing import Any

import numpy as np
from starlette.responses import Response
from starlette.routing import Route

from fastprof.viewer.answers import json_answer
from fastprof.viewer.event_details import details
from fastprof.viewer.name_sums import NameSums
from fastprof.viewer.request_error import RequestError
from fastprof.viewer.server_state import Asked, ServerState
from fastprof.viewer.snapshot import SeenHost, shortened

_MOST_ROWS = 1000
_MOST_PS = 2**63 - 1
"""Where sums stay: the true ones may be larger."""


def routes(state: ServerState) -> list[Route]:
    return [
        Route("/api/event", state.route(_event)),
        Route("/api/slice", state.route(_slice)),
        Route("/api/range", state.route(_range)),
    ]


def _event(asked: Asked) -> Response:
    run = asked.run
    seen = run.snapshot
    host = seen.host(asked.query.given("host"))
    return json_answer(asked.request, details(run, seen, host, asked.query.whole("at", least=0)))


def _slice(asked: Asked) -> Response:
    """Sums by name of events that are drawn as one."""
    host = asked.run.snapshot.host(asked.query.given("host"))
    at, count = asked.query.whole("at", least=0), asked.query.whole("count", least=1)
    first = host.event(at)
    if count > host.store.events - at or host.event(at + count - 1).track != first.track:
        raise RequestError(400, "the events of a slice are of one track")
    sums = host.store.slice_sums(at, count)
    return json_answer(asked.request, _document([(host, sums)]))


def _range(asked: Asked) -> Response:
    """Sums by name of the events that overlap a stretch of time."""
    query = asked.query
    start, end = query.time("start_ps"), query.time("end_ps")
    if end < start:
        raise RequestError(400, "the range ends before it starts")
    parts = asked.run.snapshot.split(query.numbers("tracks"))
    found = [(host, host.store.range_sums(local, host.to_host(start), host.to_host(end))) for host, local in parts]
    return json_answer(asked.request, _document(found))


def _document(parts: list[tuple[SeenHost, NameSums]]) -> dict[str, Any]:
    """Rows by host and name, the most time within the range first. ``more``: how many are left out."""
    hosts = np.concatenate([np.full(len(sums.name), i) for i, (_, sums) in enumerate(parts)] or [np.zeros(0, int)])
    places = np.concatenate([np.arange(len(sums.name)) for _, sums in parts] or [np.zeros(0, int)])
    clipped = np.concatenate([sums.clipped_ps for _, sums in parts] or [np.zeros(0, np.int64)])
    order = np.argsort(-clipped.astype(np.float64), kind="stable")[:_MOST_ROWS]
    rows = [_row(parts[hosts[i]][0], parts[hosts[i]][1], int(places[i])) for i in order.tolist()]
    totals, clips = [sums.total_ps for _, sums in parts], [sums.clipped_ps for _, sums in parts]
    whole, within = (sum(sum(column.tolist()) for column in columns) for columns in (totals, clips))
    events = sum(int(sums.events) for _, sums in parts)
    more = max(len(places) - _MOST_ROWS, 0)
    return {"events": events, "total_ps": str(whole), "clipped_ps": str(within), "rows": rows, "more": more}


def _row(host: SeenHost, sums: NameSums, place: int) -> dict[str, Any]:
    total, count = int(sums.total_ps[place]), int(sums.count[place])
    return {
        "name": shortened(host.store.name(int(sums.name[place]))),
        "count": count,
        "total_ps": str(total),
        "clipped_ps": str(int(sums.clipped_ps[place])),
        "mean_ps": None if total == _MOST_PS else str(round(total / count)) if count else "0",
        "min_ps": str(int(sums.min_ps[place])),
        "max_ps": str(int(sums.max_ps[place])),
        "at": int(sums.longest[place]),
        "host": host.name,
    }
