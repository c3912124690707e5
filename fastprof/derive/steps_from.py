"""The parameter ``steps_from``: what makes a step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from fastprof.errors import UsageError

if TYPE_CHECKING:
    from fastprof.derive.host import Host
    from fastprof.derive.steps.of_host import HostSteps

MARKERS: Final = "markers"
MODULES: Final = "modules"
STEPS_FROM: Final[dict[str, Any]] = {
    "help": "what is a step: a marker set by the program or its framework, or an execution of a compiled program",
    "choices": (MARKERS, MODULES),
}
"""Metadata of the field ``steps_from`` of parameters; the default is MARKERS."""


def steps_of(host: Host, steps_from: str) -> HostSteps:
    """The steps of a host, made as ``steps_from`` says."""
    if steps_from not in (MARKERS, MODULES):
        raise UsageError(f"steps come from {MARKERS} or {MODULES}, not from {steps_from!r}")
    return host.steps if steps_from == MARKERS else host.steps_from(modules=True)
