"""Why a capture has no steps, in words, and what could be done about it."""

from __future__ import annotations

from collections.abc import Sequence

from fastprof.derive.steps.database import StepDatabase
from fastprof.derive.steps.of_host import HostSteps


def reason(hosts: Sequence[HostSteps], database: StepDatabase, from_modules: bool) -> str | None:
    """None: there are steps."""
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
        return "no steps can be told apart: the capture has loops whose events do not tell their iterations"
    if any(host.groups for host in hosts) and any(host.accelerated for host in hosts):
        return "no step markers on the devices of this capture"
    return "no step markers in this capture"
