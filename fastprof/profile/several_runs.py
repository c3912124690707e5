"""Several runs as one profile: a front over the profile of each run; nothing of one run is computed with another.
Traces of PyTorch's profiler that were read together may turn out to be several jobs, which are runs, too."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Literal, NoReturn

import pyarrow as pa

from fastprof.analyses import contract
from fastprof.decode.jobs import name_jobs
from fastprof.decode.selection import ChosenSteps, Interval, Patterns, Selection
from fastprof.errors import NotFoundError, UsageError
from fastprof.profile.profile import Profile, check_batch_rows, open_runs
from fastprof.profile.report import Drawing, Report, Runs, choose_runs
from fastprof.tables.table_set import BATCH_ROWS, OpenSession, TableSet
from fastprof.tables.tables_of_runs import FirstIds, TablesOfRuns, stack_tables
from fastprof.wording.amounts import Steps
from fastprof.wording.quantities import count_noun
from fastprof.wording.screen import escape_text

if TYPE_CHECKING:
    from fastprof.export.by_workers import RunOfWorkers


class ReportOfRuns(Report):
    """Report of several runs. ``runs``: the report of each run, by name. ``tables``: those of all runs, with the column
    ``run``. ``notices``: those of all runs, which name their run. Figures, drawings and documents belong to
    ``runs[NAME]``."""

    def __init__(self, runs: Mapping[str, Report]) -> None:
        self._runs = Runs(runs)
        first = next(iter(self.runs.values()))
        tables = {
            name: stack_tables({run: report.tables[name] for run, report in self.runs.items()}) for name in first.tables
        }
        notices = tuple(
            contract.Notice(notice.severity, f"{run}: {notice.text}")
            for run, report in self.runs.items()
            for notice in report.notices
        )
        super().__init__(contract.AnalysisReport(first.analysis, tables, {}, notices, steps=first.answer.steps))

    @property
    def runs(self) -> Mapping[str, Report]:
        return self._runs

    @property
    def scalars(self) -> Mapping[str, contract.Scalar]:
        self._of_one_run("scalars")

    def to_json(self, *, brief: bool = False) -> str:
        """Return the reports by name of their run as JSON text: ``{"runs": {NAME: …}}``. ``brief``: in at most 4,096
        bytes."""
        from fastprof.render import as_json, report_json
        from fastprof.render.brief import Question, summarise_report, summarise_several, write_document

        if brief:
            question = Question(self.analysis.replace("_", "-"))
            of_runs = {run: partial(summarise_report, report.answer, question) for run, report in self.runs.items()}
            return b"".join(write_document(summarise_several(of_runs, "runs"))).decode("ascii")

        documents = {run: report_json.chunks(report.answer) for run, report in self.runs.items()}
        return b"".join(as_json.write_by_run(documents)).decode("ascii")

    def to_text(
        self,
        *,
        width: int = 100,
        limit: int | Literal["all"] | None = None,
        wide: bool = False,
        verbose: bool = False,
    ) -> str:
        texts = [
            f"Run {escape_text(run)}\n\n{report.to_text(width=width, limit=limit, wide=wide, verbose=verbose)}"
            for run, report in self.runs.items()
        ]
        return "\n\n\n".join(texts)

    def _repr_html_(self) -> str:
        return _join_html(self.runs)

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


_MOST_LISTED = 8


def _join_html(runs: Mapping[str, Profile] | Mapping[str, Report]) -> str:
    from html import escape

    return "".join(f"<h3>Run {escape(escape_text(name))}</h3>{run._repr_html_()}" for name, run in runs.items())


class ProfileOfRuns(Profile):
    """Several runs. Tables and tables of reports start with the column ``run``; ids are unique over all runs;
    figures, drawings and traces belong to ``runs[NAME]``."""

    def __init__(
        self,
        runs: Mapping[str, Profile],
        ids: FirstIds,
        source: Any,
        how: dict[str, Any],
        every: Mapping[str, Profile] | None = None,
    ) -> None:
        """``every``: all runs, None for these."""
        self._runs = dict(runs)
        self._every = self._runs if every is None else every
        self._ids = ids
        self._source = source
        self._how = how
        self._part = None
        self._stacked: TablesOfRuns | None = None

    @classmethod
    def of(cls, opened: Mapping[str, TableSet], source: Any, how: dict[str, Any]) -> ProfileOfRuns:
        """Return the profile of runs as they were opened."""
        runs = {name: Profile(tables, source, how, None, name) for name, tables in opened.items()}
        return cls.of_profiles(runs, source, how)

    @classmethod
    def of_profiles(cls, runs: Mapping[str, Profile], source: Any, how: dict[str, Any]) -> ProfileOfRuns:
        """Return the profile of the profiles of all runs."""
        return cls(runs, FirstIds({name: partial(_get_session, run) for name, run in runs.items()}), source, how)

    @property
    def has_runs(self) -> bool:
        return True

    @property
    def runs(self) -> Mapping[str, Profile]:
        return Runs(self._runs)

    @property
    def _of_runs(self) -> TablesOfRuns:
        if self._stacked is None:
            self._stacked = TablesOfRuns({name: run.table_set for name, run in self._runs.items()}, self._ids)
        return self._stacked

    # ---- tables

    @property
    def tables(self) -> Mapping[str, pa.Table]:
        return self._of_runs

    @property
    def exported(self) -> TablesOfRuns:
        return self._of_runs

    @property
    def by_workers(self) -> list[RunOfWorkers]:
        """Runs that are selected, and those that are only counted: ids are unique over all."""
        return [
            replace(by_worker, name=name, selection=by_worker.selection if name in self._runs else Selection(hosts=()))
            for name, run in self._every.items()
            for by_worker in self._runs.get(name, run).by_workers
        ]

    def read(self, *names: str) -> dict[str, pa.Table]:
        return self._of_runs.read(*names)

    def event_table(self, columns: Sequence[str] | None = None, stats: Sequence[str] = ()) -> pa.Table:
        return self._of_runs.event_table(columns, stats)

    def scan(
        self, columns: Sequence[str] | None = None, stats: Sequence[str] = (), batch_rows: int = BATCH_ROWS
    ) -> Iterator[pa.RecordBatch]:
        check_batch_rows(batch_rows)
        return self._of_runs.batches(columns, stats, batch_rows)

    def stat_names(self) -> list[str]:
        return self._of_runs.stat_names()

    def event_summary(self, percentiles: Sequence[int] = ()) -> pa.Table:
        return self._of_runs.event_summary(percentiles)

    def remarks(self) -> pa.Table:
        return stack_tables({name: run.remarks() for name, run in self._runs.items()})

    # ---- analyses

    def reports_together(self, *names: str, **params: Any) -> dict[str, ReportOfRuns]:  # type: ignore[override]
        of_runs = {run: profile.reports_together(*names, **params) for run, profile in self._runs.items()}
        first = next(iter(of_runs.values()))
        return {name: ReportOfRuns({run: reports[name] for run, reports in of_runs.items()}) for name in first}

    # ---- of one run only

    @property
    def _tables(self) -> NoReturn:
        """Not available: it reads captures as one session, for traces, texts of programs, documents of XProf."""
        raise self._needs_one_run()

    @property
    def _session(self) -> NoReturn:
        raise self._needs_one_run()

    def _needs_one_run(self) -> UsageError:
        names = ", ".join(list(self._runs)[:_MOST_LISTED])
        return UsageError(
            f"this needs one run, and {count_noun(len(self._runs), 'run is', 'runs are')} loaded: use "
            "profile.runs[NAME], "
            f"or load(…, as_hosts=True) for hosts of one run; runs: {names}"
        )

    # ---- narrower profiles

    def select(
        self,
        *,
        hosts: str | Iterable[str] | None = None,
        planes: Patterns = None,
        lines: Patterns = None,
        names: Patterns = None,
        time_ps: Interval | None = None,
        steps: ChosenSteps | None = None,
        runs: str | Iterable[str] | None = None,
    ) -> Profile:
        chosen = {name: self._runs[name] for name in choose_runs(self._runs, runs)}
        if not chosen:
            raise UsageError("no run is selected; give at least one name")
        wanted = Selection().narrowed(hosts).hosts
        there = {name: run.host_names for name, run in chosen.items()}
        known = {host for of_run in there.values() for host in of_run}
        for host in wanted or ():
            if host not in known:
                raise NotFoundError(f"no host {host!r} in these runs; there are: {', '.join(sorted(known))}")
        of_run = {name: None if wanted is None else [host for host in wanted if host in there[name]] for name in chosen}
        if any(of_run.values()):
            chosen = {name: run for name, run in chosen.items() if of_run[name]}
        narrower = {
            name: run.select(hosts=of_run[name], planes=planes, lines=lines, names=names, time_ps=time_ps, steps=steps)
            for name, run in chosen.items()
        }
        return ProfileOfRuns(narrower, self._ids, self._source, self._how, self._every)

    # ---- properties

    @property
    def sources(self) -> list[str]:
        return [path for run in self._runs.values() for path in run.sources]

    @property
    def run(self) -> None:
        """None: there are several, see ``runs``."""
        return None

    @property
    def threads(self) -> int:
        return next(iter(self._runs.values())).threads

    def _repr_html_(self) -> str:
        return _join_html(self._runs)

    def __repr__(self) -> str:
        lines = [f"<fastprof.Profile: {count_noun(len(self._runs), 'run', 'runs')}"]
        for name, run in list(self._runs.items())[:_MOST_LISTED]:
            hosts = len(run._selection.hosts or run.sources)
            lines.append(f"  {name}  {count_noun(hosts, 'host', 'hosts')}")
        if len(self._runs) > _MOST_LISTED:
            lines.append(f"  … {len(self._runs) - _MOST_LISTED} more")
        for name, table in self._stacked.decoded().items() if self._stacked is not None else ():
            lines.append(f"  {name:<8} {table.num_rows:,} rows")
        return "\n".join(map(escape_text, lines)) + ">"

    def __reduce__(self) -> tuple[Any, ...]:
        chosen = {name: (run._selection, run._steps) for name, run in self._runs.items()}
        return _reload_runs, (self._source_again(), self._how, chosen)


def _get_session(run: Profile) -> OpenSession:
    return run._session


def _reload_runs(source: Any, how: dict[str, Any], chosen: dict[str, tuple[Selection, Steps | None]]) -> Profile:
    opened, _ = open_runs(source, **how, again=True)
    every = ProfileOfRuns.of(opened, source, how)
    narrower = {
        name: Profile(TableSet(opened[name].session, selection), source, how, steps, name)
        for name, (selection, steps) in chosen.items()
    }
    return ProfileOfRuns(narrower, every._ids, source, how)


class ProfileOfTraces(Profile):
    """Session of traces that may be of several jobs: the job of each trace is found at the first report."""

    @cached_property
    def by_job(self) -> Profile:
        tables = self._of_all_steps
        hosts, wanted = tables.session.hosts, tables.selected_hosts()
        of_jobs = {
            name: [hosts[number] for number in numbers if hosts[number] in wanted]
            for name, numbers in name_jobs(tables.session.jobs()).items()
        }
        runs = {name: self.select(hosts=of_job) for name, of_job in of_jobs.items() if of_job}
        return ProfileOfRuns.of_profiles(runs, self._source, self._how) if len(runs) > 1 else self

    def _narrower(self, selection: Selection, steps: Steps | None) -> Profile:
        return ProfileOfTraces(TableSet(self._session, selection), self._source, self._how, steps, self._part)

    def __reduce__(self) -> tuple[Any, ...]:
        return _reload_traces, (self._source_again(), self._how, self._selection, self._steps)


def _reload_traces(source: Any, how: dict[str, Any], selection: Selection, steps: Steps | None) -> Profile:
    opened, _ = open_runs(source, **how, again=True)
    return ProfileOfTraces(TableSet(next(iter(opened.values())).session, selection), source, how, steps)
