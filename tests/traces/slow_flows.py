"""Arrows of flows read slowly: rules F1 to F4 of the specification of traces, one end after the other."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from itertools import pairwise
from typing import Any, NamedTuple

from slow_json import identity
from slow_trace import Event, Trace, text_of

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
    return arrows, alone


def _place(end: _End) -> Place | None:
    one = end.event
    return None if one is None else (one.plane, one.line, one.name, one.start_ps, one.duration_ps)


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
