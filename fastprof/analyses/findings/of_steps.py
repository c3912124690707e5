"""Findings on steps out of line: those that take much longer than the median, for a reason that no cause names.

A step that is long for a known cause, such as a checkpoint, is a finding of that cause.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from fastprof.analyses.findings.advice import advice
from fastprof.analyses.findings.facts import Facts
from fastprof.analyses.findings.finding import CERTAIN, Finding
from fastprof.schema.array_types import Int64s

FEWEST: Final = 4
"""Steps, below which none is out of line."""
RARE: Final = 0.3
"""If more of the steps are long, they are of two kinds."""
BEYOND_MEDIAN: Final = 0.1
MAD_COUNT: Final = 5
UNNAMED: Final = (None, "python", "idle", "launch")
"""Causes that do not say why a step is long; None: compute."""


@dataclass(frozen=True, slots=True)
class _Steps:
    """Time of the mean device by step and cause."""

    number: list[int]
    cause: list[str | None]
    time_ps: Int64s  # [step, cause]


def found(facts: Facts) -> Iterator[Finding]:
    steps = _steps(facts)
    if len(steps.number) < FEWEST:
        return
    duration = steps.time_ps.sum(axis=1)
    median = int(np.median(duration))
    mad = int(np.median(np.abs(duration - median)))
    long = np.flatnonzero(duration > median + max(MAD_COUNT * mad, int(BEYOND_MEDIAN * median)))
    excess = np.maximum(steps.time_ps - np.median(steps.time_ps, axis=0).astype(np.int64), 0)
    unnamed = [place for place, cause in enumerate(steps.cause) if cause in UNNAMED]
    long = np.array([step for step in long.tolist() if excess[step, unnamed].sum() * 2 > excess[step].sum()], np.int64)
    if not len(long) or len(long) > RARE * len(duration):
        return
    cost = int((duration[long] - median).sum())
    worst = int(long[np.argmax(duration[long])])
    by_cause = Counter(dict(zip(steps.cause, excess[long].sum(axis=0).tolist(), strict=True)))
    most = by_cause.most_common(1)[0][0]
    several = f"{len(long)} steps take" if len(long) > 1 else f"Step {steps.number[worst]} takes"
    yield Finding(
        "slow_step",
        f"{several} up to {duration[worst] / max(median, 1):.1f} times the median, most of it {most or 'compute'}",
        cost,
        CERTAIN,
        f"gaps.by_step?step={steps.number[worst]}",
        advice("slow_step", facts.framework),
        step=steps.number[worst],
    )


def _steps(facts: Facts) -> _Steps:
    table = facts.table("gaps", "by_step")
    columns = (table[name].to_pylist() for name in ("step", "cause", "time_ps"))
    rows = [row for row in zip(*columns, strict=True) if row[0] is not None]
    steps = sorted({step for step, _, _ in rows})
    causes: list[Any] = list(dict.fromkeys(cause for _, cause, _ in rows))
    at = {step: place for place, step in enumerate(steps)}
    of = {cause: place for place, cause in enumerate(causes)}
    time: Int64s = np.zeros((len(steps), len(causes)), np.int64)
    for step, cause, time_ps in rows:
        time[at[step], of[cause]] += time_ps
    return _Steps(steps, causes, time // max(1, facts.device_count))
