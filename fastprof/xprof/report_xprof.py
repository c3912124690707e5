"""Reports as XProf answers them: the JSON that its page of the same tool reads."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterable, Mapping
from math import isfinite
from typing import TYPE_CHECKING, Any

from fastprof.errors import UsageError

if TYPE_CHECKING:
    from fastprof.analyses.contract import Keeper, Report

_PAGES = "fastprof.xprof.pages"
NO_PAGE = {
    "communication": "XProf shows collectives only as ops, and says nothing of what hides them",
    "steps": "XProf shows steps only within its overview page and input pipeline analyzer",
}
"""Analyses that XProf has no page of, and why."""


def keepers(names: Iterable[str]) -> dict[str, Keeper]:
    """What the pages of these analyses need of each host beside what the reports keep."""
    found: dict[str, Keeper] = {}
    for name in names:
        if name not in NO_PAGE and importlib.util.find_spec(f"{_PAGES}.{name}"):
            found |= getattr(_page(name), "KEEPS", {})
    return found


def text(report: Report) -> str:
    """The page's JSON, keys sorted. Raises UsageError for an analysis that XProf has no page of."""
    return _dumped(_answer(report))


def several(reports: Mapping[str, Report]) -> str:
    """One object of the answers of all reports that XProf has pages of, by name."""
    return _dumped({name: _answer(report) for name, report in reports.items() if name not in NO_PAGE})


def answer(report: Report) -> Any:
    """The page's data, as json.dumps takes them, numbers without a JSON form as None."""
    return _finite(_answer(report))


def _answer(report: Report) -> Any:
    if report.analysis in NO_PAGE:
        raise UsageError(f"{report.analysis} has no form xprof: {NO_PAGE[report.analysis]}")
    return _page(report.analysis).answer(report)


def _page(analysis: str) -> Any:
    return importlib.import_module(f"{_PAGES}.{analysis}")


def _dumped(found: Any) -> str:
    """Few pages have numbers without a JSON form, and to look for them in a large one takes longer than writing it."""
    try:
        return json.dumps(found, sort_keys=True, allow_nan=False)
    except ValueError:
        return json.dumps(_finite(found), sort_keys=True, allow_nan=False)


def _finite(value: Any) -> Any:
    """The value with None for NaN and the infinities, wherever they are in it."""
    if isinstance(value, float):
        return value if isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return value
