"""The parameter ``steps_from``: what makes a step."""

from __future__ import annotations

from typing import Any, Final

MARKERS: Final = "markers"
MODULES: Final = "modules"
STEPS_FROM: Final[dict[str, Any]] = {
    "help": "what is a step: a marker set by the program or its framework, or an execution of a compiled program",
    "choices": (MARKERS, MODULES),
}
"""Metadata of the field ``steps_from`` of parameters; the default is MARKERS."""
