"""Reports as drawings: an SVG document, for analyses that have something to draw."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from fastprof.errors import UsageError

if TYPE_CHECKING:
    from fastprof.analyses.contract import Report

DRAWN = ("op_profile", "roofline", "tf_data", "memory_viewer", "communication")
"""The analyses that can be drawn: a module of render/svg/ each."""


def text(report: Report) -> str:
    """The drawing. Raises UsageError for an analysis that has none."""
    if report.analysis not in DRAWN:
        raise UsageError(f"{report.analysis} has no drawing; these do: {verbs()}")
    drawn: str = importlib.import_module(f"fastprof.render.svg.{report.analysis}").draw(report)
    return drawn


def verbs() -> str:
    """The verbs of the analyses that can be drawn, in words."""
    return ", ".join(name.replace("_", "-") for name in DRAWN)
