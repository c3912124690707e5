"""Which analyses have nothing to show of a session: from what its captures declare, and from reports."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from fastprof.analyses import ANALYSES, runner
from fastprof.analyses.contract import Evidence, Report
from fastprof.decode.xspace_capture import Capture
from fastprof.hlo.programs import PROTO_STATS

_OTHER_STEPS: Final = "steps_from"
"""A reason that names this parameter offers rows."""


def declared_empty(captures: Sequence[Capture]) -> dict[str, str]:
    """Why, by analysis. No event is read. The others may be empty, too."""
    found = {}
    for name in ANALYSES:
        evidence: Evidence | None = getattr(runner.module(name), "CONTENT", None)
        if evidence is not None and lack(captures, evidence):
            found[name] = evidence.absent
    return found


def lack(captures: Iterable[Capture], evidence: Evidence) -> bool:
    """Whether none of the captures declares any of it. Damaged captures may have lost what declares it."""
    return not any(capture.salvage or _declares(capture, evidence) for capture in captures)


def _declares(capture: Capture, evidence: Evidence) -> bool:
    if evidence.programs and (capture.only_programs or capture.program_files):
        return True
    stats = (*evidence.stats, *(PROTO_STATS if evidence.programs else ()))
    if _match(evidence.planes, capture.part_names) or any(capture.declares(stat).any() for stat in stats):
        return True
    return bool(evidence.events) and _match(
        evidence.events, capture.texts(capture.metas, b"XEventMetadata.name", "name_")
    )


def _match(patterns: tuple[str, ...], names: Iterable[str]) -> bool:
    if not patterns:
        return False
    search = re.compile("|".join(patterns), re.IGNORECASE).search
    return any(search(name) for name in names)


def why_empty(report: Report) -> str | None:
    """Why a report has no rows, as its first notice says; None: it has some, or would have with other parameters."""
    if any(table.num_rows for table in report.tables.values()) or not report.notices:
        return None
    reason = report.notices[0].text
    return None if _OTHER_STEPS in reason.replace("-", "_") else reason
