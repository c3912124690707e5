"""Run analyses: plan what is read of each host, build the reports, and say which of them have nothing to show.

If one of several analyses fails, the others answer, and its report says why it has no answer. Cells that are 0 only
because nothing is recorded become null, with the reason in the column metadata.
"""

from __future__ import annotations

import dataclasses
import importlib
import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import PurePath
from types import MappingProxyType
from typing import Any, Final, TypeVar, cast

import numpy as np
import pyarrow as pa

from fastprof._native import records
from fastprof.analyses import ANALYSES, OF_RUNS, accumulation, parameters
from fastprof.analyses.accumulation import (
    HostMerger,
    HostPlan,
    Hosts,
    HostStates,
    LazyHostValues,
    PackedValue,
    SessionFacts,
    SessionHosts,
    add_host_to_errors,
    is_lazy,
    is_of_devices,
    join_states,
    list_formats,
    load_host,
    merge_states,
)
from fastprof.analyses.contract import (
    Analysis,
    AnalysisReport,
    Evidence,
    Keeper,
    Known,
    LazyTables,
    Notice,
    Scalar,
    explain_absence,
    get_known,
    make_scalars,
)
from fastprof.decode.array_memory import adopt_thread
from fastprof.decode.import_log import ImportLog
from fastprof.decode.index import Index
from fastprof.decode.jobs import OTHER_PHASE, SEVERAL_JOBS
from fastprof.decode.plane_kinds import DEVICE_PLANES
from fastprof.decode.selection import Interval
from fastprof.decode.span_stats import KINETO, TIMELINE
from fastprof.decode.xspace_capture import Capture
from fastprof.derive.devices.device_events import NothingRan
from fastprof.derive.host import Host
from fastprof.derive.ops import record_checks
from fastprof.derive.ops.record_checks import HostRecords
from fastprof.derive.steps.step_source import AUTO
from fastprof.errors import CaptureError, UsageError
from fastprof.hlo.programs import PROTO_STATS
from fastprof.schema.columns import Bools
from fastprof.schema.tables import Need, TableSchema, explain_nulls
from fastprof.tables.host_spill import Stored
from fastprof.tables.needs import Needs, unite_needs
from fastprof.tables.table_set import OpenSession, TableSet
from fastprof.wording.amounts import Steps
from fastprof.wording.quantities import count_noun, list_few
from fastprof.wording.spelling import suggest_name


class Failures:
    """Errors of failed ``analyses``, in ``by_name``. ``names``: requested analyses. ``strict``: the first error is
    raised, as if each analysis ran alone."""

    def __init__(self, analyses: Mapping[str, Analysis], names: Sequence[str], log: ImportLog, *, strict: bool) -> None:
        self.by_name: dict[str, CaptureError] = {}
        self._first: dict[str, str] = {}  # by name, the analysis whose error it is
        self._analyses = analyses
        self._names = names
        self._log = log
        self._strict = strict

    @contextmanager
    def caught(self, name: str) -> Iterator[None]:
        """Note a CaptureError within as that of the analysis and of all that need its report; raise it if no requested
        analysis is left."""
        try:
            yield
        except CaptureError as error:
            self.by_name[name], self._first[name] = error, name
            for later, analysis in self._analyses.items():  # each comes after those that it needs
                without: tuple[str, ...] = getattr(analysis, "WITHOUT", ())
                needed = [before for before in analysis.AFTER if before in self.by_name and before not in without]
                if needed and later not in self.by_name:
                    self.by_name[later], self._first[later] = error, self._first[needed[0]]
            if self._strict or all(requested in self.by_name for requested in self._names):
                raise
            text = f"the analysis {name} has no answer: {error.message}"
            self._log.add("error", "failed_analysis", text, error.path, offset=error.offset)

    def report(self, name: str) -> AnalysisReport:
        """Return the report of a failed analysis: no rows, all figures unknown, and the reason."""
        analysis, error, first = self._analyses[name], self.by_name[name], self._first[name]
        because = "" if first == name else f", because it needs {first}"
        unknown: dict[str, Known] = dict.fromkeys(analysis.SCALARS, (None, f"the analysis failed: {error.message}"))
        return AnalysisReport(
            name,
            {table: schema.empty() for table, schema in analysis.TABLES.items()},
            make_scalars(analysis.SCALARS, unknown),
            (Notice("error", f"The analysis {name} has no answer{because}: {error}"),),
            failure=error,
        )


