"""Runs analyses: reads each host once for all of them, keeps what each keeps of it, and asks them for their reports."""

from __future__ import annotations

import dataclasses
import importlib
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import PurePath
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar, cast

from fastprof._native import records
from fastprof.analyses import ANALYSES, merging, parameters, step_choice
from fastprof.analyses.contract import Analysis, Keeper, Notice, Report, union
from fastprof.analyses.failures import Failures
from fastprof.analyses.keeping import Facts, KeptOfHosts, Plan, faults_named, read, rests_on_devices, sources
from fastprof.analyses.merging import Merging, joined, one_by_one, together
from fastprof.analyses.one_by_one import OneByOne, Packed
from fastprof.analyses.session_hosts import SessionHosts
from fastprof.analyses.unknown_cells import null_unknown_cells
from fastprof.decode.index import Index
from fastprof.decode.jobs import OTHER_PHASE, SEVERAL_JOBS
from fastprof.decode.plane_kinds import DEVICE_PLANES
from fastprof.decode.selection import Interval, Steps
from fastprof.decode.task_environment import KINETO, TIMELINE
from fastprof.derive.devices.nothing_ran import NothingRan
from fastprof.derive.host import Choice, Host
from fastprof.derive.ops import record_checks
from fastprof.derive.ops.record_checks import HostRecords
from fastprof.derive.steps.step_source import AUTO
from fastprof.errors import UsageError
from fastprof.tables.needs import Needs
from fastprof.tables.open_session import OpenSession
from fastprof.tables.set_aside import Stored
from fastprof.tables.table_set import TableSet
from fastprof.wording.quantities import counted, few
from fastprof.wording.spelling import meant

if TYPE_CHECKING:
    from fastprof.decode.import_log import ImportLog
    from fastprof.derive.steps.of_host import HostSteps

T = TypeVar("T")
_HOME: Final = "fastprof.analyses"
_NO_EVENTS: Final = (
    "The session has no events: nothing was recorded. Let the profiler run while the program does, and stop it before "
    "the file is written."
)
_OF_TIMELINES: Final = (
    "This is a timeline of TensorFlow 1, a drawing: the lanes of its devices show in the timeline, but are no devices "
    "here. The RunMetadata that it was made of has devices, steps and ops: fastprof reads run_metadata.pb as well."
)
_GENERAL: Final = ("overview", "diagnosis", "steps", "gaps", "op_stats")
"""Those that a user reads first."""


def module(name: str) -> Analysis:
    """The analysis of a name. UsageError: there is none."""
    if name not in ANALYSES:
        raise UsageError(f"no analysis {name!r}; there are: {', '.join(ANALYSES)}{meant(name, ANALYSES)}")
    return cast(Analysis, importlib.import_module(f"{_HOME}.{name}"))


def title(analysis: Analysis) -> str:
    """The heading of pages and texts."""
    given: str | None = getattr(analysis, "TITLE", None)
    return given or analysis.NAME.replace("_", " ").capitalize()


def closure(names: Iterable[str]) -> dict[str, Analysis]:
    """The analyses and their prerequisites, each after its own prerequisites."""
    ordered: dict[str, Analysis] = {}

    def visit(name: str) -> None:
        if name in ordered:
            return
        analysis = module(name)
        for before in analysis.AFTER:
            visit(before)
        ordered[name] = analysis

    for name in names:
        visit(name)
    return ordered


def fields_of(names: Iterable[str]) -> list[dataclasses.Field[Any]]:
    """The parameters of these analyses, then those of their prerequisites. Parameters marked ``alone`` are not
    inherited from prerequisites."""
    names = tuple(names)
    fields: dict[str, dataclasses.Field[Any]] = {}
    for name in (*names, *(name for name in closure(names) if name not in names)):
        for one in dataclasses.fields(module(name).Params):
            if name in names or not one.metadata.get("alone"):
                fields.setdefault(one.name, one)
    return list(fields.values())


