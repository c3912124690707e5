"""Traces of PyTorch's profiler, read together, which may be of several jobs: reports are then of several runs."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from fastprof.decode.jobs import name_jobs
from fastprof.decode.selection import Selection, Steps
from fastprof.profile.opened import open_runs
from fastprof.profile.profile import Profile
from fastprof.profile.several_runs import ProfileOfRuns
from fastprof.tables.table_set import TableSet


class ProfileOfTraces(Profile):
    """Which job each trace is of is found at the first report."""

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
        return _reload, (self._source_again(), self._how, self._selection, self._steps)


def _reload(source: Any, how: dict[str, Any], selection: Selection, steps: Steps | None) -> Profile:
    opened, _ = open_runs(source, **how, again=True)
    return ProfileOfTraces(TableSet(next(iter(opened.values())).session, selection), source, how, steps)