def clear_unknown_cells(report: AnalysisReport, schemas: Mapping[str, TableSchema]) -> AnalysisReport:
    """Replace zeros by null in columns whose required records are missing."""
    needs = {
        name: [(column.name, need) for column in schema.columns for need in column.needs]
        for name, schema in schemas.items()
    }
    tables = LazyTables({name: partial(_clear_table, report, name, needs.get(name, ())) for name in report.tables})
    return replace(report, tables=tables) if any(needs.values()) else report


def _clear_table(report: AnalysisReport, name: str, needs: Sequence[tuple[str, Need]]) -> pa.Table:
    table = every = report.tables[name]
    for column, need in needs:
        absent, why = _find_absent_rows(every, need, report.scalars)
        unknown = absent & (table[column].to_numpy() == 0)
        if not unknown.any():
            continue
        place, field = table.schema.get_field_index(column), table.schema.field(column)
        pairs = zip(table[column].to_pylist(), unknown.tolist(), strict=True)
        values = [None if is_unknown else value for value, is_unknown in pairs]
        table = explain_nulls(table.set_column(place, field, pa.array(values, field.type)), {column: why})
    return table


def _find_absent_rows(table: pa.Table, need: Need, figures: Mapping[str, Scalar]) -> tuple[Bools, str]:
    """Return the mask of rows without the required records, and the reason."""
    rows = np.ones(table.num_rows, np.bool_)
    if need.only is not None:
        column, values = need.only
        rows &= np.isin(np.array(table[column].to_pylist(), object), values)
    if need.count in table.column_names:
        return rows & ~(np.nan_to_num(table[need.count].to_numpy()) > 0), need.absent
    why = explain_absence(need, get_known(figures[need.count]))
    return rows & (why is not None), why or ""


T = TypeVar("T")
_HOME: Final = "fastprof.analyses"
_NO_EVENTS: Final = (
    "The session has no events: nothing was recorded. Let the profiler run while the program does, and stop it before "
    "the file is written."
)
_NOTHING_SELECTED: Final = (
    "The selection has no events: no event meets all its conditions (time, names, planes, lines). The session has some."
)
_OF_TIMELINES: Final = (
    "This is a TensorFlow 1 timeline, made for drawing: only GPU streams are devices here; other lanes just appear in "
    "the timeline. The original RunMetadata has all devices, steps and ops: fastprof also reads run_metadata.pb."
)
_GENERAL: Final = ("overview", "diagnosis", "steps", "gaps", "op_stats")
"""Analyses that users read first."""


def get_analysis(name: str) -> Analysis:
    """Return the analysis of a name. UsageError: there is none."""
    if name not in ANALYSES and name not in OF_RUNS:
        raise UsageError(f"no analysis {name!r}; there are: {', '.join(ANALYSES)}{suggest_name(name, ANALYSES)}")
    return cast(Analysis, importlib.import_module(f"{_HOME}.{name}"))


def get_title(analysis: Analysis) -> str:
    """Return the heading of an analysis on pages and in text."""
    given: str | None = getattr(analysis, "TITLE", None)
    return given or analysis.NAME.replace("_", " ").capitalize()


def add_prerequisites(names: Iterable[str]) -> dict[str, Analysis]:
    """Return the analyses and their prerequisites, each after its own prerequisites."""
    ordered: dict[str, Analysis] = {}

    def visit(name: str) -> None:
        if name in ordered:
            return
        analysis = get_analysis(name)
        for before in analysis.AFTER:
            visit(before)
        ordered[name] = analysis

    for name in names:
        visit(name)
    return ordered


