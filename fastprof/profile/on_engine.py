"""A profile whose hosts are analysed by other processes. It opens captures itself only for tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from fastprof.decode.import_log import ImportLog
from fastprof.decode.selection import Selection
from fastprof.decode.workers import Progress, Workers, count_cpus
from fastprof.derive.steps.step_source import AUTO
from fastprof.engines.engine import Engine
from fastprof.engines.engine_hosts import EngineHosts, EngineSession
from fastprof.engines.host_task import Reading
from fastprof.inputs.resolve import Named, Session, resolve_runs
from fastprof.profile.profile import Computing, Profile, check_reading, choose_analyses, get_host_readers
from fastprof.tables.table_set import OpenSession, TableSet
from fastprof.wording.amounts import Steps

if TYPE_CHECKING:
    import pyarrow as pa

    from fastprof.analyses import contract
    from fastprof.export.by_workers import RunOfWorkers


class EngineRun:
    """Run: its files as workers read them, and as an open session if one is needed."""

    def __init__(self, session: Session, engine: Engine, how: Mapping[str, Any], progress: Progress | None) -> None:
        most = check_reading(how["on_error"], how["threads"], how["max_unpacked"])
        reading = Reading(how["on_error"], how["threads"] or 1, most, Selection())
        self.on_engine = EngineSession(session, engine, reading, progress)
        self.threads: int = how["threads"] or count_cpus()
        self._session, self._reading, self._progress = session, reading, progress

    @cached_property
    def opened(self) -> OpenSession:
        workers = Workers(self.threads, self._progress)
        return OpenSession(self._session, self._reading.on_error, workers, self._reading.max_unpacked)

    def remarks(self) -> pa.Table:
        log = ImportLog()
        log.take(self.on_engine.log.rows())
        if "opened" in self.__dict__:
            log.take(self.opened.log.rows())
        return log.table()


def open_profiles_on_engine(
    path: Named | Sequence[Named], how: dict[str, Any], engine: Engine, progress: Progress | None
) -> dict[str, Profile]:
    """Return the profile of each run that is named. ``how``: the arguments of ``load`` about reading."""
    missing_ok = how["on_error"] != "raise"
    sessions = resolve_runs(path, how["run"], missing_ok=missing_ok, as_hosts=how["as_hosts"])
    runs = {name: EngineRun(session, engine, how, progress) for name, session in sessions.items()}
    parts = {name: name if len(runs) > 1 else None for name in runs}
    return {name: ProfileOnEngine(run, Selection(), path, how, None, parts[name]) for name, run in runs.items()}


class ProfileOnEngine(Profile):
    """Session of one run."""

    def __init__(
        self,
        run: EngineRun,
        selection: Selection,
        source: Any,
        how: dict[str, Any],
        steps: Steps | None,
        part: str | None,
    ) -> None:
        self._on_engine = run
        self._chosen = selection
        self._part = part
        self._steps = steps
        self._source = source
        self._how = how
        self._reports = {}

    @cached_property
    def _of_all_steps(self) -> TableSet:  # type: ignore[override]
        return TableSet(self._on_engine.opened, self._chosen)

    @property
    def _selection(self) -> Selection:
        return self._chosen

    def _computing(self) -> Computing:
        return partial(_compute_on_engine, self._on_engine.on_engine, self._chosen, self._steps)

    def begin(self, names: Sequence[str], params: Mapping[str, Any]) -> None:
        """Let idle workers read hosts for these reports; ``reports`` takes what they did."""
        from fastprof.analyses import runner

        chosen = choose_analyses(names)
        plan = runner.make_plan(runner.add_prerequisites(chosen), chosen, params, None, get_host_readers(chosen, ""))
        EngineHosts(self._on_engine.on_engine, self._chosen).begin(plan)

    @property
    def by_workers(self) -> Sequence[RunOfWorkers]:
        from fastprof.export.by_workers import RunOfWorkers

        session, selection = self._on_engine.on_engine, self._chosen
        if self._steps is not None:
            from fastprof.analyses import accumulation

            hosts = EngineHosts(session, selection)
            steps = hosts.steps(AUTO)
            names = [place.name for place in hosts.places]
            selection = selection.within(accumulation.find_step_times(names, steps, self._steps))
        return (RunOfWorkers(None, EngineHosts(session, Selection()), selection),)

    def _narrower(self, selection: Selection, steps: Steps | None) -> Profile:
        return ProfileOnEngine(self._on_engine, selection, self._source, self._how, steps, self._part)

    def remarks(self) -> pa.Table:
        return self._on_engine.remarks()

    @property
    def host_names(self) -> list[str]:
        named = [name for name in self._on_engine.on_engine.names if name is not None]
        return named if len(named) == len(self.sources) else self._session.hosts

    @property
    def sources(self) -> list[str]:
        return [file.path for file in self._on_engine.on_engine.files]

    @property
    def run(self) -> str | None:
        return self._on_engine.on_engine.run

    @property
    def threads(self) -> int:
        return self._on_engine.threads


def _compute_on_engine(
    session: EngineSession,
    selection: Selection,
    steps: Steps | None,
    names: Sequence[str],
    params: Mapping[str, Any],
    form: str,
) -> dict[str, contract.AnalysisReport]:
    from fastprof.analyses import runner

    plan = runner.make_plan(runner.add_prerequisites(names), names, params, steps, get_host_readers(names, form))
    return runner.build_reports(EngineHosts(session, selection), plan)
