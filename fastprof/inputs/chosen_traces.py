"""Which traces of a directory are read: of each worker the latest, and one phase of workers that have several.

host_77.17.pt.trace.json  host_77.18.pt.trace.json    two cycles of one worker: the later one is read
7-TP-0-DECODE.trace.json  7-TP-0-EXTEND.trace.json    two phases of one rank, as SGLang names them: one is read
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from fastprof.inputs.directory_content import split_profile
from fastprof.inputs.paths import last_change, shown
from fastprof.wording.patterns import pattern_of
from fastprof.wording.quantities import few

OTHER_PHASE: Final = "other_phase"
_PHASE: Final = pattern_of(
    r"(?:^|[-_.])(prefill(?:ing)?|decod(?:e|ing)|extend|context|ctx|gen(?:eration)?)(?=[-_.]|$)", re.IGNORECASE
)
"""Phases of inference in the name of a trace."""


def leave_out_traces(directory: str, workers: Mapping[str, tuple[str, int]]) -> dict[str, tuple[str, str]]:
    """Return the traces to leave out, each with a code of import_log and the reason. ``workers``: of each trace the
    worker, and the time or step in its name."""
    left = _other_phases(directory, {name: worker for name, (worker, _) in workers.items()})
    latest: dict[str, tuple[int, str]] = {}
    for name, (worker, span) in workers.items():
        latest[worker] = max(latest.get(worker, (span, name)), (span, name))
    for name, (worker, _) in workers.items():
        later = latest[worker][1]
        if name in left or later == name:
            continue
        if split_profile(name) is not None:
            left[name] = "earlier_profile", f"not read, because {shown(later)} has all of its steps"
        else:
            left[name] = "earlier_trace", f"not read, because {shown(later)} is a later trace of the same worker"
    return left


def _other_phases(directory: str, workers: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """Return the traces of all phases but one, if workers have traces of several phases."""
    of_worker: dict[str, set[str]] = {}
    of_phase: dict[str, list[str]] = {}
    for name, worker in workers.items():
        if match := _PHASE.search(worker):
            phase = match[1].casefold()
            of_worker.setdefault(worker[: match.start()] + worker[match.end() :], set()).add(phase)
            of_phase.setdefault(phase, []).append(name)
    several = {phase for phases in of_worker.values() if len(phases) > 1 for phase in phases}
    if not several:
        return {}
    read = max(sorted(several), key=lambda phase: (len(of_phase[phase]), last_change(directory, of_phase[phase])))
    others = sorted(several - {read})
    text = (
        f"not read: ranks have a trace for each phase, and those of {read} are read, without {few(others)}; to read "
        "another phase, give its traces only"
    )
    return {name: (OTHER_PHASE, text) for phase in others for name in of_phase[phase]}
