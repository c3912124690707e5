"""In words, how steps of several hosts were found to be the same."""

from __future__ import annotations

from fastprof.derive.steps.across_hosts import numbers_agree
from fastprof.derive.steps.database import StepDatabase


def remarks(database: StepDatabase) -> list[str]:
    """Nothing where names tell it, time says the same, and all hosts have the same numbers."""
    if not len(database) or len(database.hosts) == 1:
        return []
    found = []
    if database.shifts is not None:
        found.append(
            "The names of steps do not tell which step of one host is which of another: they are aligned by when they "
            f"ran, with {_shifted(database, database.shifts)}."
        )
    elif shifts := _shifts_by_time(database):
        found.append(
            "Steps of hosts are paired by their names. XProf pairs them by when they ran, with "
            f"{_shifted(database, shifts)}."
        )
    if not numbers_agree(database):
        first = next(place for place, group in enumerate(database.group[0].tolist()) if group >= 0)
        found.append(f"Hosts number their steps differently: numbers here are those of {database.hosts[first]}.")
    return found


def _shifted(database: StepDatabase, shifts: dict[int, int]) -> str:
    """Against the first of the hosts that have steps."""
    first = next(iter(shifts.values()), 0)
    moved = [f"{database.hosts[place]} shifted by {by - first}" for place, by in shifts.items() if by != first]
    return ", ".join(moved) or "none shifted"


def _shifts_by_time(database: StepDatabase) -> dict[int, int]:
    """By how many groups XProf is off, by host, where it pairs another step with that of the first host."""
    first = next(place for place, group in enumerate(database.group[0].tolist()) if group >= 0)
    paired = {groups[first]: groups for groups in database.group.tolist()}
    for groups in database.as_in_xprof().group.tolist():
        own = paired.get(groups[first])
        if own is not None and own != groups:
            return {place: one - other for place, (one, other) in enumerate(zip(own, groups, strict=True))}
    return {}
