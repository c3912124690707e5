"""Arrows of flows read slowly: rules F1 to F5 of the specification of traces, one end after the other."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from itertools import pairwise
from typing import Any, NamedTuple

from slow_json import identity
from slow_trace import Event, Trace, is_set, text_of

Place = tuple[str, str, str, int, int]
"""Plane, line, name, start and duration of an event."""


class Arrow(NamedTuple):
    name: str
    category: str | None
    id: str | None
    begin: Place | None
    end: Place | None
    from_ps: int
    to_ps: int


class _End(NamedTuple):
    ps: int
    phase: str
    row: dict[str, Any]
    event: Event | None


def arrows_of(trace: Trace) -> tuple[Counter[Arrow], int]:
    """The arrows, and how many ends and flows have none."""
    threads: dict[Any, list[Event]] = defaultdict(list)
    for event in trace.events:
        if event.thread is not None and event.duration_ps >= 0:
            threads[event.thread].append(event)
    for slices in threads.values():
        slices.sort(key=lambda one: (one.start_ps, -one.duration_ps))
    keyed: dict[Any, list[_End]] = defaultdict(list)
    for ps, thread, row in trace.ends:
        key = row.get("cat"), text_of(row.get("name")), identity(row["id"]) if row.get("id") is not None else None
        bound = _event(threads[thread], ps, row, trace.dialect == "kineto")
        keyed[key].append(_End(ps, row["ph"][0], row, bound))
    arrows: Counter[Arrow] = Counter()
    alone = 0
    for (category, name, number), ends in keyed.items():
        ends.sort(key=lambda end: end.ps)
        chain: list[_End] = []
        chains = [chain]
        for end in ends:
            if end.phase == "s":
                chains.append(chain := [end])
            elif chain and chain[-1].phase != "f":
                chain.append(end)
            else:
                alone += 1
        for chain in chains:
            if len(chain) < 2 or chain[0].event is None:
                alone += bool(chain)
                continue
            for first, second in pairwise(chain):
                shown = None if number is None else str(number)
                arrows[Arrow(name, category, shown, _place(first), _place(second), first.ps, second.ps)] += 1
    linked, more = _of_bind_ids(trace)
    return arrows + linked, alone + more


def _of_bind_ids(trace: Trace) -> tuple[Counter[Arrow], int]:
    """From the end of an event that something flows out of to the starts of later ones that it flows into."""
    of_order = {event.order: event for event in trace.events}
    keyed: dict[Any, list[tuple[Event, dict[str, Any]]]] = defaultdict(list)
    arrows: Counter[Arrow] = Counter()
    alone = 0
    for order, row in trace.bound:
        if order in of_order:
            keyed[identity(row["bind_id"])].append((of_order[order], row))
        else:
            alone += 1
    for number, ends in keyed.items():
        source: Event | None = None
        head: dict[str, Any] = {}
        is_used = True
        for event, row in sorted(ends, key=lambda end: (end[0].start_ps, end[0].order)):
            takes, gives = is_set(row.get("flow_in")), is_set(row.get("flow_out"))
            if takes and source is not None:
                named = text_of(head.get("name")), head.get("cat"), str(number)
                until = source.start_ps + source.duration_ps
                arrows[Arrow(*named, _slice(source), _slice(event), until, event.start_ps)] += 1
                is_used = True
            alone += takes and source is None
            if gives:
                alone += not is_used
                source, is_used, head = event, False, head if takes and source is not None else row
        alone += not is_used
    return arrows, alone


def _slice(one: Event) -> Place:
    return one.plane, one.line, one.name, one.start_ps, one.duration_ps


def _place(end: _End) -> Place | None:
    return None if end.event is None else _slice(end.event)


def _event(slices: list[Event], ps: int, row: dict[str, Any], of_kineto: bool) -> Event | None:
    """The slice that an end is at; slices by start, the longer first."""
    phase = row["ph"][0]
    first, last = (place(slices, ps, key=lambda one: one.start_ps) for place in (bisect_left, bisect_right))
    if phase == "f" and row.get("bp") != "e":
        return slices[first] if first < len(slices) else None
    if phase == "s" and not of_kineto:
        before = _around(slices, first, ps)
        if before is not None and before.start_ps + before.duration_ps == ps:
            return before
    return _around(slices, last, ps)


def _around(slices: list[Event], last: int, ps: int) -> Event | None:
    backwards = (slices[at] for at in range(last - 1, -1, -1))
    return next((one for one in backwards if one.start_ps + one.duration_ps >= ps), None)
