"""Periods of steps by their definition, one step after the other: an independent oracle for periods and for gaps."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

from fastprof.derive.host import Host
from fastprof.tables.host_events import Plane

Extents = dict[int, tuple[int, int]]
"""Begin and end of the device work for a step, by group."""
Period = tuple[int, int, int]
"""Group, begin and end."""


def slow_periods(host: Host, source: str = "auto") -> dict[str, list[Period]]:
    """Return the periods of each device in order; "" has those of the slowest, for devices without their own."""
    database = host.steps_from(source).database
    whole = {
        group: (at[0], at[0] + length[0])
        for group, at, length in zip(
            *(one.tolist() for one in (database.step, database.extent_begin_ps, database.extent_ps)), strict=True
        )
    }
    own = {"": whole}
    if host.hardware == "TPU":
        own = _on_cores(host, source) or own
    elif host.hardware == "GPU":
        works = {plane.name: _works(host, source, plane) for plane in host.events.planes_of("GPU")}
        own = {name: whole | _only(work, whole) for name, work in works.items() if work} or own
    order = sorted(whole, key=lambda group: min(extents[group][0] for extents in own.values()))
    followed = _followed([int(database.number[database.step == group][0]) for group in order])
    if not any(followed) and host.hardware != "TPU":
        own = {"": whole}
    found = {name: _periods(order, extents, followed) for name, extents in own.items()}
    return {"": [max(every, key=lambda one: one[2] - one[1]) for every in zip(*found.values(), strict=True)], **found}


def _only(work: Extents, steps: Extents) -> Extents:
    return {group: extent for group, extent in work.items() if group in steps}


def _on_cores(host: Host, source: str) -> dict[str, Extents]:
    """Cores that take part in steps."""
    database = host.steps_from(source).database
    found: dict[str, Extents] = {}
    for core, name in enumerate(database.cores.device):
        for place, group in enumerate(database.step.tolist()):
            if database.present[place, core]:
                begin = int(database.extent_begin_ps[place, core])
                found.setdefault(str(name), {})[group] = (begin, begin + int(database.extent_ps[place, core]))
    return found


def _works(host: Host, source: str, plane: Plane) -> Extents:
    """Return the first begin and the last end of the work of a GPU for each group."""
    events, group_of = host.events, host.groups_from(source).group_id.tolist()
    start, length = events.start_ps.tolist(), events.duration_ps.tolist()
    found: Extents = {}
    for line in plane.lines:
        for row in range(line.first, line.last):
            if group_of[row] >= 0 and not line.is_derived:
                begin, end = found.get(group_of[row], (start[row], start[row]))
                found[group_of[row]] = min(begin, start[row]), max(end, start[row] + length[row])
    return found


def _followed(numbers: list[int]) -> list[bool]:
    """Return whether the step after each is recorded: not where numbers grow by an unusual amount."""
    by = [second - first for first, second in pairwise(numbers)]
    often = Counter(by)
    usual = min(often, key=lambda amount: (-often[amount], amount), default=0)
    return [len(numbers) < 3 or amount == usual for amount in by] + [False] * bool(numbers)


def _periods(order: list[int], extents: Extents, followed: list[bool]) -> list[Period]:
    found: list[Period] = []
    begins: list[int] = []
    for group in order:
        begins.append(max(begins[-1:] + [extents[group][0]]))
    for place, group in enumerate(order):
        end = begins[place + 1] if followed[place] else max(extents[group][1], begins[place])
        found.append((group, begins[place], end))
    return found
