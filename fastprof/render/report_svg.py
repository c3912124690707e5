"""Reports as drawings: SVG documents of the analyses that have one."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from fastprof.errors import UsageError

if TYPE_CHECKING:
    from fastprof.analyses.contract import Report

DRAWN = ("op_profile", "roofline", "tf_data", "memory_viewer", "communication", "python_time")
"""The analyses with a drawing; each has a module in render/svg/."""


def text(report: Report) -> str:
    """The drawing. Raises UsageError for an analysis without one."""
    if report.analysis not in DRAWN:
        raise UsageError(f"{report.analysis} has no drawing; these analyses have: {verbs()}")
    drawn: str = importlib.import_module(f"fastprof.render.svg.{report.analysis}").draw(report)
    return drawn


def verbs() -> str:
    """The verbs of the analyses with a drawing, separated by commas."""
    return ", ".join(name.replace("_", "-") for name in DRAWN)
