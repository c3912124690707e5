"""Sentences about the steps of a session: why there are none, and how those of several hosts were paired."""

from __future__ import annotations

from collections.abc import Sequence

from fastprof.derive.steps.across_hosts import numbers_agree
from fastprof.derive.steps.database import StepDatabase
from fastprof.derive.steps.of_host import HostSteps


def why_no_steps(hosts: Sequence[HostSteps], database: StepDatabase, from_modules: bool) -> str | None:
    """Why a session has no steps, and what could be done about it; None: it has steps."""
    if len(database):
        return None
    if not hosts:
        return "no capture"
    why = _why(hosts, from_modules)
    executions = sum(host.module_executions for host in hosts)
    if from_modules or not executions:
        return why
    count = "1 module execution" if executions == 1 else f"{executions:,} module executions"
    return f"{why}; {count} could serve as {'a step' if executions == 1 else 'steps'}: --steps-from modules"


def _why(hosts: Sequence[HostSteps], from_modules: bool) -> str:
    missed = [host.missed for host in hosts if host.missed is not None]
    if missed and not any(len(host.database) for host in hosts):
        return missed[0]
    without = [host.host for host in hosts if not len(host.database)]
    if not without:
        return "the hosts have steps, but none in common"
    if len(without) < len(hosts):
        return f"not every host has steps: none on {without[0]}{' and others' if len(without) > 1 else ''}"
    if from_modules:
        return "no executions of compiled programs in this capture"
    unfit = sum(host.unfit for host in hosts)
    if unfit:
        marked = "1 step marker" if unfit == 1 else f"{unfit:,} step markers"
        return f"{marked} in this capture, but nothing that was computed belongs to {'it' if unfit == 1 else 'them'}"
    if any(host.vetoed for host in hosts):
        return "no steps can be distinguished: the capture has loops whose events do not record their iterations"
    if any(host.groups for host in hosts) and any(host.accelerated for host in hosts):
        return "no step markers on the devices of this capture"
    return "no step markers in this capture"


def on_pairs(database: StepDatabase) -> list[str]:
    """How steps of several hosts were paired; empty where names, times and numbers agree."""
    if not len(database) or len(database.hosts) == 1:
        return []
    found = []
    if database.shifts is not None:
        found.append(
            "Steps of hosts cannot be paired by their names: they are aligned by when they ran, with "
            f"{_shifted(database, database.shifts)}."
        )
    elif database.shifts_by_time is not None:
        found.append(
            "Steps of hosts are paired by their names. XProf pairs them by when they ran, with "
            f"{_shifted(database, database.shifts_by_time)}."
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
