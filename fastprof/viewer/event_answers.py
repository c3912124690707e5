"""Answers about single events and ranges of time: details, sums by name, and what lies over the tracks."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from starlette.responses import Response

from fastprof.viewer.answers import answer, body
from fastprof.viewer.event_details import details, whole_text
from fastprof.viewer.link_documents import MOST_FLOWS, MOST_WIDTH, counters_document, flows_document, steps_document
from fastprof.viewer.name_sums import NameSums
from fastprof.viewer.query import FIRST_PS, LAST_PS, RequestError
from fastprof.viewer.server_state import Call
from fastprof.viewer.snapshot import SeenHost

_MOST_ROWS: Final = 1000
_MOST_PS: Final = 2**63 - 1
"""The largest sum; the true one may be larger."""
_USUAL_FLOWS: Final = 500
_USUAL_WIDTH: Final = 1000


def event(call: Call) -> Any:
    run = call.run
    seen = run.snapshot
    first_stat = call.whole("first_stat", 0, least=0)
    return details(run, seen, seen.host(call.given("host")), call.whole("at", least=0), first_stat)


def text(call: Call) -> Response:
    """All of a text that the details have the begin of."""
    run = call.run
    what = call.whole("stat", least=0) if call.given("stat") else call.text("name")
    found = whole_text(run, run.snapshot.host(call.given("host")), call.whole("at", least=0), what)
    return answer(
        call.request, body(found.encode("utf-8", "backslashreplace"), "text/plain; charset=utf-8", version=run.version)
    )


def slice_sums(call: Call) -> Any:
    """Sums by name of events that are drawn as one."""
    host = call.run.snapshot.host(call.given("host"))
    at, count = call.whole("at", least=0), call.whole("count", least=1)
    first = host.event(at)
    if count > host.store.events - at or host.event(at + count - 1).track != first.track:
        raise RequestError(400, "the events of a slice are of one track")
    return _sums([(host, host.store.slice_sums(at, count))])


def range_sums(call: Call) -> Any:
    """Sums by name of the events that overlap a range of time."""
    start, end = call.time("start_ps"), call.time("end_ps")
    if end < start:
        raise RequestError(400, "the range ends before it starts")
    tracks = call.run.snapshot.split(call.numbers("tracks"))
    return _sums([(one, one.store.range_sums(local, one.to_host(start), one.to_host(end))) for one, local in tracks])


def _sums(parts: list[tuple[SeenHost, NameSums]]) -> dict[str, Any]:
    """Rows by host and name, the most time within the range first. ``more``: how many are left out."""
    counts = [len(sums) for _, sums in parts]
    part = np.repeat(np.arange(len(parts)), counts)
    place = np.arange(len(part)) - np.repeat(np.cumsum(counts) - counts, counts)
    clipped = np.concatenate([np.zeros(0, np.int64), *(sums.clipped_ps for _, sums in parts)])
    order = np.argsort(-clipped.astype(np.float64), kind="stable")[:_MOST_ROWS]
    return {
        "events": sum(sums.events for _, sums in parts),
        "total_ps": str(sum(sum(sums.total_ps.tolist()) for _, sums in parts)),
        "clipped_ps": str(sum(clipped.tolist())),
        "rows": [_row(*parts[int(part[i])], int(place[i])) for i in order.tolist()],
        "more": max(len(place) - _MOST_ROWS, 0),
    }


def _row(host: SeenHost, sums: NameSums, place: int) -> dict[str, Any]:
    total, count = int(sums.total_ps[place]), int(sums.count[place])
    return {
        "name": host.store.short_name(int(sums.name[place])),
        "count": count,
        "total_ps": str(total),
        "clipped_ps": str(sums.clipped_ps[place]),
        "mean_ps": None if total == _MOST_PS else str(round(total / count)) if count else "0",
        "min_ps": str(sums.min_ps[place]),
        "max_ps": str(sums.max_ps[place]),
        "at": int(sums.longest[place]),
        "host": host.name,
    }


# ---- what lies over the tracks


def flows(call: Call) -> Any:
    start, end = call.time("start_ps", FIRST_PS), call.time("end_ps", LAST_PS)
    limit = call.whole("limit", _USUAL_FLOWS, least=0, most=MOST_FLOWS)
    return flows_document(call.run.snapshot, start, end, call.numbers("tracks"), limit)


def steps(call: Call) -> Any:
    return steps_document(call.run)


def counters(call: Call) -> Any:
    start, end = call.time("start_ps", FIRST_PS), call.time("end_ps", LAST_PS)
    width = call.whole("width", _USUAL_WIDTH, least=1, most=MOST_WIDTH)
    return counters_document(call.run, call.given("host"), call.whole("track", least=0), start, end, width)