def list_fields(names: Iterable[str]) -> list[dataclasses.Field[Any]]:
    """Return the parameters of these analyses, then those of their prerequisites, except those marked ``alone``."""
    names = tuple(names)
    fields: dict[str, dataclasses.Field[Any]] = {}
    for name in (*names, *(name for name in add_prerequisites(names) if name not in names)):
        for field in dataclasses.fields(get_analysis(name).Params):
            if name in names or not field.metadata.get("alone"):
                fields.setdefault(field.name, field)
    return list(fields.values())


def make_params(analyses: Mapping[str, Analysis], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of each analysis; all analyses that have a parameter get its value. UsageError: an unknown
    parameter, or a value that it does not take."""
    fields = {name: [f.name for f in dataclasses.fields(a.Params)] for name, a in analyses.items()}
    known = sorted({field for names in fields.values() for field in names})
    for name in given:
        if name not in known:
            listed = f"there are: {', '.join(known)}" if known else "there are none"
            raise UsageError(f"no parameter {name!r}; {listed}{suggest_name(name, known)}")
    params = {}
    for name, analysis in analyses.items():
        own = {}
        for field in dataclasses.fields(analysis.Params):
            if field.name in given:
                try:
                    own[field.name] = parameters.check_param(field, given[field.name])
                except ValueError as error:
                    raise UsageError(f"{field.name}: {error}") from None
        params[name] = analysis.Params(**own)
    return params


def make_plan(
    analyses: Mapping[str, Analysis],
    names: Sequence[str],
    params: Mapping[str, Any] | None = None,
    steps: Steps | Interval | None = None,
    keepers: Mapping[str, Keeper] = MappingProxyType({}),
) -> HostPlan:
    """Plan what each host computes for the named analyses and their prerequisites. UsageError: a wrong parameter."""
    chosen = make_params(analyses, params or {})
    needs = [a.READS for a in analyses.values()] + [keeper.reads for keeper in keepers.values()]
    if steps is not None:
        needs.append(importlib.import_module(f"{_HOME}.steps").READS)
    if any(is_of_devices(analyses[name]) for name in names):
        needs.append(Needs((DEVICE_PLANES,), record_checks.RECORD_STATS))
    source = next((own.steps_from for own in chosen.values() if hasattr(own, "steps_from")), AUTO)
    wanted = None if steps is None else Steps(*steps)
    return HostPlan(tuple(names), analyses, chosen, params or {}, wanted, keepers, unite_needs(needs), source)


def run(
    tables: TableSet,
    names: Iterable[str],
    params: Mapping[str, Any] | None = None,
    steps: Steps | Interval | None = None,
    keepers: Mapping[str, Keeper] = MappingProxyType({}),
) -> dict[str, AnalysisReport]:
    """Return the reports of the named analyses on the selected hosts, planes and events.

    ``steps=(a, b)``: only events of the steps numbered a up to b, b excluded; None leaves an end open. Numbers are
    those of the tables, whatever ``steps_from`` takes for steps. UsageError: no host has any of them.
    ``keepers``: host states that a report format needs; each report has them.

    If one of several analyses fails, the others answer, and its report has the reason and no rows. A single requested
    analysis raises, and so does any with ``keepers``, because XProf pages need intermediate results.
    """
    names = list(dict.fromkeys(names))
    with _index_meanwhile(tables, names):
        analyses = add_prerequisites(names)
    return build_reports(SessionHosts(tables), make_plan(analyses, names, params, steps, keepers))


def build_reports(hosts: Hosts, plan: HostPlan) -> dict[str, AnalysisReport]:
    """Return the reports of the requested analyses from the host states."""
    analyses, names, steps = plan.analyses, plan.names, plan.steps
    choices = None if steps is None else accumulation.choose_steps(hosts, steps, plan.source)
    failures = Failures(analyses, names, hosts.log, strict=bool(plan.keepers))
    kept = _merge_hosts(hosts.kept(plan, choices, failures.by_name), plan, failures)
    if steps is not None and kept.hosts and not kept.of_steps:
        raise UsageError(accumulation.explain_missing_steps(hosts.steps(plan.source), steps))
    if kept.unnamed is not None:
        raise UsageError(kept.unnamed)
    only = (kept.host, kept.path) if kept.hosts == 1 else (None, None)
    reports: dict[str, AnalysisReport] = {}
    for name, analysis in analyses.items():
        if name not in failures.by_name:
            with failures.caught(name), add_host_to_errors(*only):
                values: Sequence[Any] = kept.kept.pop(name, [])
                values = LazyHostValues(values) if is_lazy(plan, name) else values
                after = {n: reports[n] for n in analysis.AFTER}
                reports[name] = analysis.run(values, plan.params[name], after)
        if name in failures.by_name:
            reports[name] = failures.report(name)
    of_groups = [name for name in names if not getattr(analyses[name], "OF_ALL_THREADS", False)]
    answers = {name: _note_steps(reports[name], kept, beside=name in of_groups) for name in names}
    if steps is not None:
        answers = {name: replace(report, steps=steps) for name, report in answers.items()}
    if plan.keepers:
        return {name: replace(report, kept=kept.of_form) for name, report in answers.items()}
    answers = {name: clear_unknown_cells(report, analyses[name].TABLES) for name, report in answers.items()}
    facts = hosts.facts()
    answers = {name: _share_notices(report, reports) for name, report in answers.items()}
    answers = _note_flaws(kept.records, _note_session(facts, answers))
    if of_hosts := _list_host_notices(hosts.log):
        answers = {name: replace(report, notices=(*of_hosts, *report.notices)) for name, report in answers.items()}
    reasons = _find_inapplicable(facts.sources, names)
    if kept.selects_nothing and facts.events:
        answers = {name: _clear_unselected(report) for name, report in answers.items()}
    return {
        name: _clear_report(report, reasons[name]) if name in reasons else report for name, report in answers.items()
    }


def _merge_hosts(of_hosts: Iterable[HostStates], plan: HostPlan, failures: Failures) -> HostStates:
    """Merge the states of all hosts. Analyses with an error on a host, or in merging, have failed."""

    def checked(state: HostStates) -> HostStates:
        for name, error in state.errors.items():
            if name not in failures.by_name:
                with failures.caught(name):
                    raise error
        for name in [name for name in state.kept if name in failures.by_name]:
            del state.kept[name]
        return state

    every = HostMerger(lambda parts: checked(merge_states(parts, plan, failures.by_name)))
    for number, of_host in enumerate(of_hosts):
        state = checked(of_host)
        for name in [name for name in state.kept if is_lazy(plan, name) and number >= accumulation.GROUP]:
            state.kept[name] = [
                value if isinstance(value, PackedValue) else PackedValue(Stored(value).value)
                for value in state.kept[name]
            ]
        every.add(state)
    return join_states(every.parts())


def map_hosts(tables: TableSet, needs: Needs, of_host: Callable[[Host], T], steps: Steps | None = None) -> list[T]:
    """Apply ``of_host`` to each selected host, read with these ``needs``. ``steps``: as in ``run``. UsageError: no host
    has any of them."""
    hosts, made, events = SessionHosts(tables), [], 0
    if steps is not None:
        needs = unite_needs([needs, importlib.import_module(f"{_HOME}.steps").READS])
    choices = None if steps is None else accumulation.choose_steps(hosts, steps, AUTO)
    for place, number in enumerate(hosts.numbers):
        host = load_host(tables, number, needs)
        with add_host_to_errors(host.name, host.raw.capture.path):
            if choices is not None:
                host = host.of_steps(choices[place], None, AUTO)
                events += len(host.groups.group_id)
            made.append(of_host(host))
    if steps is not None and not events:
        raise UsageError(accumulation.explain_missing_steps(hosts.steps(AUTO), steps))
    return made


def _note_session(facts: SessionFacts, reports: dict[str, AnalysisReport]) -> dict[str, AnalysisReport]:
    """Add a notice if the session has no events, or devices of timelines only."""
    noted = dict(reports)
    for name, report in reports.items():
        if None not in facts.sources and not facts.events:
            if not getattr(get_analysis(name), "OF_PROGRAMS", False):
                noted[name] = replace(report, notices=(Notice("warning", _NO_EVENTS),))
        elif facts.sources == {TIMELINE} and name in _GENERAL:
            noted[name] = replace(report, notices=(Notice("info", _OF_TIMELINES), *report.notices))
    return noted


def _share_notices(report: AnalysisReport, reports: Mapping[str, AnalysisReport]) -> AnalysisReport:
    """Add the shared notices of a report's prerequisites."""
    before = [reports[name] for name in add_prerequisites([report.analysis]) if name in reports]
    shared = dict.fromkeys(
        notice for each in before for notice in each.notices if notice.shared and notice not in report.notices
    )
    return replace(report, notices=(*report.notices, *shared)) if shared else report


def _note_flaws(records: Sequence[HostRecords], reports: dict[str, AnalysisReport]) -> dict[str, AnalysisReport]:
    """Add warnings of missing and wrong records to reports that rest on device records. If all device records are
    missing, they replace the analysis's own reason for unknown figures."""
    warnings = [Notice("warning", flaw.warning) for flaw in record_checks.list_flaws(records)]
    if not warnings:
        return reports
    why = record_checks.explain_missing_records(records)

    def is_explained(text: str | None) -> bool:
        return why is not None and isinstance(text, NothingRan)

    def flawed(report: AnalysisReport) -> AnalysisReport:
        figures = {
            name: replace(figure, reason=why) if is_explained(figure.reason) else figure
            for name, figure in report.scalars.items()
        }
        notices = (*warnings, *(notice for notice in report.notices if not is_explained(notice.text)))
        return replace(report, scalars=figures, notices=notices)

    return {name: flawed(report) if is_of_devices(get_analysis(name)) else report for name, report in reports.items()}


_MIXED_JOBS: Final = "Figures of all hosts would mix them; --run 'job 1' chooses one of them."


def _list_host_notices(log: ImportLog) -> list[Notice]:
    """Return notices of hosts of several jobs, of rank phases that are left out, and of hosts that cannot be read."""
    rows = log.rows()
    notices = [
        Notice("warning", f"{row.example[0].upper()}{row.example[1:]}. {_MIXED_JOBS}")
        for row in rows
        if row.code == SEVERAL_JOBS
    ]
    phases = [PurePath(row.path or "").name for row in rows if row.code == OTHER_PHASE]
    if phases:
        are = "is" if len(phases) == 1 else "are"
        notices.append(Notice("info", f"{list_few(phases)} {are} left out: ranks have a trace for each phase."))
    skipped = sorted(PurePath(row.path or "").name for row in rows if row.code == "skipped_host")
    if skipped:
        are = "is" if len(skipped) == 1 else "are"
        text = f"{list_few(skipped)} cannot be read and {are} left out: table import_log."
        notices.append(Notice("warning", text))
    return notices


def find_inapplicable(session: OpenSession) -> dict[str, str]:
    """Return why analyses have nothing to show, by name, if all hosts are traces of PyTorch's profiler."""
    return _find_inapplicable(list_formats(session, range(len(session.captures))), ANALYSES)


def _find_inapplicable(sources: Collection[str | None], names: Iterable[str]) -> dict[str, str]:
    reasons = {name: getattr(get_analysis(name), "NOT_OF_TORCH", None) for name in names} if sources == {KINETO} else {}
    return {name: reason for name, reason in reasons.items() if reason is not None}


def _note_steps(report: AnalysisReport, kept: HostStates, *, beside: bool) -> AnalysisReport:
    """Add a notice if several chosen steps share a number, and one if events ``beside`` the steps are left out."""
    texts = [kept.repeated] if kept.repeated else []
    if beside and kept.of_no_step:
        events = count_noun(kept.of_no_step, "event belongs", "events belong")
        texts.append(
            f"Only some steps are selected. {events} to no step, for example on background threads, and are not "
            f"counted."
        )
    if not texts:
        return report
    return replace(report, notices=(*report.notices, *(Notice("info", text) for text in texts)))


def _clear_report(report: AnalysisReport, reason: str) -> AnalysisReport:
    """Remove the rows and figures of a report that does not apply to such captures."""
    figures = {name: replace(figure, value=None, reason=reason) for name, figure in report.scalars.items()}
    tables = {name: table.slice(0, 0) for name, table in report.tables.items()}
    notices = (Notice("info", reason),)
    return replace(report, tables=tables, scalars=figures, notices=notices, inapplicable=reason)


def _clear_unselected(report: AnalysisReport) -> AnalysisReport:
    """Say that the selection has no events instead of that nothing was recorded. Programs need no events."""
    if getattr(get_analysis(report.analysis), "OF_PROGRAMS", False):
        return report
    cleared = _clear_report(report, "the selection has no events")
    return replace(cleared, notices=(Notice("warning", _NOTHING_SELECTED),), inapplicable=None)


@contextmanager
def _index_meanwhile(tables: TableSet, names: Iterable[str]) -> Iterator[None]:
    """Index the events of a single host while analyses are imported for the first time: both take about as long.
    An error is raised when the host is read."""
    session, fresh = tables.session, any(f"{_HOME}.{name}" not in sys.modules for name in names)
    single = len(session.captures) == 1 and not tables.selection.filters_lines
    if not fresh or not single or not session.workers.are_several or session.workers.progress is not None:
        yield
        return
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1, thread_name_prefix="fastprof", initializer=adopt_thread) as pool:
        pool.submit(_read_index, session.index)
        yield