def params_of(analyses: Mapping[str, Analysis], given: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters of each analysis. A parameter goes to all analyses that have it. UsageError: unknown, or a value
    that it does not take."""
    fields = {name: [f.name for f in dataclasses.fields(a.Params)] for name, a in analyses.items()}
    known = sorted({field for names in fields.values() for field in names})
    for name in given:
        if name not in known:
            listed = f"there are: {', '.join(known)}" if known else "there are none"
            raise UsageError(f"no parameter {name!r}; {listed}{meant(name, known)}")
    params = {}
    for name, analysis in analyses.items():
        own = {field.name: field for field in dataclasses.fields(analysis.Params) if field.name in given}
        params[name] = analysis.Params(**{key: _checked(field, given[key]) for key, field in own.items()})
    return params


def _checked(field: dataclasses.Field[Any], value: Any) -> Any:
    try:
        return parameters.checked(field, value)
    except ValueError as error:
        raise UsageError(f"{field.name}: {error}") from None


def plan_of(
    analyses: Mapping[str, Analysis],
    names: Sequence[str],
    params: Mapping[str, Any] | None = None,
    steps: Steps | Interval | None = None,
    keepers: Mapping[str, Keeper] = MappingProxyType({}),
) -> Plan:
    """What is computed of each host for the named analyses, of ``closure(names)``. UsageError: a wrong parameter."""
    chosen = params_of(analyses, params or {})
    needs = [a.READS for a in analyses.values()] + [one.reads for one in keepers.values()]
    if steps is not None:
        needs.append(importlib.import_module(f"{_HOME}.steps").READS)
    if any(rests_on_devices(analyses[name]) for name in names):
        needs.append(Needs((DEVICE_PLANES,), record_checks.STATS))
    source = next((one.steps_from for one in chosen.values() if hasattr(one, "steps_from")), AUTO)
    range_ = None if steps is None else Steps(*steps)
    return Plan(tuple(names), analyses, chosen, params or {}, range_, keepers, union(needs), source)


def run(
    tables: TableSet,
    names: Iterable[str],
    params: Mapping[str, Any] | None = None,
    steps: Steps | Interval | None = None,
    keepers: Mapping[str, Keeper] = MappingProxyType({}),
) -> dict[str, Report]:
    """The reports of the named analyses, of the hosts, planes and events that are selected.

    ``steps=(a, b)``: only events of the steps numbered a up to b, b left out; None leaves an end open. Numbers are
    those of the tables, whatever ``steps_from`` takes for steps. UsageError: no host has any of them.
    ``keepers``: what a form of the reports needs; each report has what they kept.

    If an analysis of several fails, the others answer, and its report has only the reason and no rows; a requested
    one alone raises, and so does any with ``keepers``, because pages of XProf need intermediate results.
    """
    names = list(dict.fromkeys(names))
    with _indexing_meanwhile(tables, names):
        analyses = closure(names)
    return answered(SessionHosts(tables), plan_of(analyses, names, params, steps, keepers))


class Hosts(Protocol):
    """The hosts of a session, wherever they are read; see ``SessionHosts``."""

    @property
    def log(self) -> ImportLog: ...

    @property
    def alone(self) -> bool: ...

    def steps(self, source: str) -> list[HostSteps]: ...

    def kept(self, plan: Plan, choices: Sequence[Choice] | None, without: Collection[str]) -> Iterable[KeptOfHosts]: ...

    def facts(self) -> Facts: ...


def answered(hosts: Hosts, plan: Plan) -> dict[str, Report]:
    """The reports of the requested analyses, from what is kept of each host."""
    analyses, names, steps = plan.analyses, plan.names, plan.steps
    choices = None if steps is None else step_choice.choices(hosts, steps, plan.source)
    failures = Failures(analyses, names, hosts.log, strict=bool(plan.keepers))
    kept = _merged(hosts.kept(plan, choices, failures.by_name), plan, failures)
    if steps is not None and kept.hosts and not kept.of_steps:
        raise UsageError(step_choice.absence(hosts, steps, plan.source))
    if kept.unnamed is not None:
        raise UsageError(kept.unnamed)
    only = (kept.host, kept.path) if kept.hosts == 1 else (None, None)
    reports: dict[str, Report] = {}
    for name, analysis in analyses.items():
        if name not in failures.by_name:
            with failures.caught(name), faults_named(*only):
                values: Sequence[Any] = kept.kept.pop(name, [])
                values = OneByOne(values) if one_by_one(plan, name) else values
                after = {n: reports[n] for n in analysis.AFTER}
                reports[name] = analysis.run(values, plan.params[name], after)
        if name in failures.by_name:
            reports[name] = failures.report(name)
    of_groups = [name for name in names if not getattr(analyses[name], "OF_ALL_THREADS", False)]
    found = {name: _with_notes(reports[name], kept, beside=name in of_groups) for name in names}
    if steps is not None:
        found = {name: dataclasses.replace(one, steps=steps) for name, one in found.items()}
    if plan.keepers:
        return {name: dataclasses.replace(one, kept=kept.of_form) for name, one in found.items()}
    found = {name: null_unknown_cells(one, analyses[name].TABLES) for name, one in found.items()}
    facts = hosts.facts()
    found = {name: _with_shared(one, reports) for name, one in found.items()}
    found = _with_flaws(kept.records, _of_session(facts, found))
    found = _with_choices(hosts.log, _without_skipped(hosts.log, found))
    reasons = _not_of_torch(facts.sources, names)
    return {name: _inapplicable(one, reasons[name]) if name in reasons else one for name, one in found.items()}


def _merged(of_hosts: Iterable[KeptOfHosts], plan: Plan, failures: Failures) -> KeptOfHosts:
    """What is kept of all hosts together. Analyses that kept nothing of a host, or do not merge, have failed."""

    def checked(one: KeptOfHosts) -> KeptOfHosts:
        for name, error in one.errors.items():
            if name not in failures.by_name:
                with failures.caught(name):
                    raise error
        for name in [name for name in one.kept if name in failures.by_name]:
            del one.kept[name]
        return one

    every = Merging(lambda parts: checked(together(parts, plan, failures.by_name)))
    for number, one in enumerate(of_hosts):
        every.add(checked(one) if number < merging.GROUP else _set_aside(checked(one), plan))
    return joined(every.parts())


def _set_aside(one: KeptOfHosts, plan: Plan) -> KeptOfHosts:
    """The same; what is looked at one host after the other is in a temporary file."""
    for name in [name for name in one.kept if one_by_one(plan, name)]:
        values = one.kept[name]
        one.kept[name] = [value if isinstance(value, Packed) else Packed(Stored(value).value) for value in values]
    return one


def of_each_host(tables: TableSet, needs: Needs, of_host: Callable[[Host], T], steps: Steps | None = None) -> list[T]:
    """What ``of_host`` makes of each selected host, whose ``needs`` are read. ``steps``: as in ``run``; UsageError: no
    host has any of them."""
    hosts, made, events = SessionHosts(tables), [], 0
    if steps is not None:
        needs = union([needs, importlib.import_module(f"{_HOME}.steps").READS])
    choices = None if steps is None else step_choice.choices(hosts, steps, AUTO)
    for place, number in enumerate(hosts.numbers):
        host = read(tables, number, needs)
        with faults_named(host.name, host.raw.capture.path):
            if choices is not None:
                host = host.of_steps(choices[place], None, AUTO)
                events += len(host.groups.group_id)
            made.append(of_host(host))
    if steps is not None and not events:
        raise UsageError(step_choice.absence(hosts, steps, AUTO))
    return made


def _of_session(facts: Facts, reports: dict[str, Report]) -> dict[str, Report]:
    """The reports, with what the session lacks: a trace its events, or devices that are those of a capture."""
    if None not in facts.sources and not facts.events:
        nothing = (Notice("warning", _NO_EVENTS),)
        return {
            name: one if getattr(module(name), "OF_PROGRAMS", False) else dataclasses.replace(one, notices=nothing)
            for name, one in reports.items()
        }
    if facts.sources != {TIMELINE}:
        return reports
    return {
        name: dataclasses.replace(one, notices=(Notice("info", _OF_TIMELINES), *one.notices))
        if name in _GENERAL
        else one
        for name, one in reports.items()
    }


def _with_shared(report: Report, reports: Mapping[str, Report]) -> Report:
    """Return the report with the notices of its prerequisites that it has to say as well."""
    before = [reports[name] for name in closure([report.analysis]) if name in reports]
    shared = dict.fromkeys(one for each in before for one in each.notices if one.shared and one not in report.notices)
    return dataclasses.replace(report, notices=(*report.notices, *shared)) if shared else report


def _with_flaws(records: Sequence[HostRecords], reports: dict[str, Report]) -> dict[str, Report]:
    """Return the reports with warnings of missing and wrong records, if they rest on records of devices. If all records
    of devices are missing, that is why figures are unknown, whatever reason the analysis gave."""
    warnings = [Notice("warning", flaw.warning) for flaw in record_checks.all_flaws(records)]
    if not warnings:
        return reports
    why = record_checks.why_unknown(records)

    def is_explained(text: str | None) -> bool:
        return why is not None and isinstance(text, NothingRan)

    def flawed(one: Report) -> Report:
        figures = {
            name: dataclasses.replace(figure, reason=why) if is_explained(figure.reason) else figure
            for name, figure in one.scalars.items()
        }
        notices = (*warnings, *(notice for notice in one.notices if not is_explained(notice.text)))
        return dataclasses.replace(one, scalars=figures, notices=notices)

    return {name: flawed(one) if rests_on_devices(module(name)) else one for name, one in reports.items()}


def _without_skipped(log: ImportLog, reports: dict[str, Report]) -> dict[str, Report]:
    """The reports, with a remark if they are not of all hosts, because some cannot be read."""
    skipped = sorted(PurePath(row.path or "").name for row in log.rows() if row.code == "skipped_host")
    if not skipped:
        return reports
    are = "is" if len(skipped) == 1 else "are"
    notice = Notice("warning", f"{few(skipped)} cannot be read and {are} left out: table import_log.")
    return {name: dataclasses.replace(one, notices=(notice, *one.notices)) for name, one in reports.items()}


def _with_choices(log: ImportLog, reports: dict[str, Report]) -> dict[str, Report]:
    """The reports, with a remark if hosts are of several jobs, and one if phases of ranks are left out."""
    rows = log.rows()
    notices = [
        Notice("warning", f"{row.example[0].upper()}{row.example[1:]}. Figures of all hosts would mix them.")
        for row in rows
        if row.code == SEVERAL_JOBS
    ]
    phases = [PurePath(row.path or "").name for row in rows if row.code == OTHER_PHASE]
    if phases:
        are = "is" if len(phases) == 1 else "are"
        notices.append(Notice("info", f"{few(phases)} {are} left out: ranks have a trace for each phase."))
    if not notices:
        return reports
    return {name: dataclasses.replace(one, notices=(*notices, *one.notices)) for name, one in reports.items()}


def not_of_torch(session: OpenSession) -> dict[str, str]:
    """By analysis that traces of PyTorch's profiler have nothing for, why, if all hosts of the session are such
    traces."""
    return _not_of_torch(sources(session, range(len(session.captures))), ANALYSES)


def _not_of_torch(sources: Collection[str | None], names: Iterable[str]) -> dict[str, str]:
    reasons = {name: getattr(module(name), "NOT_OF_TORCH", None) for name in names} if sources == {KINETO} else {}
    return {name: reason for name, reason in reasons.items() if reason is not None}


def _with_notes(report: Report, kept: KeptOfHosts, *, beside: bool) -> Report:
    """The report, with a remark if several chosen steps have one number, and, for analyses of groups, one if events
    ``beside`` the steps are left out."""
    texts = [kept.repeated] if kept.repeated else []
    if beside and kept.of_no_step:
        events = counted(kept.of_no_step, "event belongs", "events belong")
        texts.append(
            f"Only some steps are selected. {events} to no step, as on background threads, and are not counted here."
        )
    if not texts:
        return report
    return dataclasses.replace(report, notices=(*report.notices, *(Notice("info", text) for text in texts)))


def _inapplicable(report: Report, reason: str) -> Report:
    """The report of an analysis that is not of such captures: no rows, and no figures."""
    figures = {name: dataclasses.replace(one, value=None, reason=reason) for name, one in report.scalars.items()}
    tables = {name: table.slice(0, 0) for name, table in report.tables.items()}
    notices = (Notice("info", reason),)
    return dataclasses.replace(report, tables=tables, scalars=figures, notices=notices, inapplicable=reason)


@contextmanager
def _indexing_meanwhile(tables: TableSet, names: Iterable[str]) -> Iterator[None]:
    """Indexes the events of a single host while analyses are imported for the first time: both take about as long.
    A fault there is raised when the host is read."""
    session, fresh = tables.session, any(f"{_HOME}.{name}" not in sys.modules for name in names)
    single = len(session.captures) == 1 and not tables.selection.filters_lines
    if not fresh or not single or session.workers.threads == 1 or session.workers.progress is not None:
        yield
        return
    with ThreadPoolExecutor(1, thread_name_prefix="fastprof") as pool:
        pool.submit(_learn, session.index)
        yield


def _learn(index: Index) -> None:
    salvage = any(part.capture.salvage for part in index.captures)
    index.ensure(records.STATS if salvage else records.EVENTS)
