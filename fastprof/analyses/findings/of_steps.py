"""Findings on steps out of line: those of the slowest host, and those that take much longer than the median, for a
reason that no cause names.

The report steps has which steps these are and what took longer in them. A step that is long for a known cause, such as
a checkpoint, is a finding of that cause.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote

import numpy as np

from fastprof.analyses.findings.facts import Facts
from fastprof.analyses.findings.finding import CERTAIN, LIKELY, Finding
from fastprof.derive.causes.budget import BETWEEN_STEPS, CAUSE_NAMES
from fastprof.derive.causes.slow_steps import explanation, in_words
from fastprof.derive.steps.stragglers import slow_as
from fastprof.schema.value_classes import dataclass
from fastprof.wording import step_categories
from fastprof.wording.quantities import counted, measured, time_text

RARE: Final = 0.3
"""If more of the steps are long, they are of two kinds."""
DISPATCHED: Final = 50
"""A step that computes longer than this many median steps waits for work that other steps started: their markers hold
only the dispatch."""
UNNAMED: Final = (None, "python", "idle", "launch")
"""Causes that do not say why a step is long; None: compute."""
ONCE: Final = "logging"
"""A cause that does not say so if it is in one step only: that step is a finding, and not how often it is done."""

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
        facts.advise("slowest host"),
        is_bound=True,
        host=worst["host"],
        detail=f"It is the slowest in {worst['slowest_count']:,} of {steps}"
        + (f"; most of the difference is {step_categories.in_words(category)}." if category else ".")
        + others_wait,
    )


@dataclass(frozen=True, slots=True)
class _Slow:
    """Slow outlier steps that no named cause explains. ``rows``: by step, evidence of longer work; ``causes``:
    by step, time of each cause beyond its median, over all devices; ``unnamed``: causes that give no reason."""

    rows: dict[int, list[Row]]
    causes: dict[int, Counter[str | None]]
    unnamed: tuple[str | None, ...]


def in_slow_steps(facts: Facts, cause: str) -> Counter[str | None]:
    """Return the time of a cause of gaps, over all devices, that the finding on slow steps counts: by what explains
    most of it in each step."""
    slow, time = _unnamed(facts), Counter[str | None]()
    if cause not in slow.unnamed or not slow.rows:
        return time
    for step in slow.rows:
        beyond = slow.causes[step]
        of_step = _own_excess(facts, slow, step) * facts.device_count
        every = sum(beyond[one] for one in slow.unnamed)
        counted_ps = min(beyond[cause], of_step * beyond[cause] // max(every, 1))
        if counted_ps:
            time[_event(facts, step, cause)] += counted_ps
    return time


def _event(facts: Facts, step: int, cause: str) -> str | None:
    """Return the event of the host that explains most of the longest waits for a cause in a step, or None."""
    pieces, time = facts.gaps.pieces(cause), Counter[str | None]()
    here = pieces.step == step
    for event, time_ps in zip(pieces.event[here].tolist(), pieces.duration_ps[here].tolist(), strict=True):
        time[event] += time_ps
    return max(time, key=lambda event: time[event], default=None)


def _own_excess(facts: Facts, slow: _Slow, step: int) -> int:
    """Return what a step takes beyond the median without the time of causes that are findings of their own."""
    named = sum(time_ps for cause, time_ps in slow.causes[step].items() if cause not in slow.unnamed)
    return max(int(slow.rows[step][0]["excess_ps"]) - facts.per_device(named), 0)


def _unnamed(facts: Facts) -> _Slow:
    """Return the slow outlier steps that make a finding of their own; none if long steps are usual."""
    known: _Slow | None = facts.memo.get("slow")
    if known is not None:
        return known
    slow = _slow_steps(facts)
    causes = _causes_by_step(facts, list(slow))
    unnamed = (*UNNAMED, ONCE) if _is_once(facts) else UNNAMED
    slow = {
        step: rows
        for step, rows in slow.items()
        if not _is_named(causes[step], unnamed) and not waits(causes, rows, step)
    }
    count = int(facts.figure("steps", "step_count") or 0)
    found = _Slow({} if len(slow) > RARE * count else slow, causes, unnamed)
    facts.memo["slow"] = found
    return found


def _slow_ones(facts: Facts) -> Iterator[Finding]:
    found = _unnamed(facts)
    slow = found.rows
    if not slow:
        return
    worst = max(slow, key=lambda step: int(slow[step][0]["excess_ps"]))
    rows = slow[worst]
    first = rows[0]
    named = f" (called {first['name']})" if first["name"].isdigit() and first["name"] != str(worst) else ""
    several = f"{len(slow)} steps take" if len(slow) > 1 else f"Step {worst}{named} takes"
    times = first["duration_ps"] / max(first["median_ps"], 1)
    known, event, time_ps = _on_path(facts, rows, found.causes[worst], worst)
    detail = f"In step {worst}, {event} explains {time_text(time_ps)} more than usual." if event else None
    yield Finding(
        "slow_step",
        f"{several} up to {times:.1f} times the median",
        sum(_own_excess(facts, found, step) for step in slow),
        CERTAIN,
        f"steps.slow_steps?step={worst}",
        facts.advise("slow_step"),
        host=first["host"],
        step=worst,
        op=known["what"] if known and known["kind"] == "op" else None,
        annotation=known["what"] if known and known["kind"] in ("annotation", "python", "event") else event,
        detail=detail if known is None else _longer(known, worst),
    )


def _on_path(
    facts: Facts, rows: list[Row], beyond: Counter[str | None], step: int
) -> tuple[Row | None, str | None, int]:
    """Return what made the step long on its critical path: what its devices computed, or waited for, longer than usual.
    Threads beside the path may take longer, too. As a row of what took longer, or if none has its name as an event of
    the host and its time."""
    place = explanation([row["kind"] for row in rows], [row["difference_ps"] for row in rows], rows[0]["excess_ps"])
    known = None if place is None else rows[place]
    cause = max(beyond, key=lambda one: beyond[one], default=None)
    if cause is None:
        op = next((row for row in rows if row["kind"] == "op" and 2 * row["difference_ps"] >= row["excess_ps"]), None)
        return op or known, None, 0
    event = _event(facts, step, cause)
    if event is None:
        return known, None, 0
    named = next((row for row in rows if row["what"] == event), None)
    if named is not None or (known is not None and known["kind"] == "annotation"):
        return named or known, None, 0
    return None, event, facts.per_device(beyond[cause])


def _longer(row: Row, step: int) -> str:
    what, took = in_words(row["kind"], row["what"]), time_text(row["time_ps"])
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


def _is_named(beyond: Counter[str | None], unnamed: Sequence[str | None]) -> bool:
    """Whether a cause that is named explains half of what the step takes beyond the median."""
    return 2 * sum(beyond[cause] for cause in unnamed) <= beyond.total()


def _is_once(facts: Facts) -> bool:
    """Return whether the cause ONCE takes time in exactly one step."""
    steps, time = facts.time_by_step
    of_cause = time[steps != BETWEEN_STEPS, CAUSE_NAMES.index(ONCE)]
    return int(np.count_nonzero(10 * of_cause > of_cause.max(initial=0))) == 1 and len(steps) > 1