def _read_index(index: Index) -> None:
    salvage = any(part.capture.salvage for part in index.captures)
    index.ensure(records.STATS if salvage else records.EVENTS)


_OTHER_STEPS: Final = "steps_from"
"""A reason that names this parameter offers rows."""


def find_declared_empty(captures: Sequence[Capture]) -> dict[str, str]:
    """Return, by analysis, why it has nothing to show. No event is read, so the others may be empty, too."""
    reasons = {}
    for name in ANALYSES:
        evidence: Evidence | None = getattr(get_analysis(name), "CONTENT", None)
        if evidence is not None and lack_evidence(captures, evidence):
            reasons[name] = evidence.absent
    return reasons


def lack_evidence(captures: Iterable[Capture], evidence: Evidence) -> bool:
    """Return whether no capture declares any of the evidence. Damaged captures may have lost their declarations."""
    return not any(capture.salvage or _has_evidence(capture, evidence) for capture in captures)


def _has_evidence(capture: Capture, evidence: Evidence) -> bool:
    if evidence.programs and (capture.only_programs or capture.program_files):
        return True
    stats = (*evidence.stats, *(PROTO_STATS if evidence.programs else ()))
    if _has_match(evidence.planes, capture.part_names) or any(capture.declares(stat).any() for stat in stats):
        return True
    return bool(evidence.events) and _has_match(
        evidence.events, capture.texts(capture.metas, b"XEventMetadata.name", "name_")
    )


def _has_match(patterns: tuple[str, ...], names: Iterable[str]) -> bool:
    if not patterns:
        return False
    search = re.compile("|".join(patterns), re.IGNORECASE).search
    return any(search(name) for name in names)


def explain_empty(report: AnalysisReport) -> str | None:
    """Return why a report has no rows, from its first notice; None if it has rows, or would with other parameters."""
    if any(table.num_rows for table in report.tables.values()) or not report.notices:
        return None
    reason = report.notices[0].text
    return None if _OTHER_STEPS in reason.replace("-", "_") else reason
