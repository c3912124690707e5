"""All that is known of one event: where it lies, what is around it, its stats, and what it is an execution of."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import numpy as np

from fastprof.decode.single_event import EventFacts, read_event
from fastprof.decode.stat_values import EVENT, METADATA, EventStats, ListedStats, StatValue
from fastprof.viewer.event_op import Seen
from fastprof.viewer.query import RequestError
from fastprof.viewer.snapshot import SeenHost, Snapshot
from fastprof.viewer.store import StoredEvent, StoredTrack, shortened
from fastprof.viewer.viewed_run import ViewedRun

_MOST_LETTERS: Final = 8192
"""Of a text in the details; ``whole_text`` has all of it."""
_MOST_STATS = 200
_MOST_CHILDREN = 100
_MOST_ENCLOSING = 200
_MOST_FLOWS = 100
BREAKDOWN: Final = "memory_access_breakdown"


def details(run: ViewedRun, seen: Snapshot, host: SeenHost, at: int, first_stat: int = 0) -> dict[str, Any]:
    """As JSON takes it. Times are of the session; numbers that may pass 2**53 are text. A long text is cut: ``letters``
    beside it says how many it has. Stats from ``first_stat`` on, of ``stats_count``."""
    event = host.event(at)
    track = host.store.tracks[event.track]
    process = host.store.about["processes"][track.about["process"]]
    enclosing = host.store.enclosing(at, _MOST_ENCLOSING)
    count, children = host.store.children(at, _MOST_CHILDREN)
    facts = None if event.derived else _facts(run, host, track, event)
    stats = facts.stats if facts else _derived_stats(host, event)
    group = _group(host, event)
    name = host.store.name(event.name)
    long_name = facts.name if facts else next(stats.values("long_name"), "")
    line, row = track.about["name"].partition(" - from ")[0], None if event.derived else event.row
    programs = host.facts.gpu_programs if host.facts is not None else frozenset()
    op = Seen(host.number, process.get("plane") or "", line, row, name, long_name or name, stats, programs)
    texts = _names(host, event, facts)
    return {
        **seen.ref(host, at),
        **{key: cut(text) for key, text in texts.items()},
        "letters": {key: len(text) for key, text in texts.items() if text and len(text) > _MOST_LETTERS},
        "process": cut(process["name"]),
        "plane": cut(process.get("plane")),
        "track_name": cut(track.about["name"]),
        "derived": event.derived,
        "event_id": str(facts.event_id) if facts else None,
        "self_time_ps": _self_time(host, event, count, children),
        "stats": [_stat(one) for one in stats.read(first_stat, _MOST_STATS)],
        "stats_count": len(stats),
        "parent": seen.ref(host, enclosing[0]) if enclosing else None,
        "enclosing": [seen.ref(host, one) for one in enclosing],
        "children": {"count": count, "first": [seen.ref(host, one) for one in children]},
        "flows": _flows(seen, host, event),
        "step": cut(host.facts.group_names.get(group)) if host.facts is not None else None,
        "step_name": cut(host.facts.step_names.get(event.row)) if host.facts and not event.derived else None,
        "group": None if group < 0 else str(group),
        "op": _op(run, op),
    }


def cut(text: str | None) -> str | None:
    return text and shortened(text, _MOST_LETTERS)


def whole_text(run: ViewedRun, host: SeenHost, at: int, what: str | int) -> str:
    """All of a text that the details have the begin of: of a stat, by its number, or a name, by its key there."""
    event = host.event(at)
    facts = None if event.derived else _facts(run, host, host.store.tracks[event.track], event)
    if isinstance(what, str):
        return _names(host, event, facts).get(what) or ""
    found = (facts.stats if facts else _derived_stats(host, event)).read(what, 1)
    if not found:
        raise RequestError(404, f"the event has no stat {what}")
    return _readable(found[0]).value


def _names(host: SeenHost, event: StoredEvent, facts: EventFacts | None) -> dict[str, str | None]:
    return {
        "name": host.store.name(event.name),
        "metadata_name": facts.name if facts else None,
        "display_name": (facts.display_name or None) if facts else None,
    }


def _facts(run: ViewedRun, host: SeenHost, track: StoredTrack, event: StoredEvent) -> EventFacts:
    """What the capture records of it, read from there now."""
    place = event.row - host.store.event(track.first_at).row  # the first of a line lies on its first lane
    return read_event(run.tables.session.index, host.number, track.about["line"], place)


def _op(run: ViewedRun, seen: Seen) -> dict[str, Any] | None:
    op = run.ops.document(seen)
    return op and {key: cut(value) if isinstance(value, str) else value for key, value in op.items()}


def _stat(stat: StatValue) -> dict[str, Any]:
    value = _readable(stat).value
    found = {"name": shortened(stat.name), "kind": stat.kind, "value": cut(value), "of": stat.of}
    return found | ({"letters": len(value)} if len(value) > _MOST_LETTERS else {})


def _readable(stat: StatValue) -> StatValue:
    """Bytes are decoded if their format is known."""
    if stat.name != BREAKDOWN or not stat.payload:
        return stat
    from fastprof.derive.ops.memory_accesses import access_text  # late: few events have it

    return replace(stat, value=access_text(stat.payload) or stat.value)


def _group(host: SeenHost, event: StoredEvent) -> int:
    """The number of its group; -1: none, or not known yet."""
    if host.facts is None:
        return -1
    return host.facts.derived(event.row)[0] if event.derived else host.facts.group(event.row)


def _derived_stats(host: SeenHost, event: StoredEvent) -> EventStats:
    """The values of a derived event, in the form of stats."""
    if host.facts is None:
        return EventStats()
    _, long_name, values = host.facts.derived(event.row)
    before = host.store.name_count - len(host.store.name_array[-1])
    names = [StatValue("long_name", "", host.store.name(before + long_name), METADATA)] if long_name >= 0 else []
    return EventStats((
        ListedStats(METADATA, names), ListedStats(EVENT, [StatValue(name, "", value, EVENT) for name, value in values])
    ))  # fmt: skip


def _flows(seen: Snapshot, host: SeenHost, event: StoredEvent) -> list[dict[str, Any]]:
    """The flows that begin or end with it, up to a limit of each."""
    if host.facts is None or event.derived:
        return []
    flows = host.facts.flows
    found = []
    for direction, mine, others in (("in", flows.consumer, flows.producer), ("out", flows.producer, flows.consumer)):
        for place in np.flatnonzero(mine == event.row)[:_MOST_FLOWS].tolist():
            other = host.store.place(int(others[place]))
            if other is not None:
                found.append({
                    "direction": direction, "kind": flows.kind_name(place), "other": seen.ref(host, other)
                })  # fmt: skip
    return found


def _self_time(host: SeenHost, event: StoredEvent, count: int | None, children: list[int]) -> str | None:
    """Its duration less the time that its children cover; None: they are too many to count."""
    if count is not None and count > len(children):
        count, children = host.store.children(event.at, count)
    if count is None:
        return None
    start, duration = host.store.times(children)
    order = np.argsort(start, kind="stable")
    start, end = start[order], np.maximum.accumulate((start + np.maximum(duration, 0))[order])
    begin = np.maximum(start, np.append(event.start_ps, end[:-1]))  # children on lanes of their own overlap
    return str(max(event.duration_ps, 0) - int(np.maximum(end - begin, 0).sum()))
