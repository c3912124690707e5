"""Answers about the timeline: tiles and names, searches by name, details of an event, sums of ranges, and what lies
over the tracks. Searches look at distinct names only, in time that grows with their length alone."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
import pyarrow as pa
from starlette.responses import Response

from fastprof.decode.single_event import EVENT, METADATA, EventFacts, EventStats, ListedStats, StatValue, read_event
from fastprof.schema.columns import Bools, expand_ranges
from fastprof.viewer import store
from fastprof.viewer.answers import FOREVER, make_answer, make_body
from fastprof.viewer.query import FIRST_PS, LAST_PS, MOST, RequestError, format_numbers
from fastprof.viewer.server_state import ApiCall
from fastprof.viewer.snapshot import ORDERS, START, HitList, HostView, Snapshot, make_hit_list
from fastprof.viewer.store import NameSums, StoredEvent, StoredTrack, cut_name
from fastprof.viewer.timeline_document import (
    MOST_BANDS,
    MOST_FLOWS,
    MOST_WIDTH,
    make_counter_document,
    make_flows_document,
    make_steps_document,
    make_timeline_document,
)
from fastprof.viewer.viewed_run import ViewedEvent, ViewedRun

_BYTES: Final = "application/octet-stream"
_MOST_NAMES: Final = 10_000
_MOST_LANES: Final = 4096


def answer_timeline(call: ApiCall) -> Any:
    first, most = call.whole("first", 0, least=0), call.whole("tracks", MOST, least=1)
    return make_timeline_document(call.run, first, most)


def answer_tile(call: ApiCall) -> Response:
    """Answer with a tile of ``tracks`` (default: all). ``lanes``: number of first lanes of a track, or first-last."""
    path = call.request.path_params
    seen = call.run.issued(path["key"])
    level = _parse_path_number("level", path["level"], store.COARSEST)
    index = _parse_path_number("index", path["index"], 2**53)
    lanes = _parse_lanes(call.given("lanes"))
    key = (seen.key, level, index, call.given("tracks"), lanes)
    tile = call.state.tiles.get(key)
    if tile is None:
        tile = make_body(store.make_tile(seen.tile_parts(call.numbers("tracks"), lanes), level, index), _BYTES, key)
    response = make_answer(call.request, tile, FOREVER)
    call.state.tiles.keep(key, tile)
    return response


def _parse_lanes(text: str | None) -> range | None:
    """Parse a number of first lanes, ``30``, or a range, ``30-59``. None and 0: all lanes. RequestError 400: the text
    is neither."""
    if text in (None, "0"):
        return None
    numbers = text.split("-")
    if len(numbers) > 2 or not all(number.isascii() and number.isdecimal() and len(number) < 6 for number in numbers):
        raise RequestError(400, f"lanes are a number, or first-last, not {text[:60]!r}")
    first, last = (0, int(text) - 1) if len(numbers) == 1 else map(int, numbers)
    if last >= _MOST_LANES:
        raise RequestError(400, f"a tile has lanes up to number {_MOST_LANES - 1}")
    return range(first, last + 1)


def answer_lanes(call: ApiCall) -> Any:
    """Answer with the lanes that have events in a window: ``all``, the tracks all of whose lanes do; ``some``: the
    lanes of others."""
    start, end = call.time("start_ps"), call.time("end_ps")
    seen = call.run.snapshot
    full: list[int] = []
    some: dict[str, str] = {}
    for host in seen.ready:
        track, lane = host.store.lanes_within(host.to_host(start), host.to_host(end))
        counts = np.bincount(track, minlength=len(host.store.tracks))
        entire = counts == np.array([stored.lanes for stored in host.store.tracks], np.int64)
        full += [seen.track_id(host, number) for number in np.flatnonzero(entire & (counts > 0)).tolist()]
        ends = np.cumsum(counts)
        for number in np.flatnonzero(~entire & (counts > 0)).tolist():
            some[str(seen.track_id(host, number))] = format_numbers(lane[ends[number] - counts[number] : ends[number]])
    return {"all": format_numbers(np.array(full, np.int64)), "some": some}


def _parse_path_number(name: str, text: str, most: int) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= 20 and int(text) <= most):
        raise RequestError(400, f"the {name} of a tile is an integer from 0 to {most}")
    return int(text)


def answer_names(call: ApiCall) -> Any:
    host = call.run.snapshot.host(call.given("host"))
    ids = call.numbers("ids")
    if ids is None:
        raise RequestError(400, "the argument ids is missing")
    if len(ids) > _MOST_NAMES:
        raise RequestError(400, f"a request takes at most {_MOST_NAMES:,} names")
    known = ids[ids < host.store.name_count]
    return {"names": {str(number): host.store.short_name(number) for number in known.tolist()}}


SUBSTRING, REGEX = "substring", "regex"
MODES = (SUBSTRING, REGEX)
_MOST_LETTERS = 1000
_MOST_STATES = 4000
_MOST_OF_A_NAME = 1 << 18
_BLOCK_BYTES = 1 << 18
_MOST_S = 2.0


def match_names(names: Sequence[pa.Array], sought: str, mode: str, case: bool) -> Bools:
    """Return whether each name contains ``sought``; expressions search only the first quarter of a million letters of a
    name.

    Expressions are RE2's, whose time is linear in the text, times the size of the expression at worst: that is bounded,
    and after some seconds the search is given up. RequestError: it is no expression, or takes too long.
    """
    import pyarrow.compute as pc  # late: the first picture does not wait for it

    shown = repr(cut_name(sought, 100))
    if len(sought) > _MOST_LETTERS:
        raise RequestError(400, f"what is searched for has at most {_MOST_LETTERS:,} characters")
    size = len(sought)  # a lower bound, with repetitions written out
    for least, most in re.findall(r"\{(\d{1,9})(?:,(\d{0,9}))?\}", sought) if mode == REGEX else ():
        size *= max(int(least), int(most or 0), 1)
    if mode == REGEX and size > _MOST_STATES:
        raise RequestError(400, f"the regular expression {shown} is too large")
    find = pc.match_substring if mode == SUBSTRING else pc.match_substring_regex
    until = time.monotonic() + _MOST_S
    matches = [np.zeros(0, np.bool_)]
    try:
        find(pa.array([""]), sought, ignore_case=not case)
        for block in (block for array in names for block in _split_names(array)):
            if mode == REGEX:
                block = pc.utf8_slice_codeunits(block, 0, _MOST_OF_A_NAME) if len(block) == 1 else block
                if time.monotonic() > until:
                    raise RequestError(400, f"the search for {shown} takes too long: simplify it")
            matches.append(np.asarray(find(block, sought, ignore_case=not case).fill_null(False)))
    except pa.ArrowInvalid as error:
        reason = str(error).partition("\n")[0].removeprefix("Invalid regular expression: ")
        raise RequestError(400, f"{shown} is not a regular expression: {reason}") from None
    except (UnicodeEncodeError, pa.ArrowException) as error:
        raise RequestError(400, f"{shown} cannot be searched for: {error}") from None
    return np.concatenate(matches)


def _split_names(names: pa.Array) -> Iterator[pa.Array]:
    """Yield the names in parts of about _BLOCK_BYTES; a longer name is a part of its own."""
    import pyarrow.compute as pc

    ends = np.cumsum(np.asarray(pc.binary_length(names).fill_null(0)), dtype=np.int64)
    first = 0
    while first < len(names):
        before = int(ends[first - 1]) if first else 0
        last = max(int(np.searchsorted(ends, before + _BLOCK_BYTES, side="right")), first + 1)
        yield names[first:last]
        first = last


_MOST_NAME_ROWS: Final = 200
_USUAL_PART, _MOST_PART = 200, 1000


def _get_matches(call: ApiCall, host: HostView) -> Bools:
    """Return whether each name of a host matches. Matches are cached: going from hit to hit searches no names again."""
    names = host.store.name_array
    search = (call.text("q"), call.choice("mode", MODES, SUBSTRING), call.truth("case"))
    place = (call.run.identity, host.number, host.store.name_count)
    return call.state.matches.of((place, search), lambda: match_names(names, *search))


def answer_search(call: ApiCall) -> Any:
    """Answer with all events of matching names: how many, by name and by track."""
    seen = call.run.snapshot
    tracks: dict[str, int] = {}
    rows: list[dict[str, Any]] = []
    names = 0
    for host in seen.ready:
        wanted = _get_matches(call, host)
        if not wanted.any():
            continue
        counts = host.store.hits(wanted)
        for local in np.flatnonzero(counts).tolist():
            tracks[str(seen.track_id(host, local))] = int(counts[local])
        some, number = _list_name_rows(host, wanted)
        names += number
        rows += some
    rows.sort(key=lambda row: (-int(row["total_ps"]), row["name"], row["host"]))
    return {
        "events": sum(tracks.values()),
        "names": names,
        "rows": rows[:_MOST_NAME_ROWS],
        "tracks": tracks,
        "more": max(names - _MOST_NAME_ROWS, 0),
    }


def _list_name_rows(host: HostView, wanted: Bools) -> tuple[list[dict[str, Any]], int]:
    """Return a row for each name that has events, the most time first, up to a limit; and how many there are."""
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
        for place in places[:_MOST_NAME_ROWS].tolist()
    ]
    return rows, len(places)


def answer_hits(call: ApiCall) -> Any:
    """Answer with some rows of the list of all hits."""
    order, down = call.choice("order", ORDERS, START), call.truth("down")
    first, rows = call.whole("first", 0, least=0), call.whole("rows", _USUAL_PART, least=1, most=_MOST_PART)
    seen = call.run.snapshot
    search = (call.text("q"), call.choice("mode", MODES, SUBSTRING), call.truth("case"))

    def listed() -> HitList:
        hosts = list(seen.ready)
        return make_hit_list(hosts, {host.number: _get_matches(call, host) for host in hosts}, order, down)

    hits = call.state.hit_lists.of((call.run.identity, seen.key, search, order, down), listed)
    places = zip(hits.host[first : first + rows].tolist(), hits.at[first : first + rows].tolist(), strict=True)
    return {
        "events": hits.total,
        "listed": len(hits),
        "first": first,
        "rows": [seen.ref(seen.hosts[host], at) for host, at in places],
    }


def answer_next_hit(call: ApiCall) -> Any:
    """Answer with the hit after, or before, a place: in the order of start, host, track, lane."""
    seen = call.run.snapshot
    forward = call.choice("direction", ("next", "previous"), "next") == "next"
    from_ps = call.time("from_ps", FIRST_PS if forward else LAST_PS)
    track, lane = call.whole("track", -1), call.whole("lane", -1)
    here = seen.place_of(track) if track >= 0 else None
    wanted = {host.number: _get_matches(call, host) for host in seen.ready}
    hits = []
    for host in seen.ready:
        if not wanted[host.number].any():
            continue
        at_ps = host.to_host(from_ps)
        if here is not None and here[0].number == host.number:
            at = host.store.next_hit(wanted[host.number], at_ps, here[1], lane, forward=forward)
        else:  # at equal times, hosts with lower numbers than that of the place come before it
            is_before = here is not None and host.number < here[0].number
            at = host.store.next_hit(wanted[host.number], at_ps + is_before, forward=forward)
        if at is not None:
            hits.append((host.to_session(host.store.event(at).start_ps), host.number, at))
    if not hits:
        return {"hit": None, "number": None}
    start, number, at = min(hits) if forward else max(hits)
    host = seen.hosts[number]
    before = sum(_count_earlier_hits(other, wanted[other.number], host, at, start) for other in seen.ready)
    return {"hit": seen.ref(host, at), "number": before}


def _count_earlier_hits(other: HostView, wanted: Bools, host: HostView, at: int, start: int) -> int:
    """Count the hits of ``other`` before that of ``host``."""
    if not wanted.any():
        return 0
    if other.number == host.number:
        return other.store.hit_number(wanted, at)
    at_ps = other.to_host(start) + (other.number < host.number)
    last = other.store.next_hit(wanted, at_ps, forward=False)
    return 0 if last is None else other.store.hit_number(wanted, last) + 1


_MOST_TEXT_LETTERS: Final = 8192
"""Letters of a text in the details; ``get_whole_text`` has all of it."""
_MOST_STATS = 200
_MOST_CHILDREN = 100
_MOST_ENCLOSING = 200
_MOST_FLOWS = 100
BREAKDOWN: Final = "memory_access_breakdown"


def describe_event(run: ViewedRun, seen: Snapshot, host: HostView, at: int, first_stat: int = 0) -> dict[str, Any]:
    """Describe an event as JSON takes it. Times are of the session; numbers that may pass 2**53 are strings. A long
    text is cut: ``letters`` beside it says how many it has. Stats from ``first_stat`` on, of ``stats_count``."""
    event = host.event(at)
    track = host.store.tracks[event.track]
    process = host.store.about["processes"][track.about["process"]]
    enclosing = host.store.enclosing(at, _MOST_ENCLOSING)
    count, children = host.store.children(at, _MOST_CHILDREN)
    facts = None if event.derived else _read_event_facts(run, host, track, event)
    stats = facts.stats if facts else _make_derived_stats(host, event)
    group = -1  # none, or not known yet
    if host.facts is not None:
        group = host.facts.derived(event.row)[0] if event.derived else host.facts.group(event.row)
    name = host.store.name(event.name)
    long_name = facts.name if facts else next(stats.values("long_name"), "")
    line, row = track.about["name"].partition(" - from ")[0], None if event.derived else event.row
    programs = host.facts.gpu_programs if host.facts is not None else frozenset()
    viewed = ViewedEvent(host.number, process.get("plane") or "", line, row, name, long_name or name, stats, programs)
    op = run.ops.document(viewed)
    texts = _get_names(host, event, facts)
    return {
        **seen.ref(host, at),
        **{key: cut_text(text) for key, text in texts.items()},
        "letters": {key: len(text) for key, text in texts.items() if text and len(text) > _MOST_TEXT_LETTERS},
        "process": cut_text(process["name"]),
        "plane": cut_text(process.get("plane")),
        "track_name": cut_text(track.about["name"]),
        "derived": event.derived,
        "event_id": str(facts.event_id) if facts else None,
        "self_time_ps": _measure_self_time(host, event, count, children),
        "stats": [_describe_stat(stat) for stat in stats.read(first_stat, _MOST_STATS)],
        "stats_count": len(stats),
        "parent": seen.ref(host, enclosing[0]) if enclosing else None,
        "enclosing": [seen.ref(host, outer) for outer in enclosing],
        "children": {"count": count, "first": [seen.ref(host, child) for child in children]},
        "flows": _describe_flows(seen, host, event),
        "step": cut_text(host.facts.group_names.get(group)) if host.facts is not None else None,
        "step_name": cut_text(host.facts.step_names.get(event.row)) if host.facts and not event.derived else None,
        "group": None if group < 0 else str(group),
        "op": op and {key: cut_text(value) if isinstance(value, str) else value for key, value in op.items()},
    }


def cut_text(text: str | None) -> str | None:
    return text and cut_name(text, _MOST_TEXT_LETTERS)


def get_whole_text(run: ViewedRun, host: HostView, at: int, what: str | int) -> str:
    """Return the whole of a text that the details have the beginning of: of a stat, by its number, or a name, by its
    key there."""
    event = host.event(at)
    facts = None if event.derived else _read_event_facts(run, host, host.store.tracks[event.track], event)
    if isinstance(what, str):
        return _get_names(host, event, facts).get(what) or ""
    stats = (facts.stats if facts else _make_derived_stats(host, event)).read(what, 1)
    if not stats:
        raise RequestError(404, f"the event has no stat {what}")
    return _decode_stat(stats[0]).value


def _get_names(host: HostView, event: StoredEvent, facts: EventFacts | None) -> dict[str, str | None]:
    return {
        "name": host.store.name(event.name),
        "metadata_name": facts.name if facts else None,
        "display_name": (facts.display_name or None) if facts else None,
    }


def _read_event_facts(run: ViewedRun, host: HostView, track: StoredTrack, event: StoredEvent) -> EventFacts:
    """Return what the capture records of an event, read from there now."""
    place = event.row - host.store.event(track.first_at).row  # the first of a line lies on its first lane
    return read_event(run.tables.session.index, host.number, track.about["line"], place)


def _describe_stat(stat: StatValue) -> dict[str, Any]:
    value = _decode_stat(stat).value
    described = {"name": cut_name(stat.name), "kind": stat.kind, "value": cut_text(value), "of": stat.of}
    return described | ({"letters": len(value)} if len(value) > _MOST_TEXT_LETTERS else {})


def _decode_stat(stat: StatValue) -> StatValue:
    """Return the stat with its bytes decoded, if their format is known."""
    if stat.name != BREAKDOWN or not stat.payload:
        return stat
    from fastprof.derive.ops.tpu_cores import format_accesses  # late: few events have it

    return replace(stat, value=format_accesses(stat.payload) or stat.value)


def _make_derived_stats(host: HostView, event: StoredEvent) -> EventStats:
    """Return the values of a derived event, in the form of stats."""
    if host.facts is None:
        return EventStats()
    _, long_name, values = host.facts.derived(event.row)
    before = host.store.name_count - len(host.store.name_array[-1])
    names = [StatValue("long_name", "", host.store.name(before + long_name), METADATA)] if long_name >= 0 else []
    return EventStats((
        ListedStats(METADATA, names), ListedStats(EVENT, [StatValue(name, "", value, EVENT) for name, value in values])
    ))  # fmt: skip


def _describe_flows(seen: Snapshot, host: HostView, event: StoredEvent) -> list[dict[str, Any]]:
    """Describe the flows that begin or end with an event, up to a limit of each."""
    if host.facts is None or event.derived:
        return []
    flows = host.facts.flows
    described = []
    for direction, mine, others in (("in", flows.consumer, flows.producer), ("out", flows.producer, flows.consumer)):
        for place in np.flatnonzero(mine == event.row)[:_MOST_FLOWS].tolist():
            other = host.store.place(int(others[place]))
            if other is not None:
                described.append({
                    "direction": direction, "kind": flows.kind_name(place), "other": seen.ref(host, other)
                })  # fmt: skip
    return described


def _measure_self_time(host: HostView, event: StoredEvent, count: int | None, children: list[int]) -> str | None:
    """Return the duration of an event less the time that its children cover, or None if they are too many to count."""
    if count is not None and count > len(children):
        count, children = host.store.children(event.at, count)
    if count is None:
        return None
    start, duration = host.store.times(children)
    order = np.argsort(start, kind="stable")
    start, end = start[order], np.maximum.accumulate((start + np.maximum(duration, 0))[order])
    begin = np.maximum(start, np.append(event.start_ps, end[:-1]))  # children on lanes of their own overlap
    return str(max(event.duration_ps, 0) - int(np.maximum(end - begin, 0).sum()))


_MOST_ROWS: Final = 1000
_MOST_PS: Final = 2**63 - 1
"""Largest sum; the true one may be larger."""
_USUAL_FLOWS: Final = 500
_USUAL_WIDTH: Final = 1000


def answer_event(call: ApiCall) -> Any:
    run = call.run
    seen = run.snapshot
    first_stat = call.whole("first_stat", 0, least=0)
    return describe_event(run, seen, seen.host(call.given("host")), call.whole("at", least=0), first_stat)


def answer_event_text(call: ApiCall) -> Response:
    """Answer with the whole of a text that the details have the beginning of."""
    run = call.run
    what = call.whole("stat", least=0) if call.given("stat") else call.text("name")
    text = get_whole_text(run, run.snapshot.host(call.given("host")), call.whole("at", least=0), what)
    return make_answer(
        call.request,
        make_body(text.encode("utf-8", "backslashreplace"), "text/plain; charset=utf-8", version=run.version),
    )


def answer_slice_sums(call: ApiCall) -> Any:
    """Answer with sums by name of events that are drawn as one."""
    host = call.run.snapshot.host(call.given("host"))
    at, count = call.whole("at", least=0), call.whole("count", least=1)
    first = host.event(at)
    if count > host.store.events - at or host.event(at + count - 1).track != first.track:
        raise RequestError(400, "the events of a slice are of one track")
    return _merge_sums([(host, host.store.slice_sums(at, count))])


def answer_range_sums(call: ApiCall) -> Any:
    """Answer with sums by name of the events that overlap a range of time."""
    start, end = call.time("start_ps"), call.time("end_ps")
    if end < start:
        raise RequestError(400, "the range ends before it starts")
    tracks = call.run.snapshot.split(call.numbers("tracks"))
    return _merge_sums(
        [(host, host.store.range_sums(local, host.to_host(start), host.to_host(end))) for host, local in tracks]
    )


def _merge_sums(parts: list[tuple[HostView, NameSums]]) -> dict[str, Any]:
    """Return rows by host and name, the most time within the range first. ``more``: how many are left out."""
    counts = np.array([len(sums) for _, sums in parts], np.int64)
    part, place = expand_ranges(np.zeros_like(counts), counts)
    clipped = np.concatenate([np.zeros(0, np.int64), *(sums.clipped_ps for _, sums in parts)])
    order = np.argsort(-clipped.astype(np.float64), kind="stable")[:_MOST_ROWS]
    rows = []
    for i in order.tolist():
        (host, sums), row = parts[int(part[i])], int(place[i])
        total, count = int(sums.total_ps[row]), int(sums.count[row])
        rows.append({
            "name": host.store.short_name(int(sums.name[row])),
            "count": count,
            "total_ps": str(total),
            "clipped_ps": str(sums.clipped_ps[row]),
            "mean_ps": None if total == _MOST_PS else str(round(total / count)) if count else "0",
            "min_ps": str(sums.min_ps[row]),
            "max_ps": str(sums.max_ps[row]),
            "at": int(sums.longest[row]),
            "host": host.name,
        })  # fmt: skip
    return {
        "events": sum(sums.events for _, sums in parts),
        "total_ps": str(sum(sum(sums.total_ps.tolist()) for _, sums in parts)),
        "clipped_ps": str(sum(clipped.tolist())),
        "rows": rows,
        "more": max(len(place) - _MOST_ROWS, 0),
    }


# ---- what lies over the tracks


def answer_flows(call: ApiCall) -> Any:
    start, end = call.time("start_ps", FIRST_PS), call.time("end_ps", LAST_PS)
    limit = call.whole("limit", _USUAL_FLOWS, least=0, most=MOST_FLOWS)
    return make_flows_document(call.run.snapshot, start, end, call.numbers("tracks"), limit)


def answer_steps(call: ApiCall) -> Any:
    first, most = call.whole("first", 0, least=0), call.whole("rows", MOST_BANDS, least=1, most=MOST_BANDS)
    return make_steps_document(call.run, first, most)


def answer_counters(call: ApiCall) -> Any:
    start, end = call.time("start_ps", FIRST_PS), call.time("end_ps", LAST_PS)
    width = call.whole("width", _USUAL_WIDTH, least=1, most=MOST_WIDTH)
    return make_counter_document(call.run, call.given("host"), call.whole("track", least=0), start, end, width)
