"""Reports that pages ask for: each is computed once, however many ask, and kept while there is room."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import TYPE_CHECKING, Any

from fastprof.analyses import parameters, runner
from fastprof.errors import UsageError
from fastprof.viewer.computed_once import ComputedOnce
from fastprof.viewer.viewed_run import ViewedRun
from fastprof.wording.amounts import Steps, step_range

if TYPE_CHECKING:
    from fastprof.profile.report import Report

_KEPT = 24


class KeptReports:
    """The reports that were requested last."""

    def __init__(self) -> None:
        self._reports: ComputedOnce[Hashable, Report] = ComputedOnce(_KEPT)

    def of(
        self, run: ViewedRun, name: str, hosts: tuple[str, ...], params: Mapping[str, Any], steps: Steps | None = None
    ) -> Report:
        """The report of an analysis, of these hosts, without any of all, and of these steps. UsageError: it is not
        called properly."""

        def compute() -> Report:  # of a profile of its own, which does not keep it
            return run.profile.select(hosts=hosts or None, steps=steps).report(name, **params)

        return self._reports.of((run.identity, name, hosts, tuple(sorted(params.items())), steps), compute)


def known_analysis(name: str) -> str:
    """The name as methods have it. UsageError: there is no such analysis."""
    found = name.replace("-", "_")
    runner.module(found)
    return found


def steps_of(text: str | None) -> Steps | None:
    """The steps that a text names, as ``3:5``. UsageError: it names none."""
    if text is None or not text.strip():
        return None
    try:
        return step_range(text)
    except ValueError as error:
        raise UsageError(f"steps: {error}") from None


def params_of(name: str, given: Mapping[str, str]) -> dict[str, Any]:
    """The parameters of an analysis, read from texts. UsageError: an unknown parameter, or a value it does not take."""
    fields = {field.name: field for field in runner.fields_of([name])}
    params = {}
    for key, text in given.items():
        field = fields.get(key.replace("-", "_"))
        if field is None:
            known = f"there are: {', '.join(fields)}" if fields else "there are none"
            raise UsageError(f"{name} has no parameter {key!r}; {known}")
        try:
            params[field.name] = parameters.of_text(field, text)
        except ValueError as error:
            raise UsageError(f"{field.name}: {error}") from None
    return params
