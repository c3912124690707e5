"""Findings on the memory of devices: little of it is left, or it is allocated again and again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final
from urllib.parse import quote

from fastprof.analyses.findings.advice import advice
from fastprof.analyses.findings.facts import Facts
from fastprof.analyses.findings.finding import CERTAIN, Finding

NEARLY_FULL: Final = 0.95


def found(facts: Facts) -> Iterator[Finding]:
    """What a full allocator costs is not recorded unless the host stalls for it, which gaps show."""
    share = facts.figure("memory_profile", "peak_share")
    allocator = facts.figure("memory_profile", "peak_allocator")
    if isinstance(share, float) and share >= NEARLY_FULL and allocator is not None:
        yield Finding(
            "memory_pressure",
            f"At the peak, {100 * share:.1f} % of the memory of {allocator} are in use",
            None,
            CERTAIN,
            f"memory_profile.active?allocator={quote(str(allocator))}",
            advice("memory_pressure", facts.framework),
            device=str(allocator),
        )
