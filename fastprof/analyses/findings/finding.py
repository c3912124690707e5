"""A finding: one cause of lost time, what it costs, where, and what to do; and which findings are shown first."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from fastprof.schema.value_classes import dataclass
from fastprof.wording.quantities import measured

MOST_SHOWN: Final = 7
LEAST_SHARE: Final = 0.01
"""Findings that cost less of the run are left out."""

CERTAIN, LIKELY, POSSIBLE = "certain", "likely", "possible"
_WEIGHT: Final = {CERTAIN: 4, LIKELY: 3, POSSIBLE: 2}  # quarters
_PART: Final = {LIKELY: "three quarters", POSSIBLE: "half"}


@dataclass(frozen=True, slots=True)
class Finding:
    """``cost_ps``: time of the run that the cause takes, per device; None: unknown. ``is_bound``: whether removing the
    cause saves at most that, not just that. ``evidence``: the rows that show it, ``ANALYSIS.TABLE?COLUMN=VALUE&…``,
    with values quoted as in an address; ``detail``: what other reports know of it; ``is_once``:
    whether it is start-up, which does not come again. The rest, where it is known, is None
    or what the cause has in common in all places."""

    cause: str
    title: str
    cost_ps: int | None
    certainty: str
    evidence: str
    advice: str
    is_bound: bool = False
    host: str | None = None
    device: str | None = None
    step: int | None = None
    op: str | None = None
    annotation: str | None = None
    source: str | None = None
    detail: str | None = None
    is_once: bool = False

    def worth(self) -> int:
        """What removing the cause may save, for the order of findings: half of an upper bound, less if unsure."""
        return (self.cost_ps or 0) * _WEIGHT[self.certainty] // (8 if self.is_bound else 4)

    def ranked_by(self) -> str | None:
        """What decides the place of the finding, if that is not its cost; None: it is."""
        if self.is_once:
            return "after what comes again"
        if self.cost_ps is None or (not self.is_bound and self.certainty == CERTAIN):
            return None
        words = ["half, because it is an upper bound"] if self.is_bound else []
        if self.certainty in _PART:
            of_that = " of that" if words else ""
            words.append(f"{_PART[self.certainty]}{of_that}, because it is {self.certainty}")
        return f"{measured(self.worth(), 'ps')}: {', and '.join(words)}"


def within_run(finding: Finding, window_ps: int) -> Finding:
    """The finding, with a cost of at most the run: steps that are damaged or cut off may be longer."""
    if finding.cost_ps is None or finding.cost_ps <= window_ps:
        return finding
    return replace(finding, cost_ps=window_ps)


def ranked(findings: Iterable[Finding], window_ps: int) -> list[Finding]:
    """The findings that matter, the one worth most first, but start-up last. ``window_ps``: time of the run. Those
    whose cost is unknown, such as leaks, are not left out for others."""
    every = list(findings)
    least = max(1, LEAST_SHARE * max(window_ps - once_ps(every), 0))
    enough = [one for one in every if one.cost_ps is None or one.cost_ps >= least]
    ordered = sorted(enough, key=lambda one: (one.is_once, -one.worth()))
    unknown = [one for one in ordered if one.cost_ps is None]
    known = [one for one in ordered if one.cost_ps is not None][: max(MOST_SHOWN - len(unknown), 1)]
    return [one for one in ordered if one.cost_ps is None or one in known][:MOST_SHOWN]


def once_ps(findings: Iterable[Finding]) -> int:
    """What start-up takes. Its causes are those of time in which no device computes, which add up."""
    return sum(one.cost_ps or 0 for one in findings if one.is_once)
