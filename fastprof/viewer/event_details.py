"""All that is known of one event: where it lies, what is around it, its stats, and what it is an execution of."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import numpy as np

from fastprof.decode.single_event import EVENT, METADATA, EventFacts, StatValue, read_event
from fastprof.viewer.event_op import Seen, op_document
from fastprof.viewer.snapshot import SeenHost, Snapshot
from fastprof.viewer.store import StoredEvent, StoredTrack
from fastprof.viewer.viewed_run import ViewedRun

_MOST_CHILDREN = 100
_MOST_ENCLOSING = 200
_MOST_FLOWS = 100
BREAKDOWN: Final = "memory_access_breakdown"


def details(run: ViewedRun, seen: Snapshot, host: SeenHost, at: int) -> dict[str, Any]:
    """As JSON takes it. Times are of the session; numbers that may pass 2**53 are text."""
    event = host.event(at)
    track = host.store.tracks[event.track]
    process = host.store.about["processes"][track.about["process"]]
    enclosing = _enclosing(host, at)
    count, children = host.store.children(at, _MOST_CHILDREN)
    facts = None if event.derived else _facts(run, host, track, event)
    stats = facts.stats if facts else _derived_stats(host, event)
    group = _group(host, event)
    return {
        **seen.ref(host, at),
        "name": host.store.name(event.name),
        "metadata_name": facts.name if facts else None,
        "display_name": (facts.display_name or None) if facts else None,
        "process": process["name"],
        "plane": process.get("plane"),
        "track_name": track.about["name"],
        "derived": bool(event.derived),
        "event_id": str(facts.event_id) if facts else None,
        "self_time_ps": _self_time(host, event, count, children),
        "stats": [{"name": one.name, "kind": one.kind, "value": one.value, "of": one.of} for one in stats],
        "parent": seen.ref(host, enclosing[0]) if enclosing else None,
        "enclosing": [seen.ref(host, one) for one in enclosing],
        "children": {"count": count, "first": [seen.ref(host, one) for one in children]},
        "flows": _flows(seen, host, event),
        "step": host.facts.group_names.get(group) if host.facts is not None else None,
        "step_name": host.facts.step_names.get(event.row) if host.facts is not None and not event.derived else None,
        "group": None if group < 0 else str(group),
        "op": op_document(run.tables, _seen(host, event, stats, facts)),
    }


def _seen(host: SeenHost, event: StoredEvent, stats: tuple[StatValue, ...], facts: EventFacts | None) -> Seen:
    track = host.store.tracks[event.track]
    plane = host.store.about["processes"][track.about["process"]].get("plane") or ""
    row = None if event.derived else event.row
    return Seen.of(host.number, plane, track.about["name"], row, host.store.name(event.name), stats, facts)


def _enclosing(host: SeenHost, at: int) -> list[int]:
    """The events that enclose it, the innermost first, as far as they are told."""
    found: list[int] = []
    outer = host.store.parent(at)
    while outer is not None and len(found) < _MOST_ENCLOSING:
        found.append(outer)
        outer = host.store.parent(outer)
    return found


def _facts(run: ViewedRun, host: SeenHost, track: StoredTrack, event: StoredEvent) -> EventFacts:
    """What the capture says of it: read from there now."""
    place = event.row - host.store.row(track.first_at)[0]  # the first of a line lies on its first lane
    facts = read_event(run.tables.session.index, host.number, track.about["line"], place)
    return replace(facts, stats=tuple(_readable(stat) for stat in facts.stats))


def _readable(stat: StatValue) -> StatValue:
    """The stat with its bytes decoded, where their format is known."""
    if stat.name != BREAKDOWN or not stat.payload:
        return stat
    from fastprof.derive.ops.memory_accesses import access_text  # late: few events have it

    return replace(stat, value=access_text(stat.payload) or stat.value)


def _group(host: SeenHost, event: StoredEvent) -> int:
    """The number of its group; -1: none, or not known yet."""
    if host.facts is None:
        return -1
    return host.facts.derived(event.row)[0] if event.derived else host.facts.group(event.row)


def _derived_stats(host: SeenHost, event: StoredEvent) -> tuple[StatValue, ...]:
    """What a derived event tells of itself, in the form of stats."""
    if host.facts is None or not event.derived:
        return ()
    _, long_name, told = host.facts.derived(event.row)
    stats = [StatValue(name, "", value, EVENT) for name, value in told]
    if long_name >= 0:
        before = host.store.name_count - len(host.store.name_array[-1])
        stats.insert(0, StatValue("long_name", "", host.store.name(before + long_name), METADATA))
    return tuple(stats)


def _flows(seen: Snapshot, host: SeenHost, event: StoredEvent) -> list[dict[str, Any]]:
    """The flows that begin or end with it, so many of each."""
    if host.facts is None or event.derived:
        return []
    flows = host.facts.flows
    found = []
    for direction, mine, others in (("in", flows.consumer, flows.producer), ("out", flows.producer, flows.consumer)):
        for place in np.flatnonzero(mine == event.row)[:_MOST_FLOWS].tolist():
            other = host.store.place(int(others[place]))
            if other is not None:
                told = {"direction": direction, "kind": flows.kind_name(place), "other": seen.ref(host, other)}
                found.append(told)
    return found


def _self_time(host: SeenHost, event: StoredEvent, count: int | None, children: list[int]) -> str | None:
    """What its children leave of it; None where they are too many to count."""
    if count is not None and count > len(children):
        count, children = host.store.children(event.at, count)
    if count is None:
        return None
    store, before = host.store.raw, 0
    if event.derived and host.store.derived is not None:
        store, before = host.store.derived, len(host.store.raw)
    places = np.array(children, np.int64) - before
    starts = store.start[places]
    order = np.argsort(starts, kind="stable")
    starts, durations = starts[order], np.maximum(store.duration[places[order]], 0)
    ends = np.maximum.accumulate(starts + durations) if len(order) else starts
    free = (
        np.append(event.start_ps, ends[:-1]) if len(order) else ends
    )  # children overlap where they have lanes of their own
    covered = np.maximum(ends - np.maximum(starts, free), 0).sum()
    return str(max(event.duration_ps, 0) - int(covered))
