"""A section of the results page, and what the sections share: how runs are checked and numbers are stated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from captures import Capture
from measure import MIB, Job, JobFailedError, Outcome, interleave

MB = 1_000_000


@dataclass(frozen=True, slots=True)
class Plan:
    """How much to measure: rounds, in which of them slow rivals take part, whether gigabytes are read."""

    rounds: int = 11
    slow_every: int = 4
    huge: bool = True

    def part(self, of: int, least: int) -> int:
        """The rounds divided by ``of``, but at least ``least``, if there are that many rounds."""
        return min(self.rounds, max(least, self.rounds // of))


@dataclass(slots=True)
class Section:
    """A table of the page, prose that says what its rows mean, and remarks below it."""

    title: str
    prose: str
    header: tuple[str, ...]
    rows: list[tuple[str, ...]] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)

    def add(self, *cells: str) -> None:
        self.rows.append(cells)


def at_most(value: float, asked: float) -> str:
    """What was asked for, and whether the value meets it."""
    return f"at most {asked:g}: {'met' if value <= asked else '**not met**'}"


def at_least(value: float, asked: float) -> str:
    """What was asked for, and whether the value meets it."""
    return f"at least {asked:g}: {'met' if value >= asked else '**not met**'}"


def seconds(outcome: Outcome) -> str:
    return f"{outcome.median:.3f} s" if outcome.median < 10 else f"{outcome.median:.1f} s"


def mebibytes(outcome: Outcome) -> str:
    return f"{outcome.peak / MIB:,.0f} MiB"


def speed(taken: Capture, outcome: Outcome) -> float:
    """Megabytes of capture a second."""
    return taken.bytes / outcome.median / MB


def run(jobs: Sequence[Job], rounds: int, taken: Capture) -> dict[str, Outcome]:
    """Runs jobs on a capture in turn, the file in the page cache, and checks what they counted."""
    taken.warm()
    outcomes = interleave(jobs, rounds)
    for outcome in outcomes.values():
        check(outcome, taken)
    return outcomes


def check(outcome: Outcome, taken: Capture) -> None:
    """A fast answer must also be right."""
    for what, expected in (("events", taken.events), ("stats", taken.stats)):
        counted = outcome.facts.get(what, expected)
        if counted != expected:
            raise JobFailedError(f"{outcome.name} read {counted} {what} of {taken.name}, not {expected}")
