"""Answers that find events by their names, over the whole session."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from fastprof.schema.array_types import Bools
from fastprof.viewer.hit_list import ORDERS, START, HitList, hit_list
from fastprof.viewer.name_search import MODES, SUBSTRING, matching_names
from fastprof.viewer.query import FIRST_PS, LAST_PS
from fastprof.viewer.server_state import Call
from fastprof.viewer.snapshot import SeenHost

_MOST_ROWS: Final = 200
_USUAL_PART, _MOST_PART = 200, 1000


def _wanted(call: Call, host: SeenHost) -> Bools:
    """The names of a host that match. They are kept: going from hit to hit searches no names again."""
    names = host.store.name_array
    search = (call.text("q"), call.choice("mode", MODES, SUBSTRING), call.truth("case"))
    place = (call.run.identity, host.number, host.store.name_count)
    return call.state.matches.of((place, search), lambda: matching_names(names, *search))


def search(call: Call) -> Any:
    """All events of matching names: how many, by name and by track."""
    seen = call.run.snapshot
    tracks: dict[str, int] = {}
    rows: list[dict[str, Any]] = []
    names = 0
    for host in seen.ready:
        wanted = _wanted(call, host)
        if not wanted.any():
            continue
        counts = host.store.hits(wanted)
        for local in np.flatnonzero(counts).tolist():
            tracks[str(seen.track_id(host, local))] = int(counts[local])
        some, number = _by_name(host, wanted)
        names += number
        rows += some
    rows.sort(key=lambda row: (-int(row["total_ps"]), row["name"], row["host"]))
    return {
        "events": sum(tracks.values()),
        "names": names,
        "rows": rows[:_MOST_ROWS],
        "tracks": tracks,
        "more": max(names - _MOST_ROWS, 0),
    }


def _by_name(host: SeenHost, wanted: Bools) -> tuple[list[dict[str, Any]], int]:
    """A row for each name that has events, the most time first, up to a limit; and how many there are."""
    sums = host.store.range_sums(None, FIRST_PS, LAST_PS)
    places = np.flatnonzero(wanted[sums.name])
    places = places[np.argsort(-sums.total_ps[places], kind="stable")]
    rows = [
        {
            "name": host.store.short_name(int(sums.name[place])),
            "count": int(sums.count[place]),
            "total_ps": str(int(sums.total_ps[place])),
            "host": host.name,
            "at": int(sums.longest[place]),
        }
        for place in places[:_MOST_ROWS].tolist()
    ]
    return rows, len(places)


def hits(call: Call) -> Any:
    """Some rows of the list of all hits."""
    order, down = call.choice("order", ORDERS, START), call.truth("down")
    first, rows = call.whole("first", 0, least=0), call.whole("rows", _USUAL_PART, least=1, most=_MOST_PART)
    seen = call.run.snapshot
    search = (call.text("q"), call.choice("mode", MODES, SUBSTRING), call.truth("case"))

    def listed() -> HitList:
        hosts = list(seen.ready)
        return hit_list(hosts, {host.number: _wanted(call, host) for host in hosts}, order, down)

    found = call.state.hit_lists.of((call.run.identity, seen.key, search, order, down), listed)
    places = zip(found.host[first : first + rows].tolist(), found.at[first : first + rows].tolist(), strict=True)
    return {
        "events": found.total,
        "listed": len(found),
        "first": first,
        "rows": [seen.ref(seen.hosts[host], at) for host, at in places],
    }


def next_hit(call: Call) -> Any:
    """The hit after, or before, a place: in the order of start, host, track, lane."""
    seen = call.run.snapshot
    forward = call.choice("direction", ("next", "previous"), "next") == "next"
    from_ps = call.time("from_ps", FIRST_PS if forward else LAST_PS)
    track, lane = call.whole("track", -1), call.whole("lane", -1)
    here = seen.place_of(track) if track >= 0 else None
    wanted = {host.number: _wanted(call, host) for host in seen.ready}
    hits = []
    for host in seen.ready:
        at = _hit_of(host, wanted[host.number], from_ps, here, lane, forward) if wanted[host.number].any() else None
        if at is not None:
            hits.append((host.to_session(host.store.event(at).start_ps), host.number, at))
    if not hits:
        return {"hit": None, "number": None}
    start, number, at = min(hits) if forward else max(hits)
    host = seen.hosts[number]
    before = sum(_before(one, wanted[one.number], host, at, start) for one in seen.ready)
    return {"hit": seen.ref(host, at), "number": before}


def _hit_of(
    host: SeenHost, wanted: Bools, from_ps: int, here: tuple[SeenHost, int] | None, lane: int, forward: bool
) -> int | None:
    """The nearest hit of one host past the place. At equal times, hosts with lower numbers than that of the place come
    before it."""
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
    at_ps = one.to_host(start) + (one.number < host.number)
    last = one.store.next_hit(wanted, at_ps, forward=False)
    return 0 if last is None else one.store.hit_number(wanted, last) + 1
