"""Analyses that fail beside others: the others answer, and the report of a failed one says why it has no answer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from fastprof.analyses.contract import Analysis, Known, Notice, Report, scalars
from fastprof.decode.import_log import ImportLog
from fastprof.errors import CaptureError


class Failures:
    """Which of the ``analyses`` have failed: ``by_name`` has the error of each.

    ``names``: those that were requested. ``strict``: the first error is raised, as if each analysis ran alone.
    """

    def __init__(self, analyses: Mapping[str, Analysis], names: Sequence[str], log: ImportLog, *, strict: bool) -> None:
        self.by_name: dict[str, CaptureError] = {}
        self._first: dict[str, str] = {}  # by name, the analysis whose error it is
        self._analyses = analyses
        self._names = names
        self._log = log
        self._strict = strict

    @contextmanager
    def caught(self, name: str) -> Iterator[None]:
        """A CaptureError within is that of the analysis, and of all that need its report. It is raised if no requested
        analysis is left."""
        try:
            yield
        except CaptureError as error:
            self.by_name[name], self._first[name] = error, name
            for later, analysis in self._analyses.items():  # each comes after those that it needs
                without: tuple[str, ...] = getattr(analysis, "WITHOUT", ())
                needed = [one for one in analysis.AFTER if one in self.by_name and one not in without]
                if needed and later not in self.by_name:
                    self.by_name[later], self._first[later] = error, self._first[needed[0]]
            if self._strict or all(one in self.by_name for one in self._names):
                raise
            text = f"the analysis {name} has no answer: {error.message}"
            self._log.add("error", "failed_analysis", text, error.path, offset=error.offset)

    def report(self, name: str) -> Report:
        """The report of an analysis that failed: no rows, every figure unknown, and the reason."""
        analysis, error, first = self._analyses[name], self.by_name[name], self._first[name]
        because = "" if first == name else f", because it needs {first}"
        unknown: dict[str, Known] = dict.fromkeys(analysis.SCALARS, (None, f"the analysis failed: {error.message}"))
        return Report(
            name,
            {table: schema.empty() for table, schema in analysis.TABLES.items()},
            scalars(analysis.SCALARS, unknown),
            (Notice("error", f"The analysis {name} has no answer{because}: {error}"),),
            failure=error,
        )
