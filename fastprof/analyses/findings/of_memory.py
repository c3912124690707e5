"""Findings on the memory of devices: little of it is left, or what an op holds grows from step to step."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final
from urllib.parse import quote

from fastprof.analyses.findings.facts import Facts
from fastprof.analyses.findings.finding import CERTAIN, LIKELY, Finding
from fastprof.wording.patterns import pattern_of
from fastprof.wording.quantities import counted

NEARLY_FULL: Final = 0.95


def found(facts: Facts) -> Iterator[Finding]:
    """What a full allocator costs is not recorded unless the host stalls for it, which gaps show."""
    yield from _leaks(facts)
    share = facts.figure("memory_profile", "peak_share")
    allocator = facts.figure("memory_profile", "peak_allocator")
    if isinstance(share, float) and share >= NEARLY_FULL and allocator is not None:
        yield Finding(
            "memory_pressure",
            f"At the peak, {100 * share:.1f} % of the memory of {allocator} are in use",
            None,
            CERTAIN,
            f"memory_profile.active?allocator={quote(str(allocator))}",
            facts.advise("memory_pressure"),
            device=str(allocator),
        )


def _leaks(facts: Facts) -> Iterator[Finding]:
    """The op that holds more and more memory, if memory_profile calls it a leak, and when memory is full."""
    notices = [notice.text for notice in facts.reports["memory_profile"].notices if LEAK in notice.text]
    for text in notices[:1]:
        op, _, rest = text.partition(LEAK)
        rows = facts.table("memory_profile", "growth").to_pylist()
        row = next((row for row in rows if row["op_name"] == op and rest.startswith(row["allocator"])), None)
        left = [int(steps.replace(",", "")) for steps in _MORE_STEPS.findall(text)]
        until = f" and is full in {counted(min(left), 'step', 'steps')}" if left else ""
        yield Finding(
            "memory_pressure",
            f"Memory in use grows from step to step{until}: {op}",
            None,
            LIKELY,
            "memory_profile.growth?grows_steadily=true",
            _OF_LEAKS,
            device=row["allocator"] if row else None,
            host=row["host"] if row else None,
            op=op,
            detail=text,
        )


LEAK: Final = " holds more and more memory of "
"""The words between op and allocator in a notice of memory_profile."""
_MORE_STEPS: Final = pattern_of(r"([\d,]+) more steps")
_OF_LEAKS: Final = (
    "Do not keep arrays of each step: turn metrics into numbers before they are stored, detach them, and empty lists "
    "and histories that grow."
)
