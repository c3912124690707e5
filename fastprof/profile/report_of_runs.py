"""The reports of one analysis on several runs: its tables with the run in front; everything else is a run's own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NoReturn

from fastprof.analyses import contract
from fastprof.errors import UsageError
from fastprof.profile.report import Drawing, Report
from fastprof.profile.runs_by_name import Runs
from fastprof.tables.stacked import stacked
from fastprof.wording.screen import printable


class ReportOfRuns(Report):
    """``runs``: the report of each run, by name. ``tables``: those of all runs, with the column ``run``. ``notices``:
    those of all runs, which name their run. Figures, drawings and documents are those of ``runs[NAME]``."""

    def __init__(self, runs: Mapping[str, Report]) -> None:
        self._runs = Runs(runs)
        first = next(iter(self.runs.values()))
        tables = {name: stacked({run: one.tables[name] for run, one in self.runs.items()}) for name in first.tables}
        notices = tuple(
            contract.Notice(notice.severity, f"{run}: {notice.text}")
            for run, one in self.runs.items()
            for notice in one.notices
        )
        super().__init__(contract.Report(first.analysis, tables, {}, notices, steps=first.answer.steps))

    @property
    def runs(self) -> Mapping[str, Report]:
        return self._runs

    @property
    def scalars(self) -> Mapping[str, contract.Scalar]:
        self._of_one_run("scalars")

    def to_json(self) -> str:
        """The reports by name of their run as JSON text: ``{"runs": {NAME: …}}``."""
        from fastprof.render import as_json, report_json

        documents = {run: report_json.chunks(report.answer) for run, report in self.runs.items()}
        return b"".join(as_json.by_run(documents)).decode("ascii")

    def to_text(self, *, width: int = 100, limit: int | Literal["all"] | None = None, wide: bool = False) -> str:
        texts = [
            f"Run {printable(run)}\n\n{report.to_text(width=width, limit=limit, wide=wide)}"
            for run, report in self.runs.items()
        ]
        return "\n\n\n".join(texts)

    def _repr_html_(self) -> str:
        from html import escape

        return "".join(
            f"<h3>Run {escape(printable(run))}</h3>{report._repr_html_()}" for run, report in self.runs.items()
        )

    def to_xprof(self) -> str:
        self._of_one_run("to_xprof()")

    def to_svg(self) -> Drawing:
        self._of_one_run("to_svg()")

    def to_speedscope(self) -> str:
        self._of_one_run("to_speedscope()")

    def to_pprof(self) -> bytes:
        self._of_one_run("to_pprof()")

    def _of_one_run(self, what: str) -> NoReturn:
        raise UsageError(
            f"this report is of {len(self.runs)} runs; use report.runs[NAME].{what}; runs: {', '.join(self.runs)}"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return ReportOfRuns, (dict(self.runs),)
