"""Findings on steps out of line: those of the slowest host, and those that take much longer than the median, for a
reason that no cause names.

The report steps has which steps these are and what took longer in them. A step that is long for a known cause, such as
a checkpoint, is a finding of that cause.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final
from urllib.parse import quote

import numpy as np

from fastprof.analyses.findings.advice import advice
from fastprof.analyses.findings.facts import Facts
from fastprof.analyses.findings.finding import CERTAIN, LIKELY, Finding
from fastprof.derive.causes.budget import BETWEEN_STEPS, CAUSE_NAMES
from fastprof.derive.causes.slow_steps import explanation
from fastprof.derive.steps.stragglers import slow_as
from fastprof.wording.quantities import counted, measured, time_text

RARE: Final = 0.3
"""If more of the steps are long, they are of two kinds."""
DISPATCHED: Final = 50
"""A step that computes longer than this many median steps waits for work that other steps started: their markers hold
only the dispatch."""
UNNAMED: Final = (None, "python", "idle", "launch")
"""Causes that do not say why a step is long; None: compute."""

Row = Mapping[str, Any]


def found(facts: Facts) -> Iterator[Finding]:
    yield from _slow_host(facts)
    yield from _slow_ones(facts)


def _slow_host(facts: Facts) -> Iterator[Finding]:
    """The host that is slowest in most steps. Others wait for it, as far as the program keeps them together."""
    rows = [row for row in facts.table("steps", "hosts").to_pylist() if row["excess_share"]]
    worst = max(rows, key=lambda row: int(row["slowest_count"]), default=None)
    if worst is None or 2 * worst["slowest_count"] <= worst["compared_count"]:
        return
    share = measured(worst["excess_share"], "share")
    steps = counted(worst["compared_count"], "step", "steps")
    category = worst["category"]
    alike = slow_as(worst["excess_share"], [row["excess_share"] for row in rows if row is not worst])
    title = f"{worst['host']} is the slowest host: its steps take {share} longer than the median of the hosts"
    if alike:
        others = counted(alike, "other host is slow", "other hosts are slow")
        title = f"{worst['host']} is the slowest host, with steps {share} longer than the median, and {others}, too"
    waited = facts.per_device(facts.waited_between_ps)
    others_wait = f" Between steps, hosts wait {time_text(waited)} on average for slower ones." if waited else ""
    yield Finding(
        "straggler",
        title,
        round(worst["excess_ps"] * worst["compared_count"]),
        LIKELY,
        f"steps.hosts?host={quote(worst['host'])}",
        advice("slowest host", facts.framework),
        is_bound=True,
        host=worst["host"],
        detail=f"It is the slowest in {worst['slowest_count']:,} of {steps}"
        + (f"; most of the difference is {category.replace('_', ' ')}." if category else ".")
        + others_wait,
    )


def _slow_ones(facts: Facts) -> Iterator[Finding]:
    slow = _slow_steps(facts)
    causes = _causes_by_step(facts, list(slow))
    slow = {step: rows for step, rows in slow.items() if not _is_named(causes, step) and not waits(causes, rows, step)}
    count = int(facts.figure("steps", "step_count") or 0)
    if not slow or len(slow) > RARE * count:
        return
    worst = max(slow, key=lambda step: int(slow[step][0]["excess_ps"]))
    rows = slow[worst]
    first = rows[0]
    named = f" (called {first['name']})" if first["name"].isdigit() and first["name"] != str(worst) else ""
    several = f"{len(slow)} steps take" if len(slow) > 1 else f"Step {worst}{named} takes"
    times = first["duration_ps"] / max(first["median_ps"], 1)
    place = explanation([row["kind"] for row in rows], [row["difference_ps"] for row in rows], first["excess_ps"])
    known = None if place is None else rows[place]
    yield Finding(
        "slow_step",
        f"{several} up to {times:.1f} times the median",
        sum(int(rows[0]["excess_ps"]) for rows in slow.values()),
        CERTAIN,
        f"steps.slow_steps?step={worst}",
        advice("slow_step", facts.framework),
        host=first["host"],
        step=worst,
        op=known["what"] if known and known["kind"] == "op" else None,
        annotation=known["what"] if known and known["kind"] in ("annotation", "python", "event") else None,
        detail=None if known is None else _longer(known, worst),
    )


def _longer(row: Row, step: int) -> str:
    what, took = f"{row['what']} ({row['kind']})", time_text(row["time_ps"])
    usual = f"instead of {time_text(row['usual_ps'])}" if row["usual_ps"] else "which usual steps do not spend on it"
    return f"In step {step}, {what} takes {took}{' ' if row['usual_ps'] else ', '}{usual}."


def _slow_steps(facts: Facts) -> dict[int, list[Row]]:
    """What took longer in each step out of line, on the host where it takes longest beyond the median."""
    of_step: dict[int, dict[str, list[Row]]] = {}
    for row in facts.table("steps", "slow_steps").to_pylist():
        if row["step"] is not None:
            of_step.setdefault(row["step"], {}).setdefault(row["host"], []).append(row)
    return {step: max(hosts.values(), key=lambda rows: int(rows[0]["excess_ps"])) for step, hosts in of_step.items()}


def _causes_by_step(facts: Facts, slow: Iterable[int]) -> dict[int, Counter[str | None]]:
    """By step out of line, the time of each cause beyond what it takes in the median of all steps."""
    steps, time = facts.time_by_step
    steps, time = steps[steps != BETWEEN_STEPS], time[steps != BETWEEN_STEPS]
    beyond = np.maximum(time - np.median(time, axis=0).astype(np.int64), 0) if len(steps) else time
    found: dict[int, Counter[str | None]] = {step: Counter() for step in slow}
    for step, row in zip(steps.tolist(), beyond.tolist(), strict=True):
        if step in found:
            found[step].update(dict(zip(CAUSE_NAMES, row, strict=True)))
    return found


def waits(causes: Mapping[int, Counter[str | None]], rows: list[Row], step: int) -> bool:
    """Whether the step only waits until devices have done what earlier steps started."""
    computes = 2 * causes[step][None] > causes[step].total()
    return computes and int(rows[0]["duration_ps"]) > DISPATCHED * int(rows[0]["median_ps"])


def _is_named(causes: Mapping[int, Counter[str | None]], step: int) -> bool:
    """Whether a cause that is named explains half of what the step takes beyond the median."""
    beyond = causes[step]
    return 2 * sum(beyond[cause] for cause in UNNAMED) <= beyond.total()
