"""Start-up among what recurs: waits of one cause as two findings, of the long waits that come once, and of the rest.

Kernels and libraries are loaded at their first use, memory is taken. The longest wait comes once if it takes half of
the time of its cause on its device. So do those after it down to a wait that is ten times as long as the next, or if
there is none, those that take half of what is left.

    waits   |==================| |=========| |====|   |-| |-| |-|
                        come once                        recur
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Final

import numpy as np

from fastprof.analyses.findings.facts import Facts
from fastprof.analyses.findings.finding import Finding
from fastprof.analyses.findings.of_gaps import TITLES
from fastprof.derive.causes.budget import BETWEEN_STEPS, Largest
from fastprof.schema.array_types import Bools
from fastprof.schema.value_classes import dataclass

EARLY: Final = ("input", "python", "transfer")
"""Causes that come once before the second step only: iterators are built, first batches are loaded and copied."""
_RECORDED: Final = {
    "launch": "launch", "small_ops": "launch", "eager": "launch", "memory_pressure": "memory_pressure",
    **{cause: cause for cause in EARLY},
}  # fmt: skip
"""By cause of a finding, that of its gaps."""
_LEAST_WAITS: Final = {"launch": 20, "memory_pressure": 1, **dict.fromkeys(EARLY, 1)}
_FEWEST_STEPS: Final = 3
"""A device that waits less often for a cause may do so in each of few steps."""


@dataclass(frozen=True, slots=True)
class Once:
    """Waits that come once, of all devices: how many, their time, and the longest."""

    count: int
    time_ps: int
    longest_ps: int


NEVER: Final = Once(0, 0, 0)


def parts(facts: Facts, finding: Finding) -> list[Finding]:
    """The finding, or what of it recurs, and what comes once."""
    once = once_of(facts, finding.cause)
    time_ps = facts.per_device(once.time_ps)
    if not time_ps or finding.cost_ps is None:
        return [finding]
    time_ps = min(time_ps, finding.cost_ps)
    first = replace(finding, cause=_RECORDED[finding.cause], cost_ps=time_ps, is_once=True)
    rest = finding.cost_ps - time_ps
    if finding.cause in EARLY and rest > 0:
        return [replace(finding, cost_ps=rest), first]
    title = TITLES[finding.cause].format(facts.devices())
    return [replace(finding, cost_ps=rest, title=title, annotation=None, source=None), first] if rest > 0 else [first]


def once_of(facts: Facts, cause: str) -> Once:
    """Of the cause of a finding. NEVER: some device has no such wait."""
    recorded = _RECORDED.get(cause)
    rows = facts.lost_to(str(recorded))
    if not len(rows) or any(map(_moves, rows.event)):
        return NEVER
    every, pieces = facts.gaps, facts.gaps.pieces(str(recorded))
    if recorded in EARLY:
        pieces = pieces[_are_early(facts, pieces)]
    times: dict[tuple[str, str], list[int]] = {}
    for place, time_ps in zip(pieces.device.tolist(), pieces.duration_ps.tolist(), strict=True):
        times.setdefault((every.hosts[every.host_of[place]], every.devices[place]), []).append(time_ps)
    found = []
    for host, device, time_ps, count in zip(
        rows.host, rows.device, rows.time_ps.tolist(), rows.count.tolist(), strict=True
    ):
        longest = sorted(times.get((host, device), ()), reverse=True)
        found.append(_longest(longest, time_ps) if count >= _LEAST_WAITS[str(recorded)] else [])
    if not all(found):
        return NEVER
    return Once(sum(map(len, found)), sum(map(sum, found)), max(map(max, found)))


def _are_early(facts: Facts, pieces: Largest) -> Bools:
    """Return which waits are in the first step or begin before any of later steps; none if there are few steps."""
    steps = facts.time_by_step[0]
    steps = steps[steps != BETWEEN_STEPS]
    if len(steps) < _FEWEST_STEPS:
        return np.zeros(len(pieces), np.bool_)
    later = pieces.start_ps[pieces.step > steps[0]].min(initial=np.iinfo(np.int64).max)
    early: Bools = (pieces.step == steps[0]) | ((pieces.step == BETWEEN_STEPS) & (pieces.start_ps < later))
    return early


def _longest(times: list[int], left: int) -> list[int]:
    """The waits that come once. ``times``: the longest, in order; ``left``: of all waits of the device."""
    count = 0
    while count < len(times) and 2 * times[count] >= left:
        left -= times[count]
        count += 1
    apart = [place for place, (one, after) in enumerate(pairwise(times), 1) if one >= _MUCH_LONGER * after]
    return times[: apart[0]] if count and apart else times[:count]


_MUCH_LONGER: Final = 10


def _moves(event: str | None) -> bool:
    """Whether the allocator moves what it has: memory that is used for the first time is not fragmented."""
    return event is not None and "defragment" in event.lower()
